"""From codes to classes: a ridge regression on the label indicators, with a penalty chosen by leave-out errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..foundation.arrays import Floats
from ..parallel.blas import one_blas_thread

ALPHAS = 10.0 ** np.arange(-4.0, 4.0)  # relative to the mean squared column
MOST_RESCALING = 100.0
LEAST_ROOM = 1e-6  # least 1 - leverage; below it, a sample is fitted by itself alone
SMALLEST_PENALTY = 1e-13  # of the trace of a Gram matrix; a smaller one is lost in rounding and counts as 0


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


class _Centred(NamedTuple):
    """Weighted inputs and targets, centred; `mean_roots` are the square roots of the samples' shares in the mean."""

    X: Floats
    Y: Floats
    mean_roots: Floats


class _Solved(NamedTuple):
    """Coefficients, their penalty relative to the mean squared column, and the leave-out errors."""

    coef: Floats
    ridge_alpha: float
    errors: Floats


def fit_head(
    inputs: Floats,
    targets: Floats,
    weights: Floats,
    ridge_alpha: float | Literal["auto"],
    fold: npt.NDArray[np.intp] | None = None,
    penalties: Sequence[float] = (),
    *,
    rescaled: bool = False,
) -> tuple[Head, Floats]:
    """Return the weighted ridge regression of targets on inputs, and its decisions about left-out samples.

    Decisions are those about each sample when it alone is left out, or, with `fold`, those about the samples of the
    fold when the whole fold is left out. The hat matrix gives both without further fits. The intercept is not
    penalised. With ``ridge_alpha="auto"`` the penalty is the one of `ALPHAS` with the smallest
    :func:`scale_free_error` of the left-out samples. If there are `penalties`, which are not relative to the inputs,
    the best of these is taken. Where the penalty is chosen, or with `rescaled`, coefficients are then multiplied by the
    factor that brings decisions closest to the targets.
    """
    total = float(weights.sum())
    roots = np.sqrt(weights)[:, None]
    with one_blas_thread():
        center, mean = weights @ inputs / total, weights @ targets / total
        # A sample also contributes to the weighted mean, which is part of its leverage.
        data = _Centred((inputs - center) * roots, (targets - mean) * roots, np.sqrt(weights / total))
        if isinstance(ridge_alpha, str) and not penalties:
            solved = _best(data, fold)
        else:
            solved = _solve(data, fold, 0.0 if isinstance(ridge_alpha, str) else ridge_alpha, penalties)
        chosen = slice(None) if fold is None else fold
        coef, errors = solved.coef, solved.errors
        if rescaled or penalties or isinstance(ridge_alpha, str):
            factor = best_rescaling(errors, data.Y[chosen])
            coef, errors = factor * coef, data.Y[chosen] - factor * (data.Y[chosen] - errors)
        coef = np.ascontiguousarray(coef)  # as it comes from a file, where products are the same to the last bit
        head = Head(coef, mean - center @ coef, float(solved.ridge_alpha))
        decided = targets[chosen].astype(np.float64)
        positive = weights[chosen] > 0
        decided[positive] -= errors[positive] / roots[chosen][positive]
        decided[~positive] = head(inputs[chosen][~positive])
    return head, decided


def scale_free_error(errors: Floats, targets: Floats) -> float:
    """Return 1 minus the signed squared cosine of decisions, given by their errors, and centred targets: 0 to 2.

    A large penalty shrinks decisions and so increases their squared errors, but only ratios of decisions matter.
    """
    decided = targets - errors
    size = float(np.sum(targets**2) * np.sum(decided**2))
    product = float(np.sum(targets * decided))
    return 1 - product * abs(product) / size if size > 0 else 1.0


def best_rescaling(errors: Floats, targets: Floats) -> float:
    """Return the factor that brings decisions, given by their errors, closest to centred targets; 1 if none helps."""
    decided = targets - errors
    product, size = float(np.sum(targets * decided)), float(np.sum(decided**2))
    return min(product / size, MOST_RESCALING) if product > 0 else 1.0


