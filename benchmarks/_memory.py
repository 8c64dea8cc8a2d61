"""Peak memory of ``coupledict.sparse_encode`` beyond its input and output, measured in a process of its own.

The process reads the arrays from files straight into memory, so that no temporary copy raises the peak
before the call. On Linux the peak and the level before the call come from ``/proc/self/status``:
``ru_maxrss`` of a new process starts at the size of its parent there, and would hide the growth.
Elsewhere it is all there is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def memory_beyond(X: NDArray[Any], dictionary: NDArray[Any], n_nonzero_coefs: int, n_jobs: int) -> dict[str, float]:
    """Encode in a child process; return megabytes of input, output and peak beyond both."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("signals.npy", "dictionary.npy")]
        for file, array in zip(files, (X, dictionary), strict=True):
            np.save(file, array)
        command = [sys.executable, __file__, *map(str, files), str(n_nonzero_coefs), str(n_jobs)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    sizes: dict[str, float] = json.loads(answer)
    return sizes


def levels() -> tuple[int, int]:
    """Return the present and the highest resident size in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        present, highest = (int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        return present, highest
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return highest, highest


def _child(arguments: list[str]) -> None:
    import coupledict

    X, dictionary = (np.load(file) for file in arguments[:2])
    n_nonzero_coefs, n_jobs = map(int, arguments[2:])
    encode = coupledict.sparse_encode  # what it imports is no part of the call
    before, _ = levels()
    codes = encode(X, dictionary, n_nonzero_coefs=n_nonzero_coefs, n_jobs=n_jobs)
    _, highest = levels()
    output = codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes
    sizes = {"input": X.nbytes, "output": output, "beyond": highest - before - output}
    print(json.dumps({name: size / 1e6 for name, size in sizes.items()}))


if __name__ == "__main__":
    _child(sys.argv[1:])
