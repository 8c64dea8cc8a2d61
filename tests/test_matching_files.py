"""Matchers as files: what is saved is loaded, and what contradicts itself is refused."""

from __future__ import annotations

import numpy as np
import pytest
from learners import planted_views
from sklearn.exceptions import NotFittedError

import coupledict
from coupledict import ModelFileError
from coupledict.files.models import read_model, write_model
from coupledict.matching import CrossModalMatcher

THIRDS = np.arange(120) % 3
LETTERS = np.array(["a", "b", "c"])[THIRDS]
CASES = {
    "plain": ({}, None),
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
    return {name: CrossModalMatcher(**small, **settings).fit(Xs, y) for name, (settings, y) in CASES.items()}


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
