"""From a small image to its missing detail: windows, features, prediction, overlap, back-projection.

The image is cut into tiles that are worked on independently, so memory does not grow with it beyond the result, and
tiles can share the threads. A tile predicts the patches around its edge as well: all nine patches over a pixel are
averaged whichever tile it lies in, in the same order, and results do not depend on the tiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import csr_array

from .._passes import in_order, one_blas_thread
from .._pursuit import sparse_encode
from .._views import Array
from ._resize import imresize
from ._sr_geometry import N_TURNS, Geometry

TILE_PIXELS = 1 << 14  # of the small image; larger tiles fall out of the cache, smaller ones have more edge
LEAST_TILE_PIXELS = 1 << 11  # less work than this is not worth a second thread
TILE_COLUMNS = 512
PRODUCT_ROWS = 64
CORRELATION_ROWS = 512  # patches whose correlations with all anchors are held at once
BLENDED = 3  # anchors that predict a patch together in an ensemble
BLEND_POWER = 20  # how fast the weight of an anchor falls with its correlation
Tile = tuple[int, int, int, int]


@dataclass(frozen=True)
class Model:
    """All that prediction needs.

    `projection` (window ** 2, n_features) makes features of turned windows; `basis` (n_details, side ** 2) makes turned
    patches of details. `details` is a dictionary (n_components, n_details), to be multiplied by the codes of the
    features over `components`, or a linear map for each of them (n_components, n_features, n_details).
    """

    geometry: Geometry
    projection: Array
    basis: Array
    components: Array
    details: Array
    n_nonzero: int

    @cached_property
    def projections(self) -> Array:
        """The projection for windows as they are, one for each turn that they would need."""
        return self.projection[self.geometry.turned_back(self.geometry.window)]

    @cached_property
    def bases(self) -> Array:
        """The basis that makes patches as they are, one for each turn; pixels in the order of cells."""
        turned_back = self.geometry.turned_back(self.geometry.side)[:, self.geometry.cells]
        return np.ascontiguousarray(self.basis[:, turned_back].swapaxes(0, 1))

    def predict(self, features: Array, ensemble: bool) -> Array:
        """Return the details of features."""
        if self.details.ndim == 2:
            codes = sparse_encode(features, self.components, n_nonzero_coefs=self.n_nonzero, n_jobs=1)
            return np.asarray(codes @ self.details)
        anchors, weights = self._blend(features) if ensemble else self._nearest(features)
        n, d = features.shape
        # The map of an anchor is a block of rows of one tall matrix, and the features are coefficients of that block.
        columns = (anchors[:, :, None] * d + np.arange(d)).astype(np.int32)
        values = weights[:, :, None] * features[:, None, :]
        ends = np.arange(n + 1, dtype=np.int32) * columns[0].size
        blocks = csr_array((values.ravel(), columns.ravel(), ends), shape=(n, len(self.components) * d))
        return np.asarray(blocks @ self.details.reshape(-1, self.details.shape[2]))

    def _nearest(self, features: Array) -> tuple[Array, Array]:
        """Return the anchor of each row of features and its weight, both (n_samples, 1)."""
        codes = sparse_encode(features, self.components, n_nonzero_coefs=1, n_jobs=1)
        anchors = np.zeros((len(features), 1), np.int64)
        anchors[np.diff(codes.indptr) > 0, 0] = codes.indices  # a patch without features has no code
        return anchors, np.ones((len(features), 1), features.dtype)

    def _blend(self, features: Array) -> tuple[Array, Array]:
        """Return the best anchors of each row of features and their weights, both (n_samples, n_best)."""
        n, n_best = len(features), min(BLENDED, len(self.components))
        anchors = np.empty((n, n_best), np.int64)
        weights = np.empty((n, n_best), features.dtype)
        for start in range(0, n, CORRELATION_ROWS):
            some = slice(start, min(start + CORRELATION_ROWS, n))
            correlations = np.abs(product(features[some], self.components.T))
            rows = np.arange(len(correlations))
            for place in range(n_best):
                best = correlations.argmax(axis=1)
                anchors[some, place], weights[some, place] = best, correlations[rows, best]
                correlations[rows, best] = -1
        largest = weights[:, :1]
        weights = np.where(largest > 0, weights / np.where(largest > 0, largest, 1), 1) ** BLEND_POWER
        return anchors, weights / weights.sum(axis=1, keepdims=True)


def product(rows: Array, matrix: Array) -> Array:
    """Return rows @ matrix, so that a row of the result does not depend on the others.

    BLAS chooses its way of summing up by the size of the factors, so all its factors are of one size here.
    """
    out: Array = np.empty((len(rows), matrix.shape[1]), rows.dtype)
    whole = len(rows) // PRODUCT_ROWS * PRODUCT_ROWS
    given, result = (array[:whole].reshape(-1, PRODUCT_ROWS, array.shape[1]) for array in (rows, out))
    np.matmul(given, matrix, out=result)
    if whole < len(rows):
        last = np.zeros((PRODUCT_ROWS, rows.shape[1]), rows.dtype)
        last[: len(rows) - whole] = rows[whole:]
        out[whole:] = (last @ matrix)[: len(rows) - whole]
    return out


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


def predict_detail(
    model: Model,
    plane: Array,
    *,
    ensemble: bool,
    n_jobs: int,
    progress: Callable[[Iterable[Any], int], Iterable[Any]],
) -> Array:
    """Return the detail that interpolation of a small image misses, of the size of the large one."""
    geometry, s = model.geometry, model.geometry.scale
    padded = geometry.pad(plane - plane[0, 0])  # features do not see the level; without it, flat is exactly flat
    detail: Array = np.empty((plane.shape[0] * s, plane.shape[1] * s), plane.dtype)

    def work(tile: Tile) -> None:
        top, bottom, left, right = tile
        cells = tile_detail(model, padded, tile, ensemble)
        view = detail[top * s : bottom * s, left * s : right * s]
        view.reshape(bottom - top, s, right - left, s)[...] = cells.swapaxes(1, 2)

    stop = np.zeros(1, np.int32)
    parts = tiles((plane.shape[0], plane.shape[1]), n_jobs)
    with one_blas_thread():
        for _ in progress(in_order(work, parts, min(n_jobs, len(parts)), stop), len(parts)):
            pass
    return detail


def tile_detail(model: Model, padded: Array, tile: Tile, ensemble: bool) -> Array:
    """Return the detail of a tile, in cells: (rows, columns, scale, scale)."""
    geometry = model.geometry
    top, bottom, left, right = tile
    margin, half, p = 2 * geometry.radius, geometry.half, geometry.patch_size
    height, width = padded.shape[0] - margin, padded.shape[1] - margin
    above, below = max(0, top - half), min(height, bottom + half)
    before, after = max(0, left - half), min(width, right + half)
    near = padded[above : below + margin, before : after + margin]
    patches = _patches(model, near, ensemble).reshape(below - above, after - before, p * p, -1)
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
    """Return the cells from `first` to `last` that patches from `start` to `end`, shifted, reach, and those patches."""
    low, high = max(first, start + shift), min(last, end + shift)
    high = max(low, high)
    return slice(low - first, high - first), slice(low - shift - start, high - shift - start)


def _covers(first: int, last: int, n: int, half: int) -> Array:
    """Return how many patches along one axis lie over each cell."""
    places = np.arange(first, last)
    return (np.minimum(places + half, n - 1) - np.maximum(places - half, 0) + 1).astype(np.float32)


def _patches(model: Model, near: Array, ensemble: bool) -> Array:
    """Return the detail of every patch of a padded piece of an image, (n_patches, side ** 2), pixels by cells."""
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
    details = model.predict(features, ensemble)
    patches: Array = np.empty((order.size, geometry.side**2), near.dtype)
    for turn in range(N_TURNS):
        mine = slice(ends[turn], ends[turn + 1])
        patches[order[mine]] = product(details[mine], model.bases[turn])
    return patches


def back_project(detail: Array, plane: Array, n_iter: int) -> Array:
    """Return detail corrected, in place, so that the large image made small again is the small image.

    Each iteration adds the interpolated error of the small image (Irani and Peleg, 1991).
    """
    small, large = ((array.shape[0], array.shape[1]) for array in (plane, detail))
    if n_iter:
        error = plane - imresize(imresize(plane, shape=large), shape=small)
    for _ in range(n_iter):
        detail += imresize(error - imresize(detail, shape=small), shape=large)
    return detail
