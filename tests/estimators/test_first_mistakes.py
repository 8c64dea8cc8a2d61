"""Mistakes of the first hour: a forgotten list, NaN in one view, samples without labels."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from coupledict import DictionaryLearning, OnlineDictionaryLearning, SparseCoder, sparse_encode
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.matching import CrossModalMatcher
from coupledict.views import EachView, Views
from support.learners import make, planted_views


@pytest.fixture
def Xs(rng):
    return planted_views(rng, n=60)[0]


@pytest.fixture
def y():
    return np.arange(60) % 2


def online():
    return OnlineDictionaryLearning(12, n_nonzero_coefs=2, max_iter=1, random_state=0)


def classifier(**parameters):
    return CoupledClassifier(
        8, **({"n_dictionaries": 1, "head": "codes", "max_iter": 1, "random_state": 0} | parameters)
    )


def matcher():
    return CrossModalMatcher(8, n_dictionaries=1, max_iter=1, random_state=0)


# A forgotten list


@pytest.mark.parametrize("method", ["fit", "partial_fit", "fit_transform", "transform", "score", "predict", "impute"])
@pytest.mark.parametrize("new", [make, online])
def test_learners_with_views_as_arguments(Xs, new, method):
    learner = new().fit(Xs)
    U, L = Xs
    for given in ((U, L), (U.tolist(), L.tolist()), (pandas.DataFrame(U), L), ([U], L)):
        with pytest.raises(TypeError, match=rf"[Gg]ive a list: {method}\(\[U, L\]\)"):
            getattr(learner, method)(*given, **({"view": 1} if method == "predict" else {}))


def test_three_views_as_arguments(Xs):
    learner = make().fit([*Xs, Xs[0]])
    with pytest.raises(TypeError, match=r"got 3 arguments.*[Gg]ive a list: transform\(\[U, L, \.\.\.\]\)"):
        learner.transform(*Xs, Xs[0])


def test_one_array_instead_of_a_list(Xs):
    learner = make().fit(Xs)
    for call in (make().fit, learner.transform, learner.score, learner.impute, EachView(StandardScaler()).fit, Views):
        with pytest.raises(TypeError, match=r"\[U, L\] for two views"):
            call(Xs[0])


def test_a_learner_of_one_view_has_no_second(Xs):
    learner = DictionaryLearning(12, max_iter=1, random_state=0).fit(Xs[0])
    with pytest.raises(TypeError, match=r"one array of samples, got 2 arguments.*CoupledDictionaryLearning"):
        learner.transform(*Xs)


@pytest.mark.parametrize("new", [classifier, matcher])
def test_tasks_with_views_as_arguments(Xs, y, new):
    task = new().fit(Xs, y)
    with pytest.raises(TypeError, match=r"[Gg]ive a list: fit\(\[U, L\]"):
        new().fit(*Xs)
    with pytest.raises(TypeError, match=r"[Gg]ive a list: predict\(\[U, L\]"):
        task.predict(*Xs, **({"view": 1} if new is matcher else {}))
    with pytest.raises(TypeError, match=r"[Gg]ive a list: score\(\[U, L\]"):
        task.score(*Xs)


def test_a_classifier_with_views_and_labels_as_arguments(Xs, y):
    with pytest.raises(TypeError, match=r"[Gg]ive a list: fit\(\[U, L\], y\)"):
        classifier().fit(*Xs, y)
    with pytest.raises(TypeError, match=r"[Gg]ive a list: score\(\[U, L\], y\)"):
        classifier().fit(Xs, y).score(*Xs, y)


@pytest.mark.parametrize("labels", [np.arange(60), [0] * 60, np.zeros((60, 1)), np.eye(60), ["a"] * 60, None])
@pytest.mark.parametrize("new", [make, online])
def test_labels_are_ignored_as_everywhere(Xs, new, labels):
    learner = new().fit(Xs, labels)
    assert learner.score(Xs, labels) == new().fit(Xs).score(Xs)
    assert make_pipeline(EachView(StandardScaler()), new()).fit(Xs, labels).transform(Xs).shape == (60, 12)


# Samples without labels


def some_without(kind):
    """Return labels of 60 samples, of which the third and two others have none."""
    labels = [["cat", "dog"][i % 2] if kind.endswith("strings") else i % 2 for i in range(60)]
    for row in (2, 3, 7):
        labels[row] = np.nan if kind.startswith("NaN") else None
    if kind == "nullable":
        return pandas.array(labels, dtype="Int64")
    return pandas.Series(labels) if kind == "Series" else labels if kind == "list" else np.array(labels, object)


@pytest.mark.parametrize("kind", ["list", "integers", "strings", "NaN", "NaN, strings", "Series", "nullable"])
@pytest.mark.parametrize("single", [False, True])
def test_a_classifier_says_how_samples_without_labels_are_marked(Xs, kind, single):
    missing = "NaN" if kind.startswith("NaN") or kind == "Series" else "None"
    missing = "(<NA>|NaN)" if kind == "nullable" else missing
    given = Xs[0] if single else Xs
    words = rf"got {missing} for 3 of 60 samples, first for sample 2\. .*unlabeled="
    with pytest.raises(ValueError, match=words):
        classifier().fit(given, some_without(kind))


@pytest.mark.parametrize(("kind", "mark"), [("integers", "-1"), ("strings", "''")])
def test_the_remedy_is_of_the_type_of_the_labels_and_works(Xs, kind, mark):
    y = some_without(kind)
    with pytest.raises(ValueError, match=rf"CoupledClassifier\(unlabeled={mark}\)"):
        classifier().fit(Xs, y)
    mark = {"-1": -1, "''": ""}[mark]
    found = classifier(unlabeled=mark).fit(Xs, [mark if label is None else label for label in y])
    assert found.classes_.size == 2
    with pytest.raises(ValueError, match=r"got None for 3 of 60 samples.* unlabeled="):
        classifier(unlabeled=mark).fit(Xs, y)


def test_a_mark_that_is_nan_is_left_alone(Xs):
    y = np.where(np.arange(60) < 5, np.nan, np.arange(60) % 2)
    assert classifier(unlabeled=np.nan).fit(Xs, y).classes_.tolist() == [0, 1]


def test_others_need_all_labels(Xs):
    y = some_without("strings")
    with pytest.raises(ValueError, match=r"got None for 3 of 60.*CoupledClassifier\(unlabeled=''\)"):
        SparseRepresentationClassifier().fit(Xs[0], y)
    with pytest.raises(ValueError, match=r"y.*got None for 3 of 60 samples, first for sample 2\. .*leave y out"):
        matcher().fit(Xs, y)
    with pytest.raises(ValueError, match=r"y.*got NaN for 3 of 60 samples, first for sample 2\. .*leave y out"):
        matcher().fit(Xs, some_without("NaN").astype(float))


# NaN in one view


def test_nan_is_told_with_the_view_the_first_sample_and_their_number(Xs, y):
    U, L = Xs
    holes = L.copy()
    holes[[41, 17, 50], [2, 0, 1]] = np.nan
    fitted, named = make().fit(Xs), make().fit({"upper": U, "lower": L})
    several = [
        lambda X: make().fit(X),
        lambda X: make(growth=None, update="ksvd").fit(X),
        lambda X: online().fit(X),
        lambda X: online().partial_fit(X),
        lambda X: (named if isinstance(X, dict) else fitted).transform(X),
        lambda X: (named if isinstance(X, dict) else fitted).score(X),
        lambda X: sparse_encode(X, {"upper": U[:5], "lower": L[:5]} if isinstance(X, dict) else [U[:5], L[:5]]),
        lambda X: SparseCoder({"upper": U[:5], "lower": L[:5]} if isinstance(X, dict) else [U[:5], L[:5]]).fit(X),
        lambda X: classifier().fit(X, y),
    ]
    for call in several:
        for given, view in (([U, holes], r"X\[1\]"), ({"upper": U, "lower": holes}, r"X\['lower'\]")):
            with pytest.raises(ValueError, match=rf"{view}.*sample 17\b.* 2 more samples.*missing='nan'"):
                call(given)
    with pytest.raises(ValueError, match=r"X\['lower'\].*sample 17\b.*missing='nan'"):
        matcher().fit({"upper": U, "lower": holes})
    holes[[41, 50]] = L[[41, 50]]
    with pytest.raises(ValueError, match=r"got NaN in X\[1\], sample 17\. If NaN stands"):
        make().fit([U, holes])


def test_a_view_without_weight_is_not_blamed(Xs):
    holes = [view.copy() for view in Xs]
    holes[0][3], holes[1][17] = np.nan, np.nan
    with pytest.raises(ValueError, match=r"got NaN in X\[1\], sample 17\."):
        sparse_encode(holes, [Xs[0][:5], Xs[1][:5]], view_weights=[0, 1])


def test_faults_of_named_views_are_told_by_name(Xs):
    U, L = Xs
    learner = make().fit({"upper": U, "lower": L})
    for call, words in (
        (lambda: make().fit({"upper": U, "lower": L[:50]}), r"got 60 and 50 \(X\['lower'\]\)"),
        (lambda: make().fit({"upper": U, "lower": L.astype(complex)}), r"X\['lower'\] to hold real numbers"),
        (lambda: make().fit({"upper": U, "lower": None}), r"None for X\['lower'\]"),
        (lambda: learner.transform({"upper": U, "lower": U}), r"X\['lower'\] to have 9 features"),
        (lambda: learner.transform({"upper": U, "lower": L[0]}), r"X\['lower'\] to have 2 dimensions"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            call()
