"""Learners whose progress is recorded: their dictionaries during learning, with the learning time of each.

The clock stops while a dictionary is copied; dictionaries are evaluated after the run.
"""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..estimators.coupled import CoupledDictionaryLearning
from ..foundation.arrays import Array
from ..foundation.progress import LearningProgress, Progress


class Problem(Protocol):
    """Samples to learn from, a common start, and the stopping rule of codes."""

    @property
    def key(self) -> str:
        """Name of the problem."""

    @property
    def train(self) -> tuple[Array, ...]:
        """Views to learn from."""

    @property
    def start(self) -> tuple[Array, ...]:
        """Starting dictionaries, one per view."""

    @property
    def n_components(self) -> int:
        """Number of atoms."""

    @property
    def n_nonzero_coefs(self) -> int:
        """Most atoms of a code."""

    @property
    def tol(self) -> float | None:
        """Squared residual at which coding stops."""

    @property
    def threads(self) -> int:
        """Threads that a learner may use."""

    def stacked(self) -> Array:
        """Return the views to learn from side by side."""

    def stacked_start(self) -> Array:
        """Return the starting dictionaries side by side, with rows of unit norm."""


@dataclass(frozen=True)
class Point:
    """A dictionary of stacked views, and its learning time in seconds."""

    seconds: float
    dictionary: Array


class Recorder:
    """Records dictionaries with their times, and decides when to stop.

    Parameters
    ----------
    limit : int or None
        Number of records after which to stop.
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
        """Record the dictionaries of all views with the clock stopped; return whether to stop."""
        now = time.perf_counter()
        seconds = now - self._started - self._idle
        self.points.append(Point(seconds, np.hstack(dictionaries)))
        self._idle += time.perf_counter() - now
        return len(self.points) >= self._limit or seconds >= self._patience

    def callback(self, progress: Progress) -> bool:
        """Record the dictionaries that a learner reports; return whether it should stop."""
        assert isinstance(progress, LearningProgress)
        return self.note(progress.components)


class Learner(ABC):
    """A method that learns a dictionary and can be recorded."""

    name: str

    @abstractmethod
    def run(self, task: Problem, *, limit: int | None = None, patience: float = math.inf) -> list[Point]:
        """Learn; return the dictionaries during learning, at most `limit` of them, within `patience` seconds."""

    def again(self, task: Problem, index: int) -> float:
        """Learn again up to the point of that index; return the seconds it took."""
        return self.run(task, limit=index + 1)[-1].seconds


class Ours(Learner):
    """``coupledict.CoupledDictionaryLearning`` with settings.

    Parameters
    ----------
    name : str
    settings : mapping
        Keywords of the estimator.
    common_start : bool
        Start from the dictionaries of the task, as the peers do, instead of `init` of `settings`.
    """

    def __init__(self, name: str, settings: Mapping[str, Any], *, common_start: bool = False) -> None:
        self.name = name
        self.settings = dict(settings)
        self.common_start = common_start

    def estimator(self, task: Problem, **more: Any) -> Any:
        """Make the estimator for a task."""
        settings = {
            **self.settings,
            "n_components": task.n_components,
            "n_nonzero_coefs": task.n_nonzero_coefs,
            "tol": task.tol,
            "n_jobs": task.threads,
            # Predictors are fitted after the dictionaries, and only dictionaries are compared.
            "predictor": "dictionary",
            "scale": None,
            **more,
        }
        if self.common_start:
            settings["init"] = list(task.start)
        return CoupledDictionaryLearning(**settings)

    def run(self, task: Problem, *, limit: int | None = None, patience: float = math.inf) -> list[Point]:
        """See the base class. The patience is not needed: the number of iterations is a setting."""
        recorder = Recorder(limit)
        model = self.estimator(task, callback=recorder.callback)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recorder.start()
            model.fit(list(task.train))
        return recorder.points
