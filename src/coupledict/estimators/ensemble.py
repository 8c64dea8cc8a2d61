"""Several learners of one class, fitted in parallel: the ensembles of the tasks."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from ..data.interface import Data
from ..data.memory import InMemory
from ..files.state import ModelState
from ..foundation.arrays import Array
from ..foundation.checks import make_generator
from ..foundation.progress import Callback, Meter, Record
from ..learning.fitted import FittedDictionaries
from ..parallel.cancel import CancelToken
from ..parallel.jobs import Threads, count_jobs
from ..parallel.ordered import in_order
from .coupled import CoupledDictionaryLearning
from .opening import open_all_views
from .single import DictionaryLearning

Learner = TypeVar("Learner", CoupledDictionaryLearning, DictionaryLearning)


def seeds(random_state: object, n: int) -> list[int]:
    """Return n seeds, for learners that differ only in their seed."""
    return [int(seed) for seed in make_generator(random_state).integers(2**31, size=n)]


def fit_many(
    learners: Sequence[Learner], X: Any, n_jobs: int | None, callback: Callback | None = None
) -> list[Learner]:
    """Fit all learners to the same samples, as many at a time as there are threads, and return them in order.

    The result is the same as fitting one after the other, but for means and covariances, which are not found: several
    dictionaries make one guess of missing entries. `n_jobs` is for all learners together. `callback` is called
    after each iteration of any learner; if it asks to stop, the fits end with :class:`StoppedByCallback`. An interrupt
    ends every fit, even within an iteration, and is raised again: a task cannot use a partly learned ensemble.
    """
    threads = count_jobs(n_jobs)
    n_threads = max(1, min(threads, len(learners)))
    cancel = CancelToken()
    meter = Meter(callback, "learning", sum(learner.max_iter for learner in learners))
    tell = None if callback is None else lambda progress: meter.advance()
    missing = learners[0].missing
    data: Data = InMemory([X]) if isinstance(learners[0], DictionaryLearning) else open_all_views(X, missing=missing)
    data.missing = data.missing or missing == "nan"

    def fit(learner: Learner) -> Learner:
        share = Threads(threads // n_threads, CancelToken(cancel))
        learner._finds_moments = False
        learner._learn(data, threads=share, callback=tell)
        return learner

    return list(in_order(fit, learners, n_threads, cancel, take_part=False))


def with_jobs(learner: Learner, n_jobs: int | None) -> Learner:
    """Return a shallow copy of a fitted learner that uses `n_jobs` threads."""
    other = copy.copy(learner)
    other.n_jobs = n_jobs
    return other


def learned_tensors(learner: CoupledDictionaryLearning) -> dict[str, Array]:
    """Return all that a learner has learned as arrays of a file, but for its history."""
    return learner._fitted.tensors_and_facts()[0]


def read_learner(tensors: dict[str, Array], history: list[Record], **parameters: Any) -> CoupledDictionaryLearning:
    """Return the learner of which :func:`learned_tensors` gave the arrays; raise if they contradict each other."""
    learner = CoupledDictionaryLearning(**parameters)
    facts = {"history": history, "n_views": tensors["view_weights"].size}
    state = ModelState(type(learner).__name__, parameters, tensors, facts)
    learner._keep(FittedDictionaries.from_state(state, learner._settings()))
    return learner


def restore_learner(fitted: FittedDictionaries, **parameters: Any) -> CoupledDictionaryLearning:
    """Return a fitted learner with these parameters and dictionaries."""
    learner = CoupledDictionaryLearning(**parameters)
    learner._keep(fitted)
    return learner
