"""The sizes of a quick run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .paired_atoms import PairSizes
from .regimes import TimeSizes


@dataclass
class QuickSizes:
    """The sizes of both experiments in a quick run; read them where the run begins."""

    pairs: PairSizes
    time: TimeSizes

    @contextmanager
    def changed(self, pairs: PairSizes, time: TimeSizes) -> Iterator[None]:
        """Change the sizes within a block, for tests."""
        before = vars(self).copy()
        self.pairs = pairs
        self.time = time
        try:
            yield
        finally:
            vars(self).update(before)


QUICK = QuickSizes(
    PairSizes(n_patches=4_000, n_held_out=1_000, n_components=144, max_iter=15, repeats=3),
    TimeSizes(n_patches=1_000, n_held_out=1_000, n_components=100, repeats=1, peer_seconds=0.3, thinning=8),
)
