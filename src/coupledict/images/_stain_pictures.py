"""Input and output of stain separation: checked pictures, drawn pixels, background, optical density, bands of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np

from ..foundation.arrays import Array, Floats
from ..foundation.progress import Meter
from ..foundation.tensors import as_array
from ..parallel.ordered import in_order
from ._grey import check_dtype

DARKEST = 1 / 255  # of the range; darker pixels count as this bright, whatever the number type
BRIGHT_SHARE = 0.001  # of the pixels that may be brighter than the background: dust, reflections
BACKGROUND_SPREAD = 0.02  # standard deviation of the Gaussian weights of background pixels, in optical density
MOST_LOG_WEIGHT = 50.0  # largest negative logarithm of a weight, so that the sum of all is above 0
DARKEST_WHITE = 0.5  # of the range: darker pixels are not background,
MOST_TINT = 0.4  # nor are pixels whose channels differ by more in optical density
WHITE_SAMPLES = 1 << 18


def check_stained(value: object) -> Array:
    """Return a picture in RGB, with or without alpha, as an array, without copying it."""
    array = as_array(value, "image")
    if array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 2)):
        raise ValueError(
            f"Expected image in colour, of shape (rows, columns, 3), got a grey one of shape {array.shape}. Stains are"
            " distinguished by their colours."
        )
    if array.ndim != 3 or array.shape[2] not in (3, 4):
        raise ValueError(
            f"Expected image of shape (rows, columns, 3), or with alpha (rows, columns, 4), got shape {array.shape}."
        )
    if 0 in array.shape:
        raise ValueError(f"Expected image to have at least one pixel, got shape {array.shape}.")
    check_dtype(array, "image")
    return array


def check_light(pixels: Array) -> None:
    """Raise unless floats are from 0 to 1."""
    if pixels.dtype.kind != "f" or pixels.size == 0:
        return
    low, high = float(pixels.min()), float(pixels.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("Expected image to be finite, got NaN or infinity.")
    if low < 0 or high > 1:
        raise ValueError(
            f"Expected floats of image to be from 0 to 1, got {low:g} to {high:g}. Divide them by their range."
        )


def full_range(dtype: np.dtype[Any]) -> int:
    """Return the largest value of a channel: the largest integer of the type, or 1 for floats."""
    return int(np.iinfo(dtype).max) if dtype.kind == "u" else 1


def draw_pixels(image: Array, n_pixels: int, rng: np.random.Generator) -> Array:
    """Return all pixels of a picture, or a random one from each of `n_pixels` equal parts; they stay in order."""
    total = image.shape[0] * image.shape[1]
    if total <= n_pixels:
        return image.reshape(total, image.shape[2])
    edges = np.arange(n_pixels + 1) * total // n_pixels
    places = edges[:-1] + (rng.random(n_pixels) * np.diff(edges)).astype(np.int64)
    rows, columns = np.divmod(places, image.shape[1])
    return image[rows, columns]


def distinct_light(pixels: Array) -> tuple[Floats, Floats]:
    """Return the distinct colours of pixels, as shares of the range, and the number of pixels of each.

    Wholly transparent pixels are left out.
    """
    check_light(pixels)
    if pixels.shape[1] == 4:
        pixels = pixels[pixels[:, 3] > 0]
    colours = pixels[:, :3]
    if colours.dtype.kind == "f":
        return np.asarray(colours, np.float64), np.ones(len(colours))
    bits, most = 8 * colours.dtype.itemsize, full_range(colours.dtype)
    number = np.int32 if bits == 8 else np.int64
    packed: Array = colours[:, 0].astype(number)
    for channel in (1, 2):
        packed <<= bits
        packed |= colours[:, channel]
    found, counts = np.unique(packed, return_counts=True)
    light = np.stack([found >> 2 * bits, (found >> bits) & most, found & most], axis=1) / most
    return light, counts.astype(np.float64)


def estimate_white(image: Array) -> Floats:
    """Return the light of the background, as a share of the range in each channel.

    The brightest light of a channel is the value that a thousandth of all pixels exceeds. The background is the mean of
    the pixels close to it in all three channels, weighted by their closeness, so that the result is not rounded to the
    levels of the pixels: a single level can rotate a faint stain by a degree. If the background is dark or strongly
    coloured, the picture does not show it, and the full range is returned. The choice of pixels depends only on the
    size of the picture.
    """
    light, weights = distinct_light(draw_pixels(image, WHITE_SAMPLES, np.random.default_rng(0)))
    if len(light) == 0:
        return np.ones(3)
    light = np.maximum(light, DARKEST)
    width = 1 / full_range(image.dtype) if image.dtype.kind == "u" else 0.0
    brightest = np.array([_smooth_quantile(channel, weights, 1 - BRIGHT_SHARE, width) for channel in light.T])
    distances = ((np.log(light) - np.log(brightest)) ** 2).sum(axis=1) / (2 * BACKGROUND_SPREAD**2)
    closeness = weights * np.exp(-np.minimum(distances, MOST_LOG_WEIGHT))
    white: Floats = closeness @ light / closeness.sum()
    tint = float(np.log(white.max() / white.min()))
    return white if white.mean() >= DARKEST_WHITE and tint <= MOST_TINT else np.ones(3)


def _smooth_quantile(values: Floats, weights: Floats, share: float, width: float) -> float:
    """Return the quantile of weighted values; the weight of each level is spread over its width."""
    levels, places = np.unique(values, return_inverse=True)
    amounts = np.bincount(places, weights)
    sums = np.cumsum(amounts)
    place = min(int(np.searchsorted(sums, share * sums[-1])), len(levels) - 1)
    inside = 1 - (sums[place] - share * sums[-1]) / amounts[place]
    return float(np.clip(levels[place] + width * (inside - 0.5), DARKEST, 1))


def weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    """Return the smallest value such that values up to it have this share of the weight."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    place = int(np.searchsorted(sums, share * sums[-1]))
    return float(values[order[min(place, len(order) - 1)]])


def optical_density(light: Array, white: Floats | np.float64) -> Array:
    """Return the optical density of light, with channels last; 0 where it is brighter than the background."""
    darkest = np.asarray(DARKEST, light.dtype)
    od: Array = np.maximum(np.log(white.astype(light.dtype)) - np.log(np.maximum(light, darkest)), 0)
    return od


def bands(shape: tuple[int, ...], n_pixels: int) -> Iterator[slice]:
    """Split a picture into bands of whole rows, of about `n_pixels` pixels each."""
    height = max(1, n_pixels // shape[1])
    return (slice(top, min(top + height, shape[0])) for top in range(0, shape[0], height))


def for_bands(
    work: Callable[[slice], None], shape: tuple[int, ...], *, n_pixels: int, n_jobs: int, meter: Meter
) -> None:
    """Call `work` for all bands of a picture, in `n_jobs` threads; `meter` counts pixels."""

    def do(band: slice) -> int:
        work(band)
        return int(band.stop - band.start) * shape[1]

    with closing(in_order(do, bands(shape, n_pixels), n_jobs)) as finished:
        for n_done in finished:
            meter.advance(n_done)
