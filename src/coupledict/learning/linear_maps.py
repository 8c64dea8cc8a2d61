"""Linear maps from the coordinates of samples, and from further features of them, to targets: ridge regressions.

All of them follow from sums of products, which add up over blocks of samples. A penalty counts samples: it is that many
times the mean squared size of a coordinate, so that it means the same for few samples and for many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..foundation.arrays import Floats


@dataclass
class Products:
    """Sums of the products of features f and targets y, and of both alone; ``+=`` adds those of other samples."""

    n_samples: int
    f: Floats
    y: Floats
    ff: Floats
    fy: Floats
    yy: Floats

    @classmethod
    def over(cls, f: Floats, y: Floats) -> Self:
        """Return the sums over some samples."""
        return cls(len(f), f.sum(axis=0), y.sum(axis=0), f.T @ f, f.T @ y, np.einsum("ij,ij->j", y, y))

    def __iadd__(self, other: Products) -> Self:
        self.n_samples += other.n_samples
        self.f += other.f
        self.y += other.y
        self.ff += other.ff
        self.fy += other.fy
        self.yy += other.yy
        return self

    def centred(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the means of f and y, and the sums of products of their differences from them."""
        n = max(self.n_samples, 1)
        f = self.f / n
        y = self.y / n
        return f, y, self.ff - np.outer(self.f, f), self.fy - np.outer(self.f, y)


class Ridge:
    """The ridge regression of targets on the first features of sums, for any penalty.

    Parameters
    ----------
    products : Products
    width : int
        How many of the features count: the coordinates of the samples. Those behind them belong to :class:`Extended`.
    """

    def __init__(self, products: Products, width: int) -> None:
        self.mean, self.y_mean, ff, fy = products.centred()
        self.width = width
        values, vectors = np.linalg.eigh(ff[:width, :width])
        self.values = np.maximum(values, 0)
        self.vectors = vectors
        self.turned = vectors.T @ fy[:width]
        self.unit = _mean_size(self.values, products.n_samples)
        self.ff = ff
        self.fy = fy
        self.n_samples = products.n_samples

    def shrink(self, penalty: float) -> Floats:
        """Return the inverse of the eigenvalues with a penalty added."""
        return _inverse(self.values, penalty * self.unit)

    def solve(self, penalty: float) -> Floats:
        """Return the map from differences from the mean to those of the targets."""
        return np.asarray(self.vectors @ (self.shrink(penalty)[:, None] * self.turned))


class Extended:
    """The ridge regression on coordinates and on further features, with a penalty for each of the two.

    The further features explain what the regression on the coordinates leaves (their Schur complement).

    Parameters
    ----------
    ridge : Ridge
    penalty : float
        Of the coordinates.
    columns : slice
        The further features among those of the sums.
    """

    def __init__(self, ridge: Ridge, penalty: float, columns: slice) -> None:
        self._ridge = ridge
        width = ridge.width
        cross = ridge.vectors.T @ ridge.ff[:width, columns]
        shrunk = ridge.shrink(penalty)[:, None] * cross
        rest = ridge.ff[columns, columns] - cross.T @ shrunk
        values, vectors = np.linalg.eigh((rest + rest.T) / 2)
        self.values = np.maximum(values, 0)
        self.vectors = vectors
        self.turned = vectors.T @ (ridge.fy[columns] - shrunk.T @ ridge.turned)
        self.unit = _mean_size(self.values, ridge.n_samples)
        self.mean = ridge.mean[columns]
        #: How the regression on the coordinates explains the further features.
        self.explained = ridge.vectors @ shrunk

    def shrink(self, penalty: float) -> Floats:
        """Return the inverse of the eigenvalues with a penalty added."""
        return _inverse(self.values, penalty * self.unit)

    def solve(self, penalty: float) -> Floats:
        """Return the map from what the coordinates do not explain of the further features to the targets."""
        return np.asarray(self.vectors @ (self.shrink(penalty)[:, None] * self.turned))


def _mean_size(values: Floats, n_samples: int) -> float:
    """Return the mean squared size of a coordinate, given the eigenvalues of sums over samples."""
    return float(values.mean()) / max(n_samples, 1) if values.size else 0.0


def _inverse(values: Floats, penalty: float) -> Floats:
    """Return 1 / (values + penalty); 0 where all values are 0. A penalty below rounding errors is raised to them."""
    least = max(penalty, np.finfo(np.float64).eps * float(values.max(initial=0)))
    return np.asarray(1 / (values + least)) if least > np.finfo(np.float64).tiny else np.zeros_like(values)
