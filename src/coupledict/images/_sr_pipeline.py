"""From a small image to its missing detail: windows, features, prediction, overlap, back-projection.

The image is split into tiles that are processed independently: threads share the tiles, and memory beyond the result
does not grow with the image. A tile also predicts the patches around its edge: all nine patches over a pixel are
averaged in the same order, whichever tile the pixel lies in, so results do not depend on the tiles.
"""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import Protocol

import numpy as np

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..foundation.progress import Meter
from ..parallel.blas import one_blas_thread
from ..parallel.ordered import in_order
from ._resize import imresize
from ._sr_geometry import Geometry
from ._sr_model import DetailPredictor

LEAST_TILE_PIXELS = 1 << 11  # smaller tiles are not worth another thread
Tile = tuple[int, int, int, int]


class PatchPredictor(Protocol):
    """Predicts the patches of a small image; several threads may share one object."""

    @property
    def geometry(self) -> Geometry:
        """The geometry of the patches."""

    @property
    def n_layers(self) -> int:
        """Number of values for each pixel of a patch."""

    def pad(self, plane: Array) -> Array:
        """Return the small image padded by `radius` pixels on each side."""

    def patches(self, piece: Array) -> Array:
        """Return every patch of a padded piece of the image, (n_patches, side ** 2 * n_layers), in order of cells."""


def split_axis(n: int, most: int) -> list[tuple[int, int]]:
    """Split n pixels into pieces of nearly equal length, at most `most` each."""
    n_pieces = -(-n // most)
    return list(itertools.pairwise(n * piece // n_pieces for piece in range(n_pieces + 1)))


def tiles(shape: tuple[int, int], n_jobs: int) -> list[Tile]:
    """Split a small image into tiles, enough for all threads: first and last row, first and last column."""
    columns = split_axis(shape[1], SIZES.upscaled_columns)
    widest = max(right - left for left, right in columns)
    pixels = min(SIZES.upscaled_pixels, max(LEAST_TILE_PIXELS, -(-shape[0] * shape[1] // n_jobs)))
    rows = split_axis(shape[0], -(-pixels // widest))
    return [(*vertical, *horizontal) for vertical in rows for horizontal in columns]


def predict_detail(predictor: DetailPredictor, plane: Array, *, n_jobs: int, meter: Meter) -> Array:
    """Return the detail that interpolation of a small image misses, of the size of the large one.

    `meter` counts pixels of the small image.
    """
    # Features do not depend on the mean; without it, a flat image stays exactly flat.
    return predict_patches(predictor, plane - plane[0, 0], n_jobs=n_jobs, meter=meter)[:, :, 0]


def predict_patches(predictor: PatchPredictor, plane: Array, *, n_jobs: int, meter: Meter) -> Array:
    """Return the mean of all patches over each pixel of the large image, (rows, columns, n_layers).

    A predictor may return several layers: values of each pixel of a patch that are averaged alike. `meter` counts
    pixels of the small image.
    """
    s, rows, columns = predictor.geometry.scale, *plane.shape
    padded = predictor.pad(plane)
    out: Array = np.empty((rows * s, columns * s, predictor.n_layers), plane.dtype)

    def work(tile: Tile) -> int:
        top, bottom, left, right = tile
        cells = tile_cells(predictor, padded, tile)
        view = out[top * s : bottom * s, left * s : right * s]
        view.reshape(bottom - top, s, right - left, s, -1)[...] = cells.swapaxes(1, 2)
        return (bottom - top) * (right - left)

    parts = tiles((rows, columns), n_jobs)
    # The callback runs here, not in the threads: if it stops the work, closing() ends them at once.
    with one_blas_thread(), closing(in_order(work, parts, min(n_jobs, len(parts)))) as finished:
        for n_pixels in finished:
            meter.advance(n_pixels)
    return out


def tile_cells(predictor: PatchPredictor, padded: Array, tile: Tile) -> Array:
    """Return the mean of the patches of a tile, in cells: (rows, columns, scale, scale, n_layers)."""
    geometry = predictor.geometry
    top, bottom, left, right = tile
    margin, half, p = 2 * geometry.radius, geometry.half, geometry.patch_size
    height, width = padded.shape[0] - margin, padded.shape[1] - margin
    above, below = max(0, top - half), min(height, bottom + half)
    before, after = max(0, left - half), min(width, right + half)
    piece = padded[above : below + margin, before : after + margin]
    patches = predictor.patches(piece).reshape(below - above, after - before, p * p, -1)
    patches = np.ascontiguousarray(patches.transpose(2, 0, 1, 3)).reshape(p, p, *patches.shape[:2], -1)
    cells = np.zeros((bottom - top, right - left, patches.shape[-1]), padded.dtype)
    for a in range(p):
        for b in range(p):
            # Cell a of a patch lies a - half rows below its centre.
            i, k = _overlap(top, bottom, above, below, a - half)
            j, m = _overlap(left, right, before, after, b - half)
            cells[i, j] += patches[a, b, k, m]
    cells /= (_covers(top, bottom, height, half)[:, None] * _covers(left, right, width, half))[:, :, None]
    return cells.reshape(*cells.shape[:2], geometry.scale, geometry.scale, -1)


def _overlap(first: int, last: int, start: int, end: int, shift: int) -> tuple[slice, slice]:
    """Return the cells of `first` to `last` that the shifted patches of `start` to `end` reach, and these patches."""
    low, high = max(first, start + shift), min(last, end + shift)
    high = max(low, high)
    return slice(low - first, high - first), slice(low - shift - start, high - shift - start)


def _covers(first: int, last: int, n: int, half: int) -> Array:
    """Return the number of patches over each cell, along one axis."""
    places = np.arange(first, last)
    return (np.minimum(places + half, n - 1) - np.maximum(places - half, 0) + 1).astype(np.float32)


def back_project(detail: Array, plane: Array, n_iter: int) -> Array:
    """Correct detail in place, so that the large image, made small again, is the small image; return it.

    Each iteration adds the interpolated error of the small image (Irani and Peleg, 1991).
    """
    small, large = ((array.shape[0], array.shape[1]) for array in (plane, detail))
    if n_iter:
        error = plane - imresize(imresize(plane, shape=large), shape=small)
    for _ in range(n_iter):
        detail += imresize(error - imresize(detail, shape=small), shape=large)
    return detail
