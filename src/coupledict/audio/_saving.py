"""Bandwidth models to files and back.

A saved model comes back to the last bit. The model that comes with the package is kept in half precision, which costs
nothing that can be measured; model files know no such numbers, so four of them travel in one integer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .._learner import CoupledDictionaryLearning
from .._saving import check_count_of, check_range
from .._task_files import begin_task, describe_task, load_task, pack_half, unpack_half
from .._views import Array
from ..model_io import write_model
from ._frames import N_HIGH

MOST_NUMBER = 1e4  # decibels, an atom and a factor
MOST = 1e10  # tensors are decibels, or of the order of 1

if TYPE_CHECKING:
    from ._bandwidth import BandwidthExtension

FRONT = ("low_mean", "projection", "high_mean", "basis")


def save(model: BandwidthExtension, path: str | os.PathLike[str], *, half: bool = False) -> None:
    """Write a fitted model; with `half` in half precision."""
    learners = model.learners_
    tensors: dict[str, Array] = {name: getattr(model, f"{name}_") for name in FRONT}
    tensors["low_atoms"] = np.stack([learner.components_[0] for learner in learners])
    tensors["high_atoms"] = np.stack([learner.components_[1] for learner in learners])
    tensors["refitted"] = np.stack([learner._refitted[(0,)][1] for learner in learners])
    metadata = describe_task(model) | {
        "n_samples": int(model.n_samples_),
        "ceiling": float(model.ceiling_),
        "constant": float(model.constant_),
        "expansion": float(model.expansion_),
    }
    if half:
        metadata["half"] = {name: list(array.shape) for name, array in tensors.items()}
        tensors = {name: pack_half(array) for name, array in tensors.items()}
    tensors["view_weights"] = np.stack([learner.view_weights_ for learner in learners])
    write_model(path, tensors, metadata)


def load(path: str | os.PathLike[str]) -> BandwidthExtension:
    """Read a model."""
    return load_task(path, rebuild)


def rebuild(tensors: dict[str, Array], metadata: dict[str, Any]) -> BandwidthExtension:
    """Make a model of what its file holds; a file that contradicts itself raises one of the errors `load` expects."""
    from ._bandwidth import BandwidthExtension

    model = begin_task(BandwidthExtension, metadata)
    for name, shape in metadata.get("half", {}).items():
        tensors[name] = unpack_half(tensors[name], shape)
    check_range(tensors, MOST)
    _check_tensors(tensors, model)
    for name in FRONT:
        setattr(model, f"{name}_", tensors[name])
    model.n_samples_ = check_count_of(metadata["n_samples"], "number of samples")
    for name in ("ceiling", "constant", "expansion"):
        value = metadata[name]
        if not isinstance(value, float) or not abs(value) <= MOST_NUMBER:
            raise ValueError(f"its {name} is {value!r}")
        setattr(model, f"{name}_", value)
    model.learners_ = [
        _rebuild_learner(model, low, high, refitted, weights)
        for low, high, refitted, weights in zip(
            *(tensors[name] for name in ("low_atoms", "high_atoms", "refitted", "view_weights")), strict=True
        )
    ]
    return model


def _check_tensors(tensors: dict[str, Array], model: BandwidthExtension) -> None:
    n, n_components, n_features = tensors["low_atoms"].shape
    n_details = len(tensors["basis"])
    expected = {
        "low_mean": (model._n_low,),
        "projection": (model._n_low, n_features - 1),
        "high_mean": (N_HIGH,),
        "basis": (n_details, N_HIGH),
        "low_atoms": (n, n_components, n_features),
        "high_atoms": (n, n_components, n_details),
        "refitted": (n, n_components, n_details),
        "view_weights": (n, 2),
    }
    for name, size in expected.items():
        array, kind = tensors[name], np.float64 if name == "view_weights" else np.float32
        if array.shape != size or array.dtype != kind or array.size == 0 or not np.isfinite(array).all():
            raise ValueError(f"its tensor {name!r} does not fit the others")
    if not (tensors["view_weights"] > 0).all():
        raise ValueError("its view weights are not positive")


def _rebuild_learner(
    model: BandwidthExtension, low: Array, high: Array, refitted: Array, weights: Array
) -> CoupledDictionaryLearning:
    learner = model._learner(None)
    learner._keep([low, high], weights, [])
    learner.n_features_in_ = [low.shape[1], high.shape[1]]
    learner._refitted = {(0,): {1: refitted}}
    return learner
