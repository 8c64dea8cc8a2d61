"""Weighted combination of several classifiers, with the weights that maximise the likelihood of held-out samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from ..foundation.arrays import Floats
from ..parallel.blas import one_blas_thread

MOST_INVERSE_TEMPERATURE = 1e6  # beyond any value that a fit returns
LEAST_FACTOR, MOST_FACTOR = 1e-3, 200.0  # for decisions of standard deviation 1
LEAST_SIZE = 1e-3  # decisions that vary less carry no information
LEAST_SHARE = 0.02  # a part with a smaller share costs time and hardly changes a decision


class Shares(NamedTuple):
    """The combination of the parts: ``decisions = sum of share * part / size``.

    Attributes
    ----------
    shares : dict of float
        Share of each part, by name; they sum to 1. Parts without a share are left out.
    sizes : dict of float
        Standard deviation of the decisions of each part.
    inverse_temperature : float
        Probabilities are ``softmax(inverse_temperature * decisions)``.
    """

    shares: dict[str, float]
    sizes: dict[str, float]
    inverse_temperature: float


def fit_shares(decisions: dict[str, Floats], targets: Floats, weights: Floats) -> Shares:
    """Return the shares and the inverse temperature that maximise the likelihood of the targets.

    A part whose share would fall below `LEAST_SHARE` is left out. Much as in Platt (1999), targets are smoothed as if
    there were one more sample that belongs to all classes equally; otherwise the best inverse temperature would be
    infinite whenever every decision is right.

    Parameters
    ----------
    decisions : dict of arrays (n_samples, n_classes)
        Decisions of each part, by name, about samples that the part did not learn from.
    targets : array of shape (n_samples, n_classes)
    weights : array of shape (n_samples,)
    """
    sizes = {name: max(_size(part), LEAST_SIZE) for name, part in decisions.items()}
    names = list(decisions)
    while True:
        factors = _maximize_likelihood([decisions[name] / sizes[name] for name in names], targets, weights)
        inverse_temperature = float(factors.sum())
        kept = [name for name, factor in zip(names, factors, strict=True) if factor > LEAST_SHARE * inverse_temperature]
        if len(kept) == len(names):
            break
        names = kept
    shares = {name: float(factor) / inverse_temperature for name, factor in zip(names, factors, strict=True)}
    return Shares(shares, {name: sizes[name] for name in names}, inverse_temperature)


def fit_inverse_temperature(decisions: Floats, targets: Floats, weights: Floats) -> float:
    """Return the factor for which ``softmax(factor * decisions)`` maximises the likelihood of the targets."""
    size = max(_size(decisions), LEAST_SIZE)
    return float(_maximize_likelihood([decisions / size], targets, weights)[0]) / size


def log_loss(decisions: Floats, targets: Floats, weights: Floats) -> float:
    """Return the mean negative log-probability of the targets at the best inverse temperature."""
    logarithms = log_softmax(fit_inverse_temperature(decisions, targets, weights) * decisions, axis=1)
    return -float(np.sum(weights[:, None] * targets * logarithms)) / float(weights.sum())


def _size(decisions: Floats) -> float:
    return float(np.std(decisions - decisions.mean(axis=1, keepdims=True)))


def _maximize_likelihood(decisions: list[Floats], targets: Floats, weights: Floats) -> Floats:
    """Return the non-negative factors for which the weighted sum of the decisions fits the targets best as logits."""
    n, n_classes = targets.shape
    smooth = (targets * n + 1 / n_classes) / (n + 1)
    stacked = np.stack(decisions)
    share = weights / weights.sum()

    def loss(factors: Floats) -> tuple[float, Floats]:
        logarithms = log_softmax(np.tensordot(factors, stacked, 1), axis=1)
        excess = share[:, None] * (np.exp(logarithms) - smooth)
        return -float(np.sum(share[:, None] * smooth * logarithms)), np.einsum("kij,ij->k", stacked, excess)

    start, bounds = np.full(len(stacked), 1.0 / len(stacked)), [(0.0, MOST_FACTOR)] * len(stacked)
    with one_blas_thread():  # the matrices of L-BFGS-B are too small to gain from threads
        found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-10}).x
    return np.asarray(found if found.sum() > LEAST_FACTOR else np.full(len(found), LEAST_FACTOR))
