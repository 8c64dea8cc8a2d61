"""Cross-validated choice of the settings that users leave open.

Some training samples are split into folds. A matcher fitted to the other folds matches each fold, and the scores of its
samples decide: reciprocal ranks of partners, or average precisions where classes are matched. Preprocessing, whitening
and the width of the kernel are chosen with the kernel alone, which is quick to fit. Then a few dictionaries are
learned, to find the weights of the kernel and of the direct comparison of views. The folds do not depend on
`random_state`, so the same samples always lead to the same choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ._direct import Pair, learn_metric, pairs_of_equal_width
from ._kernel import kernel, solve_kernel
from ._mapped import LABELS, Member, Target, evenly_spaced
from ._preprocessing import KINDS, Kind, Preprocess, SamplePreprocessing
from ._ranking import average_precisions, partner_ranks
from ._whitening import RANK_TOL, gains_of, has_view, mean_energy, principal

SHRINKAGE, SHRINKAGES = 3.0, (3.0, 0.1, 0.3, 1.0, 10.0, 30.0, 100.0)  # the default, and the candidates
WIDTH, ALPHA = 0.3, 0.1  # of the kernel
KERNELS = ((0.3, 0.1), (0.1, 0.1), (1.0, 0.1), (0.1, 0.01), (0.3, 0.01), (1.0, 0.01))
N_PASSES = 2  # over the settings
KERNEL_WEIGHT, KERNEL_WEIGHTS = 0.5, (0.5, 0.8, 1.0, 0.0)
DIRECT_WEIGHT, DIRECT_WEIGHTS = 0.0, (0.0, 0.5, 1.0)

FEWEST_SAMPLES = 16  # with fewer, nothing is tried
FEWEST_FEATURES = 8  # samples with fewer features are not preprocessed unless users ask for it
QUICK_SAMPLES, FULL_SAMPLES = 600, 2000  # at most this many samples for choices by the kernel, and with dictionaries
N_DICTIONARIES = {1: 5, 2: 4, 4: 3}  # for each fold, by the number of folds

#: Learns this many dictionaries from whitened views and one-hot labels.
LearnMembers = Callable[[list[Array], list[Array] | None, int], list[Member]]
#: Predictions, by source view and target.
Predicted = dict[tuple[int, Target], Floats]


@dataclass(frozen=True)
class Choice:
    """Everything that validation can choose.

    Attributes
    ----------
    kinds : tuple
        Preprocessing of samples, for each view.
    shrinkage : float or None
        Shrinkage of whitening; None without whitening.
    width, alpha : float
        Width of the kernel, and the penalty of its regressions.
    comparison_weights : tuple of floats
        Weight of the comparison in each view.
    kernel_weight : float
        Weight of the kernel's predictions, from 0 to 1; the dictionaries have the rest.
    direct_weight : float
        Weight of the direct comparison, from 0 to 1; the comparison with predictions has the rest.
    """

    kinds: tuple[Kind, ...]
    comparison_weights: tuple[float, ...]
    shrinkage: float | None = SHRINKAGE
    width: float = WIDTH
    alpha: float = ALPHA
    kernel_weight: float = KERNEL_WEIGHT
    direct_weight: float = DIRECT_WEIGHT


@dataclass(frozen=True)
class RequestedSettings:
    """What users ask for; "auto" for preprocessing and None for a number leave the choice open."""

    preprocess: list[Preprocess]
    whiten: bool
    shrinkage: float | None
    kernel_weight: float | None
    direct_weight: float | None
    compares_directly: bool  # whether views can be compared directly at all
    chooses_comparison: bool  # whether the views in which samples are compared may be chosen

    def start(self) -> Choice:
        """Return the requested settings, with defaults for those left open."""
        kinds: tuple[Kind, ...] = tuple(None if kind == "auto" else kind for kind in self.preprocess)
        shrinkage = None if not self.whiten else SHRINKAGE if self.shrinkage is None else self.shrinkage
        kernel = KERNEL_WEIGHT if self.kernel_weight is None else self.kernel_weight
        direct = DIRECT_WEIGHT if self.direct_weight is None else self.direct_weight
        return Choice(kinds, (1.0,) * len(kinds), shrinkage, kernel_weight=kernel, direct_weight=direct)


@dataclass(frozen=True)
class Fold:
    """Samples of each view to learn from, and others to match."""

    train: list[npt.NDArray[np.int64]]
    test: list[npt.NDArray[np.int64]]


@dataclass
class Trial:
    """Samples in folds, and how well they are matched.

    `one_hot` has one array per view where classes are to be matched, and is None for partners.
    """

    views: list[Array]
    one_hot: list[Array] | None
    paired: bool
    n_folds: int
    n_used: int
    _coordinates: dict[tuple[int, Kind], Floats] = field(default_factory=dict)
    _parts: dict[tuple[int, int, Kind], tuple[Floats, Floats, Floats]] = field(default_factory=dict)
    _scores: dict[tuple[Choice, bool], Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folds = list(split([len(view) for view in self.views], self.paired, self.n_folds, self.n_used))

    @cached_property
    def directions(self) -> list[tuple[int, int]]:
        """Pairs of views that are matched: all, or only neighbours if views are many."""
        n = len(self.views)
        if n <= 4:
            return [(s, t) for s in range(n) for t in range(s + 1, n)]
        return [(v, (v + 1) % n) for v in range(n)]

    def coordinates(self, v: int, kind: Kind) -> Floats:
        """Return preprocessed samples; if there are fewer than features, in coordinates of their span."""
        if (v, kind) not in self._coordinates:
            rows = SamplePreprocessing(kind).apply(np.asarray(self.views[v], np.float64))
            if rows.shape[1] > rows.shape[0]:
                with one_blas_thread():
                    values, columns = scipy.linalg.eigh(rows @ rows.T)
                rows = columns * np.sqrt(np.clip(values, 0, None))
            self._coordinates[v, kind] = rows
        return self._coordinates[v, kind]

    def centred(self, number: int, v: int, kind: Kind) -> tuple[Floats, Floats]:
        """Return training and test samples, minus the mean of the training samples."""
        fold, rows = self.folds[number], self.coordinates(v, kind)
        train = rows[fold.train[v]]
        mean = train.mean(axis=0)
        return np.asarray(train - mean), np.asarray(rows[fold.test[v]] - mean)

    def whitened(self, number: int, v: int, choice: Choice) -> tuple[Floats, Floats]:
        """Return whitened training and test samples."""
        key = number, v, choice.kinds[v]
        if key not in self._parts:
            train, test = self.centred(number, v, choice.kinds[v])
            with one_blas_thread():
                variances, axes = principal([train], *train.shape)
                kept = variances > RANK_TOL * variances.max(initial=0.0)
                self._parts[key] = variances[kept], train @ axes[kept].T, test @ axes[kept].T
        variances, train, test = self._parts[key]
        if not variances.size:
            return np.zeros((len(train), 1)), np.zeros((len(test), 1))
        gains = gains_of(variances, choice.shrinkage, self.views[v].shape[1])
        return train * gains, test * gains

    def one_hot_of(self, number: int) -> list[Array] | None:
        """Return the one-hot labels of the training samples."""
        train = self.folds[number].train
        return (
            None if self.one_hot is None else [one_hot[rows] for one_hot, rows in zip(self.one_hot, train, strict=True)]
        )

    def by_kernel(self, number: int, choice: Choice) -> Predicted:
        """Return the kernel's predictions for the test samples."""
        one_hot = self.one_hot_of(number)
        sides = [self.whitened(number, v, choice) for v in range(len(self.views))]
        found: Predicted = {}
        for s, (train, test) in enumerate(sides):
            targets: dict[Target, Floats] = (
                {t: sides[t][0] for pair in self.directions for t in pair if s in pair and t != s}
                if one_hot is None
                else {LABELS: one_hot[s] - one_hot[s].mean(axis=0)}
            )
            energy = mean_energy(train)
            with one_blas_thread():
                own = kernel([train], [train], [energy], choice.width)
                solved = solve_kernel(own, np.hstack(list(targets.values())), choice.alpha)
                predicted = kernel([test], [train], [energy], choice.width) @ solved
            parts = np.split(predicted, np.cumsum([table.shape[1] for table in targets.values()])[:-1], axis=1)
            found |= {(s, target): part for target, part in zip(targets, parts, strict=True)}
        return found

    def by_members(self, number: int, choice: Choice, learn: LearnMembers) -> Predicted:
        """Return the dictionaries' predictions for the test samples."""
        sides = [self.whitened(number, v, choice) for v in range(len(self.views))]
        one_hot, known = self.one_hot_of(number), np.empty(0, bool)
        if one_hot is not None:  # dictionaries cannot learn classes without a training sample in a view
            known = np.logical_and.reduce([own.any(axis=0) for own in one_hot])
            one_hot = [own[:, known] for own in one_hot]
        members = learn([train for train, _ in sides], one_hot, N_DICTIONARIES[len(self.folds)])
        found: Predicted = {}
        for s, (_, test) in enumerate(sides):
            others = [t for pair in self.directions for t in pair if s in pair and t != s]
            for target in others if one_hot is None else [LABELS]:
                predicted = np.mean([member.predict({s: test}, target, None) for member in members], axis=0)
                if one_hot is not None:
                    predicted = np.where(known, predicted[:, np.cumsum(known) - 1], 0.0)
                found[s, target] = predicted
        return found

    def direct(self, number: int, choice: Choice) -> dict[Pair, Floats]:
        """Return similarities of views that are compared directly."""
        tables = {}
        equal = pairs_of_equal_width([view.shape[1] for view in self.views])
        for s, t in sorted(set(equal) & set(self.directions)):
            (first, left), (second, right) = (self.raw_side(number, v, choice.kinds[v]) for v in (s, t))
            with one_blas_thread():
                metric = learn_metric(first, second, first.shape[1])
                tables[s, t] = np.asarray(unit_rows(metric.rescale(left)) @ unit_rows(metric.rescale(right)).T)
        return tables

    def raw_side(self, number: int, v: int, kind: Kind) -> tuple[Floats, Floats]:
        """Return training and test samples, preprocessed and centred, in the features of the view."""
        fold, view = self.folds[number], self.views[v]
        train, test = (
            SamplePreprocessing(kind).apply(np.asarray(view[rows], np.float64))
            for rows in (fold.train[v], fold.test[v])
        )
        mean = train.mean(axis=0)
        return np.asarray(train - mean), np.asarray(test - mean)

    def tables(self, number: int, choice: Choice, predicted: Predicted) -> dict[Pair, Floats]:
        """Return similarities of the test samples, by predictions."""
        if self.one_hot is not None:
            shares = [one_hot.mean(axis=0) for one_hot in self.one_hot_of(number) or []]
            likely = []
            for s, prior in enumerate(shares):
                scores = np.clip(predicted[s, LABELS] + prior, 0, None)
                likely.append(scores / np.maximum(scores.sum(axis=1, keepdims=True), 1e-12))
            return {(s, t): likely[s] @ likely[t].T for s, t in self.directions}
        own = [unit_rows(self.whitened(number, v, choice)[1]) for v in range(len(self.views))]
        tables = {}
        for s, t in self.directions:
            first, second = own[s] @ unit_rows(predicted[t, s]).T, unit_rows(predicted[s, t]) @ own[t].T
            weight_s, weight_t = choice.comparison_weights[s], choice.comparison_weights[t]
            tables[s, t] = np.asarray((weight_s * first + weight_t * second) / (weight_s + weight_t))
        return tables

    def scores(self, number: int, tables: dict[Pair, Floats]) -> Floats:
        """Return the score of each test sample, in both directions."""
        found = []
        for (s, t), table in tables.items():
            if self.one_hot is None:
                found += [1 / partner_ranks(table), 1 / partner_ranks(table.T)]
                continue
            first, second = (np.argmax(self.one_hot[v][self.folds[number].test[v]], axis=1) for v in (s, t))
            same = first[:, None] == second
            found += [average_precisions(table, same), average_precisions(table.T, same.T)]
        return np.nan_to_num(np.concatenate(found))

    def quick_scores(self, choice: Choice, *, direct: bool = False) -> Floats:
        """Return the scores of a choice with the kernel alone, or with the direct comparison alone."""
        if (choice, direct) not in self._scores:
            found = []
            for number in range(len(self.folds)):
                if direct:
                    tables = self.direct(number, choice)
                else:
                    tables = self.tables(number, choice, self.by_kernel(number, choice))
                found.append(self.scores(number, tables))
            self._scores[choice, direct] = np.concatenate(found)
        return self._scores[choice, direct]


