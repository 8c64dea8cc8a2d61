"""The fit of a matcher: validated choices, whitening, dictionaries and the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.ensemble import seeds
from ..foundation.arrays import Array, common_dtype
from ..foundation.progress import Callback
from ._choosing import Choice, RequestedSettings, choose
from ._direct import fit_metrics
from ._fitted import FittedMatcher
from ._kernel import fit_kernel
from ._mapped import Member, MemberSettings, effective_sample_count, fit_coupled, fit_semi_coupled
from ._preprocessing import Preprocess
from ._whitening import fit_whitening, present_rows

SAMPLES_PER_ATOM, FEWEST_ATOMS, MOST_ATOMS = 4, 64, 256  # with fewer samples per atom, atoms depend on chance


@dataclass(frozen=True)
class Plan:
    """The parameters of a matcher that a fit uses.

    Attributes
    ----------
    requested : RequestedSettings
        What users ask for, and what they leave open.
    n_components : int or None
    n_nonzero, max_iter, n_dictionaries : int
    ridge_alpha, label_weight : float
    semi_coupled : bool
    n_jobs : int or None
    """

    requested: RequestedSettings
    n_components: int | None
    n_nonzero: int
    max_iter: int
    n_dictionaries: int
    ridge_alpha: float
    label_weight: float
    semi_coupled: bool
    n_jobs: int | None

    @classmethod
    def of(cls, model: Any, preprocess: list[Preprocess]) -> Plan:
        """Return the parameters of a matcher that a fit uses."""
        requested = RequestedSettings(
            preprocess,
            bool(model.whiten),
            shrinkage=_number(model.whiten_shrinkage),
            kernel_weight=_number(model.kernel_weight),
            direct_weight=_number(model.direct_weight),
            compares_directly=model.compare in ("auto", "both"),
            chooses_comparison=model.compare == "auto",
        )
        return cls(
            requested,
            model.n_components,
            model.n_nonzero_coefs,
            model.max_iter,
            model.n_dictionaries,
            float(model.ridge_alpha),
            1.0 if model.label_weight is None else float(model.label_weight),
            bool(model.semi_coupled),
            model.n_jobs,
        )

    def members(
        self,
        views: list[Array],
        one_hot: list[Array] | None,
        paired: bool,
        starts: Sequence[int],
        callback: Callback | None = None,
    ) -> list[Member]:
        """Return the members, fitted to whitened views and their one-hot labels."""
        n_components = self.n_components or min(
            max(effective_sample_count(views) // SAMPLES_PER_ATOM, FEWEST_ATOMS), MOST_ATOMS
        )
        settings = MemberSettings(n_components, self.n_nonzero, self.max_iter, self.ridge_alpha, self.n_jobs)
        if self.semi_coupled:
            return fit_semi_coupled(views, one_hot, paired, starts, settings, callback)
        return fit_coupled(
            views, None if one_hot is None else one_hot[0], self.label_weight, starts, settings, callback
        )

    def choice(self, views: list[Array], one_hot: list[Array] | None, paired: bool) -> Choice:
        """Return all settings, with those left open chosen by validation."""

        def learn(own: list[Array], labels: list[Array] | None, n: int) -> list[Member]:
            return self.members(own, labels, paired, seeds(0, min(self.n_dictionaries, n)))

        return choose(views, one_hot, paired, self.requested, learn)


def fit_matcher(
    views: list[Array],
    one_hot: list[Array] | None,
    paired: bool,
    by_labels: bool,
    plan: Plan,
    starts: Sequence[int],
    callback: Callback | None,
) -> FittedMatcher:
    """Fit a matcher to checked views and one-hot labels; `by_labels` says that classes are to be matched."""
    choice = plan.choice(views, one_hot if by_labels else None, paired)
    whitenings = [
        fit_whitening(present_rows(view), choice.shrinkage, kind)
        for view, kind in zip(views, choice.kinds, strict=True)
    ]
    dtype = common_dtype(views)
    white = [whitening.apply(view, dtype) for whitening, view in zip(whitenings, views, strict=True)]
    members = plan.members(white, one_hot, paired, starts, callback)
    kernel_maps = fit_kernel(white, one_hot, paired, choice.width, choice.alpha) if choice.kernel_weight > 0 else None
    metrics = fit_metrics(views, whitenings) if choice.direct_weight > 0 and paired else {}
    prior = None if one_hot is None else np.concatenate(one_hot).mean(axis=0)
    return FittedMatcher(whitenings, members, prior, choice, kernel_maps, metrics)


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
