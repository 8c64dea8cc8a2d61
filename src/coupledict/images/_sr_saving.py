"""Super-resolution models to files and back.

A saved model comes back to the last bit. The models that come with the package are kept in half precision, which costs
nothing that can be measured in their pictures; model files know no such numbers, so four of them travel in one integer.
"""

from __future__ import annotations

import inspect
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._views import Array
from ..model_io import JSON, ModelFileError, read_model, write_model

if TYPE_CHECKING:
    from ._super_resolution import SuperResolution

TENSORS = ("projection", "basis", "components", "details")


def save(model: SuperResolution, path: str | os.PathLike[str], *, half: bool = False) -> None:
    """Write a fitted model; with `half` in half precision."""
    from .. import __version__

    metadata: dict[str, JSON] = {
        "estimator": "SuperResolution",
        "version": __version__,
        "parameters": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "n_samples": int(model.n_samples_),
    }
    tensors: dict[str, Array] = {name: getattr(model, f"{name}_") for name in TENSORS}
    if half:
        metadata["half"] = {name: list(array.shape) for name, array in tensors.items()}
        tensors = {name: _pack(array) for name, array in tensors.items()}
    write_model(path, tensors, metadata)


def _pack(array: Array) -> npt.NDArray[np.int64]:
    """Return an array as half-precision numbers, four to an integer."""
    halves = np.zeros(-(-array.size // 4) * 4, "<f2")
    halves[: array.size] = array.ravel()
    return halves.view("<i8").astype(np.int64)


def _unpack(words: Array, shape: list[int]) -> npt.NDArray[np.float32]:
    """Return what `_pack` packed."""
    halves = words.astype("<i8").view("<f2")
    return halves[: math.prod(shape)].astype(np.float32).reshape(shape)


def _plain(value: Any) -> JSON:
    """Return a parameter as JSON can hold it; a random generator, which it cannot, becomes None."""
    if isinstance(value, np.integer | np.floating | np.bool_):
        value = value.item()
    return value if isinstance(value, bool | int | float | str) else None


def load(path: str | os.PathLike[str]) -> SuperResolution:
    """Read a model."""
    tensors, metadata = read_model(path)
    try:
        return rebuild(tensors, metadata)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"Expected {os.fspath(path)!r} to hold a complete model, but {error}.") from error


def rebuild(tensors: dict[str, Array], metadata: dict[str, Any]) -> SuperResolution:
    """Make a model of what its file holds; a file that contradicts itself raises one of the errors `load` expects."""
    from ._super_resolution import SuperResolution

    if metadata["estimator"] != "SuperResolution":
        raise ValueError(f"it holds a {metadata['estimator']!r}, not a SuperResolution")
    parameters = metadata["parameters"]
    unknown = sorted(set(parameters) - set(inspect.signature(SuperResolution).parameters))
    if unknown:
        raise ValueError(f"it has unknown parameters {unknown}")
    model = SuperResolution(**parameters)
    model._check_parameters()
    for name, shape in metadata.get("half", {}).items():
        tensors[name] = _unpack(tensors[name], shape)
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
    model.n_samples_ = metadata["n_samples"]
    return model
