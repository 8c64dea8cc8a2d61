"""One view from others: a target dictionary refitted to the codes that the others give.

Codes made from a source view alone are not the codes that learning saw, and unit norm in every view fixes the relative
gain of the views. A ridge regression of the target view on codes made the way prediction makes them mends both.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ._atoms import solve_factored
from ._data import Data
from ._passes import one_blas_thread
from ._pursuit import Pursuit, Recipe
from ._views import Array

SAMPLES_PER_ATOM = 64  # more samples than this for each atom do not change the regression enough to pay for


def source_sets(n_views: int) -> list[tuple[int, ...]]:
    """Return the sets of views that prediction is prepared for: each view alone, and all but one."""
    alone = [(v,) for v in range(n_views)]
    all_but_one = [rest for rest in itertools.combinations(range(n_views), n_views - 1) if len(rest) > 1]
    return alone + all_but_one if n_views > 1 else []


def ridge(a: Array, b: Array, alpha: float) -> npt.NDArray[np.float64]:
    """Solve (A + alpha * mean(diag A) * I) W = B."""
    penalty = alpha * float(np.mean(np.diag(a)))
    with one_blas_thread():
        if penalty > 0:
            factor = scipy.linalg.cho_factor(a + penalty * np.eye(a.shape[0]))
            return solve_factored(factor, b)
        return np.asarray(scipy.linalg.pinvh(a) @ b)


def refit(
    data: Data,
    components: list[Array],
    weights: npt.NDArray[np.float64],
    *,
    n_nonzero: int | None,
    tol: float | None,
    pursuit: Pursuit,
    alpha: float,
    n_jobs: int,
    rng: np.random.Generator,
) -> dict[tuple[int, ...], dict[int, Array]]:
    """Return, for each set of source views, a refitted dictionary for each view that is not in it."""
    n_components, n_views = components[0].shape[0], len(components)
    size = min(data.n_samples, SAMPLES_PER_ATOM * n_components)
    part = None if size == data.n_samples else data.take(data.order(rng), 0, size)[0]
    fitted: dict[tuple[int, ...], dict[int, Array]] = {}
    for sources in source_sets(n_views):
        chosen = list(sources)
        if not weights[chosen].all():  # a view of weight 0 counts as absent
            continue
        recipe = Recipe(
            [components[v] for v in chosen],
            weights[chosen],
            data.dtype,
            n_nonzero=n_nonzero,
            tol=tol,
            pursuit=pursuit,
            n_samples=size,
        )
        others = [v for v in range(n_views) if v not in sources]
        found = data.statistics(recipe, part, n_jobs, sources=chosen, targets=others)
        solved = ridge(found.sums[0].a, found.sums[0].b, alpha).astype(data.dtype)
        ends = np.cumsum([data.widths[v] for v in others])[:-1]
        fitted[sources] = {
            v: np.ascontiguousarray(piece) for v, piece in zip(others, np.split(solved, ends, axis=1), strict=True)
        }
    return fitted
