"""The samples of one pass: rows of all views, read chunk by chunk, in their own order or in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array, read_rows
from ..foundation.mapped import dense, rows_in_memory
from ..foundation.standardization import Standardization
from ..kernels import _native

ROWS_AT_ONCE = 16384  # searched at a time for the rows to name in an error


class RowOrder(Protocol):
    """The rows that a pass reads, in order; it need not hold a list of them."""

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
    names : tuple of str, or None
        Names of the views, for error messages; None for a single view.
    missing : bool
        Whether NaN stands for a missing entry.
    standard : Standardization or None
        Applied to what is read; `views` are as they were given.
    """

    views: list[Array]
    dtype: np.dtype[Any]
    order: RowOrder | None = None
    origin: Piece | None = None
    names: tuple[str, ...] | None = None
    missing: bool = False
    standard: Standardization | None = None

    @property
    def widths(self) -> list[int]:
        """Number of features of each view."""
        return [int(view.shape[1]) for view in self.views]

    def select(self, chosen: Sequence[int], dtype: np.dtype[Any]) -> Samples:
        """Return some of the views of the same samples, to be coded in this number type."""
        names = None if self.names is None else tuple(self.names[v] for v in chosen)
        standard = None if self.standard is None else self.standard.select(chosen)
        return replace(self, views=[self.views[v] for v in chosen], dtype=dtype, names=names, standard=standard)

    def __len__(self) -> int:
        return int(self.views[0].shape[0]) if self.order is None else self.order.size

    def read(self, start: int, stop: int) -> list[Array]:
        """Return rows start..stop-1 of every view."""
        if self.standard is not None:
            return [self.standard.apply(v, rows, self.dtype) for v, rows in enumerate(self._read_given(start, stop))]
        if self.order is None:
            return [read_rows(view, start, stop, self.dtype) for view in self.views]
        chosen = self.order.numbers(start, stop)
        return [_gather(view, chosen, self.dtype) for view in self.views]

    def _read_given(self, start: int, stop: int) -> list[Array]:
        """Return rows of every view as they were given."""
        if self.order is None:
            return [rows_in_memory(view, start, stop) for view in self.views]
        chosen = self.order.numbers(start, stop)
        return [np.asarray(view[chosen]) for view in self.views]

    @property
    def seen(self) -> list[Array]:
        """The views, standardized if they are to be."""
        return self.views if self.standard is None else self.read(0, len(self))

    def number(self, row: int) -> int:
        """Return the row number, in the views, of a position in the order."""
        return row if self.order is None else int(self.order.numbers(row, row + 1)[0])

    def rows(self, chosen: npt.NDArray[np.int64]) -> list[Array]:
        """Return the rows at some positions of the order, of every view."""
        numbers = np.array([self.number(int(row)) for row in chosen], np.int64)
        return [np.asarray(dense(view[numbers]), self.dtype) for view in self.views]

    def check_status(self, start: int, status: npt.NDArray[np.uint8]) -> None:
        """Raise if a sample could not be coded, and name it; `start` is the position of the first."""
        if status.max(initial=0) < _native.NOT_FINITE:
            return
        row = int(np.argmax(status >= _native.NOT_FINITE))
        name = f"sample {self.number(start + row)}"
        if self.origin is not None:
            check_finite(self.views, self.origin, self.names, missing=self.missing)
            name = f"row {self.origin.start + start + row} of chunk {self.origin.block}"
        if status[row] == _native.NOT_FINITE:
            raise self._not_finite(self.number(start + row), name)
        raise ValueError(
            f"The coefficients of {name} exceed the range of {self.dtype}."
            " Bring X and the dictionary to comparable scales."
        )

    def check_finite(self) -> None:
        """Raise for infinity, and for NaN unless it stands for a missing entry; name the view and the samples."""
        if self.origin is not None:
            check_finite(self.views, self.origin, self.names, missing=self.missing)
            return
        for v, view in enumerate(self.views):
            if first_bad(view, missing=self.missing)[1]:
                raise not_finite_in(view, None if self.names is None else [self.names[v]], missing=self.missing)

    def _not_finite(self, number: int, name: str) -> ValueError:
        """Return the error for this sample; if all samples are in memory, it names the first bad one of the view."""
        rows = [rows_in_memory(view, number, number + 1)[0] for view in self.views]
        place = next((v for v, row in enumerate(rows) if bad_rows(row[None], missing=self.missing).any()), None)
        if place is None or self.origin is not None:
            return not_finite(rows, name, self.names, missing=self.missing)
        names = None if self.names is None else [self.names[place]]
        return not_finite_in(self.views[place], names, missing=self.missing)


