"""The learners of other packages, each recorded as its interface allows.

How they work, according to their sources:

* SPAMS ``trainDL`` is online learning with L0 codes: ``mode=3`` allows ``lambda1`` atoms, ``mode=4`` asks for a
  squared residual of at most ``lambda1`` with up to min(n_features, n_components) atoms; both code by OLS. ``iter``
  counts mini-batches when positive and seconds when negative, and there is no callback: every point of its curve
  is a separate run from the start. Without a dictionary it starts from random samples; it seeds itself with 0.
* dictlearn ``DictionaryLearning`` offers AK-SVD (one power step for each atom on a maintained residual). Its `tol`
  ends the fit and does not limit codes, but the coder may be a callable: ours records the dictionary it gets, and
  calls dictlearn's own OMP with the tolerance. There is one call per iteration. Unused atoms become random by
  default; the worst represented samples are better atoms, but it computes all residuals anew for each of them.
* scikit-learn ``MiniBatchDictionaryLearning`` learns with the lasso whatever ``transform_algorithm`` says: OMP is for
  ``transform`` only. So `alpha` is chosen, before the clock starts, such that the lasso uses as many atoms as OMP
  does with the same starting dictionary. ``fit_algorithm="cd"`` is the faster of its two coders here.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ..coding.encode import sparse_encode
from ..foundation.arrays import Array
from .watching import Learner, Point, Problem, Recorder

SPAMS, SPAMS_OWN = "SPAMS", "SPAMS, own start"
DICTLEARN, DICTLEARN_WORST = "dictlearn AK-SVD", "dictlearn, worst samples"
SKLEARN = "scikit-learn mini-batch"


class Spams(Learner):
    """``spams.trainDL`` with runs of 1, 2, 4 ... mini-batches."""

    def __init__(self, name: str, *, own_start: bool) -> None:
        self.name = name
        self._own_start = own_start
        self._module = importlib.import_module("spams")

    def run(self, task: Problem, *, limit: int | None = None, patience: float = math.inf) -> list[Point]:
        """See the base class. It stops before a run that would probably exceed the patience."""
        train = self._prepare(task)
        points: list[Point] = []
        while limit is None or len(points) < limit:
            points.append(train(2 ** len(points)))
            if 2.0 * points[-1].seconds > patience:
                break
        return points

    def again(self, task: Problem, index: int) -> float:
        """See the base class."""
        return self._prepare(task)(2**index).seconds

    def _prepare(self, task: Problem) -> Callable[[int], Point]:
        X = np.asfortranarray(task.stacked().T)
        start = None if self._own_start else np.asfortranarray(task.stacked_start().T)
        mode, bound = (3, float(task.n_nonzero_coefs)) if task.tol is None else (4, task.tol)

        def train(n_batches: int) -> Point:
            settings: dict[str, Any] = {"K": task.n_components} if start is None else {"D": start.copy(order="F")}
            # It uses OpenMP threads; a threaded BLAS makes it no faster, and its times far more variable.
            with threadpool_limits(1, user_api="blas"):
                begun = time.perf_counter()
                D = self._module.trainDL(
                    X, lambda1=bound, mode=mode, iter=n_batches, numThreads=task.threads, verbose=False, **settings
                )
                seconds = time.perf_counter() - begun
            return Point(seconds, np.ascontiguousarray(D.T))

        return train


class _EnoughError(Exception):
    """Raised to leave a fit that has no other way to stop."""


class Dictlearn(Learner):
    """``dictlearn.DictionaryLearning`` with approximate K-SVD, OMP and a rule for unused atoms."""

    def __init__(self, name: str, *, unused: str) -> None:
        self.name = name
        self._unused = unused
        importlib.import_module("numba")
        self._module = importlib.import_module("dictlearn")

    def run(self, task: Problem, *, limit: int | None = None, patience: float = math.inf) -> list[Point]:
        """See the base class. The clock starts with the first coding, after its checks of the input."""
        recorder = Recorder(limit, patience)
        X = task.stacked()
        calls = 0

        def encode(X: Array, dictionary: Array, *, n_nonzero_coefs: int, **_: Any) -> Any:
            nonlocal calls
            if calls == 0:
                recorder.start()
            elif recorder.note([dictionary]):
                raise _EnoughError
            calls += 1
            return self._module.sparse_encode(
                X, dictionary, algorithm="omp", n_nonzero_coefs=n_nonzero_coefs, tol=task.tol
            )

        model = self._module.DictionaryLearning(
            task.n_components,
            fit_algorithm="aksvd",
            transform_algorithm=encode,
            n_nonzero_coefs=task.n_nonzero_coefs,
            max_iter=1_000_000,
            replace_unused_atoms=self._unused,
            dict_init=task.stacked_start(),
            random_state=0,
        )
        with contextlib.suppress(_EnoughError):
            model.fit(X)
        return recorder.points


class MiniBatch(Learner):
    """``sklearn.decomposition.MiniBatchDictionaryLearning`` by ``partial_fit``, recorded at growing intervals."""

    name = SKLEARN
    batch_size = 256

    def __init__(self) -> None:
        self._module = importlib.import_module("sklearn.decomposition")
        self._alphas: dict[str, float] = {}

    def run(self, task: Problem, *, limit: int | None = None, patience: float = math.inf) -> list[Point]:
        """See the base class."""
        X, start = task.stacked(), task.stacked_start()
        if task.key not in self._alphas:
            self._alphas[task.key] = self._alpha(X[:300], start, task)
        model = self._module.MiniBatchDictionaryLearning(
            task.n_components,
            alpha=self._alphas[task.key],
            fit_algorithm="cd",
            batch_size=self.batch_size,
            dict_init=start,
            random_state=0,
            n_jobs=task.threads,
        )
        # The fastest settings we tried: processes cost more than they gain, and a threaded BLAS interferes.
        with (
            joblib.parallel_config(backend="threading"),
            threadpool_limits(1, user_api="blas"),
            warnings.catch_warnings(),
        ):
            # Coordinate descent often stops before it reaches its duality gap of 1e-8, and warns.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self._watch(model, X, Recorder(limit, patience))

    def _watch(self, model: Any, X: Array, recorder: Recorder) -> list[Point]:
        rng = np.random.default_rng(0)
        recorder.start()
        step, next_note = 0, 1
        while True:
            order = rng.permutation(len(X))
            for first in range(0, len(X), self.batch_size):
                model.partial_fit(X[order[first : first + self.batch_size]])
                step += 1
                if step == next_note:
                    next_note = math.ceil(1.5 * next_note)
                    if recorder.note([model.components_]):
                        return recorder.points

    def _alpha(self, X: Array, start: Array, task: Problem) -> float:
        """Find the penalty with which the lasso uses as many atoms as OMP, by bisection of its logarithm."""
        codes = sparse_encode(X, start, n_nonzero_coefs=task.n_nonzero_coefs, tol=task.tol)
        n_nonzeros = codes.nnz
        high = float(np.abs(X @ start.T).max())
        low = 1e-4 * high
        for _ in range(12):
            middle = math.sqrt(low * high)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                lasso = self._module.sparse_encode(X, start, algorithm="lasso_cd", alpha=middle)
            low, high = (middle, high) if np.count_nonzero(lasso) > n_nonzeros else (low, middle)
        return math.sqrt(low * high)


def available_peers() -> tuple[list[Learner], list[str]]:
    """Return the peers that can run here, and one line for each that is not installed."""
    makers: tuple[tuple[str, str, Callable[[], Learner]], ...] = (
        (SPAMS, "spams-bin", lambda: Spams(SPAMS, own_start=False)),
        (SPAMS_OWN, "spams-bin", lambda: Spams(SPAMS_OWN, own_start=True)),
        (DICTLEARN, "dictlearn numba", lambda: Dictlearn(DICTLEARN, unused="random")),
        (DICTLEARN_WORST, "dictlearn numba", lambda: Dictlearn(DICTLEARN_WORST, unused="worst")),
        (SKLEARN, "scikit-learn", MiniBatch),
    )
    peers: list[Learner] = []
    missing = []
    for name, packages, make in makers:
        try:
            peers.append(make())
        except ImportError as error:
            missing.append(f"{name} is left out: {error}. To compare with it: pip install {packages}")
    return peers, missing
