"""Ordered work: several threads do tasks, and the results are yielded in the order of the tasks.

Nothing else in the library starts a thread. A task is short or releases the GIL, so `n_threads` Python threads keep as
many cores busy. Because results are yielded in order, what is computed from them does not depend on the number of
threads.

An interrupt may arrive in the calling thread between any two steps. So threads communicate through queues, whose calls
are atomic; semaphores and conditions are Python code that an interrupt can leave locked.
"""

from __future__ import annotations

import _thread
import contextvars
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from ..kernels import _native
from .cancel import Cancelled, CancelToken

RUN_AHEAD = 4  # running and finished tasks per thread: while one task is slow, the others can go on for a while
LOOK_UP_SECONDS = 0.1  # a waiting thread wakes up this often, to notice an interrupt

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_order(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    n_threads: int,
    cancel: CancelToken | None = None,
    *,
    take_part: bool = True,
) -> Generator[Result, None, None]:
    """Yield ``function(task)`` for every task, in order, computed by `n_threads` threads.

    Parameters
    ----------
    function : callable
    tasks : iterable
        Read by one thread at a time, and only a few tasks ahead of the result that is due: memory does not grow with
        the number of tasks.
    n_threads : int
    cancel : CancelToken, optional
        When it is cancelled, the work ends with :class:`Cancelled`. This function cancels it itself when the work ends
        early, by an error, an interrupt or a caller that closes the generator, so that running tasks can end too.
    take_part : bool
        Whether the calling thread does tasks as well. If not, it only waits, and notices an interrupt during a task.

    Notes
    -----
    All threads have ended before an error is raised. Of several errors, that of the first task is raised.
    """
    return _OrderedPool(function, tasks, CancelToken() if cancel is None else cancel).run(
        n_threads, take_part=take_part
    )


class _OrderedPool(Generic[Task, Result]):
    """The threads of one call of :func:`in_order`, and the state that they share."""

    def __init__(self, function: Callable[[Task], Result], tasks: Iterable[Task], cancel: CancelToken) -> None:
        self._function = function
        self._source = iter(tasks)
        self._cancel = cancel
        self._taking = threading.Lock()
        self._n_taken = 0
        self._exhausted = False
        self._closing = False
        self._finished: dict[int, Result | BaseException] = {}
        self._room: SimpleQueue[None] = SimpleQueue()  # one entry for each task that may be started
        self._events: SimpleQueue[None] = SimpleQueue()  # one entry for each task and each worker that has ended
        self._n_workers = 0
        self._ended = list[None]()

    def run(self, n_threads: int, *, take_part: bool) -> Generator[Result, None, None]:
        """Yield the results; see :func:`in_order`."""
        take_part = take_part or n_threads < 1
        for _ in range(RUN_AHEAD * max(n_threads, 1)):
            self._room.put(None)
        try:
            self._start_workers(n_threads - take_part, stay_here=take_part)
            number = 0
            while not (self._exhausted and number >= self._n_taken):
                self._check_cancelled()
                if number in self._finished:
                    yield self._take_result(number)
                    number += 1
                    self._room.put(None)
                elif take_part and not self._exhausted and self._do_here():
                    pass
                elif self._n_workers:
                    self._wait()
            self._check_cancelled()  # a kernel that was cancelled leaves its chunk unfinished
        except BaseException:
            self._closing = True
            self._cancel.cancel()
            raise
        finally:
            try:
                self._join()
            except BaseException:  # an interrupt at the very end
                self._closing = True
                self._join()
                raise

    def _start_workers(self, n_workers: int, *, stay_here: bool) -> None:
        here = _native.current_cpu()
        elsewhere = set[int]() if here < 0 else os.sched_getaffinity(0) - {here}
        for _ in range(n_workers):
            # With the caller's context, a task means the same in either thread: NumPy's handling of errors is part of
            # it, and without a GIL so are the filters of warnings.
            within = contextvars.copy_context().run
            self._n_workers += 1  # no call between this and the start: an interrupt there would leave it too large
            try:
                # Not threading.Thread: its start() sleeps until the new thread has run, and the caller may then wake up
                # on the new thread's processor.
                _thread.start_new_thread(within, (self._work, elsewhere))
            except RuntimeError:  # the system has no thread left
                self._n_workers -= 1
                raise
        if self._n_workers and stay_here:
            time.sleep(1e-6)  # lets the workers start, and leave this processor, before it is busy
            move_to({here} if elsewhere else set())

    def _work(self, processors: set[int]) -> None:
        """Do tasks until there are no more. A worker thread runs this."""
        try:
            move_to(processors)
            while self._room.get() is None and self._do_next(calling=False):
                self._events.put(None)
        finally:
            self._ended.append(None)
            self._events.put(None)  # the caller may be waiting for a task that was not there, or for this thread to end

    def _do_here(self) -> bool:
        """Do one task in the calling thread, if there is room for its result."""
        try:
            self._room.get_nowait()
        except Empty:
            return False
        return self._do_next(calling=True)

    def _do_next(self, *, calling: bool) -> bool:
        """Do the next task; return whether there was one. An interrupt is raised at once, not in turn."""
        with self._taking:
            if self._exhausted or self._closing or self._cancel.cancelled:
                return False
            number = self._n_taken
            try:
                task = next(self._source)
            except StopIteration:
                self._exhausted = True
                return False
            except BaseException as error:
                self._finished[number] = error
                self._n_taken += 1
                self._exhausted = True  # last: from then on, the caller believes the number
                if calling and not isinstance(error, Exception):
                    raise
                return True
            self._n_taken += 1
        try:
            self._finished[number] = self._function(task)
        except BaseException as error:
            self._finished[number] = error
            self._exhausted = True  # results after an error are never yielded
            if calling and not isinstance(error, Exception):
                raise
        return True

    def _check_cancelled(self) -> None:
        if self._cancel.cancelled:
            raise Cancelled("The work was cancelled.")

    def _take_result(self, number: int) -> Result:
        result = self._finished.pop(number)
        if isinstance(result, BaseException):
            try:
                raise result
            finally:
                del result  # its traceback refers to this frame: without this they would keep each other alive
        return result

    def _wait(self) -> None:
        # With a timeout: where a library handles signals itself, as Polars does, the system restarts an interrupted
        # wait, and Python would notice the interrupt only when the wait ends.
        with suppress(Empty):
            self._events.get(timeout=LOOK_UP_SECONDS)

    def _join(self) -> None:
        """Wait until all workers have ended."""
        for _ in range(self._n_workers):
            self._room.put(None)
        while len(self._ended) < self._n_workers:
            self._wait()


def move_to(processors: set[int]) -> None:
    """Move the calling thread to one of these processors, if it may run there; it is free to leave again.

    Some operating systems start or wake a thread on the processor of the thread that asked for it, and move it only
    when they next balance the load: for the first ten milliseconds two threads share one core while another is idle,
    and many calls take less time than that.
    """
    if not processors or _native.current_cpu() in processors:
        return
    allowed = os.sched_getaffinity(0)
    if allowed & processors:
        try:
            os.sched_setaffinity(0, allowed & processors)
        finally:  # an interrupt in between must not leave the thread confined
            os.sched_setaffinity(0, allowed)
