"""From signals to frames and their log-spectra, which do not depend on how loud a recording is.

A frame is 32 ms of signal at 16 kHz under a Hann window, one every 8 ms; frame t is centred on sample ``HOP * t``.
Narrow-band signals are upsampled to 16 kHz first, so that both bands have the same frames.

Signals are processed window by window. A window is a section of fixed length with a margin on both sides, wide enough
for all operations that use neighbouring frames. So memory does not depend on the length of a signal, nor results on the
blocks in which it arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.fft
import scipy.signal
from scipy.ndimage import maximum_filter1d, uniform_filter1d

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES

Floats = npt.NDArray[np.float64]

RATE = 16_000
NARROW_RATE = 8_000
LENGTH = 512
HOP = 128
FIRST_HIGH = LENGTH // 4  # 4 kHz
N_HIGH = LENGTH // 2 + 1 - FIRST_HIGH
STRIDE = 2  # frames between neighbours in the context: nearer ones share most of their samples
REACH = 80  # frames, 0.64 s: search range for the loudest frame; half and three times as much work equally well
TINY = 1e-30  # added to powers, so that their logarithm exists
SILENT = -250.0  # dB: what is below is rounding
FLOOR = -90.0  # dB, relative to the loudest frame nearby; a higher floor costs 0.2 dB
HALF_TAPS = 32
WINDOW = scipy.signal.get_window("hann", LENGTH)


def count_frames(n_samples: int) -> int:
    """Return the number of frames of a signal at 16 kHz."""
    return -(-n_samples // HOP)


def margin(context: int) -> int:
    """Return the margin that a window needs on each side for context, level and overlap, in frames."""
    return STRIDE * context + REACH + REACH // 2 + LENGTH // HOP + 1


def _halfway_filter() -> Floats:
    """Return the filter that interpolates samples halfway between those of a narrow-band signal."""
    places = np.arange(-HALF_TAPS, HALF_TAPS) + 0.5
    taps = np.sinc(places) * scipy.signal.get_window(("kaiser", 8.0), 2 * HALF_TAPS, fftbins=False)
    return np.asarray(taps / taps.sum())


HALFWAY_FILTER = _halfway_filter()
ANTI_ALIASING = scipy.signal.firwin(257, 3800, window=("kaiser", 8.0), fs=RATE)


def upsample(signal: Floats) -> Floats:
    """Return a signal at twice its rate: its own samples, each followed by an interpolated one."""
    out = np.empty(2 * signal.size)
    out[0::2] = signal
    out[1::2] = np.convolve(signal, HALFWAY_FILTER)[HALF_TAPS : HALF_TAPS + signal.size]
    return out


def downsample(signal: Floats) -> Floats:
    """Return the lower half of the band of a signal, at half its sampling rate."""
    delay = ANTI_ALIASING.size // 4
    return np.asarray(scipy.signal.upfirdn(ANTI_ALIASING, signal, 1, 2)[delay : delay + signal.size // 2])


def windows(blocks: Iterable[Floats], size: int, border: int) -> Iterator[tuple[Floats, int]]:
    """Split a signal that comes in blocks into windows of `size` samples with a border on both sides.

    Yields each window, filled with zeros beyond the ends of the signal, and the number of its samples that are signal.
    Further axes (channels) are kept.
    """
    source = (block[start : start + size] for block in blocks for start in range(0, len(block), size))
    held: Floats | None = None
    while True:
        parts: list[Floats] = [] if held is None else [held]
        n_held = border if held is None else len(held)
        while n_held < size + 2 * border and (block := next(source, None)) is not None:
            if not parts:
                parts.append(np.zeros((border, *block.shape[1:])))
            parts.append(block)
            n_held += len(block)
        n_signal = min(size, n_held - border)
        if n_signal <= 0:
            return
        missing = size + 2 * border - n_held
        if missing > 0:
            parts.append(np.zeros((missing, *parts[0].shape[1:])))
        held = np.concatenate(parts)
        yield held[: size + 2 * border], n_signal
        held = held[size:n_held]


def spectra(signal: Floats) -> npt.NDArray[np.complex128]:
    """Return the spectra of all whole frames of a signal; the first is centred on sample ``LENGTH // 2``."""
    frames = np.lib.stride_tricks.sliding_window_view(signal, LENGTH)[::HOP]
    return np.asarray(scipy.fft.rfft(frames * WINDOW, axis=1))


def decibels(spectrum: Array) -> Floats:
    """Return the power of a spectrum in dB."""
    return np.asarray(10 * np.log10(spectrum.real**2 + spectrum.imag**2 + TINY))


def levels(spectrum: Array, bins: slice) -> Floats:
    """Return the level of speech around each frame in some bins, in dB: the loudest frame within reach, smoothed."""
    low = spectrum[:, bins]
    energy = 10 * np.log10(np.einsum("ij,ij->i", low.real, low.real) + np.einsum("ij,ij->i", low.imag, low.imag) + TINY)
    loudest = maximum_filter1d(energy, 2 * REACH + 1, mode="nearest")
    return np.asarray(uniform_filter1d(loudest, 2 * (REACH // 2) + 1, mode="nearest"))


def low_band(spectrum: Array, level: Floats, context: int, bins: slice) -> npt.NDArray[np.float32]:
    """Return the log-spectra of some bins relative to the level, each frame concatenated with its neighbours.

    Frames at both ends that lack neighbours are left out.
    """
    band = np.maximum(decibels(spectrum[:, bins]) - level[:, None], FLOOR).astype(np.float32)
    width = 2 * STRIDE * context
    n = len(band) - width
    return np.hstack([band[start : start + n] for start in range(0, width + 1, STRIDE)])


def high_band(spectrum: Array, level: Floats, first: int) -> npt.NDArray[np.float32]:
    """Return the log-spectra of the bins from `first` on, relative to the level."""
    return np.maximum(decibels(spectrum[:, first:]) - level[:, None], FLOOR - 10).astype(np.float32)


def wide_spectra(signal: Floats) -> Iterator[npt.NDArray[np.complex128]]:
    """Yield the spectra of the frames of a signal at 16 kHz, in pieces that match the windows of :func:`analyse`."""
    for window, n in windows([signal], SIZES.window_frames * HOP, LENGTH // 2):
        yield spectra(window)[: count_frames(n)]


@dataclass(frozen=True)
class Window:
    """A section of a narrow-band signal at 16 kHz: its samples, and its frames with `margin` more on both sides."""

    samples: Floats
    spectrum: npt.NDArray[np.complex128]
    level: Floats
    margin: int

    def around(self, context: int, more: int = 0) -> slice:
        """Return the slice of the frames of the samples, with `context` neighbours and `more` frames on both sides."""
        side = STRIDE * context + more
        return slice(self.margin - side, self.margin + count_frames(self.samples.size) + side)


def size_and_border(context: int) -> tuple[int, int]:
    """Return the sizes of a window and of its borders, in samples of a narrow-band signal."""
    return SIZES.window_frames * HOP // 2, (margin(context) * HOP + LENGTH // 2) // 2


def analyse(window: Floats, n_signal: int, context: int, bins: slice) -> Window:
    """Return the samples and frames of a window of a narrow-band signal; levels are measured in some bins."""
    signal = upsample(window)
    spectrum = spectra(signal)
    border = 2 * size_and_border(context)[1]
    return Window(signal[border : border + 2 * n_signal], spectrum, levels(spectrum, bins), margin(context))
