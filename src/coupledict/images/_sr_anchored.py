"""Anchored regression: each atom has a linear map from features to detail (Timofte et al., 2014).

The atoms are anchors. The map of an anchor is a ridge regression on the training samples that correlate with it most,
regardless of sign: a sample and its negative give the same map. A threshold on the correlation, estimated from some of
the samples, selects them. The sums of the regressions are accumulated in one pass over all samples, which need not be
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.progress import Meter
from ..parallel.blas import one_blas_thread
from ..parallel.ordered import in_order

ANCHOR_BLOCK = 64  # anchors that are compared with a batch at once, so that their correlations stay in the cache


def normalized(features: Array, details: Array) -> tuple[Array, Array]:
    """Return features of norm 1, and details divided by the same norms; samples without features are left out."""
    norms = np.sqrt(np.einsum("ij,ij->i", features, features))
    (kept,) = np.nonzero(norms > np.finfo(features.dtype).eps * norms.max(initial=0.0))
    inverse = (1 / norms[kept])[:, None]
    return features[kept] * inverse, details[kept] * inverse


def thresholds(anchors: Array, features: Array, share: float) -> Array:
    """Return, for each anchor, the absolute correlation that a share of the normalised features reaches."""
    n = len(features)
    place = n - min(n, max(1, round(share * n)))
    found = []
    for start in range(0, len(anchors), ANCHOR_BLOCK):
        correlations = np.abs(anchors[start : start + ANCHOR_BLOCK] @ features.T)
        found.append(np.partition(correlations, place, axis=1)[:, place])
    return np.concatenate(found)


@dataclass(frozen=True)
class Members:
    """The samples of a batch that belong to each anchor.

    `joint` holds features and details side by side; its rows ``rows[starts[k] : starts[k + 1]]`` belong to anchor k.
    """

    joint: Array
    rows: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]


def members(anchors: Array, limits: Array, features: Array, details: Array) -> Members:
    """Find the samples of a batch that correlate with each anchor at least as much as its threshold."""
    features, details = normalized(features, details)
    rows, counts = [], []
    for start in range(0, len(anchors), ANCHOR_BLOCK):
        correlations = anchors[start : start + ANCHOR_BLOCK] @ features.T
        np.abs(correlations, out=correlations)
        reached = correlations >= limits[start : start + ANCHOR_BLOCK, None]
        rows.append(np.flatnonzero(reached) % max(1, len(features)))
        counts.append(np.count_nonzero(reached, axis=1))
    starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return Members(np.hstack([features, details]), np.concatenate(rows), starts)


def regressors(
    anchors: Array,
    limits: Array,
    batches: Sequence[Any],
    read: Callable[[Any], tuple[Array, Array]],
    *,
    ridge_alpha: float,
    n_jobs: int,
    meter: Meter,
) -> Array:
    """Return the map of each anchor, (n_anchors, n_features, n_details).

    `read` returns the features and details of a batch; `meter` counts batches. Sums are added in the order of the
    batches, so the result has the same bits for any number of threads.
    """
    n_anchors, d = anchors.shape
    sums: Array | None = None

    def find(batch: Any) -> Members:
        return members(anchors, limits, *read(batch))

    with one_blas_thread(), closing(in_order(find, batches, min(n_jobs, len(batches)))) as found:
        for part in found:
            if sums is None:
                sums = np.zeros((n_anchors, d, part.joint.shape[1]), np.float32)
            for anchor in np.flatnonzero(np.diff(part.starts)):
                own = part.joint[part.rows[part.starts[anchor] : part.starts[anchor + 1]]]
                sums[anchor] += own[:, :d].T @ own
            meter.advance()
        assert sums is not None
        gram = sums[:, :, :d] + np.float32(ridge_alpha) * np.eye(d, dtype=np.float32)
        return np.linalg.solve(gram.astype(np.float64), sums[:, :, d:].astype(np.float64)).astype(np.float32)
