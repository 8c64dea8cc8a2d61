"""What a callback hears of a task, and whether it makes sense."""

from __future__ import annotations

from itertools import pairwise


class Listener:
    """Keeps what it is told, and asks to stop after so many calls."""

    def __init__(self, stop_at=None):
        self.told, self.stop_at = [], stop_at

    def __call__(self, progress):
        self.told.append((progress.stage, progress.completed, progress.total))
        return len(self.told) == self.stop_at


def check_course(told, stages):
    """Every stage runs up to its total, and never back."""
    assert list(dict.fromkeys(stage for stage, _, _ in told)) == stages
    for stage in stages:
        steps = [(completed, total) for name, completed, total in told if name == stage]
        assert len({total for _, total in steps}) == 1
        assert all(before[0] < after[0] for before, after in pairwise(steps))
        assert steps[-1][0] == steps[-1][1]
