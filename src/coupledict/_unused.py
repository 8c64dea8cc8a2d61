"""What becomes of atoms that no sample uses.

With the linear schedule and the cosine start more than half of the atoms are unused in the first iteration, so the rule
matters. Measured (benchmarks/unused_atoms.py): the paper's rule, the mean residual at the moment the sweep
reaches the atom, makes neighbouring unused atoms equal for a while, but they part again and all atoms are used in the
end; it ends a little better than keeping unused atoms where a tolerance drives the codes and ties with it where their
number is fixed. Worst represented samples from the start on are the poorest choice with this schedule. With the default
settings, samples as the start and growing samples, hardly any atom is ever unused and the rules tie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class UnusedRule:
    """When unused atoms are replaced, and by what.

    Attributes
    ----------
    name : str
    mean : bool
        By the mean residual, while the update passes over them; needs residuals, and so an update that keeps codes.
    applies : callable (iteration, n_iter) -> bool
        In which iterations they are replaced by the worst represented samples.
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
