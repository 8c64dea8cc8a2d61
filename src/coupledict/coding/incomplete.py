"""Coding of samples with missing entries: each as if it had its known entries alone.

NaN stands for a missing entry, and a row of NaN in a view for an absent view. Samples that have the same views, all of
them complete, share a coder with a Gram matrix. A sample that lacks single entries would need a Gram matrix of its own,
so such samples are coded by the kernel for masked signals, which needs none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..kernels import _native
from .coder import Filler, Scratch
from .kernel import KernelCoder, gram_pays
from .recipe import Recipe
from .results import ChunkCodes

MAX_VIEWS = 16  # with more views, there are too many sets of them to give each a coder


class IncompleteCoder(KernelCoder):
    """OMP, OLS and the lasso over the known entries of each sample.

    How a sample is coded depends on the sample and the recipe alone, not on the other samples of its chunk.
    """

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe, 1, masked=True)
        self.filler = Filler(recipe.dictionaries, recipe.dtype)
        # If n_nonzero is left out, it is a tenth of all features, even for samples with fewer known entries.
        n_nonzero = None if recipe.rule.pursuit == "lasso" else self.n_nonzero
        self._recipe = replace(recipe, missing=False, rule=replace(recipe.rule, n_nonzero=n_nonzero))
        self._coders: dict[tuple[int, ...], KernelCoder] = {}

    def encode_rows(self, views: list[Array], scratch: Scratch) -> ChunkCodes:
        """Code a chunk of samples."""
        codes = self._encode_parts(views, scratch)
        for view, scale in zip(views, self.scales, strict=True):
            if scale == 0:  # the kernel multiplies by it, and infinity times 0 would be taken for a missing entry
                scratch.status[np.isinf(view).any(axis=1)] = _native.NOT_FINITE
        return codes

    def _encode_parts(self, views: list[Array], scratch: Scratch) -> ChunkCodes:
        n = views[0].shape[0]
        codes = ChunkCodes(np.zeros(n, np.int32), np.empty(0, np.int32), [np.empty(0, self.dtype)])
        for present, rows in self._parts(views):
            encode = super().encode_rows if present is None else self._coder_of(present).encode_rows
            chosen = list(range(len(views))) if present is None else present
            if rows.size == n:
                return encode([views[v] for v in chosen], scratch)
            own = scratch.for_rows(rows.size)
            part = encode([views[v][rows] for v in chosen], own)
            scratch.energy[rows] = own.energy
            scratch.status[rows] = own.status
            codes = codes.filled(rows, part)
        return codes

    def _parts(self, views: list[Array]) -> Iterator[tuple[tuple[int, ...] | None, npt.NDArray[np.int64]]]:
        """Yield sets of views, each with the samples that have exactly these, complete; then None with all others."""
        n_missing = np.stack([np.count_nonzero(np.isnan(view), axis=1) for view in views])
        widths = np.array([view.shape[1] for view in views])[:, None]
        absent = n_missing == widths
        others = np.any((n_missing > 0) & ~absent, axis=0) | absent.all(axis=0)
        if len(views) > MAX_VIEWS:
            others |= absent.any(axis=0)
        patterns = (1 << np.arange(min(len(views), MAX_VIEWS))) @ absent[:MAX_VIEWS]
        for pattern in np.unique(patterns[~others]).tolist():
            present = tuple(v for v in range(len(views)) if v >= MAX_VIEWS or not pattern >> v & 1)
            rows = np.flatnonzero(~others & (patterns == pattern))
            if self._pays(present):
                yield present, rows
            else:
                others[rows] = True
        if others.any():
            yield None, np.flatnonzero(others)

    def _pays(self, present: tuple[int, ...]) -> bool:
        """Return whether a coder of their own pays for samples of these views.

        There may be as many sets of views as there are subsets, and samples are assumed to be spread evenly over them.
        """
        n_views = len(self._recipe.dictionaries)
        if len(present) == n_views:
            return True
        n_patterns = 2**n_views - 1
        if n_patterns * self.n_atoms**2 * self.dtype.itemsize > SIZES.gram_bytes:
            return False
        part = self._part(present, self._recipe.n_samples // n_patterns)
        return bool(part.weights.any()) and gram_pays(part, self.typical_nonzero)

    def _part(self, present: tuple[int, ...], n_samples: int) -> Recipe:
        chosen = [self._recipe.dictionaries[v] for v in present]
        return replace(
            self._recipe, dictionaries=chosen, weights=self._recipe.weights[list(present)], n_samples=n_samples
        )

    def _coder_of(self, present: tuple[int, ...]) -> KernelCoder:
        """Return the coder of a set of views; it is made when the first sample needs it.

        There is no lock, because a forked process could inherit it locked; instead, two threads may both make a coder.
        """
        coder = self._coders.get(present)
        if coder is None:
            coder = self._coders[present] = KernelCoder(self._part(present, self._recipe.n_samples), 1)
        return coder
