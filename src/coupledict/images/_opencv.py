"""OpenCV, which aligns, resamples and blends the pictures of a focus stack; it comes with the extra ``images``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_holds: list[int] = []  # for each call under way, the number of threads that OpenCV had before the first


def opencv() -> Any:
    """Return the module cv2, or raise with the command that installs it."""
    try:
        import cv2
    except ImportError as error:
        raise ImportError(
            "Expected OpenCV to be installed, for the fusion of focus stacks."
            ' Install it with: pip install "coupledict[images]"'
        ) from error
    return cv2


@contextmanager
def one_opencv_thread() -> Iterator[None]:
    """Hold OpenCV to one thread: the threads of this library are those of :mod:`coupledict.parallel`.

    Several calls may be under way at once; the last to end restores the former number.
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
