"""What a learner subtracts from features and multiplies them by, and how its results are turned back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, Floats

TABLE = 8.0  # a view whose features have standard deviations that differ by more than this factor is a table


@dataclass(frozen=True)
class Standardization:
    """An offset and a factor for each feature of each view: ``(x - offset) * factor``.

    Factors are powers of two, so that multiplying by them and dividing by them again changes nothing.
    """

    offsets: list[Floats]
    factors: list[Floats]

    @classmethod
    def of(cls, means: Sequence[Floats], variances: Sequence[Floats]) -> Standardization:
        """Return the standardization for features of these means and variances.

        Features are centred. Those of a view whose standard deviations are similar, such as the pixels of patches, keep
        their relative scale; those of a table, which are in units of their own, are brought to comparable ones.
        """
        return cls([np.asarray(mean) for mean in means], [_factors(variance) for variance in variances])

    def select(self, views: Sequence[int]) -> Standardization:
        """Return that of some views."""
        return Standardization([self.offsets[v] for v in views], [self.factors[v] for v in views])

    def scaled(self, scale: float) -> Standardization:
        """Return that of samples that are multiplied by a power of two; it has the same results, times that power."""
        return Standardization([offset * scale for offset in self.offsets], self.factors)

    def apply(self, view: int, rows: Array, dtype: np.dtype[Any]) -> Array:
        """Return rows of a view, centred and multiplied, in the given number type."""
        # Differences are computed before numbers are rounded to a shorter type.
        wide = rows.astype(np.result_type(rows.dtype, dtype), copy=False)
        found = wide - self.offsets[view].astype(wide.dtype)
        found *= self.factors[view].astype(wide.dtype)
        return np.ascontiguousarray(found, dtype)

    def restore(self, view: int, rows: Array) -> Array:
        """Return rows of a view in the units of the samples."""
        return np.asarray(rows / self.factors[view].astype(rows.dtype) + self.offsets[view].astype(rows.dtype))

    def standard_atoms(self, dictionaries: Sequence[Array]) -> list[Array]:
        """Return dictionaries of all views that are given in the units of the samples as those of standardized ones."""
        pairs = zip(dictionaries, self.factors, strict=True)
        return [np.asarray(atoms * factors.astype(atoms.dtype)) for atoms, factors in pairs]

    def restored_atoms(self, dictionaries: Sequence[Array]) -> list[Array]:
        """Return dictionaries of standardized samples in the units of the samples."""
        pairs = zip(dictionaries, self.factors, strict=True)
        return [np.asarray(atoms / factors.astype(atoms.dtype)) for atoms, factors in pairs]


def _factors(variance: Floats) -> Floats:
    """Return the factors of the features of a view; 1 unless it is a table."""
    deviations = np.sqrt(np.maximum(variance, 0))
    largest = float(deviations.max(initial=0))
    varying = deviations[deviations > largest * np.finfo(np.float64).eps]
    if not varying.size or largest <= TABLE * float(varying.min()):
        return np.ones(len(variance))
    return np.asarray(2.0 ** -np.round(np.log2(np.where(deviations > 0, deviations, largest))))
