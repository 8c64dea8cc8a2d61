"""Whitening of a view: it is centred and scaled, and its variances are made more equal.

Directions of large variance dominate cosines, though a direction of small variance may be the one that distinguishes
samples. Whitening divides every principal component by the root of ``variance + shrinkage * mean variance``: with a
large shrinkage this is nearly a common scale; without shrinkage all variances become 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..foundation.arrays import Array, Floats, read_rows
from ..foundation.mapped import rows_in_memory
from ..parallel.blas import one_blas_thread
from ._preprocessing import Kind, PreprocessingSums, SamplePreprocessing

BLOCK_ROWS = 4096
RANK_TOL = 1e-10  # variances below this share of the largest are rounding errors


def check_finite(view: Array, name: str, remedy: str = "") -> None:
    """Raise where a view holds NaN or infinity, naming the sample."""
    for start in range(0, view.shape[0], BLOCK_ROWS):
        bad = ~np.isfinite(rows_in_memory(view, start, start + BLOCK_ROWS)).all(axis=1)
        if bad.any():
            raise ValueError(
                f"Expected {name} to be finite, got NaN or infinity in sample {start + int(np.argmax(bad))}."
                f" Remove or impute such samples.{remedy}"
            )


def check_rows(view: Array, name: str) -> None:
    """Raise where a row of a view is neither finite nor NaN throughout, naming the sample."""
    for start in range(0, view.shape[0], BLOCK_ROWS):
        rows = rows_in_memory(view, start, start + BLOCK_ROWS)
        finite = np.isfinite(rows).all(axis=1)
        bad = ~finite & ~np.isnan(rows).all(axis=1)
        if bad.any():
            raise ValueError(
                f"Expected the rows of {name} to be finite, or NaN throughout for a sample that lacks the view, got"
                f" some NaN or infinity in sample {start + int(np.argmax(bad))}. Single missing entries can be filled"
                " in by the impute method of CoupledDictionaryLearning."
            )


def has_view(view: Array) -> npt.NDArray[np.bool_]:
    """Return which samples have a view; rows of samples that lack it are NaN."""
    return np.asarray(~np.isnan(view[:, 0])) if view.dtype.kind == "f" else np.ones(len(view), bool)


def present_rows(view: Array) -> Array:
    """Return the samples that have a view."""
    present = has_view(view)
    return view if present.all() else view[present]


def mean_energy(view: Array) -> float:
    """Return the mean squared norm of the samples that have a view."""
    rows = present_rows(view)
    return float(np.mean(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))) if len(rows) else 0.0


@dataclass(frozen=True)
class Whitening:
    """The map from a view to its whitened or scaled form, and back.

    Attributes
    ----------
    mean : array of shape (n_features,)
        Mean of the preprocessed samples.
    gains : array of shape (n_whitened,)
        Factors of the whitened features.
    axes : array of shape (n_axes, n_features), or None
        One axis per row; None if the view keeps its own axes, with one gain for all.
    rest : bool
        Whether the last whitened feature is the norm of what the axes do not explain; it is 0 for training samples.
    preprocessing : SamplePreprocessing
        Applied to each sample first.
    """

    mean: Floats
    gains: Floats
    axes: Floats | None
    rest: bool = False
    preprocessing: SamplePreprocessing = field(default_factory=SamplePreprocessing)

    @property
    def n_features(self) -> int:
        """Features of the view."""
        return int(self.mean.size)

    def preprocess(self, view: Array, start: int) -> Floats:
        """Return a block of samples, preprocessed and centred."""
        return np.asarray(self.preprocessing.apply(rows_of(view, start)) - self.mean)

    def preprocess_all(self, view: Array) -> Floats:
        """Return all samples of a view, preprocessed and centred."""
        return np.concatenate([self.preprocess(view, start) for start in range(0, max(len(view), 1), BLOCK_ROWS)])

    def apply(self, view: Array, dtype: np.dtype[Any]) -> Array:
        """Return a view whitened, in the given number type."""
        out: Array = np.empty((view.shape[0], self.gains.size), dtype)
        with one_blas_thread():
            for start in blocks(view.shape[0]):
                out[start : start + BLOCK_ROWS] = self._turned(self.preprocess(view, start)) * self.gains
        return out

    def _turned(self, rows: Floats) -> Floats:
        """Return preprocessed rows in the coordinates of the axes."""
        if self.axes is None:
            return rows
        turned = rows @ self.axes.T
        if not self.rest:
            return np.asarray(turned)
        beside = rows - turned @ self.axes
        return np.hstack([turned, np.sqrt(np.einsum("ij,ij->i", beside, beside))[:, None]])

    def undo(self, whitened: Array) -> Array:
        """Return samples in the units of the view; if they were preprocessed, with the typical mean and scale."""
        plain = whitened / self.gains
        if self.axes is not None:
            with one_blas_thread():
                plain = plain[:, : len(self.axes)] @ self.axes
        return np.asarray(self.preprocessing.undo(plain + self.mean), dtype=whitened.dtype)

    def tensors(self, view: int) -> dict[str, Array]:
        """Return all attributes that are arrays, for a file."""
        tensors = {f"mean.{view}": self.mean, f"gains.{view}": self.gains}
        if self.preprocessing.kind is not None:
            tensors[f"typical.{view}"] = np.array([self.preprocessing.level, self.preprocessing.scale])
        return tensors if self.axes is None else tensors | {f"axes.{view}": self.axes}

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, Array], view: int, *, turned: bool, rest: bool, kind: Kind
    ) -> Whitening:
        """Return the whitening whose arrays :meth:`tensors` returned; `turned` says that there are axes."""
        mean, gains = tensors[f"mean.{view}"], tensors[f"gains.{view}"]
        axes = tensors[f"axes.{view}"] if turned else None
        typical = np.array([0.0, 1.0]) if kind is None else tensors[f"typical.{view}"]
        fits = mean.ndim == gains.ndim == 1 and mean.size > 0 and np.all(gains > 0) and (turned or not rest)
        shape = (gains.size,) if axes is None else axes.shape
        expected = (mean.size,) if axes is None else (gains.size - rest, mean.size)
        if not fits or shape != expected or typical.shape != (2,) or not typical[1] > 0:
            raise ValueError(f"its whitening of view {view} contradicts itself")
        return cls(mean, gains, axes, rest, SamplePreprocessing(kind, float(typical[0]), float(typical[1])))


def fit_whitening(view: Array, shrinkage: float | None, kind: Kind = None) -> Whitening:
    """Learn the whitening of a finite view; with ``shrinkage=None`` it is centred and scaled to mean variance 1.

    Directions in which the samples do not vary are left out, so a view with more features than samples becomes
    narrower. Without whitening, the norm of what is left out is kept: nothing that depends on angles is lost.
    """
    n, width = view.shape
    preprocessing = fit_preprocessing(view, kind)
    sums = (preprocessing.apply(rows_of(view, start)).sum(axis=0) for start in blocks(n))
    mean = sum(sums, np.zeros(width)) / max(n, 1)
    plain = Whitening(mean, np.ones(width), None, preprocessing=preprocessing)
    if shrinkage is None:
        return _scaled(view, plain)
    with one_blas_thread():
        variances, axes = principal((plain.preprocess(view, start) for start in blocks(n)), n, width)
    kept = variances > RANK_TOL * variances.max(initial=0.0)
    if not kept.any():  # a constant view carries no information, but is allowed
        return plain
    variances, axes = variances[kept], axes[kept]
    return Whitening(
        mean, gains_of(variances, shrinkage, width), np.ascontiguousarray(axes), preprocessing=preprocessing
    )


def fit_preprocessing(view: Array, kind: Kind) -> SamplePreprocessing:
    """Learn the typical mean and scale of samples, if they are to be preprocessed."""
    if kind is None:
        return SamplePreprocessing()
    sums = PreprocessingSums(kind)
    for start in blocks(view.shape[0]):
        sums.add(rows_of(view, start))
    return sums.preprocessing()


def gains_of(variances: Floats, shrinkage: float | None, width: int) -> Floats:
    """Return the factors of principal components; with ``shrinkage=None``, one factor for mean variance 1."""
    mean = variances.sum() / width
    return np.asarray(1 / np.sqrt(np.full_like(variances, mean) if shrinkage is None else variances + shrinkage * mean))


def _scaled(view: Array, plain: Whitening) -> Whitening:
    """Return the map that scales a view as a whole, on axes spanning the samples if there are fewer than features."""
    n, width = view.shape
    energy = sum(float(np.sum(plain.preprocess(view, start) ** 2)) for start in blocks(n))
    gain = np.sqrt(n * width / energy) if energy > 0 else 1.0
    axes = _span(view, plain) if 0 < n < width and energy > 0 else None
    if axes is None:
        return Whitening(plain.mean, np.full(width, gain), None, preprocessing=plain.preprocessing)
    return Whitening(plain.mean, np.full(len(axes) + 1, gain), axes, True, plain.preprocessing)


def _span(view: Array, plain: Whitening) -> Floats | None:
    """Return orthogonal axes that span the samples of a view."""
    with one_blas_thread():
        return np.ascontiguousarray(scipy.linalg.qr(plain.preprocess_all(view).T, mode="economic")[0].T)


def blocks(n: int) -> range:
    """Return the starts of blocks of rows."""
    return range(0, n, BLOCK_ROWS)


def rows_of(view: Array, start: int) -> Array:
    """Return a block of rows in float64."""
    return read_rows(view, start, start + BLOCK_ROWS, np.dtype(np.float64))


def principal(parts: Iterable[Floats], n: int, width: int) -> tuple[Floats, Floats]:
    """Return variances in descending order and their axes, from the smaller of the two Gram matrices.

    The samples come in centred blocks.
    """
    if width <= n:
        covariance = sum((rows.T @ rows for rows in parts), np.zeros((width, width)))
        variances, columns = scipy.linalg.eigh(covariance / n)
        return np.clip(variances[::-1], 0, None), columns.T[::-1]
    centred = np.concatenate(list(parts))
    variances, columns = scipy.linalg.eigh(centred @ centred.T / n)
    variances, columns = np.clip(variances[::-1], 0, None), columns[:, ::-1]
    lengths = np.sqrt(variances * n)
    axes = (columns.T @ centred) / np.where(lengths > 0, lengths, 1.0)[:, None]
    return variances, axes