def bad_rows(rows: Array, *, missing: bool) -> npt.NDArray[np.bool_]:
    """Return which rows have infinity, or NaN unless it stands for a missing entry."""
    return np.asarray((np.isinf(rows) if missing else ~np.isfinite(rows)).any(axis=1))


def first_bad(view: Array, *, missing: bool) -> tuple[int, int]:
    """Return the number of the first bad row of a view, and how many there are; see :func:`bad_rows`."""
    first, count = -1, 0
    for start in range(0, view.shape[0], ROWS_AT_ONCE):
        bad = bad_rows(rows_in_memory(view, start, start + ROWS_AT_ONCE), missing=missing)
        if bad.any() and first < 0:
            first = start + int(np.argmax(bad))
        count += int(bad.sum())
    return first, count


def not_finite_in(view: Array, names: Sequence[str] | None, *, missing: bool) -> ValueError:
    """Return the error for a view with bad rows, naming the first and giving their number."""
    first, count = first_bad(view, missing=missing)
    more = "" if count == 1 else f" and {count - 1} more sample{'s' if count > 2 else ''}"
    row = rows_in_memory(view, first, first + 1)[0]
    return not_finite([row], f"sample {first}{more}", names, missing=missing)


def _gather(view: Array, rows: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> Array:
    """Return the rows with these numbers, in the given number type, C-contiguous."""
    readable = (view.dtype == dtype or view.dtype == np.float64) and dtype.isnative and view.dtype.isnative
    whole_strides = all(stride % view.itemsize == 0 for stride in view.strides)
    if not (readable and view.dtype.kind == "f" and view.flags.aligned and whole_strides):
        return np.ascontiguousarray(view[rows], dtype=dtype)
    gathered = np.empty((rows.size, view.shape[1]), dtype)
    _native.gather(view, rows, gathered)
    return gathered


def not_finite(
    rows: Sequence[Array], name: str, views: Sequence[str] | None = None, *, missing: bool = False
) -> ValueError:
    """Return the error for samples with NaN or infinity, where one is not allowed.

    Parameters
    ----------
    rows : list of arrays
        The bad samples, one array for each view.
    name : str
        What to call them.
    views : list of str, optional
        Names of the views; not for a single view.
    missing : bool
        Whether NaN is allowed.
    """
    bad = [np.isinf(row) if missing else ~np.isfinite(row) for row in rows]
    place = next((v for v, entries in enumerate(bad) if entries.any()), 0)
    what = "NaN" if np.isnan(rows[place]).any() and not missing else "infinity"
    where = name if views is None else f"{views[place]}, {name}"
    remedy = "Remove such samples, or replace the infinite entries by numbers."
    if what == "NaN":
        remedy = "If NaN stands for a missing entry, use missing='nan'; otherwise remove or impute such samples."
    return ValueError(f"Expected X to be finite, got {what} in {where}. {remedy}")


def check_finite(
    views: Sequence[Array], piece: Piece, names: Sequence[str] | None = None, *, missing: bool = False
) -> None:
    """Raise for rows with NaN, unless it is allowed, or infinity, naming the view, the chunk and the rows."""
    for v, view in enumerate(views):
        bad = (np.isinf(view) if missing else ~np.isfinite(view)).any(axis=1)
        rows = np.flatnonzero(bad) + piece.start
        if rows.size:
            named = ", ".join(map(str, rows[:5])) + (f" and {rows.size - 5} more" if rows.size > 5 else "")
            name = f"chunk {piece.block}, rows {named} of that chunk"
            raise not_finite([view[bad]], name, None if names is None else [names[v]], missing=missing)
