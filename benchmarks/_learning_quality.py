"""Time to quality: how soon each learner reaches what 30 plain iterations reach on held-out samples.

The target is the held-out quality after the last iteration of the reference: the paper's update with a constant
number of atoms. A learner is run once to its end, and what it learned on the way is judged afterwards. Then those
that reached the target take turns and repeat the way there, as often as the budget allows; the median counts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from _coders import Quality, judge
from _data import Array
from _learners import DEFAULT, REFERENCE
from _learning_tasks import THREADS, Task

import coupledict
from coupledict.experiments.machine import limit_threads
from coupledict.experiments.watching import Learner, Point

PAUSE = 0.05
RECOVERED = 0.99


@dataclass(frozen=True)
class Trace:
    """What one learner did on one task: quality after each point, and the times of the way to the target."""

    name: str
    seconds: tuple[float, ...]
    qualities: tuple[Quality, ...]
    scores: tuple[float, ...]
    times_to_target: tuple[float, ...]
    asked: int
    recovered: int | None

    @property
    def to_target(self) -> float | None:
        """Median seconds until the target, or None where it was not reached."""
        return float(np.median(self.times_to_target)) if self.times_to_target else None

    @property
    def final(self) -> float:
        """Quality at the end."""
        return self.scores[-1]

    @property
    def best(self) -> float:
        """Best quality on the way."""
        return min(self.scores)

    @property
    def repeats(self) -> str:
        """How many times were taken, with a star where the budget allowed fewer than were asked."""
        taken = len(self.times_to_target)
        return "-" if not taken else f"{taken}" + ("*" if taken < self.asked else "")


@dataclass(frozen=True)
class Contest:
    """The traces of all learners on one task. The default has one trace for each seed."""

    key: str
    heading: str
    measure: str
    start: float
    target: float
    traces: tuple[Trace, ...]

    def named(self, name: str) -> Trace | None:
        """Return the trace of a learner; of the default, that of the seed with the median time."""
        if name == DEFAULT:
            seeds = sorted(self.seeds(), key=lambda trace: (trace.to_target is None, trace.to_target or 0.0))
            return seeds[len(seeds) // 2] if seeds else None
        return next((trace for trace in self.traces if trace.name == name), None)

    def seeds(self) -> list[Trace]:
        """Return the traces of the default."""
        return [trace for trace in self.traces if trace.name.startswith(DEFAULT)]

    def names(self) -> list[str]:
        """Return the names of the learners, the default first and once."""
        others = [trace.name for trace in self.traces if not trace.name.startswith(DEFAULT)]
        return [DEFAULT, *others] if self.seeds() else others

    def final(self, name: str) -> float | None:
        """Return the final quality of a learner; of the default, the median over the seeds."""
        traces = self.seeds() if name == DEFAULT else [trace for trace in self.traces if trace.name == name]
        return float(np.median([trace.final for trace in traces])) if traces else None

    def sooner(self, name: str) -> tuple[float, bool] | None:
        """Return how many times sooner than a learner the default was, and whether that is only a lower bound.

        A learner that never reached the target is counted with all the time it took. 0 where the default did not
        reach it.
        """
        mine, other = self.named(DEFAULT), self.named(name)
        if mine is None or other is None:
            return None
        if mine.to_target is None:
            return 0.0, False
        if other.to_target is None:
            return other.seconds[-1] / mine.to_target, True
        return other.to_target / mine.to_target, False


def hold(
    task: Task,
    learners: Sequence[Learner],
    *,
    repeats: int,
    budget: float,
    patience: float,
    progress: Callable[[str], None],
) -> Contest:
    """Let learners compete on a task.

    Parameters
    ----------
    repeats : int
        Times that the way to the target is measured, the first run included.
    budget : float
        Seconds that all of them may take for one learner; one that takes longer gets fewer, but one.
    patience : float
        Seconds that a learner without a number of iterations of its own may take.
    """
    traces: dict[str, list[Point]] = {}
    for learner in learners:
        progress(f"{task.key}: {learner.name}")
        with limit_threads(THREADS):
            learner.run(task.only(4 * task.n_components), limit=1)
            time.sleep(PAUSE)
            traces[learner.name] = learner.run(task, patience=patience)
    progress(f"{task.key}: judging")
    qualities = {name: [evaluate(task, point.dictionary) for point in points] for name, points in traces.items()}
    scores = {name: [score(task, quality) for quality in values] for name, values in qualities.items()}
    target = scores[REFERENCE][-1]
    reached = {name: _first(values, target) for name, values in scores.items()}
    times = _repeat(task, learners, traces, reached, repeats, budget, progress)
    return Contest(
        task.key,
        task.heading,
        task.measure,
        score(task, evaluate(task, task.stacked_start())),
        target,
        tuple(
            Trace(
                name,
                tuple(point.seconds for point in points),
                tuple(qualities[name]),
                tuple(scores[name]),
                tuple(times[name]),
                repeats,
                None if task.truth is None else recovered(points[-1].dictionary, task.truth),
            )
            for name, points in traces.items()
        ),
    )


def _repeat(
    task: Task,
    learners: Sequence[Learner],
    traces: dict[str, list[Point]],
    reached: dict[str, int | None],
    repeats: int,
    budget: float,
    progress: Callable[[str], None],
) -> dict[str, list[float]]:
    """Measure the way to the target again, in turns; return all times of each learner."""
    times: dict[str, list[float]] = {name: [] for name in traces}
    for name, index in reached.items():
        if index is not None:
            times[name].append(traces[name][index].seconds)
    for round_ in range(1, repeats):
        for place in range(len(learners)):
            learner = learners[(place + round_) % len(learners)]
            index, taken = reached[learner.name], times[learner.name]
            if index is None or sum(taken) + taken[0] > budget:
                continue
            progress(f"{task.key}: {learner.name}, repeat {round_}")
            with limit_threads(THREADS):
                time.sleep(PAUSE)
                taken.append(learner.again(task, index))
    return times


def _first(values: Sequence[float], target: float) -> int | None:
    return next((index for index, value in enumerate(values) if value <= target), None)


def evaluate(task: Task, dictionary: Array) -> Quality:
    """Encode the held-out samples of a task with a dictionary of stacked views, and judge the codes."""
    X = np.hstack(task.held_out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = coupledict.sparse_encode(
            X, dictionary, n_nonzero_coefs=task.n_nonzero_coefs, tol=task.tol, n_jobs=THREADS
        )
    return judge(X, codes, dictionary)


def score(task: Task, quality: Quality) -> float:
    """Return the number by which a task is judged: the lower, the better."""
    return quality.rms_residual if task.tol is None else quality.mean_nonzeros


def recovered(dictionary: Array, truth: Array) -> int:
    """Count the true atoms that some learned atom matches with a cosine beyond 0.99, whatever its sign."""
    norms = np.linalg.norm(dictionary, axis=1, keepdims=True)
    cosines = np.abs((dictionary / np.where(norms > 0, norms, 1.0)) @ truth.T)
    return int(np.count_nonzero(cosines.max(axis=0) > RECOVERED))
