"""Samples in blocks of rows, read one block at a time: arrays on disk, sequences of chunks, callables that replay them.

Blocks are numbered. A reader (:class:`Blocks`) returns the rows of a block of all views together, and
:class:`Blocked` does jobs with them. What a pass computes depends on how the samples are split into blocks, but not on
the kind of reader or the number of threads.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..coding.coder import Shortfall
from ..coding.recipe import Recipe
from ..coding.samples import Piece, Samples
from ..files.codes import CodeFile, code_writer, open_codes
from ..foundation.arrays import Array, Floats, common_dtype, largest_number, multiply
from ..foundation.block_sizes import SIZES
from ..foundation.mapped import copy_mapped, dense, find_map, forget_pages
from ..foundation.missing import check_marked, declared_missing
from ..foundation.tables import check_same_rows
from ..foundation.tensors import is_tensor
from ..foundation.views import Views, check_same_samples, check_view, list_views, n_dims, view_labels, view_names
from ..parallel.cancel import CancelToken
from ..parallel.jobs import Threads
from ..parallel.ordered import in_order
from .interface import Data, Portion
from .jobs import Draw, Encode, Job, Part, Resources, Whole
from .order import Order, mix_drawn, plan_draw, spread_runs, take_pieces

Loaded = tuple[Piece, Callable[[], list[Array]]]


class Blocks(ABC):
    """Views of the same samples in numbered blocks.

    Attributes
    ----------
    sizes : list of int
        Number of rows of each block.
    present, n_views : list of int, int
        Which views are present, and the number of all views.
    widths : list of int
        Number of features of each view that is present.
    dtype : float32 or float64
        Number type that coding uses for these samples.
    largest : array or None
        Largest absolute value of each view; None if the samples have not all been read yet.
    view_names : tuple of str, or None
    missing : bool
        Whether the samples themselves mark entries as missing, as masked arrays do.
    only_marked : bool
        Whether NaN that is not marked as missing is an error although entries are missing.
    """

    sizes: list[int]
    present: list[int]
    n_views: int
    widths: list[int]
    dtype: np.dtype[Any]
    largest: Floats | None = None
    view_names: tuple[str, ...] | None = None
    missing: bool = False
    only_marked: bool = False

    @property
    def n_samples(self) -> int:
        """Number of rows in all blocks."""
        return sum(self.sizes)

    @abstractmethod
    def load(self, pieces: Iterable[Piece]) -> Iterator[Loaded]:
        """Yield the pieces, in the order of their blocks, each with a function that returns its rows of all views.

        Only one thread at a time may advance the iterator; several may call the functions at once.
        """


class ArrayBlocks(Blocks):
    """Arrays whose rows are read by slicing: memory maps, HDF5 datasets, Zarr arrays, mixed with arrays in memory."""

    def __init__(self, given: Sequence[Any], names: Sequence[str]) -> None:
        self.present = [v for v, view in enumerate(given) if view is not None]
        self.n_views = len(given)
        views, names = [given[v] for v in self.present], [names[v] for v in self.present]
        for view, name in zip(views, names, strict=True):
            if len(view.shape) != 2:
                raise ValueError(f"Expected {name} to have 2 dimensions, got shape {tuple(view.shape)}.")
            if view.shape[1] == 0:
                raise ValueError(f"Expected {name} to have at least one feature, got shape {tuple(view.shape)}.")
            check_view(np.empty((0, int(view.shape[1])), view.dtype), name)
        check_same_samples(views, names)
        self.views = views
        self.names = names
        self.masks: list[npt.NDArray[np.bool_] | None] = [None] * len(views)
        self.widths = [int(view.shape[1]) for view in views]
        self.dtype = common_dtype([np.empty((0, 0), view.dtype) for view in views])
        n, rows = int(views[0].shape[0]), block_rows(views)
        self.sizes = [min(rows, n - start) for start in range(0, n, rows)]
        self._rows = rows
        if not any(np.dtype(view.dtype).kind == "f" for view in views):
            self.largest = np.zeros(len(views))  # integers are never so large that samples need scaling

    @classmethod
    def of(cls, present: Sequence[int], views: Sequence[Any], n_views: int) -> ArrayBlocks:
        """Return blocks of checked arrays in memory."""
        given: list[Any] = [None] * n_views
        for v, view in zip(present, views, strict=True):
            given[v] = view
        return cls(given, [f"view {v}" for v in range(n_views)])

    def load(self, pieces: Iterable[Piece]) -> Iterator[Loaded]:
        """Yield the pieces; the function of a piece reads it."""
        for piece in pieces:
            yield piece, functools.partial(self._read, piece)

    def _read(self, piece: Piece) -> list[Array]:
        start, stop = (piece.block * self._rows + place for place in (piece.start, piece.stop))
        loaded = []
        for view, mask, name in zip(self.views, self.masks, self.names, strict=True):
            rows = self._read_view(view, name, start, stop, piece.block)
            if self.only_marked:
                check_marked(rows, None if mask is None else mask[start:stop], name, first=start)
            loaded.append(rows)
        return loaded

    @staticmethod
    def _read_view(view: Any, name: str, start: int, stop: int, block: int) -> Array:
        try:
            rows = view[start:stop]
            if (mapped := find_map(rows)) is not None and rows.size:
                copied = copy_mapped(rows, mapped)
                forget_pages(rows)
                rows = copied
            rows = np.asarray(dense(rows))
        except Exception as error:
            raise OSError(f"Could not read chunk {block} (samples {start} to {stop - 1}) of {name}: {error}") from error
        if rows.shape != (stop - start, view.shape[1]):
            raise OSError(
                f"Expected chunk {block} of {name} to have shape {(stop - start, view.shape[1])}, got {rows.shape}."
                " Is the file being written?"
            )
        return rows


def block_rows(views: Sequence[Any]) -> int:
    """Return the number of rows of a block: whole chunks of the storage, as many as `SIZES` allows."""
    bytes_per_row: int = sum(int(view.shape[1]) * np.dtype(view.dtype).itemsize for view in views)
    wanted = max(1, min(SIZES.block_rows, SIZES.block_bytes // max(bytes_per_row, 1)))
    stored: int = max((int(chunks[0]) for view in views if (chunks := getattr(view, "chunks", None))), default=1)
    return stored * max(1, wanted // stored)


class _Chunks(Blocks):
    """Chunks that the user's code provides; only one thread at a time calls that code.

    `fresh` means that every chunk has memory of its own. Otherwise a chunk is copied when it is read: the user's code
    may write the next chunk into the same memory while a thread still works on this one.
    """

    def __init__(self, *, single: bool, fresh: bool, view_names: Sequence[str] | None) -> None:
        self._single = single
        self._fresh = fresh
        self._known_names = view_names
        sizes, kinds, largest = [], [], np.zeros(1)
        for number, chunk in self._chunks(range(1 << 62)):
            views = self._check(number, chunk)
            sizes.append(views[0].shape[0])
            kinds.append(np.empty((0, 0), common_dtype(views)))
            largest = np.maximum(largest, [largest_number([view]) for view in views])
            del chunk, views
        if not sizes:
            raise ValueError("Expected at least one chunk of samples, got none.")
        self.sizes = sizes
        self.largest = largest
        self.dtype = common_dtype(kinds)

    @abstractmethod
    def _chunks(self, wanted: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Yield the number and the contents of each wanted chunk; `wanted` is in ascending order."""

    def _check(self, number: int, chunk: Any) -> list[Array]:
        """Return the views of a chunk; raise unless they match those of the first chunk."""
        name = f"chunk {number}"
        if self._single and isinstance(chunk, list | tuple) and len(chunk) == 1 and n_dims(chunk[0]) == 2:
            chunk = chunk[0]
        if not self._single:
            chunk = self._list_chunk(chunk, name)
        parts = [chunk] if self._single else list(chunk)
        present = [v for v, part in enumerate(parts) if part is not None]
        views = [check_view(parts[v], name if self._single else f"{name}[{v}]") for v in present]
        if not self._single:
            labels = view_labels(present, self.view_names, name)
            check_same_samples(views, labels)
            check_same_rows([parts[v] for v in present], labels)
        masks = [declared_missing(parts[v]) for v in present]
        self.missing = self.missing or any(mask is not None for mask in masks)
        if self.only_marked:
            for v, view, mask in zip(present, views, masks, strict=True):
                check_marked(view, mask, name if self._single else f"{name}[{v}]")
        if not views:
            raise ValueError(f"Expected {name} to hold at least one view, got none.")
        widths = [view.shape[1] for view in views]
        if min(widths) == 0:
            raise ValueError(f"Expected every view of {name} to have at least one feature, got {widths}.")
        if not hasattr(self, "widths"):
            self.present = present
            self.n_views = len(parts)
            self.widths = widths
        if (present, len(parts)) != (self.present, self.n_views):
            raise ValueError(
                f"Expected views {self.present} of {self.n_views} in {name}, as in chunk 0, got {present} of"
                f" {len(parts)}."
            )
        if widths != self.widths:
            raise ValueError(f"Expected views of {self.widths} features in {name}, as in chunk 0, got {widths}.")
        return views

    def _list_chunk(self, chunk: Any, name: str) -> Any:
        """Return the views of a chunk as a list; views given by name come in the order of the first chunk."""
        own = view_names(chunk)
        if self._known_names == ():  # nothing is known before the first chunk
            self._known_names = own
        if own is not None and self._known_names is not None:
            self.view_names = tuple(self._known_names)
        chunk = list_views(chunk, self._known_names, name=name)
        if not isinstance(chunk, list | tuple):
            raise TypeError(
                f"Expected {name} to be a list of arrays, one per view, or a dict of them by name, got"
                f" {type(chunk).__name__}."
            )
        return chunk

    def load(self, pieces: Iterable[Piece]) -> Iterator[Loaded]:
        """Yield the pieces; they are read here, and their functions only return the rows."""
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
            del chunk, views  # release the chunk now, and its rows before the next chunk is read
            yield piece, functools.partial(list, rows)
            del rows
        if wanted:
            raise ValueError(
                f"Expected {len(self.sizes)} chunks, as before, but chunk {min(wanted)} is missing now. Chunks must be"
                " the same in every pass; a callable must return a fresh iterator each time."
            )


