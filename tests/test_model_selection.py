"""Tools that split samples: with scikit-learn's, errors say how to give views; those of coupledict take lists."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sklearn.model_selection as theirs
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import coupledict.model_selection as ours
from coupledict import DictionaryLearning, OnlineDictionaryLearning
from coupledict.classification import CoupledClassifier
from coupledict.matching import CrossModalMatcher
from coupledict.views import EachView, Views
from support.learners import plain

GRID = {"max_iter": [1, 2]}
WORDS = r"coupledict\.views\.Views.*coupledict\.model_selection"


@pytest.fixture
def Xs(rng):
    """Views of equal width: scikit-learn could take one for the other."""
    sources = rng.standard_normal((40, 4)) * (rng.random((40, 4)) < 0.6)
    return [sources @ rng.standard_normal((4, 6)) for _ in range(4)]


def learners():
    return {
        "coupled": plain(4, n_nonzero_coefs=2, max_iter=1, random_state=0),
        "online": OnlineDictionaryLearning(4, n_nonzero_coefs=2, max_iter=1, random_state=0),
        "classifier": CoupledClassifier(8, n_dictionaries=1, head="codes", max_iter=1, random_state=0),
        "matcher": CrossModalMatcher(8, n_dictionaries=1, max_iter=1, random_state=0),
        "pipeline": make_pipeline(EachView(StandardScaler()), plain(4, max_iter=1)),
        "passed": make_pipeline("passthrough", plain(4, max_iter=1)),
    }


#: Everything that splits samples, by default and into two; each is called with an estimator, samples and labels.
TOOLS = {
    "GridSearchCV": lambda e, X, y, **own: theirs.GridSearchCV(e, _grid(e), **own).fit(X, y),
    "RandomizedSearchCV": lambda e, X, y, **own: theirs.RandomizedSearchCV(e, _grid(e), n_iter=2, **own).fit(X, y),
    "cross_validate": theirs.cross_validate,
    "cross_val_score": theirs.cross_val_score,
    "cross_val_predict": theirs.cross_val_predict,
    "learning_curve": theirs.learning_curve,
    "validation_curve": lambda e, X, y, **own: theirs.validation_curve(
        e, X, y, param_name=next(iter(_grid(e))), param_range=[1, 2], **own
    ),
    "permutation_test_score": lambda e, X, y, **own: theirs.permutation_test_score(e, X, y, n_permutations=2, **own),
}


def _grid(estimator):
    return {name: [1, 2] for name in estimator.get_params() if name.endswith("max_iter")}


@pytest.mark.parametrize("learner", ["coupled", "online", "matcher", "pipeline", "passed"])
def test_scores_of_split_lists_say_what_to_do(Xs, learner):
    """Three views make folds of two and one, and views of other widths do not fit each other."""
    for given, cv in ((Xs[:3], 3), (tuple(Xs[:3]), 3), ([Xs[0], Xs[1][:, :5]], 2)):
        with pytest.raises(ValueError, match=WORDS):
            theirs.cross_val_score(learners()[learner], given, cv=cv, error_score="raise")


def test_the_score_of_a_split_list_is_nan_with_a_warning_that_says_why(Xs):
    with pytest.warns(UserWarning, match=rf"(?s)Scoring failed.*{WORDS}"):
        scores = theirs.cross_val_score(learners()["coupled"], Xs[:3], cv=3)
    assert np.isnan(scores).all()
    with pytest.warns(UserWarning, match=r"Scoring failed|non-finite") as caught:
        search = theirs.GridSearchCV(learners()["coupled"], GRID, cv=3, refit=False).fit(Xs[:3])
    assert np.isnan(search.cv_results_["mean_test_score"]).all()
    assert any(re.search(WORDS, str(warning.message)) for warning in caught)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("learner", ["coupled", "online", "matcher"])
def test_scikit_learn_counts_two_views_as_two_samples(Xs, tool, learner):
    with pytest.raises(ValueError, match=r"n_splits=5 greater than the number of samples: n_samples=2"):
        TOOLS[tool](learners()[learner], Xs[:2], None)


def test_pictures_as_samples_are_no_views(rng):
    """A list of 2-D arrays may be samples, of which a pipeline makes views."""
    pictures = [rng.standard_normal((20, 6)) for _ in range(4)]
    halves = FunctionTransformer(lambda some: [np.vstack(some)[:, :3], np.vstack(some)[:, 3:]])
    pipeline = make_pipeline(halves, learners()["coupled"])
    scores = theirs.cross_val_score(pipeline, pictures, cv=2)
    assert np.all((scores > 0) & (scores < 1))


def test_chunks_as_samples_are_no_views(Xs):
    chunks = [[view[start : start + 10] for view in Xs] for start in range(0, 40, 10)]
    for given in (chunks, [Views(chunk) for chunk in chunks], [dict(zip("abcd", c, strict=True)) for c in chunks]):
        scores = theirs.cross_val_score(learners()["coupled"], given, cv=2, error_score="raise")
        assert np.all((scores > 0) & (scores < 1))


def test_a_fitted_search_of_scikit_learn_takes_lists(Xs):
    search = theirs.GridSearchCV(learners()["coupled"], GRID, cv=2).fit(Views(Xs))
    assert search.score(Xs) == search.score(Views(Xs)) == search.best_estimator_.score(Xs)
    np.testing.assert_array_equal(search.transform(Xs).toarray(), search.best_estimator_.transform(Xs).toarray())
    y = np.arange(40) % 2
    search = theirs.GridSearchCV(learners()["classifier"], GRID, cv=2).fit(Views(Xs), y)
    np.testing.assert_array_equal(search.predict(Xs), search.predict(Views(Xs)))
    assert search.score(Xs, y) == search.score(Views(Xs), y)


def test_clones_of_estimators_that_hold_views_as_before(Xs):
    learner = learners()["coupled"].fit(Xs)
    assert clone(learner).get_params() == learner.get_params()
    assert not hasattr(clone(make_pipeline(learner))[0], "components_")


# The tools of coupledict


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "Views"])
def test_a_search_is_that_of_scikit_learn(Xs, kind):
    given = {"list": Xs, "tuple": tuple(Xs), "dict": dict(zip("abcd", Xs, strict=True)), "Views": Views(Xs)}[kind]
    for name, extra in (("GridSearchCV", {}), ("RandomizedSearchCV", {"n_iter": 2, "random_state": 0})):
        mine = getattr(ours, name)(learners()["coupled"], GRID, cv=3, **extra).fit(given)
        right = getattr(theirs, name)(learners()["coupled"], GRID, cv=3, **extra).fit(Views(Xs))
        assert isinstance(mine, getattr(theirs, name))
        np.testing.assert_array_equal(mine.cv_results_["mean_test_score"], right.cv_results_["mean_test_score"])
        assert np.isfinite(mine.best_score_)
        assert mine.best_params_ == right.best_params_
        assert mine.score(given) == right.score(Views(Xs))
        np.testing.assert_array_equal(mine.transform(given).toarray(), right.transform(Views(Xs)).toarray())
        assert getattr(mine.best_estimator_, "view_names_in_", None) == (tuple("abcd") if kind == "dict" else None)


def test_a_search_predicts_views(Xs):
    search = ours.GridSearchCV(learners()["coupled"], GRID, cv=2).fit({"left": Xs[0], "right": Xs[1]})
    wanted = search.best_estimator_.predict({"left": Xs[0]}, view="right")
    np.testing.assert_array_equal(search.predict({"left": Xs[0]}, view="right"), wanted)
    y = np.arange(40) % 2
    search = ours.RandomizedSearchCV(learners()["classifier"], GRID, n_iter=2, cv=2).fit(Xs, y)
    np.testing.assert_array_equal(search.predict(Xs), search.best_estimator_.predict(Xs))
    assert search.score([*Xs[:3], None], y) == search.best_estimator_.score([*Xs[:3], None], y)
    assert not hasattr(ours.GridSearchCV(EachView(StandardScaler()), {}), "predict")


def test_a_search_is_cloned_and_searched(Xs):
    search = ours.GridSearchCV(learners()["coupled"], GRID, cv=2)
    assert type(clone(search)) is ours.GridSearchCV
    assert clone(search).get_params()["cv"] == 2
    assert np.isfinite(ours.cross_val_score(search, Xs, cv=2)).all()


@pytest.mark.parametrize("learner", ["coupled", "online", "classifier", "matcher", "pipeline"])
def test_scores_are_those_of_scikit_learn(Xs, learner):
    y = np.arange(40) % 2 if learner == "classifier" else None
    estimator, named = learners()[learner], dict(zip("abcd", Xs, strict=True))
    if learner == "pipeline":
        estimator.set_params(coupleddictionarylearning__random_state=0)
    right = theirs.cross_val_score(estimator, Views(Xs), y, cv=2)
    np.testing.assert_array_equal(ours.cross_val_score(estimator, Xs, y, cv=2), right)
    found = ours.cross_validate(estimator, named, y, cv=2, return_train_score=True)
    np.testing.assert_array_equal(found["test_score"], right)
    assert np.isfinite(found["train_score"]).all()


def test_curves_are_those_of_scikit_learn(Xs):
    learner, options = learners()["coupled"], {"cv": 2, "train_sizes": [10, 20]}
    for mine, right in zip(
        ours.learning_curve(learner, Xs, **options),
        theirs.learning_curve(learner, Views(Xs), None, **options),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, right)
        assert np.isfinite(mine).all()
    options = {"cv": 2, "param_name": "max_iter", "param_range": [1, 2]}
    for mine, right in zip(
        ours.validation_curve(learner, dict(zip("abcd", Xs, strict=True)), **options),
        theirs.validation_curve(learner, Views(Xs), None, **options),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, right)
        assert np.isfinite(mine).all()


def test_predicted_labels_are_those_of_scikit_learn(Xs):
    y = np.arange(40) % 2
    found = ours.cross_val_predict(learners()["classifier"], Xs, y, cv=2)
    np.testing.assert_array_equal(found, theirs.cross_val_predict(learners()["classifier"], Views(Xs), y, cv=2))


def test_parts_are_of_the_kind_that_was_given(Xs, rng):
    y, weights = np.arange(40), rng.random(40)
    rows = theirs.train_test_split(y, random_state=0, test_size=0.25)
    train, test, y_train, y_test, w_train, _ = ours.train_test_split(Xs, y, weights, random_state=0, test_size=0.25)
    assert type(train) is type(test) is list
    for parts, chosen in ((train, rows[0]), (test, rows[1])):
        for part, view in zip(parts, Xs, strict=True):
            np.testing.assert_array_equal(part, view[chosen])
    np.testing.assert_array_equal(y_train, rows[0])
    np.testing.assert_array_equal(y_test, rows[1])
    np.testing.assert_array_equal(w_train, weights[rows[0]])
    named, _ = ours.train_test_split({"a": Xs[0], "b": None, "c": Xs[2]}, random_state=0, test_size=0.25)
    assert list(named) == ["a", "b", "c"]
    assert named["b"] is None
    np.testing.assert_array_equal(named["c"], Xs[2][rows[0]])
    kept = ours.train_test_split(Views(Xs), Xs[0], y.tolist(), random_state=0, test_size=0.25)
    assert isinstance(kept[0], Views)
    assert isinstance(kept[2], np.ndarray)
    assert isinstance(kept[4], list)
    np.testing.assert_array_equal(kept[3], Xs[0][rows[1]])


def test_missing_entries_and_views(Xs):
    holes = [view.copy() for view in Xs]
    holes[1][::3] = np.nan
    learner = plain(4, n_nonzero_coefs=2, max_iter=1, missing="nan", random_state=0)
    assert np.isfinite(ours.cross_val_score(learner, holes, cv=2)).all()
    search = ours.GridSearchCV(learner, GRID, cv=2).fit(holes)
    assert np.isfinite(search.score([holes[0], None, *holes[2:]]))


def test_samples_that_are_no_views_pass_through(Xs):
    learner = DictionaryLearning(4, n_nonzero_coefs=2, max_iter=1, random_state=0)
    right = theirs.cross_val_score(learner, Xs[0], cv=2)
    np.testing.assert_array_equal(ours.cross_val_score(learner, Xs[0], cv=2), right)
    np.testing.assert_array_equal(ours.cross_val_score(learner, Xs[0].tolist(), cv=2), right)


def test_views_of_different_samples_are_refused(Xs):
    with pytest.raises(ValueError, match=r"same number of samples in every view, got 40 and 39"):
        ours.cross_val_score(learners()["coupled"], [Xs[0], Xs[1][1:]])


class Plain(BaseEstimator):
    """Somebody else's estimator, of lists of matrices."""

    def fit(self, X, y=None):
        self.n_ = len(X)
        return self

    def score(self, X, y=None):
        return float(self.n_)


def test_estimators_of_others_are_left_alone(Xs):
    assert theirs.cross_val_score(Plain(), Xs, cv=2).tolist() == [2.0, 2.0]
