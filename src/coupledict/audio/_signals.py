"""Signals: checks, channels and number types, and the narrow band of a wide-band signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.tensors import as_array, as_numpy
from ._frames import RATE, Floats, downsample


def check_rate(rate: object, expected: int, what: str) -> None:
    """Raise unless a sampling rate is the expected one."""
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.integer | np.floating):
        raise TypeError(f"Expected the sampling rate of {what} to be a number, got {rate!r}.")
    if rate != expected:
        raise ValueError(f"Expected {what} at {expected} Hz, got {rate} Hz. Resample to {expected} Hz first.")


def check_signal(value: object, name: str) -> Array:
    """Return a signal as a finite array of shape (n_samples,) or (n_samples, n_channels), in its own number type."""
    array = as_array(value, name)
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        raise TypeError(
            f"Expected {name} to hold integers or floats of at most 64 bits, got dtype {array.dtype}."
            f" Convert it, for instance with {name}.astype(float)."
        )
    if array.ndim not in (1, 2) or not all(array.shape[1:]):
        raise ValueError(
            f"Expected {name} to have shape (n_samples,) or (n_samples, n_channels), got shape {array.shape}."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = int(np.argmin(np.isfinite(array).reshape(len(array), -1).all(axis=1)))
        raise ValueError(f"Expected {name} to be finite, got NaN or infinity at sample {place}. Correct or remove it.")
    return array


def check_signals(signals: object, name: str = "signals") -> list[Floats]:
    """Return all channels of signals to learn from, truncated to an even number of samples."""
    signals = as_numpy(signals, name)
    if isinstance(signals, np.ndarray) and signals.dtype != object:
        raise TypeError(f"Expected {name} to be a list of arrays, got one array. Put it into a list.")
    if not isinstance(signals, Iterable) or isinstance(signals, str):
        raise TypeError(f"Expected {name} to be a list of arrays, got {signals!r}.")
    found: list[Floats] = []
    for i, signal in enumerate(signals):
        array = check_signal(signal, f"{name}[{i}]").astype(np.float64)
        even = len(array) // 2 * 2
        found += [array[:even]] if array.ndim == 1 else list(array[:even].T)
    if not found:
        raise ValueError(f"Expected at least one signal in {name}, got none.")
    return found


def as_columns(array: Array) -> Array:
    """Return a signal in shape (n_samples, n_channels), as a view."""
    return array[:, None] if array.ndim == 1 else array


def check_blocks(blocks: Iterable[npt.ArrayLike], shapes: list[tuple[int, ...]] | None = None) -> Iterator[Floats]:
    """Yield the blocks of a signal in shape (n_samples, n_channels); the shape of a sample is appended to `shapes`."""
    found = [] if shapes is None else shapes
    for number, block in enumerate(blocks):
        array = check_signal(block, f"block {number}")
        if not found:
            found.append(array.shape[1:])
        if found[0] != array.shape[1:]:
            raise ValueError(f"Expected blocks that differ only in length, got another shape in block {number}.")
        yield as_columns(array).astype(np.float64)  # a copy: the caller may reuse the array


def store(samples: Floats, dtype: np.dtype[Any]) -> Array:
    """Return samples in a number type; integers are rounded and clipped to their range."""
    if dtype.kind == "f":
        return samples.astype(dtype)
    limits = np.iinfo(dtype)
    clipped = np.clip(np.rint(samples), float(limits.min), float(limits.max))
    if dtype.itemsize == 8:  # float64 cannot represent the largest 64-bit integer; use the next smaller float
        clipped = np.minimum(clipped, np.nextafter(float(limits.max), 0))
    return clipped.astype(dtype)


def each_channel(signal: npt.ArrayLike, sampling_rate: int, function: Callable[[Floats], Floats]) -> Array:
    """Apply a function to each channel of a signal at 16 kHz; return the results in its number type."""
    check_rate(sampling_rate, RATE, "the signal")
    array = check_signal(signal, "signal")
    made = np.stack([function(channel) for channel in as_columns(array).astype(np.float64).T], axis=-1)
    return store(made.reshape(-1, *array.shape[1:]), array.dtype)


def narrow_band(signal: npt.ArrayLike, *, sampling_rate: int = RATE) -> Array:
    """Return the narrow band of a wide-band signal: what lies below 4 kHz, at 8 kHz.

    Parameters
    ----------
    signal : array of shape (n_samples,) or (n_samples, n_channels)
        At 16 kHz.
    sampling_rate : int, default=16000
        Sampling rate of the signal; must be 16000.

    Returns
    -------
    array of shape (n_samples // 2,) or (n_samples // 2, n_channels)
        At 8 kHz, in the number type of `signal`.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.audio import narrow_band
    >>> tone = np.sin(2 * np.pi * 1000 * np.arange(1600) / 16000)
    >>> narrow = narrow_band(tone)
    >>> bool(np.allclose(narrow[100:-100], tone[::2][100:-100], atol=1e-3))
    True
    """
    return each_channel(signal, sampling_rate, downsample)
