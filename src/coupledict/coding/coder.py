"""Coders: dictionaries prepared for coding. The kernels do OMP, OLS and simultaneous OMP, scikit-learn the lasso."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ..foundation.arrays import Array, Floats
from ..kernels import _native
from ..kernels.instruction_sets import active_level
from ..parallel.cancel import CancelToken
from ..parallel.jobs import cut
from ..parallel.ordered import in_order
from .results import ChunkCodes, Coded
from .rule import CodingRule

# A larger Gram matrix is not computed: the kernels then work without it.
GRAM_BUDGET_BYTES = 1 << 30
# With the Gram matrix, a step updates K numbers for each atom before it. Where those of a sample leave the caches, an
# update takes as long as this many multiply-adds of a matrix product.
STREAMED_UPDATE, CACHED_BYTES = 8, 1 << 18
LARGE_DICTIONARY = 1 << 20  # K times features; without a Gram matrix, samples then share matrix products
ROWS_AT_ONCE = 1 << 21  # numbers that are normalised at a time
TYPICAL_NONZERO = 8  # a first guess where tol or alpha, not a limit, decides the number of nonzeros


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
    multiply_adds : float
        Estimated multiply-adds per sample.
    chunk_rows : int or None
        Number of samples per call, fixed so that the result does not depend on the chunks; None if any number will do.
    whole_blocks : bool
        Whether samples that are coded in one call share work.
    """

    n_atoms: int
    dtype: np.dtype[Any]
    groups: list[list[int]]
    n_nonzero: int
    typical_nonzero: int
    tol: float | None = None
    multiply_adds: float
    chunk_rows: int | None = None
    whole_blocks: bool = False

    @abstractmethod
    def encode_rows(self, views: list[Array], scratch: Scratch) -> ChunkCodes:
        """Code a chunk of samples; write the squared residual and the status of each into `scratch`."""

    def count_unreached(self, coded: Coded) -> int:
        """Return how many samples ended above tol although they were allowed more atoms."""
        return 0


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


