"""How missing entries are filled in: by conditional means, by similar samples, and by codes.

The conditional mean given the known entries, from means and covariances, is the first guess. It makes a sample
complete, so that it can be compared with training samples, which are completed in the same way: the second guess is the
mean of what similar ones know. The third is what codes of the known entries say, the better one where samples are
sparse. The guesses are weighted, for each view; the weights are not negative and have the sum 1. They, how far
covariances shrink, and how similar samples must be follow from samples that are held out, of which known entries are
hidden as others lack them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ..data.interface import Data
from ..data.jobs import ReadViews
from ..data.moments import Moments
from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import Threads
from ..parallel.ordered import in_order
from .choice import best_shares, make_splits

GUESSES = ("moments", "neighbours", "codes")
MOST_FEATURES = 1024  # each pattern of known entries takes a Cholesky factor of up to half this size
LEAST_SAMPLES = 20  # fewer have no covariances worth the name
MOST_SAMPLES, SAMPLES_PER_FEATURE = 2048, 4  # that covariances are computed from: the larger number of the two
MOST_NEIGHBOURS = 2048  # samples that others are compared with
MOST_JUDGES = 512  # samples that are judged by in one split
ENOUGH_JUDGES = 150  # with so many, further splits are left out
LEAST_JUDGES = 100  # with fewer samples, entries of each are hidden several times
SHRINKAGES = (0.85, 0.6, 0.4, 0.2, 0.1, 0.04, 0.015)  # of the correlations, in turn
LAST_FILLS = 3  # times that few samples are filled in with the chosen one
TOO_LARGE = 1.02  # an error so many times the smallest ends the search
LEAST_DEVIATION = 1e-6  # of the mean over the features: less is rounding errors
WIDTHS = (0.015, 0.03, 0.06, 0.12, 0.25)  # of similarities, in mean squared distances of samples
LEAST_SIMILARITY = 0.02  # of the similar samples must know a feature, or the first guess counts
SAMPLES_PER_ATOM = 16  # from fewer, dictionaries fit training samples too well to be judged by them
LEAST_HIDDEN = 50  # hidden entries without which nothing can be judged,
LEAST_HIDDEN_OF_VIEW = 500  # and those that a view needs for weights of its own
HIDDEN_SHARE = 0.3  # of the entries, where training samples are complete
N_PATTERNS = 16  # patterns of other samples, the most suitable of which hides entries of a sample
ROWS_AT_ONCE = 1024
MOST_DEVIATIONS = 1e6  # of an entry from the mean, in a file
ROUNDING = 1e-9

Flags: TypeAlias = npt.NDArray[np.bool_]
#: From samples with the views side by side, and NaN for missing entries, to what their codes say.
FillByCodes: TypeAlias = Callable[[Floats], Array]


@dataclass(frozen=True)
class Neighbours:
    """Samples that others are compared with.

    Attributes
    ----------
    points : array of shape (n_neighbours, n_features)
        Complete samples, less the mean, in standard deviations.
    known : array of shape (n_neighbours, n_features)
        1 for entries that are known, 0 for those that were filled in.
    """

    points: Array
    known: Array

    def distances(self, points: Array) -> Array:
        """Return the squared distances of samples, less those of the nearest, in mean squared distances."""
        found = np.einsum("ij,ij->i", self.points, self.points) - 2 * (points @ self.points.T)
        found -= found.min(axis=1, keepdims=True)
        found /= 2 * self.points.shape[1]
        return np.asarray(found)

    def guess(self, points: Array, distances: Array, width: float) -> Array:
        """Return the mean of what similar samples know; where they know too little, the samples themselves."""
        similarity = np.exp(distances / -width)
        similarity /= similarity.sum(axis=1, keepdims=True)
        total = similarity @ self.known
        total += LEAST_SIMILARITY
        found = similarity @ (self.points * self.known)
        found += LEAST_SIMILARITY * points
        return np.asarray(found / total)


@dataclass(frozen=True)
class Imputer:
    """Fills in missing entries.

    Attributes
    ----------
    moments : Moments
    neighbours : Neighbours
    width : float
        How fast similarity falls with the distance.
    shares : array of shape (n_views, 3)
        The weights of the guesses.
    """

    moments: Moments
    neighbours: Neighbours
    width: float
    shares: Floats

    def to_tensors(self) -> dict[str, Array]:
        """Return the imputer as arrays of a file."""
        return {
            "mean": self.moments.mean,
            "covariance": self.moments.covariance,
            "points": self.neighbours.points,
            "known": self.neighbours.known,
            "width": np.array([self.width]),
            "shares": self.shares,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Array]) -> Self:
        """Return the imputer of a file; raise KeyError or ValueError if something is wrong with it."""
        width = tensors["width"]
        if width.shape != (1,) or width.dtype != np.float64:
            raise ValueError("the width of its imputer is no number")
        moments = Moments(tensors["mean"], tensors["covariance"])
        return cls(moments, Neighbours(tensors["points"], tensors["known"]), float(width[0]), tensors["shares"])

    def check(self, widths: Sequence[int]) -> None:
        """Raise ValueError unless its arrays are such as `fit` makes, for views of these widths."""
        n_features = sum(widths)
        points, known = self.neighbours.points, self.neighbours.known
        covariance, shares = self.moments.covariance, self.shares
        shapes = [
            (self.moments.mean, (n_features,)),
            (covariance, (n_features, n_features)),
            (points, (len(points), n_features)),
            (known, points.shape),
            (shares, (len(widths), len(GUESSES))),
        ]
        if any(array.shape != shape or array.dtype != np.float64 for array, shape in shapes) or not len(points):
            raise ValueError("its imputer does not fit its dictionaries")
        if not np.array_equal(covariance, covariance.T) or np.any(np.diag(covariance) <= 0):
            raise ValueError("its covariances are not those of any features")
        _ = self.moments.precision  # raises if they are not positive definite
        if np.any(np.abs(points) > MOST_DEVIATIONS) or not np.isin(known, (0, 1)).all():
            raise ValueError("its imputer compares samples with what is none")
        if not WIDTHS[0] <= self.width <= WIDTHS[-1] or np.any(shares < 0) or np.any(shares > 1):
            raise ValueError("its imputer has settings that no imputer has")
        if np.any(np.abs(shares.sum(axis=1) - 1) > ROUNDING):
            raise ValueError("the shares of its imputer do not have the sum 1")

    @property
    def needs_codes(self) -> bool:
        """Whether codes count."""
        return bool(np.any(self.shares[:, 2] > 0))

    def __call__(self, table: Array, coded: Sequence[Array], widths: Sequence[int], threads: Threads) -> list[Array]:
        """Return views without missing entries.

        Parameters
        ----------
        table : array
            The views side by side; NaN stands for a missing entry.
        coded : list of arrays
            What codes say of each view; it may be empty if they do not count.
        widths : list of int
            Number of features of each view.
        threads : Threads
        """
        known = ~np.isnan(table)
        filled = self.moments.expect(table, threads)
        some = np.flatnonzero(known.any(axis=1) & ~known.all(axis=1))
        shares = np.repeat(self.shares, widths, axis=0).T
        blended = shares[0] * filled[some]
        if shares[1].any():
            blended += shares[1] * self._near(filled[some], threads)
        if shares[2].any():
            blended += shares[2] * np.hstack([view[some] for view in coded])
        filled[some] = blended
        filled = np.where(known, table, filled)
        return [np.ascontiguousarray(view, table.dtype) for view in _split(filled, widths)]

    def _near(self, filled: Floats, threads: Threads) -> Floats:
        """Return the second guess for all entries of complete samples."""
        deviations = np.sqrt(np.diag(self.moments.covariance))
        points = _points(filled, self.moments)
        chunks = [points[start : start + ROWS_AT_ONCE] for start in range(0, len(points), ROWS_AT_ONCE)]

        def work(chunk: Array) -> Array:
            return self.neighbours.guess(chunk, self.neighbours.distances(chunk), self.width)

        with one_blas_thread():
            found = list(in_order(work, chunks, max(1, min(threads.count, len(chunks))), threads.cancel))
        return np.asarray(np.concatenate([points[:0], *found]) * deviations + self.moments.mean)


def fit_imputer(
    data: Data, n_atoms: int, fill_by_codes: FillByCodes, threads: Threads, rng: np.random.Generator
) -> Imputer | None:
    """Return what fills in missing entries; None where it would take too long, or the samples are out of scale."""
    width = sum(data.widths)
    if width > MOST_FEATURES or data.scale != 1 or data.n_samples < LEAST_SAMPLES:
        return None
    views = data.run(ReadViews(), threads, data.runs(max(MOST_SAMPLES, SAMPLES_PER_FEATURE * width)))
    table = np.hstack(views)
    trials = _make_trials(table, data.widths, rng)
    if sum(np.count_nonzero(trial.hidden) for trial in trials) < LEAST_HIDDEN:
        return None
    shrinkage = _choose_shrinkage(trials, threads)
    width_of_similarity = _choose_width(trials, threads)
    coded = data.n_samples >= SAMPLES_PER_ATOM * n_atoms
    shares = _choose_shares(trials, data.widths, fill_by_codes if coded else None)
    moments = _fit_moments(table, shrinkage, trials[0].moments, 1 if len(trials) == 1 else LAST_FILLS, threads)
    chosen = np.linspace(0, len(table), min(len(table), MOST_NEIGHBOURS), endpoint=False).astype(np.int64)
    return Imputer(moments, _neighbours(table[chosen], moments, threads), width_of_similarity, shares)


class _Trial:
    """Guesses that follow from some samples, for entries of others that are hidden.

    Parameters
    ----------
    table : array
        Samples to learn from.
    judges : array
        Other samples.
    hidden : array of bool
        Which of their entries are hidden.
    units : array of shape (n_features,)
        What errors are divided by.
    """

    def __init__(self, table: Floats, judges: Floats, hidden: Flags, units: Floats) -> None:
        self._table = table
        self._judges = judges
        self._units = units
        self._filled = _fill_with_means(table)
        self.hidden = hidden
        self.shown = np.where(hidden, np.nan, judges)
        self.moments = Moments.of(self._filled, 1.0)
        self.guesses = [np.where(np.isnan(self.shown), self.moments.mean, self.shown)]

    def errors(self, guess: Array) -> Floats:
        """Return the errors of hidden entries; 0 for all others."""
        return np.where(self.hidden, (guess - self._judges) / self._units, 0.0)

    def expect(self, shrinkage: float, threads: Threads) -> tuple[Moments, Floats]:
        """Return the first guess, and the moments that it follows from; fill in the other samples by them, too."""
        moments = Moments.of(self._filled, shrinkage)
        both = moments.expect(np.vstack([self._table, self.shown]), threads)
        self._filled = both[: len(self._table)]
        return moments, both[len(self._table) :]

    def near(self, threads: Threads) -> dict[float, Floats]:
        """Return the second guess, for each width."""
        neighbours = _neighbours(self._table, self.moments, threads)
        points = _points(self.guesses[0], self.moments)
        deviations = np.sqrt(np.diag(self.moments.covariance))
        with one_blas_thread():
            distances = neighbours.distances(points)
            found = {width: neighbours.guess(points, distances, width) for width in WIDTHS}
        return {width: guess * deviations + self.moments.mean for width, guess in found.items()}


def _make_trials(table: Floats, widths: Sequence[int], rng: np.random.Generator) -> list[_Trial]:
    """Return trials in which samples are held out: all of few, or as many as it takes to judge."""
    known = ~np.isnan(table)
    counts = np.maximum(np.count_nonzero(known, axis=0), 1)
    filled = _fill_with_means(table)
    deviations = np.sqrt(np.square(filled - filled.mean(axis=0)).sum(axis=0) / counts)
    units = np.where(deviations > LEAST_DEVIATION * deviations.mean(), deviations, deviations.mean() or 1.0)
    trials: list[_Trial] = []
    for held in make_splits(len(table), rng):
        if sum(len(trial.hidden) for trial in trials) >= ENOUGH_JUDGES:
            break
        judges = np.repeat(held[:: -(-len(held) // MOST_JUDGES)], -(-LEAST_JUDGES // len(table)))
        hidden = _hide(known[judges], known, widths, rng)
        keeps = hidden.any(axis=1)
        trials.append(_Trial(np.delete(table, held, axis=0), table[judges[keeps]], hidden[keeps], units))
    return trials


def _hide(known: Flags, patterns: Flags, widths: Sequence[int], rng: np.random.Generator) -> Flags:
    """Return which known entries to hide: those that another sample lacks; if all are complete, a view or any.

    Of several other samples, that is taken which knows the fewest entries that the sample itself lacks: entries are
    hidden, as far as it can be, so that what is left is known of a sample that there is.
    """
    if patterns.all():
        lost = rng.random(known.shape) < HIDDEN_SHARE
        if len(widths) > 1:
            owner = np.repeat(np.arange(len(widths)), widths)
            lacking = rng.integers(len(widths), size=len(known))
            lost[::2] = owner == lacking[::2, None]
        return np.asarray(known & lost & (known & ~lost).any(axis=1, keepdims=True))
    hidden = np.zeros_like(known)
    fewest = np.full(len(known), np.inf)
    for _ in range(N_PATTERNS):
        other = patterns[rng.integers(len(patterns), size=len(known))]
        fits = (known & ~other).any(axis=1) & (known & other).any(axis=1)
        strange = np.where(fits, np.count_nonzero(other & ~known, axis=1), np.inf)
        better = strange < fewest
        hidden[better] = (known & ~other)[better]
        fewest[better] = strange[better]
    return hidden


def _fill_with_means(table: Floats) -> Floats:
    """Return samples with the mean of a feature for its missing entries."""
    missing = np.isnan(table)
    counts = np.count_nonzero(~missing, axis=0)
    means = np.where(missing, 0, table).sum(axis=0) / np.maximum(counts, 1)
    return np.where(missing, means, table)


def _fit_moments(table: Floats, shrinkage: float, first: Moments, n_fills: int, threads: Threads) -> Moments:
    """Return moments of samples that are filled in by conditional means, in turns with moments of the result."""
    if not np.isnan(table).any():
        return Moments.of(table, shrinkage)
    moments = first
    for _ in range(n_fills):
        moments = Moments.of(moments.expect(table, threads), shrinkage)
    return moments


def _points(filled: Floats, moments: Moments) -> Floats:
    """Return complete samples, less the mean, in standard deviations."""
    return np.asarray((filled - moments.mean) / np.sqrt(np.diag(moments.covariance)))


def _neighbours(table: Floats, moments: Moments, threads: Threads) -> Neighbours:
    known = (~np.isnan(table)).astype(np.float64)
    return Neighbours(_points(moments.expect(table, threads), moments), known)


def _choose_shrinkage(trials: Sequence[_Trial], threads: Threads) -> float:
    """Return the shrinkage of the smallest error; trials keep the guess with it.

    Covariances shrink less and less, while training samples are filled in better and better.
    """
    best, chosen = sum(_square(trial.errors(trial.guesses[0])) for trial in trials), 1.0
    for shrinkage in SHRINKAGES:
        found = [trial.expect(shrinkage, threads) for trial in trials]
        error = sum(_square(trial.errors(guess)) for trial, (_, guess) in zip(trials, found, strict=True))
        if error < best:
            best, chosen = error, shrinkage
            for trial, (moments, guess) in zip(trials, found, strict=True):
                trial.moments = moments
                trial.guesses = [guess]
        elif error > TOO_LARGE * best and chosen < 1:
            break
    return chosen


def _choose_width(trials: Sequence[_Trial], threads: Threads) -> float:
    """Return the width of similarity of the smallest error; trials keep the guess with it."""
    near = [trial.near(threads) for trial in trials]
    errors = [sum(_square(trial.errors(own[w])) for trial, own in zip(trials, near, strict=True)) for w in WIDTHS]
    best = WIDTHS[int(np.argmin(errors))]
    for trial, own in zip(trials, near, strict=True):
        trial.guesses.append(own[best])
    return best


def _choose_shares(trials: Sequence[_Trial], widths: Sequence[int], fill_by_codes: FillByCodes | None) -> Floats:
    """Return the weights of the guesses for each view, and for a view with few hidden entries those of all views."""
    if fill_by_codes is not None:
        for trial in trials:
            trial.guesses.append(np.asarray(fill_by_codes(trial.shown), np.float64))
    hidden = np.concatenate([trial.hidden for trial in trials])
    errors = [
        np.concatenate([trial.errors(guess) for trial, guess in zip(trials, guesses, strict=True)])
        for guesses in zip(*(trial.guesses for trial in trials), strict=True)
    ]
    products = np.stack([[np.einsum("ij,ij->j", one, other) for other in errors] for one in errors])
    shares = np.zeros((len(widths), len(GUESSES)))
    n_hidden = [np.count_nonzero(own) for own in _split(hidden, widths)]
    for v, own in enumerate(np.split(products, np.cumsum(widths)[:-1], axis=2)):
        chosen = own if n_hidden[v] >= LEAST_HIDDEN_OF_VIEW else products
        shares[v, : len(errors)] = best_shares(chosen.sum(axis=2))
    return shares


def _square(errors: Floats) -> float:
    return float(np.einsum("ij,ij->", errors, errors))


def _split(table: Array, widths: Sequence[int]) -> list[Array]:
    """Return the views of a table."""
    return np.split(table, np.cumsum(widths)[:-1], axis=1)
