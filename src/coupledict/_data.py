"""Where the samples of a fit are, and how a pass runs over them: arrays in memory, or blocks read one at a time.

A learner knows its samples by this interface only. Everything that a block contributes is computed by the functions
here, whoever calls them, a thread or a worker of a cluster, and put together by one tree of sums.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack

from . import _passes
from ._blocks import Blocks, Loaded, Piece, check_finite, find_blocks
from ._code_files import CodeFile, code_writer, open_codes
from ._passes import Samples, Statistics, in_order
from ._pursuit import Coder, Recipe, as_csr, count_unreached, warn_if_unreached
from ._schedule import Order
from ._views import Array, common_dtype

FAN_IN = 8  # sums that are added up at a time, in the tree of sums
LEAST_PIECES = 16  # blocks that a part of the samples is spread over, if there are as many
LEAST_ROWS = 512  # rows of a block that are worth reading it for

Part: TypeAlias = Any  # samples of one pass, as `Data.take` gives them


class Data(ABC):
    """Samples of all views.

    Attributes
    ----------
    n_samples : int
    present, n_views : list of int, int
        Which views there are, of how many. A fit has all of them.
    widths : list of int
        Features of each view that is present.
    dtype : float32 or float64
    """

    n_samples: int
    present: list[int]
    n_views: int
    widths: list[int]
    dtype: np.dtype[Any]

    @abstractmethod
    def mean_energies(self, n_jobs: int) -> list[float]:
        """Return the mean squared norm of the samples of each view."""

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return `count` samples of all views in random order, as float64; fewer where there are fewer."""

    @abstractmethod
    def order(self, rng: np.random.Generator) -> Order:
        """Draw an order for :meth:`take`."""

    @abstractmethod
    def take(self, order: Order, place: int, size: int) -> tuple[Part, int]:
        """Return about `size` samples from a place on, and the place after them; `size` of all samples is all."""

    @abstractmethod
    def statistics(
        self,
        recipe: Recipe,
        part: Part | None,
        n_jobs: int,
        *,
        n_worst: int = 0,
        sources: Sequence[int] | None = None,
        targets: Sequence[int] | None = None,
    ) -> Statistics:
        """Run a pass over a part of the samples, or over all of them; see :func:`coupledict._passes.statistics`."""


class Chunked(Data):
    """Samples that are never all in memory, and what a fitted learner makes of them.

    In all methods `sources` are the places, among the views that are present, of those to code.
    """

    @abstractmethod
    def codes(self, recipe: Recipe, sources: Sequence[int], n_jobs: int) -> list[Any]:
        """Return the codes, one array for each group of views that shares its coefficients."""

    @abstractmethod
    def rebuilt(self, recipe: Recipe, sources: Sequence[int], atoms: Array, n_jobs: int) -> Any:
        """Return codes @ atoms."""

    @abstractmethod
    def write_codes(self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], n_jobs: int) -> CodeFile:
        """Write the codes of the only group of views to a file, a part for each block."""


#: Powers of two between which the largest number of all samples may lie without harm to sums of squares of squares.
SAFE_EXPONENTS = {np.dtype(np.float32): (-40, 40), np.dtype(np.float64): (-300, 300)}


