"""How an estimator runs: number of threads, random state, and progress reports."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from ..foundation.parameters import (
    BOOLEAN,
    CALLABLE,
    COUNT,
    N_JOBS,
    NONE,
    RANDOM_STATE,
    Constraints,
    Integer,
    check_parameters,
)
from ..foundation.progress import Callback
from .verbose import watched

#: The parameters of tasks that draw samples, and learn dictionaries from them.
TASK_CONSTRAINTS: Constraints = {
    "n_components": (COUNT,),
    "n_nonzero_coefs": (COUNT,),
    "max_samples": (COUNT,),
    "max_iter": (COUNT,),
}


class RunMixin:
    """Mixin with the last four parameters of every estimator that does long work, and the check of all parameters."""

    _parameter_constraints: ClassVar[Constraints] = {
        "n_jobs": N_JOBS,
        "random_state": RANDOM_STATE,
        "verbose": (BOOLEAN, Integer(0)),
        "callback": (NONE, CALLABLE),
    }

    n_jobs: int | None
    random_state: Any
    verbose: int
    callback: Callback | None

    def _check_parameters(self) -> None:
        """Raise for parameters that are wrong, or that do not work together."""
        check_parameters(self._parameter_constraints, vars(self))
        self._check_combination()

    def _check_combination(self) -> None:
        """Raise for parameters that do not work together; each by itself has been checked."""

    def _watched(self) -> AbstractContextManager[Callback | None]:
        """Return a context manager that gives the callback to call during long work; None if there is none."""
        return watched(self.verbose, type(self).__name__, self.callback)
