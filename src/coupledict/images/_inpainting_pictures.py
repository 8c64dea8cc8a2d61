"""Input of inpainting: a checked picture, and the mask of its known values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..foundation.arrays import Array
from ..foundation.tensors import as_array, as_numpy
from ._grey import check_dtype
from ._inpainting_smooth import Mask


@dataclass(frozen=True)
class DamagedPicture:
    """A picture with missing pixels.

    Attributes
    ----------
    image : array
        The picture as it was given.
    known : array of bool of shape (height, width, n_channels)
    low, span : float
        The smallest known value, and its difference from the largest.
    """

    image: Array
    known: Mask
    low: float
    span: float

    def scaled(self) -> Array:
        """Return the picture as float32 of shape (height, width, n_channels), known values from 0 to 1, others 0."""
        scaled: Array = np.zeros(self.known.shape, np.float32)
        given = self.image.reshape(self.known.shape)
        for channel in range(self.known.shape[2]):
            known = self.known[:, :, channel]
            values = given[:, :, channel][known].astype(np.float64)
            # Divide before subtracting: differences of very large values could overflow.
            scaled[:, :, channel][known] = values / self.span - self.low / self.span
        return scaled

    def restored(self, estimate: Array) -> Array:
        """Return a copy of the picture with its missing values taken from a scaled estimate."""
        whole: Array = np.array(self.image)
        values = self.low + self.span * estimate[~self.known].astype(np.float64)
        if whole.dtype.kind == "u":
            values = np.clip(np.rint(values), 0, np.iinfo(whole.dtype).max)
        whole.reshape(self.known.shape)[~self.known] = values
        return whole


def check_damaged(image: Any, mask: Any, side: int) -> DamagedPicture:
    """Return a checked picture; a mask, a masked array and NaN say which of its values are missing."""
    image = as_numpy(image, "image")
    array = np.ascontiguousarray(np.ma.getdata(image))
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise ValueError(
            "Expected image to have the shape (height, width) or (height, width, n_channels) and at least one pixel,"
            f" got {array.shape}."
        )
    check_dtype(array, "image")
    if min(array.shape[:2]) < side:
        raise ValueError(
            f"Expected image to be at least as large as a patch, {side} x {side} pixels, got {array.shape[0]} x"
            f" {array.shape[1]}. Use a smaller patch_size."
        )
    shape = array.shape if array.ndim == 3 else (*array.shape, 1)
    missing = _check_mask(mask, shape) | np.ma.getmaskarray(image).reshape(shape)
    if array.dtype.kind == "f":
        missing |= np.isnan(array).reshape(shape)
    known = ~missing
    empty = np.flatnonzero(~known.any(axis=(0, 1)))
    if empty.size:
        where = "" if shape[2] == 1 else f" in channel {empty[0]}"
        raise ValueError(
            f"Expected image to have known pixels, got none{where}. The mask is true where pixels are missing;"
            " invert it if yours says which are known."
        )
    low, high = (float(bound) for bound in _bounds(array.reshape(shape), known))
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("Expected image to be finite where it is known, got infinity. Mark such pixels in the mask.")
    span = high - low
    if not np.isfinite(span):
        raise ValueError(f"Expected the range of image to be finite, got {low:g} to {high:g}. Scale it down.")
    return DamagedPicture(array, known, low, span)


def _check_mask(mask: Any, shape: tuple[int, ...]) -> Mask:
    """Return the missing values according to a mask, in the shape of the picture with channels."""
    if mask is None:
        return np.zeros(shape, np.bool_)
    if np.ma.isMaskedArray(mask):
        raise TypeError("Expected mask to be a plain array, got a masked one. Mark missing pixels with True.")
    array = as_array(mask, "mask")
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"Expected mask to hold booleans, or numbers other than 0 for missing pixels, got {array.dtype}."
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError("Expected mask to be finite, got NaN. Use True, or a number other than 0, for missing pixels.")
    if array.shape == shape[:2]:
        array = array[:, :, None]
    elif array.shape != shape:
        raise ValueError(f"Expected mask to have the height and width of image, {shape[:2]}, got shape {array.shape}.")
    return np.broadcast_to(array != 0, shape)


def _bounds(values: Array, known: Mask) -> tuple[Any, Any]:
    """Return the smallest and the largest known value."""
    top: Any = np.iinfo(values.dtype).max if values.dtype.kind == "u" else np.inf
    bottom: Any = 0 if values.dtype.kind == "u" else -np.inf
    return np.min(values, where=known, initial=top), np.max(values, where=known, initial=bottom)
