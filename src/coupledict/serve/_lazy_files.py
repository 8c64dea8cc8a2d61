"""Files of a job that are made on request, because some take long and may never be needed.

At most one file to show and one to save are made at a time, so memory holds at most two.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path


class LazyFiles:
    """Files of a job, each written on first request.

    Parameters
    ----------
    folder : Path
        For the files.

    Attributes
    ----------
    display_lock : Lock
        Held while a file for the page is made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, tuple[Callable[[Path], None], threading.Lock]] = {}
        self.display_lock, self._save_lock = (
            threading.Lock(),
            threading.Lock(),
        )  # a large file takes its time to be written

    def offer(self, file: str, make: Callable[[Path], None], *, shown: bool = False) -> None:
        """Offer a file, which `make` writes to a path with the same suffix; the page shows it, or only saves it."""
        self._writers[file] = make, self.display_lock if shown else self._save_lock

    def make(self, file: str) -> Path | None:
        """Return the path of a file, made if necessary; None if no such file is offered."""
        if file not in self._writers:
            return None
        make, lock = self._writers[file]
        path = self._folder / file
        with lock:
            if not path.exists():
                part = path.with_name(f"part-{file}")  # the page sees only complete files
                try:
                    make(part)
                    os.replace(part, path)
                finally:
                    part.unlink(missing_ok=True)
        return path
