"""The interface through which learners read samples, wherever these are stored."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from ..coding.recipe import Recipe
from ..coding.results import PassSums
from ..coding.samples import Piece, RowOrder, Samples
from ..files.codes import CodeFile
from ..foundation.arrays import Array, Floats, safe_scale
from ..foundation.views import view_labels
from ..parallel.jobs import Threads
from .block_work import EVERYTHING, Wanted
from .moments import Fill, MomentSums
from .order import Order

#: From the views that are present, and codes, to arrays with the same number of rows.
Decode: TypeAlias = Callable[[Sequence[Array], csr_array], list[Array]]
#: Samples of one pass, as :meth:`Data.take` gives them.
Portion: TypeAlias = RowOrder | list[Piece]


class Data(ABC):
    """Samples of all views.

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
        Whether all samples are in memory at once, so that :meth:`samples` works.
    missing : bool
        Whether NaN stands for a missing entry, and a row of NaN for an absent view; otherwise NaN is an error.
    scale : float
        Power of two that the samples are multiplied by as they are read.
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
    view_names: tuple[str, ...] | None = None
    feature_names: list[Array | None] | None = None

    def allow_missing(self, *, all_nan: bool) -> None:
        """Take NaN for missing entries: all of it, or only where the samples say so themselves."""
        self.missing = self.missing or all_nan

    def find_scale(self, threads: Threads, views: Sequence[int] | None = None) -> float:
        """Return the power of two to multiply samples by, so that no sum over them over- or underflows; usually 1.

        Only these views count, given as positions among those that are present; None means all.
        """
        return safe_scale(self.largest(threads, views), self.dtype)

    def largest(self, threads: Threads, views: Sequence[int] | None = None) -> float:
        """Return the largest absolute value of all samples, in all views or in these."""
        found = self.largest_of_views(threads)
        return float(np.max(found if views is None else found[list(views)], initial=0.0))

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the views that are present, for error messages; None for a single view."""
        return tuple(view_labels(self.present, self.view_names)) if self.n_views > 1 else None

    @abstractmethod
    def largest_of_views(self, threads: Threads) -> Floats:
        """Return the largest absolute value of each view."""

    def scaled(self, scale: float) -> Self:
        """Return the same samples, multiplied by a power of two as they are read."""
        if scale == 1:
            return self
        scaled = copy.copy(self)
        scaled.scale = self.scale * scale
        return scaled

    @abstractmethod
    def mean_energies(self, threads: Threads) -> list[float]:
        """Return the mean squared norm of the samples of each view, as if none of their entries were missing."""

    @abstractmethod
    def gaps(self, threads: Threads) -> tuple[int, int]:
        """Return how many samples have missing entries, and how many of these lack a whole view."""

    @abstractmethod
    def moments(self, portion: Portion | None, threads: Threads, fill: Fill | None = None) -> MomentSums:
        """Return sums over pairs of features, over a portion of the samples or all, which `fill` fills in first."""

    def filled(self, recipe: Recipe, threads: Threads) -> Data:
        """Return the samples with missing entries filled in by codes; raises unless `all_held`."""
        raise TypeError("Expected samples that are in memory, got samples that are read a block at a time.")

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return `count` random samples of all views in random order, as float64; fewer if there are fewer."""

    @abstractmethod
    def order(self, rng: np.random.Generator) -> Order:
        """Draw a random order for :meth:`take`."""

    @abstractmethod
    def take(self, order: Order, place: int, size: int) -> tuple[Portion, int]:
        """Return about `size` samples from a place of the order on, and the next place; all if `size` is n_samples."""

    @abstractmethod
    def sum_codes(
        self, recipe: Recipe, portion: Portion | None, threads: Threads, wanted: Wanted = EVERYTHING
    ) -> PassSums:
        """Run a pass over a portion of the samples, or over all; see :func:`coupledict.coding.passes.sum_codes`."""

    def energies(self, recipe: Recipe, sources: Sequence[int], threads: Threads) -> tuple[float, Floats]:
        """Return the weighted squared residual of all samples, and the squared norm of each view that is coded.

        Only known entries count.
        """
        found = self.sum_codes(recipe, None, threads, Wanted(sources=list(sources)))
        return found.energy, found.known_energy

    def samples(
        self, portion: Portion | None, chosen: Sequence[int] | None = None, dtype: np.dtype[Any] | None = None
    ) -> Samples:
        """Return the rows of a portion, of all views or of the chosen ones; raises unless `all_held`.

        They will be coded as `dtype`; in the number type of the samples if it is left out.
        """
        raise TypeError("Expected samples that are in memory, got samples that are read a block at a time.")

    @abstractmethod
    def codes(self, recipe: Recipe, sources: Sequence[int], threads: Threads) -> list[csr_array]:
        """Return the codes, one array for each group of views that shares its coefficients.

        `sources` are the views to code, as positions among the views that are present.
        """

    @abstractmethod
    def decoded(
        self, recipe: Recipe, sources: Sequence[int], decode: Decode, widths: Sequence[int], threads: Threads
    ) -> list[Array]:
        """Return what `decode` makes of the views of samples and their codes: arrays of these numbers of features."""

    @abstractmethod
    def write_codes(
        self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], threads: Threads
    ) -> CodeFile:
        """Write the codes to a file, part by part; all views must be in one group."""
