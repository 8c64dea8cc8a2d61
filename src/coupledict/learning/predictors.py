"""Prediction of one view from others: a dictionary of the target view, refitted to codes of the source views.

Codes of a source view alone differ from the codes of all views that learning used, and norm 1 in every view fixes the
relative gain of the views. A ridge regression of the target view on codes of the source views corrects both. Atoms of
joint norm 1 have any norm up to 1 in the source views; the regression sees codes over these atoms brought to norm 1, so
that the coefficients of an atom that is small there, which are large, do not decide on the penalty of all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
import scipy.linalg

from ..coding.joint_atoms import normalize_atoms
from ..coding.recipe import Recipe
from ..coding.results import PassSums
from ..coding.rule import CodingRule
from ..data.block_work import Wanted
from ..data.interface import Data
from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import Threads
from .atoms import ordinary_size, solve_factored

#: For each set of source views, a refitted dictionary for each view that is not in it.
Predictors: TypeAlias = dict[tuple[int, ...], dict[int, Array]]
#: Stands for whatever other views a sample has; refitted where samples lacked views in learning.
ANY_OTHERS: tuple[int, ...] = ()

SAMPLES_PER_ATOM = 64  # more samples per atom hardly change the regression
MOST_ATOMS_FOR_EIGENVECTORS = 1024
LEAST_ALPHA = 1e-3
ALPHAS = [10 ** (k / 5) for k in range(-15, 6)]  # penalties to choose from


def source_sets(n_views: int) -> list[tuple[int, ...]]:
    """Return the sets of source views that dictionaries are refitted for: each view alone, and all views but one."""
    alone = [(v,) for v in range(n_views)]
    all_but_one = [rest for rest in itertools.combinations(range(n_views), n_views - 1) if len(rest) > 1]
    return alone + all_but_one if n_views > 1 else []


def ridge(a: Array, b: Array, alpha: float, norms: Floats | None = None) -> Floats:
    """Solve (A + alpha * mean(diag A) * I) W = B; with `norms` for codes over atoms that are divided by their norms."""
    if norms is not None:
        scales = norms / (norms.max() or 1.0)
        return ridge(a * np.outer(scales, scales), b * scales[:, None], alpha) * scales[:, None]
    penalty = alpha * float(np.mean(np.diag(a)))
    with one_blas_thread():
        if penalty > 0:
            factor = scipy.linalg.cho_factor(a + penalty * np.eye(a.shape[0]))
            return solve_factored(factor, b)
        return np.asarray(scipy.linalg.pinvh(a) @ b)


def choose_alpha(a: Array, b: Array, energy: float, n_samples: int, norms: Floats) -> float:
    """Return the penalty of the smallest generalised cross-validation error, computed from sums alone.

    With W the solution, that error is ``n ||X - C W||^2 / (n - trace of the hat matrix)^2`` (Golub, Heath and Wahba,
    1979); eigenvectors of A make it cheap for many penalties. For dictionaries too large for them, it is a rule that
    agrees with it on image patches, whose codes explain a part of the other view only: the number of atoms over that of
    samples.

    Parameters
    ----------
    a, b : arrays
        A = C^T C and B = C^T X.
    energy : float
        Squared norm of X.
    n_samples : int
        Number of samples that the sums are over.
    norms : array of shape (n_components,)
        As in :func:`ridge`.
    """
    n_atoms = a.shape[0]
    if n_atoms > MOST_ATOMS_FOR_EIGENVECTORS or n_samples < 1:
        return float(max(LEAST_ALPHA, n_atoms / max(n_samples, 1)))
    scales = norms / (norms.max() or 1.0)
    with one_blas_thread():
        values, vectors = np.linalg.eigh(a * np.outer(scales, scales))
        turned = vectors.T @ (b * scales[:, None])
    values = np.maximum(values, 0)
    squares = np.einsum("ij,ij->i", turned, turned)
    best, chosen = np.inf, LEAST_ALPHA
    for alpha in ALPHAS:
        penalty = alpha * float(values.mean())
        if penalty == 0:
            break
        factors = 1 / (values + penalty)
        left = n_samples - float(values @ factors)
        residual = energy + float(squares @ (factors * (values * factors - 2)))
        if left > 0 and residual > 0 and residual / left**2 < best:
            best, chosen = residual / left**2, alpha
    return chosen


def fit_predictors(
    data: Data,
    components: list[Array],
    weights: Floats,
    rule: CodingRule,
    alpha: float | Literal["auto"],
    threads: Threads,
    rng: np.random.Generator,
) -> Predictors:
    """Return the refitted dictionaries; `rule` must be scaled as the data are.

    If entries may be missing, a view is refitted to the samples that have it.
    """
    n_components, n_views = components[0].shape[0], len(components)
    size = min(data.n_samples, SAMPLES_PER_ATOM * n_components)
    portion = None if size == data.n_samples else data.take(data.order(rng), 0, size)[0]
    fitted: Predictors = {}
    for sources in source_sets(n_views):
        chosen = list(sources)
        if not weights[chosen].all():  # a view of weight 0 counts as absent
            continue
        atoms, unit = ordinary_size([components[v] for v in chosen])
        others = [v for v in range(n_views) if v not in sources]
        explained = [np.asarray(components[v], np.float64) / unit for v in others]
        targets = explained if data.missing else []
        recipe = Recipe(atoms, weights[chosen], data.dtype, rule, size, data.missing, targets)
        found = data.sum_codes(recipe, portion, threads, Wanted(sources=chosen, targets=others)).check_finite()
        norms = normalize_atoms(recipe.dictionaries, np.sqrt(recipe.weights / recipe.weights.max()))[1]
        fitted[sources] = {}
        for i, (v, (a, b)) in enumerate(zip(others, _sums_of_views(found, explained), strict=True)):
            penalty = alpha
            if penalty == "auto":
                penalty = choose_alpha(a, b, float(found.view_energy[i]), int(found.view_samples[i]), norms)
            fitted[sources][v] = np.ascontiguousarray((ridge(a, b, penalty, norms) * unit).astype(data.dtype))
        if data.missing and len(sources) == n_views - 1 > 1:  # coded from those of them that each sample has
            fitted.setdefault(ANY_OTHERS, {}).update(fitted[sources])
    return fitted


def _sums_of_views(found: PassSums, explained: list[Floats]) -> Iterator[tuple[Floats, Floats]]:
    """Yield A and B of each view that is explained; the views are in one group, or each is in its own."""
    if len(found.sums) == len(explained):
        for g, atoms in enumerate(explained):
            sums = found.estimate_complete(g, atoms)
            yield sums.a, sums.b
        return
    sums, start = found.estimate_complete(0, np.hstack(explained)), 0
    for atoms in explained:
        yield sums.a, sums.b[:, start : start + atoms.shape[1]]
        start += atoms.shape[1]
