"""The distance between an extended signal and the true one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ._frames import FIRST_HIGH, Floats, decibels, wide_spectra
from ._signals import check_signal

DYNAMICS = 80.0  # dB: what is further below the loudest bin of the truth counts as silence


def silence_floor(truth: Floats) -> float:
    """Return the level in dB at and below which a signal counts as silent: 80 dB below its loudest bin."""
    return max((float(decibels(part).max()) for part in wide_spectra(truth)), default=0.0) - DYNAMICS


def frame_distances(truth: Array, spectrum: Array, floor: float) -> Floats:
    """Return the distance of each frame between two log-spectra in dB."""
    difference = np.maximum(truth, floor) - np.maximum(spectrum, floor)
    return np.asarray(np.sqrt(np.mean(difference**2, axis=1)))


def log_spectral_distance(truth: npt.ArrayLike, signal: npt.ArrayLike) -> float:
    """Return the distance between the high band of a signal and the true one, in dB.

    The distance is the mean over frames of the root mean square difference of the spectra in dB, over the bins from 4
    to 8 kHz. Frames are 512 samples (32 ms) under a Hann window, one every 128. Spectra have a floor at 80 dB below the
    loudest bin of the truth, over all frames and its whole band; all frames count, including silent ones.

    Two pieces of one stationary noise are about 7.9 dB apart, because the bins of noise are random: a smooth spectrum
    can be closer to the truth than any signal.

    Parameters
    ----------
    truth, signal : array of shape (n_samples,)
        At 16 kHz.

    Returns
    -------
    float
        0 for equal signals.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.audio import log_spectral_distance
    >>> noise = np.random.default_rng(0).standard_normal(16000)
    >>> round(log_spectral_distance(noise, 2 * noise), 2)
    6.02
    """
    arrays = []
    for value, name in ((truth, "truth"), (signal, "signal")):
        array = check_signal(value, name)
        if array.ndim != 1:
            raise ValueError(
                f"Expected {name} to have one dimension, got shape {array.shape}. Compare one channel at a time."
            )
        arrays.append(array.astype(np.float64))
    if arrays[0].size != arrays[1].size or not arrays[0].size:
        raise ValueError(
            f"Expected truth and signal to have the same number of samples, at least 1, got {arrays[0].size} and"
            f" {arrays[1].size}."
        )
    floor = silence_floor(arrays[0])
    found = [
        frame_distances(decibels(true[:, FIRST_HIGH:]), decibels(other[:, FIRST_HIGH:]), floor)
        for true, other in zip(wide_spectra(arrays[0]), wide_spectra(arrays[1]), strict=True)
    ]
    return float(np.concatenate(found).mean())
