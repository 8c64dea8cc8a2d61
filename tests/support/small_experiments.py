"""The paper's experiments on so few samples that they take a second: what is tested is what becomes of the figures."""

from __future__ import annotations

from coupledict.experiments.paired_atoms import PairSizes
from coupledict.experiments.quick import QUICK
from coupledict.experiments.regimes import TimeSizes


def small_experiments():
    """Return a context in which quick runs are quicker, and without other packages."""
    return QUICK.changed(
        PairSizes(1500, 300, 36, 3, 4, repeats=2), TimeSizes(400, 400, 36, 8, repeats=1, peer_seconds=0, thinning=8)
    )
