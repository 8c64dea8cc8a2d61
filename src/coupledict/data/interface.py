"""The interface through which learners read samples, wherever these are stored."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from ..coding.recipe import Recipe
from ..coding.samples import Piece, RowOrder
from ..files.codes import CodeFile
from ..foundation.arrays import Array, Floats, safe_scale
from ..foundation.standardization import Standardization
from ..foundation.views import view_labels
from ..parallel.jobs import Threads
from .jobs import FindLargest, Job, Part, SumEnergies, Whole
from .order import Order

#: Samples of one pass, as :meth:`Data.take` gives them.
Portion: TypeAlias = RowOrder | list[Piece]


class Data(ABC):
    """Samples of all views: facts about them, an order in which to read them, and :meth:`run`, which does a job.

    Attributes
    ----------
    n_samples : int
    present, n_views : list of int, int
        Which views are present, and the number of all views. In a fit all are present.
    widths : list of int
        Number of features of each view that is present.
    dtype : float32 or float64
        Number type that the samples are coded in.
    all_held : bool
        Whether all samples are in memory at once.
    missing : bool
        Whether NaN stands for a missing entry, and a row of NaN for an absent view; otherwise NaN is an error.
    scale : float
        Power of two that the samples are multiplied by when they are read.
    standard : Standardization or None
        Of the views that are present; applied when they are read, after the multiplication.
    view_names : tuple of str, or None
    feature_names : list of arrays of str, or None
        Names of the features of each view; None if no view has names.
    """

    n_samples: int
    present: list[int]
    n_views: int
    widths: list[int]
    dtype: np.dtype[Any]
    all_held: ClassVar[bool]
    missing: bool = False
    scale: float = 1.0
    standard: Standardization | None = None
    view_names: tuple[str, ...] | None = None
    feature_names: list[Array | None] | None = None

    @abstractmethod
    def run(self, job: Job[Part, Whole], threads: Threads, portion: Portion | None = None) -> Whole:
        """Do a job with a portion of the samples, or with all, and return its result."""

    @abstractmethod
    def order(self, rng: np.random.Generator) -> Order:
        """Draw a random order for :meth:`take`."""

    @abstractmethod
    def take(self, order: Order, place: int, size: int) -> tuple[Portion, int]:
        """Return about `size` samples from a place of the order onwards, and the next place; all if it is n_samples."""

    @abstractmethod
    def runs(self, count: int) -> Portion | None:
        """Return about `count` samples, in evenly spread runs of neighbours; None if these are all samples."""

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return `count` random samples of all views in random order, as float64; fewer if there are fewer."""

    @abstractmethod
    def write_codes(
        self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], threads: Threads
    ) -> CodeFile:
        """Write the codes to a file, part by part; all views must be in one group.

        `sources` are the views to code, as positions among the views that are present.
        """

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the views that are present, for error messages; None for a single view."""
        return tuple(view_labels(self.present, self.view_names)) if self.n_views > 1 else None

    def allow_missing(self, *, all_nan: bool) -> None:
        """Treat NaN as a missing entry: everywhere, or only where the samples themselves mark it as missing."""
        self.missing = self.missing or all_nan

    def scaled(self, scale: float) -> Self:
        """Return the same samples, to be multiplied by a power of two when they are read."""
        if scale == 1:
            return self
        scaled = copy.copy(self)
        scaled.scale = self.scale * scale
        scaled.standard = None if self.standard is None else self.standard.scaled(scale)
        return scaled

    def standardized(self, standard: Standardization | None) -> Self:
        """Return the same samples, to be standardized when they are read; `standard` has all views, before scaling."""
        if standard is None:
            return self
        changed = copy.copy(self)
        changed.standard = standard.select(self.present).scaled(self.scale)
        return changed

    def find_scale(self, threads: Threads, views: Sequence[int] | None = None) -> float:
        """Return the power of two to multiply samples by, so that no sum over them over- or underflows; usually 1.

        `views` are the views to consider, as positions among those that are present; None means all.
        """
        return safe_scale(self.largest(threads, views), self.dtype)

    def largest(self, threads: Threads, views: Sequence[int] | None = None) -> float:
        """Return the largest absolute value of all samples, in all views or in these."""
        found = self.largest_of_views(threads)
        return float(np.max(found if views is None else found[list(views)], initial=0.0))

    def largest_of_views(self, threads: Threads) -> Floats:
        """Return the largest absolute value of each view."""
        return self.run(FindLargest(), threads).values

    def mean_energies(self, threads: Threads) -> list[float]:
        """Return the mean squared norm of the samples of each view, as if none of their entries were missing."""
        energies, known = self.run(SumEnergies(), threads)
        return [float(e) / max(float(n) / width, 1.0) for e, n, width in zip(energies, known, self.widths, strict=True)]
