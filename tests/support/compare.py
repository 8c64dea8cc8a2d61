"""Compare sparse codes where they are defined: greedy choices may differ at near-ties, and only there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from support import twins


@dataclass(frozen=True)
class Problem:
    """A coding problem in joint form: what :func:`coupledict.sparse_encode` was asked for."""

    signals: np.ndarray
    atoms: np.ndarray
    limit: int
    tol: float | None
    pursuit: str
    dtype: np.dtype

    @classmethod
    def of(cls, Xs, dictionaries, *, n_nonzero_coefs=None, tol=None, pursuit="omp", view_weights=None):
        dtype = np.result_type(np.float32, *(np.asarray(a).dtype for a in (*Xs, *dictionaries)))
        weights = np.ones(len(Xs)) if view_weights is None else view_weights
        signals, atoms = twins.stack(Xs, weights), twins.stack(dictionaries, weights)
        if n_nonzero_coefs is None:
            n_nonzero_coefs = atoms.shape[1] if tol is not None else max(1, atoms.shape[1] // 10)
        return cls(signals, atoms, min(n_nonzero_coefs, *atoms.shape), tol, pursuit, dtype)

    @property
    def eps(self) -> float:
        return float(np.finfo(self.dtype).eps)


def fault_of_code(problem: Problem, code: np.ndarray, x: np.ndarray) -> str | None:
    """Say why `code` is not a greedy code of signal `x`, or None if it is one up to rounding.

    The order of the choices is not known from a code. It is rebuilt: of the atoms of the code that remain, the best
    one must at every step be as good as the best of the whole dictionary.
    """
    unit, _ = twins.unit_atoms(problem.atoms)
    size = float(np.linalg.norm(x))
    slack = 300 * problem.eps * size
    if not np.all(np.isfinite(code)):
        return "it is not finite"
    support = list(np.flatnonzero(code))
    if len(support) > problem.limit:
        return f"it has {len(support)} nonzeros, more than {problem.limit}"
    chosen: list[int] = []
    residual, least = x, 1.0
    while len(chosen) < len(support):
        if problem.tol is not None and residual @ residual < problem.tol - slack * np.sqrt(problem.tol):
            return f"it goes on after tol was reached with {len(chosen)} atoms"
        guards = twins.guards(problem.pursuit)
        worth = twins.scores(unit, residual, chosen, problem.pursuit, 0.5 * guards[-1])
        rest = [k for k in support if k not in chosen]
        best = max(rest, key=lambda k: worth[k])
        mine, worth = worth[best], twins.scores(unit, residual, chosen, problem.pursuit, 2 * guards[0])
        # Rounding grows with the worst pivot so far; the fall of OLS also divides by what is left of the atom.
        left = twins.remaining_norms(unit, chosen)
        blur = slack / max(least, problem.eps)
        if problem.pursuit == "ols":
            blur /= max(min(left[best], left[int(np.argmax(worth))]), problem.eps)
        if mine < worth.max() - blur:
            return f"step {len(chosen)} takes atom {best}, worth {mine}, not {worth.argmax()}, worth {worth.max()}"
        least = min(least, left[best])
        chosen.append(best)
        coefficients = np.linalg.lstsq(unit[chosen].T, x, rcond=None)[0]
        residual = x - coefficients @ unit[chosen]
    given = x - code @ problem.atoms
    # The fast kernels work from inner products of atoms, so rounding grows with the square of the condition number, to
    # where the careful one takes over. Large coefficients have large rounding errors themselves.
    condition = np.linalg.cond(unit[support]) if support else 1.0
    growth = max(condition, min(condition**2, 1e4))
    if np.linalg.norm(given) > np.linalg.norm(residual) + slack + 10 * problem.eps * growth * size:
        return f"its residual is {np.linalg.norm(given)}, that of least squares {np.linalg.norm(residual)}"
    if len(support) < problem.limit and not (
        problem.tol is not None and residual @ residual <= problem.tol + slack * np.sqrt(problem.tol)
    ):
        worth = twins.scores(unit, residual, chosen, problem.pursuit, 2 * twins.PIVOT_GUARD)
        if worth.max() > slack:
            return f"it stops at {len(support)} atoms, although atom {worth.argmax()} is worth {worth.max()}"
    return None


def assert_greedy(problem: Problem, codes) -> None:
    """Fail unless every row of `codes` is a greedy code of its signal."""
    dense = codes.toarray() if hasattr(codes, "toarray") else np.asarray(codes)
    for i, (code, x) in enumerate(zip(dense.astype(float), problem.signals, strict=True)):
        fault = fault_of_code(problem, code, x)
        assert fault is None, f"Code {i} is wrong: {fault}."


def assert_codes_match(problem: Problem, codes, expected, *, max_ties: float = 0.05) -> None:
    """Fail unless `codes` equals `expected`; rows may choose other atoms only at near-ties, and only a few may."""
    dense = codes.toarray() if hasattr(codes, "toarray") else np.asarray(codes)
    dense, expected = dense.astype(float), np.asarray(expected, float)
    assert dense.shape == expected.shape, f"Expected shape {expected.shape}, got {dense.shape}."
    other = np.flatnonzero(np.any((dense != 0) != (expected != 0), axis=1))
    for i in other:
        fault = fault_of_code(problem, dense[i], problem.signals[i])
        assert fault is None, f"Code {i} has other atoms than expected, and not because of a tie: {fault}."
    allowed = max_ties * len(dense) + 1
    assert len(other) <= allowed, f"{len(other)} of {len(dense)} codes chose other atoms; at most {allowed} may."
    same = np.setdiff1d(np.arange(len(dense)), other)
    unit, norms = twins.unit_atoms(problem.atoms)
    for i in same:
        support = np.flatnonzero(expected[i])
        if support.size == 0:
            continue
        condition = np.linalg.cond(unit[support])
        error = np.linalg.norm((dense[i] - expected[i])[support] * norms[support])
        bound = 100 * problem.eps * condition**2 * np.linalg.norm(problem.signals[i])
        assert error <= bound, f"Code {i} differs from the expected one by {error}; rounding explains {bound}."