class SequenceBlocks(_Chunks):
    """Chunks with random access: an object with a length and ``__getitem__``."""

    def __init__(self, chunks: Any, *, single: bool, view_names: Sequence[str] | None = ()) -> None:
        self._sequence = chunks
        super().__init__(single=single, fresh=isinstance(chunks, list | tuple), view_names=view_names)

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
    """Chunks in sequence: a callable that returns a fresh iterator over them."""

    def __init__(
        self, make: Callable[[], Iterable[Any]], *, single: bool, view_names: Sequence[str] | None = ()
    ) -> None:
        self._make = make
        super().__init__(single=single, fresh=False, view_names=view_names)

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
    """Return whether an array is on disk and read by slices (Zarr, HDF5, a large memory map), not in memory."""
    if isinstance(value, np.ndarray):
        mapped = isinstance(value, np.memmap) or find_map(value) is not None
        return mapped and value.nbytes >= SIZES.large_bytes and not np.ma.isMaskedArray(value)
    return all(hasattr(value, name) for name in ("shape", "dtype", "chunks", "__getitem__"))


def kind_of_blocks(value: object, *, single: bool) -> Literal["arrays", "sequence", "callable"] | None:
    """Return how samples in blocks are given, without reading any; None for arrays in memory."""
    if single and is_stored(value):
        return "arrays"
    if callable(value):
        return "callable"
    if not isinstance(value, list | tuple):
        plain = isinstance(value, np.ndarray | str | bytes | dict) or hasattr(value, "__array__") or is_tensor(value)
        sequence = hasattr(value, "__len__") and hasattr(value, "__getitem__") and not hasattr(value, "shape")
        return "sequence" if sequence and not plain else None
    if not single and any(is_stored(entry) for entry in value):
        return "arrays"
    return "sequence" if value and all(_is_chunk(entry, single=single) for entry in value) else None


