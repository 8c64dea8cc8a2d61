"""Rankings and their metrics: best matches by blocks, average precision, ranks of partners.

All functions use one order: larger similarities first, and lower indices first among equals. So ties never depend on
chance, and the metrics rate the rankings that `match` returns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..foundation.checks import check_count
from ..foundation.tensors import as_array

Indices = npt.NDArray[np.int64]


def order(similarities: Array) -> Indices:
    """Return the indices of the columns for each row, best first."""
    return np.argsort(-similarities, axis=1, kind="stable").astype(np.int64, copy=False)


def best(similarities: Array, n: int) -> Indices:
    """Return the indices of the n best columns for each row, best first, without sorting the rest."""
    width = similarities.shape[1]
    if n >= width:
        return order(similarities)
    if n * SIZES.grouped_columns <= width and similarities.dtype.kind == "f":
        columns = _best_of_few(similarities, n)
        if columns is not None:
            return columns
    # Everything above the n-th value is taken; the lowest indices of values equal to it fill the rest.
    threshold = np.partition(similarities, width - n, axis=1)[:, width - n, None]
    above = similarities > threshold
    equal = similarities == threshold
    room = n - above.sum(axis=1, keepdims=True)
    chosen = above | (equal & (np.cumsum(equal, axis=1) <= room))
    columns = np.nonzero(chosen)[1].reshape(similarities.shape[0], n)
    inner = order(np.take_along_axis(similarities, columns, axis=1))
    return np.take_along_axis(columns.astype(np.int64, copy=False), inner, axis=1)


def _best_of_few(similarities: Array, n: int) -> Indices | None:
    """Return the n best columns of wide rows; None where ties leave too many candidates.

    The n-th best of the maxima of groups of columns is a bound: at least n values reach it, and few others do.
    """
    n_rows, width = similarities.shape
    size = SIZES.grouped_columns
    n_groups = width // size
    grouped = similarities[:, : n_groups * size].reshape(n_rows, size, n_groups)
    bound = np.partition(grouped.max(axis=1), n_groups - n, axis=1)[:, n_groups - n, None]
    rows, columns = np.divmod(np.flatnonzero(similarities >= bound), width)
    if rows.size and np.bincount(rows).max() > 8 * n + size:
        return None
    return best_of_pairs(rows, columns, similarities[rows, columns], n_rows, n)[0]


def best_of_pairs(rows: Indices, columns: Indices, values: Array, n_rows: int, n: int) -> tuple[Indices, Array]:
    """Return the n best columns for each row, and their values, from pairs of row and column sorted by row.

    Rows with fewer pairs are padded with values of minus infinity.
    """
    counts = np.bincount(rows, minlength=n_rows)
    ranks = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = n_rows, max(int(counts.max(initial=0)), n)
    table, found = np.full(shape, -np.inf, values.dtype), np.zeros(shape, np.int64)
    table[rows, ranks], found[rows, ranks] = values, columns
    kept = order(table)[:, :n]
    return np.take_along_axis(found, kept, axis=1), np.take_along_axis(table, kept, axis=1)


def best_with_values(similarities: Array, n: int, start: int = 0) -> tuple[Indices, Array]:
    """Return the indices of the n best columns for each row, counted from `start`, and their similarities."""
    columns = best(similarities, n)
    return columns + start, np.take_along_axis(similarities, columns, axis=1)


def merge(found: Sequence[tuple[Indices, Array]], n: int) -> tuple[Indices, Array]:
    """Return the n best of the results of several blocks, which come in the order of their indices."""
    # Earlier blocks come first, so that the lower index stays first among equal similarities.
    indices, values = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    kept = best(values, n)
    return np.take_along_axis(indices, kept, axis=1), np.take_along_axis(values, kept, axis=1)


def check_similarities(similarities: npt.ArrayLike) -> Array:
    """Return similarities as a table of real numbers without NaN."""
    table = as_array(similarities, "similarities")
    if table.ndim != 2 or table.shape[1] == 0:
        raise ValueError(
            f"Expected similarities of shape (n_queries, n_gallery) with a gallery of at least 1, got {table.shape}."
        )
    if table.dtype.kind not in "fiub":
        raise TypeError(f"Expected similarities to be real numbers, got dtype {table.dtype}.")
    if np.isnan(table).any():
        raise ValueError("Expected similarities without NaN, got NaN.")
    return table.astype(np.float64) if table.dtype.kind != "f" else table


def _check_labels(labels: npt.ArrayLike, n: int, name: str) -> npt.NDArray[np.generic]:
    array = as_array(labels, name)
    if array.shape != (n,):
        raise ValueError(f"Expected {name} of shape ({n},), one for each sample, got {array.shape}.")
    return array


def average_precisions(similarities: Array, relevant: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return the average precision of each row; NaN where nothing is relevant."""
    hits = np.take_along_axis(relevant, order(similarities), axis=1)
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    count = hits.sum(axis=1)
    total = np.where(hits, precision, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))


