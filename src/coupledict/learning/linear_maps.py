"""Linear maps from the coordinates of samples, and from further features of them, to targets: ridge regressions.

All of them follow from sums of products, which add up over blocks of samples. A penalty counts samples: it is that many
times the mean squared size of a coordinate, so that it means the same for few samples and for many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ..foundation.arrays import Floats

TINY = float(np.finfo(np.float64).tiny)


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
        self.n_samples = products.n_samples
        self._ff = ff
        self._fy = fy

    def shrink(self, penalty: float | Floats) -> Floats:
        """Return the inverse of the eigenvalues with a penalty added; for a column of penalties, one row for each."""
        return _inverse(self.values, penalty * self.unit)

    def solve(self, penalty: float) -> Floats:
        """Return the map from differences from the mean to those of the targets."""
        return np.asarray(self.vectors @ (self.shrink(penalty)[:, None] * self.turned))

    def further(self, columns: slice) -> Further:
        """Return features of the sums behind the coordinates."""
        width = self.width
        return Further(self.mean[columns], self._ff[:width, columns], self._ff[columns, columns], self._fy[columns])

    def errors(self, penalties: Sequence[float], t: Floats, y: Floats) -> Floats:
        """Return the squared errors of other samples, for each penalty; y may be the first few of the targets."""
        left = y - self.y_mean[: y.shape[1]]
        turned = (t - self.mean[: self.width]) @ self.vectors
        return path_errors(left, turned, self.turned[:, : y.shape[1]], self.shrink(np.array(penalties)[:, None]))


@dataclass(frozen=True)
class Further:
    """Further features of samples beside their coordinates: their means, and sums of products of what is centred.

    Attributes
    ----------
    mean : array of shape (n_further,)
    cross : array of shape (n_coordinates, n_further)
        With the coordinates.
    square : array of shape (n_further, n_further)
    targets : array of shape (n_further, n_targets)
    """

    mean: Floats
    cross: Floats
    square: Floats
    targets: Floats

    @classmethod
    def over(cls, features: Floats, t: Floats, y: Floats) -> Self:
        """Return those of samples whose coordinates and targets are centred."""
        mean = features.mean(axis=0)
        centred = features - mean
        return cls(mean, t.T @ centred, centred.T @ centred, centred.T @ y)


class Extended:
    """The ridge regression on coordinates and on further features, with a penalty for each of the two.

    The further features explain what the regression on the coordinates leaves (their Schur complement).

    Parameters
    ----------
    ridge : Ridge
    penalty : float
        Of the coordinates.
    further : Further
        Its targets are the first of those of `ridge`, or all.
    """

    def __init__(self, ridge: Ridge, penalty: float, further: Further) -> None:
        self._ridge = ridge
        cross = ridge.vectors.T @ further.cross
        shrunk = ridge.shrink(penalty)[:, None] * cross
        rest = further.square - cross.T @ shrunk
        values, vectors = np.linalg.eigh((rest + rest.T) / 2)
        self.values = np.maximum(values, 0)
        self.vectors = vectors
        left = further.targets - shrunk.T @ ridge.turned[:, : further.targets.shape[1]]
        self.turned = vectors.T @ left
        self.unit = _mean_size(self.values, ridge.n_samples)
        self.mean = further.mean
        #: How the regression on the coordinates explains the further features.
        self.explained = ridge.vectors @ shrunk

    def shrink(self, penalty: float | Floats) -> Floats:
        """Return the inverse of the eigenvalues with a penalty added; for a column of penalties, one row for each."""
        return _inverse(self.values, penalty * self.unit)

    def solve(self, penalty: float) -> Floats:
        """Return the map from what the coordinates do not explain of the further features to the targets."""
        return np.asarray(self.vectors @ (self.shrink(penalty)[:, None] * self.turned))

    def turn(self, t: Floats, features: Floats) -> Floats:
        """Return what the coordinates of samples do not explain of their further features, turned as `turned` is."""
        explained = (t - self._ridge.mean[: self._ridge.width]) @ self.explained
        return np.asarray((features - self.mean - explained) @ self.vectors)

    def errors(self, penalties: Sequence[float], turned: Floats, left: Floats) -> Floats:
        """Return the squared errors for each penalty, given :meth:`turn`, and what the coordinates leave of y."""
        return path_errors(left, turned, self.turned, self.shrink(np.array(penalties)[:, None]))


def path_errors(left: Floats, turned: Floats, gains: Floats, shrunk: Floats) -> Floats:
    """Return ``||left - turned @ (s[:, None] * gains)||^2`` for each row s of `shrunk`, as a quadratic form in s."""
    linear = np.einsum("ij,ij->i", turned.T @ left, gains)
    products = (turned.T @ turned) * (gains @ gains.T)
    squares = np.einsum("ij,ij->i", shrunk @ products, shrunk)
    return np.asarray(np.maximum(np.einsum("ij,ij->", left, left) - 2 * shrunk @ linear + squares, 0))


def _mean_size(values: Floats, n_samples: int) -> float:
    """Return the mean squared size of a coordinate, given the eigenvalues of sums over samples."""
    return float(values.mean()) / max(n_samples, 1) if values.size else 0.0


def _inverse(values: Floats, penalty: float | Floats) -> Floats:
    """Return 1 / (values + penalty); 0 where all values are 0. A penalty below rounding errors is raised to them."""
    least = np.maximum(penalty, np.finfo(np.float64).eps * float(values.max(initial=0)))
    return np.where(least > TINY, 1 / np.maximum(values + least, TINY), 0.0)
