"""Input of super-resolution: checked pictures, their channels and their brightness.

Detail is predicted for luma alone and added to every colour channel. Because the conversion to luma and chroma is
linear and detail is what interpolation misses, that is the same as predicting luma, interpolating chroma and converting
back.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..foundation.arrays import Array
from ..foundation.tensors import as_array, as_numpy
from ._grey import LUMA, check_dtype, luma

WEIGHTS = np.array(LUMA, np.float32).tolist()  # rounded to float32, whatever the number type of a picture


def check_picture(value: object, name: str) -> Array:
    """Return a picture as an array: grey, or with 1 to 4 channels."""
    array = as_array(value, name)
    if array.ndim not in (2, 3) or (array.ndim == 3 and not 1 <= array.shape[2] <= 4):
        raise ValueError(
            f"Expected {name} of shape (rows, columns), or with 1 to 4 channels last (grey, grey and alpha, RGB, RGB"
            f" and alpha), got shape {array.shape}."
        )
    if 0 in array.shape:
        raise ValueError(f"Expected {name} to have at least one pixel, got shape {array.shape}.")
    check_dtype(array, name)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"Expected {name} to be finite, got NaN or infinity.")
    return array


def n_colors(array: Array) -> int:
    """Return the number of channels that are not alpha: 1 or 3."""
    return 3 if array.ndim == 3 and array.shape[2] >= 3 else 1


def brightness(array: Array) -> Array:
    """Return the luma of a picture in float32, on the scale of the picture; alpha is ignored."""
    if array.ndim == 3:
        array = array[:, :, :3] if n_colors(array) == 3 else array[:, :, 0]
    return luma(array, weights=WEIGHTS)


def unit_brightness(array: Array) -> Array:
    """Return the brightness of a picture in float32; that of integers is scaled to the range 0 to 1."""
    plane = brightness(array)
    if array.dtype.kind == "u":
        plane /= np.iinfo(array.dtype).max
    return plane


def check_pictures(X: object) -> list[Array]:
    """Return the brightness of pictures to learn from."""
    X = as_numpy(X)
    if isinstance(X, np.ndarray) and X.ndim < 4:
        raise TypeError("Expected X to be a list of images, got one array. Put it into a list.")
    if not isinstance(X, Iterable) or isinstance(X, str):
        raise TypeError(f"Expected X to be a list of images, got {X!r}.")
    planes = [unit_brightness(check_picture(image, f"X[{i}]")) for i, image in enumerate(X)]
    if not planes:
        raise ValueError("Expected at least one image to learn from, got an empty list.")
    return planes
