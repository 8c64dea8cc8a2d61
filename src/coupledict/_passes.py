"""One pass over the data: chunks of samples in, codes out. Threads live here, and only here.

A chunk is coded by one call of a kernel that releases the GIL and uses one thread, so `n_jobs` Python threads keep
`n_jobs` cores busy. Results are taken in the order of the chunks and no kernel mixes samples: what comes out does not
depend on the number of threads or on the size of the chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import joblib
import numpy as np
import numpy.typing as npt

from . import _native

if TYPE_CHECKING:
    from ._pursuit import Coder
    from ._views import Array

CHUNK_SECONDS = 2e-3  # long enough to hide the cost of handing out a chunk, short enough to share the work evenly
PATIENCE_SECONDS = 0.1  # longer chunks run beside the main thread, which must stay able to hear an interrupt
MULTIPLY_ADDS_PER_SECOND = 1e10  # a modest core; only the sizes of chunks depend on it
MAX_CHUNK = 4096
SIGNAL_BLOCK = 48  # the kernels take this many signals at a time

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_order(
    function: Callable[[Task], Result], tasks: Iterable[Task], n_threads: int, stop: npt.NDArray[np.int32]
) -> Iterator[Result]:
    """Yield ``function(task)`` for every task, in order, computed by `n_threads` threads beside the caller's.

    With ``n_threads=0`` the calling thread does the work. Only a few results wait to be taken at any time. When the
    caller stops early, by an exception or an interrupt, `stop` is set to 1 for the functions to see, and all threads
    have ended before the exception goes on.
    """
    if n_threads == 0:
        yield from map(function, tasks)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_threads, thread_name_prefix="coupledict") as pool:
        try:
            for task in tasks:
                pending.append(pool.submit(function, task))
                if len(pending) >= 4 * n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BaseException:
            stop[0] = 1
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class Workspaces:
    """Scratch memory for kernels, one piece a thread at work, kept from chunk to chunk."""

    def __init__(self) -> None:
        self._idle: deque[_native.Workspace] = deque()

    def lend(self) -> _native.Workspace:
        """Return a workspace that nobody uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return _native.Workspace()

    def take_back(self, workspace: _native.Workspace) -> None:
        """Accept a workspace for the next borrower."""
        self._idle.append(workspace)


def plan_chunks(n: int, multiply_adds: float, n_jobs: int, chunk_size: int | None) -> tuple[list[tuple[int, int]], int]:
    """Cut n samples into chunks; return their bounds and how many threads beside the caller's should work on them."""
    seconds = multiply_adds / MULTIPLY_ADDS_PER_SECOND
    if chunk_size is None:
        chunk_size = int(np.clip(CHUNK_SECONDS / seconds, 1, MAX_CHUNK))
        chunk_size = max(1, min(chunk_size, -(-n // (4 * n_jobs))))
        if chunk_size > SIGNAL_BLOCK:
            chunk_size = -(-chunk_size // SIGNAL_BLOCK) * SIGNAL_BLOCK
    chunks = [(start, min(start + chunk_size, n)) for start in range(0, n, chunk_size)]
    if chunk_size * seconds < PATIENCE_SECONDS and (n_jobs == 1 or len(chunks) == 1):
        return chunks, 0
    return chunks, min(n_jobs, len(chunks))


def count_jobs(n_jobs: int | None) -> int:
    """Turn `n_jobs` into a number of threads, as joblib does: None is 1 unless a joblib context says otherwise."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer)):
        raise TypeError(f"Expected n_jobs to be None or an integer, got {n_jobs!r}.")
    if n_jobs == 0:
        raise ValueError("Expected n_jobs to be None, a positive number of threads, or negative (-1: all cores); got 0.")
    return int(joblib.effective_n_jobs(n_jobs))


def fill_gram(plan: _native.Plan, n_jobs: int) -> None:
    """Compute the Gram matrix of a plan, by blocks of rows."""
    plan.allocate_gram()
    chunks, n_threads = plan_chunks(plan.n_atoms, plan.n_atoms * plan.n_features, n_jobs, None)
    workspaces = Workspaces()

    def fill(chunk: tuple[int, int]) -> None:
        workspace = workspaces.lend()
        plan.fill_gram(*chunk, workspace)
        workspaces.take_back(workspace)

    for _ in in_order(fill, chunks, n_threads, np.zeros(1, np.int32)):
        pass


class _Growing:
    """A one-dimensional array that is written from front to back; its length need not be known before."""

    def __init__(self, capacity: int, dtype: npt.DTypeLike) -> None:
        self._array: Array = np.empty(capacity, dtype)
        self._size = 0

    def extend(self, values: Array) -> None:
        end = self._size + values.size
        if end > self._array.size:
            self._array.resize(max(end, self._array.size + self._array.size // 2), refcheck=False)
        self._array[self._size : end] = values
        self._size = end

    def finish(self) -> Array:
        self._array.resize(self._size, refcheck=False)
        return self._array


@dataclass(frozen=True)
class Coded:
    """Codes of samples in CSR parts, with the squared residual and the status of each sample."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[Any]
    energy: npt.NDArray[np.float64]
    status: npt.NDArray[np.uint8]


def encode(coder: Coder, views: list[Array], n_jobs: int, chunk_size: int | None = None) -> Coded:
    """Code all samples of the views that `coder` was made for."""
    n = views[0].shape[0]
    chunks, n_threads = plan_chunks(n, coder.multiply_adds, n_jobs, chunk_size)
    stop = np.zeros(1, np.int32)
    workspaces = Workspaces()
    indptr = np.zeros(n + 1, np.int64)
    energy = np.empty(n, np.float64)
    status = np.empty(n, np.uint8)
    expected = n * coder.n_nonzero if coder.tol is None else n * min(coder.n_nonzero, 8)
    indices, values = _Growing(expected, np.int32), _Growing(expected, coder.dtype)

    def code(chunk: tuple[int, int]) -> tuple[npt.NDArray[np.int32], Array]:
        start, end = chunk
        workspace = workspaces.lend()
        part = coder.encode_rows(views, start, end, workspace, stop, energy[start:end], status[start:end])
        workspaces.take_back(workspace)
        indptr[start + 1 : end + 1] = part.counts
        return part.indices, part.values

    for some_indices, some_values in in_order(code, chunks, n_threads, stop):
        indices.extend(some_indices)
        values.extend(some_values)
    np.cumsum(indptr, out=indptr)
    return Coded(indptr, indices.finish(), values.finish(), energy, status)
