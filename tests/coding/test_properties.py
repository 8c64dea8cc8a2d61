"""Properties that hold for every problem hypothesis can think of."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from coupledict import sparse_encode


@st.composite
def problems(draw):
    n, K, p = draw(st.integers(1, 6)), draw(st.integers(1, 40)), draw(st.integers(1, 12))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    X, D = rng.standard_normal((n, p)), rng.standard_normal((K, p))
    if draw(st.booleans()):  # small integers make ties, zero atoms, duplicates and dependence common
        X, D = np.round(X), np.round(D)
    return X.astype(dtype), D.astype(dtype), draw(st.integers(1, 14)), draw(st.sampled_from(["omp", "ols"]))


def rounding(X, D):
    return 1e4 * np.finfo(X.dtype).eps * (1 + np.abs(X).max())


@given(problems())
@settings(max_examples=300)
def test_codes_are_projections(problem):
    X, D, limit, pursuit = problem
    codes = sparse_encode(X, D, n_nonzero_coefs=limit, pursuit=pursuit)
    assert np.isfinite(codes.data).all()
    assert np.diff(codes.indptr).max(initial=0) <= min(limit, *D.shape)
    codes.check_format(full_check=True)
    residual = X.astype(float) - codes.toarray().astype(float) @ D.astype(float)
    for i in range(X.shape[0]):
        support = codes.indices[codes.indptr[i] : codes.indptr[i + 1]]
        assert len(set(support)) == len(support)
        atoms = D[support].astype(float)
        # The smallest angle that the kernels accept bounds how much rounding can grow.
        slack = 50 * np.finfo(X.dtype).eps * (np.linalg.cond(atoms) ** 2 if len(support) else 1)
        size = np.linalg.norm(X[i].astype(float))
        assert np.all(np.abs(atoms @ residual[i]) <= slack * size * np.linalg.norm(atoms, axis=1) + 1e-30)
        assert np.linalg.norm(residual[i]) <= size * (1 + slack)


@given(problems())
def test_error_falls_with_every_atom(problem):
    X, D, limit, pursuit = problem
    errors = [
        np.linalg.norm(X - sparse_encode(X, D, n_nonzero_coefs=t, pursuit=pursuit) @ D, axis=1)
        for t in range(1, limit + 1)
    ]
    for fewer, more in itertools.pairwise(errors):
        assert np.all(more <= fewer + rounding(X, D))


@given(problems(), st.integers(-30, 30))
def test_scaling_the_samples_scales_the_codes(problem, power):
    X, D, limit, pursuit = problem
    scale = X.dtype.type(2.0**power)
    codes = sparse_encode(X, D, n_nonzero_coefs=limit, pursuit=pursuit)
    scaled = sparse_encode(X * scale, D, n_nonzero_coefs=limit, pursuit=pursuit)
    np.testing.assert_array_equal(scaled.indices, codes.indices)
    np.testing.assert_allclose(scaled.data, codes.data * scale, rtol=1e-3 if X.dtype == np.float32 else 1e-10)


@given(problems(), st.randoms(use_true_random=False))
def test_samples_are_coded_one_by_one(problem, random):
    X, D, limit, pursuit = problem
    order = list(range(X.shape[0]))
    random.shuffle(order)
    codes = sparse_encode(X, D, n_nonzero_coefs=limit, pursuit=pursuit).toarray()
    shuffled = sparse_encode(X[order], D, n_nonzero_coefs=limit, pursuit=pursuit).toarray()
    np.testing.assert_array_equal(shuffled, codes[order])


@given(problems(), st.floats(1e-3, 1e2))
def test_tol_is_kept_and_not_overdone(problem, tol):
    X, D, _, pursuit = problem
    D = np.vstack([D, np.eye(D.shape[1], dtype=D.dtype)])  # every sample can be reached
    codes = sparse_encode(X, D, tol=tol, pursuit=pursuit)
    assert np.all(np.sum((X.astype(float) - codes @ D.astype(float)) ** 2, axis=1) <= tol * (1 + 1e-3))
    counts = np.diff(codes.indptr)
    for i in np.flatnonzero(counts > 1):
        fewer = sparse_encode(X[i : i + 1], D, n_nonzero_coefs=int(counts[i]) - 1, pursuit=pursuit)
        assert np.sum((X[i].astype(float) - fewer @ D.astype(float)) ** 2) > tol * (1 - 1e-3)


@given(
    hnp.arrays(
        st.sampled_from([np.float16, np.int8, np.uint16, np.int64, np.float32, np.float64, np.bool_]),
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9),
        elements=None,
    )
)
@settings(max_examples=200)
def test_any_array_of_numbers_is_coded_or_refused_clearly(X):
    D = np.vstack([np.eye(max(X.shape[1], 1))] * 2)
    try:
        codes = sparse_encode(X, D, n_nonzero_coefs=2)
    except ValueError as error:
        assert "Expected X" in str(error)  # noqa: PT017
        assert X.shape[1] == 0 or not np.isfinite(X).all()
    else:
        assert codes.shape == (X.shape[0], 2 * X.shape[1])
        assert np.isfinite(codes.data).all()
