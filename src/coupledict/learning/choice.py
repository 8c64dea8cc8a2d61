"""What the heads of a predictor look like, and how much each counts: chosen on samples that are held out.

A prediction is a weighted mean of up to five heads, all of them functions of the coordinates t of the source views:

* ``ridge``: a ridge regression on t;
* ``codes``: a ridge regression on t and the sparse code of the sample;
* ``kernel``: a ridge regression on t and the similarity of the sample to each point anchor;
* ``ridge_maps``: the first head, and local maps (:mod:`coupledict.learning.local_maps`) for what it leaves;
* ``mean_maps``: local maps alone.

Each is fitted to a part of the samples for every setting in question; the others judge. The weights, which are not
negative and have the sum 1, minimise the squared error of the weighted mean there. Samples in a table may be in any
order, but pictures and recordings have neighbours that resemble each other, so those held out are runs of samples;
where there are few samples, each is held out once, in one of five random folds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..foundation.arrays import Array, Floats
from .linear_maps import Extended, Further, Products, Ridge
from .local_maps import KINDS, Anchors, Kind, LocalSums, Membership

HEADS = ("ridge", "codes", "kernel", "ridge_maps", "mean_maps")
PENALTIES = [10 ** (k / 2) for k in range(-18, 13)]  # of the coordinates, in samples
FURTHER_PENALTIES = [10.0**k for k in range(-2, 7)]  # of codes and kernels
WIDTHS = (1.0, 3.0, 8.0, 20.0)  # how steeply a kernel falls with the correlation
RANKS = (0, 8, 24, 64)  # coordinates that local maps see
SHRINKAGES = (0.5, 2.0, 10.0, 60.0, 400.0)  # of local maps, in samples
FIRST_RANK, FIRST_SHRINKAGE = 24, 10.0  # those that kinds of anchors are compared with
LEAST_VARIANCE = 1e-10  # of the leading component: smaller ones are rounding errors
MOST_TARGETS = 32  # leading components of the targets that settings are chosen by
LEAST_SHARE = 0.01  # a head that counts less is left out
FEW_SAMPLES = 600  # below, all are held out, in folds
N_FOLDS = 5
N_RUNS = 16  # runs of samples that are held out together
RUN_PART = 4  # one of so many runs is held out

Rows: TypeAlias = npt.NDArray[np.int64]
Setting = TypeVar("Setting")


def make_splits(n_samples: int, rng: np.random.Generator) -> list[Rows]:
    """Return which samples are held out together."""
    if n_samples < FEW_SAMPLES:
        order = rng.permutation(n_samples)
        return [np.sort(fold) for fold in np.array_split(order, min(N_FOLDS, n_samples))]
    edges = np.linspace(0, n_samples, N_RUNS * RUN_PART + 1).astype(np.int64)
    runs = [np.arange(edges[i], edges[i + 1]) for i in range(RUN_PART // 2, N_RUNS * RUN_PART, RUN_PART)]
    return [np.concatenate(runs)]


@dataclass(frozen=True)
class Features:
    """What heads are functions of, for some samples.

    Attributes
    ----------
    t : array of shape (n_samples, n_coordinates)
        Coordinates of the source views, the leading ones first.
    codes : dict of arrays
        For each number of atoms that was tried, the codes; None stands for the rule of the learner.
    correlations : dict
        With the anchors of each kind.
    constant : float
        The first coordinate of point maps.
    """

    t: Floats
    codes: dict[int | None, Floats]
    correlations: dict[Kind, Floats]
    constant: float

    def rows(self, chosen: npt.NDArray[np.bool_]) -> Features:
        """Return those of some samples."""
        codes = {number: own[chosen] for number, own in self.codes.items()}
        correlations = {kind: own[chosen] for kind, own in self.correlations.items()}
        return Features(self.t[chosen], codes, correlations, self.constant)

    def local(self, kind: Kind) -> Floats:
        """Return the coordinates of local maps."""
        return local_coordinates(self.t, kind, self.constant)

    def kernel(self, width: float) -> Floats:
        """Return the similarity of samples to the point anchors."""
        return np.asarray(np.exp(width * (self.correlations["points"] - 1)))


@dataclass(frozen=True)
class MapChoice:
    """Of local maps: how many coordinates of a sample they see, and how far they shrink."""

    rank: int
    shrinkage: float


@dataclass(frozen=True)
class Scores:
    """Norms of the errors of samples held out: of the prediction, of ridge regression, and of the mean."""

    n_samples: int
    prediction: float
    ridge: float
    mean: float

    def scaled(self, scale: float) -> Scores:
        """Return the errors of samples that are multiplied by a number."""
        return Scores(self.n_samples, self.prediction * scale, self.ridge * scale, self.mean * scale)


@dataclass(frozen=True)
class Choice:
    """The settings of the heads, and the share of each, by the names in HEADS."""

    penalty: float
    n_nonzero: int | None
    codes_penalty: float
    width: float
    kernel_penalty: float
    kind: Kind
    ridge_maps: MapChoice
    mean_maps: MapChoice
    shares: dict[str, float]
    scores: Scores

    @classmethod
    def ridge(cls, penalty: float) -> Choice:
        """Return the choice of a ridge regression, where there are too few samples to choose by."""
        none = MapChoice(0, 1.0)
        shares = dict.fromkeys(HEADS, 0.0) | {"ridge": 1.0}
        return cls(penalty, None, 0.0, 0.0, 0.0, "points", none, none, shares, Scores(0, 0.0, 0.0, 0.0))


class Trial:
    """Heads that are fitted to some samples and judged by others.

    Only the leading components of the targets are predicted: that takes less time, and decides between the heads.

    Parameters
    ----------
    train, held : Features
        Of both.
    y, y_held : arrays
        Targets of both.
    anchors : dict of Anchors
    """

    def __init__(
        self, train: Features, held: Features, y: Floats, y_held: Floats, anchors: dict[Kind, Anchors]
    ) -> None:
        mean = y.mean(axis=0)
        axes = leading_axes(y - mean, MOST_TARGETS)
        self.train = train
        self.held = held
        self.y = (y - mean) @ axes
        self.y_held = (y_held - mean) @ axes
        self._anchors = anchors
        self._rest_held: Floats | None = None
        targets = self.y
        if axes.shape[1] < y.shape[1]:
            self._rest_held = y_held - mean - self.y_held @ axes.T
            targets = np.hstack([self.y, y - mean - self.y @ axes.T])
        self._ridge = Ridge(Products.over(train.t, targets), train.t.shape[1])
        self._extended: dict[tuple[str, float | None], tuple[Extended, Floats]] = {}
        self._memberships: dict[Kind, tuple[Membership, Membership]] = {}
        self._sums: dict[Kind, LocalSums] = {}
        self._by_ridge: dict[float, Floats] = {}

    def error(self, predicted: Floats) -> float:
        """Return the squared error of the samples held out."""
        return _square(predicted - self.y_held)

    def rest_errors(self, penalty: float) -> tuple[float, float]:
        """Return the squared errors of ridge regression, and of the mean, in all but the leading components."""
        if self._rest_held is None:
            return 0.0, 0.0
        explained = (self.held.t - self._ridge.mean) @ self._ridge.solve(penalty)[:, self.y.shape[1] :]
        return _square(self._rest_held - explained), _square(self._rest_held)

    def mean(self) -> Floats:
        """Predict the mean."""
        return np.zeros_like(self.y_held)

    def ridge_errors(self) -> Floats:
        """Return the squared errors of the regression on the coordinates, for each of PENALTIES."""
        return self._ridge.errors(PENALTIES, self.held.t, self.y_held)

    def ridge(self, penalty: float) -> Floats:
        """Predict by the regression on the coordinates."""
        if penalty not in self._by_ridge:
            self._by_ridge[penalty] = self._predict_linear(self.held.t, penalty)
        return self._by_ridge[penalty]

    def _predict_linear(self, t: Floats, penalty: float) -> Floats:
        return np.asarray((t - self._ridge.mean) @ self._ridge.solve(penalty)[:, : self.y.shape[1]])

    def further_errors(self, name: str, setting: float | None, penalty: float) -> Floats:
        """Return the squared errors of the regression on coordinates and more, for each of FURTHER_PENALTIES."""
        extended, turned = self._extend(name, setting, penalty)
        return extended.errors(FURTHER_PENALTIES, turned, self.y_held - self.ridge(penalty))

    def further(self, name: str, setting: float | None, penalty: float, further_penalty: float) -> Floats:
        """Predict by the regression on the coordinates and on codes or kernels; `setting` says which."""
        extended, turned = self._extend(name, setting, penalty)
        shrunk = extended.shrink(further_penalty)[:, None] * extended.turned
        return np.asarray(self.ridge(penalty) + turned @ shrunk)

    def _extend(self, name: str, setting: float | None, penalty: float) -> tuple[Extended, Floats]:
        key = (name, setting)
        if key not in self._extended:
            features, held = self._features(name, setting)
            further = Further.over(features, self.train.t - self._ridge.mean, self.y)
            extended = Extended(self._ridge, penalty, further)
            self._extended[key] = extended, extended.turn(self.held.t, held)
        return self._extended[key]

    def _features(self, name: str, setting: float | None) -> tuple[Floats, Floats]:
        if name == "codes":
            number = None if setting is None else int(setting)
            return self.train.codes[number], self.held.codes[number]
        width = 0.0 if setting is None else setting
        return self.train.kernel(width), self.held.kernel(width)

    def maps(self, kind: Kind, penalty: float, choice: MapChoice) -> dict[str, Floats]:
        """Predict by local maps for what the bases leave, "ridge" and "mean"."""
        if kind not in self._sums:
            own = self._anchors[kind]
            both = [own.weigh(features.correlations[kind]) for features in (self.train, self.held)]
            self._memberships[kind] = both[0], both[1]
            left = np.hstack([self.y - self._predict_linear(self.train.t, penalty), self.y])
            self._sums[kind] = LocalSums.over(self.train.local(kind), left, both[0])
        rank = n_local(kind, choice.rank)
        solved = self._sums[kind].solve(rank, choice.shrinkage)
        predicted = np.hstack([self.ridge(penalty), self.mean()])
        self._memberships[kind][1].apply(solved, self.held.local(kind)[:, :rank], predicted)
        width = self.y.shape[1]
        return {"ridge": predicted[:, :width], "mean": predicted[:, width:]}


def leading_axes(table: Floats, count: int) -> Floats:
    """Return at most `count` orthonormal columns that span the leading principal components of centred samples."""
    n, width = table.shape
    count = min(count, n, width)
    if n < width:
        values, vectors = scipy.linalg.eigh(table @ table.T, subset_by_index=(n - count, n - 1))
        spanned = values > LEAST_VARIANCE * max(float(values[-1]), np.finfo(np.float64).tiny)
        spanned[-1] = True
        turned = table.T @ vectors[:, spanned]
        norms = np.linalg.norm(turned, axis=0)
        return np.asarray((turned / np.where(norms > 0, norms, 1))[:, ::-1])
    _, vectors = scipy.linalg.eigh(table.T @ table, subset_by_index=(width - count, width - 1))
    return np.asarray(vectors[:, ::-1])


def local_coordinates(t: Array, kind: Kind, constant: float) -> Array:
    """Return the coordinates that local maps see: the leading ones, after a constant for points."""
    leading = t[:, : RANKS[-1]]
    if kind == "lines":
        return leading
    return np.hstack([np.full((len(t), 1), constant, t.dtype), leading])


def n_local(kind: Kind, rank: int) -> int:
    """Return the number of coordinates of local maps that see `rank` coordinates of a sample."""
    return rank + 1 if kind == "points" else rank


def choose(trials: Sequence[Trial], codes: Sequence[int | None]) -> Choice:
    """Return the settings whose errors, summed over trials, are the smallest, and the shares of the heads.

    `codes` are the numbers of atoms to choose from, as in :class:`Features`.
    """
    search = _Search(trials)
    penalty = search.penalty
    n_nonzero, codes_penalty = search.further("codes", codes) if codes else (None, 0.0)
    width, kernel_penalty = search.further("kernel", WIDTHS)
    kind, maps = search.maps()
    heads: dict[str, Callable[[Trial], Floats]] = {
        "ridge": lambda trial: trial.ridge(penalty),
        "codes": lambda trial: trial.further("codes", n_nonzero, penalty, codes_penalty),
        "kernel": lambda trial: trial.further("kernel", width, penalty, kernel_penalty),
        "ridge_maps": lambda trial: trial.maps(kind, penalty, maps["ridge"])["ridge"],
        "mean_maps": lambda trial: trial.maps(kind, penalty, maps["mean"])["mean"],
    }
    if not codes:
        del heads["codes"]
    products = np.zeros((len(heads), len(heads)))
    for trial in trials:
        left = np.stack([(head(trial) - trial.y_held).ravel() for head in heads.values()])
        products += left @ left.T
    shares = best_shares(products)
    rest = np.sum([trial.rest_errors(penalty) for trial in trials], axis=0)
    ridge = float(products[0, 0])
    gain = float(shares @ products @ shares) / ridge if ridge > 0 else 1.0
    scores = Scores(
        n_samples=sum(len(trial.y_held) for trial in trials),
        # The gain over ridge regression is taken to be that in the leading components.
        prediction=math.sqrt(max(0.0, gain * (ridge + float(rest[0])))),
        ridge=math.sqrt(ridge + float(rest[0])),
        mean=math.sqrt(_total(trials, Trial.mean) + float(rest[1])),
    )
    named = dict(zip(heads, shares.tolist(), strict=True))
    return Choice(
        penalty=penalty,
        n_nonzero=None if n_nonzero is None else int(n_nonzero),
        codes_penalty=codes_penalty,
        width=float(width or 0.0),
        kernel_penalty=kernel_penalty,
        kind=kind,
        ridge_maps=maps["ridge"],
        mean_maps=maps["mean"],
        shares={name: named.get(name, 0.0) for name in HEADS},
        scores=scores,
    )


class _Search:
    """Finds the setting of each head with the smallest error over all trials."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = trials
        self._most = trials[0].train.t.shape[1]
        self._known: dict[tuple[Kind, MapChoice], dict[str, float]] = {}
        self.penalty = PENALTIES[int(np.argmin(np.sum([trial.ridge_errors() for trial in trials], axis=0)))]

    def further(self, name: str, settings: Sequence[float | None]) -> tuple[float | None, float]:
        """Return the setting of codes or kernels, and their penalty."""
        errors = [
            np.sum([trial.further_errors(name, setting, self.penalty) for trial in self._trials], axis=0)
            for setting in settings
        ]
        place, penalty = divmod(int(np.argmin(errors)), len(FURTHER_PENALTIES))
        return settings[place], FURTHER_PENALTIES[penalty]

    def maps(self) -> tuple[Kind, dict[str, MapChoice]]:
        """Return the kind of anchors, and the settings of local maps for what each base leaves."""
        first = MapChoice(min(FIRST_RANK, self._most), FIRST_SHRINKAGE)
        kind = _best(KINDS, lambda kind: min(self._errors_of_maps(kind, first).values()))
        ranks = sorted({min(rank, self._most) for rank in RANKS} - ({0} if kind == "lines" else set()))
        choices = [MapChoice(rank, FIRST_SHRINKAGE) for rank in ranks]
        for choice in self._best_maps(kind, choices).values():
            choices += [MapChoice(choice.rank, shrinkage) for shrinkage in SHRINKAGES]
        return kind, self._best_maps(kind, choices)

    def _best_maps(self, kind: Kind, choices: Sequence[MapChoice]) -> dict[str, MapChoice]:
        """Return the best choice for each base."""
        errors = {choice: self._errors_of_maps(kind, choice) for choice in choices}
        return {base: min(errors, key=lambda choice: errors[choice][base]) for base in ("ridge", "mean")}

    def _errors_of_maps(self, kind: Kind, choice: MapChoice) -> dict[str, float]:
        """Return the error for each base; it is computed once for each choice."""
        if (kind, choice) not in self._known:
            total = {"ridge": 0.0, "mean": 0.0}
            for trial in self._trials:
                for base, predicted in trial.maps(kind, self.penalty, choice).items():
                    total[base] += trial.error(predicted)
            self._known[kind, choice] = total
        return self._known[kind, choice]


