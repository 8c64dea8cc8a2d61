"""What models of tasks share in files: parameters, labels, half precision, and one sentence for what does not fit."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ._saving import CONTRADICTIONS, describe_parameters, make_estimator
from ._views import Array
from .model_io import JSON, contradiction, read_model

Model = TypeVar("Model")

LABEL_KIND = "object|[<>|=][biufU][0-9]{1,9}"


def describe_task(model: Any) -> dict[str, JSON]:
    """Return what the file of every task begins with."""
    from . import __version__

    return {"estimator": type(model).__name__, "version": __version__, "parameters": describe_parameters(model)}


def begin_task(cls: type[Model], metadata: dict[str, Any]) -> Model:
    """Return an estimator with the parameters that a file tells, checked, and nothing learned yet."""
    if metadata["estimator"] != cls.__name__:
        raise ValueError(f"it holds a {metadata['estimator']!r}, not a {cls.__name__}")
    return make_estimator(cls, metadata["parameters"])  # type: ignore[no-any-return]


def load_task(path: str | os.PathLike[str], rebuild: Callable[[dict[str, Array], dict[str, Any]], Model]) -> Model:
    """Read the model of a task."""
    tensors, metadata = read_model(path)
    try:
        return rebuild(tensors, metadata)
    except CONTRADICTIONS as error:
        raise contradiction(path, "a complete model", error) from error


def describe_classes(classes: Array) -> dict[str, JSON]:
    """Return labels of classes as JSON can hold them."""
    labels = classes.tolist()
    if not all(isinstance(label, bool | int | float | str) for label in labels):
        raise TypeError(f"Expected labels that are numbers or strings, which a file can hold, got {labels[0]!r}.")
    return {"classes": labels, "classes_dtype": "object" if classes.dtype.kind == "O" else classes.dtype.str}


def read_classes(metadata: dict[str, Any]) -> Array:
    """Return the labels that :func:`describe_classes` described."""
    labels, kind = metadata["classes"], str(metadata["classes_dtype"])
    if not re.fullmatch(LABEL_KIND, kind):  # NumPy would read more into it, and evaluate some of that
        raise ValueError(f"its labels are of the kind {kind[:20]!r}")
    dtype = np.dtype(kind)
    if not isinstance(labels, list) or not all(isinstance(label, bool | int | float | str) for label in labels):
        raise ValueError("its labels are not a list of numbers or strings")
    longest = max((len(label) for label in labels if isinstance(label, str)), default=0)
    if dtype.kind == "U" and dtype.itemsize > 4 * max(longest, 1):
        raise ValueError(f"its labels are of the kind {dtype}")
    classes = np.array(labels, dtype=dtype)
    if classes.ndim != 1 or classes.size < 2:
        raise ValueError("it has fewer than two classes")
    if len(set(classes.tolist())) < classes.size:
        raise ValueError("it has a class twice")
    return classes


def pack_half(array: Array) -> npt.NDArray[np.int64]:
    """Return an array as half-precision numbers, four to an integer: model files know no such numbers."""
    halves = np.zeros(-(-array.size // 4) * 4, "<f2")
    halves[: array.size] = array.ravel()
    return halves.view("<i8").astype(np.int64)


def unpack_half(words: Array, shape: Any) -> npt.NDArray[np.float32]:
    """Return what :func:`pack_half` packed."""
    if words.dtype != np.int64 or words.ndim != 1 or not all(type(length) is int and length > 0 for length in shape):
        raise ValueError("its numbers of half precision have no shape")
    if words.size != -(-math.prod(shape) // 4):
        raise ValueError("its numbers of half precision do not fit their shape")
    halves = words.astype("<i8").view("<f2")
    return halves[: math.prod(shape)].astype(np.float32).reshape(shape)
