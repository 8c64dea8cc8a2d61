"""What a set of views is: arrays of the same samples, checked once, read in chunks.

A view is an array (n_samples, n_features_v). A single view and a list of views go through the same functions; an absent
view is ``None``. Number types follow one rule everywhere (:func:`common_dtype`) and are converted a chunk at a time, so
that a large array of integers or a memory map is never copied whole.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

Array: TypeAlias = npt.NDArray[Any]
ViewList: TypeAlias = list[Array | None]


def is_view_list(value: object) -> bool:
    """Tell a list of views from one array written as a list of rows."""
    return isinstance(value, list | tuple) and all(entry is None or np.ndim(entry) == 2 for entry in value)


def check_view(value: object, name: str) -> Array:
    """Return `value` as a 2-D array of real numbers, without converting its number type."""
    if scipy.sparse.issparse(value):
        raise TypeError(f"Expected {name} to be a dense array, got a sparse one. Convert it with {name}.toarray().")
    array = np.asarray(value)
    if array.ndim != 2:
        hint = f" Use {name}.reshape(1, -1) for a single sample." if array.ndim == 1 else ""
        raise ValueError(f"Expected {name} to have 2 dimensions, got {array.ndim} (shape {array.shape}).{hint}")
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise TypeError(
            f"Expected {name} to hold real numbers of at most 64 bits, got dtype {array.dtype}."
            f" Convert it, for instance with {name}.astype(float)."
        )
    return array


def check_views(value: object, name: str, *, single: bool) -> ViewList:
    """Return `value` as a list of checked views; `single` says that one array is expected."""
    if single:
        return [check_view(value, name)]
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"Expected {name} to be a list of arrays, one a view, as the dictionary is; got {type(value).__name__}."
        )
    return [None if entry is None else check_view(entry, f"{name}[{v}]") for v, entry in enumerate(value)]


def common_dtype(arrays: Sequence[Array | None]) -> np.dtype[Any]:
    """Return the number type that coding uses for these arrays: float32 or float64.

    float32 where every array is float32, float16, boolean or an integer of at most 16 bits (all of their values are
    float32 numbers), float64 otherwise.
    """
    return np.result_type(np.float32, *(array.dtype for array in arrays if array is not None))


def check_weights(view_weights: object, n_views: int) -> npt.NDArray[np.float64]:
    """Return one non-negative weight a view."""
    if view_weights is None:
        return np.ones(n_views)
    if isinstance(view_weights, str) or not isinstance(view_weights, Sequence | np.ndarray):
        raise TypeError(f"Expected view_weights to be None or a list of {n_views} numbers, got {view_weights!r}.")
    try:
        weights = np.asarray(view_weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"Expected view_weights to be a list of numbers, got {view_weights!r}.") from error
    if weights.shape != (n_views,):
        raise ValueError(f"Expected view_weights to hold {n_views} numbers, one a view, got shape {weights.shape}.")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError(f"Expected view_weights to be finite and not negative, got {view_weights!r}.")
    return weights


def check_count(value: object, name: str) -> int:
    """Return `value` as an integer of at least 1."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"Expected {name} to be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"Expected {name} to be at least 1, got {value}.")
    return int(value)


def check_tol(value: object, name: str = "tol") -> float:
    """Return `value` as a finite number of at least 0."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"Expected {name} to be a number, got {value!r}.")
    number = float(value)
    if not (np.isfinite(number) and number >= 0):
        what = "squared norm" if name == "tol" else "number"
        raise ValueError(f"Expected {name} to be a finite {what} of at least 0, got {value}.")
    return number


def read_rows(view: Array, start: int, stop: int, dtype: np.dtype[Any]) -> Array:
    """Return rows of a view in the given number type, copied only where the kernels could not read them in place."""
    rows = np.asarray(view[start:stop], dtype=dtype)
    whole_strides = all(stride % rows.itemsize == 0 for stride in rows.strides)
    return rows if rows.flags.aligned and whole_strides else np.ascontiguousarray(rows)
