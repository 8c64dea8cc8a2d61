"""Local linear maps: one for each anchor, weighted by how near a sample is to it.

A sample ``t`` is assigned to its nearest anchors with weights ``g_k(t)`` of sum 1, proportional to the exponential of
its correlation with them. The prediction of a target is ``sum_k g_k(t) W_k u(t)``, where ``u`` has a constant and the
leading coordinates of ``t``. Each map is a ridge regression with the weights of its anchor,

    W_k = argmin sum_i g_ik ||y_i - W u_i||^2 + lam * trace(W A W^T),    A = mean of u u^T over all samples,

so that `lam` counts samples that say "zero", spread as all samples are. There are two kinds of anchors. *Lines* take
the absolute correlation and maps without a constant: a sample and its multiples, of any sign, have the same weights,
which suits patches. *Points* add a constant coordinate to samples and anchors, so that distances count: clouds of
points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array, Floats

Kind: TypeAlias = Literal["lines", "points"]

KINDS: tuple[Kind, ...] = ("lines", "points")
NEAREST = 16  # anchors that a sample belongs to
FEW_ANCHORS = 2 * NEAREST
STEEPNESS = 8.0  # of the weights, as functions of the correlation
LLOYD_STEPS = 3
JITTER = 1e-6  # of the mean eigenvalue, where coordinates are constant


@dataclass(frozen=True)
class Anchors:
    """Anchors and the weights of samples at them.

    Attributes
    ----------
    kind : "lines" or "points"
    directions : array of shape (n_anchors, n_coordinates)
        Of norm 1; for points, with the constant coordinate.
    constants : array of shape (n_anchors,)
        The constant coordinate of each; 0 for lines.
    radius : float
        The constant coordinate of samples, before they are brought to norm 1; 0 for lines.
    """

    kind: Kind
    directions: Array
    constants: Array
    radius: float

    @classmethod
    def lines(cls, atoms: Floats) -> Self:
        """Return the lines through atoms."""
        return cls("lines", _unit(atoms), np.zeros(len(atoms)), 0.0)

    @classmethod
    def points(cls, samples: Floats, count: int, rng: np.random.Generator) -> Self:
        """Return `count` points that represent samples, by a few steps of spherical k-means."""
        radius = float(np.sqrt(np.mean(np.einsum("ij,ij->i", samples, samples)))) or 1.0
        table = _unit(np.hstack([samples, np.full((len(samples), 1), radius)]))
        centres = table[rng.permutation(len(table))[:count]]
        for _ in range(LLOYD_STEPS):
            nearest = np.argmax(table @ centres.T, axis=1)
            order = np.argsort(nearest, kind="stable")
            used, starts = np.unique(nearest[order], return_index=True)
            centres = centres.copy()
            centres[used] = _unit(np.add.reduceat(table[order], starts))
        return cls("points", centres[:, :-1], centres[:, -1], radius)

    def __len__(self) -> int:
        return len(self.directions)

    def astype(self, dtype: np.dtype[Any]) -> Anchors:
        """Return the same anchors in another number type."""
        directions = np.ascontiguousarray(self.directions, dtype)
        return Anchors(self.kind, directions, np.asarray(self.constants, dtype), self.radius)

    def correlations(self, t: Array) -> Array:
        """Return the correlation of samples with all anchors, from 0 to 1 for lines, from -1 to 1 for points."""
        found = t @ self.directions.T
        squares = np.einsum("ij,ij->i", t, t)
        if self.kind == "points":
            found += t.dtype.type(self.radius) * self.constants
            squares += t.dtype.type(self.radius) ** 2
        else:
            np.abs(found, out=found)
        norms = np.sqrt(squares)
        found /= np.where(norms > 0, norms, 1)[:, None]
        return found

    def weigh(self, correlations: Array) -> Membership:
        """Return the nearest anchors of samples and their weights."""
        n, n_anchors = correlations.shape
        count = min(NEAREST, n_anchors)
        if count < n_anchors:
            nearest = np.argpartition(correlations, n_anchors - count, axis=1)[:, n_anchors - count :]
        else:
            nearest = np.broadcast_to(np.arange(n_anchors), (n, n_anchors))
        weights = np.exp(STEEPNESS * (np.take_along_axis(correlations, nearest, axis=1) - 1))
        weights /= weights.sum(axis=1, keepdims=True)
        return Membership.of(nearest, weights, n_anchors)


@dataclass(frozen=True)
class Membership:
    """Which samples belong to each anchor, and their weights, ordered by anchor.

    Where there are few anchors, most samples belong to many of them: then `table` has the weights of all samples at all
    anchors, and one matrix product does what otherwise takes one for each anchor.
    """

    samples: npt.NDArray[np.int64]
    weights: Array
    starts: npt.NDArray[np.int64]
    table: Array | None

    @classmethod
    def of(cls, nearest: npt.NDArray[np.int64], weights: Array, n_anchors: int) -> Self:
        """Order the anchors of samples, one row each, by anchor."""
        table = None
        if n_anchors <= FEW_ANCHORS:
            table = np.zeros((len(nearest), n_anchors), weights.dtype)
            np.put_along_axis(table, nearest, weights, axis=1)
        flat = nearest.ravel()
        order = np.argsort(flat, kind="stable")
        starts = np.searchsorted(flat[order], np.arange(n_anchors + 1))
        return cls(order // nearest.shape[1], weights.ravel()[order], starts, table)

    def __iter__(self) -> Iterator[tuple[int, npt.NDArray[np.int64], Array]]:
        """Yield each anchor that has samples, these samples and their weights."""
        for k in range(len(self.starts) - 1):
            start, stop = self.starts[k], self.starts[k + 1]
            if stop > start:
                yield k, self.samples[start:stop], self.weights[start:stop, None]

    def spread(self, u: Array) -> Array | None:
        """Return ``g_k u`` of all samples and anchors, side by side; None where there are too many anchors."""
        if self.table is None:
            return None
        return np.asarray((self.table.astype(u.dtype)[:, :, None] * u[:, None, :]).reshape(len(u), -1))

    def apply(self, maps: Array, u: Array, out: Array) -> None:
        """Add ``sum_k g_k W_k u`` of all samples to `out`; `maps` has shape (n_anchors, u.shape[1], out.shape[1])."""
        spread = self.spread(u)
        if spread is not None:
            out += spread @ maps.reshape(-1, maps.shape[2])
            return
        for k, rows, weights in self:
            out[rows] += (u[rows] * weights.astype(u.dtype)) @ maps[k]


@dataclass
class LocalSums:
    """Sums over samples, for each anchor: ``A_k = sum g u u^T`` and ``B_k = sum g u y^T``; ``+=`` adds others."""

    n_samples: int
    a: Floats
    b: Floats

    @classmethod
    def over(cls, u: Floats, y: Floats, membership: Membership) -> Self:
        """Return the sums over some samples; their products are computed in float32, which takes half the time."""
        n_anchors = len(membership.starts) - 1
        spread = membership.spread(u)
        if spread is not None:
            a, b = (
                np.asarray(spread.T @ table, np.float64).reshape(n_anchors, u.shape[1], table.shape[1])
                for table in (u, y)
            )
            return cls(len(u), a, b)
        a = np.zeros((n_anchors, u.shape[1], u.shape[1]))
        b = np.zeros((n_anchors, u.shape[1], y.shape[1]))
        u_unit, y_unit = (float(np.abs(table).max(initial=0)) or 1.0 for table in (u, y))
        single, targets = (u / u_unit).astype(np.float32), (y / y_unit).astype(np.float32)
        for k, rows, weights in membership:
            own = single[rows]
            weighted = own * weights.astype(np.float32)
            a[k] = own.T @ weighted
            b[k] = weighted.T @ targets[rows]
        a *= u_unit * u_unit
        b *= u_unit * y_unit
        return cls(len(u), a, b)

    def __iadd__(self, other: LocalSums) -> Self:
        self.n_samples += other.n_samples
        self.a += other.a
        self.b += other.b
        return self

    def solve(self, rank: int, lam: float, columns: slice = slice(None)) -> Floats:
        """Return the maps from the first `rank` coordinates to these columns of y."""
        a = self.a[:, :rank, :rank]
        mean = a.sum(axis=0) / max(self.n_samples, 1)
        mean += max(JITTER * np.trace(mean) / rank, np.finfo(np.float64).tiny) * np.eye(rank)
        return np.asarray(np.linalg.solve(a + lam * mean, self.b[:, :rank, columns]))


def _unit(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1))
