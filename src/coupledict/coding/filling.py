"""Missing entries filled in with what the codes say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..foundation.arrays import Array
from ..kernels import _native
from ..kernels.instruction_sets import active_level
from .results import ChunkCodes


class Filler:
    """Fills in the missing entries of views, which are NaN.

    Parameters
    ----------
    dictionaries : list of arrays (n_components, n_features_v)
        One for each view; codes are multiplied by them.
    dtype : float32 or float64
        Number type of views and codes.
    """

    def __init__(self, dictionaries: Sequence[Array], dtype: np.dtype[Any]) -> None:
        self._atoms = [np.ascontiguousarray(atoms, dtype) for atoms in dictionaries]

    def fill(self, views: Sequence[Array], codes: ChunkCodes) -> list[Array]:
        """Return the views of coded samples, all in one group, as new arrays without missing entries."""
        filled = []
        for view, atoms in zip(views, self._atoms, strict=True):
            out = np.empty(view.shape, view.dtype)
            _native.fill_missing(view, codes.counts, codes.indices, codes.values[0], atoms, out, active_level())
            filled.append(out)
        return filled


def add_known(views: Sequence[Array], codes: ChunkCodes, sums: Array) -> None:
    """Add, for each atom and feature, the squared coefficients of the samples that know the feature to `sums`.

    `sums` has the views side by side.
    """
    start = 0
    for view in views:
        own = np.zeros((sums.shape[0], view.shape[1]), sums.dtype)
        _native.accumulate_known(view, codes.counts, codes.indices, codes.values[0], own, active_level())
        sums[:, start : start + view.shape[1]] += own
        start += view.shape[1]
