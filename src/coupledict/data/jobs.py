"""Jobs: what a pass does with one block of samples, and how the results of all blocks become one.

A job is a small value that can be pickled. It does not know where the samples are: :class:`InMemory` gives it all of
them at once, :class:`Blocked` and Dask give it one block after the other. Results of :class:`SumJob` are added in a
fixed tree, so that a sum over blocks is the same to the last bit wherever it is computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np
from scipy.sparse import csr_array, vstack

from ..coding.coder import Coder, Scratch, Shortfall
from ..coding.coders import make_coder
from ..coding.passes import encode, sum_codes
from ..coding.recipe import Recipe
from ..coding.results import Additive, Coded, PassSums, WorstSamples
from ..coding.samples import Samples
from ..files.codes import write_part
from ..foundation.arrays import Array, Floats, largest_number
from ..foundation.mapped import dense
from ..foundation.standardization import Standardization
from ..parallel.jobs import Threads

ROWS_AT_ONCE = 4096
FAN_IN = 8  # terms of one node of the tree of sums

Part = TypeVar("Part")
Whole = TypeVar("Whole")
Sum = TypeVar("Sum", bound=Any)
#: From the views that are present, and codes, to arrays with the same number of rows.
Decode: TypeAlias = Callable[[Sequence[Array], csr_array], list[Array]]


@dataclass(frozen=True)
class Resources:
    """What a job works with: threads, and the coder of its recipe, if it has one."""

    threads: Threads
    made: Coder | None = None

    @classmethod
    def for_job(cls, job: Job[Any, Any], threads: Threads) -> Resources:
        """Return the resources of a job; the threads make its coder, and then work with it."""
        return cls(threads, None if job.coding is None else make_coder(job.coding, threads))

    @property
    def coder(self) -> Coder:
        """The coder of the recipe."""
        if self.made is None:
            raise ValueError("Expected a job with a recipe.")
        return self.made


class Job(ABC, Generic[Part, Whole]):
    """What a pass does.

    Attributes
    ----------
    takes_empty : bool
        Whether it is also done for blocks without samples.
    """

    takes_empty: ClassVar[bool] = False

    @property
    def coding(self) -> Recipe | None:
        """The recipe of the coder that the job needs: its attribute `recipe`, if it has one."""
        return getattr(self, "recipe", None)

    @abstractmethod
    def do(self, samples: Samples, resources: Resources) -> Part:
        """Return the result of a block: samples with all views that are present."""

    @abstractmethod
    def join(self, parts: Iterable[Part]) -> Whole:
        """Return the result of all blocks from those of each, in order; there is at least one."""


class TreeSum:
    """Adds up items in a fixed tree; keeps one partial sum per level.

    Each node of the tree adds at most FAN_IN neighbours, from left to right. Items are added in order, one at a time,
    by ``+=``, which changes them: the caller must not use them afterwards.
    """

    def __init__(self) -> None:
        self._levels: list[tuple[int, Any]] = []

    def add(self, item: Any) -> None:
        """Add the next item."""
        for level, (count, total) in enumerate(self._levels):
            if count:
                total += item
                item = total
            count += 1
            if count < FAN_IN:
                self._levels[level] = (count, item)
                return
            self._levels[level] = (0, None)
        self._levels.append((1, item))

    def total(self) -> Any:
        """Return the sum of all items; None if there were none."""
        carried = None
        for count, total in self._levels:
            if count:
                if carried is not None:
                    total += carried
                carried = total
        return carried


class SumJob(Job[Sum, Sum]):
    """A job whose results add up, by ``+=``."""

    def join(self, parts: Iterable[Sum]) -> Sum:
        """Return the sum."""
        tree = TreeSum()
        for part in parts:
            tree.add(part)
        total: Sum = tree.total()
        return total


@dataclass(frozen=True)
class Rows:
    """Arrays with one row for each sample of a block, and how many samples were not coded as asked."""

    arrays: list[Any]
    shortfall: Shortfall = field(default_factory=Shortfall)


class RowJob(Job[Rows, list[Any]]):
    """A job that makes arrays with one row for each sample."""

    takes_empty = True  # part i is block i

    @property
    def tol(self) -> float | None:
        """The tolerance of the codes, for warnings."""
        return None if self.coding is None else self.coding.rule.tol

    @property
    @abstractmethod
    def templates(self) -> list[Any]:
        """Arrays without rows, of the types and the numbers of columns of those that the job makes."""

    def join(self, parts: Iterable[Rows]) -> list[Any]:
        """Return the rows of all blocks; warn if samples were not coded as asked."""
        stacks: list[list[Any]] = [[] for _ in self.templates]
        shortfall = Shortfall()
        for part in parts:
            shortfall += part.shortfall
            for stack, array in zip(stacks, part.arrays, strict=True):
                stack.append(array)
        shortfall.warn(self.tol)
        return [_stack(template, stack) for template, stack in zip(self.templates, stacks, strict=True)]


def _stack(template: Any, stack: list[Any]) -> Any:
    if len(stack) == 1:
        return stack[0]
    if isinstance(template, csr_array):
        return csr_array(vstack([template, *stack], format="csr"))
    return np.concatenate([template, *stack])


# Jobs that read the samples


@dataclass
class Largest:
    """The largest absolute value of each view; ``+=`` keeps the larger of two."""

    values: Floats

    def __iadd__(self, other: Largest) -> Self:
        self.values = np.maximum(self.values, other.values)
        return self


@dataclass(frozen=True)
class FindLargest(SumJob[Largest]):
    """Finds the largest absolute value of each view."""

    def do(self, samples: Samples, resources: Resources) -> Largest:
        """Return those of a block."""
        return Largest(np.array([largest_number([view]) for view in samples.views]))


@dataclass(frozen=True)
class CountIncomplete(SumJob[int]):
    """Counts the samples that have missing entries."""

    def do(self, samples: Samples, resources: Resources) -> int:
        """Return their number in a block."""
        floats = [view for view in samples.views if view.dtype.kind == "f"]
        if not floats or not any(np.isnan(view).any() for view in floats):
            return 0
        return int(np.count_nonzero(np.logical_or.reduce([np.isnan(view).any(axis=1) for view in floats])))


@dataclass
class FeatureMoments:
    """The mean of each feature, and its summed squared difference from it; ``+=`` adds other samples.

    Attributes
    ----------
    counts, means, squares : lists of arrays of shape (n_features_v,)
        One array for each view; counts are those of known entries.
    """

    counts: list[Floats]
    means: list[Floats]
    squares: list[Floats]

    def __iadd__(self, other: FeatureMoments) -> Self:
        for v, (count, mean, squares) in enumerate(zip(other.counts, other.means, other.squares, strict=True)):
            total = self.counts[v] + count
            share = count / np.where(total > 0, total, 1)
            difference = mean - self.means[v]
            self.squares[v] = self.squares[v] + squares + difference**2 * self.counts[v] * share
            self.means[v] = self.means[v] + difference * share
            self.counts[v] = total
        return self

    @property
    def variances(self) -> list[Floats]:
        """The variance of each feature."""
        return [own / np.where(count > 0, count, 1) for own, count in zip(self.squares, self.counts, strict=True)]


@dataclass(frozen=True)
class FindMoments(SumJob[FeatureMoments]):
    """Finds the mean and the variance of each feature, over its known entries; refuses what is not finite."""

    def do(self, samples: Samples, resources: Resources) -> FeatureMoments:
        """Return those of a block."""
        total: FeatureMoments | None = None
        for start in range(0, max(len(samples), 1), ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, len(samples))
            # Sums depend on the memory layout, which must not affect the result.
            views = [np.ascontiguousarray(view, np.float64) for view in samples.read(start, stop)]
            with np.errstate(invalid="ignore", over="ignore"):  # infinity is refused below
                part = FeatureMoments(*map(list, zip(*map(_feature_moments, views), strict=True)))
            if total is None:
                total = part
            else:
                total += part
        if total is None or not all(np.isfinite(own).all() for own in (*total.means, *total.squares)):
            samples.check_finite()
        has_nan = total is not None and any(float(own.min(initial=np.inf)) < len(samples) for own in total.counts)
        if has_nan and not samples.missing:
            samples.check_finite()
        return total  # type: ignore[return-value]  # there is at least one part


def _feature_moments(view: Floats) -> tuple[Floats, Floats, Floats]:
    """Return counts, means and summed squared differences of the features of a view."""
    known = ~np.isnan(view)
    if known.all():
        mean = view.mean(axis=0) if len(view) else np.zeros(view.shape[1])
        return np.full(view.shape[1], float(len(view))), mean, np.square(view - mean).sum(axis=0)
    counts = known.sum(axis=0).astype(np.float64)
    mean = np.where(known, view, 0).sum(axis=0) / np.where(counts > 0, counts, 1)
    return counts, mean, np.where(known, np.square(view - mean), 0).sum(axis=0)


@dataclass(frozen=True)
class SumEnergies(SumJob[Floats]):
    """Adds up the squared norms of the known entries of each view, and counts them; refuses what is not finite."""

    def do(self, samples: Samples, resources: Resources) -> Floats:
        """Return an array of shape (2, n_views)."""
        if samples.standard is None:
            return self._sum(samples.views, samples)
        total = np.zeros((2, len(samples.views)))
        for start in range(0, len(samples), ROWS_AT_ONCE):  # standardized views are copies
            total += self._sum(samples.read(start, min(start + ROWS_AT_ONCE, len(samples))), samples)
        return total

    def _sum(self, views: list[Array], samples: Samples) -> Floats:
        """Return that array for some rows."""
        energies = np.array([np.einsum("ij,ij->i", view, view, dtype=np.float64).sum() for view in views])
        known = np.array([float(view.size) for view in views])
        if np.isnan(energies).any():
            energies = np.array([np.nansum(np.square(view, dtype=np.float64)) for view in views])
            known = np.array([float(np.count_nonzero(~np.isnan(view))) for view in views])
        has_nan = known.sum() < sum(view.size for view in views)
        if not np.isfinite(energies).all() or (has_nan and not samples.missing):
            samples.check_finite()
        return np.stack([energies, known])


@dataclass(frozen=True)
class Draw(Job[list[Array], list[list[Array]]]):
    """Draws at most `count` random rows of each block; the seed and the number of the block determine which."""

    count: int
    seed: int

    def do(self, samples: Samples, resources: Resources) -> list[Array]:
        """Return the rows of each view."""
        number = 0 if samples.origin is None else samples.origin.block
        chosen = np.random.default_rng([self.seed, number]).permutation(len(samples))[: self.count]
        return [np.asarray(view[chosen], np.float64) for view in samples.seen]

    def join(self, parts: Iterable[list[Array]]) -> list[list[Array]]:
        """Return the rows of all blocks."""
        return list(parts)


@dataclass(frozen=True)
class ReadViews(Job[list[Floats], list[Floats]]):
    """Reads all views into memory as float64, wherever the samples are."""

    def do(self, samples: Samples, resources: Resources) -> list[Floats]:
        """Return the views of a block."""
        chosen = samples.select(range(len(samples.views)), np.dtype(np.float64))
        return [np.array(view) for view in chosen.read(0, len(chosen))]

    def join(self, parts: Iterable[list[Floats]]) -> list[Floats]:
        """Return the views of all blocks."""
        return [np.concatenate(views) for views in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Restore:
    """Converts results back to the units of the samples.

    Attributes
    ----------
    standard : Standardization
        Of all views.
    views : list of int
        Numbers of the views that are converted.
    present : list of int
        Numbers of the views that are given.
    """

    standard: Standardization
    views: Sequence[int]
    present: Sequence[int]

    def __call__(self, results: Sequence[Array], given: Sequence[Array] | None = None) -> list[Array]:
        """Return the results; known entries of the given views stay as they are."""
        restored = []
        for v, rows in zip(self.views, results, strict=True):
            own = self.standard.restore(v, rows)
            if given is not None and v in self.present:
                known = dense(given[list(self.present).index(v)])
                own = np.where(np.isnan(known), own, known).astype(own.dtype) if known.dtype.kind == "f" else known
            restored.append(np.asarray(own, rows.dtype))
        return restored


# Jobs that code the samples. `sources` are the views to code, as positions among the views that are present.


@dataclass(frozen=True)
class SumCodes(SumJob[PassSums]):
    """Codes samples and keeps only sums over the codes.

    Attributes
    ----------
    recipe : Recipe
    n_worst : int
        Number of samples to keep: those with the largest residuals.
    sources : list of int, or None
        None means all views.
    targets : list of int, or None
        The views that are X in B = C^T X, as such positions; None means those that are coded. If entries may be
        missing, the recipe has their dictionaries.
    """

    recipe: Recipe
    n_worst: int = 0
    sources: Sequence[int] | None = None
    targets: Sequence[int] | None = None

    def do(self, samples: Samples, resources: Resources) -> PassSums:
        """Return the sums of a block."""
        sources = range(len(samples.views)) if self.sources is None else self.sources
        return sum_codes(
            resources.coder,
            samples.select(sources, self.recipe.dtype),
            resources.threads,
            n_worst=self.n_worst,
            targets=None if self.targets is None else samples.select(self.targets, self.recipe.dtype),
        )


@dataclass(frozen=True)
class KeptCodes:
    """Codes of samples, one array for each group of views, the views as they were coded, and the figures of the pass.

    The figures have no sums.
    """

    codes: list[csr_array]
    views: list[Array]
    found: PassSums


@dataclass(frozen=True)
class KeepCodes(Job[KeptCodes, KeptCodes]):
    """Codes all views of samples in memory, and keeps the codes and the views, with missing entries filled in."""

    recipe: Recipe
    n_worst: int = 0

    def do(self, samples: Samples, resources: Resources) -> KeptCodes:
        """Return the codes."""
        coder = resources.coder
        samples = samples.select(range(len(samples.views)), self.recipe.dtype)
        coded = encode(coder, samples, resources.threads)
        views = filled_views(coder, samples, coded)
        found = PassSums.zeros(coder.n_atoms, [], len(views), coder.dtype)
        found.n_samples = len(samples)
        found.energy = float(coded.energy.sum())
        found.n_nonzeros = coded.indices.size
        found.uses = np.bincount(coded.indices, minlength=coder.n_atoms)
        found.worst = WorstSamples.of(self.n_worst, coded.energy, views)
        return KeptCodes(coded.as_csr(coder.n_atoms), views, found)

    def join(self, parts: Iterable[KeptCodes]) -> KeptCodes:
        """Return the only part."""
        (only,) = parts
        return only


def filled_views(coder: Coder, samples: Samples, coded: Coded) -> list[Array]:
    """Return the views of coded samples as new arrays, with missing entries predicted by the codes."""
    views = coder.prepare(samples.read(0, len(samples)), Scratch.new(len(samples)))
    return views if coder.filler is None else coder.filler.fill(views, coded.as_chunk())


@dataclass(frozen=True)
class FillViews(RowJob):
    """Fills in the missing entries of all views by codes."""

    recipe: Recipe

    @property
    def templates(self) -> list[Any]:
        """Empty views."""
        return [np.empty((0, atoms.shape[1]), self.recipe.dtype) for atoms in self.recipe.dictionaries]

    def do(self, samples: Samples, resources: Resources) -> Rows:
        """Return the views of a block."""
        samples = samples.select(range(len(samples.views)), self.recipe.dtype)
        coded = encode(resources.coder, samples, resources.threads)
        return Rows(filled_views(resources.coder, samples, coded))


@dataclass
class Residuals(Additive):
    """The weighted squared residual of samples, and the squared norm of each coded view."""

    residual: float
    energies: Floats
    shortfall: Shortfall


@dataclass(frozen=True)
class SumResiduals(SumJob[Residuals]):
    """Adds up squared residuals and squared norms of samples, over their known entries."""

    recipe: Recipe
    sources: Sequence[int]

    def do(self, samples: Samples, resources: Resources) -> Residuals:
        """Return those of a block."""
        samples = samples.select(self.sources, self.recipe.dtype)
        coded = encode(resources.coder, samples, resources.threads)
        views = samples.seen
        energies = np.array([np.einsum("ij,ij->", view, view, dtype=np.float64) for view in views])
        if np.isnan(energies).any():
            energies = np.array([np.nansum(np.square(view, dtype=np.float64)) for view in views])
        return Residuals(float(coded.energy.sum()), energies, resources.coder.count_shortfall(coded))

    def join(self, parts: Iterable[Residuals]) -> Residuals:
        """Return the sum; warn if samples were not coded as asked."""
        total = super().join(parts)
        total.shortfall.warn(self.recipe.rule.tol)
        return total


@dataclass(frozen=True)
class Encode(RowJob):
    """Codes samples."""

    recipe: Recipe
    sources: Sequence[int]

    @property
    def templates(self) -> list[Any]:
        """An empty array for each group of views that shares its coefficients."""
        empty = csr_array((0, self.recipe.n_atoms), dtype=self.recipe.dtype)
        return [empty] * self.recipe.n_groups

    def do(self, samples: Samples, resources: Resources) -> Rows:
        """Return the codes of a block."""
        samples = samples.select(self.sources, self.recipe.dtype)
        coded = encode(resources.coder, samples, resources.threads)
        return Rows(coded.as_csr(self.recipe.n_atoms), resources.coder.count_shortfall(coded))


@dataclass(frozen=True)
class DecodeCodes(RowJob):
    """Codes samples, and applies `decode` to their views and codes, which returns arrays of these widths."""

    recipe: Recipe
    sources: Sequence[int]
    decode: Decode
    widths: Sequence[int]
    restore: Restore | None = None

    @property
    def templates(self) -> list[Any]:
        """Empty arrays."""
        return [np.empty((0, width), self.recipe.dtype) for width in self.widths]

    def do(self, samples: Samples, resources: Resources) -> Rows:
        """Return the arrays of a block."""
        coded = Encode(self.recipe, self.sources).do(samples, resources)
        decoded = self.decode(samples.seen, coded.arrays[0])
        if self.restore is not None:
            decoded = self.restore(decoded, samples.views)
        return Rows(decoded, coded.shortfall)


@dataclass(frozen=True)
class WritePart(Job[tuple[int, int, Shortfall], list[tuple[int, int, Shortfall]]]):
    """Codes samples and writes the codes of each block to a folder that all workers share."""

    recipe: Recipe
    sources: Sequence[int]
    folder: Path
    takes_empty = True

    def do(self, samples: Samples, resources: Resources) -> tuple[int, int, Shortfall]:
        """Write a part; return its numbers of samples and nonzeros."""
        if not self.folder.is_dir():
            raise FileNotFoundError(
                f"Expected the folder '{self.folder}' to be there for every worker, got no such folder on one of them."
                " Codes are written by the workers, so they need storage that all of them share."
            )
        coded = Encode(self.recipe, self.sources).do(samples, resources)
        codes = coded.arrays[0]
        write_part(self.folder, 0 if samples.origin is None else samples.origin.block, codes)
        return codes.shape[0], codes.nnz, coded.shortfall

    def join(self, parts: Iterable[tuple[int, int, Shortfall]]) -> list[tuple[int, int, Shortfall]]:
        """Return the numbers of all parts."""
        return list(parts)
