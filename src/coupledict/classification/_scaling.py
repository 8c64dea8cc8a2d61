"""Preprocessing of features for coding: comparable scales, a constant coordinate, and samples of norm 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

import numpy as np

from ..foundation.arrays import Array, Floats

#: Preprocessing of features before they are coded; None for no preprocessing.
Preprocess: TypeAlias = Literal["auto", "standardize", "common", "unit"]

CONSTANT = 0.5  # the constant coordinate, for samples of root mean square norm 1
LEAST_CONSTANT = 0.1  # in a predicted sample of norm 1, where 0.45 is typical
UNEQUAL = 10.0  # a standard deviation this many times the median one means features of different kinds


@dataclass(frozen=True)
class Scaler:
    """The preprocessing of the features of one view.

    Codes depend only on directions: without the constant coordinate, a sample and its double would have the same atoms,
    and directions near the mean of standardised features would mean little. The head gets centred features, with a
    scale of their own.

    Attributes
    ----------
    shift, factor : arrays of shape (n_features,)
        Samples are coded as ``(X - shift) * factor``.
    constant : float
        The constant coordinate, if `extended`.
    extended, unit : bool
        Whether there is a constant coordinate, and whether samples are scaled to norm 1.
    center, gain : arrays of shape (n_features,)
        The head sees ``(X - center) * gain``, which has a mean squared norm of 1.
    energies : array of shape (width,)
        Mean square of each coordinate before samples are scaled to norm 1, relative to the largest: an estimate of how
        much missing entries contribute to the norm of a sample.
    """

    shift: Floats
    factor: Floats
    constant: float
    extended: bool
    unit: bool
    center: Floats
    gain: Floats
    energies: Floats

    @classmethod
    def of(cls, X: Array, preprocess: str | None, weights: Floats | None = None) -> Scaler:
        """Learn the preprocessing from samples, which may have weights; NaN is ignored."""
        n_features = X.shape[1]
        center, deviations = _moments(X, weights)
        largest = float(deviations.max(initial=0.0))
        # Features that are constant up to rounding do not count.
        alive = deviations > 1e-10 * np.maximum(np.abs(center), largest)
        middle = float(np.median(deviations[alive])) if alive.any() else 0.0
        standardize = preprocess == "standardize" or (preprocess == "auto" and largest > UNEQUAL * middle)
        own = np.divide(1.0, deviations, out=np.zeros(n_features), where=alive)
        if standardize:
            gain = own / np.sqrt(max(1.0, float(np.count_nonzero(alive))))
        else:
            gain = np.full(n_features, _inverse(float(np.sqrt(np.sum(deviations**2)))))
        shift, factor = np.zeros(n_features), np.ones(n_features)
        if standardize:
            shift, factor = center, gain
        elif preprocess in ("auto", "common"):
            factor = np.full(n_features, _inverse(float(np.sqrt(np.sum(deviations**2) + np.sum(center**2)))))
        extended = preprocess in ("auto", "standardize", "common")
        sizes = np.hypot(deviations * factor, (center - shift) * factor)
        sizes = np.append(sizes, CONSTANT) if extended else sizes
        energies = (sizes / (float(sizes.max(initial=0.0)) or 1.0)) ** 2
        return cls(shift, factor, CONSTANT, extended, preprocess is not None, center, gain, energies)

    @property
    def n_features(self) -> int:
        """Number of features of the samples as given."""
        return int(self.shift.size)

    @property
    def width(self) -> int:
        """Number of features of the samples as coded."""
        return self.n_features + self.extended

    def coded(self, X: Array) -> Array:
        """Return samples as they are coded; a missing entry stays NaN.

        A sample is divided by the norm that it would have if its missing entries were of the usual size, given the
        size of the known ones. A sample that lacks the view is NaN throughout.
        """
        dtype = np.result_type(X.dtype, np.float32)
        scaled = np.empty((X.shape[0], self.width), dtype)
        inner = scaled[:, : self.shift.size]
        np.subtract(X, self.shift.astype(dtype), out=inner)
        inner *= self.factor.astype(dtype)
        if self.extended:
            scaled[:, -1] = self.constant
        missing = np.isnan(scaled)
        if self.unit:
            known = np.where(missing, 0, scaled) if missing.any() else scaled
            norms = np.sqrt(np.einsum("ij,ij->i", known, known))
            if missing.any():
                seen = ~missing @ self.energies
                share = np.divide(self.energies.sum(), seen, out=np.ones_like(seen), where=seen > 0)
                norms *= np.sqrt(share).astype(dtype)
            scaled /= np.where(norms > 0, norms, 1)[:, None]
        if missing.any():
            scaled[missing[:, : self.shift.size].all(axis=1)] = np.nan
        return scaled

    def filled(self, X: Array, coded: Array) -> Array:
        """Return samples with their missing entries taken from coded samples that have none.

        Where a sample lacks the view, the constant coordinate gives its norm, or it gets the typical norm. A sample
        of which nothing is known, coded as zero, gets the mean.
        """
        missing = np.isnan(X)
        rows = np.flatnonzero(missing.any(axis=1))
        if not rows.size:
            return X
        samples = np.asarray(coded[rows], np.float64)
        norms = np.ones(rows.size)
        if self.extended:
            # The constant has a known average; a predicted one may be too small to divide by.
            norms = self.constant / np.maximum(samples[:, -1], LEAST_CONSTANT)
        elif self.unit:
            norms = np.full(rows.size, np.sqrt(np.sum(self.center**2) + np.max(1 / self.gain) ** 2))
        factor = np.where(self.factor == 0, np.inf, self.factor)
        plain = samples[:, : self.n_features] * norms[:, None] / factor + self.shift
        plain[~samples.any(axis=1)] = self.center
        out = X.copy()
        out[rows] = np.where(missing[rows], plain, X[rows])
        return out

    def features(self, X: Array) -> Floats:
        """Return samples as the head sees them."""
        return np.asarray((np.asarray(X, np.float64) - self.center) * self.gain)

    def tensors(self, view: int) -> dict[str, Array]:
        """Return all attributes as arrays, for a file."""
        return {
            f"scaling.{view}.{field.name}": np.asarray(getattr(self, field.name), np.float64) for field in fields(self)
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], view: int) -> Scaler:
        """Return the scaler whose arrays :meth:`tensors` returned."""
        kinds: dict[str, Any] = {"constant": float, "extended": bool, "unit": bool}
        arrays = {field.name: tensors[f"scaling.{view}.{field.name}"] for field in fields(cls)}
        scaler = cls(**{name: kinds.get(name, np.asarray)(array) for name, array in arrays.items()})
        n_features = scaler.shift.shape
        if any(part.shape != n_features or part.ndim != 1 for part in (scaler.factor, scaler.center, scaler.gain)):
            raise ValueError("its scaling does not fit its features")
        if scaler.energies.shape != (scaler.width,) or np.any(scaler.energies < 0):
            raise ValueError("its scaling does not fit its features")
        return scaler


def mean_energy(coded: Array) -> float:
    """Return the mean squared norm of the samples that have a view, over their known entries."""
    if not np.isnan(coded).any():
        return float(np.mean(np.einsum("ij,ij->i", coded, coded)))
    known = np.nan_to_num(coded[~np.isnan(coded).all(axis=1)])
    return float(np.mean(np.einsum("ij,ij->i", known, known)))


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else 1.0


def _moments(X: Array, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each feature; numbers too large to be squared are scaled down first.

    NaN is ignored; a feature without any number has mean and deviation 0.
    """
    missing = np.isnan(X)
    if missing.any():
        X = np.where(missing, 0, X)
    shares: Floats | float = 1.0 if weights is None or np.ptp(weights) == 0 else weights[:, None]
    counts = np.sum(~missing * shares, axis=0)
    counts = np.where(counts > 0, counts, 1)
    top = float(np.max(np.abs(X), initial=0.0))
    scale = top if top > 1e100 else 1.0
    small = np.ascontiguousarray(X, np.float64) / scale  # sums do not depend on the order in memory
    center = np.asarray((small * shares).sum(axis=0) / counts)
    small -= center
    small[missing] = 0
    return center * scale, np.asarray(np.sqrt(np.sum(small**2 * shares, axis=0) / counts)) * scale
