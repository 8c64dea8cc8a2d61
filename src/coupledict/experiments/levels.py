"""The sparsity and error of codes, and when one dictionary is as good as another in both.

Two dictionaries that code to the same tolerance differ in sparsity and slightly in error, and the one with fewer atoms
may have the larger error. To compare them by one number, their codes are made just accurate enough for the same error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..coding.coders import make_coder
from ..coding.passes import encode
from ..coding.recipe import Recipe
from ..coding.rule import CodingRule
from ..coding.samples import Samples
from ..foundation.arrays import Array
from ..parallel.jobs import Threads

PRECISION = 2e-3  # relative error at which the search for a tolerance ends; sparsity is interpolated within it
MOST_STEPS = 8


@dataclass(frozen=True)
class Level:
    """Mean nonzeros of a code, and the paper's average error: root of the summed squared residuals over n."""

    nonzeros: float
    error: float

    def at_least(self, other: Level) -> bool:
        """Return whether this is at least as sparse and as accurate as the other."""
        return self.nonzeros <= other.nonzeros and self.error <= other.error

    def worse(self, other: Level) -> bool:
        """Return whether this is less sparse and less accurate than the other."""
        return self.nonzeros > other.nonzeros and self.error > other.error


def codes_level(X: Array, dictionary: Array, n_nonzero_coefs: int, tol: float, threads: int) -> Level:
    """Code samples over a dictionary; return the sparsity and error of the codes."""
    # This runs hundreds of times, so it uses the residuals that the coder reports.
    recipe = Recipe([dictionary], np.ones(1), X.dtype, CodingRule(n_nonzero_coefs, tol), len(X))
    coded = encode(make_coder(recipe, Threads(threads)), Samples([X], X.dtype), Threads(threads))
    return Level(coded.indices.size / len(X), math.sqrt(float(coded.energy.sum())) / len(X))


def nonzeros_at_error(
    X: Array, dictionary: Array, error: float, level: Level, n_nonzero_coefs: int, tol: float, threads: int
) -> float:
    """Return the mean nonzeros of codes whose average error is `error`.

    Parameters
    ----------
    level : Level
        Level of the codes at the tolerance `tol`, where the search starts.

    Returns
    -------
    float
        Infinity if codes of `n_nonzero_coefs` atoms cannot be that accurate.
    """
    below, low = (level, tol) if level.error <= error else (None, 0.0)
    above, high = (level, tol) if level.error > error else (None, math.inf)
    for _ in range(MOST_STEPS):
        if below and above:
            if above.error - below.error <= PRECISION * error:
                break
            # The squared error is nearly proportional to the tolerance, so linear interpolation comes close.
            share = (error**2 - below.error**2) / (above.error**2 - below.error**2)
            middle = low + min(max(share, 0.1), 0.9) * (high - low)
        else:
            middle = 1.3 * low if below else high / 1.3
        found = codes_level(X, dictionary, n_nonzero_coefs, middle, threads)
        if found.error <= error:
            below, low = found, middle
        else:
            above, high = found, middle
    if below is None:
        return math.inf
    if above is None:
        return below.nonzeros
    share = (error - below.error) / max(above.error - below.error, 1e-300)
    return below.nonzeros + share * (above.nonzeros - below.nonzeros)


def first_reaching(
    X: Array,
    dictionaries: Iterable[Array],
    levels: Iterable[Level],
    target: Level,
    n_nonzero_coefs: int,
    tol: float,
    threads: int,
) -> int | None:
    """Return the number of the first dictionary that is as sparse as the target at the error of the target."""
    for number, (dictionary, level) in enumerate(zip(dictionaries, levels, strict=True)):
        if level.at_least(target):
            return number
        if level.worse(target):
            continue
        nonzeros = nonzeros_at_error(X, dictionary, target.error, level, n_nonzero_coefs, tol, threads)
        if nonzeros <= target.nonzeros:
            return number
    return None
