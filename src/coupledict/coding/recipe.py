"""The recipe of a coder: plain data from which any process can make the same coder."""

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
        Approximate number of samples that will be coded; for a few, the Gram matrix would not pay.
    missing : bool
        Whether samples may hold NaN, which stands for a missing entry.
    targets : list of arrays (n_components, n_features_v)
        Dictionaries of views that the codes should explain although these views are not coded; they fill in the missing
        entries there. Empty if there are no such views, or if nothing is missing.
    filled_by : Recipe or None
        Recipe of a coder that fills in missing entries first; the samples are then coded as complete ones.
    gram : bool or None
        Whether the Gram matrix is computed if it fits in memory; None: if that saves time. Codes do not depend on it.
    """

    dictionaries: list[Array]
    weights: Floats
    dtype: np.dtype[Any]
    rule: CodingRule
    n_samples: int
    missing: bool = False
    targets: list[Array] = field(default_factory=list)
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

    @property
    def most_nonzero(self) -> int:
        """Largest possible number of nonzeros: atoms are orthogonalised within their group, which limits it."""
        widths = [int(atoms.shape[1]) for atoms in self.dictionaries]
        return min([self.n_atoms, *([sum(widths)] if self.n_groups == 1 else widths)])

    @property
    def n_nonzero(self) -> int:
        """Maximal number of nonzeros of a sample."""
        limit = self.rule.n_nonzero
        if limit is None and self.rule.tol is None and self.rule.pursuit != "lasso":
            limit = max(1, sum(atoms.shape[1] for atoms in self.dictionaries) // 10)
        return self.most_nonzero if limit is None else min(limit, self.most_nonzero)

    @property
    def nbytes(self) -> int:
        """Size of all dictionaries."""
        own = sum(atoms.nbytes for atoms in self.dictionaries)
        return own if self.filled_by is None else own + self.filled_by.nbytes
