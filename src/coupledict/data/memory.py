"""Samples in memory: arrays, whose rows can be read in any order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..coding.coder import Coder
from ..coding.making import make_coder
from ..coding.passes import Targets, encode, sum_codes
from ..coding.recipe import Recipe
from ..coding.results import Coded, PassSums
from ..coding.samples import Samples
from ..files.codes import CodeFile
from ..foundation.arrays import Array, Floats, common_dtype, largest_number, multiply
from ..parallel.jobs import Threads
from .block_work import EVERYTHING, Wanted, count_gaps, mean_energies, sum_energies
from .blocked import Blocked
from .blocks import ArrayBlocks
from .interface import Data, Decode, Portion
from .moments import Fill, MomentSums
from .order import Order


class InMemory(Data):
    """Samples in memory: checked arrays of the views that are present.

    Parameters
    ----------
    views : list of arrays
    present : list of int, optional
        Numbers of these views; 0, 1 and so on if left out.
    n_views : int, optional
        Number of all views, present or not.
    """

    all_held = True

    def __init__(self, views: list[Array], present: list[int] | None = None, n_views: int | None = None) -> None:
        self.views = views
        self.n_samples = int(views[0].shape[0])
        self.present = list(range(len(views))) if present is None else present
        self.n_views = len(views) if n_views is None else n_views
        self.widths = [int(view.shape[1]) for view in views]
        self.dtype = common_dtype(views)

    def largest_of_views(self, threads: Threads) -> Floats:
        """Return the largest absolute value of each view."""
        return np.array([largest_number([view]) for view in self.views])

    def scaled(self, scale: float) -> InMemory:
        """Return the same samples multiplied by a power of two: a copy, unless the factor is 1."""
        if scale == 1:
            return self
        scaled = InMemory(multiply(self.views, scale, self.dtype), self.present, self.n_views)
        scaled.scale, scaled.missing = self.scale * scale, self.missing
        scaled.view_names, scaled.feature_names = self.view_names, self.feature_names
        return scaled

    def mean_energies(self, threads: Threads) -> list[float]:
        """Return the mean squared norm of the samples of each view."""
        if self.missing:
            return mean_energies(sum_energies(self.views), self.widths)
        return [float(np.mean(np.einsum("ij,ij->i", v, v, dtype=np.float64))) if v.size else 0.0 for v in self.views]

    def gaps(self, threads: Threads) -> tuple[int, int]:
        """Return how many samples have missing entries, and how many of these lack a whole view."""
        incomplete, lacking = count_gaps(self.views).tolist()
        return incomplete, lacking

    def moments(self, portion: Portion | None, threads: Threads, fill: Fill | None = None) -> MomentSums:
        """Return sums over pairs of features, over a portion of the samples or all."""
        samples = self.samples(portion)
        return MomentSums.over(samples.read(0, len(samples)), fill)

    def filled(self, recipe: Recipe, threads: Threads) -> InMemory:
        """Return the samples with missing entries filled in by codes: a copy, in the number type of the recipe."""
        coder = make_coder(recipe, threads.count, threads.cancel)
        samples = self.samples(None, dtype=recipe.dtype)
        coded = encode(coder, samples, threads.count, cancel=threads.cancel)
        if coder.filler is None:
            raise ValueError("Expected a recipe for samples with missing entries.")
        views = coder.filler.fill(samples.read(0, len(samples)), coded.as_chunk())
        filled = InMemory(views, self.present, self.n_views)
        filled.scale = self.scale
        return filled

    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return random samples, drawn without replacement."""
        chosen = rng.permutation(self.n_samples)[:count]
        return [np.asarray(view[chosen], np.float64) for view in self.views]

    def order(self, rng: np.random.Generator) -> Order:
        """Draw a random order of the samples."""
        return Order.random(self.n_samples, rng)

    def take(self, order: Order, place: int, size: int) -> tuple[Order, int]:
        """Return the next `size` samples of the order."""
        return order.slice(place, size), place + size

    def sum_codes(
        self, recipe: Recipe, portion: Portion | None, threads: Threads, wanted: Wanted = EVERYTHING
    ) -> PassSums:
        """Run a pass; threads share the rows."""
        coder = make_coder(recipe, threads.count, threads.cancel)
        explained = None
        if wanted.targets is not None:
            explained = Targets(self.samples(portion, wanted.targets, recipe.dtype), coder.target_filler)
        return sum_codes(
            coder,
            self.samples(portion, wanted.sources, recipe.dtype),
            threads.count,
            n_worst=wanted.n_worst,
            targets=explained,
            cancel=threads.cancel,
        )

    def energies(self, recipe: Recipe, sources: Sequence[int], threads: Threads) -> tuple[float, Floats]:
        """Return the weighted squared residual of all samples, and the squared norm of each view that is coded."""
        coded = self._encode(recipe, sources, threads)[1]
        return float(coded.energy.sum()), sum_energies([self.views[i] for i in sources])[0]

    def samples(
        self, portion: Portion | None, chosen: Sequence[int] | None = None, dtype: np.dtype[Any] | None = None
    ) -> Samples:
        """Return the rows of a portion, of all views or of the chosen ones, to be coded in this number type."""
        if isinstance(portion, list):
            raise TypeError("Expected rows of arrays in memory, got pieces of blocks.")
        chosen = range(len(self.views)) if chosen is None else chosen
        names = None if self.names is None else tuple(self.names[v] for v in chosen)
        dtype = self.dtype if dtype is None else dtype
        return Samples([self.views[v] for v in chosen], dtype, portion, names=names, missing=self.missing)

    def codes(self, recipe: Recipe, sources: Sequence[int], threads: Threads) -> list[csr_array]:
        """Return the codes; warn if some samples did not reach the tolerance."""
        coder, coded = self._encode(recipe, sources, threads)
        return coded.as_csr(coder.n_atoms)

    def _encode(self, recipe: Recipe, sources: Sequence[int], threads: Threads) -> tuple[Coder, Coded]:
        coder = make_coder(recipe, threads.count, threads.cancel)
        samples = self.samples(None, sources, recipe.dtype)
        coded = encode(coder, samples, threads.count, cancel=threads.cancel)
        coder.count_shortfall(coded).warn(coder.tol, stacklevel=6)
        return coder, coded

    def decoded(
        self, recipe: Recipe, sources: Sequence[int], decode: Decode, widths: Sequence[int], threads: Threads
    ) -> list[Array]:
        """Return what `decode` makes of all samples at once."""
        return decode(self.views, self.codes(recipe, sources, threads)[0])

    def write_codes(
        self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], threads: Threads
    ) -> CodeFile:
        """Write the codes block by block, so that they need not fit in memory."""
        blocks = ArrayBlocks.of(self.present, self.views, self.n_views)
        return Blocked(blocks).write_codes(recipe, sources, out, threads)
