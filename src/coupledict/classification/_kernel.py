"""From samples whose gaps are filled in to classes: ridge regression with a Gaussian kernel around some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg

from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ._heads import MOST_SHARPNESS, fit_head
from ._label_views import Numbers

MOST_LANDMARKS = 1000  # with a quarter of them, digits in six views lose half a point of accuracy
ROWS = 4096
RANK_TOL = 1e-8  # directions of the kernel matrix below this share of the largest are rounding errors


@dataclass(frozen=True)
class KernelHead:
    """A decision by likeness to landmarks: ``exp(-rate * ||x - landmark||^2) @ coef + intercept``.

    Attributes
    ----------
    landmarks : array of shape (n_landmarks, n_features)
        Training samples, as the head sees them.
    rate : float
        1 over the median squared distance of landmarks.
    coef : array of shape (n_landmarks, n_classes)
    intercept : array of shape (n_classes,)
    ridge_alpha : float
        The penalty.
    """

    landmarks: Floats
    rate: float
    coef: Floats
    intercept: Floats
    ridge_alpha: float

    def __call__(self, inputs: Floats) -> Floats:
        """Return the decisions for inputs (n_samples, n_features)."""
        out = np.empty((inputs.shape[0], self.intercept.size))
        with one_blas_thread():
            for start in range(0, inputs.shape[0], ROWS):
                alike = likeness(inputs[start : start + ROWS], self.landmarks, self.rate)
                out[start : start + ROWS] = alike @ self.coef + self.intercept
        return out


@dataclass(frozen=True)
class KernelRoute:
    """The way from samples with any views to decisions, and the sharpness of the probabilities."""

    head: KernelHead
    sharpness: float

    def tensors(self) -> dict[str, Array]:
        """Return all parts as arrays, for a file."""
        head = self.head
        numbers = np.array([head.rate, head.ridge_alpha, self.sharpness])
        parts = {"landmarks": head.landmarks, "coef": head.coef, "intercept": head.intercept, "numbers": numbers}
        return {f"kernel.{name}": array for name, array in parts.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], n_features: int, n_classes: int) -> KernelRoute:
        """Return the route of which :meth:`tensors` gave the arrays."""
        landmarks, coef, intercept, numbers = (
            tensors[f"kernel.{name}"] for name in ("landmarks", "coef", "intercept", "numbers")
        )
        n = landmarks.shape[0]
        shapes = (landmarks.shape, coef.shape, intercept.shape, numbers.shape)
        if n == 0 or shapes != ((n, n_features), (n, n_classes), (n_classes,), (3,)):
            raise ValueError("its head with a kernel does not fit its features")
        rate, ridge_alpha, sharpness = (float(number) for number in numbers)
        if not rate > 0 or not 0 < sharpness <= MOST_SHARPNESS:
            raise ValueError(f"its head with a kernel has a rate of {rate} and a sharpness of {sharpness}")
        return cls(KernelHead(landmarks, rate, coef, intercept, ridge_alpha), sharpness)


def likeness(left: Floats, right: Floats, rate: float) -> Floats:
    """Return the Gaussian kernel of each row of the one and each row of the other."""
    return np.asarray(np.exp(-rate * _squared_distances(left, right)))


def _squared_distances(left: Floats, right: Floats) -> Floats:
    lengths = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    return np.asarray(np.maximum(lengths - 2 * left @ right.T, 0))


def fit_kernel_head(
    inputs: Floats, targets: Floats, weights: Floats, ridge_alpha: float | Literal["auto"], y: Numbers
) -> tuple[KernelHead, Floats]:
    """Return the head, and its decision for each sample when left out of the regression.

    Landmarks are all samples, or `MOST_LANDMARKS` of them spread evenly over the classes (Nystroem's method). The
    penalty is chosen as :func:`fit_head` does.
    """
    order = np.argsort(y, kind="stable")
    n = min(inputs.shape[0], MOST_LANDMARKS)
    landmarks = inputs[np.sort(order[np.arange(n) * inputs.shape[0] // n])]
    with one_blas_thread():
        distances = _squared_distances(landmarks, landmarks)
        rate = 1 / (float(np.median(distances[~np.eye(n, dtype=bool)])) or 1.0) if n > 1 else 1.0
        energies, axes = scipy.linalg.eigh(np.exp(-rate * distances))
        kept = energies > RANK_TOL * energies[-1]
        turn = axes[:, kept] / np.sqrt(energies[kept])
        turned = likeness(inputs, landmarks, rate) @ turn
    head, left_out = fit_head(turned, targets, weights, ridge_alpha)
    return KernelHead(landmarks, rate, turn @ head.coef, head.intercept, head.ridge_alpha), left_out
