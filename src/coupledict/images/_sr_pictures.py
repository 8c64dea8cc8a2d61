"""Input of super-resolution: checked pictures, their dtypes, channels and luma.

Detail is predicted for luma alone and added to every colour channel. Because the conversion to luma and chroma is
linear and detail is what interpolation misses, that is the same as predicting luma, interpolating chroma and converting
back.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..foundation.arrays import Array
from ..foundation.tensors import as_array, as_numpy

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as in MATLAB's rgb2ycbcr and in JPEG
DTYPES = (np.uint8, np.uint16, np.float32, np.float64)


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
    if array.dtype not in DTYPES:
        raise TypeError(
            f"Expected {name} to be of dtype uint8, uint16, float32 or float64, got {array.dtype}."
            " Convert it with astype, to its range: 0 to 255, 0 to 65535, or 0 to 1 for floats."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"Expected {name} to be finite, got NaN or infinity.")
    return array


def n_colors(array: Array) -> int:
    """Return how many channels are not alpha: 1 or 3."""
    return 3 if array.ndim == 3 and array.shape[2] >= 3 else 1


def luma(array: Array) -> Array:
    """Return the brightness of a picture in float32, on the scale of the picture."""
    if array.ndim == 2:
        return array.astype(np.float32)
    if n_colors(array) == 1:
        return array[:, :, 0].astype(np.float32)
    plane = np.zeros(array.shape[:2], np.float32)
    for channel, weight in enumerate(LUMA):
        plane += np.float32(weight) * array[:, :, channel]
    return plane


def unit_luma(array: Array) -> Array:
    """Return the brightness of a picture in float32, integers scaled to the range 0 to 1."""
    plane = luma(array)
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
    planes = [unit_luma(check_picture(image, f"X[{i}]")) for i, image in enumerate(X)]
    if not planes:
        raise ValueError("Expected at least one image to learn from, got an empty list.")
    return planes
