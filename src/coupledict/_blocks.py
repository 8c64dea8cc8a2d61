"""Samples that are read a block of rows at a time: arrays on disk, sequences of chunks, streams that can be replayed.

Blocks are numbered, and every reader gives the rows of a block of all views together. What a pass computes depends on
how the samples are cut into blocks, but not on who reads them, or with how many threads.
"""

from __future__ import annotations

import functools
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ._views import Array, check_view, common_dtype

BLOCK_ROWS = 16384  # rows of a block where the storage has no chunks of its own
BLOCK_BYTES = 32 << 20  # and the most it may take
LARGE_BYTES = 64 << 20  # smaller memory maps are treated as arrays in memory


@dataclass(frozen=True)
class Piece:
    """Rows start..stop-1 of a block."""

    block: int
    start: int
    stop: int


Loaded = tuple[Piece, Callable[[], list[Array]]]


class Blocks(ABC):
    """Views of the same samples in numbered blocks.

    Attributes
    ----------
    sizes : list of int
        Rows of each block.
    present, n_views : list of int, int
        Which views there are, of how many.
    widths : list of int
        Features of each view that is present.
    dtype : float32 or float64
        Number type that coding uses for these samples.
    """

    sizes: list[int]
    present: list[int]
    n_views: int
    widths: list[int]
    dtype: np.dtype[Any]

    @property
    def n_samples(self) -> int:
        """Number of rows in all blocks."""
        return sum(self.sizes)

    @abstractmethod
    def load(self, pieces: Iterable[Piece]) -> Iterator[Loaded]:
        """Yield the pieces, in the order of their blocks, each with a function that returns its rows of all views.

        The iterator is for one thread at a time; the functions may be called from several at once.
        """

    def whole(self) -> list[Piece]:
        """Return all blocks as pieces."""
        return [Piece(number, 0, size) for number, size in enumerate(self.sizes)]


