"""Non-negative pursuits against their slow twin; this file also runs sanitized."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from coupledict import CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, SparseCoder
from coupledict import sparse_encode as encode_any
from coupledict.coding.passes import encode
from coupledict.coding.samples import Samples
from support import twins
from support.coherent import FAMILIES, SIGNALS, condition, make_atoms, make_signals
from support.compare import Problem
from support.constrained_twins import (
    assert_positive_codes_match,
    encode_positive,
    encode_positive_support,
    fault_of_positive_code,
)
from support.inner import Threads
from support.learners import make, planted_views
from support.masked_twins import cut_problems, knock_out
from support.pairwise import pairs
from support.problems import LEVELS, encode_with, make_coder, random_dictionary

DTYPES = [np.float32, np.float64]
PURSUITS = ["omp", "ols"]
# Sizes around the vectors, panels and blocks of all instruction sets.
SHAPES = [(1, 1), (3, 2), (16, 16), (33, 20), (64, 64), (130, 17), (20, 70)]
dtypes = pytest.mark.parametrize("dtype", DTYPES)
pursuits = pytest.mark.parametrize("pursuit", PURSUITS)
KERNELS = {"level": LEVELS, "dtype": DTYPES, "pursuit": PURSUITS}
KNOWN: dict = {}


def sparse_encode(*arguments, **options):
    return encode_any(*arguments, positive_code=True, **options)


def twin(problem):
    """Return the codes of the slow twin, worked out once: neither instruction sets nor threads are known to it."""
    key = *problem.atoms.shape, problem.limit, problem.tol, problem.pursuit, problem.dtype
    key = *key, problem.signals.tobytes(), problem.atoms.tobytes()
    if key not in KNOWN:
        KNOWN[key] = encode_positive(problem)
    return KNOWN[key]


def check_against_twin(Xs, dictionaries, *, gram=None, max_ties=0.05, **arguments):
    codes = encode_with(gram, Xs, dictionaries, positive_code=True, **arguments)
    assert codes.dtype == np.result_type(*Xs, *dictionaries)
    assert np.all(codes.data > 0)
    problem = Problem.of(Xs, dictionaries, **arguments)
    assert_positive_codes_match(problem, codes, twin(problem), max_ties=max_ties)
    return codes


@pairs("level dtype pursuit gram", "level dtype shape", **KERNELS, gram=[True, False], shape=SHAPES)
def test_equals_twin(level, dtype, pursuit, gram, shape, rng):
    n_components, n_features = shape
    X = rng.standard_normal((20, n_features)).astype(dtype)
    D = random_dictionary(rng, n_components, n_features).astype(dtype)
    for limit in (1, 3, 12):
        check_against_twin([X], [D], gram=gram, n_nonzero_coefs=limit, pursuit=pursuit, max_ties=0.1)


@pairs(**KERNELS)
def test_atoms_leave(level, dtype, pursuit, rng):
    """Atoms and samples without negative entries: what was chosen first is often given back."""
    D = np.abs(rng.standard_normal((40, 25))).astype(dtype)
    X = np.abs(rng.standard_normal((40, 40))) * (rng.random((40, 40)) < 0.15) @ D
    X = (X + 0.1 * rng.standard_normal(X.shape)).astype(dtype)
    codes = check_against_twin([X], [D], n_nonzero_coefs=12, pursuit=pursuit)
    one_by_one = encode_any(X, D, n_nonzero_coefs=12, pursuit=pursuit)
    assert np.any(np.diff(codes.indptr) < 12)
    assert one_by_one.data.min() < 0


@pairs(**KERNELS)
def test_a_tolerance(level, dtype, pursuit, rng):
    D = random_dictionary(rng, 100, 12).astype(dtype)
    X = rng.standard_normal((40, 12)).astype(dtype)
    codes = check_against_twin([X], [D], tol=1.5, pursuit=pursuit, max_ties=0.1)
    errors = np.sum((X.astype(float) - codes.toarray().astype(float) @ D.astype(float)) ** 2, axis=1)
    assert np.all(errors <= 1.5 * (1 + 1e-5))
    assert len(set(np.diff(codes.indptr))) > 3


def test_what_cannot_reach_the_tolerance_is_told(rng):
    X = np.abs(rng.standard_normal((10, 6)))
    X[:4] *= -1
    with pytest.warns(UserWarning, match="4 of 10 samples did not reach tol"):
        codes = sparse_encode(X, np.eye(6), tol=1e-9)
    np.testing.assert_allclose(codes.toarray(), np.maximum(X, 0))


@pairs(**KERNELS)
def test_weighted_views(level, dtype, pursuit, rng):
    Xs = [rng.standard_normal((20, p)).astype(dtype) for p in (5, 11, 3)]
    Ds = [random_dictionary(rng, 50, p).astype(dtype) for p in (5, 11, 3)]
    for weights in (None, [1.0, 0.3, 7.0], [1e-3, 2.0, 5e2]):
        check_against_twin(Xs, Ds, n_nonzero_coefs=4, pursuit=pursuit, view_weights=weights, max_ties=0.1)
    two = sparse_encode([Xs[0], None, Xs[2]], Ds, n_nonzero_coefs=4, pursuit=pursuit)
    assert (two != sparse_encode([Xs[0], Xs[2]], [Ds[0], Ds[2]], n_nonzero_coefs=4, pursuit=pursuit)).nnz == 0
    zero = sparse_encode(Xs, Ds, n_nonzero_coefs=4, pursuit=pursuit, view_weights=[1, 0, 1])
    assert (two != zero).nnz == 0


@pairs("level dtype pursuit", **KERNELS, gram=[True, False])
def test_missing_entries(level, dtype, pursuit, gram, rng):
    Xs = [rng.standard_normal((30, p)).astype(dtype) for p in (7, 12)]
    Ds = [random_dictionary(rng, 40, p).astype(dtype) for p in (7, 12)]
    few, many = ([X[:15] for X in Xs], 0.15), ([X[15:] for X in Xs], 0.7)
    Xs = [np.vstack(pair) for pair in zip(*(knock_out(rng, *half, absent=0.1) for half in (few, many)), strict=True)]
    for X in Xs:
        X[3], X[20] = np.nan, np.nan  # nothing known
    Xs[0][20, 2] = 1.5
    options = {"n_nonzero_coefs": 5, "pursuit": pursuit, "view_weights": [1, 2]}
    with pytest.warns(UserWarning, match="no known entry"):
        codes = encode_with(gram, Xs, Ds, missing="nan", positive_code=True, **options).toarray()
    assert not codes[3].any()
    assert np.count_nonzero(codes[20]) == 1
    problems = cut_problems(Xs, Ds, **options)
    others = 0
    for code, problem in zip(codes.astype(float), problems, strict=True):
        if not problem.signals.size:
            continue
        expected = twin(problem)
        # Once a single direction is left, every atom that has some of it explains it all.
        tie = problem.signals.size == 1 or (pursuit == "ols" and problem.limit == problem.signals.size)
        others += np.any((code != 0) != (expected[0] != 0)) and not tie
        assert_positive_codes_match(problem, code[None], expected)
    assert others <= 3


@pairs(**KERNELS)
def test_the_bits_depend_on_nothing_else(level, dtype, pursuit, rng):
    X = rng.standard_normal((150, 24)).astype(dtype)
    D = random_dictionary(rng, 120, 24).astype(dtype)
    D[60:64] = D[:4] + 1e-3 * rng.standard_normal((4, 24)).astype(dtype)  # some samples are doubtful
    options = {"n_nonzero_coefs": 9, "pursuit": pursuit}
    whole = sparse_encode(X, D, **options).toarray()
    np.testing.assert_array_equal(sparse_encode(X, D, **options, n_jobs=2).toarray(), whole)
    np.testing.assert_array_equal(sparse_encode(X[:3], D, **options).toarray(), whole[:3])
    np.testing.assert_array_equal(sparse_encode(X[70:71], D, **options).toarray(), whole[70:71])
    coder = make_coder([D], [1], dtype, limit=9, pursuit=pursuit, positive=True, n_samples=150)
    cut = encode(coder, Samples([X], np.dtype(dtype)), Threads(2), chunk_size=7).as_csr(120)[0]
    np.testing.assert_array_equal(cut.toarray(), whole)
    np.testing.assert_array_equal(sparse_encode(X, D, **options, missing="nan").toarray(), whole)


@pairs(**KERNELS)
def test_ties_go_to_the_lowest_index(level, dtype, pursuit, rng):
    D = random_dictionary(rng, 20, 8).astype(dtype)
    X = rng.standard_normal((30, 8)).astype(dtype)
    once = sparse_encode(X, D, n_nonzero_coefs=4, pursuit=pursuit).toarray()
    twice = sparse_encode(X, np.vstack([D, D]), n_nonzero_coefs=4, pursuit=pursuit).toarray()
    assert not twice[:, 20:].any()
    same = np.all((once != 0) == (twice[:, :20] != 0), axis=1)
    assert same.mean() > 0.9
    np.testing.assert_allclose(twice[same][:, :20], once[same], rtol=2e-3 if dtype == np.float32 else 1e-9)


@pairs(**KERNELS)
def test_scales(level, dtype, pursuit, rng):
    plain = random_dictionary(rng, 30, 8).astype(dtype)
    X = rng.standard_normal((20, 8)).astype(dtype)
    codes = sparse_encode(X, plain, n_nonzero_coefs=4, pursuit=pursuit)
    powers = rng.integers(-100, 100, (30, 1))
    scaled = sparse_encode(X, np.ldexp(plain, powers), n_nonzero_coefs=4, pursuit=pursuit)
    np.testing.assert_array_equal(np.ldexp(scaled.toarray(), powers.T), codes.toarray())
    with_zeros = np.vstack([np.zeros((3, 8), dtype), plain])
    shifted = sparse_encode(X, with_zeros, n_nonzero_coefs=4, pursuit=pursuit).toarray()
    np.testing.assert_array_equal(shifted[:, 3:], codes.toarray())
    assert not shifted[:, :3].any()
    for power in (-100, 100) if dtype == np.float32 else (-660, 660):
        far = sparse_encode(np.ldexp(X, power), plain, n_nonzero_coefs=4, pursuit=pursuit)
        np.testing.assert_array_equal(far.indices, codes.indices)
        np.testing.assert_allclose(far.toarray(), np.ldexp(codes.toarray(), power), rtol=1e-4)


@pairs(**KERNELS)
def test_what_has_no_code(level, dtype, pursuit, rng):
    """Only negative correlations, zero samples, zero atoms."""
    D = np.abs(rng.standard_normal((20, 9))).astype(dtype)
    X = -np.abs(rng.standard_normal((5, 9))).astype(dtype)
    assert sparse_encode(X, D, n_nonzero_coefs=3, pursuit=pursuit).nnz == 0
    assert sparse_encode(np.zeros_like(X), D, n_nonzero_coefs=3, pursuit=pursuit).nnz == 0
    assert sparse_encode(X, np.zeros_like(D), n_nonzero_coefs=3, pursuit=pursuit).nnz == 0


# Coherent atoms


@pairs(dtype=DTYPES, pursuit=PURSUITS, family=FAMILIES)
def test_coherent_atoms(rng, dtype, pursuit, family):
    """Over its own atoms, a code is the best one; it ends where nothing positive is left, and does no harm."""
    for number in range(8):
        D = make_atoms(rng, family, int(rng.integers(5, 100)), int(rng.integers(8, 60)))
        X = make_signals(rng, rng.choice(SIGNALS), D, 8)
        if number % 2:
            D, X = np.abs(D), np.abs(X)
        limit = int(rng.integers(1, min(*D.shape, 30) + 1))
        codes = sparse_encode(X.astype(dtype), D.astype(dtype), n_nonzero_coefs=limit, pursuit=pursuit).toarray()
        assert np.isfinite(codes).all()
        assert codes.min() >= 0
        assert np.count_nonzero(codes, axis=1).max() <= limit
        judged = condition(D) < 1e5
        for x, code in zip(X, codes.astype(float), strict=True):
            size, support = np.linalg.norm(x), np.flatnonzero(code)
            error = np.linalg.norm(x - code @ D)
            assert error <= size * (1 + 1e-6)
            if not judged and dtype == np.float32:
                continue
            share = 1e-3 if dtype == np.float32 else 1e-7
            if len(support):
                assert error <= nnls(D[support].T, x)[1] + share * size
            if len(support) < limit:
                assert error <= nnls(D.T, x, maxiter=10_000)[1] + share * size


@pursuits
def test_float32_does_not_give_up(rng, pursuit):
    """A few directions and a little noise: soon no atom has as much left as a fast method compares."""
    for number in range(12):
        D = rng.standard_normal((85, 1 + number % 4)) @ rng.standard_normal((1 + number % 4, 22))
        D += 10 ** rng.uniform(-3.5, -1) * rng.standard_normal(D.shape)
        D = (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(np.float32)
        X = rng.standard_normal((12, 22)).astype(np.float32)
        single = sparse_encode(X, D, n_nonzero_coefs=15, pursuit=pursuit)
        double = sparse_encode(X.astype(float), D.astype(float), n_nonzero_coefs=15, pursuit=pursuit)
        mine, theirs = (np.linalg.norm(X - codes.astype(float) @ D, axis=1) for codes in (single, double))
        assert np.mean(np.diff(single.indptr) == np.diff(double.indptr)) > 0.9
        assert np.all(mine <= theirs + 0.1 * np.linalg.norm(X, axis=1))


@pairs(**KERNELS)
def test_equations_are_solved_however_many_atoms_almost_depend(level, dtype, pursuit, rng):
    """The inverse of a Gram matrix loses digits with each atom that has little left."""
    smooth = np.polynomial.legendre.legval(np.linspace(-1, 1, 36), rng.standard_normal((4, 98)))
    flat = rng.standard_normal((98, 3)) @ rng.standard_normal((3, 36))
    for D in (smooth + 1e-4 * rng.standard_normal((98, 36)), flat + 1e-3 * rng.standard_normal((98, 36))):
        atoms = (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(dtype)
        X = np.cumsum(rng.standard_normal((40, 36)), axis=1).astype(dtype)
        codes = sparse_encode(X, atoms, n_nonzero_coefs=13, pursuit=pursuit).toarray().astype(float)
        for x, code in zip(X.astype(float), codes, strict=True):
            support, error = np.flatnonzero(code), np.linalg.norm(x - code @ atoms.astype(float))
            share = 1e-4 if dtype == np.float32 else 1e-9
            assert error <= nnls(atoms[support].T.astype(float), x)[1] + share * np.linalg.norm(x)


@pytest.mark.slow
@pytest.mark.parametrize(("pursuit", "coupling"), [("omp", "code"), ("ols", "code"), ("omp", "support")])
def test_tolerances_a_little_below_a_residual(level, pursuit, coupling, rng):
    """With large coefficients the running residual has large errors; near tol, it is computed anew."""
    options = {"pursuit": pursuit, "coupling": coupling, "positive": True, "n_samples": 1}

    def error_of(x, D, **limits):
        coder = make_coder([D], [1], np.float32, **limits, **options)
        code = encode(coder, Samples([x[None]], np.dtype(np.float32)), Threads()).as_csr(85)[0].toarray()[0]
        return np.sum((x.astype(float) - code.astype(float) @ D.astype(float)) ** 2)

    for _ in range(12):
        D = rng.standard_normal((85, 3)) @ rng.standard_normal((3, 39))
        D += 10 ** rng.uniform(-1.6, -0.8) * rng.standard_normal(D.shape)
        D = (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(np.float32)
        for x in rng.standard_normal((12, 39)).astype(np.float32):
            x /= np.linalg.norm(x)
            error = error_of(x, D, limit=10)
            for below in (1e-6, 3e-6, 1e-5):
                assert error_of(x, D, tol=error - below) <= error - below + 1e-8


@pytest.mark.parametrize("coupling", ["code", "support"])
def test_float32_tells_what_its_rounding_misses(rng, coupling):
    """Coefficients are so large that float32 cannot hold the digits that tol asks for."""
    D = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 9)) + 1e-4 * rng.standard_normal((40, 9))
    D = (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(np.float32)
    X = rng.standard_normal((60, 9)).astype(np.float32)
    coder = make_coder([D], [1], np.float32, tol=1e-8, coupling=coupling, positive=True, n_samples=60)
    coded = encode(coder, Samples([X], np.dtype(np.float32)), Threads())
    energy = np.sum((X - coded.as_csr(40)[0].astype(float) @ D.astype(float)) ** 2, axis=1)
    missed = np.count_nonzero(energy > 1e-8 * (1 + 1e-6))
    assert 10 < missed < 55
    assert coder.count_unreached(coded) == missed


# One support for all views


def encode_support(Xs, Ds, *, limit, tol=None, weights=None):
    dtype = np.result_type(*Xs)
    weights = np.ones(len(Xs)) if weights is None else weights
    coder = make_coder(
        Ds, weights, dtype, limit=limit, tol=tol, coupling="support", positive=True, n_samples=len(Xs[0])
    )
    return [codes.toarray() for codes in encode(coder, Samples(Xs, dtype), Threads()).as_csr(len(Ds[0]))]


def check_support(Xs, Ds, codes, expected, limit, max_ties):
    """Few supports differ; with an equal one, each view has the same coefficients."""
    used = [np.any([c[i] for c in codes], axis=0) for i in range(len(Xs[0]))]
    wanted = [np.any([c[i] for c in expected], axis=0) for i in range(len(Xs[0]))]
    same = [i for i in range(len(Xs[0])) if np.array_equal(used[i], wanted[i])]
    assert len(same) >= (1 - max_ties) * len(Xs[0]) - 1
    rounding = 300 * np.finfo(codes[0].dtype).eps
    for X, D, code, other in zip(Xs, Ds, codes, expected, strict=True):
        assert code.min() >= 0
        assert np.count_nonzero(code, axis=1).max() <= limit
        unit, norms = twins.unit_atoms(D.astype(float))
        for i in range(len(X)):
            support = np.flatnonzero(used[i])
            x, size = X[i].astype(float), np.linalg.norm(X[i].astype(float))
            spread = np.linalg.cond(unit[support][norms[support] > 0]) ** 2 if norms[support].any() else 1
            least = nnls(unit[support].T, x)[1] if len(support) else size
            assert np.linalg.norm(x - (code[i] * norms) @ unit) <= least + rounding * min(spread, 1e4) * size
            if i in same:
                assert np.linalg.norm((code[i] - other[i]) * norms) <= rounding * spread * size


@pairs(level=LEVELS, dtype=DTYPES, widths=[(1,), (9, 5), (16, 30, 7)])
def test_a_common_support_equals_the_twin(level, dtype, widths, rng):
    for n_components in (3, 40):
        Xs = [rng.standard_normal((20, p)).astype(dtype) for p in widths]
        Ds = [random_dictionary(rng, n_components, p).astype(dtype) for p in widths]
        limit = min(4, n_components, *widths)
        for weights in (None, [0.3, 4.0, 1.0][: len(widths)]):
            codes = encode_support(Xs, Ds, limit=limit, weights=weights)
            check_support(Xs, Ds, codes, encode_positive_support(Xs, Ds, limit, weights=weights), limit, 0.1)


@dtypes
def test_a_common_support_with_a_tolerance(level, dtype, rng):
    Xs = [rng.standard_normal((20, p)).astype(dtype) for p in (8, 9)]
    Ds = [random_dictionary(rng, 60, p).astype(dtype) for p in (8, 9)]
    codes = encode_support(Xs, Ds, limit=None, tol=6.0)
    check_support(Xs, Ds, codes, encode_positive_support(Xs, Ds, 8, tol=6.0), 8, 0.1)
    energy = sum(np.sum((X - c @ D) ** 2, axis=1) for X, c, D in zip(Xs, codes, Ds, strict=True))
    nonzeros = np.count_nonzero(sum(codes), axis=1)
    assert np.all((energy <= 6.0 * (1 + 1e-5)) | (nonzeros == 8))
    assert len(set(nonzeros)) > 2


@dtypes
def test_views_of_different_scales_share_a_support(level, dtype, rng):
    """Rounding errors of a large view do not drown a small one."""
    Ds = [rng.standard_normal((30, p)).astype(dtype) for p in (10, 8)]
    C = np.abs(rng.standard_normal((20, 30))) * (rng.random((20, 30)) < 0.1)
    Xs = [(C @ D).astype(dtype) for D in Ds]
    large = encode_support([Xs[0], Xs[1] * dtype(1e-6)], Ds, limit=5)
    small = encode_support([Xs[0], Xs[1] * dtype(1e-9)], Ds, limit=5)
    np.testing.assert_array_equal(large[0], small[0])
    np.testing.assert_allclose(small[1] * 1e3, large[1], rtol=0, atol=1e-8 if dtype == np.float32 else 1e-14)
    assert large[1].max() > 1e-7


@dtypes
def test_coherent_atoms_with_a_common_support(rng, dtype):
    for number in range(12):
        family = FAMILIES[number % len(FAMILIES)]
        Ds = [make_atoms(rng, family, 40, p) for p in (25, 30)]
        Xs = [np.abs(make_signals(rng, "mixtures", D, 8)).astype(dtype) for D in Ds]
        codes = encode_support(Xs, [D.astype(dtype) for D in Ds], limit=12)
        for X, D, code in zip(Xs, Ds, codes, strict=True):
            assert np.isfinite(code).all()
            assert code.min() >= 0
            sizes, errors = np.linalg.norm(X.astype(float), axis=1), np.linalg.norm(X - code.astype(float) @ D, axis=1)
            assert np.all(errors <= sizes * (1 + 1e-6))
            if condition(D) > 1e5 and dtype == np.float32:
                continue
            for i, x in enumerate(X.astype(float)):
                support = np.flatnonzero(sum(codes)[i])
                least = nnls(D[support].T, x)[1] if len(support) else sizes[i]
                assert errors[i] <= least + (1e-3 if dtype == np.float32 else 1e-7) * sizes[i]


def test_zeros_with_a_common_support(level, rng):
    Xs = [np.abs(rng.standard_normal((6, p))) for p in (5, 4)]
    Xs[0][0], Xs[1][1] = 0, 0
    Xs[0][2], Xs[1][2] = 0, 0
    Xs[0][3] *= -1
    Ds = [np.abs(rng.standard_normal((10, p))) for p in (5, 4)]
    Ds[1][4] = 0
    codes = encode_support(Xs, Ds, limit=3)
    check_support(Xs, Ds, codes, encode_positive_support(Xs, Ds, 3), 3, 0)
    assert not codes[0][[0, 2, 3]].any()
    assert not codes[1][[1, 2]].any()
    assert codes[1][[0, 3]].any(axis=1).all()


# The comparison itself


def test_the_comparison_refuses_other_codes(rng):
    problem = Problem.of([rng.standard_normal((20, 12))], [random_dictionary(rng, 30, 12)], n_nonzero_coefs=3)
    expected = encode_positive(problem)
    assert_positive_codes_match(problem, expected, expected)
    for change, sentence in (
        (expected[:, :-1], "shape"), (-expected, "negative"), (expected * 1.001, "its residual is"),
        (np.where(expected == expected.max(axis=1, keepdims=True), 0, expected), "it stops at|its residual is"),
        (np.abs(rng.standard_normal(expected.shape)), "more than 3"), (expected * np.nan, "not finite"),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=sentence):
            assert_positive_codes_match(problem, change, expected)
    with pytest.raises(AssertionError, match="chose other atoms"):
        assert_positive_codes_match(problem, expected, np.roll(expected, 1, axis=1))
    assert "it stops at 0" in fault_of_positive_code(problem, np.zeros(30), problem.signals[0])


# Learners


@pytest.mark.parametrize("update", ["statistics", "sequential"])
@pytest.mark.parametrize("options", [{}, {"pursuit": "ols"}, {"coupling": "support"}, {"missing": "nan"}], ids=str)
def test_learners_have_codes_without_negative_coefficients(update, options, rng):
    Xs = planted_views(rng)[0]
    if "missing" in options:
        Xs[0][rng.random(Xs[0].shape) < 0.1] = np.nan
    learner = make(update=update, positive_code=True, **options)
    codes = learner.fit(Xs).transform(Xs)
    for found in codes if isinstance(codes, list | tuple) else [codes]:
        assert found.nnz > 100
        assert found.data.min() >= 0
    assert learner.score(Xs) > 0.2


def test_other_estimators(rng, tmp_path):
    X = planted_views(rng)[0][0]
    for learner in (
        DictionaryLearning(8, n_nonzero_coefs=2, positive_code=True, max_iter=3, random_state=0),
        OnlineDictionaryLearning(8, n_nonzero_coefs=2, positive_code=True, batch_size=60, max_iter=2, random_state=0),
    ):
        given = [X] if isinstance(learner, OnlineDictionaryLearning) else X
        codes = learner.fit(given).transform(given)
        assert codes.data.min() > 0
        D = learner.components_[0] if given is not X else learner.components_
        coder = SparseCoder(D, n_nonzero_coefs=2, positive_code=True)
        np.testing.assert_array_equal(coder.fit(X).transform(X).toarray(), codes.toarray())
        np.testing.assert_array_equal(sparse_encode(X, D, n_nonzero_coefs=2).toarray(), codes.toarray())


@pytest.mark.parametrize("value", ["yes", 1, None, [True]], ids=str)
def test_true_or_false_and_nothing_else(value, rng):
    X = rng.standard_normal((20, 4))
    with pytest.raises(TypeError, match="positive_code to be True or False"):
        encode_any(X, np.eye(4), n_nonzero_coefs=1, positive_code=value)
    for kind in (CoupledDictionaryLearning, OnlineDictionaryLearning):
        with pytest.raises(TypeError, match="positive_code to be True or False"):
            kind(3, positive_code=value).fit([X, X])
    for learner in (DictionaryLearning(3, positive_code=value), SparseCoder(np.eye(4), positive_code=value)):
        with pytest.raises(TypeError, match="positive_code to be True or False"):
            learner.fit(X).transform(X)
