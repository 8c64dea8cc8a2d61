"""Imputers that stand beside the learner, each with its setting chosen on known entries that are hidden.

Settings are chosen on at most 400 samples, of which a tenth of the known views or entries is hidden.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence

import numpy as np
from _data import Array
from _prediction_sets import spread
from missing import impute_iteratively, mofa, rmse
from missing_recognition import lose
from sklearn.impute import KNNImputer

from coupledict import CoupledDictionaryLearning

Views = list[Array]
Impute = Callable[[Views, str], Array]
ITERATIVE_LIMIT = 300_000  # entries: a table of 1,600 x 649 takes it minutes
NEIGHBOURS = (3, 5, 10, 20)
RANKS = (1, 2, 3, 5, 10, 20, 40)


def coupled(views: Views, what: str) -> Array:
    """Impute by the learner as it comes."""
    return np.hstack(CoupledDictionaryLearning(missing="nan", random_state=0).fit(views).impute(views))


def means(views: Views, what: str) -> Array:
    """Impute by the mean of each feature."""
    table = np.hstack(views)
    return np.where(np.isnan(table), np.nanmean(table, axis=0), table)


def neighbours(views: Views, what: str) -> Array:
    """Impute by ``KNNImputer``."""

    def impute(table: Array, count: int) -> Array:
        return np.asarray(KNNImputer(n_neighbors=count, keep_empty_features=True).fit_transform(table))

    return impute(np.hstack(views), _choose(views, what, NEIGHBOURS, impute))


def iterative(views: Views, what: str) -> Array:
    """Impute by ``IterativeImputer`` in two rounds, on the 100 nearest features."""
    return impute_iteratively(views, 0)


def principal_components(views: Views, what: str) -> Array:
    """Impute by principal components, in turns with their estimate."""
    return impute_by_components(np.hstack(views), _choose(views, what, RANKS, impute_by_components))


def impute_by_components(table: Array, rank: int, n_rounds: int = 100) -> Array:
    """Fill in what components say and learn them again; components lose what noise adds to them (missMDA)."""
    holes, tall = np.isnan(table), len(table) > table.shape[1]
    filled = np.where(holes, np.nanmean(table, axis=0), table)
    rank = min(rank, min(table.shape) - 1)
    for _ in range(n_rounds):
        center = filled.mean(axis=0)
        z = filled - center
        energies, vectors = np.linalg.eigh(z.T @ z if tall else z @ z.T)
        kept, noise = np.maximum(energies[-rank:], 1e-12), energies[:-rank].mean()
        projection = (vectors[:, -rank:] * np.maximum(1 - noise / kept, 0)) @ vectors[:, -rank:].T
        guess = np.where(holes, center + (z @ projection if tall else projection @ z), table)
        moved = rmse(guess, filled)
        filled = guess
        if moved < 1e-4:
            break
    return filled


def group_factors(views: Views, what: str, n_factors: int = 30, n_rounds: int = 60) -> Array:
    """Impute by the factor model of MOFA without its spikes: each view switches factors off by precisions of its own.

    Mean-field variational Bayes for standardised features; missing entries are left out of all sums.
    """
    table = np.hstack(views)
    known = ~np.isnan(table)
    center = np.nanmean(table, axis=0)
    y = np.where(known, table - center, 0.0)
    view = np.repeat(np.arange(len(views)), [part.shape[1] for part in views])
    k = min(n_factors, len(y) // 2)
    left, values, right = np.linalg.svd(y, full_matrices=False)
    k = min(k, len(values))
    z, w = left[:, :k] * np.sqrt(len(y)), right[:k].T * values[:k] / np.sqrt(len(y))
    zz, ww = _squares(z), _squares(w)
    precisions, noise = np.ones((len(views), k)), np.ones(table.shape[1])
    for _ in range(n_rounds):
        spread_w = np.linalg.inv((noise[:, None] * (known.T @ zz)).reshape(-1, k, k) + _diagonals(precisions[view]))
        w = np.einsum("dkl,dl->dk", spread_w, noise[:, None] * (y.T @ z))
        ww = _squares(w) + spread_w.reshape(len(w), -1)
        spread_z = np.linalg.inv((known @ (noise[:, None] * ww)).reshape(-1, k, k) + np.eye(k))
        z = np.einsum("nkl,nl->nk", spread_z, (y * noise) @ w)
        zz = _squares(z) + spread_z.reshape(len(z), -1)
        energies = ww.reshape(-1, k, k).diagonal(axis1=1, axis2=2)
        precisions = np.stack(
            [np.sum(view == v) / np.maximum(energies[view == v].sum(axis=0), 1e-9) for v in range(len(views))]
        )
        residual = np.sum(y**2 - 2 * y * (z @ w.T), axis=0) + np.einsum("da,da->d", known.T @ zz, ww)
        noise = (known.sum(axis=0) + 1e-3) / np.maximum(residual, 1e-3)
    return np.where(known, table, center + z @ w.T)


def _squares(rows: Array) -> Array:
    return np.asarray(rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)


def _diagonals(rows: Array) -> Array:
    return np.asarray(rows[:, :, None] * np.eye(rows.shape[1]))


def _choose(views: Views, what: str, settings: Sequence[int], impute: Callable[[Array, int], Array]) -> int:
    rows = spread(len(views[0]), 400)
    shown = [view[rows] for view in views]
    truth, given = np.hstack(shown), np.hstack(lose(shown, what, 1, share=0.1))
    hidden = np.isnan(given) & ~np.isnan(truth)
    given = np.where(np.isnan(given).all(axis=0), truth, given)
    errors = {setting: rmse(impute(given, setting)[hidden], truth[hidden]) for setting in settings}
    return min(errors, key=errors.__getitem__)


def imputers(n_entries: int) -> dict[str, Impute]:
    """Return what imputes a table of so many entries in reasonable time."""
    found: dict[str, Impute] = {
        "coupledict": coupled,
        "means": means,
        "KNN": neighbours,
        "PCA": principal_components,
        "group factors": group_factors,
    }
    if n_entries <= ITERATIVE_LIMIT:
        found["Iterative"] = iterative
    if importlib.util.find_spec("mofapy2") is not None:
        found["MOFA"] = lambda views, what: mofa(views, 0)
    return found
