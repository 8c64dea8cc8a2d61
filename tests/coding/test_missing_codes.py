"""Codes of samples with missing entries: each as if the sample had its known entries alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import orthogonal_mp

from coupledict import sparse_encode
from coupledict.coding import incomplete, passes
from coupledict.coding.coders import make_coder
from coupledict.coding.recipe import Recipe
from coupledict.coding.rule import CodingRule
from coupledict.coding.samples import Samples
from support import twins
from support.compare import Problem
from support.inner import Threads, _native
from support.masked_twins import assert_masked_codes_match, cut_problems, encode_cut, knock_out
from support.pairwise import pairs
from support.problems import LEVELS, encode_with, random_dictionary, smooth_patches

DTYPES = [np.float32, np.float64]
PURSUITS = ["omp", "ols"]
# Sizes around the vectors, panels and blocks of all instruction sets.
SHAPES = [(1, 1), (3, 2), (16, 16), (33, 20), (64, 64), (130, 17), (40, 150)]
GRAMS = ["gram", "gram rows", "gram free"]
KERNELS = {"level": LEVELS, "dtype": DTYPES, "pursuit": PURSUITS}
EVERY_KERNEL = "level dtype pursuit"

KNOWN: dict = {}


def twin(problem: Problem):
    """Return the code of the slow twin, worked out once: neither instruction sets nor threads are known to it."""
    about = problem.atoms.shape, problem.limit, problem.tol, problem.pursuit, problem.dtype
    key = *about, problem.signals.tobytes(), problem.atoms.tobytes()
    if key not in KNOWN:
        KNOWN[key] = encode_cut(problem)
    return KNOWN[key].copy()


def check_against_twin(Xs, Ds, *, gram=None, max_ties=0.05, **arguments):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no known entry")
        codes = encode_with(gram, Xs, Ds, missing="nan", **arguments)
    assert codes.dtype == np.result_type(*Xs, *Ds)
    arguments.pop("n_jobs", None)
    problems = cut_problems(Xs, Ds, **arguments)
    assert_masked_codes_match(problems, codes, [twin(problem) for problem in problems], max_ties=max_ties)
    return codes


@pytest.fixture
def gram(request, sizes):
    """Whether there is a Gram matrix; if not, rows of it are made on demand, or the kernel is one that needs none."""
    if request.param == "gram free":
        sizes(gram_bytes=0)
    return request.param == "gram"


@pairs("level dtype pursuit gram", "level dtype shape", **KERNELS, gram=GRAMS, shape=SHAPES, fixtures=["level", "gram"])
def test_equals_twin(level, dtype, pursuit, gram, shape, rng):
    """With many missing the kernel adds up what is known, with few it subtracts what is missing."""
    n_components, n_features = shape
    X = rng.standard_normal((24, n_features)).astype(dtype)
    D = random_dictionary(rng, n_components, n_features).astype(dtype)
    few, many = knock_out(rng, [X[:12]], 0.15), knock_out(rng, [X[12:]], 0.7)
    X = np.vstack([*few, *many])
    for limit in (1, 9):
        check_against_twin([X], [D], gram=gram, n_nonzero_coefs=limit, pursuit=pursuit)


@pairs(EVERY_KERNEL, **KERNELS, gram=GRAMS, n_jobs=[1, 2], fixtures=["level", "gram"])
def test_equals_twin_on_patches_with_tol(level, dtype, pursuit, gram, n_jobs, rng):
    (X,) = knock_out(rng, [smooth_patches(rng, 40).astype(dtype)], 0.3)
    D = random_dictionary(rng, 128, 64).astype(dtype)
    tol = 0.02 * float(np.mean(np.nansum(X**2, axis=1)))
    codes = check_against_twin([X], [D], gram=gram, tol=tol, pursuit=pursuit, n_jobs=n_jobs)
    errors = np.nansum((X.astype(float) - codes.toarray().astype(float) @ D.astype(float)) ** 2, axis=1)
    assert np.all(errors <= tol * (1 + 1e-5))
    assert len(set(np.diff(codes.indptr))) > 3, "the tolerance should ask for different numbers of atoms"


@pairs(EVERY_KERNEL, **KERNELS, gram=GRAMS, fixtures=["level", "gram"])
def test_equals_twin_for_weighted_views(level, dtype, pursuit, gram, rng):
    Xs = [rng.standard_normal((30, p)).astype(dtype) for p in (5, 11, 3)]
    Ds = [random_dictionary(rng, 50, p).astype(dtype) for p in (5, 11, 3)]
    Xs = knock_out(rng, Xs, 0.2, absent=0.3)
    for weights in (None, [1.0, 0.3, 7.0], [1e-3, 2.0, 5e2]):
        check_against_twin(Xs, Ds, gram=gram, n_nonzero_coefs=4, pursuit=pursuit, view_weights=weights)
        check_against_twin(Xs, Ds, gram=gram, n_nonzero_coefs=10, tol=2.0, pursuit=pursuit, view_weights=weights)


def test_the_comparison_refuses_other_codes(rng):
    Xs, Ds = knock_out(rng, [rng.standard_normal((20, 12))], 0.3), [random_dictionary(rng, 30, 12)]
    problems = cut_problems(Xs, Ds, n_nonzero_coefs=3)
    expected = np.array([encode_cut(problem) for problem in problems])
    assert_masked_codes_match(problems, expected, expected)
    of_zeros = twins.sparse_encode([np.nan_to_num(Xs[0])], Ds, n_nonzero_coefs=3)
    with pytest.raises(AssertionError, match="not because of a tie"):
        assert_masked_codes_match(problems, of_zeros, expected)
    with pytest.raises(AssertionError, match="rounding explains"):
        assert_masked_codes_match(problems, expected * (1 + 1e-6), expected)
    with pytest.raises(AssertionError, match="shape"):
        assert_masked_codes_match(problems, expected[:, :-1], expected)


# Oracles that know nothing of masks


@pytest.mark.parametrize("pursuit", PURSUITS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_sample_is_coded_like_its_known_entries_alone(pursuit, share, rng):
    (X,) = knock_out(rng, [smooth_patches(rng, 200)], share)
    D = random_dictionary(rng, 90, 64)
    codes = sparse_encode(X, D, n_nonzero_coefs=3, pursuit=pursuit, missing="nan").toarray()
    for x, code in zip(X, codes, strict=True):
        known = ~np.isnan(x)
        assert known.sum() > 3
        alone = sparse_encode(x[None, known], D[:, known], n_nonzero_coefs=3, pursuit=pursuit)
        np.testing.assert_allclose(code, alone.toarray()[0], rtol=1e-8, atol=1e-9 * np.abs(code).max())


def test_codes_equal_those_of_scikit_learn_for_known_entries(rng):
    (X,) = knock_out(rng, [rng.standard_normal((60, 32))], 0.4)
    D = rng.standard_normal((50, 32))
    codes = sparse_encode(X, D, n_nonzero_coefs=4, missing="nan").toarray()
    for x, code in zip(X, codes, strict=True):
        known = ~np.isnan(x)
        atoms = D[:, known]
        norms = np.linalg.norm(atoms, axis=1)
        expected = orthogonal_mp((atoms / norms[:, None]).T, x[known], n_nonzero_coefs=4) / norms
        np.testing.assert_allclose(code, expected, atol=1e-9)


# The same bits


@pairs(EVERY_KERNEL, **KERNELS, n=[1, 7, 500])
def test_without_a_missing_entry_the_bits_are_those_of_complete_samples(level, dtype, pursuit, n, rng):
    Xs = [rng.standard_normal((n, p)).astype(dtype) for p in (12, 20)]
    Ds = [random_dictionary(rng, 40, p).astype(dtype) for p in (12, 20)]
    for arguments in ({"n_nonzero_coefs": 6}, {}, {"tol": 1.0, "view_weights": [0.1, 3.0]}):
        codes = sparse_encode(Xs, Ds, pursuit=pursuit, missing="nan", **arguments)
        assert_same_bits(codes, sparse_encode(Xs, Ds, pursuit=pursuit, **arguments))


@pytest.mark.parametrize("pursuit", PURSUITS)
@pytest.mark.parametrize("n", [3, 2000])
def test_a_row_of_nan_is_a_view_that_is_none(pursuit, n, rng):
    """With many samples, those of the same views share a Gram matrix; the bits are then those of None."""
    Xs = [rng.standard_normal((n, p)) for p in (12, 20, 5)]
    Ds = [random_dictionary(rng, 30, p) for p in (12, 20, 5)]
    options = {"n_nonzero_coefs": 6, "pursuit": pursuit, "view_weights": [1.0, 0.5, 2.0]}
    for present in ([0], [1], [0, 2], [0, 1]):
        damaged = [X if v in present else np.full_like(X, np.nan) for v, X in enumerate(Xs)]
        codes = sparse_encode(damaged, Ds, missing="nan", **options)
        expected = sparse_encode([X if v in present else None for v, X in enumerate(Xs)], Ds, **options)
        if n > 100:
            assert_same_bits(codes, expected)
        else:
            np.testing.assert_array_equal(codes.indices, expected.indices)
            np.testing.assert_allclose(codes.data, expected.data, rtol=1e-9)


@pytest.mark.parametrize("pursuit", PURSUITS)
def test_samples_of_the_same_views_share_one_gram_matrix(pursuit, rng):
    widths = (12, 20)
    Ds = [random_dictionary(rng, 30, p) for p in widths]
    Xs = [rng.standard_normal((4000, p)) for p in widths]
    Xs[0][::3], Xs[1][1::3], Xs[1][5::9, 4] = np.nan, np.nan, np.nan
    coder = coder_of(Xs, Ds, 6, pursuit=pursuit)
    coded = passes.encode(coder, Samples(Xs, Xs[0].dtype, missing=True), Threads(2))
    assert sorted(coder._coders) == [(0,), (0, 1), (1,)]
    assert all(part._plan.has_gram for part in coder._coders.values())
    alone = sparse_encode([Xs[0][1::3], None], Ds, n_nonzero_coefs=6, pursuit=pursuit)
    assert_same_bits(coded.as_csr(30)[0][1::3], alone)


def test_more_views_than_there_are_sets_of_them(rng):
    widths = [3] * (incomplete.MAX_VIEWS + 3)
    Xs = knock_out(rng, [rng.standard_normal((20, p)) for p in widths], 0.1, absent=0.4)
    Xs[0][:5] = 1.0  # some samples lack none but late views
    for v in range(incomplete.MAX_VIEWS):
        Xs[v][:5] = rng.standard_normal((5, 3))
    check_against_twin(Xs, [random_dictionary(rng, 40, p) for p in widths], n_nonzero_coefs=5)
    complete = [rng.standard_normal((20, p)) for p in widths]
    Ds = [random_dictionary(rng, 40, p) for p in widths]
    codes = sparse_encode(complete, Ds, n_nonzero_coefs=5, missing="nan")
    assert_same_bits(codes, sparse_encode(complete, Ds, n_nonzero_coefs=5))


@pairs(EVERY_KERNEL, **KERNELS, budget=[0, 1 << 30])
def test_bits_do_not_depend_on_threads_or_chunks(level, dtype, pursuit, budget, rng, sizes):
    sizes(gram_bytes=budget)
    Xs = [smooth_patches(rng, 300).astype(dtype), rng.standard_normal((300, 10)).astype(dtype)]
    Ds = [random_dictionary(rng, 60, X.shape[1]).astype(dtype) for X in Xs]
    holes = knock_out(rng, Xs, 0.2, absent=0.3)
    Xs = [np.where(rng.random((300, 1)) < 0.4, view, X) for view, X in zip(holes, Xs, strict=True)]
    coder, samples = coder_of(Xs, Ds, 12, pursuit=pursuit, tol=1e-2), Samples(Xs, Xs[0].dtype, missing=True)
    first = passes.encode(coder, samples, Threads())
    for n_jobs, chunk_size in [(1, 1), (1, 7), (2, 50), (3, 211)]:
        again = passes.encode(coder, samples, Threads(n_jobs), chunk_size=chunk_size)
        for name in ("indptr", "indices", "values", "energy", "status"):
            np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    codes = first.as_csr(60)[0].toarray().astype(float)
    left = sum(np.nansum((X - codes @ D) ** 2, axis=1) for X, D in zip(Xs, Ds, strict=True))
    sizes = sum(np.nansum(X.astype(float) ** 2, axis=1) for X in Xs)
    assert np.all(np.abs(first.energy - left) <= 100 * np.finfo(dtype).eps * sizes)


def coder_of(Xs, Ds, limit, *, pursuit="omp", tol=None):
    rule = CodingRule(limit, tol, pursuit)
    return make_coder(Recipe(Ds, np.ones(len(Ds)), Xs[0].dtype, rule, len(Xs[0]), missing=True), Threads())


def assert_same_bits(codes, expected):
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(codes, name), getattr(expected, name))


# The edge list


@pairs(level=LEVELS, dtype=DTYPES, pursuit=[*PURSUITS, "lasso"])
def test_nothing_known_is_a_zero_code_with_a_warning(level, dtype, pursuit, rng):
    X = rng.standard_normal((5, 8)).astype(dtype)
    D = random_dictionary(rng, 12, 8).astype(dtype)
    X[[1, 4]] = np.nan
    limits = {"alpha": 0.1} if pursuit == "lasso" else {"n_nonzero_coefs": 3}
    with pytest.warns(UserWarning, match=r"2 of 5 samples have no known entry; their codes are 0\."):
        codes = sparse_encode(X, D, pursuit=pursuit, missing="nan", **limits)
    assert np.diff(codes.indptr).astype(bool).tolist() == [True, False, True, True, False]
    rule = CodingRule.checked(limits.get("n_nonzero_coefs"), None, pursuit, alpha=limits.get("alpha"))
    coder = make_coder(Recipe([D], np.ones(1), X.dtype, rule, 5, missing=True), Threads())
    coded = passes.encode(coder, Samples([X], X.dtype, missing=True), Threads())
    assert (coded.status == _native.UNKNOWN).tolist() == [False, True, False, False, True]
    np.testing.assert_array_equal(coded.energy[[1, 4]], 0)


@pairs(EVERY_KERNEL, **KERNELS, gram=GRAMS, fixtures=["level", "gram"])
def test_no_more_atoms_than_known_entries(level, dtype, pursuit, gram, rng):
    X = rng.standard_normal((40, 10)).astype(dtype)
    X[np.arange(10) >= np.arange(40)[:, None] % 10 + 1] = np.nan
    D = random_dictionary(rng, 25, 10).astype(dtype)
    codes = check_against_twin([X], [D], gram=gram, n_nonzero_coefs=6, pursuit=pursuit)
    np.testing.assert_array_equal(np.diff(codes.indptr), np.minimum(6, np.arange(40) % 10 + 1))


@pairs(EVERY_KERNEL, **KERNELS, gram=GRAMS, fixtures=["level", "gram"])
def test_atoms_that_vanish_or_agree_over_the_known_entries(level, dtype, pursuit, gram, rng):
    base = rng.standard_normal((12, 10))
    hidden = np.zeros((6, 10))
    hidden[:, 7:] = rng.standard_normal((6, 3))  # nothing of these is known
    faint = hidden + 1e-7 * rng.standard_normal((6, 10))
    twins_there = base[:6] + hidden  # these equal others where it is known
    D = np.vstack([hidden, base, twins_there, faint]).astype(dtype)
    X = rng.standard_normal((40, 10)).astype(dtype)
    X[:, 7:] = np.nan
    X[20:, :2] = np.nan
    for limit in (2, 7):
        codes = check_against_twin([X], [D], gram=gram, max_ties=1.0, n_nonzero_coefs=limit, pursuit=pursuit)
        assert np.isfinite(codes.data).all()
        assert np.all((codes.indices >= 6) & (codes.indices < 24)), "an atom that vanishes was chosen"
        counts = np.zeros((40, 6))
        for atoms in (slice(6, 12), slice(18, 24)):
            counts += codes.toarray()[:, atoms] != 0
        assert counts.max() == 1, "of two equal atoms, only one can be chosen"


@pairs(EVERY_KERNEL, **KERNELS, power=[-36, -20, 20, 36])
def test_scale_of_the_samples_does_not_matter(level, dtype, pursuit, power, rng):
    (X,) = knock_out(rng, [rng.standard_normal((20, 16)).astype(dtype)], 0.3)
    D = random_dictionary(rng, 30, 16).astype(dtype)
    scale = dtype(2.0) ** (3 * power)
    expected = sparse_encode(X, D, n_nonzero_coefs=5, pursuit=pursuit, missing="nan")
    scaled = sparse_encode(X * scale, D, n_nonzero_coefs=5, pursuit=pursuit, missing="nan")
    np.testing.assert_array_equal(scaled.indices, expected.indices)
    np.testing.assert_allclose(scaled.data / scale, expected.data, rtol=1e-5 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("power", [-900, 900])
def test_extreme_scales_of_samples_atoms_and_weights(power, rng):
    (X,) = knock_out(rng, [rng.standard_normal((20, 16))], 0.3)
    D = random_dictionary(rng, 30, 16)
    expected = sparse_encode(X, D, n_nonzero_coefs=5, missing="nan")
    size = 2.0**power
    for scaled in (
        sparse_encode(X * size, D * size, n_nonzero_coefs=5, missing="nan"),
        sparse_encode([X], [D], n_nonzero_coefs=5, missing="nan", view_weights=[size]),
    ):
        np.testing.assert_array_equal(scaled.indices, expected.indices)
        np.testing.assert_allclose(scaled.data, expected.data, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1])
def test_no_samples_or_one(n, rng):
    Xs = [np.full((n, p), np.nan) for p in (4, 6)]
    Xs[0][:, 1] = 2.0
    Ds = [random_dictionary(rng, 9, p) for p in (4, 6)]
    codes = sparse_encode(Xs, Ds, n_nonzero_coefs=3, missing="nan")
    assert (codes.shape, codes.nnz) == ((n, 9), n)
    assert sparse_encode(Xs[0], Ds[0], n_nonzero_coefs=3, missing="nan").shape == (n, 9)


def test_tol_counts_known_entries_and_says_where_it_was_not_reached(rng):
    X = np.array([[1.0, np.nan, 0.0], [np.nan, 3.0, 4.0]])
    D = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 2.0]])
    codes = sparse_encode(X, D, tol=9.5, missing="nan")
    np.testing.assert_allclose(codes.toarray(), [[0, 0], [3.5, 0]])
    with pytest.warns(UserWarning, match="1 of 1 samples did not reach tol"):
        sparse_encode([[1.0, 1.0, np.nan]], [[1.0, -1.0, 5.0]], tol=0.5, missing="nan")


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_lasso_minimises_over_known_entries(share, rng):
    from sklearn.linear_model import Lasso

    Xs = knock_out(rng, [rng.standard_normal((12, p)) for p in (9, 5)], share, absent=share)
    Ds = [rng.standard_normal((20, p)) for p in (9, 5)]
    weights = [2.0, 0.5]
    codes = sparse_encode(Xs, Ds, pursuit="lasso", alpha=0.3, missing="nan", view_weights=weights).toarray()
    signals, atoms = twins.stack(Xs, weights), twins.stack(Ds, weights)
    for x, code in zip(signals, codes, strict=True):
        known = ~np.isnan(x)
        model = Lasso(0.3 / known.sum(), fit_intercept=False, tol=1e-10, max_iter=100_000)
        np.testing.assert_allclose(code, model.fit(atoms[:, known].T, x[known]).coef_, atol=1e-3)


def test_a_sample_without_a_known_entry_is_not_above_tol():
    X = np.array([[np.nan, np.nan], [1.0, 1.0]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sparse_encode(X, np.eye(2), tol=0.0, missing="nan")
    assert [str(w.message)[:9] for w in caught] == ["1 of 2 sa"]
    assert "no known entry" in str(caught[0].message)
