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

MOST_FEATURES_TOGETHER = 128  # systems of more equations are solved one by one
ROWS_TOGETHER = 128


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
        table = np.ascontiguousarray(table)  # the last bits of a product depend on the order in memory
        known = ~np.isnan(table)
        filled = np.where(known, table, self.mean)
        packed = np.packbits(known, axis=1)
        order = np.lexsort(packed.T[::-1])
        changes = np.any(packed[order[1:]] != packed[order[:-1]], axis=1)
        groups = np.split(order, np.flatnonzero(changes) + 1) if len(table) else []
        tasks = groups
        if table.shape[1] <= MOST_FEATURES_TOGETHER and len(groups) > len(table) / 2:  # most patterns occur once
            tasks = np.array_split(order, -(-len(table) // ROWS_TOGETHER))

        def fill(rows: npt.NDArray[np.int64]) -> None:
            have = known[rows]
            if tasks is not groups:
                filled[rows] = np.where(have, filled[rows], self._condition_each(filled[rows], have))
            elif have[0].any() and not have[0].all():
                filled[np.ix_(rows, ~have[0])] = self._condition(table[np.ix_(rows, have[0])], have[0])

        with one_blas_thread():
            for _ in in_order(fill, tasks, min(threads.count, max(len(tasks), 1)), threads.cancel):
                pass
        return filled

    def _condition_each(self, rows: Floats, have: npt.NDArray[np.bool_]) -> Floats:
        """Return the conditional mean of all entries of samples, each with known entries of its own.

        Equations of missing entries are replaced by those of the identity, so that all systems have the same size.
        """
        flags = have.astype(np.float64)
        systems = flags[:, :, None] * self.covariance * flags[:, None, :]
        places = np.arange(have.shape[1])
        systems[:, places, places] += 1 - flags
        weights = np.linalg.solve(systems, (flags * (rows - self.mean))[:, :, None])[:, :, 0]
        return np.asarray(self.mean + (flags * weights) @ self.covariance)

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
