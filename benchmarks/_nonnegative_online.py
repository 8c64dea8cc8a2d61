"""Online learning with the lasso: the time to a held-out objective, beside SPAMS' trainDL and scikit-learn.

All methods learn the same number of atoms with the same penalty from the same patches and the same start, random
patches. Each makes a curve of (seconds, objective of patches of other pictures): ours and scikit-learn's by copies of
the dictionary that a callback takes, SPAMS' by runs of growing length, each from the start. Evaluation is not timed.
Batch sizes, and scikit-learn's algorithm, are chosen on the first half of the pictures: those that reach the best
objective of the method, and half a per cent, soonest. Figures are of the second half.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from _data import Array
from _main import Options, duration, join, table
from _nonnegative_problems import HAS_SPAMS, N_JOBS, lasso_objective, penalty_for
from sklearn.decomposition import MiniBatchDictionaryLearning

from coupledict import OnlineDictionaryLearning, sparse_encode
from coupledict.experiments.machine import limit_threads
from coupledict.experiments.sources import Half, distinct_patches, load_images

BATCHES = (128, 512, 2048)
SLACK = 1.005  # an objective counts as reached within half a per cent
#: Seconds of the longest run of a method.
BUDGETS = {"ours": 5.0, "trainDL": 5.0, "MiniBatchDictionaryLearning": 14.0}

Curve = list[tuple[float, Array]]


@dataclass(frozen=True)
class Task:
    """Patches to learn from and to judge by, a start, and the penalty."""

    train: Array
    held_out: Array
    start: Array
    alpha: float

    def judge(self, curve: Curve) -> list[tuple[float, float]]:
        """Return the seconds and held-out objectives of a curve of dictionaries."""
        return [(seconds, self.objective(atoms)) for seconds, atoms in curve]

    def objective(self, atoms: Array) -> float:
        """Return the held-out objective of atoms, scaled to norm 1: no constraint of any method forbids that."""
        norms = np.linalg.norm(atoms, axis=1, keepdims=True)
        atoms = atoms / np.where(norms > 0, norms, 1)
        codes = sparse_encode(self.held_out, atoms, pursuit="lasso", alpha=self.alpha, n_jobs=N_JOBS)
        return lasso_objective(self.held_out, codes, atoms, self.alpha)


def make_task(data: Path | None, half: Half, n_atoms: int, n_train: int, n_held_out: int, seed: int) -> Task:
    """Cut patches of the first pictures of a half to learn from, and of the other ones to judge by."""
    images, _ = load_images(data, half=half)
    middle = 2 * (len(images) // 4)  # both pictures of a pair are on the same side
    train = distinct_patches([images[:middle]], n_train, seed=seed)[0]
    held_out = distinct_patches([images[middle:]], n_held_out, seed=seed + 1)[0]
    energy = np.linalg.norm(train, axis=1)
    start = train[np.random.default_rng(seed).choice(np.flatnonzero(energy > np.median(energy)), n_atoms, False)]
    start = start / np.linalg.norm(start, axis=1, keepdims=True)
    return Task(train, held_out, start, penalty_for(train[:300], start, 10, positive=False))


# Curves


class Recorder:
    """Copies dictionaries at moments that lie ever further apart, and knows when the budget is spent."""

    def __init__(self, budget: float) -> None:
        self.curve: Curve = []
        self._budget, self._began, self._next = budget, time.perf_counter(), 0.01

    def see(self, atoms: Array) -> bool:
        """Look at the current dictionary; tell whether time is up."""
        seconds = time.perf_counter() - self._began
        if seconds >= self._next:
            self.curve.append((seconds, np.array(atoms, np.float64)))
            self._next = 1.25 * seconds
        return seconds > self._budget


def ours(task: Task, batch: int, budget: float, seed: int) -> Curve:
    """Learn with OnlineDictionaryLearning."""
    recorder = Recorder(budget)
    OnlineDictionaryLearning(
        len(task.start),
        pursuit="lasso",
        alpha=task.alpha,
        batch_size=batch,
        max_iter=1_000,
        init=[task.start],
        n_jobs=N_JOBS,
        random_state=seed,
        callback=lambda progress: recorder.see(progress.components[0]),  # type: ignore[attr-defined]
    ).fit([task.train])
    return recorder.curve


def train_dl(task: Task, batch: int, budget: float, seed: int) -> Curve:
    """Learn with SPAMS, in runs of growing length."""
    import spams

    columns, start = np.asfortranarray(task.train.T), np.asfortranarray(task.start.T)
    curve: Curve = []
    length, seconds = 1, 0.0
    while seconds < budget:
        began = time.perf_counter()
        atoms = spams.trainDL(
            columns, D=start, lambda1=task.alpha, mode=2, iter=length, batchsize=batch, numThreads=N_JOBS, verbose=False
        )
        seconds = time.perf_counter() - began
        curve.append((seconds, atoms.T.copy()))
        length = int(1.5 * length) + 1
    return curve


class _TimeIsUpError(Exception):
    """Ends a fit of scikit-learn's, whose callback cannot."""


