"""The problems of the second experiment: patches, a starting dictionary, and the stopping rule of codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..coding.encode import sparse_encode
from ..foundation.arrays import Array
from ..learning.start import dct_dictionary
from .levels import Level, codes_level
from .sources import distinct_patches

N_REGIMES = 2
START_NONZEROS = 13.2  # atoms that the cosine start needs where K-SVD ends near 12.5, as in the paper


@dataclass(frozen=True)
class TimeSizes:
    """The number of training samples and of runs, each on other patches."""

    n_patches: int = 10_000
    n_held_out: int = 10_000
    n_components: int = 256
    n_nonzero_coefs: int = 32
    side: int = 8
    repeats: int = 5
    peer_seconds: float = 6.0  # for each other package; 0 leaves them out
    thinning: int = 1


@dataclass(frozen=True)
class Regime:
    """Patches, a starting dictionary, and the stopping rule of codes: a ``watching.Problem``."""

    key: str
    title: str
    train: tuple[Array, ...]
    held_out: Array
    start: tuple[Array, ...]
    n_nonzero_coefs: int
    tol: float
    threads: int

    @property
    def n_components(self) -> int:
        """Number of atoms."""
        return len(self.start[0])

    def __post_init__(self) -> None:
        for array in (*self.train, self.held_out, *self.start):
            array.flags.writeable = False  # all methods and regimes share these arrays

    def stacked(self) -> Array:
        """Return a copy of the patches."""
        return self.train[0].copy()

    def stacked_start(self) -> Array:
        """Return a copy of the starting dictionary: some packages change it in place."""
        return self.start[0].copy()

    def level(self, X: Array, dictionary: Array) -> Level:
        """Return the sparsity and error that a dictionary gives for patches."""
        return codes_level(X, dictionary, self.n_nonzero_coefs, self.tol, self.threads)


def regimes(images: list[Array], *, sizes: TimeSizes, seed: int, threads: int) -> list[list[Regime]]:
    """Return, for each regime, a draw of patches for each run; no patch is drawn twice.

    The tolerance of the sparse regime is chosen on the first draw.
    """
    each = sizes.n_patches + sizes.n_held_out
    (patches,) = distinct_patches([images], each * sizes.repeats, side=sizes.side, seed=seed)
    draws = [patches[first : first + each] for first in range(0, each * sizes.repeats, each)]
    parts = [np.split(np.ascontiguousarray(draw), [sizes.n_patches]) for draw in draws]
    start = np.ascontiguousarray(dct_dictionary((sizes.side, sizes.side), sizes.n_components))
    sparse = sparse_tolerance(parts[0][0], start, sizes.n_nonzero_coefs, threads)
    return [
        [
            Regime(key, title, (train,), held_out, (start,), sizes.n_nonzero_coefs, tol, threads)
            for train, held_out in parts
        ]
        for key, title, tol in (
            ("eps4", "the paper's tolerance, eps = 4", 4.0),
            ("sparse", f"about 12 atoms per patch, eps = {sparse:g}", sparse),
        )
    ]


def sparse_tolerance(X: Array, start: Array, n_nonzero_coefs: int, threads: int) -> float:
    """Return the smallest integer tolerance at which the start needs at most 13.2 atoms per patch."""
    low, high = 0, 16
    while _mean_nonzeros(X, start, n_nonzero_coefs, high, threads) > START_NONZEROS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        above = _mean_nonzeros(X, start, n_nonzero_coefs, middle, threads) > START_NONZEROS
        low, high = (middle, high) if above else (low, middle)
    return float(high)


def _mean_nonzeros(X: Array, D: Array, n_nonzero_coefs: int, tol: float, threads: int) -> float:
    return float(sparse_encode(X, D, n_nonzero_coefs=n_nonzero_coefs, tol=tol, n_jobs=threads).nnz / len(X))
