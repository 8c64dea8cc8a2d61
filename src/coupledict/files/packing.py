"""Class labels and half-precision arrays in the types that model files can hold."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from .models import JSON

LABEL_KIND = "object|[<>|=][biufU][0-9]{1,9}"
MOST_LABEL_BYTES = 64 << 20  # that an array of labels may take, in which all have the room of the longest


def describe_classes(classes: Array) -> dict[str, JSON]:
    """Return class labels as JSON values."""
    labels = classes.tolist()
    if not all(isinstance(label, bool | int | float | str) for label in labels):
        raise TypeError(f"Expected labels that are numbers or strings, which a file can hold, got {labels[0]!r}.")
    return {"classes": labels, "classes_dtype": "object" if classes.dtype.kind == "O" else classes.dtype.str}


def read_classes(metadata: dict[str, Any]) -> Array:
    """Return the labels that :func:`describe_classes` described."""
    labels, kind = metadata["classes"], str(metadata["classes_dtype"])
    if not re.fullmatch(LABEL_KIND, kind):  # np.dtype accepts far more, and evaluates some of it
        raise ValueError(f"its labels are of the kind {kind[:20]!r}")
    dtype = np.dtype(kind)
    if not isinstance(labels, list) or not all(isinstance(label, bool | int | float | str) for label in labels):
        raise ValueError("its labels are not a list of numbers or strings")
    longest = max((len(label) for label in labels if isinstance(label, str)), default=0)
    if dtype.kind == "U" and (dtype.itemsize > 4 * max(longest, 1) or dtype.itemsize * len(labels) > MOST_LABEL_BYTES):
        raise ValueError(f"its labels are of the kind {dtype}")
    classes = np.array(labels, dtype=dtype)
    if classes.ndim != 1 or classes.size < 2:
        raise ValueError("it has fewer than two classes")
    if len(set(classes.tolist())) < classes.size:
        raise ValueError("it has a class twice")
    return classes


def pack_half(array: Array) -> npt.NDArray[np.int64]:
    """Return an array in half precision, packed four numbers to an int64: model files have no float16."""
    halves = np.zeros(-(-array.size // 4) * 4, "<f2")
    halves[: array.size] = array.ravel()
    return halves.view("<i8").astype(np.int64)


def unpack_half(words: Array, shape: Any) -> npt.NDArray[np.float32]:
    """Return the array that :func:`pack_half` packed, as float32."""
    if words.dtype != np.int64 or words.ndim != 1 or not all(type(length) is int and length > 0 for length in shape):
        raise ValueError("its numbers of half precision have no shape")
    if words.size != -(-math.prod(shape) // 4):
        raise ValueError("its numbers of half precision do not fit their shape")
    halves = words.astype("<i8").view("<f2")
    return halves[: math.prod(shape)].astype(np.float32).reshape(shape)
