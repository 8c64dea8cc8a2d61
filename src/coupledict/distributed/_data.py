"""Dask arrays as samples: each request of a learner becomes a task graph."""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Sequence
from operator import getitem
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.array.dispatch import concatenate_lookup
from dask.task_spec import Task, TaskRef
from scipy.sparse import csr_array, hstack, vstack

from ..coding.coder import Shortfall
from ..coding.recipe import Recipe
from ..coding.results import PassSums
from ..coding.samples import Piece
from ..data.block_work import (
    EVERYTHING,
    Largest,
    Wanted,
    block_codes,
    block_draw,
    block_energies,
    block_largest,
    block_sums,
    count_gaps,
    mean_energies,
)
from ..data.blocks import is_stored
from ..data.interface import Data, Decode, Portion
from ..data.moments import Fill, MomentSums
from ..data.order import Order
from ..data.pieces import mix_drawn, plan_draw, spread
from ..files.codes import CodeFile, FolderWriter, open_codes, write_part
from ..foundation.arrays import Array, Floats, common_dtype
from ..foundation.missing import declared_missing
from ..foundation.text import quoted
from ..foundation.views import check_view
from ..parallel.jobs import Threads
from ._graph import Block, Graph, Key, Ready, block_task, list_graph, needed_tasks, plan_readings, sum_graph
from ._run import Runner


def _new_name(what: str) -> str:
    """Return a unique name for tasks; Dask displays its beginning."""
    return f"{what}-{uuid.uuid4().hex}"


# What tasks do with a block. They are functions of the module so that they can be pickled.


def _largest(ready: Ready | None, views: list[Array], block: Block) -> Largest:
    return block_largest(views)


def _energies(ready: Ready | None, views: list[Array], block: Block, *, missing: bool) -> npt.NDArray[np.float64]:
    return block_energies(views, block.piece, block.shown_names, missing=missing)


def _gaps(ready: Ready | None, views: list[Array], block: Block) -> npt.NDArray[np.int64]:
    return count_gaps(views)


def _moments(ready: Ready | None, views: list[Array], block: Block, *, fill: Fill | None) -> MomentSums:
    return MomentSums.over(views, fill)


def _draw(ready: Ready | None, views: list[Array], block: Block, *, count: int, seed: int) -> list[Array]:
    return block_draw(views, block.piece, count, seed)


def _sums(ready: Ready, views: list[Array], block: Block, *, wanted: Wanted) -> PassSums:
    return block_sums(ready.coder, views, block.piece, ready.recipe.dtype, Threads(), wanted, block.shown_names)


def _code(ready: Ready, views: list[Array], block: Block, sources: list[int]) -> tuple[list[csr_array], Shortfall]:
    dtype, names = ready.recipe.dtype, block.shown_names
    return block_codes(ready.coder, views, block.piece, dtype, Threads(), sources, names)


def _codes(ready: Ready, views: list[Array], block: Block, *, sources: list[int]) -> list[csr_array]:
    return _code(ready, views, block, sources)[0]


def _one_code(ready: Ready, views: list[Array], block: Block, *, sources: list[int]) -> csr_array:
    return _codes(ready, views, block, sources=sources)[0]


def _write(
    ready: Ready, views: list[Array], block: Block, *, sources: list[int], folder: Path
) -> tuple[int, int, Shortfall]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"Expected the folder '{folder}' to be there for every worker, got no such folder on one of them. Codes are"
            " written by the workers, so they need storage that all of them share."
        )
    (codes,), shortfall = _code(ready, views, block, sources)
    write_part(folder, block.number, codes)
    return codes.shape[0], codes.nnz, shortfall


def _keep(ready: Ready | None, views: list[Array], block: Block) -> list[Array]:
    return views


def _codes_and_views(
    ready: Ready, views: list[Array], block: Block, *, sources: list[int]
) -> tuple[list[Array], csr_array]:
    return views, _one_code(ready, views, block, sources=sources)


def _decode(coded: tuple[list[Array], csr_array], decode: Decode) -> list[Array]:
    return decode(*coded)


def _same(decode: Decode) -> Decode:
    return decode


def _stack(parts: Sequence[csr_array], axis: int = 0) -> csr_array:
    """Concatenate sparse arrays; Dask can do that for SciPy's matrices, but not for its sparse arrays."""
    return csr_array(vstack(parts, format="csr") if axis == 0 else hstack(parts, format="csr"))


def _stack_nested(parts: list[list[csr_array]]) -> csr_array:
    return _stack([row[0] for row in parts])


concatenate_lookup.register(csr_array, _stack)


