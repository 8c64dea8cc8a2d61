"""The callbacks behind ``verbose``: a progress bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..foundation.progress import Callback, LearningProgress, Progress, Record, tell_all
from ..foundation.text import takes_escapes

WIDE = 90  # columns of a terminal that has room for the label, the time so far and a longer bar
NARROW_BAR, WIDE_BAR = 12, 24
LINES = 10  # lines per stage of a task; learners print one per iteration


def describe(record: Record) -> str:
    """Return the figures of one iteration as one line of text."""
    return (
        f"limit {record['limit']}, nonzeros {record['mean_nonzeros']:.2f}, RMS error {record['rms']:.4g},"
        f" unused {record['unused']}"
    )


def describe_prediction(score: Record) -> str:
    """Return what samples held out have shown of one predictor, as one line of text."""
    named = f"{score['target']} from {' and '.join(str(source) for source in score['sources'])}"
    if not score["n_samples"]:
        return f"{named}: ridge regression, with too few samples to judge it by"
    shares = sorted(score["shares"].items(), key=lambda share: -share[1])
    heads = ", ".join(f"{name} {share:.2f}" for name, share in shares if share > 0)
    return (
        f"{named}: R^2 {score['r2']:.2f} on {score['n_samples']:,} samples held out"
        f" (ridge {score['ridge_r2']:.2f}); {heads}"
    )


@contextmanager
def watched(verbose: int, label: str, callback: Callback | None = None) -> Iterator[Callback | None]:
    """Yield the callback that a fit or task calls: the user's, and with `verbose` also one that shows the progress.

    It is None if there is neither.
    """
    if not verbose:
        yield callback
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not (console.is_terminal and takes_escapes(console.file)):
        yield tell_all(_Lines(label), callback)
        return
    with Bar(label, console) as bar:
        yield tell_all(bar, callback)


class _Lines:
    """Prints a line for each iteration of a learner, and about LINES lines for each stage of a task."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, progress: Progress) -> None:
        of = "" if progress.total is None else f"/{progress.total}"
        if isinstance(progress, LearningProgress):
            record = progress.history[-1]
            print(f"{self._label} {progress.completed}{of}: {describe(record)}, {record['seconds']:.2f} s", flush=True)
            return
        step = (progress.stage, int(LINES * progress.share))
        if step != self._last:
            self._last = step
            print(f"{self._label}, {progress.stage}: {progress.completed}{of}", flush=True)


class Bar:
    """A callback that shows progress as a bar on a terminal.

    Parameters
    ----------
    label : str
        Text before the bar; may be empty. After the bar is the stage, or the figures of an iteration.
    console : rich.console.Console
    """

    def __init__(self, label: str, console: Any) -> None:
        from rich.progress import (
            BarColumn,
            ProgressColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        narrow = console.width < WIDE
        columns: list[ProgressColumn] = [
            BarColumn(bar_width=NARROW_BAR if narrow else WIDE_BAR),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}", markup=False),
        ]
        if not narrow:
            columns.insert(2, TimeElapsedColumn())
            columns.insert(3, TextColumn("[dim]left[/dim]"))
            columns.insert(0, TextColumn("{task.description}", markup=False))
        self._room = console.width - (NARROW_BAR + 14 if narrow else len(label) + WIDE_BAR + 28)
        self._bar = RichProgress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(label, total=None, state="")

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Show the progress."""
        state = describe(progress.history[-1]) if isinstance(progress, LearningProgress) else progress.stage
        if len(state) > self._room:  # rich would shorten the other columns, too
            state = f"{state[: max(self._room - 1, 0)]}…"
        self._bar.update(self._task, completed=progress.completed, total=progress.total, state=state)