def normalize_atoms(
    dictionaries: Sequence[Array], scales: Floats, dtype: np.dtype[Any] | type = np.float64
) -> tuple[Array, Floats]:
    """Return the joint atoms with unit norm, as `dtype`, and their original norms, in float64.

    A joint atom is one row with the atom of every view, view v multiplied by ``scales[v]``. Zero atoms stay zero. Atoms
    whose norm is below the smallest normal number become zero: such a norm is not precise enough to divide by. Memory
    beyond the result: a few megabytes.
    """
    n_atoms, width = dictionaries[0].shape[0], sum(d.shape[1] for d in dictionaries)
    joint, norms = np.empty((n_atoms, width), dtype), np.empty(n_atoms)
    step = max(1, ROWS_AT_ONCE // width)
    for start in range(0, n_atoms, step):
        rows = slice(start, min(start + step, n_atoms))
        joint[rows], norms[rows] = _normalize_rows([d[rows] for d in dictionaries], scales)
    if not np.isfinite(norms).all():
        raise ValueError(
            f"Expected atoms whose norm is at most {np.finfo(np.float64).max:.4g}, got a larger one (atom"
            f" {int(np.argmin(np.isfinite(norms)))}). Divide the dictionary by a number."
        )
    return joint, norms


def _normalize_rows(dictionaries: Sequence[Array], scales: Floats) -> tuple[Floats, Floats]:
    """Normalise joint atoms; each is first divided by its largest entry, so that no square over- or underflows."""
    # In C order, whatever the layout of the dictionaries: sums over the features then always round the same.
    joint = np.ascontiguousarray(
        np.hstack([np.asarray(d, np.float64) * scale for d, scale in zip(dictionaries, scales, strict=True)])
    )
    largest = np.abs(joint).max(axis=1)
    safe = np.where(largest > 0, largest, 1.0)
    joint /= safe[:, None]
    norms = np.sqrt(np.einsum("ij,ij->i", joint, joint))
    joint /= np.where(norms > 0, norms, 1.0)[:, None]
    with np.errstate(over="ignore"):
        norms = norms * largest
    lost = norms < np.finfo(np.float64).smallest_normal
    norms[lost], joint[lost] = 0, 0
    return joint, norms


class GreedyCoder(Coder):
    """OMP, OLS and simultaneous OMP by the kernels; made by :meth:`Recipe.coder`.

    The Gram matrix is computed where that saves time: not for a few samples, not for one atom per sample, and not where
    it would take more than GRAM_BUDGET_BYTES. Without it, each step of a sample takes a product of the dictionary with
    one vector; over large dictionaries, samples take their steps together, by matrix products.

    A sample is coded fast first. If atoms are so close to dependent that rounding errors matter, the kernel leaves
    it in doubt, and it is coded again in float64 by a careful method. Whether that happens depends on the sample and
    the dictionaries alone.
    """

    def __init__(self, recipe: Recipe, n_jobs: int, cancel: CancelToken | None = None) -> None:
        dictionaries, rule, dtype = recipe.dictionaries, recipe.rule, recipe.dtype
        views = list(range(len(dictionaries)))
        self.groups = [views] if rule.coupling == "code" else [[v] for v in views]
        # Only the ratios of the weights matter to the codes; with a largest weight of 1, no product overflows.
        self._top_weight = float(recipe.weights.max())
        scales = np.sqrt(recipe.weights / self._top_weight)
        self._scales: list[float] = scales.tolist()
        self.n_atoms, widths = recipe.n_atoms, [d.shape[1] for d in dictionaries]
        # An atom is orthogonalised within its group, so no group can use more atoms than it has features.
        most = min([self.n_atoms, *(sum(widths[v] for v in group) for group in self.groups)])
        n_nonzero = rule.n_nonzero
        if n_nonzero is None:
            n_nonzero = most if rule.tol is not None else max(1, sum(widths) // 10)
        self.n_nonzero = min(n_nonzero, most)
        self.typical_nonzero = self.n_nonzero if rule.tol is None else min(self.n_nonzero, TYPICAL_NONZERO)
        self._unlimited = n_nonzero >= most
        self.tol, self.dtype = rule.tol, dtype
        self._kernel_tol = -1.0 if rule.tol is None else rule.tol / self._top_weight
        self._ols = rule.pursuit == "ols"
        fits = self.n_atoms**2 * dtype.itemsize <= GRAM_BUDGET_BYTES
        steps = self.typical_nonzero
        cached = steps * self.n_atoms * dtype.itemsize <= CACHED_BYTES
        saved = (steps - 1) * sum(widths) - (1 if cached else STREAMED_UPDATE) * steps**2 / 2  # by a sample, times K
        with_gram = fits and recipe.n_samples * saved > self.n_atoms * sum(widths)
        large = self.n_atoms * sum(widths) >= LARGE_DICTIONARY
        self.whole_blocks = rule.coupling == "code" and not with_gram and (large or not fits)
        self._recipe = recipe
        self._careful: list[_native.Plan] | None = None
        self._plans = self._make_plans(dtype)
        if with_gram:
            for plan in self._plans:
                _fill_gram(plan, n_jobs, cancel)
        orthogonalising = self.n_atoms * self.n_nonzero**2 * len(self.groups)
        correlating = self.n_atoms * sum(widths) * (1 if with_gram else self.n_nonzero)
        self.multiply_adds = float(orthogonalising + correlating)

    def encode_rows(self, views: list[Array], scratch: Scratch) -> ChunkCodes:
        """Code a chunk of samples by one call of a kernel, which releases the GIL and uses one thread."""
        codes = self._run(self._plans, views, scratch)
        doubtful = np.flatnonzero(scratch.status == _native.DOUBTFUL)
        if doubtful.size and not scratch.cancel.cancelled:
            chosen = [np.ascontiguousarray(view[doubtful], np.float64) for view in views]
            energy, status = np.empty(doubtful.size), np.empty(doubtful.size, np.uint8)
            again = self._run(
                self._careful_plans(), chosen, Scratch(scratch.workspace, scratch.cancel, energy, status), careful=True
            )
            scratch.energy[doubtful], scratch.status[doubtful] = energy, status
            codes = codes.filled(doubtful, again)
        with np.errstate(over="ignore"):  # an energy that overflows is infinite, and thus above any tol
            np.multiply(scratch.energy, self._top_weight, out=scratch.energy)
        return codes

    def _run(
        self, plans: Sequence[_native.Plan], views: list[Array], scratch: Scratch, *, careful: bool = False
    ) -> ChunkCodes:
        n = views[0].shape[0]
        dtype = np.dtype(np.float64) if careful else self.dtype
        counts = np.empty(n, np.int32)
        indices = np.empty(n * self.n_nonzero, np.int32)
        values = [np.empty(n * self.n_nonzero, dtype) for _ in self.groups]
        common: Any = {
            "n_nonzero": self.n_nonzero,
            "tol": self._kernel_tol,
            "careful": careful,
            "narrow": self.dtype == np.float32,
            "workspace": scratch.workspace,
            "stop": scratch.cancel.flag,
            "counts": counts,
            "indices": indices,
            "energy": scratch.energy,
            "status": scratch.status,
        }
        if len(self.groups) == 1:
            written = plans[0].encode(
                views, self._scales, ols=self._ols, gram_free=self.whole_blocks, values=values[0], **common
            )
        else:
            written = type(plans[0]).encode_support(plans, views, self._scales, values=values, **common)
        return ChunkCodes(counts, indices[:written], [piece[:written] for piece in values])

    def _make_plans(self, dtype: np.dtype[Any]) -> list[_native.Plan]:
        make = _native.Plan32 if dtype == np.float32 else _native.Plan64
        scales = np.array(self._scales)
        plans = []
        for group in self.groups:
            atoms, norms = normalize_atoms([self._recipe.dictionaries[v] for v in group], scales[group], dtype)
            plans.append(make(atoms, norms, active_level()))
        return plans

    def _careful_plans(self) -> list[_native.Plan]:
        """Return the dictionaries in float64, made when the first sample needs them.

        There is no lock, which a forked process could inherit locked: two threads may both make them.
        """
        careful = self._careful
        if careful is None:
            careful = self._careful = self._make_plans(np.dtype(np.float64))
        return careful

    def count_unreached(self, coded: Coded) -> int:
        """Return how many samples ended above tol although they were allowed more atoms."""
        if self.tol is None:
            return 0
        ends = [_native.EXHAUSTED, _native.DEPENDENT, *([_native.LIMIT] if self._unlimited else [])]
        return int(np.count_nonzero(np.isin(coded.status, ends) & (coded.energy > self.tol)))


def _fill_gram(plan: _native.Plan32 | _native.Plan64, n_jobs: int, cancel: CancelToken | None) -> None:
    """Compute the Gram matrix of a plan, by blocks of rows."""
    plan.allocate_gram()
    chunks, short = cut(plan.n_atoms, plan.n_atoms * plan.n_features, n_jobs, whole_blocks=True)
    workspaces = Workspaces()

    def fill(chunk: tuple[int, int]) -> None:
        workspace = workspaces.lend()
        plan.fill_gram(*chunk, workspace)
        workspaces.take_back(workspace)

    for _ in in_order(fill, chunks, min(n_jobs, len(chunks)), CancelToken(cancel), take_part=short):
        pass


class LassoCoder(Coder):
    """The lasso over all views side by side, weighted, by scikit-learn's coordinate descent."""

    chunk_rows = 256  # matrix products of different shapes round differently, so the shape is fixed
    STEPS = 100  # a rough number of sweeps of coordinate descent; only the sizes of chunks depend on it
    MAX_SWEEPS = 20_000  # coherent atoms need many sweeps, and each is cheap

    def __init__(self, recipe: Recipe) -> None:
        if recipe.rule.alpha is None:
            raise ValueError("Expected a rule with a penalty alpha for the lasso, got none.")
        self._alpha = recipe.rule.alpha
        self._scales = np.sqrt(recipe.weights)
        pairs = zip(recipe.dictionaries, self._scales, strict=True)
        self._atoms = np.hstack([np.asarray(d, np.float64) * scale for d, scale in pairs])
        self.n_atoms, self.dtype = recipe.n_atoms, recipe.dtype
        self.groups = [list(range(len(recipe.dictionaries)))]
        self.n_nonzero, self.typical_nonzero = self.n_atoms, min(self.n_atoms, TYPICAL_NONZERO)
        self.multiply_adds = float(self._atoms.size + self.STEPS * self.n_atoms**2)

    def encode_rows(self, views: list[Array], scratch: Scratch) -> ChunkCodes:
        """Code a chunk of samples."""
        from sklearn.decomposition import sparse_encode  # slow to import, and rarely needed

        pairs = zip(views, self._scales, strict=True)
        joint = np.hstack([np.asarray(view, np.float64) * scale for view, scale in pairs])
        finite = np.isfinite(joint).all(axis=1)
        scratch.status[:] = np.where(finite, _native.LIMIT, _native.NOT_FINITE)
        if not finite.all():
            joint[~finite] = 0
        codes = np.zeros((len(joint), self.n_atoms))
        if len(joint):
            codes = sparse_encode(
                joint, self._atoms, algorithm="lasso_cd", alpha=self._alpha, max_iter=self.MAX_SWEEPS
            ).astype(self.dtype)
        residual = joint - codes @ self._atoms
        scratch.energy[:] = np.einsum("ij,ij->i", residual, residual)
        rows, indices = np.nonzero(codes)
        counts = np.bincount(rows, minlength=len(joint)).astype(np.int32)
        return ChunkCodes(counts, indices.astype(np.int32), [codes[rows, indices]])


@dataclass(frozen=True)
class Recipe:
    """What a :class:`Coder` is made from: plain data, which can be sent to the worker that has the samples.

    Attributes
    ----------
    dictionaries : list of arrays (n_components, n_features_v)
        One for each view that will be coded.
    weights : array of shape (n_views,)
        Not negative, and at least one positive.
    dtype : float32 or float64
        Number type of the samples and the codes.
    rule : CodingRule
    n_samples : int
        About how many samples will be coded; for a few, computing the Gram matrix would not pay.
    """

    dictionaries: list[Array]
    weights: Floats
    dtype: np.dtype[Any]
    rule: CodingRule
    n_samples: int

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return int(self.dictionaries[0].shape[0])

    @property
    def n_groups(self) -> int:
        """Number of groups of views that share their coefficients."""
        return 1 if self.rule.coupling == "code" else len(self.dictionaries)

    def coder(self, n_jobs: int, cancel: CancelToken | None = None) -> Coder:
        """Return the coder; its preparation uses `n_jobs` threads."""
        return LassoCoder(self) if self.rule.pursuit == "lasso" else GreedyCoder(self, n_jobs, cancel)


def warn_if_unreached(count: int, n_samples: int, tol: float | None, *, stacklevel: int = 3) -> None:
    """Warn once if `count` samples ended above tol although they were allowed more atoms."""
    if count:
        warnings.warn(
            f"{count} of {n_samples} samples did not reach tol={tol}: what is left of them is, up to"
            " rounding, orthogonal to every atom. Use a larger tol or a dictionary that spans the samples.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
