"""Every kernel, number type, instruction set and thread count against the slow twin; this file also runs sanitized."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict import sparse_encode
from support import twins
from support.compare import Problem, assert_codes_match, assert_greedy
from support.inner import Samples, Threads, encode
from support.pairwise import pairs
from support.problems import LEVELS, make_coder, random_dictionary, smooth_patches

DTYPES = [np.float32, np.float64]
PURSUITS = ["omp", "ols"]
KERNELS = {"level": LEVELS, "dtype": DTYPES, "pursuit": PURSUITS}
EVERY_KERNEL = "level dtype pursuit"
# Sizes around the vectors, panels and blocks of all instruction sets, and features around the depth of a panel.
SHAPES = [(1, 1), (3, 2), (15, 7), (16, 16), (33, 20), (64, 64), (130, 17), (257, 40), (40, 300)]


KNOWN = {}


def twin(Xs, dictionaries, **arguments):
    """Return the codes of the slow twin, worked out once: neither instruction sets nor threads are known to it."""
    key = repr(sorted(arguments.items())), *((A.dtype, A.shape, A.tobytes()) for A in (*Xs, *dictionaries))
    if key not in KNOWN:
        KNOWN[key] = twins.sparse_encode(Xs, dictionaries, **arguments)
    return KNOWN[key].copy()


def check_against_twin(Xs, dictionaries, **arguments):
    views = Xs if len(Xs) > 1 else Xs[0]
    atoms = dictionaries if len(Xs) > 1 else dictionaries[0]
    codes = sparse_encode(views, atoms, **arguments)
    arguments.pop("n_jobs", None)
    dtype = np.result_type(*Xs, *dictionaries)
    expected = twin(Xs, dictionaries, dtype=dtype, **arguments)
    assert codes.dtype == dtype
    problem = Problem.of(Xs, dictionaries, **arguments)
    # Once a single direction is left, every atom removes it: the last choice of OLS is then a tie for all signals.
    ties = 1.0 if problem.pursuit == "ols" and problem.limit == problem.atoms.shape[1] else 0.05
    assert_codes_match(problem, codes, expected, max_ties=ties)
    return codes


@pairs(EVERY_KERNEL, "level dtype shape", **KERNELS, shape=SHAPES)
def test_equals_twin(level, dtype, pursuit, shape, rng):
    n_components, n_features = shape
    X = rng.standard_normal((30, n_features)).astype(dtype)
    D = random_dictionary(rng, n_components, n_features).astype(dtype)
    for limit in (1, 3, 12):
        check_against_twin([X], [D], n_nonzero_coefs=limit, pursuit=pursuit)


@pairs(EVERY_KERNEL, **KERNELS, n_jobs=[1, 2])
def test_equals_twin_on_patches_with_tol(level, dtype, pursuit, n_jobs, rng):
    X = smooth_patches(rng, 60).astype(dtype)
    D = random_dictionary(rng, 128, 64).astype(dtype)
    tol = 0.02 * float(np.mean(np.sum(X**2, axis=1)))
    codes = check_against_twin([X], [D], tol=tol, pursuit=pursuit, n_jobs=n_jobs)
    errors = np.sum((X.astype(float) - codes.toarray().astype(float) @ D.astype(float)) ** 2, axis=1)
    assert np.all(errors <= tol * (1 + 1e-5))
    assert len(set(np.diff(codes.indptr))) > 3, "the tolerance should ask for different numbers of atoms"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pursuit", PURSUITS)
def test_equals_twin_for_weighted_views(level, dtype, pursuit, rng):
    Xs = [rng.standard_normal((40, p)).astype(dtype) for p in (5, 11, 3)]
    dictionaries = [random_dictionary(rng, 50, p).astype(dtype) for p in (5, 11, 3)]
    for weights in (None, [1.0, 0.3, 7.0], [1e-3, 2.0, 5e2]):
        check_against_twin(Xs, dictionaries, n_nonzero_coefs=4, pursuit=pursuit, view_weights=weights)
        check_against_twin(Xs, dictionaries, tol=2.0, pursuit=pursuit, view_weights=weights)


@pairs(EVERY_KERNEL, "level dtype shape", **KERNELS, shape=SHAPES)
def test_equals_twin_without_gram(level, dtype, pursuit, shape, rng, sizes):
    sizes(gram_bytes=0)
    n_components, n_features = shape
    X = rng.standard_normal((60, n_features)).astype(dtype)
    D = random_dictionary(rng, n_components, n_features).astype(dtype)
    check_against_twin([X], [D], n_nonzero_coefs=6, pursuit=pursuit)
    if n_components >= n_features:
        check_against_twin([X], [D], tol=0.1 * n_features, pursuit=pursuit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pursuit", PURSUITS)
def test_few_samples_give_the_same_bits_as_many(level, dtype, pursuit, rng):
    """A few samples are coded with rows of the Gram matrix made on demand; that must not show."""
    X = rng.standard_normal((200, 24)).astype(dtype)
    D = random_dictionary(rng, 200, 24).astype(dtype)
    many = sparse_encode(X, D, n_nonzero_coefs=8, pursuit=pursuit)
    few = sparse_encode(X[:5], D, n_nonzero_coefs=8, pursuit=pursuit)
    np.testing.assert_array_equal(few.toarray(), many[:5].toarray())


@pytest.mark.parametrize(
    ("n_components", "n_features", "limit", "n_samples", "has_gram", "together"),
    [
        (256, 64, 10, 20_000, True, False),
        (256, 64, 64, 20_000, True, False),
        (256, 64, 10, 5, False, False),
        (256, 64, 1, 20_000, False, False),
        (2048, 768, 20, 50, False, True),
        (2048, 768, 20, 50_000, True, False),
    ],
)
def test_the_gram_matrix_is_made_where_it_pays(n_components, n_features, limit, n_samples, has_gram, together, rng):
    D = rng.standard_normal((n_components, n_features)).astype(np.float32)
    coder = make_coder([D], np.ones(1), np.float32, limit=limit, n_samples=n_samples)
    assert coder._plan.has_gram == has_gram
    assert coder.whole_blocks == together
    X = rng.standard_normal((9, n_features)).astype(np.float32)
    coded = encode(coder, Samples([X], X.dtype), Threads()).as_csr(n_components)[0]
    other = sparse_encode(X.astype(float), D.astype(float), n_nonzero_coefs=limit)
    assert np.abs(coded - other).max() < 1e-4 * np.abs(X).max()


@pairs(level=LEVELS, dtype=DTYPES, gram_bytes=[0, 1 << 30])
def test_bits_do_not_depend_on_threads_or_chunks(level, dtype, gram_bytes, rng, sizes):
    sizes(gram_bytes=gram_bytes)
    X = smooth_patches(rng, 500).astype(dtype)
    D = random_dictionary(rng, 100, 64).astype(dtype)
    weights = np.ones(1)
    coder = make_coder([D], weights, X.dtype, limit=20, tol=1e-2, n_samples=500)
    first = encode(coder, Samples([X], X.dtype), Threads())
    for n_jobs, chunk_size in [(1, 1), (1, 7), (2, 50), (3, 333), (4, 1000)]:
        again = encode(coder, Samples([X], X.dtype), Threads(n_jobs), chunk_size=chunk_size)
        for name in ("indptr", "indices", "values", "energy", "status"):
            np.testing.assert_array_equal(getattr(first, name), getattr(again, name))


@pytest.mark.parametrize("dtype", DTYPES)
def test_reported_energy_is_the_squared_residual(level, dtype, rng):
    X = smooth_patches(rng, 200).astype(dtype)
    D = random_dictionary(rng, 100, 64).astype(dtype)
    coder = make_coder([D], np.ones(1), X.dtype, limit=6, n_samples=200)
    coded = encode(coder, Samples([X], X.dtype), Threads())
    residual = X.astype(float) - coded.as_csr(100)[0].toarray().astype(float) @ D.astype(float)
    slack = 100 * np.finfo(dtype).eps * np.sum(X.astype(float) ** 2, axis=1)
    assert np.all(np.abs(coded.energy - np.sum(residual**2, axis=1)) <= slack)


@pairs(EVERY_KERNEL, **KERNELS, gram_bytes=[0, 1 << 30])
def test_awkward_dictionaries(level, dtype, pursuit, gram_bytes, rng, sizes):
    """Duplicates, near-duplicates, zero atoms and linear dependence: no atom twice, no NaN, still greedy."""
    sizes(gram_bytes=gram_bytes)
    X = rng.standard_normal((50, 10)).astype(dtype)
    base = random_dictionary(rng, 12, 10)
    near = base[:4] + 1e-9 * rng.standard_normal((4, 10))
    D = np.vstack([base, base, near, -base[:3], np.zeros((5, 10)), base[:5] + base[5:10]]).astype(dtype)
    problem = Problem.of([X], [D], n_nonzero_coefs=10, pursuit=pursuit)
    codes = sparse_encode(X, D, n_nonzero_coefs=10, pursuit=pursuit)
    assert_greedy(problem, codes)
    zero_atoms = np.flatnonzero(~D.any(axis=1))
    assert np.isfinite(codes.data).all()
    assert not np.isin(codes.indices, zero_atoms).any()


@pairs(EVERY_KERNEL, "level dtype distance", **KERNELS, distance=[1, 2, 3, 5, 16, 17, 40])
def test_of_equal_atoms_the_first_is_chosen(level, dtype, pursuit, distance, rng):
    """They meet in one lane of a vector, in two lanes, in two vectors, panels and blocks."""
    X = rng.standard_normal((50, 12)).astype(dtype)
    D = np.tile(random_dictionary(rng, distance, 12), (4, 1)).astype(dtype)
    codes = sparse_encode(X, D, n_nonzero_coefs=min(distance, 3), pursuit=pursuit)
    assert codes.indices.max() < distance


@pytest.mark.parametrize("dtype", DTYPES)
def test_coding_ends_when_only_rounding_is_left(level, dtype, rng):
    D = random_dictionary(rng, 60, 30).astype(dtype)
    X = (rng.standard_normal((20, 3)) @ D[:3]).astype(dtype)
    codes = sparse_encode(X, D, n_nonzero_coefs=30)
    assert np.diff(codes.indptr).max() < 30, "an exact code needs no atoms for the rounding error"
    np.testing.assert_allclose(codes @ D, X, atol=1e3 * np.finfo(dtype).eps * np.abs(X).max())


@pairs(EVERY_KERNEL, **KERNELS, power=[-36, -20, 20, 36])
def test_scale_of_the_signals_does_not_matter(level, dtype, pursuit, power, rng):
    """Squares of these signals leave float32; further out, those of float64 do (test_properties)."""
    X = rng.standard_normal((20, 16)).astype(dtype)
    D = random_dictionary(rng, 30, 16).astype(dtype)
    scale = dtype(2.0) ** (3 * power)
    expected = sparse_encode(X, D, n_nonzero_coefs=5, pursuit=pursuit)
    scaled = sparse_encode(X * scale, D, n_nonzero_coefs=5, pursuit=pursuit)
    np.testing.assert_array_equal(scaled.indices, expected.indices)
    np.testing.assert_allclose(scaled.data / scale, expected.data, rtol=1e-5 if dtype == np.float32 else 1e-13)


def unit_plan(scales=(1.0,)):
    """Return a plan of three unit vectors, and the arguments of a call that codes one sample."""
    from coupledict.kernels import _native

    identity = [(np.eye(3), np.ones(3))]
    plan = _native.Plan64(identity, list(scales), "", False, lambda: identity)
    settings = _native.Settings(
        n_nonzero=3, room=3, tol=-1.0, pursuit="omp", alpha=0.0, positive=False, method="gram_free"
    )
    outputs = {"energy": np.empty(1), "status": np.empty(1, np.uint8)}
    return plan, {"settings": settings, "workspace": _native.Workspace(), "stop": np.zeros(1, np.int32), **outputs}


def test_kernels_refuse_other_number_types():
    """The bindings convert nothing: what reaches them must be exact."""
    plan, arguments = unit_plan()
    counts, indices, values = plan.encode([np.ones((1, 3))], **arguments)
    assert (counts.tolist(), indices.tolist(), values[0].tolist()) == ([3], [0, 1, 2], [1, 1, 1])
    with pytest.raises((TypeError, RuntimeError)):
        plan.encode([np.ones((1, 3), np.float32)], **arguments)
    with pytest.raises(TypeError):
        plan.encode([np.ones((1, 3))], **(arguments | {"energy": np.empty(1, np.float32)}))
    with pytest.raises(ValueError, match="too short"):
        plan.encode([np.ones((1, 3))], **(arguments | {"energy": np.empty(0)}))
    with pytest.raises(ValueError, match="differ in features"):
        plan.encode([np.ones((1, 4))], **arguments)


def test_an_error_while_precise_atoms_are_made_reaches_the_caller():
    from coupledict.kernels import _native

    atoms = np.ones((2, 3), np.float32) / np.sqrt(np.float32(3))

    def fail():
        raise MemoryError("no room for atoms in float64")

    _, arguments = unit_plan()
    settings = _native.Settings(n_nonzero=2, room=2, tol=-1.0, pursuit="omp", alpha=0.0, positive=False, method="gram")
    plan = _native.Plan32([(atoms, np.ones(2))], [1.0], "", False, fail)
    with pytest.raises(MemoryError, match="no room for atoms"):
        plan.encode([np.array([[1, 2, 4]], np.float32)], **(arguments | {"settings": settings}))


def test_nothing_is_coded_again_once_the_codes_are_no_longer_wanted():
    plan, arguments = unit_plan()
    counts, indices, values = plan.encode([np.ones((1, 3))], **(arguments | {"stop": np.ones(1, np.int32)}))
    assert (counts.tolist(), indices.size, values[0].size) == ([0], 0, 0)
    assert plan.n_retried == 0


def sums_of(counts, indices, n_atoms=3, n_features=2):
    """Call the kernel that adds codes to sums, with ones as samples and coefficients."""
    from coupledict.kernels import _native

    a, b, uses = np.zeros((n_atoms, n_atoms)), np.zeros((n_atoms, n_features)), np.zeros(n_atoms, np.int64)
    counts, indices = np.array(counts, np.int32), np.array(indices, np.int32)
    views = [np.ones((counts.size, n_features))]
    _native.accumulate(views, counts, indices, np.ones(indices.size), a, b, uses, _native.Workspace(), "")
    return a, b, uses


def test_sums_over_codes_with_no_code_at_all():
    for counts in ([], [0, 0]):
        assert not any(array.any() for array in sums_of(counts, []))


@pytest.mark.parametrize(
    ("counts", "indices", "words"),
    [
        ([2, 1], [0, 2, 3], "indices out of range"),
        ([2, 1], [0, -1, 2], "indices out of range"),
        ([2, 1], [0, 2, np.iinfo(np.int32).max], "indices out of range"),
        ([-1, 3], [0, 1], "counts and indices do not fit"),
        ([2, 2], [0, 1, 2], "counts and indices do not fit"),
    ],
)
def test_sums_over_codes_refuse_codes_that_would_leave_the_sums(counts, indices, words):
    np.testing.assert_array_equal(sums_of([2, 1], [0, 2, 2])[2], [1, 0, 2])
    with pytest.raises(ValueError, match=words):
        sums_of(counts, indices)


def test_views_without_scales_are_refused_in_plain_words():
    plan, arguments = unit_plan(scales=(1.0, 1.0))
    with pytest.raises(ValueError, match="expected one scale for each view"):
        plan.encode([np.ones((1, 3))], **arguments)
    with pytest.raises(ValueError, match="expected one scale for each view"):
        unit_plan(scales=())
