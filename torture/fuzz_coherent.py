"""Coherent dictionaries: codes of all coders are as good as those of slow oracles in float64.

The cases cover low-rank, smooth and nearly duplicate atoms, and spectra that fall by up to five powers of ten; OMP, OLS
and the lasso, with coefficients of both signs or of one; one view or several, with weights; one code for all views or
one support; missing entries and views; limits, tolerances and penalties; both dtypes, all instruction sets, with the
Gram matrix, some of its rows, or without it. The oracles work in float64, sample by sample, and never start from the
answer.

The rules of judgement were set after first runs had found violations. Pursuits are judged where the condition number of
the dictionary, of the atoms of the code and of those of the oracle is below 1e5; float32 may leave a thousandth of the
sample, or 1e-7 times that number. A code worse than the oracle's is excused if its choices are sound by themselves (a
near-tie); such samples are counted. Where an atom is dropped from the oracle's non-negative code, the code is compared
with non-negative least squares. Samples with atoms whose entries are almost all unknown are not judged.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _main import Figures, main
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import coupledict
from coupledict import sparse_encode
from coupledict.coding import passes
from coupledict.coding.coders import make_coder
from coupledict.coding.recipe import Recipe
from coupledict.coding.rule import CodingRule
from coupledict.coding.samples import Samples
from coupledict.foundation.block_sizes import SIZES
from coupledict.kernels.instruction_sets import VARIABLE
from coupledict.parallel.jobs import Threads
from support import compare
from support.batch_twins import Group, pursue, stack
from support.coherent import FAMILIES, SIGNALS, make_atoms, make_signals
from support.constrained_twins import fault_of_positive_code, lasso_code, objective, pursue_positive, solve
from support.masked_twins import knock_out

CODERS = [
    ("omp", False, "code"),
    ("ols", False, "code"),
    ("omp", True, "code"),
    ("ols", True, "code"),
    ("lasso", False, "code"),
    ("lasso", True, "code"),
    ("omp", False, "support"),
    ("omp", True, "support"),
]
DTYPES = [np.float32, np.float64]
WAYS = ["as it pays", "whole Gram matrix", "rows of it", "none of it"]
WEIGHTS = [1.0, 1.0, 0.3, 7.0, 1e-2, 1e3]
WELL_ENOUGH = 1e5  # condition number up to which pursuits are judged
ERROR = {np.float32: 1e-3, np.float64: 1e-5}  # what is left of a sample, as a share of its norm, beyond the oracle
DIGITS = {np.float32: 1e-7, np.float64: 0.0}  # the same for each unit of the condition number: digits of coefficients
LASSO = {np.float32: 1e-4, np.float64: 1e-9}  # objective beyond the smallest, as a share of the squared norm
HARM = {np.float32: 1e-3, np.float64: 1e-9}  # any error beyond the sample itself, whatever the condition number
N_SAMPLES = 6


@dataclass
class Problem:
    """Samples, dictionaries and options; samples and atoms are in float64, which `dtype` holds exactly."""

    Xs: list[Any]
    Ds: list[Any]
    weights: list[float]
    rule: CodingRule
    dtype: Any
    way: str
    level: str
    n_jobs: int
    family: str

    def __str__(self) -> str:
        shapes = ", ".join(str(D.shape) for D in self.Ds)
        sign = ", not negative" if self.rule.positive else ""
        return (
            f"{self.rule.pursuit}{sign}, {self.rule.coupling}; {self.family}, {shapes}, weights {self.weights},"
            f" {np.dtype(self.dtype).name}, {self.way}, {self.level}, limit {self.rule.n_nonzero}, tol {self.rule.tol},"
            f" alpha {self.rule.alpha}, {sum(int(np.isnan(X).sum()) for X in self.Xs)} entries missing"
        )

    @property
    def incomplete(self) -> bool:
        """Whether anything is missing."""
        return any(np.isnan(X).any() for X in self.Xs)

    def groups(self) -> list[Group]:
        """Return the samples and atoms of views that share their coefficients."""
        if self.rule.coupling == "support":
            views = zip(self.Xs, self.Ds, self.weights, strict=True)
            return [Group.of(stack([X], [w]), stack([D], [w])) for X, D, w in views]
        return [Group.of(stack(self.Xs, self.weights), stack(self.Ds, self.weights))]


def draw(rng: np.random.Generator, number: int, levels: list[str]) -> Problem:
    """Draw a problem; coders and number types take turns."""
    pursuit, positive, coupling = CODERS[number % len(CODERS)]
    dtype = DTYPES[number // len(CODERS) % 2]
    family = str(rng.choice(FAMILIES))
    n_views = int(rng.integers(2, 4)) if coupling == "support" else int(rng.choice([1, 1, 2, 3]))
    large = rng.random() < 0.03
    n_atoms, widest = int(rng.integers(2, 300 if large else 50)), 150 if large else 36
    Ds = [make_atoms(rng, family, n_atoms, int(rng.integers(2, widest // n_views + 2))) for _ in range(n_views)]
    kind, n = str(rng.choice(SIGNALS)), int(rng.choice([1, N_SAMPLES, N_SAMPLES, 40])) if large else N_SAMPLES
    Xs = [make_signals(rng, kind, D, n) for D in Ds]
    if rng.random() < (0.3 if positive else 0.1):
        Ds, Xs = [np.abs(D) for D in Ds], [np.abs(X) for X in Xs]
    if rng.random() < 0.2:
        Ds = [(D * 10.0 ** rng.uniform(-3, 3, (n_atoms, 1))).astype(np.float32).astype(float) for D in Ds]
    if coupling == "code" and rng.random() < 0.3:
        Xs = knock_out(rng, Xs, float(rng.choice([0.0, 0.1, 0.5])), absent=0.3 if n_views > 1 else 0.0)
    weights = [1.0] * n_views if rng.random() < 0.5 else [float(w) for w in rng.choice(WEIGHTS, n_views)]
    rule = _draw_rule(rng, stack(Xs, weights), stack(Ds, weights), pursuit, positive, coupling)
    way, level = str(rng.choice(WAYS)), str(rng.choice(levels))
    return Problem(Xs, Ds, weights, rule, dtype, way, level, int(rng.choice([1, 1, 1, 2])), family)


def _draw_rule(rng: Any, X: Any, D: Any, pursuit: str, positive: bool, coupling: str) -> CodingRule:
    energy = float(np.mean(np.nansum(X**2, axis=1)))
    if pursuit == "lasso":
        top = float(np.abs(np.nan_to_num(X) @ D.T).max()) or 1.0
        return CodingRule.checked(None, None, pursuit, alpha=10 ** rng.uniform(-6, 0.1) * top, positive_code=positive)
    most = min(*D.shape, 14)
    limit = most if rng.random() < 0.3 else int(rng.integers(1, most + 1))
    tol = float(10 ** rng.uniform(-5, -0.3) * energy)
    ends = int(rng.integers(4))  # a limit, a tolerance, both, or both left out
    return CodingRule.checked(
        limit if ends in (0, 2) else None,
        tol if ends in (1, 2) else None,
        pursuit,
        coupling=coupling,
        positive_code=positive,
    )


@contextmanager
def _as_wanted(way: str, level: str) -> Iterator[None]:
    """Use an instruction set, and leave room for the Gram matrix or not."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = level
    try:
        with SIZES.changed(gram_bytes=0 if way == "none of it" else SIZES.gram_bytes):
            yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def code(problem: Problem) -> tuple[list[Any], bool]:
    """Return the codes of each group, dense, and whether a warning said that tol was not reached."""
    rule, Xs, Ds = problem.rule, *([a.astype(problem.dtype) for a in arrays] for arrays in (problem.Xs, problem.Ds))
    with warnings.catch_warnings(record=True) as caught, _as_wanted(problem.way, problem.level):
        warnings.simplefilter("always")
        gram = None if problem.way == "as it pays" else problem.way == "whole Gram matrix"
        if rule.coupling == "support" or gram is not None:
            samples = Samples(Xs, np.dtype(problem.dtype), missing=problem.incomplete)
            weights = np.asarray(problem.weights, float)
            recipe = Recipe(Ds, weights, samples.dtype, rule, len(samples), samples.missing, gram=gram)
            coder = make_coder(recipe, Threads(problem.n_jobs))
            coded = passes.encode(coder, samples, Threads(problem.n_jobs))
            coder.count_shortfall(coded).warn(rule.tol)
            codes = coded.as_csr(coder.n_atoms)
        else:
            options = {"n_nonzero_coefs": rule.n_nonzero, "tol": rule.tol, "alpha": rule.alpha}
            codes = [sparse_encode(Xs, Ds, **options, pursuit=rule.pursuit, positive_code=rule.positive,
                                   view_weights=problem.weights, n_jobs=problem.n_jobs,
                                   missing="nan" if problem.incomplete else "error")]  # fmt: skip
    others = [str(w.message) for w in caught if not issubclass(w.category, ConvergenceWarning)]
    assert all("no known entry" in text for text in others), others
    return [part.toarray().astype(float) for part in codes], len(others) < len(caught)


