"""What a small picture has suffered: noise, JPEG compression; told by its pixels, or by whoever knows it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..files.state import shorten
from ..foundation.arrays import Array
from ..parallel.blas import one_blas_thread
from ._sr_jpeg import coarseness_of, find_compression, quality_of
from ._sr_noise import INDEPENDENT, find_noise
from ._sr_pictures import luma, n_colors

MOST_NOISE = 128.0
LONGEST = 100  # characters of a text
LEAST_NOISE = 1.0  # in brightness: the models for clean pictures bear less, and rounding is 0.3 of it
FINEST = 0.06  # coarseness below which nothing is to be mended: quality 97
NOISE_BESIDE_JPEG = 3.0  # in brightness: compression of textures looks like this
NOISE_PER_COARSENESS = 8.0  # the same for coarse steps
WAYS = 'Expected degradation to be "auto", "none", "noise=10", "jpeg=75" or "noise=10, jpeg=75"'


@dataclass(frozen=True)
class Degradation:
    """What a picture has suffered.

    Attributes
    ----------
    noise : float
        Standard deviation of noise in a colour channel, or in a grey picture, in grey values of 255; 0 for none. If
        the noise of the channels is not independent, the value that gives as much noise in brightness.
    color_noise : float
        The same, of noise that differs between channels.
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
    """Return what a parameter tells of a picture; None if the picture itself is to tell it."""
    if text == "auto":
        return None
    if text == "none":
        return Degradation()
    found: dict[str, float] = {}
    for part in text.split(",") if isinstance(text, str) and len(text) < LONGEST else [""]:
        match = re.fullmatch(r" ?(noise|color_noise|jpeg)=(\d{1,4}(?:\.\d{1,6})?)", part, re.ASCII)
        if match is None or match[1] in found:
            raise ValueError(f"{WAYS}, got {shorten(text)}.")
        found[match[1]] = float(match[2])
    noise, quality = found.get("noise", 0.0), found.get("jpeg")
    color_noise = found.get("color_noise", noise)
    if max(noise, color_noise) > MOST_NOISE or found.get("noise") == 0:
        raise ValueError(f"Expected noise above 0 and up to {MOST_NOISE:g} grey values of 255, got {shorten(text)}.")
    if quality is not None and (quality != int(quality) or not 1 <= quality <= 99):
        raise ValueError(f"Expected a JPEG quality that is an integer from 1 to 99, got {quality:g}.")
    if "color_noise" in found and not noise:
        raise ValueError(f"Expected color_noise beside noise, got {shorten(text)}.")
    return Degradation(noise, color_noise, None if quality is None else int(quality))


def grey_value(array: Array) -> float:
    """Return how much of the numbers of a picture is 1/255 of its range."""
    if array.dtype.kind == "u":
        return float(np.iinfo(array.dtype).max) / 255
    least, most = float(array.min()), float(array.max())
    if least >= -0.5 and most <= 1.5:
        return 1 / 255
    # Floats of any range are allowed. Most are 0 to 255; of others, the range is as good a guess as any.
    return 1.0 if least >= -64 and most <= 320 else (most - least) / 255


def estimate(array: Array) -> Degradation:
    """Find out what a checked picture has suffered."""
    unit = grey_value(array)
    plane = luma(array) / np.float32(unit)
    colour = n_colors(array) == 3
    differences = [_difference(array, channel, unit) for channel in (0, 2)] if colour else []
    shown = array[:, :, : n_colors(array)] if array.ndim == 3 else array[:, :, None]
    ends = (0, np.iinfo(array.dtype).max) if array.dtype.kind == "u" else (shown.min(), shown.max())
    clipped = ((shown == ends[0]) | (shown == ends[1])).any(axis=2)
    with one_blas_thread():
        compression = find_compression(plane)
        coarseness = 0.0 if compression is None else compression.coarseness
        brightness, color_noise = find_noise(plane, differences, clipped, compressed=coarseness > 0)
    least = max(NOISE_BESIDE_JPEG, NOISE_PER_COARSENESS * coarseness) if coarseness else LEAST_NOISE
    quality = quality_of(coarseness) if coarseness >= FINEST else None
    if brightness < least:
        return Degradation(jpeg_quality=quality)
    noise = min(round(brightness / INDEPENDENT if colour else brightness, 2), MOST_NOISE)
    # A grey picture has no noise of colour; with the same number for both, its text is shorter.
    return Degradation(noise, min(round(color_noise, 2), MOST_NOISE) if colour else noise, quality)


def _difference(array: Array, channel: int, unit: float) -> Array:
    """Return the difference of a channel and green, with the noise of one channel if the noise is independent."""
    first, green = (array[:, :, number].astype(np.float32) for number in (channel, 1))
    return (first - green) * np.float32(1 / (unit * np.sqrt(2)))


def strength(degradation: Degradation, array: Array) -> tuple[str, float]:
    """Return by which models brightness is restored, and their strength."""
    if degradation.noise:  # its models are right for noise that was compressed, too
        return "noise", degradation.noise * (INDEPENDENT if n_colors(array) == 3 else 1)
    assert degradation.jpeg_quality is not None
    return "jpeg", coarseness_of(degradation.jpeg_quality)
