"""What a long command shows while it runs: a bar with the time left on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..foundation.progress import Callback


@contextmanager
def progress_bar(label: str = "") -> Iterator[Callback | None]:
    """Give a callback that shows progress on standard error; None if that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    from ..estimators.verbose import Bar

    with Bar(label, Console(stderr=True)) as bar:
        yield bar
