"""Conversion of pandas and polars tables to arrays; neither library is imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def check_same_rows(values: Sequence[Any], names: Sequence[str]) -> None:
    """Raise if rows of tables with an index, which are of the same samples, have different labels.

    Rows are paired by position. What has no index (arrays, tables of polars, None) goes with anything, and so do tables
    of other lengths, about which there are other errors.

    Parameters
    ----------
    values : list of arrays, tables and columns
    names : list of str
        What to call them in errors.
    """
    indexed = [(value, name) for value, name in zip(values, names, strict=True) if _has_index(value)]
    for value, name in indexed[1:]:
        first, first_name = indexed[0]
        if len(value) == len(first) and not first.index.equals(value.index):
            raise ValueError(
                f"Expected the rows of {name} to have the index of {first_name}, got"
                f" {_difference(first.index, value.index)}. Rows are paired by position: align them first,"
                f" {name}.loc[{first_name}.index], or give both without their indexes, reset_index(drop=True), if their"
                " order is right."
            )


def _has_index(value: object) -> bool:
    return hasattr(value, "iloc") and hasattr(value, "index")


def _difference(first: Any, other: Any) -> str:
    """Return how two indexes of equal length differ."""
    if first.is_unique and other.is_unique and other.isin(first).all():
        return "the same labels in another order"
    row, pair = next(
        (row, pair) for row, pair in enumerate(zip(first.tolist(), other.tolist(), strict=True)) if pair[0] != pair[1]
    )
    return f"{pair[0]!r} and {pair[1]!r} in row {row}"


@contextmanager
def name_bad_column(X: object, name: str) -> Iterator[None]:
    """Replace an error about a table, inside this context, by one that names the column without numbers, if any."""
    try:
        yield
    except (TypeError, ValueError):
        if is_table(X):
            table_to_array(X, name)
        raise
