"""Powers of two that keep sums in range, whatever the units of samples and weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..coding.rule import CodingRule
from ..foundation.arrays import Array, Floats

ORDINARY = 20  # numbers from 2^-20 to 2^20 have squares that neither over- nor underflow


@dataclass(frozen=True)
class Scaling:
    """How a pass scales samples and weights: by powers of two, which are usually 1.

    Attributes
    ----------
    samples : float
        What samples are multiplied by.
    weights : float
        What weights are divided by, so that no sum of weighted squares overflows.
    """

    samples: float
    weights: float

    @classmethod
    def of(cls, samples: float, weights: Floats) -> Scaling:
        """Return the scaling for samples that are multiplied by a number, and for these weights."""
        power = round(float(np.log2(weights.max())))
        return cls(samples, 2.0 ** float(np.clip(power, -1020, 1020)) if abs(power) > 2 * ORDINARY else 1.0)

    def rule(self, rule: CodingRule) -> CodingRule:
        """Return the rule that gives scaled samples, with scaled weights, the codes of the samples themselves."""
        return rule.scaled(self.samples, 1 / self.weights)

    def relative(self, weights: Floats) -> Floats:
        """Return scaled weights."""
        return weights / self.weights

    def energy(self, energy: float) -> float:
        """Return a weighted squared norm of scaled samples as that of the samples themselves."""
        return energy / self.samples / self.samples * self.weights

    def root(self, root: float) -> float:
        """Return the root of such a squared norm, or a multiple of it, likewise."""
        return root / self.samples * float(np.sqrt(self.weights))


def power_of_two(size: float) -> float:
    """Return the power of two nearest to a number; 1 for 0 and for numbers of ordinary size."""
    power = round(float(np.log2(size))) if size > 0 else 0
    return 2.0**power if abs(power) > ORDINARY else 1.0


def ordinary_size(dictionaries: list[Array]) -> tuple[list[Array], float]:
    """Return dictionaries divided by one power of two, so that their entries are of ordinary size, and that power.

    Atoms of joint norm have the scale of the samples where weights are balanced. Coding takes samples that are scaled
    to ordinary size; with such atoms, the squares of codes do not overflow.
    """
    unit = power_of_two(max(float(np.abs(atoms).max()) for atoms in dictionaries))
    return (dictionaries if unit == 1 else [np.asarray(atoms, np.float64) / unit for atoms in dictionaries]), unit
