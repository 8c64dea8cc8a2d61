"""Open the page in the browser without a secret on its command line, which every user of the machine can read.

The browser opens a file in the folder of the run, which only this user can read. It leads to the page by a ticket, a
token that works once. Browsers that cannot read temporary files (those in a snap, for example) show an error instead;
a few seconds later the terminal says what to do. No other way is safe with every browser and requires no typing: the
folders that such browsers can read are in no fixed place.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

NAME = "open.html"
PATIENCE = 15.0
NOT_OPENED = "The browser has not shown the page yet; if it does not, copy the address above into it."
NOT_FOUND = "No browser was found; copy the address into yours."
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>coupledict</title>
<p><a href="{address}">Continue to the page</a></p>
"""


class Opening:
    """Opens the page in the browser, in a detached thread.

    Some browsers run in the foreground until the user closes them, and must not hold up the server.

    Parameters
    ----------
    folder : Path
        Folder of the run, for this user alone.
    address : str
        Address that works once.
    tell : callable
        Called with lines for the user.
    patience : float, default=15
        Seconds that a browser has to show the page.
    """

    def __init__(self, folder: Path, address: str, tell: Callable[[str], None], patience: float = PATIENCE) -> None:
        self._path = folder / NAME
        self._tell = tell
        self._patience = patience
        self._shown = threading.Event()
        with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(PAGE.format(address=address))

    def start(self) -> None:
        """Open the page; the server is already answering."""
        for work in (self._open, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def done(self) -> None:
        """Note that the page was shown, or never will be: the file with the ticket is no longer needed."""
        self._shown.set()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _open(self) -> None:
        if not (has_windows() and webbrowser.open(self._path.as_uri())) and not self._shown.is_set():
            self._shown.set()
            self._say(NOT_FOUND)

    def _watch(self) -> None:
        if not self._shown.wait(self._patience):
            self._say(NOT_OPENED)

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be closed
            self._tell(line)


def has_windows() -> bool:
    """Return whether a graphical browser can run; text browsers cannot show the page."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
