"""The same learners on Dask: the samples stay in chunks on a cluster, and only sums over them are sent.

Give Dask arrays, chunked along the samples, to ``fit``, ``transform``, ``predict`` and ``score``: the current
``distributed.Client`` does the work, or if there is none, Dask's scheduler in this process. docs/cluster.md describes
how to run a cluster and what is sent over its network.
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
