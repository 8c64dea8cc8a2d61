"""From the codes of some views to the others: the dictionaries of a matcher and the ridge maps behind them.

Two kinds of coupling differ in where codes come from and where maps lead. With ``"code"`` all views share one code: the
dictionaries are learned together, the code of any views is mapped to the other views themselves. With ``"mapped"`` each
view has a dictionary and codes of its own, and codes are mapped to codes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse import csr_array

from .._ensemble import fit_many
from .._learner import CoupledDictionaryLearning
from .._predict import SAMPLES_PER_ATOM, ridge, source_sets
from .._pursuit import sparse_encode
from .._single import DictionaryLearning
from .._views import Array

Sources: TypeAlias = tuple[int, ...]
Target: TypeAlias = int | str

LABELS = "labels"  # the target that is no view of the user's
ALL_SETS_VIEWS = 4  # so few views have few sets of them, and each set gets its map


@dataclass(frozen=True)
class Settings:
    """What the learners and the maps of all members have in common."""

    n_components: int
    n_nonzero: int
    max_iter: int
    alpha: float
    n_jobs: int | None


@dataclass
class Member:
    """One of several dictionaries for each view, and the maps from codes of some views to the others."""

    components: list[Array]
    weights: npt.NDArray[np.float64]
    coupled: bool
    n_nonzero: int
    maps: dict[Sources, dict[Target, Array]] = field(default_factory=dict)

    def codes(self, views: dict[int, Array], n_jobs: int | None) -> csr_array:
        """Code samples from the views that are given; codes of separate dictionaries stand side by side."""
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
        """Return what the map of these views leads to: the target view, its codes, or scores of labels."""
        sources = tuple(sorted(views))
        if sources not in self.maps:  # many views have too many sets of them: each view predicts alone
            alone = [self.mapped({v: view}, target, n_jobs) for v, view in views.items()]
            return np.asarray(sum(alone[1:], alone[0]) / len(alone))
        return np.asarray(self.codes(views, n_jobs) @ self.maps[sources][target])

    def predict(self, views: dict[int, Array], target: Target, n_jobs: int | None) -> Array:
        """Predict a view, or scores of labels, from the views that are given."""
        found = self.mapped(views, target, n_jobs)
        return found if self.coupled or not isinstance(target, int) else np.asarray(found @ self.components[target])

    def compared_codes(self, views: dict[int, Array], target: int, n_jobs: int | None) -> Array:
        """Return codes that can be compared with those of the target view, which has dense ones itself."""
        if self.coupled or target in views:
            return self.codes(views, n_jobs).toarray()
        return self.mapped(views, target, n_jobs)


def sets_of_views(n_views: int) -> list[Sources]:
    """Return the sets of views that get maps: all of them where views are few, else each alone and all but one."""
    if n_views > ALL_SETS_VIEWS:
        return source_sets(n_views)
    return [rest for size in range(1, n_views) for rest in itertools.combinations(range(n_views), size)]


def spread(n: int, size: int) -> slice | npt.NDArray[np.int64]:
    """Choose `size` of n samples, spread evenly."""
    return slice(None) if size >= n else np.arange(size) * n // size


def solve(codes: csr_array, targets: dict[Target, Any], alpha: float) -> dict[Target, Array]:
    """Return the ridge map from codes to each target, a dense array or codes."""
    table = codes.astype(np.float64)
    gram = (table.T @ table).toarray()
    products: list[Any] = [table.T @ target.astype(np.float64) for target in targets.values()]
    sums = [np.asarray(p.toarray() if hasattr(p, "toarray") else p) for p in products]
    side_by_side = np.hstack(sums)
    # Codes of nothing but zeros predict nothing.
    solved = (ridge(gram, side_by_side, alpha) if gram.any() else side_by_side).astype(codes.dtype)
    parts = np.split(solved, np.cumsum([part.shape[1] for part in sums])[:-1], axis=1)
    return {target: np.ascontiguousarray(part) for target, part in zip(targets, parts, strict=True)}


def fit_coupled(
    views: list[Array], hot: Array | None, label_weight: float, seeds: Sequence[int], settings: Settings
) -> list[Member]:
    """Learn dictionaries with one code for all views, the labels among them, and map codes of some to the others."""
    labels = None if hot is None else (hot - hot.mean(axis=0)).astype(views[0].dtype)
    all_views = views if labels is None else [*views, labels]
    energies = [float(np.mean(np.einsum("ij,ij->i", view, view, dtype=np.float64))) for view in all_views]
    weights = np.array([1 / energy if energy > 0 else 1.0 for energy in energies])
    if labels is not None:
        weights[-1] *= label_weight
    learners = [
        CoupledDictionaryLearning(
            settings.n_components,
            n_nonzero_coefs=settings.n_nonzero,
            max_iter=settings.max_iter,
            view_weights=weights,
            refit=False,
            random_state=seed,
        )
        for seed in seeds
    ]
    members = []
    for learner in fit_many(learners, all_views, settings.n_jobs):
        atoms = learner.components_[: len(views)]
        member = Member(atoms, weights[: len(views)], coupled=True, n_nonzero=settings.n_nonzero)
        chosen = spread(len(views[0]), SAMPLES_PER_ATOM * len(atoms[0]))
        for sources in sets_of_views(len(views)):
            targets: dict[Target, Array] = {v: view for v, view in enumerate(views) if v not in sources}
            if labels is not None:
                targets[LABELS] = labels
            codes = member.codes({v: views[v][chosen] for v in sources}, settings.n_jobs)
            member.maps[sources] = solve(codes, {t: table[chosen] for t, table in targets.items()}, settings.alpha)
        members.append(member)
    return members


def fit_mapped(
    views: list[Array], hot: list[Array] | None, paired: bool, seeds: Sequence[int], settings: Settings
) -> list[Member]:
    """Learn dictionaries for each view alone, and map codes to codes.

    Samples without partners aim at the mean code of their class in the other view.
    """
    samples: list[Any] = list(views)  # each learner takes one view, not a list of them
    learned = [
        fit_many(
            [
                DictionaryLearning(
                    settings.n_components,
                    n_nonzero_coefs=settings.n_nonzero,
                    max_iter=settings.max_iter,
                    random_state=seed,
                )
                for seed in seeds
            ],
            view,
            settings.n_jobs,
        )
        for view in samples
    ]
    members = []
    for learners in zip(*learned, strict=True):
        atoms = [learner.components_ for learner in learners]
        member = Member(atoms, np.ones(len(views)), coupled=False, n_nonzero=settings.n_nonzero)
        codes = [member.codes({v: view}, settings.n_jobs) for v, view in enumerate(views)]
        for sources in sets_of_views(len(views)) if paired else [(v,) for v in range(len(views))]:
            member.maps[sources] = _code_maps(codes, hot, paired, sources, settings.alpha)
        members.append(member)
    return members


def _code_maps(
    codes: list[csr_array], hot: list[Array] | None, paired: bool, sources: Sources, alpha: float
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
            assert hot is not None  # views without pairs have nothing else in common
            targets[v] = hot[sources[0]] @ np.asarray(codes[v].T @ (hot[v] / hot[v].sum(axis=0))).T
    if hot is not None:
        targets[LABELS] = hot[sources[0]] - hot[sources[0]].mean(axis=0)
    return solve(own, targets, alpha)