def find_blocks(value: Any, *, single: bool, name: str, view_names: Sequence[str] | None = ()) -> Blocks | None:
    """Return blocks for samples that are not in memory; None for arrays in memory."""
    kind = kind_of_blocks(value, single=single)
    if kind == "callable":
        return ReplayedBlocks(value, single=single, view_names=view_names)
    if kind == "sequence":
        return SequenceBlocks(value, single=single, view_names=view_names)
    if kind is None:
        return None
    given, names = ([value], [name]) if single else (list(value), [f"{name}[{v}]" for v in range(len(value))])
    views = [x if x is None or is_stored(x) else check_view(x, label) for x, label in zip(given, names, strict=True)]
    blocks = ArrayBlocks(views, names)
    blocks.masks = [declared_missing(given[v]) for v in blocks.present]
    blocks.missing = any(mask is not None for mask in blocks.masks)
    return blocks


def _is_chunk(entry: object, *, single: bool) -> bool:
    """Return whether an entry is a chunk, not a view: a chunk of several views is a list of 2-D arrays or a dict."""
    if single:
        return (isinstance(entry, np.ndarray) or is_tensor(entry)) and n_dims(entry) == 2
    if isinstance(entry, Mapping | Views):
        return True
    tables = [table for table in entry if table is not None] if isinstance(entry, list | tuple) else []
    return len(tables) > 0 and n_dims(tables[0]) == 2


