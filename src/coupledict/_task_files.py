"""What models of tasks share in files: parameters, labels, half precision, and one sentence for what does not fit."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ._saving import describe_parameters
from ._views import Array
from .model_io import JSON, ModelFileError, read_model

Model = TypeVar("Model")

#: What rebuilding a model from a file that contradicts itself may raise.
CONTRADICTIONS = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)


def describe_task(model: Any) -> dict[str, JSON]:
    """Return what the file of every task begins with."""
    from . import __version__

    return {"estimator": type(model).__name__, "version": __version__, "parameters": describe_parameters(model)}


def begin_task(cls: type[Model], metadata: dict[str, Any]) -> Model:
    """Return an estimator with the parameters that a file tells, checked, and nothing learned yet."""
    if metadata["estimator"] != cls.__name__:
        raise ValueError(f"it holds a {metadata['estimator']!r}, not a {cls.__name__}")
    parameters = metadata["parameters"]
    unknown = sorted(set(parameters) - set(inspect.signature(cls).parameters))
    if unknown:
        raise ValueError(f"it has unknown parameters {unknown}")
    model: Any = cls(**parameters)
    model._check_parameters()
    return model  # type: ignore[no-any-return]


def load_task(path: str | os.PathLike[str], rebuild: Callable[[dict[str, Array], dict[str, Any]], Model]) -> Model:
    """Read the model of a task."""
    tensors, metadata = read_model(path)
    try:
        return rebuild(tensors, metadata)
    except CONTRADICTIONS as error:
        raise ModelFileError(f"Expected {os.fspath(path)!r} to hold a complete model, but {error}.") from error


def describe_classes(classes: Array) -> dict[str, JSON]:
    """Return labels of classes as JSON can hold them."""
    labels = classes.tolist()
    if not all(isinstance(label, bool | int | float | str) for label in labels):
        raise TypeError(f"Expected labels that are numbers or strings, which a file can hold, got {labels[0]!r}.")
    return {"classes": labels, "classes_dtype": "object" if classes.dtype.kind == "O" else classes.dtype.str}


def read_classes(metadata: dict[str, Any]) -> Array:
    """Return the labels that :func:`describe_classes` described."""
    labels, dtype = metadata["classes"], np.dtype(str(metadata["classes_dtype"]))
    longest = max((len(label) for label in labels if isinstance(label, str)), default=0)
    if dtype.kind not in "biufUO" or (dtype.kind == "U" and dtype.itemsize > 4 * max(longest, 1)):
        raise ValueError(f"its labels are of the kind {dtype}")
    classes = np.array(labels, dtype=dtype)
    if classes.ndim != 1 or classes.size < 2:
        raise ValueError("it has fewer than two classes")
    return classes


def pack_half(array: Array) -> npt.NDArray[np.int64]:
    """Return an array as half-precision numbers, four to an integer: model files know no such numbers."""
    halves = np.zeros(-(-array.size // 4) * 4, "<f2")
    halves[: array.size] = array.ravel()
    return halves.view("<i8").astype(np.int64)


def unpack_half(words: Array, shape: list[int]) -> npt.NDArray[np.float32]:
    """Return what :func:`pack_half` packed."""
    halves = words.astype("<i8").view("<f2")
    return halves[: math.prod(shape)].astype(np.float32).reshape(shape)
