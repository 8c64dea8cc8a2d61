"""The fitted parts of a matcher: from samples to vectors whose inner products are similarities, and to files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from ..files.models import JSON
from ..files.state import ModelState, check_file_count, check_range, is_number, shorten
from ..foundation.arrays import Array, common_dtype
from ._choosing import Choice, unit_rows
from ._direct import Metric, Pair, metrics_from_tensors, metrics_to_tensors
from ._kernel import KernelMaps
from ._mapped import LABELS, Member, Target
from ._preprocessing import KINDS, Kind
from ._whitening import Whitening, has_view

#: How samples are compared: by labels, by codes, or in weighted views; a pair of views is compared directly.
Comparison: TypeAlias = Literal["labels", "codes"] | list[tuple[int | Pair, float]]

MOST, MOST_SCALING = 1e50, 1e154  # whitening undoes the units of features; everything else is of order 1


@dataclass(frozen=True)
class FittedMatcher:
    """What a matcher has learned.

    Attributes
    ----------
    whitenings : list of Whitening
        One per view.
    members : list of Member
        Dictionaries and maps, which predict together.
    prior : array of shape (n_classes,), or None
        Shares of the classes, if there were labels.
    choice : Choice
        What was chosen, by users or by validation.
    kernel_maps : KernelMaps or None
        Kernel ridge regression, averaged with the members; None if it has no weight.
    metrics : dict of pairs of views to Metric
        For direct comparisons; empty if these have no weight.
    """

    whitenings: list[Whitening]
    members: list[Member]
    prior: Array | None
    choice: Choice
    kernel_maps: KernelMaps | None = None
    metrics: dict[Pair, Metric] = field(default_factory=dict)

    @property
    def widths(self) -> list[int]:
        """Features of each view."""
        return [whitening.n_features for whitening in self.whitenings]

    def dtype_with(self, *arrays: Array) -> np.dtype[np.floating]:
        """Return the dtype of results computed from these arrays."""
        return common_dtype([*arrays, *self.members[0].components])

    def whiten(self, views: dict[int, Array]) -> dict[int, Array]:
        """Return samples of some views, whitened."""
        return {v: self.whitenings[v].apply(view, self.dtype_with(view)) for v, view in views.items()}

    def predict(self, views: dict[int, Array], view: int, n_jobs: int | None) -> Array:
        """Return a view in its own units, predicted for each sample from the other views that it has."""
        return self.whitenings[view].undo(by_views(views, lambda own: self._predicted(self.whiten(own), view, n_jobs)))

    def _predicted(self, views: dict[int, Array], target: Target, n_jobs: int | None) -> Array:
        """Return what the members and the kernel predict from whitened views."""
        share = self.choice.kernel_weight
        if self.kernel_maps is not None and share == 1:
            return self.kernel_maps.predict(views, target, n_jobs)
        total = self.members[0].predict(views, target, n_jobs)
        for member in self.members[1:]:
            total += member.predict(views, target, n_jobs)
        mean = np.asarray(total / len(self.members))
        if self.kernel_maps is None:
            return mean
        return np.asarray(
            (1 - share) * mean + share * self.kernel_maps.predict(views, target, n_jobs), dtype=mean.dtype
        )

    def probabilities(self, views: dict[int, Array], n_jobs: int | None) -> Array:
        """Return class probabilities: one-hot labels predicted from whitened views, clipped at 0, scaled to sum 1."""
        scores = np.clip(self._predicted(views, LABELS, n_jobs) + self.prior, 0, None)
        total = scores.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, scores / np.where(total > 0, total, 1), self.prior))

    def vectors(self, views: dict[int, Array], comparison: Comparison, target: int, n_jobs: int | None) -> Array:
        """Return one vector per sample, from its views; the inner product of two is their similarity."""
        return by_views(views, lambda own: self._vectors(own, comparison, target, n_jobs))

    def _vectors(self, views: dict[int, Array], comparison: Comparison, target: int, n_jobs: int | None) -> Array:
        """Return one vector per sample; all samples have all these views."""
        found, white = [], self.whiten(views)
        if comparison == "labels":
            return self.probabilities(white, n_jobs)
        if comparison == "codes":
            codes = [member.compared_codes(white, target, n_jobs) for member in self.members]
            return np.asarray(np.hstack([unit_rows(table) for table in codes]) / np.sqrt(len(codes)))
        for place, weight in comparison:
            if isinstance(place, tuple):
                own = self._direct(views, place)
            else:
                own = white[place] if place in white else self._predicted(white, place, n_jobs)
            found.append(unit_rows(own) * np.sqrt(weight, dtype=own.dtype))
        return np.hstack(found)

    def _direct(self, views: dict[int, Array], pair: Pair) -> Array:
        """Return samples of one view of a pair that is compared directly."""
        v = pair[0] if pair[0] in views else pair[1]
        return self.metrics[pair].apply(views[v], self.whitenings[v], self.dtype_with(views[v]))

    # To files and back

    def tensors_and_facts(self) -> tuple[dict[str, Array], dict[str, JSON]]:
        """Return all fitted parts as arrays and JSON."""
        tensors: dict[str, Array] = {"weights": self.members[0].weights}
        if self.prior is not None:
            tensors["prior"] = self.prior
        for v, whitening in enumerate(self.whitenings):
            tensors |= whitening.tensors(v)
        for number, member in enumerate(self.members):
            tensors |= member.tensors(number)
        tensors |= {} if self.kernel_maps is None else self.kernel_maps.tensors()
        tensors |= metrics_to_tensors(self.metrics)
        facts: dict[str, JSON] = {
            "n_views": len(self.whitenings),
            "n_members": len(self.members),
            "coupled": self.members[0].coupled,
            "n_nonzero": int(self.members[0].n_nonzero),
            "choice": {
                "turned": [whitening.axes is not None for whitening in self.whitenings],
                "rest": [whitening.rest for whitening in self.whitenings],
                "kinds": list(self.choice.kinds),
                "comparison_weights": list(self.choice.comparison_weights),
                "shrinkage": self.choice.shrinkage,
                "kernel_weight": self.choice.kernel_weight,
                "direct_weight": self.choice.direct_weight,
            },
        }
        return tensors, facts

    @classmethod
    def from_state(cls, state: ModelState, classes: Array | None) -> FittedMatcher:
        """Return the checked contents of a file; raise one of ``CONTRADICTIONS`` if they contradict each other."""
        tensors, facts = state.tensors, state.facts
        # The parameters of the estimator may have been changed after the fit.
        coupled = bool(facts["coupled"])
        n_nonzero = check_file_count(facts["n_nonzero"], "number of nonzeros", 1)
        n_views, n_members = facts["n_views"], facts["n_members"]
        if not isinstance(n_views, int) or not isinstance(n_members, int) or n_views < 2 or n_members < 1:
            raise ValueError(f"it claims {n_views!r} views and {n_members!r} dictionaries")
        check_range({name: array for name, array in tensors.items() if not name.startswith(("mean.", "gains."))}, MOST)
        check_range(tensors, MOST_SCALING)
        weights = tensors["weights"]
        if weights.shape != (n_views,) or np.any(weights <= 0):
            raise ValueError("its view weights do not fit its views")
        described = facts["choice"]
        choice = _read_choice(described, n_views)
        whitenings = [
            Whitening.from_tensors(
                tensors, v, turned=described["turned"][v], rest=described["rest"][v] is True, kind=choice.kinds[v]
            )
            for v in range(n_views)
        ]
        prior = None if classes is None else tensors["prior"]
        if classes is not None and prior is not None and classes.shape != prior.shape:
            raise ValueError("its classes do not fit their shares")
        members = []
        for number in range(n_members):
            components = [tensors[f"components.{number}.{v}"] for v in range(n_views)]
            _check_components(components, whitenings, coupled=coupled)
            member = Member(components, weights, coupled, n_nonzero)
            members.append(member.with_maps_of(tensors, number, None if classes is None else classes.size))
        n_classes = None if classes is None else classes.size
        widths = [whitening.gains.size for whitening in whitenings]
        kernel_maps = KernelMaps.from_tensors(tensors, widths, n_classes) if choice.kernel_weight > 0 else None
        own = [whitening.n_features for whitening in whitenings]
        metrics = metrics_from_tensors(tensors, own) if choice.direct_weight > 0 else {}
        return cls(whitenings, members, prior, choice, kernel_maps, metrics)


def _read_choice(described: dict[str, Any], n_views: int) -> Choice:
    """Return what was chosen, from a file."""
    kinds: list[Kind] = described["kinds"]
    comparison_weights = described["comparison_weights"]
    weights, shrinkage = [described["kernel_weight"], described["direct_weight"]], described["shrinkage"]
    if len(kinds) != n_views or any(kind not in KINDS for kind in kinds):
        raise ValueError(f"its preprocessing of samples is {shorten(kinds)}")
    shares = [*weights, *comparison_weights]
    possible = all(is_number(share) and 0 <= share <= 1 for share in shares)
    if len(comparison_weights) != n_views or not possible or sum(comparison_weights) == 0:
        raise ValueError(f"its weights are {shorten(shares)}")
    if shrinkage is not None and not (is_number(shrinkage) and shrinkage >= 0):
        raise ValueError(f"its shrinkage is {shorten(shrinkage)}")
    return Choice(
        tuple(kinds),
        tuple(float(weight) for weight in comparison_weights),
        shrinkage,
        kernel_weight=float(weights[0]),
        direct_weight=float(weights[1]),
    )


def by_views(views: dict[int, Array], make: Callable[[dict[int, Array]], Array]) -> Array:
    """Return the results of `make`, called once for each set of views that samples have."""
    present = np.stack([has_view(view) for view in views.values()], axis=1)
    if present.all():
        return make(views)
    out: Array | None = None
    for pattern in np.unique(present, axis=0):
        rows = np.flatnonzero((present == pattern).all(axis=1))
        found = make({v: view[rows] for (v, view), there in zip(views.items(), pattern, strict=True) if there})
        out = np.empty((len(present), found.shape[1]), found.dtype) if out is None else out
        out[rows] = found
    assert out is not None
    return out


def _check_components(components: list[Array], whitenings: list[Whitening], *, coupled: bool) -> None:
    for atoms, whitening in zip(components, whitenings, strict=True):
        if atoms.ndim != 2 or atoms.shape[1] != whitening.gains.size or atoms.shape[0] == 0:
            raise ValueError("its dictionaries do not fit its views")
        if atoms.dtype != components[0].dtype or atoms.dtype.kind != "f":
            raise ValueError("its dictionaries have mixed number types")
    if coupled and len({len(atoms) for atoms in components}) > 1:
        raise ValueError("its dictionaries do not fit each other")
