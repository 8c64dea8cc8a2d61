"""Codes of awkward problems: finite, sorted, no atom twice, never worse than no code at all.

Hypothesis draws shapes, dtypes, layouts, scales from denormal to the largest number, dictionaries with duplicate,
nearly duplicate, zero and huge atoms, samples that are zero, constant or nearly atoms, missing entries and views,
weights, limits, tolerances and penalties, for all coders and instruction sets. fuzz_coherent.py has the oracles.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from _arrays import ATOMS, DTYPES, LAYOUTS, NARROW, SAMPLES, fit_range, lay_out, make_atoms, make_samples
from _main import Figures, main
from _rounds import in_rounds
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from coupledict import build_info, sparse_encode
from coupledict.coding import passes
from coupledict.coding.coders import make_coder
from coupledict.coding.recipe import Recipe
from coupledict.coding.rule import CodingRule
from coupledict.coding.samples import Samples
from coupledict.kernels.instruction_sets import VARIABLE
from coupledict.parallel.jobs import Threads

# How much larger than the sample an error may be, by rounding alone: a few times the loss that the guard against
# dependent atoms lets through.
SLACK = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-9}
Long: Any = np.longdouble  # its range holds the square of any float64


@dataclass
class Problem:
    """One call of sparse_encode; with `support`, views have coefficients of their own."""

    Xs: list[Any]
    Ds: list[Any]
    options: dict[str, Any]
    words: tuple[str, ...]
    support: bool = False
    level: str = "auto"

    def __repr__(self) -> str:
        arrays = [f"{'absent' if a is None else f'{a.shape} {a.dtype}'}" for a in [*self.Xs, *self.Ds]]
        return f"Problem({', '.join(arrays)}; {self.options}; {self.level}; {', '.join(self.words)})"


SEEDS, WIDTHS, ATOM_COUNTS = st.integers(0, 2**32 - 1), st.integers(1, 24), st.integers(1, 70)
VIEW_COUNTS, SAMPLE_COUNTS = st.sampled_from([1, 1, 1, 2, 2, 3, 4]), st.sampled_from([0, 1, 2, 3, 5, 9, 20, 49, 97])
ATOM_KINDS, SAMPLE_KINDS, WORK_DTYPES = st.sampled_from(ATOMS), st.sampled_from(SAMPLES), st.sampled_from(DTYPES)
POWERS = {  # of two: from below the smallest normal number to the largest
    np.float32: st.one_of(st.just(0), st.integers(-145, 120)),
    np.float64: st.one_of(st.just(0), st.integers(-1045, 1020)),
}
SAMPLE_DTYPES = st.sampled_from([None, None, None, *NARROW])
SAMPLE_LAYOUTS, ATOM_LAYOUTS = st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS[:-1])
LIMITS = st.one_of(st.none(), st.integers(1, 16))
TOLERANCES = st.one_of(st.none(), st.just(0.0), st.floats(1e-12, 2.0))  # shares of the mean energy of a sample
WEIGHTS = st.one_of(st.none(), st.lists(st.sampled_from([1e-300, 1e-3, 1.0, 7.0, 1e300, 0.0]), min_size=4, max_size=4))
PURSUITS, JOBS, YES_OR_NO = st.sampled_from(["omp", "ols", "lasso"]), st.sampled_from([1, 1, 2]), st.booleans()
PENALTIES = st.floats(-6.0, 0.5)  # powers of ten, relative to the largest correlation
GAPS = st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.95])  # shares of entries that are missing
SIMD_LEVELS = st.sampled_from(["auto", *build_info()["simd_available"]])


@st.composite
def problems(draw: Any) -> Problem:
    """Draw a problem; the numbers in it come from a seed."""
    rng = np.random.default_rng(draw(SEEDS))
    n_views, n, n_atoms = draw(VIEW_COUNTS), draw(SAMPLE_COUNTS), draw(ATOM_COUNTS)
    about_atoms, about_samples, dtype = draw(ATOM_KINDS), draw(SAMPLE_KINDS), draw(WORK_DTYPES)
    power, atom_power, uneven = draw(POWERS[dtype]), draw(POWERS[dtype]), draw(YES_OR_NO)
    Xs: list[Any] = []
    Ds: list[Any] = []
    words = {about_atoms, about_samples, np.dtype(dtype).name}
    share = draw(GAPS)
    for _ in range(n_views):
        D = make_atoms(rng, about_atoms, n_atoms, draw(WIDTHS))
        X = np.ldexp(make_samples(rng, about_samples, n, D), power)
        D = np.ldexp(D, atom_power)
        if uneven:
            with np.errstate(over="ignore"):
                D = np.ldexp(D, rng.integers(-30, 31, (n_atoms, 1)))
        own_dtype, layout = draw(SAMPLE_DTYPES) or dtype, draw(SAMPLE_LAYOUTS)
        if np.issubdtype(own_dtype, np.floating):
            X[rng.random(X.shape) < share] = np.nan
            X[rng.random(n) < share / 2] = np.nan
        Xs.append(lay_out(fit_range(X, own_dtype), layout))
        Ds.append(lay_out(fit_range(D, dtype), draw(ATOM_LAYOUTS)))
        words |= {layout, np.dtype(own_dtype).name}
    options, support = _draw_options(draw, Xs, Ds)
    words |= {options["pursuit"], *(["not negative"] if options["positive_code"] else [])}
    words |= {*(["incomplete"] if options["missing"] == "nan" else []), *(["one support"] if support else [])}
    if n_views > 1 and options["view_weights"] is None and not support and draw(YES_OR_NO):
        Xs[int(rng.integers(n_views))] = None
    return Problem(Xs, Ds, options, tuple(sorted(words)), support, draw(SIMD_LEVELS))


def _draw_options(draw: Any, Xs: list[Any], Ds: list[Any]) -> tuple[dict[str, Any], bool]:
    """Draw what the samples allow: the options, and whether views have coefficients of their own."""
    n_views, n = len(Xs), Xs[0].shape[0]
    energy = float(sum(np.nansum(np.square(X.astype(Long))) for X in Xs) / max(n, 1))
    tol, weights = draw(TOLERANCES), draw(WEIGHTS)
    weights = weights[:n_views] if weights and any(weights[:n_views]) else None
    incomplete = any(X.dtype.kind == "f" and np.isnan(X).any() for X in Xs)
    options = {
        "n_nonzero_coefs": draw(LIMITS),
        "tol": tol * energy if tol is not None and math.isfinite(tol * energy) else None,
        "alpha": None,
        "pursuit": draw(PURSUITS),
        "positive_code": draw(YES_OR_NO),
        "missing": "nan" if incomplete else "error",
        "view_weights": weights,
        "n_jobs": draw(JOBS),
    }
    if options["pursuit"] == "lasso":
        top = max(float(np.sqrt(np.square(D.astype(Long)).sum(axis=1)).max()) for D in Ds)
        alpha = 10 ** draw(PENALTIES) * math.sqrt(energy) * top
        if np.finfo(float).tiny <= alpha < math.inf:
            return options | {"n_nonzero_coefs": None, "tol": None, "alpha": alpha, "view_weights": None}, False
        options["pursuit"] = "omp"
    own = n_views > 1 and options["pursuit"] == "omp" and not incomplete and all(weights or [1.0])
    return options, bool(own and draw(YES_OR_NO))


def encode(problem: Problem, n_jobs: int) -> list[Any]:
    """Return the codes of all views, or of each view that has coefficients of its own."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = problem.level
    try:
        if not problem.support:
            return [sparse_encode(problem.Xs, problem.Ds, **problem.options | {"n_jobs": n_jobs})]
        given = {name: problem.options[name] for name in ("tol", "pursuit", "positive_code")}
        rule = CodingRule.checked(problem.options["n_nonzero_coefs"], coupling="support", **given)
        dtype = np.result_type(np.float32, *problem.Xs, *problem.Ds)
        weights = np.array(problem.options["view_weights"] or [1.0] * len(problem.Xs))
        coder = make_coder(Recipe(problem.Ds, weights, dtype, rule, len(problem.Xs[0])), Threads(n_jobs))
        coded = passes.encode(coder, Samples(problem.Xs, dtype), Threads(n_jobs))
        coder.count_shortfall(coded).warn(rule.tol)
        return coded.as_csr(coder.n_atoms)
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def check(problem: Problem, seen: Counter[str]) -> None:
    """Code the problem and hold the result against what is promised."""
    Xs, Ds, options = problem.Xs, problem.Ds, problem.options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            parts = encode(problem, options["n_jobs"])
        except ValueError:
            if not is_out_of_range(problem):
                raise
            seen["refused, out of range"] += 1
            return
    told = [w for w in caught if "no known entry" not in str(w.message)]
    assert all(issubclass(w.category, ConvergenceWarning) for w in told), [str(w.message) for w in told]
    present = [v for v, X in enumerate(Xs) if X is not None]
    n, n_atoms = Xs[present[0]].shape[0], Ds[0].shape[0]
    for codes in parts:
        assert codes.shape == (n, n_atoms)
        assert np.isfinite(codes.data).all(), "a coefficient is not a number"
        assert not options["positive_code"] or codes.data.min(initial=0) >= 0, "a coefficient is negative"
        codes.check_format(full_check=True)
        assert all(len(set(row)) == len(row) for row in np.split(codes.indices, codes.indptr[1:-1])), "an atom twice"
    if options["n_jobs"] > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = encode(problem, 1)
        for codes, other in zip(parts, alone, strict=True):
            assert all(np.array_equal(getattr(codes, p), getattr(other, p)) for p in ("data", "indices", "indptr"))
    counts = np.diff(parts[0].indptr)
    assert counts.max(initial=0) <= min(options["n_nonzero_coefs"] or n_atoms, n_atoms)
    _check_errors(problem, parts, present, warned=bool(told))
    seen.update(problem.words)
    seen["nonzeros"] += int(counts.sum())
    seen["at most"] = max(seen["at most"], int(counts.max(initial=0)))


