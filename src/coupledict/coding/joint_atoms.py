"""Joint atoms: the atoms of all views side by side, brought to norm 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..foundation.arrays import Array, Floats

ROWS_AT_ONCE = 1 << 21  # numbers normalised at a time


def normalize_atoms(
    dictionaries: Sequence[Array], scales: Floats, dtype: np.dtype[Any] | type = np.float64
) -> tuple[Array, Floats]:
    """Return the joint atoms with unit norm, as `dtype`, and their original norms, in float64.

    A joint atom is one row with the atom of every view, view v multiplied by ``scales[v]``. Zero atoms stay zero. Atoms
    whose norm is below the smallest normal number become zero: such a norm is not precise enough to divide by. Memory
    beyond the result: a few megabytes.
    """
    n_atoms, width = dictionaries[0].shape[0], sum(d.shape[1] for d in dictionaries)
    joint, norms = np.empty((n_atoms, width), dtype), np.empty(n_atoms)
    step = max(1, ROWS_AT_ONCE // width)
    for start in range(0, n_atoms, step):
        rows = slice(start, min(start + step, n_atoms))
        joint[rows], norms[rows] = _normalize_rows([d[rows] for d in dictionaries], scales)
    if not np.isfinite(norms).all():
        raise ValueError(
            f"Expected atoms whose norm is at most {np.finfo(np.float64).max:.4g}, got a larger one (atom"
            f" {int(np.argmin(np.isfinite(norms)))}). Divide the dictionary by a number."
        )
    return joint, norms


def _normalize_rows(dictionaries: Sequence[Array], scales: Floats) -> tuple[Floats, Floats]:
    """Normalise joint atoms; each is first divided by its largest entry, so that no square over- or underflows."""
    # In C order, whatever the layout of the dictionaries, so that sums over the features always round in the same way.
    joint = np.ascontiguousarray(
        np.hstack([np.asarray(d, np.float64) * scale for d, scale in zip(dictionaries, scales, strict=True)])
    )
    largest = np.abs(joint).max(axis=1)
    safe = np.where(largest > 0, largest, 1.0)
    joint /= safe[:, None]
    norms = np.sqrt(np.einsum("ij,ij->i", joint, joint))
    joint /= np.where(norms > 0, norms, 1.0)[:, None]
    with np.errstate(over="ignore"):
        norms = norms * largest
    lost = norms < np.finfo(np.float64).smallest_normal
    norms[lost], joint[lost] = 0, 0
    return joint, norms
