"""The methods of the second experiment, with one coder for all, so that methods are compared rather than programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..estimators.coupled import PAPER, CoupledDictionaryLearning
from ..estimators.online import OnlineDictionaryLearning
from ..foundation.arrays import Array
from .regimes import Regime
from .watching import Point, Recorder

#: Keys of methods for use elsewhere.
KSVD_METHOD, DEFAULT_METHOD, PAPER_METHOD, PAPER_KEEP_METHOD = "ksvd", "default", "paper", "paper-keep"
SAMPLES_METHOD, CONSTANT_METHOD = "ksvd-samples", "aksvd"


@dataclass(frozen=True)
class Method:
    """A way to learn a dictionary; results of every `curve_step`-th iteration are kept.

    Methods that appear in a claim are repeated, on other patches each time.
    """

    key: str
    name: str
    description: str
    max_iter: int
    settings: dict[str, Any] = field(default_factory=dict)
    own_start: bool = False
    curve_step: int = 1
    repeated: bool = True

    def run(self, regime: Regime, seed: int) -> tuple[list[Point], list[dict[str, Any]]]:
        """Learn; return the dictionary after each iteration with its time, and the history of the fit."""
        common: dict[str, Any] = {
            "n_components": regime.n_components,
            "n_nonzero_coefs": regime.n_nonzero_coefs,
            "tol": regime.tol,
            "n_jobs": regime.threads,
            "random_state": seed,
        }
        settings = (
            self.settings | ({} if self.own_start else {"init": list(regime.start)}) | {"predictor": "dictionary"}
        )
        recorder = Recorder()
        if self.key == "odl":
            online = OnlineDictionaryLearning(**common, **settings)
            recorder.start()
            for batch in _batches(regime.train[0], online.batch_size, self.max_iter, seed):
                online.partial_fit([batch])
                recorder.note(online.components_)
            return recorder.points, online.history_
        learner = CoupledDictionaryLearning(
            **common, **settings, scale=None, max_iter=self.max_iter, callback=recorder.callback
        )
        recorder.start()
        learner.fit([regime.train[0]])
        return recorder.points, learner.history_


CONSTANT = {"schedule": "constant", "growth": None}
#: The paper's settings, except start and scale, which all methods share, and prediction, which is not used.
PAPER_SETTINGS = {key: value for key, value in PAPER.items() if key not in ("init", "scale", "predictor")}
METHODS = (
    Method(
        KSVD_METHOD,
        "K-SVD",
        "exact K-SVD: a singular value decomposition for each atom",
        16,
        CONSTANT | {"update": "ksvd"},
    ),
    Method(
        CONSTANT_METHOD,
        "approximate K-SVD",
        "one power step for each atom instead of the decomposition; the number of nonzeros is constant",
        32,
        CONSTANT | {"update": "sequential"},
    ),
    Method("mod", "MOD", "all atoms at once by least squares", 32, CONSTANT | {"update": "mod"}, repeated=False),
    Method("odl", "online learning", "batches of 256 patches and running sums", 256, curve_step=8, repeated=False),
    Method(
        PAPER_METHOD,
        "the paper, to the letter",
        "rank-1 updates, growing number of nonzeros, mean residual for unused atoms",
        32,
        PAPER_SETTINGS,
    ),
    Method(
        PAPER_KEEP_METHOD,
        "the paper, unused atoms kept",
        "the paper's method except for its rule for unused atoms",
        32,
        PAPER_SETTINGS | {"unused_atoms": "keep"},
    ),
    Method(
        SAMPLES_METHOD,
        "K-SVD from samples",
        "exact K-SVD that starts from random patches instead of cosines",
        16,
        CONSTANT | {"update": "ksvd", "init": "samples"},
        own_start=True,
    ),
    Method(DEFAULT_METHOD, "coupledict's default", "sums over codes, a growing number of samples", 32, own_start=True),
)


def _batches(X: Array, size: int, number: int, seed: int) -> Iterator[Array]:
    """Draw batches in random order; every patch is drawn once before any is repeated."""
    rng = np.random.default_rng(seed)
    order = np.empty(0, np.intp)
    for _ in range(number):
        if order.size < size:
            order = np.concatenate([order, rng.permutation(len(X))])
        yield X[order[:size]]
        order = order[size:]
