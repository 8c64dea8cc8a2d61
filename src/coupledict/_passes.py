"""One pass over the data: chunks of samples in, codes or sums over codes out. Threads live here, and only here.

A chunk is coded by one call of a kernel that releases the GIL and uses one thread, so `n_jobs` Python threads keep
`n_jobs` cores busy. Results are taken in the order of the chunks and no kernel mixes samples: what comes out does not
depend on the number of threads or on the size of the chunks.
"""

from __future__ import annotations

import _thread
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self, TypeVar

import joblib
import numpy as np
import numpy.typing as npt

from . import _native
from ._blas import one_blas_thread as one_blas_thread
from ._blocks import Piece, check_finite
from ._levels import active_level
from ._views import Array, read_rows

if TYPE_CHECKING:
    from ._pursuit import Coder
    from ._schedule import Chosen, Order

CHUNK_SECONDS = 2e-3  # long enough to hide the cost of handing out a chunk, short enough to share the work evenly
LEAST_CHUNK_SECONDS = 1e-3  # less work than this is not worth a second thread
PATIENCE_SECONDS = 0.1  # longer chunks run beside the main thread, which must stay able to hear an interrupt
HEARING_SECONDS = 0.1  # a waiting thread looks up so often
MULTIPLY_ADDS_PER_SECOND = 1e10  # a modest core; only the sizes of chunks depend on it
MAX_CHUNK = 4096
RUN_AHEAD = 4  # finished and running tasks for each thread, so that one slow task does not stop the others at once
ADDS_PER_CALL = 3e7  # a tenth of a second where the sums are far larger than any cache
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
        try:
            os.sched_setaffinity(0, allowed & cpus)
        finally:  # an interrupt in between must not leave it there
            os.sched_setaffinity(0, allowed)


class Stopped(Exception):  # noqa: N818  (no error: whoever set the flag knows why)
    """Work ended because the flag for stopping was set elsewhere; its result is of no use."""


_around = threading.local()


@contextmanager
def stopped_by(stop: npt.NDArray[np.int32]) -> Iterator[None]:
    """Let every pass that this thread begins hear this flag too, as a context."""
    _around.stop = stop
    try:
        yield
    finally:
        del _around.stop


def flag_for(stop: npt.NDArray[np.int32] | None) -> tuple[npt.NDArray[np.int32], bool]:
    """Return the flag that ends a pass, and whether it belongs to something around it."""
    given = getattr(_around, "stop", None) if stop is None else stop
    return (np.zeros(1, np.int32), False) if given is None else (given, True)


def in_order(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    n_threads: int,
    stop: npt.NDArray[np.int32],
    *,
    take_part: bool = True,
    nested: bool = False,
) -> Iterator[Result]:
    """Yield ``function(task)`` for every task, in order, computed by `n_threads` threads.

    The calling thread is one of them, unless `take_part` is false: then it only waits, and can be interrupted while a
    task is running. When it stops early, by an exception or an interrupt, `stop` is set to 1 for the functions to see,
    and all threads have ended before the exception goes on. Tasks are taken from the iterable by one thread at a time,
    and only so far ahead of the result that is due: what is held at once does not grow with the number of tasks. Of
    several errors that of the first task is raised. With `nested`, `stop` belongs to a pass around this one, which is
    heard but not stopped: it hears of an error here when the result is due.

    An interrupt may strike the calling thread between any two steps. So threads speak through queues, whose every call
    is one step; semaphores and conditions are Python code that an interrupt can leave locked.
    """
    take_part = take_part or n_threads < 1
    finished: dict[int, Result | BaseException] = {}
    source = iter(tasks)
    taking = threading.Lock()
    n_taken, exhausted, closing = 0, False, False
    room: SimpleQueue[None] = SimpleQueue()
    for _ in range(RUN_AHEAD * max(n_threads, 1)):
        room.put(None)
    news: SimpleQueue[None] = SimpleQueue()
    ended: list[None] = []

    def work_once(*, calling: bool) -> bool:
        nonlocal n_taken, exhausted
        with taking:
            if exhausted or closing or stop[0]:
                return False
            number = n_taken
            try:
                task = next(source)
            except StopIteration:
                exhausted = True
                return False
            except BaseException as error:
                exhausted = True
                finished[number] = error
                n_taken += 1
                if calling and not isinstance(error, Exception):
                    raise
                return True
            n_taken += 1
        try:
            finished[number] = function(task)
        except BaseException as error:
            finished[number] = error
            if calling and not isinstance(error, Exception):  # an interrupt does not wait for its turn
                raise
        return True

    here = _native.current_cpu()
    elsewhere = set() if here < 0 else os.sched_getaffinity(0) - {here}

    def work() -> None:
        try:
            move_to(elsewhere)
            while room.get() is None and work_once(calling=False):
                news.put(None)
        finally:
            ended.append(None)
            news.put(None)  # the caller may be waiting for a task that never came, or for this end

    def join_in() -> bool:
        try:
            room.get_nowait()
        except Empty:
            return False
        return work_once(calling=True)

    def wait() -> None:
        # Not for ever: libraries that catch signals themselves, as Polars does, let the system take up a wait again,
        # and Python would hear of an interrupt only at its end.
        with suppress(Empty):
            news.get(timeout=HEARING_SECONDS)

    def dismiss() -> None:
        for _ in range(n_helpers):
            room.put(None)
        while len(ended) < n_helpers:
            wait()

    n_helpers = 0
    try:
        for _ in range(n_threads - take_part):
            n_helpers += 1
            try:
                # Not threading.Thread: its start() sleeps until the new thread has run, and the caller may then wake up
                # on the new thread's processor.
                _thread.start_new_thread(work, ())
            except RuntimeError:  # the system has no thread left
                n_helpers -= 1
                raise
        if n_helpers and take_part:
            time.sleep(1e-6)  # lets the helpers begin, and leave this processor, before it is busy
            move_to({here} if elsewhere else set())
        number = 0
        while not (exhausted and number >= n_taken):
            if number in finished:
                result = finished.pop(number)
                if isinstance(result, BaseException):
                    try:
                        raise result
                    finally:
                        del result  # its traceback holds this frame: neither would die by itself
                yield result
                number += 1
                room.put(None)
            elif stop[0]:
                raise Stopped("Work was stopped from outside.")
            elif take_part and not exhausted and join_in():
                pass
            elif n_helpers:
                wait()
    except BaseException:
        closing = True
        if not nested:
            stop[0] = 1
        raise
    finally:
        try:
            dismiss()
        except BaseException:  # an interrupt at the very end
            closing = True
            dismiss()
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