def condition(groups: list[Group], i: int) -> float:
    """Return the condition number of the atoms of sample i, the worst of its groups."""
    worst = 1.0
    for group in groups:
        values = np.linalg.svd(group.unit[i], compute_uv=False)
        n = min(int(np.count_nonzero(group.norms[i])), int(np.count_nonzero(group.unit[i].any(axis=0))))
        if n and values[n - 1] <= 0:
            return float("inf")
        worst = max(worst, float(values[0] / values[n - 1])) if n else worst
    return worst


class Judge:
    """Holds codes against the oracles, and keeps the worst that it has seen."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.worst: dict[str, float] = {}

    def check(self, problem: Problem) -> None:
        """Code a problem, and raise where a code is worse than promised."""
        codes, warned = code(problem)
        rule, groups = problem.rule, problem.groups()
        self.seen["nonzeros"] += int(sum(np.count_nonzero(part) for part in codes))
        assert all(np.isfinite(part).all() for part in codes), "a code is no number"
        assert not rule.positive or min(part.min() for part in codes) >= 0, "a code is negative"
        if rule.pursuit == "lasso":
            excess = lasso_excess(groups[0], codes[0], rule)
            allowed = np.full(len(excess), LASSO[problem.dtype])
        else:
            excess, allowed = pursuit_excess(problem, groups, codes, warned)
            for i in np.flatnonzero(excess > allowed):
                if is_sound(problem, groups, codes, int(i)):
                    self.seen["samples that chose other atoms at a near-tie"] += 1
                    allowed[i] = np.inf
        worst = int(np.argmax(excess - allowed))
        assert excess[worst] <= allowed[worst], f"{excess[worst]:.2g} of sample {worst} is left that need not be"
        self.seen["judged samples"] += int(np.isfinite(allowed).sum())
        sign = ", not negative" if rule.positive else ""
        name = f"{rule.pursuit}{sign}, {rule.coupling}, {np.dtype(problem.dtype).name}"
        self.seen[name] += 1
        seen = float(excess[np.isfinite(allowed)].max(initial=0))
        self.worst[name] = max(self.worst.get(name, 0.0), seen)


def lasso_excess(group: Group, codes: Any, rule: CodingRule) -> Any:
    """Return by which share of its squared norm the objective of each sample is above the least."""
    excess = np.zeros(len(codes))
    assert rule.alpha is not None
    for i, (x, known, own) in enumerate(zip(group.x, group.known, codes, strict=True)):
        energy, atoms = float(x @ x), group.atoms * known
        if energy == 0:
            assert not own.any(), "a sample of which nothing is known has a code"
            continue
        mine = objective(x, atoms, own, rule.alpha)
        assert mine <= 0.5 * energy * (1 + 1e-6), "an objective is worse than that of no code"
        least = objective(x, atoms, lasso_code(x, atoms, rule.alpha, rule.positive), rule.alpha)
        excess[i] = (mine - least) / energy
    return excess


def pursuit_excess(problem: Problem, groups: list[Group], codes: list[Any], warned: bool) -> tuple[Any, Any]:
    """Return by which share of its norm the error of each sample is above that of the oracle, and what is allowed."""
    rule = problem.rule
    sizes = np.sqrt(sum(np.square(group.x).sum(axis=1) for group in groups))
    errors = np.sqrt(sum(group.errors(own) ** 2 for group, own in zip(groups, codes, strict=True)))
    used = np.any([own != 0 for own in codes], axis=0)
    counts = np.count_nonzero(used, axis=1)
    limits = limits_of(problem)
    assert np.all(counts <= limits), "a code has too many atoms"
    assert np.all(errors <= sizes * (1 + HARM[problem.dtype])), "an error exceeds its sample"
    tol = 0.0 if rule.tol is None else rule.tol
    if rule.tol is not None and rule.n_nonzero is None and not warned:
        above = errors - np.sqrt(tol) - HARM[problem.dtype] * sizes
        assert np.all(above <= 0), "an error is above tol, and no warning said so"
    if rule.positive:
        supports = [used]
        least = np.array([least_positive(groups, i, int(limits[i]), rule, codes) for i in range(len(sizes))])
    else:
        found = pursue(groups, limits, rule.tol, rule.pursuit)
        least, supports = found.last, [used, found.uses(used.shape[1])]
    excess = (errors - np.maximum(least, np.sqrt(tol))) / np.where(sizes > 0, sizes, 1)
    units = [group.unit for group in groups]
    chosen = [chosen_atoms(unit, support) for unit in units for support in supports]
    conditions = np.maximum(conditions_of(units), conditions_of(chosen))
    allowed = np.maximum(ERROR[problem.dtype], DIGITS[problem.dtype] * conditions)
    # An atom of which next to nothing is known is none among samples with masks, and one in views that are complete.
    judged = (conditions < WELL_ENOUGH) & ~np.any([group.lost for group in groups], axis=0)
    return excess, np.where(judged, allowed, np.inf)


def is_sound(problem: Problem, groups: list[Group], codes: list[Any], i: int) -> bool:
    """Tell whether a code that is worse than that of the oracle follows from choices that rounding cannot tell apart.

    The order of its choices is rebuilt: each must be the best one, up to the rounding errors of the number type.
    """
    rule = problem.rule
    if rule.coupling == "support":
        return False
    x, unit, norms, own = groups[0].x[i], groups[0].unit[i], groups[0].norms[i], codes[0][i]
    limit, dtype = int(limits_of(problem)[i]), np.dtype(problem.dtype)
    cut = compare.Problem(x[None], unit * norms[:, None], limit, rule.tol, rule.pursuit, dtype)
    fault = fault_of_positive_code if rule.positive else compare.fault_of_code
    return fault(cut, own, x) is None


def limits_of(problem: Problem) -> Any:
    """Return how many atoms each sample may have."""
    rule, widths = problem.rule, [D.shape[1] for D in problem.Ds]
    known = sum(np.count_nonzero(~np.isnan(X), axis=1) for X in problem.Xs)
    most = min(len(problem.Ds[0]), min(widths) if rule.coupling == "support" else sum(widths))
    limit = rule.n_nonzero or (most if rule.tol is not None else max(1, sum(widths) // 10))
    return np.minimum(min(limit, most), known)


def least_positive(groups: list[Group], i: int, limit: int, rule: CodingRule, codes: list[Any]) -> float:
    """Return the error of the oracle of non-negative pursuits.

    Where an atom of the oracle has left again, others may have been chosen meanwhile. The error is then the least over
    the atoms of the code itself, or over all atoms if it ends before its limit.
    """
    xs, units = [group.x[i] for group in groups], [group.unit[i] for group in groups]
    chosen, found, any_left = pursue_positive(xs, units, limit, rule.tol, rule.pursuit)
    if any_left:
        own = np.flatnonzero(np.any([part[i] != 0 for part in codes], axis=0))
        chosen = list(own if len(own) == limit else range(len(units[0])))
        found = [solve(unit[chosen], x) for unit, x in zip(units, xs, strict=True)]
    parts = [x - c @ unit[chosen] for x, c, unit in zip(xs, found, units, strict=True)]
    return float(np.sqrt(sum(part @ part for part in parts)))


def conditions_of(groups: list[Any]) -> Any:
    """Return the condition number of unit atoms, which may differ from sample to sample; the worst of some groups.

    Atoms that are zero do not count, and neither do features that are zero in all of them.
    """
    worst = np.ones(len(groups[0]))
    for unit in groups:
        own = unit[:1] if unit.strides[0] == 0 else unit
        values = np.linalg.svd(own, compute_uv=False)
        rank = np.minimum(*(np.count_nonzero(own.any(axis=axis), axis=1) for axis in (1, 2)))
        last = np.take_along_axis(values, np.maximum(rank - 1, 0)[:, None], axis=1)[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            worst = np.maximum(worst, np.where(rank > 0, values[:, 0] / last, 1))
    return worst


def chosen_atoms(unit: Any, used: Any) -> Any:
    """Return the atoms that each sample uses, and zeros after them."""
    most = max(1, int(np.count_nonzero(used, axis=1).max()))
    first = np.argsort(~used, axis=1, kind="stable")[:, :most]
    return unit[np.arange(len(used))[:, None], first] * np.take_along_axis(used, first, axis=1)[:, :, None]


def run(count: int, seed: int) -> Figures:
    """Hold `count` problems against the oracles."""
    levels, judge = coupledict.build_info()["simd_available"], Judge()
    with threadpool_limits(1):  # the products are small
        for number in range(count):
            problem = draw(np.random.default_rng([seed, number]), number, levels)
            try:
                judge.check(problem)
            except AssertionError as error:
                raise AssertionError(f"Number {number} of seed {seed}: {error}; {problem}.") from None
    worst = {f"largest excess, {name}": float(f"{value:.2g}") for name, value in sorted(judge.worst.items())}
    return {"cases": count, **dict(sorted(judge.seen.items())), **worst}


if __name__ == "__main__":
    main(run, 2000)
