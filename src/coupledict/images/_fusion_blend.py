"""Blending: sources are added one by one to a pyramid, with a weight for every pixel of every level.

On each level of a Laplacian pyramid (Burt and Adelson, 1983), a source is weighted by a power of its energy in a small
window and by the prior of its cell. So a thin wire can come from one source and the background between two wires from
another, while the prior excludes what is out of focus. Only energy above the noise counts: where no source shows more
than noise, all sources that agree are averaged. The coarsest level is weighted by the prior alone.

A source is added tile by tile. A tile is computed with a frame around it, wide enough for its values to be those of
the whole picture. So tiles affect memory and speed only, and several threads may add tiles of one source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ._fusion_focus import CELL
from ._fusion_motion import corners, move_points, translation, warp
from ._fusion_result import Labels, Matrix, make_labels
from ._grey import LUMA, Grey
from ._opencv import opencv

N_LEVELS = 3  # of detail
FAR_SCALE = 1e15  # of floats so far from the range 0 to 255 that their products with weights exceed float32
BLOCK = 1 << N_LEVELS
FRAME = 32  # pixels around a tile: a multiple of BLOCK, larger than the reach of all filters
WINDOW = 0.8  # Gaussian width, in pixels of a level, of the window for energies
POWER, MORE_POWER = 2.0, 1.0  # of energy in the weights: with noise, which is then averaged out; added without noise
ENERGY_FLOOR = 0.05  # squared grey values, of 255, that do not count as detail even without noise
NOISE_FLOOR = 1.0  # the same, in variances of the noise on a level
NOISE_FACTOR = 2.5  # variances that do not count as detail; fewer would prefer the noisiest source to the mean
EDGE = 12  # pixels at the border of a moved source that are not used where there is another source
LAST_RESORT = 1e-6  # weight of the reference where no other source reaches
MARGIN = 8  # pixels around what a tile needs of a source: the reach of the interpolation
MOST_CHANNELS = 4  # that OpenCV handles at a time


@dataclass(frozen=True)
class Tile:
    """A part of the picture, and the same with its frame, as slices of rows and columns."""

    inner: tuple[slice, slice]
    outer: tuple[slice, slice]


def tiles(shape: tuple[int, int]) -> list[Tile]:
    """Return the tiles of a picture; they begin at multiples of BLOCK."""
    height, width = SIZES.blended_rows, SIZES.blended_columns
    found = []
    for row in range(0, shape[0], height):
        for column in range(0, shape[1], width):
            pairs = [(row, min(row + height, shape[0])), (column, min(column + width, shape[1]))]
            found.append(framed(pairs, shape))
    return found


def framed(ends: list[tuple[int, int]], shape: tuple[int, int]) -> Tile:
    """Return the tile with these ends along both axes; its frame ends at the border of the picture."""
    inner = [slice(first, last) for first, last in ends]
    outer = [slice(max(0, a - FRAME), min(size, b + FRAME)) for (a, b), size in zip(ends, shape, strict=True)]
    return Tile((inner[0], inner[1]), (outer[0], outer[1]))


@dataclass(frozen=True)
class PlacedSource:
    """A source, and where it lies in the result.

    Attributes
    ----------
    pixels : array
    matrix : array of shape (3, 3), or None
        Maps positions in the result to positions in the source; None if they only differ by `offset`.
    offset : tuple of int
        Row and column of the source at the first pixel of the result.
    factor : float
        Factor by which its values are multiplied.
    prior : array of float32
        Its weight in each cell of the result.
    last_resort : bool
        Whether it is used where no source has a weight.
    partial : bool
        Whether some sources cover only part of the result. Moved sources are then not used near their border.
    """

    pixels: Array
    matrix: Matrix | None
    offset: tuple[int, int]
    factor: float
    prior: Grey
    last_resort: bool
    partial: bool

    def resample(self, part: tuple[slice, slice], work: type) -> tuple[Array, Grey | None]:
        """Return the pixels of the source at a part of the result, and how far each lies inside; None if all do."""
        shape = (part[0].stop - part[0].start, part[1].stop - part[1].start)
        if self.matrix is None:
            rows, columns = (slice(s.start + o, s.stop + o) for s, o in zip(part, self.offset, strict=True))
            return self.pixels[rows, columns].astype(work), None
        whole = self.matrix @ translation(part[1].start, part[0].start)
        source, move = _needed(self.pixels, whole, shape)
        source = source.astype(work)  # before it is moved, so that interpolated values are not rounded
        moved = _by_channels(source, lambda group: warp(group, move, shape, kernel="lanczos"))
        return moved, _inside(whole, shape, self.pixels.shape)


def _ends(move: Matrix, shape: tuple[int, int]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the columns and rows to which a motion moves the corners of a part."""
    x, y = move_points(move, corners(shape)).T
    return x, y


