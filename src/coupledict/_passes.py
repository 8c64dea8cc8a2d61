"""One pass over the data: chunks of samples in, codes out. Threads live here, and only here.

A chunk is coded by one call of a kernel that releases the GIL and uses one thread, so `n_jobs` Python threads keep
`n_jobs` cores busy. Results are taken in the order of the chunks and no kernel mixes samples: what comes out does not
depend on the number of threads or on the size of the chunks.
"""

from __future__ import annotations

import _thread
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
LEAST_CHUNK_SECONDS = 1e-3  # less work than this is not worth a second thread
PATIENCE_SECONDS = 0.1  # longer chunks run beside the main thread, which must stay able to hear an interrupt
MULTIPLY_ADDS_PER_SECOND = 1e10  # a modest core; only the sizes of chunks depend on it
MAX_CHUNK = 4096
SIGNAL_BLOCK = 48  # the kernels take this many signals at a time

Task = TypeVar("Task")
Result = TypeVar("Result")


def move_to(cpus: set[int]) -> None:
    """Move the calling thread to one of these processors, if it may run there; it is free to leave again.

    Some kernels start a thread on the processor of its maker, or wake a thread on the processor of its waker, and move
    it only at the next balancing of loads: for the first ten milliseconds two threads share one core while another is
    idle, and many calls are over by then.
    """
    if not cpus or _native.current_cpu() in cpus:
        return
    allowed = os.sched_getaffinity(0)
    if allowed & cpus:
        os.sched_setaffinity(0, allowed & cpus)
        os.sched_setaffinity(0, allowed)


def in_order(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    n_threads: int,
    stop: npt.NDArray[np.int32],
    *,
    take_part: bool = True,
) -> Iterator[Result]:
    """Yield ``function(task)`` for every task, in order, computed by `n_threads` threads.

    The calling thread is one of them, unless `take_part` is false: then it only waits, and can be interrupted while a
    task is running. When it stops early, by an exception or an interrupt, `stop` is set to 1 for the functions to see,
    and all threads have ended before the exception goes on.
    """
    finished: dict[int, Result | BaseException] = {}
    numbers = iter(range(len(tasks)))  # next() is atomic, so this hands every task out once
    news, ended = threading.Semaphore(0), threading.Semaphore(0)

    def work_once() -> bool:
        number = next(numbers, None)
        if number is None or stop[0]:
            return False
        try:
            finished[number] = function(tasks[number])
        except BaseException as error:
            finished[number] = error
        return True

    here = _native.current_cpu()
    elsewhere = set() if here < 0 else os.sched_getaffinity(0) - {here}

    def work() -> None:
        try:
            move_to(elsewhere)
            while work_once():
                news.release()
        finally:
            ended.release()

    n_helpers = 0
    try:
        for _ in range(n_threads - take_part):
            # Not threading.Thread: its start() sleeps until the new thread has run, and the caller may then wake up on
            # the new thread's processor.
            _thread.start_new_thread(work, ())
            n_helpers += 1
        if n_helpers and take_part:
            time.sleep(1e-6)  # lets the helpers begin, and leave this processor, before it is busy
            move_to({here} if elsewhere else set())
        for number in range(len(tasks)):
            while number not in finished:
                if not (take_part and work_once()):
                    news.acquire()
            result = finished.pop(number)
            if isinstance(result, BaseException):
                raise result
            yield result
    except BaseException:
        stop[0] = 1
        raise
    finally:
        for _ in range(n_helpers):
            ended.acquire()


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


def cut(n: int, multiply_adds: float, n_jobs: int, chunk_size: int | None = None) -> tuple[list[tuple[int, int]], bool]:
    """Cut n samples into chunks; return their bounds, and whether one is short enough for the calling thread."""
    seconds = multiply_adds / MULTIPLY_ADDS_PER_SECOND
    if chunk_size is None:
        even_share = max(n / (4 * n_jobs), LEAST_CHUNK_SECONDS / seconds)
        chunk_size = int(np.clip(min(even_share, CHUNK_SECONDS / seconds), 1, MAX_CHUNK))
        if chunk_size > SIGNAL_BLOCK:
            chunk_size = -(-chunk_size // SIGNAL_BLOCK) * SIGNAL_BLOCK
    chunks = [(start, min(start + chunk_size, n)) for start in range(0, n, chunk_size)]
    return chunks, chunk_size * seconds < PATIENCE_SECONDS


def count_jobs(n_jobs: int | None) -> int:
    """Turn `n_jobs` into a number of threads, as joblib does: None is 1 unless a joblib context says otherwise."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer)):
        raise TypeError(f"Expected n_jobs to be None or an integer, got {n_jobs!r}.")
    if n_jobs == 0:
        raise ValueError(
            "Expected n_jobs to be None, a positive number of threads, or negative (-1: all cores); got 0."
        )
    return int(joblib.effective_n_jobs(n_jobs))


def fill_gram(plan: _native.Plan, n_jobs: int) -> None:
    """Compute the Gram matrix of a plan, by blocks of rows."""
    plan.allocate_gram()
    chunks, short = cut(plan.n_atoms, plan.n_atoms * plan.n_features, n_jobs)
    workspaces = Workspaces()

    def fill(chunk: tuple[int, int]) -> None:
        workspace = workspaces.lend()
        plan.fill_gram(*chunk, workspace)
        workspaces.take_back(workspace)

    for _ in in_order(fill, chunks, min(n_jobs, len(chunks)), np.zeros(1, np.int32), take_part=short):
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
    chunks, short = cut(n, coder.multiply_adds, n_jobs, chunk_size)
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

    for some_indices, some_values in in_order(code, chunks, min(n_jobs, len(chunks)), stop, take_part=short):
        indices.extend(some_indices)
        values.extend(some_values)
    np.cumsum(indptr, out=indptr)
    return Coded(indptr, indices.finish(), values.finish(), energy, status)
