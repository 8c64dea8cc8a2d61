"""Conversion of pandas and polars tables to arrays; neither library is imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import Array


def is_table(value: object) -> bool:
    """Return whether this is a table with named columns, of pandas or polars, and not an array."""
    return all(hasattr(value, name) for name in ("columns", "dtypes", "to_numpy", "shape"))


def table_to_array(table: Any, name: str) -> Array:
    """Return a table of numbers as an array of their common type; missing numbers become NaN."""
    kinds = set(table.dtypes)
    if len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and kind.kind in "fiub":
        return np.asarray(table.to_numpy())  # the common case, without a copy
    columns = [_column(table, place, name) for place in range(table.shape[1])]
    if not columns:
        return np.empty(table.shape)
    return np.stack(columns, axis=1, dtype=np.result_type(*columns), casting="unsafe")


def _column(table: Any, place: int, name: str) -> Array:
    column = table.iloc[:, place] if hasattr(table, "iloc") else table[:, place]
    dtype = column.dtype
    # A nullable pandas dtype names the NumPy dtype of its numbers. Missing integers need a float dtype, for NaN.
    plain = getattr(dtype, "numpy_dtype", None)
    if isinstance(plain, np.dtype) and plain.kind in "fiub":
        if plain.kind != "f" and column.hasnans:
            plain = np.dtype(np.float64)
        return np.asarray(column.to_numpy(plain, na_value=np.nan) if plain.kind == "f" else column.to_numpy(plain))
    array = np.asarray(column.to_numpy())
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"Expected the columns of {name} to hold real numbers, got column {table.columns[place]!r} of dtype"
            f" {dtype}. Leave it out, or convert it to numbers first."
        )
    return array


def missing_in_table(table: Any) -> npt.NDArray[np.bool_] | None:
    """Return which entries of nullable columns are missing; None if no column is nullable.

    NaN in a column that is not nullable, or beside the nulls of polars, is a number and not counted.
    """
    masks: list[npt.NDArray[np.bool_]] = []
    nullable = False
    for place in range(table.shape[1]):
        column = table.iloc[:, place] if hasattr(table, "iloc") else table[:, place]
        mask = np.zeros(table.shape[0], bool)
        if hasattr(table, "iloc"):
            if hasattr(column.dtype, "numpy_dtype"):
                nullable, mask = True, np.asarray(column.isna())
        elif column.null_count():
            nullable, mask = True, np.asarray(column.is_null().to_numpy())
        masks.append(mask)
    return np.stack(masks, axis=1) if nullable else None


@contextmanager
def name_bad_column(X: object, name: str) -> Iterator[None]:
    """Replace an error about a table, inside this context, by one that names the column without numbers, if any."""
    try:
        yield
    except (TypeError, ValueError):
        if is_table(X):
            table_to_array(X, name)
        raise
