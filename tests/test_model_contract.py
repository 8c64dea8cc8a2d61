"""What holds for the files of every kind of model: there and back to the last bit, whole or not at all, no guessing."""

from __future__ import annotations

import copy
import os

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import coupledict
from coupledict import ModelFileError

KINDS = (
    "coupled",
    "coupled by support",
    "single",
    "online",
    "running sums",
    "classifier",
    "representation",
    "matcher",
    "fusion",
    "super-resolution",
    "bandwidth",
)
#: Kinds with a way to open them that takes nothing else.
OWN_DOOR = (
    "matcher",
    pytest.param("fusion", marks=pytest.mark.xfail(raises=AttributeError, reason="it takes any model for a learner")),
    "super-resolution",
    "bandwidth",
)
#: The file of a fusion is that of its dictionary: of the parameters it has those that the dictionary settles.
DICTIONARY_ALONE = "fusion"


@pytest.fixture(params=KINDS)
def kind(request, kinds):
    return kinds[request.param]


def test_no_kind_is_forgotten(kinds):
    assert {name for name, kind in kinds.items() if kind.model is not None} == set(KINDS)


def assert_same(one, other):
    for name, value in one.get_params().items():
        np.testing.assert_equal(other.get_params()[name], value)
    for name, value in vars(one).items():
        parts = value if isinstance(value, list) else [value]
        if name.startswith("_") or not name.endswith("_") or any(hasattr(part, "get_params") for part in parts):
            continue  # what is made of learners shows in what it does
        found = getattr(other, name)
        np.testing.assert_equal(found, value)
        for mine, theirs in zip(parts, found if isinstance(found, list) else [found], strict=True):
            assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None), name


def test_there_and_back_to_the_last_bit(kind):
    same = kind.open(kind.path)
    assert type(same) is type(kind.model)
    if kind.name != DICTIONARY_ALONE:
        assert_same(kind.model, same)
    mine, theirs = (list(kind.use(model)) for model in (copy.deepcopy(kind.model), same))
    assert len(mine) == len(theirs) > 0
    for a, b in zip(mine, theirs, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", [name for name in KINDS if name != DICTIONARY_ALONE], indirect=True)
def test_a_loaded_model_is_saved_to_the_same_bytes(kind, tmp_path):
    kind.open(kind.path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == kind.path.read_bytes()


def test_the_general_door_opens_it(kind):
    opened = coupledict.load(kind.path)
    expected = coupledict.CoupledDictionaryLearning if kind.name == DICTIONARY_ALONE else type(kind.model)
    assert type(opened) is expected


def test_there_is_nothing_to_save_before_fit(kind, tmp_path):
    error = (
        ValueError if kind.name == DICTIONARY_ALONE else NotFittedError
    )  # there is one that ships, but not of this size
    with pytest.raises(error, match="fit"):
        clone(kind.model).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_generators_are_not_saved(kind, tmp_path):
    model = copy.deepcopy(kind.model)
    model.set_params(random_state=np.random.default_rng(0)).save(tmp_path / "model")
    assert kind.open(tmp_path / "model").random_state is None


def test_a_save_that_fails_leaves_the_file_before(kind, tmp_path, monkeypatch):
    (tmp_path / "model").write_bytes(kind.path.read_bytes())

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            kind.model.save(tmp_path / "model")
    assert os.listdir(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == kind.path.read_bytes()


def test_what_is_no_model_is_refused(kind, tmp_path):
    with pytest.raises(FileNotFoundError):
        kind.open(tmp_path / "model")
    (tmp_path / "model").write_text("text")
    with pytest.raises(ModelFileError):
        kind.open(tmp_path / "model")


@pytest.mark.parametrize("name", OWN_DOOR)
def test_a_door_of_its_own_opens_nothing_else(kinds, name):
    for other in KINDS:
        if other != name and not (name == "fusion" and other == "coupled"):
            with pytest.raises(ModelFileError):
                kinds[name].open(kinds[other].path)
