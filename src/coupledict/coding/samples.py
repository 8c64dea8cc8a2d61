"""The samples of one pass: rows of all views, read chunk by chunk, in their own order or in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array, read_rows
from ..kernels import _native


class RowOrder(Protocol):
    """Which rows a pass reads, and in which order; need not hold a list of all of them."""

    @property
    def size(self) -> int:
        """Number of rows in the order."""

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows at positions start..stop-1 of the order."""


@dataclass(frozen=True)
class Piece:
    """Rows start..stop-1 of a block."""

    block: int
    start: int
    stop: int


@dataclass(frozen=True)
class Samples:
    """Samples of all views.

    Attributes
    ----------
    views : list of arrays (n_samples, n_features_v)
    dtype : float32 or float64
        Number type that they are coded in.
    order : RowOrder or None
        None means all rows, in their own order.
    origin : Piece or None
        Which rows of which block these are, for error messages.
    """

    views: list[Array]
    dtype: np.dtype[Any]
    order: RowOrder | None = None
    origin: Piece | None = None

    def __len__(self) -> int:
        return int(self.views[0].shape[0]) if self.order is None else self.order.size

    def read(self, start: int, stop: int) -> list[Array]:
        """Return rows start..stop-1 of every view."""
        if self.order is None:
            return [read_rows(view, start, stop, self.dtype) for view in self.views]
        chosen = self.order.numbers(start, stop)
        return [_gather(view, chosen, self.dtype) for view in self.views]

    def number(self, row: int) -> int:
        """Return the row number, in the views, of a position in the order."""
        return row if self.order is None else int(self.order.numbers(row, row + 1)[0])

    def rows(self, chosen: npt.NDArray[np.int64]) -> list[Array]:
        """Return the rows at some positions of the order, of every view."""
        numbers = np.array([self.number(int(row)) for row in chosen], np.int64)
        return [np.asarray(view[numbers], self.dtype) for view in self.views]

    def check_status(self, start: int, status: npt.NDArray[np.uint8]) -> None:
        """Raise if a sample could not be coded, and name it; `start` is the position of the first."""
        if status.max(initial=0) < _native.NOT_FINITE:
            return
        row = int(np.argmax(status >= _native.NOT_FINITE))
        name = f"sample {self.number(start + row)}"
        if self.origin is not None:
            check_finite(self.views, self.origin)
            name = f"row {self.origin.start + start + row} of chunk {self.origin.block}"
        if status[row] == _native.NOT_FINITE:
            raise ValueError(f"Expected X to be finite, got NaN or infinity in {name}. Remove or impute such samples.")
        raise ValueError(
            f"The coefficients of {name} exceed the range of {self.dtype}."
            " Bring X and the dictionary to comparable scales."
        )


def _gather(view: Array, rows: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> Array:
    """Return the rows with these numbers, in the given number type, C-contiguous."""
    wanted = (view.dtype == dtype or view.dtype == np.float64) and dtype.isnative and view.dtype.isnative
    whole_strides = all(stride % view.itemsize == 0 for stride in view.strides)
    if not (wanted and view.dtype.kind == "f" and view.flags.aligned and whole_strides):
        return np.ascontiguousarray(view[rows], dtype=dtype)
    gathered = np.empty((rows.size, view.shape[1]), dtype)
    _native.gather(view, rows, gathered)
    return gathered


def check_finite(views: Sequence[Array], piece: Piece) -> None:
    """Raise for rows with NaN or infinity, naming the chunk and the rows."""
    bad = np.logical_or.reduce([~np.isfinite(view).all(axis=1) for view in views])
    rows = np.flatnonzero(bad) + piece.start
    if rows.size:
        named = ", ".join(map(str, rows[:5])) + (f" and {rows.size - 5} more" if rows.size > 5 else "")
        raise ValueError(
            f"Expected X to be finite, got NaN or infinity in chunk {piece.block}, rows {named} of that chunk."
            " Remove or impute such samples."
        )
