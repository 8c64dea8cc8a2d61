"""The degradation of a small picture, noise or JPEG compression: estimated from its pixels, or given as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..files.state import shorten
from ..foundation.arrays import Array
from ..parallel.blas import one_blas_thread
from ._sr_jpeg import coarseness_of, find_compression, quality_of
from ._sr_noise import INDEPENDENT, find_noise
from ._sr_pictures import brightness, n_colors

MOST_NOISE = 128.0
LONGEST_TEXT = 100  # characters
LEAST_NOISE = 1.0  # in brightness: the models for clean pictures tolerate less, and rounding alone is 0.3
LEAST_COARSENESS = 0.06  # below it there is nothing to restore: quality 97
LEAST_NOISE_IN_JPEG = 3.0  # in brightness: compressed texture looks like this much noise
NOISE_PER_COARSENESS = 8.0  # the same for coarse steps
EXPECTED = 'Expected degradation to be "auto", "none", "noise=10", "jpeg=75" or "noise=10, jpeg=75"'


@dataclass(frozen=True)
class Degradation:
    """The degradation of a picture.

    Attributes
    ----------
    noise : float
        Standard deviation of the noise in a colour channel, or in a grey picture, in grey values of 255; 0 for none. If
        the noise of the channels is correlated: that of independent noise that is as strong in brightness.
    color_noise : float
        The same for noise that differs between channels.
    jpeg_quality : int or None
        Quality of JPEG compression, on the scale of libjpeg and Pillow; None for none.
    """

    noise: float = 0.0
    color_noise: float = 0.0
    jpeg_quality: int | None = None

    def __bool__(self) -> bool:
        return self.noise > 0 or self.color_noise > 0 or self.jpeg_quality is not None

    def text(self) -> str:
        """Return it as the parameter `degradation` of :class:`SuperResolution`."""
        parts = [f"noise={self.noise:g}"] if self.noise else []
        if self.color_noise != self.noise:
            parts.append(f"color_noise={self.color_noise:g}")
        if self.jpeg_quality is not None:
            parts.append(f"jpeg={self.jpeg_quality}")
        return ", ".join(parts) or "none"

    def __str__(self) -> str:
        parts = []
        if self.noise:
            parts.append(f"noise of about {self.noise:.2g} grey values")
        if self.jpeg_quality is not None:
            parts.append(f"JPEG compression of about quality {self.jpeg_quality}")
        return " and ".join(parts) or "neither noise nor compression"


def parse(text: object) -> Degradation | None:
    """Return the degradation that a parameter describes; None if it is to be estimated from the picture."""
    if text == "auto":
        return None
    if text == "none":
        return Degradation()
    found: dict[str, float] = {}
    for part in text.split(",") if isinstance(text, str) and len(text) < LONGEST_TEXT else [""]:
        match = re.fullmatch(r" ?(noise|color_noise|jpeg)=(\d{1,4}(?:\.\d{1,6})?)", part, re.ASCII)
        if match is None or match[1] in found:
            raise ValueError(f"{EXPECTED}, got {shorten(text)}.")
        found[match[1]] = float(match[2])
    noise, quality = found.get("noise", 0.0), found.get("jpeg")
    color_noise = found.get("color_noise", noise)
    if max(noise, color_noise) > MOST_NOISE or found.get("noise") == 0:
        raise ValueError(f"Expected noise above 0 and up to {MOST_NOISE:g} grey values of 255, got {shorten(text)}.")
    if quality is not None and (quality != int(quality) or not 1 <= quality <= 99):
        raise ValueError(f"Expected a JPEG quality that is an integer from 1 to 99, got {quality:g}.")
    if "color_noise" in found and not noise:
        raise ValueError(f"Expected color_noise only together with noise, got {shorten(text)}.")
    return Degradation(noise, color_noise, None if quality is None else int(quality))


def grey_value(array: Array) -> float:
    """Return the value of one grey level, 1/255 of the range, on the scale of a picture."""
    if array.dtype.kind == "u":
        return float(np.iinfo(array.dtype).max) / 255
    least, most = float(array.min()), float(array.max())
    if least >= -0.5 and most <= 1.5:
        return 1 / 255
    # Floats may have any range. Most others are 0 to 255; beyond that, the range of the values is the best guess.
    return 1.0 if least >= -64 and most <= 320 else (most - least) / 255


def estimate(array: Array) -> Degradation:
    """Estimate the degradation of a checked picture."""
    unit = grey_value(array)
    plane = brightness(array) / np.float32(unit)
    colour = n_colors(array) == 3
    differences = [_difference(array, channel, unit) for channel in (0, 2)] if colour else []
    shown = array[:, :, : n_colors(array)] if array.ndim == 3 else array[:, :, None]
    ends = (0, np.iinfo(array.dtype).max) if array.dtype.kind == "u" else (shown.min(), shown.max())
    clipped = ((shown == ends[0]) | (shown == ends[1])).any(axis=2)
    with one_blas_thread():
        compression = find_compression(plane)
        coarseness = 0.0 if compression is None else compression.coarseness
        noise, color_noise = find_noise(plane, differences, clipped, compressed=coarseness > 0)
    least = max(LEAST_NOISE_IN_JPEG, NOISE_PER_COARSENESS * coarseness) if coarseness else LEAST_NOISE
    quality = quality_of(coarseness) if coarseness >= LEAST_COARSENESS else None
    if noise < least:
        return Degradation(jpeg_quality=quality)
    noise = min(round(noise / INDEPENDENT if colour else noise, 2), MOST_NOISE)
    # A grey picture has no colour noise; equal numbers shorten its text.
    return Degradation(noise, min(round(color_noise, 2), MOST_NOISE) if colour else noise, quality)


def _difference(array: Array, channel: int, unit: float) -> Array:
    """Return the difference between a channel and green, scaled to the noise of one channel if noise is independent."""
    first, green = (array[:, :, number].astype(np.float32) for number in (channel, 1))
    return (first - green) * np.float32(1 / (unit * np.sqrt(2)))


def strength(degradation: Degradation, array: Array) -> tuple[str, float]:
    """Return the kind of models that restore brightness, and their strength."""
    if degradation.noise:  # its models also suit noise that was compressed
        return "noise", degradation.noise * (INDEPENDENT if n_colors(array) == 3 else 1)
    assert degradation.jpeg_quality is not None
    return "jpeg", coarseness_of(degradation.jpeg_quality)
