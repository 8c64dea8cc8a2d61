from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from coupledict import SparseCoder, sparse_encode
from support.problems import random_dictionary


@pytest.fixture
def X(rng):
    return rng.standard_normal((30, 6))


@pytest.fixture
def D(rng):
    return random_dictionary(rng, 10, 6)


def test_transform_is_sparse_encode(X, D):
    coder = SparseCoder(D, n_nonzero_coefs=2, pursuit="ols", n_jobs=2)
    np.testing.assert_array_equal(
        coder.fit_transform(X).toarray(), sparse_encode(X, D, n_nonzero_coefs=2, pursuit="ols").toarray()
    )


def test_needs_no_fit(X, D):
    assert SparseCoder(D).transform(X).shape == (30, 10)


def test_views_round_trip(rng, X, D):
    X2, D2 = rng.standard_normal((30, 4)), random_dictionary(rng, 10, 4)
    coder = SparseCoder([D, D2], n_nonzero_coefs=3, view_weights=[1, 2]).fit([X, X2])
    codes = coder.transform([X, None])
    first, second = coder.inverse_transform(codes)
    np.testing.assert_allclose(first, codes.toarray() @ D)
    np.testing.assert_allclose(second, codes.toarray() @ D2)


def test_in_a_pipeline_and_a_grid_search(X, D):
    y = X[:, 0] > 0
    pipeline = make_pipeline(StandardScaler(), SparseCoder(D), RidgeClassifier())
    search = GridSearchCV(pipeline, {"sparsecoder__n_nonzero_coefs": [1, 5]}, cv=3).fit(X, y)
    assert search.best_params_ == {"sparsecoder__n_nonzero_coefs": 5}


def test_clone_and_pickle(X, D):
    coder = SparseCoder(D, tol=0.5)
    for copy in (clone(coder), pickle.loads(pickle.dumps(coder))):
        np.testing.assert_array_equal(copy.transform(X).toarray(), coder.transform(X).toarray())


def test_set_output(X, D):
    frame = SparseCoder(D, sparse_output=False).set_output(transform="pandas").fit_transform(X)
    assert frame.columns.tolist() == [f"sparsecoder{i}" for i in range(10)]


def test_dense_output(X, D):
    coder = SparseCoder(D, sparse_output=False)
    assert isinstance(coder.transform(X), np.ndarray)
    assert coder.get_feature_names_out().tolist() == [f"sparsecoder{i}" for i in range(10)]


def test_inverse_transform_takes_dense_and_sparse(X, D):
    coder = SparseCoder(D, n_nonzero_coefs=2)
    codes = coder.transform(X)
    np.testing.assert_allclose(coder.inverse_transform(codes), coder.inverse_transform(codes.toarray()))
    np.testing.assert_allclose(
        coder.inverse_transform(scipy.sparse.coo_array(codes)), coder.inverse_transform(codes.toarray())
    )


def test_bad_input(X, D):
    with pytest.raises(ValueError, match="Expected X to have 6 features"):
        SparseCoder(D).fit(X[:, :5])
    with pytest.raises(ValueError, match="Expected codes of shape"):
        SparseCoder(D).inverse_transform(np.ones((3, 9)))
