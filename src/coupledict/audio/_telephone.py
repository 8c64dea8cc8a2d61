"""Telephone speech: 300 to 3400 Hz, 8 bits per sample."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.signal

from ..foundation.arrays import Array
from ._frames import NARROW_RATE, RATE, Floats, downsample
from ._signals import each_channel

PASS = (300.0, 3400.0)
MU = 255.0
LEVELS = 127.0
PEAK = 0.5  # of full scale: level of the loudest sample when a signal is coded
BAND_PASS = scipy.signal.firwin(257, PASS, window=("kaiser", 5.0), fs=NARROW_RATE, pass_zero=False)


def telephone_filter(signal: Floats) -> Floats:
    """Return the telephone band of a signal at 8 kHz."""
    return np.asarray(scipy.signal.oaconvolve(signal, BAND_PASS, "same")) if signal.size else signal


def mu_law(signal: Floats) -> Floats:
    """Return a signal after coding in 8 bits by the mu-law (ITU-T G.711, its smooth form).

    Its loudest sample is scaled to half of full scale for coding.
    """
    scale = np.abs(signal).max(initial=0.0) / PEAK
    if not scale > 0:
        return signal
    compressed = np.sign(signal) * np.log1p(MU * np.abs(signal / scale)) / np.log1p(MU)
    coded = np.rint(compressed * LEVELS) / LEVELS
    return np.asarray(np.sign(coded) * scale * np.expm1(np.abs(coded) * np.log1p(MU)) / MU)


def telephone_band(signal: npt.ArrayLike, *, sampling_rate: int = RATE, companded: bool = True) -> Array:
    """Return wide-band speech as a telephone would transmit it: 300 to 3400 Hz, at 8 kHz, coded by the mu-law.

    Parameters
    ----------
    signal, sampling_rate
        As in :func:`narrow_band`.
    companded : bool, default=True
        Whether to round samples to the 8 bits of the mu-law, with the loudest at half of full scale.

    Returns
    -------
    array
        As in :func:`narrow_band`.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.audio import telephone_band
    >>> hum = np.sin(2 * np.pi * 50 * np.arange(16000) / 16000)
    >>> bool(np.abs(telephone_band(hum)[1000:-1000]).max() < 0.01)
    True
    """

    def transmit(channel: Floats) -> Floats:
        filtered = telephone_filter(downsample(channel))
        return mu_law(filtered) if companded else filtered

    return each_channel(signal, sampling_rate, transmit)
