"""The recipe of a coder: plain data, from which every process can make the same coder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..foundation.arrays import Array, Floats
from .rule import CodingRule


@dataclass(frozen=True)
class Recipe:
    """What a :class:`Coder` is made from: plain data, which can be sent to the worker that has the samples.

    Attributes
    ----------
    dictionaries : list of arrays (n_components, n_features_v)
        One for each view that will be coded.
    weights : array of shape (n_views,)
        Not negative, and at least one positive.
    dtype : float32 or float64
        Number type of the samples and the codes.
    rule : CodingRule
    n_samples : int
        About how many samples will be coded; for a few, computing the Gram matrix would not pay.
    missing : bool
        Whether samples may hold NaN, which stands for a missing entry.
    targets : list of arrays (n_components, n_features_v)
        Dictionaries of views that codes are to explain although these views are not coded; they fill in missing entries
        there. Empty if there are no such views, or if nothing is missing.
    teacher : Recipe or None
        Of a coder whose codes, times its `targets`, fill in missing entries of such views instead.
    whole_only : bool
        Whether samples that lack a whole view are left out.
    filled_by : Recipe or None
        Of a coder that fills in missing entries before the samples are coded, as complete ones.
    gram : bool or None
        Whether the Gram matrix is computed if it fits in memory; None: if it saves time. Codes do not depend on it.
    """

    dictionaries: list[Array]
    weights: Floats
    dtype: np.dtype[Any]
    rule: CodingRule
    n_samples: int
    missing: bool = False
    targets: list[Array] = field(default_factory=list)
    teacher: Recipe | None = None
    whole_only: bool = False
    filled_by: Recipe | None = None
    gram: bool | None = None

    def __post_init__(self) -> None:
        if self.missing and self.rule.coupling == "support":
            raise ValueError(
                "Missing entries are offered with coupling='code' only; with coupling='support' views do not share"
                " their coefficients, so that one cannot stand in for another."
            )

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return int(self.dictionaries[0].shape[0])

    @property
    def n_groups(self) -> int:
        """Number of groups of views that share their coefficients."""
        return 1 if self.rule.coupling == "code" else len(self.dictionaries)
