"""Folds of labelled samples, left out in turn so that choices rest on samples that were not learned from."""

from __future__ import annotations

import numpy as np

from ._label_views import Numbers
from ._labelled import Mask

LEAST_FOLDS = 5


def draw_folds(y: Numbers, usable: Mask, n_folds: int, rng: np.random.Generator) -> Numbers:
    """Return the number of the fold of each sample, or -1 for one that is never left out.

    Each class is dealt out evenly. Samples that are not `usable`, and those that are alone in their class, are never
    left out: a class must not lose all its samples.
    """
    folds = np.full(y.size, -1, np.intp)
    dealt = 0
    for label in np.unique(y[usable]):
        members = rng.permutation(np.flatnonzero(usable & (y == label)))
        if members.size > 1:
            # Continue where the last class ended, so that folds of many small classes have equal sizes.
            folds[members] = (dealt + np.arange(members.size)) % n_folds
            dealt += members.size
    return folds
