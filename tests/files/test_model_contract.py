"""What holds for the files of every kind of model: there and back to the last bit, whole or not at all, no guessing."""

from __future__ import annotations

import copy
import dataclasses
import inspect
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
    "stains",
    "super-resolution",
    "bandwidth",
)


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
        if isinstance(value, dict) and all(map(dataclasses.is_dataclass, value.values())):
            for key, part in value.items():
                assert_same_parts(part, getattr(other, name)[key])
            continue
        if name.startswith("_") or not name.endswith("_") or any(hasattr(part, "get_params") for part in parts):
            continue  # what is made of learners shows in what it does
        found = getattr(other, name)
        np.testing.assert_equal(found, value)
        for mine, theirs in zip(parts, found if isinstance(found, list) else [found], strict=True):
            assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None), name


def assert_same_parts(one, other):
    for field in dataclasses.fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if dataclasses.is_dataclass(mine):
            assert_same_parts(mine, theirs)
        elif not isinstance(mine, list):
            np.testing.assert_equal(theirs, mine)
            assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None), field.name


def test_there_and_back_to_the_last_bit(kind):
    same = kind.open(kind.path)
    assert type(same) is type(kind.model)
    assert_same(kind.model, same)
    mine, theirs = (list(kind.use(model)) for model in (copy.deepcopy(kind.model), same))
    assert len(mine) == len(theirs) > 0
    for a, b in zip(mine, theirs, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


def test_a_loaded_model_is_saved_to_the_same_bytes(kind, tmp_path):
    kind.open(kind.path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == kind.path.read_bytes()


def test_the_general_door_opens_it_and_so_does_its_own(kind):
    for opened in (coupledict.load(kind.path), type(kind.model).load(kind.path)):
        assert type(opened) is type(kind.model)


def test_there_is_nothing_to_save_before_fit(kind, tmp_path):
    # A fusion has a dictionary that ships, but not of this size.
    error = ValueError if kind.name == "fusion" else NotFittedError
    with pytest.raises(error, match="fit"):
        clone(kind.model).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_generators_are_not_saved(kind, tmp_path):
    model = copy.deepcopy(kind.model)
    model.set_params(random_state=np.random.default_rng(0)).save(tmp_path / "model")
    default = inspect.signature(type(model)).parameters["random_state"].default
    assert kind.open(tmp_path / "model").random_state == default


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


def test_its_own_door_opens_nothing_else(kind, kinds):
    for name in KINDS:
        other = kinds[name]
        if type(other.model) is not type(kind.model):
            with pytest.raises(ModelFileError, match=r"Expected .* to hold"):
                type(kind.model).load(other.path)


CHANGED = {
    "classifier": {"n_nonzero_coefs": 1, "head": "codes", "max_iter": 9},
    "matcher": {"n_nonzero_coefs": 1, "semi_coupled": True},
    "bandwidth": {"n_nonzero_coefs": 1, "max_iter": 9},
}


@pytest.mark.parametrize("name", CHANGED)
def test_parameters_that_were_changed_after_the_fit(kinds, name, tmp_path):
    """They are kept, but what was fitted is what it was: here and in the file."""
    kind = kinds[name]
    model = copy.deepcopy(kind.model).set_params(**CHANGED[name])
    model.save(tmp_path / "model")
    same = coupledict.load(tmp_path / "model")
    assert {key: same.get_params()[key] for key in CHANGED[name]} == CHANGED[name]
    for a, b in zip(kind.use(model), kind.use(same), strict=True):
        np.testing.assert_array_equal(a, b)
