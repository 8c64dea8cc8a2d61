"""Awkward arrays from a seed: the samples, dictionaries and layouts that break numerical code."""

from __future__ import annotations

import math

import numpy as np

SAMPLES = ["gaussian", "rounded", "zeros", "constant", "atoms", "mixtures", "spike", "near atoms"]
ATOMS = [
    "gaussian",
    "rounded",
    "duplicates",
    "near duplicates",
    "rank one",
    "hilbert",
    "smooth",
    "some zero",
    "identity",
]
LAYOUTS = ["plain", "fortran", "strided", "reversed", "read-only", "unaligned", "swapped", "broadcast"]
DTYPES = [np.float32, np.float64]
NARROW = [np.float16, np.int8, np.uint16, np.int32, np.bool_]


def make_atoms(rng, kind, n_atoms, n_features):
    """Return atoms of about norm 1, with the fault that `kind` names."""
    D = rng.standard_normal((n_atoms, n_features)) / math.sqrt(n_features)
    half = (n_atoms + 1) // 2
    if kind == "rounded":
        return np.round(D * math.sqrt(n_features))
    if kind == "duplicates":
        D[half:] = D[: n_atoms - half] * rng.choice([-1.0, 1.0, 2.0], (n_atoms - half, 1))
    if kind == "near duplicates":
        D[half:] = D[: n_atoms - half] + 10.0 ** rng.uniform(-17, -2) * D[half:]
    if kind == "rank one":
        D = D[:, :1] * D[:1] + 10.0 ** rng.uniform(-17, -5) * D
    if kind == "hilbert":
        return 1.0 / (1.0 + np.arange(n_atoms)[:, None] + np.arange(n_features))
    if kind == "smooth":
        phase = np.linspace(0, np.pi, n_features)
        D = np.cos(np.linspace(0, rng.uniform(0.5, 4), n_atoms)[:, None] * phase)
    if kind == "some zero":
        D[rng.random(n_atoms) < 0.4] = 0
    if kind == "identity":
        return np.eye(n_atoms, n_features, rng.integers(-2, 3))
    return D


def make_samples(rng, kind, n, D):
    """Return samples of about norm 1 that are awkward for the atoms D."""
    n_atoms, n_features = D.shape
    X = rng.standard_normal((n, n_features)) / math.sqrt(n_features)
    chosen = D[rng.integers(0, n_atoms, n)]
    if kind == "rounded":
        return np.round(2 * X * math.sqrt(n_features))
    if kind == "zeros":
        return np.where(rng.random((n, 1)) < 0.5, X, rng.choice([0.0, -0.0]))
    if kind == "constant":
        return np.full_like(X, rng.standard_normal())
    if kind == "atoms":
        return chosen * rng.standard_normal((n, 1))
    if kind == "mixtures":
        return (rng.standard_normal((n, n_atoms)) * (rng.random((n, n_atoms)) < 0.2)) @ D
    if kind == "spike":
        X[:, rng.integers(n_features)] *= 10.0 ** rng.uniform(3, 12)
        return X / np.abs(X).max(initial=1.0)
    if kind == "near atoms":
        return chosen + 10.0 ** rng.uniform(-16, -3) * X
    return X


def fit_range(array, dtype):
    """Return the array in a number type, with what is too large for it made as large as can be."""
    if np.issubdtype(dtype, np.floating):
        top = np.finfo(dtype).max
        return np.clip(array, -float(top), float(top)).astype(dtype)
    if dtype == np.bool_:
        return array > 0
    limits = np.iinfo(dtype)
    return np.clip(np.round(array), limits.min, limits.max).astype(dtype)


def lay_out(array, layout):
    """Return an array of the same values that lies in memory in another way."""
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "strided":
        wide = np.zeros((2 * array.shape[0], 3 * array.shape[1] + 1), array.dtype)
        view = wide[::2, 1::3]
        view[...] = array
        return view
    if layout == "reversed":
        return np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
    if layout == "read-only":
        array = array.copy()
        array.flags.writeable = False
        return array
    if layout == "unaligned":
        memory = bytearray(array.nbytes + 1)
        view = np.frombuffer(memory, array.dtype, array.size, offset=1).reshape(array.shape)
        view[...] = array
        return view
    if layout == "swapped":
        return array.astype(array.dtype.newbyteorder())
    if layout == "broadcast" and array.shape[0]:
        return np.broadcast_to(array[:1], array.shape)
    return array
