"""OpenCV, which aligns, resamples and blends the pictures of a focus stack; it comes with the extra ``images``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
def one_opencv_thread() -> Iterator[Any]:
    """Give cv2, held to one thread: the threads of this library are those of :mod:`coupledict.parallel`."""
    cv2 = opencv()
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield cv2
    finally:
        cv2.setNumThreads(before)
