"""Non-negative OMP and OLS: their time beside the ordinary ones, and their error beside non-negative least squares."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from _data import Array
from _main import Options, join, table
from _nonnegative_problems import N_JOBS, learned_atoms, patches
from _timing import Entry, measure
from scipy.optimize import nnls
from sklearn.linear_model import orthogonal_mp_gram

from coupledict import sparse_encode

LIMITS = (5, 10, 20)


def run(options: Options) -> list[dict[str, Any]]:
    """Code patches with and without negative coefficients, with 5, 10 and 20 atoms."""
    n_samples, n_refitted = (500, 100) if options.quick else (10_000, 1_000)
    X = patches(options.data, "second", 3 * n_samples)
    atoms = learned_atoms(X[n_samples:], 256)
    X = X[:n_samples]
    found: list[dict[str, Any]] = []
    for limit in LIMITS:
        rival = _refitted(X[:n_refitted], atoms, limit)
        pursuits: tuple[Literal["omp", "ols"], ...] = ("omp", "ols")
        for pursuit in pursuits:
            for dtype in (np.float64, np.float32):
                row = _time(X.astype(dtype), atoms.astype(dtype), limit, pursuit, 1 if options.quick else 7)
                codes = row.pop("codes")[:n_refitted].astype(np.float64)
                errors = np.sum((X[:n_refitted] - codes @ atoms) ** 2, axis=1)
                above = errors > rival * (1 + 1e-6) + 1e-9
                row |= {"error": float(errors.mean()), "rival_error": float(rival.mean()), "above": int(above.sum())}
                found.append(row | {"compared": n_refitted})
    return found


def report(found: list[dict[str, Any]]) -> str:
    """Return the table."""
    rows = [
        [
            *(str(row[key]) for key in ("pursuit", "T", "dtype")),
            *(f"{row[key]:.4g}" for key in ("plain_ms", "ms")),
            f"{row['ratio']:.2f}",
            f"{row['nonzeros']:.1f}",
            *(f"{row[key]:.1f}" for key in ("error", "rival_error")),
            f"{row['above']} of {row['compared']}",
        ]
        for row in found
    ]
    heads = ["pursuit", "T", "type", "any sign, ms", "positive, ms", "ratio", "nonzeros", "error", "NNLS", "above it"]
    return join(
        table(heads, rows),
        "NNLS: scipy's nnls over the atoms that scikit-learn's OMP chose; errors are squared, per sample.",
    )


def _time(X: Array, atoms: Array, limit: int, pursuit: Literal["omp", "ols"], repeats: int) -> dict[str, Any]:
    def code(positive: bool) -> Any:
        return sparse_encode(X, atoms, n_nonzero_coefs=limit, pursuit=pursuit, positive_code=positive, n_jobs=N_JOBS)

    entries = [Entry("any sign", lambda: code(False), N_JOBS), Entry("positive", lambda: code(True), N_JOBS)]
    plain, positive = measure(entries, repeats=repeats)
    row: dict[str, Any] = {"pursuit": pursuit, "T": limit, "dtype": X.dtype.name, "codes": positive.result}
    row |= {"plain_ms": 1e3 * plain.median, "ms": 1e3 * positive.median, "ratio": positive.median / plain.median}
    return row | {"nonzeros": positive.result.nnz / len(X)}


def _refitted(X: Array, atoms: Array, limit: int) -> Array:
    """Return squared errors of non-negative least squares over the atoms that OMP chose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # flat patches
        codes = orthogonal_mp_gram(atoms @ atoms.T, (X @ atoms.T).T, n_nonzero_coefs=limit).T
    errors = np.empty(len(X))
    for i, (x, code) in enumerate(zip(X, codes, strict=True)):
        chosen = atoms[code != 0]
        errors[i] = nnls(chosen.T, x)[1] ** 2 if len(chosen) else x @ x
    return errors
