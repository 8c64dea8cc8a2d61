"""The dictionary updates once more, slowly: plain NumPy that reads like the paper and is the oracle of the tests.

Rows are samples: views ``X_v`` are (n_samples, n_features_v), dictionaries ``D_v`` (n_components, n_features_v), codes
``C`` dense (n_samples, n_components), weights ``w`` (n_views,). The objective is ``sum_v w_v ||X_v - C D_v||_F^2``.

Nothing here is clever. An error is computed from its definition whenever it is needed, for every atom anew, although
the fast versions repair one residual instead. All work is done in float64, and no argument is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from support.twins import Matrix, Vector, sparse_encode, stack

Normalize: TypeAlias = Literal["views", "joint"]
Unused: TypeAlias = Literal["keep", "mean"]
Update: TypeAlias = Literal["sequential", "statistics", "ksvd", "mod"]

# One vector for every view: an atom, or what may become one.
Atom: TypeAlias = list[Vector]
# The mean code and the mean sample of every view.
Means: TypeAlias = tuple[Vector, list[Vector]]
# Errors of an atom's users, their coefficients, the old atom and the weights; gives the new atom, of any norm.
NewAtom: TypeAlias = Callable[[list[Matrix], Vector, Atom, Vector], Atom]


def float_copy(array: npt.ArrayLike) -> Matrix:
    """Return a float64 copy, so that the caller's array stays as it is."""
    return np.array(array, dtype=np.float64)


def float_copies(arrays: Iterable[npt.ArrayLike]) -> list[Matrix]:
    """Return float64 copies of a list with one array per view."""
    return [float_copy(a) for a in arrays]


def objective(
    Xs: Sequence[npt.ArrayLike], dictionaries: Sequence[npt.ArrayLike], codes: npt.ArrayLike, weights: npt.ArrayLike
) -> float:
    """Return ``sum_v w_v ||X_v - C D_v||_F^2``, what the paper's eq. 1 minimises, with weights and for any views."""
    residuals = [float_copy(X) - float_copy(codes) @ float_copy(D) for X, D in zip(Xs, dictionaries, strict=True)]
    return float(np.sum(stack(residuals, weights) ** 2))


def take(dictionaries: list[Matrix], t: int) -> Atom:
    """Return a copy of atom t."""
    return [D[t].copy() for D in dictionaries]


def put(dictionaries: list[Matrix], t: int, atom: Atom) -> None:
    """Write atom t into the dictionaries."""
    for D, d in zip(dictionaries, atom, strict=True):
        D[t] = d


def squared_norm(atom: Atom, weights: Vector) -> float:
    """Return ``sum_v w_v ||d_v||^2``: the squared norm of the stacked atom."""
    return float(sum(w * (d @ d) for w, d in zip(weights, atom, strict=True)))


def normalized(new: Atom, old: Atom, weights: Vector, normalize: Normalize) -> Atom:
    """Return the new atom with norm 1 in every view, or as a whole; where it is zero it has no direction: keep the old.

    A view whose part is zero keeps its old part under ``"views"`` only. Under ``"joint"`` zero is a good answer for a
    view, and the old atom stays only when the new one is zero as a whole.
    """
    if normalize == "joint":
        norm = np.sqrt(squared_norm(new, weights))
        return [d / norm for d in new] if norm > 0 else old
    norms = [float(np.linalg.norm(d)) for d in new]
    return [d / norm if norm > 0 else kept for d, norm, kept in zip(new, norms, old, strict=True)]


def without_negative(atom: Atom, positive: Sequence[bool]) -> Atom:
    """Return, for the views that are marked, the closest vector without negative entries: least squares, with signs."""
    marked = [*positive, *[False] * (len(atom) - len(positive))]
    return [nnls(np.eye(d.size), d)[0] if sign else d for d, sign in zip(atom, marked, strict=True)]


def errors_without(
    Xs: list[Matrix], dictionaries: list[Matrix], codes: Matrix, t: int, users: npt.NDArray[np.intp]
) -> list[Matrix]:
    """Return, for every view, the error of the users of atom t when that atom is taken away (eq. 12)."""
    own = codes[users, t]
    return [X[users] - codes[users] @ D + np.outer(own, D[t]) for X, D in zip(Xs, dictionaries, strict=True)]


def common_coefficients(errors: list[Matrix], atom: Atom, weights: Vector, old: Vector) -> Vector:
    """Return the coefficients that serve all views best (eq. 15): ``sum_v w_v E_v d_v / sum_v w_v ||d_v||^2``.

    The paper's factor 1/2 is this denominator for two views of weight 1 and atoms of norm 1 in each. An atom that is
    zero wherever the weight is not leaves its coefficients free; they stay.
    """
    denominator = squared_norm(atom, weights)
    if denominator == 0:
        return old
    numerator = np.zeros(old.size)
    for w, E, d in zip(weights, errors, atom, strict=True):
        numerator += w * (E @ d)
    return numerator / denominator