def _check_errors(problem: Problem, parts: list[Any], present: list[int], *, warned: bool) -> None:
    """Hold errors against samples, objectives of the lasso against that of no code, and both against tol."""
    options, slack = problem.options, SLACK[parts[0].dtype]
    before, after, grain = energies(problem, parts, present)
    sizes = np.where(before > 0, np.sqrt(before), 1)
    if options["alpha"] is not None:
        penalty = 2 * Long(options["alpha"]) * np.abs(parts[0].toarray().astype(Long)).sum(axis=1)
        after = np.maximum(after + penalty - 2 * grain * np.sqrt(before), 0)
    excess = (np.sqrt(after) - grain) / sizes
    assert np.all(np.sqrt(after) <= np.sqrt(before) * (1 + slack) + grain), (
        f"an error is larger than its sample: {excess.max() - 1:.3g} too large"
    )
    if options["tol"] is not None and not warned and options["n_nonzero_coefs"] is None:
        least = np.finfo(float).smallest_subnormal.astype(Long) * max([1.0, *(options["view_weights"] or [])]) * 2
        reached = np.sqrt(Long(options["tol"]) + least) + slack * np.sqrt(before) + grain
        over = (np.sqrt(after) - np.sqrt(Long(options["tol"]))) / sizes
        assert np.all(np.sqrt(after) <= reached), f"an error is {over.max():.3g} above tol, and no warning said so"


