"""What learning, coding and predicting give, as digests of the very bits: one line for each case, run as a script.

Two interpreters that have the same NumPy, SciPy and BLAS must print the same; `make systems NAME=freethreaded` compares
a Python without a GIL with an ordinary one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

import coupledict

UPDATES = ("statistics", "sequential", "ksvd", "mod")
CODINGS: dict[str, dict[str, Any]] = {
    "omp": {"n_nonzero_coefs": 3},
    "omp to tol": {"tol": 0.5},
    "ols": {"n_nonzero_coefs": 3, "pursuit": "ols"},
    "lasso": {"pursuit": "lasso", "alpha": 0.3},
    "positive omp": {"n_nonzero_coefs": 3, "positive_code": True},
    "positive lasso": {"pursuit": "lasso", "alpha": 0.3, "positive_code": True},
}
TIMES = ("seconds",)  # what a history tells beside numbers that follow from the samples


def bits(value: Any) -> bytes:
    """Return the bytes of arrays, sparse arrays, lists and JSON values, with their types and shapes."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if hasattr(value, "indptr"):
        return b"".join(map(bits, (value.data, value.indices, value.indptr)))
    if isinstance(value, list | tuple) and value and not isinstance(value[0], dict):
        return b"".join(map(bits, value))
    if isinstance(value, list):
        value = [{key: number for key, number in record.items() if key not in TIMES} for record in value]
    return json.dumps(value, default=float).encode()


def digest(*values: Any) -> str:
    """Return the digest of some results."""
    return hashlib.sha256(b"|".join(map(bits, values))).hexdigest()


def samples(dtype: Any) -> tuple[list[Any], list[Any]]:
    """Return two views and the same with missing entries."""
    rng = np.random.default_rng(5)
    sources = rng.standard_normal((900, 10)) * (rng.random((900, 10)) < 0.4)
    views = [(sources @ rng.standard_normal((10, p)) + 0.05 * rng.standard_normal((900, p))) for p in (7, 12)]
    views = [view.astype(dtype) for view in views]
    holes = [view.copy() for view in views]
    holes[0][rng.random(holes[0].shape) < 0.1] = np.nan
    holes[1][:200] = np.nan
    return views, holes


def learned(views: list[Any], settings: dict[str, Any]) -> str:
    """Return the digest of all that a learner learns and makes."""
    learner = coupledict.CoupledDictionaryLearning(18, max_iter=4, random_state=0, **settings).fit(views)
    found = [learner.components_, learner.transform(views), learner.history_]
    if settings.get("coupling") != "support":
        found += [learner.predict([views[0], None], view=1), learner.predict([None, views[1]], view=0)]
    return digest(*found, learner.score(views))


def learned_with_holes(holes: list[Any], n_jobs: int) -> str:
    """Return the digest of what is learned and filled in where entries are missing."""
    learner = coupledict.CoupledDictionaryLearning(
        18, n_nonzero_coefs=3, max_iter=4, missing="nan", n_jobs=n_jobs, random_state=0
    ).fit(holes)
    return digest(learner.components_, learner.transform(holes), learner.impute(holes))


def cases(dtype: Any, n_jobs: int) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of every case of a number type."""
    views, holes = samples(dtype)
    atoms = [np.random.default_rng(7).standard_normal((40, view.shape[1])).astype(dtype) for view in views]
    for name, settings in CODINGS.items():
        yield f"codes, {name}", digest(coupledict.sparse_encode(views, atoms, n_jobs=n_jobs, **settings))
        if "tol" not in settings:
            yield f"learning, {name}", learned(views, {"n_jobs": n_jobs, **settings})
    for update in UPDATES:
        yield f"update {update}", learned(views, {"n_nonzero_coefs": 3, "update": update, "n_jobs": n_jobs})
    support = {"n_nonzero_coefs": 3, "coupling": "support", "n_jobs": n_jobs}
    yield "coupling by support", learned(views, support)
    yield "missing entries", learned_with_holes(holes, n_jobs)
    one = coupledict.OnlineDictionaryLearning(18, n_nonzero_coefs=2, random_state=0, n_jobs=n_jobs)
    for start in (0, 300, 600):
        one.partial_fit([view[start : start + 300] for view in views])
    yield "online", digest(one.components_, one.transform(views))


@contextlib.contextmanager
def instruction_set(level: str) -> Iterator[None]:
    """Have the kernels use an instruction set."""
    before = os.environ.get("COUPLEDICT_SIMD")
    os.environ["COUPLEDICT_SIMD"] = level
    try:
        yield
    finally:
        if before is None:
            del os.environ["COUPLEDICT_SIMD"]
        else:
            os.environ["COUPLEDICT_SIMD"] = before


def main() -> None:
    """Print the digests; those of one thread and of two are on lines of their own."""
    for level in coupledict.build_info()["simd_available"]:
        for dtype in (np.float32, np.float64):
            for n_jobs in (1, 2):
                with instruction_set(level):
                    for name, found in cases(dtype, n_jobs):
                        print(level, np.dtype(dtype).name, f"n_jobs={n_jobs}", name, found, sep="\t")


if __name__ == "__main__":
    main()
