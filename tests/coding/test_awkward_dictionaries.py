"""Dictionaries whose atoms almost depend on each other, are zero or huge: codes are numbers, and never harm."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from coupledict import sparse_encode
from support.learners import plain

DTYPES = [np.float32, np.float64]
pursuits = pytest.mark.parametrize("pursuit", ["omp", "ols"])
dtypes = pytest.mark.parametrize("dtype", DTYPES)


def slow_waves(n_atoms, n_features, dtype):
    """Cosines of hardly more than one period in all: condition numbers beyond any number type."""
    place = np.linspace(0, np.pi, n_features)
    return np.cos(np.linspace(0, 1.5, n_atoms)[:, None] * place).astype(dtype)


def errors(X, D, codes):
    X, D = X.astype(np.longdouble), D.astype(np.longdouble)
    return np.sqrt(((X - codes.toarray() @ D) ** 2).sum(axis=1))


@dtypes
@pursuits
@pytest.mark.parametrize("gram", ["stored", "made when needed", "never made"])
def test_no_error_is_larger_than_its_sample(rng, level, sizes, dtype, pursuit, gram):
    D = slow_waves(24, 20, np.float32).astype(dtype)  # float32 digits: rounding makes them just independent
    X = rng.standard_normal((200 if gram == "stored" else 2, 20)).astype(dtype)
    if gram == "never made":
        sizes(gram_bytes=0)
    codes = sparse_encode(X, D, n_nonzero_coefs=20, pursuit=pursuit)
    assert np.isfinite(codes.data).all()
    norms = np.linalg.norm(X.astype(float), axis=1)
    assert np.all(errors(X, D, codes) <= norms * (1 + (1e-4 if dtype == np.float32 else 1e-10)))
    assert np.all(codes.data != 0)  # atoms that were given back leave no trace


@dtypes
@pursuits
@pytest.mark.parametrize("span", [1.5, 4.0, 8.0])
def test_more_atoms_do_not_make_it_worse(rng, dtype, pursuit, span):
    place = np.linspace(0, np.pi, 20)
    D = np.cos(np.linspace(0, span, 24)[:, None] * place).astype(np.float32).astype(dtype)
    X = rng.standard_normal((200, 20)).astype(dtype)
    sizes = np.linalg.norm(X.astype(float), axis=1)
    found = [errors(X, D, sparse_encode(X, D, n_nonzero_coefs=t, pursuit=pursuit)) / sizes for t in range(1, 21)]
    assert np.diff(found, axis=0).max() < 0.02
    assert np.mean(found[-1]) < np.mean(found[2]) - 0.02


def test_coefficients_that_rounding_makes_harmful_are_not_written(rng, level):
    """Atoms that differ by their last digits in one of two views: coefficients of 1e15 would be needed."""
    for _ in range(80):
        Ds, Xs = [], []
        for width in (9, 1):
            own = rng.standard_normal((34, width))
            D = own[:, :1] * own[:1] + 10.0 ** rng.uniform(-17, -15) * own
            Ds.append(np.ldexp(D, rng.integers(-30, 31, (34, 1))))
            Xs.append(rng.standard_normal((40, width)) * (rng.random((40, 1)) < 0.5))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*did not reach tol")
            codes = sparse_encode(Xs, Ds, tol=0.0, pursuit="ols")
        X, D = np.hstack(Xs), np.hstack(Ds)
        assert np.all(errors(X, D, codes) <= np.linalg.norm(X, axis=1) * (1 + 1e-9))


@dtypes
def test_a_common_support_does_no_harm_either(rng, level, dtype):
    views = [rng.standard_normal((100, p)).astype(dtype) for p in (20, 12)]
    start = [slow_waves(24, view.shape[1], np.float32).astype(dtype) for view in views]
    learner = plain(
        24, n_nonzero_coefs=12, coupling="support", init=start, max_iter=1, update="mod", random_state=0
    ).fit(views)
    learner.components_ = start
    for X, D, codes in zip(views, start, learner.transform(views), strict=True):
        sizes = np.linalg.norm(X.astype(float), axis=1)
        assert np.all(errors(X, D, codes) <= sizes * (1 + (1e-3 if dtype == np.float32 else 1e-9)))


@pursuits
def test_refined_codes_are_as_good_as_least_squares(rng, pursuit):
    D = slow_waves(6, 20, np.float64)
    X = rng.standard_normal((50, 20))
    codes = sparse_encode(X, D, n_nonzero_coefs=6, pursuit=pursuit)
    for x, error, row in zip(X, errors(X, D, codes), codes.toarray(), strict=True):
        chosen = np.flatnonzero(row)
        best = np.linalg.norm(x - np.linalg.lstsq(D[chosen].T, x, rcond=None)[0] @ D[chosen])
        assert error <= best * (1 + 1e-9)


def test_what_tol_asks_for_is_reached_or_told(rng):
    D = slow_waves(24, 20, np.float32).astype(np.float64)
    X = rng.standard_normal((50, 20))
    assert np.all(errors(X, D, sparse_encode(X, D, tol=1e-4)) ** 2 <= 1e-4 * (1 + 1e-6))  # hard to reach, but it can be
    D = D[:12]  # which do not span the samples
    X[::2] = rng.standard_normal((25, 12)) @ D
    with pytest.warns(UserWarning, match="did not reach tol") as caught:
        codes = sparse_encode(X, D, tol=1e-4)
    missed = int(np.count_nonzero(errors(X, D, codes) ** 2 > 1e-4 * (1 + 1e-6)))
    assert missed > 0
    assert str(caught[0].message).startswith(f"{missed} of 50 samples")


@dtypes
@pursuits
def test_zero_and_huge_atoms(rng, dtype, pursuit):
    plain = rng.standard_normal((30, 8)).astype(dtype)
    X = rng.standard_normal((40, 8)).astype(dtype)
    powers = rng.integers(-100, 100, (30, 1))
    codes = sparse_encode(X, plain, n_nonzero_coefs=4, pursuit=pursuit)
    scaled = sparse_encode(X, np.ldexp(plain, powers), n_nonzero_coefs=4, pursuit=pursuit)
    np.testing.assert_array_equal(scaled.indices, codes.indices)
    np.testing.assert_array_equal(np.ldexp(scaled.toarray(), powers.T), codes.toarray())
    with_zeros = np.vstack([np.zeros((3, 8), dtype), plain])
    shifted = sparse_encode(X, with_zeros, n_nonzero_coefs=4, pursuit=pursuit)
    np.testing.assert_array_equal(shifted.toarray()[:, 3:], codes.toarray())
    assert not shifted.toarray()[:, :3].any()
    assert sparse_encode(X, np.zeros((5, 8), dtype), n_nonzero_coefs=2, pursuit=pursuit).nnz == 0


def test_atoms_whose_norm_is_no_number():
    D = np.full((3, 4), 1e300)
    D[1] = 1.5e308
    with pytest.raises(ValueError, match=r"norm is at most 1.798e\+308, got a larger one \(atom 1\)"):
        sparse_encode(np.ones((2, 4)), D, n_nonzero_coefs=1)


def test_weights_beyond_the_range_of_energies(rng):
    X, D = rng.standard_normal((5, 4)) * 1e8, rng.standard_normal((6, 4))
    weighted = sparse_encode([X], [D], n_nonzero_coefs=2, view_weights=[1e300])
    np.testing.assert_array_equal(weighted.toarray(), sparse_encode(X, D, n_nonzero_coefs=2).toarray())


@pytest.mark.parametrize("exponent", [-1000, -300, 0, 300, 1000])
@pytest.mark.parametrize("coupling", ["code", "support"])
def test_a_score_at_any_scale(rng, exponent, coupling):
    sources = rng.standard_normal((60, 4))
    views = [sources @ rng.standard_normal((4, p)) for p in (5, 7)]
    learner = plain(8, n_nonzero_coefs=2, max_iter=3, coupling=coupling, random_state=0, n_jobs=1).fit(views)
    expected = learner.score(views)
    assert 0 < expected < 1
    assert learner.score([np.ldexp(view, exponent) for view in views]) == pytest.approx(expected, rel=1e-9)
