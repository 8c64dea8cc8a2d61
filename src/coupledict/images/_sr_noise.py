"""How noisy a picture is: the standard deviation of white noise in brightness and in colour, from its pixels alone.

Noise has the same energy at all frequencies, a picture has little at high ones. So the energy of the highest
frequencies of blocks of 8 x 8 pixels is measured, in the few blocks that have least energy at low frequencies:
choosing them so does not touch the noise that is measured. Grass or gravel has no smooth blocks. There, the energy at
low frequencies tells how much of that at high ones the picture itself may have, and this much is taken off: texture
counts as noise only if it is as white as noise.

In colour pictures, the differences of two channels are measured too. Texture is alike in all channels and vanishes from
them, noise of the channels does not: they tell noise from texture where brightness cannot.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import dct

from ..foundation.arrays import Array

SIDE = 8
MOST_BLOCKS = 20_000
STEP = 3  # pixels between blocks of a picture that does not have too many
SMOOTH_SHARE = 0.1  # of the blocks
GREY_SMOOTH_SHARE = 0.025  # of the blocks, where no colour tells noise from texture: only the smoothest can
LEAST_BLOCKS = 16  # fewer tell nothing
CLIPPED_SHARES = (0.1, 0.6)  # of the pixels of a block, up to which its noise counts; the second if there are too few
FEWEST_SHARE = 0.05  # of the blocks that must be left without those that are clipped or flat
LEAK = 0.28  # ratio of high to low frequencies in textures without noise
WHITE = 1.4  # largest ratio of low to high frequencies, and of high to low ones, of what can be noise alone
LEAST_COLOUR = 1.0  # noise of a channel, in grey values, from which on it tells that of brightness
CORRELATED = 1.05  # by how much noise in brightness may then be above that of independent channels
MEDIAN_OF_CHI2 = 0.928  # median of the mean of nine squares of normal values
INDEPENDENT = 0.669  # noise in brightness over that in a channel, if the channels are independent


def find_noise(
    luma: Array, differences: list[Array], clipped: npt.NDArray[np.bool_], *, compressed: bool
) -> tuple[float, float]:
    """Return the standard deviations of noise in brightness and in one colour channel.

    Parameters
    ----------
    luma : array of shape (rows, columns)
        Brightness.
    differences : list of arrays of this shape
        Differences of two channels, divided by the square root of 2; none for a grey picture.
    clipped : array of bool of this shape
        Pixels at an end of the range.
    compressed : bool
        Whether the picture was JPEG: then colour tells nothing, because its high frequencies are left out.

    Returns
    -------
    brightness, colour : float
        In the unit of the planes. The second is 0 for a grey picture.
    """
    places = _places(luma, clipped)
    if places is None:
        return 0.0, 0.0
    low, high = _energies(luma, places, SMOOTH_SHARE if differences else GREY_SMOOTH_SHARE)
    own = _without_texture(low, high)
    if compressed and low > WHITE**2 * high:
        return 0.0, 0.0
    if not differences:
        return float(np.sqrt(own)), 0.0
    colour = min(_without_texture(*_energies(plane, places, SMOOTH_SHARE)) for plane in differences)
    if not compressed:
        # Noise of the channels is in brightness too, as much as if they were independent, or more.
        expected = INDEPENDENT**2 * colour
        own = max(own, expected)
        if colour > LEAST_COLOUR**2 or low > WHITE**2 * high:
            own = min(own, CORRELATED**2 * expected)
    return float(np.sqrt(min(high, own))), float(np.sqrt(colour))


def _without_texture(low: float, high: float) -> float:
    """Return the energy that is in low and high frequencies alike, if of texture a share of LEAK is in high ones."""
    return min(max(0.0, high - LEAK**2 * low) / (1 - LEAK**2), WHITE**2 * low)


def _places(luma: Array, clipped: npt.NDArray[np.bool_]) -> tuple[Array, Array] | None:
    """Return the top left corners of the blocks that are looked at; None if there are too few."""
    room = luma.shape[0] - SIDE + 1, luma.shape[1] - SIDE + 1
    if min(room) < 1:
        return None
    step = max(STEP, int(np.ceil(np.sqrt(room[0] * room[1] / MOST_BLOCKS))))
    i, j = (grid.ravel() for grid in np.meshgrid(*(np.arange(0, n, step) for n in room), indexing="ij"))
    blocks = sliding_window_view(luma, (SIDE, SIDE))[i, j]
    shares = sliding_window_view(clipped, (SIDE, SIDE))[i, j].reshape(i.size, -1).mean(axis=1)
    changing = np.ptp(blocks.reshape(i.size, -1), axis=1) > 0
    for most in CLIPPED_SHARES:
        used = changing & (shares <= most)
        if np.count_nonzero(used) >= max(LEAST_BLOCKS, FEWEST_SHARE * i.size):
            return i[used], j[used]
    return None  # a drawing, mostly flat or clipped: what is left of it tells nothing about noise


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
