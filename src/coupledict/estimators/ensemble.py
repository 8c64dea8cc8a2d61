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
from ..foundation.views import list_views, view_names
from ..learning.fitted import FittedDictionaries
from ..learning.model_file import from_tensors, to_tensors
from ..parallel.cancel import CancelToken
from ..parallel.jobs import Threads, count_jobs
from ..parallel.ordered import in_order
from .coupled import CoupledDictionaryLearning
from .opening import open_all_views
from .single import DictionaryLearning

Learner = TypeVar("Learner", CoupledDictionaryLearning, DictionaryLearning)


def plain_learner(n_components: int | None = None, **parameters: Any) -> CoupledDictionaryLearning:
    """Return a learner that takes samples as they are, and predicts by refitted dictionaries unless told otherwise."""
    return CoupledDictionaryLearning(n_components, **{"scale": None, "predictor": "ridge"} | parameters)


def seeds(random_state: object, n: int) -> list[int]:
    """Return n seeds, for learners that differ only in their seed."""
    return [int(seed) for seed in make_generator(random_state).integers(2**31, size=n)]


def fit_many(
    learners: Sequence[Learner], X: Any, n_jobs: int | None, callback: Callback | None = None
) -> list[Learner]:
    """Fit all learners to the same samples, as many at a time as there are threads, and return them in order.

    The result is the same as that of fitting one after the other, except that no learner gets an imputer:
    several dictionaries make one estimate of missing entries. `n_jobs` is for all learners together. `callback` is
    called after each iteration of any learner; if it asks to stop, the fits end with :class:`StoppedByCallback`. An
    interrupt ends every fit, even within an iteration, and is raised again: a task cannot use a partly learned
    ensemble.
    """
    threads = count_jobs(n_jobs)
    n_threads = max(1, min(threads, len(learners)))
    cancel = CancelToken()
    meter = Meter(callback, "learning", sum(learner.max_iter for learner in learners))
    tell = None if callback is None else lambda progress: meter.advance()
    missing = learners[0].missing
    data: Data
    if isinstance(learners[0], DictionaryLearning):
        data = InMemory([X])
    else:
        data = open_all_views(list_views(X), view_names(X), missing)
    data.missing = data.missing or missing == "nan"

    def fit(learner: Learner) -> Learner:
        share = Threads(threads // n_threads, CancelToken(cancel))
        learner._finds_imputer = False
        learner._learn(data, threads=share, callback=tell)
        return learner

    return list(in_order(fit, learners, n_threads, cancel, take_part=False))


def with_jobs(learner: Learner, n_jobs: int | None) -> Learner:
    """Return a shallow copy of a fitted learner that uses `n_jobs` threads."""
    other = copy.copy(learner)
    other.n_jobs = n_jobs
    return other


def learned_tensors(learner: CoupledDictionaryLearning) -> dict[str, Array]:
    """Return all that a learner has learned, except its history, as arrays for a file."""
    return to_tensors(learner._fitted)[0]


def read_learner(tensors: dict[str, Array], history: list[Record], **parameters: Any) -> CoupledDictionaryLearning:
    """Return the learner whose arrays :func:`learned_tensors` returned; raise if they contradict each other."""
    learner = plain_learner(**parameters)
    facts = {"history": history, "n_views": tensors["view_weights"].size}
    state = ModelState(type(learner).__name__, parameters, tensors, facts)
    learner._keep(from_tensors(state, learner._settings()))
    return learner


def restore_learner(fitted: FittedDictionaries, **parameters: Any) -> CoupledDictionaryLearning:
    """Return a fitted learner with these parameters and dictionaries."""
    learner = plain_learner(**parameters)
    learner._keep(fitted)
    return learner
