"""How atoms change after the samples are coded: updates, rules for unused atoms, and running sums over batches.

The updates are the paper's sequential one, statistics, exact K-SVD and MOD. Updates with ``needs_codes`` use the codes
and residuals of all samples, which must be in memory. For the others, the sums A = C^T C and B = C^T X are enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from ..coding.results import PassSums, Sums
from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..foundation.choices import UpdateName
from ..kernels import _native
from ..kernels.instruction_sets import active_level
from ..parallel.blas import one_blas_thread
from .atoms import AtomGroup, solve_factored

ATOMS_PER_CALL = 32  # a kernel returns to Python after this many atoms, so that an interrupt is noticed,
PRODUCTS_PER_CALL = 1e8  # or after about this many products, if that is sooner


def _blocks(n_atoms: int, products: float) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of atoms, one run per call of a kernel; `products` is the cost of one atom."""
    step = int(np.clip(PRODUCTS_PER_CALL / max(products, 1), 1, ATOMS_PER_CALL))
    for first in range(0, n_atoms, step):
        yield first, min(first + step, n_atoms)


class Update(ABC):
    """One way to change the atoms of a group of views.

    Attributes
    ----------
    name : str
    needs_codes : bool
        Whether it uses the codes and residuals of all samples.
    keeps_atoms_positive, keeps_codes_positive : bool
        Whether it can keep atoms and coefficients from becoming negative; if it should but cannot, it is refused.
    """

    name: ClassVar[str]
    needs_codes: ClassVar[bool]
    keeps_atoms_positive: ClassVar[bool] = False
    keeps_codes_positive: ClassVar[bool] = True


class SumUpdate(Update):
    """An update from sums over the codes."""

    needs_codes = False

    @abstractmethod
    def apply(self, group: AtomGroup, sums: Sums) -> None:
        """Change the atoms of the group."""


class CodeUpdate(Update):
    """An update from the codes and residuals of all samples."""

    needs_codes = True

    @abstractmethod
    def apply(
        self, group: AtomGroup, codes: csr_array, residual: Array, *, mean_unused: bool, positive_code: bool = False
    ) -> csr_array:
        """Change the atoms of the group and the residual; return the changed codes.

        `residual` is X - C D of all views of the group side by side. With `mean_unused`, an atom that no sample uses
        becomes the mean residual (the paper's rule). With `positive_code`, coefficients do not become negative.
        """


class Statistics(SumUpdate):
    """With fixed codes, atom by atom: ``d_t <- B[t] - A[t] D + A[t, t] d_t``, normalised.

    Of all atoms of that norm, it is the best one for these codes; in a non-negative view, its positive part is.
    """

    name = "statistics"
    keeps_atoms_positive = True

    def apply(self, group: AtomGroup, sums: Sums) -> None:
        """Sweep over the atoms."""
        level = active_level()
        for first, last in _blocks(group.atoms.shape[0], group.atoms.size):
            _native.sweep(*group.layout, first, last, sums.a, sums.b, group.atoms, level)


class Mod(SumUpdate):
    """The method of optimal directions: least squares for all atoms at once, D = A^-1 B, then normalised."""

    name = "mod"

    def apply(self, group: AtomGroup, sums: Sums) -> None:
        """Solve for the atoms that are used and not fixed."""
        free = np.flatnonzero(np.diag(sums.a) > 0)
        free = free[free >= group.n_fixed]
        if free.size == 0:
            return
        fixed = slice(0, group.n_fixed)
        right = sums.b[free] - sums.a[free, fixed] @ group.atoms[fixed]
        left = sums.a[np.ix_(free, free)]
        with one_blas_thread():
            solved = self._solve(left, right)
        rows = group.atoms[free].copy()
        # An atom that vanishes has no direction and stays as it was; one of joint norm may vanish in a view.
        groups_of_columns = [slice(None)] if group.joint else [group.columns(i) for i in range(len(group.views))]
        for columns in groups_of_columns:
            has_direction = np.any(solved[:, columns] != 0, axis=1)
            rows[has_direction, columns] = solved[has_direction, columns]
        group.replace(free, rows)

    @staticmethod
    def _solve(left: Array, right: Array) -> Array:
        # Scaled to a unit diagonal, because some atoms may be used far more often than others.
        scale = 1 / np.sqrt(np.diag(left))
        try:
            factor = scipy.linalg.cho_factor(left * np.outer(scale, scale))
            if np.min(np.diag(factor[0])) > 1e-6:
                return np.asarray(solve_factored(factor, right * scale[:, None]) * scale[:, None])
        except scipy.linalg.LinAlgError:
            pass
        return np.asarray(scipy.linalg.pinvh(left) @ right)


