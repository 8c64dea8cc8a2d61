"""How much is worked on at a time: numbers that change memory and speed, and results by no more than rounding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass


@dataclass
class BlockSizes:
    """One number for each place that cuts its work into blocks; read it where the work begins.

    Examples
    --------
    >>> from coupledict.foundation.block_sizes import SIZES
    >>> with SIZES.changed(block_rows=100):
    ...     SIZES.block_rows
    100
    >>> SIZES.block_rows
    16384
    """

    # coding
    gram_bytes: int = 1 << 30  # a larger Gram matrix is not made: correlations are computed step by step
    gap_numbers: int = 1 << 22  # correlations that duality gaps hold in memory
    # data
    block_rows: int = 16384  # rows of a block if the storage has no chunks of its own
    block_bytes: int = 32 << 20  # and the largest size of such a block
    large_bytes: int = 64 << 20  # smaller memory maps are read completely, and then are arrays in memory
    # learning
    sums_bytes: int = 1 << 27  # larger sums A = C^T C are not made where the codes are at hand

    @contextmanager
    def changed(self, **sizes: int) -> Iterator[None]:
        """Change sizes for all threads of this process until the block ends: for tests and measurements."""
        before = asdict(self)
        unknown = sorted(set(sizes) - set(before))
        if unknown:
            raise ValueError(f"Expected sizes among {sorted(before)}, got {unknown}.")
        vars(self).update(sizes)
        try:
            yield
        finally:
            vars(self).update(before)


SIZES = BlockSizes()
