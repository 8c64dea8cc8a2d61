"""A callback that keeps the progress that a task reports, and a check of these reports."""

from __future__ import annotations

from itertools import pairwise


class Listener:
    """A callback that keeps stage, completed and total of each report, and asks to stop at call `stop_at`."""

    def __init__(self, stop_at=None):
        self.reports = []
        self.stop_at = stop_at

    def __call__(self, progress):
        self.reports.append((progress.stage, progress.completed, progress.total))
        return len(self.reports) == self.stop_at


def check_course(reports, stages):
    """Check that the stages come in this order, and that each rises to its total without going back."""
    assert list(dict.fromkeys(stage for stage, _, _ in reports)) == stages
    for stage in stages:
        steps = [(completed, total) for name, completed, total in reports if name == stage]
        assert len({total for _, total in steps}) == 1
        assert all(before[0] < after[0] for before, after in pairwise(steps))
        assert steps[-1][0] == steps[-1][1]
