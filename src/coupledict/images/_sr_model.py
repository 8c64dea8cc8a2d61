"""A super-resolution model: its arrays, and the prediction of detail from the features of patches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import csr_array

from ..coding.coders import PreparedCoder
from ..coding.rule import CodingRule
from ..files.state import check_range
from ..foundation.arrays import Array
from ._sr_geometry import N_TURNS, Geometry

PRODUCT_ROWS = (64, 8)  # rows per matrix product, tested in this order
TESTED_ROWS = 16
CORRELATION_ROWS = 512  # patches whose correlations with all anchors are held at once
BLENDED = 3  # anchors that predict a patch together in an ensemble
BLEND_POWER = 20  # weights of anchors are this power of their correlations
LARGEST_VALUE = 1e10  # largest value accepted from a file; all tensors are of the order of 1


@dataclass(frozen=True)
class Model:
    """A fitted model.

    `projection` (window ** 2, n_features) maps turned windows to features; `basis` (n_details, side ** 2) maps details
    to turned patches. `details` is a dictionary (n_components, n_details), to be multiplied by the codes of the
    features over `components`, or one linear map per component (n_components, n_features, n_details).
    """

    geometry: Geometry
    projection: Array
    basis: Array
    components: Array
    details: Array

    @property
    def anchored(self) -> bool:
        """Whether each atom has a linear map of its own."""
        return self.details.ndim == 3

    @cached_property
    def projections(self) -> Array:
        """Projections of windows that are not turned yet, one for each turn."""
        return self.projection[self.geometry.turned_back(self.geometry.window)]

    @cached_property
    def bases(self) -> Array:
        """Bases of patches that are turned back, one for each turn; pixels in the order of cells."""
        turned_back = self.geometry.turned_back(self.geometry.side)[:, self.geometry.cells]
        return np.ascontiguousarray(self.basis[:, turned_back].swapaxes(0, 1))

    def tensors(self) -> dict[str, Array]:
        """Return the arrays by their names in a file."""
        return {name: getattr(self, name) for name in ("projection", "basis", "components", "details")}

    @classmethod
    def from_tensors(cls, geometry: Geometry, tensors: Mapping[str, Array], *, anchored: bool) -> Self:
        """Return the model of the arrays of a file; raise if they do not fit each other."""
        check_range(tensors, LARGEST_VALUE)
        components, projection, basis = (tensors[name] for name in ("components", "projection", "basis"))
        n_components, n_features, n_details = components.shape[0], projection.shape[1], basis.shape[0]
        expected = {
            "projection": (geometry.window**2, n_features),
            "basis": (n_details, geometry.side**2),
            "components": (n_components, n_features),
            "details": (n_components, n_features, n_details) if anchored else (n_components, n_details),
        }
        for name, shape in expected.items():
            array = tensors[name]
            if array.shape != shape or not np.isfinite(array).all() or array.dtype != np.float32 or array.size == 0:
                raise ValueError(f"its tensor {name!r} does not fit the others")
        return cls(geometry, projection, basis, components, tensors["details"])


class DetailPredictor:
    """Predicts the details of patches from their features; one object serves a whole picture and all its threads.

    Parameters
    ----------
    model : Model
    n_nonzero : int
        Atoms in the code of a patch; an anchored model always uses one.
    n_patches : int
        About how many patches there will be.
    ensemble : bool
        Whether the predictions of the nearest anchors are averaged.
    n_jobs : int
        Threads that prepare the coder.
    """

    n_layers = 1

    def __init__(
        self, model: Model, *, n_nonzero: int, n_patches: int, ensemble: bool = False, n_jobs: int = 1
    ) -> None:
        self.model = model
        self._ensemble = ensemble
        rule = CodingRule(n_nonzero=1 if model.anchored else n_nonzero)
        self._coder = PreparedCoder([model.components], rule, model.components.dtype, n_patches, n_jobs=n_jobs)

    @property
    def geometry(self) -> Geometry:
        """The geometry of the patches."""
        return self.model.geometry

    def pad(self, plane: Array) -> Array:
        """Return the small image padded as in resizing."""
        return self.geometry.pad(plane)

    def patches(self, piece: Array) -> Array:
        """Return the detail of every patch of a padded piece of an image, (n_patches, side ** 2), in order of cells."""
        model, geometry = self.model, self.geometry
        turns = geometry.turns(piece).ravel()
        order = np.argsort(turns, kind="stable")
        ends = np.searchsorted(turns[order], np.arange(N_TURNS + 1))
        windows = sliding_window_view(piece, (geometry.window, geometry.window))
        i, j = np.divmod(order, windows.shape[1])
        flat = windows[i, j].reshape(order.size, -1)
        features: Array = np.empty((order.size, model.projection.shape[1]), piece.dtype)
        for turn in range(N_TURNS):
            group = slice(ends[turn], ends[turn + 1])
            features[group] = product(flat[group], model.projections[turn])
        details = self.predict(features)
        patches: Array = np.empty((order.size, geometry.side**2), piece.dtype)
        for turn in range(N_TURNS):
            group = slice(ends[turn], ends[turn + 1])
            patches[order[group]] = product(details[group], model.bases[turn])
        return patches

    def predict(self, features: Array) -> Array:
        """Return the details of features, one patch per row."""
        details = self.model.details
        if not self.model.anchored:
            return np.asarray(self._coder.encode([features]) @ details)
        anchors, weights = self._blend(features) if self._ensemble else self._nearest(features)
        return apply_maps(features, anchors, weights, details.reshape(-1, details.shape[2]))

    def _nearest(self, features: Array) -> tuple[Array, Array]:
        """Return the anchor of each row of features and its weight, both (n_samples, 1)."""
        codes = self._coder.encode([features])
        anchors = np.zeros((len(features), 1), np.int64)
        anchors[np.diff(codes.indptr) > 0, 0] = codes.indices  # patches whose features are all 0 have no code
        return anchors, np.ones((len(features), 1), features.dtype)

    def _blend(self, features: Array) -> tuple[Array, Array]:
        """Return the best anchors of each row of features and their weights, both (n_samples, n_best)."""
        components = self.model.components
        n, n_best = len(features), min(BLENDED, len(components))
        anchors = np.empty((n, n_best), np.int64)
        weights = np.empty((n, n_best), features.dtype)
        for start in range(0, n, CORRELATION_ROWS):
            some = slice(start, min(start + CORRELATION_ROWS, n))
            correlations = np.abs(product(features[some], components.T))
            rows = np.arange(len(correlations))
            for place in range(n_best):
                best = correlations.argmax(axis=1)
                anchors[some, place], weights[some, place] = best, correlations[rows, best]
                correlations[rows, best] = -1
        largest = weights[:, :1]
        weights = np.where(largest > 0, weights / np.where(largest > 0, largest, 1), 1) ** BLEND_POWER
        return anchors, weights / weights.sum(axis=1, keepdims=True)


def apply_maps(features: Array, anchors: Array, weights: Array, maps: Array) -> Array:
    """Return the weighted sum of what the maps of some anchors make of each row of features.

    `anchors` and `weights` are of shape (n_samples, n_anchors_per_sample); `maps` holds the maps of all anchors, one
    below the other.
    """
    n, d = features.shape
    # The map of an anchor is a block of rows of `maps`, and the features are the coefficients of that block.
    columns = (anchors[:, :, None] * d + np.arange(d)).astype(np.int32)
    values = weights[:, :, None] * features[:, None, :]
    ends = np.arange(n + 1, dtype=np.int32) * (anchors.shape[1] * d)
    blocks = csr_array((values.ravel(), columns.ravel(), ends), shape=(n, len(maps)))
    return np.asarray(blocks @ maps)


def product(rows: Array, matrix: Array) -> Array:
    """Return rows @ matrix, such that a row of the result depends neither on other rows nor on its position.

    BLAS chooses the order of summation by the size of the factors, so all products here have the same size.
    """
    size = _block_rows(matrix.shape[0], matrix.shape[1], bool(matrix.flags.c_contiguous), rows.dtype)
    out: Array = np.empty((len(rows), matrix.shape[1]), rows.dtype)
    whole = len(rows) // size * size
    given, result = (array[:whole].reshape(-1, size, array.shape[1]) for array in (rows, out))
    np.matmul(given, matrix, out=result)
    if whole < len(rows):
        last = np.zeros((size, rows.shape[1]), rows.dtype)
        last[: len(rows) - whole] = rows[whole:]
        out[whole:] = (last @ matrix)[: len(rows) - whole]
    return out


@lru_cache(maxsize=256)
def _block_rows(n_inner: int, n_outer: int, c_contiguous: bool, dtype: np.dtype[Any]) -> int:
    """Return the largest number of rows of a product for which BLAS treats all rows alike.

    Some BLAS kernels, such as those for AVX2, sum the last rows of a block in another order than the first.
    """
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((n_inner, n_outer)).astype(dtype, order="C" if c_contiguous else "F")
    samples = rng.standard_normal((TESTED_ROWS, 1, n_inner)).astype(dtype)
    for size in PRODUCT_ROWS:
        found = np.matmul(np.ascontiguousarray(samples.repeat(size, axis=1)), matrix)
        if np.array_equal(found, found[:, :1].repeat(size, axis=1)):
            return size
    return 1
