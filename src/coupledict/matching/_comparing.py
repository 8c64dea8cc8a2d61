"""Comparison of queries with a gallery, block by block: similarities, rankings and their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..foundation.mapped import rows_in_memory
from ..foundation.progress import Callback, Meter
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import count_jobs
from ..parallel.ordered import in_order
from ._fitted import Comparison, FittedMatcher
from ._ranking import Indices, average_precisions, best_with_values, mean_defined, merge, partner_ranks


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
    comparison : Comparison
    n_jobs : int or None
    """

    fitted: FittedMatcher
    queries: dict[int, Array]
    gallery: Array
    target: int
    comparison: Comparison
    n_jobs: int | None

    def similarities(self, callback: Callback | None) -> Array:
        """Return the similarity of each query to each sample of the gallery."""
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
        """Return the indices of the n best matches (all if None) for each query, and their similarities."""
        left, n_gallery = self._left(), self.gallery.shape[0]
        ranking = Ranking(left, n_gallery if n is None else min(n, n_gallery), self.n_jobs)
        meter = Meter(callback, "matching", n_gallery)
        for start, right in self._blocks(left.dtype):
            ranking.add([(start, right)])
            meter.advance(right.shape[0])
        return ranking.found()

    def vectors(self, dtype: np.dtype[Any], callback: Callback | None) -> Array:
        """Return the vectors of the whole gallery."""
        out: Array | None = None
        meter = Meter(callback, "indexing", self.gallery.shape[0])
        for start, right in self._blocks(dtype):
            if out is None:
                out = np.empty((self.gallery.shape[0], right.shape[1]), dtype)
            out[start : start + right.shape[0]] = right
            meter.advance(right.shape[0])
        return np.empty((0, 0), dtype) if out is None else out

    def rating(self, labels: tuple[Array, Array] | None, partners: Indices | None = None) -> float:
        """Return the mean average precision by labels of queries and gallery, or the mean reciprocal rank of partners.

        Without labels, a query and the gallery sample of the same index are partners, unless the partners
        of the queries are given.
        """
        left = self._left()
        right = np.concatenate([block for _, block in self._blocks(left.dtype)])

        def rate(rows: slice) -> Array:
            similarities = left[rows] @ right.T
            if labels is None:
                number = np.arange(rows.start, rows.start + similarities.shape[0])
                return np.asarray(1 / partner_ranks(similarities, number if partners is None else partners[number]))
            return average_precisions(similarities, labels[0][rows, None] == labels[1])

        return mean_defined(np.concatenate(self._over_queries(rate, left.shape[0])))

    def _left(self) -> Array:
        """Return vectors of the queries."""
        dtype = self.fitted.dtype_with(*self.queries.values(), self.gallery)
        return self.fitted.vectors(self.queries, self.comparison, self.target, self.n_jobs).astype(dtype, copy=False)

    def _blocks(self, dtype: np.dtype[Any]) -> Iterator[tuple[int, Array]]:
        """Yield the start of each block of the gallery, and its vectors."""
        step = SIZES.gallery_rows
        for start in range(0, self.gallery.shape[0], step):
            block = rows_in_memory(self.gallery, start, start + step)
            vectors = self.fitted.vectors({self.target: block}, self.comparison, self.target, self.n_jobs)
            yield start, vectors.astype(dtype, copy=False)

    def _over_queries(self, function: Callable[[slice], Any], n_queries: int) -> list[Any]:
        """Apply a function to each block of queries, with `n_jobs` threads in all, matrix products included."""
        with one_blas_thread():
            return list(in_order(function, blocks_of_queries(n_queries), count_jobs(self.n_jobs)))


def blocks_of_queries(n: int) -> list[slice]:
    """Return queries in blocks."""
    step = SIZES.query_rows
    return [slice(start, start + step) for start in range(0, n, step)]


class Ranking:
    """The best of a gallery for each query, found block by block.

    Parameters
    ----------
    left : array of shape (n_queries, n_entries)
        Vectors of the queries.
    n : int
        How many to find, at most the samples of the gallery.
    n_jobs : int or None
    """

    def __init__(self, left: Array, n: int, n_jobs: int | None) -> None:
        self._left = left
        self._n = n
        self._n_jobs = n_jobs
        self._queries = blocks_of_queries(left.shape[0])
        self._found: list[list[tuple[Indices, Array]]] = [[] for _ in self._queries]

    def add(self, blocks: Sequence[tuple[int, Array]]) -> None:
        """Add further blocks of the gallery, in order: the start of each, and its vectors."""
        tasks = [(number, start, right) for number in range(len(self._queries)) for start, right in blocks]

        def search(task: tuple[int, int, Array]) -> tuple[Indices, Array]:
            number, start, right = task
            return best_with_values(self._left[self._queries[number]] @ right.T, self._n, start)

        with one_blas_thread():
            for (number, _, _), found in zip(tasks, in_order(search, tasks, count_jobs(self._n_jobs)), strict=True):
                known = self._found[number]
                known.append(found)
                if len(known) >= SIZES.ranked_parts:
                    self._found[number] = [merge(known, self._n)]

    def found(self) -> tuple[Indices, Array]:
        """Return indices and similarities, the best first."""
        parts = [merge(known, self._n) for known in self._found if known]
        if not parts:  # no queries, or an empty gallery
            shape = self._left.shape[0], self._n
            return np.empty(shape, np.int64), np.empty(shape, self._left.dtype)
        return np.concatenate([indices for indices, _ in parts]), np.concatenate([values for _, values in parts])
