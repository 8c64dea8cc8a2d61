"""Matrix products held to one thread: counted over all Python threads, and given back whatever happens.

An interrupt may strike between any two steps of the Python code here, also on the way into ``__exit__``, which then
never runs. So what counts is not a number but the set of holds: a hold that was lost gives its place back when it dies.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

from threadpoolctl import ThreadpoolController


class _Limit:
    """One thread for BLAS as long as there is a hold; then as many as before."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: the collector may end a lost hold in the middle of a change
        self._holds: dict[int, int] = {}  # the thread that made each
        self._libraries: list[Any] | None = None
        self._before: list[tuple[Any, int]] = []  # what to put back

    def add(self, hold: int) -> None:
        """Add a hold; the first one sets the limit."""
        with self._lock:
            self._holds[hold] = threading.get_ident()
            if len(self._holds) > 1:
                return
            if self._libraries is None:
                self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            counts = [(library, library.num_threads) for library in self._libraries]
            self._before = [(library, n) for library, n in counts if n is not None and n > 1]
            self._set([(library, 1) for library, _ in self._before])

    def remove(self, hold: int) -> None:
        """Take a hold away; with the last one the limit goes. Does nothing where that is done already."""
        with self._lock:
            try:
                self._holds.pop(hold, None)
                self._restore()
            except BaseException:  # an interrupt has come in between; it comes alone
                self._holds.pop(hold, None)
                self._restore()
                raise

    def renew_in_child(self) -> None:
        """Begin anew in a forked process, where only the thread that forked lives on."""
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
            # From 3.8 on, the thread that sets a count owns it, and what others set is ignored without a word. Here the
            # last to leave may be another than the first, and the limit must hold whoever owns it.
            getattr(library, "_real_set_num_threads", library.set_num_threads)(n)


_limit = _Limit()
_idle: deque[_Hold] = deque()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.renew_in_child)


class _Hold:
    """One who asks for the limit. Used again and again, so that it dies only where it was lost, or at the very end."""

    _limit = _limit  # the name of the module may be gone when a hold dies

    def __enter__(self) -> None:
        self._limit.add(id(self))

    def __exit__(self, *error: object) -> None:
        self._limit.remove(id(self))
        _idle.append(self)

    def __del__(self) -> None:
        self._limit.remove(id(self))


def one_blas_thread() -> _Hold:
    """Hold NumPy's and SciPy's matrix products to one thread, as a context.

    The products here are small: a second thread would cost more than it brings, its workers go on spinning for
    milliseconds afterwards on a core that a pass wants, and the bits of the result must not depend on the machine.
    """
    try:
        return _idle.pop()
    except IndexError:
        return _Hold()
