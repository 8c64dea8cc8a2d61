"""The settings of a fit: the parameters of a learner, checked once before any work is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..coding.rule import CodingRule
from ..foundation.arrays import Array, Flags, Floats
from ..foundation.checks import check_choice, check_count, check_non_negative, check_truths, check_weights
from ..foundation.tensors import with_numpy
from .schedule import Growth, Schedule, check_growth, check_schedule, sparsity_limits
from .start import check_init_name, check_positive
from .unused import UnusedAtoms, UnusedRule, check_unused
from .updates import Update, UpdateName, check_update

Normalize: TypeAlias = Literal["views", "joint"]
ViewWeights: TypeAlias = Literal["balanced"] | Sequence[float] | npt.NDArray[Any] | None
PositiveDict: TypeAlias = bool | Sequence[bool] | npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LearningSettings:
    """The parameters of a learner, checked; see :class:`coupledict.CoupledDictionaryLearning` for what they mean."""

    n_components: int | None
    rule: CodingRule
    max_iter: int
    schedule: Schedule
    growth: Growth
    update: Update
    init: Any
    normalize: Normalize
    view_weights: ViewWeights
    unused: UnusedRule
    constant_atom: bool
    stop_tol: float
    random_state: Any
    positive_dict: bool | tuple[bool, ...] = False
    # Where entries are missing, the first half of at least so many iterations codes samples by what they know, the
    # other half fills them in first: on photographs that makes better atoms, elsewhere about the same
    # (benchmarks/missing.py).
    least_iterations_to_fill: int = 10

    @classmethod
    def checked(
        cls,
        *,
        n_components: object,
        rule: CodingRule,
        max_iter: object = 1,
        schedule: Schedule = "auto",
        growth: Growth = "auto",
        update: UpdateName = "statistics",
        init: Any = "auto",
        normalize: Normalize = "joint",
        view_weights: ViewWeights = None,
        unused_atoms: UnusedAtoms = "keep",
        constant_atom: bool = False,
        stop_tol: object = 0.0,
        random_state: Any = None,
        positive_dict: PositiveDict = False,
    ) -> LearningSettings:
        """Return the settings; raise for parameters that are wrong, or that do not work together."""
        check_choice(normalize, "normalize", get_args(Normalize))
        _check_kind_of_weights(view_weights)
        check_schedule(schedule)
        check_growth(growth)
        check_init_name(init)
        changed, unused = check_update(update), check_unused(unused_atoms)
        if unused.mean and not changed.needs_codes:
            raise ValueError(
                f"unused_atoms='mean' needs the residuals of all samples, which update={update!r} does not keep."
                " Use update='sequential' or 'ksvd', or another rule for unused atoms."
            )
        if rule.pursuit == "lasso" and changed.needs_codes:
            raise ValueError(
                f"update={update!r} is for codes of few atoms; pursuit='lasso' goes with 'statistics' or 'mod'."
            )
        positive = check_truths(positive_dict, "positive_dict")
        some_positive = any(positive) if isinstance(positive, tuple) else positive
        _check_signs(changed, init, atoms=some_positive, codes=rule.positive)
        return cls(
            n_components=None if n_components is None else check_count(n_components, "n_components"),
            rule=rule,
            max_iter=check_count(max_iter, "max_iter"),
            schedule=schedule,
            growth=growth,
            update=changed,
            init=init,
            normalize=normalize,
            view_weights=view_weights,
            unused=unused,
            constant_atom=bool(constant_atom),
            stop_tol=check_non_negative(stop_tol, "stop_tol"),
            random_state=random_state,
            positive_dict=positive,
        )

    def count_components(self, widths: Sequence[int]) -> int:
        """Return n_components; if None, 4 times the features of the largest view, at most 256 unless it has more."""
        largest = max(widths)
        return self.n_components or max(largest, min(4 * largest, 256))

    def limit(self, widths: Sequence[int], n_components: int) -> int:
        """Return the final limit on the number of atoms per sample."""
        most = min(n_components, sum(widths) if self.rule.coupling == "code" else min(widths))
        if self.rule.pursuit == "lasso":
            return n_components
        if self.rule.n_nonzero is not None:
            return min(self.rule.n_nonzero, most)
        return most if self.rule.tol is not None else min(most, max(1, sum(widths) // 10))

    def find_weights(self, mean_energies: Sequence[float] | None, n_views: int, scale: float) -> Floats:
        """Return the weights of the views.

        `mean_energies` are mean squared norms of samples multiplied by `scale`; only balanced weights need them.
        """
        if isinstance(self.view_weights, str):
            squared = float(np.clip(scale, 1e-150, 1e150)) ** 2
            return np.array([squared / size if size > 0 else 1.0 for size in mean_energies or [0.0] * n_views])
        weights = check_weights(self.view_weights, n_views)
        if not weights.any():
            raise ValueError("Expected a positive weight for at least one view, got only zeros.")
        return weights

    def positive_views(self, n_views: int) -> Flags:
        """Return for each view whether its atoms are not negative."""
        if isinstance(self.positive_dict, bool):
            return np.full(n_views, self.positive_dict)
        if len(self.positive_dict) != n_views:
            raise ValueError(
                f"Expected positive_dict to be True, False or a list of {n_views} of these, one per view, got a list of"
                f" {len(self.positive_dict)}."
            )
        return np.array(self.positive_dict, bool)

    def check_fit(self, components: Sequence[Array]) -> None:
        """Raise unless these settings go with these dictionaries, from which learning may go on."""
        n_atoms, n_views = components[0].shape[0], len(components)
        if self.n_components not in (None, n_atoms):
            raise ValueError(f"Expected n_components to be {n_atoms}, as in the dictionaries, got {self.n_components}.")
        self.find_weights(None, n_views, 1.0)
        check_positive(components, self.positive_views(n_views), "components_", "")
        if not isinstance(self.schedule, str) and not callable(self.schedule):
            sparsity_limits(self.schedule, n_atoms, self.max_iter, has_tol=False, growing=False)

    @property
    def growing(self) -> bool:
        """Whether passes may read a part of the samples only.

        With ``growth="auto"``, samples grow for the statistics update; the others are published methods, which see all.
        """
        automatic = isinstance(self.growth, str) and self.growth == "auto"
        return self.growth is not None and not (automatic and self.update.name != "statistics")

    @property
    def joint_norm(self) -> bool:
        """Whether atoms have norm 1 over all views. Views with coefficients of their own have norms of their own."""
        return self.normalize == "joint" and self.rule.coupling == "code"

    @property
    def balanced(self) -> bool:
        """Whether the weights of the views are computed from the samples."""
        return isinstance(self.view_weights, str)


def _check_kind_of_weights(view_weights: object) -> None:
    """Raise for weights that are right for no number of views."""
    view_weights = with_numpy(view_weights, "view_weights")
    if isinstance(view_weights, str):
        check_choice(view_weights, "view_weights", ("balanced",))
    elif view_weights is not None and not isinstance(view_weights, Sequence | np.ndarray):
        raise TypeError(f"Expected view_weights to be None, 'balanced' or a list of numbers, got {view_weights!r}.")


def _check_signs(update: Update, init: Any, *, atoms: bool, codes: bool) -> None:
    """Raise for an update or a start that cannot keep atoms or coefficients from being negative, where it should."""
    if atoms and not update.keeps_atoms_positive:
        raise ValueError(
            f"update={update.name!r} finds atoms whose entries may be negative, which positive_dict does not allow."
            " Use update='statistics' or 'sequential'."
        )
    if codes and not update.keeps_codes_positive:
        raise ValueError(
            f"update={update.name!r} finds coefficients that may be negative, which positive_code does not allow."
            " Use update='statistics', 'sequential' or 'mod'."
        )
    if atoms and isinstance(init, str) and init == "dct":
        raise ValueError(
            "init='dct' starts from cosines, whose entries may be negative, which positive_dict does not allow."
            " Use init='samples' or 'random', or give arrays."
        )
