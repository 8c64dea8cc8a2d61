"""Direct comparison of two views with the same features, such as a photograph and a drawing of it.

A prediction lies in the span of the training samples. If these are few, most of what a new picture shows lies outside
that span, and only a pixel-by-pixel comparison uses it. How partners usually differ (shadows, strokes) is learned from
training pairs, and directions of large differences count less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ._mapped import evenly_spaced, with_views
from ._whitening import BLOCK_ROWS, Whitening, blocks, principal

Pair: TypeAlias = tuple[int, int]

SHRINKAGE = 0.3  # added to the variances of differences, relative to their mean
MOST_PAIRS = 1024


@dataclass(frozen=True)
class Metric:
    """How samples of two views are compared directly.

    Attributes
    ----------
    axes : array of shape (n_axes, n_features)
        Principal axes of the differences of partners.
    factors : array of shape (n_axes,)
        Factors along these axes; the factor is 1 in all other directions.
    """

    axes: Floats
    factors: Floats

    def apply(self, view: Array, whitening: Whitening, dtype: np.dtype[Any]) -> Array:
        """Return samples in the form whose cosines are compared."""
        out: Array = np.empty(view.shape, dtype)
        with one_blas_thread():
            for start in blocks(view.shape[0]):
                out[start : start + BLOCK_ROWS] = self.rescale(whitening.preprocess(view, start))
        return out

    def rescale(self, rows: Floats) -> Floats:
        """Return preprocessed and centred samples with the factors applied."""
        return np.asarray(rows + ((rows @ self.axes.T) * (self.factors - 1)) @ self.axes)


def learn_metric(first: Floats, second: Floats, width: int) -> Metric:
    """Learn from preprocessed and centred partners; `width` is their number of features before any rotation."""
    scales = [np.sqrt(np.mean(rows**2)) or 1.0 for rows in (first, second)]
    difference = first / scales[0] - second / scales[1]
    n = len(difference)
    variances, axes = principal([difference], n, difference.shape[1])
    floor = SHRINKAGE * variances.sum() / width
    kept = variances > 1e-10 * variances.max(initial=0.0)
    factors = np.sqrt(floor / (variances[kept] + floor)) if kept.any() else np.ones(0)
    return Metric(np.ascontiguousarray(axes[kept]), factors)


def fit_metrics(views: list[Array], whitenings: list[Whitening]) -> dict[Pair, Metric]:
    """Learn a metric for each pair of views that have the same number of features."""
    metrics = {}
    for pair in pairs_of_equal_width([view.shape[1] for view in views]):
        rows = np.flatnonzero(with_views(views, pair))
        rows = rows[evenly_spaced(rows.size, MOST_PAIRS)]
        first, second = (whitenings[v].preprocess_all(views[v][rows]) for v in pair)
        with one_blas_thread():
            metrics[pair] = learn_metric(first, second, views[pair[0]].shape[1])
    return metrics


def pairs_of_equal_width(widths: list[int]) -> list[Pair]:
    """Return the pairs of views that have the same number of features."""
    n = len(widths)
    return [(s, t) for s in range(n) for t in range(s + 1, n) if widths[s] == widths[t]]


def metrics_to_tensors(metrics: dict[Pair, Metric]) -> dict[str, Array]:
    """Return metrics as arrays, for a file."""
    tensors: dict[str, Array] = {}
    for (s, t), metric in metrics.items():
        tensors |= {f"direct.{s}-{t}.axes": metric.axes, f"direct.{s}-{t}.factors": metric.factors}
    return tensors


def metrics_from_tensors(tensors: Mapping[str, Array], widths: list[int]) -> dict[Pair, Metric]:
    """Return the metrics of a file, one for each pair of views of equal width."""
    metrics = {}
    for s, t in pairs_of_equal_width(widths):
        axes, factors = tensors[f"direct.{s}-{t}.axes"], tensors[f"direct.{s}-{t}.factors"]
        if axes.shape != (factors.size, widths[s]) or factors.ndim != 1 or np.any(factors < 0):
            raise ValueError(f"its comparison of views {s} and {t} contradicts itself")
        metrics[s, t] = Metric(axes, factors)
    return metrics
