"""The blend: sources are added one by one to a pyramid, with a weight for every pixel of every level.

On each level of a Laplacian pyramid (Burt and Adelson, 1983) a source is weighted by a power of its energy there, in a
small window, and by the prior of its cell. So a thin wire comes from one source and what is between two wires from
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
from ..foundation.block_sizes import SIZES
from ._fusion_focus import CELL
from ._fusion_motion import corners, move_points, warp
from ._fusion_result import Labels, Matrix
from ._grey import LUMA, Grey
from ._opencv import opencv

N_LEVELS = 3  # of detail
FAR_SCALE = 1e15  # floats so far from the range of 0 to 255, times weights, are beyond float32
BLOCK = 1 << N_LEVELS
FRAME = 32  # pixels around a tile: a multiple of BLOCK, more than the reach of all filters
WINDOW = 0.8  # Gaussian width, in pixels of a level, of the window for energies
POWER, MORE_POWER = 2.0, 1.0  # of energy in the weights: with noise, which is averaged out so, and more without
ENERGY_FLOOR = 0.05  # squared grey values, of 255, that count as no detail even without noise
NOISE_FLOOR = 1.0  # the same, in variances of the noise on a level
NOISE_FACTOR = 2.5  # variances that are no detail: with fewer, the largest noise would win over the mean of all
EDGE = 12  # pixels at the border of a moved source that are not used where another source is there
LAST_RESORT = 1e-6  # weight of the reference where no other source reaches
MARGIN = 8  # pixels around what a tile needs of a source: the reach of the interpolation
WIDEST = 4  # channels that OpenCV handles at a time


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
    """Return a tile by its ends along both axes, with a frame as far as the picture reaches."""
    inner = [slice(first, last) for first, last in ends]
    outer = [slice(max(0, a - FRAME), min(size, b + FRAME)) for (a, b), size in zip(ends, shape, strict=True)]
    return Tile((inner[0], inner[1]), (outer[0], outer[1]))


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
    partly : bool
        Whether some sources cover only a part of the result. Those that were moved are then not used near their border.
    """

    pixels: Array
    matrix: Matrix | None
    offset: tuple[int, int]
    factor: float
    prior: Grey
    last_resort: bool
    partly: bool

    def cut(self, part: tuple[slice, slice], work: type) -> tuple[Array, Grey | None]:
        """Return a part of the source in the place of the result, and which of its pixels are real; None if all are."""
        shape = (part[0].stop - part[0].start, part[1].stop - part[1].start)
        if self.matrix is None:
            rows, columns = (slice(s.start + o, s.stop + o) for s, o in zip(part, self.offset, strict=True))
            return self.pixels[rows, columns].astype(work), None
        whole = move = self.matrix @ np.array([[1.0, 0, part[1].start], [0, 1, part[0].start], [0, 0, 1]])
        source, move = _needed(self.pixels, move, shape)
        source = source.astype(work)  # before it is moved: what lies between pixels is not rounded
        groups = (
            [source] if source.ndim == 2 else [source[..., k : k + WIDEST] for k in range(0, source.shape[2], WIDEST)]
        )
        moved = [warp(group, move, shape, kernel="lanczos").reshape(*shape, *group.shape[2:]) for group in groups]
        real = _inside(whole, shape, self.pixels.shape)
        return (moved[0] if len(moved) == 1 else np.concatenate(moved, axis=2)), real


