"""Results of a pass over the samples: codes, or sums over codes, whose size does not depend on n_samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..foundation.arrays import Array, Floats


class GrowingArray:
    """A one-dimensional array that grows at its end; its final length need not be known."""

    def __init__(self, capacity: int, dtype: npt.DTypeLike) -> None:
        self._array: Array = np.empty(capacity, dtype)
        self._size = 0

    def extend(self, values: Array) -> None:
        """Append values."""
        end = self._size + values.size
        if end > self._array.size:
            self._array.resize(max(end, self._array.size + self._array.size // 2), refcheck=False)
        self._array[self._size : end] = values
        self._size = end

    def finish(self) -> Array:
        """Return the array; nothing may be appended afterwards."""
        self._array.resize(self._size, refcheck=False)
        return self._array


@dataclass(frozen=True)
class ChunkCodes:
    """Codes of a chunk of samples; one array of values for each group of views that shares its coefficients."""

    counts: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    values: list[Array]

    def kept(self, keep: npt.NDArray[np.bool_]) -> ChunkCodes:
        """Return the same codes without the nonzeros of the other rows."""
        if keep.all():
            return self
        own = np.repeat(keep, self.counts)
        return ChunkCodes(np.where(keep, self.counts, 0), self.indices[own], [values[own] for values in self.values])

    def filled(self, rows: npt.NDArray[np.int64], other: ChunkCodes) -> ChunkCodes:
        """Return the same codes with those of `other` in some rows, which have no nonzeros yet."""
        counts = self.counts.copy()
        counts[rows] = other.counts
        is_other = np.zeros(counts.size, bool)
        is_other[rows] = True
        from_other = np.repeat(is_other, counts)

        def merge(own: Array, added: Array) -> Array:
            merged = np.empty(from_other.size, own.dtype)
            merged[from_other], merged[~from_other] = added, own
            return merged

        values = [merge(*pair) for pair in zip(self.values, other.values, strict=True)]
        return ChunkCodes(counts, merge(self.indices, other.indices), values)


@dataclass(frozen=True)
class Coded:
    """Codes of samples as the components of CSR arrays, with the squared residual and the status of each sample.

    There is one array of values for each group of views that shares its coefficients.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: list[Array]
    energy: Floats
    status: npt.NDArray[np.uint8]

    def as_chunk(self) -> ChunkCodes:
        """Return the same codes as those of one chunk."""
        return ChunkCodes(np.diff(self.indptr).astype(np.int32), self.indices, self.values)

    def as_csr(self, n_components: int) -> list[csr_array]:
        """Return CSR arrays, one for each group of views, flagged as having sorted and unique indices."""
        index_dtype = np.int32 if max(self.indices.size, n_components) <= np.iinfo(np.int32).max else np.int64
        indptr, indices = self.indptr.astype(index_dtype), self.indices.astype(index_dtype, copy=False)
        codes = []
        for values in self.values:
            matrix = csr_array((values, indices, indptr), shape=(indptr.size - 1, n_components))
            matrix.has_sorted_indices = True
            matrix.has_canonical_format = True
            codes.append(matrix)
        return codes


class Additive:
    """A dataclass that adds up: ``+=`` adds every field of another one to its own, arrays and lists in place."""

    def __iadd__(self, other: Any) -> Self:
        for name, value in vars(self).items():
            setattr(self, name, _add(value, getattr(other, name)))
        return self


def _add(total: Any, value: Any) -> Any:
    """Return the sum of two fields; lists are added entry by entry, and None stands for no sum."""
    if isinstance(total, list):
        return [_add(*pair) for pair in zip(total, value, strict=True)]
    if total is not None:
        total += value
    return total


@dataclass
class Sums(Additive):
    """A = C^T C and B = C^T X of one group of views; X and B have the views side by side.

    Missing entries of X are filled in with what the codes predict. Then `known` holds, for each atom and feature, the
    sum of the squared coefficients of the samples in which this feature is known: the part of the diagonal of A that
    comes from data.
    """

    a: Floats
    b: Floats
    known: Floats | None = None


@dataclass(frozen=True)
class WorstSamples:
    """At most `limit` samples with the largest squared residuals: these, descending, and the rows of each view."""

    limit: int
    energy: Floats
    rows: list[Array]

    @classmethod
    def none(cls, limit: int, widths: Sequence[int], dtype: np.dtype[Any]) -> WorstSamples:
        """Return an empty set for at most `limit` samples."""
        return cls(limit, np.empty(0), [np.empty((0, width), dtype) for width in widths])

    @classmethod
    def of(cls, limit: int, energy: Floats, views: Sequence[Array]) -> WorstSamples:
        """Return the worst of some samples, given their squared residuals."""
        rows = np.argsort(-energy, kind="stable")[:limit]
        return cls(limit, energy[rows], [view[rows] for view in views])

    def __add__(self, other: WorstSamples) -> WorstSamples:
        """Return the worst samples of both; of equal residuals, those of `self` come first."""
        if not self.limit:
            return self
        energy = np.concatenate([self.energy, other.energy])
        chosen = np.argsort(-energy, kind="stable")[: self.limit]
        rows = [np.concatenate(pair)[chosen] for pair in zip(self.rows, other.rows, strict=True)]
        return WorstSamples(self.limit, energy[chosen], rows)


