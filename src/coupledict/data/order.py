"""The order in which samples are read, as a formula that needs no list, and the pieces of blocks that a pass reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..coding.samples import Piece
from ..foundation.arrays import Array

LEAST_PIECES = 16  # a part of the samples is spread over at least this many blocks, if there are so many
LEAST_ROWS = 512  # a block is not read for fewer rows than this
N_RUNS = 64  # runs of neighbours, where some samples represent all
GOLDEN_SECTION = 0.6180339887498949


@dataclass(frozen=True)
class Chosen:
    """An order given as a list of the numbers of samples."""

    samples: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of samples in the order."""
        return self.samples.size

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the samples at places start..stop-1."""
        return self.samples[start:stop]


@dataclass(frozen=True)
class Order:
    """A cyclic order of samples in which neighbours are far apart; it needs no list of their numbers.

    Place i is sample ``(first + i * step) mod n``. The step is close to n times the golden section and has no common
    divisor with n: any run of places is spread evenly over all samples, every sample comes once before one comes again,
    and memory does not grow with the number of samples.
    """

    n_samples: int
    step: int
    first: int
    size: int

    @classmethod
    def random(cls, n_samples: int, rng: np.random.Generator) -> Order:
        """Draw a random order of all samples."""
        jitter = n_samples // 64
        step = max(1, round(n_samples * (math.sqrt(5) - 1) / 2) + int(rng.integers(-jitter, jitter + 1)))
        while math.gcd(step, n_samples) != 1:
            step += 1
        return cls(n_samples, step, int(rng.integers(n_samples)), n_samples)

    def slice(self, start: int, size: int) -> Order:
        """Return the order of `size` places from `start` on; the first place follows the last."""
        first = (self.first + (start % self.n_samples) * self.step) % self.n_samples
        return Order(self.n_samples, self.step, first, size)

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the samples at places start..stop-1."""
        return (self.first + np.arange(start, stop, dtype=np.int64) * self.step) % self.n_samples


def take_pieces(sizes: Sequence[int], order: Order, place: int, size: int) -> tuple[list[Piece], int]:
    """Return pieces with `size` rows in total, of the blocks from a place of the order onwards, and the next place.

    If `size` takes many blocks, the pieces are whole blocks; otherwise they are runs of rows from several blocks, so
    that a few rows are not all neighbours. Each block is used at most once, and an empty one never.
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
        start = int(where * GOLDEN_SECTION % 1 * (sizes[number] - rows + 1))
        pieces.append(Piece(number, start, start + rows))
    return sorted(pieces, key=lambda piece: piece.block), end


def spread_runs(n_samples: int, count: int) -> list[tuple[int, int]]:
    """Return the bounds of runs of neighbours, spread evenly over all samples, with about `count` samples in total."""
    if count >= n_samples:
        return [(0, n_samples)]
    starts = np.linspace(0, n_samples, N_RUNS + 1).astype(np.int64)[:-1]
    return [(int(start), int(start) + max(1, count // N_RUNS)) for start in starts]


def even_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Divide a total as evenly as possible into shares, none of them above its size."""
    shares, left = [0] * len(sizes), total
    smallest_first = sorted(range(len(sizes)), key=lambda i: sizes[i])
    for done, i in enumerate(smallest_first):
        shares[i] = min(sizes[i], -(-left // (len(sizes) - done)))
        left -= shares[i]
    return shares


def plan_draw(sizes: Sequence[int], count: int, rng: np.random.Generator) -> tuple[list[Piece], int, int]:
    """Return the blocks to draw from, the maximal number of rows to draw from each, and the seed."""
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


def mix_drawn(drawn: list[list[Array]], count: int, rng: np.random.Generator) -> list[Array]:
    """Return `count` of the rows that were drawn from the blocks, in random order."""
    views = [np.concatenate(parts) for parts in zip(*drawn, strict=True)]
    chosen = rng.permutation(views[0].shape[0])[:count]
    return [view[chosen] for view in views]
