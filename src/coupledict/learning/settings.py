"""The settings of a fit: the parameters of a learner, checked once before any work is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..coding.rule import CodingRule
from ..foundation.arrays import Array, Flags, Floats
from ..foundation.checks import check_weights
from ..foundation.choices import InitName, Normalize, ScheduleName, UnusedAtoms, UpdateName
from ..foundation.parameters import (
    BOOLEAN,
    CALLABLE,
    COUNT,
    NON_NEGATIVE,
    NONE,
    ArrayLike,
    Choice,
    Constraints,
    OnePerView,
)
from .atoms import AtomGroup, group_atoms
from .schedule import Growth, Schedule, sparsity_limits
from .start import check_positive
from .updates import UNUSED_RULES, UPDATES

ViewWeights: TypeAlias = Literal["balanced"] | Sequence[float] | npt.NDArray[Any] | None
PositiveDict: TypeAlias = bool | Sequence[bool] | npt.NDArray[np.bool_]

SAMPLES_PER_ATOM = 4  # least number, if the number of atoms is not given

#: Parameters of learners that are settings of a fit; those of coding are in CODING_CONSTRAINTS.
LEARNING_CONSTRAINTS: Constraints = {
    "n_components": (NONE, COUNT),
    "max_iter": (COUNT,),
    "schedule": (Choice(ScheduleName), CALLABLE, ArrayLike("a list of limits")),
    "growth": (Choice("auto"), NONE, CALLABLE),
    "update": (Choice(UPDATES),),
    "init": (Choice(InitName), ArrayLike("a list of arrays", entry_dims=2)),
    "normalize": (Choice(Normalize),),
    "view_weights": (NONE, Choice("balanced"), ArrayLike("a list of numbers")),
    "unused_atoms": (Choice(UnusedAtoms),),
    "constant_atom": (BOOLEAN,),
    "stop_tol": (NON_NEGATIVE,),
    "positive_dict": (OnePerView(BOOLEAN),),
    "scale": (Choice("auto"), NONE),
}


@dataclass(frozen=True)
class LearningSettings:
    """The parameters of a learner; see :class:`coupledict.CoupledDictionaryLearning` for what they mean.

    Each of them meets LEARNING_CONSTRAINTS; whether they work together is checked here.
    """

    n_components: int | None
    rule: CodingRule
    max_iter: int = 1
    schedule: Schedule = "auto"
    growth: Growth = "auto"
    update: UpdateName = "statistics"
    init: Any = "auto"
    normalize: Normalize = "joint"
    view_weights: ViewWeights = None
    unused_atoms: UnusedAtoms = "keep"
    constant_atom: bool = False
    stop_tol: float = 0.0
    random_state: Any = None
    positive_dict: PositiveDict = False
    scale: Literal["auto"] | None = None
    # If entries are missing and there are at least this many iterations, the first half codes samples by their known
    # entries, and the second half fills them in first. On photographs that makes better atoms, elsewhere about the same
    # (benchmarks/missing.py).
    least_iterations_to_fill: int = 10

    def __post_init__(self) -> None:
        if UNUSED_RULES[self.unused_atoms].mean and not self.needs_codes:
            raise ValueError(
                f"unused_atoms='mean' needs the residuals of all samples, which update={self.update!r} does not keep."
                " Use update='sequential' or 'ksvd', or another rule for unused atoms."
            )
        if self.rule.pursuit == "lasso" and self.needs_codes:
            raise ValueError(
                f"update={self.update!r} is for codes of few atoms; pursuit='lasso' goes with 'statistics' or 'mod'."
            )
        self._check_signs()

    def count_components(self, widths: Sequence[int], n_samples: int | None) -> int:
        """Return n_components.

        If it is None: 4 times the features of the largest view, at most 256 unless it has more, and at most a quarter
        of the samples, if their number is known. With more, an atom would represent only one or two samples.
        """
        largest = max(widths)
        wanted = max(largest, min(4 * largest, 256))
        if self.n_components is not None or n_samples is None:
            return self.n_components or wanted
        return max(1, min(wanted, n_samples // SAMPLES_PER_ATOM))

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
        if self.balanced:
            squared = float(np.clip(scale, 1e-150, 1e150)) ** 2
            return np.array([squared / size if size > 0 else 1.0 for size in mean_energies or [0.0] * n_views])
        weights = check_weights(self.view_weights, n_views)
        if not weights.any():
            raise ValueError("Expected a positive weight for at least one view, got only zeros.")
        return weights

    def positive_views(self, n_views: int) -> Flags:
        """Return for each view whether its atoms are not negative."""
        if isinstance(self.positive_dict, bool | np.bool_):
            return np.full(n_views, self.positive_dict)
        if len(self.positive_dict) != n_views:
            raise ValueError(
                f"Expected positive_dict to be True, False or a list of {n_views} of these, one per view, got a list of"
                f" {len(self.positive_dict)}."
            )
        return np.array(self.positive_dict, bool)

    def group(self, arrays: list[Array], weights: Floats) -> list[AtomGroup]:
        """Return dictionaries, one per view, as groups of atoms."""
        return group_atoms(
            arrays,
            weights,
            coupled=self.rule.coupling == "code",
            joint=self.joint_norm,
            n_fixed=int(self.constant_atom),
            positive=self.positive_views(len(arrays)),
            relative=not self.balanced,
        )

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

        With ``growth="auto"``, their number grows for the statistics update; the others are published methods, which
        read all samples.
        """
        automatic = isinstance(self.growth, str) and self.growth == "auto"
        return self.growth is not None and not (automatic and self.update != "statistics")

    @property
    def needs_codes(self) -> bool:
        """Whether the update uses the codes and residuals of all samples."""
        return UPDATES[self.update].needs_codes

    @property
    def some_positive(self) -> bool:
        """Whether atoms are not negative in at least one view."""
        return bool(np.any(self.positive_dict))

    @property
    def joint_norm(self) -> bool:
        """Whether atoms have norm 1 over all views. Views with coefficients of their own have norms of their own."""
        return self.normalize == "joint" and self.rule.coupling == "code"

    @property
    def balanced(self) -> bool:
        """Whether the weights of the views are computed from the samples.

        A tolerance and a penalty are in the units of the samples; with one of these, weights are as given.
        """
        counted = self.rule.tol is None and self.rule.pursuit != "lasso"
        return isinstance(self.view_weights, str) or (self.view_weights is None and self.standardizes and counted)

    @property
    def standardizes(self) -> bool:
        """Whether samples are centred; not where atoms or coefficients must not be negative, or an atom is constant."""
        return self.scale == "auto" and not (self.rule.positive or self.some_positive or self.constant_atom)

    def _check_signs(self) -> None:
        """Raise for an update or a start that may make atoms or coefficients negative where they must not be."""
        update, atoms = UPDATES[self.update], self.some_positive
        if atoms and not update.keeps_atoms_positive:
            raise ValueError(
                f"update={self.update!r} finds atoms whose entries may be negative, which positive_dict does not allow."
                " Use update='statistics' or 'sequential'."
            )
        if self.rule.positive and not update.keeps_codes_positive:
            raise ValueError(
                f"update={self.update!r} finds coefficients that may be negative, which positive_code does not allow."
                " Use update='statistics', 'sequential' or 'mod'."
            )
        if atoms and isinstance(self.init, str) and self.init == "dct":
            raise ValueError(
                "init='dct' starts from cosines, whose entries may be negative, which positive_dict does not allow."
                " Use init='samples' or 'random', or give arrays."
            )
