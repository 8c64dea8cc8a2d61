"""The tree of sums: a fixed order of additions, so that a sum is the same to the last bit wherever it is computed."""

from __future__ import annotations

from typing import Any

FAN_IN = 8  # terms of one node of the tree


class TreeSum:
    """Adds up items in a fixed tree; keeps one partial sum per level.

    Each node of the tree adds at most FAN_IN neighbours, from left to right; items are added one at a time, in order.
    Items are added by ``a += b``, which changes them: the caller must not use an item afterwards.
    """

    def __init__(self) -> None:
        self._levels: list[tuple[int, Any]] = []

    def add(self, thing: Any) -> None:
        """Add the next item."""
        for level, (count, total) in enumerate(self._levels):
            if count:
                total += thing
                thing = total
            count += 1
            if count < FAN_IN:
                self._levels[level] = (count, thing)
                return
            self._levels[level] = (0, None)
        self._levels.append((1, thing))

    def total(self) -> Any:
        """Return the sum of all items; None if there were none."""
        carried = None
        for count, total in self._levels:
            if count:
                if carried is not None:
                    total += carried
                carried = total
        return carried
