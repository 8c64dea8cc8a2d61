"""Moments beside codes: how much each counts when missing entries are filled in.

Codes describe a sample by few atoms, and are the better guess where samples are sparse. A regression on all known
entries, from means and covariances, is the better one where features are strongly correlated, or little is known of a
sample. Both are made, and entries of training samples that are hidden for this purpose decide how much each counts.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from ..data.interface import Data
from ..data.memory import InMemory
from ..data.moments import Moments, MomentSums, SumMoments
from ..foundation.arrays import Array, Floats
from ..foundation.quiet import without_warnings
from ..parallel.jobs import Threads
from .fitted import FittedDictionaries
from .settings import LearningSettings

MOST_FEATURES = 1024  # each pattern of known entries takes a Cholesky factor of up to this size
LEAST_SAMPLES = 20  # fewer have no covariances worth the name
MOST_SAMPLES = 1 << 15  # more hardly change the covariances
LEAST_FILLED, FILLED_PER_FEATURE = 2048, 4  # samples that are filled in to improve them
N_JUDGES = 128  # samples of which entries are hidden
SHRINKAGES = (0.003, 0.01, 0.03, 0.1, 0.3)  # of the correlations
LEAST_HIDDEN = 50  # hidden entries without which nothing can be judged,
LEAST_HIDDEN_OF_VIEW = 500  # and those that a view needs for factors of its own
HIDDEN_SHARE = 0.3  # of the entries, where training samples are complete


def fit_moments(
    fitted: FittedDictionaries, data: Data, settings: LearningSettings, threads: Threads, rng: np.random.Generator
) -> Moments | None:
    """Return the moments of the samples; None where they would take too long, or the samples are out of scale."""
    width = sum(data.widths)
    if (
        width > MOST_FEATURES
        or data.scale != 1
        or data.n_samples < LEAST_SAMPLES
        or settings.rule.coupling == "support"
    ):
        return None
    order = data.order(rng)
    many = data.take(order, 0, MOST_SAMPLES)[0] if data.n_samples > MOST_SAMPLES else None
    n_filled = max(LEAST_FILLED, FILLED_PER_FEATURE * width)
    some = data.take(order, 0, n_filled)[0] if data.n_samples > n_filled else None
    judges = _hide([np.asarray(view) for view in data.draw(N_JUDGES, rng)], rng)
    if np.count_nonzero(judges.hidden) < LEAST_HIDDEN:
        return None
    sums = data.run(SumMoments(), threads, many)
    shrinkage, expected = _best_shrinkage(sums - MomentSums.over([judges.table]), judges, threads)
    mean, correlation, deviations = _correlations(sums)
    if data.missing:  # a step of expectation and maximisation: pairs of features that few samples know gain much by it
        first = Moments(mean, _covariance(correlation, deviations, shrinkage), np.empty((0, 2)))
        fill = functools.partial(first.expect, threads=Threads(threads.count))
        sums = data.run(SumMoments(fill), threads, some)
        shrinkage, expected = _best_shrinkage(sums - MomentSums.over([judges.table], first.expect), judges, threads)
        mean, correlation, deviations = _correlations(sums)
    with without_warnings():
        batch = InMemory(np.split(judges.shown.astype(data.dtype), np.cumsum(data.widths)[:-1], axis=1))
        batch.missing = True
        plain = dataclasses.replace(fitted, standard=None)  # these samples are standardized already
        coded = np.hstack(plain.impute(batch, settings, threads))
    shares = _shares(judges, np.asarray(coded, np.float64), expected, data.widths)
    return Moments(mean, _covariance(correlation, deviations, shrinkage), shares)


@dataclasses.dataclass(frozen=True)
class _Judges:
    """Samples of which known entries are hidden."""

    table: Floats
    shown: Floats
    hidden: npt.NDArray[np.bool_]


def _hide(views: list[Array], rng: np.random.Generator) -> _Judges:
    """Hide entries of samples: those that another sample misses; where all are complete, a view, or random entries."""
    table = np.hstack(views).astype(np.float64)
    known = ~np.isnan(table)
    if known.all():
        pattern = rng.random(table.shape) >= HIDDEN_SHARE
        if len(views) > 1:
            owner = np.repeat(np.arange(len(views)), [view.shape[1] for view in views])
            lacking = rng.integers(len(views), size=len(table))
            half = len(table) // 2
            pattern[:half] = owner[None, :] != lacking[:half, None]
    else:
        pattern = np.roll(known, 1, axis=0)
    hidden = known & ~pattern
    keeps = (known & pattern).any(axis=1)  # who would have nothing left cannot judge
    table, hidden = table[keeps], hidden[keeps]
    return _Judges(table, np.where(hidden, np.nan, table), hidden)


def _correlations(sums: MomentSums) -> tuple[Floats, Floats, Floats]:
    """Return means, correlations that are positive semidefinite, and standard deviations."""
    mean, covariance = sums.estimate()
    variance = np.maximum(np.diag(covariance), 0)
    deviations = np.sqrt(variance)
    safe = np.where(deviations > 0, deviations, 1)
    correlation = np.clip(covariance / np.outer(safe, safe), -1, 1)
    np.fill_diagonal(correlation, 1.0)
    # Pairs that were seen in different samples need not fit together.
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    clipped = (vectors * np.maximum(values, 0)) @ vectors.T
    sizes = np.sqrt(np.maximum(np.diag(clipped), np.finfo(np.float64).tiny))
    return mean, clipped / np.outer(sizes, sizes), deviations


def _covariance(correlation: Floats, deviations: Floats, shrinkage: float) -> Floats:
    """Return covariances from correlations that are drawn towards 0."""
    shrunk = (1 - shrinkage) * (correlation + correlation.T) / 2
    np.fill_diagonal(shrunk, 1.0)
    safe = np.where(deviations > 0, deviations, float(deviations.max(initial=0)) or 1.0)
    return np.asarray(shrunk * np.outer(safe, safe))


def _best_shrinkage(sums: MomentSums, judges: _Judges, threads: Threads) -> tuple[float, Floats]:
    """Return the shrinkage that predicts the hidden entries best, from the other samples, and these predictions."""
    mean, correlation, deviations = _correlations(sums)
    best, chosen, expected = np.inf, SHRINKAGES[-1], judges.table
    for shrinkage in SHRINKAGES:
        moments = Moments(mean, _covariance(correlation, deviations, shrinkage), np.empty((0, 2)))
        filled = moments.expect(judges.shown, threads)
        error = float(np.sum((filled - judges.table)[judges.hidden] ** 2))
        if error < best:
            best, chosen, expected = error, shrinkage, filled
    return chosen, expected


def _shares(judges: _Judges, coded: Floats, expected: Floats, widths: list[int]) -> Floats:
    """Return the factors of codes and moments that fit the hidden entries of each view best; none is negative."""

    def fit(columns: slice) -> Floats:
        chosen = judges.hidden[:, columns]
        guesses = np.stack([coded[:, columns][chosen], expected[:, columns][chosen]], axis=1)
        return np.asarray(nnls(guesses, judges.table[:, columns][chosen])[0])

    overall = fit(slice(None))
    shares, start = [], 0
    for width in widths:
        columns = slice(start, start + width)
        enough = np.count_nonzero(judges.hidden[:, columns]) >= LEAST_HIDDEN_OF_VIEW
        shares.append(fit(columns) if enough else overall)
        start += width
    return np.stack(shares)
