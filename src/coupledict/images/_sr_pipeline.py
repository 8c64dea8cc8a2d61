"""From a small image to its missing detail: windows, features, prediction, overlap, back-projection.

The image is cut into tiles that are processed independently: threads share the tiles, and memory beyond the result does
not grow with the image. A tile also predicts the patches around its edge: all nine patches over a pixel are averaged in
the same order, whichever tile the pixel lies in, so results do not depend on the tiles.
"""

from __future__ import annotations

import itertools
from contextlib import closing

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..foundation.arrays import Array
from ..foundation.progress import Meter
from ..parallel.blas import one_blas_thread
from ..parallel.ordered import in_order
from ._resize import imresize
from ._sr_geometry import N_TURNS
from ._sr_model import DetailPredictor, product

TILE_PIXELS = 1 << 14  # of the small image; larger tiles do not fit the cache, smaller ones have more edge
LEAST_TILE_PIXELS = 1 << 11  # less work than this is not worth a second thread
TILE_COLUMNS = 512
Tile = tuple[int, int, int, int]


def cut(n: int, most: int) -> list[tuple[int, int]]:
    """Cut n pixels into pieces of nearly equal length, none longer than `most`."""
    n_pieces = -(-n // most)
    return list(itertools.pairwise(n * piece // n_pieces for piece in range(n_pieces + 1)))


def tiles(shape: tuple[int, int], n_jobs: int) -> list[Tile]:
    """Cut a small image into tiles, enough for all threads: first and last row, first and last column."""
    columns = cut(shape[1], TILE_COLUMNS)
    widest = max(right - left for left, right in columns)
    pixels = min(TILE_PIXELS, max(LEAST_TILE_PIXELS, -(-shape[0] * shape[1] // n_jobs)))
    rows = cut(shape[0], -(-pixels // widest))
    return [(*vertical, *horizontal) for vertical in rows for horizontal in columns]


def predict_detail(predictor: DetailPredictor, plane: Array, *, n_jobs: int, meter: Meter) -> Array:
    """Return the detail that interpolation of a small image misses, of the size of the large one.

    `meter` counts pixels of the small image.
    """
    geometry = predictor.model.geometry
    s = geometry.scale
    padded = geometry.pad(plane - plane[0, 0])  # features ignore the level; without it, flat stays exactly flat
    detail: Array = np.empty((plane.shape[0] * s, plane.shape[1] * s), plane.dtype)

    def work(tile: Tile) -> int:
        top, bottom, left, right = tile
        cells = tile_detail(predictor, padded, tile)
        view = detail[top * s : bottom * s, left * s : right * s]
        view.reshape(bottom - top, s, right - left, s)[...] = cells.swapaxes(1, 2)
        return (bottom - top) * (right - left)

    parts = tiles((plane.shape[0], plane.shape[1]), n_jobs)
    # The callback is called here, not in the threads: if it stops the work, closing() ends them at once.
    with one_blas_thread(), closing(in_order(work, parts, min(n_jobs, len(parts)))) as finished:
        for n_pixels in finished:
            meter.advance(n_pixels)
    return detail


def tile_detail(predictor: DetailPredictor, padded: Array, tile: Tile) -> Array:
    """Return the detail of a tile, in cells: (rows, columns, scale, scale)."""
    geometry = predictor.model.geometry
    top, bottom, left, right = tile
    margin, half, p = 2 * geometry.radius, geometry.half, geometry.patch_size
    height, width = padded.shape[0] - margin, padded.shape[1] - margin
    above, below = max(0, top - half), min(height, bottom + half)
    before, after = max(0, left - half), min(width, right + half)
    near = padded[above : below + margin, before : after + margin]
    patches = _patches(predictor, near).reshape(below - above, after - before, p * p, -1)
    patches = np.ascontiguousarray(patches.transpose(2, 0, 1, 3)).reshape(p, p, *patches.shape[:2], -1)
    cells = np.zeros((bottom - top, right - left, geometry.scale**2), padded.dtype)
    for a in range(p):
        for b in range(p):
            # Cell a of a patch lies a - half rows below its centre.
            i, k = _overlap(top, bottom, above, below, a - half)
            j, m = _overlap(left, right, before, after, b - half)
            cells[i, j] += patches[a, b, k, m]
    cells /= (_covers(top, bottom, height, half)[:, None] * _covers(left, right, width, half))[:, :, None]
    return cells.reshape(*cells.shape[:2], geometry.scale, geometry.scale)


def _overlap(first: int, last: int, start: int, end: int, shift: int) -> tuple[slice, slice]:
    """Return the cells of `first` to `last` that the shifted patches of `start` to `end` reach, and these patches."""
    low, high = max(first, start + shift), min(last, end + shift)
    high = max(low, high)
    return slice(low - first, high - first), slice(low - shift - start, high - shift - start)


def _covers(first: int, last: int, n: int, half: int) -> Array:
    """Return how many patches along one axis lie over each cell."""
    places = np.arange(first, last)
    return (np.minimum(places + half, n - 1) - np.maximum(places - half, 0) + 1).astype(np.float32)


def _patches(predictor: DetailPredictor, near: Array) -> Array:
    """Return the detail of every patch of a padded piece of an image, (n_patches, side ** 2), in the order of cells."""
    model = predictor.model
    geometry = model.geometry
    turns = geometry.turns(near).ravel()
    order = np.argsort(turns, kind="stable")
    ends = np.searchsorted(turns[order], np.arange(N_TURNS + 1))
    windows = sliding_window_view(near, (geometry.window, geometry.window))
    i, j = np.divmod(order, windows.shape[1])
    flat = windows[i, j].reshape(order.size, -1)
    features: Array = np.empty((order.size, model.projection.shape[1]), near.dtype)
    for turn in range(N_TURNS):
        mine = slice(ends[turn], ends[turn + 1])
        features[mine] = product(flat[mine], model.projections[turn])
    details = predictor.predict(features)
    patches: Array = np.empty((order.size, geometry.side**2), near.dtype)
    for turn in range(N_TURNS):
        mine = slice(ends[turn], ends[turn + 1])
        patches[order[mine]] = product(details[mine], model.bases[turn])
    return patches


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
