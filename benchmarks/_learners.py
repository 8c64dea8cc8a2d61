"""The learners that are compared: ours with its settings, and plain exact K-SVD as it is usually written."""

from __future__ import annotations

import math
import warnings

import numpy as np
from _data import Array
from _learning_tasks import Task

import coupledict
from coupledict.experiments.watching import Learner, Ours, Point, Problem, Recorder

N_SEEDS = 3

DEFAULT, PER_VIEW = "coupledict default", "default, norm per view"
REFERENCE, PAPER = "sequential, constant T", "the paper's method"
KSVD, MOD = "coupledict K-SVD", "coupledict MOD"


def our_learners(task: Task, n_iterations: int) -> list[Ours]:
    """Return our contestants for a task: the default once for each seed, its rivals once."""
    constant = {"schedule": "constant", "growth": None, "max_iter": n_iterations, "random_state": 0}
    default = {"max_iter": n_iterations}
    learners = [Ours(f"{DEFAULT} {seed}", {**default, "random_state": seed}) for seed in range(N_SEEDS)]
    if len(task.train) > 1:
        learners.append(Ours(PER_VIEW, {**default, "normalize": "views", "random_state": 0}))
    paper = {**coupledict.PAPER, "max_iter": n_iterations, "random_state": 0}
    return [
        *learners,
        Ours(REFERENCE, {**constant, "update": "sequential"}, common_start=True),
        Ours(PAPER, paper, common_start=True),
        Ours(KSVD, {**constant, "update": "ksvd"}, common_start=True),
        Ours(MOD, {**constant, "update": "mod"}, common_start=True),
    ]


class UsualKSVD(Learner):
    """Exact K-SVD as it is usually written: scikit-learn's OMP, and NumPy's SVD of the error of each atom.

    scikit-learn ignores the number of atoms where a tolerance is given, so codes may be longer than asked.
    """

    name = "K-SVD as usually written"

    def run(self, task: Problem, *, limit: int | None = None, patience: float = math.inf) -> list[Point]:
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
