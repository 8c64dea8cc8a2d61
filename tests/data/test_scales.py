"""The scale at which samples are read: 1, unless their squares would leave the range of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict.data.blocks import ArrayBlocks, Blocked
from coupledict.data.memory import InMemory
from support.inner import Threads
from support.learners import planted_views


def test_ordinary_samples_are_left_as_they_are(rng):
    data = InMemory(planted_views(rng)[0])
    assert data.find_scale(Threads()) == 1
    assert data.scaled(1.0) is data
    assert InMemory([np.zeros((3, 2))]).find_scale(Threads()) == 1
    assert InMemory([np.zeros((0, 2))]).find_scale(Threads()) == 1
    assert InMemory([np.array([[np.nan, np.inf]])]).find_scale(Threads()) == 1  # refused later, with a better sentence
    assert InMemory([np.array([[np.nan, np.nan]])]).find_scale(Threads()) == 1
    assert InMemory([np.array([[np.nan, 1e300]])]).find_scale(Threads()) == InMemory([np.array([[1e300]])]).find_scale(
        Threads()
    )
    assert InMemory([np.array([[2**62]])]).find_scale(Threads()) == 1


def test_integers_are_not_read_for_their_scale(rng):
    class Unread(ArrayBlocks):
        def load(self, pieces):
            pytest.fail("it was read")

    X = rng.integers(-9, 9, (50, 4), np.int16)
    assert Blocked(Unread([X], ["X"])).find_scale(Threads()) == 1
    with pytest.raises(pytest.fail.Exception, match="it was read"):
        Blocked(Unread([X.astype(float)], ["X"])).find_scale(Threads())
