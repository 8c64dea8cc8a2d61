"""Detection of JPEG compression and its strength, from the pixels of a picture.

JPEG rounds the cosine transform of each block of 8 x 8 pixels to multiples of a step, one for each frequency. The
decoded pixels still show it: transformed again on the same grid, the values of a frequency lie close to multiples of
its step. The characteristic function of these values, mean cos(2 pi value / step), is then near 1 at the step, and
near 0 or below for values that were never rounded. All grids are searched, because
pictures may be cropped.

There are two searches: one for the tables that most programs use, over all frequencies together, which also works for
small pictures; and one for each frequency alone, because cameras have tables of their own. The result is a
*coarseness*, the ratio to the steps of quality 50: 1 at quality 50, 0.5 at 75, 0.1 at 95.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.fft import dct

from ..foundation.arrays import Array

SIDE = 8
#: Steps at quality 50, by frequency down and right (ITU-T T.81, table K.1).
ALL_STEPS_AT_50 = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ]
)
STEPS_AT_50 = ALL_STEPS_AT_50.ravel()[1:]  # without the step of the mean, which no picture shows clearly
SMALLEST_STEP, LARGEST_STEP = 2, 120  # a step of 1 cannot be distinguished from the rounding of pixels
LIMIT = 384.0  # larger values are not used
BINS_PER_UNIT = 4
QUALITIES = np.arange(5, 98)
MOST_BLOCKS = 2048  # that are examined
MOST_BLOCKS_PER_GRID = 512  # the same for each of the grids of a picture that may be cropped
LEAST_SCORE = 0.5  # of the characteristic function: rounded pixels leave 0.65 at a step of 2, and more at larger ones
LEAST_Z_SCORE = 8.0  # standard deviations of a score of all frequencies, among 64 grids and some 90 qualities
OWN_LEAST_Z_SCORE = 6.0  # the same for one frequency
LEAST_FREQUENCIES = 5  # that must each show a step
SIMILAR_SCORE = 0.85  # divisors of the true steps score this close to the best; the coarsest steps are the true ones
ROUNDING_SHARE = 0.3  # of a step that is attributed to rounding; up to half a step is possible
NEIGHBOURS = 4  # qualities with nearly the same steps


def quality_of(coarseness: float) -> int:
    """Return the quality, from 1 to 99, whose standard tables have this coarseness."""
    quality = 100 - 50 * coarseness if coarseness <= 1 else 50 / coarseness
    return int(np.clip(round(quality), 1, 99))


def coarseness_of(quality: float) -> float:
    """Return the coarseness of the standard tables of a quality."""
    return (100 - quality) / 50 if quality >= 50 else 50 / quality


@dataclass(frozen=True)
class Compression:
    """JPEG compression of a picture: the coarseness of its steps, and the first whole block of its grid."""

    coarseness: float
    row: int
    column: int


def find_compression(plane: Array) -> Compression | None:
    """Return how a picture was compressed; None if it shows no compression.

    `plane` is its brightness, in grey values from 0 to 255.
    """
    if min(plane.shape) < 2 * SIDE:
        return None
    best_z_score, coarseness = _score_grid(plane, MOST_BLOCKS)
    if best_z_score:  # most pictures are not cropped
        return Compression(coarseness, 0, 0)
    found = None
    for row, column in np.ndindex(SIDE, SIDE):
        z_score, coarseness = _score_grid(plane[row:, column:], MOST_BLOCKS_PER_GRID)
        if z_score > best_z_score:
            best_z_score, found = z_score, Compression(coarseness, row, column)
    return found


def within_steps(change: Array, compression: Compression, unit: float) -> Array:
    """Return a change of a decoded picture, limited to what rounding to steps can have caused.

    At each frequency of each block, the original differs from the decoded picture by at most half a step, and mostly by
    less.
    """
    out = change.copy()
    rows, columns = (
        n // SIDE * SIDE for n in (change.shape[0] - compression.row, change.shape[1] - compression.column)
    )
    inner = out[compression.row :, compression.column :][:rows, :columns]
    blocks = inner.reshape(rows // SIDE, SIDE, columns // SIDE, SIDE)
    waves = np.einsum("ai,yixj,bj->yxab", DCT, blocks, DCT, optimize=True)
    limit = np.maximum(compression.coarseness * ALL_STEPS_AT_50, 1) * np.float32(ROUNDING_SHARE * unit)
    blocks[...] = np.einsum("ai,yxab,bj->yixj", DCT, np.clip(waves, -limit, limit), DCT, optimize=True)
    return out


def _score_grid(plane: Array, most_blocks: int) -> tuple[float, float]:
    """Return the z-score of the steps on a grid (0 if it shows none), and their coarseness."""
    sums, counts = _characteristic(_transformed(plane, most_blocks))
    z_score, coarseness = _find_standard_table(sums, counts)
    return (z_score, coarseness) if z_score else _find_own_steps(sums, counts)


def _find_standard_table(sums: Array, counts: Array) -> tuple[float, float]:
    """Search for the steps of a standard table."""
    rows = np.arange(len(sums))
    total, n = (np.where(VISIBLE, part[rows, PLACES], 0).sum(axis=1) for part in (sums, counts))
    scores = total / np.maximum(n, 1)
    good = (scores > LEAST_SCORE) & (total > LEAST_Z_SCORE * np.sqrt(n / 2))
    if not good.any():
        return 0.0, 0.0
    coarsest = int(np.flatnonzero(good & (scores >= SIMILAR_SCORE * scores[good].max()))[0])
    place = coarsest + int(np.argmax(np.where(good, scores, 0)[coarsest : coarsest + NEIGHBOURS]))
    return float(total[place] / np.sqrt(n[place] / 2)), coarseness_of(float(QUALITIES[place]))


def _find_own_steps(sums: Array, counts: Array) -> tuple[float, float]:
    """Search for a step of each frequency."""
    scores = sums / np.maximum(counts, 1)
    clear = (scores > LEAST_SCORE) & (sums > OWN_LEAST_Z_SCORE * np.sqrt(counts / 2))
    (shown,) = np.nonzero(clear.any(axis=1))
    if len(shown) < LEAST_FREQUENCIES:
        return 0.0, 0.0
    last = clear.shape[1] - 1 - np.argmax(clear[shown, ::-1], axis=1)  # the step itself, not its divisors
    ratios = (SMALLEST_STEP + last) / STEPS_AT_50[shown]
    return float(sums[shown, last].sum() / np.sqrt(counts[shown, last].sum() / 2)), float(np.median(ratios))


def _transformed(plane: Array, most_blocks: int) -> Array:
    """Return values of all frequencies except the mean, (63, n_blocks), for blocks from all over the picture."""
    rows, columns = plane.shape[0] // SIDE, plane.shape[1] // SIDE
    blocks = plane[: rows * SIDE, : columns * SIDE].reshape(rows, SIDE, columns, SIDE)
    stride = -(-rows * columns // most_blocks)
    i, j = np.divmod(np.arange(0, rows * columns, stride), columns)
    chosen = np.asarray(blocks[i, :, j].reshape(i.size, -1), np.float32)
    # Drawings repeat patterns, whose few values would look rounded, so equal blocks count once.
    _, different = np.unique(chosen @ BLOCK_KEY, return_index=True)
    return np.asarray(FREQUENCIES @ chosen[np.sort(different)].T)


def _characteristic(values: Array) -> tuple[Array, Array]:
    """Return the sum of cosines of values not rounded to 0, and their number, for each frequency and step."""
    places = (np.minimum(np.abs(values), LIMIT) * BINS_PER_UNIT + 0.5).astype(np.int64)
    places += np.arange(len(values))[:, None] * N_BINS
    histograms = np.bincount(places.ravel(), minlength=len(values) * N_BINS).reshape(len(values), N_BINS)
    used = int(np.flatnonzero(histograms.any(axis=0))[-1]) + 1
    seen = histograms[:, :used].astype(np.float32)
    return seen @ COSINES[:used], seen @ BEYOND[:used]


def _frequencies() -> Array:
    return np.array([np.outer(DCT[down], DCT[right]).ravel() for down, right in np.ndindex(SIDE, SIDE)][1:])


def _tables() -> npt.NDArray[np.int64]:
    """Return the steps of all qualities as libjpeg computes them, (n_qualities, 63)."""
    percent = np.where(QUALITIES < 50, 5000 // QUALITIES, 200 - 2 * QUALITIES)[:, None]
    return np.asarray(np.clip((STEPS_AT_50 * percent + 50) // 100, 1, 255), np.int64)


DCT = dct(np.eye(SIDE), axis=0, norm="ortho").astype(np.float32)
FREQUENCIES = _frequencies()
BLOCK_KEY = np.sqrt(np.arange(2, 2 + SIDE * SIDE)).astype(
    np.float32
)  # different blocks have different products with it
TABLES = _tables()
VISIBLE = (TABLES >= SMALLEST_STEP) & (TABLES <= LARGEST_STEP)
PLACES = np.where(VISIBLE, TABLES - SMALLEST_STEP, 0)
N_BINS = int(LIMIT * BINS_PER_UNIT) + 1
_STEPS = np.arange(SMALLEST_STEP, LARGEST_STEP + 1)
_CENTRES = np.arange(N_BINS)[:, None] / BINS_PER_UNIT
BEYOND = ((_CENTRES > _STEPS / 2) & (_CENTRES < LIMIT)).astype(np.float32)
COSINES = BEYOND * np.cos(2 * np.pi * _CENTRES / _STEPS).astype(np.float32)
