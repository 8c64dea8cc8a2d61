"""Super-resolution models as files: what is saved is loaded, and what contradicts itself is refused."""

from __future__ import annotations

import numpy as np
import pytest
from skimage import data

import coupledict
from coupledict import ModelFileError
from coupledict.files import read_model, write_model
from coupledict.images import SuperResolution

METHODS = ("anchored", "coupled")
HELD_OUT = data.coffee()[60:300, 120:420]


@pytest.fixture(scope="module")
def models():
    small = {"n_components": 64, "max_samples": 20_000, "max_iter": 4, "random_state": 0}
    return {(method, 3): SuperResolution(3, method=method, **small).fit([data.camera()]) for method in METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_upscales_to_the_same_bits(models, tmp_path, method):
    model = models[method, 3]
    model.save(tmp_path / "model")
    same = SuperResolution.load(tmp_path / "model")
    assert same.get_params() == model.get_params()
    assert same.n_samples_ == model.n_samples_
    np.testing.assert_array_equal(same.upscale(HELD_OUT), model.upscale(HELD_OUT))
    same.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_half_precision(models, tmp_path):
    model = models["anchored", 3]
    model._to_state(half=True).write(tmp_path / "half")
    model.save(tmp_path / "full")
    assert (tmp_path / "half").stat().st_size < 0.52 * (tmp_path / "full").stat().st_size
    same = SuperResolution.load(tmp_path / "half")
    for name in ("projection_", "basis_", "components_", "details_"):
        halves = getattr(model, name).astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(getattr(same, name), halves)


def without(key):
    return lambda tensors, metadata: (tensors.pop(key, None), metadata.pop(key, None))


def changing(part, key, value):
    return lambda tensors, metadata: (tensors if part == "tensors" else metadata).update({key: value})


@pytest.mark.parametrize(
    "damage",
    [
        without("projection"),
        without("details"),
        without("parameters"),
        without("n_samples"),
        changing("metadata", "parameters", {"scale": 7}),
        changing("metadata", "parameters", {"scale": 2}),
        changing("metadata", "parameters", {"speed": 2}),
        changing("metadata", "parameters", [3]),
        changing("metadata", "half", {"details": [1, 2]}),
        changing("metadata", "half", {"nothing": [1]}),
        changing("tensors", "components", np.zeros((64, 3), np.float32)),
        changing("tensors", "components", np.zeros(64, np.float32)),
        changing("tensors", "details", np.zeros((64, 81), np.float32)),
        changing("tensors", "basis", np.ones((48, 81))),
        changing("tensors", "basis", np.zeros((0, 81), np.float32)),
    ],
)
def test_files_that_contradict_themselves(models, tmp_path, damage):
    path = tmp_path / "model"
    models["anchored", 3].save(path)
    tensors, metadata = read_model(path)
    damage(tensors, metadata)
    write_model(path, tensors, metadata)
    with pytest.raises(ModelFileError, match=r"Expected '.*model' to hold a complete model, but"):
        SuperResolution.load(path)


def test_a_model_of_another_kind(models, tmp_path):
    models["anchored", 3].save(tmp_path / "model")
    tensors, metadata = read_model(tmp_path / "model")
    write_model(tmp_path / "model", tensors, metadata | {"estimator": "DictionaryLearning"})
    with pytest.raises(ModelFileError, match="to hold a SuperResolution, got a DictionaryLearning"):
        SuperResolution.load(tmp_path / "model")
    with pytest.raises(ModelFileError, match="to hold a complete model, but"):
        coupledict.load(tmp_path / "model")


@pytest.mark.parametrize(("scale", "method"), [(5, "anchored"), ("3", "anchored"), (3, "coupled")])
def test_models_that_do_not_ship(scale, method):
    with pytest.raises((TypeError, ValueError), match=r"(scale|method of a pretrained model) to be"):
        SuperResolution.pretrained(scale, method=method)


def test_pretrained_parameters():
    model = SuperResolution.pretrained(2, ensemble=True, n_jobs=2, verbose=0)
    assert (model.scale, model.ensemble, model.n_jobs) == (2, True, 2)
