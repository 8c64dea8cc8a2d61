"""Files of a job that are made when they are asked for: what takes long may never be wanted.

One thing to show and one to save are made at a time, so memory holds two of them at most.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path


class Making:
    """The files that a job can make.

    Parameters
    ----------
    folder : Path
        For the files.

    Attributes
    ----------
    showing : Lock
        Held while something is made that the page shows.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._makers: dict[str, tuple[Callable[[Path], None], threading.Lock]] = {}
        self.showing, self._saving = threading.Lock(), threading.Lock()  # a large file takes its time to be written

    def offer(self, file: str, make: Callable[[Path], None], *, shown: bool = False) -> None:
        """Offer a file, which `make` writes to a path with the same suffix; it is shown, or only saved."""
        self._makers[file] = make, self.showing if shown else self._saving

    def make(self, file: str) -> Path | None:
        """Return the path of a file, which is made if it is not there; None if there is no such file."""
        if file not in self._makers:
            return None
        make, lock = self._makers[file]
        path = self._folder / file
        with lock:
            if not path.exists():
                part = path.with_name(f"part-{file}")  # the page sees whole files only
                try:
                    make(part)
                    os.replace(part, path)
                finally:
                    part.unlink(missing_ok=True)
        return path
