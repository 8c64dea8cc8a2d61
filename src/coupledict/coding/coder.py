"""What all coders have in common: dictionaries prepared for coding, and the rule that ends it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ..foundation.arrays import Array, Floats
from ..foundation.warning import warn
from ..kernels import _native
from ..kernels.instruction_sets import active_level
from ..parallel.cancel import CancelToken
from .results import ChunkCodes, Coded

TYPICAL_NONZERO = 8  # a first guess where tol or alpha, not a limit, determines the number of nonzeros


@dataclass(frozen=True)
class Scratch:
    """Scratch memory for coding one chunk, and the outputs of the chunk other than its codes.

    Attributes
    ----------
    workspace : Workspace
        Memory for the kernels.
    cancel : CancelToken
    energy : array of shape (n_rows,)
        Output: the squared residual of each sample.
    status : array of shape (n_rows,)
        Output: the status of each sample, one of the constants of the kernels.
    """

    workspace: _native.Workspace
    cancel: CancelToken
    energy: Floats
    status: npt.NDArray[np.uint8]

    @classmethod
    def new(cls, n: int) -> Scratch:
        """Return scratch memory for coding n samples in this thread."""
        return cls(_native.Workspace(), CancelToken(), np.empty(n), np.empty(n, np.uint8))

    def for_rows(self, n: int) -> Scratch:
        """Return scratch memory with outputs of its own, for coding n other samples in between."""
        return Scratch(self.workspace, self.cancel, np.empty(n), np.empty(n, np.uint8))


class Filler:
    """Fills in the missing entries of views, which are NaN.

    Parameters
    ----------
    dictionaries : list of arrays (n_components, n_features_v)
        One for each view; codes are multiplied by them.
    dtype : float32 or float64
        Number type of views and codes.
    """

    def __init__(self, dictionaries: Sequence[Array], dtype: np.dtype[Any]) -> None:
        self._atoms = [np.ascontiguousarray(atoms, dtype) for atoms in dictionaries]

    def fill(self, views: Sequence[Array], codes: ChunkCodes) -> list[Array]:
        """Return the views of coded samples as new arrays without missing entries; all views are in one group."""
        filled = []
        for view, atoms in zip(views, self._atoms, strict=True):
            out = np.empty(view.shape, view.dtype)
            _native.fill_missing(view, codes.counts, codes.indices, codes.values[0], atoms, out, active_level())
            filled.append(out)
        return filled


class Coder(ABC):
    """Dictionaries prepared for coding, with the rule that ends it.

    Attributes
    ----------
    n_atoms : int
    dtype : float32 or float64
        Number type of the samples, the computation and the codes.
    groups : list of lists of int
        Views that share their coefficients.
    n_nonzero : int
        Maximal number of nonzeros of a sample.
    typical_nonzero : int
        Number of nonzeros per sample to allocate memory for at first.
    tol : float or None
    positive : bool
        Whether coefficients are not negative.
    multiply_adds : float
        Estimated multiply-adds per sample.
    whole_blocks : bool
        Whether samples that are coded in one call share work.
    filler : Filler or None
        Fills in missing entries; None if samples have none.
    target_filler : Filler or None
        The same for views that are explained but not coded.
    filled_by : Coder or None
        Fills in missing entries before the samples are coded, as complete ones.
    """

    n_atoms: int
    dtype: np.dtype[Any]
    groups: list[list[int]]
    n_nonzero: int
    typical_nonzero: int
    tol: float | None = None
    positive: bool = False
    multiply_adds: float
    whole_blocks: bool = False
    filler: Filler | None = None
    target_filler: Filler | None = None
    filled_by: Coder | None = None

    def prepare(self, views: list[Array], scratch: Scratch) -> list[Array]:
        """Return the views of a chunk as they are to be coded; the given arrays do not change."""
        return views if self.filled_by is None else self.filled_by.fill(views, scratch)

    def fill(self, views: list[Array], scratch: Scratch) -> list[Array]:
        """Return the views of a chunk as new arrays, with missing entries predicted by the codes."""
        if self.filler is None:
            raise ValueError("Expected a coder for samples with missing entries.")
        return self.filler.fill(views, self.encode_rows(views, scratch.for_rows(len(views[0]))))

    @abstractmethod
    def encode_rows(self, views: list[Array], scratch: Scratch) -> ChunkCodes:
        """Code a chunk of samples; write the squared residual and the status of each into `scratch`."""

    def penalty_of(self, codes: ChunkCodes) -> float:
        """Return what codes cost in addition to the squared residual, in its units: twice the lasso penalty, else 0."""
        return 0.0

    def count_unreached(self, coded: Coded) -> int:
        """Return how many samples ended above tol although they were allowed more atoms."""
        return 0

    def count_shortfall(self, coded: Coded) -> Shortfall:
        """Return how many samples were not coded as asked."""
        unknown = int(np.count_nonzero(coded.status == _native.UNKNOWN))
        return Shortfall(coded.status.size, self.count_unreached(coded), unknown, self.positive)


class Workspaces:
    """Scratch memory for kernels: one workspace per working thread, reused from chunk to chunk."""

    def __init__(self) -> None:
        self._idle: deque[_native.Workspace] = deque()

    def lend(self) -> _native.Workspace:
        """Return an unused workspace."""
        try:
            return self._idle.pop()
        except IndexError:
            return _native.Workspace()

    def take_back(self, workspace: _native.Workspace) -> None:
        """Accept a workspace for the next borrower."""
        self._idle.append(workspace)


@dataclass
class Shortfall:
    """How many samples were not coded as asked; ``+=`` adds those of other samples.

    Attributes
    ----------
    n_samples : int
        All samples.
    unreached : int
        Those that ended above tol although they were allowed more atoms.
    unknown : int
        Those that have no known entry, and therefore no code.
    positive : bool
        Whether coefficients are not negative.
    """

    n_samples: int = 0
    unreached: int = 0
    unknown: int = 0
    positive: bool = False

    def __iadd__(self, other: Shortfall) -> Self:
        self.n_samples += other.n_samples
        self.unreached += other.unreached
        self.unknown += other.unknown
        self.positive |= other.positive
        return self

    def warn(self, tol: float | None) -> None:
        """Warn once of each kind, if there are any."""
        if self.unreached:
            why = (
                "correlates positively with no atom"
                if self.positive
                else "is, up to rounding, orthogonal to every atom"
            )
            warn(
                f"{self.unreached} of {self.n_samples} samples did not reach tol={tol}: what is left of them {why}."
                " Use a larger tol or a dictionary that spans the samples.",
                ConvergenceWarning,
            )
        if self.unknown:
            warn(f"{self.unknown} of {self.n_samples} samples have no known entry; their codes are 0.")
