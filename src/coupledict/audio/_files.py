"""Sound files: they are read block by block, and written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from ..files import whole
from ..files.whole import new_file
from ..foundation.block_sizes import SIZES
from ..foundation.packages import need_package
from ._frames import RATE, Floats
from ._rates import check_any_rate, resample
from ._signals import check_rate

#: Suffixes of files that can be written, and their formats.
FORMATS = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}
READABLE = (".wav", ".flac", ".ogg", ".aif", ".aiff", ".au", ".mp3")
#: Subtypes that are kept, and their bytes per sample; telephone codecs are too coarse.
WIDTHS = {"PCM_16": 2, "PCM_24": 3, "PCM_32": 4, "FLOAT": 4, "DOUBLE": 8}
STEPS = {"PCM_16": 2.0**15, "PCM_24": 2.0**23}  # per unit; soundfile would round down instead of to the nearest step
#: Largest number of channels and highest sampling rate of each format; libsndfile crashes beyond those of OGG.
FORMAT_LIMITS = {"WAV": (1024, 2**31 - 1), "FLAC": (8, 655_350), "OGG": (255, 200_000)}
MOST_RIFF = 2**32 - 2**16  # bytes of samples in a WAV file; its successor RF64 has no such limit
#: Largest number of samples of a file that is held in memory, over all channels; the environment variable overrides it.
MAX_SAMPLES, MAX_SAMPLES_VARIABLE = 200_000_000, "COUPLEDICT_MAX_SAMPLES"
STREAMED_FACTOR = 20  # times as many for files that are read block by block: 11 hours of stereo at 48 kHz
UNKNOWN_LENGTH = 1 << 62  # larger values mean that the length is unknown
GUESSED_LENGTH = ("MP3",)  # formats whose files do not store their length


def _soundfile() -> Any:
    return need_package("soundfile", "soundfile", "sound files", "audio")


def max_samples(*, streamed: bool = False) -> int:
    """Return the largest number of samples that a file may have, over all channels."""
    text = os.environ.get(MAX_SAMPLES_VARIABLE)
    if text is None:
        return STREAMED_FACTOR * MAX_SAMPLES if streamed else MAX_SAMPLES
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"Expected {MAX_SAMPLES_VARIABLE} to be a number of samples, got {text!r}.")
    return int(text)


class Reader:
    """An open sound file with at most :func:`max_samples` samples; more are allowed if it is `streamed`."""

    def __init__(self, path: str | os.PathLike[str], *, streamed: bool = False) -> None:
        self.path = Path(path)
        soundfile = _soundfile()
        if not self.path.is_file():
            raise FileNotFoundError(f"Expected a sound file, found none at '{self.path}'.")
        self._error = soundfile.SoundFileError
        self._limit = max_samples(streamed=streamed)
        try:
            self._file = soundfile.SoundFile(self.path)
        except (self._error, TypeError) as error:  # TypeError: a raw file, by its suffix
            raise self._damaged(error) from error
        if self.n_samples is not None and self.n_samples * self.n_channels > self._limit:
            self._file.close()
            raise self._too_long()

    @property
    def n_samples(self) -> int | None:
        """Samples per channel according to the file; None if it does not say."""
        n = int(self._file.frames)
        return n if n < UNKNOWN_LENGTH else None

    def _too_long(self) -> OSError:
        return OSError(
            f"'{self.path}' could not be read: it has more samples than the limit of {self._limit / 1e6:g} million; set"
            f" {MAX_SAMPLES_VARIABLE} to a larger number to allow it."
        )

    def _damaged(self, error: Exception) -> OSError:
        return OSError(
            f"'{self.path}' could not be read as sound: it is damaged or not a sound file ({type(error).__name__})."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; further calls have no effect."""
        self._file.close()

    @property
    def rate(self) -> int:
        """Samples per second."""
        return int(self._file.samplerate)

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return int(self._file.channels)

    @property
    def _n_rows(self) -> int:
        """Samples per channel in a block: fewer if there are many channels."""
        return max(1, SIZES.sound_samples // self.n_channels)

    @property
    def subtype(self) -> str:
        """How samples are stored in the file."""
        return str(self._file.subtype)

    def blocks(self) -> Iterator[Floats]:
        """Yield the samples, of shape (n_samples, n_channels), from -1 to 1."""
        n_read = 0
        while True:
            try:
                block = self._file.read(self._n_rows, dtype="float64", always_2d=True)
            except self._error as error:
                raise self._damaged(error) from error
            if not len(block):
                break
            n_read += len(block)
            if n_read * self.n_channels > self._limit:
                raise self._too_long()
            yield block
        if self.n_samples not in (None, n_read) and self._file.format not in GUESSED_LENGTH:
            raise OSError(
                f"'{self.path}' could not be read as sound: it ends after {n_read} of {self.n_samples} samples."
            )


def read_wide(path: str | os.PathLike[str]) -> Floats:
    """Read a wide-band file to learn from; higher sampling rates are converted to 16 kHz."""
    with Reader(path) as reader:
        what = f"'{reader.path}'"
        if reader.rate > RATE:
            check_any_rate(reader.rate, what)
        else:
            check_rate(reader.rate, RATE, what)
        return np.concatenate([np.empty((0, reader.n_channels)), *resample(reader.blocks(), reader.rate, RATE)])


def open_source(path: str | os.PathLike[str]) -> Reader:
    """Open a file to extend; raise if its sampling rate is not supported."""
    reader = Reader(path, streamed=True)
    try:
        check_any_rate(reader.rate, f"'{reader.path}'")
    except ValueError:
        reader.close()
        raise
    return reader


def check_source(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Raise, before the work begins, if a file cannot be opened or its result cannot be written."""
    with open_source(path) as reader:
        check_format(target, max(RATE, reader.rate), reader.n_channels)


def check_output(path: str | os.PathLike[str], *, force: bool) -> Path:
    """Return the path of a sound file to write; raise, before the work begins, if it cannot be written."""
    return whole.check_output(path, FORMATS, force=force)


def check_format(path: str | os.PathLike[str], rate: int, n_channels: int) -> None:
    """Raise if the format of a file, given by its suffix, cannot hold this many channels at this rate."""
    kind = FORMATS[Path(path).suffix.lower()]
    channels, highest = FORMAT_LIMITS[kind]
    between = kind == "FLAC" and rate > 65_535 and rate % 10  # such files would be unreadable
    if n_channels > channels or rate > highest or between:
        raise ValueError(
            f"Expected an output file that can hold {n_channels} channels at {rate} Hz, got '{path}'. Use .wav."
        )


def write_blocks(
    path: str | os.PathLike[str],
    blocks: Iterable[Floats],
    rate: int,
    n_channels: int,
    subtype: str,
    n_samples: int | None = None,
    *,
    replace: bool = True,
    most_riff: int = MOST_RIFF,
) -> int:
    """Write blocks of samples to a file that appears whole or not at all; return the number of clipped samples.

    Samples are stored as `subtype` if the format supports it and it is fine enough, else in the format's default. A WAV
    file whose `n_samples` samples would take more than `most_riff` bytes becomes an RF64 file.
    """
    soundfile = _soundfile()
    check_format(path, rate, n_channels)
    kind = FORMATS[Path(path).suffix.lower()]
    if subtype not in WIDTHS or not soundfile.check_format(kind, subtype):
        subtype = soundfile.default_subtype(kind)
    limited, step = subtype not in ("FLOAT", "DOUBLE"), STEPS.get(subtype)
    if kind == "WAV" and (n_samples or 0) * n_channels * WIDTHS[subtype] > most_riff:
        kind = "RF64"
    n_clipped = 0
    with new_file(path, replace=replace) as file:
        careful = _CarefulFile(file)
        with soundfile.SoundFile(careful, "w", rate, n_channels, subtype, format=kind) as sound:
            for block in blocks:
                if limited:
                    n_clipped += int(np.count_nonzero(np.abs(block) > 1))  # soundfile clips them
                sound.write(block if step is None else np.rint(block * step) / step)
                careful.check()
        careful.check()
    return n_clipped


class _CarefulFile:
    """A file that keeps its first error for later: libsndfile, which calls it, would only print the error."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._error: OSError | None = None

    def check(self) -> None:
        """Raise the error, if there was one."""
        if self._error is not None:
            raise self._error

    def write(self, contents: bytes) -> int:
        """Write; after an error, only pretend to."""
        if self._error is None:
            try:
                return self._file.write(contents)
            except OSError as error:
                self._error = error
        return len(contents)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Seek, which may first write buffered bytes."""
        try:
            return self._file.seek(offset, whence)
        except OSError as error:
            self._error = self._error or error
            return 0

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def readinto(self, contents: memoryview) -> int:
        """Read, as libsndfile does for some formats."""
        found = self._file.read(len(contents))
        contents[: len(found)] = found
        return len(found)
