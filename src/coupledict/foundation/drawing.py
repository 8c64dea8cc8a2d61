"""How strongly atoms are drawn, and which norm they have, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Array, Floats

PALE = 0.05  # atoms of a smaller norm than this share of the root mean square norm of their dictionary are drawn paler
ROUND_OFF = 1e-3  # norms that differ from 1 by less are 1


def full_scale(atoms: Array) -> Floats:
    """Return for each atom the value that is drawn in black or white, as a column.

    It is the largest absolute value of the atom, so that each atom has its own scale. Atoms whose norm is below `PALE`
    of the root mean square norm of the dictionary are the exception; they are drawn paler in proportion: an
    atom of joint norm 1 may nearly vanish in a view, and what is left of it there is noise.
    """
    largest = np.abs(atoms).max(axis=1, keepdims=True).astype(np.float64)
    top = float(largest.max(initial=0.0))
    if top == 0:
        return np.ones_like(largest)
    norms = np.linalg.norm(np.asarray(atoms, np.float64) / top, axis=1, keepdims=True)
    least = PALE * float(np.sqrt(np.mean(norms**2)))
    paler = np.maximum(least / np.where(norms > 0, norms, least), 1)
    return np.asarray(np.where(largest > 0, largest * paler, 1.0))


def describe_norms(dictionaries: Sequence[Array], weights: Array | None = None) -> str:
    """Return in words which norm the atoms of all views have: norm 1 in each view, over all views together, or others.

    `weights` are those of the views, 1 if left out. Atoms of nothing but zeros do not count.
    """
    with np.errstate(over="ignore"):  # atoms of a file may be as large as they like
        norms = np.stack([np.linalg.norm(np.asarray(atoms, np.float64), axis=1) for atoms in dictionaries])
        if _are_one(norms):
            return "norm 1" if len(norms) == 1 else "norm 1 in each view"
        if _are_one(np.sqrt(np.sum(norms**2, axis=0))):
            return "norm 1 over all views together"
        if weights is not None and len(weights) == len(norms) and _are_one(np.sqrt(weights @ norms**2)):
            return "norm 1 over all views together, weighted"
    return f"norms from {norms.min():.3g} to {norms.max():.3g}"


def _are_one(norms: Floats) -> bool:
    """Tell whether all norms but zeros are 1, and there are any."""
    some = norms[norms > 0]
    return bool(some.size and np.all(np.abs(some - 1) < ROUND_OFF))
