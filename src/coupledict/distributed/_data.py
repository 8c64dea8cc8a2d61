"""Dask arrays as samples: each job of a learner becomes a task graph."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import dask
import dask.array as da
import numpy as np
from dask.array.dispatch import concatenate_lookup
from dask.task_spec import Task
from scipy.sparse import csr_array, hstack, issparse, vstack

from ..coding.coder import Shortfall
from ..coding.recipe import Recipe
from ..coding.samples import Samples
from ..data.blocks import InBlocks, is_stored
from ..data.interface import Portion
from ..data.jobs import Job, Part, Resources, RowJob, Rows, SumJob, Whole, WritePart
from ..files.codes import CodeFile, FolderWriter, open_codes
from ..foundation.arrays import common_dtype
from ..foundation.missing import declared_missing
from ..foundation.text import quoted
from ..foundation.views import check_same_samples, check_view
from ..parallel.jobs import Threads
from ._graph import Block, Graph, Key, WorkerJob, list_graph, needed_tasks, plan_readings, row_graph, sum_graph
from ._run import Runner


def _new_name(what: str) -> str:
    """Return a unique name for tasks; Dask displays its beginning."""
    return f"{what}-{uuid.uuid4().hex}"


class _Keep(RowJob):
    """Reads the samples, and keeps them as they are."""

    def __init__(self, templates: list[Any]) -> None:
        self._templates = templates

    @property
    def templates(self) -> list[Any]:
        """Empty views."""
        return self._templates

    def do(self, samples: Samples, resources: Resources) -> Rows:
        """Return the views of a chunk."""
        return Rows(samples.views)


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
        # Dask would copy a NumPy array, even one that maps a file.
        if not isinstance(view, da.Array) and (isinstance(view, np.ndarray) or not is_stored(view)):
            array, mask = check_view(view, name), declared_missing(view)
            view = array if mask is None else np.ma.array(array, mask=mask)
        if len(view.shape) != 2 or view.shape[1] == 0:
            raise ValueError(f"Expected {name} to have 2 dimensions and at least one feature, got shape {view.shape}.")
        check_same_samples([first, view], [names[0], name])
        check_view(np.empty((0, 1), view.dtype), name)
        chunks = (rows, (view.shape[1],))
        aligned.append(view.rechunk(chunks) if isinstance(view, da.Array) else da.from_array(view, chunks, name=False))
    return aligned


class DaskData(InBlocks):
    """Samples as Dask arrays, chunked along the samples. Blocks are the row chunks of the first array.

    Parameters
    ----------
    views : list of Dask arrays, or None for absent views
        At least one is a Dask array; others may be arrays in memory or on disk.
    names : list of str
        Names of the views in error messages.
    """

    def __init__(self, views: Sequence[Any], names: Sequence[str]) -> None:
        self._runner = Runner()
        self.present = [v for v, view in enumerate(views) if view is not None]
        self.n_views = len(views)
        self._names = tuple(names[v] for v in self.present)
        self._views = align([views[v] for v in self.present], self._names)
        self.sizes = [int(rows) for rows in self._views[0].chunks[0]]
        self.n_samples = sum(self.sizes)
        self.widths = [int(view.shape[1]) for view in self._views]
        self.dtype = common_dtype([np.empty((0, 0), view.dtype) for view in self._views])
        self.missing = any(np.ma.isMaskedArray(view._meta) for view in self._views)
        self._only_marked = False
        self._readings, self._shared, self._futures = plan_readings(self._views)
        if not any(view.dtype.kind == "f" for view in self._views):
            self._largest = np.zeros(len(self.widths))  # integers are never so large that samples need scaling

    def allow_missing(self, *, all_nan: bool) -> None:
        """Treat NaN as a missing entry: everywhere, or only where the samples themselves mark it as missing."""
        super().allow_missing(all_nan=all_nan)
        self._only_marked = self.missing and not all_nan

    def run(self, job: Job[Part, Whole], threads: Threads, portion: Portion | None = None) -> Whole:
        """Do a job: workers read chunks and work on them, and send only the results. `threads` are not used.

        Arrays with one row for each sample are not computed yet: they are Dask arrays.
        """
        what = type(job).__name__.lower()
        blocks = self._blocks(job, portion)
        if isinstance(job, RowJob):
            return cast(Whole, self._lazy(what, job, blocks))
        name, key = _new_name(what), _new_name("job")
        if isinstance(job, SumJob):
            graph, result = sum_graph(name, key, blocks, self._runner.n_threads())
            found = self._compute(graph, result, name, blocks, key, job)
            total: Whole = job.join([found])
            return total
        graph, result = list_graph(name, key, blocks)
        joined: Whole = job.join(self._compute(graph, result, name, blocks, key, job))
        return joined

    def write_codes(
        self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], threads: Threads
    ) -> CodeFile:
        """Write the codes to a folder that all workers share; a worker writes one part per chunk, even an empty one."""
        if Path(out).suffix == ".zarr":
            raise ValueError(
                f"Expected a folder for the codes, got {quoted(out)}: workers write parts side by side, and a Zarr"
                " group of codes is written from front to back. Give a name that does not end in '.zarr'."
            )
        shortfall = Shortfall()
        with FolderWriter(out, recipe.n_atoms, recipe.dtype) as writer:
            for size, nnz, own in self.run(WritePart(recipe, list(sources), writer.temporary), threads):
                writer.note(size, nnz)
                shortfall += own
        shortfall.warn(recipe.rule.tol)
        return open_codes(writer.path)

    def in_memory(self) -> list[da.Array]:
        """Return the views persisted in the memory of the workers; one worker reads all views of a chunk."""
        templates = [np.empty((0, int(view.shape[1])), view.dtype) for view in self._views]
        return list(dask.persist(*self.run(_Keep(templates), Threads())))

    def _blocks(self, job: Job[Any, Any], portion: Portion | None) -> list[Block]:
        """Return the blocks that a job is done with."""
        return [
            Block(
                number=number,
                piece=piece,
                rows=self.sizes[piece.block],
                names=self._names,
                widths=tuple(self.widths),
                reading=self._readings[piece.block],
                scale=self.scale,
                dtype=self.dtype,
                missing=self.missing,
                only_marked=self._only_marked,
                standard=self.standard,
            )
            for number, piece in enumerate(self.pieces_for(job, portion))
        ]

    def _compute(self, graph: Graph, result: Key, name: str, blocks: list[Block], key: Key, job: Job[Any, Any]) -> Any:
        graph |= needed_tasks(self._shared, (needed for block in blocks for needed in block.reading.needs))
        # A task, not scattered data: it can be computed again if the worker that holds it dies.
        graph[key] = Task(key, WorkerJob, job)
        return self._runner.run(graph, result, name, extra_bytes=0 if job.coding is None else job.coding.nbytes)

    def _lazy(self, what: str, job: RowJob, blocks: list[Block]) -> list[da.Array]:
        """Return what a job makes of all chunks as Dask arrays; nothing is computed yet."""
        key = _new_name("job")
        graph, names = row_graph(_new_name(what), key, blocks, len(job.templates))
        graph[key] = Task(key, WorkerJob, job)
        graph = self._shared | self._futures | graph
        arrays = []
        for name, template in zip(names, job.templates, strict=True):
            kind = CodeArray if issparse(template) else da.Array
            chunks = (tuple(self.sizes), (template.shape[1],))
            arrays.append(kind(graph, name, chunks=chunks, meta=template[:, :0]))
        return arrays


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
    >>> sharp = da.random.default_rng(0).normal(size=(400, 4), chunks=(100, 4))
    >>> views = persist([sharp, (sharp + sharp[:, ::-1]) / 2])
    >>> learner = CoupledDictionaryLearning(8, n_nonzero_coefs=2, max_iter=3, random_state=0).fit(views)
    >>> learner.transform(views).compute().shape
    (400, 8)
    """
    data = DaskData(views, [f"views[{v}]" for v in range(len(views))])
    kept: list[da.Array | None] = [None] * len(views)
    for v, array in zip(data.present, data.in_memory(), strict=True):
        kept[v] = array
    return kept
