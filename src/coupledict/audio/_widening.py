"""Extension of signals of any sampling rate: a high band is added to the samples of the signal.

The model takes signals at 8 kHz and returns 16 kHz; other rates are converted. What the model adds, the difference
between its output and the narrow band, is resampled to the rate of the output and added to the signal itself. So the
samples of signals at 16 kHz and more are unchanged apart from what is added.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain, tee
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..foundation.progress import Callback, Meter
from ..foundation.warning import warn
from ._files import Reader, check_format, check_output, open_source, write_blocks
from ._frames import NARROW_RATE, RATE, Floats
from ._measurement import Band, Kind, measure_blocks
from ._rates import check_any_rate, output_rate, resample, resampled_length
from ._signals import as_columns, check_blocks, check_signal, store

MEASURED = 30  # s at the beginning of a stream in which its band is measured
GIVEN: dict[str, tuple[float, float, Kind]] = {
    "narrow": (0.0, 4000.0, "narrow"),
    "telephone": (300.0, 3400.0, "telephone"),
}
BandLike = Band | str | None


class Model(Protocol):
    """Extends a signal at 8 kHz, given in blocks of shape (n_samples, n_channels).

    It yields the signal at 16 kHz, extended and as it is. `n_samples` is its length, if known, for progress.
    """

    def __call__(
        self, blocks: Iterable[Floats], n_samples: int | None = None, kind: str = "narrow"
    ) -> Iterator[tuple[Floats, Floats]]: ...


@dataclass(frozen=True)
class WidenedFile:
    """The result of :meth:`BandwidthExtension.extend_file`.

    Parameters
    ----------
    source, target : str
        The file that was read, and the one that was written.
    band : Band
        The band of the source, measured or given.
    sampling_rate, output_rate : int
        Sampling rates of the source and the target.
    n_channels, n_samples : int
        Channels of both files, and samples of each channel of the target.
    widened : bool
        Whether a high band was added; false if the source already has one.
    n_clipped : int
        Number of samples that were clipped because the file cannot hold values beyond -1 and 1; usually 0.

    Examples
    --------
    >>> from coupledict.audio import Band, WidenedFile
    >>> band = Band(300.0, 3400.0, 48_000, "telephone")
    >>> print(WidenedFile("call.wav", "wide.wav", band, 48_000, 48_000, 2, 480_000, True, 0))
    call.wav: 48 kHz, 2 channels, band ends at 3.4 kHz (telephone). Wrote wide.wav at 48 kHz, with a band up to 8 kHz.
    """

    source: str
    target: str
    band: Band
    sampling_rate: int
    output_rate: int
    n_channels: int
    n_samples: int
    widened: bool
    n_clipped: int

    def __str__(self) -> str:
        """Return what was done in two sentences."""
        channels = "1 channel" if self.n_channels == 1 else f"{self.n_channels} channels"
        result = "with a band up to 8 kHz" if self.widened else "with nothing added"
        return (
            f"{self.source}: {self.sampling_rate / 1000:g} kHz, {channels}, {self.band}."
            f" Wrote {self.target} at {self.output_rate / 1000:g} kHz, {result}."
        )


def is_extended(band: Band) -> bool:
    """Return whether a high band is added; it always is at 8 kHz, even to sounds too short to measure."""
    return band.kind in ("narrow", "telephone") or band.sampling_rate == NARROW_RATE


def _given(band: BandLike, rate: int) -> Band | None:
    """Return the band given by the user; None if it is to be measured."""
    if band is None or isinstance(band, Band):
        return band
    if not isinstance(band, str) or band not in GIVEN:
        raise ValueError(f"Expected band to be None, 'narrow', 'telephone' or a Band, got {band!r}.")
    low, high, kind = GIVEN[band]
    return Band(low, high, rate, kind)


def _warn_if_wide(band: Band, what: str) -> None:
    if not is_extended(band) and band.kind == "wide":
        warn(
            f"{what} already has a band up to {band.high / 1000:.1f} kHz, so nothing was added. If there is only noise"
            " above 4 kHz, set band='narrow' (--band narrow).",
        )


def _pieces(blocks: Iterable[Floats]) -> Iterator[Floats]:
    size = SIZES.added_samples
    return (block[start : start + size] for block in blocks for start in range(0, len(block), size))


def _add(own: Iterable[Floats], added: Iterator[Floats]) -> Iterator[Floats]:
    """Yield the sum of two signals that come in blocks, with the length of the first."""
    held: Floats | None = None
    for block in _pieces(own):
        parts = [] if held is None else [held]
        while sum(map(len, parts)) < len(block):
            parts.append(next(added))
        held = np.concatenate(parts)
        yield block + held[: len(block)]
        held = held[len(block) :]
    for _ in added:  # to the end, so that progress is complete
        pass


def widen(
    model: Model, blocks: Iterable[Floats], rate: int, band: Band, n_samples: int | None = None
) -> Iterator[Floats]:
    """Yield a signal in blocks of shape (n_samples, n_channels) at the output rate, with a high band.

    If there is none to add, the signal is only resampled to the output rate.
    """
    target = output_rate(rate)
    if not is_extended(band):
        yield from resample(blocks, rate, target)
        return
    kind = "telephone" if band.kind == "telephone" else "narrow"
    n_narrow = None if n_samples is None else -(-n_samples * NARROW_RATE // rate)
    if rate == NARROW_RATE:
        yield from (wide for wide, _ in model(blocks, n_narrow, kind))
        return
    first, second = tee(_pieces(blocks))
    both = model(resample(first, rate, NARROW_RATE, cover=True), n_narrow, kind)
    added = resample((wide - low for wide, low in both), RATE, target, cover=True)
    yield from _add(resample(second, rate, target), added)


def widen_array(model: Model, signal: npt.ArrayLike, sampling_rate: int, band: BandLike) -> Array:
    """Return an array of any sampling rate with a high band, in its own number type."""
    rate = check_any_rate(sampling_rate, "the signal")
    array = check_signal(signal, "signal")
    known = _given(band, rate) or measure_blocks(_slices(array), rate)
    _warn_if_wide(known, "The signal")
    if not is_extended(known) and rate == output_rate(rate):
        return array.copy()
    out = np.empty((resampled_length(len(array), rate, output_rate(rate)), *array.shape[1:]), array.dtype)
    columns = as_columns(out)
    n = 1 if array.ndim == 2 and array.shape[1] and (array == array[:, :1]).all() else columns.shape[1]
    end = 0
    for wide in widen(model, (block[:, :n] for block in _slices(array)), rate, known, len(array)):
        columns[end : end + len(wide)] = store(wide, array.dtype)
        end += len(wide)
    return out


def _slices(array: Array) -> Iterator[Floats]:
    """Yield an array in blocks of shape (n_samples, n_channels)."""
    size = SIZES.added_samples
    for start in range(0, len(array), size):
        yield as_columns(array[start : start + size]).astype(np.float64)


def widen_blocks(
    model: Model, blocks: Iterable[npt.ArrayLike], sampling_rate: int, band: BandLike, measured: int = MEASURED
) -> Iterator[Floats]:
    """Yield a signal of any sampling rate, given in blocks, with a high band.

    If `band` is None, it is measured in the first `measured` seconds.
    """
    rate = check_any_rate(sampling_rate, "the signal")
    shapes: list[tuple[int, ...]] = []
    checked = check_blocks(blocks, shapes)
    known, begin = _given(band, rate), list[Floats]()
    if known is None:
        n_begin = measured * rate
        while sum(map(len, begin)) < n_begin and (block := next(checked, None)) is not None:
            begin.append(block)
        known = measure_blocks(_first(begin, n_begin), rate)
        _warn_if_wide(known, "The signal")
    for wide in widen(model, chain(begin, checked), rate, known):
        yield wide.reshape(len(wide), *shapes[0])


def _first(blocks: Iterable[Floats], n: int) -> Iterator[Floats]:
    """Yield the first `n` samples of a signal in blocks."""
    for block in blocks:
        yield block[:n]
        n -= len(block[:n])


class _Survey:
    """A first pass over a file: checks and counts its samples, and compares its channels."""

    def __init__(self, reader: Reader) -> None:
        self.n_samples = 0
        self.same = reader.n_channels > 1
        self._reader = reader

    def blocks(self, callback: Callback | None) -> Iterator[Floats]:
        """Yield the samples."""
        meter = Meter(callback, "measuring", self._reader.n_samples)
        for block in check_blocks(self._reader.blocks()):
            self.n_samples += len(block)
            self.same = self.same and bool((block == block[:, :1]).all())
            meter.advance(len(block))
            yield block


def _then_close(reader: Reader, blocks: Iterable[Floats]) -> Iterator[Floats]:
    """Close a file after its last block: it may also be the target, and Windows does not replace open files."""
    yield from blocks
    reader.close()


def widen_file(
    model: Model,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    band: BandLike,
    watched: Callable[[], AbstractContextManager[Callback | None]],
    *,
    force: bool,
) -> WidenedFile:
    """Extend a sound file of any sampling rate in two passes; the first one measures its band."""
    check_output(target, force=force)
    with open_source(source) as reader, watched() as callback:
        rate, n_channels, subtype = reader.rate, reader.n_channels, reader.subtype
        check_format(target, output_rate(rate), n_channels)
        known, survey = _given(band, rate), _Survey(reader)
        if known is None:
            known = measure_blocks(survey.blocks(callback), rate)
        else:
            for _ in survey.blocks(callback):
                pass
    _warn_if_wide(known, f"'{Path(source)}'")
    n_out = resampled_length(survey.n_samples, rate, output_rate(rate))
    with open_source(source) as reader:
        blocks = _then_close(reader, check_blocks(reader.blocks()))
        if survey.same:
            blocks = (block[:, :1] for block in blocks)
        wide = widen(model, blocks, rate, known, survey.n_samples)
        if survey.same:
            wide = (np.repeat(block, n_channels, axis=1) for block in wide)
        n_clipped = write_blocks(target, wide, output_rate(rate), n_channels, subtype, n_out, replace=force)
    return WidenedFile(
        os.fspath(source),
        os.fspath(target),
        known,
        rate,
        output_rate(rate),
        n_channels,
        n_out,
        is_extended(known),
        n_clipped,
    )