def mini_batch(task: Task, batch: int, budget: float, seed: int, algorithm: str = "cd") -> Curve:
    """Learn with scikit-learn."""
    recorder = Recorder(budget)

    def watch(state: dict[str, Any]) -> None:
        if recorder.see(state["dictionary"]):
            raise _TimeIsUpError

    learner = MiniBatchDictionaryLearning(
        len(task.start),
        alpha=task.alpha,
        batch_size=batch,
        max_iter=1_000,
        fit_algorithm=algorithm,
        dict_init=task.start,
        n_jobs=N_JOBS,
        random_state=seed,
        max_no_improvement=None,
        tol=0.0,
        callback=watch,
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(joblib.parallel_config(backend="threading"))  # processes take longer to start than a batch
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # its coordinate descent ends early, and says so for every batch
        stack.enter_context(contextlib.suppress(_TimeIsUpError))
        learner.fit(task.train)
    return recorder.curve


# Comparison


def first_time(curve: list[tuple[float, float]], target: float) -> float:
    """Return when a curve first is at or below a target; infinity if never."""
    return min((seconds for seconds, objective in curve if objective <= target), default=np.inf)


def run(options: Options) -> list[dict[str, Any]]:
    """Choose settings on the first half of the pictures, and compare on the second."""
    data, quick = options.data, options.quick
    sizes = (64, 2_000, 200) if quick else (256, 30_000, 1_000)
    share = 0.05 if quick else 1.0
    batches = BATCHES[:2] if quick else BATCHES
    learn: dict[str, Callable[..., Curve]] = {"ours": ours, "MiniBatchDictionaryLearning": mini_batch}
    choices: dict[str, list[dict[str, Any]]] = {name: [{"batch": batch} for batch in batches] for name in learn}
    choices["MiniBatchDictionaryLearning"] += [{"batch": batch, "algorithm": "lars"} for batch in batches[1:2]]
    if HAS_SPAMS:
        learn["trainDL"], choices["trainDL"] = train_dl, [{"batch": batch} for batch in batches]
    task = make_task(data, "first", *sizes, seed=0)
    chosen = {name: _choose(task, learn[name], choices[name], share * BUDGETS[name]) for name in learn}
    found: list[dict[str, Any]] = []
    for seed in range(1 if quick else 3):
        task = make_task(data, "second", *sizes, seed=seed + 1)
        curves = {}
        for name in np.roll(list(learn), seed):  # each has its turn to be the first
            with limit_threads(N_JOBS):
                curves[name] = learn[name](task, budget=share * BUDGETS[name], seed=seed, **chosen[name])
        judged = {name: task.judge(curve) for name, curve in curves.items()}
        best = {name: min(objective for _, objective in curve) for name, curve in judged.items()}
        for name in learn:
            row = {"seed": seed, "method": name, "best": best[name], **chosen[name], "curve": judged[name]}
            target = SLACK * best[name]
            row |= {"seconds": first_time(judged[name], target), "our_seconds": first_time(judged["ours"], target)}
            found.append(row | {"ratio": row["seconds"] / row["our_seconds"]})
    return found


def _choose(task: Task, learn: Callable[..., Curve], options: list[dict[str, Any]], budget: float) -> dict[str, Any]:
    """Return the options that reach the best objective of all, and half a per cent, soonest."""
    with limit_threads(N_JOBS):
        curves = [learn(task, budget=budget / 2, seed=0, **option) for option in options]
    judged = [task.judge(curve) for curve in curves]
    target = SLACK * min(objective for curve in judged for _, objective in curve)
    return options[int(np.argmin([first_time(curve, target) for curve in judged]))]


def report(found: list[dict[str, Any]]) -> str:
    """Return the table."""
    rows = []
    for name in dict.fromkeys(row["method"] for row in found):
        mine = [row for row in found if row["method"] == name]
        seconds, our_seconds, ratio, best = (
            float(np.median([row[key] for row in mine])) for key in ("seconds", "our_seconds", "ratio", "best")
        )
        setting = f"{mine[0]['batch']}{', ' + mine[0]['algorithm'] if 'algorithm' in mine[0] else ''}"
        ratios = f"{min(row['ratio'] for row in mine):.1f} to {max(row['ratio'] for row in mine):.1f}"
        rows.append([name, setting, f"{best:.2f}", duration(seconds), duration(our_seconds), f"{ratio:.1f}", ratios])
    heads = ["method", "batch", "best objective", "reached in", "by ours in", "ratio", "over seeds"]
    caption = "Reached: the best held-out objective of the method, and half a per cent. Medians over seeds."
    return join(table(heads, rows, left=2), caption)
