"""The course of one method in one run: its dictionaries, and the level of each on both sets of patches."""

from __future__ import annotations

from collections.abc import Sequence

from ..foundation.arrays import Array
from ..foundation.progress import Record
from .levels import Level, first_reaching, nonzeros_at_error
from .regimes import Regime
from .watching import Point

SIDES = ("train", "held")


class Course:
    """The dictionaries of a method in one run; levels are computed on first use, and kept.

    Parameters
    ----------
    regime : Regime
        The patches, and how they are coded.
    points : list of Point
        The dictionary after each iteration, with its time.
    history : list of dict
        What the learner recorded of each iteration.
    step : int
        Every `step`-th iteration is evaluated, and the last one.
    """

    def __init__(self, regime: Regime, points: Sequence[Point], history: Sequence[Record], step: int) -> None:
        self.points = points
        self.history = history
        self.kept = range((len(points) - 1) % step, len(points), step)
        self._regime = regime
        self._levels: dict[tuple[int, str], Level] = {}

    def patches(self, side: str) -> Array:
        """Return the patches of a side: for training, or held out."""
        return self._regime.train[0] if side == "train" else self._regime.held_out

    def level(self, index: int, side: str) -> Level:
        """Return the level of the dictionary after an iteration."""
        if (index, side) not in self._levels:
            self._levels[index, side] = self._regime.level(self.patches(side), self.points[index].dictionary)
        return self._levels[index, side]

    def last(self, side: str) -> Level:
        """Return the final level."""
        return self.level(len(self.points) - 1, side)

    def reaching(self, target: Level, side: str) -> int | None:
        """Return the first iteration, from 0, after which the target is reached at equal error; None if never."""
        place = first_reaching(
            self.patches(side),
            (self.points[k].dictionary for k in self.kept),
            (self.level(k, side) for k in self.kept),
            target,
            self._regime.n_nonzero_coefs,
            self._regime.tol,
            self._regime.threads,
        )
        return None if place is None else self.kept[place]

    def nonzeros_at(self, error: float, side: str) -> float:
        """Return the mean nonzeros of the last dictionary's codes at the average error `error`."""
        return nonzeros_at_error(
            self.patches(side),
            self.points[-1].dictionary,
            error,
            self.last(side),
            self._regime.n_nonzero_coefs,
            self._regime.tol,
            self._regime.threads,
        )

    @property
    def seconds(self) -> float:
        """Time that learning took."""
        return self.points[-1].seconds

    @property
    def most_unused(self) -> int:
        """Largest number of atoms that no patch used in an iteration."""
        return max(int(record["unused"]) for record in self.history)
