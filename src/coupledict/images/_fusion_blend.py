"""The blend: sources are added one by one to a pyramid, with a weight for every pixel of every level.

On each level of a Laplacian pyramid (Burt and Adelson, 1983) a source is weighted by the square of its energy there, in
a small window, and by the prior of its cell. So a thin wire comes from one source and what is between two wires from
another, while the prior keeps out what is not in focus. Energy is counted above the noise: where no source shows more
than noise, all that agree are averaged. The coarsest level has the weights of the prior alone.

A pyramid is added tile by tile. A tile is computed with a frame around it, wide enough that its values are those of the
whole picture; so tiles change memory and speed only, and several threads may add tiles of one source.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ._fusion_focus import CELL
from ._fusion_motion import warp
from ._fusion_result import Labels, Matrix
from ._grey import Grey, luma
from ._opencv import opencv

N_LEVELS = 3  # of detail
BLOCK = 1 << N_LEVELS
FRAME = 32  # pixels around a tile: a multiple of BLOCK, more than the reach of all filters
TILE = (512, 768)
WINDOW = 0.8  # Gaussian width, in pixels of a level, of the window for energies
POWER = 2  # of energy in the weights
ENERGY_FLOOR = 0.05  # squared grey values, of 255, that count as no detail even without noise
NOISE_FLOOR = 1.0  # the same, in variances of the noise on a level
EDGE = 12  # pixels at the border of a moved source that are not used where another source is there
LAST_RESORT = 1e-6  # weight of the reference where no other source reaches
WIDEST = 4  # channels that OpenCV handles at a time


@dataclass(frozen=True)
class Tile:
    """A part of the picture, and the same with its frame, as slices of rows and columns."""

    inner: tuple[slice, slice]
    outer: tuple[slice, slice]


def tiles(shape: tuple[int, int]) -> list[Tile]:
    """Return the tiles of a picture; they begin at multiples of BLOCK."""
    found = []
    for row in range(0, shape[0], TILE[0]):
        for column in range(0, shape[1], TILE[1]):
            pairs = [(row, min(row + TILE[0], shape[0])), (column, min(column + TILE[1], shape[1]))]
            inner = tuple(slice(first, last) for first, last in pairs)
            outer = tuple(
                slice(max(0, first - FRAME), min(size, last + FRAME))
                for (first, last), size in zip(pairs, shape, strict=True)
            )
            found.append(Tile((inner[0], inner[1]), (outer[0], outer[1])))
    return found


@dataclass(frozen=True)
class Placed:
    """A source and where it is in the result.

    Attributes
    ----------
    pixels : array
    matrix : array of shape (3, 3), or None
        Maps positions in the result to positions in the source; None if these differ by `offset` only.
    offset : tuple of int
        Row and column of the source at the first pixel of the result.
    factor : float
        What its values are multiplied by.
    prior : array of float32
        Its weight in each cell of the result.
    last_resort : bool
        Whether it is used where no source has a weight.
    """

    pixels: Array
    matrix: Matrix | None
    offset: tuple[int, int]
    factor: float
    prior: Grey
    last_resort: bool

    def cut(self, part: tuple[slice, slice], work: type) -> tuple[Array, Grey | None]:
        """Return a part of the source in the place of the result, and which of its pixels are real; None if all are."""
        shape = (part[0].stop - part[0].start, part[1].stop - part[1].start)
        if self.matrix is None:
            rows, columns = (slice(s.start + o, s.stop + o) for s, o in zip(part, self.offset, strict=True))
            return self.pixels[rows, columns].astype(work), None
        move = self.matrix @ np.array([[1.0, 0, part[1].start], [0, 1, part[0].start], [0, 0, 1]])
        source = self.pixels
        if source.dtype not in (np.uint8, np.uint16, np.float32, np.float64):
            source = source.astype(work)
        groups = (
            [source] if source.ndim == 2 else [source[..., k : k + WIDEST] for k in range(0, source.shape[2], WIDEST)]
        )
        moved = [warp(group, move, shape, kernel="lanczos").reshape(*shape, *group.shape[2:]) for group in groups]
        real = _inside(move, shape, source.shape)
        return (moved[0] if len(moved) == 1 else np.concatenate(moved, axis=2)).astype(work), real


def _inside(move: Matrix, shape: tuple[int, int], source: tuple[int, ...]) -> Grey | None:
    """Return the share of each pixel that is well inside a moved source; None if all are."""
    ends = np.array([[0, 0, 1], [shape[1] - 1, 0, 1], [0, shape[0] - 1, 1], [shape[1] - 1, shape[0] - 1, 1]]) @ move.T
    x, y = ends[:, 0] / ends[:, 2], ends[:, 1] / ends[:, 2]
    if x.min() >= 0 and y.min() >= 0 and x.max() <= source[1] - 1 and y.max() <= source[0] - 1:
        return None
    whole = np.zeros(source[:2], np.float32)
    whole[EDGE:-EDGE, EDGE:-EDGE] = 1
    found: Grey = warp(whole, move, shape, kernel="linear", border="zero")
    return found


class Pyramid:
    """The sum of weighted sources, on all levels.

    Parameters
    ----------
    shape : tuple of int
        Of the result.
    dtype : numpy dtype
        Of the sources and of the result.
    scale : float
        Factor to values from 0 to 255.
    noise : float
        Variance of the noise in the brightness, on that scale.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], scale: float, noise: float) -> None:
        self._dtype, self._scale = dtype, scale
        self._work: type = np.float32 if dtype.itemsize <= 2 or dtype == np.float32 else np.float64
        sizes = [(-(-shape[0] // 2**level), -(-shape[1] // 2**level)) for level in range(N_LEVELS + 1)]
        self._sums = [np.zeros(size + shape[2:], self._work) for size in sizes]
        self._weights = [np.zeros(size, np.float32) for size in sizes]
        self._floors = [(gain * noise, NOISE_FLOOR * gain * noise + ENERGY_FLOOR) for gain in _noise_gains()]

    def add(self, placed: Placed, tile: Tile) -> None:
        """Add one tile of a source."""
        cv2 = opencv()
        outer = tile.outer
        cells = tuple(slice(part.start // CELL, -(-part.stop // CELL)) for part in outer)
        coarse = placed.prior[cells]
        if not placed.last_resort and not coarse.any():
            return
        size = tuple(CELL * (part.stop - part.start) for part in cells)
        prior = cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_LINEAR)
        prior = prior[: outer[0].stop - outer[0].start, : outer[1].stop - outer[1].start]
        pixels, real = placed.cut(outer, self._work)
        if real is not None:
            prior = prior * real
        if placed.last_resort:
            prior = prior + np.float32(LAST_RESORT)
        if placed.factor != 1:
            pixels *= self._work(placed.factor)
        self._add_levels(tile, pixels, luma(pixels, self._scale), np.ascontiguousarray(prior))

    def _add_levels(self, tile: Tile, pixels: Array, grey: Grey, prior: Grey) -> None:
        cv2 = opencv()
        for level in range(N_LEVELS):
            smaller, smaller_grey = _down(pixels), cv2.pyrDown(grey)
            band = cv2.subtract(grey, cv2.pyrUp(smaller_grey, dstsize=grey.shape[::-1]))
            energy = cv2.GaussianBlur(cv2.multiply(band, band), (5, 5), WINDOW)
            noise, floor = self._floors[level]
            energy -= np.float32(noise)
            np.maximum(energy, 0, out=energy)
            energy += np.float32(floor)
            weight = prior * energy * energy
            self._sum(level, tile, pixels - _up(smaller, pixels), weight)
            pixels, grey, prior = smaller, smaller_grey, cv2.pyrDown(prior)
        self._sum(N_LEVELS, tile, pixels, prior)

    def _sum(self, level: int, tile: Tile, values: Array, weight: Grey) -> None:
        """Add weighted values of one level, without the frame."""
        step = 2**level
        here = [slice(part.start // step, -(-part.stop // step)) for part in tile.inner]
        cut = tuple(
            slice(part.start - whole.start // step, part.stop - whole.start // step)
            for part, whole in zip(here, tile.outer, strict=True)
        )
        weight = weight[cut]
        place = (here[0], here[1])
        self._weights[level][place] += weight
        values = values[cut]
        values *= weight if values.ndim == 2 else weight[..., None]
        self._sums[level][place] += values

    def collapse(self) -> Array:
        """Return the picture; the pyramid is used up."""
        picture = self._divide(N_LEVELS)
        for level in reversed(range(N_LEVELS)):
            finer = self._divide(level)
            finer += _up(picture, finer)
            picture = finer
        if self._dtype.kind in "iu":
            limits = np.iinfo(self._dtype)
            np.rint(picture, out=picture)
            np.clip(picture, limits.min, limits.max, out=picture)
        return picture.astype(self._dtype, copy=False)

    def _divide(self, level: int) -> Array:
        sums, weights = self._sums.pop(), self._weights.pop()
        assert len(self._sums) == level
        np.maximum(weights, np.finfo(np.float32).tiny, out=weights)
        sums /= weights if sums.ndim == 2 else weights[..., None]
        return sums


def _groups(pixels: Array) -> list[Array]:
    if pixels.ndim == 2 or pixels.shape[2] <= WIDEST:
        return [pixels]
    return [np.ascontiguousarray(pixels[..., k : k + WIDEST]) for k in range(0, pixels.shape[2], WIDEST)]


def _down(pixels: Array) -> Array:
    """Return pixels at half the size."""
    cv2 = opencv()
    parts = [cv2.pyrDown(group) for group in _groups(pixels)]
    if pixels.ndim == 2:
        return np.asarray(parts[0])
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)


def _up(pixels: Array, like: Array) -> Array:
    """Return pixels at the double size, that of `like`."""
    cv2 = opencv()
    size = (like.shape[1], like.shape[0])
    parts = [cv2.pyrUp(group, dstsize=size) for group in _groups(pixels)]
    if pixels.ndim == 2:
        return np.asarray(parts[0])
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)


@lru_cache(maxsize=1)
def _noise_gains() -> list[float]:
    """Return the variance of white noise of variance 1 on each level, measured on a sample of it."""
    cv2 = opencv()
    grey = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    found = []
    for _ in range(N_LEVELS):
        smaller = cv2.pyrDown(grey)
        found.append(float(np.var(grey - cv2.pyrUp(smaller, dstsize=grey.shape[::-1]))))
        grey = smaller
    return found


def label_pixels(costs: npt.NDArray[np.float16], shape: tuple[int, int]) -> Labels:
    """Return the source with the lowest cost for every pixel, between the cells by linear interpolation."""
    cv2 = opencv()
    rows, columns = costs.shape[1:]
    labels: Labels = np.zeros(shape, np.uint8) if len(costs) <= 256 else np.zeros(shape, np.uint16)
    for first in range(0, rows, 128):  # in bands, with a cell more at both ends: for memory
        low, high = max(0, first - 1), min(rows, first + 129)
        lowest = None
        cut = slice(CELL * (first - low), CELL * (min(rows, first + 128) - low))
        band = labels[CELL * first : CELL * (first + 128)]
        for number in range(len(costs)):
            size = (CELL * columns, CELL * (high - low))
            finer = cv2.resize(costs[number, low:high].astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
            finer = finer[cut][: len(band), : shape[1]]
            if lowest is None:
                lowest = finer.copy()
            else:
                band[finer < lowest] = number
                np.minimum(lowest, finer, out=lowest)
    return labels
