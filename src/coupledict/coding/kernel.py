"""Coding by the kernels: OMP, OLS, simultaneous OMP and the lasso, with coefficients of both signs or of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..foundation.arrays import Array, Floats
from ..foundation.block_sizes import SIZES
from ..kernels import _native
from ..kernels.instruction_sets import active_level
from ..parallel.cancel import CancelToken
from ..parallel.jobs import split_chunks
from ..parallel.ordered import in_order
from .coder import TYPICAL_NONZERO, Coder, Scratch, Workspaces
from .joint_atoms import normalize_atoms
from .recipe import Recipe
from .results import ChunkCodes, Coded

# With the Gram matrix, a step updates K numbers for each atom chosen before it. Where those of a sample exceed the
# caches, an update takes as long as this many multiply-adds of a matrix product.
STREAMED_UPDATE, CACHED_BYTES = 8, 1 << 18
LARGE_DICTIONARY = 1 << 20  # K times features; without a Gram matrix, samples then share matrix products


class KernelCoder(Coder):
    """OMP, OLS, simultaneous OMP and the lasso by the kernels; made by :func:`coupledict.coding.coders.make_coder`.

    The Gram matrix is computed where that saves time: not for a few samples, not for one atom per sample, and not where
    it would take more than `SIZES.gram_bytes`. Without it, each step of a sample takes a product of the dictionary with
    one vector; over large dictionaries, samples take their steps together, by matrix products.

    Samples for which rounding errors would matter are coded in float64 by a careful method, and samples whose lasso
    codes have more nonzeros than there is room for are coded again with more room. Both happen in the kernels
    (``src/native/plan.h``) and depend on the sample and the dictionaries alone.

    With `masked`, NaN stands for a missing entry, and each sample is coded as if it had its known entries alone.
    """

    def __init__(self, recipe: Recipe, n_jobs: int, cancel: CancelToken | None = None, *, masked: bool = False) -> None:
        dictionaries, rule, dtype = recipe.dictionaries, recipe.rule, recipe.dtype
        views = list(range(len(dictionaries)))
        self.groups = [views] if rule.coupling == "code" else [[v] for v in views]
        # Only the ratios of the weights matter to the codes; with a largest weight of 1, no product overflows.
        self._top_weight = float(recipe.weights.max())
        scales = np.sqrt(recipe.weights / self._top_weight)
        self.scales: list[float] = scales.tolist()
        self.n_atoms = recipe.n_atoms
        self.n_nonzero = recipe.n_nonzero
        self.tol = rule.tol
        self.dtype = dtype
        self.positive = rule.positive
        self._alpha = rule.alpha
        unlimited = rule.tol is not None or rule.pursuit == "lasso"
        self.typical_nonzero = min(self.n_nonzero, TYPICAL_NONZERO) if unlimited else self.n_nonzero
        self._reaches_most = self.n_nonzero == recipe.most_nonzero
        n_features = sum(d.shape[1] for d in dictionaries)
        fits = self.n_atoms**2 * dtype.itemsize <= SIZES.gram_bytes
        with_gram = fits and (gram_pays(recipe, self.typical_nonzero) if recipe.gram is None else recipe.gram)
        large = self.n_atoms * n_features >= LARGE_DICTIONARY
        together = rule.coupling == "code" and rule.pursuit != "lasso" and not rule.positive
        self.whole_blocks = together and not with_gram and (large or not fits)
        self._settings = _native.Settings(
            n_nonzero=self.n_nonzero,
            room=min(self.n_nonzero, SIZES.lasso_room) if rule.pursuit == "lasso" else self.n_nonzero,
            tol=-1.0 if rule.tol is None else rule.tol / self._top_weight,
            pursuit=rule.pursuit,
            alpha=0.0 if rule.alpha is None else rule.alpha / self._top_weight,
            positive=rule.positive,
            method="gram_free" if self.whole_blocks else "gram",
        )
        make_plan = _native.Plan32 if dtype == np.float32 else _native.Plan64
        # The plan keeps this function, which makes the dictionaries in float64; it must not refer to this object, which
        # holds the plan.
        normalized = partial(_normalize_groups, dictionaries, scales, self.groups)
        self._plan = make_plan(
            normalized(dtype), self.scales, active_level(), masked, partial(normalized, np.dtype(np.float64))
        )
        if with_gram:
            group_widths = [sum(dictionaries[v].shape[1] for v in group) for group in self.groups]
            _fill_gram(self._plan, group_widths, self.n_atoms, n_jobs, cancel)
        steps = min(self.n_nonzero, 2 * self.typical_nonzero)  # without a limit, some samples take many
        orthogonalising = self.n_atoms * steps**2 * len(self.groups)
        correlating = self.n_atoms * n_features * (1 if with_gram else steps)
        self.multiply_adds = float(orthogonalising + correlating)

    def encode_rows(self, views: list[Array], scratch: Scratch) -> ChunkCodes:
        """Code a chunk of samples by one call of the kernels, which releases the GIL and uses one thread."""
        codes = self._plan.encode(
            views, self._settings, scratch.workspace, scratch.cancel.flag, scratch.energy, scratch.status
        )
        with np.errstate(over="ignore"):  # an energy that overflows is infinite, and therefore above any tol
            np.multiply(scratch.energy, self._top_weight, out=scratch.energy)
        return ChunkCodes(*codes)

    def penalty_of(self, codes: ChunkCodes) -> float:
        """Return twice alpha times the sum of the absolute coefficients."""
        if self._alpha is None:
            return 0.0
        return 2 * self._alpha * float(np.abs(codes.values[0]).sum(dtype=np.float64))

    def count_unreached(self, coded: Coded) -> int:
        """Return how many samples ended above tol although they were allowed more atoms."""
        if self.tol is None:
            return 0
        ends = [_native.EXHAUSTED, _native.DEPENDENT, *([_native.LIMIT] if self._reaches_most else [])]
        return int(np.count_nonzero(np.isin(coded.status, ends) & (coded.energy > self.tol)))


def gram_pays(recipe: Recipe, steps: int) -> bool:
    """Return whether the Gram matrix takes less time than it saves, for samples of `steps` nonzeros."""
    width = sum(d.shape[1] for d in recipe.dictionaries)
    cached = steps * recipe.n_atoms * recipe.dtype.itemsize <= CACHED_BYTES
    saved = (steps - 1) * width - (1 if cached else STREAMED_UPDATE) * steps**2 / 2  # by a sample, times K
    return bool(recipe.n_samples * saved > recipe.n_atoms * width)


def _normalize_groups(
    dictionaries: Sequence[Array], scales: Floats, groups: Sequence[list[int]], dtype: np.dtype[Any]
) -> list[tuple[Array, Floats]]:
    """Return the joint atoms of each group of views, and their norms."""
    return [normalize_atoms([dictionaries[v] for v in group], scales[group], dtype) for group in groups]


def _fill_gram(
    plan: _native.Plan, widths: Sequence[int], n_atoms: int, n_jobs: int, cancel: CancelToken | None
) -> None:
    """Compute the Gram matrix of each dictionary of a plan, by blocks of rows."""
    plan.allocate_gram()
    workspaces = Workspaces()
    for dictionary, width in enumerate(widths):
        chunks, short = split_chunks(n_atoms, n_atoms * width, n_jobs, whole_blocks=True)

        def fill(chunk: tuple[int, int], dictionary: int = dictionary) -> None:
            workspace = workspaces.lend()
            plan.fill_gram(dictionary, *chunk, workspace)
            workspaces.take_back(workspace)

        for _ in in_order(fill, chunks, min(n_jobs, len(chunks)), CancelToken(cancel), take_part=short):
            pass