class CodeArray(da.Array):  # type: ignore[misc]
    """A Dask array with sparse chunks.

    Dask concatenates the chunks on a worker. A function of this module does it, so that the worker imports the module,
    which registers `_stack` for sparse arrays.
    """

    __slots__ = ()

    def __dask_postcompute__(self) -> Any:
        return _stack_nested, ()

    def _rebuild(self, graph: Any, *, rename: dict[str, str] | None = None) -> CodeArray:
        rebuilt: CodeArray = CodeArray(graph, (rename or {}).get(self.name, self.name), self.chunks, meta=self._meta)
        return rebuilt

    def __reduce__(self) -> Any:
        return CodeArray, (self.dask, self.name, self.chunks, self.dtype, self._meta)


def _empty_codes(recipe: Recipe) -> csr_array:
    return csr_array((0, 0), dtype=recipe.dtype)


def _pick(graph: Graph, name: str, place: int) -> Graph:
    """Return a graph whose tasks return lists, with further tasks that take one entry out of each list."""
    keys: list[Key] = [key for key in graph if isinstance(key, tuple) and key[0] == name]
    picked: list[Key] = [(f"view{place}-{name}", i, 0) for _, i in keys]
    tasks = (Task(new, getitem, TaskRef(old), place) for new, old in zip(picked, keys, strict=True))
    return graph | {task.key: task for task in tasks}


def align(views: Sequence[Any], names: Sequence[str]) -> list[da.Array]:
    """Return checked Dask arrays with the row chunks of the first one, and all features in one chunk."""
    first = next(view for view in views if isinstance(view, da.Array))
    for view, name in zip(views, names, strict=True):
        if not isinstance(view, da.Array):
            if type(view).__module__.startswith("dask."):
                raise TypeError(
                    f"Expected {name} to be a Dask array, got a Dask {type(view).__name__}. Data frames have"
                    " to_dask_array(lengths=True)."
                )
            continue
        if view.ndim != 2:
            raise ValueError(f"Expected {name} to have 2 dimensions, got shape {view.shape}.")
        if any(np.isnan(size) for sizes in view.chunks for size in sizes):
            raise ValueError(
                f"Expected {name} to have chunks of known sizes, got shape {view.shape}. Call its method"
                " compute_chunk_sizes() first."
            )
    rows, aligned = first.chunks[0], []
    for view, name in zip(views, names, strict=True):
        # Dask would copy an array of NumPy, and with it a file that is mapped.
        if not isinstance(view, da.Array) and (isinstance(view, np.ndarray) or not is_stored(view)):
            array, mask = check_view(view, name), declared_missing(view)
            view = array if mask is None else np.ma.array(array, mask=mask)
        if len(view.shape) != 2 or view.shape[1] == 0:
            raise ValueError(f"Expected {name} to have 2 dimensions and at least one feature, got shape {view.shape}.")
        if view.shape[0] != first.shape[0]:
            raise ValueError(
                f"Expected the same number of samples in every view, got {first.shape[0]} and {view.shape[0]} ({name})."
            )
        check_view(np.empty((0, 1), view.dtype), name)
        chunks = (rows, (view.shape[1],))
        aligned.append(view.rechunk(chunks) if isinstance(view, da.Array) else da.from_array(view, chunks, name=False))
    return aligned


