"""How many threads ``n_jobs`` means, and how samples are split into chunks for them."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass

import joblib
import numpy as np

from ..foundation.parameters import N_JOBS, check_value
from .cancel import CancelToken

CHUNK_SECONDS = 2e-3  # long enough to hide the cost of scheduling a chunk, short enough to balance the load
LEAST_CHUNK_SECONDS = 1e-3  # less work than this is not worth a second thread
PATIENCE_SECONDS = 0.1  # longer chunks run in other threads, so that the main thread can notice an interrupt
MULTIPLY_ADDS_PER_SECOND = 2e10  # an ordinary core; only the sizes of chunks depend on it
MAX_CHUNK = 4096
SIGNAL_BLOCK = 48  # the kernels take this many signals at a time,
LARGE_BLOCK = 192  # or this many where they share products with a large dictionary


def count_jobs(n_jobs: int | None) -> int:
    """Turn `n_jobs` into a number of threads, as joblib does: None is 1 unless a joblib context says otherwise."""
    check_value(n_jobs, "n_jobs", *N_JOBS)
    if n_jobs is not None and multiprocessing.current_process().daemon:
        # joblib returns 1 here, and warns: a daemon process must not start processes. It may start threads.
        return int(n_jobs if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + n_jobs))
    return int(joblib.effective_n_jobs(n_jobs))


def split_chunks(
    n: int, multiply_adds: float, n_jobs: int, chunk_size: int | None = None, *, whole_blocks: bool = False
) -> tuple[list[tuple[int, int]], bool]:
    """Split n samples into chunks; return their bounds, and whether a chunk is short enough for the calling thread.

    Parameters
    ----------
    n : int
    multiply_adds : float
        Multiply-adds that one sample takes.
    n_jobs : int
    chunk_size : int, optional
        Samples per chunk; if left out, chosen by the work that a sample takes.
    whole_blocks : bool
        The kernel shares work between the samples of a block, so a chunk has at least SIGNAL_BLOCK samples, and
        LARGE_BLOCK if there are enough.
    """
    seconds = multiply_adds / MULTIPLY_ADDS_PER_SECOND
    if chunk_size is None:
        even_share = max(n / (4 * n_jobs), LEAST_CHUNK_SECONDS / seconds)
        least = int(np.clip(n // n_jobs, SIGNAL_BLOCK, LARGE_BLOCK)) if whole_blocks else 1
        chunk_size = int(np.clip(min(even_share, CHUNK_SECONDS / seconds), least, MAX_CHUNK))
        if chunk_size > SIGNAL_BLOCK:
            chunk_size = -(-chunk_size // SIGNAL_BLOCK) * SIGNAL_BLOCK
    chunks = [(start, min(start + chunk_size, n)) for start in range(0, n, chunk_size)]
    return chunks, chunk_size * seconds < PATIENCE_SECONDS


@dataclass(frozen=True)
class Threads:
    """How many threads some work may use, and the cancel token of the outer work, if there is any."""

    count: int = 1
    cancel: CancelToken | None = None
