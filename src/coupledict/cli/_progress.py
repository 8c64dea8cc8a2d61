"""The progress of a long command: a bar with the time left on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from ..foundation.text import printable, takes_escapes

if TYPE_CHECKING:
    from ..foundation.progress import Callback, Progress

FIRST_LINE = 10.0  # seconds until the first line; shorter work needs none
SHORTEST_SILENCE, LONGEST_SILENCE = 3.0, 60.0  # least and most seconds between two lines
STEPS = 10  # lines of a stage, unless a line is due because of LONGEST_SILENCE


@contextmanager
def progress_bar(label: str = "") -> Iterator[Callback | None]:
    """Yield a callback that shows progress on standard error: a bar, or an occasional line for logs.

    With --json there are no lines, because machines read standard error, too.
    """
    label = printable(label)  # it may be the name of a folder
    if not takes_escapes(sys.stderr):
        yield None if "--json" in sys.argv else Lines(label)
        return
    from rich.console import Console

    from ..estimators.verbose import Bar

    with Bar(label, Console(stderr=True)) as bar:
        yield bar


class Lines:
    """A callback that prints a line once work has lasted a while, and after each further tenth of a stage.

    Parameters
    ----------
    label : str
        Text at the beginning of each line; may be empty.
    tell : callable
        Gets each line.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self, label: str = "", tell: Callable[[str], object] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label = label
        self._clock = clock
        self._tell = tell or (lambda line: typer.echo(line, err=True))
        self._began = self._stage_began = self._last_report = self._last = clock()
        self._stage = ""
        self._step = 0

    def __call__(self, progress: Progress) -> None:
        """Print a line if it is time for one."""
        now = self._clock()
        if progress.stage != self._stage:  # it began at the last report of the previous stage
            self._stage = progress.stage
            self._step = 0
            self._stage_began = self._last_report
        self._last_report = now
        step = int(STEPS * progress.share)
        silent = now - self._last
        if now - self._began < FIRST_LINE or silent < (SHORTEST_SILENCE if step > self._step else LONGEST_SILENCE):
            return
        self._step = step
        self._last = now
        line = f"{progress.stage}: " + self._describe(progress, now)
        self._tell(f"{self._label}: {line}" if self._label else line)

    def _describe(self, progress: Progress, now: float) -> str:
        spent, share = _duration(now - self._began), progress.share
        if progress.total is None:
            return f"{spent} so far"
        left = f", about {_duration((now - self._stage_began) * (1 - share) / share)} left" if 0 < share < 1 else ""
        return f"{100 * share:.0f} % in {spent}{left}"


def _duration(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h {whole % 3600 // 60} min"
