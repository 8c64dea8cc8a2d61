"""Super-resolution models to files and back.

A saved model comes back to the last bit. The models that come with the package are kept in half precision, which costs
nothing that can be measured in their pictures; model files know no such numbers, so four of them travel in one integer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .._saving import check_count_of, check_range
from .._task_files import begin_task, describe_task, load_task, pack_half, unpack_half
from .._views import Array
from ..model_io import write_model

MOST_BACK_PROJECTIONS = 1000  # each takes a time of its own, and a few are enough
MOST = 1e10  # all tensors are of the order of 1

if TYPE_CHECKING:
    from ._super_resolution import SuperResolution

TENSORS = ("projection", "basis", "components", "details")


def save(model: SuperResolution, path: str | os.PathLike[str], *, half: bool = False) -> None:
    """Write a fitted model; with `half` in half precision."""
    metadata = describe_task(model) | {"n_samples": int(model.n_samples_)}
    tensors: dict[str, Array] = {name: getattr(model, f"{name}_") for name in TENSORS}
    if half:
        metadata["half"] = {name: list(array.shape) for name, array in tensors.items()}
        tensors = {name: pack_half(array) for name, array in tensors.items()}
    write_model(path, tensors, metadata)


def load(path: str | os.PathLike[str]) -> SuperResolution:
    """Read a model."""
    return load_task(path, rebuild)


def rebuild(tensors: dict[str, Array], metadata: dict[str, Any]) -> SuperResolution:
    """Make a model of what its file holds; a file that contradicts itself raises one of the errors `load` expects."""
    from ._super_resolution import SuperResolution

    model = begin_task(SuperResolution, metadata)
    if check_count_of(model.back_projection, "parameter back_projection") > MOST_BACK_PROJECTIONS:
        raise ValueError(f"its parameter back_projection is {model.back_projection}")
    for name, shape in metadata.get("half", {}).items():
        tensors[name] = unpack_half(tensors[name], shape)
    check_range(tensors, MOST)
    projection, basis, components, details = (tensors[name] for name in TENSORS)
    geometry = model._geometry()
    n_components, n_features, n_details = components.shape[0], projection.shape[1], basis.shape[0]
    maps = (n_components, n_features, n_details) if model.method == "anchored" else (n_components, n_details)
    expected = {
        "projection": (geometry.window**2, n_features),
        "basis": (n_details, geometry.side**2),
        "components": (n_components, n_features),
        "details": maps,
    }
    for name, size in expected.items():
        array = tensors[name]
        if array.shape != size or not np.isfinite(array).all() or array.dtype != np.float32 or array.size == 0:
            raise ValueError(f"its tensor {name!r} does not fit the others")
    model.projection_, model.basis_, model.components_, model.details_ = projection, basis, components, details
    model.n_samples_ = check_count_of(metadata["n_samples"], "number of samples")
    return model
