"""Brightness of pictures, and the noise in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ._opencv import opencv

Grey = npt.NDArray[np.float32]

LUMA = (0.299, 0.587, 0.114)  # Rec. 601, as Pillow and JPEG have it
BLOCK = 16  # side of the blocks that noise is estimated on
BAND = 16 * BLOCK  # rows at a time
QUIET_SHARE = 10  # per cent of the blocks that show nothing but noise, even in a picture full of texture
QUIET_FACTOR = 0.79  # what the quietest tenth of such blocks shows of white noise
DARKEST, BRIGHTEST = 0.5, 254.5  # grey values beyond which pixels are black or white
MOST_CUT = 0.02  # share of such pixels in a block that counts
SECOND_DIFFERENCE = (1.0, -2.0, 1.0)
DIFFERENCE_GAIN = 36.0  # of the variance of white noise, by second differences along both axes


def luma(image: Array, scale: float) -> Grey:
    """Return the brightness of an image times `scale`; with neither 3 nor 4 channels, the mean of all."""
    real = np.result_type(image.dtype, np.float32).type
    if image.ndim == 2:
        return np.asarray(image * real(scale), np.float32)
    weights = LUMA if image.shape[2] in (3, 4) else (1 / image.shape[2],) * image.shape[2]
    grey = np.zeros(image.shape[:2], np.float32)
    for channel, weight in enumerate(weights):
        grey += image[..., channel] * real(weight * scale)
    return grey


def noise_variance(grey: Grey) -> float | None:
    """Estimate the variance of white noise in brightness from 0 to 255.

    It is that of mixed second differences in the quietest tenth of the picture. These differences are zero on ramps and
    on straight horizontal and vertical edges. Somewhere a picture of a focus stack is out of focus, and shows only
    noise. Blocks with black or white pixels, whose noise was cut off, do not count; if there are no others, None is
    returned.
    """
    if min(grey.shape) < 2 * BLOCK:
        return None
    cv2 = opencv()
    difference = np.array(SECOND_DIFFERENCE, np.float32)
    columns = grey.shape[1] // BLOCK
    quiet = []
    for first in range(0, grey.shape[0] - BLOCK + 1, BAND):  # in bands, for memory
        part = grey[first : first + BAND, : columns * BLOCK]
        rows = part.shape[0] // BLOCK
        part = part[: rows * BLOCK]
        found = cv2.sepFilter2D(part, cv2.CV_32F, difference, difference)
        np.multiply(found, found, out=found)
        cut = ((part < DARKEST) | (part > BRIGHTEST)).astype(np.float32)
        means, shares = (cv2.resize(x, (columns, rows), interpolation=cv2.INTER_AREA) for x in (found, cut))
        quiet.append(means[shares <= MOST_CUT])
    whole = np.concatenate(quiet)
    return float(np.percentile(whole, QUIET_SHARE)) / (QUIET_FACTOR * DIFFERENCE_GAIN) if whole.size else None
