"""Peak memory of learning beyond its input, measured in a process of its own that reads the samples from a file."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _memory import levels
from numpy.typing import NDArray

N_COMPONENTS, N_NONZERO = 256, 5


@dataclass(frozen=True)
class Memory:
    """Megabytes of the input and of the peak beyond it."""

    n_samples: int
    growth: str
    input_mb: float
    beyond_mb: float


def memory_of_fit(X: NDArray[Any], n_jobs: int, max_iter: int) -> list[Memory]:
    """Fit in child processes with growing samples and without; return what each took."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "samples.npy")
        np.save(file, X)
        rows = []
        for growth in ("default", "none"):
            command = [sys.executable, __file__, str(file), growth, str(n_jobs), str(max_iter)]
            answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            rows.append(Memory(len(X), growth, X.nbytes / 1e6, json.loads(answer)["beyond"] / 1e6))
    return rows


def _child(arguments: list[str]) -> None:
    import coupledict

    file, growth, n_jobs, max_iter = arguments
    X = np.load(file)
    model = coupledict.CoupledDictionaryLearning(
        N_COMPONENTS,
        n_nonzero_coefs=N_NONZERO,
        max_iter=int(max_iter),
        update="statistics",
        growth="auto" if growth == "default" else None,
        n_jobs=int(n_jobs),
        random_state=0,
    )
    before, _ = levels()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit([X])
    _, highest = levels()
    print(json.dumps({"beyond": highest - before}))


if __name__ == "__main__":
    _child(sys.argv[1:])
