"""What the parts of the benchmark of non-negative codes share: patches, atoms, penalties and the lasso objective."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array

from coupledict import DictionaryLearning, sparse_encode
from coupledict.experiments.sources import Half, distinct_patches, load_images

N_JOBS = 2
HAS_SPAMS = importlib.util.find_spec("spams") is not None
NO_SPAMS = "SPAMS is not installed: its columns are left out. To compare with it: pip install spams-bin"


def patches(data: Path | None, half: Half, count: int, *, side: int = 8, seed: int = 3) -> Array:
    """Return centred patches of the Lytro images, or of bundled ones."""
    images, _ = load_images(data, half=half)
    return distinct_patches([images], count, side=side, seed=seed)[0]


def learned_atoms(X: Array, n_atoms: int) -> Array:
    """Return atoms of norm 1 that were learned by OMP with ten atoms a sample: the start is the same for all coders."""
    learner = DictionaryLearning(n_atoms, n_nonzero_coefs=10, max_iter=10, random_state=0, n_jobs=N_JOBS).fit(X)
    atoms = np.asarray(learner.components_, np.float64)
    return np.asarray(atoms / np.linalg.norm(atoms, axis=1, keepdims=True))


def penalty_for(X: Array, atoms: Array, nonzeros: float, *, positive: bool, steps: int = 14) -> float:
    """Find by bisection the penalty with which codes have that many nonzeros, on average."""
    low, high = 0.0, float(np.max(X @ atoms.T))
    for _ in range(steps):
        middle = 0.5 * (low + high)
        codes = sparse_encode(X, atoms, pursuit="lasso", alpha=middle, positive_code=positive, n_jobs=N_JOBS)
        low, high = (middle, high) if codes.nnz > nonzeros * len(X) else (low, middle)
    return high


def lasso_objective(X: Array, codes: Any, atoms: Array, alpha: float) -> float:
    """Return the mean of ``0.5 * ||x - c D||^2 + alpha * ||c||_1``, computed in float64."""
    atoms = np.asarray(atoms, np.float64)
    codes = codes.astype(np.float64)
    residual = np.asarray(X, np.float64) - codes @ atoms
    return float((0.5 * np.sum(residual**2) + alpha * abs(codes).sum()) / len(X))