def _errors(data: _Centred, fitted: Floats, leverage: Floats, fold: npt.NDArray[np.intp] | None) -> Floats:
    """Return the leave-out errors; `leverage` has one value per sample, or is a matrix for a fold."""
    left = data.Y - fitted
    if fold is None:
        return np.asarray(left / np.maximum(1 - leverage - data.mean_roots**2, LEAST_ROOM)[:, None])
    roots = data.mean_roots[fold]
    room = (1 + LEAST_ROOM) * np.eye(fold.size) - leverage - np.outer(roots, roots)
    return np.asarray(scipy.linalg.solve(room, left[fold], assume_a="sym"))


def _solve(
    data: _Centred, fold: npt.NDArray[np.intp] | None, ridge_alpha: float, penalties: Sequence[float]
) -> _Solved:
    """Return the regression with a given penalty, or the best of some."""
    X, Y = data.X, data.Y
    n, n_inputs = X.shape
    tall = n_inputs <= n
    gram = X.T @ X if tall else X @ X.T
    unit = float(np.trace(gram)) / n_inputs
    chosen = slice(None) if fold is None else fold
    best: tuple[float, _Solved] | None = None
    for penalty in penalties or [ridge_alpha * unit]:
        root = _Root(gram, penalty)
        coef = root.solve(X.T @ Y) if tall else X.T @ root.solve(Y)
        # With R^T R the inverse, leverages are products of the columns of R X^T, or of R X X^T and R.
        right = root.half(X[chosen].T if tall else gram[:, chosen])
        left = right if tall else root.half(np.eye(n)[:, chosen])
        leverage = np.einsum("ij,ij->j", left, right) if fold is None else left.T @ right
        errors = _errors(data, X @ coef, leverage, fold)
        error = scale_free_error(errors, Y[chosen])
        if best is None or error < best[0]:
            best = error, _Solved(coef, penalty / unit if penalties and unit else ridge_alpha, errors)
    assert best is not None
    return best[1]


class _Root:
    """The inverse of a Gram matrix with a penalty on its diagonal, as R^T R."""

    _root: Floats | None
    _half: Floats

    def __init__(self, gram: Floats, penalty: float) -> None:
        if penalty > SMALLEST_PENALTY * float(np.trace(gram)):
            self._root = scipy.linalg.cholesky(gram + penalty * np.eye(gram.shape[0]), lower=True)
            return
        energies, axes = scipy.linalg.eigh(gram)
        kept = energies > 1e-12 * max(float(energies[-1]), 0.0)
        self._root = None
        self._half = (axes[:, kept] / np.sqrt(energies[kept])).T

    def half(self, right: Floats) -> Floats:
        """Return R times a matrix."""
        if self._root is None:
            return np.asarray(self._half @ right)
        return np.asarray(scipy.linalg.solve_triangular(self._root, right, lower=True))

    def solve(self, right: Floats) -> Floats:
        """Return the inverse times a matrix."""
        if self._root is None:
            return np.asarray(self._half.T @ (self._half @ right))
        return np.asarray(scipy.linalg.cho_solve((self._root, True), right))


def _best(data: _Centred, fold: npt.NDArray[np.intp] | None) -> _Solved:
    """Return the regression with the best penalty."""
    X, Y = data.X, data.Y
    n, n_inputs = X.shape
    # The axes of the smaller Gram matrix make few samples with many inputs as cheap as the opposite.
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
    products = turned.T @ Y
    squares = turned**2 if fold is None else turned[fold]
    best: tuple[float, _Solved] | None = None
    for alpha in ALPHAS:
        inverse = 1 / (energies + alpha * unit)
        solved = inverse[:, None] * products
        leverage = squares @ inverse if fold is None else (squares * inverse) @ squares.T
        errors = _errors(data, turned @ solved, leverage, fold)
        error = scale_free_error(errors, Y if fold is None else Y[fold])
        if best is None or error < best[0]:
            best = error, _Solved(axes @ solved, float(alpha), errors)
    assert best is not None
    return best[1]
