"""Means and covariances of the features of samples, and what they say about missing entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import Threads
from ..parallel.ordered import in_order

LEAST_VARIANCE = 1e-12  # of the mean over the features: less is rounding errors
PATTERNS_AT_ONCE = 64  # patterns of known entries that make up one task of a thread

Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Moments:
    """Means and covariances of the features; the views are side by side.

    Attributes
    ----------
    mean : array of shape (n_features,)
    covariance : array of shape (n_features, n_features)
        Positive definite.
    """

    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, samples: Floats, shrinkage: float) -> Self:
        """Return those of complete samples; correlations are drawn towards 0, by 1 to 0 itself."""
        mean = samples.mean(axis=0)
        differences = samples - mean
        variances = np.mean(np.square(differences), axis=0)
        typical = float(variances.mean()) or 1.0
        with one_blas_thread():
            covariance = (1 - shrinkage) / len(samples) * (differences.T @ differences)
        # A feature that does not vary is not correlated with any other, whatever its variance is said to be.
        np.fill_diagonal(covariance, np.where(variances > LEAST_VARIANCE * typical, variances, typical))
        return cls(mean, covariance)

    @cached_property
    def precision(self) -> Floats:
        """The inverse of the covariances."""
        with one_blas_thread():
            factor, failed = scipy.linalg.lapack.dpotrf(self.covariance, lower=True)
            if failed:
                raise ValueError("Expected covariances that are positive definite; the model contradicts itself.")
            inverse = scipy.linalg.lapack.dpotri(factor, lower=True)[0]
        return np.asarray(np.tril(inverse) + np.tril(inverse, -1).T)

    def expect(self, table: Array, threads: Threads | None = None) -> Floats:
        """Return samples with their missing entries, which are NaN, filled in by the conditional mean.

        With the precision P, the covariances S and the differences x from the mean, this is
        ``-inv(P_mm) P_mk x_k`` or ``S_mk inv(S_kk) x_k`` for missing entries m and known ones k. The smaller of the
        two systems is solved. Features that no sample knows are in neither of them.
        """
        table = np.ascontiguousarray(table, np.float64)  # the last bits of a product depend on the order in memory
        seen = np.flatnonzero(~np.isnan(table).all(axis=0))
        if len(seen) == table.shape[1]:
            return self._fill(table, Threads() if threads is None else threads)
        filled = np.tile(self.mean, (len(table), 1))
        if seen.size:
            own = Moments(self.mean[seen], self.covariance[np.ix_(seen, seen)])
            rest = np.setdiff1d(np.arange(table.shape[1]), seen)
            filled[:, seen] = own.expect(table[:, seen], threads)
            with one_blas_thread():
                weights = own.precision @ self.covariance[np.ix_(seen, rest)]
                filled[:, rest] += (filled[:, seen] - own.mean) @ weights
        return filled

    def _fill(self, table: Floats, threads: Threads) -> Floats:
        """Return samples without missing entries; each feature is known to one of them."""
        known = ~np.isnan(table)
        filled = np.where(known, table - self.mean, 0.0)
        groups = _same_entries(known)
        tasks = [groups[start : start + PATTERNS_AT_ONCE] for start in range(0, len(groups), PATTERNS_AT_ONCE)]
        precision = self.precision

        def work(task: list[Rows]) -> None:
            slopes = np.split(filled[np.concatenate(task)] @ -precision, np.cumsum([len(rows) for rows in task])[:-1])
            for rows, slope in zip(task, slopes, strict=True):
                have = np.flatnonzero(known[rows[0]])
                lack = np.flatnonzero(~known[rows[0]])
                if len(lack) <= len(have):
                    found = _solve(precision[lack[:, None], lack], slope[:, lack].T)
                else:
                    weights = _solve(self.covariance[have[:, None], have], filled[rows[:, None], have].T)
                    found = self.covariance[lack[:, None], have] @ weights
                filled[rows[:, None], lack] = found.T

        with one_blas_thread():
            for _ in in_order(work, tasks, max(1, min(threads.count, len(tasks))), threads.cancel):
                pass
        return np.where(known, table, filled + self.mean)


def _same_entries(known: npt.NDArray[np.bool_]) -> list[Rows]:
    """Return groups of samples that lack the same entries; those that lack none, or all, are left out."""
    rows = np.flatnonzero(known.any(axis=1) & ~known.all(axis=1))
    if not rows.size:
        return []
    packed = np.packbits(known[rows], axis=1)
    order = np.lexsort(packed.T[::-1])
    changes = np.any(packed[order[1:]] != packed[order[:-1]], axis=1)
    return np.split(rows[order], np.flatnonzero(changes) + 1)


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Return the solution of equations with a positive definite matrix, which is overwritten."""
    _, found, failed = scipy.linalg.lapack.dposv(matrix.T, right, overwrite_a=True)  # .T is what LAPACK need not copy
    if failed:
        raise ValueError("Expected covariances that are positive definite; the model contradicts itself.")
    return np.asarray(found)
