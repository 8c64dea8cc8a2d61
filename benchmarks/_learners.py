"""The learners that are compared: ours with its settings, and plain exact K-SVD as it is usually written.

A run of a learner leaves a trace: the dictionaries after its iterations, and the seconds they took. The clock
stands still while a dictionary is copied, and dictionaries are judged when the run is over.
"""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _data import Array
from _learning_tasks import Task
from _timing import usable_cores

import coupledict

THREADS = min(2, usable_cores())
N_SEEDS = 3

DEFAULT, JOINT = "coupledict default", "default, joint norm"
REFERENCE, LETTER = "sequential, constant T", "the paper's letter"
KSVD, MOD = "coupledict K-SVD", "coupledict MOD"


@dataclass(frozen=True)
class Point:
    """A dictionary of stacked views, and the seconds of learning behind it."""

    seconds: float
    dictionary: Array


class Recorder:
    """Notes dictionaries with the time they took, and says when there are enough.

    Parameters
    ----------
    limit : int or None
        Number of notes after which to stop.
    patience : float
        Seconds after which to stop.
    """

    def __init__(self, limit: int | None = None, patience: float = math.inf) -> None:
        self.points: list[Point] = []
        self._limit = math.inf if limit is None else limit
        self._patience = patience
        self._started = 0.0
        self._idle = 0.0

    def start(self) -> None:
        """Start the clock."""
        self._started = time.perf_counter()

    def note(self, dictionaries: Sequence[Array]) -> bool:
        """Note the dictionaries of all views while the clock stands still; tell whether to stop."""
        now = time.perf_counter()
        seconds = now - self._started - self._idle
        self.points.append(Point(seconds, np.hstack(dictionaries)))
        self._idle += time.perf_counter() - now
        return len(self.points) >= self._limit or seconds >= self._patience


class Learner(ABC):
    """Something that learns a dictionary and can be watched."""

    name: str

    @abstractmethod
    def run(self, task: Task, *, limit: int | None = None, patience: float = math.inf) -> list[Point]:
        """Learn; return the dictionaries on the way, at most `limit` of them, or up to `patience` seconds."""

    def again(self, task: Task, index: int) -> float:
        """Learn once more, up to the point of that index; return the seconds until there."""
        return self.run(task, limit=index + 1)[-1].seconds


class Ours(Learner):
    """``coupledict.CoupledDictionaryLearning`` with settings.

    Parameters
    ----------
    name : str
    settings : mapping
        Keywords of the estimator.
    common_start : bool
        Start from the dictionaries of the task, as the peers do, and not from what `settings` says.
    """

    def __init__(self, name: str, settings: Mapping[str, Any], *, common_start: bool = False) -> None:
        self.name = name
        self.settings = dict(settings)
        self.common_start = common_start

    def estimator(self, task: Task, **more: Any) -> Any:
        """Make the estimator for a task."""
        settings = {
            **self.settings,
            "n_components": task.n_components,
            "n_nonzero_coefs": task.n_nonzero_coefs,
            "tol": task.tol,
            "n_jobs": THREADS,
            # It serves prediction only and comes after the dictionaries, which are what is compared.
            "refit": False,
            **more,
        }
        if self.common_start:
            settings["init"] = list(task.start)
        return coupledict.CoupledDictionaryLearning(**settings)

    def run(self, task: Task, *, limit: int | None = None, patience: float = math.inf) -> list[Point]:
        """See the base class. The patience is not needed: the number of iterations is a setting."""
        recorder = Recorder(limit)
        model = self.estimator(task, callback=lambda state: recorder.note(state.components))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recorder.start()
            model.fit(list(task.train))
        return recorder.points


def our_learners(task: Task, n_iterations: int) -> list[Ours]:
    """Return our contestants for a task: the default once for each seed, its rivals once."""
    constant = {"schedule": "constant", "growth": None, "max_iter": n_iterations, "random_state": 0}
    default = {"max_iter": n_iterations}
    learners = [Ours(f"{DEFAULT} {seed}", {**default, "random_state": seed}) for seed in range(N_SEEDS)]
    if len(task.train) > 1:
        learners.append(Ours(JOINT, {**default, "normalize": "joint", "random_state": 0}))
    letter = {**coupledict.LETTER, "max_iter": n_iterations, "random_state": 0}
    return [
        *learners,
        Ours(REFERENCE, {**constant, "update": "sequential"}, common_start=True),
        Ours(LETTER, letter, common_start=True),
        Ours(KSVD, {**constant, "update": "ksvd"}, common_start=True),
        Ours(MOD, {**constant, "update": "mod"}, common_start=True),
    ]


class UsualKSVD(Learner):
    """Exact K-SVD as it is usually written: scikit-learn's OMP, and NumPy's SVD of the error of each atom.

    scikit-learn ignores the number of atoms where a tolerance is given, so codes may be longer than asked.
    """

    name = "K-SVD as usually written"

    def run(self, task: Task, *, limit: int | None = None, patience: float = math.inf) -> list[Point]:
        """See the base class."""
        recorder = Recorder(limit, patience)
        X, D = task.stacked(), task.stacked_start()
        recorder.start()
        while True:
            self._iterate(X, D, task.n_nonzero_coefs, task.tol)
            if recorder.note([D]):
                return recorder.points

    @staticmethod
    def _iterate(X: Array, D: Array, n_nonzero_coefs: int, tol: float | None) -> None:
        from sklearn.linear_model import orthogonal_mp_gram

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            codes = orthogonal_mp_gram(
                D @ D.T,
                D @ X.T,
                n_nonzero_coefs=n_nonzero_coefs,
                tol=tol,
                norms_squared=np.einsum("ij,ij->i", X, X),
            ).T
        for atom in range(len(D)):
            (users,) = np.nonzero(codes[:, atom])
            if len(users) == 0:
                continue
            codes[users, atom] = 0.0
            error = X[users] - codes[users] @ D
            left, values, right = np.linalg.svd(error, full_matrices=False)
            D[atom] = right[0]
            codes[users, atom] = values[0] * left[:, 0]
