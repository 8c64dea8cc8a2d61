"""DictionaryLearning as a scikit-learn user meets it: checks, pipelines, searches, names; and what it recovers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from coupledict import DictionaryLearning, sparse_encode

UPDATES = ["statistics", "sequential", "ksvd", "mod"]


@parametrize_with_checks([DictionaryLearning(), DictionaryLearning(update="sequential", sparse_output=False)])
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


def planted(rng, n, n_components, n_features, n_nonzero, noise=0.01):
    """Samples that are sparse over a random dictionary with atoms of norm 1, and that dictionary."""
    D = rng.standard_normal((n_components, n_features))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    codes = np.zeros((n, n_components))
    for code in codes:
        chosen = rng.choice(n_components, n_nonzero, replace=False)
        code[chosen] = rng.choice([-1, 1], n_nonzero) * rng.uniform(1, 2, n_nonzero)
    return codes @ D + noise * rng.standard_normal((n, n_features)), D


@pytest.fixture
def X(rng):
    return planted(rng, 200, 12, 8, 2)[0]


def make(**parameters):
    return DictionaryLearning(12, **({"n_nonzero_coefs": 2, "max_iter": 4, "random_state": 0} | parameters))


# What it learns


def recovered(D, planted_atoms):
    return int(np.count_nonzero(np.abs(D @ planted_atoms.T).max(axis=0) > 0.99))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("update", UPDATES)
def test_planted_atoms_are_recovered(rng, update, dtype):
    X, atoms = planted(rng, 1500, 24, 20, 3)
    learner = DictionaryLearning(24, n_nonzero_coefs=3, schedule="constant", update=update, random_state=0)
    assert recovered(learner.fit(X.astype(dtype)).components_, atoms) >= 16
    assert recovered(learner.set_params(max_iter=1).fit(X).components_, atoms) < 4, "the start is not the answer"


def test_shapes_and_number_types(X):
    for dtype in (np.float32, np.float64):
        learner = make().fit(X.astype(dtype))
        codes = learner.transform(X.astype(dtype))
        assert isinstance(codes, scipy.sparse.csr_array)
        assert codes.shape == (200, 12)
        assert learner.components_.shape == (12, 8)
        assert codes.dtype == learner.components_.dtype == learner.inverse_transform(codes).dtype == dtype
        np.testing.assert_allclose(np.linalg.norm(learner.components_, axis=1), 1, rtol=1e-6)
    assert make().fit((9 * X).astype(int)).components_.dtype == np.float64


def test_transform_inverse_and_score(X):
    learner = make(tol=0.01, n_nonzero_coefs=3).fit(X)
    codes = learner.transform(X)
    expected = sparse_encode(X, learner.components_, n_nonzero_coefs=3, tol=0.01)
    np.testing.assert_array_equal(codes.toarray(), expected.toarray())
    rebuilt = learner.inverse_transform(codes)
    np.testing.assert_allclose(rebuilt, codes.toarray() @ learner.components_, atol=1e-12)
    np.testing.assert_allclose(learner.inverse_transform(codes.toarray()), rebuilt, atol=1e-12)
    assert learner.score(X) == pytest.approx(1 - np.sum((X - rebuilt) ** 2) / np.sum(X**2))
    np.testing.assert_array_equal(clone(learner).fit_transform(X).toarray(), codes.toarray())


def test_init_may_be_one_array(rng, X):
    D = rng.standard_normal((12, 8))
    for given in (D, [D], D.astype(np.float32)):
        learner = make(init=given, unused_atoms="keep").fit(np.zeros((3, 8)))  # nothing to learn from
        np.testing.assert_allclose(learner.components_, D / np.linalg.norm(D, axis=1, keepdims=True), rtol=1e-6)
    with pytest.raises(ValueError, match=r"Expected init\[0\] to have shape \(12, 8\), got \(8, 12\)"):
        make(init=D.T).fit(X)


# In the company of scikit-learn


def test_in_a_pipeline_and_a_grid_search(X):
    y = X[:, 0] > 0
    pipeline = make_pipeline(StandardScaler(), make(), RidgeClassifier())
    grid = {"dictionarylearning__n_nonzero_coefs": [1, 6], "dictionarylearning__update": ["statistics", "mod"]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_["dictionarylearning__n_nonzero_coefs"] == 6
    assert search.score(X, y) > 0.8


def test_grid_search_by_its_own_score(X):
    search = GridSearchCV(make(), {"n_components": [1, 4, 12]}, cv=3).fit(X)
    assert search.best_params_ == {"n_components": 12}
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) > 0.7


def test_clone_is_unfitted_and_learns_the_same(X):
    learner = make(update="sequential", schedule=[1, 1, 2, 2], unused_atoms="mean").fit(X)
    copy = clone(learner)
    with pytest.raises(NotFittedError):
        copy.transform(X)
    np.testing.assert_array_equal(copy.fit(X).components_, learner.components_)


def test_pickle(X):
    learner = make().fit(X)
    copy = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(copy.transform(X).toarray(), learner.transform(X).toarray())
    assert copy.history_ == learner.history_
    np.testing.assert_array_equal(copy.partial_fit(X).components_, learner.partial_fit(X).components_)


def test_feature_names(X):
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(8)])
    learner = make().fit(frame)
    assert learner.n_features_in_ == 8
    assert learner.feature_names_in_.tolist() == frame.columns.tolist()
    assert learner.get_feature_names_out().tolist() == [f"dictionarylearning{i}" for i in range(12)]
    np.testing.assert_array_equal(learner.components_, make().fit(X).components_)
    with pytest.raises(ValueError, match="feature names should match"):
        learner.transform(frame.rename(columns={"pixel 0": "other"}))
    with pytest.raises(ValueError, match="expecting 8 features"):
        make().fit(X).transform(X[:, :7])


def test_dense_output_and_set_output(X):
    learner = make(sparse_output=False).fit(X)
    codes = learner.transform(X)
    assert isinstance(codes, np.ndarray)
    np.testing.assert_array_equal(codes, make().fit(X).transform(X).toarray())
    frame = clone(learner).set_output(transform="pandas").fit_transform(pd.DataFrame(X, index=np.arange(200) + 7))
    assert frame.columns.tolist() == [f"dictionarylearning{i}" for i in range(12)]
    assert frame.index.tolist() == list(range(7, 207))
    np.testing.assert_array_equal(frame.to_numpy(), codes)


def test_sparse_output_cannot_be_a_frame(X):
    with pytest.raises(ValueError, match="sparse"):
        make().set_output(transform="pandas").fit_transform(X)


def test_partial_fit_learns_from_batches(rng):
    X, _ = planted(rng, 1000, 12, 8, 2)
    learner = make()
    scores = [learner.partial_fit(X[start : start + 100]).score(X) for start in range(0, 1000, 100)]
    assert scores[-1] > scores[0] + 0.05
    assert learner.n_iter_ == len(learner.history_) == 10
    with pytest.raises(ValueError, match="expecting 8 features"):
        learner.partial_fit(X[:, :7])


def test_partial_fit_goes_on_after_fit(X):
    learner = make().fit(X)
    before, kept = learner.score(X), learner.components_
    copy = kept.copy()
    assert learner.partial_fit(X).score(X) > before
    assert learner.n_iter_ == 5
    np.testing.assert_array_equal(kept, copy)


def test_bad_input(X):
    for given, words in (
        (X[0], "Expected 2D array"),
        (np.where(X.max() == X, np.nan, X), "got NaN in sample"),
        (X[:0], "minimum of 1 is required"),
        (scipy.sparse.csr_array(X), "parse data was passed"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            make().fit(given)
    with pytest.raises(ValueError, match="update='statistics' does not keep"):
        make(unused_atoms="mean").fit(X)
    with pytest.raises(ValueError, match=r"Expected codes of shape \(n_samples, 12\), got \(3, 8\)"):
        make().fit(X).inverse_transform(np.ones((3, 8)))
    with pytest.raises(NotFittedError):
        make().score(X)


def test_a_fit_that_fails_leaves_the_model_before(rng):
    import pandas

    X = pandas.DataFrame(rng.standard_normal((60, 6)), columns=list("abcdef"))
    learner = DictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit(X)
    expected = learner.transform(X).toarray()
    with pytest.raises(ValueError, match="max_iter"):
        learner.set_params(max_iter=0).fit(rng.standard_normal((60, 9)))
    with pytest.raises(ValueError, match="shape"):
        learner.set_params(max_iter=3, init=np.ones((8, 6))).fit(rng.standard_normal((60, 9)))
    assert learner.n_features_in_ == 6
    assert list(learner.feature_names_in_) == list("abcdef")
    np.testing.assert_array_equal(learner.transform(X).toarray(), expected)