def bad_rows(views: Sequence[Array]) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows that hold NaN or infinity in any view."""
    return np.flatnonzero(np.logical_or.reduce([~np.isfinite(view).all(axis=1) for view in views]))


def check_finite(views: Sequence[Array], piece: Piece) -> None:
    """Raise for rows with NaN or infinity, naming the chunk and the rows."""
    rows = bad_rows(views) + piece.start
    if rows.size:
        named = ", ".join(map(str, rows[:5])) + (f" and {rows.size - 5} more" if rows.size > 5 else "")
        raise ValueError(
            f"Expected X to be finite, got NaN or infinity in chunk {piece.block}, rows {named} of that chunk."
            " Remove or impute such samples."
        )


class ArrayBlocks(Blocks):
    """Arrays that give rows by slicing: memory maps, HDF5 datasets, Zarr arrays, and arrays in memory beside them."""

    def __init__(self, given: Sequence[Any], names: Sequence[str]) -> None:
        self.present, self.n_views = [v for v, view in enumerate(given) if view is not None], len(given)
        views, names = [given[v] for v in self.present], [names[v] for v in self.present]
        for view, name in zip(views, names, strict=True):
            if len(view.shape) != 2:
                raise ValueError(f"Expected {name} to have 2 dimensions, got shape {tuple(view.shape)}.")
            if view.shape[1] == 0:
                raise ValueError(f"Expected {name} to have at least one feature, got shape {tuple(view.shape)}.")
            if view.shape[0] != views[0].shape[0]:
                raise ValueError(
                    f"Expected the same number of samples in every view, got {views[0].shape[0]} and {view.shape[0]}"
                    f" ({name})."
                )
            check_view(np.empty((0, int(view.shape[1])), view.dtype), name)
        self.views, self.names = views, names
        self.widths = [int(view.shape[1]) for view in views]
        self.dtype = common_dtype([np.empty((0, 0), view.dtype) for view in views])
        n, rows = int(views[0].shape[0]), block_rows(views)
        self.sizes = [min(rows, n - start) for start in range(0, n, rows)]
        self._rows = rows

    @classmethod
    def of(cls, present: Sequence[int], views: Sequence[Any], n_views: int) -> ArrayBlocks:
        """Return blocks of checked arrays in memory."""
        given: list[Any] = [None] * n_views
        for v, view in zip(present, views, strict=True):
            given[v] = view
        return cls(given, [f"view {v}" for v in range(n_views)])

    def load(self, pieces: Iterable[Piece]) -> Iterator[Loaded]:
        """Yield pieces that are read by whoever calls their function."""
        for piece in pieces:
            yield piece, functools.partial(self._read, piece)

    def _read(self, piece: Piece) -> list[Array]:
        first = piece.block * self._rows
        return [
            self._read_view(view, name, first + piece.start, first + piece.stop, piece.block)
            for view, name in zip(self.views, self.names, strict=True)
        ]

    @staticmethod
    def _read_view(view: Any, name: str, start: int, stop: int, block: int) -> Array:
        try:
            if isinstance(view, np.memmap):
                _check_length(view)
            rows = view[start:stop]
            if isinstance(view, np.memmap):
                rows = np.array(rows)  # a copy, so that the pages of the file can go at once
                _forget(view, start, stop)
            rows = np.asarray(rows)
        except Exception as error:
            raise OSError(f"Could not read chunk {block} (samples {start} to {stop - 1}) of {name}: {error}") from error
        if rows.shape != (stop - start, view.shape[1]):
            raise OSError(
                f"Expected chunk {block} of {name} to have shape {(stop - start, view.shape[1])}, got {rows.shape}."
                " Is the file being written?"
            )
        return rows


def block_rows(views: Sequence[Any]) -> int:
    """Return how many rows to read at a time: whole chunks of the storage, and about as many as serve a thread well."""
    bytes_per_row: int = sum(int(view.shape[1]) * np.dtype(view.dtype).itemsize for view in views)
    wanted = max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(bytes_per_row, 1)))
    stored: int = max((int(chunks[0]) for view in views if (chunks := getattr(view, "chunks", None))), default=1)
    return stored * max(1, wanted // stored)


def _check_length(view: np.memmap[Any, Any]) -> None:
    """Raise if the file of a memory map has become shorter; the system ends a program that reads past its end."""
    file = getattr(view, "_mmap", None)
    if file is not None and view.offset is not None:
        needed = view.offset - view.offset % mmap.ALLOCATIONGRANULARITY + len(file)
        if file.size() < needed:
            raise OSError(f"its file has {file.size()} bytes, {needed} are needed; it was truncated")


def _forget(view: np.memmap[Any, Any], start: int, stop: int) -> None:
    """Tell the system that the pages of these rows are not needed any more; without that they count as ours."""
    file = getattr(view, "_mmap", None)
    if file is None or not view.flags.c_contiguous or not hasattr(mmap, "MADV_DONTNEED"):
        return
    first = view.ctypes.data - np.frombuffer(file, np.uint8).ctypes.data
    begin, end = first + start * view.strides[0], first + stop * view.strides[0]
    begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE  # a page that is shared with a neighbour stays
    end = end // mmap.PAGESIZE * mmap.PAGESIZE
    if view.mode == "r" and end > begin:  # pages that were written to are the system's to keep
        with suppress(ValueError, OSError):
            file.madvise(mmap.MADV_DONTNEED, begin, end - begin)


class _Chunks(Blocks):
    """Chunks that a user's code makes; it is called by one thread at a time.

    With `fresh`, every chunk is known to have memory of its own. Otherwise it is copied when it is read: the user's
    code may put the next one in the same memory while a thread still works on it.
    """

    def __init__(self, *, single: bool, fresh: bool) -> None:
        self._single, self._fresh = single, fresh
        sizes, kinds = [], []
        for number, chunk in self._chunks(range(1 << 62)):
            views = self._check(number, chunk)
            sizes.append(views[0].shape[0])
            kinds.append(np.empty((0, 0), common_dtype(views)))
            del chunk, views
        if not sizes:
            raise ValueError("Expected at least one chunk of samples, got none.")
        self.sizes = sizes
        self.dtype = common_dtype(kinds)

    @abstractmethod
    def _chunks(self, wanted: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Yield the chunks of these numbers, which ascend, and their numbers."""

    def _check(self, number: int, chunk: Any) -> list[Array]:
        """Return the views of a chunk, which must be as the first was."""
        name = f"chunk {number}"
        if self._single and isinstance(chunk, list | tuple) and len(chunk) == 1 and np.ndim(chunk[0]) == 2:
            chunk = chunk[0]
        if not self._single and not isinstance(chunk, list | tuple):
            raise TypeError(f"Expected {name} to be a list of arrays, one a view, got {type(chunk).__name__}.")
        parts = [chunk] if self._single else list(chunk)
        present = [v for v, part in enumerate(parts) if part is not None]
        views = [check_view(parts[v], name if self._single else f"{name}[{v}]") for v in present]
        if not views:
            raise ValueError(f"Expected {name} to hold at least one view, got none.")
        widths, rows = [view.shape[1] for view in views], [view.shape[0] for view in views]
        if len(set(rows)) != 1:
            raise ValueError(f"Expected the same number of samples in every view of {name}, got {rows}.")
        if min(widths) == 0:
            raise ValueError(f"Expected every view of {name} to have at least one feature, got {widths}.")
        if not hasattr(self, "widths"):
            self.present, self.n_views, self.widths = present, len(parts), widths
        if (present, len(parts)) != (self.present, self.n_views):
            raise ValueError(
                f"Expected views {self.present} of {self.n_views} in {name}, as in chunk 0, got {present} of"
                f" {len(parts)}."
            )
        if widths != self.widths:
            raise ValueError(f"Expected views of {self.widths} features in {name}, as in chunk 0, got {widths}.")
        return views

    def load(self, pieces: Iterable[Piece]) -> Iterator[Loaded]:
        """Yield pieces that have been read."""
        wanted = {piece.block: piece for piece in pieces}
        for number, chunk in self._chunks(sorted(wanted)):
            piece = wanted.pop(number)
            views = self._check(number, chunk)
            if views[0].shape[0] != self.sizes[number]:
                raise ValueError(
                    f"Expected chunk {number} to have {self.sizes[number]} samples, as it had before, got"
                    f" {views[0].shape[0]}. Chunks must be the same in every pass."
                )
            rows = [np.array(view[piece.start : piece.stop], copy=None if self._fresh else True) for view in views]
            del chunk, views  # what was copied is let go at once, and the copy before the next chunk is made
            yield piece, functools.partial(list, rows)
            del rows
        if wanted:
            raise ValueError(
                f"Expected {len(self.sizes)} chunks, as before, but chunk {min(wanted)} is missing now. Chunks must be"
                " the same in every pass; a callable must return a fresh iterator each time."
            )