def cut(
    n: int, multiply_adds: float, n_jobs: int, chunk_size: int | None = None, *, together: bool = False
) -> tuple[list[tuple[int, int]], bool]:
    """Cut n samples into chunks; return their bounds, and whether one is short enough for the calling thread.

    With `together` the kernel shares work between the samples of a block, so chunks are whole blocks.
    """
    seconds = multiply_adds / MULTIPLY_ADDS_PER_SECOND
    if chunk_size is None:
        even_share = max(n / (4 * n_jobs), LEAST_CHUNK_SECONDS / seconds)
        least = SIGNAL_BLOCK if together else 1
        chunk_size = int(np.clip(min(even_share, CHUNK_SECONDS / seconds), least, MAX_CHUNK))
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
    if n_jobs is not None and multiprocessing.current_process().daemon:
        # joblib says 1 here, and warns: such a process must not start others. It may well start threads.
        return int(n_jobs if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + n_jobs))
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

    stop, nested = flag_for(None)
    for _ in in_order(fill, chunks, min(n_jobs, len(chunks)), stop, take_part=short, nested=nested):
        pass


@dataclass(frozen=True)
class Samples:
    """Samples of all views, read a chunk at a time, in their own order or in another."""

    views: list[Array]
    dtype: np.dtype[Any]
    order: Order | Chosen | None = None
    origin: Piece | None = None  # the rows are these of a larger set

    def __len__(self) -> int:
        return int(self.views[0].shape[0]) if self.order is None else self.order.size

    def read(self, start: int, stop: int) -> list[Array]:
        """Return rows start..stop-1 of every view."""
        if self.order is None:
            return [read_rows(view, start, stop, self.dtype) for view in self.views]
        chosen = self.order.numbers(start, stop)
        return [np.ascontiguousarray(view[chosen], dtype=self.dtype) for view in self.views]

    def number(self, row: int) -> int:
        """Return the place of a row in the views."""
        return row if self.order is None else int(self.order.numbers(row, row + 1)[0])

    def rows(self, chosen: npt.NDArray[np.int64]) -> list[Array]:
        """Return some rows of every view."""
        numbers = np.array([self.number(int(row)) for row in chosen], np.int64)
        return [np.asarray(view[numbers], self.dtype) for view in self.views]


