"""Models of images as files: parameters are kept, and using a model does not change it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import ndimage
from skimage import data

import coupledict
from coupledict import ModelFileError
from coupledict.files import read_model, write_model
from coupledict.images import MultiFocusFusion, SuperResolution

SHARP = data.coins()[40:140, 30:150]
SOFT = ndimage.gaussian_filter(SHARP, 2.0)
LEFT = np.arange(SHARP.shape[1]) < 60
STACK = [np.where(LEFT, SHARP, SOFT), np.where(LEFT, SOFT, SHARP)]


@pytest.fixture(scope="module")
def fusion():
    small = {"n_nonzero_coefs": 3, "patch_size": 6, "max_samples": 4000, "max_iter": 4, "random_state": 0}
    return MultiFocusFusion(48, **small, n_scales=2, smoothness=0.5, motion="shift", keep_size=True).fit([SHARP, SOFT])


def assert_same(one, other):
    """Two fusions made the same decisions, to the bit."""
    for field in ("image", "decision", "depth"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def snapshot(estimator):
    """All that an estimator holds, as bytes."""
    return pickle.dumps(copy.deepcopy(vars(estimator)))


def test_a_saved_fusion_keeps_its_parameters(fusion, tmp_path):
    fusion.save(tmp_path / "fusion")
    for same in (MultiFocusFusion.load(tmp_path / "fusion"), coupledict.load(tmp_path / "fusion")):
        assert same.get_params() == fusion.get_params()
        assert same.learner_.get_params() | {"random_state": None} == fusion.learner_.get_params() | {
            "random_state": None
        }
        assert same.learner_.history_ == fusion.learner_.history_
        assert_same(same.fuse(STACK), fusion.fuse(STACK))
        same.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "fusion").read_bytes()


def test_a_fusion_with_the_shipped_dictionary_is_saved_whole(tmp_path):
    fusion = MultiFocusFusion(register=False, slab=4, n_jobs=2)
    fusion.save(tmp_path / "fusion")
    assert not hasattr(fusion, "learner_")
    same = coupledict.load(tmp_path / "fusion")
    assert same.get_params() == fusion.get_params()
    assert_same(same.fuse(STACK), fusion.fuse(STACK))
    with pytest.raises(ValueError, match="Call fit to learn"):
        MultiFocusFusion(64).save(tmp_path / "other")


def test_callbacks_and_generators_are_not_saved(fusion, tmp_path):
    other = copy.copy(fusion).set_params(callback=print, random_state=np.random.default_rng(0))
    other.save(tmp_path / "fusion")
    same = MultiFocusFusion.load(tmp_path / "fusion")
    assert (same.callback, same.random_state) == (None, None)


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors, metadata: metadata.pop("learner"),
        lambda tensors, metadata: metadata.update(learner=[]),
        lambda tensors, metadata: metadata["parameters"].update(window=5),
        lambda tensors, metadata: metadata["learner"].update(coupling="support"),
        lambda tensors, metadata: metadata["learner"].update(n_nonzero_coefs=None),
        lambda tensors, metadata: metadata["parameters"].update(patch_size=5),
        lambda tensors, metadata: metadata["parameters"].update(speed=5),
        lambda tensors, metadata: tensors.update(view_weights=np.array([0.0, 1.0])),
        lambda tensors, metadata: tensors.pop("components.0"),
    ],
)
def test_fusions_that_contradict_themselves(fusion, tmp_path, damage):
    fusion.save(tmp_path / "model")
    tensors, metadata = read_model(tmp_path / "model")
    damage(tensors, metadata)
    write_model(tmp_path / "model", tensors, metadata)
    with pytest.raises(ModelFileError, match=r"Expected '.*model' to hold a complete model, but"):
        MultiFocusFusion.load(tmp_path / "model")


def test_fusing_does_not_change_a_fusion(fusion):
    before = snapshot(fusion)
    fusion.fuse(STACK)
    assert snapshot(fusion) == before


@pytest.mark.parametrize("method", ["anchored", "coupled"])
def test_upscaling_does_not_change_a_model(method, tmp_path):
    small = {"n_components": 32, "max_samples": 3000, "max_iter": 2, "random_state": 0, "n_jobs": 2}
    model = SuperResolution(2, method=method, **small).fit([SHARP])
    before = snapshot(model)
    model.upscale(SHARP)
    model.save(tmp_path / "model")
    assert snapshot(model) == before


def test_sizes_that_fit_decided_cannot_be_changed_later(fusion, tmp_path):
    other = copy.copy(fusion).set_params(patch_size=8)
    with pytest.raises(ValueError, match="8 x 8 pixels, as patch_size says"):
        other.fuse(STACK)
    with pytest.raises(ValueError, match="8 x 8 pixels, as patch_size says"):
        other.save(tmp_path / "model")
