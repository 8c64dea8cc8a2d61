"""Sampling rates: which ones are supported, and conversion of signals that come in blocks."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator

import numpy as np
import scipy.signal

from ..foundation.block_sizes import SIZES
from ._frames import NARROW_RATE, RATE, Floats, windows

HALF_TAPS = 64  # of a filter on each side, in samples of the lower rate
CUTOFF = 0.95  # of half the lower rate
STOPBAND = ("kaiser", 8.0)  # 80 dB
MOST_PHASES = 1 << 16  # the filter has 128 taps for each


def check_any_rate(rate: object, what: str) -> int:
    """Return a supported sampling rate as an integer; raise for others."""
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.integer | np.floating):
        raise TypeError(f"Expected the sampling rate of {what} to be a number, got {rate!r}.")
    if not (rate >= NARROW_RATE and float(rate).is_integer()):
        raise ValueError(f"Expected {what} at a whole number of Hz, {NARROW_RATE} or more, got {rate} Hz.")
    whole = int(rate)
    if whole // math.gcd(whole, NARROW_RATE) > MOST_PHASES:
        raise ValueError(
            f"Expected {what} at a usual sampling rate, such as 8000, 16000, 44100 or 48000 Hz, got {whole} Hz."
            " Resample to one of these first."
        )
    return whole


def output_rate(sampling_rate: int) -> int:
    """Return the sampling rate of an extended signal: 16 kHz, or the rate of the signal if that is higher.

    Parameters
    ----------
    sampling_rate : int
        Rate of the original signal; at least 8000.

    Returns
    -------
    int

    Examples
    --------
    >>> from coupledict.audio import output_rate
    >>> output_rate(8000), output_rate(44_100)
    (16000, 44100)
    """
    return max(RATE, check_any_rate(sampling_rate, "the signal"))


def resampled_length(n: int, rate: int, other: int) -> int:
    """Return the number of samples of a signal of `n` samples at another rate, rounded."""
    return (2 * n * other + rate) // (2 * rate)


@functools.lru_cache(maxsize=4)
def _filter(up: int, down: int) -> Floats:
    """Return a low-pass filter at `up` times a rate, for the lower of the two rates.

    From 16 to 8 kHz it is the one with which :func:`narrow_band` makes narrow-band speech to learn from.
    """
    longer = max(up, down)
    taps = scipy.signal.firwin(2 * HALF_TAPS * longer + 1, CUTOFF / longer, window=STOPBAND)
    return np.asarray(up * taps)


def resample(blocks: Iterable[Floats], rate: int, other: int, *, cover: bool = False) -> Iterator[Floats]:
    """Yield a signal that comes in blocks of shape (n_samples, n_channels) at another rate, without delay.

    It is processed in windows of fixed size, so results do not depend on the blocks. The number of samples is rounded
    to the nearest integer, or up with `cover`.
    """
    if rate == other:
        yield from blocks
        return
    common = math.gcd(rate, other)
    up, down = other // common, rate // common
    taps = _filter(up, down)
    reach = taps.size // 2  # at `up` times the rate
    lead = -reach % down  # zeros before the filter, so that its centre coincides with an output
    taps = np.concatenate([np.zeros(lead), taps])
    size = down * -(-SIZES.resampled_samples // down)
    border = down * -(-reach // (up * down))
    skipped = (border * up + lead + reach) // down
    for window, n in windows(blocks, size, border):
        found = scipy.signal.upfirdn(taps, window, up, down, axis=0)
        n_out = -(-n * up // down) if cover else resampled_length(n, down, up)
        yield found[skipped : skipped + n_out]
