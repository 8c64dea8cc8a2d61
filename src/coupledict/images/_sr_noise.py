"""Estimation of noise: the standard deviation of white noise in brightness and colour, from the pixels of a picture.

Noise has the same energy at all frequencies; pictures have little at high ones. So the energy of the highest
frequencies is measured in blocks of 8 x 8 pixels, namely in the few with the least energy at low frequencies; choosing
them this way does not bias the measured noise. Grass or gravel has no smooth blocks. There, the energy at low
frequencies limits the energy at high ones that can come from the picture itself, and that much is subtracted: texture
counts as noise only if it is as white as noise.

In colour pictures, the differences between channels are measured too. Texture is similar in all channels and vanishes
from them, the noise of the channels does not: so they separate noise from texture where brightness cannot.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import dct

from ..foundation.arrays import Array

SIDE = 8
MOST_BLOCKS = 20_000
STEP = 3  # pixels between blocks, unless there are more than MOST_BLOCKS
SMOOTH_SHARE = 0.1  # of the blocks
GREY_SMOOTH_SHARE = 0.025  # of the blocks of a grey picture, where only the smoothest separate noise from texture
LEAST_BLOCKS = 16  # fewer give no estimate
CLIPPED_SHARES = (0.1, 0.6)  # largest share of clipped pixels in a block; the second if the first leaves too few blocks
FEWEST_SHARE = 0.05  # of the blocks that must be left after clipped and flat ones are removed
TEXTURE_LEAK = 0.28  # ratio of high to low frequencies in texture without noise
LARGEST_WHITE_RATIO = 1.4  # largest ratio of low to high frequencies, and of high to low ones, of pure noise
LEAST_COLOUR = 1.0  # noise of a channel, in grey values, above which it bounds the noise of brightness
MOST_CORRELATED = 1.05  # noise in brightness may then exceed that of independent channels by this factor
MEDIAN_OF_CHI2 = 0.928  # median of the mean of nine squares of normal values
INDEPENDENT = 0.669  # noise in brightness relative to a channel, if the channels are independent


def find_noise(
    brightness: Array, differences: list[Array], clipped: npt.NDArray[np.bool_], *, compressed: bool
) -> tuple[float, float]:
    """Return the standard deviations of noise in brightness and in one colour channel.

    Parameters
    ----------
    brightness : array of shape (rows, columns)
        Brightness.
    differences : list of arrays of this shape
        Differences between two channels, divided by the square root of 2; empty for a grey picture.
    clipped : array of bool of this shape
        Pixels at an end of the range.
    compressed : bool
        Whether the picture was JPEG: colour is then not used, because its high frequencies are missing.

    Returns
    -------
    brightness, colour : float
        In the unit of the planes. The second is 0 for a grey picture.
    """
    places = _places(brightness, clipped)
    if places is None:
        return 0.0, 0.0
    low, high = _energies(brightness, places, SMOOTH_SHARE if differences else GREY_SMOOTH_SHARE)
    variance = _without_texture(low, high)
    if compressed and low > LARGEST_WHITE_RATIO**2 * high:
        return 0.0, 0.0
    if not differences:
        return float(np.sqrt(variance)), 0.0
    colour = min(_without_texture(*_energies(plane, places, SMOOTH_SHARE)) for plane in differences)
    if not compressed:
        # The noise of the channels adds to brightness at least what independent noise would.
        expected = INDEPENDENT**2 * colour
        variance = max(variance, expected)
        if colour > LEAST_COLOUR**2 or low > LARGEST_WHITE_RATIO**2 * high:
            variance = min(variance, MOST_CORRELATED**2 * expected)
    return float(np.sqrt(min(high, variance))), float(np.sqrt(colour))


def _without_texture(low: float, high: float) -> float:
    """Return the energy common to low and high frequencies, if high ones have a share TEXTURE_LEAK of texture."""
    return min(max(0.0, high - TEXTURE_LEAK**2 * low) / (1 - TEXTURE_LEAK**2), LARGEST_WHITE_RATIO**2 * low)


def _places(brightness: Array, clipped: npt.NDArray[np.bool_]) -> tuple[Array, Array] | None:
    """Return the top left corners of the blocks that are used; None if there are too few."""
    room = brightness.shape[0] - SIDE + 1, brightness.shape[1] - SIDE + 1
    if min(room) < 1:
        return None
    step = max(STEP, int(np.ceil(np.sqrt(room[0] * room[1] / MOST_BLOCKS))))
    i, j = (grid.ravel() for grid in np.meshgrid(*(np.arange(0, n, step) for n in room), indexing="ij"))
    blocks = sliding_window_view(brightness, (SIDE, SIDE))[i, j]
    shares = sliding_window_view(clipped, (SIDE, SIDE))[i, j].reshape(i.size, -1).mean(axis=1)
    changing = np.ptp(blocks.reshape(i.size, -1), axis=1) > 0
    for most in CLIPPED_SHARES:
        used = changing & (shares <= most)
        if np.count_nonzero(used) >= max(LEAST_BLOCKS, FEWEST_SHARE * i.size):
            return i[used], j[used]
    return None  # a drawing, mostly flat or clipped: the rest says nothing about noise


def _energies(plane: Array, places: tuple[Array, Array], share: float) -> tuple[float, float]:
    """Return the energy per value of low and of the highest frequencies of smooth blocks."""
    blocks = sliding_window_view(plane, (SIDE, SIDE))[places].reshape(len(places[0]), -1)
    blocks = blocks - blocks[:, :1]
    low, high = (((blocks @ part.T) ** 2).mean(axis=1) for part in (LOW, HIGH))
    n = max(LEAST_BLOCKS, round(share * low.size))
    smooth = np.argsort(low, kind="stable")[:n]
    return float(low[smooth].mean()), float(np.median(high[smooth])) / MEDIAN_OF_CHI2


def _frequencies() -> tuple[Array, Array]:
    """Return the low frequencies of a block and the highest ones, as rows of matrices."""
    line = dct(np.eye(SIDE), axis=0, norm="ortho").astype(np.float32)
    low, high = [], []
    for down, right in np.ndindex(SIDE, SIDE):
        wave = np.outer(line[down], line[right]).ravel()
        if 1 <= down + right <= 5:
            low.append(wave)
        elif min(down, right) >= 5:
            high.append(wave)
    return np.array(low), np.array(high)


LOW, HIGH = _frequencies()
