"""Tables with an index: views whose rows have other labels are never paired by position in silence."""

from __future__ import annotations

import warnings

import numpy as np
import pandas
import polars
import pytest

from coupledict import OnlineDictionaryLearning, SparseCoder, sparse_encode
from coupledict.classification import CoupledClassifier
from coupledict.matching import CrossModalMatcher
from coupledict.views import EachView, Views
from support.learners import make, planted_views

NAMES = [f"s{i}" for i in range(60)]


@pytest.fixture
def Xs(rng):
    return planted_views(rng, n=60)[0]


def table(array, index=None):
    return pandas.DataFrame(array, index=index, columns=[f"c{i}" for i in range(array.shape[1])])


@pytest.fixture
def right(Xs):
    return [table(view, NAMES) for view in Xs]


def classifier():
    return CoupledClassifier(8, n_dictionaries=1, head="codes", max_iter=1, random_state=0)


def matcher(**parameters):
    return CrossModalMatcher(8, n_dictionaries=1, max_iter=1, random_state=0, **parameters)


def calls(views):
    """Everything that pairs rows of views."""
    y = np.arange(60) % 2
    learner, fitted, other = make().fit(views), classifier().fit(views, y), matcher().fit(views)
    dictionaries = [view.to_numpy()[:5] for view in views]
    return [
        lambda X: make().fit(X),
        lambda X: OnlineDictionaryLearning(8, max_iter=1).partial_fit(X),
        lambda X: make().fit([X, X]),  # as chunks
        learner.transform,
        learner.score,
        learner.impute,
        lambda X: sparse_encode(X, dictionaries),
        lambda X: SparseCoder(dictionaries).fit(X),
        lambda X: classifier().fit(X, y),
        fitted.predict,
        lambda X: matcher().fit(X),
        other.score,
        lambda X: EachView(None).fit(X),
        Views,
    ]


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (NAMES[::-1], "the same labels in another order"),
        (None, r"'s0' and 0 in row 0"),
        ([*NAMES[:40], "x", *NAMES[41:]], r"'s40' and 'x' in row 40"),
    ],
)
def test_other_labels_are_refused(Xs, right, index, words):
    for call in calls(right):
        with pytest.raises(ValueError, match=rf"\[1\].*{words}.*\.loc\[.*reset_index\(drop=True\)"):
            call([right[0], table(Xs[1], index)])


def test_three_views_by_name(Xs, right):
    learner = make().fit({"a": right[0], "b": right[1], "c": right[0]})
    for call, second in ((make().fit, right[1]), (learner.transform, None), (learner.transform, Xs[1])):
        with (
            pytest.raises(ValueError, match=r"X\['c'\] to have the index of X\['a'\]"),
            warnings.catch_warnings(action="ignore"),  # an array where there were names
        ):
            call({"a": right[0], "b": second, "c": right[0].iloc[::-1]})


def test_equal_indexes_arrays_and_other_tables_are_fine(Xs, right):
    wanted = make().fit(Xs).score(Xs)
    late = [table(view, range(7, 67)) for view in Xs]
    for given in (right, [right[0], Xs[1]], late, [right[0], polars.DataFrame(Xs[1])], [late[0], None, late[1]][::2]):
        assert make().fit(given).score(given) == wanted
    shuffled = np.random.default_rng(0).permutation(60)
    rows = Views(right)[shuffled]
    assert make().fit(rows).score(rows) > 0
    doubled = [view.iloc[[0, 0, 1, 2]] for view in right]  # labels need not be unique
    assert Views(doubled).shape == (4, 15)


def test_the_ways_out_that_the_error_names(Xs, right):
    wanted = make().fit(Xs).score(Xs)
    backwards = right[1].iloc[::-1]
    assert make().fit([right[0], backwards.loc[right[0].index]]).score(right) == wanted
    plain = [right[0].reset_index(drop=True), right[1].reset_index(drop=True)]
    assert make().fit(plain).score(plain) == wanted


@pytest.mark.parametrize("given", ["list", "dict", "one table"])
def test_labels_with_another_index_are_refused(right, given):
    X = {"list": right, "dict": {"a": right[0], "b": right[1]}, "one table": right[0]}[given]
    y = pandas.Series(np.arange(60) % 2, NAMES)
    found = classifier().fit(X, y)
    np.testing.assert_array_equal(found.predict(X), classifier().fit(X, y.to_numpy()).predict(X))
    other = y.reset_index(drop=True)
    for call in (classifier().fit, found.score):
        with pytest.raises(ValueError, match=r"y to have the index of X.*'s0' and 0 in row 0.*reset_index"):
            call(X, other)
    if given != "one table":
        with pytest.raises(ValueError, match=r"y to have the index of X"):
            matcher().fit(X, y.iloc[::-1])
        with pytest.raises(ValueError, match=r"y to have the index of X"):
            matcher().fit(X, y).score(X, y.iloc[::-1])


def test_weights_with_another_index_are_refused(right):
    weights = pandas.Series(np.ones(60), NAMES[::-1])
    with pytest.raises(ValueError, match="sample_weight to have the index of X"):
        classifier().fit(right, np.arange(60) % 2, weights)


def test_views_of_different_samples_have_indexes_of_their_own(rng, right):
    y = np.arange(60) % 3
    apart = [right[0], right[1].set_axis(range(60))]
    learned = matcher(semi_coupled=True).fit(apart, [y, y])
    assert 0 <= learned.score(apart, [y, y]) <= 1
    pairs = matcher().fit(right)
    assert 0 <= pairs.score(apart, partners=np.arange(60)) <= 1
