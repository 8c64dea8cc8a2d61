"""Arrays and their number types: which type coding uses, how rows are converted, how samples are scaled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .mapped import rows_in_memory

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]


def common_dtype(arrays: Sequence[Array | None]) -> np.dtype[Any]:
    """Return the number type that coding uses for these arrays: float32 or float64.

    float32 where every array is float32, float16, boolean or an integer of at most 16 bits (float32 represents all
    their values exactly), float64 otherwise.
    """
    return np.result_type(np.float32, *(array.dtype for array in arrays if array is not None))


def read_rows(view: Array, start: int, stop: int, dtype: np.dtype[Any]) -> Array:
    """Return rows of a view in the given number type; copy them only if the kernels cannot read them in place.

    Rows of a mapped file are copied too: if it was truncated, reading them in place would end the process.
    """
    rows = np.asarray(rows_in_memory(view, start, stop), dtype=dtype)
    whole_strides = all(stride % rows.itemsize == 0 for stride in rows.strides)
    return rows if rows.flags.aligned and whole_strides else np.ascontiguousarray(rows)


#: The largest number of all samples may lie between these powers of two; sums of fourth powers are then in range.
SAFE_EXPONENTS = {np.dtype(np.float32): (-40, 40), np.dtype(np.float64): (-300, 300)}


def largest_number(arrays: Sequence[Array]) -> float:
    """Return the largest absolute value in the floating-point arrays among these; 0 if there are none.

    Integer and boolean arrays are skipped: their range is harmless. NaN is skipped too; infinity is returned as it is.
    """
    return max((_largest(array) for array in arrays if array.dtype.kind == "f" and array.size), default=0.0)


def _largest(array: Array) -> float:
    ends = np.array([array.max(), array.min()])
    if np.isnan(ends).any():  # slower, and rarely needed
        ends = np.array([np.fmax.reduce(array, axis=None), np.fmin.reduce(array, axis=None)])
    return float(np.abs(ends).max()) if not np.isnan(ends).any() else 0.0


def safe_scale(largest: float, dtype: np.dtype[Any]) -> float:
    """Return the power of two to multiply samples by, so that no sum over them over- or underflows; usually 1.

    Parameters
    ----------
    largest : float
        The largest absolute value of all samples.
    dtype : float32 or float64
        The number type that they are coded in.
    """
    if not np.isfinite(largest) or largest == 0:
        return 1.0
    exponent = int(np.frexp(largest)[1])
    low, high = SAFE_EXPONENTS[dtype]
    return 1.0 if low <= exponent <= high else float(np.ldexp(1.0, min(-exponent, 1020)))


def multiply(views: Sequence[Array], scale: float, dtype: np.dtype[Any]) -> list[Array]:
    """Return views multiplied by a power of two, in the given number type; the same arrays if the factor is 1."""
    if scale == 1:
        return list(views)
    with np.errstate(over="ignore"):  # of a view that does not count
        return [(np.asarray(view, np.float64) * scale).astype(dtype) for view in views]
