"""How predictors of views are fitted: settings are chosen on some samples, then systems are solved with all.

The settings of the heads are chosen on at most MOST_TO_CHOOSE samples in memory (:mod:`coupledict.learning.choice`).
Dictionaries that were learned from few samples fit these better than others, so codes that judge heads must not come
from them: then those held out are left out of learning too, in fits of their own. What the heads consist of follows
from sums over all samples, those that were held out included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ..coding.coders import make_coder
from ..coding.passes import encode
from ..coding.recipe import Recipe
from ..coding.rule import CodingRule
from ..coding.samples import Samples
from ..data.interface import Data, Portion
from ..data.jobs import ReadViews
from ..data.memory import InMemory
from ..data.moments import Moments
from ..foundation.arrays import Array, Flags, Floats
from ..parallel.blas import one_blas_thread
from ..parallel.cancel import CancelToken
from ..parallel.jobs import Threads
from ..parallel.ordered import in_order
from .choice import Choice, Features, Trial, choose, leading_axes, local_coordinates, make_splits, n_local
from .linear_maps import Extended, Ridge
from .local_maps import Anchors, Kind
from .predictors import source_sets
from .scaling import ordinary_size
from .view_predictor import (
    MAPS_DTYPE,
    MOST_MAPPED,
    Coordinates,
    Maps,
    SumMaps,
    SumProducts,
    ViewPredictor,
    fill_sources,
    samples_lack,
)

#: By source views and target view.
ViewPredictors: TypeAlias = dict[tuple[tuple[int, ...], int], ViewPredictor]
#: From samples and a number of atoms to dictionaries, one for each view.
Learn: TypeAlias = Callable[[InMemory, int], list[Array]]

MOST_TO_CHOOSE = 3072  # samples that settings are chosen on
MOST_TO_SUM = 1 << 14  # samples that systems are solved with, unless there are many atoms
SAMPLES_PER_ATOM = 64
LEAST_TO_CHOOSE = 10  # with fewer samples there is nothing to choose by: a ridge regression
DEFAULT_PENALTY = 1.0
PARTS_OF_ATOMS = (1, 2, 4)  # of the atoms that a code may have, those that are tried
LEARN_AGAIN = 16  # with fewer samples per atom, those held out are left out of learning too
MOST_ANCHORS = 512
MOST_CODED = 1024  # atoms; over more there is no head for codes, since it would take eigenvectors of as many equations


def fit_view_predictors(
    data: Data,
    components: list[Array],
    weights: Floats,
    rule: CodingRule,
    learn: Learn | None,
    threads: Threads,
    rng: np.random.Generator,
    moments: Moments | None = None,
) -> ViewPredictors:
    """Return predictors for each source set and each other view; `rule` and `weights` are scaled as the data are.

    Parameters
    ----------
    data : Data
    components : list of arrays
        The dictionaries.
    weights : array of shape (n_views,)
    rule : CodingRule
    learn : callable or None
        Learns dictionaries as `components` were learned; None where they cannot be learned again.
    threads : Threads
    rng : Generator
    moments : Moments or None
        Fill in missing entries.
    """
    sample = data.run(ReadViews(), threads, data.runs(MOST_TO_CHOOSE))
    chooser = _Chooser(sample, components, weights, rule, data.missing, moments, int(rng.integers(2**31)))
    if learn is not None and len(sample[0]) < LEARN_AGAIN * components[0].shape[0]:
        chooser.learn_again(learn)
    sets = [sources for sources in source_sets(len(components)) if weights[list(sources)].all()]
    for sources in sets:
        chooser.filled(sources)
    cancel = CancelToken(threads.cancel)
    with one_blas_thread():
        found = in_order(chooser.plans, sets, min(threads.count, max(1, len(sets))), cancel, take_part=False)
        plans = [plan for own in found for plan in own]
    size = min(data.n_samples, max(MOST_TO_SUM, SAMPLES_PER_ATOM * components[0].shape[0]))
    portion = None if size == data.n_samples else data.take(data.order(rng), 0, size)[0]
    with one_blas_thread():
        solved = [_solve(plan, *chooser.solved_with(plan, data, portion), threads) for plan in plans]
    return {(predictor.sources, predictor.target): predictor for predictor in solved}


@dataclass(frozen=True)
class _Plan:
    """What a predictor will consist of; only its numbers are not known yet.

    Attributes
    ----------
    recipe : Recipe
        Codes the sources, over dictionaries that are divided by `unit`.
    axes : array of shape (n_features, n_components), or None
        Leading principal components of a target of many features, which local maps predict.
    """

    sources: tuple[int, ...]
    target: int
    coordinates: Coordinates
    constant: float
    anchors: dict[Kind, Anchors]
    recipe: Recipe
    unit: float
    axes: Floats | None
    choice: Choice


@dataclass(frozen=True)
class _Split:
    """Samples of which some are held out: what heads are functions of, with anchors that do not know these.

    Attributes
    ----------
    held : array of bool
        Which samples are held out.
    anchors : dict of Anchors
    features : Features
        Of all samples.
    """

    held: Flags
    anchors: dict[Kind, Anchors]
    features: Features

    def trial(self, y: Floats, known: Flags) -> Trial | None:
        """Return the trial of a target that some samples have; None if all of these, or none, are held out."""
        train, held = known & ~self.held, known & self.held
        if not train.any() or not held.any():
            return None
        return Trial(self.features.rows(train), self.features.rows(held), y[train], y[held], self.anchors)


def _choose(splits: Sequence[_Split], y: Floats, known: Flags, candidates: Sequence[int | None]) -> Choice:
    """Return the settings for a target that some samples have."""
    trials = [trial for split in splits if (trial := split.trial(y, known)) is not None]
    if np.count_nonzero(known) < LEAST_TO_CHOOSE or not trials:
        return Choice.ridge(DEFAULT_PENALTY)
    return choose(trials, candidates)


class _Chooser:
    """Chooses the settings of predictors on samples in memory."""

    def __init__(
        self,
        views: list[Floats],
        components: list[Array],
        weights: Floats,
        rule: CodingRule,
        missing: bool,
        moments: Moments | None,
        seed: int,
    ) -> None:
        self._views = views
        self._components = components
        self._weights = weights
        self._rule = rule
        self._missing = missing
        self._moments = moments
        self._seed = seed
        self._splits = make_splits(len(views[0]), np.random.default_rng(seed))
        self._dictionaries = [components] * len(self._splits)
        self._filled: dict[tuple[int, ...], list[Floats]] = {}

    def learn_again(self, learn: Learn) -> None:
        """Learn dictionaries for each split from the samples that are not held out."""
        everything = np.arange(len(self._views[0]))
        if len(everything) < LEAST_TO_CHOOSE:
            return
        for number, held in enumerate(self._splits):
            train = np.setdiff1d(everything, held)
            data = InMemory([np.asarray(view[train], self._components[0].dtype) for view in self._views])
            data.missing = self._missing
            self._dictionaries[number] = learn(data, max(1, min(self._components[0].shape[0], len(train) // 4)))

    def filled(self, sources: tuple[int, ...]) -> list[Floats]:
        """Return all views of the samples with missing entries filled in, those of the sources by what they know."""
        if not samples_lack(self._views):
            return self._views
        if sources not in self._filled:
            everything = range(len(self._views))
            if () not in self._filled:
                self._filled[()] = fill_sources(self._views, everything, self._moments)
            own = dict(zip(sources, fill_sources(self._views, sources, self._moments), strict=True))
            self._filled[sources] = [own.get(v, self._filled[()][v]) for v in everything]
        return self._filled[sources]

    def solved_with(self, plan: _Plan, data: Data, portion: Portion | None) -> tuple[Data, Portion | None]:
        """Return the samples that a predictor follows from: where entries are missing, those at hand, filled in."""
        if not self._missing:
            return data, portion
        rows = np.flatnonzero(~np.isnan(self._views[plan.target]).all(axis=1))
        own = InMemory([view[rows] for view in self.filled(plan.sources)])
        own.scale = data.scale
        own.dtype = data.dtype
        return own, None

    def plans(self, sources: tuple[int, ...]) -> list[_Plan]:
        """Return the plans for source views and each other view that samples have."""
        views = self.filled(sources)
        chosen = [views[v] for v in sources]
        coordinates = Coordinates.of(chosen)
        t = coordinates(chosen)
        constant = float(np.sqrt(np.mean(np.square(local_coordinates(t, "lines", 0.0))))) or 1.0
        rng = np.random.default_rng([self._seed, *sources])
        recipe, unit = self._recipe(sources, self._components)
        candidates = _numbers_of_atoms(recipe) if recipe.n_atoms <= MOST_CODED else []
        splits = []
        for held, dictionaries in zip(self._splits, self._dictionaries, strict=True):
            out = np.isin(np.arange(len(t)), held)
            train = out if out.all() else ~out
            # Axes that span all samples would fit those held out better than samples that are new.
            wide = t.shape[1] >= np.count_nonzero(train)
            turn = Coordinates.of([view[train] for view in chosen]) if wide else coordinates
            own_t = turn(chosen) if wide else t
            anchors = _anchors(turn, dictionaries, sources, own_t[train], rng)
            codes = {number: self._encode(sources, dictionaries, number) for number in candidates}
            correlations = {kind: own.correlations(own_t) for kind, own in anchors.items()}
            features = Features(own_t, codes, correlations, constant)
            splits.append(_Split(out, anchors, features))
        anchors = _anchors(coordinates, self._components, sources, t, rng)
        plans = []
        for target in range(len(self._views)):
            known = np.asarray(~np.isnan(self._views[target]).all(axis=1))
            if target in sources or not known.any():
                continue
            y = views[target]
            choice = _choose(splits, y, known, candidates)
            axes = leading_axes(y[known] - y[known].mean(axis=0), MOST_MAPPED) if y.shape[1] > MOST_MAPPED else None
            plans.append(
                _Plan(
                    sources=sources,
                    target=target,
                    coordinates=coordinates,
                    constant=constant,
                    anchors=anchors,
                    recipe=_limited(recipe, choice.n_nonzero),
                    unit=unit,
                    axes=axes,
                    choice=choice,
                )
            )
        return plans

    def _recipe(self, sources: Sequence[int], dictionaries: list[Array]) -> tuple[Recipe, float]:
        """Return how to code source views, and the number that their dictionaries are divided by."""
        atoms, unit = ordinary_size([dictionaries[v] for v in sources])
        dtype = self._components[0].dtype
        recipe = Recipe(atoms, self._weights[list(sources)], dtype, self._rule, len(self._views[0]), self._missing)
        return recipe, unit

    def _encode(self, sources: Sequence[int], dictionaries: list[Array], n_nonzero: int | None) -> Floats:
        """Return the codes of all samples."""
        recipe = _limited(self._recipe(sources, dictionaries)[0], n_nonzero)
        samples = Samples([self._views[v] for v in sources], recipe.dtype, missing=self._missing)
        coder = make_coder(recipe, Threads())
        return np.asarray(encode(coder, samples, Threads()).as_csr(recipe.n_atoms)[0].toarray(), np.float64)


def _numbers_of_atoms(recipe: Recipe) -> Sequence[int | None]:
    """Return the numbers of atoms to choose from; None stands for the rule itself."""
    if recipe.rule.tol is not None or recipe.rule.pursuit == "lasso":
        return [None]
    most = recipe.n_nonzero
    if recipe.missing:  # samples are coded by what each has, and then predicted by one of several predictors
        return [most]
    return sorted({max(1, most // part) for part in PARTS_OF_ATOMS})


def _limited(recipe: Recipe, n_nonzero: int | None) -> Recipe:
    return recipe if n_nonzero is None else replace(recipe, rule=replace(recipe.rule, n_nonzero=n_nonzero))


def _anchors(
    coordinates: Coordinates,
    dictionaries: list[Array],
    sources: Sequence[int],
    t: Floats,
    rng: np.random.Generator,
) -> dict[Kind, Anchors]:
    """Return the anchors of local maps: lines through source atoms, and points that represent samples."""
    atoms = coordinates.side_by_side([np.asarray(dictionaries[v], np.float64) for v in sources])
    count = min(len(atoms), MOST_ANCHORS)
    lines = atoms[np.linspace(0, len(atoms), count, endpoint=False).astype(np.int64)] @ coordinates.axes
    return {"lines": Anchors.lines(lines), "points": Anchors.points(t, max(1, min(count, len(t) // 4)), rng)}


def _solve(plan: _Plan, data: Data, portion: Portion | None, threads: Threads) -> ViewPredictor:
    """Return the predictor of a plan, from sums over a portion of the samples."""
    choice, shares = plan.choice, plan.choice.shares
    coded = shares["codes"] > 0
    points = plan.anchors["points"] if shares["kernel"] > 0 else None
    job = SumProducts(plan.sources, plan.target, plan.coordinates, plan.recipe if coded else None, points, choice.width)
    products = data.run(job, threads, portion)
    n_coordinates = plan.coordinates.axes.shape[1]
    ridge = Ridge(products, n_coordinates)
    means = ridge.mean[:n_coordinates]
    plain = ridge.solve(choice.penalty)
    linear = (shares["ridge"] + shares["ridge_maps"]) * plain
    bias = ridge.y_mean.copy()
    further: dict[str, Floats] = {}
    columns = {"codes": slice(n_coordinates, n_coordinates + plan.recipe.n_atoms * coded)}
    columns["kernel"] = slice(columns["codes"].stop, None)
    for name, penalty in (("codes", choice.codes_penalty), ("kernel", choice.kernel_penalty)):
        if shares[name] > 0:
            extended = Extended(ridge, choice.penalty, ridge.further(columns[name]))
            further[name] = shares[name] * extended.solve(penalty)
            linear += shares[name] * plain - extended.explained @ further[name]
            bias -= extended.mean @ further[name]
    bias -= means @ linear
    maps = _solve_maps(plan, data, threads, portion, (ridge.y_mean - means @ plain, plain), ridge.y_mean)
    return _finish(plan, bias, linear, further, maps, data)


def _solve_maps(
    plan: _Plan,
    data: Data,
    threads: Threads,
    portion: Portion | None,
    ridge: tuple[Floats, Floats],
    mean: Floats,
) -> Floats | None:
    """Return the local maps of both heads that have them, weighted by their shares, as one; None without these."""
    choice = plan.choice
    bases: dict[str, tuple[Floats, Floats | None]] = {"ridge_maps": ridge, "mean_maps": (mean, None)}
    used = {name: base for name, base in bases.items() if choice.shares[name] > 0}
    if not used:
        return None
    settings = {"ridge_maps": choice.ridge_maps, "mean_maps": choice.mean_maps}
    ranks = {name: n_local(choice.kind, settings[name].rank) for name in used}
    rank = max(ranks.values())
    anchors = plan.anchors[choice.kind]
    job = SumMaps(
        plan.sources, plan.target, plan.coordinates, anchors, plan.constant, rank, list(used.values()), plan.axes
    )
    sums = data.run(job, threads, portion)
    width = sums.b.shape[2] // len(used)
    total = np.zeros((len(anchors), rank, width))
    with one_blas_thread():
        for place, name in enumerate(used):
            own = slice(place * width, (place + 1) * width)
            solved = sums.solve(ranks[name], settings[name].shrinkage, own)
            total[:, : ranks[name]] += choice.shares[name] * solved
    return total


def _finish(
    plan: _Plan, bias: Floats, linear: Floats, further: dict[str, Floats], maps: Floats | None, data: Data
) -> ViewPredictor:
    """Return the predictor for samples as they were given, in their number type; `data` are multiplied by a number."""
    scale, dtype, choice = data.scale, data.dtype, plan.choice
    # Samples of subnormal numbers would take a factor beyond all numbers.
    most = float(np.finfo(dtype).max)
    given = replace(plan.coordinates, factors=[min(float(own) * scale, most) for own in plan.coordinates.factors])

    def cast(array: Floats) -> Array:
        return np.ascontiguousarray(array, dtype)

    return ViewPredictor(
        sources=plan.sources,
        target=plan.target,
        coordinates=given.astype(dtype),
        constant=plan.constant,
        bias=cast(bias / scale),
        linear=cast(linear / scale),
        n_nonzero=choice.n_nonzero,
        codes=cast(further["codes"] * plan.unit) if "codes" in further else None,
        points=plan.anchors["points"].astype(dtype) if "kernel" in further else None,
        width=choice.width,
        kernel=cast(further["kernel"] / scale) if "kernel" in further else None,
        maps=None if maps is None else _finish_maps(plan, maps, scale, dtype),
        shares=choice.shares,
        scores=choice.scores.scaled(1 / scale),
    )


def _finish_maps(plan: _Plan, maps: Floats, scale: float, dtype: np.dtype[Any]) -> Maps:
    """Return local maps for samples as they were given."""
    unit = float(np.abs(maps).max(initial=0)) or 1.0
    return Maps(
        plan.anchors[plan.choice.kind].astype(dtype),
        np.ascontiguousarray(maps / unit, MAPS_DTYPE),
        unit / scale,
        None if plan.axes is None else np.ascontiguousarray(plan.axes.T, dtype),
    )
