"""Measurement of the band of a signal: a long-term spectrum, and the edge that a filter left in it.

For each band of 125 Hz, a histogram counts the powers of all frames. Histograms need little memory and do not depend on
the order of frames. A filter leaves an edge in the spectrum of loud sounds, the power that 3 % of the frames exceed: it
falls abruptly and stays low. The spectrum of speech falls slowly, and consonants reach beyond 4 kHz. So an edge is
found above noise, hum and codec noise wherever speech is louder; speech that is only weak above 4 kHz has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy.fft
import scipy.signal
from scipy.ndimage import median_filter

from ._frames import NARROW_RATE, Floats, windows
from ._rates import check_any_rate
from ._signals import as_columns, check_signal

Kind = Literal["narrow", "telephone", "wide", "unknown"]
KINDS: tuple[Kind, ...] = get_args(Kind)

WIDTH = 125.0  # Hz, of a band
HIGHEST = 24_000.0  # Hz: higher frequencies do not matter for speech
FRAME = 0.032  # s
BATCH = 64  # frames that are transformed at once, not counting those halfway between them
STEPS = 8  # bins of a histogram per doubling of power: 0.38 dB
LOWEST_POWER, N_STEPS = -83, STEPS * 300  # lowest power as a logarithm to base 2; what is below is rounding
STEP = 10 * np.log10(2) / STEPS  # dB
LOUD_SHARE = 0.03  # of the frames that are not pauses: loud consonants, but not clicks
PAUSE = 40.0  # dB below the loud frames
RANGE = 75.0  # dB below the loudest band: what is further below is inaudible

GUARD, SPAN = 2, 4  # bands that the slope of a filter may take, and those before it that are compared
#: dB: most voices fall by at most 10 dB within 500 Hz and stay low; 1 s without consonants may fall more. The limit is
#: high because a second high band added to wide speech is worse than none added to narrow speech.
EDGE = 17.0
#: dB: edge of a telephone if the band also begins at 300 Hz, and if not: below 4 kHz, voices fall like filters.
TELEPHONE_EDGES = (14.0, 18.0)
FIRST_EDGE = 12  # bands: 1.5 kHz
N_FALLING, FALL = 20, 16.0  # bands up to 2.5 kHz, where all voices fall by this many dB
N_NARROW = 30  # bands up to 3.75 kHz, which filters at 4 kHz do not change
LAST_TELEPHONE = 3650.0  # Hz: 3400 Hz plus the slope of a filter
LAST_NARROW, SOFT_NARROW = 4600.0, 5000.0  # Hz: end of a band up to 4 kHz, and with what poor resampling adds above
LOW_CUT = 15.0  # dB by which the band from 125 to 250 Hz is weaker if a telephone has removed it


@dataclass(frozen=True)
class Band:
    """The band of a signal.

    Parameters
    ----------
    low, high : float
        Where the band begins and ends, in Hz, to about 125 Hz.
    sampling_rate : int
        Sampling rate of the signal.
    kind : {"narrow", "telephone", "wide", "unknown"}
        "narrow": it ends at about 4 kHz; "telephone": at about 3.4 kHz or below; "wide": it extends beyond 4.6 kHz, so
        there is nothing to add; "unknown": it cannot be measured, because of silence or less than 32 ms of sound.

    Examples
    --------
    >>> from coupledict.audio import Band
    >>> print(Band(300.0, 3400.0, 48_000, "telephone"))
    band ends at 3.4 kHz (telephone)
    """

    low: float
    high: float
    sampling_rate: int
    kind: Kind

    def __str__(self) -> str:
        """Return the band in words."""
        if self.kind == "unknown":
            return "too little sound to measure its band"
        return f"band ends at {self.high / 1000:.1f} kHz ({self.kind})"


def measure_band(signal: npt.ArrayLike, sampling_rate: int) -> Band:
    """Return the band of a signal, whatever its sampling rate: files at 48 kHz often hold telephone speech.

    The band ends where the spectrum of the loud frames falls by 17 dB or more within 500 Hz and stays low. What lies
    above may be silence, noise, hum or codec noise.

    Parameters
    ----------
    signal : array of shape (n_samples,) or (n_samples, n_channels)
        Speech on any scale; all channels are measured together.
    sampling_rate : int
        At least 8000.

    Returns
    -------
    Band

    Notes
    -----
    A second of speech is enough if it contains a consonant such as /s/; without one, wide speech may appear narrow. In
    noise as loud as the consonants there is no edge, and the band is considered wide.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.audio import measure_band
    >>> hiss = np.random.default_rng(0).standard_normal(32_000)
    >>> measure_band(hiss, 8000).kind, measure_band(hiss, 16_000).kind
    ('narrow', 'wide')
    """
    rate = check_any_rate(sampling_rate, "the signal")
    array = check_signal(signal, "signal").astype(np.float64)
    return measure_blocks([as_columns(array)], rate)


def measure_blocks(blocks: Iterable[Floats], rate: int) -> Band:
    """Return the band of a signal in blocks of shape (n_samples, n_channels), whatever their lengths."""
    histograms = _PowerHistograms(rate)
    for window, n in windows(blocks, histograms.length * BATCH, 0):
        for channel in window.T:
            histograms.add(channel, n)
    return histograms.band()


class _PowerHistograms:
    """Histograms of the power of each band, and of whole frames."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.length = 2 * round(rate * FRAME / 2)
        self._window = scipy.signal.get_window("hann", self.length)
        frequencies = np.arange(self.length // 2 + 1) * (rate / self.length)
        self._n = int(min(rate / 2, HIGHEST) // WIDTH)
        self._starts = np.searchsorted(frequencies, WIDTH * np.arange(self._n + 1))
        self._bands = np.zeros((self._n, N_STEPS), np.int64)
        self._frames = np.zeros(N_STEPS, np.int64)

    def add(self, channel: Floats, n: int) -> None:
        """Count the frames of a window that lie in its first `n` samples."""
        frames = np.lib.stride_tricks.sliding_window_view(channel, self.length)[:: self.length // 2]
        n_whole = max(0, 2 * n // self.length - 1)
        spectrum = scipy.fft.rfft(frames * self._window, axis=1)[:n_whole, : self._starts[-1]]
        power = np.add.reduceat(spectrum.real**2 + spectrum.imag**2, self._starts[:-1], axis=1) / self.length
        loud = power[power.sum(axis=1) > 2.0**LOWEST_POWER]
        places = _histogram_bin(loud) + N_STEPS * np.arange(self._n)
        self._bands += np.bincount(places.ravel(), minlength=self._bands.size).reshape(self._bands.shape)
        self._frames += np.bincount(_histogram_bin(loud.sum(axis=1)), minlength=N_STEPS)

    def band(self) -> Band:
        """Return the band according to the histograms."""
        total = int(self._frames.sum())
        if not total:
            return Band(0.0, 0.0, self.rate, "unknown")
        loudest = _exceeded_bin(self._frames, 0.005 * total)
        n_active = int(self._frames[max(0, int(loudest - PAUSE / STEP)) :].sum())
        spectrum = STEP * _exceeded_bin(self._bands, LOUD_SHARE * n_active)
        spectrum = np.maximum(spectrum, spectrum.max() - RANGE)
        high, kind = _band_end(spectrum, self.rate)
        return Band(_band_start(spectrum), high, self.rate, kind)


def _histogram_bin(power: Floats) -> npt.NDArray[np.int64]:
    """Return the bins of powers in a histogram."""
    logarithm = np.log2(np.maximum(power, 2.0**LOWEST_POWER)) - LOWEST_POWER
    return np.asarray(np.minimum(np.rint(STEPS * logarithm).astype(np.int64), N_STEPS - 1))


def _exceeded_bin(histograms: npt.NDArray[np.int64], n: float) -> npt.NDArray[np.int64]:
    """Return the highest bin that at least `n` counts, and at least one, reach."""
    reached = np.cumsum(histograms[..., ::-1], axis=-1) >= max(1.0, n)
    return np.asarray(N_STEPS - 1 - np.argmax(reached, axis=-1))


def _edges(spectrum: Floats) -> Floats:
    """Return by how much a spectrum falls before each band and stays low from there on."""
    rest = median_filter(spectrum, 5, mode="nearest")  # without single tones
    highest_after = np.maximum.accumulate(rest[::-1])[::-1]
    depths = np.full(spectrum.size, -np.inf)
    for i in range(FIRST_EDGE, spectrum.size - GUARD):
        depths[i] = np.median(spectrum[i - GUARD - SPAN : i - GUARD + 1]) - highest_after[i + GUARD]
    depths[:N_FALLING] -= FALL
    return depths


def _steepest(spectrum: Floats, edge: int) -> float:
    """Return the frequency at which the slope at an edge is steepest, in Hz."""
    level = np.median(spectrum[max(0, edge - 10) : edge - 3])
    padded = np.pad(np.maximum(spectrum, level - 20), (0, 3), mode="edge")  # filters are steeper further down
    places = np.arange(max(3, edge - 9), min(edge + 4, spectrum.size))
    slopes = [padded[i - 3 : i].sum() - padded[i : i + 3].sum() for i in places]
    return float(WIDTH * places[int(np.argmax(slopes))])


def _band_end(spectrum: Floats, rate: int) -> tuple[float, Kind]:
    """Return where the band ends, and its kind."""
    depths = _edges(spectrum)
    found = _telephone_edge(spectrum, depths)
    if found is not None:
        return found, "telephone"
    if rate == NARROW_RATE:
        return 4000.0, "narrow"
    for first, last in ((LAST_TELEPHONE, SOFT_NARROW), (LAST_NARROW, HIGHEST)):
        part = depths[int(first // WIDTH) : int(last // WIDTH) + 1]
        if part.size and part.max() >= EDGE:
            high = max(first, _steepest(spectrum, int(first // WIDTH + np.argmax(part))))
            return high, "narrow" if high <= LAST_NARROW else "wide"
    return rate / 2, "wide"


def _telephone_edge(spectrum: Floats, depths: Floats) -> float | None:
    """Return where the band of a telephone ends; None if it is not that of a telephone.

    The edge must show both below 3.75 kHz, so that one at 4 kHz is not mistaken for it, and in the whole spectrum.
    """
    narrow = spectrum[:N_NARROW]
    least = TELEPHONE_EDGES[0 if narrow[2:8].max() - narrow[1] >= LOW_CUT else 1]
    within = _edges(narrow)
    edge = int(np.argmax(within))
    if within[edge] < least or depths[edge] < least:
        return None
    end = _steepest(narrow, edge)
    return end if end <= LAST_TELEPHONE else None


def _band_start(spectrum: Floats) -> float:
    """Return where the band begins: before the first band that is not much weaker than the loudest one."""
    return float(WIDTH * np.argmax(spectrum >= spectrum[:FIRST_EDGE].max() - LOW_CUT))