def common_positive_coefficients(errors: list[Matrix], atom: Atom, weights: Vector, old: Vector) -> Vector:
    """Return the coefficients that serve all views best and are not negative: least squares, with signs."""
    if squared_norm(atom, weights) == 0:
        return old
    column = stack([d[None] for d in atom], weights).T
    return np.array([nnls(column, error)[0][0] for error in stack(errors, weights)])


def mean_residual(Xs: list[Matrix], dictionaries: list[Matrix], codes: Matrix) -> Atom:
    """Return the mean over samples of ``X_v - C D_v``: what the paper puts in the place of an atom without users."""
    return [np.mean(X - codes @ D, axis=0) for X, D in zip(Xs, dictionaries, strict=True)]


def least_squares_direction(errors: list[Matrix], coefficients: Vector, old: Atom, weights: Vector) -> Atom:
    """Return ``d_v = c^T E_v`` (eq. 14): the least squares atom for given coefficients, up to its norm."""
    return [coefficients @ E for E in errors]


def leading_direction(errors: list[Matrix], coefficients: Vector, old: Atom, weights: Vector) -> Atom:
    """Return the atom of the leading singular pair (g, u) of the stacked error ``[sqrt(w_v) E_v]_v``, up to its norm.

    The parts of u are ``sqrt(w_v) g^T E_v / sigma``, so ``u_v / sqrt(w_v)`` is ``g^T E_v`` up to a factor that all
    views share. Written so it has a meaning for a view of weight 0 too: eq. 14 with the best coefficients there are.

    A singular pair has no sign. The one is taken for which the new stacked atom, before it is normalised, does not
    point away from the old one; the given coefficients play no part.
    """
    left, _, _ = np.linalg.svd(stack(errors, weights), full_matrices=False)
    new = [left[:, 0] @ E for E in errors]
    agreement = sum(w * (d @ before) for w, d, before in zip(weights, new, old, strict=True))
    return [-d for d in new] if agreement < 0 else new


def sweep(
    Xs: Sequence[npt.ArrayLike],
    dictionaries: Sequence[npt.ArrayLike],
    codes: npt.ArrayLike,
    weights: npt.ArrayLike,
    normalize: Normalize,
    fixed: int,
    unused: Unused,
    new_atom: NewAtom,
    positive: Sequence[bool] = (),
    positive_code: bool = False,
) -> tuple[list[Matrix], Matrix]:
    """Change atom after atom, and after each one its coefficients (Algorithm 1, lines 12 to 18)."""
    best_coefficients = common_positive_coefficients if positive_code else common_coefficients
    views, atoms, C, w = float_copies(Xs), float_copies(dictionaries), float_copy(codes), float_copy(weights)
    for t in range(fixed, C.shape[1]):
        users = np.flatnonzero(C[:, t])
        old = take(atoms, t)
        if users.size == 0:
            if unused == "mean":
                mean = without_negative(mean_residual(views, atoms, C), positive)
                put(atoms, t, normalized(mean, old, w, normalize))
            continue
        errors = errors_without(views, atoms, C, t, users)
        fresh = without_negative(new_atom(errors, C[users, t], old, w), positive)
        if any(positive) and squared_norm(fresh, w) == 0:  # no atom that is allowed has a direction that is better
            continue
        new = normalized(fresh, old, w, normalize)
        put(atoms, t, new)
        C[users, t] = best_coefficients(errors, new, w, C[users, t])
    return atoms, C


def sequential_update(
    Xs: Sequence[npt.ArrayLike],
    dictionaries: Sequence[npt.ArrayLike],
    codes: npt.ArrayLike,
    weights: npt.ArrayLike,
    normalize: Normalize = "views",
    fixed: int = 0,
    unused: Unused = "keep",
    positive: Sequence[bool] = (),
    positive_code: bool = False,
) -> tuple[list[Matrix], Matrix]:
    """Do one sweep of the paper's update: every atom by eq. 14, then its common coefficients by eq. 15.

    Parameters
    ----------
    Xs : list of arrays of shape (n_samples, n_features_v)
        The views.
    dictionaries : list of arrays of shape (n_components, n_features_v)
        The atoms before the sweep.
    codes : array of shape (n_samples, n_components)
        The codes before the sweep; a zero stays zero.
    weights : array of shape (n_views,)
        Weight of every view in the objective.
    normalize : {"views", "joint"}
        Give an atom norm 1 in every view, or norm 1 when its parts are stacked with sqrt(w_v).
    fixed : int
        The first `fixed` atoms and their coefficients are not changed.
    unused : {"keep", "mean"}
        An atom without users stays, or becomes the mean residual of the moment it is reached, normalised (the paper).
    positive : list of bool
        For each view, whether its atoms are not negative; none is marked if left out.
    positive_code : bool
        Whether coefficients are not negative.

    Returns
    -------
    dictionaries : list of arrays of shape (n_components, n_features_v)
    codes : array of shape (n_samples, n_components)
    """
    return sweep(
        Xs, dictionaries, codes, weights, normalize, fixed, unused, least_squares_direction, positive, positive_code
    )


