"""A view brought to common ground: centred, scaled, and its variances made more alike.

Cosines compare directions, and directions of large variance drown the others, though a rare direction may be just the
one that tells samples apart. Whitening divides every principal component by ``sqrt(variance + alpha * mean variance)``:
with a large alpha that is nearly a common scale, with alpha = 0 all variances become 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from .._passes import one_blas_thread
from .._views import Array, read_rows

BLOCK_ROWS = 4096
RANK_TOL = 1e-10  # a share of the largest variance below this is rounding


def check_finite(view: Array, name: str) -> None:
    """Raise where a view holds NaN or infinity, naming the sample."""
    for start in range(0, view.shape[0], BLOCK_ROWS):
        bad = ~np.isfinite(view[start : start + BLOCK_ROWS]).all(axis=1)
        if bad.any():
            raise ValueError(
                f"Expected {name} to be finite, got NaN or infinity in sample {start + int(np.argmax(bad))}."
                " Remove or impute such samples."
            )


@dataclass(frozen=True)
class Whitening:
    """The way from a view to its whitened or scaled form, and back.

    `axes` holds one principal axis a row; None where the view keeps its own axes and all gains are one.
    """

    mean: npt.NDArray[np.float64]
    gains: npt.NDArray[np.float64]
    axes: npt.NDArray[np.float64] | None

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
                rows = read_rows(view, start, start + BLOCK_ROWS, np.dtype(np.float64)) - self.mean
                out[start : start + BLOCK_ROWS] = rows * self.gains if turn is None else rows @ turn
        return out

    def undo(self, whitened: Array) -> Array:
        """Return samples in the units of the view."""
        plain = whitened / self.gains
        with one_blas_thread():
            turned = plain if self.axes is None else plain @ self.axes
        return np.asarray(turned + self.mean, dtype=whitened.dtype)


def fit_whitening(view: Array, alpha: float | None) -> Whitening:
    """Learn the whitening of a finite view; with ``alpha=None`` the view is centred and scaled to mean variance 1.

    Directions in which the samples do not vary are left out, so that a view of many features and few samples shrinks.
    """
    n, width = view.shape
    mean = sum(
        (read_rows(view, start, start + BLOCK_ROWS, np.dtype(np.float64)).sum(axis=0) for start in blocks(n)),
        np.zeros(width),
    )
    mean = mean / max(n, 1)
    if alpha is None:
        variance = sum(float(np.sum((rows_of(view, start) - mean) ** 2)) for start in blocks(n)) / max(n * width, 1)
        return Whitening(mean, np.full(width, 1 / np.sqrt(variance) if variance > 0 else 1.0), None)
    with one_blas_thread():
        variances, axes = _principal(view, mean)
    kept = variances > RANK_TOL * variances.max(initial=0.0)
    if not kept.any():  # a constant view says nothing, but it may be there
        return Whitening(mean, np.ones(width), None)
    variances, axes = variances[kept], axes[kept]
    return Whitening(mean, 1 / np.sqrt(variances + alpha * variances.sum() / width), np.ascontiguousarray(axes))


def blocks(n: int) -> range:
    """Return where blocks of rows start."""
    return range(0, n, BLOCK_ROWS)


def rows_of(view: Array, start: int) -> Array:
    """Return a block of rows in float64."""
    return read_rows(view, start, start + BLOCK_ROWS, np.dtype(np.float64))


def _principal(view: Array, mean: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
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
