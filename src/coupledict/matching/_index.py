"""A gallery that is prepared once and searched many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..foundation.checks import check_count
from ..foundation.views import ViewLike, ViewsLike
from ..parallel.blas import one_blas_thread
from ._comparing import Ranking
from ._fitted import Comparison, FittedMatcher
from ._ranking import Indices


class CheckedQueries(Protocol):
    """Checks queries and returns their views by number."""

    def __call__(self, queries: Any) -> dict[int, Array]: ...


@dataclass(frozen=True, eq=False, repr=False)
class GalleryIndex:
    """Vectors of a gallery, made once, for many searches; :meth:`CrossModalMatcher.index` makes it.

    The similarity of a query to a sample of the gallery is the inner product of two vectors. The index keeps those of
    the gallery, in float32, so that a search is a matrix product and a selection of the best, without ranking the rest.
    It does not change if its matcher is fitted again.

    Parameters
    ----------
    fitted, vectors, comparison, target, check, n_jobs
        Given by :meth:`CrossModalMatcher.index`.

    Attributes
    ----------
    vectors : array of shape (n_gallery, n_entries)
        One per sample of the gallery.
    n_gallery : int
        Samples of the gallery; also ``len(index)``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from coupledict.matching import CrossModalMatcher
    >>> X = load_digits().data
    >>> left, right = X.reshape(-1, 8, 8)[:, :, :4].reshape(-1, 32), X.reshape(-1, 8, 8)[:, :, 4:].reshape(-1, 32)
    >>> matcher = CrossModalMatcher(n_dictionaries=1, random_state=0).fit([left[:300], right[:300]])
    >>> index = matcher.index(right[300:1300], source=0, target=1)
    >>> index.match(left[300:305], n_matches=3).shape
    (5, 3)
    """

    fitted: FittedMatcher
    vectors: Array
    comparison: Comparison
    target: int
    check: CheckedQueries
    n_jobs: int | None

    def __len__(self) -> int:
        return self.n_gallery

    def __repr__(self) -> str:
        return f"GalleryIndex({self.n_gallery} samples, {self.vectors.shape[1]} entries)"

    @property
    def n_gallery(self) -> int:
        """Samples of the gallery."""
        return int(self.vectors.shape[0])

    def match(
        self, queries: ViewLike | ViewsLike, *, n_matches: int | None = 10, return_similarity: bool = False
    ) -> Indices | tuple[Indices, Array]:
        """Return the best matches in the gallery for each query.

        Parameters
        ----------
        queries : array of shape (n_queries, n_features_source), or several
            As in :meth:`CrossModalMatcher.match`, in the view that the index was made for.
        n_matches : int, default=10
            How many; all if None, or if the gallery has fewer.
        return_similarity : bool, default=False
            Return the similarities as well.

        Returns
        -------
        array, or two arrays
            What :meth:`CrossModalMatcher.match` returns; similarities are in float32.
        """
        most = self.n_gallery if n_matches is None else min(check_count(n_matches, "n_matches"), self.n_gallery)
        ranking = Ranking(self._left(queries), most, self.n_jobs)
        step = SIZES.gallery_rows
        ranking.add([(start, self.vectors[start : start + step]) for start in range(0, self.n_gallery, step)])
        indices, similarities = ranking.found()
        return (indices, similarities) if return_similarity else indices

    def similarity(self, queries: ViewLike | ViewsLike) -> Array:
        """Return the similarity of each query to each sample of the gallery, in float32.

        Parameters
        ----------
        queries : array of shape (n_queries, n_features_source), or several
            As in :meth:`match`.

        Returns
        -------
        array of shape (n_queries, n_gallery)
        """
        with one_blas_thread():
            left = self._left(queries)
            if not self.n_gallery:
                return np.empty((len(left), 0), np.float32)
            return np.asarray(left @ self.vectors.T)

    def _left(self, queries: ViewLike | ViewsLike) -> Array:
        """Return vectors of the queries."""
        found = self.fitted.vectors(self.check(queries), self.comparison, self.target, self.n_jobs)
        return found.astype(self.vectors.dtype, copy=False)
