"""Choice of what was left open, by matching training samples that were kept out.

Some training samples are put into folds. Each fold is matched by what the others teach, and the scores of its samples
decide: reciprocal ranks of partners, or average precisions where classes are matched. Preparation, whitening and the
width of the kernel are chosen with the kernel alone, which is quick to fit. Then a few dictionaries are learned, to
find how much weight the kernel gets beside them, and the direct comparison of views. The folds do not depend on
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
from ._kernel import kernel, mean_energy, solve_kernel
from ._mapped import LABELS, Member, Target, spread
from ._preparing import KINDS, Kind, Preparation, Preprocess
from ._ranking import average_precisions, partner_ranks
from ._whitening import RANK_TOL, gains_of, has_view, principal

SHRINKAGE, SHRINKAGES = 3.0, (3.0, 0.1, 0.3, 1.0, 10.0, 30.0, 100.0)  # the default, and what is tried
WIDTH, ALPHA = 0.3, 0.1  # of the kernel
KERNELS = ((0.3, 0.1), (0.1, 0.1), (1.0, 0.1), (0.1, 0.01), (0.3, 0.01), (1.0, 0.01))
N_PASSES = 2  # over the settings
KERNEL_WEIGHT, KERNEL_WEIGHTS = 0.5, (0.5, 0.8, 1.0, 0.0)
DIRECT_WEIGHT, DIRECT_WEIGHTS = 0.0, (0.0, 0.5, 1.0)

FEWEST_SAMPLES = 16  # with fewer, nothing is tried
FEWEST_FEATURES = 8  # a sample of fewer features is not prepared unless users ask for it
QUICK_SAMPLES, FULL_SAMPLES = 600, 2000  # most samples for choices by the kernel, and for those with dictionaries
N_DICTIONARIES = {1: 5, 2: 4, 4: 3}  # for each fold, by the number of folds

#: Learns so many dictionaries from whitened views and indicators of labels.
LearnMembers = Callable[[list[Array], list[Array] | None, int], list[Member]]
#: Predicts a target from a view.
Predicted = dict[tuple[int, Target], Floats]


@dataclass(frozen=True)
class Choice:
    """Everything that validation can choose.

    Attributes
    ----------
    kinds : tuple
        Preparation of samples, for each view.
    shrinkage : float or None
        Shrinkage of whitening; None without whitening.
    width, alpha : float
        Width of the kernel, and the penalty of its regressions.
    places : tuple of floats
        Weight of each view as the place where samples are compared.
    kernel_weight : float
        Weight of the kernel's predictions, from 0 to 1; that of the dictionaries is the rest.
    direct_weight : float
        Weight of the direct comparison, from 0 to 1; that of the comparison with predictions is the rest.
    """

    kinds: tuple[Kind, ...]
    places: tuple[float, ...]
    shrinkage: float | None = SHRINKAGE
    width: float = WIDTH
    alpha: float = ALPHA
    kernel_weight: float = KERNEL_WEIGHT
    direct_weight: float = DIRECT_WEIGHT


@dataclass(frozen=True)
class Wanted:
    """What users ask for: "auto" for a preparation, and None for a number, leave the choice open."""

    preprocess: list[Preprocess]
    whiten: bool
    shrinkage: float | None
    kernel_weight: float | None
    direct_weight: float | None
    compares_views: bool  # whether views can be compared directly at all
    opens_places: bool  # whether the views in which samples are compared may be chosen

    def start(self) -> Choice:
        """Return what users ask for, with defaults for what they leave open."""
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

    `labels` has one array per view where classes are to be matched, and is None for partners.
    """

    views: list[Array]
    hot: list[Array] | None
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
        """Pairs of views that are matched: all, or with many views neighbours only."""
        n = len(self.views)
        if n <= 4:
            return [(s, t) for s in range(n) for t in range(s + 1, n)]
        return [(v, (v + 1) % n) for v in range(n)]

    def coordinates(self, v: int, kind: Kind) -> Floats:
        """Return prepared samples; where there are fewer than features, on axes of their own."""
        if (v, kind) not in self._coordinates:
            rows = Preparation(kind).apply(np.asarray(self.views[v], np.float64))
            if rows.shape[1] > rows.shape[0]:
                with one_blas_thread():
                    values, columns = scipy.linalg.eigh(rows @ rows.T)
                rows = columns * np.sqrt(np.clip(values, 0, None))
            self._coordinates[v, kind] = rows
        return self._coordinates[v, kind]

    def centred(self, number: int, v: int, kind: Kind) -> tuple[Floats, Floats]:
        """Return samples to learn from and to match, less the mean of the former."""
        fold, rows = self.folds[number], self.coordinates(v, kind)
        train = rows[fold.train[v]]
        mean = train.mean(axis=0)
        return np.asarray(train - mean), np.asarray(rows[fold.test[v]] - mean)

    def whitened(self, number: int, v: int, choice: Choice) -> tuple[Floats, Floats]:
        """Return samples to learn from and to match, whitened."""
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

    def hot_of(self, number: int) -> list[Array] | None:
        """Return indicators of the samples to learn from."""
        train = self.folds[number].train
        return None if self.hot is None else [hot[rows] for hot, rows in zip(self.hot, train, strict=True)]

    def by_kernel(self, number: int, choice: Choice) -> Predicted:
        """Return what the kernel predicts for the samples to match."""
        hot = self.hot_of(number)
        sides = [self.whitened(number, v, choice) for v in range(len(self.views))]
        found: Predicted = {}
        for s, (train, test) in enumerate(sides):
            targets: dict[Target, Floats] = (
                {t: sides[t][0] for pair in self.directions for t in pair if s in pair and t != s}
                if hot is None
                else {LABELS: hot[s] - hot[s].mean(axis=0)}
            )
            energy = mean_energy(train)
            with one_blas_thread():
                own = kernel([train], [train], [energy], choice.width)
                solved = solve_kernel(own, np.hstack(list(targets.values())), choice.alpha)
                told = kernel([test], [train], [energy], choice.width) @ solved
            parts = np.split(told, np.cumsum([table.shape[1] for table in targets.values()])[:-1], axis=1)
            found |= {(s, target): part for target, part in zip(targets, parts, strict=True)}
        return found

    def by_members(self, number: int, choice: Choice, learn: LearnMembers) -> Predicted:
        """Return what dictionaries predict for the samples to match."""
        sides = [self.whitened(number, v, choice) for v in range(len(self.views))]
        hot, known = self.hot_of(number), np.empty(0, bool)
        if hot is not None:  # dictionaries know nothing of classes that a view has no sample of to learn from
            known = np.logical_and.reduce([own.any(axis=0) for own in hot])
            hot = [own[:, known] for own in hot]
        members = learn([train for train, _ in sides], hot, N_DICTIONARIES[len(self.folds)])
        found: Predicted = {}
        for s, (_, test) in enumerate(sides):
            others = [t for pair in self.directions for t in pair if s in pair and t != s]
            for target in others if hot is None else [LABELS]:
                told = np.mean([member.predict({s: test}, target, None) for member in members], axis=0)
                if hot is not None:
                    told = np.where(known, told[:, np.cumsum(known) - 1], 0.0)
                found[s, target] = told
        return found

    def direct(self, number: int, choice: Choice) -> dict[Pair, Floats]:
        """Return similarities of views that are compared directly."""
        tables = {}
        equal = pairs_of_equal_width([view.shape[1] for view in self.views])
        for s, t in sorted(set(equal) & set(self.directions)):
            (first, left), (second, right) = (self.raw_side(number, v, choice.kinds[v]) for v in (s, t))
            with one_blas_thread():
                metric = learn_metric(first, second, first.shape[1])
                tables[s, t] = np.asarray(unit(metric.change(left)) @ unit(metric.change(right)).T)
        return tables

    def raw_side(self, number: int, v: int, kind: Kind) -> tuple[Floats, Floats]:
        """Return samples to learn from and to match, prepared and centred, in the features of the view."""
        fold, view = self.folds[number], self.views[v]
        train, test = (
            Preparation(kind).apply(np.asarray(view[rows], np.float64)) for rows in (fold.train[v], fold.test[v])
        )
        mean = train.mean(axis=0)
        return np.asarray(train - mean), np.asarray(test - mean)

    def tables(self, number: int, choice: Choice, predicted: Predicted) -> dict[Pair, Floats]:
        """Return similarities of the samples to match, by predictions."""
        if self.hot is not None:
            shares = [hot.mean(axis=0) for hot in self.hot_of(number) or []]
            likely = []
            for s, prior in enumerate(shares):
                scores = np.clip(predicted[s, LABELS] + prior, 0, None)
                likely.append(scores / np.maximum(scores.sum(axis=1, keepdims=True), 1e-12))
            return {(s, t): likely[s] @ likely[t].T for s, t in self.directions}
        own = [unit(self.whitened(number, v, choice)[1]) for v in range(len(self.views))]
        tables = {}
        for s, t in self.directions:
            first, second = own[s] @ unit(predicted[t, s]).T, unit(predicted[s, t]) @ own[t].T
            total = choice.places[s] + choice.places[t]
            tables[s, t] = np.asarray((choice.places[s] * first + choice.places[t] * second) / total)
        return tables

    def scores(self, number: int, tables: dict[Pair, Floats]) -> Floats:
        """Return the score of each sample that was matched, both ways."""
        found = []
        for (s, t), table in tables.items():
            if self.hot is None:
                found += [1 / partner_ranks(table), 1 / partner_ranks(table.T)]
                continue
            first, second = (np.argmax(self.hot[v][self.folds[number].test[v]], axis=1) for v in (s, t))
            same = first[:, None] == second
            found += [average_precisions(table, same), average_precisions(table.T, same.T)]
        return np.nan_to_num(np.concatenate(found))

    def quick_scores(self, choice: Choice, *, direct: bool = False) -> Floats:
        """Return the scores of a choice by the kernel alone, or by the direct comparison alone."""
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


