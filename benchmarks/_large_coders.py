"""The coders that only the benchmark of large dictionaries has, and the matrix product."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
from _coders import Call, Problem
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]

BLOCK_BYTES = 1 << 28  # correlations that are held at a time
PRODUCT, TORCH = "one sgemm", "PyTorch, batched OMP"


def product(problem: Problem) -> Call:
    """Prepare NumPy's product of the signals with all atoms, a block of signals at a time."""
    X, D = problem.views[0], problem.dictionaries[0]
    step = _block(len(D))
    out = np.empty((min(step, len(X)), len(D)), X.dtype)

    def call() -> None:
        for first in range(0, len(X), step):
            rows = X[first : first + step]
            np.matmul(rows, D.T, out=out[: len(rows)])

    return call


def gram_product(problem: Problem) -> Call:
    """Prepare the Gram matrix, as scikit-learn's ``sparse_encode`` computes it."""
    D = problem.dictionaries[0]
    out = np.empty((len(D), len(D)), D.dtype)

    def call() -> None:
        np.matmul(D, D.T, out=out)

    return call


def scikit_learn(problem: Problem, *, with_gram: bool) -> Call:
    """Prepare scikit-learn's OMP, with a Gram matrix that is computed here and so not timed, or without."""
    linear_model = importlib.import_module("sklearn.linear_model")
    X, D = problem.views[0], problem.dictionaries[0]
    gram = D @ D.T if with_gram else None

    def call() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            if gram is not None:
                return linear_model.orthogonal_mp_gram(gram, D @ X.T, n_nonzero_coefs=problem.n_nonzero_coefs)
            return linear_model.orthogonal_mp(D.T, X.T, n_nonzero_coefs=problem.n_nonzero_coefs, precompute=False)

    return call


def batched_torch(problem: Problem, threads: int) -> Call:
    """Prepare OMP for blocks of signals in PyTorch: one product with all atoms for each step, and small solves."""
    torch = importlib.import_module("torch")
    X, D = (torch.from_numpy(array) for array in (problem.views[0], problem.dictionaries[0]))
    limit, step = problem.n_nonzero_coefs, _block(len(D))

    def code(x: Any) -> tuple[Any, Any]:
        chosen = torch.empty((len(x), limit), dtype=torch.int64)
        residual = x
        for m in range(limit):
            scores = (residual @ D.T).abs_()
            scores.scatter_(1, chosen[:, :m], -1.0)
            chosen[:, m] = scores.argmax(dim=1)
            atoms = D[chosen[:, : m + 1]]
            factor = torch.linalg.cholesky(atoms @ atoms.mT)
            coefs = torch.cholesky_solve(atoms @ x[:, :, None], factor)
            residual = x - (coefs.mT @ atoms)[:, 0]
        return chosen, coefs[:, :, 0]

    def call() -> Any:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            parts = [code(X[first : first + step]) for first in range(0, len(X), step)]
        indices, values = (np.concatenate([part[i].numpy() for part in parts]) for i in range(2))
        ends = np.arange(len(X) + 1) * limit
        return sparse.csr_array((values.ravel(), indices.ravel(), ends), shape=(len(X), len(D)))

    return call


def has_torch() -> bool:
    """Tell whether PyTorch is installed."""
    try:
        importlib.import_module("torch")
    except ImportError:
        return False
    return True


def _block(n_atoms: int) -> int:
    return max(1, BLOCK_BYTES // (4 * n_atoms))
