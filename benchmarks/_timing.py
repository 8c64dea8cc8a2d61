"""Fair timing of several callables in one run.

The entries of one measurement take turns: every round runs each of them once, and each round starts with
another one, so that a slow drift of the machine falls on all alike. Between two entries there is a pause,
because the worker threads of BLAS and OpenMP libraries keep spinning for some milliseconds after a call
and would take a core from whoever comes next.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledict.experiments.machine import limit_threads


@dataclass(frozen=True)
class Entry:
    """One callable to be timed, and the number of threads that libraries may use while it runs."""

    name: str
    call: Callable[[], Any]
    threads: int = 1


@dataclass(frozen=True)
class Timing:
    """The times of one entry, in seconds, and what its warm-up call returned."""

    name: str
    seconds: tuple[float, ...]
    asked: int
    budget: float
    result: Any

    @property
    def median(self) -> float:
        """Median time in seconds."""
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        """Lower and upper quartile in seconds."""
        low, high = np.quantile(self.seconds, [0.25, 0.75])
        return float(low), float(high)

    @property
    def repeats(self) -> str:
        """How many repeats there were, with a star where the budget allowed fewer than were asked."""
        return f"{len(self.seconds)}" + ("*" if len(self.seconds) < self.asked else "")


def measure(
    entries: Sequence[Entry],
    *,
    repeats: int = 7,
    budget: float = 30.0,
    at_least: int = 5,
    pause: float = 0.05,
    progress: Callable[[str], None] | None = None,
) -> list[Timing]:
    """Time entries in turns.

    Parameters
    ----------
    entries : sequence of Entry
    repeats : int
        Rounds, and so timed runs of each entry.
    budget : float
        Seconds that the timed runs of one entry may take. An entry that would pass it, judged by its warm-up
        call, gets as many repeats as fit, spread over the rounds, and never fewer than `at_least`.
    at_least : int
        Repeats that the budget never takes away.
    pause : float
        Seconds of rest before each run.
    progress : callable, optional
        Told the name of each entry when its warm-up starts.

    Returns
    -------
    timings : list of Timing
        In the order of `entries`.
    """
    results: list[Any] = []
    allowed: list[int] = []
    for entry in entries:
        if progress is not None:
            progress(entry.name)
        seconds, result = _timed(entry, pause)
        results.append(result)
        allowed.append(min(repeats, max(at_least, int(budget / max(seconds, 1e-9)))))
    times: list[list[float]] = [[] for _ in entries]
    for round_ in range(repeats):
        for place in range(len(entries)):
            index = (place + round_) % len(entries)
            if _takes_part(round_, allowed[index], repeats):
                times[index].append(_timed(entries[index], pause)[0])
    return [
        Timing(entry.name, tuple(taken), repeats, budget, result)
        for entry, taken, result in zip(entries, times, results, strict=True)
    ]


def _timed(entry: Entry, pause: float) -> tuple[float, Any]:
    with limit_threads(entry.threads):
        time.sleep(pause)
        collecting = gc.isenabled()
        gc.disable()
        try:
            start = time.perf_counter()
            result = entry.call()
            seconds = time.perf_counter() - start
        finally:
            if collecting:
                gc.enable()
    return seconds, result


def _takes_part(round_: int, allowed: int, repeats: int) -> bool:
    """Spread `allowed` runs evenly over the rounds."""
    return (round_ + 1) * allowed // repeats > round_ * allowed // repeats


def matmul_rate(dtype: str, *, size: int = 2000, repeats: int = 7) -> float:
    """Measure NumPy's matrix product on one thread: median GFLOP/s for square matrices of a dtype."""
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((size, size)).astype(dtype) for _ in range(2))
    out = np.empty_like(left)
    timing = measure([Entry(f"matmul {dtype}", lambda: np.matmul(left, right, out=out))], repeats=repeats)[0]
    return 2.0 * size**3 / timing.median / 1e9
