"""In which order samples are read: by a list of their numbers, or by a formula that needs no list."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Chosen:
    """An order given as a list of the numbers of samples."""

    samples: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of samples in the order."""
        return self.samples.size

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the samples at places start..stop-1."""
        return self.samples[start:stop]


@dataclass(frozen=True)
class Order:
    """A cyclic order of samples in which neighbours are far apart; it needs no list of their numbers.

    Place i is sample ``(first + i * step) mod n``. The step is close to n times the golden section and has no common
    divisor with n: any run of places is spread evenly over all samples, every sample comes once before one comes again,
    and memory does not grow with the number of samples.
    """

    n_samples: int
    step: int
    first: int
    size: int

    @classmethod
    def random(cls, n_samples: int, rng: np.random.Generator) -> Order:
        """Draw a random order of all samples."""
        spread = n_samples // 64
        step = max(1, round(n_samples * (math.sqrt(5) - 1) / 2) + int(rng.integers(-spread, spread + 1)))
        while math.gcd(step, n_samples) != 1:
            step += 1
        return cls(n_samples, step, int(rng.integers(n_samples)), n_samples)

    def slice(self, start: int, size: int) -> Order:
        """Return the order of `size` places from `start` on; the first place follows the last."""
        first = (self.first + (start % self.n_samples) * self.step) % self.n_samples
        return Order(self.n_samples, self.step, first, size)

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the samples at places start..stop-1."""
        return (self.first + np.arange(start, stop, dtype=np.int64) * self.step) % self.n_samples
