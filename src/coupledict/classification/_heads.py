"""From codes to classes: a ridge regression on the label indicators, its penalty found by leaving each sample out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from .._passes import one_blas_thread

Float: TypeAlias = npt.NDArray[np.float64]

ALPHAS = 10.0 ** np.arange(-4.0, 4.0)  # relative to the mean squared column


@dataclass(frozen=True)
class Head:
    """A linear decision: ``inputs @ coef + intercept``, one column a class."""

    coef: Float
    intercept: Float
    alpha: float

    def __call__(self, inputs: Float) -> Float:
        """Return the decisions for inputs (n_samples, n_inputs)."""
        with one_blas_thread():
            return np.asarray(inputs @ self.coef + self.intercept)


def fit_head(inputs: Float, targets: Float, weights: Float, alpha: float | str) -> tuple[Head, Float]:
    """Return the weighted ridge regression of targets on inputs, and its decision for each sample when left out.

    The intercept is not penalised. With ``alpha="auto"`` the penalty is the one of `ALPHAS` with the smallest squared
    error of samples that are left out, which the hat matrix tells without a second fit.
    """
    total = float(weights.sum())
    roots = np.sqrt(weights)[:, None]
    with one_blas_thread():
        center, mean = weights @ inputs / total, weights @ targets / total
        X, Y = (inputs - center) * roots, (targets - mean) * roots
        coef, chosen, fitted, leverage = _best(X, Y) if isinstance(alpha, str) else _solve(X, Y, alpha)
        # The weight of the mean is part of how much a sample decides about itself.
        leverage = np.minimum(leverage + weights / total, 1 - 1e-6)
        positive = weights > 0
        left_out = targets.astype(np.float64)
        left_out[positive] -= ((Y - fitted) / (roots * (1 - leverage)[:, None] + ~positive[:, None]))[positive]
        head = Head(coef, mean - center @ coef, float(chosen))
        left_out[~positive] = head(inputs[~positive])
    return head, left_out


def _solve(X: Float, Y: Float, alpha: float) -> tuple[Float, float, Float, Float]:
    """Return coefficients, penalty, fitted values and leverages."""
    n, n_inputs = X.shape
    gram = X.T @ X if n_inputs <= n else X @ X.T
    penalty = alpha * float(np.trace(gram)) / n_inputs
    shifted = gram + penalty * np.eye(gram.shape[0])
    if penalty > 0:
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(shifted), np.eye(gram.shape[0]))
    else:
        inverse = scipy.linalg.pinvh(shifted)
    if n_inputs <= n:
        coef, leverage = inverse @ (X.T @ Y), np.einsum("ij,ij->i", X @ inverse, X)
    else:
        coef, leverage = X.T @ (inverse @ Y), np.einsum("ij,ij->i", gram, inverse)
    return coef, alpha, X @ coef, leverage


def _best(X: Float, Y: Float) -> tuple[Float, float, Float, Float]:
    """Return coefficients, penalty, fitted values and leverages for the best penalty."""
    n, n_inputs = X.shape
    # The axes of the smaller of the two Gram matrices: a few samples of many features are as cheap as the opposite.
    if n_inputs <= n:
        energies, axes = scipy.linalg.eigh(X.T @ X)
    else:
        energies, sides = scipy.linalg.eigh(X @ X.T)
        kept = energies > 1e-12 * max(float(energies[-1]), 0.0)
        energies = energies[kept]
        axes = X.T @ (sides[:, kept] / np.sqrt(energies))
    energies = np.maximum(energies, 0)
    unit = float(energies.sum()) / n_inputs or 1.0
    turned = X @ axes
    products, squares = turned.T @ Y, turned**2
    best: tuple[float, Float, float, Float, Float] | None = None
    for alpha in ALPHAS:
        inverse = 1 / (energies + alpha * unit)
        solved = inverse[:, None] * products
        fitted, leverage = turned @ solved, squares @ inverse
        error = float(np.sum(((Y - fitted) / np.maximum(1 - leverage, 1e-6)[:, None]) ** 2))
        if best is None or error < best[0]:
            best = error, axes @ solved, float(alpha), fitted, leverage
    assert best is not None
    return best[1:]


def fit_sharpness(decisions: Float, targets: Float, weights: Float) -> float:
    """Return the factor that makes ``softmax(factor * decisions)`` the likeliest for the targets.

    Targets are drawn towards equal ones by as much as one more sample of each class would, as Platt (1999) does: where
    every decision is right, the likeliest factor would have no end.
    """
    n, n_classes = float(weights.sum()), targets.shape[1]
    targets = (targets * targets.shape[0] + 1) / (targets.shape[0] + n_classes)

    def loss(exponent: float) -> float:
        return -float(np.sum(weights[:, None] * targets * log_softmax(decisions * np.exp(exponent), axis=1))) / n

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 6.0), method="bounded").x))
