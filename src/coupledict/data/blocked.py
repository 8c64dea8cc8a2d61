"""Samples in blocks: one thread reads and processes each block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array, vstack

from ..coding.coder import Shortfall
from ..coding.making import make_coder
from ..coding.recipe import Recipe
from ..coding.results import PassSums
from ..coding.samples import Piece
from ..files.codes import CodeFile, code_writer, open_codes
from ..foundation.arrays import Array, Floats, multiply
from ..parallel.cancel import CancelToken
from ..parallel.jobs import Threads
from ..parallel.ordered import in_order
from .block_work import (
    EVERYTHING,
    Largest,
    Wanted,
    block_codes,
    block_draw,
    block_energies,
    block_largest,
    block_sums,
    count_gaps,
    mean_energies,
)
from .blocks import Blocks, Loaded
from .interface import Data, Decode, Portion
from .moments import Fill, MomentSums
from .order import Order
from .pieces import mix_drawn, plan_draw, spread
from .tree import TreeSum

Result = TypeVar("Result")


class Blocked(Data):
    """Samples in blocks; one thread reads and processes each block."""

    all_held = False

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.n_samples = blocks.n_samples
        self.present, self.n_views = blocks.present, blocks.n_views
        self.widths, self.dtype = blocks.widths, blocks.dtype
        self.view_names, self.missing = blocks.view_names, blocks.missing

    def allow_missing(self, *, all_nan: bool) -> None:
        """Take NaN for missing entries: all of it, or only where the samples say so themselves."""
        super().allow_missing(all_nan=all_nan)
        self.blocks.only_marked = self.missing and not all_nan

    def largest_of_views(self, threads: Threads) -> Floats:
        """Return the largest absolute value of each view; reads all blocks unless it is known already."""
        if self.blocks.largest is None:
            tree = TreeSum()
            tree.add(Largest(np.zeros(len(self.widths))))
            for found in self._each(lambda piece, views, inner: block_largest(views), self._filled(None), threads):
                tree.add(found)
            self.blocks.largest = tree.total().values
        return self.blocks.largest

    def mean_energies(self, threads: Threads) -> list[float]:
        """Return the mean squared norm of the samples of each view; reads all blocks."""
        tree = TreeSum()

        def work(piece: Piece, views: list[Array], inner: Threads) -> Floats:
            return block_energies(views, piece, self.names, missing=self.missing)

        for energies in self._each(work, self._filled(None), threads):
            tree.add(energies)
        return mean_energies(tree.total(), self.widths)

    def gaps(self, threads: Threads) -> tuple[int, int]:
        """Return how many samples have missing entries, and how many of these lack a whole view; reads all blocks."""
        total = np.zeros(2, np.int64)
        for found in self._each(lambda piece, views, inner: count_gaps(views), self._filled(None), threads):
            total += found
        incomplete, lacking = total.tolist()
        return incomplete, lacking

    def moments(self, portion: Portion | None, threads: Threads, fill: Fill | None = None) -> MomentSums:
        """Return sums over pairs of features; reads the blocks of the portion."""
        tree = TreeSum()
        tree.add(MomentSums.over([np.empty((0, width)) for width in self.widths]))
        pieces = self._filled(portion)
        for found in self._each(lambda piece, views, inner: MomentSums.over(views, fill), pieces, threads):
            tree.add(found)
        total: MomentSums = tree.total()
        return total

    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return random samples from some of the blocks."""
        pieces, share, seed = plan_draw(self.blocks.sizes, count, rng)
        drawn = self._each(lambda piece, views, inner: block_draw(views, piece, share, seed), pieces, Threads())
        return mix_drawn(list(drawn), count, rng)

    def order(self, rng: np.random.Generator) -> Order:
        """Draw a random order of the blocks."""
        return Order.random(len(self.blocks.sizes), rng)

    def take(self, order: Order, place: int, size: int) -> tuple[list[Piece], int]:
        """Return pieces of blocks; see :func:`spread`."""
        return spread(self.blocks.sizes, order, place, size)

    def sum_codes(
        self, recipe: Recipe, portion: Portion | None, threads: Threads, wanted: Wanted = EVERYTHING
    ) -> PassSums:
        """Run a pass: each thread reads a block, codes it, and returns its sums."""
        coder = make_coder(recipe, threads.count, threads.cancel)

        def work(piece: Piece, views: list[Array], inner: Threads) -> PassSums:
            return block_sums(coder, views, piece, recipe.dtype, inner, wanted, self.names)

        pieces = self._filled(portion)
        if not pieces:
            return work(Piece(0, 0, 0), [np.empty((0, width), self.dtype) for width in self.widths], Threads())
        tree = TreeSum()
        for found in self._each(work, pieces, threads):
            tree.add(found)
        total: PassSums = tree.total()
        return total

    def codes(self, recipe: Recipe, sources: Sequence[int], threads: Threads) -> list[csr_array]:
        """Return the codes, which must fit in memory."""
        parts = [[csr_array((0, recipe.n_atoms), dtype=recipe.dtype)] for _ in range(recipe.n_groups)]
        for groups in self._coded(recipe, sources, threads):
            for own, codes in zip(parts, groups, strict=True):
                own.append(codes)
        return [csr_array(vstack(own, format="csr")) for own in parts]

    def decoded(
        self, recipe: Recipe, sources: Sequence[int], decode: Decode, widths: Sequence[int], threads: Threads
    ) -> list[Array]:
        """Return what `decode` makes of each block; all of it must fit in memory."""
        parts = [[np.empty((0, width), recipe.dtype)] for width in widths]
        for arrays in self._coded(recipe, sources, threads, decode):
            for own, array in zip(parts, arrays, strict=True):
                own.append(array)
        return [np.concatenate(own) for own in parts]

    def write_codes(
        self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], threads: Threads
    ) -> CodeFile:
        """Write the codes; only a few blocks of them are in memory at a time."""
        with code_writer(out, recipe.n_atoms, recipe.dtype) as writer:
            for groups in self._coded(recipe, sources, threads):
                writer.append(groups[0])
        return open_codes(writer.path)

    def _coded(
        self, recipe: Recipe, sources: Sequence[int], threads: Threads, decode: Decode | None = None
    ) -> Iterator[list[Any]]:
        """Yield the codes of each block, or what `decode` makes of them; then warn if some were not coded as asked."""
        coder = make_coder(recipe, threads.count, threads.cancel)

        def work(piece: Piece, views: list[Array], inner: Threads) -> tuple[list[Any], Shortfall]:
            codes, shortfall = block_codes(coder, views, piece, recipe.dtype, inner, sources, self.names)
            return (codes if decode is None else decode(views, codes[0])), shortfall

        shortfall = Shortfall()
        for codes, own in self._each(work, self.blocks.whole(), threads):  # empty ones too: part i is block i
            shortfall += own
            yield codes
        shortfall.warn(recipe.rule.tol)

    def _filled(self, portion: Portion | None) -> list[Piece]:
        """Return the pieces of a portion, or of all blocks, without empty ones."""
        if not isinstance(portion, list | None):
            raise TypeError("Expected pieces of blocks, got rows of arrays in memory.")
        return [piece for piece in (self.blocks.whole() if portion is None else portion) if piece.stop > piece.start]

    def _each(
        self, function: Callable[[Piece, list[Array], Threads], Result], pieces: list[Piece], threads: Threads
    ) -> Iterator[Result]:
        """Yield ``function(piece, views, threads)`` for each piece; `threads` are those that one piece may use."""
        n_threads = max(1, min(threads.count, len(pieces)))
        cancel = CancelToken(threads.cancel)
        inner = Threads(max(1, threads.count // max(1, len(pieces))), cancel)

        def work(loaded: Loaded) -> Result:
            piece, load = loaded
            return function(piece, multiply(load(), self.scale, self.dtype), inner)

        return in_order(work, self.blocks.load(pieces), n_threads, cancel, take_part=False)
