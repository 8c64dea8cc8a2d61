"""Kernels in many threads at once, under ThreadSanitizer: `make sanitize-thread` runs this.

With ``--break`` two threads share memory that each must own, to verify that races are detected.
"""

from __future__ import annotations

import argparse
import threading
from typing import Any

import numpy as np

import coupledict
from coupledict import sparse_encode
from coupledict.coding.coder import Scratch
from coupledict.coding.coders import make_coder
from coupledict.coding.recipe import Recipe
from coupledict.coding.rule import CodingRule
from coupledict.kernels import _native
from coupledict.parallel.cancel import CancelToken
from coupledict.parallel.jobs import Threads


def code_and_learn(rng: Any, n_jobs: int) -> None:
    """Code, learn and predict with every pursuit, update and coupling."""
    dtype = rng.choice([np.float32, np.float64])
    sources = rng.standard_normal((800, 12)) * (rng.random((800, 12)) < 0.3)
    views = [(sources @ rng.standard_normal((12, p))).astype(dtype) for p in (9, 16)]
    atoms = [rng.standard_normal((40, view.shape[1])).astype(dtype) for view in views]
    for pursuit in ("omp", "ols"):
        sparse_encode(views, atoms, n_nonzero_coefs=4, pursuit=pursuit, n_jobs=n_jobs)
    for update in ("statistics", "sequential", "ksvd", "mod"):
        learner = coupledict.CoupledDictionaryLearning(
            20, n_nonzero_coefs=3, max_iter=3, update=update, n_jobs=n_jobs, random_state=0
        ).fit(views)
        learner.predict([views[0], None], view=1)
    shared = coupledict.CoupledDictionaryLearning(
        20, n_nonzero_coefs=3, max_iter=2, coupling="support", n_jobs=n_jobs, random_state=0
    ).fit(views)
    at_once(*[lambda: shared.transform(views)] * 3)


def at_once(*functions: Any) -> None:
    """Call functions in threads of their own."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def share_what_is_not_shared(rng: Any) -> None:
    """Let two threads write to the same scratch."""
    X, D = rng.standard_normal((4000, 16)), rng.standard_normal((64, 16))
    coder = make_coder(Recipe([D], np.ones(1), np.dtype(np.float64), CodingRule(4), 4000), Threads())
    workspace, energy, status = _native.Workspace(), np.empty(4000), np.empty(4000, np.uint8)
    at_once(*[lambda: coder.encode_rows([X], Scratch(workspace, CancelToken(), energy, status))] * 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--break", dest="broken", action="store_true")
    arguments = parser.parse_args()
    generator = np.random.default_rng(arguments.seed)
    if arguments.broken:
        share_what_is_not_shared(generator)
    for _ in range(0 if arguments.broken else arguments.count):
        code_and_learn(generator, n_jobs=4)
        at_once(*(lambda child=child: code_and_learn(child, n_jobs=2) for child in generator.spawn(2)))
    print("done")
