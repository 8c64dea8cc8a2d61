"""The named steps of a run of the experiments, reported to a callback as each begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..foundation.progress import Callback, Progress, StoppedByCallback

#: Called with the name of a step when it begins.
BeginStep: TypeAlias = Callable[[str], None]


class Steps:
    """Calls a callback as each step begins; the steps before it are finished.

    Parameters
    ----------
    callback : callable or None
        Gets a :class:`coupledict.Progress` whose stage is the name of the step.
    total : int
        Steps in all, at most.
    """

    def __init__(self, callback: Callback | None, total: int) -> None:
        self._callback = callback
        self._total = total
        self._begun = 0

    def begin(self, name: str) -> None:
        """Begin a step.

        Raises
        ------
        StoppedByCallback
            If the callback asks to stop.
        """
        progress = Progress(name, self._begun, self._total)
        self._begun += 1
        if self._callback is not None and self._callback(progress):
            raise StoppedByCallback(f"The callback asked for the run to stop ({name}).")
