"""How large an image file may be, the errors of those that are refused, and the packages that read the others."""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

from ..foundation.packages import broken_package, is_missing

#: Most pixels of a file that is read or written; the environment variable overrides it.
MAX_PIXELS, MAX_PIXELS_VARIABLE = 170_000_000, "COUPLEDICT_MAX_PIXELS"


class TooManyPixelsError(ValueError):
    """An image has more pixels than :func:`max_pixels`."""


class UnsupportedImageError(Exception):
    """An image file of a kind that is not handled."""


def max_pixels() -> int:
    """Return the largest number of pixels that a file may have."""
    told = os.environ.get(MAX_PIXELS_VARIABLE)
    if told is None:
        return MAX_PIXELS
    if not (told.isascii() and told.isdigit()):
        raise ValueError(f"Expected {MAX_PIXELS_VARIABLE} to be a number of pixels, got {told!r}.")
    return int(told)


def check_pixels(height: int, width: int) -> None:
    """Raise if an image has more pixels than :func:`max_pixels`."""
    if height * width > max_pixels():
        raise TooManyPixelsError(f"{width} x {height} pixels are {beyond_limit()}")


def beyond_limit() -> str:
    """Return the rest of a sentence about an image that is too large."""
    limit = f"{max_pixels() / 1e6:g} million"
    return f"more than the limit of {limit}; set {MAX_PIXELS_VARIABLE} to a larger number to allow it."


def need_package(module: str, name: str, purpose: str, extra: str) -> Any:
    """Return a package that is installed with an extra; the error says how to install it, or why it does not work."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if not is_missing(error, module):
            raise broken_package(error, name, extra) from error
        raise ImportError(
            f'Expected {name} to be installed, for {purpose}. Install it with: pip install "coupledict[{extra}]"'
        ) from error


def need_pillow() -> Any:
    """Return Pillow's module Image."""
    return need_package("PIL.Image", "Pillow", "image files", "images")


def need_tifffile() -> Any:
    """Return the package tifffile, which then prints nothing."""
    tifffile = need_package("tifffile", "tifffile", "TIFF files", "images")
    # Without a handler, its warnings about odd files would be printed on the screen.
    logging.getLogger("tifffile").addHandler(logging.NullHandler())
    return tifffile
