"""Anchored regression: around each atom a linear map from features to detail (Timofte et al., 2014).

The atoms are anchors. The map of an anchor is a ridge regression over the training samples that correlate with it most,
whatever the sign: a sample and its negative teach the same map. Which samples those are is told by a threshold on the
correlation, estimated from some of the samples; the sums of the regressions are then added up in one pass over all of
them, so that samples need not be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._passes import in_order, one_blas_thread
from .._views import Array

ANCHOR_BLOCK = 64  # anchors that are compared with a batch at once: their correlations stay in the cache


def normalized(features: Array, details: Array) -> tuple[Array, Array]:
    """Return features of norm 1, and details divided by the same norms; samples without features are left out."""
    norms = np.sqrt(np.einsum("ij,ij->i", features, features))
    (kept,) = np.nonzero(norms > np.finfo(features.dtype).eps * norms.max(initial=0.0))
    inverse = (1 / norms[kept])[:, None]
    return features[kept] * inverse, details[kept] * inverse


def thresholds(anchors: Array, features: Array, share: float) -> Array:
    """Return for each anchor the absolute correlation that a share of the (normalised) features reaches."""
    n = len(features)
    place = n - min(n, max(1, round(share * n)))
    found = []
    for start in range(0, len(anchors), ANCHOR_BLOCK):
        correlations = np.abs(anchors[start : start + ANCHOR_BLOCK] @ features.T)
        found.append(np.partition(correlations, place, axis=1)[:, place])
    return np.concatenate(found)


@dataclass(frozen=True)
class Members:
    """Samples of a batch that belong to anchors: features and details side by side, and anchor by anchor their rows."""

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
    alpha: float,
    n_jobs: int,
    progress: Callable[[Iterable[Members]], Iterable[Members]],
) -> Array:
    """Return the map of each anchor, (n_anchors, n_features, n_details).

    `read` makes the features and details of a batch. Sums are added in the order of the batches: the same bits for any
    number of threads.
    """
    n_anchors, d = anchors.shape
    sums: Array | None = None

    def find(batch: Any) -> Members:
        return members(anchors, limits, *read(batch))

    stop = np.zeros(1, np.int32)
    with one_blas_thread():
        found: Iterator[Members] = in_order(find, batches, min(n_jobs, len(batches)), stop)
        for part in progress(found):
            if sums is None:
                sums = np.zeros((n_anchors, d, part.joint.shape[1]), np.float32)
            for anchor in np.flatnonzero(np.diff(part.starts)):
                own = part.joint[part.rows[part.starts[anchor] : part.starts[anchor + 1]]]
                sums[anchor] += own[:, :d].T @ own
        assert sums is not None
        gram = sums[:, :, :d] + np.float32(alpha) * np.eye(d, dtype=np.float32)
        return np.linalg.solve(gram.astype(np.float64), sums[:, :, d:].astype(np.float64)).astype(np.float32)