def _needed(source: Array, move: Matrix, shape: tuple[int, int]) -> tuple[Array, Matrix]:
    """Return the part of a source that a part of the result depends on, and the motion into it.

    OpenCV accepts at most 32,767 pixels along a side.
    """
    slices = []
    for ends, size in zip(_ends(move, shape), source.shape[1::-1], strict=True):
        first = int(np.clip(np.floor(ends.min()) - MARGIN, 0, size - 1))
        slices.append(slice(first, int(np.clip(np.ceil(ends.max()) + MARGIN + 1, first + 1, size))))
    columns, rows = slices
    return source[rows, columns], translation(-columns.start, -rows.start) @ move


def _inside(move: Matrix, shape: tuple[int, int], source: tuple[int, ...]) -> Grey | None:
    """Return how far each pixel lies inside a moved source, from 0 to 1; None if all lie well inside.

    Between the corners the motion is taken as affine, which is exact except for projective motions.
    """
    x, y = _ends(move, shape)
    near = min(x.min(), y.min(), source[1] - 1 - x.max(), source[0] - 1 - y.max())
    if near >= EDGE + 1:
        return None
    columns = (x[0] + (x[1] - x[0]) * np.arange(shape[1]) / max(1, shape[1] - 1))[None]
    rows = (y[0] + (y[2] - y[0]) * np.arange(shape[0]) / max(1, shape[0] - 1))[:, None]
    columns = columns + (x[2] - x[0]) * np.arange(shape[0])[:, None] / max(1, shape[0] - 1)
    rows = rows + (y[1] - y[0]) * np.arange(shape[1])[None] / max(1, shape[1] - 1)
    inwards = np.minimum(np.minimum(columns, source[1] - 1 - columns), np.minimum(rows, source[0] - 1 - rows))
    found: Grey = np.clip(inwards - EDGE, 0, 1).astype(np.float32)
    return found


