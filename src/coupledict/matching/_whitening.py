"""Whitening of a view: it is centred and scaled, and its variances are made more alike.

Directions of large variance dominate cosines, though a direction of small variance may be the one that distinguishes
samples. Whitening divides every principal component by the root of ``variance + shrinkage * mean variance``: with a
large shrinkage that is nearly a common scale, with none all variances become 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..foundation.arrays import Array, Floats, read_rows
from ..parallel.blas import one_blas_thread

BLOCK_ROWS = 4096
RANK_TOL = 1e-10  # variances below this share of the largest are rounding errors


def check_finite(view: Array, name: str, remedy: str = "") -> None:
    """Raise where a view holds NaN or infinity, naming the sample."""
    for start in range(0, view.shape[0], BLOCK_ROWS):
        bad = ~np.isfinite(view[start : start + BLOCK_ROWS]).all(axis=1)
        if bad.any():
            raise ValueError(
                f"Expected {name} to be finite, got NaN or infinity in sample {start + int(np.argmax(bad))}."
                f" Remove or impute such samples.{remedy}"
            )


def check_rows(view: Array, name: str) -> None:
    """Raise where a row of a view is neither finite nor NaN throughout, naming the sample."""
    for start in range(0, view.shape[0], BLOCK_ROWS):
        rows = view[start : start + BLOCK_ROWS]
        finite = np.isfinite(rows).all(axis=1)
        bad = ~finite & ~np.isnan(rows).all(axis=1)
        if bad.any():
            raise ValueError(
                f"Expected the rows of {name} to be finite, or NaN throughout for a sample that lacks the view, got"
                f" some NaN or infinity in sample {start + int(np.argmax(bad))}. Single missing entries can be filled"
                " in by the impute method of CoupledDictionaryLearning."
            )


def has_view(view: Array) -> npt.NDArray[np.bool_]:
    """Return which samples have a view; the rows of the others are NaN."""
    return np.asarray(~np.isnan(view[:, 0])) if view.dtype.kind == "f" else np.ones(len(view), bool)


@dataclass(frozen=True)
class Whitening:
    """The map from a view to its whitened or scaled form, and back.

    `axes` holds one principal axis per row; None if the view keeps its own axes, with one gain for all.
    """

    mean: Floats
    gains: Floats
    axes: Floats | None

    @property
    def n_features(self) -> int:
        """Features of the view."""
        return int(self.mean.size)

    def apply(self, view: Array, dtype: np.dtype[Any]) -> Array:
        """Return a view whitened, in the given number type."""
        width = self.n_features if self.axes is None else self.axes.shape[0]
        out: Array = np.empty((view.shape[0], width), dtype)
        turn = None if self.axes is None else (self.axes * self.gains[:, None]).T
        with one_blas_thread():
            for start in range(0, view.shape[0], BLOCK_ROWS):
                rows = rows_of(view, start) - self.mean
                out[start : start + BLOCK_ROWS] = rows * self.gains if turn is None else rows @ turn
        return out

    def undo(self, whitened: Array) -> Array:
        """Return samples in the units of the view."""
        plain = whitened / self.gains
        with one_blas_thread():
            turned = plain if self.axes is None else plain @ self.axes
        return np.asarray(turned + self.mean, dtype=whitened.dtype)

    def tensors(self, view: int) -> dict[str, Array]:
        """Return all attributes as arrays, for a file."""
        tensors = {f"mean.{view}": self.mean, f"gains.{view}": self.gains}
        return tensors if self.axes is None else tensors | {f"axes.{view}": self.axes}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], view: int, *, turned: bool) -> Whitening:
        """Return the whitening of which :meth:`tensors` gave the arrays; `turned` says that there are axes."""
        mean, gains = tensors[f"mean.{view}"], tensors[f"gains.{view}"]
        axes = tensors[f"axes.{view}"] if turned else None
        fits = mean.ndim == gains.ndim == 1 and mean.size > 0 and np.all(gains > 0)
        shape = (gains.size,) if axes is None else axes.shape
        if not fits or shape != ((mean.size,) if axes is None else (gains.size, mean.size)):
            raise ValueError(f"its whitening of view {view} contradicts itself")
        return cls(mean, gains, axes)


def fit_whitening(view: Array, shrinkage: float | None) -> Whitening:
    """Learn the whitening of a finite view; with ``shrinkage=None`` it is centred and scaled to mean variance 1.

    Directions in which the samples do not vary are left out, so a view with more features than samples becomes
    narrower.
    """
    n, width = view.shape
    mean = sum((rows_of(view, start).sum(axis=0) for start in blocks(n)), np.zeros(width)) / max(n, 1)
    if shrinkage is None:
        variance = sum(float(np.sum((rows_of(view, start) - mean) ** 2)) for start in blocks(n)) / max(n * width, 1)
        return Whitening(mean, np.full(width, 1 / np.sqrt(variance) if variance > 0 else 1.0), None)
    with one_blas_thread():
        variances, axes = _principal(view, mean)
    kept = variances > RANK_TOL * variances.max(initial=0.0)
    if not kept.any():  # a constant view carries no information, but is allowed
        return Whitening(mean, np.ones(width), None)
    variances, axes = variances[kept], axes[kept]
    return Whitening(mean, 1 / np.sqrt(variances + shrinkage * variances.sum() / width), np.ascontiguousarray(axes))


def blocks(n: int) -> range:
    """Return where blocks of rows start."""
    return range(0, n, BLOCK_ROWS)


def rows_of(view: Array, start: int) -> Array:
    """Return a block of rows in float64."""
    return read_rows(view, start, start + BLOCK_ROWS, np.dtype(np.float64))


def _principal(view: Array, mean: Floats) -> tuple[Floats, Floats]:
    """Return variances in falling order and the axes they belong to, from the smaller of the two Gram matrices."""
    n, width = view.shape
    if width <= n:
        covariance = np.zeros((width, width))
        for start in blocks(n):
            rows = rows_of(view, start) - mean
            covariance += rows.T @ rows
        variances, columns = scipy.linalg.eigh(covariance / n)
        return np.clip(variances[::-1], 0, None), columns.T[::-1]
    centred = np.asarray(view, np.float64) - mean
    variances, columns = scipy.linalg.eigh(centred @ centred.T / n)
    variances, columns = np.clip(variances[::-1], 0, None), columns[:, ::-1]
    lengths = np.sqrt(variances * n)
    axes = (columns.T @ centred) / np.where(lengths > 0, lengths, 1.0)[:, None]
    return variances, axes
