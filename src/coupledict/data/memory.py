"""Samples in memory: arrays whose rows can be read in any order."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..coding.recipe import Recipe
from ..coding.samples import Samples
from ..files.codes import CodeFile
from ..foundation.arrays import Array, common_dtype, multiply
from ..parallel.jobs import Threads
from .blocks import ArrayBlocks, Blocked
from .interface import Data, Portion
from .jobs import FillViews, Job, Part, Resources, Whole
from .order import Chosen, Order, spread_runs


class InMemory(Data):
    """Samples in memory: checked arrays of the views that are present. A job gets all of them at once.

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

    def run(self, job: Job[Part, Whole], threads: Threads, portion: Portion | None = None) -> Whole:
        """Do a job; its threads share the rows."""
        if isinstance(portion, list):
            raise TypeError("Expected rows of arrays in memory, got pieces of blocks.")
        samples = Samples(
            self.views, self.dtype, portion, names=self.names, missing=self.missing, standard=self.standard
        )
        return job.join([job.do(samples, Resources.for_job(job, threads))])

    def chosen(self, rows: Chosen | None) -> InMemory:
        """Return some of the samples as a copy; `None` means all of them, not copied."""
        return self if rows is None else self._with_views([np.asarray(view[rows.samples]) for view in self.views])

    def scaled(self, scale: float, dtype: np.dtype[Any] | None = None) -> InMemory:
        """Return the same samples, multiplied by a power of two: a copy of type `dtype`, unless the factor is 1."""
        if scale == 1:
            return self
        scaled = self._with_views(multiply(self.views, scale, self.dtype if dtype is None else dtype))
        scaled.scale = self.scale * scale
        scaled.standard = None if self.standard is None else self.standard.scaled(scale)
        return scaled

    def filled(self, recipe: Recipe, threads: Threads) -> InMemory:
        """Return the samples with missing entries filled in by codes: a copy, in the number type of the recipe."""
        filled = self._with_views(self.run(FillViews(recipe), threads))
        filled.missing = False
        filled.standard = None  # the filled views are standardized
        return filled

    def _with_views(self, views: list[Array]) -> InMemory:
        """Return the same samples with other arrays."""
        changed = copy.copy(self)
        changed.views = views
        changed.n_samples = int(views[0].shape[0])
        changed.dtype = common_dtype(views)
        return changed

    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return random samples, drawn without replacement."""
        chosen = rng.permutation(self.n_samples)[:count]
        rows = [np.asarray(view[chosen]) for view in self.views]
        if self.standard is not None:
            return [self.standard.apply(v, own, np.dtype(np.float64)) for v, own in enumerate(rows)]
        return [np.asarray(own, np.float64) for own in rows]

    def order(self, rng: np.random.Generator) -> Order:
        """Draw a random order of the samples."""
        return Order.random(self.n_samples, rng)

    def take(self, order: Order, place: int, size: int) -> tuple[Order, int]:
        """Return the next `size` samples of the order."""
        return order.slice(place, size), place + size

    def runs(self, count: int) -> Chosen | None:
        """Return runs of samples, spread evenly."""
        if count >= self.n_samples:
            return None
        return Chosen(np.concatenate([np.arange(*bounds) for bounds in spread_runs(self.n_samples, count)]))

    def write_codes(
        self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], threads: Threads
    ) -> CodeFile:
        """Write the codes block by block, so that they need not fit in memory."""
        blocks = ArrayBlocks.of(self.present, self.views, self.n_views)
        blocked = Blocked(blocks)
        blocked.standard = self.standard
        return blocked.write_codes(recipe, sources, out, threads)
