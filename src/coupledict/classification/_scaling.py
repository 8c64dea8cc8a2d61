"""Features made fit for coding: brought to comparable sizes, given a constant coordinate, and to norm 1."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._base import check_choice
from .._views import Array

Float: TypeAlias = npt.NDArray[np.float64]

CONSTANT = 0.5  # of the constant coordinate, the root mean square norm of the samples being 1
UNEQUAL = 10.0  # standard deviations this many times the median one are no longer those of one kind of feature
PREPROCESS = ("auto", "standardize", "common", "unit")


@dataclass(frozen=True)
class Scaler:
    """What is done to the features of one view.

    Codes depend on directions only: without the constant coordinate a sample and its double have the same atoms, and
    around the mean of standardised features directions say little. The head sees features centred, in its own units.

    Attributes
    ----------
    shift, factor : arrays of shape (n_features,)
        Samples are coded as ``(X - shift) * factor``.
    constant : float
        The constant coordinate, if `extended`.
    extended, unit : bool
        Whether there is a constant coordinate, and whether samples are brought to norm 1.
    center, gain : arrays of shape (n_features,)
        The head sees ``(X - center) * gain``, which has a mean squared norm of 1.
    """

    shift: Float
    factor: Float
    constant: float
    extended: bool
    unit: bool
    center: Float
    gain: Float

    @classmethod
    def of(cls, X: Array, preprocess: str | None) -> Scaler:
        """Learn from samples what is to be done."""
        n_features = X.shape[1]
        center, spread = _moments(X)
        largest = float(spread.max(initial=0.0))
        # A feature that is constant but for rounding stays out of the way.
        alive = spread > 1e-10 * np.maximum(np.abs(center), largest)
        middle = float(np.median(spread[alive])) if alive.any() else 0.0
        standardize = preprocess == "standardize" or (preprocess == "auto" and largest > UNEQUAL * middle)
        own = np.divide(1.0, spread, out=np.zeros(n_features), where=alive)
        if standardize:
            gain = own / np.sqrt(max(1.0, float(np.count_nonzero(alive))))
        else:
            gain = np.full(n_features, _inverse(float(np.sqrt(np.sum(spread**2)))))
        shift, factor = np.zeros(n_features), np.ones(n_features)
        if standardize:
            shift, factor = center, gain
        elif preprocess in ("auto", "common"):
            factor = np.full(n_features, _inverse(float(np.sqrt(np.sum(spread**2) + np.sum(center**2)))))
        extended = preprocess in ("auto", "standardize", "common")
        return cls(shift, factor, CONSTANT, extended, preprocess is not None, center, gain)

    @property
    def width(self) -> int:
        """Features of the samples as they are coded."""
        return self.shift.size + self.extended

    def coded(self, X: Array) -> Array:
        """Return samples as they are coded."""
        dtype = np.result_type(X.dtype, np.float32)
        scaled = np.empty((X.shape[0], self.width), dtype)
        inner = scaled[:, : self.shift.size]
        np.subtract(X, self.shift.astype(dtype), out=inner)
        inner *= self.factor.astype(dtype)
        if self.extended:
            scaled[:, -1] = self.constant
        if self.unit:
            norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
            scaled /= np.where(norms > 0, norms, 1)[:, None]
        return scaled

    def features(self, X: Array) -> Float:
        """Return samples as the head sees them."""
        return np.asarray((np.asarray(X, np.float64) - self.center) * self.gain)

    def as_arrays(self) -> dict[str, Array]:
        """Return everything there is to know, as arrays."""
        return {field.name: np.asarray(getattr(self, field.name), np.float64) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Scaler:
        """Return what :meth:`as_arrays` took apart."""
        kinds: dict[str, Any] = {"constant": float, "extended": bool, "unit": bool}
        known = {name: kinds.get(name, np.asarray)(array) for name, array in arrays.items()}
        scaler = cls(**known)
        n_features = scaler.shift.shape
        if any(part.shape != n_features or part.ndim != 1 for part in (scaler.factor, scaler.center, scaler.gain)):
            raise ValueError("its scaling does not fit its features")
        return scaler


def check_preprocess(preprocess: object) -> None:
    """Raise unless `preprocess` is one of the ways or None."""
    if preprocess is not None:
        check_choice(preprocess, "preprocess", PREPROCESS)


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else 1.0


def _moments(X: Array) -> tuple[Float, Float]:
    """Return mean and standard deviation of each feature; numbers too large to be squared are scaled down first."""
    top = float(np.max(np.abs(X), initial=0.0))
    scale = top if top > 1e100 else 1.0
    small = np.asarray(X, np.float64) / scale
    center = np.asarray(small.mean(axis=0))
    small -= center
    return center * scale, np.asarray(np.sqrt(np.mean(small**2, axis=0))) * scale