def check_rows(samples: Samples, start: int, status: npt.NDArray[np.uint8]) -> None:
    """Raise where a row could not be coded, naming the sample."""
    if status.max(initial=0) < _native.NOT_FINITE:
        return
    row = int(np.argmax(status >= _native.NOT_FINITE))
    name = f"sample {samples.number(start + row)}"
    if samples.origin is not None:
        check_finite(samples.views, samples.origin)
        name = f"row {samples.origin.start + start + row} of chunk {samples.origin.block}"
    if status[row] == _native.NOT_FINITE:
        raise ValueError(f"Expected X to be finite, got NaN or infinity in {name}. Remove or impute such samples.")
    raise ValueError(
        f"The coefficients of {name} exceed the range of {samples.dtype}."
        " Bring X and the dictionary to comparable scales."
    )


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
    """Codes of samples in CSR parts, with the squared residual and the status of each sample.

    There is one array of values for each group of views that shares its coefficients.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: list[Array]
    energy: npt.NDArray[np.float64]
    status: npt.NDArray[np.uint8]


def encode(
    coder: Coder,
    samples: Samples,
    n_jobs: int,
    chunk_size: int | None = None,
    *,
    stop: npt.NDArray[np.int32] | None = None,
) -> Coded:
    """Code all samples. A pass within a pass shares its flag `stop`."""
    n = len(samples)
    chunks, short = cut(n, coder.multiply_adds, n_jobs, chunk_size, together=coder.gram_free)
    stop, nested = flag_for(stop)
    workspaces = Workspaces()
    indptr = np.zeros(n + 1, np.int64)
    energy = np.empty(n, np.float64)
    status = np.empty(n, np.uint8)
    expected = n * (coder.n_nonzero if coder.tol is None else min(coder.n_nonzero, 8))
    indices = _Growing(expected, np.int32)
    values = [_Growing(expected, coder.dtype) for _ in coder.groups]

    def code(chunk: tuple[int, int]) -> Part:
        start, end = chunk
        workspace = workspaces.lend()
        part = coder.encode_rows(samples.read(start, end), workspace, stop, energy[start:end], status[start:end])
        workspaces.take_back(workspace)
        check_rows(samples, start, status[start:end])
        indptr[start + 1 : end + 1] = part.counts
        return part

    for part in in_order(code, chunks, min(n_jobs, len(chunks)), stop, take_part=short, nested=nested):
        indices.extend(part.indices)
        for whole, piece in zip(values, part.values, strict=True):
            whole.extend(piece)
    np.cumsum(indptr, out=indptr)
    return Coded(indptr, indices.finish(), [whole.finish() for whole in values], energy, status)


@dataclass(frozen=True)
class Part:
    """Codes of a chunk of samples; one array of values for each group of views that shares its coefficients."""

    counts: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    values: list[Array]


@dataclass(frozen=True)
class Sums:
    """A = C^T C and B = C^T X of one group of views; B has the views side by side."""

    a: npt.NDArray[np.float64]
    b: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Worst:
    """The `limit` samples with the largest squared residuals: the residuals, descending, and the rows of every view."""

    limit: int
    energy: npt.NDArray[np.float64]
    rows: list[Array]

    @classmethod
    def none(cls) -> Worst:
        """Return no samples."""
        return cls(0, np.empty(0), [])

    def best_of(self, other: Worst) -> Worst:
        """Return the worst of both; of equals, those of `self` come first."""
        if not self.limit:
            return self
        energy = np.concatenate([self.energy, other.energy])
        chosen = np.argsort(-energy, kind="stable")[: self.limit]
        rows = [np.concatenate(pair)[chosen] for pair in zip(self.rows, other.rows, strict=True)]
        return Worst(self.limit, energy[chosen], rows)


@dataclass
class Statistics:
    """What a pass leaves behind when the codes themselves are not kept; its size does not depend on the samples."""

    n_samples: int
    sums: list[Sums]
    uses: npt.NDArray[np.int64]
    energy: float
    n_nonzeros: int
    view_energy: npt.NDArray[np.float64]
    worst: Worst

    def __iadd__(self, other: Statistics) -> Self:
        """Add those of other samples."""
        for mine, theirs in zip(self.sums, other.sums, strict=True):
            mine.a.__iadd__(theirs.a)
            mine.b.__iadd__(theirs.b)
        self.n_samples += other.n_samples
        self.uses += other.uses
        self.energy += other.energy
        self.n_nonzeros += other.n_nonzeros
        self.view_energy += other.view_energy
        self.worst = self.worst.best_of(other.worst)
        return self


class _Accumulators:
    """Sums of one chunk, in the number type of the samples; reused from chunk to chunk."""

    def __init__(self, n_atoms: int, widths: list[int], dtype: np.dtype[Any]) -> None:
        self.a = [np.empty((n_atoms, n_atoms), dtype) for _ in widths]
        self.b = [np.empty((n_atoms, width), dtype) for width in widths]
        self.uses = np.empty(n_atoms, np.int64)

    def clear(self) -> None:
        for array in (*self.a, *self.b, self.uses):
            array.fill(0)


def _add_up(
    views: list[Array],
    part: Part,
    g: int,
    own: _Accumulators,
    workspace: _native.Workspace,
    stop: npt.NDArray[np.int32],
) -> None:
    """Add the codes of group g to its sums, a few samples at a time: in between, an interrupt is heard."""
    n, width = part.counts.size, sum(view.shape[1] for view in views)
    step = max(1, int(ADDS_PER_CALL * n / max(1, part.indices.size * width)))
    level, first = active_level(), 0
    for start in range(0, n, step):
        if stop[0]:
            return
        counts = part.counts[start : start + step]
        last = first + int(counts.sum())
        _native.accumulate(
            [view[start : start + step] for view in views],
            counts,
            part.indices[first:last],
            part.values[g][first:last],
            own.a[g],
            own.b[g],
            own.uses,
            workspace,
            level,
        )
        first = last


def statistics(
    coder: Coder,
    samples: Samples,
    n_jobs: int,
    *,
    n_worst: int = 0,
    targets: Samples | None = None,
    stop: npt.NDArray[np.int32] | None = None,
) -> Statistics:
    """Code all samples and keep only sums over the codes, and the `n_worst` worst coded samples.

    With `targets`, the codes of `samples` are summed up with these views of the same samples, all in one group.
    Chunks have a size of their own, whatever `n_jobs` is, and their sums are added in order: the same bits for any
    number of threads. Memory: the sums of a few chunks for each thread. A pass within a pass shares its flag `stop`.
    """
    n, n_atoms = len(samples), coder.n_atoms
    explained = samples if targets is None else targets
    groups = coder.groups if targets is None else [list(range(len(targets.views)))]
    widths = [sum(explained.views[v].shape[1] for v in group) for group in groups]
    rows = max(512, 2 * n_atoms)
    chunks, short = cut(n, coder.multiply_adds, n_jobs, rows)
    stop, nested = flag_for(stop)
    workspaces = Workspaces()
    idle: deque[_Accumulators] = deque()

    def code(chunk: tuple[int, int]) -> tuple[_Accumulators, Array, Array, Array]:
        start, end = chunk
        energy, status = np.empty(end - start), np.empty(end - start, np.uint8)
        workspace = workspaces.lend()
        views = samples.read(start, end)
        part = coder.encode_rows(views, workspace, stop, energy, status)
        check_rows(samples, start, status)
        if targets is not None:
            views = targets.read(start, end)
        try:
            own = idle.pop()
        except IndexError:
            own = _Accumulators(n_atoms, widths, coder.dtype)
        own.clear()
        for g, group in enumerate(groups):
            own.uses.fill(0)
            _add_up([views[v] for v in group], part, g, own, workspace, stop)
        workspaces.take_back(workspace)
        worst = start + np.argsort(-energy, kind="stable")[:n_worst] if n_worst else np.empty(0, np.int64)
        sizes = np.array([np.einsum("ij,ij->", view, view, dtype=np.float64) for view in views])
        return own, np.array([energy.sum(), part.indices.size]), np.stack([worst, energy[worst - start]]), sizes

    a = [np.zeros((n_atoms, n_atoms)) for _ in widths]
    b = [np.zeros((n_atoms, width)) for width in widths]
    uses = np.zeros(n_atoms, np.int64)
    totals, view_energy, candidates = np.zeros(2), np.zeros(len(explained.views)), []
    n_threads = min(n_jobs, len(chunks))
    for own, some_totals, some_worst, sizes in in_order(code, chunks, n_threads, stop, take_part=short, nested=nested):
        for g in range(len(widths)):
            a[g] += own.a[g]
            b[g] += own.b[g]
        uses += own.uses
        idle.append(own)
        totals += some_totals
        view_energy += sizes
        candidates.append(some_worst)
    for matrix in a:  # the kernel fills the upper triangle
        matrix += np.triu(matrix, 1).T
    ranked = np.concatenate(candidates, axis=1) if candidates else np.empty((2, 0))
    best = np.argsort(-ranked[1], kind="stable")[:n_worst]
    worst = Worst(n_worst, ranked[1, best], samples.rows(ranked[0, best].astype(np.int64))) if n_worst else Worst.none()
    sums = [Sums(*pair) for pair in zip(a, b, strict=True)]
    return Statistics(n, sums, uses, float(totals[0]), int(totals[1]), view_energy, worst)
