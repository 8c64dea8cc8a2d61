"""Warnings of other libraries, or about work that no one asked for, held back; several threads may do so at once.

Before Python 3.14, and where it has a GIL, all threads share one list of filters. ``warnings.catch_warnings`` alone
would then restore in one thread what another had set for the time being, and no warning would ever be shown again. So
the first of overlapping calls sets the filter, and the last restores the list.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_holds: list[warnings.catch_warnings[None]] = []  # one entry for each call under way, all the same object


@contextmanager
def without_warnings() -> Iterator[None]:
    """Ignore all warnings; where filters belong to a thread, those of this thread."""
    if getattr(sys.flags, "context_aware_warnings", False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
        return
    with _lock:
        if not _holds:
            before = warnings.catch_warnings()
            before.__enter__()
            warnings.simplefilter("ignore")
        _holds.append(_holds[0] if _holds else before)
    try:
        yield
    finally:
        with _lock:
            before = _holds.pop()
            if not _holds:
                before.__exit__(None, None, None)
