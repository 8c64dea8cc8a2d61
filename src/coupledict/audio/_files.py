"""Sound files in and out: read block by block, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from .. import _whole_file
from .._whole_file import new_file
from ._frames import NARROW_RATE, RATE, Floats
from ._signals import check_rate

#: Suffixes that sounds can be written with, and the format of each.
FORMATS = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}
READABLE = (".wav", ".flac", ".ogg", ".aif", ".aiff", ".au", ".mp3")
FINE = ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")  # telephone codes are too coarse to be written again
BLOCK = 1 << 16


def _soundfile() -> Any:
    try:
        import soundfile
    except ImportError as error:
        raise ImportError(
            'Expected soundfile to be installed, for sound files. Install it with: pip install "coupledict[audio]"'
        ) from error
    return soundfile


class Reader:
    """An open sound file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        soundfile = _soundfile()
        if not self.path.is_file():
            raise FileNotFoundError(f"Expected a sound file, found none at '{self.path}'.")
        self._error = soundfile.SoundFileError
        try:
            self._file = soundfile.SoundFile(self.path)
        except (self._error, TypeError) as error:  # TypeError: a raw file, by its suffix
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> OSError:
        return OSError(f"'{self.path}' could not be read as sound: it is damaged or no sound ({type(error).__name__}).")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def rate(self) -> int:
        """Samples a second."""
        return int(self._file.samplerate)

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return int(self._file.channels)

    @property
    def n_blocks(self) -> int:
        """Number of blocks that `blocks` yields."""
        return -(-int(self._file.frames) // BLOCK)

    @property
    def subtype(self) -> str:
        """How samples are kept in the file."""
        return str(self._file.subtype)

    def blocks(self) -> Iterator[Floats]:
        """Yield the samples, of shape (n_samples, n_channels), from -1 to 1."""
        while True:
            try:
                block = self._file.read(BLOCK, dtype="float64", always_2d=True)
            except self._error as error:
                raise self._damaged(error) from error
            if not len(block):
                return
            yield block


def read_wide(path: str | os.PathLike[str]) -> Floats:
    """Read a wide-band file to learn from."""
    with Reader(path) as reader:
        check_rate(reader.rate, RATE, f"'{reader.path}'")
        return np.concatenate([np.empty((0, reader.n_channels)), *reader.blocks()])


def check_source(path: str | os.PathLike[str]) -> None:
    """Say before the work begins whether a file is narrow-band speech."""
    with Reader(path) as reader:
        check_rate(reader.rate, NARROW_RATE, f"'{reader.path}'")


def check_output(path: str | os.PathLike[str], *, force: bool) -> Path:
    """Say before the work begins whether a sound can be written to a path."""
    return _whole_file.check_output(path, FORMATS, force=force)


def write_blocks(
    path: str | os.PathLike[str], blocks: Iterable[Floats], rate: int, n_channels: int, subtype: str
) -> int:
    """Write blocks of samples to a file that appears whole or not at all; return how many were out of range.

    Samples are kept as `subtype` says where the format can do so and it is fine enough, and as usual otherwise.
    """
    soundfile = _soundfile()
    kind = FORMATS[Path(path).suffix.lower()]
    if subtype not in FINE or not soundfile.check_format(kind, subtype):
        subtype = soundfile.default_subtype(kind)
    limited = subtype not in ("FLOAT", "DOUBLE")
    n_cut = 0
    with new_file(path) as file, soundfile.SoundFile(file, "w", rate, n_channels, subtype, format=kind) as sound:
        for block in blocks:
            if limited:
                n_cut += int(np.count_nonzero(np.abs(block) > 1))  # soundfile cuts them
            sound.write(block)
    return n_cut