class InMemory(Data):
    """Arrays, read row by row in any order."""

    def __init__(self, views: list[Array]) -> None:
        self.views = views
        self.n_samples = int(views[0].shape[0])
        self.present, self.n_views = list(range(len(views))), len(views)
        self.widths = [int(view.shape[1]) for view in views]
        self.dtype = common_dtype(views)

    def scale(self) -> float:
        """Return a power of two that brings the samples to where no sum over them over- or underflows; 1 as a rule."""
        tops = [np.abs([view.max(), view.min()]).max() for view in self.views if view.dtype.kind == "f" and view.size]
        top = float(max(tops, default=1.0))
        if not np.isfinite(top) or top == 0:
            return 1.0
        exponent = int(np.frexp(top)[1])
        low, high = SAFE_EXPONENTS[self.dtype]
        return 1.0 if low <= exponent <= high else float(np.ldexp(1.0, min(-exponent, 1020)))

    def scaled(self, scale: float) -> InMemory:
        """Return the samples multiplied by a number."""
        if scale == 1:
            return self
        return InMemory([(np.asarray(view, np.float64) * scale).astype(self.dtype) for view in self.views])

    def mean_energies(self, n_jobs: int) -> list[float]:
        """Return the mean squared norm of the samples of each view."""
        return [float(np.mean(np.einsum("ij,ij->i", v, v, dtype=np.float64))) if v.size else 0.0 for v in self.views]

    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return samples drawn without putting back."""
        chosen = rng.permutation(self.n_samples)[:count]
        return [np.asarray(view[chosen], np.float64) for view in self.views]

    def order(self, rng: np.random.Generator) -> Order:
        """Draw an order of the samples."""
        return Order.random(self.n_samples, rng)

    def take(self, order: Order, place: int, size: int) -> tuple[Order, int]:
        """Return the next `size` samples of the order."""
        return order.slice(place, size), place + size

    def statistics(
        self,
        recipe: Recipe,
        part: Part | None,
        n_jobs: int,
        *,
        n_worst: int = 0,
        sources: Sequence[int] | None = None,
        targets: Sequence[int] | None = None,
    ) -> Statistics:
        """Run a pass by threads that share the rows."""
        samples = self.samples(part, sources)
        explained = None if targets is None else self.samples(part, targets)
        return _passes.statistics(recipe.coder(n_jobs), samples, n_jobs, n_worst=n_worst, targets=explained)

    def samples(self, part: Part | None, chosen: Sequence[int] | None = None) -> Samples:
        """Return the rows of a part, of all views or of some."""
        views = self.views if chosen is None else [self.views[v] for v in chosen]
        return Samples(views, self.dtype, part)


def spread(sizes: Sequence[int], order: Order, place: int, size: int) -> tuple[list[Piece], int]:
    """Return pieces of about `size` rows, spread over the blocks from a place of the order on, and the place after.

    Whole blocks where that takes many of them; otherwise runs of rows from several, so that few rows are not all
    neighbours. Each block comes at most once, and empty ones never.
    """
    n_blocks, total = len(sizes), sum(sizes)
    if size >= total:
        return [Piece(number, 0, rows) for number, rows in enumerate(sizes) if rows], place
    n_filled = sum(rows > 0 for rows in sizes)
    count = max(-(-size * n_filled // total), min(LEAST_PIECES, -(-size // LEAST_ROWS)))
    chosen: list[tuple[int, int]] = []  # places and blocks
    end, room = place, 0
    while end < place + n_blocks and (len(chosen) < count or room < size):
        number = int(order.numbers(end, end + 1)[0])
        if sizes[number]:
            chosen.append((end, number))
            room += sizes[number]
        end += 1
    pieces = []
    for (where, number), rows in zip(chosen, even_shares([sizes[number] for _, number in chosen], size), strict=True):
        start = int(where * 0.6180339887498949 % 1 * (sizes[number] - rows + 1))
        pieces.append(Piece(number, start, start + rows))
    return sorted(pieces, key=lambda piece: piece.block), end


def even_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Share a total out over things of these sizes, none more than its size, as evenly as that allows."""
    shares, left = [0] * len(sizes), total
    smallest_first = sorted(range(len(sizes)), key=lambda i: sizes[i])
    for done, i in enumerate(smallest_first):
        shares[i] = min(sizes[i], -(-left // (len(sizes) - done)))
        left -= shares[i]
    return shares


def block_energies(views: Sequence[Array], piece: Piece) -> npt.NDArray[np.float64]:
    """Return the energy of the rows of a block in each view."""
    energies = np.array([np.einsum("ij,ij->", view, view, dtype=np.float64) for view in views])
    if not np.isfinite(energies).all():
        check_finite(views, piece)
    return energies


def block_draw(views: Sequence[Array], piece: Piece, count: int, seed: int) -> list[Array]:
    """Return `count` rows of a block, chosen by the seed and the number of the block."""
    n = views[0].shape[0]
    chosen = np.random.default_rng([seed, piece.block]).permutation(n)[:count]
    return [np.asarray(view[chosen], np.float64) for view in views]


def block_statistics(
    coder: Coder,
    views: Sequence[Array],
    piece: Piece,
    dtype: np.dtype[Any],
    *,
    n_worst: int,
    sources: Sequence[int] | None,
    targets: Sequence[int] | None,
    n_jobs: int,
    stop: npt.NDArray[np.int32] | None = None,
) -> Statistics:
    """Return what a block adds to the sums of a pass."""
    chosen = list(views) if sources is None else [views[v] for v in sources]
    explained = None if targets is None else Samples([views[v] for v in targets], dtype)
    return _passes.statistics(
        coder, Samples(chosen, dtype, origin=piece), n_jobs, n_worst=n_worst, targets=explained, stop=stop
    )


def block_codes(
    coder: Coder,
    views: Sequence[Array],
    piece: Piece,
    dtype: np.dtype[Any],
    *,
    sources: Sequence[int],
    n_jobs: int,
    stop: npt.NDArray[np.int32] | None = None,
) -> tuple[list[csr_array], int]:
    """Return the codes of a block, one array for each group of views, and how many samples did not reach tol."""
    samples = Samples([views[v] for v in sources], dtype, origin=piece)
    coded = _passes.encode(coder, samples, n_jobs, stop=stop)
    return as_csr(coded, coder.n_atoms), count_unreached(coded, coder)


class TreeSum:
    """Adds things up in a fixed tree, keeping one partial sum for each level.

    The sum of n things is that of a tree whose nodes add up to FAN_IN neighbours, left to right; the things come in
    order, one at a time. Things are changed by ``a += b``, and owned once they are added.
    """

    def __init__(self) -> None:
        self._levels: list[tuple[int, Any]] = []

    def add(self, thing: Any) -> None:
        """Add the next thing."""
        for level, (count, total) in enumerate(self._levels):
            if count:
                total += thing
                thing = total
            count += 1
            if count < FAN_IN:
                self._levels[level] = (count, thing)
                return
            self._levels[level] = (0, None)
        self._levels.append((1, thing))

    def total(self) -> Any:
        """Return the sum of all things, None where there were none."""
        carried = None
        for count, total in self._levels:
            if count:
                if carried is not None:
                    total += carried
                carried = total
        return carried


class Blocked(Chunked):
    """Blocks, each read and worked on by one thread."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.n_samples = blocks.n_samples
        self.present, self.n_views = blocks.present, blocks.n_views
        self.widths, self.dtype = blocks.widths, blocks.dtype

    def mean_energies(self, n_jobs: int) -> list[float]:
        """Return the mean squared norm of the samples of each view; reads all blocks."""
        tree = TreeSum()
        for energies in self._each(lambda item, stop: block_energies(item[1](), item[0]), self._filled(None), n_jobs):
            tree.add(energies)
        return [float(energy) / max(self.n_samples, 1) for energy in tree.total()]

    def draw(self, count: int, rng: np.random.Generator) -> list[Array]:
        """Return samples from some blocks that are spread over all of them."""
        pieces, share, seed = plan_draw(self.blocks.sizes, count, rng)
        drawn = self._each(lambda item, stop: block_draw(item[1](), item[0], share, seed), pieces, 1)
        return mix_drawn(list(drawn), count, rng)

    def order(self, rng: np.random.Generator) -> Order:
        """Draw an order of the blocks."""
        return Order.random(len(self.blocks.sizes), rng)

    def take(self, order: Order, place: int, size: int) -> tuple[list[Piece], int]:
        """Return pieces of blocks; see :func:`spread`."""
        return spread(self.blocks.sizes, order, place, size)

    def statistics(
        self,
        recipe: Recipe,
        part: Part | None,
        n_jobs: int,
        *,
        n_worst: int = 0,
        sources: Sequence[int] | None = None,
        targets: Sequence[int] | None = None,
    ) -> Statistics:
        """Run a pass: every thread reads a block, codes it, and leaves its sums."""
        coder = recipe.coder(n_jobs)
        pieces = self._filled(part)

        def work(item: Loaded, stop: npt.NDArray[np.int32] | None) -> Statistics:
            piece, load = item
            return block_statistics(
                coder,
                load(),
                piece,
                self.dtype,
                n_worst=n_worst,
                sources=sources,
                targets=targets,
                n_jobs=max(1, n_jobs // max(1, len(pieces))),
                stop=stop,
            )

        if not pieces:
            return work((Piece(0, 0, 0), lambda: [np.empty((0, width), self.dtype) for width in self.widths]), None)
        tree = TreeSum()
        for found in self._each(work, pieces, n_jobs):
            tree.add(found)
        total: Statistics = tree.total()
        return total

    def codes(self, recipe: Recipe, sources: Sequence[int], n_jobs: int) -> list[csr_array]:
        """Return the codes, which must fit in memory."""
        n_groups = 1 if recipe.coupling == "code" else len(sources)
        parts = [[csr_array((0, recipe.n_atoms), dtype=recipe.dtype)] for _ in range(n_groups)]
        for groups in self._coded(recipe, sources, n_jobs):
            for own, codes in zip(parts, groups, strict=True):
                own.append(codes)
        return [csr_array(vstack(own, format="csr")) for own in parts]

    def rebuilt(self, recipe: Recipe, sources: Sequence[int], atoms: Array, n_jobs: int) -> Array:
        """Return codes @ atoms, which must fit in memory."""
        parts = [np.asarray(groups[0] @ atoms) for groups in self._coded(recipe, sources, n_jobs)]
        return np.concatenate([np.empty((0, atoms.shape[1]), recipe.dtype), *parts])

    def write_codes(self, recipe: Recipe, sources: Sequence[int], out: str | os.PathLike[str], n_jobs: int) -> CodeFile:
        """Write the codes, holding a few blocks of them at a time."""
        with code_writer(out, recipe.n_atoms, recipe.dtype) as writer:
            for groups in self._coded(recipe, sources, n_jobs):
                writer.append(groups[0])
        return open_codes(writer.path)

    def _coded(self, recipe: Recipe, sources: Sequence[int], n_jobs: int) -> Iterator[list[csr_array]]:
        """Yield the codes of each block, then warn if some did not reach the tolerance."""
        coder = recipe.coder(n_jobs)
        inner = max(1, n_jobs // max(1, len(self.blocks.sizes)))

        def work(item: Loaded, stop: npt.NDArray[np.int32]) -> tuple[list[csr_array], int]:
            piece, load = item
            return block_codes(coder, load(), piece, recipe.dtype, sources=sources, n_jobs=inner, stop=stop)

        unreached = 0
        for codes, count in self._each(work, self.blocks.whole(), n_jobs):  # empty ones, too: part i is chunk i
            unreached += count
            yield codes
        warn_if_unreached(unreached, self.n_samples, recipe.tol)

    def _filled(self, part: list[Piece] | None) -> list[Piece]:
        """Return the pieces of a part, or all blocks, without those that hold nothing."""
        return [piece for piece in (self.blocks.whole() if part is None else part) if piece.stop > piece.start]

    def _each(self, function: Any, pieces: list[Piece], n_jobs: int) -> Iterator[Any]:
        stop = np.zeros(1, np.int32)
        n_threads = max(1, min(n_jobs, len(pieces)))
        return in_order(lambda item: function(item, stop), self.blocks.load(pieces), n_threads, stop, take_part=False)


def plan_draw(sizes: Sequence[int], count: int, rng: np.random.Generator) -> tuple[list[Piece], int, int]:
    """Return the blocks to draw from, how many rows to take of each at most, and the seed to draw by."""
    order = Order.random(len(sizes), rng)
    seed = int(rng.integers(2**31))
    numbers = [int(number) for number in order.numbers(0, len(sizes)) if sizes[number] > 0]
    chosen: list[int] = []
    rows = 0
    for number in numbers:
        if len(chosen) >= LEAST_PIECES and rows >= count:
            break
        chosen.append(number)
        rows += sizes[number]
    share = max(even_shares([sizes[number] for number in chosen], min(rows, 2 * count)), default=0)
    return [Piece(number, 0, sizes[number]) for number in sorted(chosen)], share, seed


def mix_drawn(drawn: Sequence[list[Array]], count: int, rng: np.random.Generator) -> list[Array]:
    """Return `count` of the rows that were drawn from blocks, in random order."""
    views = [np.concatenate(parts) for parts in zip(*drawn, strict=True)]
    chosen = rng.permutation(views[0].shape[0])[:count]
    return [view[chosen] for view in views]


def is_dask(value: object) -> bool:
    """Tell whether samples are given as Dask arrays, or some of them are."""
    entries = value if isinstance(value, list | tuple) else [value]
    return any(type(entry).__module__.startswith("dask.") for entry in entries)


def open_views(value: object, *, single: bool, name: str) -> Chunked | None:
    """Return samples that are not arrays in memory, opened; None for those that are."""
    if is_dask(value):
        from .distributed import DaskData

        entries = value if isinstance(value, list | tuple) else [value]
        return DaskData(entries, [name] if single else [f"{name}[{v}]" for v in range(len(entries))])
    blocks = find_blocks(value, single=single, name=name)
    return None if blocks is None else Blocked(blocks)
