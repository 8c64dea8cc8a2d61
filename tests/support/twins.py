"""The kernels once more, slowly: plain NumPy that reads like the paper and is the oracle of the tests.

Nothing here is clever. Views are stacked, residuals are computed from their definition, and coefficients come from
``numpy.linalg.lstsq``. All work is done in float64; `dtype` only sets where rounding error begins, so that the twin
stops where a kernel of that number type does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # tests/kernels_alone.py runs without the package
    from coupledict.foundation.choices import Pursuit

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


PIVOT_GUARD = 2.0**-84  # share of its squared norm that an atom must have outside the span of the chosen ones
OLS_GUARD = 1e-13  # OLS, whose rounding error grows with 1 / pivot, takes smaller pivots only in need


def guards(pursuit: Pursuit) -> tuple[float, ...]:
    """Guards to try in turn."""
    return (OLS_GUARD, PIVOT_GUARD) if pursuit == "ols" else (PIVOT_GUARD,)


def noise_share(n_features: int) -> float:
    """Size of a correlation, relative to the signal's norm, below which it is taken for rounding error."""
    return float(np.finfo(float).eps) * (8 + 0.5 * float(np.sqrt(n_features)))


def nothing_left(dtype: npt.DTypeLike) -> float:
    """Squared residual, relative to the squared norm of the signal, that is taken for rounding error."""
    return 1e-11 if dtype == np.float32 else 1e-24


def stack(arrays: Sequence[npt.ArrayLike], view_weights: npt.ArrayLike) -> Matrix:
    """Put views side by side, view v times sqrt(w_v): the joint signals, or the joint atoms, of the paper's eq. 2."""
    weights = np.asarray(view_weights, float)
    return np.hstack([np.asarray(a, float) * np.sqrt(w) for a, w in zip(arrays, weights, strict=True)])


def unit_atoms(atoms: Matrix) -> tuple[Matrix, Vector]:
    """Return atoms of norm 1 (zero atoms stay zero) and their norms."""
    norms = np.linalg.norm(atoms, axis=1)
    return atoms / np.where(norms > 0, norms, 1)[:, None], norms


def remaining_norms(unit: Matrix, chosen: list[int]) -> Vector:
    """Squared norm of what each atom has outside the span of the chosen ones."""
    left = unit.copy()
    if chosen:
        basis, _ = np.linalg.qr(unit[chosen].T)
        for _ in range(2):
            left -= (left @ basis) @ basis.T
    squared: Vector = np.sum(left**2, axis=1)
    return squared


def scores(unit: Matrix, residual: Vector, chosen: list[int], pursuit: Pursuit, guard: float) -> Vector:
    """How much each atom would be worth (eq. 6): |correlation| for OMP, the fall of the residual's norm for OLS."""
    left = remaining_norms(unit, chosen)
    usable = left > guard
    usable[chosen] = False
    correlation = np.abs(unit @ residual)
    if pursuit == "ols":
        correlation = correlation / np.sqrt(np.where(usable, left, 1))
    return np.where(usable, correlation, 0)


def encode_signal(
    x: Vector, unit: Matrix, n_nonzero: int, tol: float | None, pursuit: Pursuit, dtype: npt.DTypeLike
) -> tuple[list[int], Vector]:
    """Return the atoms chosen for one joint signal, in order, and their coefficients (eq. 5 to 8)."""
    noise = noise_share(x.size) * float(np.linalg.norm(x))
    chosen: list[int] = []
    coefficients: Vector = np.zeros(0)
    residual = x
    enough = max(nothing_left(dtype) * float(x @ x), -1 if tol is None else tol)
    while len(chosen) < n_nonzero and residual @ residual > enough:
        for guard in guards(pursuit):
            worth = scores(unit, residual, chosen, pursuit, guard)
            best = int(np.argmax(worth))
            if worth[best] > 0 and abs(unit[best] @ residual) > noise:
                break
        else:
            break
        chosen.append(best)
        coefficients = np.asarray(np.linalg.lstsq(unit[chosen].T, x, rcond=None)[0], float)
        residual = x - coefficients @ unit[chosen]
    return chosen, coefficients


