from __future__ import annotations

from itertools import combinations, product

import pytest

from support.pairwise import pairs, pairwise

AXES = [["a", "b", "c"], [1, 2], [True, False], list(range(7)), [None, "x", "y"]]


def met(rows, *numbers):
    """Whether all combinations of these axes are among the rows."""
    return {tuple(row[n] for n in numbers) for row in rows} == set(product(*(AXES[n] for n in numbers)))


@pytest.mark.parametrize("n_axes", [1, 2, 3, 4, 5])
def test_every_two_values_meet(n_axes):
    axes = AXES[:n_axes]
    rows = pairwise(*axes)
    assert all(value in axis for row in rows for value, axis in zip(row, axes, strict=True))
    assert len(set(rows)) == len(rows)
    for numbers in combinations(range(n_axes), min(2, n_axes)):
        assert met(rows, *numbers)
    assert len(rows) <= {1: 3, 2: 6, 3: 6, 4: 21, 5: 24}[n_axes]
    assert rows == pairwise(*axes)


def test_some_axes_are_combined_in_full():
    rows = pairwise(*AXES, whole=[(0, 1, 2), (0, 1, 3)])
    assert met(rows, 0, 1, 2)
    assert met(rows, 0, 1, 3)
    assert not met(pairwise(*AXES), 0, 1, 3)
    for numbers in combinations(range(5), 2):
        assert met(rows, *numbers)
    assert len(rows) < 60


def test_values_need_no_hash_and_may_be_equal():
    assert len(pairwise([[], []], [{}, {}])) == 4


def test_a_mark():
    mark = pairs("first second", first=AXES[0], second=AXES[1], third=AXES[2], fixtures=["third", "fourth"]).mark
    assert mark.name == "parametrize"
    assert mark.args == (["first", "second", "third"], pairwise(*AXES[:3], whole=[(0, 1)]))
    assert mark.kwargs == {"indirect": ["third"]}
