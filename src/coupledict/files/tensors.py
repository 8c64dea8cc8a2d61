"""The arrays of a safetensors file, read as its header says; no more is allocated than the file holds.

The format is small: the length of the header, the header (JSON: dtype, shape and place of each tensor), the bytes of
the tensors without gaps. It is read here rather than by the package of that name, whose releases have no build for a
free-threaded Python and need Rust without one.
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I64": np.dtype(np.int64),
}
MOST_DIMENSIONS = 64  # of an array of NumPy
MOST = 2**63  # no length is as large


class OtherDtypeError(ValueError):
    """A tensor of a dtype that no model has; `tensor` is its name."""

    def __init__(self, tensor: str) -> None:
        super().__init__(f"the tensor {tensor!r} is neither float32, float64 nor int64")
        self.tensor = tensor


def read_tensors(file: BinaryIO, described: Mapping[str, Any], n_bytes: int) -> dict[str, Array]:
    """Return the tensors by name, in the order of their names.

    Parameters
    ----------
    file : binary file
        Open where the bytes of the tensors begin.
    described : mapping of str to JSON value
        The header without its strings.
    n_bytes : int
        How many bytes the tensors have together: the rest of the file.

    Raises
    ------
    ValueError
        If the descriptions contradict the format, each other or the size of the file.
    """
    tensors = {}
    for name, (dtype, shape) in _in_order_of_file(described, n_bytes):
        array = np.empty(shape, dtype.newbyteorder("<"))
        if file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
            raise ValueError(f"the tensor {name!r} ends too early")
        tensors[name] = array.astype(dtype, copy=False)
    return {name: tensors[name] for name in sorted(tensors)}


def _in_order_of_file(
    described: Mapping[str, Any], n_bytes: int
) -> list[tuple[str, tuple[np.dtype[Any], tuple[int, ...]]]]:
    """Return dtype and shape of each tensor by name, checked to fill the bytes from the first to the last."""
    found = {name: _check(name, about) for name, about in described.items()}
    names = sorted(described, key=lambda name: tuple(described[name]["data_offsets"]))
    end = 0
    for name in names:
        dtype, shape = found[name]
        start, end = end, end + math.prod(shape) * dtype.itemsize
        if described[name]["data_offsets"] != [start, end]:
            raise ValueError(f"the tensor {name!r} is not where its shape and the tensors before it say")
    if end != n_bytes:
        raise ValueError(f"the tensors have {end} bytes, and the file has {n_bytes} for them")
    return [(name, found[name]) for name in names]


def _check(name: str, about: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape of one tensor; raise unless its description has the parts that it must have."""
    if not isinstance(about, dict) or about.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"the tensor {name!r} is not described by dtype, shape and data_offsets")
    shape, offsets = about["shape"], about["data_offsets"]
    if not _lengths(shape) or len(shape) > MOST_DIMENSIONS or not _lengths(offsets) or len(offsets) != 2:
        raise ValueError(f"the tensor {name!r} has an impossible shape or place")
    if not isinstance(about["dtype"], str) or about["dtype"] not in DTYPES:
        raise OtherDtypeError(name)
    return DTYPES[about["dtype"]], tuple(shape)


def _lengths(value: Any) -> bool:
    """Return whether a value is a list of possible lengths; True and False are not lengths."""
    return isinstance(value, list) and all(type(n) is int and 0 <= n < MOST for n in value)
