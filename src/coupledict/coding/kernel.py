"""Coding by the kernels: OMP, OLS, simultaneous OMP and the lasso, with coefficients of both signs or of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..kernels import _native
from ..kernels.instruction_sets import active_level
from ..parallel.cancel import CancelToken
from ..parallel.jobs import cut
from ..parallel.ordered import in_order
from .coder import TYPICAL_NONZERO, Coder, Scratch, Workspaces
from .joint_atoms import normalize_atoms
from .recipe import Recipe
from .results import ChunkCodes, Coded

# With the Gram matrix, a step updates K numbers for each atom before it. Where those of a sample leave the caches, an
# update takes as long as this many multiply-adds of a matrix product.
STREAMED_UPDATE, CACHED_BYTES = 8, 1 << 18
ROOM_GROWTH = 4  # of the nonzeros that there is room for, for the lasso
LARGE_DICTIONARY = 1 << 20  # K times features; without a Gram matrix, samples then share matrix products


class KernelCoder(Coder):
    """OMP, OLS, simultaneous OMP and the lasso by the kernels; made by :func:`coupledict.coding.making.make_coder`.

    The Gram matrix is computed where that saves time: not for a few samples, not for one atom per sample, and not where
    it would take more than `SIZES.gram_bytes`. Without it, each step of a sample takes a product of the dictionary with
    one vector; over large dictionaries, samples take their steps together, by matrix products.

    A sample is coded fast first. If atoms are so close to dependent that rounding errors matter, the kernel leaves
    it in doubt, and it is coded again in float64 by a careful method. Whether that happens depends on the sample and
    the dictionaries alone.

    The lasso has no limit on the number of nonzeros, but outputs and scratch memory have one. A sample that needs more
    room than there is, is coded again with more; that does not change its code.

    With `masked`, NaN stands for a missing entry, and each sample is coded as if it had its known entries alone.
    """

    def __init__(self, recipe: Recipe, n_jobs: int, cancel: CancelToken | None = None, *, masked: bool = False) -> None:
        dictionaries, rule, dtype = recipe.dictionaries, recipe.rule, recipe.dtype
        self._masked = masked
        views = list(range(len(dictionaries)))
        self.groups = [views] if rule.coupling == "code" else [[v] for v in views]
        # Only the ratios of the weights matter to the codes; with a largest weight of 1, no product overflows.
        self._top_weight = float(recipe.weights.max())
        scales = np.sqrt(recipe.weights / self._top_weight)
        self.scales: list[float] = scales.tolist()
        self.n_atoms, widths = recipe.n_atoms, [d.shape[1] for d in dictionaries]
        # An atom is orthogonalised within its group, so no group can use more atoms than it has features.
        most = min([self.n_atoms, *(sum(widths[v] for v in group) for group in self.groups)])
        n_nonzero, unlimited = rule.n_nonzero, rule.tol is not None or rule.pursuit == "lasso"
        if n_nonzero is None:
            n_nonzero = most if unlimited else max(1, sum(widths) // 10)
        self.n_nonzero = min(n_nonzero, most)
        self.typical_nonzero = min(self.n_nonzero, TYPICAL_NONZERO) if unlimited else self.n_nonzero
        self._room = min(self.n_nonzero, SIZES.lasso_room) if rule.pursuit == "lasso" else self.n_nonzero
        self._unlimited = n_nonzero >= most
        self.tol, self.dtype, self.positive = rule.tol, dtype, rule.positive
        self._kernel_tol = -1.0 if rule.tol is None else rule.tol / self._top_weight
        self._kernel_alpha = 0.0 if rule.alpha is None else rule.alpha / self._top_weight
        fits = self.n_atoms**2 * dtype.itemsize <= SIZES.gram_bytes
        with_gram = fits and (gram_pays(recipe, self.typical_nonzero) if recipe.gram is None else recipe.gram)
        large = self.n_atoms * sum(widths) >= LARGE_DICTIONARY
        together = rule.coupling == "code" and rule.pursuit != "lasso" and not rule.positive
        self.whole_blocks = together and not with_gram and (large or not fits)
        self._recipe = recipe
        self._careful: list[_native.Plan] | None = None
        self._plans = self._make_plans(dtype)
        if with_gram:
            for plan in self._plans:
                _fill_gram(plan, n_jobs, cancel)
        steps = min(self.n_nonzero, 2 * self.typical_nonzero)  # where the number is open, some samples take many
        orthogonalising = self.n_atoms * steps**2 * len(self.groups)
        correlating = self.n_atoms * sum(widths) * (1 if with_gram else steps)
        self.multiply_adds = float(orthogonalising + correlating)

    def encode_rows(self, views: list[Array], scratch: Scratch) -> ChunkCodes:
        """Code a chunk of samples by one call of a kernel, which releases the GIL and uses one thread."""
        codes = self._run(self._plans, views, scratch, self._room)
        codes = self._with_room(codes, views, scratch, careful=False)
        doubtful = np.flatnonzero(scratch.status == _native.DOUBTFUL)
        if doubtful.size and not scratch.cancel.cancelled:
            codes = self._run_again(doubtful, codes, views, scratch, self._room, careful=True)
            codes = self._with_room(codes, views, scratch, careful=True)
        with np.errstate(over="ignore"):  # an energy that overflows is infinite, and thus above any tol
            np.multiply(scratch.energy, self._top_weight, out=scratch.energy)
        return codes

    def _with_room(self, codes: ChunkCodes, views: list[Array], scratch: Scratch, *, careful: bool) -> ChunkCodes:
        """Return the codes with those of samples that there was no room for."""
        room = self._room
        while not scratch.cancel.cancelled and (rows := np.flatnonzero(scratch.status == _native.FULL)).size:
            room = min(room * ROOM_GROWTH, self.n_nonzero)
            codes = self._run_again(rows, codes, views, scratch, room, careful=careful)
        return codes

    def _run_again(
        self,
        rows: npt.NDArray[np.int64],
        codes: ChunkCodes,
        views: list[Array],
        scratch: Scratch,
        room: int,
        *,
        careful: bool,
    ) -> ChunkCodes:
        """Return the codes with those of some samples, which have none yet."""
        dtype = np.dtype(np.float64) if careful else self.dtype
        chosen = [np.ascontiguousarray(view[rows], dtype) for view in views]
        own = Scratch(scratch.workspace, scratch.cancel, np.empty(rows.size), np.empty(rows.size, np.uint8))
        again = self._run(self._careful_plans() if careful else self._plans, chosen, own, room, careful=careful)
        scratch.energy[rows], scratch.status[rows] = own.energy, own.status
        return codes.filled(rows, again)

    def _run(
        self,
        plans: Sequence[_native.Plan],
        views: list[Array],
        scratch: Scratch,
        room: int,
        *,
        careful: bool = False,
    ) -> ChunkCodes:
        n = views[0].shape[0]
        dtype = np.dtype(np.float64) if careful else self.dtype
        counts = np.empty(n, np.int32)
        indices = np.empty(n * room, np.int32)
        values = [np.empty(n * room, dtype) for _ in self.groups]
        rule = self._recipe.rule
        common: Any = {
            "n_nonzero": room,
            "tol": self._kernel_tol,
            "positive": rule.positive,
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
                views,
                self.scales,
                pursuit=rule.pursuit,
                alpha=self._kernel_alpha,
                gram_free=self.whole_blocks,
                masked=self._masked,
                values=values[0],
                **common,
            )
        else:
            written = type(plans[0]).encode_support(plans, views, self.scales, values=values, **common)
        return ChunkCodes(counts, indices[:written], [piece[:written] for piece in values])

    def _make_plans(self, dtype: np.dtype[Any]) -> list[_native.Plan]:
        make = _native.Plan32 if dtype == np.float32 else _native.Plan64
        scales = np.array(self.scales)
        plans = []
        for group in self.groups:
            atoms, norms = normalize_atoms([self._recipe.dictionaries[v] for v in group], scales[group], dtype)
            plans.append(make(atoms, norms, active_level()))
            if self._masked:
                plans[-1].prepare_masks(atoms)
        return plans

    def _careful_plans(self) -> list[_native.Plan]:
        """Return the dictionaries in float64, made when the first sample needs them.

        There is no lock, which a forked process could inherit locked: two threads may both make them.
        """
        careful = self._careful
        if careful is None:
            careful = self._careful = self._make_plans(np.dtype(np.float64))
        return careful

    def penalty_of(self, codes: ChunkCodes) -> float:
        """Return twice alpha times the sum of the absolute coefficients."""
        alpha = self._recipe.rule.alpha
        return 0.0 if alpha is None else 2 * alpha * float(np.abs(codes.values[0]).sum(dtype=np.float64))

    def count_unreached(self, coded: Coded) -> int:
        """Return how many samples ended above tol although they were allowed more atoms."""
        if self.tol is None:
            return 0
        ends = [_native.EXHAUSTED, _native.DEPENDENT, *([_native.LIMIT] if self._unlimited else [])]
        return int(np.count_nonzero(np.isin(coded.status, ends) & (coded.energy > self.tol)))


def gram_pays(recipe: Recipe, steps: int) -> bool:
    """Return whether the Gram matrix takes less time than it saves, for samples of `steps` nonzeros."""
    width = sum(d.shape[1] for d in recipe.dictionaries)
    cached = steps * recipe.n_atoms * recipe.dtype.itemsize <= CACHED_BYTES
    saved = (steps - 1) * width - (1 if cached else STREAMED_UPDATE) * steps**2 / 2  # by a sample, times K
    return bool(recipe.n_samples * saved > recipe.n_atoms * width)


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
