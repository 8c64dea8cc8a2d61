"""Cases of a test of which some show a promise, and the others show it again."""

from __future__ import annotations

import pytest


def slow(*values):
    """Return values of one parameter, with the mark slow."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def first_and_slow(first, every):
    """Return the arguments of ``parametrize``: the first cases, and all others with the mark slow."""
    first = list(dict.fromkeys(tuple(case) for case in first))
    others = [tuple(case) for case in every if tuple(case) not in first]
    return [*first, *(pytest.param(*case, marks=pytest.mark.slow) for case in others)]