class Sequential(CodeUpdate):
    """The paper's update (eq. 12-15): one step of the power method for each atom; residuals are kept up to date.

    For one view this is approximate K-SVD. In non-negative views, the positive part of the new atom is the best one for
    the old coefficients, and the positive parts of the new coefficients are the best for this atom: no step increases
    the error.

    Attributes
    ----------
    frozen : bool
        Whether the codes stay as they are.
    """

    name = "sequential"
    keeps_atoms_positive = True
    frozen: ClassVar[bool] = False

    def apply(
        self, group: AtomGroup, codes: csr_array, residual: Array, *, mean_unused: bool, positive_code: bool = False
    ) -> csr_array:
        """Sweep over the atoms."""
        columns = codes.tocsc()
        values = np.ascontiguousarray(columns.data)
        atoms = group.atoms.astype(residual.dtype)
        starts, samples = columns.indptr.astype(np.int64), columns.indices.astype(np.int32, copy=False)
        level = active_level()
        for first, last in _blocks(atoms.shape[0], 4 * atoms.shape[1] * codes.nnz / atoms.shape[0]):
            _native.sequential(
                *group.layout,
                first,
                last,
                mean_unused,
                self.frozen,
                positive_code and not self.frozen,
                starts,
                samples,
                values,
                residual,
                atoms,
                level,
            )
        group.atoms[:] = atoms
        if self.frozen:
            return codes
        columns.data = values
        return columns.tocsr()


class StatisticsOfCodes(Sequential):
    """The statistics update from the codes and residuals of samples in memory, for dictionaries with too large sums.

    A = C^T C has as many entries as there are pairs of atoms; the codes have a few per sample. With frozen codes, the
    sequential update is this one.
    """

    name = "statistics"
    frozen = True


class Ksvd(CodeUpdate):
    """Exact K-SVD: each atom becomes the leading singular vector of the error without it, over all views, weighted."""

    name = "ksvd"
    keeps_codes_positive = False

    def apply(
        self, group: AtomGroup, codes: csr_array, residual: Array, *, mean_unused: bool, positive_code: bool = False
    ) -> csr_array:
        """Sweep over the atoms."""
        columns = codes.tocsc()
        values = columns.data
        weights = np.repeat(group.weights, np.diff(group.starts))
        atoms = group.atoms.astype(residual.dtype)
        with one_blas_thread():
            for t in range(group.n_fixed, atoms.shape[0]):
                users = slice(columns.indptr[t], columns.indptr[t + 1])
                samples = columns.indices[users]
                if samples.size == 0:
                    if mean_unused:
                        mean = residual.mean(axis=0, dtype=np.float64)
                        if mean.any():
                            rows = np.where(_nonzero_views(group, mean), mean, group.atoms[t])
                            group.replace(np.array([t]), rows[None])
                            atoms[t] = group.atoms[t]
                    continue
                error = residual[samples] + np.outer(values[users], atoms[t])
                scales = np.sqrt(weights).astype(error.dtype)
                direction = leading_direction(error * scales, atoms[t] * scales)
                # The least-squares atom for the best coefficients, also in views of weight 0.
                fresh = ((error * scales) @ direction) @ error.astype(np.float64)
                if not fresh.any():
                    continue
                rows = np.where(_nonzero_views(group, fresh), fresh, group.atoms[t])
                group.replace(np.array([t]), rows[None])
                atoms[t] = group.atoms[t]
                weighted = (weights * atoms[t]).astype(error.dtype)
                values[users] = error @ weighted / max(float(weighted @ atoms[t]), np.finfo(error.dtype).tiny)
                residual[samples] = error - np.outer(values[users], atoms[t])
        return columns.tocsr()


def _nonzero_views(group: AtomGroup, row: Array) -> npt.NDArray[np.bool_]:
    """Return for each column whether the row may replace the atom in its view: nonzero there, or norms are joint."""
    if group.joint:
        return np.ones(row.size, bool)
    sizes = np.diff(group.starts)
    alive = [bool(np.any(row[group.columns(i)] != 0)) for i in range(len(group.views))]
    return np.repeat(alive, sizes)


