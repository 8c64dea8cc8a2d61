"""What sparse_encode promises: results, number types, layouts, and errors that help."""

from __future__ import annotations

import itertools
import re
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import orthogonal_mp

from coupledict import sparse_encode
from support.problems import random_dictionary


@pytest.fixture
def X(rng):
    return rng.standard_normal((40, 12))


@pytest.fixture
def D(rng):
    return random_dictionary(rng, 30, 12)


def unit(D):
    return D / np.linalg.norm(D, axis=1, keepdims=True)


# Independent oracles


@pytest.mark.parametrize("limit", [1, 4, 9])
def test_equals_scikit_learn(X, D, limit):
    expected = orthogonal_mp(unit(D).T, X.T, n_nonzero_coefs=limit).T
    np.testing.assert_allclose(sparse_encode(X, unit(D), n_nonzero_coefs=limit).toarray(), expected, atol=1e-10)


def test_equals_scikit_learn_with_tol(X, D):
    expected = orthogonal_mp(unit(D).T, X.T, tol=2.5).T
    np.testing.assert_allclose(sparse_encode(X, unit(D), tol=2.5).toarray(), expected, atol=1e-10)


def test_ols_takes_the_step_that_lowers_the_residual_most(X, D):
    """By brute force: every atom that could come next is tried."""
    codes = sparse_encode(X, D, n_nonzero_coefs=3, pursuit="ols")

    def error(x, support):
        rows = D[list(support)]
        return float(np.sum((x - np.linalg.lstsq(rows.T, x, rcond=None)[0] @ rows) ** 2))

    for x, code in zip(X, codes.toarray(), strict=True):
        support: list[int] = []
        for _ in range(3):
            support.append(min(set(range(30)) - set(support), key=lambda k: error(x, [*support, k])))
        assert set(np.flatnonzero(code)) == set(support)


def test_first_atom_is_the_best_single_atom(X, D):
    codes = sparse_encode(X, D, n_nonzero_coefs=1).toarray()
    errors = [[np.sum((x - (x @ d) / (d @ d) * d) ** 2) for d in D] for x in X]
    np.testing.assert_array_equal(np.abs(codes).argmax(axis=1), np.argmin(errors, axis=1))


def test_all_atoms_give_least_squares(rng):
    X, D = rng.standard_normal((10, 8)), random_dictionary(rng, 5, 8)
    expected = np.linalg.lstsq(D.T, X.T, rcond=None)[0].T
    np.testing.assert_allclose(sparse_encode(X, D, n_nonzero_coefs=5).toarray(), expected, atol=1e-10)


# Reductions between views


def test_one_view_in_a_list_is_the_single_view(X, D):
    single = sparse_encode(X, D, n_nonzero_coefs=4)
    np.testing.assert_array_equal(sparse_encode([X], [D], n_nonzero_coefs=4).toarray(), single.toarray())


def test_identical_views_are_one_view(X, D):
    single = sparse_encode(X, D, n_nonzero_coefs=4).toarray()
    np.testing.assert_allclose(sparse_encode([X, X], [D, D], n_nonzero_coefs=4).toarray(), single, atol=1e-12)


def test_views_are_the_stacked_view(rng, X, D):
    X2, D2 = rng.standard_normal((40, 5)), random_dictionary(rng, 30, 5)
    weights = [0.7, 3.0]
    stacked = sparse_encode(
        np.hstack([X * np.sqrt(0.7), X2 * np.sqrt(3)]),
        np.hstack([D * np.sqrt(0.7), D2 * np.sqrt(3)]),
        n_nonzero_coefs=4,
    )
    codes = sparse_encode([X, X2], [D, D2], n_nonzero_coefs=4, view_weights=weights)
    np.testing.assert_allclose(codes.toarray(), stacked.toarray(), atol=1e-12)


@pytest.mark.parametrize("how", ["none", "zero weight"])
def test_an_absent_view_does_not_count(rng, X, D, how):
    X2, D2 = rng.standard_normal((40, 5)), random_dictionary(rng, 30, 5)
    alone = sparse_encode(X, D, n_nonzero_coefs=4).toarray()
    if how == "none":
        codes = sparse_encode([None, X], [D2, D], n_nonzero_coefs=4)
    else:
        codes = sparse_encode([X2, X], [D2, D], n_nonzero_coefs=4, view_weights=[0, 1])
    np.testing.assert_array_equal(codes.toarray(), alone)


