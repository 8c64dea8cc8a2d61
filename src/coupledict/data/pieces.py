"""Which pieces of which blocks a pass reads: spread over the blocks, so that a few rows are not all neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..coding.samples import Piece
from ..foundation.arrays import Array
from .order import Order

LEAST_PIECES = 16  # a part of the samples is spread over at least this many blocks, if there are as many
LEAST_ROWS = 512  # a block is not read for fewer rows than this
GOLDEN_SECTION = 0.6180339887498949


def spread(sizes: Sequence[int], order: Order, place: int, size: int) -> tuple[list[Piece], int]:
    """Return pieces with `size` rows together, of the blocks from a place of the order on, and the next place.

    The pieces are whole blocks if `size` takes many of them, otherwise runs of rows from several blocks, so that a few
    rows are not all neighbours. Each block is used at most once, and empty blocks never.
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


def even_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Divide a total as evenly as possible into shares, none of them above its size."""
    shares, left = [0] * len(sizes), total
    smallest_first = sorted(range(len(sizes)), key=lambda i: sizes[i])
    for done, i in enumerate(smallest_first):
        shares[i] = min(sizes[i], -(-left // (len(sizes) - done)))
        left -= shares[i]
    return shares


def halve(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Cut pieces into two halves without a row in common; both have rows of every block of more than one."""
    halves: tuple[list[Piece], list[Piece]] = [], []
    done = 0
    for piece in pieces:
        middle = piece.start + (done + piece.stop - piece.start) // 2 - done // 2
        for half, start, stop in zip(halves, (piece.start, middle), (middle, piece.stop), strict=True):
            if stop > start:
                half.append(Piece(piece.block, start, stop))
        done += piece.stop - piece.start
    return halves


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


def mix_drawn(drawn: Sequence[list[Array]], count: int, rng: np.random.Generator) -> list[Array]:
    """Return `count` of the rows that were drawn from the blocks, in random order."""
    views = [np.concatenate(parts) for parts in zip(*drawn, strict=True)]
    chosen = rng.permutation(views[0].shape[0])[:count]
    return [view[chosen] for view in views]
