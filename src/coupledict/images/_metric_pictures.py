"""Input of the metrics: checked pictures of one size, as grey levels in float64."""

from __future__ import annotations

import math
import numbers
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..foundation.tensors import as_array

Image: TypeAlias = npt.NDArray[np.float64]

WEIGHTS = np.array([19595, 38470, 7471]) / 65536  # of luma, rounded to 16 bits as in Pillow
N_LEVELS = 256


def check_fusion(first: object, second: object, fused: object, *, smallest: int) -> tuple[Image, Image, Image]:
    """Return the grey levels of two sources and a fused picture of one size, at least `smallest` pixels a side."""
    a, b, f = same_size({"first": first, "second": second, "fused": fused})
    if min(a.shape) < smallest:
        raise ValueError(
            f"Expected pictures of at least {smallest} x {smallest} pixels, got {_size(a)}."
            " Smaller ones hold no window of this measure."
        )
    return a, b, f


def same_size(pictures: dict[str, object]) -> list[Image]:
    """Return the grey levels of pictures that must have the same height and width."""
    greys = {name: as_grey(picture, name) for name, picture in pictures.items()}
    if len({grey.shape for grey in greys.values()}) > 1:
        sizes = ", ".join(f"{name} {_size(grey)}" for name, grey in greys.items())
        raise ValueError(f"Expected pictures of one height and width, got {sizes}. Crop or resize them first.")
    return list(greys.values())


def _size(image: Image) -> str:
    return " x ".join(str(length) for length in image.shape)


def as_grey(picture: object, name: str) -> Image:
    """Return a grey or colour picture as grey; that of integers is rounded to integers."""
    given = as_array(picture, name)
    if given.dtype.kind not in "fiub" or given.dtype.itemsize > 8:
        raise TypeError(
            f"Expected {name} to hold real numbers of at most 64 bits, got dtype {given.dtype}."
            " Read it as an array of integers or floating-point numbers."
        )
    if not (given.ndim == 2 or (given.ndim == 3 and given.shape[2] in (3, 4))):
        raise ValueError(
            f"Expected {name} to be a grey picture (height, width) or a colour picture (height, width, 3 or 4),"
            f" got shape {given.shape}."
        )
    if given.size == 0:
        raise ValueError(f"Expected {name} to have at least one pixel, got shape {given.shape}.")
    channels = given[..., :3] if given.ndim == 3 else given
    floating = given.dtype.kind == "f"
    if floating and not np.all(np.isfinite(channels)):
        raise ValueError(f"Expected {name} to hold finite numbers, got NaN or infinity. Fill or crop these pixels.")
    values: Image = channels.astype(np.float64, order="C")
    if given.ndim == 2:
        return values
    grey: Image = values @ WEIGHTS
    return grey if floating else np.floor(grey + 0.5)


def check_scale(image: Image, name: str, data_range: object) -> float:
    """Return the value of white; raise for pictures that exceed the scale by about half a grey level or more."""
    if isinstance(data_range, bool | np.bool_) or not isinstance(data_range, numbers.Real):
        raise TypeError(f"Expected data_range to be a number, got {data_range!r}.")
    white = float(data_range)
    if not (math.isfinite(white) and white > 0):
        raise ValueError(f"Expected data_range to be positive and finite, got {data_range!r}.")
    low, high = float(image.min()), float(image.max())
    slack = 0.499 * white / (N_LEVELS - 1)
    if low < -slack or high > white + slack:
        raise ValueError(
            f"Expected {name} to have values from 0 to {white:g}, got values from {low:g} to {high:g}."
            " Set data_range to the value of white, or clip the picture."
        )
    return white
