"""OpenCV, which aligns, resamples and blends the pictures of a focus stack; the extra ``images`` installs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..foundation.packages import need_package

_lock = threading.Lock()
_holds: list[int] = []  # for each active call, the number of threads that OpenCV had before the first one


def opencv() -> Any:
    """Return the module cv2, or raise with the command that installs it."""
    return need_package("cv2", "OpenCV", "the fusion of focus stacks", "images")


@contextmanager
def one_opencv_thread() -> Iterator[None]:
    """Limit OpenCV to one thread: this library starts its own threads, in :mod:`coupledict.parallel`.

    Calls may overlap; the last one to end restores the previous number.
    """
    cv2 = opencv()
    with _lock:
        _holds.append(_holds[0] if _holds else cv2.getNumThreads())
        cv2.setNumThreads(1)
    try:
        yield
    finally:
        with _lock:
            before = _holds.pop()
            if not _holds:
                cv2.setNumThreads(before)