def _ends(move: Matrix, shape: tuple[int, int]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return where a motion takes the corners of a part: their columns and rows."""
    x, y = move_points(move, corners(shape)).T
    return x, y


def _needed(source: Array, move: Matrix, shape: tuple[int, int]) -> tuple[Array, Matrix]:
    """Return the part of a source that a part of the result needs, and the motion into it.

    OpenCV takes no more than 32,767 pixels along a side.
    """
    cuts = []
    for ends, size in zip(_ends(move, shape), source.shape[1::-1], strict=True):
        first = int(np.clip(np.floor(ends.min()) - MARGIN, 0, size - 1))
        cuts.append(slice(first, int(np.clip(np.ceil(ends.max()) + MARGIN + 1, first + 1, size))))
    columns, rows = cuts
    shift = np.array([[1.0, 0, -columns.start], [0, 1, -rows.start], [0, 0, 1]])
    return source[rows, columns], shift @ move


def _inside(move: Matrix, shape: tuple[int, int], source: tuple[int, ...]) -> Grey | None:
    """Return how much each pixel is well inside a moved source, from 0 to 1; None if all are.

    Between the corners the motion is taken as affine, which is exact but for projective motions.
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
        Of the result.
    dtype : numpy dtype
        Of the sources and of the result.
    scale : float
        Factor to values from 0 to 255.
    noise : float
        Variance of the noise in the brightness, on that scale.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], scale: float, noise: float) -> None:
        self._dtype, self._scale, self._shape = dtype, scale, (shape[0], shape[1])
        single = dtype.itemsize <= 2 or (dtype == np.float32 and 1 / FAR_SCALE <= scale <= FAR_SCALE)
        self._work: type = np.float32 if single else np.float64
        sizes = [(-(-shape[0] // 2**level), -(-shape[1] // 2**level)) for level in range(N_LEVELS + 1)]
        self._sums = [np.zeros(size + shape[2:], self._work) for size in sizes]
        self._weights = [np.zeros(size, np.float32) for size in sizes]
        self._power = POWER + MORE_POWER / (1 + noise)
        self._floors = [
            (NOISE_FACTOR * gain * noise, NOISE_FLOOR * gain * noise + ENERGY_FLOOR) for gain in _noise_gains()
        ]

    def add(self, placed: Placed, tile: Tile) -> None:
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
        pixels, real = placed.cut(outer, self._work)
        if real is not None and placed.partly:
            prior = prior * real
        if placed.factor != 1:
            pixels *= self._work(placed.factor)
        least = np.float32(LAST_RESORT if placed.last_resort else 0)
        self._add_levels(tile, pixels, np.ascontiguousarray(prior), least)

    def _used(self, prior: Grey, tile: Tile) -> Tile | None:
        """Return the part of a tile that a source has any weight in; None if there is none."""
        reach = FRAME // CELL  # so far weights may be carried by the coarser levels
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
            weight += least * np.float32(floor**self._power)  # as a place without detail has
            self._sum(level, tile, band, weight)
            pixels, prior = smaller, cv2.pyrDown(prior)
        self._sum(N_LEVELS, tile, pixels, prior + least)

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
        self._sums[level][place] += _times(values[cut], weight)

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
            largest = self._work(limits.max)
            if int(largest) > limits.max:  # 64 bits: the limit is no number of this type
                largest = np.nextafter(largest, self._work(0))
            np.clip(picture, limits.min, largest, out=picture)
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


def _times(values: Array, weight: Grey) -> Array:
    """Return values times weights, for every channel; much faster for colours than broadcasting."""
    weight = weight.astype(values.dtype, copy=False)
    if values.ndim == 2 or values.shape[2] > WIDEST:
        return values * (weight if values.ndim == 2 else weight[..., None])
    cv2 = opencv()
    values = np.ascontiguousarray(values)
    product = cv2.merge([weight] * values.shape[2])
    cv2.multiply(values, product, dst=product)
    return np.asarray(product).reshape(values.shape)


def _energy(band: Array, scale: float) -> Grey:
    """Return the energy of all colours together, so that noise has the variance that it has in the brightness."""
    if band.ndim == 2:
        return np.asarray(np.square(band * band.dtype.type(scale)), np.float32)
    colours = band[..., :3] if band.shape[2] == 4 else band
    if scale != 1:  # before they are squared: squares of very small or large numbers are none
        colours = colours * band.dtype.type(scale)
    share = sum(weight**2 for weight in LUMA) / 3 if colours.shape[2] == 3 else 1 / colours.shape[2] ** 2
    found: Grey = np.einsum("ijk,ijk->ij", colours, colours).astype(np.float32, copy=False)
    found *= np.float32(share)
    return found


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
