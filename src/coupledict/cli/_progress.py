"""What a long command shows while it runs: a bar with the time left on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self


def is_watched() -> bool:
    """Tell whether somebody looks at standard error."""
    return sys.stderr.isatty()


class Progress:
    """Shows on standard error how far a command has come; does nothing where that is no terminal.

    Work either comes in steps that have names, or is counted.
    """

    def __init__(self, text: str = "", total: float | None = None) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._begun = 0
        if is_watched():
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                BarColumn(bar_width=24),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("[dim]left[/dim]"),
                TimeRemainingColumn(),
                TextColumn("{task.description}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(text, total=total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, total: float) -> None:
        """Say how many steps there will be, or how much is to be counted."""
        if self._bar is not None:
            self._bar.update(self._task, total=total)

    def step(self, text: str) -> None:
        """Show a step that begins; those before it are done."""
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=self._begun)
        self._begun += 1

    def reach(self, completed: float, text: str | None = None) -> None:
        """Show how much is done."""
        if self._bar is not None:
            more = {} if text is None else {"description": text}
            self._bar.update(self._task, completed=completed, **more)