class DaskData(Data):
    """Samples as Dask arrays, chunked along the samples. Blocks are the row chunks of the first array.

    Parameters
    ----------
    views : list of Dask arrays, or None for absent views
        At least one is a Dask array; others may be arrays in memory or on disk.
    names : list of str
        Names of the views in error messages.
    """

    all_held = False

    def __init__(self, views: Sequence[Any], names: Sequence[str]) -> None:
        self._runner = Runner()
        self.present, self.n_views = [v for v, view in enumerate(views) if view is not None], len(views)
        self._names = tuple(names[v] for v in self.present)
        self._views = align([views[v] for v in self.present], self._names)
        self._sizes = [int(rows) for rows in self._views[0].chunks[0]]
        self.n_samples = sum(self._sizes)
        self.widths = [int(view.shape[1]) for view in self._views]
        self.dtype = common_dtype([np.empty((0, 0), view.dtype) for view in self._views])
        self.missing = any(np.ma.isMaskedArray(view._meta) for view in self._views)
        self._only_marked = False
        self._readings, self._shared, self._futures = plan_readings(self._views)
        in_float = any(view.dtype.kind == "f" for view in self._views)
        # Integers are never so large that samples need scaling.
        self._largest: Floats | None = None if in_float else np.zeros(len(self.widths))

    def allow_missing(self, *, all_nan: bool) -> None:
        """Take NaN for missing entries: all of it, or only where the samples say so themselves."""
        super().allow_missing(all_nan=all_nan)
        self._only_marked = self.missing and not all_nan

    def largest_of_views(self, threads: Threads) -> Floats:
        """Return the largest absolute value of each view; reads all chunks, once."""
        if self._largest is None:
            found: Largest = self._sum("largest", _largest, self._blocks(None), None)
            self._largest = found.values
        return self._largest

    def mean_energies(self, threads: Threads) -> list[float]:
        """Return the mean squared norm of the samples of each view; reads all chunks."""
        job = functools.partial(_energies, missing=self.missing)
        return mean_energies(self._sum("energies", job, self._blocks(None), None), self.widths)

    def gaps(self, threads: Threads) -> tuple[int, int]:
        """Return how many samples have missing entries, and how many of these lack a whole view; reads all chunks."""
        incomplete, lacking = self._sum("gaps", _gaps, self._blocks(None), None).tolist()
        return incomplete, lacking

    def moments(self, portion: Portion | None, threads: Threads, fill: Fill | None = None) -> MomentSums:
        """Return sums over pairs of features; reads the chunks of the portion."""
        job = functools.partial(_moments, fill=fill)
        found: MomentSums = self._sum("moments", job, self._blocks(portion), None)
        return found

    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return random samples from some of the chunks."""
        pieces, share, seed = plan_draw(self._sizes, count, rng)
        job = functools.partial(_draw, count=share, seed=seed)
        return mix_drawn(self._list("draw", job, self._blocks(pieces), None), count, rng)

    def order(self, rng: np.random.Generator) -> Order:
        """Draw a random order of the chunks."""
        return Order.random(len(self._sizes), rng)

    def take(self, order: Order, place: int, size: int) -> tuple[list[Piece], int]:
        """Return pieces of chunks; see :func:`coupledict.data.pieces.spread`."""
        return spread(self._sizes, order, place, size)

    def sum_codes(
        self, recipe: Recipe, portion: Portion | None, threads: Threads, wanted: Wanted = EVERYTHING
    ) -> PassSums:
        """Run a pass: workers read chunks, code them, and send their sums. `threads` is not used on a cluster."""
        job = functools.partial(_sums, wanted=wanted)
        found: PassSums = self._sum("sums", job, self._blocks(portion), recipe)
        return found

    def codes(self, recipe: Recipe, sources: Sequence[int], threads: Threads) -> list[da.Array]:
        """Return Dask arrays whose chunks are sparse; nothing is computed yet."""
        name, blocks, ready = _new_name("codes"), self._blocks(None, empty=True), _new_name("recipe")
        graph: Graph = {ready: Task(ready, Ready, recipe)}
        if recipe.rule.coupling == "code":
            job: Any = functools.partial(_one_code, sources=list(sources))
            graph |= {(name, i, 0): block_task((name, i, 0), job, [block], "", ready) for i, block in enumerate(blocks)}
            return [self._lazy(graph, name, recipe.n_atoms, _empty_codes(recipe))]
        job = functools.partial(_codes, sources=list(sources))
        graph |= {(name, i): block_task((name, i), job, [block], "", ready) for i, block in enumerate(blocks)}
        width, empty = recipe.n_atoms, _empty_codes(recipe)
        return [
            self._lazy(_pick(graph, name, group), f"view{group}-{name}", width, empty) for group in range(len(sources))
        ]

    def decoded(
        self, recipe: Recipe, sources: Sequence[int], decode: Decode, widths: Sequence[int], threads: Threads
    ) -> list[da.Array]:
        """Return what `decode` makes of each chunk, as Dask arrays; nothing is computed yet."""
        name, blocks, ready = _new_name("decoded"), self._blocks(None, empty=True), _new_name("recipe")
        table = _new_name("decode")
        graph: Graph = {ready: Task(ready, Ready, recipe), table: Task(table, _same, decode)}
        job = functools.partial(_codes_and_views, sources=list(sources))
        for i, block in enumerate(blocks):
            coded: Key = (f"coded-{name}", i)
            graph[coded] = block_task(coded, job, [block], "", ready)
            graph[name, i] = Task((name, i), _decode, TaskRef(coded), TaskRef(table))
        empty = np.empty((0, 0), recipe.dtype)
        return [
            self._lazy(_pick(graph, name, place), f"view{place}-{name}", width, empty)
            for place, width in enumerate(widths)
        ]

    def write_codes(
        self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], threads: Threads
    ) -> CodeFile:
        """Write the codes to a folder that all workers share; a worker writes one part per chunk, even an empty one."""
        if Path(out).suffix == ".zarr":
            raise ValueError(
                f"Expected a folder for the codes, got {quoted(out)}: workers write parts side by side, and a Zarr"
                " group of codes is written from front to back. Give a name that does not end in '.zarr'."
            )
        with FolderWriter(out, recipe.n_atoms, recipe.dtype) as writer:
            job = functools.partial(_write, sources=list(sources), folder=writer.temporary)
            shortfall = Shortfall()
            for size, nnz, own in self._list("write", job, self._blocks(None, empty=True), recipe):
                writer.note(size, nnz)
                shortfall += own
        shortfall.warn(recipe.rule.tol)
        return open_codes(writer.path)

    def in_memory(self) -> list[da.Array]:
        """Return the views persisted in the memory of the workers; one worker reads all views of a chunk."""
        name, blocks = _new_name("read"), self._blocks(None, empty=True)
        graph: Graph = {(name, i): block_task((name, i), _keep, [block], "", None) for i, block in enumerate(blocks)}
        lazy = []
        for place, view in enumerate(self._views):
            empty = np.empty((0, 0), view.dtype)
            lazy.append(self._lazy(_pick(graph, name, place), f"view{place}-{name}", self.widths[place], empty))
        return list(dask.persist(*lazy))

    def _blocks(self, portion: Portion | None, *, empty: bool = False) -> list[Block]:
        """Return the blocks of a portion, or all; empty ones only if `empty` is set. At least one is returned."""
        if not isinstance(portion, list | None):
            raise TypeError("Expected pieces of chunks, got rows of arrays in memory.")
        whole = [Piece(number, 0, size) for number, size in enumerate(self._sizes)]
        pieces = [piece for piece in (whole if portion is None else portion) if empty or piece.stop > piece.start]
        pieces = pieces or whole[:1]
        names, widths = self._names, tuple(self.widths)
        return [
            Block(
                number,
                piece,
                self._sizes[piece.block],
                names,
                widths,
                self._readings[piece.block],
                self.scale,
                self.dtype,
                self._only_marked,
            )
            for number, piece in enumerate(pieces)
        ]

    def _sum(self, what: str, job: Any, blocks: list[Block], recipe: Recipe | None) -> Any:
        name, ready = _new_name(what), None if recipe is None else _new_name("recipe")
        graph, key = sum_graph(name, job, blocks, ready, self._runner.n_threads())
        return self._run(graph, key, name, blocks, recipe, ready)

    def _list(self, what: str, job: Any, blocks: list[Block], recipe: Recipe | None) -> list[Any]:
        name, ready = _new_name(what), None if recipe is None else _new_name("recipe")
        graph, key = list_graph(name, job, blocks, ready)
        found: list[Any] = self._run(graph, key, name, blocks, recipe, ready)
        return found

    def _run(
        self, graph: Graph, key: Key, name: str, blocks: list[Block], recipe: Recipe | None, ready: Key | None
    ) -> Any:
        graph |= needed_tasks(self._shared, (needed for block in blocks for needed in block.reading.needs))
        if recipe is None:
            return self._runner.run(graph, key, name)
        # A task, not scattered data: it can be computed again if the worker that holds it dies.
        graph[ready] = Task(ready, Ready, recipe)
        recipes = [other for other in (recipe, recipe.filled_by, recipe.teacher) if other is not None]
        size = sum(array.nbytes for other in recipes for array in other.dictionaries)
        return self._runner.run(graph, key, name, extra_bytes=size)

    def _lazy(self, graph: Graph, name: str, width: int, empty: Any) -> da.Array:
        kind = CodeArray if isinstance(empty, csr_array) else da.Array
        return kind(self._shared | self._futures | graph, name, chunks=(tuple(self._sizes), (width,)), meta=empty)


def persist(views: Sequence[Any]) -> list[da.Array | None]:
    """Read Dask arrays into the memory of the workers, all views of a chunk on the same worker.

    A fit reads the samples again in every iteration, which is faster from memory than from storage. After
    ``dask.persist(*views)`` the views of a chunk may be on different workers, and would be sent over the network in
    every iteration; this function avoids that.

    Parameters
    ----------
    views : list of Dask arrays, or None for absent views
        Chunked along the samples.

    Returns
    -------
    list of Dask arrays
        For ``fit`` and the other methods; None for absent views.

    Examples
    --------
    >>> import dask.array as da
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.distributed import persist
    >>> sharp, blurred = (da.random.default_rng(seed).normal(size=(400, 4), chunks=(100, 4)) for seed in (0, 1))
    >>> views = persist([sharp, blurred])
    >>> learner = CoupledDictionaryLearning(8, n_nonzero_coefs=2, max_iter=3, random_state=0).fit(views)
    >>> learner.transform(views).compute().shape
    (400, 8)
    """
    data = DaskData(views, [f"views[{v}]" for v in range(len(views))])
    kept: list[da.Array | None] = [None] * len(views)
    for v, array in zip(data.present, data.in_memory(), strict=True):
        kept[v] = array
    return kept
