"""The fitted parts of a matcher: from samples to vectors whose inner products are similarities, and to files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ..files.models import JSON
from ..files.state import ModelState, check_file_count, check_range
from ..foundation.arrays import Array, common_dtype
from ._mapped import LABELS, Member, Target
from ._whitening import Whitening, has_view

#: Where samples are compared: by labels, by codes, or in views with weights.
Comparison: TypeAlias = Literal["labels", "codes"] | list[tuple[int, float]]

MOST, MOST_SCALING = 1e50, 1e154  # whitening undoes the units of features, all else is of the order of 1


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
    """

    whitenings: list[Whitening]
    members: list[Member]
    prior: Array | None

    @property
    def widths(self) -> list[int]:
        """Features of each view."""
        return [whitening.n_features for whitening in self.whitenings]

    def dtype_with(self, *arrays: Array) -> np.dtype[np.floating]:
        """Return the dtype of results computed from these arrays."""
        return common_dtype([*arrays, *self.members[0].components])

    def whiten(self, array: Array, view: int) -> Array:
        """Return samples of a view, whitened."""
        return self.whitenings[view].apply(array, self.dtype_with(array))

    def predict(self, views: dict[int, Array], view: int, n_jobs: int | None) -> Array:
        """Return a view in its own units, predicted from whitened views; each sample from those that it has."""
        return self.whitenings[view].undo(by_views(views, lambda own: self._predicted(own, view, n_jobs)))

    def _predicted(self, views: dict[int, Array], target: Target, n_jobs: int | None) -> Array:
        """Return the mean of what the members predict."""
        total = self.members[0].predict(views, target, n_jobs)
        for member in self.members[1:]:
            total += member.predict(views, target, n_jobs)
        return np.asarray(total / len(self.members))

    def probabilities(self, views: dict[int, Array], n_jobs: int | None) -> Array:
        """Return probabilities of the classes: predicted indicators, clipped at 0 and scaled to sum 1."""
        scores = np.clip(self._predicted(views, LABELS, n_jobs) + self.prior, 0, None)
        total = scores.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, scores / np.where(total > 0, total, 1), self.prior))

    def vectors(self, views: dict[int, Array], where: Comparison, target: int, n_jobs: int | None) -> Array:
        """Return one vector per sample, from its whitened views; the inner product of two is their similarity."""
        return by_views(views, lambda own: self._vectors(own, where, target, n_jobs))

    def _vectors(self, views: dict[int, Array], where: Comparison, target: int, n_jobs: int | None) -> Array:
        """Return one vector per sample; all samples have all these views."""
        if where == "labels":
            return self.probabilities(views, n_jobs)
        if where == "codes":
            codes = [member.compared_codes(views, target, n_jobs) for member in self.members]
            return np.asarray(np.hstack([_unit(table) for table in codes]) / np.sqrt(len(codes)))
        found = []
        for view, weight in where:
            own = views[view] if view in views else self._predicted(views, view, n_jobs)
            found.append(_unit(own) * np.sqrt(weight))
        return np.hstack(found)

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
        facts: dict[str, JSON] = {
            "n_views": len(self.whitenings),
            "n_members": len(self.members),
            "coupled": self.members[0].coupled,
            "n_nonzero": int(self.members[0].n_nonzero),
            "turned": [whitening.axes is not None for whitening in self.whitenings],
        }
        return tensors, facts

    @classmethod
    def from_state(cls, state: ModelState, *, coupled: bool, n_nonzero: int, classes: Array | None) -> FittedMatcher:
        """Return what a file holds, checked; raise one of ``CONTRADICTIONS`` for one that contradicts itself."""
        tensors, facts = state.tensors, state.facts
        # The parameters of the estimator may have been changed after the fit.
        coupled = bool(facts.get("coupled", coupled))
        n_nonzero = check_file_count(facts.get("n_nonzero", n_nonzero), "number of nonzeros", 1)
        n_views, n_members = facts["n_views"], facts["n_members"]
        if not isinstance(n_views, int) or not isinstance(n_members, int) or n_views < 2 or n_members < 1:
            raise ValueError(f"it claims {n_views!r} views and {n_members!r} dictionaries")
        check_range({name: array for name, array in tensors.items() if not name.startswith(("mean.", "gains."))}, MOST)
        check_range(tensors, MOST_SCALING)
        weights = tensors["weights"]
        if weights.shape != (n_views,) or np.any(weights <= 0):
            raise ValueError("its view weights do not fit its views")
        whitenings = [Whitening.from_tensors(tensors, v, turned=facts["turned"][v]) for v in range(n_views)]
        prior = None if classes is None else tensors["prior"]
        if classes is not None and prior is not None and classes.shape != prior.shape:
            raise ValueError("its classes do not fit their shares")
        members = []
        for number in range(n_members):
            components = [tensors[f"components.{number}.{v}"] for v in range(n_views)]
            _check_components(components, whitenings, coupled=coupled)
            member = Member(components, weights, coupled, n_nonzero)
            members.append(member.with_maps_of(tensors, number, None if classes is None else classes.size))
        return cls(whitenings, members, prior)


def by_views(views: dict[int, Array], make: Callable[[dict[int, Array]], Array]) -> Array:
    """Return what `make` makes of samples, called once for each set of views that samples have."""
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


def _unit(table: Array) -> Array:
    """Return rows of norm 1; rows of zeros stay."""
    norms = np.sqrt(np.einsum("ij,ij->i", table, table))
    return np.asarray(table / np.where(norms > 0, norms, 1)[:, None])


def _check_components(components: list[Array], whitenings: list[Whitening], *, coupled: bool) -> None:
    for atoms, whitening in zip(components, whitenings, strict=True):
        if atoms.ndim != 2 or atoms.shape[1] != whitening.gains.size or atoms.shape[0] == 0:
            raise ValueError("its dictionaries do not fit its views")
        if atoms.dtype != components[0].dtype or atoms.dtype.kind != "f":
            raise ValueError("its dictionaries have mixed number types")
    if coupled and len({len(atoms) for atoms in components}) > 1:
        raise ValueError("its dictionaries do not fit each other")