def sparse_encode(
    Xs: Sequence[npt.ArrayLike],
    dictionaries: Sequence[npt.ArrayLike],
    *,
    n_nonzero_coefs: int | None = None,
    tol: float | None = None,
    pursuit: Pursuit = "omp",
    view_weights: npt.ArrayLike | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> npt.NDArray[Any]:
    """Twin of :func:`coupledict.sparse_encode` for a list of views that are all present; returns dense codes."""
    weights = np.ones(len(Xs)) if view_weights is None else np.asarray(view_weights, float)
    signals, atoms = stack(Xs, weights), stack(dictionaries, weights)
    unit, norms = unit_atoms(atoms)
    if n_nonzero_coefs is None:
        n_nonzero_coefs = unit.shape[1] if tol is not None else max(1, unit.shape[1] // 10)
    limit = min(n_nonzero_coefs, *unit.shape)
    codes = np.zeros((signals.shape[0], atoms.shape[0]))
    for code, x in zip(codes, signals, strict=True):
        chosen, coefficients = encode_signal(x, unit, limit, tol, pursuit, dtype)
        code[chosen] = coefficients / norms[chosen]
    return codes


def encode_signal_support(
    xs: Sequence[Vector], units: Sequence[Matrix], n_nonzero: int, tol: float | None, dtype: npt.DTypeLike
) -> tuple[list[int], list[Vector]]:
    """Return the atoms that the views of one signal share, in order, and the coefficients of each view.

    Simultaneous OMP: the atom with the largest sum over the views of squared correlations comes next, and each view
    has its own least squares. In a view where an atom depends on those before, its coefficient is 0.
    """
    n_features = sum(x.size for x in xs)
    noise = noise_share(n_features) ** 2 * sum(float(x @ x) for x in xs)
    chosen: list[int] = []
    own: list[list[int]] = [[] for _ in xs]  # the chosen atoms that are independent in each view
    coefficients = [np.zeros(0) for _ in xs]
    residuals = list(xs)
    enough = max(nothing_left(dtype) * sum(float(x @ x) for x in xs), -1 if tol is None else tol)
    while len(chosen) < n_nonzero and sum(float(r @ r) for r in residuals) > enough:
        left = [remaining_norms(unit, mine) for unit, mine in zip(units, own, strict=True)]
        usable = np.any([norms > PIVOT_GUARD for norms in left], axis=0)
        usable[chosen] = False
        worth = np.where(usable, sum((unit @ r) ** 2 for unit, r in zip(units, residuals, strict=True)), 0)
        best = int(np.argmax(worth))
        if worth[best] <= noise:
            break
        chosen.append(best)
        for v, (unit, x) in enumerate(zip(units, xs, strict=True)):
            if left[v][best] > PIVOT_GUARD:
                own[v].append(best)
            solved = np.asarray(np.linalg.lstsq(unit[own[v]].T, x, rcond=None)[0], float)
            residuals[v] = x - solved @ unit[own[v]]
            coefficients[v] = np.array([solved[own[v].index(k)] if k in own[v] else 0.0 for k in chosen])
    return chosen, coefficients


def sparse_encode_support(
    Xs: Sequence[npt.ArrayLike],
    dictionaries: Sequence[npt.ArrayLike],
    *,
    n_nonzero_coefs: int,
    tol: float | None = None,
    view_weights: npt.ArrayLike | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> list[npt.NDArray[Any]]:
    """Code views that share their atoms but not their coefficients; returns dense codes, one array a view."""
    scales = np.sqrt(np.ones(len(Xs)) if view_weights is None else np.asarray(view_weights, float))
    signals = [np.asarray(X, float) * scale for X, scale in zip(Xs, scales, strict=True)]
    pairs = [unit_atoms(np.asarray(d, float) * scale) for d, scale in zip(dictionaries, scales, strict=True)]
    units = [unit for unit, _ in pairs]
    limit = min(n_nonzero_coefs, *(min(unit.shape) for unit in units))
    codes = [np.zeros((signals[0].shape[0], unit.shape[0])) for unit in units]
    for i in range(signals[0].shape[0]):
        chosen, coefficients = encode_signal_support([x[i] for x in signals], units, limit, tol, dtype)
        for code, values, (_, norms) in zip(codes, coefficients, pairs, strict=True):
            code[i, chosen] = values / np.where(norms[chosen] > 0, norms[chosen], 1)
    return codes
