"""What a fit shows while it runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


def describe(record: dict[str, Any]) -> str:
    """Return the figures of one iteration in a line."""
    return (
        f"limit {record['limit']}, nonzeros {record['mean_nonzeros']:.2f}, RMS error {record['rms']:.4g},"
        f" unused {record['unused']}"
    )


class Progress:
    """Shows the iterations of a fit; does nothing unless `verbose` is set."""

    def __init__(self, verbose: int, label: str) -> None:
        self._verbose, self._label = verbose, label
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._verbose:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            console = Console(stderr=True)
            if console.is_terminal:
                self._bar = Bar(
                    TextColumn("{task.description}"),
                    BarColumn(bar_width=24),
                    MofNCompleteColumn(),
                    TimeElapsedColumn(),
                    TimeRemainingColumn(),
                    TextColumn("{task.fields[figures]}"),
                    console=console,
                )
                self._bar.start()
                self._task = self._bar.add_task(self._label, total=None, figures="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, record: dict[str, Any], iteration: int, n_iter: int) -> None:
        """Show one finished iteration."""
        if self._bar is not None:
            self._bar.update(self._task, completed=iteration, total=n_iter, figures=describe(record))
        elif self._verbose:
            print(f"{self._label} {iteration}/{n_iter}: {describe(record)}, {record['seconds']:.2f} s", flush=True)