def ksvd_update(
    Xs: Sequence[npt.ArrayLike],
    dictionaries: Sequence[npt.ArrayLike],
    codes: npt.ArrayLike,
    weights: npt.ArrayLike,
    normalize: Normalize = "views",
    fixed: int = 0,
    unused: Unused = "keep",
) -> tuple[list[Matrix], Matrix]:
    """Do one sweep of exact K-SVD: every atom by the SVD of its stacked error, then its coefficients by eq. 15.

    Parameters and results are those of :func:`sequential_update`. The pair is the best one for ``"joint"`` and for one
    view. For ``"views"`` and several views it is not, because the parts are then given norms that the pair did not
    have: the objective may rise.
    """
    return sweep(Xs, dictionaries, codes, weights, normalize, fixed, unused, leading_direction)


def statistics(Xs: Sequence[npt.ArrayLike], codes: npt.ArrayLike) -> tuple[Matrix, list[Matrix]]:
    """Return ``A = C^T C`` and ``B_v = C^T X_v``: all that atoms need to know of the data while codes are frozen."""
    C = float_copy(codes)
    return C.T @ C, [C.T @ X for X in float_copies(Xs)]


def sample_means(Xs: Sequence[npt.ArrayLike], codes: npt.ArrayLike) -> Means:
    """Return the mean code and the mean sample of every view; they give the mean residual of any dictionary."""
    return np.mean(float_copy(codes), axis=0), [np.mean(X, axis=0) for X in float_copies(Xs)]


def mean_residual_of_means(means: Means, dictionaries: list[Matrix]) -> Atom:
    """Return the mean residual ``mean(X_v) - mean(C) D_v``."""
    mean_code, mean_samples = means
    return [x - mean_code @ D for x, D in zip(mean_samples, dictionaries, strict=True)]


def statistics_update(
    A: npt.ArrayLike,
    Bs: Sequence[npt.ArrayLike],
    dictionaries: Sequence[npt.ArrayLike],
    weights: npt.ArrayLike,
    normalize: Normalize = "views",
    n_sweeps: int = 1,
    fixed: int = 0,
    means: Means | None = None,
    positive: Sequence[bool] = (),
) -> list[Matrix]:
    """Sweep over the atoms with frozen codes: eq. 14 written with the statistics, and no eq. 15.

    ``c_t^T E_v`` is ``B_v[t] - A[t] D_v + A[t, t] d_v,t``; the atoms changed earlier in the sweep are already in D_v.

    Parameters
    ----------
    A : array of shape (n_components, n_components)
        ``C^T C``. An atom whose ``A[t, t]`` is zero has no users.
    Bs : list of arrays of shape (n_components, n_features_v)
        ``C^T X_v``.
    dictionaries, weights, normalize, fixed, positive
        As in :func:`sequential_update`.
    n_sweeps : int
        How often to go over all atoms.
    means : tuple of the mean code and a list of mean samples, or None
        Given, an atom without users becomes the mean residual of the moment it is reached, in every sweep anew (the
        paper's rule); None leaves it.

    Returns
    -------
    dictionaries : list of arrays of shape (n_components, n_features_v)
    """
    gram, products, atoms, w = float_copy(A), float_copies(Bs), float_copies(dictionaries), float_copy(weights)
    for _ in range(n_sweeps):
        for t in range(fixed, gram.shape[0]):
            old = take(atoms, t)
            if gram[t, t] > 0:
                new = [B[t] - gram[t] @ D + gram[t, t] * D[t] for B, D in zip(products, atoms, strict=True)]
            elif means is not None:
                new = mean_residual_of_means(means, atoms)
            else:
                continue
            put(atoms, t, normalized(without_negative(new, positive), old, w, normalize))
    return atoms


