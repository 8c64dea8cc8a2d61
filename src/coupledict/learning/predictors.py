"""Prediction of one view from others: a dictionary of the target view, refitted to codes of the source views.

Codes of a source view alone differ from the codes of all views that learning used, and norm 1 in every view fixes the
relative gain of the views. A ridge regression of the target view on codes of the source views corrects both. Atoms of
joint norm 1 have any norm up to 1 in the source views; the regression sees codes over these atoms brought to norm 1, so
that the coefficients of an atom that is small there, which are large, do not decide on the penalty of all others.
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
from ..data.block_work import Wanted
from ..data.interface import Data, Portion
from ..data.pieces import halve
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
    teachers: list[Array] | None = None,
) -> Predictors:
    """Return the refitted dictionaries; `rule` must be scaled as the data are.

    If entries may be missing, a view is refitted to the samples that have it. With `teachers`, other dictionaries of
    the same views, it may instead be refitted to all samples, where it is missing to what the teachers predict. The
    errors of their predictions are mostly others than those of the codes that learn from them, so a regression on many
    samples averages over them. On image patches with few complete samples that is far better, on exactly sparse
    samples it is worse (benchmarks/missing.py); half of the samples decide which of the two is taken.
    """
    size = min(data.n_samples, SAMPLES_PER_ATOM * components[0].shape[0])
    n_views = len(components)
    halves: list[Portion | None]
    if teachers and size > 1:
        order = data.order(rng)
        taken, _ = data.take(order, 0, size)
        if isinstance(taken, list):
            halves = [*halve(taken)]
        else:
            halves = [data.take(order, 0, size // 2)[0], data.take(order, size // 2, size - size // 2)[0]]
    else:
        halves = [None if size == data.n_samples else data.take(data.order(rng), 0, size)[0]]
    fitted: Predictors = {}
    for chosen in source_sets(n_views):
        if not weights[list(chosen)].all():  # a view of weight 0 counts as absent
            continue
        sources, others = list(chosen), [v for v in range(n_views) if v not in chosen]
        student = _Refitting(data, components, weights, rule, alpha, threads, size, sources, others)
        if len(halves) == 1:
            solved = student.solve(student.sum_codes(halves[0]))
        else:
            solved = student.learn(replace(student, components=teachers or []), halves)
        fitted[chosen] = _finish(solved, data)
        if data.missing and len(sources) == n_views - 1 > 1:
            # These were coded from those of the sources that each sample has, and few samples may have them all.
            fitted.setdefault(ANY_OTHERS, {}).update(fitted.pop(chosen))
            whole = replace(student, whole_only=True)
            found = whole.sum_codes(halves[0])
            for half in halves[1:]:
                found += whole.sum_codes(half)
            if int(found.view_samples.min()) >= components[0].shape[0]:
                fitted[chosen] = _finish(whole.solve(found), data)
    return fitted


def _finish(solved: dict[int, Floats], data: Data) -> dict[int, Array]:
    return {v: np.ascontiguousarray(atoms, data.dtype) for v, atoms in solved.items()}


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
    whole_only: bool = False  # whether only samples that have all sources count

    def _atoms(self) -> tuple[list[Array], float]:
        return ordinary_size([self.components[v] for v in self.sources])

    def sum_codes(
        self, portion: Portion | None, teacher: _Refitting | None = None, taught: dict[int, Floats] | None = None
    ) -> PassSums:
        """Run a pass; what is missing in the other views is what the teacher predicts, if there is one."""
        atoms, unit = self._atoms()
        recipe = Recipe(atoms, self.weights[self.sources], self.data.dtype, self.rule, self.size, self.data.missing)
        if self.data.missing:
            recipe = replace(
                recipe, whole_only=self.whole_only, targets=[self.components[v] / unit for v in self.others]
            )
        if teacher is not None and taught is not None:
            own = [teacher.components[v] for v in self.sources]
            recipe = replace(
                recipe, teacher=replace(recipe, dictionaries=own, targets=[taught[v] for v in self.others])
            )
        wanted = Wanted(sources=self.sources, targets=self.others)
        return self.data.sum_codes(recipe, portion, self.threads, wanted).check_finite()

    def solve(self, found: PassSums) -> dict[int, Floats]:
        """Return a dictionary for each of the other views."""
        atoms, unit = self._atoms()
        weights = self.weights[self.sources]
        norms = normalize_atoms(atoms, np.sqrt(weights / weights.max()))[1]
        solved = {}
        for i, (v, (a, b)) in enumerate(self._views_of(found)):
            if not found.view_samples[i]:  # nothing to learn from: the dictionaries as learned are the better guess
                continue
            penalty = self.alpha
            if penalty == "auto":
                penalty = choose_alpha(a, b, float(found.view_energy[i]), int(found.view_samples[i]), norms)
            solved[v] = ridge(a, b, penalty, norms) * unit
        return solved

    def learn(self, teacher: _Refitting, halves: list[Portion | None]) -> dict[int, Floats]:
        """Return dictionaries from samples that have the views, or from what the teacher says of all samples.

        Both are learned from the first half of the samples, and those of the second half that have the views decide.
        """
        own, theirs = [[one.sum_codes(half) for half in halves] for one in (self, teacher)]
        plain, lesson = self.solve(own[0]), teacher.solve(theirs[0])
        better: set[int] = set()
        if len(lesson) == len(self.others):
            taught = self.solve(self.sum_codes(halves[0], teacher, lesson))
            better = {v for v, change in self._changes(own[1], plain, taught).items() if change < 0}
        own[0] += own[1]
        plain = self.solve(own[0])
        if not better:
            return plain
        theirs[0] += theirs[1]
        solution = teacher.solve(theirs[0])
        both = [self.sum_codes(half, teacher, solution) for half in halves]
        both[0] += both[1]
        taught = self.solve(both[0])
        return {v: taught[v] if v in better else plain[v] for v in self.others}

    def _changes(self, found: PassSums, one: dict[int, Floats], other: dict[int, Floats]) -> dict[int, float]:
        """Return, for each view, by how much the squared error of the samples in `found` is larger with `other`."""
        unit = self._atoms()[1]
        changes = {}
        for v, (a, b) in self._views_of(found):
            errors = [float(np.sum(w * (a @ w)) - 2 * np.sum(w * b)) for w in (one[v] / unit, other[v] / unit)]
            changes[v] = errors[1] - errors[0]
        return changes

    def _views_of(self, found: PassSums) -> Iterator[tuple[int, tuple[Floats, Floats]]]:
        """Yield A and B of each of the other views; these are in one group, or each is in its own."""
        unit = self._atoms()[1]
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
