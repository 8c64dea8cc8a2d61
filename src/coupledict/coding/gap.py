"""The duality gap of lasso codes: how far each is from its minimum, at most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from ..foundation.arrays import Array, Floats, read_rows
from ..foundation.block_sizes import SIZES


def duality_gaps(
    views: Sequence[Array],
    dictionaries: Sequence[Array],
    weights: Floats,
    codes: csr_array,
    alpha: float,
    *,
    positive: bool,
) -> Floats:
    """Return the duality gap of each code, computed in float64 from the codes as they are.

    With the residual r = x - c D and its correlations a = D r, s r is feasible for the dual problem if s times the
    largest |a| (the largest a for non-negative codes) is at most alpha. The gap of the pair (c, s r), for s of at most
    1, is ``0.5 * (1 - s)**2 * ||r||**2 + alpha * ||c||_1 - s * <c, a>``.
    """
    scales = np.sqrt(weights)
    atoms = np.hstack([np.asarray(d, np.float64) * scale for d, scale in zip(dictionaries, scales, strict=True)])
    n_samples, n_atoms = codes.shape
    gaps = np.empty(n_samples)
    step = max(1, SIZES.gap_numbers // n_atoms)
    for start in range(0, n_samples, step):
        rows = slice(start, min(start + step, n_samples))
        pairs = zip(views, scales, strict=True)
        signals = np.hstack([read_rows(view, start, rows.stop, np.dtype(np.float64)) * scale for view, scale in pairs])
        code = codes[rows].astype(np.float64)
        residual = signals - code @ atoms
        residual[np.isnan(signals)] = 0
        correlations = residual @ atoms.T
        largest = (correlations if positive else np.abs(correlations)).max(axis=1, initial=0)
        shrink = np.minimum(1.0, alpha / np.maximum(largest, np.finfo(np.float64).tiny))
        l1 = np.asarray(abs(code).sum(axis=1)).ravel()
        inner = np.asarray(code.multiply(correlations).sum(axis=1)).ravel()
        energy = np.einsum("ij,ij->i", residual, residual)
        gaps[rows] = 0.5 * (1 - shrink) ** 2 * energy + alpha * l1 - shrink * inner
    return np.maximum(gaps, 0)
