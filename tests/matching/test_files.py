"""Matchers as files: what is saved is loaded, and what contradicts itself is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import coupledict
from coupledict import ModelFileError
from coupledict.files import read_model, write_model
from coupledict.matching import CrossModalMatcher
from support.learners import planted_views

THIRDS = np.arange(120) % 3
LETTERS = np.array(["a", "b", "c"])[THIRDS]
CASES = {
    "plain": ({}, None),
    "many features": ({"whiten": False, "preprocess": [None, "standardize"]}, None),
    "dictionaries": ({"kernel_weight": 0.0}, None),
    "labels": ({}, LETTERS),
    "objects": ({}, LETTERS.astype(object)),
    "whole numbers": ({"compare": "both", "whiten": False}, THIRDS),
    "mapped": ({"semi_coupled": True, "compare": 1}, None),
    "apart": ({"semi_coupled": True}, [LETTERS, LETTERS]),
}


@pytest.fixture(scope="module")
def Xs():
    return planted_views(np.random.default_rng(0), n=120)[0]


@pytest.fixture(scope="module")
def matchers(Xs):
    small = {"n_components": 10, "n_nonzero_coefs": 2, "n_dictionaries": 2, "max_iter": 3, "random_state": 0}
    small |= {"preprocess": None, "kernel_weight": 0.5, "direct_weight": 0.0}
    fitted = {name: CrossModalMatcher(**(small | settings)).fit(Xs, y) for name, (settings, y) in CASES.items()}
    equal = CrossModalMatcher(**(small | {"direct_weight": 0.5, "preprocess": "center"}))
    return fitted | {"direct": equal.fit([Xs[1], Xs[1][:, ::-1]])}


@pytest.mark.parametrize("case", CASES)
def test_a_saved_matcher_matches_to_the_same_bits(matchers, Xs, tmp_path, case):
    matcher = matchers[case]
    matcher.save(tmp_path / "model")
    same = CrossModalMatcher.load(tmp_path / "model")
    assert same.get_params() == matcher.get_params()
    assert same.n_features_in_ == matcher.n_features_in_
    np.testing.assert_array_equal(same.similarity(*Xs), matcher.similarity(*Xs))
    np.testing.assert_array_equal(same.predict([Xs[0], None], view=1), matcher.predict([Xs[0], None], view=1))
    assert hasattr(same, "classes_") == hasattr(matcher, "classes_")
    if hasattr(matcher, "classes_"):
        assert same.classes_.dtype == matcher.classes_.dtype
        np.testing.assert_array_equal(same.classes_, matcher.classes_)
    same.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_a_model_of_another_kind_is_refused_by_name(matchers, tmp_path):
    path = tmp_path / "model"
    matchers["labels"].save(path)
    tensors, metadata = read_model(path)
    write_model(path, tensors, metadata | {"estimator": "DictionaryLearning"})
    with pytest.raises(ModelFileError, match="to hold a CrossModalMatcher, got a DictionaryLearning"):
        CrossModalMatcher.load(path)
    with pytest.raises(ModelFileError, match=r"Expected '.*model' to hold a complete model, but"):
        coupledict.load(path)


def test_float32(Xs, tmp_path):
    views = [X.astype(np.float32) for X in Xs]
    matcher = CrossModalMatcher(8, n_dictionaries=1, max_iter=2, random_state=np.random.default_rng(0)).fit(views)
    matcher.save(tmp_path / "model")
    same = CrossModalMatcher.load(tmp_path / "model")
    assert same.random_state is None
    assert same.similarity(*views).dtype == np.float32
    np.testing.assert_array_equal(same.similarity(*views), matcher.similarity(*views))


def test_what_cannot_be_saved(Xs, tmp_path):
    with pytest.raises(NotFittedError):
        CrossModalMatcher().save(tmp_path / "model")
    dates = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")[THIRDS % 2]
    matcher = CrossModalMatcher(8, n_dictionaries=1, max_iter=2).fit(Xs, dates)
    with pytest.raises(TypeError, match="labels that are numbers or strings"):
        matcher.save(tmp_path / "model")


def test_direct_comparisons_are_saved(matchers, Xs, tmp_path):
    matchers["direct"].save(tmp_path / "model")
    views = [Xs[1], Xs[1][:, ::-1]]
    table = matchers["direct"].similarity(*views)
    np.testing.assert_array_equal(coupledict.load(tmp_path / "model").similarity(*views), table)


@pytest.mark.parametrize("case", ["labels", "direct"])
def test_every_tensor_and_every_fact_is_missed(matchers, tmp_path, case):
    path = tmp_path / "model"
    matchers[case].save(path)
    tensors, metadata = read_model(path)
    for name in {*tensors, *metadata} - {"version"}:
        parts = ({key: value for key, value in part.items() if key != name} for part in (tensors, metadata))
        write_model(path, *parts)
        with pytest.raises(ModelFileError):
            coupledict.load(path)
    for name in metadata["choice"]:
        choice = {key: value for key, value in metadata["choice"].items() if key != name}
        write_model(path, tensors, metadata | {"choice": choice})
        with pytest.raises(ModelFileError):
            coupledict.load(path)


@pytest.mark.parametrize(
    "lie",
    [
        {"kinds": ["center"]},
        {"kinds": ["center", "whiten"]},
        {"kinds": 3},
        {"comparison_weights": [0.0, 0.0]},
        {"comparison_weights": [1.0, -1.0]},
        {"comparison_weights": [1.0]},
        {"comparison_weights": ["a", "b"]},
        {"shrinkage": -1.0},
        {"shrinkage": "much"},
        {"kernel_weight": 2.0},
        {"kernel_weight": None},
        {"direct_weight": -0.5},
        {"direct_weight": True},
        {"rest": [True, True]},
        {"turned": [False, False]},
    ],
)
def test_choices_that_contradict_the_rest(matchers, tmp_path, lie):
    path = tmp_path / "model"
    matchers["direct"].save(path)
    tensors, metadata = read_model(path)
    write_model(path, tensors, metadata | {"choice": metadata["choice"] | lie})
    with pytest.raises(ModelFileError, match=r"Expected '.*model' to hold a complete model, but"):
        CrossModalMatcher.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel.width", np.array([0.0])),
        ("kernel.width", np.array([1.0, 1.0])),
        ("kernel.energies", np.array([1.0, -1.0])),
        ("kernel.energies", np.ones(3)),
        ("landmarks.0.0", np.ones((120, 4))),
        ("landmarks.0.0", np.ones((119, 9))),
        ("kernelmap.0.1", np.ones((120, 4))),
        ("kernelmap.7.1", np.ones((120, 9))),
        ("kernelmap.x.1", np.ones((120, 9))),
        ("direct.0-1.axes", np.ones((2, 9))),
        ("direct.0-1.factors", -np.ones(9)),
        ("typical.0", np.array([0.0, 0.0])),
        ("typical.0", np.ones(3)),
    ],
)
def test_parts_beside_the_dictionaries_that_contradict_themselves(matchers, tmp_path, name, value):
    path = tmp_path / "model"
    matchers["direct"].save(path)
    tensors, metadata = read_model(path)
    write_model(path, tensors | {name: value}, metadata)
    with pytest.raises(ModelFileError, match=r"Expected '.*model' to hold a complete model, but"):
        CrossModalMatcher.load(path)


def without(key):
    return lambda tensors, metadata: (tensors.pop(key, None), metadata.pop(key, None))


def changing(part, key, value):
    return lambda tensors, metadata: (tensors if part == "tensors" else metadata).update({key: value})


@pytest.mark.parametrize(
    "damage",
    [
        without("weights"),
        without("mean.0"),
        without("axes.1"),
        without("prior"),
        without("components.1.0"),
        without("map.0.0.1"),
        without("map.0.0.labels"),
        without("parameters"),
        without("n_views"),
        changing("metadata", "parameters", {"speed": 2}),
        changing("metadata", "parameters", {"n_dictionaries": 0}),
        changing("metadata", "parameters", [3]),
        changing("metadata", "n_views", 1),
        changing("metadata", "n_members", 3),
        changing("metadata", "classes", ["a", "b"]),
        changing("metadata", "classes_dtype", "nothing"),
        changing("tensors", "weights", np.array([1.0, -1.0])),
        changing("tensors", "weights", np.ones(3)),
        changing("tensors", "gains.0", np.zeros(6)),
        changing("tensors", "axes.0", np.ones((6, 7))),
        changing("tensors", "components.0.0", np.ones((10, 5))),
        changing("tensors", "components.0.0", np.ones((9, 6))),
        changing("tensors", "components.0.0", np.ones((10, 6), np.float32)),
        changing("tensors", "components.0.0", np.ones((10, 6), np.int64)),
        changing("tensors", "map.0.0.1", np.ones((10, 2))),
        changing("tensors", "map.0.0.7", np.ones((10, 2))),
        changing("tensors", "map.0.x.1", np.ones((10, 2))),
        changing("tensors", "map.0.0.labels", np.ones((10, 2))),
    ],
)
def test_files_that_contradict_themselves(matchers, tmp_path, damage):
    path = tmp_path / "model"
    matchers["labels"].save(path)
    tensors, metadata = read_model(path)
    damage(tensors, metadata)
    write_model(path, tensors, metadata)
    with pytest.raises(ModelFileError, match=r"Expected '.*model' to hold a complete model, but"):
        CrossModalMatcher.load(path)
