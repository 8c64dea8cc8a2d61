"""How strongly a picture was compressed as JPEG, from its pixels alone.

JPEG rounds the cosine transform of each block of 8 x 8 pixels to multiples of a step, one step for each frequency. The
decoded pixels still show it: transformed again, on the same grid, the values of a frequency lie close to the multiples
of its step. The characteristic function of these values, mean cos(2 pi value / step), is then near 1 at the step, and
near 0 or below for values that were never rounded. The grid is searched for, because pictures get cropped.

Steps are looked for twice: those of the tables that most programs use, all frequencies together, which shows in small
pictures too; and for each frequency alone, because cameras have tables of their own. What is found is told as
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
STEPS_AT_50 = ALL_STEPS_AT_50.ravel()[1:]  # without that of the mean, which no picture shows clearly
SMALLEST_STEP, LARGEST_STEP = 2, 120  # a step of 1 cannot be told from the rounding of pixels
LIMIT = 384.0  # larger values than this add nothing
BINS_PER_UNIT = 4
QUALITIES = np.arange(5, 98)
MOST_BLOCKS = 2048  # that are looked at
MOST_BLOCKS_PER_GRID = 512  # the same for each of the grids of a picture that may be cropped
LEAST_SCORE = 0.5  # of the characteristic function: rounded pixels leave 0.65 at a step of 2, and more at larger ones
CLEAR = 8.0  # standard deviations of a score of all frequencies, among 64 grids and some 90 qualities
OWN_CLEAR = 6.0  # the same for one frequency
LEAST_FREQUENCIES = 5  # that must show a step of their own
ALIKE = 0.85  # divisors of the steps score as well as they: of those that score like the best, the coarsest is meant
REACH = 0.3  # of a step that is believed to be an effect of rounding; half a step is possible
NEIGHBOURS = 4  # qualities of almost the same steps


def quality_of(coarseness: float) -> int:
    """Return the quality, from 1 to 99, of standard tables of a coarseness."""
    quality = 100 - 50 * coarseness if coarseness <= 1 else 50 / coarseness
    return int(np.clip(round(quality), 1, 99))


def coarseness_of(quality: float) -> float:
    """Return the coarseness of standard tables of a quality."""
    return (100 - quality) / 50 if quality >= 50 else 50 / quality


@dataclass(frozen=True)
class Compression:
    """What JPEG left of a picture: how coarse its steps are, and the first whole block of the grid."""

    coarseness: float
    row: int
    column: int


def find_compression(plane: Array) -> Compression | None:
    """Return how a picture was compressed; None if it does not look so.

    `plane` is its brightness, in grey values from 0 to 255.
    """
    if min(plane.shape) < 2 * SIDE:
        return None
    clearest, coarseness = _on_grid(plane, MOST_BLOCKS)
    if clearest:  # most pictures are not cropped
        return Compression(coarseness, 0, 0)
    found = None
    for row, column in np.ndindex(SIDE, SIDE):
        clear, coarseness = _on_grid(plane[row:, column:], MOST_BLOCKS_PER_GRID)
        if clear > clearest:
            clearest, found = clear, Compression(coarseness, row, column)
    return found


def within_steps(change: Array, compression: Compression, unit: float) -> Array:
    """Return a change of a decoded picture, limited to what rounding to steps can have done.

    The picture before rounding differs from the decoded one by half a step at most at each frequency of each block, and
    mostly by less.
    """
    out = change.copy()
    rows, columns = (
        n // SIDE * SIDE for n in (change.shape[0] - compression.row, change.shape[1] - compression.column)
    )
    inner = out[compression.row :, compression.column :][:rows, :columns]
    blocks = inner.reshape(rows // SIDE, SIDE, columns // SIDE, SIDE)
    waves = np.einsum("ai,yixj,bj->yxab", LINE, blocks, LINE, optimize=True)
    limit = np.maximum(compression.coarseness * ALL_STEPS_AT_50, 1) * np.float32(REACH * unit)
    blocks[...] = np.einsum("ai,yxab,bj->yixj", LINE, np.clip(waves, -limit, limit), LINE, optimize=True)
    return out


def _on_grid(plane: Array, most_blocks: int) -> tuple[float, float]:
    """Return how clearly a grid shows steps (0 if it does not), and their coarseness."""
    sums, counts = _characteristic(_transformed(plane, most_blocks))
    clear, coarseness = _standard(sums, counts)
    return (clear, coarseness) if clear else _own(sums, counts)


def _standard(sums: Array, counts: Array) -> tuple[float, float]:
    """Look for the steps of a standard table."""
    rows = np.arange(len(sums))
    total, n = (np.where(SEEN, part[rows, PLACES], 0).sum(axis=1) for part in (sums, counts))
    scores = total / np.maximum(n, 1)
    good = (scores > LEAST_SCORE) & (total > CLEAR * np.sqrt(n / 2))
    if not good.any():
        return 0.0, 0.0
    coarsest = int(np.flatnonzero(good & (scores >= ALIKE * scores[good].max()))[0])
    place = coarsest + int(np.argmax(np.where(good, scores, 0)[coarsest : coarsest + NEIGHBOURS]))
    return float(total[place] / np.sqrt(n[place] / 2)), coarseness_of(float(QUALITIES[place]))


def _own(sums: Array, counts: Array) -> tuple[float, float]:
    """Look for a step of each frequency."""
    scores = sums / np.maximum(counts, 1)
    clear = (scores > LEAST_SCORE) & (sums > OWN_CLEAR * np.sqrt(counts / 2))
    (shown,) = np.nonzero(clear.any(axis=1))
    if len(shown) < LEAST_FREQUENCIES:
        return 0.0, 0.0
    last = clear.shape[1] - 1 - np.argmax(clear[shown, ::-1], axis=1)  # of a step and its divisors, the step
    ratios = (SMALLEST_STEP + last) / STEPS_AT_50[shown]
    return float(sums[shown, last].sum() / np.sqrt(counts[shown, last].sum() / 2)), float(np.median(ratios))


def _transformed(plane: Array, most_blocks: int) -> Array:
    """Return values of all frequencies but the mean, (63, n_blocks), of blocks that are spread over the picture."""
    rows, columns = plane.shape[0] // SIDE, plane.shape[1] // SIDE
    blocks = plane[: rows * SIDE, : columns * SIDE].reshape(rows, SIDE, columns, SIDE)
    stride = -(-rows * columns // most_blocks)
    i, j = np.divmod(np.arange(0, rows * columns, stride), columns)
    chosen = np.asarray(blocks[i, :, j].reshape(i.size, -1), np.float32)
    # Drawn patterns repeat: the few values of their blocks would look rounded. Each counts once.
    _, different = np.unique(chosen @ KEY, return_index=True)
    return np.asarray(FREQUENCIES @ chosen[np.sort(different)].T)


def _characteristic(values: Array) -> tuple[Array, Array]:
    """Return for each frequency and step the sum of cosines of values that are not rounded to 0, and their number."""
    places = (np.minimum(np.abs(values), LIMIT) * BINS_PER_UNIT + 0.5).astype(np.int64)
    places += np.arange(len(values))[:, None] * N_BINS
    histograms = np.bincount(places.ravel(), minlength=len(values) * N_BINS).reshape(len(values), N_BINS)
    used = int(np.flatnonzero(histograms.any(axis=0))[-1]) + 1
    seen = histograms[:, :used].astype(np.float32)
    return seen @ COSINES[:used], seen @ BEYOND[:used]


def _frequencies() -> Array:
    return np.array([np.outer(LINE[down], LINE[right]).ravel() for down, right in np.ndindex(SIDE, SIDE)][1:])


def _tables() -> npt.NDArray[np.int64]:
    """Return the steps of all qualities as libjpeg computes them, (n_qualities, 63)."""
    percent = np.where(QUALITIES < 50, 5000 // QUALITIES, 200 - 2 * QUALITIES)[:, None]
    return np.asarray(np.clip((STEPS_AT_50 * percent + 50) // 100, 1, 255), np.int64)


LINE = dct(np.eye(SIDE), axis=0, norm="ortho").astype(np.float32)
FREQUENCIES = _frequencies()
KEY = np.sqrt(np.arange(2, 2 + SIDE * SIDE)).astype(np.float32)  # blocks that differ have different products with it
TABLES = _tables()
SEEN = (TABLES >= SMALLEST_STEP) & (TABLES <= LARGEST_STEP)
PLACES = np.where(SEEN, TABLES - SMALLEST_STEP, 0)
N_BINS = int(LIMIT * BINS_PER_UNIT) + 1
_STEPS = np.arange(SMALLEST_STEP, LARGEST_STEP + 1)
_CENTRES = np.arange(N_BINS)[:, None] / BINS_PER_UNIT
BEYOND = ((_CENTRES > _STEPS / 2) & (_CENTRES < LIMIT)).astype(np.float32)
COSINES = BEYOND * np.cos(2 * np.pi * _CENTRES / _STEPS).astype(np.float32)
