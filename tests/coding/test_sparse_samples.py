"""Sparse samples: their rows are coded as dense ones are, a chunk at a time; fits refuse them with the way out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from coupledict import DictionaryLearning, SparseCoder, lasso_gaps, sparse_encode
from coupledict.views import Views
from support.learners import make

FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")


def thin(rng, n=300, width=20):
    """Rows that are mostly zeros."""
    return rng.standard_normal((n, width)) * (rng.random((n, width)) < 0.1)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_codes_are_those_of_dense_rows(rng, form, kind):
    X, D = thin(rng, n=40), rng.standard_normal((30, 20))
    given = getattr(scipy.sparse, f"csr_{kind}")(X).asformat(form)
    wanted = sparse_encode(X, D, n_nonzero_coefs=3).toarray()
    np.testing.assert_array_equal(sparse_encode(given, D, n_nonzero_coefs=3).toarray(), wanted)
    coder = SparseCoder(D, n_nonzero_coefs=3)
    np.testing.assert_array_equal(coder.transform(given).toarray(), wanted)
    np.testing.assert_array_equal(coder.fit(given).transform(given).toarray(), wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.bool_])
def test_number_types(rng, dtype):
    X, D = thin(rng).astype(dtype), rng.standard_normal((30, 20)).astype(np.float32)
    codes = sparse_encode(scipy.sparse.csr_array(X), D, n_nonzero_coefs=3)
    wanted = sparse_encode(X, D, n_nonzero_coefs=3)
    assert codes.dtype == wanted.dtype
    np.testing.assert_array_equal(codes.toarray(), wanted.toarray())


def test_no_more_than_a_chunk_is_dense_at_once(rng):
    places = rng.integers(50_000, size=40_000), rng.integers(200, size=40_000)
    X = scipy.sparse.coo_array((rng.standard_normal(40_000), places), shape=(50_000, 200))
    tracemalloc.start()
    try:
        assert sparse_encode(X, np.eye(200), n_nonzero_coefs=1).nnz > 0
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * 50_000 * 200 / 5


@pytest.mark.parametrize("method", ["transform", "score", "impute"])
def test_fitted_learners_of_views(rng, method):
    X = thin(rng)
    views = [X, X @ rng.standard_normal((20, 6))]
    learner = make(missing="nan").fit(views)
    for given in ([scipy.sparse.csc_array(X), views[1]], Views([scipy.sparse.coo_array(X), views[1]])):
        found, wanted = getattr(learner, method)(given), getattr(learner, method)(views)
        if method == "score":
            assert found == pytest.approx(wanted, rel=1e-9)
        elif method == "transform":
            np.testing.assert_allclose(found.toarray(), wanted.toarray(), atol=1e-9)
        else:
            np.testing.assert_array_equal(found[0], X)
    alone = learner.predict([scipy.sparse.csr_array(X), None], view=1)
    np.testing.assert_allclose(alone, learner.predict([X, None], view=1), atol=1e-9)


def test_a_fitted_learner_of_one_view(rng):
    X = thin(rng)
    learner = DictionaryLearning(30, n_nonzero_coefs=3, max_iter=2, random_state=0).fit(X)
    given = scipy.sparse.csr_array(X)
    np.testing.assert_allclose(learner.transform(given).toarray(), learner.transform(X).toarray(), atol=1e-9)
    assert learner.score(given) == pytest.approx(learner.score(X), rel=1e-9)
    with pytest.raises(ValueError, match="20 features"):
        learner.transform(given[:, 1:])


def test_rows_of_views(rng):
    views = Views([scipy.sparse.coo_array(thin(rng)), rng.standard_normal((300, 4))])
    assert views[:10].shape == (10, 24)


def test_faults_are_told_as_of_dense_rows(rng):
    X, D = thin(rng), rng.standard_normal((30, 20))
    X[7, 3] = X[9, 1] = np.nan
    with pytest.raises(ValueError, match="got NaN in sample 7 and 1 more sample"):
        sparse_encode(scipy.sparse.csr_array(X), D)
    with pytest.raises(ValueError, match="20 features"):
        sparse_encode(scipy.sparse.csr_array(X[:, 1:]), D)
    with pytest.raises(TypeError, match=r"real numbers.*complex128"):
        sparse_encode(scipy.sparse.csr_array(X.astype(complex)), D)
    filled = scipy.sparse.csr_array(X)
    np.testing.assert_array_equal(
        sparse_encode(filled, D, missing="nan").toarray(), sparse_encode(X, D, missing="nan").toarray()
    )


def test_gaps_of_sparse_samples(rng):
    X, D = thin(rng), rng.standard_normal((30, 20))
    codes = sparse_encode(X, D, pursuit="lasso", alpha=0.1)
    found = lasso_gaps(scipy.sparse.csr_array(X), D, codes, alpha=0.1)
    np.testing.assert_array_equal(found, lasso_gaps(X, D, codes, alpha=0.1))


def test_fits_refuse_with_the_way_out(rng):
    X = scipy.sparse.csr_array(thin(rng))
    for fit in (make().fit, make().partial_fit):
        with pytest.raises(TypeError, match=r"X\[0\] to be a dense array.*X\[0\]\.toarray\(\)"):
            fit([X, X])
    with pytest.raises(TypeError, match="toarray"):
        DictionaryLearning().fit(X)
