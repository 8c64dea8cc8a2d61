"""Description of the machine, and limits of the threads of other libraries."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Limit BLAS, OpenMP and, if it is loaded, numba to a number of threads."""
    numba = sys.modules.get("numba")
    before = numba.get_num_threads() if numba else 0
    with threadpool_limits(limits=threads):
        if numba:
            numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        try:
            yield
        finally:
            if numba:
                numba.set_num_threads(before)


def machine(distributions: Sequence[str]) -> dict[str, Any]:
    """Describe the machine and the versions of distributions, for the record of a run."""
    blas = [
        {key: pool.get(key) for key in ("user_api", "internal_api", "version", "architecture")}
        for pool in threadpool_info()
    ]
    return {
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in distributions},
        "threaded_libraries": blas,
    }


def cpu_name() -> str:
    """Return the model name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Return the number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_average() -> list[float] | None:
    """Return the system's load averages over 1, 5 and 15 minutes, or None if they are unavailable.

    Other work on the same cores distorts measurements, so the record should show it.
    """
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