def is_out_of_range(problem: Problem) -> bool:
    """Tell whether a coefficient or the norm of an atom can be too large for a number."""
    weights = problem.options["view_weights"] or [1.0] * len(problem.Xs)
    views = [(X, D) for X, D, w in zip(problem.Xs, problem.Ds, weights, strict=True) if X is not None and w > 0]
    squares = [np.square(D.astype(Long)).sum(axis=1) for _, D in views]
    norms = np.sqrt(np.concatenate(squares) if problem.support else sum(squares))
    # Of an atom, what is known may be a small part.
    share = Long(1e-5) if problem.options["missing"] == "nan" else Long(1)
    largest = sum(np.abs(np.nan_to_num(X.astype(Long))).max(initial=0) * X.shape[1] for X, _ in views)
    top = Long(np.finfo(np.result_type(*(array.dtype for pair in views for array in pair))).max)
    small = share * norms[norms > 0].min(initial=Long(1))
    return bool(largest / small > top / 1e6 or norms.max() > np.finfo(np.float64).max)


def energies(problem: Problem, parts: list[Any], present: list[int]) -> tuple[Any, Any, Any]:
    """Return squared norms of samples and residuals, and how far a residual can move for want of smaller numbers."""
    weights = problem.options["view_weights"] or [1.0] * len(problem.Xs)
    n, n_atoms = parts[0].shape
    before, after, squares = np.zeros(n, Long), np.zeros(n, Long), np.zeros(n_atoms, Long)
    used = np.any([part.toarray() != 0 for part in parts], axis=0)
    for v in present:
        X, D, weight = problem.Xs[v].astype(Long), problem.Ds[v].astype(Long), Long(weights[v])
        dense = parts[v if problem.support else 0].toarray().astype(Long)
        before += weight * np.nansum(np.square(X), axis=1)
        after += weight * np.nansum(np.square(X - dense @ D), axis=1)
        squares += weight * np.square(D).sum(axis=1)
    smallest = np.finfo(parts[0].dtype).smallest_subnormal.astype(Long)
    grain = np.maximum((used * np.sqrt(squares)).sum(axis=1), np.sqrt(squares.max())) * smallest
    # Samples are multiplied by the roots of the weights, the largest of which is brought to 1.
    weighting = np.sqrt(Long(max(weights))) * smallest * np.sqrt(Long(sum(D.shape[1] for D in problem.Ds)))
    return before, after, grain + weighting


def run(count: int, seed: int) -> Figures:
    """Code `count` problems."""
    return in_rounds(problems(), check, count, seed)


if __name__ == "__main__":
    main(run, 95_000)
