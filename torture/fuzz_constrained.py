"""Codes with constraints over coherent dictionaries: the lasso, and non-negative pursuits, against oracles.

No code is worse than none, negative where it must not be, or no number. The objective of the lasso is within 1e-4 of
the squared norm of the sample (float32; float64: 1e-9) of the smallest one. Over its own atoms, the error of a
non-negative pursuit is within a thousandth of the sample (float64: 1e-5) of the smallest one, and so is that over all
atoms where it ends before its limit; float32 is judged where the condition number, that of the atoms of the code as
well, is below 1e5.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from _main import Figures, main
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from coherent import FAMILIES, SIGNALS, condition, make_atoms, make_signals
from constrained_twins import lasso_code, objective
from masked_twins import LEAST_KNOWN, knock_out

from coupledict import sparse_encode

LASSO = {np.float32: 1e-4, np.float64: 1e-9}
PURSUITS = {np.float32: 1e-3, np.float64: 1e-5}
WELL_ENOUGH = 1e5
SAMPLES = 8


def least_error(atoms: np.ndarray, x: np.ndarray) -> float:
    """Return the smallest error of coefficients that are not negative."""
    return float(nnls(atoms.T, x, maxiter=100_000)[1]) if len(atoms) else float(np.linalg.norm(x))


def cut_down(atoms: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the known entries of atoms; those that keep next to nothing are no atoms any more."""
    shares = np.sum(atoms[:, known] ** 2, axis=1) / np.sum(atoms**2, axis=1)
    return np.where((shares > LEAST_KNOWN * shares.max())[:, None], atoms[:, known], 0)


def check_lasso(x: np.ndarray, atoms: np.ndarray, code: np.ndarray, alpha: float, positive: bool) -> float:
    """Return by which share of its squared norm the objective of a sample is too large."""
    mine, energy = objective(x, atoms, code, alpha), float(x @ x)
    if not mine <= 0.5 * energy * (1 + 1e-6):
        raise AssertionError("an objective is worse than that of no code")
    return (mine - objective(x, atoms, lasso_code(x, atoms, alpha, positive), alpha)) / energy


def check_pursuit(x: np.ndarray, atoms: np.ndarray, code: np.ndarray, limit: int) -> float:
    """Return by which share of its norm the error of a sample is too large."""
    support, size = np.flatnonzero(code), float(np.linalg.norm(x))
    error = float(np.linalg.norm(x - code @ atoms))
    if len(support) > limit:
        raise AssertionError("a code has too many atoms")
    if not error <= size * (1 + 1e-6):
        raise AssertionError("an error exceeds its sample")
    excess = error - least_error(atoms[support], x)
    if len(support) < min(limit, x.size):
        excess = max(excess, error - least_error(atoms, x))
    return excess / size


def run(count: int, seed: int) -> Figures:
    """Code `count` problems of 8 samples, a fifth of them with missing entries."""
    rng = np.random.default_rng(seed)
    worst: dict[str, float] = {}
    nonzeros, judged = 0, 0
    for number in range(count):
        family, pursuit = FAMILIES[number % len(FAMILIES)], str(rng.choice(["lasso", "omp", "ols"]))
        atoms = make_atoms(rng, family, int(rng.integers(3, 120)), int(rng.integers(2, 80)))
        X = make_signals(rng, rng.choice(SIGNALS), atoms, SAMPLES)
        if rng.random() < 0.3:
            atoms, X = np.abs(atoms), np.abs(X)
        if rng.random() < 0.2:
            atoms = (atoms * 10.0 ** rng.uniform(-3, 3, (len(atoms), 1))).astype(np.float32).astype(float)
        (X,) = knock_out(rng, [X], 0.3 if rng.random() < 0.2 else 0.0)
        dtype = [np.float32, np.float64][int(rng.integers(2))]
        limit, positive = int(rng.integers(1, min(*atoms.shape, 40) + 1)), pursuit != "lasso" or rng.random() < 0.5
        alpha = float(10 ** rng.uniform(-6, 0.1) * np.abs(np.nan_to_num(X) @ atoms.T).max())
        what = f"{family}, {atoms.shape}, {dtype.__name__}, {pursuit}, problem {number} of seed {seed}"
        options = {"alpha": alpha} if pursuit == "lasso" else {"n_nonzero_coefs": limit}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*no known entry")
            codes = sparse_encode(
                X.astype(dtype), atoms.astype(dtype), pursuit=pursuit, positive_code=positive, missing="nan",
                **options,
            ).toarray().astype(float)  # fmt: skip
        if not np.isfinite(codes).all() or (positive and codes.min() < 0):
            raise AssertionError(f"A code is negative, or no number: {what}.")
        nonzeros += int(np.count_nonzero(codes))
        for x, code in zip(X, codes, strict=True):
            known = ~np.isnan(x)
            if not x[known].any():
                continue
            cut = cut_down(atoms, known)
            try:
                if pursuit == "lasso":
                    excess, allowed = check_lasso(x[known], cut, code, alpha, positive), LASSO[dtype]
                else:
                    excess, allowed = check_pursuit(x[known], cut, code, limit), PURSUITS[dtype]
            except AssertionError as error:
                raise AssertionError(f"{str(error).capitalize()}: {what}.") from None
            if dtype == np.float32 and pursuit != "lasso":
                norms = np.linalg.norm(cut, axis=1, keepdims=True)
                unit = cut / np.where(norms > 0, norms, 1)
                if max(condition(unit), condition(unit[code != 0]) if code.any() else 1.0) >= WELL_ENOUGH:
                    continue
            judged += 1
            if excess > allowed:
                raise AssertionError(f"{excess:.2g} of a sample is left that need not be: {what}.")
            name = f"largest excess, {pursuit}, {dtype.__name__}"
            worst[name] = max(worst.get(name, 0.0), float(f"{excess:.2g}"))
    return {"cases": count, "judged samples": judged, "nonzeros": nonzeros, **dict(sorted(worst.items()))}


if __name__ == "__main__":
    main(run, 2000)