def unit_rows(table: Floats) -> Floats:
    """Return rows scaled to norm 1; rows of zeros stay zero."""
    norms = np.sqrt(np.einsum("ij,ij->i", table, table))
    return np.asarray(table / np.where(norms > 0, norms, 1.0)[:, None])


def split(counts: Sequence[int], paired: bool, n_folds: int, n_used: int) -> Iterator[Fold]:
    """Yield the first `n_used` of `n_folds` folds of shuffled samples; partners are in the same fold."""
    orders = [np.random.default_rng(0 if paired else v).permutation(n) for v, n in enumerate(counts)]
    for number in range(n_used):
        test = [np.sort(order[number::n_folds]) for order in orders]
        train = [np.setdiff1d(order, held) for order, held in zip(orders, test, strict=True)]
        yield Fold(train, test)


def best_beyond_error(candidates: Iterable[tuple[Choice, Floats]]) -> Choice:
    """Return the first choice unless another is better by more than the standard error, then the best.

    Scores are of the same samples, so their differences are compared.
    """
    (first, known), *others = candidates
    best, most = first, 0.0
    for choice, scores in others:
        difference = scores - known
        gain = float(difference.mean())
        error = float(difference.std()) / np.sqrt(difference.size)
        if gain > max(most, error, 1e-9):
            best, most = choice, gain
    return best


