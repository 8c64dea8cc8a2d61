"""Spectrograms of sounds: time from left to right, frequency from bottom to top, louder is lighter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.fft
import scipy.signal

from ..audio._files import _soundfile

Floats = npt.NDArray[np.float64]

COLUMNS, ROWS = 1024, 256
HIGHEST = 8000  # Hz, the end of the band that is added
FRAME = ROWS / HIGHEST  # seconds, so that each row is a frequency of the transform
RANGE = 90.0  # dB from the loudest to the darkest
#: Colours from silent to loud: dark, blue, orange and nearly white, each lighter than the one before.
COLOURS = ((13, 17, 23), (18, 52, 92), (0, 114, 178), (230, 159, 0), (255, 246, 222))


def draw_spectra(*paths: Path) -> list[npt.NDArray[np.uint8]]:
    """Return spectrograms of sounds of equal duration, on one scale, as arrays of shape (ROWS, COLUMNS, 3)."""
    spectra = [_spectrum(path) for path in paths]
    loudest = max(float(spectrum.max()) for spectrum in spectra)
    stops = np.linspace(0, 1, len(COLOURS))
    pictures = []
    for spectrum in spectra:
        level = np.clip(1 + (10 * np.log10(spectrum / max(loudest, 1e-30) + 1e-30)) / RANGE, 0, 1)
        channels = [np.interp(level, stops, [colour[c] for colour in COLOURS]) for c in range(3)]
        pictures.append(np.rint(np.stack(channels, axis=-1)[::-1]).astype(np.uint8))
    return pictures


def _spectrum(path: Path) -> Floats:
    """Return the power of a sound, of shape (ROWS, COLUMNS); rows above half its rate are silent."""
    with _soundfile().SoundFile(path) as sound:
        length = round(FRAME * sound.samplerate)
        # One frame per column, so that drawing takes the same time for any length of the sound.
        starts = (np.arange(COLUMNS) + 0.5) * sound.frames / COLUMNS - 0.5 * length
        frames = np.stack([_read(sound, int(start), length) for start in starts])
        rate = sound.samplerate
    power = np.abs(scipy.fft.rfft(frames * scipy.signal.get_window("hann", length), axis=1)) ** 2 / rate
    n_rows = min(ROWS, length // 2)
    spectrum = np.zeros((ROWS, COLUMNS))
    spectrum[:n_rows] = power[:, :n_rows].T
    return spectrum


def _read(sound: Any, start: int, length: int) -> Floats:
    """Return samples averaged over the channels, with zeros before the beginning and after the end."""
    frame = np.zeros(length)
    begin, end = max(0, start), min(sound.frames, start + length)
    if begin < end:
        sound.seek(begin)
        frame[begin - start : end - start] = sound.read(end - begin, always_2d=True).mean(axis=1)
    return frame
