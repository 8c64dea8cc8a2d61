"""Limits of image files, the errors of files that are refused, and the packages that read the others."""

from __future__ import annotations

import logging
import os
from typing import Any

from ..foundation.packages import need_package

#: Largest number of pixels of a file that is read or written; the environment variable overrides it.
MAX_PIXELS, MAX_PIXELS_VARIABLE = 170_000_000, "COUPLEDICT_MAX_PIXELS"


class TooManyPixelsError(ValueError):
    """An image has more pixels than :func:`max_pixels`."""


class UnsupportedImageError(Exception):
    """An image file of a kind that is not supported."""


def max_pixels() -> int:
    """Return the largest number of pixels that a file may have."""
    text = os.environ.get(MAX_PIXELS_VARIABLE)
    if text is None:
        return MAX_PIXELS
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"Expected {MAX_PIXELS_VARIABLE} to be a number of pixels, got {text!r}.")
    return int(text)


def check_pixels(height: int, width: int) -> None:
    """Raise if an image has more pixels than :func:`max_pixels`."""
    if height * width > max_pixels():
        raise TooManyPixelsError(f"{width} x {height} pixels are {beyond_limit()}")


def beyond_limit() -> str:
    """Return the end of a sentence about an image that is too large."""
    limit = f"{max_pixels() / 1e6:g} million"
    return f"more than the limit of {limit}; set {MAX_PIXELS_VARIABLE} to a larger number to allow it."


def need_pillow() -> Any:
    """Return Pillow's module Image."""
    return need_package("PIL.Image", "Pillow", "image files", "images")


def need_tifffile() -> Any:
    """Return the package tifffile, with its log messages silenced."""
    tifffile = need_package("tifffile", "tifffile", "TIFF files", "images")
    # Without a handler, its warnings about unusual files would appear on the screen.
    logging.getLogger("tifffile").addHandler(logging.NullHandler())
    return tifffile
