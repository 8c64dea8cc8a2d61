"""Missing entries: how users say that there are some. Inside, NaN stands for a missing entry.

Masked arrays of NumPy and nullable columns of pandas and polars say by themselves which entries are missing. In other
arrays NaN may be a missing entry or a mistake, so users have to say which, by ``missing="nan"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from .arrays import Array
from .mapped import in_memory, rows_in_memory
from .parameters import Choice
from .tables import is_table, missing_in_table
from .tensors import with_numpy

#: Whether NaN is an error, or stands for a missing entry.
Missing: TypeAlias = Literal["error", "nan"]
MISSING = Choice(Missing)


def masked_to_nan(value: Any, name: str = "X", *, keep_mapped: bool = False) -> Any:
    """Return a masked array as an array of floats with NaN for masked entries.

    Integers that float32 cannot represent become float64. An array of another library becomes NumPy's, with the same
    memory. An array in a mapped file is copied to memory, unless it is kept there for callers that read it a few rows
    at a time; anything else is returned unchanged. `name` is for errors.
    """
    value = with_numpy(value, name)
    if not np.ma.isMaskedArray(value):
        return in_memory(value, name) if isinstance(value, np.ndarray) and not keep_mapped else value
    data = np.asarray(in_memory(value.data, name))
    if data.dtype.kind not in "fiub" or np.ma.getmask(value) is np.ma.nomask:
        return data
    return np.where(in_memory(np.ma.getmaskarray(value), name), np.float32(np.nan), data)


def declared_missing(value: Any) -> npt.NDArray[np.bool_] | None:
    """Return which entries an array or a table itself says are missing; None if it marks none."""
    mask = None
    if np.ma.isMaskedArray(value):
        mask = in_memory(np.ma.getmaskarray(value))
    elif is_table(value):
        mask = missing_in_table(value)
    return mask if mask is not None and mask.any() else None


def may_miss(given: Sequence[Any], arrays: Sequence[Array], names: Sequence[str], missing: Missing) -> bool:
    """Return whether entries of these views may be missing, by what users say or by what the views themselves say.

    Where the views alone say so, NaN that is not marked as missing is an error.

    Parameters
    ----------
    given : list of arrays or tables
        The views as they were given.
    arrays : list of arrays
        The same as arrays, with NaN for entries that are marked as missing.
    names : list of str
        What to call them in errors.
    missing : {"error", "nan"}
        What users say.
    """
    if missing == "nan":
        return True
    masks = [declared_missing(view) for view in given]
    if all(mask is None for mask in masks):
        return False
    for array, mask, name in zip(arrays, masks, names, strict=True):
        check_marked(rows_in_memory(array, 0, array.shape[0]) if issparse(array) else array, mask, name)
    return True


def check_marked(array: Array, mask: npt.NDArray[np.bool_] | None, name: str, *, first: int = 0) -> None:
    """Raise for NaN that is not marked as missing. `first` is the number of the first sample of the array."""
    strange = np.isnan(array) if mask is None else np.isnan(array) & ~mask
    if strange.any():
        row, column = (int(place) for place in np.argwhere(strange)[0])
        raise ValueError(
            f"Expected {name} to be finite where it is not marked as missing, got NaN in sample {first + row}, feature"
            f" {column}. If NaN stands for a missing entry too, use missing='nan'."
        )
