"""The paper's experiments on so few samples that they take a second: what is tested is what becomes of the figures."""

from __future__ import annotations

from coupledict.experiments import against_time, reproduction
from coupledict.experiments.paired_atoms import PairSizes
from coupledict.experiments.regimes import TimeSizes


def shrink(patch):
    """Let quick runs be quicker, as long as the patch holds."""
    patch.setattr(reproduction, "QUICK_PAIRS", PairSizes(1500, 300, 36, 3, 4, repeats=2))
    patch.setattr(reproduction, "QUICK_TIME", TimeSizes(400, 400, 36, 8, repeats=1, peer_seconds=0.05, thinning=8))
    patch.setattr(against_time, "available_peers", lambda: ([], []))
