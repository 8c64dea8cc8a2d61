"""Dictionaries whose atoms almost depend on each other, and signals for them; tests and proofs share them."""

from __future__ import annotations

import numpy as np

FAMILIES = ("low rank", "lines", "polynomials", "cosines", "near duplicates", "falling spectrum")
SIGNALS = ("noise", "mixtures", "walks")


def make_atoms(rng, family, n_atoms, n_features):
    """Unit atoms of a family, with entries that float32 holds exactly."""
    t = np.linspace(-1, 1, n_features)
    noise = rng.standard_normal((n_atoms, n_features))
    if family == "low rank":
        rank = int(rng.integers(1, 6))
        atoms = rng.standard_normal((n_atoms, rank)) @ rng.standard_normal((rank, n_features))
        atoms += 10 ** rng.uniform(-5, -0.5) * noise
    elif family == "lines":
        places, width = np.linspace(-1, 1, n_atoms)[:, None], 10 ** rng.uniform(-2.2, -0.2)
        atoms = np.exp(-0.5 * ((t - places) / width) ** 2) + 10 ** rng.uniform(-6, -2) * noise
    elif family == "polynomials":
        atoms = np.polynomial.legendre.legval(t, rng.standard_normal((4, n_atoms))) + 10 ** rng.uniform(-5, -1) * noise
    elif family == "cosines":
        atoms = np.cos(np.pi * np.outer(np.arange(n_atoms) * rng.uniform(0.1, 1), (t + 1) / 2))
    elif family == "near duplicates":
        few = rng.standard_normal((max(2, n_atoms // 3), n_features))
        atoms = few[rng.integers(0, len(few), n_atoms)] + 10 ** rng.uniform(-5, -1) * noise
    else:
        m = min(n_atoms, n_features)
        left, right = (np.linalg.qr(rng.standard_normal((size, m)))[0] for size in (n_atoms, n_features))
        atoms = (left * np.geomspace(1, 10 ** -rng.uniform(0, 5), m)) @ right.T
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    return atoms.astype(np.float32).astype(float)


def make_signals(rng, kind, atoms, n):
    """Signals that float32 holds exactly."""
    n_atoms, n_features = atoms.shape
    noise = rng.standard_normal((n, n_features))
    if kind == "noise":
        signals = noise
    elif kind == "mixtures":
        codes = rng.standard_normal((n, n_atoms)) * (rng.random((n, n_atoms)) < min(1, 5 / n_atoms))
        signals = codes @ atoms + 10 ** rng.uniform(-4, -1) * noise
    else:
        signals = np.cumsum(noise, axis=1)
    return signals.astype(np.float32).astype(float)


def condition(atoms):
    """Largest singular value over the smallest."""
    values = np.linalg.svd(atoms, compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0 else np.inf


def excess(X, atoms, codes, reference):
    """How much larger the error of `codes` is than that of `reference`: as shares of the signals and of itself."""
    mine, other = (float(np.linalg.norm(X - c.astype(float) @ atoms)) for c in (codes, reference))
    return (mine - other) / float(np.linalg.norm(X)), (mine - other) / other if other else 0.0