class SequenceBlocks(_Chunks):
    """Chunks by number: an object with a length and ``__getitem__``."""

    def __init__(self, chunks: Any, *, single: bool) -> None:
        self._sequence = chunks
        super().__init__(single=single, fresh=isinstance(chunks, list | tuple))

    def _chunks(self, wanted: Iterable[int]) -> Iterator[tuple[int, Any]]:
        n_chunks = len(self._sequence)
        for number in wanted:
            if number >= n_chunks:
                return
            try:
                chunk = self._sequence[number]
            except Exception as error:
                raise OSError(f"Could not read chunk {number}: {error}") from error
            yield number, chunk
            del chunk


class ReplayedBlocks(_Chunks):
    """Chunks in a row: a callable that returns a fresh iterator."""

    def __init__(self, make: Callable[[], Iterable[Any]], *, single: bool) -> None:
        self._make = make
        super().__init__(single=single, fresh=False)

    def _chunks(self, wanted: Iterable[int]) -> Iterator[tuple[int, Any]]:
        numbers = iter(wanted)
        number = next(numbers, None)
        place = 0
        made = self._make()
        if not isinstance(made, Iterable):
            raise TypeError(f"Expected the callable to return an iterator over chunks, got {type(made).__name__}.")
        chunks = iter(made)
        while number is not None:
            try:
                chunk = next(chunks)
            except StopIteration:
                return
            except Exception as error:
                raise OSError(f"Could not read chunk {place}: {error}") from error
            if place == number:
                yield number, chunk
                number = next(numbers, None)
            del chunk
            place += 1


def is_stored(value: object) -> bool:
    """Tell an array on disk, to be read by slices, from one in memory: Zarr, HDF5, large memory maps."""
    if isinstance(value, np.ndarray):
        return isinstance(value, np.memmap) and value.nbytes >= LARGE_BYTES
    return all(hasattr(value, name) for name in ("shape", "dtype", "chunks", "__getitem__"))


def kind_of_blocks(value: object, *, single: bool) -> Literal["arrays", "sequence", "callable"] | None:
    """Tell what samples in blocks are given as, without reading any; None for arrays in memory."""
    if single and is_stored(value):
        return "arrays"
    if callable(value):
        return "callable"
    if not isinstance(value, list | tuple):
        plain = isinstance(value, np.ndarray | str | bytes | dict) or hasattr(value, "__array__")
        sequence = hasattr(value, "__len__") and hasattr(value, "__getitem__") and not hasattr(value, "shape")
        return "sequence" if sequence and not plain else None
    if not single and any(is_stored(entry) for entry in value):
        return "arrays"
    return "sequence" if value and all(_is_chunk(entry, single=single) for entry in value) else None


def find_blocks(value: Any, *, single: bool, name: str) -> Blocks | None:
    """Return what was given as blocks, if it is to be read in blocks; None for arrays in memory."""
    kind = kind_of_blocks(value, single=single)
    if kind == "callable":
        return ReplayedBlocks(value, single=single)
    if kind == "sequence":
        return SequenceBlocks(value, single=single)
    if kind is None:
        return None
    given, names = ([value], [name]) if single else (list(value), [f"{name}[{v}]" for v in range(len(value))])
    views = [x if x is None or is_stored(x) else check_view(x, label) for x, label in zip(given, names, strict=True)]
    return ArrayBlocks(views, names)


def _is_chunk(entry: object, *, single: bool) -> bool:
    """Tell a chunk from a view: a chunk of several views is a list of tables, a view given as a list one of rows."""
    if single:
        return isinstance(entry, np.ndarray) and entry.ndim == 2
    tables = [table for table in entry if table is not None] if isinstance(entry, list | tuple) else []
    return len(tables) > 0 and np.ndim(tables[0]) == 2