def unit(table: Floats) -> Floats:
    """Return rows of norm 1; rows of zeros stay."""
    norms = np.sqrt(np.einsum("ij,ij->i", table, table))
    return np.asarray(table / np.where(norms > 0, norms, 1.0)[:, None])


def split(counts: Sequence[int], paired: bool, n_folds: int, n_used: int) -> Iterator[Fold]:
    """Yield the first `n_used` of `n_folds` folds, of samples in random order; partners are in the same fold."""
    orders = [np.random.default_rng(0 if paired else v).permutation(n) for v, n in enumerate(counts)]
    for number in range(n_used):
        test = [np.sort(order[number::n_folds]) for order in orders]
        train = [np.setdiff1d(order, held) for order, held in zip(orders, test, strict=True)]
        yield Fold(train, test)


def better(candidates: Iterable[tuple[Choice, Floats]]) -> Choice:
    """Return the best choice, or the first unless another is better by more than the standard error.

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


def as_good(candidates: Sequence[tuple[Choice, Floats]]) -> Choice:
    """Return the first choice that is not worse than the best one by more than the standard error."""
    most = max((scores for _, scores in candidates), key=lambda scores: float(scores.mean()))
    for choice, scores in candidates:
        difference = most - scores
        if difference.mean() <= difference.std() / np.sqrt(difference.size):
            return choice
    raise AssertionError("the best choice is as good as itself")


def choose(views: list[Array], hot: list[Array] | None, paired: bool, wanted: Wanted, learn: LearnMembers) -> Choice:
    """Choose what users leave open.

    Parameters
    ----------
    views : list of arrays
        All training samples; those that lack a view do not take part.
    hot : list of arrays, or None
        Indicators of the labels of each view, if classes are to be matched.
    paired : bool
        Whether rows of the views are of the same samples.
    wanted : Wanted
    learn : callable
    """
    with one_blas_thread():
        return _choose(*complete(views, hot, paired), paired, wanted, learn)


def _choose(views: list[Array], hot: list[Array] | None, paired: bool, wanted: Wanted, learn: LearnMembers) -> Choice:
    """Choose by samples that have every view."""
    choice = wanted.start()
    n = min(len(view) for view in views)
    if n < FEWEST_SAMPLES:
        return choice
    quick = trial(views, hot, paired, QUICK_SAMPLES, 4 if n <= 200 else 3)
    choice = choose_kinds(quick, choice, wanted, direct=direct_is_open(views, hot, paired, wanted))
    for _ in range(N_PASSES):
        before = choice
        for others in open_settings(wanted, two_views=hot is None and len(views) == 2):
            candidates = [replace(choice, **changes) for changes in others]
            choice = better((one, quick.quick_scores(one)) for one in [choice, *candidates])
        if choice == before:
            break
    return choose_weights(views, hot, paired, choice, wanted, learn)


def open_settings(wanted: Wanted, *, two_views: bool) -> Iterator[list[dict[str, Any]]]:
    """Yield what can be tried instead of the present choice, one setting after the other."""
    if wanted.whiten and wanted.shrinkage is None:
        yield [{"shrinkage": shrinkage} for shrinkage in SHRINKAGES]
    if wanted.kernel_weight != 0:
        yield [{"width": width, "alpha": alpha} for width, alpha in KERNELS]
    if wanted.opens_places and two_views:
        yield [{"places": places} for places in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0))]


def complete(views: list[Array], hot: list[Array] | None, paired: bool) -> tuple[list[Array], list[Array] | None]:
    """Return the samples that have every view, or that have the view where samples are not paired."""
    there = [has_view(view) for view in views]
    if paired:
        there = [np.logical_and.reduce(there)] * len(views)
    kept = [view if rows.all() else view[rows] for view, rows in zip(views, there, strict=True)]
    return kept, None if hot is None else [own[rows] for own, rows in zip(hot, there, strict=True)]


def trial(views: list[Array], hot: list[Array] | None, paired: bool, most: int, n_folds: int, n_used: int = 0) -> Trial:
    """Return at most so many samples in folds."""
    rows = [spread(len(view), most) for view in views]
    own = [view[chosen] for view, chosen in zip(views, rows, strict=True)]
    labels = None if hot is None else [table[chosen] for table, chosen in zip(hot, rows, strict=True)]
    return Trial(own, labels, paired, n_folds, n_used or n_folds)


def direct_is_open(views: list[Array], hot: list[Array] | None, paired: bool, wanted: Wanted) -> bool:
    """Return whether views may be compared directly."""
    possible = wanted.compares_views and hot is None and paired and wanted.direct_weight != 0
    return possible and bool(pairs_of_equal_width([view.shape[1] for view in views]))


def choose_kinds(quick: Trial, choice: Choice, wanted: Wanted, *, direct: bool) -> Choice:
    """Choose the preparation of samples, first the same for all views, then for each view by itself.

    Samples are matched by the kernel, or directly where this is possible and better.
    """
    open_views = [
        v for v, kind in enumerate(wanted.preprocess) if kind == "auto" and quick.views[v].shape[1] >= FEWEST_FEATURES
    ]
    if not open_views:
        return choice

    def with_kinds(base: Choice, places: Sequence[int], kind: Kind) -> Choice:
        return replace(base, kinds=tuple(kind if v in places else old for v, old in enumerate(base.kinds)))

    direct = direct and quick.quick_scores(choice, direct=True).mean() > quick.quick_scores(choice).mean()

    def scored(candidates: Iterable[Choice]) -> Iterator[tuple[Choice, Floats]]:
        return ((one, quick.quick_scores(one, direct=direct)) for one in candidates)

    choice = better(scored(with_kinds(choice, open_views, kind) for kind in KINDS))
    for v in open_views if len(open_views) > 1 else []:
        choice = better(scored([choice, *(with_kinds(choice, [v], kind) for kind in KINDS)]))
    return choice


def choose_weights(
    views: list[Array], hot: list[Array] | None, paired: bool, choice: Choice, wanted: Wanted, learn: LearnMembers
) -> Choice:
    """Choose the weights of the direct comparison and of the kernel."""
    direct = wanted.direct_weight is None and direct_is_open(views, hot, paired, wanted)
    if wanted.kernel_weight is not None and not direct:
        return choice
    n = min(len(view) for view in views)
    full = trial(views, hot, paired, FULL_SAMPLES, 4, 4 if n <= 300 else 2 if n <= 800 else 1)
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
        choice = better(scored(replace(choice, direct_weight=weight)) for weight in DIRECT_WEIGHTS)
    if wanted.kernel_weight is None:
        choice = as_good([scored(replace(choice, kernel_weight=weight)) for weight in KERNEL_WEIGHTS])
    return choice