def first_within_error(candidates: Sequence[tuple[Choice, Floats]]) -> Choice:
    """Return the first choice that is within the standard error of the best one."""
    most = max((scores for _, scores in candidates), key=lambda scores: float(scores.mean()))
    for choice, scores in candidates:
        difference = most - scores
        if difference.mean() <= difference.std() / np.sqrt(difference.size):
            return choice
    raise AssertionError("the best choice is as good as itself")


def choose(
    views: list[Array], one_hot: list[Array] | None, paired: bool, requested: RequestedSettings, learn: LearnMembers
) -> Choice:
    """Choose what users leave open.

    Parameters
    ----------
    views : list of arrays
        All training samples; those that lack a view do not take part.
    one_hot : list of arrays, or None
        One-hot labels of each view, if classes are to be matched.
    paired : bool
        Whether row i of all views is the same sample.
    requested : RequestedSettings
    learn : callable
    """
    with one_blas_thread():
        return _choose(*complete(views, one_hot, paired), paired, requested, learn)


def _choose(
    views: list[Array], one_hot: list[Array] | None, paired: bool, requested: RequestedSettings, learn: LearnMembers
) -> Choice:
    """Choose with samples that have every view."""
    choice = requested.start()
    n = min(len(view) for view in views)
    if n < FEWEST_SAMPLES:
        return choice
    quick = make_trial(views, one_hot, paired, QUICK_SAMPLES, 4 if n <= 200 else 3)
    choice = choose_kinds(quick, choice, requested, direct=direct_is_open(views, one_hot, paired, requested))
    for _ in range(N_PASSES):
        before = choice
        for others in open_settings(requested, two_views=one_hot is None and len(views) == 2):
            candidates = [replace(choice, **changes) for changes in others]
            choice = best_beyond_error((one, quick.quick_scores(one)) for one in [choice, *candidates])
        if choice == before:
            break
    return choose_weights(views, one_hot, paired, choice, requested, learn)


