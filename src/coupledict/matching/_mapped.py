"""The dictionaries of a matcher, and ridge maps from the codes of some views to the other views.

Coupled dictionaries are learned together, and all views share one code: the code made from some views is mapped to the
other views themselves. Semi-coupled dictionaries are learned for each view alone: each view has its own codes, and
codes are mapped to codes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse import csr_array

from ..coding.encode import sparse_encode
from ..estimators.ensemble import fit_many, plain_learner
from ..estimators.single import DictionaryLearning
from ..foundation.arrays import Array, Floats
from ..foundation.progress import Callback, Meter
from ..learning.predictors import SAMPLES_PER_ATOM, ridge, source_sets
from ._whitening import has_view, mean_energy, present_rows

Sources: TypeAlias = tuple[int, ...]
Target: TypeAlias = int | str

LABELS = "labels"  # the target that is not one of the views
ALL_SETS_VIEWS = 4  # with at most this many views, every set of views gets its own map


@dataclass(frozen=True)
class MemberSettings:
    """What the learners and the maps of all members have in common."""

    n_components: int
    n_nonzero: int
    max_iter: int
    ridge_alpha: float
    n_jobs: int | None


@dataclass(frozen=True)
class Member:
    """One member of the ensemble: a dictionary for each view, and maps from the codes of some views to the others.

    Attributes
    ----------
    components : list of arrays (n_components, n_whitened_features_v)
    weights : array of shape (n_views,)
    coupled : bool
        Whether all views share one code; otherwise each has its own.
    n_nonzero : int
        Most atoms in a code.
    maps : dict
        For each set of source views, the map from its codes to each target.
    """

    components: list[Array]
    weights: Floats
    coupled: bool
    n_nonzero: int
    maps: dict[Sources, dict[Target, Array]] = field(default_factory=dict)

    def codes(self, views: dict[int, Array], n_jobs: int | None) -> csr_array:
        """Code samples from the given views; codes of separate dictionaries are concatenated."""
        if self.coupled:
            given = [views.get(v) for v in range(len(self.components))]
            return sparse_encode(
                given, self.components, n_nonzero_coefs=self.n_nonzero, view_weights=self.weights, n_jobs=n_jobs
            )
        parts = [
            sparse_encode(views[v], self.components[v], n_nonzero_coefs=self.n_nonzero, n_jobs=n_jobs)
            for v in sorted(views)
        ]
        return parts[0] if len(parts) == 1 else csr_array(scipy.sparse.hstack(parts, format="csr"))

    def mapped(self, views: dict[int, Array], target: Target, n_jobs: int | None) -> Array:
        """Map the codes of these views to a target: to the target view, to its codes, or to scores of labels."""
        sources = tuple(sorted(views))
        if sources not in self.maps:  # with many views, not every set has a map: average those of its single views
            alone = [self.mapped({v: view}, target, n_jobs) for v, view in views.items()]
            return np.asarray(sum(alone[1:], alone[0]) / len(alone))
        return np.asarray(self.codes(views, n_jobs) @ self.maps[sources][target])

    def predict(self, views: dict[int, Array], target: Target, n_jobs: int | None) -> Array:
        """Predict a view, or scores of labels, from the given views."""
        found = self.mapped(views, target, n_jobs)
        return found if self.coupled or not isinstance(target, int) else np.asarray(found @ self.components[target])

    def compared_codes(self, views: dict[int, Array], target: int, n_jobs: int | None) -> Array:
        """Return dense codes that can be compared with those of the target view."""
        if self.coupled or target in views:
            return self.codes(views, n_jobs).toarray()
        return self.mapped(views, target, n_jobs)

    # To files and back

    def tensors(self, number: int) -> dict[str, Array]:
        """Return the dictionaries and maps as arrays of a file, under the number of the member."""
        tensors = {f"components.{number}.{v}": atoms for v, atoms in enumerate(self.components)}
        for sources, targets in self.maps.items():
            name = f"map.{number}.{'-'.join(map(str, sources))}"
            tensors |= {f"{name}.{target}": table for target, table in targets.items()}
        return tensors

    def with_maps_of(self, tensors: Mapping[str, Array], number: int, n_classes: int | None) -> Member:
        """Return the member with the maps of a file: at least from each view to all others and to labels, if any."""
        n_views = len(self.components)
        maps: dict[Sources, dict[Target, Array]] = {}
        for key, table in tensors.items():
            if not key.startswith(f"map.{number}."):
                continue
            _, _, numbers, name = key.split(".")
            sources = tuple(int(v) for v in numbers.split("-"))
            target: Target = LABELS if name == LABELS else int(name)
            known = all(0 <= v < n_views for v in sources) and (target == LABELS or 0 <= int(target) < n_views)
            if not known or table.shape != self._map_shape(sources, target, n_classes):
                raise ValueError(f"its tensor {key!r} does not fit its dictionaries")
            maps.setdefault(sources, {})[target] = table
        for sources in [(v,) for v in range(n_views)] + list(maps):
            expected = {v for v in range(n_views) if v not in sources} | (set() if n_classes is None else {LABELS})
            if set(maps.get(sources, {})) != expected:
                raise ValueError(f"its maps from views {list(sources)} are not complete")
        return replace(self, maps=maps)

    def _map_shape(self, sources: Sources, target: Target, n_classes: int | None) -> tuple[int, int | None]:
        n_codes = len(self.components[0]) if self.coupled else sum(len(self.components[v]) for v in sources)
        if target == LABELS:
            return n_codes, n_classes
        return n_codes, self.components[int(target)].shape[1 if self.coupled else 0]


def sets_of_views(n_views: int) -> list[Sources]:
    """Return the sets of views that get maps: all if views are few, otherwise each alone and all but one."""
    if n_views > ALL_SETS_VIEWS:
        return source_sets(n_views)
    return [rest for size in range(1, n_views) for rest in itertools.combinations(range(n_views), size)]


def evenly_spaced(n: int, size: int) -> slice | npt.NDArray[np.int64]:
    """Return indices of `size` of n samples at even distances."""
    return slice(None) if size >= n else np.arange(size) * n // size


def effective_sample_count(views: Sequence[Array]) -> int:
    """Return how many samples count when the number of atoms is chosen.

    Atoms are learned from all samples of a view, maps only from those that have both views. As many atoms as the former
    allow worsened the matching of unpaired texts and pictures; as many as the latter allow, that of halves of digits.
    """
    there = [has_view(view) for view in views]
    rarest = min(int(np.count_nonzero(rows)) for rows in there)
    if len({rows.size for rows in there}) > 1:  # views of different samples
        return rarest
    return (rarest + int(np.count_nonzero(np.logical_and.reduce(there)))) // 2


def with_views(views: Sequence[Array], names: Sequence[Target]) -> npt.NDArray[np.bool_]:
    """Return which samples have all these targets; every sample has labels."""
    found: npt.NDArray[np.bool_] = np.ones(len(views[0]), bool)
    for v in names:
        if isinstance(v, int):
            found &= has_view(views[v])
    if not found.any():
        raise ValueError(
            f"Expected samples that have all of the views {list(names)}, got none: nothing relates one to the other."
        )
    return found


def solve(codes: csr_array, targets: dict[Target, Any], ridge_alpha: float) -> dict[Target, Array]:
    """Return the ridge map from codes to each target; targets are dense arrays or codes."""
    table = codes.astype(np.float64)
    gram = (table.T @ table).toarray()
    products: list[Any] = [table.T @ target.astype(np.float64) for target in targets.values()]
    sums = [np.asarray(p.toarray() if hasattr(p, "toarray") else p) for p in products]
    side_by_side = np.hstack(sums)
    # Codes of zeros only predict nothing.
    solved = (ridge(gram, side_by_side, ridge_alpha) if gram.any() else side_by_side).astype(codes.dtype)
    parts = np.split(solved, np.cumsum([part.shape[1] for part in sums])[:-1], axis=1)
    return {target: np.ascontiguousarray(part) for target, part in zip(targets, parts, strict=True)}


def fit_coupled(
    views: list[Array],
    one_hot: Array | None,
    label_weight: float,
    seeds: Sequence[int],
    settings: MemberSettings,
    callback: Callback | None,
) -> list[Member]:
    """Learn dictionaries with one code for all views, labels included, and maps from some views to the others."""
    labels = None if one_hot is None else (one_hot - one_hot.mean(axis=0)).astype(views[0].dtype)
    all_views = views if labels is None else [*views, labels]
    incomplete = not all(has_view(view).all() for view in views)
    energies = [mean_energy(view) for view in all_views]
    weights = np.array([1 / energy if energy > 0 else 1.0 for energy in energies])
    if labels is not None:
        weights[-1] *= label_weight
    learners = [
        plain_learner(
            settings.n_components,
            n_nonzero_coefs=settings.n_nonzero,
            max_iter=settings.max_iter,
            normalize="views",  # joint norms match pictures and text less well (mAP 0.260 against 0.268)
            view_weights=weights,
            predictor="dictionary",
            missing="nan" if incomplete else "error",
            random_state=seed,
        )
        for seed in seeds
    ]
    sets = sets_of_views(len(views))
    meter = Meter(callback, "mapping", len(learners) * len(sets))
    members = []
    for learner in fit_many(learners, all_views, settings.n_jobs, callback=callback):
        atoms = list(learner.components_)[: len(views)]
        member = Member(atoms, weights[: len(views)], coupled=True, n_nonzero=settings.n_nonzero)
        maps = {}
        for sources in sets:
            targets: dict[Target, Array] = {v: view for v, view in enumerate(views) if v not in sources}
            if labels is not None:
                targets[LABELS] = labels
            maps[sources] = _maps(member, views, sources, targets, settings)
            meter.advance()
        members.append(replace(member, maps=maps))
    return members


def _maps(
    member: Member, views: list[Array], sources: Sources, targets: dict[Target, Array], settings: MemberSettings
) -> dict[Target, Array]:
    """Return the maps from codes of some views to each target, each fitted to samples that have both."""
    size = SAMPLES_PER_ATOM * len(member.components[0])
    groups: dict[bytes, list[Target]] = {}  # targets with the same samples
    for target in targets:
        groups.setdefault(with_views(views, (*sources, target)).tobytes(), []).append(target)
    maps: dict[Target, Array] = {}
    for same in groups.values():
        rows = np.flatnonzero(with_views(views, (*sources, *same)))
        rows = rows[evenly_spaced(rows.size, size)]
        codes = member.codes({v: views[v][rows] for v in sources}, settings.n_jobs)
        maps |= solve(codes, {target: targets[target][rows] for target in same}, settings.ridge_alpha)
    return {target: maps[target] for target in targets}


def fit_semi_coupled(
    views: list[Array],
    one_hot: list[Array] | None,
    paired: bool,
    seeds: Sequence[int],
    settings: MemberSettings,
    callback: Callback | None,
) -> list[Member]:
    """Learn dictionaries for each view alone, and map codes to codes.

    If samples are not paired, the target of a sample is the mean code of its class in the other view.
    """
    learned = _learn_views(views, seeds, settings, callback)
    sets = sets_of_views(len(views)) if paired else [(v,) for v in range(len(views))]
    meter = Meter(callback, "mapping", len(seeds) * len(sets))
    members = []
    for atoms in learned:
        member = Member(atoms, np.ones(len(views)), coupled=False, n_nonzero=settings.n_nonzero)
        codes = [_codes_or_zeros(member, v, view, settings.n_jobs) for v, view in enumerate(views)]
        maps = {}
        for sources in sets:
            maps[sources] = _code_maps(codes, views, one_hot, paired, sources, settings.ridge_alpha)
            meter.advance()
        members.append(replace(member, maps=maps))
    return members


def _learn_views(
    views: list[Array], seeds: Sequence[int], settings: MemberSettings, callback: Callback | None
) -> list[list[Array]]:
    """Return, for each seed, a dictionary for each view, learned from that view alone."""
    meter = Meter(callback, "learning", len(views) * len(seeds) * settings.max_iter)
    count = None if callback is None else lambda progress: meter.advance()
    learned = []
    for view in views:
        learners = [
            DictionaryLearning(
                settings.n_components,
                n_nonzero_coefs=settings.n_nonzero,
                max_iter=settings.max_iter,
                random_state=seed,
            )
            for seed in seeds
        ]
        fitted = fit_many(learners, present_rows(view), settings.n_jobs, callback=count)
        learned.append([learner.components_ for learner in fitted])
    return [list(atoms) for atoms in zip(*learned, strict=True)]


def _codes_or_zeros(member: Member, v: int, view: Array, n_jobs: int | None) -> csr_array:
    """Return the codes of a view, zero for samples that lack it."""
    there = has_view(view)
    if there.all():
        return member.codes({v: view}, n_jobs)
    codes = member.codes({v: view[there]}, n_jobs)
    counts = np.zeros(len(view) + 1, codes.indptr.dtype)
    counts[1:][there] = np.diff(codes.indptr)
    return csr_array((codes.data, codes.indices, np.cumsum(counts)), shape=(len(view), codes.shape[1]))


def _code_maps(
    codes: list[csr_array],
    views: list[Array],
    one_hot: list[Array] | None,
    paired: bool,
    sources: Sources,
    ridge_alpha: float,
) -> dict[Target, Array]:
    """Return the maps from the codes of some views to the codes of the others, and to labels."""
    own = codes[sources[0]] if len(sources) == 1 else csr_array(scipy.sparse.hstack([codes[v] for v in sources]))
    targets: dict[Target, Any] = {}
    for v in range(len(codes)):
        if v in sources:
            continue
        if paired:
            targets[v] = codes[v]
        else:
            assert one_hot is not None  # without pairs, views share nothing but the classes
            targets[v] = one_hot[sources[0]] @ np.asarray(codes[v].T @ (one_hot[v] / one_hot[v].sum(axis=0))).T
    if one_hot is not None:
        targets[LABELS] = one_hot[sources[0]] - one_hot[sources[0]].mean(axis=0)
    if all(has_view(view).all() for view in views):
        return solve(own, targets, ridge_alpha)
    maps: dict[Target, Array] = {}
    for target, table in targets.items():
        rows = np.flatnonzero(with_views(views, (*sources, target)))
        maps |= solve(csr_array(own[rows]), {target: table[rows]}, ridge_alpha)
    return maps
