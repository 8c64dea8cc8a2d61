"""Means and covariances of the features: what is expected of missing entries, given the known ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import Threads
from ..parallel.ordered import in_order


@dataclass(frozen=True)
class Moments:
    """Means and covariances of the features, and how much they count when missing entries are filled in.

    Attributes
    ----------
    mean : array of shape (n_features,)
        The views are side by side.
    covariance : array of shape (n_features, n_features)
        Positive definite.
    shares : array of shape (n_views, 2)
        For each view, the factors of what codes say and of what these moments say.
    """

    mean: Floats
    covariance: Floats
    shares: Floats

    def expect(self, table: Array, threads: Threads | None = None) -> Floats:
        """Return samples with their missing entries, which are NaN, filled in by the conditional mean."""
        threads = Threads() if threads is None else threads
        known = ~np.isnan(table)
        filled = np.where(known, table, self.mean)
        packed = np.packbits(known, axis=1)
        order = np.lexsort(packed.T[::-1])
        changes = np.any(packed[order[1:]] != packed[order[:-1]], axis=1)
        groups = np.split(order, np.flatnonzero(changes) + 1) if len(table) else []

        def fill(rows: npt.NDArray[np.int64]) -> None:
            have = known[rows[0]]
            if have.any() and not have.all():
                filled[np.ix_(rows, ~have)] = self._condition(table[np.ix_(rows, have)], have)

        with one_blas_thread():
            for _ in in_order(fill, groups, min(threads.count, max(len(groups), 1)), threads.cancel):
                pass
        return filled

    def _condition(self, rows: Array, have: npt.NDArray[np.bool_]) -> Floats:
        """Return the conditional mean of what samples lack that all have the same entries."""
        cross = self.covariance[np.ix_(~have, have)]
        try:
            factor = scipy.linalg.cho_factor(self.covariance[np.ix_(have, have)], check_finite=False)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                "Expected covariances that are positive definite; the model contradicts itself."
            ) from error
        weights = scipy.linalg.cho_solve(factor, (rows - self.mean[have]).T, check_finite=False)
        return np.asarray(self.mean[~have] + (cross @ weights).T)
