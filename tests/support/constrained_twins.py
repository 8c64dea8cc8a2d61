"""Codes with constraints once more, slowly: non-negative pursuits and the lasso, by a solver of SciPy.

It is that of non-negative least squares. Pursuits solve such a problem after each choice. The lasso is solved by its
dual problem, the point nearest to the signal at which no correlation exceeds the penalty (Lawson and Hanson, chapter
23).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from support import twins
from support.compare import Problem

Matrix = twins.Matrix
Vector = twins.Vector


def solve(unit: Matrix, x: Vector) -> Vector:
    """Coefficients, none of them negative, that leave the smallest residual."""
    return np.asarray(nnls(unit.T, x, maxiter=1000 + 100 * len(unit))[0]) if len(unit) else np.zeros(0)


def worths(unit: Matrix, residual: Vector, chosen: list[int], pursuit: str) -> Vector:
    """The correlation of each atom (OMP), or how far the residual's norm falls (OLS); 0 where that takes a minus."""
    left = twins.remaining_norms(unit, chosen)
    usable = left > twins.guards(pursuit)[0]
    usable[chosen] = False
    worth = unit @ residual
    if pursuit == "ols":
        worth = worth / np.sqrt(np.where(usable, left, 1))
    return np.where(usable, np.maximum(worth, 0), 0)


def pursue_positive(
    xs: Sequence[Vector],
    units: Sequence[Matrix],
    limit: int,
    tol: float | None = None,
    pursuit: str = "omp",
    nothing: float = 1e-24,
) -> tuple[list[int], list[Vector], bool]:
    """Return the atoms of one sample, their coefficients for each of the views that share them, and whether any left.

    Where an atom leaves, which others are there when the next one is chosen is a matter of the method. A residual of at
    most `nothing`, as a share of the squared norm, is none.
    """
    energy = sum(float(x @ x) for x in xs)
    noise = twins.noise_share(sum(x.size for x in xs)) * np.sqrt(energy)
    enough = max(nothing * energy, -1 if tol is None else tol)
    chosen: list[int] = []
    found = [np.zeros(0) for _ in xs]
    residuals, any_left = list(xs), False
    for _ in range(50 * (limit + 16)):
        if len(chosen) >= limit or sum(float(r @ r) for r in residuals) <= enough:
            break
        if pursuit == "ols":
            worth = worths(units[0], residuals[0], chosen, pursuit)
        else:
            worth = np.sqrt(sum(np.maximum(unit @ r, 0) ** 2 for unit, r in zip(units, residuals, strict=True)))
            worth[chosen] = 0
        best = int(np.argmax(worth))
        heard = sum(max(unit[best] @ r, 0) ** 2 for unit, r in zip(units, residuals, strict=True))
        if worth[best] == 0 or heard <= noise**2:
            break
        taken = [*chosen, best]
        found = [solve(unit[taken], x) for unit, x in zip(units, xs, strict=True)]
        used = np.any([c > 0 for c in found], axis=0)
        chosen, found = [k for k, u in zip(taken, used, strict=True) if u], [c[used] for c in found]
        residuals = [x - c @ unit[chosen] for x, c, unit in zip(xs, found, units, strict=True)]
        any_left |= not used.all()
        if not used[-1]:
            break
    return chosen, found, any_left


def encode_positive(problem: Problem) -> Matrix:
    """Codes of a non-negative pursuit."""
    unit, norms = twins.unit_atoms(problem.atoms)
    codes = np.zeros((len(problem.signals), len(unit)))
    nothing = twins.nothing_left(problem.dtype)
    for code, x in zip(codes, problem.signals, strict=True):
        chosen, (found,), _ = pursue_positive([x], [unit], problem.limit, problem.tol, problem.pursuit, nothing)
        code[chosen] = found / norms[chosen]
    return codes


def fault_of_positive_code(problem: Problem, code: Vector, x: Vector) -> str | None:
    """Say why `code` cannot be the code of a non-negative pursuit, or None."""
    unit, norms = twins.unit_atoms(problem.atoms)
    size = float(np.linalg.norm(x))
    if not np.all(np.isfinite(code)):
        return "it is not finite"
    if np.any(code < 0):
        return "it is negative"
    support = np.flatnonzero(code)
    if len(support) > problem.limit:
        return f"it has {len(support)} nonzeros, more than {problem.limit}"
    residual = x - (code * norms) @ unit
    condition = np.linalg.cond(unit[support]) if len(support) else 1.0
    slack = problem.eps * size * (300 + 10 * max(condition, min(condition**2, 1e4)))
    own, least = np.linalg.norm(residual), np.linalg.norm(x - solve(unit[support], x) @ unit[support])
    if own > least + slack:
        return f"its residual is {own}, that of non-negative least squares {least}"
    if problem.tol is not None and own**2 <= problem.tol + slack * np.sqrt(problem.tol):
        return None
    if len(support) < problem.limit:
        worth = worths(unit, residual, list(support), "omp")
        if worth.max() > slack:
            return f"it stops at {len(support)} atoms, although atom {worth.argmax()} is worth {worth.max()}"
    return None