def open_settings(requested: RequestedSettings, *, two_views: bool) -> Iterator[list[dict[str, Any]]]:
    """Yield the candidates of one open setting after the other."""
    if requested.whiten and requested.shrinkage is None:
        yield [{"shrinkage": shrinkage} for shrinkage in SHRINKAGES]
    if requested.kernel_weight != 0:
        yield [{"width": width, "alpha": alpha} for width, alpha in KERNELS]
    if requested.chooses_comparison and two_views:
        yield [{"comparison_weights": weights} for weights in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0))]


def complete(views: list[Array], one_hot: list[Array] | None, paired: bool) -> tuple[list[Array], list[Array] | None]:
    """Return the samples that have every view or, where samples are not paired, those that have each view."""
    there = [has_view(view) for view in views]
    if paired:
        there = [np.logical_and.reduce(there)] * len(views)
    kept = [view if rows.all() else view[rows] for view, rows in zip(views, there, strict=True)]
    return kept, None if one_hot is None else [own[rows] for own, rows in zip(one_hot, there, strict=True)]


def make_trial(
    views: list[Array], one_hot: list[Array] | None, paired: bool, most: int, n_folds: int, n_used: int = 0
) -> Trial:
    """Return a trial with at most `most` samples of each view."""
    rows = [evenly_spaced(len(view), most) for view in views]
    own = [view[chosen] for view, chosen in zip(views, rows, strict=True)]
    labels = None if one_hot is None else [table[chosen] for table, chosen in zip(one_hot, rows, strict=True)]
    return Trial(own, labels, paired, n_folds, n_used or n_folds)


