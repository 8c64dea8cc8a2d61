"""Simultaneous OMP: views that share their atoms but not their coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict import sparse_encode
from support import inner, twins
from support.problems import make_coder, random_dictionary


def encode(Xs, dictionaries, *, limit=None, tol=None, weights=None, n_jobs=1, chunk_size=None):
    dtype = np.result_type(*Xs)
    weights = np.ones(len(Xs)) if weights is None else weights
    coder = make_coder(dictionaries, weights, dtype, limit=limit, tol=tol, coupling="support", n_samples=len(Xs[0]))
    coded = inner.encode(coder, inner.Samples(list(Xs), dtype), inner.Threads(n_jobs), chunk_size=chunk_size)
    return coded.as_csr(dictionaries[0].shape[0]), coded


@pytest.fixture(params=[np.float32, np.float64])
def case(request, rng):
    Xs = [rng.standard_normal((60, p)).astype(request.param) for p in (12, 20, 9)]
    return Xs, [random_dictionary(rng, 40, X.shape[1]).astype(request.param) for X in Xs]


@pytest.mark.parametrize("n_views", [2, 3])
@pytest.mark.parametrize("weights", [None, [1.0, 0.2, 3.0]])
def test_equals_the_twin(level, case, n_views, weights):
    Xs, dictionaries = case[0][:n_views], case[1][:n_views]
    weights = None if weights is None else weights[:n_views]
    dtype = Xs[0].dtype
    for arguments in ({"limit": 5}, {"limit": 9, "tol": 6.0}):
        codes, _ = encode(Xs, dictionaries, weights=weights, **arguments)
        expected = twins.sparse_encode_support(
            Xs, dictionaries, n_nonzero_coefs=arguments["limit"], tol=arguments.get("tol"), view_weights=weights,
            dtype=dtype,
        )  # fmt: skip
        same = np.all((codes[0].toarray() != 0) == (expected[0] != 0), axis=1)
        assert same.mean() > 0.95, "other atoms only at near-ties"
        for mine, theirs in zip(codes, expected, strict=True):
            scale = np.abs(theirs).max()
            np.testing.assert_allclose(
                mine.toarray()[same], theirs[same], atol=scale * (2e-3 if dtype == np.float32 else 1e-9)
            )


def test_views_share_their_atoms(case):
    codes, _ = encode(*case, limit=4)
    for other in codes[1:]:
        np.testing.assert_array_equal(codes[0].indices, other.indices)
        np.testing.assert_array_equal(codes[0].indptr, other.indptr)


def test_each_view_is_at_its_least_squares(case):
    Xs, dictionaries = case
    codes, coded = encode(Xs, dictionaries, limit=4)
    total = np.zeros(60)
    for X, d, code in zip(Xs, dictionaries, codes, strict=True):
        residual = X.astype(float) - code @ d.astype(float)
        total += np.sum(residual**2, axis=1)
        for i, (start, stop) in enumerate(zip(code.indptr, code.indptr[1:], strict=False)):
            chosen = d[code.indices[start:stop]].astype(float)
            chosen /= np.linalg.norm(chosen, axis=1, keepdims=True)
            assert np.abs(chosen @ residual[i]).max() < (1e-3 if X.dtype == np.float32 else 1e-10)
    np.testing.assert_allclose(coded.energy, total, rtol=1e-3 if Xs[0].dtype == np.float32 else 1e-10)


def test_one_view_is_plain_omp(case):
    X, d = case[0][0], case[1][0]
    codes, _ = encode([X], [d], limit=5)
    np.testing.assert_array_equal(codes[0].toarray(), sparse_encode(X, d, n_nonzero_coefs=5).toarray())


def test_never_worse_than_one_common_code(case):
    """Own coefficients for each view can only help, atom for atom; greedy choices may differ, so on the whole."""
    Xs, dictionaries = case
    _, free = encode(Xs, dictionaries, limit=4)
    common = sparse_encode(Xs, dictionaries, n_nonzero_coefs=4)
    bound = sum(np.sum((X - common @ d) ** 2) for X, d in zip(Xs, dictionaries, strict=True))
    assert free.energy.sum() < bound


def test_bits_do_not_depend_on_threads_or_chunks(case):
    first, _ = encode(*case, limit=4)
    for n_jobs, chunk_size in [(2, 7), (3, 25)]:
        again, _ = encode(*case, limit=4, n_jobs=n_jobs, chunk_size=chunk_size)
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a.data, b.data)


def test_awkward_atoms(level, rng):
    """Duplicates, and atoms that are zero in one view: finite codes, no atom twice."""
    base = random_dictionary(rng, 10, 6)
    first = np.vstack([base, base])
    second = np.vstack([random_dictionary(rng, 15, 5), np.zeros((5, 5))])
    Xs = [rng.standard_normal((40, 6)), rng.standard_normal((40, 5))]
    codes, coded = encode(Xs, [first, second], limit=5)
    for code in codes:
        assert np.isfinite(code.data).all()
        code.check_format(full_check=True)
    assert np.all(coded.energy <= sum(np.sum(X**2, axis=1) for X in Xs) * (1 + 1e-12))


def test_not_finite_and_zero_samples(case):
    Xs, dictionaries = case
    Xs[0][3], Xs[1][3], Xs[2][3] = 0, 0, 0
    codes, _ = encode(Xs, dictionaries, limit=3)
    assert codes[0].indptr[4] == codes[0].indptr[3]
    Xs[1][7, 2] = np.nan
    with pytest.raises(ValueError, match="sample 7"):
        encode(Xs, dictionaries, limit=3)


def test_65_views_equal_the_twin(rng):
    Xs = [rng.standard_normal((9, 4)) for _ in range(65)]
    dictionaries = [random_dictionary(rng, 6, 4) for _ in Xs]
    codes, _ = encode(Xs, dictionaries, limit=2)
    expected = twins.sparse_encode_support(Xs, dictionaries, n_nonzero_coefs=2)
    for mine, theirs in zip(codes, expected, strict=True):
        np.testing.assert_allclose(mine.toarray(), theirs, atol=1e-10)
