"""What grows over the iterations: the number of atoms that a sample may use, and of samples that a pass reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..foundation.choices import ScheduleName

Schedule: TypeAlias = ScheduleName | Callable[[int, int, int], int] | Sequence[int] | npt.NDArray[Any]
Growth: TypeAlias = Literal["auto"] | Callable[[int, int, int], int] | None

FIRST_SHARE = 50  # the first pass of growth="auto" reads one sample in 50: benchmarks/default_settings.py
FIRST_SHARE_INCOMPLETE = (
    20  # the same where entries are missing, and samples hold less information: benchmarks/missing.py
)


def sparsity_limits(
    schedule: Schedule, limit: int, n_iter: int, *, has_tol: bool, growing: bool
) -> npt.NDArray[np.int64]:
    """Return the maximal number of atoms per sample, for each iteration.

    ``"linear"`` is the paper's schedule (section II-C): equally spaced numbers from 1 to the limit. ``"half"`` rises in
    the first half of the iterations and stays at the limit: with growing samples the early iterations are cheap anyway.
    ``"auto"`` is one of these, or a constant limit if a tolerance ends the coding: there, early iterations with few
    atoms turn atoms into coarse prototypes that later iterations do not repair.
    """
    if isinstance(schedule, str):
        if schedule == "auto":
            schedule = "constant" if has_tol else "half" if growing else "linear"
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
    growth: Growth,
    n_samples: int,
    n_iter: int,
    n_components: int,
    *,
    has_tol: bool,
    first_share: int = FIRST_SHARE,
) -> npt.NDArray[np.int64] | None:
    """Return how many samples each pass reads; None if every pass reads all of them, in their own order.

    ``"auto"`` grows geometrically from a fiftieth of the samples (`first_share`), but at least two per atom, to all. If
    a tolerance ends the coding, all samples are reached a few iterations before the end: the last improvements need
    them.
    """
    if growth is None:
        return None
    if isinstance(growth, str) and growth == "auto":
        least = max(n_samples // first_share, 2 * n_components)
        first = min(n_samples, least)
        growing = max(1, round(0.85 * n_iter)) if has_tol else n_iter
        sizes = np.full(n_iter, n_samples)
        if growing > 1:
            sizes[:growing] = np.round(np.geomspace(max(first, 1), max(n_samples, 1), growing))
    elif callable(growth):
        sizes = np.array([growth(k, n_iter, n_samples) for k in range(n_iter)])
        if sizes.dtype.kind not in "iu" or sizes.min(initial=1) < 1:
            raise ValueError(f"Expected growth to give numbers of samples of at least 1, got {sizes.tolist()}.")
    return np.asarray(np.minimum(sizes, n_samples), np.int64)