def direct_is_open(views: list[Array], one_hot: list[Array] | None, paired: bool, requested: RequestedSettings) -> bool:
    """Return whether views may be compared directly."""
    possible = requested.compares_directly and one_hot is None and paired and requested.direct_weight != 0
    return possible and bool(pairs_of_equal_width([view.shape[1] for view in views]))


def choose_kinds(quick: Trial, choice: Choice, requested: RequestedSettings, *, direct: bool) -> Choice:
    """Choose the preprocessing of samples, first one for all views, then one for each view.

    Samples are matched by the kernel, or directly if that is possible and better.
    """
    open_views = [
        v
        for v, kind in enumerate(requested.preprocess)
        if kind == "auto" and quick.views[v].shape[1] >= FEWEST_FEATURES
    ]
    if not open_views:
        return choice

    def with_kinds(base: Choice, views: Sequence[int], kind: Kind) -> Choice:
        return replace(base, kinds=tuple(kind if v in views else old for v, old in enumerate(base.kinds)))

    direct = direct and quick.quick_scores(choice, direct=True).mean() > quick.quick_scores(choice).mean()

    def scored(candidates: Iterable[Choice]) -> Iterator[tuple[Choice, Floats]]:
        return ((one, quick.quick_scores(one, direct=direct)) for one in candidates)

    choice = best_beyond_error(scored(with_kinds(choice, open_views, kind) for kind in KINDS))
    for v in open_views if len(open_views) > 1 else []:
        choice = best_beyond_error(scored([choice, *(with_kinds(choice, [v], kind) for kind in KINDS)]))
    return choice


def choose_weights(
    views: list[Array],
    one_hot: list[Array] | None,
    paired: bool,
    choice: Choice,
    requested: RequestedSettings,
    learn: LearnMembers,
) -> Choice:
    """Choose the weights of the direct comparison and of the kernel."""
    direct = requested.direct_weight is None and direct_is_open(views, one_hot, paired, requested)
    if requested.kernel_weight is not None and not direct:
        return choice
    n = min(len(view) for view in views)
    full = make_trial(views, one_hot, paired, FULL_SAMPLES, 4, 4 if n <= 300 else 2 if n <= 800 else 1)
    parts = [
        (
            full.by_kernel(number, choice),
            full.by_members(number, choice, learn),
            full.direct(number, choice) if direct else {},
        )
        for number in range(len(full.folds))
    ]

    def scored(one: Choice) -> tuple[Choice, Floats]:
        found = []
        for number, (kernels, members, beside) in enumerate(parts):
            share = one.kernel_weight
            mixed = {key: share * kernels[key] + (1 - share) * members[key] for key in kernels}
            tables = full.tables(number, choice, mixed)
            for pair, table in beside.items():
                tables[pair] = one.direct_weight * table + (1 - one.direct_weight) * tables[pair]
            found.append(full.scores(number, tables))
        return one, np.concatenate(found)

    if direct:
        choice = best_beyond_error(scored(replace(choice, direct_weight=weight)) for weight in DIRECT_WEIGHTS)
    if requested.kernel_weight is None:
        choice = first_within_error([scored(replace(choice, kernel_weight=weight)) for weight in KERNEL_WEIGHTS])
    return choice
