"""One BLAS thread for matrix products: shared by all Python threads, and undone whatever happens.

An interrupt may arrive between any two steps of the Python code here, even just before ``__exit__``, which then never
runs. A plain counter would be wrong from then on. So the limit keeps the set of holds, and a hold whose ``__exit__``
was skipped is removed by its ``__del__``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from typing import Any

from threadpoolctl import ThreadpoolController


class _Limit:
    """Limits BLAS to one thread as long as there is a hold; restores the former number after the last."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: garbage collection may call remove() in the middle of a change
        self._holds: dict[int, int] = {}  # each hold, and the thread that made it
        self._libraries: list[Any] = []
        self._n_modules = 0  # that were imported when the libraries were looked up
        self._before: list[tuple[Any, int]] = []  # the numbers of threads to restore

    def add(self, hold: int) -> None:
        """Add a hold; the first one sets the limit."""
        with self._lock:
            self._holds[hold] = threading.get_ident()
            if len(self._holds) > 1:
                return
            if len(sys.modules) != self._n_modules:  # what was imported since may have brought a BLAS of its own
                self._n_modules = len(sys.modules)
                self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            counts = [(library, library.num_threads) for library in self._libraries]
            self._before = [(library, n) for library, n in counts if n is not None and n > 1]
            self._set([(library, 1) for library, _ in self._before])

    def remove(self, hold: int) -> None:
        """Remove a hold, if it is still there; the last one restores the numbers of threads."""
        with self._lock:
            try:
                self._holds.pop(hold, None)
                self._restore()
            except BaseException:  # an interrupt; a second one is not expected before the handler ends
                self._holds.pop(hold, None)
                self._restore()
                raise

    def renew_in_child(self) -> None:
        """Reset the state in a forked process, where only the forking thread exists."""
        self._lock = threading.RLock()
        here = threading.get_ident()
        self._holds = {hold: thread for hold, thread in self._holds.items() if thread == here}
        self._restore()

    def _restore(self) -> None:
        if not self._holds and self._before:
            self._set(self._before)
            self._before = []

    @staticmethod
    def _set(counts: list[tuple[Any, int]]) -> None:
        for library, n in counts:
            # From threadpoolctl 3.8 on, the thread that sets a number owns it, and numbers that other threads set are
            # silently ignored. Here the first and the last hold may belong to different threads.
            getattr(library, "_real_set_num_threads", library.set_num_threads)(n)


_limit = _Limit()
_idle: deque[_Hold] = deque()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.renew_in_child)


class _Hold:
    """A request for the limit. Holds are reused, so that one is deleted only if it was lost, or at exit."""

    _limit = _limit  # at exit, the global name may be gone before the last hold is deleted

    def __enter__(self) -> None:
        self._limit.add(id(self))

    def __exit__(self, *error: object) -> None:
        self._limit.remove(id(self))
        _idle.append(self)

    def __del__(self) -> None:
        self._limit.remove(id(self))


def one_blas_thread() -> _Hold:
    """Limit NumPy's and SciPy's matrix products to one thread, as a context manager.

    The products here are small: a second thread would cost more than it saves, and BLAS threads keep spinning for
    milliseconds afterwards on cores that a pass needs. Results must also not depend on the number of cores.
    """
    try:
        return _idle.pop()
    except IndexError:
        return _Hold()
