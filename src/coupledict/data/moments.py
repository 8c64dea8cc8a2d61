"""Sums over pairs of features, from which means and covariances of incomplete samples are estimated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np

from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread

ROWS_AT_ONCE = 2048
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
