"""The lasso, with coefficients of both signs and of one, against oracles; this file also runs sanitized."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from coupledict import DictionaryLearning, OnlineDictionaryLearning, SparseCoder
from coupledict import sparse_encode as encode_any
from coupledict.coding.passes import encode
from coupledict.coding.samples import Samples
from coupledict.foundation.block_sizes import SIZES
from support.coherent import FAMILIES, SIGNALS, make_atoms, make_signals
from support.constrained_twins import assert_lasso, duality_gap, fault_of_lasso_code, lasso_code, objective
from support.inner import Threads
from support.learners import make, plain, planted_views
from support.masked_twins import knock_out
from support.pairwise import pairs
from support.problems import LEVELS, encode_with, make_coder, random_dictionary

DTYPES = [np.float32, np.float64]
# Sizes around the vectors, panels and blocks of all instruction sets.
SHAPES = [(1, 1), (3, 2), (16, 16), (33, 20), (64, 64), (130, 17), (20, 70)]
KERNELS = {"level": LEVELS, "dtype": DTYPES, "positive": [False, True]}
EVERY_KERNEL = "level dtype positive"
signs = pytest.mark.parametrize("positive", [False, True], ids=["both signs", "one sign"])


def sparse_encode(X, D, alpha, positive, **options):
    return encode_any(X, D, pursuit="lasso", alpha=alpha, positive_code=positive, **options)


def check(Xs, Ds, alpha, positive, *, gram=None, **options):
    """Code the samples, and compare with the oracle."""
    codes = encode_with(gram, Xs, Ds, pursuit="lasso", alpha=alpha, positive_code=positive, **options)
    assert codes.dtype == np.result_type(*Xs, *Ds)
    assert np.all(codes.data != 0)
    assert_lasso(Xs, Ds, codes, alpha, positive=positive, weights=options.get("view_weights"))
    return codes


@pairs("level dtype positive gram", "level dtype shape", **KERNELS, gram=[True, False], shape=SHAPES)
def test_equals_the_oracle(level, dtype, positive, gram, shape, rng):
    n_components, n_features = shape
    X = rng.standard_normal((8, n_features)).astype(dtype)
    D = random_dictionary(rng, n_components, n_features).astype(dtype)
    for alpha in (0.03, 0.5, 3.0):
        check([X], [D], alpha, positive, gram=gram)


@pairs(**KERNELS)
def test_codes_are_those_of_scikit_learn(level, dtype, positive, rng):
    X = rng.standard_normal((12, 20)).astype(dtype)
    D = random_dictionary(rng, 50, 20).astype(dtype)
    codes = sparse_encode(X, D, 0.4, positive).toarray()
    peer = Lasso(0.4 / 20, fit_intercept=False, positive=positive, tol=1e-12, max_iter=100_000)
    for x, code in zip(X.astype(float), codes, strict=True):
        np.testing.assert_allclose(
            code, peer.fit(D.T.astype(float), x).coef_, atol=2e-4 if dtype == np.float32 else 1e-6
        )


@pairs(**KERNELS)
def test_the_gap_is_closed(level, dtype, positive, rng):
    """A bound that knows no oracle."""
    X = rng.standard_normal((30, 30)).astype(dtype)
    D = random_dictionary(rng, 90, 30).astype(dtype)
    codes = sparse_encode(X, D, 0.3, positive).toarray().astype(float)
    for x, code in zip(X.astype(float), codes, strict=True):
        gap = duality_gap(x, D.astype(float), code, 0.3, positive)
        assert gap <= (1e-4 if dtype == np.float32 else 1e-11) * x @ x
    assert len(set(np.count_nonzero(codes, axis=1))) > 4


@pairs(**KERNELS)
def test_weighted_views(level, dtype, positive, rng):
    Xs = [rng.standard_normal((10, p)).astype(dtype) for p in (5, 11, 3)]
    Ds = [random_dictionary(rng, 50, p).astype(dtype) for p in (5, 11, 3)]
    for weights, alpha in ((None, 0.5), ([1.0, 0.3, 7.0], 0.5), ([1e-3, 2.0, 5e2], 0.1), ([1e150, 1e150, 0.0], 1e150)):
        check(Xs, Ds, alpha, positive, view_weights=weights)
    two = sparse_encode([Xs[0], None, Xs[2]], Ds, 0.5, positive)
    assert (two != sparse_encode([Xs[0], Xs[2]], [Ds[0], Ds[2]], 0.5, positive)).nnz == 0
    assert (two != sparse_encode(Xs, Ds, 0.5, positive, view_weights=[1, 0, 1])).nnz == 0


@pairs(EVERY_KERNEL, **KERNELS, gram=[True, False])
def test_missing_entries(level, dtype, positive, gram, rng):
    Xs = [rng.standard_normal((24, p)).astype(dtype) for p in (7, 12)]
    Ds = [random_dictionary(rng, 40, p).astype(dtype) for p in (7, 12)]
    few, many = ([X[:12] for X in Xs], 0.15), ([X[12:] for X in Xs], 0.7)
    Xs = [np.vstack(pair) for pair in zip(*(knock_out(rng, *half, absent=0.1) for half in (few, many)), strict=True)]
    for X in Xs:
        X[3], X[20] = np.nan, np.nan  # nothing known
    Xs[0][20, 2] = 1.5  # and one entry
    for alpha in (0.5, 0.01):
        with pytest.warns(UserWarning, match="no known entry"):
            codes = check(Xs, Ds, alpha, positive, gram=gram, view_weights=[1, 2], missing="nan").toarray()
        assert np.count_nonzero(codes[20]) == 1


# The same bits


@pairs(**KERNELS)
def test_the_bits_depend_on_nothing_else(level, dtype, positive, rng, sizes):
    X = rng.standard_normal((150, 24)).astype(dtype)
    D = random_dictionary(rng, 200, 24).astype(dtype)
    D[60:64] = D[:4] + 1e-3 * rng.standard_normal((4, 24)).astype(dtype)  # some samples are doubtful
    alpha = 0.2
    whole = sparse_encode(X, D, alpha, positive).toarray()
    assert np.count_nonzero(whole, axis=1).max() > 8
    np.testing.assert_array_equal(sparse_encode(X, D, alpha, positive, n_jobs=2).toarray(), whole)
    np.testing.assert_array_equal(sparse_encode(X[:3], D, alpha, positive).toarray(), whole[:3])  # no Gram matrix
    np.testing.assert_array_equal(sparse_encode(X[70:71], D, alpha, positive).toarray(), whole[70:71])
    np.testing.assert_array_equal(sparse_encode(X, D, alpha, positive, missing="nan").toarray(), whole)
    coder = make_coder([D], [1], dtype, pursuit="lasso", alpha=alpha, positive=positive, n_samples=150)
    cut = encode(coder, Samples([X], np.dtype(dtype)), Threads(2), chunk_size=7).as_csr(200)[0]
    np.testing.assert_array_equal(cut.toarray(), whole)
    sizes(gram_bytes=0)
    np.testing.assert_array_equal(sparse_encode(X, D, alpha, positive).toarray(), whole)


@pairs(EVERY_KERNEL, **KERNELS, share=[0.0, 0.3])
def test_room_does_not_show(level, dtype, positive, share, rng):
    D = random_dictionary(rng, 60, 24).astype(dtype)
    D[50:] = D[:10] + 1e-4 * rng.standard_normal((10, 24)).astype(dtype)
    (X,) = knock_out(rng, [rng.standard_normal((40, 24)).astype(dtype)], share)
    for alpha in (0.05, 0.8):
        usual = sparse_encode(X, D, alpha, positive, missing="nan").toarray()
        with SIZES.changed(lasso_room=2):
            small = sparse_encode(X, D, alpha, positive, missing="nan").toarray()
        np.testing.assert_array_equal(small, usual)
        assert np.count_nonzero(small, axis=1).max() > 4


# Edges


@pairs(**KERNELS)
def test_penalties_from_nothing_to_everything(level, dtype, positive, rng):
    X = rng.standard_normal((10, 12)).astype(dtype)
    D = random_dictionary(rng, 40, 12).astype(dtype)
    correlations = X.astype(float) @ D.astype(float).T
    top = float((correlations if positive else np.abs(correlations)).max())
    assert sparse_encode(X, D, 1.001 * top, positive).nnz == 0
    assert sparse_encode(X, D, 1e300, positive).nnz == 0
    assert check([X], [D], 0.999 * top, positive).nnz == 1
    for alpha in (1e-9, 1e-300):
        tiny = check([X], [D], alpha, positive).toarray().astype(float)
        assert np.linalg.norm(X - tiny @ D) < 1e-3 * np.linalg.norm(X)
        assert np.all(np.count_nonzero(tiny, axis=1) >= 11)
    assert sparse_encode(-np.abs(X), np.abs(D), 0.1, True).nnz == 0
    assert sparse_encode(np.zeros_like(X), D, 0.1, positive).nnz == 0
    assert sparse_encode(X, np.zeros_like(D), 0.1, positive).nnz == 0


@pairs(**KERNELS)
def test_of_equal_atoms_the_largest_wins_and_the_first(level, dtype, positive, rng):
    D = rng.standard_normal((15, 10)).astype(dtype)
    X = rng.standard_normal((20, 10)).astype(dtype)
    once = sparse_encode(X, D, 0.3, positive).toarray()
    rounding = {"rtol": 0, "atol": 2e-4 if dtype == np.float32 else 1e-9}
    twice = sparse_encode(X, np.vstack([D, D]), 0.3, positive).toarray()
    assert not twice[:, 15:].any()
    np.testing.assert_allclose(twice[:, :15], once, **rounding)
    below = sparse_encode(X, np.vstack([D * dtype(0.875), D, D * dtype(0.5)]), 0.3, positive).toarray()
    assert not below[:, :15].any()
    assert not below[:, 30:].any()
    np.testing.assert_allclose(below[:, 15:30], once, **rounding)


@pairs(EVERY_KERNEL, **KERNELS, n_features=[2, 5])
def test_an_atom_takes_the_place_of_two(level, dtype, positive, n_features):
    """The third atom depends on the other two, which are chosen first, and has the smaller penalty."""
    D = np.zeros((3, n_features), dtype)
    D[0, 0] = D[1, 1] = 1
    D[2, :2] = 0.51
    X = np.zeros((1, n_features), dtype)
    X[0, :2] = 1, 0.6
    code = check([X], [D], 0.5, positive).toarray()[0]
    assert code[2] > 0
    assert code[1] == 0
    if not positive:
        D[2] *= -1
        np.testing.assert_allclose(check([X], [D], 0.5, False).toarray()[0], code * [1, 1, -1], rtol=1e-6)


@pairs(EVERY_KERNEL, **KERNELS, share=[0.0, 0.3])
def test_atoms_that_depend_on_each_other_exactly(level, dtype, positive, share, rng):
    """All rows of -1, 0 and 1, of lengths from 0.5 to 1 for each entry that is not 0."""
    D = np.array(list(product([-1, 0, 1], repeat=4)), dtype)
    D *= rng.choice([0.5, 0.75, 1.0], (len(D), 1)).astype(dtype)
    (X,) = knock_out(rng, [np.round(rng.standard_normal((25, 4)), 1).astype(dtype)], share)
    X = X[~np.isnan(X).all(axis=1)]
    for alpha in (0.01, 0.5):
        codes = check([X], [D], alpha, positive, missing="nan")
        assert np.diff(codes.indptr).max() <= 4


@pairs(**KERNELS)
def test_atoms_of_all_sizes(level, dtype, positive, rng):
    D = (rng.standard_normal((40, 8)) * 10.0 ** rng.uniform(-30, 30, (40, 1))).astype(dtype)
    X = rng.standard_normal((10, 8)).astype(dtype)
    norms = np.linalg.norm(D.astype(float), axis=1)
    atoms, rounding = D / norms[:, None], 1e-4 if dtype == np.float32 else 1e-9
    for alpha in (1e-25, 1e-3, 1e3, 1e25):
        codes = sparse_encode(X, D, alpha, positive).toarray().astype(float)
        assert np.isfinite(codes).all()
        assert codes.any()
        rest = (X - (codes * norms) @ atoms) @ atoms.T
        excess = (rest if positive else np.abs(rest)) - alpha / norms
        assert np.all(excess <= rounding * np.linalg.norm(X, axis=1)[:, None])
        assert np.all(np.abs(excess[codes != 0]) <= rounding * np.linalg.norm(X))


@pairs(
    level=LEVELS,
    size=[(np.float32, -100), (np.float32, 100), (np.float64, -660), (np.float64, 660)],
    positive=[False, True],
)
def test_samples_of_all_sizes(level, size, positive, rng):
    dtype, power = size
    X = rng.standard_normal((20, 10)).astype(dtype)
    D = random_dictionary(rng, 30, 10).astype(dtype)
    far = sparse_encode(np.ldexp(X, power), D, float(np.ldexp(0.2, power)), positive)
    usual = sparse_encode(X, D, 0.2, positive)
    np.testing.assert_array_equal(far.indices, usual.indices)
    rounding = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(np.ldexp(far.toarray(), -power), usual.toarray(), rtol=rounding, atol=rounding)


@pairs(dtype=DTYPES, positive=[False, True], family=FAMILIES)
def test_coherent_atoms(rng, dtype, positive, family):
    for number in range(8):
        D = make_atoms(rng, family, int(rng.integers(5, 100)), int(rng.integers(8, 60))).astype(dtype)
        X = make_signals(rng, rng.choice(SIGNALS), D.astype(float), 6).astype(dtype)
        if number % 2:
            D, X = np.abs(D), np.abs(X)
        alpha = float(10 ** rng.uniform(-5, 0) * np.abs(X @ D.T).max())
        codes = sparse_encode(X, D, alpha, positive)
        assert_lasso([X], [D], codes, alpha, positive=positive, allowed=1e-4 if dtype == np.float32 else 1e-9)


# The oracle and the comparison


def test_the_oracle_and_what_it_refuses(rng):
    D, x = random_dictionary(rng, 30, 12), rng.standard_normal(12)
    for positive in (False, True):
        code = lasso_code(x, D, 0.3, positive)
        assert abs(duality_gap(x, D, code, 0.3, positive)) < 1e-12
        assert fault_of_lasso_code(x, D, code, 0.3, positive, 1e-10) is None
        assert "smallest one" in fault_of_lasso_code(x, D, 1.01 * code, 0.3, positive, 1e-10)
        assert "smallest one" in fault_of_lasso_code(x, D, 0 * code, 0.3, positive, 1e-10)
        assert "that of 0" in fault_of_lasso_code(x, D, 9 * code, 0.3, positive, 1e-10)
        assert "finite" in fault_of_lasso_code(x, D, code * np.nan, 0.3, positive, 1e-10)
        for _ in range(20):
            other = np.maximum(code + 0.01 * rng.standard_normal(30), 0 if positive else -np.inf)
            assert objective(x, D, other, 0.3) > objective(x, D, code, 0.3)
    assert "negative" in fault_of_lasso_code(x, D, lasso_code(x, D, 0.3, False), 0.3, True, 1e-10)


# Learners

LASSO = {"pursuit": "lasso", "alpha": 0.3, "n_nonzero_coefs": None}


@signs
def test_learners(positive, rng):
    Xs = planted_views(rng)[0]
    learner = make(positive_code=positive, **LASSO).fit(Xs)
    codes = learner.transform(Xs)
    assert (codes.data.min() < 0) != positive
    assert_lasso(Xs, learner.components_, codes, 0.3, positive=positive)
    assert learner.score(Xs) > 0.2


@signs
def test_other_estimators(positive, rng):
    X = planted_views(rng)[0][0]
    options = {"pursuit": "lasso", "alpha": 0.3, "positive_code": positive}
    for learner in (
        DictionaryLearning(8, max_iter=3, random_state=0, **options),
        OnlineDictionaryLearning(8, batch_size=60, max_iter=2, random_state=0, **options),
    ):
        given = [X] if isinstance(learner, OnlineDictionaryLearning) else X
        codes = learner.fit(given).transform(given)
        D = learner.components_[0] if given is not X else learner.components_
        assert_lasso([X], [D], codes, 0.3, positive=positive)
        coder = SparseCoder(D, **options)
        np.testing.assert_array_equal(coder.fit(X).transform(X).toarray(), codes.toarray())


@signs
def test_wherever_the_samples_are(positive, rng, tmp_path, sizes):
    """Chunks and files learn the same, and what samples in memory learn up to rounding; codes are the same."""
    sizes(large_bytes=0, block_rows=70)
    Xs = planted_views(rng)[0]
    for v, X in enumerate(Xs):
        np.save(tmp_path / f"{v}.npy", X)
    files = [np.load(tmp_path / f"{v}.npy", mmap_mode="r") for v in range(2)]
    chunks = [[X[start : start + 70] for X in Xs] for start in range(0, 300, 70)]
    learners = [make(positive_code=positive, **LASSO).fit(given) for given in (chunks, files)]
    for learner in learners:
        for a, b in zip(learner.components_, learners[0].components_, strict=True):
            np.testing.assert_array_equal(a, b)
        whole = learner.transform(Xs).toarray()
        for given in (chunks, files):
            np.testing.assert_array_equal(learner.transform(given).toarray(), whole)
    options = LASSO | {"init": [rng.standard_normal((12, X.shape[1])) for X in Xs], "growth": None, "max_iter": 1}
    in_memory, in_files = (make(positive_code=positive, **options).fit(given) for given in (Xs, files))
    for a, b in zip(in_memory.components_, in_files.components_, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


@signs
def test_dask(positive, rng):
    dask = pytest.importorskip("dask")
    arrays = pytest.importorskip("dask.array")
    Xs = planted_views(rng)[0]
    chunks = [[X[start : start + 70] for X in Xs] for start in range(0, 300, 70)]
    one = make(positive_code=positive, **LASSO).fit(chunks)
    with dask.config.set(scheduler="synchronous"):
        given = [arrays.from_array(X, chunks=(70, -1)) for X in Xs]
        other = make(positive_code=positive, **LASSO).fit(given)
        codes = other.transform(given)
        codes = codes.compute() if hasattr(codes, "compute") else codes
    for a, b in zip(one.components_, other.components_, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(codes.toarray(), one.transform(Xs).toarray())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pursuit": "lasso"}, "Expected a positive alpha with pursuit='lasso', got None"),
        ({"pursuit": "lasso", "alpha": 0.0}, "Expected a positive alpha"),
        ({"pursuit": "lasso", "alpha": -1.0}, "alpha"),
        ({"pursuit": "lasso", "alpha": np.nan}, "alpha"),
        ({"alpha": 0.1}, "alpha is the penalty of pursuit='lasso'; it has no meaning for 'omp'"),
        ({"pursuit": "ols", "alpha": 0.1}, "it has no meaning for 'ols'"),
        ({"pursuit": "lasso", "alpha": 0.1, "n_nonzero_coefs": 2}, "have no meaning with pursuit='lasso'"),
        ({"pursuit": "lasso", "alpha": 0.1, "tol": 2.0}, "have no meaning with pursuit='lasso'"),
        ({"pursuit": "lasso", "alpha": 0.1, "coupling": "support"}, "coupling='support' is not offered with it"),
    ],
    ids=str,
)
def test_what_is_refused(options, sentence, rng):
    X = rng.standard_normal((20, 4))
    with pytest.raises(ValueError, match=sentence):
        plain(3, **options).fit([X, X])
    if "coupling" not in options:
        with pytest.raises(ValueError, match=sentence):
            encode_any(X, np.eye(4), **options)
