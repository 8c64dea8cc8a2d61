"""From log-spectra of the high band to samples: a fine structure with the predicted envelope, and overlap-add.

The ear needs only the envelope of the high band; the fine structure may come from the narrow band, mirrored. Smooth
gains give it the predicted envelope. Both envelopes are means of decibels, so the level is right too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.fft
from scipy.ndimage import uniform_filter1d

from ..foundation.arrays import Array
from ._frames import FIRST_HIGH, FLOOR, HOP, LENGTH, LOW, N_HIGH, WINDOW, Floats, decibels

SMOOTHING = 9  # bins, 280 Hz: wider than the gap between most harmonics, narrower than peaks of envelopes
HIGHEST_PEAK = 6.0  # dB over the envelope: a tone in the narrow band must not become a whistle in the high band
MOST_EXPANSION = 2.0
LOUDEST = 98.0  # percentile
NOISE_OFFSET = 2.5  # dB: the level of the mean power of noise, above the mean of its decibels
WINDOW_ENERGY = float((WINDOW**2).sum()) / HOP


def loudest(high: Array) -> float:
    """Return the level that few frames of true log-spectra of the high band exceed."""
    return float(np.percentile(10 * np.log10(np.mean(10.0 ** (high / 10), axis=1)), LOUDEST))


def expand(high: Array, mean: Array, ceiling: float, expansion: float) -> Floats:
    """Return predicted log-spectra with the range of levels that true ones have.

    An uncertain prediction stays near the mean: errors are small then, but consonants, which hold most of the energy of
    the high band, become too soft. So deviations from the mean are enlarged, and no frame becomes louder than true
    frames are. (The global variance of Toda and Tokuda, 2007, serves the same purpose.)
    """
    wide = mean + expansion * (high - mean).astype(np.float64)
    level = 10 * np.log10(np.mean(10 ** (wide / 10), axis=1, keepdims=True)) + NOISE_OFFSET
    return np.asarray(wide - np.maximum(level - ceiling, 0))


def find_expansion(high: Array, truth: Array, mean: Array, ceiling: float) -> float:
    """Return the expansion that gives predictions the energy of the truth, from 1 to 2."""
    energy = 10 * np.log10(np.mean(10.0 ** (truth / 10)))
    low, top = 1.0, MOST_EXPANSION
    for _ in range(10):
        middle = (low + top) / 2
        found = 10 * np.log10(np.mean(10 ** (expand(high, mean, ceiling, middle) / 10))) + NOISE_OFFSET
        low, top = (middle, top) if found < energy else (low, middle)
    return (low + top) / 2


def excitation(spectrum: Array) -> npt.NDArray[np.complex128]:
    """Return the spectra of the high band that folding gives: the narrow band mirrored at 4 kHz.

    They are the spectra of one signal, the upsampled one with every other sign changed, so successive frames fit
    together. What is below the narrow band, an offset for instance, is left out: it would become a tone at 8 kHz.
    """
    folded = np.conj(spectrum[:, FIRST_HIGH::-1])
    folded[:, N_HIGH - LOW.start :] = 0
    return folded


def shape(spectrum: Array, level: Floats, high: Floats) -> npt.NDArray[np.complex128]:
    """Return the fine structure of the narrow band with the envelope of the high band, given in dB over the level.

    Fine structure below the floor is only rounding error, and is not raised to the envelope.
    """
    fine = excitation(spectrum)
    height = decibels(fine) - level[:, None]
    height -= np.maximum(uniform_filter1d(height, SMOOTHING, axis=1, mode="nearest"), FLOOR)
    size = np.abs(fine)
    phase = np.divide(fine, size, out=np.zeros_like(fine), where=size > 0)
    return np.asarray(phase * 10 ** ((level[:, None] + high + np.minimum(height, HIGHEST_PEAK)) / 20))


def overlap_add(high: Array) -> Floats:
    """Return the samples of frames of the high band; the first ``LENGTH - HOP`` and the last are incomplete."""
    whole = np.zeros((len(high), LENGTH // 2 + 1), np.complex128)
    whole[:, FIRST_HIGH:] = high
    frames = scipy.fft.irfft(whole, LENGTH, axis=1) * (WINDOW / WINDOW_ENERGY)
    n_hops = LENGTH // HOP
    out = np.zeros((len(high) + n_hops - 1, HOP))
    for hop in range(n_hops):
        out[hop : hop + len(high)] += frames[:, HOP * hop : HOP * (hop + 1)]
    return out.ravel()
