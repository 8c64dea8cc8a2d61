"""The lasso, with and without negative coefficients: time and objective beside SPAMS and scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from _data import Array
from _main import Options, join, table
from _nonnegative_problems import HAS_SPAMS, N_JOBS, lasso_objective, learned_atoms, patches, penalty_for
from _timing import Entry, measure
from sklearn import decomposition

from coupledict import sparse_encode

#: Side of the patches, atoms, samples.
PROBLEMS = ((8, 256, 10_000), (16, 1024, 4_000))
NONZEROS = (5, 10, 20)
LARS_SAMPLES = 100


def run(options: Options) -> list[dict[str, Any]]:
    """Code patches with penalties that give about 5, 10 and 20 nonzeros a sample."""
    quick = options.quick
    found: list[dict[str, Any]] = []
    for side, n_atoms, n_samples in PROBLEMS[:1] if quick else PROBLEMS:
        n_samples = n_samples // 20 if quick else n_samples
        X = patches(options.data, "second", 3 * n_samples, side=side)
        atoms = learned_atoms(X[n_samples:], n_atoms)
        for nonzeros in NONZEROS[1:2] if quick else NONZEROS:
            for positive in (False, True):
                alpha = penalty_for(X[:300], atoms, nonzeros, positive=positive)
                lars_seconds = _time_lars(X[: LARS_SAMPLES // 5 if quick else LARS_SAMPLES], atoms, alpha, positive)
                for dtype in (np.float64, np.float32):
                    row = _time_coding(
                        X[:n_samples].astype(dtype), atoms.astype(dtype), alpha, positive, options.repeats
                    )
                    lars = lars_seconds * n_samples if dtype is np.float64 else np.nan
                    row |= {"lars_ms": 1e3 * lars, "lars_ratio": 1e3 * lars / row["ms"]}
                    found.append({"features": side**2, "atoms": n_atoms, "positive": positive} | row)
    return found


def _time_coding(X: Array, atoms: Array, alpha: float, positive: bool, repeats: int) -> dict[str, Any]:
    def ours() -> Any:
        return sparse_encode(X, atoms, pursuit="lasso", alpha=alpha, positive_code=positive, n_jobs=N_JOBS)

    entries = [Entry("ours", ours, N_JOBS)]
    if HAS_SPAMS:
        import spams

        columns, D = np.asfortranarray(X.T), np.asfortranarray(atoms.T)
        entries.append(
            Entry(
                "SPAMS",
                lambda: spams.lasso(columns, D, lambda1=alpha, mode=2, pos=positive, numThreads=N_JOBS).T,
                N_JOBS,
            )
        )
    timings = measure(entries, repeats=repeats, at_least=min(5, repeats))
    codes = timings[0].result
    objective = lasso_objective(X, codes, atoms, alpha)
    row: dict[str, Any] = {"dtype": X.dtype.name, "alpha": alpha, "nonzeros": codes.nnz / len(X), "n_samples": len(X)}
    row |= {"ms": 1e3 * timings[0].median, "objective": objective, "spams_ms": np.nan, "ratio": np.nan, "gap": np.nan}
    if HAS_SPAMS:
        theirs = lasso_objective(X, timings[1].result.tocsr(), atoms, alpha)
        row |= {"spams_ms": 1e3 * timings[1].median, "ratio": timings[1].median / timings[0].median}
        row |= {"gap": objective / theirs - 1}
    return row


def _time_lars(X: Array, atoms: Array, alpha: float, positive: bool) -> float:
    """Return seconds per sample of ``lasso_lars`` on one core, halved: as if a second one shared the work perfectly."""

    def call() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns where atoms are close to each other
            return decomposition.sparse_encode(X, atoms, algorithm="lasso_lars", alpha=alpha, positive=positive)

    return measure([Entry("lasso_lars", call, 1)], repeats=3, at_least=3)[0].median / len(X) / N_JOBS


def report(found: list[dict[str, Any]]) -> str:
    """Return the table."""
    rows = []
    for row in found:
        title = [f"{row['atoms']} x {row['features']}", "positive" if row["positive"] else "any sign", row["dtype"]]
        numbers = [f"{row['nonzeros']:.1f}", *(f"{row[key]:.4g}" for key in ("ms", "spams_ms"))]
        numbers += [f"{row['ratio']:.1f}", f"{row['gap']:+.1e}", f"{row['lars_ms']:.4g}", f"{row['lars_ratio']:.0f}"]
        rows.append([*title, *numbers])
    heads = ["atoms", "codes", "type", "nonzeros", "ours, ms", "SPAMS, ms", "ratio", "objective", "lars, ms", "ratio"]
    return join(
        table(heads, rows, left=3),
        "objective: ours over SPAMS', less 1; in float64.",
        "lars: scikit-learn's lasso_lars on a hundred samples, scaled up to all, and halved for two cores.",
    )
