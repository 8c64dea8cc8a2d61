"""Fits on awkward samples: finite atoms of norm at most 1, codes and predictions that are numbers, any update and rule.

The samples come from the same factory as in fuzz_coding.py, some with missing entries and views; hypothesis draws the
learner's settings with them. No error of a learner is larger than its samples, nothing is negative where it must not
be, and imputation leaves known entries unchanged.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from _arrays import ATOMS, DTYPES, LAYOUTS, SAMPLES, fit_range, lay_out, make_atoms, make_samples
from _main import Figures, main
from _rounds import in_rounds
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from coupledict import CoupledDictionaryLearning

SEEDS, WIDTHS = st.integers(0, 2**32 - 1), st.integers(1, 10)
VIEW_COUNTS, SAMPLE_COUNTS = st.sampled_from([1, 2, 2, 3]), st.sampled_from([1, 2, 7, 30, 60])
ATOM_COUNTS = st.integers(1, 24)
ATOM_KINDS, SAMPLE_KINDS, WORK_DTYPES = st.sampled_from(ATOMS), st.sampled_from(SAMPLES), st.sampled_from(DTYPES)
POWERS = {
    np.float32: st.one_of(st.just(0), st.integers(-145, 120)),
    np.float64: st.one_of(st.just(0), st.integers(-1045, 1015)),
}
VIEW_LAYOUTS = st.sampled_from(LAYOUTS)
GAPS = st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.9])  # shares of entries that are missing
PENALTIES = st.floats(-4.0, 0.3)  # powers of ten, relative to the mean norm of samples
SETTINGS = st.fixed_dictionaries(
    {
        "n_nonzero_coefs": st.integers(1, 5),
        "max_iter": st.integers(1, 4),
        "update": st.sampled_from(["statistics", "sequential", "ksvd", "mod"]),
        "schedule": st.sampled_from(["auto", "linear", "constant"]),
        "init": st.sampled_from(["auto", "samples", "random"]),
        "unused_atoms": st.sampled_from(["keep", "mean", "worst", "late"]),
        "normalize": st.sampled_from(["views", "joint"]),
        "pursuit": st.sampled_from(["omp", "ols", "lasso"]),
        "positive_code": st.sampled_from([False, False, True]),
        "coupling": st.sampled_from(["code", "code", "code", "support"]),
        "constant_atom": st.booleans(),
        "scale": st.sampled_from(["auto", None]),
        "predictor": st.sampled_from(["auto", "ridge", "dictionary"]),
        "positive_dict": st.booleans(),
        "n_jobs": st.sampled_from([1, 1, 1, 2]),
        "random_state": st.integers(0, 2**16),
    }
)


def agreeing(settings: dict[str, Any], incomplete: bool, alpha: float) -> dict[str, Any]:
    """Return settings of which none rules out another."""
    if incomplete:
        settings |= {"missing": "nan", "coupling": "code"}
    if settings["coupling"] == "support":
        settings |= {"pursuit": "omp"}
    if settings["pursuit"] == "lasso" and not np.finfo(float).tiny <= alpha < np.inf:
        settings |= {"pursuit": "omp"}
    if settings["pursuit"] == "lasso":
        settings |= {"coupling": "code", "n_nonzero_coefs": None, "alpha": alpha, "schedule": "auto"}
        if settings["update"] in ("sequential", "ksvd"):
            settings |= {"update": "statistics"}
    if settings["positive_code"] and settings["update"] == "ksvd":
        settings |= {"update": "sequential"}
    if settings["unused_atoms"] == "mean" and settings["update"] in ("statistics", "mod"):
        settings |= {"unused_atoms": "worst"}
    if settings["update"] in ("ksvd", "mod"):
        settings |= {"positive_dict": False}
    return settings


@dataclass
class Task:
    """A learner and its samples."""

    Xs: list[Any]
    n_components: int
    settings: dict[str, Any]
    words: tuple[str, ...]

    def __repr__(self) -> str:
        arrays = ", ".join(f"{X.shape} {X.dtype}" for X in self.Xs)
        return f"Task({arrays}; {self.n_components} atoms; {self.settings}; {', '.join(self.words)})"


@st.composite
def tasks(draw: Any) -> Task:
    """Draw a task; the numbers in it come from a seed."""
    rng = np.random.default_rng(draw(SEEDS))
    n, about_atoms, about_samples = draw(SAMPLE_COUNTS), draw(ATOM_KINDS), draw(SAMPLE_KINDS)
    dtype, layout = draw(WORK_DTYPES), draw(VIEW_LAYOUTS)
    power = draw(POWERS[dtype])
    Xs, share = [], draw(GAPS)
    for _ in range(draw(VIEW_COUNTS)):
        X = make_samples(rng, about_samples, n, make_atoms(rng, about_atoms, 12, draw(WIDTHS)))
        X[rng.random(X.shape) < share] = np.nan
        X[rng.random(n) < share / 2] = np.nan
        Xs.append(lay_out(fit_range(np.ldexp(X, power), dtype), layout))
    incomplete = any(np.isnan(X).any() for X in Xs)
    size = float(np.sqrt(sum(np.nansum(np.square(X.astype(np.longdouble))) for X in Xs) / n))
    settings = agreeing(draw(SETTINGS), incomplete, 10 ** draw(PENALTIES) * size)
    words = (about_atoms, about_samples, np.dtype(dtype).name, layout)
    return Task(Xs, draw(ATOM_COUNTS), settings, words)


def check(task: Task, seen: Counter[str]) -> None:
    """Fit, and hold the learner against what is promised."""
    Xs, settings, kept = task.Xs, task.settings, [X.copy() for X in task.Xs]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = CoupledDictionaryLearning(task.n_components, **settings).fit(Xs)
        codes = learner.transform(Xs)
        prediction = learner.predict(Xs, view=0) if len(Xs) > 1 and settings["coupling"] == "code" else np.zeros(1)
        filled = learner.impute(Xs) if "missing" in settings else []
        score = learner.score(Xs)
    allowed = (ConvergenceWarning, UserWarning)
    assert all(issubclass(w.category, allowed) for w in caught), [f"{w.category}: {w.message}" for w in caught]
    for X, before, D in zip(Xs, kept, learner.components_, strict=True):
        assert np.array_equal(X, before, equal_nan=True), "the samples were changed"
        assert D.dtype == X.dtype.newbyteorder("=")
        assert np.isfinite(D).all(), "an atom is not a number"
        assert not settings["positive_dict"] or D.min() >= 0, "an atom is negative"
        as_given = settings.get("scale", "auto") is None  # otherwise norms are those over standardized features
        assert not as_given or np.linalg.norm(D.astype(float), axis=1).max() <= 1 + 1e-5
    for part in codes if isinstance(codes, list) else [codes]:
        assert np.isfinite(part.data).all(), "a code is not a number"
        assert not settings["positive_code"] or part.data.min(initial=0) >= 0, "a code is negative"
    assert np.isfinite(prediction).all(), "a prediction is not a number"
    for whole, X in zip(filled, kept, strict=False):
        known = ~np.isnan(X)
        assert np.isfinite(whole).all(), "what is filled in is not a number"
        assert np.array_equal(whole[known], X[known]), "a known entry was changed"
    if filled and as_given and len(Xs) == 1 and len(Xs[0]) < 20:
        _check_filled(filled[0], kept[0], codes, learner.components_[0])
    assert np.isfinite(score)
    assert -1e-5 <= score <= 1 + 1e-6, f"a score of {score}: codes explain less than none"
    costs = [record["objective"] for record in learner.history_]
    assert min(costs) >= 0 and not np.isnan(costs).any(), "an objective is no number, or negative"
    seen.update((*task.words, settings["update"], settings["coupling"], settings["pursuit"]))
    seen.update([*(["incomplete"] if filled else []), *(["not negative"] if settings["positive_code"] else [])])


def _check_filled(whole: Any, X: Any, codes: Any, D: Any) -> None:
    """Raise unless missing entries are what the codes say."""
    sizes = np.abs(codes).toarray().astype(np.longdouble) @ np.abs(D).astype(np.longdouble)
    said = codes.toarray().astype(np.longdouble) @ D.astype(np.longdouble)
    limits = np.finfo(D.dtype)
    slack = 64 * float(limits.eps) * sizes + len(D) * np.longdouble(limits.smallest_subnormal)
    missing = np.isnan(X)
    assert np.all((np.abs(whole - said) <= slack)[missing]), "a missing entry is not what the codes say"


def run(count: int, seed: int) -> Figures:
    """Fit `count` learners."""
    return in_rounds(tasks(), check, count, seed)


if __name__ == "__main__":
    main(run, 10_000)
