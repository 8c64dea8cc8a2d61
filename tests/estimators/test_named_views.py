"""Views by name: whatever takes a list of views takes a dict, and gives views back by name."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas
import pytest
from sklearn.model_selection import GridSearchCV, train_test_split

import coupledict
from coupledict import OnlineDictionaryLearning, SparseCoder, sparse_encode
from coupledict.views import EachView, ViewArrays, Views
from support.learners import make, planted_views

NAMES = ("sharp", "blurred")


@pytest.fixture
def Xs(rng):
    return planted_views(rng)[0]


@pytest.fixture
def named(Xs):
    return dict(zip(NAMES, Xs, strict=True))


def test_a_dict_is_learned_from_as_a_list_is(Xs, named):
    by_name, by_number = make().fit(named), make().fit(Xs)
    assert by_name.view_names_in_ == NAMES
    assert not hasattr(by_number, "view_names_in_")
    for v, name in enumerate(NAMES):
        np.testing.assert_array_equal(by_name.components_[name], by_number.components_[v])
        np.testing.assert_array_equal(by_name.components_[v], by_number.components_[v])
    codes = by_name.transform(named)
    np.testing.assert_array_equal(codes.toarray(), by_number.transform(Xs).toarray())
    np.testing.assert_array_equal(by_name.inverse_transform(codes)["blurred"], by_number.inverse_transform(codes)[1])
    assert by_name.score(named) == by_number.score(Xs)


def test_a_view_is_predicted_by_name(Xs, named):
    learner = make().fit(named)
    expected = make().fit(Xs).predict([Xs[0], None], view=1)
    for given in ({"sharp": Xs[0]}, {"sharp": Xs[0], "blurred": None}, named, [Xs[0], None], Views({"sharp": Xs[0]})):
        for view in ("blurred", 1, -1):
            np.testing.assert_array_equal(learner.predict(given, view=view), expected)


def test_the_order_of_a_dict_is_that_of_the_fit(Xs, named):
    learner = make().fit(named)
    turned = {"blurred": Xs[1], "sharp": Xs[0]}
    np.testing.assert_array_equal(learner.transform(turned).toarray(), learner.transform(named).toarray())
    assert learner.score(Views(turned)) == learner.score(named)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sharp": 0, "soft": 1}, r"Expected views named \['sharp', 'blurred'\] in X, got one named 'soft'"),
        ({}, "Expected at least one view in X, got only None"),
        ({"sharp": 0, 1: 1}, "Expected the names of views to be strings, got 1"),
    ],
)
def test_names_that_are_not_known(Xs, named, given, message):
    learner = make().fit(named)
    given = {name: Xs[number] for name, number in given.items()}
    with pytest.raises((ValueError, TypeError), match=message):
        learner.transform(given)


def test_names_where_there_are_none(Xs, named):
    learner = make().fit(Xs)
    with pytest.raises(ValueError, match="had no names before, got a dict of"):
        learner.transform(named)
    with pytest.raises(ValueError, match="the views have no names, got 'sharp'"):
        learner.predict([Xs[0], None], view="sharp")
    with pytest.raises(ValueError, match=r"one of \['sharp', 'blurred'\], got 'red'"):
        make().fit(named).predict(named, view="red")
    with pytest.raises(ValueError, match="the views have no names"):
        learner.components_["sharp"]


def test_another_fit_forgets_the_names(Xs, named):
    learner = make().fit(named).fit(Xs)
    assert not hasattr(learner, "view_names_in_")
    assert learner.components_.names is None


def test_names_are_saved(named, tmp_path):
    learner = make().fit(named)
    learner.save(tmp_path / "model")
    same = coupledict.load(tmp_path / "model")
    assert same.view_names_in_ == NAMES
    np.testing.assert_array_equal(same.components_["blurred"], learner.components_["blurred"])
    for other in (pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)):
        np.testing.assert_array_equal(other.components_["blurred"], learner.components_["blurred"])


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", 1], "ab", None])
def test_names_that_lie(named, tmp_path, names):
    from coupledict.files import read_model, write_model

    make().fit(named).save(tmp_path / "model")
    tensors, metadata = read_model(tmp_path / "model")
    write_model(tmp_path / "model", tensors, metadata | {"view_names_in": names})
    with pytest.raises(coupledict.ModelFileError, match="to hold a complete model, but"):
        coupledict.load(tmp_path / "model")


def test_batches_by_name(Xs, named):
    one, other = (OnlineDictionaryLearning(8, n_nonzero_coefs=2, random_state=0) for _ in range(2))
    for start in (0, 100, 200):
        one.partial_fit({name: X[start : start + 100] for name, X in named.items()})
        other.partial_fit([X[start : start + 100] for X in Xs])
    np.testing.assert_array_equal(one.components_["blurred"], other.components_[1])
    one.partial_fit({"blurred": Xs[1][:50], "sharp": Xs[0][:50]})  # in another order
    other.partial_fit([X[:50] for X in Xs])
    np.testing.assert_array_equal(one.components_["blurred"], other.components_[1])
    with pytest.raises(ValueError, match="got None for"):
        one.partial_fit({"sharp": Xs[0]})


def test_chunks_by_name(Xs, named):
    chunks = [{name: X[start : start + 100] for name, X in named.items()} for start in (0, 100, 200)]
    turned = [dict(reversed(chunk.items())) if i else chunk for i, chunk in enumerate(chunks)]
    plain = make().fit([list(chunk.values()) for chunk in chunks])
    for given in (chunks, turned, lambda: iter(chunks)):
        learner = make().fit(given)
        assert learner.view_names_in_ == NAMES
        np.testing.assert_array_equal(learner.components_["blurred"], plain.components_[1])
    alone = [{"sharp": chunk["sharp"], "blurred": None} for chunk in chunks]
    np.testing.assert_array_equal(
        learner.predict(alone, view="blurred"), plain.predict([[c["sharp"], None] for c in chunks], view=1)
    )


def test_coding_by_name(Xs, rng):
    atoms = {name: rng.standard_normal((10, X.shape[1])) for name, X in zip(NAMES, Xs, strict=True)}
    expected = sparse_encode([None, Xs[1]], list(atoms.values()), n_nonzero_coefs=2).toarray()
    np.testing.assert_array_equal(sparse_encode({"blurred": Xs[1]}, atoms, n_nonzero_coefs=2).toarray(), expected)
    coder = SparseCoder(atoms, n_nonzero_coefs=2).fit({"blurred": Xs[1], "sharp": Xs[0]})
    np.testing.assert_array_equal(coder.transform({"blurred": Xs[1]}).toarray(), expected)


def test_tools_of_scikit_learn(named):
    views = Views(named)
    assert repr(views[:10]) == "Views(10 samples of sharp 6 + blurred 9 features)"
    train, test = train_test_split(views, random_state=0)
    assert train.names == NAMES
    search = GridSearchCV(make(), {"n_nonzero_coefs": [1, 2]}, cv=3).fit(train)
    assert search.best_estimator_.view_names_in_ == NAMES
    assert search.score(test) > 0.5


def test_each_view_keeps_the_names(named):
    from sklearn.preprocessing import StandardScaler

    changed = EachView(StandardScaler()).fit(named)
    assert changed.transform({"blurred": named["blurred"]}).names == NAMES
    assert changed.get_feature_names_out()[0] == "sharp__x0"


def test_tables_by_name(named):
    tables = {name: pandas.DataFrame(X, columns=[f"{name}{i}" for i in range(X.shape[1])]) for name, X in named.items()}
    learner = make().fit(tables)
    assert learner.view_feature_names_in_[1][0] == "blurred0"
    with pytest.raises(ValueError, match="feature names"):
        learner.transform({"sharp": tables["sharp"].rename(columns={"sharp0": "other"})})


def test_arrays_that_can_be_asked_by_name():
    arrays = ViewArrays([np.zeros(2), np.ones(3)], NAMES)
    assert isinstance(arrays, list)
    assert len(arrays) == 2
    assert arrays["blurred"] is arrays[1]
    assert arrays[:1][0] is arrays[0]
    assert ViewArrays([np.zeros(2)]).names is None


def test_chunks_that_leave_a_view_out_or_come_in_another_order(Xs, named):
    learner = make().fit(named)
    chunks = [{name: X[start : start + 100] for name, X in named.items()} for start in (0, 100, 200)]
    alone = [{"sharp": chunk["sharp"]} for chunk in chunks]
    turned = [dict(reversed(chunk.items())) for chunk in chunks]
    expected = learner.transform(named).toarray()
    np.testing.assert_array_equal(learner.transform(turned).toarray(), expected)
    np.testing.assert_array_equal(learner.transform(lambda: iter(turned)).toarray(), expected)
    np.testing.assert_array_equal(
        learner.predict(alone, view="blurred"), learner.predict({"sharp": Xs[0]}, view="blurred")
    )
    with pytest.raises(ValueError, match="got one named 'red'"):
        learner.transform([{"red": chunk["sharp"]} for chunk in chunks])
    with pytest.raises(ValueError, match="had no names before"):
        make().fit(Xs).transform(chunks)


def test_views_as_chunks(Xs, named):
    """A list of Views is a list of chunks, not of views."""
    cut = [slice(0, 150), slice(150, 300)]
    expected = make().fit([[X[rows] for X in Xs] for rows in cut])
    for given in ([Views(Xs)[rows] for rows in cut], [Views(named)[rows] for rows in cut]):
        learner = make().fit(given)
        np.testing.assert_array_equal(learner.components_[1], expected.components_[1])
    assert learner.view_names_in_ == NAMES


def test_a_table_of_views_keeps_its_number_type(Xs):
    assert np.asarray(Views([X.astype(np.float32) for X in Xs])).dtype == np.float32
    assert np.asarray(Views(Xs), dtype=np.float32).dtype == np.float32


def test_a_checkpoint_knows_the_names(Xs, named, tmp_path):
    path = tmp_path / "checkpoint"
    square = {"sharp": Xs[0], "blurred": Xs[0] + 1}  # of equal widths, so that only names can tell
    make(max_iter=4, callback=lambda progress: progress.completed == 2).fit(square, checkpoint=path)
    assert coupledict.load(path).view_names_in_ == NAMES
    with pytest.raises(ValueError, match=r"Expected views named \['sharp', 'blurred'\], in this order"):
        make(max_iter=4).fit(dict(reversed(square.items())), resume=path)
    resumed = make(max_iter=4).fit(square, resume=path)
    np.testing.assert_array_equal(resumed.components_["blurred"], make(max_iter=4).fit(square).components_["blurred"])
