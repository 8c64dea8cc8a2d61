"""Codes of awkward problems: finite, sorted, no atom twice, never an error larger than the sample.

Hypothesis draws shapes, number types, layouts, scales from denormal to the largest number, dictionaries with duplicate,
nearly duplicate, zero and huge atoms, samples that are zero, constant or nearly atoms, weights, limits and tolerances.
"""

from __future__ import annotations

import math
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

from coupledict import sparse_encode

# How much larger than the sample an error may be, by rounding alone: a few times the loss that the guard against
# dependent atoms lets through.
SLACK = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-9}
Long: Any = np.longdouble  # its range holds the square of any float64


@dataclass
class Problem:
    """One call of sparse_encode."""

    Xs: list[Any]
    Ds: list[Any]
    options: dict[str, Any]
    words: tuple[str, ...]

    def __repr__(self) -> str:
        arrays = [f"{'absent' if a is None else f'{a.shape} {a.dtype}'}" for a in [*self.Xs, *self.Ds]]
        return f"Problem({', '.join(arrays)}; {self.options}; {', '.join(self.words)})"


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
PURSUITS, JOBS, YES_OR_NO = st.sampled_from(["omp", "ols"]), st.sampled_from([1, 1, 2]), st.booleans()


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
    for _ in range(n_views):
        D = make_atoms(rng, about_atoms, n_atoms, draw(WIDTHS))
        X = np.ldexp(make_samples(rng, about_samples, n, D), power)
        D = np.ldexp(D, atom_power)
        if uneven:
            with np.errstate(over="ignore"):
                D = np.ldexp(D, rng.integers(-30, 31, (n_atoms, 1)))
        own_dtype, layout = draw(SAMPLE_DTYPES) or dtype, draw(SAMPLE_LAYOUTS)
        Xs.append(lay_out(fit_range(X, own_dtype), layout))
        Ds.append(lay_out(fit_range(D, dtype), draw(ATOM_LAYOUTS)))
        words |= {layout, np.dtype(own_dtype).name}
    energy = float(sum(np.square(X.astype(Long)).sum() for X in Xs) / max(n, 1))
    tol, weights = draw(TOLERANCES), draw(WEIGHTS)
    weights = weights[:n_views] if weights and any(weights[:n_views]) else None
    options = {
        "n_nonzero_coefs": draw(LIMITS),
        "tol": tol * energy if tol is not None and math.isfinite(tol * energy) else None,
        "pursuit": draw(PURSUITS),
        "view_weights": weights,
        "n_jobs": draw(JOBS),
    }
    if n_views > 1 and weights is None and draw(YES_OR_NO):
        Xs[int(rng.integers(n_views))] = None
    return Problem(Xs, Ds, options, tuple(sorted(words)))


def check(problem: Problem, seen: Counter[str]) -> None:
    """Code the problem and hold the result against what is promised."""
    Xs, Ds, options = problem.Xs, problem.Ds, problem.options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            codes = sparse_encode(Xs, Ds, **options)
        except ValueError:
            if not is_out_of_range(problem):
                raise
            seen["refused, out of range"] += 1
            return
    assert all(issubclass(w.category, ConvergenceWarning) for w in caught), [str(w.message) for w in caught]
    present = [v for v, X in enumerate(Xs) if X is not None]
    n, n_atoms = Xs[present[0]].shape[0], Ds[0].shape[0]
    assert codes.shape == (n, n_atoms)
    assert np.isfinite(codes.data).all(), "a coefficient is not a number"
    codes.check_format(full_check=True)
    if options["n_jobs"] > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            alone = sparse_encode(Xs, Ds, **options | {"n_jobs": 1})
        assert all(np.array_equal(getattr(codes, part), getattr(alone, part)) for part in ("data", "indices", "indptr"))
    counts = np.diff(codes.indptr)
    assert all(len(set(row)) == len(row) for row in np.split(codes.indices, codes.indptr[1:-1])), "an atom twice"
    assert counts.max(initial=0) <= min(options["n_nonzero_coefs"] or n_atoms, n_atoms)
    before, after, grain = energies(problem, codes, present)
    slack = SLACK[codes.dtype]
    worst = np.sqrt(before) * (1 + slack) + grain
    excess = (np.sqrt(after) - grain) / np.where(before > 0, np.sqrt(before), 1)
    assert np.all(np.sqrt(after) <= worst), f"an error is larger than its sample: {excess.max() - 1:.3g} too large"
    if options["tol"] is not None and not caught and options["n_nonzero_coefs"] is None:
        least = np.finfo(float).smallest_subnormal.astype(Long) * max([1.0, *(options["view_weights"] or [])]) * 2
        reached = np.sqrt(Long(options["tol"]) + least) + slack * np.sqrt(before) + grain
        over = (np.sqrt(after) - np.sqrt(Long(options["tol"]))) / np.where(before > 0, np.sqrt(before), 1)
        assert np.all(np.sqrt(after) <= reached), f"an error is {over.max():.3g} above tol, and no warning said so"
    seen.update(problem.words)
    seen["nonzeros"] += int(counts.sum())
    seen["at most"] = max(seen["at most"], int(counts.max(initial=0)))


def is_out_of_range(problem: Problem) -> bool:
    """Tell whether a coefficient or the norm of an atom can be too large for a number."""
    weights = problem.options["view_weights"] or [1.0] * len(problem.Xs)
    views = [(X, D) for X, D, w in zip(problem.Xs, problem.Ds, weights, strict=True) if X is not None and w > 0]
    norms = np.sqrt(sum(np.square(D.astype(Long)).sum(axis=1) for _, D in views))
    largest = sum(np.abs(X.astype(Long)).max(initial=0) * X.shape[1] for X, _ in views)
    top = Long(np.finfo(np.result_type(*(array.dtype for pair in views for array in pair))).max)
    return bool(largest / norms[norms > 0].min(initial=Long(1)) > top / 1e6 or norms.max() > np.finfo(np.float64).max)


def energies(problem: Problem, codes: Any, present: list[int]) -> tuple[Any, Any, Any]:
    """Return squared norms of samples and residuals, and how far a residual can move for want of smaller numbers."""
    weights = problem.options["view_weights"] or [1.0] * len(problem.Xs)
    dense = codes.toarray().astype(Long)
    n = dense.shape[0]
    before, after, squares = np.zeros(n, Long), np.zeros(n, Long), np.zeros(dense.shape[1], Long)
    for v in present:
        X, D, weight = problem.Xs[v].astype(Long), problem.Ds[v].astype(Long), Long(weights[v])
        before += weight * np.square(X).sum(axis=1)
        after += weight * np.square(X - dense @ D).sum(axis=1)
        squares += weight * np.square(D).sum(axis=1)
    smallest = np.finfo(codes.dtype).smallest_subnormal.astype(Long)
    grain = np.maximum(((dense != 0) * np.sqrt(squares)).sum(axis=1), np.sqrt(squares.max())) * smallest
    # Samples are multiplied by the roots of the weights, the largest of which is brought to 1.
    weighting = np.sqrt(Long(max(weights))) * smallest * np.sqrt(Long(sum(D.shape[1] for D in problem.Ds)))
    return before, after, grain + weighting


def run(count: int, seed: int) -> Figures:
    """Code `count` problems."""
    return in_rounds(problems(), check, count, seed)


if __name__ == "__main__":
    main(run, 95_000)
