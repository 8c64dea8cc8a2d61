"""The other figures of the learning benchmark: one iteration, unused atoms, memory, and identical bits."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _coders import Quality
from _data import Array
from _learners import KSVD, MOD, UsualKSVD
from _learning_quality import PAUSE, evaluate, score
from _learning_tasks import THREADS, Task

import coupledict
from coupledict.experiments.machine import limit_threads
from coupledict.experiments.watching import Learner, Ours, Point

SEQUENTIAL, STATISTICS = "coupledict sequential", "coupledict statistics"
UPDATES = {SEQUENTIAL: "sequential", STATISTICS: "statistics", KSVD: "ksvd", MOD: "mod"}
#: The paper's rule first.
RULES = ("mean", "keep", "worst", "late")
DIGITS = 16  # of a digest
SETUPS: dict[str, dict[str, Any]] = {
    "default": {},
    "no growth": {"growth": None},
    "sequential": {"update": "sequential"},
}


@dataclass(frozen=True)
class Iteration:
    """Times of one learner: of its first iteration, set-up included, and of its second; and the quality reached."""

    name: str
    first: tuple[float, ...]
    later: tuple[float, ...]
    asked: int
    quality: Quality
    learned: Quality

    @property
    def repeats(self) -> str:
        """How many times were taken, with a star where the budget allowed fewer than were asked."""
        return f"{len(self.first)}" + ("*" if len(self.first) < self.asked else "")


def one_iteration(
    task: Task, peers: Sequence[Learner], *, repeats: int, budget: float, progress: Callable[[str], None]
) -> list[Iteration]:
    """Time the first two iterations of our updates, of peers and of K-SVD as usually written, in turns.

    K-SVD as usually written takes a budget like the others, and so fewer repeats; it does one iteration only.
    """
    settings = {"schedule": "constant", "growth": None, "max_iter": 2, "random_state": 0}
    learners: list[Learner] = [
        *(Ours(name, {**settings, "update": update}, common_start=True) for name, update in UPDATES.items()),
        *peers,
        UsualKSVD(),
    ]
    traces: dict[str, list[list[Point]]] = {learner.name: [] for learner in learners}
    with limit_threads(THREADS):
        for learner in learners:
            learner.run(task.only(4 * task.n_components), limit=1)
    for round_ in range(repeats):
        for place in range(len(learners)):
            learner = learners[(place + round_) % len(learners)]
            done = traces[learner.name]
            if done and (len(done) + 1) * done[0][-1].seconds > budget:
                continue
            progress(f"{task.key}: {learner.name}, round {round_ + 1}")
            with limit_threads(THREADS):
                time.sleep(PAUSE)
                done.append(learner.run(task, limit=1 if isinstance(learner, UsualKSVD) else 2))
    return [_iteration(task, name, runs, repeats) for name, runs in traces.items()]


def _iteration(task: Task, name: str, runs: list[list[Point]], asked: int) -> Iteration:
    first = tuple(points[0].seconds for points in runs)
    later = tuple(points[1].seconds - points[0].seconds for points in runs if len(points) > 1)
    quality = evaluate(task, runs[0][0].dictionary)
    return Iteration(name, first, later, asked, quality, evaluate(task, runs[0][-1].dictionary))


@dataclass(frozen=True)
class Unused:
    """What a rule for unused atoms leads to: held-out quality, and atoms that no training sample uses at the end."""

    case: str
    measure: str
    setup: str
    rule: str
    score: float
    dead: int


def unused_atoms(task: Task, n_iterations: int, progress: Callable[[str], None]) -> list[Unused]:
    """Learn with each rule for unused atoms, with growing samples, without them, and with the paper's update.

    The mean residual, the paper's rule, needs residuals, and so goes with the paper's update only.
    """
    rows = []
    for setup, settings in SETUPS.items():
        for rule in RULES if settings.get("update") == "sequential" else RULES[1:]:
            progress(f"{task.key}: unused atoms, {setup}, {rule}")
            learner = Ours(rule, {**settings, "max_iter": n_iterations, "unused_atoms": rule, "random_state": 0})
            with limit_threads(THREADS):
                dictionary = learner.run(task)[-1].dictionary
            value = score(task, evaluate(task, dictionary))
            rows.append(Unused(task.key, task.measure, setup, rule, value, _dead(task, dictionary)))
    return rows


def _dead(task: Task, dictionary: Array) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = coupledict.sparse_encode(
            task.stacked(), dictionary, n_nonzero_coefs=task.n_nonzero_coefs, tol=task.tol, n_jobs=THREADS
        )
    return len(dictionary) - len(np.unique(codes.indices))


@dataclass(frozen=True)
class Identity:
    """Whether a setting gives the same bits for n_jobs = 1, 2, 3 and when it is run again; and which bits.

    The digests are of the dictionaries, and of codes and predictions of held-out samples. Two versions of the library
    can be compared by them, on one machine: BLAS differs between machines.
    """

    setting: str
    dtype: str
    any_n_jobs: bool
    same_seed: bool
    dictionaries: str
    codes: str
    predictions: str


def identical_bits(task: Task, progress: Callable[[str], None]) -> list[Identity]:
    """Learn with each update in both precisions with 1, 2 and 3 threads, and twice with 2; compare every bit."""
    settings: dict[str, dict[str, Any]] = {
        "default": {},
        "default, norm 1 in each view": {"normalize": "views"},
        "paper": dict(coupledict.PAPER),
        **{
            f"{update}, no growth": {"update": update, "growth": None, "schedule": "constant"}
            for update in UPDATES.values()
        },
    }
    rows = []
    for dtype in ("float32", "float64"):
        views, held_out = ([view.astype(dtype) for view in given] for given in (task.train, task.held_out))
        for name, setting in settings.items():
            progress(f"identical bits: {name}, {dtype}")
            learner = Ours(name, {**setting, "max_iter": 4, "random_state": 7})
            predictor = setting.get("predictor", "ridge")
            found = [
                _digests(learner.estimator(task, n_jobs=n_jobs, predictor=predictor), views, held_out)
                for n_jobs in (1, 2, 3, 2)
            ]
            rows.append(Identity(name, dtype, found[0] == found[1] == found[2], found[1] == found[3], *found[0]))
    return rows


def _digests(model: Any, views: list[Array], held_out: list[Array]) -> tuple[str, str, str]:
    """Learn; return digests of the dictionaries, and of the codes and predictions of held-out samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(views)
    codes = model.transform(held_out)
    others = [[view if v != wanted else None for v, view in enumerate(held_out)] for wanted in range(len(held_out))]
    predictions = [model.predict(given, view=wanted) for wanted, given in enumerate(others)] if len(views) > 1 else []
    parts = [codes.data, codes.indices.astype(np.int64), codes.indptr.astype(np.int64)]
    return _digest(model.components_), _digest(parts), _digest(predictions)


def _digest(arrays: Sequence[Array]) -> str:
    """Return the beginning of the SHA-256 of arrays: of their number types, shapes and bytes."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:DIGITS]
