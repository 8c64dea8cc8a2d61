"""The same learner on Dask: samples in chunks on a cluster, sums over them on the wires.

Give Dask arrays, chunked along the samples, to ``fit``, ``transform``, ``predict`` and ``score``: they are worked on by
the current ``distributed.Client``, or by Dask's scheduler in this process where there is none. docs/cluster.md tells
how to run a cluster and what travels on it.
"""

from __future__ import annotations

try:
    import dask.array as _dask  # noqa: F401
except ImportError as error:
    raise ImportError(
        'Expected Dask to be installed for work on a cluster, got none. Install it with: pip install "coupledict[dask]"'
    ) from error

from ._data import DaskData, persist
from ._run import ClusterError, ClusterTimeoutError

__all__ = ["persist", "ClusterError", "ClusterTimeoutError", "DaskData"]
