"""Means and covariances of the features of incomplete samples: the sums they follow from, and what they predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..coding.samples import Samples
from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import Threads
from ..parallel.ordered import in_order
from .jobs import Resources, SumJob

ROWS_AT_ONCE = 2048
MOST_FEATURES_TOGETHER = 128  # systems of more equations are solved one by one
ROWS_TOGETHER = 128
#: From samples with the views side by side, and NaN for missing entries, to samples without any.
Fill: TypeAlias = Callable[[Array], Floats]


@dataclass
class MomentSums:
    """Sums over the samples that know both features of a pair; the views are side by side.

    Attributes
    ----------
    counts : array of shape (n_features, n_features)
        Number of these samples.
    firsts : array of shape (n_features, n_features)
        Sum of the first feature over them.
    products : array of shape (n_features, n_features)
        Sum of the product of both.
    """

    counts: Floats
    firsts: Floats
    products: Floats

    @classmethod
    def over(cls, views: Sequence[Array], fill: Fill | None = None) -> MomentSums:
        """Return the sums over some samples; NaN stands for a missing entry, which `fill` fills in first."""
        if fill is not None:
            views = [fill(np.hstack(views))]
        width = sum(view.shape[1] for view in views)
        total = cls(*(np.zeros((width, width)) for _ in range(3)))
        for start in range(0, views[0].shape[0], ROWS_AT_ONCE):
            table = np.hstack([np.asarray(view[start : start + ROWS_AT_ONCE], np.float64) for view in views])
            known = ~np.isnan(table)
            table[~known] = 0
            flags = known.astype(np.float64)
            with one_blas_thread():
                total.counts += flags.T @ flags
                total.firsts += table.T @ flags
                total.products += table.T @ table
        return total

    def __iadd__(self, other: MomentSums) -> Self:
        """Add the sums over other samples."""
        self.counts += other.counts
        self.firsts += other.firsts
        self.products += other.products
        return self

    def __sub__(self, other: MomentSums) -> MomentSums:
        """Return the sums without those over some of the samples."""
        return MomentSums(self.counts - other.counts, self.firsts - other.firsts, self.products - other.products)

    def estimate(self) -> tuple[Floats, Floats]:
        """Return the mean of each feature, and the covariance of each pair over the samples that know both.

        Features that no sample knows have mean 0, and pairs that none knows covariance 0.
        """
        own = np.diag(self.counts)
        mean = np.diag(self.firsts) / np.where(own > 0, own, 1)
        cross = mean[:, None] * self.firsts.T
        sums = self.products - cross - cross.T + np.outer(mean, mean) * self.counts
        return mean, sums / np.where(self.counts > 0, self.counts, 1)


@dataclass(frozen=True)
class SumMoments(SumJob[MomentSums]):
    """Adds up the products of all pairs of features; `fill` fills in missing entries first."""

    fill: Fill | None = None

    def do(self, samples: Samples, resources: Resources) -> MomentSums:
        """Return the sums of a block."""
        return MomentSums.over(samples.read(0, len(samples)), self.fill)


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
