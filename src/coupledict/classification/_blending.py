"""Parts that decide together: each has a share, and the shares are those that make samples left out most likely."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from ..foundation.arrays import Floats
from ..parallel.blas import one_blas_thread

MOST_SHARPNESS = 1e6  # fits give less
LEAST_FACTOR, MOST_FACTOR = 1e-3, 200.0  # of decisions of size 1
LEAST_SIZE = 1e-3  # decisions that differ by less say nothing
LEAST_SHARE = 0.02  # a part with less decides nothing, and costs time


class Shares(NamedTuple):
    """How parts decide together: ``decisions = sum of share * part / size``.

    Attributes
    ----------
    shares : dict of float
        By the name of the part; they sum to 1. Parts that do not count are left out.
    sizes : dict of float
        Standard deviation of the decisions of each part.
    sharpness : float
        Probabilities are ``softmax(sharpness * decisions)``.
    """

    shares: dict[str, float]
    sizes: dict[str, float]
    sharpness: float


def fit_shares(decisions: dict[str, Floats], targets: Floats, weights: Floats) -> Shares:
    """Return the shares and the sharpness that give the targets the largest likelihood.

    A part whose share would be below `LEAST_SHARE` is left out. Targets are smoothed towards equal ones as if there
    were one more sample of all classes in equal parts, much as Platt (1999) does: if every decision is right, the best
    sharpness would otherwise be infinite.

    Parameters
    ----------
    decisions : dict of arrays (n_samples, n_classes)
        By the name of the part; of samples that the part did not learn from.
    targets : array of shape (n_samples, n_classes)
    weights : array of shape (n_samples,)
    """
    sizes = {name: max(_size(part), LEAST_SIZE) for name, part in decisions.items()}
    names = list(decisions)
    while True:
        factors = _likeliest([decisions[name] / sizes[name] for name in names], targets, weights)
        sharpness = float(factors.sum())
        kept = [name for name, factor in zip(names, factors, strict=True) if factor > LEAST_SHARE * sharpness]
        if len(kept) == len(names):
            break
        names = kept
    shares = {name: float(factor) / sharpness for name, factor in zip(names, factors, strict=True)}
    return Shares(shares, {name: sizes[name] for name in names}, sharpness)


def fit_sharpness(decisions: Floats, targets: Floats, weights: Floats) -> float:
    """Return the factor for which ``softmax(factor * decisions)`` gives the targets the largest likelihood."""
    size = max(_size(decisions), LEAST_SIZE)
    return float(_likeliest([decisions / size], targets, weights)[0]) / size


def surprise(decisions: Floats, targets: Floats, weights: Floats) -> float:
    """Return the mean negative logarithm of the probability of the targets, with the best sharpness."""
    logarithms = log_softmax(fit_sharpness(decisions, targets, weights) * decisions, axis=1)
    return -float(np.sum(weights[:, None] * targets * logarithms)) / float(weights.sum())


def _size(decisions: Floats) -> float:
    return float(np.std(decisions - decisions.mean(axis=1, keepdims=True)))


def _likeliest(decisions: list[Floats], targets: Floats, weights: Floats) -> Floats:
    """Return the factors of the decisions, not negative, for which their sum is the best logarithm of probabilities."""
    n, n_classes = targets.shape
    smooth = (targets * n + 1 / n_classes) / (n + 1)
    stacked = np.stack(decisions)
    share = weights / weights.sum()

    def loss(factors: Floats) -> tuple[float, Floats]:
        logarithms = log_softmax(np.tensordot(factors, stacked, 1), axis=1)
        excess = share[:, None] * (np.exp(logarithms) - smooth)
        return -float(np.sum(share[:, None] * smooth * logarithms)), np.einsum("kij,ij->k", stacked, excess)

    start, bounds = np.full(len(stacked), 1.0 / len(stacked)), [(0.0, MOST_FACTOR)] * len(stacked)
    with one_blas_thread():  # threads cost more than they give: the matrices of L-BFGS-B are tiny
        found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-10}).x
    return np.asarray(found if found.sum() > LEAST_FACTOR else np.full(len(found), LEAST_FACTOR))