def _square(differences: Floats) -> float:
    return float(np.einsum("ij,ij->", differences, differences))


def _total(trials: Sequence[Trial], predict: Callable[[Trial], Floats]) -> float:
    return sum(trial.error(predict(trial)) for trial in trials)


def _best(settings: Sequence[Setting], error: Callable[[Setting], float]) -> Setting:
    """Return the setting with the smallest error; of equal ones, the first."""
    return settings[int(np.argmin([error(setting) for setting in settings]))]


def best_shares(products: Floats) -> Floats:
    """Return weights of sum 1, none negative, with the smallest ``w @ products @ w``.

    There are so few heads that every set of them can be tried: the best weights of a set solve a linear system, and
    count if none of them is negative. Heads that hardly count are left out.
    """
    n = len(products)
    jitter = 1e-10 * float(np.trace(products)) or 1.0
    best, chosen = np.inf, np.asarray(np.eye(n)[0])
    for size in range(1, n + 1):
        sets = np.array(list(itertools.combinations(range(n), size)))
        own = products[sets[:, :, None], sets[:, None, :]]
        solved = np.linalg.solve(own + jitter * np.eye(size), np.ones((len(sets), size, 1)))[:, :, 0]
        weights = solved / solved.sum(axis=1, keepdims=True)
        errors = np.einsum("ki,kij,kj->k", weights, own, weights)
        errors[weights.min(axis=1) < LEAST_SHARE] = np.inf
        place = int(np.argmin(errors))
        if errors[place] < best:
            best = float(errors[place])
            chosen = np.zeros(n)
            chosen[sets[place]] = weights[place]
    return chosen
