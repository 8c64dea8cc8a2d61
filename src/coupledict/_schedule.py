"""What grows from iteration to iteration: the atoms that a sample may use, and the samples that a pass sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Schedule: TypeAlias = str | Callable[[int, int, int], int] | Sequence[int] | npt.NDArray[Any]
Growth: TypeAlias = str | Callable[[int, int, int], int] | None

FIRST_SHARE = 50  # the first pass of growth="auto" sees one sample in fifty: benchmarks/learning.py, part growth


def sparsity_limits(schedule: Schedule, limit: int, n_iter: int, *, has_tol: bool) -> npt.NDArray[np.int64]:
    """Return the most atoms a sample may use, for each iteration.

    ``"linear"`` is the paper's schedule (section II-C): equally spaced numbers from 1 to the limit. ``"auto"`` takes it
    where the number of atoms is the rule that ends coding, and a constant limit where a tolerance is: there the early
    iterations of the linear schedule turn atoms into coarse prototypes that later ones do not mend.
    """
    if isinstance(schedule, str):
        if schedule == "auto":
            schedule = "constant" if has_tol else "linear"
        if schedule == "constant":
            return np.full(n_iter, limit)
        if schedule == "linear":
            return np.round(np.linspace(1, limit, n_iter)).astype(np.int64) if n_iter > 1 else np.full(n_iter, limit)
        raise ValueError(
            f"Expected schedule to be 'auto', 'linear', 'constant', a callable or a list of limits, got {schedule!r}."
        )
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


def sample_sizes(growth: Growth, n_samples: int, n_iter: int, n_components: int) -> npt.NDArray[np.int64] | None:
    """Return how many samples each pass sees; None where every pass sees all of them, in their own order.

    ``"auto"`` grows geometrically from a fiftieth of the samples (but never fewer than two for each atom) to all.
    """
    if growth is None:
        return None
    if growth == "auto":
        first = min(n_samples, max(n_samples // FIRST_SHARE, 2 * n_components))
        sizes = np.round(np.geomspace(max(first, 1), max(n_samples, 1), n_iter)).astype(np.int64)
    elif callable(growth):
        sizes = np.array([growth(k, n_iter, n_samples) for k in range(n_iter)])
        if sizes.dtype.kind not in "iu" or sizes.min(initial=1) < 1:
            raise ValueError(f"Expected growth to give numbers of samples of at least 1, got {sizes.tolist()}.")
    else:
        raise ValueError(f"Expected growth to be 'auto', None or a callable, got {growth!r}.")
    return np.minimum(sizes, n_samples)


class Slices:
    """Consecutive slices of the shuffled samples, of the sizes asked for; after the last sample comes the first."""

    def __init__(self, n_samples: int, rng: np.random.Generator) -> None:
        self._order = rng.permutation(n_samples)
        self._next = 0

    def take(self, size: int) -> npt.NDArray[np.int64]:
        """Return the next `size` samples."""
        chosen = np.take(self._order, np.arange(self._next, self._next + size), mode="wrap")
        self._next = (self._next + size) % self._order.size
        return chosen