class Pyramid:
    """The sum of weighted sources, on all levels.

    Parameters
    ----------
    shape : tuple of int
        Shape of the result.
    dtype : numpy dtype
        Number type of the sources and the result.
    scale : float
        Factor that maps values to 0 to 255.
    noise : float
        Variance of the noise in the brightness, on that scale.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], scale: float, noise: float) -> None:
        self._dtype = dtype
        self._scale = scale
        self._shape = (shape[0], shape[1])
        single = dtype.itemsize <= 2 or (dtype == np.float32 and 1 / FAR_SCALE <= scale <= FAR_SCALE)
        self._work: type = np.float32 if single else np.float64
        sizes = [(-(-shape[0] // 2**level), -(-shape[1] // 2**level)) for level in range(N_LEVELS + 1)]
        self._sums = [np.zeros(size + shape[2:], self._work) for size in sizes]
        self._weights = [np.zeros(size, np.float32) for size in sizes]
        self._power = POWER + MORE_POWER / (1 + noise)
        self._floors = [
            (NOISE_FACTOR * gain * noise, NOISE_FLOOR * gain * noise + ENERGY_FLOOR) for gain in _noise_gains()
        ]

    def add(self, placed: PlacedSource, tile: Tile) -> None:
        """Add one tile of a source."""
        cv2 = opencv()
        used = tile if placed.last_resort else self._used(placed.prior, tile)
        if used is None:
            return
        tile, outer = used, used.outer
        cells = tuple(slice(part.start // CELL, -(-part.stop // CELL)) for part in outer)
        coarse = placed.prior[cells]
        size = tuple(CELL * (part.stop - part.start) for part in cells)
        prior = cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_LINEAR)
        prior = prior[: outer[0].stop - outer[0].start, : outer[1].stop - outer[1].start]
        pixels, inside = placed.resample(outer, self._work)
        if inside is not None and placed.partial:
            prior = prior * inside
        if placed.factor != 1:
            pixels *= self._work(placed.factor)
        least = np.float32(LAST_RESORT if placed.last_resort else 0)
        self._add_levels(tile, pixels, np.ascontiguousarray(prior), least)

    def _used(self, prior: Grey, tile: Tile) -> Tile | None:
        """Return the part of a tile where a source has any weight; None if there is none."""
        reach = FRAME // CELL  # cells by which coarser levels may spread weights
        near = [slice(max(0, part.start // CELL - reach), -(-part.stop // CELL) + reach) for part in tile.inner]
        there = prior[near[0], near[1]] > 0
        if not there.any():
            return None
        ends = []
        for axis, (part, seen) in enumerate(zip(tile.inner, near, strict=True)):
            found = np.flatnonzero(there.any(axis=1 - axis)) + seen.start
            first = max(part.start, (CELL * (int(found[0]) - reach)) // BLOCK * BLOCK)
            last = min(part.stop, -(-CELL * (int(found[-1]) + 1 + reach) // BLOCK) * BLOCK)
            ends.append((first, last))
        return framed(ends, self._shape)

    def _add_levels(self, tile: Tile, pixels: Array, prior: Grey, least: np.float32) -> None:
        cv2 = opencv()
        for level in range(N_LEVELS):
            smaller = _down(pixels)
            band = _up(smaller, pixels)
            np.subtract(pixels, band, out=band)
            energy = cv2.GaussianBlur(_energy(band, self._scale), (5, 5), WINDOW)
            noise, floor = self._floors[level]
            energy -= np.float32(noise)
            np.maximum(energy, 0, out=energy)
            energy += np.float32(floor)
            weight = cv2.pow(energy, self._power)
            weight *= prior
            weight += least * np.float32(floor**self._power)  # the weight of a region without detail
            self._add_level(level, tile, band, weight)
            pixels, prior = smaller, cv2.pyrDown(prior)
        self._add_level(N_LEVELS, tile, pixels, prior + least)

    def _add_level(self, level: int, tile: Tile, values: Array, weight: Grey) -> None:
        """Add the weighted values of one level, without the frame."""
        step = 2**level
        here = [slice(part.start // step, -(-part.stop // step)) for part in tile.inner]
        inner = tuple(
            slice(part.start - whole.start // step, part.stop - whole.start // step)
            for part, whole in zip(here, tile.outer, strict=True)
        )
        weight = weight[inner]
        place = (here[0], here[1])
        self._weights[level][place] += weight
        self._sums[level][place] += _weighted(values[inner], weight)

    def collapse(self) -> Array:
        """Return the picture; the pyramid cannot be used afterwards."""
        picture = self._divide(N_LEVELS)
        for level in reversed(range(N_LEVELS)):
            finer = self._divide(level)
            finer += _up(picture, finer)
            picture = finer
        if self._dtype.kind in "iu":
            limits = np.iinfo(self._dtype)
            np.rint(picture, out=picture)
            largest = self._work(limits.max)
            if int(largest) > limits.max:  # 64 bits: a float cannot represent the limit
                largest = np.nextafter(largest, self._work(0))
            np.clip(picture, limits.min, largest, out=picture)
        return picture.astype(self._dtype, copy=False)

    def _divide(self, level: int) -> Array:
        sums, weights = self._sums.pop(), self._weights.pop()
        assert len(self._sums) == level
        np.maximum(weights, np.finfo(np.float32).tiny, out=weights)
        sums /= weights if sums.ndim == 2 else weights[..., None]
        return sums


def _by_channels(pixels: Array, function: Callable[[Array], Any]) -> Array:
    """Apply a function of OpenCV to pixels, a few channels at a time."""
    if pixels.ndim == 2:
        return np.asarray(function(pixels))
    groups = [pixels[..., k : k + MOST_CHANNELS] for k in range(0, pixels.shape[2], MOST_CHANNELS)]
    parts = [function(np.ascontiguousarray(group)) for group in groups]
    parts = [part.reshape(*part.shape[:2], -1) for part in parts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def _weighted(values: Array, weight: Grey) -> Array:
    """Return values times weights, for every channel; for colours, this is much faster than broadcasting."""
    weight = weight.astype(values.dtype, copy=False)
    if values.ndim == 2 or values.shape[2] > MOST_CHANNELS:
        return values * (weight if values.ndim == 2 else weight[..., None])
    cv2 = opencv()
    values = np.ascontiguousarray(values)
    product = cv2.merge([weight] * values.shape[2])
    cv2.multiply(values, product, dst=product)
    return np.asarray(product).reshape(values.shape)


def _energy(band: Array, scale: float) -> Grey:
    """Return the energy of all colours together, scaled so that noise has the variance that it has in brightness."""
    if band.ndim == 2:
        return np.asarray(np.square(band * band.dtype.type(scale)), np.float32)
    colours = band[..., :3] if band.shape[2] == 4 else band
    if scale != 1:  # before squaring, which would overflow or underflow for very large or small numbers
        colours = colours * band.dtype.type(scale)
    share = sum(weight**2 for weight in LUMA) / 3 if colours.shape[2] == 3 else 1 / colours.shape[2] ** 2
    found: Grey = np.einsum("ijk,ijk->ij", colours, colours).astype(np.float32, copy=False)
    found *= np.float32(share)
    return found


def _down(pixels: Array) -> Array:
    """Return pixels at half the size."""
    return _by_channels(pixels, opencv().pyrDown)


def _up(pixels: Array, like: Array) -> Array:
    """Return pixels at twice the size, that of `like`."""
    cv2 = opencv()
    size = (like.shape[1], like.shape[0])
    return _by_channels(pixels, lambda group: cv2.pyrUp(group, dstsize=size))


@lru_cache(maxsize=1)
def _noise_gains() -> list[float]:
    """Return the variance of white noise of variance 1 on each level, measured on a sample."""
    cv2 = opencv()
    grey = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    found = []
    for _ in range(N_LEVELS):
        smaller = cv2.pyrDown(grey)
        found.append(float(np.var(grey - cv2.pyrUp(smaller, dstsize=grey.shape[::-1]))))
        grey = smaller
    return found


def label_pixels(costs: npt.NDArray[np.float16], shape: tuple[int, int]) -> Labels:
    """Return the source with the lowest cost for every pixel; costs are interpolated linearly between cells."""
    cv2 = opencv()
    rows, columns = costs.shape[1:]
    labels = make_labels(shape, len(costs))
    for first in range(0, rows, 128):  # in bands, to save memory; each has one more cell at both ends
        low, high = max(0, first - 1), min(rows, first + 129)
        lowest = None
        inner = slice(CELL * (first - low), CELL * (min(rows, first + 128) - low))
        band = labels[CELL * first : CELL * (first + 128)]
        for number in range(len(costs)):
            size = (CELL * columns, CELL * (high - low))
            finer = cv2.resize(costs[number, low:high].astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
            finer = finer[inner][: len(band), : shape[1]]
            if lowest is None:
                lowest = finer.copy()
            else:
                band[finer < lowest] = number
                np.minimum(lowest, finer, out=lowest)
    return labels
