"""Prediction of one view from others: a dictionary of the target view, refitted to codes of the source views.

Codes of a source view alone differ from the codes of all views that were used in learning, and norm 1 in every view
fixes the relative gain of the views. A ridge regression of the target view on codes of the source views corrects both.
Atoms of joint norm 1 may have any norm up to 1 in the source views. The regression uses codes over these atoms at norm
1, so that the large coefficients of an atom that is small there do not determine the penalty of all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import scipy.linalg

from ..coding.joint_atoms import normalize_atoms
from ..coding.recipe import Recipe
from ..coding.results import PassSums
from ..coding.rule import CodingRule
from ..data.interface import Data, Portion
from ..data.jobs import SumCodes
from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import Threads
from .atoms import solve_factored
from .scaling import ordinary_size

#: For each set of source views, a refitted dictionary for each view that is not in it.
Predictors: TypeAlias = dict[tuple[int, ...], dict[int, Array]]
#: Stands for any other views that a sample has; used where samples lacked views in learning.
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
    1979); eigenvectors of A make it cheap for many penalties. For dictionaries that are too large for that, the penalty
    is the number of atoms divided by the number of samples, a rule that agrees with it on image patches, whose codes
    explain only a part of the other view.

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
    size = min(data.n_samples, SAMPLES_PER_ATOM * components[0].shape[0])
    n_views = len(components)
    portion = None if size == data.n_samples else data.take(data.order(rng), 0, size)[0]
    fitted: Predictors = {}
    for chosen in source_sets(n_views):
        if not weights[list(chosen)].all():  # a view of weight 0 counts as absent
            continue
        others = [v for v in range(n_views) if v not in chosen]
        refitting = _Refitting(data, components, weights, rule, alpha, threads, size, list(chosen), others)
        solved = refitting.solve(refitting.sum_codes(portion))
        refitted = {v: np.ascontiguousarray(atoms, data.dtype) for v, atoms in solved.items()}
        if data.missing and len(chosen) > 1:
            # Each sample was coded from the source views that it has, and few samples may have all of them.
            fitted.setdefault(ANY_OTHERS, {}).update(refitted)
        else:
            fitted[chosen] = refitted
    return fitted


@dataclass(frozen=True)
class _Refitting:
    """The regressions of the views in `others` on codes of the views in `sources`."""

    data: Data
    components: list[Array]
    weights: Floats
    rule: CodingRule
    alpha: float | Literal["auto"]
    threads: Threads
    size: int
    sources: list[int]
    others: list[int]

    def _atoms(self) -> tuple[list[Array], float]:
        return ordinary_size([self.components[v] for v in self.sources])

    def sum_codes(self, portion: Portion | None) -> PassSums:
        """Return the sums over codes of the source views."""
        atoms, unit = self._atoms()
        recipe = Recipe(atoms, self.weights[self.sources], self.data.dtype, self.rule, self.size, self.data.missing)
        if self.data.missing:
            recipe = replace(recipe, targets=[self.components[v] / unit for v in self.others])
        job = SumCodes(recipe, sources=self.sources, targets=self.others)
        return self.data.run(job, self.threads, portion).check_finite()

    def solve(self, found: PassSums) -> dict[int, Floats]:
        """Return a dictionary for each of the other views."""
        atoms, unit = self._atoms()
        weights = self.weights[self.sources]
        norms = normalize_atoms(atoms, np.sqrt(weights / weights.max()))[1]
        solved = {}
        for i, (v, (a, b)) in enumerate(self._views_of(found, unit)):
            if not found.view_samples[i]:  # nothing to learn from; the dictionaries as learned are the better guess
                continue
            penalty = self.alpha
            if penalty == "auto":
                penalty = choose_alpha(a, b, float(found.view_energy[i]), int(found.view_samples[i]), norms)
            solved[v] = ridge(a, b, penalty, norms) * unit
        return solved

    def _views_of(self, found: PassSums, unit: float) -> Iterator[tuple[int, tuple[Floats, Floats]]]:
        """Yield A and B of each of the other views; these are in one group, or each is in its own."""
        explained = [np.asarray(self.components[v], np.float64) / unit for v in self.others]
        if len(found.sums) == len(self.others):
            for g, v in enumerate(self.others):
                sums = found.estimate_complete(g, explained[g])
                yield v, (sums.a, sums.b)
            return
        sums, start = found.estimate_complete(0, np.hstack(explained)), 0
        for v, atoms in zip(self.others, explained, strict=True):
            yield v, (sums.a, sums.b[:, start : start + atoms.shape[1]])
            start += atoms.shape[1]
