"""The coding rule: which pursuit finds the codes, and when it ends; checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from ..foundation.checks import check_choice, check_count, check_non_negative, check_truth

Pursuit: TypeAlias = Literal["omp", "ols", "lasso"]
GreedyPursuit: TypeAlias = Literal["omp", "ols"]
Coupling: TypeAlias = Literal["code", "support"]

LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class CodingRule:
    """How a sample is coded, and when coding it ends; all values are checked.

    Attributes
    ----------
    n_nonzero : int or None
        Maximal number of atoms of a sample.
    tol : float or None
        Coding a sample ends when its squared joint residual is at most this.
    pursuit : {"omp", "ols", "lasso"}
    coupling : {"code", "support"}
        One code for all views, or one support with coefficients for each view (simultaneous OMP).
    alpha : float or None
        Penalty of the lasso.
    positive : bool
        Whether coefficients are not negative.
    """

    n_nonzero: int | None = None
    tol: float | None = None
    pursuit: Pursuit = "omp"
    coupling: Coupling = "code"
    alpha: float | None = None
    positive: bool = False

    @classmethod
    def checked(
        cls,
        n_nonzero_coefs: object,
        tol: object,
        pursuit: object,
        *,
        coupling: object = "code",
        alpha: object = None,
        positive_code: object = False,
        pursuits: tuple[str, ...] = get_args(Pursuit),
    ) -> CodingRule:
        """Return the rule for these parameters; raise for values that are wrong or that have no meaning together."""
        check_choice(pursuit, "pursuit", pursuits)
        check_choice(coupling, "coupling", get_args(Coupling))
        rule = cls(
            None if n_nonzero_coefs is None else check_count(n_nonzero_coefs, "n_nonzero_coefs"),
            None if tol is None else check_non_negative(tol, "tol"),
            pursuit,  # type: ignore[arg-type]  # just checked
            coupling,  # type: ignore[arg-type]
            None if alpha is None else check_non_negative(alpha, "alpha"),
            check_truth(positive_code, "positive_code"),
        )
        if pursuit != "lasso":
            if alpha is not None:
                raise ValueError(f"alpha is the penalty of pursuit='lasso'; it has no meaning for {pursuit!r}.")
            if coupling == "support" and pursuit == "ols":
                raise ValueError("coupling='support' is simultaneous OMP; pursuit='ols' is not offered with it.")
            return rule
        if not rule.alpha:
            raise ValueError(f"Expected a positive alpha with pursuit='lasso', got {alpha!r}.")
        if n_nonzero_coefs is not None or tol is not None:
            raise ValueError("n_nonzero_coefs and tol have no meaning with pursuit='lasso'; its codes follow alpha.")
        if coupling != "code":
            raise ValueError("pursuit='lasso' codes all views together; coupling='support' is not offered with it.")
        return rule

    def scaled(self, scale: float) -> CodingRule:
        """Return the rule that codes samples multiplied by `scale` as this rule codes the samples themselves."""
        if scale == 1:
            return self
        tol = None if self.tol is None else min(self.tol * scale * scale, LARGEST)
        alpha = None if self.alpha is None else min(max(self.alpha * scale, np.finfo(np.float64).tiny), LARGEST)
        return replace(self, tol=tol, alpha=alpha)

    def scaled_objective(self, factor: float) -> CodingRule:
        """Return the rule that gives the same codes where all weights of the views are multiplied by `factor`."""
        if factor == 1:
            return self
        tol = None if self.tol is None else min(self.tol * factor, LARGEST)
        alpha = None if self.alpha is None else min(max(self.alpha * factor, np.finfo(np.float64).tiny), LARGEST)
        return replace(self, tol=tol, alpha=alpha)