def least_squares_atoms(
    A: npt.ArrayLike, Bs: Sequence[npt.ArrayLike], dictionaries: Sequence[npt.ArrayLike], fixed: int = 0
) -> list[Matrix]:
    """Return the atoms that minimise the objective for frozen codes, of any norm; fixed and unused ones stay.

    The weights play no part: every view has its own atoms, and a factor does not move a minimum. Where several atoms do
    equally well (``A`` is singular), the smallest are taken.
    """
    gram, atoms = float_copy(A), float_copies(dictionaries)
    free = np.flatnonzero(np.diag(gram) > 0)
    free = free[free >= fixed]
    # An eigenvalue of A below this share of the largest is rounding error: NumPy's rule for the rank of a matrix.
    cutoff = gram.shape[0] * float(np.finfo(np.float64).eps)
    inverse = np.linalg.pinv(gram[np.ix_(free, free)], rcond=cutoff, hermitian=True)
    for D, B in zip(atoms, float_copies(Bs), strict=True):
        D[free] = inverse @ (B[free] - gram[free, :fixed] @ D[:fixed])
    return atoms


def mod_update(
    A: npt.ArrayLike,
    Bs: Sequence[npt.ArrayLike],
    dictionaries: Sequence[npt.ArrayLike],
    weights: npt.ArrayLike,
    normalize: Normalize = "views",
    fixed: int = 0,
    means: Means | None = None,
) -> list[Matrix]:
    """Update all atoms at once by the method of optimal directions: least squares, then normalised.

    Parameters and results are those of :func:`statistics_update`; with `means`, atoms without users become the mean
    residual after the others were normalised. The codes are not scaled to make up for the norms, so the objective of
    the old codes may rise. The next coding does not notice a common factor of all parts of an atom.
    """
    before, w = float_copies(dictionaries), float_copy(weights)
    atoms = least_squares_atoms(A, Bs, dictionaries, fixed)
    free = range(fixed, atoms[0].shape[0])
    used = np.diag(float_copy(A)) > 0
    for t in free:
        if used[t]:
            put(atoms, t, normalized(take(atoms, t), take(before, t), w, normalize))
    for t in free:
        if not used[t] and means is not None:
            put(atoms, t, normalized(mean_residual_of_means(means, atoms), take(before, t), w, normalize))
    return atoms


def learn(
    Xs: Sequence[npt.ArrayLike],
    dictionaries: Sequence[npt.ArrayLike],
    schedule: Iterable[int],
    tol: float | None,
    weights: npt.ArrayLike,
    update: Update = "sequential",
    normalize: Normalize = "views",
    unused: Unused = "keep",
    *,
    n_sweeps: int = 1,
    fixed: int = 0,
) -> tuple[list[Matrix], list[dict[str, float]]]:
    """Learn dictionaries as Algorithm 1 does: code, update, and again.

    Parameters
    ----------
    Xs, weights, normalize, unused, fixed
        As in :func:`sequential_update`.
    dictionaries : list of arrays of shape (n_components, n_features_v)
        The start; taken as it is, whatever its norms.
    schedule : iterable of int
        The most atoms that a sample may use, for every iteration.
    tol : float or None
        Squared joint residual at which the coding of a sample stops.
    update : {"sequential", "statistics", "ksvd", "mod"}
        How the atoms change.
    n_sweeps : int
        Sweeps an iteration of ``update="statistics"``.

    Returns
    -------
    dictionaries : list of arrays of shape (n_components, n_features_v)
    history : list of dict
        Per iteration ``limit``, the ``nonzeros`` per sample, the number of ``unused`` atoms that are not fixed, and the
        objective when samples are ``coded`` and when atoms are ``updated``. The latter is that of the codes that the
        update leaves: ``"sequential"`` and ``"ksvd"`` change them, ``"statistics"`` and ``"mod"`` do not.
    """
    atoms = float_copies(dictionaries)
    history = []
    for limit in schedule:
        codes: Matrix = sparse_encode(Xs, atoms, n_nonzero_coefs=limit, tol=tol, view_weights=weights)
        record = {
            "limit": float(limit),
            "nonzeros": float(np.mean(np.count_nonzero(codes, axis=1))),
            "unused": float(np.sum(~np.any(codes[:, fixed:], axis=0))),
            "coded": objective(Xs, atoms, codes, weights),
        }
        A, Bs = statistics(Xs, codes)
        means = sample_means(Xs, codes) if unused == "mean" else None
        if update == "sequential":
            atoms, codes = sequential_update(Xs, atoms, codes, weights, normalize, fixed, unused)
        elif update == "ksvd":
            atoms, codes = ksvd_update(Xs, atoms, codes, weights, normalize, fixed, unused)
        elif update == "statistics":
            atoms = statistics_update(A, Bs, atoms, weights, normalize, n_sweeps, fixed, means)
        else:
            atoms = mod_update(A, Bs, atoms, weights, normalize, fixed, means)
        history.append({**record, "updated": objective(Xs, atoms, codes, weights)})
    return atoms, history
