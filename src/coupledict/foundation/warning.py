"""Warnings of the package: each names the line of the caller; those to be told apart have classes of their own."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType

PACKAGE = str(Path(__file__).parent.parent / "_").removesuffix("_")


class InterruptedFitWarning(UserWarning):
    """Issued when an interrupt ends a fit, which keeps what it has learned until then."""


class PredictionWarning(UserWarning):
    """Issued when views are not predicted as well as one might expect; the message says why and what helps."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the line that called the package: that of the first frame outside of it."""
    frame: FrameType | None = sys._getframe(1)
    level = 2  # of the caller of this function
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