def leading_direction(error: Array, guess: Array) -> npt.NDArray[np.float64]:
    """Return the leading right singular vector of `error` in float64, with the sign of `guess`.

    Computed from the smaller of the two Gram matrices; one eigenvector is enough, so there is no full SVD.
    """
    tall = error.shape[0] >= error.shape[1]
    gram = (error.T @ error if tall else error @ error.T).astype(np.float64)
    size = gram.shape[0]
    if size > 200:  # Lanczos needs only a few products; the dense solver reduces the whole matrix
        begin = np.asarray(guess if tall else error @ guess, np.float64)
        vector = eigsh(gram, k=1, v0=begin if begin.any() else None, tol=1e-12)[1][:, 0]
    else:
        vector = scipy.linalg.eigh(gram, subset_by_index=[size - 1, size - 1], check_finite=False)[1][:, 0]
    direction = vector if tall else vector @ error
    sign = 1.0 if float(direction @ guess) >= 0 else -1.0
    return np.asarray(sign * direction, np.float64)


UPDATES: dict[str, type[Update]] = {cls.name: cls for cls in (Statistics, Sequential, Ksvd, Mod)}


def make_update(name: UpdateName, n_atoms: int, *, all_held: bool) -> Update:
    """Return an update of this many atoms; if sums are large, in the form that needs less memory."""
    if name == "statistics" and all_held and 8 * n_atoms**2 > SIZES.sums_bytes:
        return StatisticsOfCodes()
    return UPDATES[name]()


@dataclass(frozen=True)
class UnusedRule:
    """When atoms that no sample uses are replaced, and by what.

    With the linear schedule and the cosine start, more than half of the atoms are unused in the first iteration, so the
    rule matters there. The paper replaces an unused atom by the mean residual at the moment the sweep reaches it:
    neighbouring unused atoms are equal for a while, but diverge, and all atoms are used in the end. The worst
    represented samples, from the first iteration on, are the worst choice. With the default settings hardly any atom is
    ever unused, and the rules do equally well (benchmarks/unused_atoms.py).

    Attributes
    ----------
    name : str
    mean : bool
        Whether the update replaces them by the mean residual; only updates from codes have residuals.
    applies : callable (iteration, n_iter) -> bool
        Whether the worst represented samples replace them in an iteration.
    """

    name: str
    mean: bool = False
    applies: Callable[[int, int], bool] = lambda iteration, n_iter: False


UNUSED_RULES = {
    rule.name: rule
    for rule in (
        UnusedRule("keep"),
        UnusedRule("mean", mean=True),
        UnusedRule("worst", applies=lambda iteration, n_iter: iteration < n_iter - 1),
        UnusedRule("late", applies=lambda iteration, n_iter: n_iter // 2 <= iteration < n_iter - 1),
    )
}


#: How fast the sums of earlier batches decay: the higher, the faster. Lasso codes change gradually with the atoms, so
#: that sums over few batches are stable, and recent ones are worth more.
DECAY, LASSO_DECAY = 2, 8


@dataclass(frozen=True)
class RunningSums:
    """What a learner keeps between two batches: running sums over their codes, and the atoms that follow from them.

    Attributes
    ----------
    groups : list of AtomGroup
        The atoms, in float64; the estimator shows them in the dtype of its samples.
    scale : float
        Power of two that samples are multiplied by.
    n_batches : int
    sums : list of Sums
        One for each group; none before the first batch.
    """

    groups: list[AtomGroup]
    scale: float = 1.0
    n_batches: int = 0
    sums: list[Sums] = field(default_factory=list)

    def absorb(self, found: PassSums, forgetting: float, decay: float = DECAY) -> RunningSums:
        """Return the state after one more batch: older sums decay, the new ones are added, and the atoms are updated.

        Earlier batches were coded with worse dictionaries, so in batch t their sums are multiplied by
        ``(1 - 1 / t) ** decay`` (the forgetting of Mairal et al., 2010, whose exponent is `decay`), and by
        ``1 - forgetting``. This object does not change, so that it is still valid after an interrupt.
        """
        found.check_finite()
        groups = [replace(group, atoms=group.atoms.copy()) for group in self.groups]
        fresh = [found.estimate_complete(g, group.atoms) for g, group in enumerate(groups)]
        n_batches = self.n_batches + 1
        keep = (1 - 1 / n_batches) ** decay * (1 - forgetting)
        sums = fresh
        if self.sums:
            pairs = zip(self.sums, fresh, strict=True)
            sums = [Sums(keep * old.a + new.a, keep * old.b + new.b) for old, new in pairs]
        update = Statistics()
        for group, own in zip(groups, sums, strict=True):
            update.apply(group, own)
        return RunningSums(groups, self.scale, n_batches, sums)
