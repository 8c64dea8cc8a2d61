"""Time and peak memory of one iteration of learning, in a process of its own that reads its arrays from files."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _memory import levels
from numpy.typing import NDArray


@dataclass(frozen=True)
class Iteration:
    """Seconds of a fit with one iteration, and megabytes of its input and of the peak beyond; None: not finished."""

    update: str
    n_samples: int
    n_atoms: int
    n_features: int
    n_nonzero_coefs: int
    input_mb: float
    seconds: float | None = None
    beyond_mb: float | None = None


def one_iteration(
    X: NDArray[Any], atoms: NDArray[Any], n_nonzero_coefs: int, update: str, n_jobs: int, patience: float
) -> Iteration:
    """Learn for one iteration from a start, for at most `patience` seconds."""
    input_mb = (X.nbytes + atoms.nbytes) / 1e6
    unfinished = Iteration(update, len(X), atoms.shape[0], atoms.shape[1], n_nonzero_coefs, input_mb)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("samples.npy", "atoms.npy")]
        for file, array in zip(files, (X, atoms), strict=True):
            np.save(file, array)
        command = [sys.executable, __file__, *map(str, files), str(n_nonzero_coefs), update, str(n_jobs)]
        try:
            answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=patience).stdout
        except subprocess.TimeoutExpired:
            return unfinished
    found = json.loads(answer)
    return replace(unfinished, seconds=found["seconds"], beyond_mb=found["beyond"] / 1e6)


def _child(arguments: list[str]) -> None:
    import coupledict

    X, atoms = (np.load(file) for file in arguments[:2])
    update: Any = arguments[3]
    learner = coupledict.DictionaryLearning(
        len(atoms),
        n_nonzero_coefs=int(arguments[2]),
        max_iter=1,
        schedule="constant",
        growth=None,
        update=update,
        init=atoms,
        n_jobs=int(arguments[4]),
        random_state=0,
    )
    before, _ = levels()
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(X)
    seconds = time.perf_counter() - begun
    print(json.dumps({"seconds": seconds, "beyond": levels()[1] - before}))


if __name__ == "__main__":
    _child(sys.argv[1:])
