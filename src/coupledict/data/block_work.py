"""What one block contributes to a pass; threads and the workers of a cluster call the same functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..coding.coder import Coder, Shortfall
from ..coding.passes import Targets, encode, sum_codes
from ..coding.results import PassSums
from ..coding.samples import Piece, Samples, check_finite
from ..foundation.arrays import Array, Floats, largest_number
from ..parallel.jobs import Threads


@dataclass(frozen=True)
class Wanted:
    """What a pass has to compute.

    Attributes
    ----------
    n_worst : int
        How many samples to keep: those with the largest residuals.
    sources : list of int, or None
        Which views to code, as positions among the views that are present; None means all.
    targets : list of int, or None
        Which views are X in B = C^T X, as such positions, all in one group; None means those that are coded. If entries
        may be missing, the recipe has their dictionaries.
    """

    n_worst: int = 0
    sources: list[int] | None = None
    targets: list[int] | None = None


EVERYTHING = Wanted()
#: Names of the views of a block, for error messages; None for a single view.
Names: TypeAlias = Sequence[str] | None


@dataclass
class Largest:
    """The largest absolute value of each view so far; ``+=`` keeps the larger of two."""

    values: Floats

    def __iadd__(self, other: Largest) -> Self:
        self.values = np.maximum(self.values, other.values)
        return self


def block_largest(views: Sequence[Array]) -> Largest:
    """Return the largest absolute value of each view in the rows of a block."""
    return Largest(np.array([largest_number([view]) for view in views]))


def count_gaps(views: Sequence[Array]) -> npt.NDArray[np.int64]:
    """Return how many rows of a block have missing entries, and how many of these lack a whole view."""
    floats = [view for view in views if view.dtype.kind == "f"]
    if not floats or not any(np.isnan(view).any() for view in floats):
        return np.zeros(2, np.int64)
    incomplete = np.logical_or.reduce([np.isnan(view).any(axis=1) for view in floats])
    lacking = np.logical_or.reduce([np.isnan(view).all(axis=1) for view in floats])
    return np.array([np.count_nonzero(incomplete), np.count_nonzero(lacking)])


def sum_energies(views: Sequence[Array]) -> Floats:
    """Return, for each view, the squared norm of all its known entries, and their number."""
    energies = np.array([np.einsum("ij,ij->", view, view, dtype=np.float64) for view in views])
    known = np.array([float(view.size) for view in views])
    if np.isnan(energies).any():
        energies = np.array([np.nansum(np.square(view, dtype=np.float64)) for view in views])
        known = np.array([float(np.count_nonzero(~np.isnan(view))) for view in views])
    return np.stack([energies, known])


def block_energies(views: Sequence[Array], piece: Piece, names: Names = None, *, missing: bool) -> Floats:
    """Return the same for the rows of a block; raise for NaN, unless it is allowed, and for infinity."""
    sums = sum_energies(views)
    any_missing = sums[1].sum() < sum(view.size for view in views)
    if not np.isfinite(sums[0]).all() or (any_missing and not missing):
        check_finite(views, piece, names, missing=missing)
    return sums


def mean_energies(sums: Floats, widths: Sequence[int]) -> list[float]:
    """Return the mean squared norm of complete samples, for each view, from sums over all blocks."""
    energies, known = sums
    return [float(e) / max(float(n) / width, 1.0) for e, n, width in zip(energies, known, widths, strict=True)]


def block_draw(views: Sequence[Array], piece: Piece, count: int, seed: int) -> list[Array]:
    """Return at most `count` random rows of a block; the seed and the number of the block determine which."""
    n = views[0].shape[0]
    chosen = np.random.default_rng([seed, piece.block]).permutation(n)[:count]
    return [np.asarray(view[chosen], np.float64) for view in views]


def _samples(
    coder: Coder, views: Sequence[Array], piece: Piece, dtype: np.dtype[Any], sources: Sequence[int], names: Names
) -> Samples:
    named = None if names is None else tuple(names[v] for v in sources)
    chosen = [views[v] for v in sources]
    return Samples(chosen, dtype, origin=piece, names=named, missing=coder.takes_missing)


def block_sums(
    coder: Coder,
    views: Sequence[Array],
    piece: Piece,
    dtype: np.dtype[Any],
    threads: Threads,
    wanted: Wanted,
    names: Names = None,
) -> PassSums:
    """Return what a block adds to the sums of a pass."""
    sources = list(range(len(views))) if wanted.sources is None else wanted.sources
    explained = None
    if wanted.targets is not None:
        explained = Targets(Samples([views[v] for v in wanted.targets], dtype), coder.target_filler)
    samples = _samples(coder, views, piece, dtype, sources, names)
    return sum_codes(coder, samples, threads.count, n_worst=wanted.n_worst, targets=explained, cancel=threads.cancel)


def block_codes(
    coder: Coder,
    views: Sequence[Array],
    piece: Piece,
    dtype: np.dtype[Any],
    threads: Threads,
    sources: Sequence[int],
    names: Names = None,
) -> tuple[list[csr_array], Shortfall]:
    """Return the codes of a block, one array for each group of views, and how many were not coded as asked."""
    samples = _samples(coder, views, piece, dtype, sources, names)
    coded = encode(coder, samples, threads.count, cancel=threads.cancel)
    return coded.as_csr(coder.n_atoms), coder.count_shortfall(coded)
