"""What grows from iteration to iteration: the atoms that a sample may use, and the samples that a pass sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Schedule: TypeAlias = str | Callable[[int, int, int], int] | Sequence[int] | npt.NDArray[Any]
Growth: TypeAlias = str | Callable[[int, int, int], int] | None

FIRST_SHARE = 50  # the first pass of growth="auto" sees one sample in fifty: benchmarks/default_settings.py


def sparsity_limits(
    schedule: Schedule, limit: int, n_iter: int, *, has_tol: bool, growing: bool
) -> npt.NDArray[np.int64]:
    """Return the most atoms a sample may use, for each iteration.

    ``"linear"`` is the paper's schedule (section II-C): equally spaced numbers from 1 to the limit. ``"half"`` climbs
    in the first half of the iterations and stays: with growing samples the early iterations are cheap anyway.
    ``"auto"`` takes one of them where the number of atoms is the rule that ends coding, and a constant limit where a
    tolerance is: there the early iterations turn atoms into coarse prototypes that later ones do not mend.
    """
    if isinstance(schedule, str):
        if schedule == "auto":
            schedule = "constant" if has_tol else "half" if growing else "linear"
        if schedule not in ("linear", "half", "constant"):
            raise ValueError(
                "Expected schedule to be 'auto', 'linear', 'half', 'constant', a callable or a list of limits,"
                f" got {schedule!r}."
            )
        if schedule == "constant" or n_iter == 1:
            return np.full(n_iter, limit)
        climbing = np.linspace(1, limit, n_iter if schedule == "linear" else n_iter // 2 + 1)
        return np.round(np.append(climbing, np.full(n_iter - climbing.size, limit))).astype(np.int64)
    if callable(schedule):
        limits = np.array([schedule(k, n_iter, limit) for k in range(n_iter)])
    else:
        limits = np.asarray(schedule)
    if limits.shape != (n_iter,):
        raise ValueError(
            f"Expected schedule to give one limit for each of the {n_iter} iterations (max_iter), got shape"
            f" {limits.shape}."
        )
    if limits.dtype.kind not in "iu" or limits.min(initial=1) < 1:
        raise ValueError(f"Expected schedule to give integers of at least 1, got {limits.tolist()}.")
    return np.asarray(np.minimum(limits, limit), np.int64)


def sample_sizes(
    growth: Growth, n_samples: int, n_iter: int, n_components: int, *, has_tol: bool
) -> npt.NDArray[np.int64] | None:
    """Return how many samples each pass sees; None where every pass sees all of them, in their own order.

    ``"auto"`` grows geometrically from a fiftieth of the samples (but never fewer than two for each atom) to all. Where
    a tolerance drives the codes all samples come into view a few iterations before the end: the last gains need them.
    """
    if growth is None:
        return None
    if isinstance(growth, str) and growth == "auto":
        first = min(n_samples, max(n_samples // FIRST_SHARE, 2 * n_components))
        growing = max(1, round(0.85 * n_iter)) if has_tol else n_iter
        sizes = np.full(n_iter, n_samples)
        if growing > 1:
            sizes[:growing] = np.round(np.geomspace(max(first, 1), max(n_samples, 1), growing))
    elif callable(growth):
        sizes = np.array([growth(k, n_iter, n_samples) for k in range(n_iter)])
        if sizes.dtype.kind not in "iu" or sizes.min(initial=1) < 1:
            raise ValueError(f"Expected growth to give numbers of samples of at least 1, got {sizes.tolist()}.")
    else:
        raise ValueError(f"Expected growth to be 'auto', None or a callable, got {growth!r}.")
    return np.asarray(np.minimum(sizes, n_samples), np.int64)


@dataclass(frozen=True)
class Chosen:
    """Samples by a list of their numbers."""

    samples: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of places."""
        return self.samples.size

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the samples at places start..stop-1."""
        return self.samples[start:stop]


@dataclass(frozen=True)
class Order:
    """Samples spread evenly over all of them, without a list of their numbers.

    Place i is sample ``(first + i * step) mod n``. The step is near the golden section of n and has no divisor in
    common with it: any run of places is spread over the whole, every sample comes once before the first comes again,
    and nothing grows with the number of samples.
    """

    n_samples: int
    step: int
    first: int
    size: int

    @classmethod
    def random(cls, n_samples: int, rng: np.random.Generator) -> Order:
        """Draw an order of all samples."""
        spread = n_samples // 64
        step = max(1, round(n_samples * (math.sqrt(5) - 1) / 2) + int(rng.integers(-spread, spread + 1)))
        while math.gcd(step, n_samples) != 1:
            step += 1
        return cls(n_samples, step, int(rng.integers(n_samples)), n_samples)

    def slice(self, start: int, size: int) -> Order:
        """Return `size` places from `start` on; after the last comes the first."""
        first = (self.first + (start % self.n_samples) * self.step) % self.n_samples
        return Order(self.n_samples, self.step, first, size)

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the samples at places start..stop-1."""
        return (self.first + np.arange(start, stop, dtype=np.int64) * self.step) % self.n_samples
