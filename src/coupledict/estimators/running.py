"""How an estimator runs: number of threads, random state, and progress reports."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..foundation.progress import Callback, check_callback
from ..parallel.jobs import count_jobs
from .verbose import watched


class RunMixin:
    """Mixin with the four last parameters of every estimator that does long work."""

    n_jobs: int | None
    random_state: Any
    verbose: int
    callback: Callback | None

    def _set_run(self, n_jobs: int | None, random_state: Any, verbose: int, callback: Callback | None) -> None:
        """Store the parameters unchanged; for ``__init__``."""
        self.n_jobs, self.random_state = n_jobs, random_state
        self.verbose, self.callback = verbose, callback

    def _check_run(self) -> None:
        """Raise for wrong parameters, except `random_state`: the function that makes a generator of it checks it."""
        count_jobs(self.n_jobs)
        check_callback(self.callback)

    def _watched(self) -> AbstractContextManager[Callback | None]:
        """Return a context manager that gives the callback to call during long work; None if there is none."""
        return watched(self.verbose, type(self).__name__, self.callback)
