"""Rankings and their measures beside loops that do the same, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score

from coupledict.foundation.block_sizes import SIZES
from coupledict.matching import mean_average_precision, mean_reciprocal_rank, partner_ranks, rank_k
from coupledict.matching._ranking import best, best_with_values, merge, order

TIED = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=st.integers(-2, 2).map(float))


def ranking(row):
    """Columns by a plain sort of pairs: the larger first, then the lower number."""
    return sorted(range(len(row)), key=lambda j: (-row[j], j))


def loop_precision(row, relevant):
    hits, total = 0, 0.0
    for place, j in enumerate(ranking(row), start=1):
        if relevant[j]:
            hits += 1
            total += hits / place
    return total / hits if hits else None


@given(TIED, st.integers(1, 10))
@settings(max_examples=100)
def test_best_and_order_are_a_plain_sort(table, n):
    rows = [ranking(row) for row in table]
    np.testing.assert_array_equal(order(table), rows)
    np.testing.assert_array_equal(best(table, n), [row[:n] for row in rows])


@given(TIED, st.integers(1, 3), st.integers(2, 3))
@settings(max_examples=100)
def test_groups_of_columns_give_what_a_plain_sort_gives(table, n, size):
    with SIZES.changed(grouped_columns=size):
        np.testing.assert_array_equal(best(table, n), [ranking(row)[:n] for row in table])


@pytest.mark.parametrize("levels", [2, 50, 10**6])
def test_the_best_of_wide_rows(rng, levels):
    table = np.round(rng.random((20, 5000)) * levels) / levels  # many ties, some, none
    for dtype in (np.float32, np.float64):
        rows = table.astype(dtype)
        np.testing.assert_array_equal(best(rows, 10), order(rows)[:, :10])


@given(TIED, st.integers(1, 10), st.integers(1, 4))
@settings(max_examples=100)
def test_blocks_give_what_the_whole_gives(table, n, size):
    starts = range(0, table.shape[1], size)
    indices, values = merge([best_with_values(table[:, start : start + size], n, start) for start in starts], n)
    np.testing.assert_array_equal(indices, [ranking(row)[:n] for row in table])
    np.testing.assert_array_equal(values, np.take_along_axis(table, indices, axis=1))


@given(TIED, st.data())
@settings(max_examples=100)
def test_average_precision_beside_a_loop(table, data):
    n, width = table.shape
    labels = st.integers(0, 2)
    queries = data.draw(st.lists(labels, min_size=n, max_size=n))
    gallery = data.draw(st.lists(labels, min_size=width, max_size=width))
    found = [loop_precision(row, [g == q for g in gallery]) for row, q in zip(table, queries, strict=True)]
    found = [value for value in found if value is not None]
    measured = mean_average_precision(table, queries, gallery)
    if found:
        assert measured == pytest.approx(np.mean(found))
    else:
        assert np.isnan(measured)


def test_average_precision_beside_scikit_learn(rng):
    table, queries, gallery = rng.standard_normal((30, 80)), rng.integers(4, size=30), rng.integers(4, size=80)
    theirs = [average_precision_score(gallery == q, row) for row, q in zip(table, queries, strict=True)]
    assert mean_average_precision(table, queries, gallery) == pytest.approx(np.mean(theirs))
    assert mean_average_precision(-table, queries, gallery) != pytest.approx(np.mean(theirs))


def test_average_precision_by_hand():
    # Relevant at places 1 and 3 of the ranking: (1/1 + 2/3) / 2; the second query's label is nowhere.
    assert mean_average_precision([[3, 2, 1], [1, 2, 3]], ["a", "z"], ["a", "b", "a"]) == pytest.approx(5 / 6)


@given(TIED, st.data())
@settings(max_examples=100)
def test_ranks_of_partners_beside_a_loop(table, data):
    n, width = table.shape
    partners = data.draw(st.lists(st.integers(0, width - 1), min_size=n, max_size=n))
    ranks = np.array([ranking(row).index(j) + 1 for row, j in zip(table, partners, strict=True)])
    np.testing.assert_array_equal(partner_ranks(table, partners), ranks)
    assert mean_reciprocal_rank(table, partners) == pytest.approx(np.mean(1 / ranks))
    for k in (1, 3):
        assert rank_k(table, k, partners) == pytest.approx(np.mean(ranks <= k))


def test_partners_are_the_diagonal_if_left_out():
    np.testing.assert_array_equal(partner_ranks(np.eye(3)), [1, 1, 1])
    np.testing.assert_array_equal(partner_ranks(np.ones((3, 3))), [1, 2, 3])
    np.testing.assert_array_equal(partner_ranks(np.ones((2, 2), bool)), [1, 2])


def test_no_queries():
    assert partner_ranks(np.empty((0, 3))).shape == (0,)
    assert np.isnan(rank_k(np.empty((0, 3))))
    assert np.isnan(mean_reciprocal_rank(np.empty((0, 3))))
    assert np.isnan(mean_average_precision(np.empty((0, 3)), [], [1, 2, 3]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: partner_ranks(np.ones(3)), ValueError, r"shape \(n_queries, n_gallery\)"),
        (lambda: partner_ranks(np.ones((3, 0))), ValueError, "gallery of at least 1"),
        (lambda: partner_ranks([[np.nan, 1]]), ValueError, "without NaN"),
        (lambda: partner_ranks([["a", "b"]]), TypeError, "real numbers"),
        (lambda: partner_ranks(np.ones((3, 2))), ValueError, "partner among the 2 samples.* 2"),
        (lambda: partner_ranks(np.ones((1, 2)), [-1]), ValueError, "partner among the 2 samples.* -1"),
        (lambda: partner_ranks(np.ones((1, 2)), [0.0]), ValueError, "1 integers"),
        (lambda: partner_ranks(np.ones((1, 2)), [0, 1]), ValueError, "1 integers"),
        (lambda: rank_k(np.ones((1, 2)), 0), ValueError, "k to be at least 1"),
        (lambda: mean_average_precision(np.ones((1, 2)), [1, 2], [1, 2]), ValueError, r"query_labels of shape \(1,\)"),
        (lambda: mean_average_precision(np.ones((1, 2)), [1], [1]), ValueError, r"gallery_labels of shape \(2,\)"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
