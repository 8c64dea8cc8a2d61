"""Fits on awkward samples: finite atoms of norm at most 1, codes and predictions that are numbers, any update and rule.

The samples come from the same factory as in fuzz_coding.py; hypothesis draws the learner's settings with them.
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
SETTINGS = st.fixed_dictionaries(
    {
        "n_nonzero_coefs": st.integers(1, 5),
        "max_iter": st.integers(1, 4),
        "update": st.sampled_from(["statistics", "sequential", "ksvd", "mod"]),
        "schedule": st.sampled_from(["auto", "linear", "constant"]),
        "init": st.sampled_from(["auto", "samples", "random"]),
        "unused_atoms": st.sampled_from(["keep", "mean", "worst", "late"]),
        "normalize": st.sampled_from(["views", "joint"]),
        "pursuit": st.sampled_from(["omp", "ols"]),
        "coupling": st.sampled_from(["code", "code", "code", "support"]),
        "constant_atom": st.booleans(),
        "positive_dict": st.booleans(),
        "n_jobs": st.sampled_from([1, 1, 1, 2]),
        "random_state": st.integers(0, 2**16),
    }
)


def agreeing(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of which none rules out another."""
    if settings["coupling"] == "support":
        settings |= {"pursuit": "omp"}
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
    Xs = []
    for _ in range(draw(VIEW_COUNTS)):
        X = make_samples(rng, about_samples, n, make_atoms(rng, about_atoms, 12, draw(WIDTHS)))
        Xs.append(lay_out(fit_range(np.ldexp(X, power), dtype), layout))
    return Task(
        Xs, draw(ATOM_COUNTS), agreeing(draw(SETTINGS)), (about_atoms, about_samples, np.dtype(dtype).name, layout)
    )


def check(task: Task, seen: Counter[str]) -> None:
    """Fit, and hold the learner against what is promised."""
    kept = [X.copy() for X in task.Xs]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = CoupledDictionaryLearning(task.n_components, **task.settings).fit(task.Xs)
        codes = learner.transform(task.Xs)
        together = len(task.Xs) > 1 and task.settings["coupling"] == "code"
        prediction = learner.predict(task.Xs, view=0) if together else task.Xs[0]
        score = learner.score(task.Xs)
    allowed = (ConvergenceWarning, UserWarning)
    assert all(issubclass(w.category, allowed) for w in caught), [f"{w.category}: {w.message}" for w in caught]
    for X, before, D in zip(task.Xs, kept, learner.components_, strict=True):
        assert np.array_equal(X, before), "the samples were changed"
        assert D.dtype == X.dtype.newbyteorder("=")
        assert np.isfinite(D).all(), "an atom is not a number"
        assert not task.settings["positive_dict"] or D.min() >= 0, "an atom is negative"
        assert np.linalg.norm(D.astype(float), axis=1).max() <= 1 + 1e-5
    for part in codes if isinstance(codes, list) else [codes]:
        assert np.isfinite(part.data).all(), "a code is not a number"
    assert np.isfinite(prediction).all(), "a prediction is not a number"
    assert np.isfinite(score)
    assert score <= 1 + 1e-6
    seen.update((*task.words, task.settings["update"], task.settings["coupling"]))


def run(count: int, seed: int) -> Figures:
    """Fit `count` learners."""
    return in_rounds(tasks(), check, count, seed)


if __name__ == "__main__":
    main(run, 10_000)