class InBlocks(Data):
    """Samples in numbered blocks, wherever these are.

    Attributes
    ----------
    sizes : list of int
        Number of rows of each block.
    """

    all_held = False
    sizes: list[int]
    _largest: Floats | None = None  # of each view, if that is known

    def largest_of_views(self, threads: Threads) -> Floats:
        """Return the largest absolute value of each view; reads all blocks unless it is known already."""
        if self._largest is None:
            self._largest = super().largest_of_views(threads)
        return self._largest

    def order(self, rng: np.random.Generator) -> Order:
        """Draw a random order of the blocks."""
        return Order.random(len(self.sizes), rng)

    def take(self, order: Order, place: int, size: int) -> tuple[list[Piece], int]:
        """Return pieces of blocks; see :func:`take_pieces`."""
        return take_pieces(self.sizes, order, place, size)

    def runs(self, count: int) -> list[Piece] | None:
        """Return runs of samples, spread evenly; no run continues into the next block."""
        if count >= self.n_samples:
            return None
        ends = np.cumsum(self.sizes)
        pieces = []
        for start, stop in spread_runs(self.n_samples, count):
            block = int(np.searchsorted(ends, start, side="right"))
            first = int(ends[block]) - self.sizes[block]
            pieces.append(Piece(block, start - first, min(stop - first, self.sizes[block])))
        return pieces

    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return random samples from some of the blocks."""
        pieces, share, seed = plan_draw(self.sizes, count, rng)
        return mix_drawn(self.run(Draw(share, seed), Threads(), pieces), count, rng)

    def pieces_for(self, job: Job[Part, Whole], portion: Portion | None) -> list[Piece]:
        """Return the pieces of a portion, or all blocks, without what a job skips; the first block if none is left."""
        if not isinstance(portion, list | None):
            raise TypeError("Expected pieces of blocks, got rows of arrays in memory.")
        whole = [Piece(number, 0, size) for number, size in enumerate(self.sizes)]
        pieces = [p for p in (whole if portion is None else portion) if job.takes_empty or p.stop > p.start]
        return pieces or whole[:1]


class Blocked(InBlocks):
    """Samples in blocks, each of which is read and processed by one thread."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.sizes = blocks.sizes
        self.n_samples = blocks.n_samples
        self.present = blocks.present
        self.n_views = blocks.n_views
        self.widths = blocks.widths
        self.dtype = blocks.dtype
        self.view_names = blocks.view_names
        self.missing = blocks.missing
        self._largest = blocks.largest

    def allow_missing(self, *, all_nan: bool) -> None:
        """Treat NaN as a missing entry: everywhere, or only where the samples themselves mark it as missing."""
        super().allow_missing(all_nan=all_nan)
        self.blocks.only_marked = self.missing and not all_nan

    def run(self, job: Job[Part, Whole], threads: Threads, portion: Portion | None = None) -> Whole:
        """Do a job: each thread reads a block and works on it."""
        return job.join(self._each(job, threads, portion))

    def write_codes(
        self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], threads: Threads
    ) -> CodeFile:
        """Write the codes; only a few blocks of them are in memory at a time."""
        shortfall = Shortfall()
        with code_writer(out, recipe.n_atoms, recipe.dtype) as writer:
            for part in self._each(Encode(recipe, sources), threads):
                if self.sizes:  # without any blocks, there is one result, of no samples
                    writer.append(part.arrays[0])
                shortfall += part.shortfall
        shortfall.warn(recipe.rule.tol)
        return open_codes(writer.path)

    def _each(self, job: Job[Part, Whole], threads: Threads, portion: Portion | None = None) -> Iterator[Part]:
        """Yield the result of each block; if there are few blocks, several threads work on each."""
        pieces = self.pieces_for(job, portion)
        resources = Resources.for_job(job, threads)
        cancel = CancelToken(threads.cancel)
        inner = Resources(Threads(max(1, threads.count // max(1, len(pieces))), cancel), resources.made)

        def work(piece: Piece, views: list[Array]) -> Part:
            samples = Samples(
                views, self.dtype, origin=piece, names=self.names, missing=self.missing, standard=self.standard
            )
            return job.do(samples, inner)

        def load_and_work(loaded: Loaded) -> Part:
            piece, load = loaded
            return work(piece, multiply(load(), self.scale, self.dtype))

        if not pieces:
            return iter([work(Piece(0, 0, 0), [np.empty((0, width), self.dtype) for width in self.widths])])
        n_threads = max(1, min(threads.count, len(pieces)))
        return in_order(load_and_work, self.blocks.load(pieces), n_threads, cancel, take_part=False)
