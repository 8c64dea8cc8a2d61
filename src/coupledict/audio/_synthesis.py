"""From log-spectra of the high band to samples: phases of the narrow band with the predicted envelope, overlap-add.

The ear needs only the envelope of the high band; the fine structure may come from the mirrored narrow band. Only its
phases are used: its peaks and gaps would be errors as large as those of the prediction.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.fft
from scipy.ndimage import uniform_filter1d

from ..foundation.arrays import Array
from ._frames import FLOOR, HOP, LENGTH, TINY, WINDOW, Floats
from ._layouts import Layout

SMOOTHING = 9  # bins, 280 Hz: wider than the gap between most harmonics
LEAST_EXPANSION, MOST_EXPANSION = 1.0, 2.5
MIDDLE = 0.5  # the strength at which spectra are as predicted
LOUDEST = 98.0  # percentile
WINDOW_ENERGY = float((WINDOW**2).sum()) / HOP


def loud_level(high: Array) -> float:
    """Return the level that only few frames of the true high band exceed, in dB."""
    return float(np.percentile(10 * np.log10(np.mean(10.0 ** (high / 10), axis=1)), LOUDEST))


def attenuation(strength: float, caution: float) -> float:
    """Return the attenuation of the predicted spectra by a strength of up to 0.5, in dB.

    It is 12 dB, times the caution, each time the strength is halved.
    """
    return -40 * caution * float(np.log10(strength / MIDDLE)) if strength > 0 else np.inf


def apply_strength(
    high: Array, mean: Array, ceiling: float, expansion: float, strength: float, caution: float = 1.0
) -> Floats:
    """Return predicted log-spectra at a strength.

    At strength 0.5 they are as predicted. Towards 0 they become weaker. Towards 1 they are expanded until they have the
    energy of speech.
    """
    if strength <= MIDDLE:
        return np.asarray(high, np.float64) - attenuation(strength, caution)
    share = (strength - MIDDLE) / (1 - MIDDLE)
    return expand(high, mean, ceiling, 1 + share * (expansion - 1))


def expand(high: Array, mean: Array, ceiling: float, expansion: float) -> Floats:
    """Return predicted log-spectra with a larger range of levels.

    An uncertain prediction stays near the mean: this keeps errors small, but makes consonants, which hold most of the
    energy of the high band, too soft. So deviations from the mean are amplified, up to the loudness of true frames.
    (The global variance of Toda and Tokuda, 2007, serves the same purpose.)
    """
    wide = mean + expansion * (high - mean).astype(np.float64)
    level = 10 * np.log10(np.mean(10 ** (wide / 10), axis=1, keepdims=True))
    return np.asarray(wide - np.maximum(level - ceiling, 0))


def find_expansion(high: Array, truth: Array, mean: Array, ceiling: float) -> float:
    """Return the expansion that gives predictions the energy of the truth, from 1 to 2.5."""
    energy = 10 * np.log10(np.mean(10.0 ** (truth / 10)))
    low, top = LEAST_EXPANSION, MOST_EXPANSION
    for _ in range(10):
        middle = (low + top) / 2
        found = 10 * np.log10(np.mean(10 ** (expand(high, mean, ceiling, middle) / 10)))
        low, top = (middle, top) if found < energy else (low, middle)
    return (low + top) / 2


def excitation(spectrum: Array, layout: Layout) -> npt.NDArray[np.complex128]:
    """Return spectra of the predicted bins, mirrored or shifted from the bins that are read.

    They are the spectra of one signal, so successive frames are consistent.
    """
    found = np.zeros((len(spectrum), layout.n_high), np.complex128)
    for copy in layout.copies:
        bins = np.arange(copy.start, copy.stop)
        own = np.conj(spectrum[:, copy.offset - bins]) if copy.mirrored else spectrum[:, bins - copy.offset]
        found[:, bins - layout.first] = own
    return found


def shape_spectra(spectrum: Array, level: Floats, high: Floats, layout: Layout) -> npt.NDArray[np.complex128]:
    """Return spectra with the phases of the narrow band and the envelope of the high band, given in dB over the level.

    Bins below the floor are rounding errors and are not raised to the envelope.
    """
    fine = excitation(spectrum, layout)
    size = np.abs(fine)
    phase = np.divide(fine, size, out=np.zeros_like(fine), where=size > 0)
    power = uniform_filter1d(size**2, SMOOTHING, axis=1, mode="nearest")
    height = 10 * np.log10(np.maximum(power, TINY)) - level[:, None]
    return np.asarray(phase * 10 ** ((level[:, None] + high + np.minimum(height - FLOOR, 0)) / 20))


def overlap_add(high: Array, first: int) -> Floats:
    """Return the samples of frames with these bins from `first` on, and zeros below.

    The ``LENGTH - HOP`` samples at each end are incomplete.
    """
    whole = np.zeros((len(high), LENGTH // 2 + 1), np.complex128)
    whole[:, first:] = high
    frames = scipy.fft.irfft(whole, LENGTH, axis=1) * (WINDOW / WINDOW_ENERGY)
    n_hops = LENGTH // HOP
    out = np.zeros((len(high) + n_hops - 1, HOP))
    for hop in range(n_hops):
        out[hop : hop + len(high)] += frames[:, HOP * hop : HOP * (hop + 1)]
    return out.ravel()