def assert_positive_codes_match(problem: Problem, codes, expected: Matrix, *, max_ties: float = 0.05) -> None:
    """Fail unless `codes` equals `expected`; where a few have other atoms, they are sound and about as good."""
    dense = codes.toarray() if hasattr(codes, "toarray") else np.asarray(codes)
    assert dense.shape == expected.shape, f"Expected shape {expected.shape}, got {dense.shape}."
    unit, norms = twins.unit_atoms(problem.atoms)
    others = 0
    for i, (code, wanted, x) in enumerate(zip(dense.astype(float), expected, problem.signals, strict=True)):
        fault = fault_of_positive_code(problem, code, x)
        assert fault is None, f"Code {i} is wrong: {fault}."
        size = float(np.linalg.norm(x))
        support = np.flatnonzero(wanted)
        if np.any((code != 0) != (wanted != 0)):
            others += 1
            mine, theirs = (np.linalg.norm(x - (c * norms) @ unit) for c in (code, wanted))
            assert mine <= theirs + 0.1 * size, f"Code {i} leaves {mine}, the expected one {theirs}."
        elif len(support):
            error = np.linalg.norm((code - wanted)[support] * norms[support])
            bound = 100 * problem.eps * np.linalg.cond(unit[support]) ** 2 * size
            assert error <= bound, f"Code {i} differs from the expected one by {error}; rounding explains {bound}."
    allowed = max_ties * len(dense) + 1
    assert others <= allowed, f"{others} of {len(dense)} codes chose other atoms; at most {allowed} may."


def encode_positive_support(
    Xs: Sequence[Matrix], dictionaries: Sequence[Matrix], limit: int, tol: float | None = None, weights=None
) -> list[Matrix]:
    """Non-negative simultaneous OMP: views share the atoms, and each has coefficients of its own."""
    scales = np.sqrt(np.ones(len(Xs)) if weights is None else np.asarray(weights, float))
    pairs = [twins.unit_atoms(np.asarray(D, float) * s) for D, s in zip(dictionaries, scales, strict=True)]
    units = [unit for unit, _ in pairs]
    codes = [np.zeros((len(Xs[0]), len(unit))) for unit in units]
    for i in range(len(Xs[0])):
        xs = [np.asarray(X[i], float) * s for X, s in zip(Xs, scales, strict=True)]
        chosen, found, _ = pursue_positive(xs, units, limit, tol)
        for code, c, (_, norms) in zip(codes, found, pairs, strict=True):
            code[i, chosen] = c / np.where(norms[chosen] > 0, norms[chosen], 1)
    return codes


# The lasso


def objective(x: Vector, atoms: Matrix, code: Vector, alpha: float) -> float:
    """Half the squared residual, and the penalty."""
    residual = x - code @ atoms
    return float(0.5 * residual @ residual + alpha * np.abs(code).sum())


def duality_gap(x: Vector, atoms: Matrix, code: Vector, alpha: float, positive: bool) -> float:
    """At least as much as the objective of `code` is above the smallest one; 0 for the smallest one."""
    residual = x - code @ atoms
    correlations = atoms @ residual
    top = float(correlations.max() if positive else np.abs(correlations).max())
    shrink = 1.0 if top <= alpha else alpha / top
    dual = shrink * residual @ x - 0.5 * shrink**2 * residual @ residual
    return objective(x, atoms, code, alpha) - float(dual)


def lasso_code(x: Vector, atoms: Matrix, alpha: float, positive: bool) -> Vector:
    """The code with the smallest objective."""
    size = float(np.linalg.norm(x))
    unit, norms = twins.unit_atoms(atoms)
    if size == 0 or not norms.any():
        return np.zeros(len(atoms))
    penalties = alpha / np.where(norms > 0, norms, 1) / size
    signed = unit if positive else np.vstack([unit, -unit])
    bounds = signed @ (x / size) - (penalties if positive else np.tile(penalties, 2))
    rows = np.vstack([-signed.T, bounds])
    found = nnls(rows, np.r_[np.zeros(x.size), 1.0], maxiter=100_000)[0]
    code = size * found / (1 - bounds @ found)
    code = code if positive else code[: len(atoms)] - code[len(atoms) :]
    return np.where(norms > 0, code / np.where(norms > 0, norms, 1), 0)


def fault_of_lasso_code(
    x: Vector, atoms: Matrix, code: Vector, alpha: float, positive: bool, allowed: float
) -> str | None:
    """Say why `code` does not minimise the objective, or None; `allowed` is a share of the squared norm of x."""
    if not np.all(np.isfinite(code)):
        return "it is not finite"
    if positive and np.any(code < 0):
        return "it is negative"
    mine, energy = objective(x, atoms, code, alpha), float(x @ x)
    if mine > 0.5 * energy * (1 + 1e-6):
        return f"its objective {mine} is worse than {0.5 * energy}, that of 0"
    least = objective(x, atoms, lasso_code(x, atoms, alpha, positive), alpha)
    if mine > least + allowed * energy:
        return f"its objective is {mine}, the smallest one {least}"
    return None


def assert_lasso(Xs, dictionaries, codes, alpha, *, positive, weights=None, allowed=None) -> None:
    """Fail unless every row of `codes` minimises the objective over the known entries of its sample."""
    dtype = np.result_type(np.float32, *Xs, *dictionaries)
    allowed = (1e-4 if dtype == np.float32 else 1e-10) if allowed is None else allowed
    weights = np.ones(len(Xs)) if weights is None else weights
    signals, atoms = twins.stack(Xs, weights), twins.stack(dictionaries, weights)
    dense = (codes.toarray() if hasattr(codes, "toarray") else np.asarray(codes)).astype(float)
    assert dense.shape == (len(signals), len(atoms)), f"Got codes of shape {dense.shape}."
    for i, (x, code) in enumerate(zip(signals, dense, strict=True)):
        known = ~np.isnan(x)
        if not known.any():
            assert not code.any(), f"Code {i} is that of a sample of which nothing is known, and not 0."
            continue
        fault = fault_of_lasso_code(x[known], atoms[:, known], code, alpha, positive, allowed)
        assert fault is None, f"Code {i} is wrong: {fault}."
