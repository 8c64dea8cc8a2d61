"""What all tasks know about pictures: number types, brightness, and the noise in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ._opencv import opencv

Grey = npt.NDArray[np.float32]

DTYPES = (np.uint8, np.uint16, np.float32, np.float64)
LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as in JPEG and in MATLAB's rgb2ycbcr
BLOCK = 16  # side of the blocks that noise is estimated on
BAND = 16 * BLOCK  # rows at a time
QUIET_SHARE = 10  # per cent of the blocks that show nothing but noise, even in a picture full of texture
QUIET_FACTOR = 0.79  # variance of white noise in the quietest tenth of the blocks, relative to its true one
DARKEST, BRIGHTEST = 0.5, 254.5  # grey values beyond which pixels count as clipped
MOST_CLIPPED = 0.02  # largest share of such pixels in a block that is used
SECOND_DIFFERENCE = (1.0, -2.0, 1.0)
DIFFERENCE_GAIN = 36.0  # factor by which second differences along both axes raise the variance of white noise


def check_dtype(array: Array, name: str) -> None:
    """Raise unless a picture is of one of the number types that are supported."""
    if array.dtype not in DTYPES:
        raise TypeError(
            f"Expected {name} to be of dtype uint8, uint16, float32 or float64, got {array.dtype}."
            " Convert it with astype, to its range: 0 to 255, 0 to 65535, or 0 to 1 for floats."
        )


def luma(image: Array, scale: float = 1.0, weights: Sequence[float] = LUMA) -> Grey:
    """Return the luma of an image times `scale`, in float32; the mean of its channels if these are neither 3 nor 4."""
    real = np.result_type(image.dtype, np.float32).type
    if image.ndim == 2:
        return np.asarray(image * real(scale), np.float32)
    n_channels = image.shape[2]
    grey = np.zeros(image.shape[:2], np.float32)
    for channel, weight in enumerate(weights if n_channels in (3, 4) else [1 / n_channels] * n_channels):
        grey += image[..., channel] * real(weight * scale)
    return grey


def noise_variance(grey: Grey) -> float | None:
    """Estimate the variance of white noise in brightness from 0 to 255.

    The estimate is the variance of mixed second differences in the quietest tenth of the picture. These differences
    vanish on ramps and on straight horizontal and vertical edges. Every picture of a focus stack is out of focus
    somewhere, and shows only noise there. Blocks with black or white pixels, whose noise is clipped, are not used; None
    is returned if there are no others.
    """
    if min(grey.shape) < 2 * BLOCK:
        return None
    cv2 = opencv()
    difference = np.array(SECOND_DIFFERENCE, np.float32)
    columns = grey.shape[1] // BLOCK
    quiet = []
    for first in range(0, grey.shape[0] - BLOCK + 1, BAND):  # in bands, to save memory
        part = grey[first : first + BAND, : columns * BLOCK]
        rows = part.shape[0] // BLOCK
        part = part[: rows * BLOCK]
        found = cv2.sepFilter2D(part, cv2.CV_32F, difference, difference)
        np.multiply(found, found, out=found)
        clipped = ((part < DARKEST) | (part > BRIGHTEST)).astype(np.float32)
        means, shares = (cv2.resize(x, (columns, rows), interpolation=cv2.INTER_AREA) for x in (found, clipped))
        quiet.append(means[shares <= MOST_CLIPPED])
    whole = np.concatenate(quiet)
    return float(np.percentile(whole, QUIET_SHARE)) / (QUIET_FACTOR * DIFFERENCE_GAIN) if whole.size else None
