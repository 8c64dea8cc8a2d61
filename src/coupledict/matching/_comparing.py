"""Compare queries with a gallery, block by block: similarities, rankings and their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..foundation.arrays import Array
from ..foundation.progress import Callback, Meter
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import count_jobs
from ..parallel.ordered import in_order
from ._fitted import Comparison, FittedMatcher
from ._ranking import Indices, average_precisions, mean_defined, merge, partner_ranks

GALLERY_BLOCK = 4096
QUERY_BLOCK = 1024


@dataclass(frozen=True)
class Sides:
    """Queries and a gallery.

    In every kind of comparison, the similarity of two samples is the inner product of two vectors made from them.

    Attributes
    ----------
    fitted : FittedMatcher
    queries : dict of int to array
        Views of the queries, by number.
    gallery : array of shape (n_gallery, n_features_target)
    target : int
        Number of the gallery's view.
    where : Comparison
    n_jobs : int or None
    """

    fitted: FittedMatcher
    queries: dict[int, Array]
    gallery: Array
    target: int
    where: Comparison
    n_jobs: int | None

    def similarities(self, callback: Callback | None) -> Array:
        """Return the similarity of each query and each sample of the gallery."""
        left = self._left()
        table: Array = np.empty((left.shape[0], self.gallery.shape[0]), left.dtype)

        def compare(rows: slice, *, start: int, right: Array) -> None:
            table[rows, start : start + right.shape[0]] = left[rows] @ right.T

        meter = Meter(callback, "comparing", self.gallery.shape[0])
        for start, right in self._blocks(left.dtype):
            self._over_queries(partial(compare, start=start, right=right), left.shape[0])
            meter.advance(right.shape[0])
        return table

    def best(self, n: int | None, callback: Callback | None) -> tuple[Indices, Array]:
        """Return the indices of the n best of the gallery (None: of all) for each query, and their similarities."""
        left, n_gallery = self._left(), self.gallery.shape[0]
        most = n_gallery if n is None else min(n, n_gallery)
        indices: Indices = np.empty((left.shape[0], most), np.int64)
        values: Array = np.empty((left.shape[0], most), left.dtype)

        def rank(rows: slice, *, start: int, right: Array) -> None:
            known = indices[rows, : min(most, start)], values[rows, : min(most, start)]
            size = min(most, start + right.shape[0])
            indices[rows, :size], values[rows, :size] = merge(*known, left[rows] @ right.T, start, most)

        meter = Meter(callback, "matching", n_gallery)
        for start, right in self._blocks(left.dtype):
            self._over_queries(partial(rank, start=start, right=right), left.shape[0])
            meter.advance(right.shape[0])
        return indices, values

    def rating(self, labels: tuple[Array, Array] | None) -> float:
        """Return the mean average precision by labels of queries and gallery, or the mean reciprocal rank of partners.

        Without labels, a query and the sample of the gallery with the same number are partners.
        """
        left = self._left()
        right = np.concatenate([block for _, block in self._blocks(left.dtype)])

        def rate(rows: slice) -> Array:
            similarities = left[rows] @ right.T
            if labels is None:
                partners = np.arange(rows.start, rows.start + similarities.shape[0])
                return np.asarray(1 / partner_ranks(similarities, partners))
            return average_precisions(similarities, labels[0][rows, None] == labels[1])

        return mean_defined(np.concatenate(self._over_queries(rate, left.shape[0])))

    def _left(self) -> Array:
        """Return vectors of the queries."""
        dtype = self.fitted.dtype_with(*self.queries.values(), self.gallery)
        return self.fitted.vectors(self.queries, self.where, self.target, self.n_jobs).astype(dtype, copy=False)

    def _blocks(self, dtype: np.dtype[Any]) -> Iterator[tuple[int, Array]]:
        """Yield where a block of the gallery starts, and its vectors."""
        for start in range(0, self.gallery.shape[0], GALLERY_BLOCK):
            block = self.gallery[start : start + GALLERY_BLOCK]
            vectors = self.fitted.vectors({self.target: block}, self.where, self.target, self.n_jobs)
            yield start, vectors.astype(dtype, copy=False)

    def _over_queries(self, function: Callable[[slice], Any], n_queries: int) -> list[Any]:
        """Apply a function to each block of queries, with `n_jobs` threads in all, matrix products included."""
        blocks = [slice(start, start + QUERY_BLOCK) for start in range(0, n_queries, QUERY_BLOCK)]
        with one_blas_thread():
            return list(in_order(function, blocks, count_jobs(self.n_jobs)))
