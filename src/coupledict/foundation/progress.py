"""How every fit and task reports progress, and how it is asked to stop: ``callback(progress) -> stop``.

A callback gets a :class:`Progress` whenever some work is finished, and stops the work by returning a true value. A
learner then keeps what it has learned so far; any other task has no result to return, and raises
:class:`StoppedByCallback`. Progress bars on a terminal, the local page and ``verbose`` are such callbacks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .arrays import Array

Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """What a callback gets.

    Attributes
    ----------
    stage : str
        What is being done, such as ``"learning"`` or ``"fusing"``.
    completed : int
        Units of work that are finished: iterations of a learner, patches, tiles, samples of sound.
    total : int or None
        Total number of these units; None if it is not known.
    """

    stage: str
    completed: int
    total: int | None

    @property
    def share(self) -> float:
        """Share of the work that is finished, from 0 to 1; 0 if the total is not known."""
        return min(1.0, self.completed / self.total) if self.total else 0.0


@dataclass(frozen=True)
class LearningProgress(Progress):
    """What the callback of a learner gets after an iteration.

    Attributes
    ----------
    stage : str
        ``"learning"``.
    completed : int
        Iterations that are finished.
    total : int or None
        Iterations that were asked for.
    components : list of arrays
        Copies of the dictionaries, one per view.
    history : list of dict
        One record for each finished iteration, as in ``history_``.
    """

    components: list[Array] = field(default_factory=list)
    history: list[Record] = field(default_factory=list)


Callback: TypeAlias = Callable[[Progress], object]


class StoppedByCallback(Exception):  # noqa: N818  (no error: the caller asked for it)
    """Raised when a callback stops a task that then has no result. What was fitted before is unchanged."""


class Meter:
    """Counts finished work and reports it to a callback; several threads may use one meter.

    Parameters
    ----------
    callback : callable or None
        Called after every step; with None nothing is reported.
    stage : str
    total : int or None
    """

    def __init__(self, callback: Callback | None, stage: str, total: int | None = None) -> None:
        self._callback = callback
        self._stage = stage
        self._total = total
        self._completed = 0
        self._stopped = False
        self._lock = threading.Lock()

    def advance(self, n: int = 1) -> None:
        """Count n units of finished work.

        Raises
        ------
        StoppedByCallback
            If the callback asks for the work to stop, now or at an earlier call.
        """
        if self._callback is None:
            return
        with self._lock:  # one call at a time, so that `completed` only grows
            if not self._stopped:  # once the callback has asked to stop, every thread raises
                self._completed += n
                self._stopped = bool(self._callback(Progress(self._stage, self._completed, self._total)))
        if self._stopped:
            raise StoppedByCallback(f"The callback asked for the work to stop ({self._stage}).")


def tell_all(*callbacks: Callback | None) -> Callback | None:
    """Return one callback that calls several and stops if any of them asks to; None if there are none."""
    wanted = [callback for callback in callbacks if callback is not None]
    if len(wanted) < 2:
        return wanted[0] if wanted else None

    def tell(progress: Progress) -> bool:
        answers = [callback(progress) for callback in wanted]  # a list, so that every callback is called
        return any(answers)

    return tell