@dataclass
class PassSums(Additive):
    """The result of a pass that does not keep the codes: of a chunk, a block or all samples; ``+=`` adds others.

    Attributes
    ----------
    n_samples : int
    sums : list of Sums
        One for each group of views that shares its coefficients.
    uses : array of shape (n_components,)
        Number of samples that use each atom.
    energy : float
        Weighted squared residual of all samples.
    n_nonzeros : int
    view_energy : array of shape (n_views,)
        Squared norm of the samples of each view, with missing entries filled in. For views that are explained but not
        coded, only samples that have the view are counted.
    known_energy : array of shape (n_views,)
        The same over the known entries alone.
    view_samples : array of shape (n_views,)
        Number of samples that have each view.
    worst : WorstSamples
    penalty : float
        What the codes cost in addition to the squared residual: for the lasso, twice the penalty times the sum of the
        absolute coefficients; otherwise 0.
    """

    n_samples: int
    sums: list[Sums]
    uses: npt.NDArray[np.int64]
    energy: float
    n_nonzeros: int
    view_energy: Floats
    known_energy: Floats
    view_samples: npt.NDArray[np.int64]
    worst: WorstSamples
    penalty: float = 0.0

    @classmethod
    def zeros(
        cls, n_atoms: int, widths: Sequence[int], n_views: int, dtype: np.dtype[Any], *, known: bool = False
    ) -> PassSums:
        """Return sums over no samples: one group of views for each of `widths`, arrays of that number type."""
        sums = [
            Sums(
                np.zeros((n_atoms, n_atoms), dtype),
                np.zeros((n_atoms, width), dtype),
                np.zeros((n_atoms, width), dtype) if known else None,
            )
            for width in widths
        ]
        return cls(
            n_samples=0,
            sums=sums,
            uses=np.zeros(n_atoms, np.int64),
            energy=0.0,
            n_nonzeros=0,
            view_energy=np.zeros(n_views),
            known_energy=np.zeros(n_views),
            view_samples=np.zeros(n_views, np.int64),
            worst=WorstSamples.none(0, [], dtype),
        )

    def clear(self) -> None:
        """Set all arrays to 0, for another chunk."""
        arrays = [array for sums in self.sums for array in (sums.a, sums.b, sums.known) if array is not None]
        for array in (*arrays, self.uses, self.view_energy, self.known_energy, self.view_samples):
            array.fill(0)

    def estimate_complete(self, g: int, atoms: Floats) -> Sums:
        """Return the sums of group g as they would be if nothing were missing, estimated from the known entries.

        Missing entries were filled in with codes times `atoms`, so they have no residual, and C^T (X - C D) comes from
        the known entries alone. For each atom and feature, it is divided by the share of the squared coefficients that
        belongs to known entries. Otherwise, atoms that are updated from the sums would move by that share of the way
        only.
        """
        sums = self.sums[g]
        if sums.known is None:
            return sums
        explained = sums.a @ atoms
        share = known_share(sums.known, np.diag(sums.a), self.uses)
        return Sums(sums.a, explained + (sums.b - explained) / share)

    def check_finite(self) -> PassSums:
        """Return self; raise if the sums have overflowed."""
        if not all(np.isfinite(array).all() for sums in self.sums for array in (sums.a, sums.b)):
            raise ValueError(
                "Sums over the codes of X exceed the range of its number type. Multiply X by a small number, or give it"
                " as float64."
            )
        return self


TRUSTED_USES = 8  # if fewer samples use an atom, its share is drawn towards that of all atoms
LEAST_SHARE = 0.02


def known_share(known: Floats, total: Floats, uses: npt.NDArray[np.int64]) -> Floats:
    """Return, for each atom and feature, the share of the squared coefficients that belongs to known entries."""
    overall = known.sum(axis=0) / max(float(total.sum()), np.finfo(np.float64).tiny)
    own = known / np.where(total > 0, total, 1)[:, None]
    trust = (uses / (uses + TRUSTED_USES))[:, None]
    return np.asarray(np.clip(trust * own + (1 - trust) * overall, LEAST_SHARE, 1.0))
