"""Several learners of one kind, fitted side by side: the ensembles of the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from ._base import ViewLearner, generator
from ._passes import count_jobs, in_order, stopped_by

L = TypeVar("L", bound=ViewLearner)


def seeds(random_state: object, n: int) -> list[int]:
    """Return n seeds, for learners that are to differ in nothing else."""
    return [int(seed) for seed in generator(random_state).integers(2**31, size=n)]


def fit_many(learners: Sequence[L], Xs: Any, n_jobs: int | None) -> list[L]:
    """Fit all learners to the same samples, as many at a time as there are threads, and return them in order.

    The result is that of fitting one after the other. `n_jobs` is for all learners together: it replaces theirs while
    they are fitted. An interrupt ends every fit, within its iteration too, and goes on as KeyboardInterrupt.
    """
    n_threads = max(1, min(count_jobs(n_jobs), len(learners)))
    share = count_jobs(n_jobs) // n_threads
    stop = np.zeros(1, np.int32)

    def fit(learner: L) -> L:
        own: dict[str, Any] = {name: getattr(learner, name) for name in ("n_jobs", "callback")}
        learner.set_params(n_jobs=share, callback=lambda state: bool(stop[0]))
        try:
            with stopped_by(stop):
                learner.fit(Xs)
            return learner
        finally:
            learner.set_params(**own)

    return list(in_order(fit, learners, n_threads, stop, take_part=False))
