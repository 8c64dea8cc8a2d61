"""Rules for atoms that no sample uses.

With the linear schedule and the cosine start more than half of the atoms are unused in the first iteration, so the rule
matters. Measured (benchmarks/unused_atoms.py): the paper's rule replaces an unused atom by the mean residual at the
moment the sweep reaches it. Neighbouring unused atoms are then equal for a while, but they diverge again, and all atoms
are used in the end. Its final error is a little lower than with unused atoms kept if a tolerance ends the coding, and
the same if the number of atoms is fixed. Replacement by the worst represented samples from the first iteration on is
the worst choice with this schedule. With the default settings (samples as the start, growing samples) hardly any atom
is ever unused, and the rules do equally well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

UnusedAtoms: TypeAlias = Literal["keep", "late", "worst", "mean"]


@dataclass(frozen=True)
class UnusedRule:
    """When unused atoms are replaced, and by what.

    Attributes
    ----------
    name : str
    mean : bool
        Whether the update replaces them by the mean residual; only updates from codes have residuals.
    applies : callable (iteration, n_iter) -> bool
        Whether the worst represented samples replace them in an iteration.
    """

    name: str
    mean: bool = False
    applies: Callable[[int, int], bool] = lambda iteration, n_iter: False


UNUSED_RULES = {
    rule.name: rule
    for rule in (
        UnusedRule("keep"),
        UnusedRule("mean", mean=True),
        UnusedRule("worst", applies=lambda iteration, n_iter: iteration < n_iter - 1),
        UnusedRule("late", applies=lambda iteration, n_iter: n_iter // 2 <= iteration < n_iter - 1),
    )
}


def check_unused(unused_atoms: object) -> UnusedRule:
    """Return the rule of that name."""
    if not isinstance(unused_atoms, str) or unused_atoms not in UNUSED_RULES:
        raise ValueError(f"Expected unused_atoms to be one of {tuple(UNUSED_RULES)}, got {unused_atoms!r}.")
    return UNUSED_RULES[unused_atoms]