def test_tol_is_the_weighted_squared_joint_residual(rng, X, D):
    X2, D2 = rng.standard_normal((40, 5)), random_dictionary(rng, 30, 5)
    codes = sparse_encode([X, X2], [D, D2], tol=6.0, view_weights=[2.0, 0.5]).toarray()
    energy = 2.0 * np.sum((X - codes @ D) ** 2, axis=1) + 0.5 * np.sum((X2 - codes @ D2) ** 2, axis=1)
    assert np.all(energy <= 6.0 * (1 + 1e-12))
    assert energy.max() > 3.0, "with fewer atoms than needed to pass tol, coding should have stopped near it"


# Results


def test_result_is_a_sorted_csr_array(X, D):
    codes = sparse_encode(X, D, n_nonzero_coefs=5)
    assert isinstance(codes, scipy.sparse.csr_array)
    assert codes.shape == (40, 30)
    for start, stop in itertools.pairwise(codes.indptr):
        assert np.all(np.diff(codes.indices[start:stop]) > 0)
    codes.check_format(full_check=True)


def test_codes_refer_to_the_atoms_as_given(rng, X, D):
    scale = 4.0 ** rng.integers(-5, 5, 30)
    codes = sparse_encode(X, D, n_nonzero_coefs=4).toarray()
    np.testing.assert_allclose(sparse_encode(X, D * scale[:, None], n_nonzero_coefs=4).toarray(), codes / scale)


def test_default_is_a_tenth_of_the_features(rng):
    D = random_dictionary(rng, 64, 45)
    assert set(np.diff(sparse_encode(rng.standard_normal((5, 45)), D).indptr)) == {4}
    small = random_dictionary(rng, 64, 3)
    assert set(np.diff(sparse_encode(rng.standard_normal((5, 3)), small).indptr)) == {1}
    two = sparse_encode([rng.standard_normal((5, 45)), rng.standard_normal((5, 3))], [D, small])
    assert set(np.diff(two.indptr)) == {4}


@pytest.mark.parametrize("limit", [12, 30, 31, 10**12])
def test_a_large_limit_is_clipped(X, D, limit):
    codes = sparse_encode(X, D, n_nonzero_coefs=limit)
    assert np.diff(codes.indptr).max() <= 12
    np.testing.assert_allclose(codes @ D, X, atol=1e-8)


def test_both_limits_hold(X, D):
    codes = sparse_encode(X, D, n_nonzero_coefs=3, tol=4.0)
    energy = np.sum((X - codes @ D) ** 2, axis=1)
    counts = np.diff(codes.indptr)
    assert counts.max() == 3
    assert counts.min() < 3
    assert np.all(energy[counts < 3] <= 4.0)


def test_ties_go_to_the_lowest_index():
    D = np.tile(np.eye(3), (7, 1))
    assert sparse_encode(np.eye(3), D, n_nonzero_coefs=1).indices.tolist() == [0, 1, 2]
    assert sparse_encode(np.eye(3), D, n_nonzero_coefs=1, pursuit="ols").indices.tolist() == [0, 1, 2]


# Edges


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_samples(D, dtype):
    codes = sparse_encode(np.empty((0, 12), dtype), D.astype(dtype))
    assert codes.shape == (0, 30)
    assert codes.dtype == dtype


def test_zero_signals_have_empty_codes(X, D):
    X[[0, 7, 39]] = 0
    counts = np.diff(sparse_encode(X, D, n_nonzero_coefs=4).indptr)
    assert np.flatnonzero(counts == 0).tolist() == [0, 7, 39]


