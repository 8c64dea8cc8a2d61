"""The coding rule: which pursuit finds the codes, and when it ends; checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..foundation.choices import Coupling, Pursuit
from ..foundation.parameters import BOOLEAN, COUNT, NON_NEGATIVE, NONE, Choice, Constraints, Real

#: Parameters of every estimator and function that codes samples.
CODING_CONSTRAINTS: Constraints = {
    "n_nonzero_coefs": (NONE, COUNT),
    "tol": (NONE, Real(0, noun="squared norm")),
    "pursuit": (Choice(Pursuit),),
    "alpha": (NONE, NON_NEGATIVE),
    "positive_code": (BOOLEAN,),
}

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
        n_nonzero_coefs: int | None,
        tol: float | None,
        pursuit: Pursuit,
        *,
        coupling: Coupling = "code",
        alpha: float | None = None,
        positive_code: bool = False,
    ) -> CodingRule:
        """Return the rule for parameters that meet CODING_CONSTRAINTS; raise if they have no meaning together."""
        rule = cls(
            n_nonzero=None if n_nonzero_coefs is None else int(n_nonzero_coefs),
            tol=None if tol is None else float(tol),
            pursuit=pursuit,
            coupling=coupling,
            alpha=None if alpha is None else float(alpha),
            positive=bool(positive_code),
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

    def scaled(self, samples: float, objective: float = 1.0) -> CodingRule:
        """Return the rule that gives the same codes to samples multiplied by `samples`, weights by `objective`."""
        if samples == 1 and objective == 1:
            return self
        tol, alpha = self.tol, self.alpha
        if tol is not None:
            tol = min(min(tol * samples * samples, LARGEST) * objective, LARGEST)
        if alpha is not None:
            alpha = _positive(_positive(alpha * samples) * objective)
        return replace(self, tol=tol, alpha=alpha)


def _positive(alpha: float) -> float:
    """Return a penalty that has neither vanished nor overflowed."""
    return min(max(alpha, np.finfo(np.float64).tiny), LARGEST)
