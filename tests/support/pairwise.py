"""Fewer cases than all combinations of parameters: every two values of two parameters meet in some case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(*axes: Sequence[Any], whole: Iterable[Sequence[int]] = ()) -> list[tuple[Any, ...]]:
    """Return rows with a value of each axis, in which every two values of any two axes meet.

    All combinations of the axes that an entry of `whole` numbers are among the rows, too. Rows are chosen greedily: the
    next one has the most that no row had before, the first of these in the order of the product.
    """
    numbers = range(len(axes))
    together = [*combinations(numbers, min(2, len(axes))), *(tuple(group) for group in whole)]
    left = {row: _parts(row, together) for row in product(*(range(len(axis)) for axis in axes))}
    missing = set().union(*left.values())
    chosen = []
    while missing:
        best = max(left, key=lambda row: len(left[row] & missing))
        missing -= left.pop(best)
        chosen.append(best)
    return [tuple(axes[axis][number] for axis, number in enumerate(row)) for row in sorted(chosen)]


def _parts(row: tuple[int, ...], together: list[tuple[int, ...]]) -> set[tuple[tuple[int, int], ...]]:
    return {tuple((axis, row[axis]) for axis in group) for group in together}


def pairs(*whole: str, fixtures: Sequence[str] = ("level",), **axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrise a test by :func:`pairwise`.

    `whole` are names of parameters that are combined in full, such as "level dtype"; `fixtures` get their values as
    `request.param`.
    """
    names = list(axes)
    groups = [[names.index(name) for name in group.split()] for group in whole]
    return pytest.mark.parametrize(
        names, pairwise(*axes.values(), whole=groups), indirect=[name for name in fixtures if name in axes]
    )