def test_zero_tol_is_exact_coding(rng):
    X, D = rng.standard_normal((20, 8)), random_dictionary(rng, 20, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        codes = sparse_encode(X, D, tol=0)
    np.testing.assert_allclose(codes @ D, X, atol=1e-10)


def test_signals_outside_the_span_warn_once_with_a_count(rng):
    D = np.eye(6)[:3]
    X = rng.standard_normal((10, 6))
    X[:4, 3:] = 0
    with pytest.warns(ConvergenceWarning, match=r"6 of 10 samples did not reach tol=0.001") as record:
        codes = sparse_encode(X, D, tol=1e-3, n_jobs=2)
    assert len(record) == 1
    np.testing.assert_allclose(codes.toarray(), X[:, :3])


def test_without_tol_nothing_warns(rng):
    codes = sparse_encode(rng.standard_normal((10, 6)), np.eye(6)[:3], n_nonzero_coefs=6)
    assert set(np.diff(codes.indptr)) == {3}


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_extreme_scales(X, D, scale):
    codes = sparse_encode(X, D, n_nonzero_coefs=4).toarray()
    np.testing.assert_allclose(sparse_encode(X * scale, D, n_nonzero_coefs=4).toarray() / scale, codes, rtol=1e-9)
    np.testing.assert_allclose(sparse_encode(X, D * scale, n_nonzero_coefs=4).toarray() * scale, codes, rtol=1e-9)
    tiny = sparse_encode(X * 1e-150, D, tol=3e-300)
    np.testing.assert_array_equal(tiny.indices, sparse_encode(X, D, tol=3.0).indices)


def test_coefficients_out_of_range_are_an_error(X, D):
    with pytest.raises(ValueError, match="exceed the range of float64"):
        sparse_encode(X * 1e300, D * 1e-300, n_nonzero_coefs=2)


# Input


@pytest.mark.parametrize(
    ("x_dtype", "d_dtype", "expected"),
    [
        (np.float32, np.float32, np.float32),
        (np.float64, np.float64, np.float64),
        (np.float32, np.float64, np.float64),
        (np.float16, np.float32, np.float32),
        (np.uint8, np.float32, np.float32),
        (np.int16, np.float32, np.float32),
        (bool, np.float32, np.float32),
        (np.int32, np.float32, np.float64),
        (np.int64, np.float32, np.float64),
        (">f8", "f8", np.float64),
        (">f4", "<f4", np.float32),
    ],
)
def test_number_types(X, D, x_dtype, d_dtype, expected):
    X = (X * 20 + 60).astype(x_dtype)
    D = D.astype(d_dtype)
    codes = sparse_encode(X, D, n_nonzero_coefs=3)
    assert codes.dtype == expected
    same = sparse_encode(X.astype(expected), D.astype(expected), n_nonzero_coefs=3)
    np.testing.assert_array_equal(codes.toarray(), same.toarray())


def layouts(X, tmp_path):
    yield "Fortran", np.asfortranarray(X)
    yield "reversed", X[::-1, ::-1][::-1, ::-1]
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
    wide[::2, ::3] = X
    yield "strided", wide[::2, ::3]
    read_only = X.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only
    np.save(tmp_path / "X.npy", X)
    yield "memory map", np.load(tmp_path / "X.npy", mmap_mode="r")
    record = np.zeros(X.shape[0], dtype=[("tag", "u1"), ("row", X.dtype, X.shape[1])])
    record["row"] = X
    yield "unaligned", record["row"]
    yield "list of rows", X.tolist()


@pytest.mark.parametrize("gram", [True, False])
def test_memory_layouts(X, D, tmp_path, gram, sizes):
    if not gram:
        sizes(gram_bytes=0)
    expected = sparse_encode(X, D, n_nonzero_coefs=4).toarray()
    for name, laid_out in layouts(X, tmp_path):
        before = np.array(laid_out)
        np.testing.assert_array_equal(sparse_encode(laid_out, D, n_nonzero_coefs=4).toarray(), expected, err_msg=name)
        np.testing.assert_array_equal(laid_out, before, err_msg=name)
    for name, laid_out in layouts(D, tmp_path):
        np.testing.assert_array_equal(sparse_encode(X, laid_out, n_nonzero_coefs=4).toarray(), expected, err_msg=name)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_not_finite_samples_are_named(X, D, bad, dtype, n_jobs):
    X = X.astype(dtype)
    X[17, 3] = bad
    what = "NaN" if np.isnan(bad) else "infinity"
    with pytest.raises(ValueError, match=f"Expected X to be finite, got {what} in sample 17"):
        sparse_encode(X, D.astype(dtype), n_nonzero_coefs=3, n_jobs=n_jobs)


ok = np.ones((4, 3))
atoms = np.eye(3)


@pytest.mark.parametrize(
    ("X", "dictionary", "arguments", "error", "message"),
    [
        (np.ones(3), atoms, {}, ValueError, "Expected X to have 2 dimensions, got 1"),
        (np.ones((2, 2, 3)), atoms, {}, ValueError, "Expected X to have 2 dimensions, got 3"),
        (np.ones((4, 2)), atoms, {}, ValueError, "Expected X to have 3 features, as its dictionary has, got 2"),
        (ok, np.ones(3), {}, ValueError, "Expected dictionary to have 2 dimensions, got 1"),
        (ok, np.empty((0, 3)), {}, ValueError, "Expected dictionary to have at least one atom and one feature"),
        (ok, [], {}, ValueError, "Expected dictionary to hold at least one array"),
        (ok, [None], {}, ValueError, "Expected dictionary to hold at least one array"),
        (ok, atoms * np.nan, {}, ValueError, "Expected dictionary to be finite"),
        (ok * 1j, atoms, {}, TypeError, "Expected X to hold real numbers of at most 64 bits, got dtype complex128"),
        (ok.astype(object), atoms, {}, TypeError, "at most 64 bits, got dtype object"),
        (ok.astype(np.longdouble), atoms, {}, TypeError, "Expected X to hold real numbers of at most 64 bits"),
        (ok.astype(str), atoms, {}, TypeError, "Expected X to hold real numbers"),
        (ok, scipy.sparse.csr_array(atoms), {}, TypeError, "Expected dictionary to be a dense array, got a sparse one"),
        (ok, atoms, {"tol": -1.0}, ValueError, "Expected tol to be a finite squared norm of at least 0, got -1.0"),
        (ok, atoms, {"tol": np.nan}, ValueError, "Expected tol to be a finite squared norm"),
        (ok, atoms, {"tol": "small"}, TypeError, "Expected tol to be None or a number, got 'small'"),
        (ok, atoms, {"n_nonzero_coefs": 0}, ValueError, "Expected n_nonzero_coefs to be at least 1, got 0"),
        (ok, atoms, {"n_nonzero_coefs": 2.0}, TypeError, "Expected n_nonzero_coefs to be None or an integer, got 2.0"),
        (ok, atoms, {"n_nonzero_coefs": True}, TypeError, "n_nonzero_coefs to be None or an integer, got True"),
        (ok, atoms, {"pursuit": "mp"}, ValueError, "Expected pursuit to be one of ('omp', 'ols', 'lasso'), got 'mp'"),
        (ok, atoms, {"n_jobs": 0}, ValueError, "Expected n_jobs to be at least 1 or at most -1, got 0"),
        (ok, atoms, {"n_jobs": 1.5}, TypeError, "Expected n_jobs to be None or an integer, got 1.5"),
        (ok, atoms, {"view_weights": [1, 2]}, ValueError, "Expected view_weights to hold 1 numbers"),
        (ok, atoms, {"view_weights": [-1]}, ValueError, "Expected view_weights to be finite and not negative"),
        (ok, atoms, {"view_weights": [0]}, ValueError, "Expected a positive weight for at least one"),
        (ok, atoms, {"view_weights": "balanced"}, TypeError, "Expected view_weights to be None or a list of 1 numbers"),
        (ok, atoms, {"view_weights": ["a"]}, TypeError, "Expected view_weights to be a list of numbers"),
        (ok, [atoms, atoms], {}, TypeError, "Expected X to be a list of arrays, one per view"),
        ([ok], [atoms, atoms], {}, ValueError, "Expected 2 views in X, one for each dictionary"),
        ([ok, ok, ok], [atoms, atoms], {}, ValueError, "got 3"),
        ([None, None], [atoms, atoms], {}, ValueError, "Expected at least one view in X, got only None"),
        ([ok, ok], [atoms, None], {}, ValueError, "Expected X[1] to be None, as dictionary[1] is"),
        ([ok, ok[:2]], [atoms, atoms], {}, ValueError, "the same number of samples in every view, got 4 and 2"),
        ([ok, ok[:, :2]], [atoms, atoms], {}, ValueError, "Expected X[1] to have 3 features, as its dictionary"),
        ([ok, ok], [atoms, atoms[:2]], {}, ValueError, "Expected the same number of atoms in every view, got 3 and 2"),
    ],
)  # fmt: skip
def test_bad_input(X, dictionary, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        sparse_encode(X, dictionary, **arguments)
