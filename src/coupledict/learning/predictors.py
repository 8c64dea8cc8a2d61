"""Prediction of one view from others: a dictionary of the target view, refitted to codes of the source views.

Codes of a source view alone differ from the codes of all views that learning used, and norm 1 in every view fixes the
relative gain of the views. A ridge regression of the target view on codes of the source views corrects both. Atoms of
joint norm 1 have any norm up to 1 in the source views; the regression sees codes over these atoms brought to norm 1, so
that the coefficients of an atom that is small there, which are large, do not decide on the penalty of all others.
"""

from __future__ import annotations

import itertools
from typing import TypeAlias

import numpy as np
import scipy.linalg

from ..coding.joint_atoms import normalize_atoms
from ..coding.recipe import Recipe
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


def fit_predictors(
    data: Data,
    components: list[Array],
    weights: Floats,
    rule: CodingRule,
    alpha: float,
    threads: Threads,
    rng: np.random.Generator,
) -> Predictors:
    """Return the refitted dictionaries; `rule` must be scaled as the data are."""
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
        sums = found.estimate_complete(0, np.hstack(explained))
        norms = normalize_atoms(recipe.dictionaries, np.sqrt(recipe.weights / recipe.weights.max()))[1]
        solved = (ridge(sums.a, sums.b, alpha, norms) * unit).astype(data.dtype)
        ends = np.cumsum([data.widths[v] for v in others])[:-1]
        fitted[sources] = {
            v: np.ascontiguousarray(piece) for v, piece in zip(others, np.split(solved, ends, axis=1), strict=True)
        }
        if data.missing and len(sources) == n_views - 1 > 1:  # coded from those of them that each sample has
            fitted.setdefault(ANY_OTHERS, {}).update(fitted[sources])
    return fitted
