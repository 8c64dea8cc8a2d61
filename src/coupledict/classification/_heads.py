"""From codes to classes: a ridge regression on the label indicators, with a penalty chosen by leave-one-out errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from ..foundation.arrays import Floats
from ..parallel.blas import one_blas_thread

MOST_SHARPNESS = 1e6  # fits give at most exp(6)
ALPHAS = 10.0 ** np.arange(-4.0, 4.0)  # relative to the mean squared column


@dataclass(frozen=True)
class Head:
    """A linear decision: ``inputs @ coef + intercept``, one column per class; `ridge_alpha` is its penalty."""

    coef: Floats
    intercept: Floats
    ridge_alpha: float

    def __call__(self, inputs: Floats) -> Floats:
        """Return the decisions for inputs (n_samples, n_inputs)."""
        with one_blas_thread():
            return np.asarray(inputs @ self.coef + self.intercept)


@dataclass(frozen=True)
class Route:
    """The way from one set of views to decisions: one head per dictionary, and the sharpness of the probabilities."""

    heads: list[Head]
    sharpness: float

    def decide(self, inputs: Iterable[Floats]) -> Floats:
        """Return the mean decision of the heads, each of which has inputs of its own."""
        return np.asarray(np.mean([head(own) for head, own in zip(self.heads, inputs, strict=True)], axis=0))


def fit_head(
    inputs: Floats, targets: Floats, weights: Floats, ridge_alpha: float | Literal["auto"]
) -> tuple[Head, Floats]:
    """Return the weighted ridge regression of targets on inputs, and its decision for each sample when left out.

    The intercept is not penalised. With ``ridge_alpha="auto"`` the penalty is the one of `ALPHAS` with the smallest
    leave-one-out squared error, which the hat matrix gives without further fits.
    """
    total = float(weights.sum())
    roots = np.sqrt(weights)[:, None]
    with one_blas_thread():
        center, mean = weights @ inputs / total, weights @ targets / total
        X, Y = (inputs - center) * roots, (targets - mean) * roots
        # A sample also contributes to the weighted mean, which is part of its leverage.
        share = weights / total
        solved = _best(X, Y, share) if isinstance(ridge_alpha, str) else _solve(X, Y, ridge_alpha)
        coef, chosen, fitted, leverage = solved
        leverage = np.minimum(leverage + share, 1 - 1e-6)
        positive = weights > 0
        left_out = targets.astype(np.float64)
        left_out[positive] -= ((Y - fitted) / (roots * (1 - leverage)[:, None] + ~positive[:, None]))[positive]
        head = Head(coef, mean - center @ coef, float(chosen))
        left_out[~positive] = head(inputs[~positive])
    return head, left_out


def _solve(X: Floats, Y: Floats, alpha: float) -> tuple[Floats, float, Floats, Floats]:
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


def _best(X: Floats, Y: Floats, share: Floats) -> tuple[Floats, float, Floats, Floats]:
    """Return coefficients, penalty, fitted values and leverages for the best penalty.

    `share` is the leverage of each sample on the mean. Without it, the error of a fit through all samples would seem 0.
    """
    n, n_inputs = X.shape
    # Take the axes of the smaller Gram matrix: few samples with many inputs are then as cheap as the opposite.
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
    best: tuple[float, Floats, float, Floats, Floats] | None = None
    for alpha in ALPHAS:
        inverse = 1 / (energies + alpha * unit)
        solved = inverse[:, None] * products
        fitted, leverage = turned @ solved, squares @ inverse
        error = float(np.sum(((Y - fitted) / np.maximum(1 - leverage - share, 1e-6)[:, None]) ** 2))
        if best is None or error < best[0]:
            best = error, axes @ solved, float(alpha), fitted, leverage
    assert best is not None
    return best[1:]


def fit_sharpness(decisions: Floats, targets: Floats, weights: Floats) -> float:
    """Return the factor for which ``softmax(factor * decisions)`` gives the targets the largest likelihood.

    Targets are smoothed towards equal ones as if each class had one more sample, as Platt (1999) does: if every
    decision is right, the best factor would otherwise be infinite.
    """
    n, n_classes = float(weights.sum()), targets.shape[1]
    targets = (targets * targets.shape[0] + 1) / (targets.shape[0] + n_classes)

    def loss(exponent: float) -> float:
        return -float(np.sum(weights[:, None] * targets * log_softmax(decisions * np.exp(exponent), axis=1))) / n

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 6.0), method="bounded").x))