def partner_ranks(similarities: npt.ArrayLike, partners: npt.ArrayLike | None = None) -> Indices:
    """Return the rank of each query's partner, counted from 1.

    Parameters
    ----------
    similarities : array of shape (n_queries, n_gallery)
        Larger means more similar.
    partners : array of shape (n_queries,), optional
        Index of each query's partner in the gallery; the index of the query if left out.

    Returns
    -------
    array of shape (n_queries,)
        Among equal similarities, the lower index comes first.

    Examples
    --------
    >>> from coupledict.matching import partner_ranks
    >>> partner_ranks([[0.9, 0.1, 0.5], [0.3, 0.3, 0.2]])
    array([1, 2])
    """
    table = check_similarities(similarities)
    n, width = table.shape
    partner_indices = np.arange(n) if partners is None else as_array(partners, "partners")
    if partner_indices.shape != (n,) or partner_indices.dtype.kind not in "iu":
        raise ValueError(
            f"Expected partners to be {n} integers, one per query, got shape {partner_indices.shape} of"
            f" {partner_indices.dtype}."
        )
    if n and (partner_indices.min() < 0 or partner_indices.max() >= width):
        raise ValueError(
            f"Expected every query to have a partner among the {width} samples of the gallery, got number"
            f" {partner_indices.min() if partner_indices.min() < 0 else partner_indices.max()}."
        )
    own = np.take_along_axis(table, partner_indices[:, None], axis=1)
    before = (table > own) | ((table == own) & (np.arange(width) < partner_indices[:, None]))
    return np.asarray(1 + before.sum(axis=1))


def rank_k(similarities: npt.ArrayLike, k: int = 1, partners: npt.ArrayLike | None = None) -> float:
    """Return the share of queries whose partner is among the first k.

    Parameters
    ----------
    similarities, partners
        As in :func:`partner_ranks`.
    k : int, default=1
        Partners of rank k or better count as found.

    Returns
    -------
    float
        NaN without queries.

    Examples
    --------
    >>> from coupledict.matching import rank_k
    >>> similarities = [[0.9, 0.1, 0.5], [0.3, 0.3, 0.2]]
    >>> rank_k(similarities), rank_k(similarities, k=2)
    (0.5, 1.0)
    """
    ranks = partner_ranks(similarities, partners)
    return float(np.mean(ranks <= check_count(k, "k"))) if ranks.size else float("nan")


def mean_reciprocal_rank(similarities: npt.ArrayLike, partners: npt.ArrayLike | None = None) -> float:
    """Return the mean of 1 / rank of each query's partner.

    Parameters
    ----------
    similarities, partners
        As in :func:`partner_ranks`.

    Returns
    -------
    float
        1 is perfect; NaN without queries.

    Examples
    --------
    >>> from coupledict.matching import mean_reciprocal_rank
    >>> mean_reciprocal_rank([[0.9, 0.1, 0.5], [0.3, 0.3, 0.2]])
    0.75
    """
    ranks = partner_ranks(similarities, partners)
    return float(np.mean(1 / ranks)) if ranks.size else float("nan")


def mean_average_precision(
    similarities: npt.ArrayLike, query_labels: npt.ArrayLike, gallery_labels: npt.ArrayLike
) -> float:
    """Return the mean over queries of the average precision of the full ranking (mAP).

    The precision of a ranking is averaged over the ranks of the samples with the query's label.

    Parameters
    ----------
    similarities : array of shape (n_queries, n_gallery)
        Larger means more similar; among equals, the lower index comes first.
    query_labels : array of shape (n_queries,)
        The class of each query.
    gallery_labels : array of shape (n_gallery,)
        The class of each sample of the gallery.

    Returns
    -------
    float
        Queries whose label is not in the gallery are left out; NaN if that leaves none.

    Examples
    --------
    >>> from coupledict.matching import mean_average_precision
    >>> round(mean_average_precision([[0.9, 0.1, 0.5]], ["a"], ["a", "a", "b"]), 3)
    0.833
    """
    table = check_similarities(similarities)
    query_classes = _check_labels(query_labels, table.shape[0], "query_labels")
    gallery_classes = _check_labels(gallery_labels, table.shape[1], "gallery_labels")
    return mean_defined(average_precisions(table, query_classes[:, None] == gallery_classes))


def mean_defined(values: npt.NDArray[np.float64]) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")
