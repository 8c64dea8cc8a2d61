"""One pass as one task graph: a task per chunk, which reads and processes it, and a fixed tree that adds the results.

A task that only one chunk needs, such as reading it from Zarr, becomes part of the task of that chunk. Otherwise, two
workers might read two views of one chunk, and samples would be sent over the network.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any, TypeAlias

import dask
import dask.array as da
import numpy as np
from dask.sizeof import sizeof
from dask.task_spec import GraphNode, Task, TaskRef

from ..coding.results import PassSums
from ..coding.samples import Piece, Samples
from ..data.jobs import FAN_IN, Job, Resources, TreeSum
from ..foundation.arrays import Array, multiply
from ..foundation.block_sizes import SIZES
from ..foundation.missing import check_marked, declared_missing
from ..foundation.standardization import Standardization
from ..foundation.views import check_view
from ..parallel.jobs import Threads
from ._run import report_finished

Key: TypeAlias = Any
Graph: TypeAlias = dict[Key, GraphNode]


@dataclass(frozen=True)
class Reading:
    """How the views of a chunk are read.

    Attributes
    ----------
    outputs : tuple of keys
        The keys of the chunk, one per view.
    own : dict
        Tasks that no other chunk needs.
    needs : tuple of keys
        Keys of other tasks that these tasks depend on.
    """

    outputs: tuple[Key, ...]
    own: Graph
    needs: tuple[Key, ...]

    def __call__(self, known: dict[Key, Any]) -> list[Any]:
        """Return the views, given the values of the keys in `needs`."""
        found = {key: known[key] for key in self.needs}
        return [self._value(key, found) for key in self.outputs]

    def _value(self, key: Key, found: dict[Key, Any]) -> Any:
        if key not in found:
            task = self.own[key]
            found[key] = task({needed: self._value(needed, found) for needed in task.dependencies})
        return found[key]


def plan_readings(views: Sequence[da.Array]) -> tuple[list[Reading], Graph, dict[Key, Any]]:
    """Return how each chunk is read, the tasks that several chunks need, and futures of what is computed already."""
    with dask.config.set({"optimization.fuse.active": None}):
        optimized = dask.optimize(*views)
    graph: Graph = {}
    for view in optimized:
        graph.update(view.__dask_graph__())
    columns = [[row[0] for row in view.__dask_keys__()] for view in optimized]
    outputs: list[tuple[Key, ...]] = list(zip(*columns, strict=True))
    owners = _find_owners(outputs, graph)
    own: list[Graph] = [{} for _ in outputs]
    for key, owner in owners.items():
        if owner is not None:
            own[owner][key] = graph[key]
    readings = []
    for tasks, keys in zip(own, outputs, strict=True):
        needed = dict.fromkeys([*keys, *(needed for task in tasks.values() for needed in task.dependencies)])
        readings.append(Reading(keys, tasks, tuple(key for key in needed if key not in tasks)))
    shared = {key: graph[key] for key, owner in owners.items() if owner is None}
    asked = {key for tasks in [*own, shared] for task in tasks.values() for key in task.dependencies}
    return readings, shared, _find_futures(views, asked.union(*outputs) - graph.keys())


def _find_futures(views: Sequence[da.Array], keys: set[Key]) -> dict[Key, Any]:
    """Return the values of these keys, which the optimised graphs lack, from the original graphs."""
    if not keys:
        return {}
    graphs = [dict(view.__dask_graph__()) for view in views]
    return {key: graph[key] for graph in graphs for key in keys if key in graph}


def _find_owners(outputs: Sequence[tuple[Key, ...]], graph: Graph) -> dict[Key, int | None]:
    """Return, for each task, the number of the chunk that needs it; None if several do."""
    owners: dict[Key, int | None] = {}
    for number, keys in enumerate(outputs):
        waiting = list(keys)
        while waiting:
            key = waiting.pop()
            if key not in graph:  # computed already: a persisted chunk
                continue
            if key not in owners:
                owners[key] = number
            elif owners[key] in (number, None):  # its dependencies are settled
                continue
            else:
                owners[key] = None
            waiting.extend(graph[key].dependencies)
    return owners


def needed_tasks(shared: Graph, keys: Iterable[Key]) -> Graph:
    """Return the shared tasks that these keys need, directly or not."""
    found: Graph = {}
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key in shared and key not in found:
            found[key] = shared[key]
            waiting.extend(shared[key].dependencies)
    return found


@dataclass(frozen=True)
class Block:
    """A piece of a chunk: how to read it, and what it must look like.

    Attributes
    ----------
    number : int
        Its number among the blocks of the pass.
    piece : Piece
    rows : int
        Number of rows of the whole chunk.
    names, widths : tuples
        Names of the views in messages, and their numbers of features.
    reading : Reading
    scale, dtype : float, dtype
        Power of two that the samples are multiplied by, and their dtype afterwards.
    missing : bool
        Whether NaN stands for a missing entry.
    only_marked : bool
        Whether NaN that is not marked as missing is an error although entries are missing.
    standard : Standardization or None
    """

    number: int
    piece: Piece
    rows: int
    names: tuple[str, ...]
    widths: tuple[int, ...]
    reading: Reading
    scale: float
    dtype: np.dtype[Any]
    missing: bool
    only_marked: bool
    standard: Standardization | None = None

    def load(self, known: dict[Key, Any]) -> Samples:
        """Return the rows of all views."""
        number = self.piece.block
        try:
            loaded = self.reading(known)
        except Exception as error:
            raise OSError(f"Could not read chunk {number}: {error}") from error
        views: list[Array] = []
        for view, name, width in zip(loaded, self.names, self.widths, strict=True):
            array = check_view(view, f"chunk {number} of {name}")
            if array.shape != (self.rows, width):
                raise ValueError(
                    f"Expected chunk {number} of {name} to have shape {(self.rows, width)}, as its Dask array says, got"
                    f" {array.shape}."
                )
            if self.only_marked:
                check_marked(array, declared_missing(view), f"chunk {number} of {name}")
            views.append(array[self.piece.start : self.piece.stop])
        scaled = multiply(views, self.scale, self.dtype)
        names = None if self.names == ("X",) else self.names  # of a single view, messages name the samples only
        return Samples(scaled, self.dtype, origin=self.piece, names=names, missing=self.missing, standard=self.standard)

    def __dask_tokenize__(self) -> int:
        return self.number  # names of tasks are unique in every pass, so tokens need not be


class WorkerJob:
    """A job that is sent to the workers; each makes the coder of its recipe once, for all its chunks."""

    def __init__(self, job: Job[Any, Any]) -> None:
        self.job = job
        self._resources: Resources | None = None
        self._making = threading.Lock()

    def do(self, samples: Samples) -> Any:
        """Return the result of a block; it does not depend on the worker."""
        with self._making:
            if self._resources is None:
                self._resources = Resources.for_job(self.job, Threads())
        return self.job.do(samples, self._resources)

    def __reduce__(self) -> tuple[type[WorkerJob], tuple[Job[Any, Any]]]:
        return WorkerJob, (self.job,)


def work_on(job: WorkerJob, blocks: list[Block], run: str, needs: tuple[Key, ...], *values: Any) -> Any:
    """Read neighbouring blocks, do the job with each, and return the sum; for a single block, its result."""
    known = dict(zip(needs, values, strict=True))
    tree = TreeSum()
    for block in blocks:
        tree.add(job.do(block.load(known)))
        report_finished(run)
    return tree.total()


def rows_of(job: WorkerJob, blocks: list[Block], run: str, needs: tuple[Key, ...], *values: Any) -> list[Any]:
    """Return the arrays that a job makes of one block."""
    arrays: list[Any] = work_on(job, blocks, run, needs, *values).arrays
    return arrays


def only_rows_of(job: WorkerJob, blocks: list[Block], run: str, needs: tuple[Key, ...], *values: Any) -> Any:
    """Return the only array that a job makes of one block."""
    return rows_of(job, blocks, run, needs, *values)[0]


def add_up(first: Any, *others: Any) -> Any:
    """Return a sum; the terms are not changed, because Dask may use them again."""
    total = copy.deepcopy(first)
    for other in others:
        total += other
    return total


def collect(*parts: Any) -> list[Any]:
    """Return all parts as a list."""
    return list(parts)


def block_task(key: Key, job: Key, blocks: list[Block], run: str, function: Callable[..., Any] = work_on) -> Task:
    """Return the task that works on some blocks; `job` is the key of a :class:`WorkerJob`."""
    needs = tuple(dict.fromkeys(needed for block in blocks for needed in block.reading.needs))
    return Task(key, function, TaskRef(job), blocks, run, needs, *(TaskRef(needed) for needed in needs))


def sum_graph(name: str, job: Key, blocks: list[Block], n_threads: int) -> tuple[Graph, Key]:
    """Return tasks that work on blocks and add up the results, and the key of the sum.

    The tree is that of :class:`coupledict.data.jobs.TreeSum`, so the sum is the same to the last bit. If there are many
    blocks per thread, one task does all blocks of a lowest node, so that fewer sums are sent.
    """
    grouped = len(blocks) >= FAN_IN * SIZES.groups_per_thread * n_threads
    size = FAN_IN if grouped else 1
    graph: Graph = {}
    level: list[Key] = []
    key: Key
    for start in range(0, len(blocks), size):
        key = (name, start // size)
        graph[key] = block_task(key, job, blocks[start : start + size], name)
        level.append(key)
    depth = 0
    while len(level) > 1:
        depth += 1
        above: list[Key] = []
        for start in range(0, len(level), FAN_IN):
            below = level[start : start + FAN_IN]
            if len(below) > 1:
                key = (f"sum-{name}", depth, start // FAN_IN)
                graph[key] = Task(key, add_up, *(TaskRef(lower) for lower in below))
                above.append(key)
            else:
                above += below
        level = above
    return graph, level[0]


def list_graph(name: str, job: Key, blocks: list[Block]) -> tuple[Graph, Key]:
    """Return tasks that work on blocks and collect the results in a list, and the key of the list."""
    graph: Graph = {(name, i): block_task((name, i), job, [block], name) for i, block in enumerate(blocks)}
    key = f"collect-{name}"
    graph[key] = Task(key, collect, *(TaskRef((name, i)) for i in range(len(blocks))))
    return graph, key


def row_graph(name: str, job: Key, blocks: list[Block], n_arrays: int) -> tuple[Graph, list[str]]:
    """Return tasks that make arrays with one row for each sample, and the names of these arrays."""
    graph: Graph = {}
    if n_arrays == 1:
        for i, block in enumerate(blocks):
            graph[name, i, 0] = block_task((name, i, 0), job, [block], "", only_rows_of)
        return graph, [name]
    names = [f"view{place}-{name}" for place in range(n_arrays)]
    for i, block in enumerate(blocks):
        made: Key = (name, i)
        graph[made] = block_task(made, job, [block], "", rows_of)
        for place, own in enumerate(names):
            graph[own, i, 0] = Task((own, i, 0), getitem, TaskRef(made), place)
    return graph, names


# Dask schedules tasks and frees memory by the sizes of results, but knows the sizes of arrays only.


def _size_of_sums(found: PassSums) -> int:
    arrays = [array for sums in found.sums for array in (sums.a, sums.b, sums.known)]
    return sum(array.nbytes for array in [*arrays, *found.worst.rows, found.uses] if array is not None)


def _size_of_job(job: WorkerJob) -> int:
    recipe = job.job.coding
    return 0 if recipe is None else recipe.nbytes


sizeof.register(PassSums, _size_of_sums)
sizeof.register(WorkerJob, _size_of_job)
