"""What a long command shows while it runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Steps:
    """Shows the steps of a command on standard error."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task: Any = None
        self._done = 0
        if self._console.is_terminal:
            self._bar = Progress(
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=self._console,
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, total: int) -> None:
        """Say how many steps there will be."""
        if self._bar is not None:
            self._bar.update(self._task, total=total)

    def step(self, text: str) -> None:
        """Show a step that begins."""
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=self._done)
        else:
            self._console.print(text, markup=False, highlight=False)
        self._done += 1
