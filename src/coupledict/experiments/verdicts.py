"""When the figures of several runs decide a claim, and when the experiment is too small to tell.

A claim is about a figure and a bound. It holds if the figure is beyond the bound, by more than a margin, in every run;
it does not hold if the figure is on the other side, by more than the margin, in every run. Otherwise, and with too few
runs or patches, the experiment is too small to tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_RUNS = 3
# The margins are chosen, not measured: smaller differences are not worth a verdict.
TIME_MARGIN = 0.10  # of a ratio of times
SPARSITY_MARGIN = 0.01  # of a ratio of nonzeros at equal error
CORRELATION_MARGIN = 0.05


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds (None: too small to tell here), and the rule or the reason, in a sentence."""

    holds: bool | None
    why: str


def undecided(reason: str) -> Verdict:
    """Return an undecided verdict with its reason."""
    return Verdict(None, reason)


def decide(figures: Sequence[float | None], low: float, high: float, rule: str) -> Verdict:
    """Decide a claim that a figure is large: by figures that are all at least `high`, or all at most `low`.

    Parameters
    ----------
    figures : sequence of float or None
        The figure in each run; None counts as the smallest possible value.
    low, high : float
        The bound minus and plus its margin.
    rule : str
        The bound and the margin, in words.
    """
    if len(figures) < LEAST_RUNS:
        return undecided(f"{_count(len(figures))} cannot tell how much the figure varies; {LEAST_RUNS} are needed")
    known = [float("-inf") if figure is None else figure for figure in figures]
    if min(known) >= high:
        return Verdict(True, f"{rule}, in all {len(figures)} runs")
    if max(known) <= low:
        return Verdict(False, f"{rule}, in none of {len(figures)} runs")
    return undecided(f"{rule}: the runs are on both sides or within the margin")


def all_of(*verdicts: Verdict) -> Verdict:
    """Return the verdict on a claim of several parts: it holds with all of them, and fails with any."""
    for decisive in (False, None):
        for verdict in verdicts:
            if verdict.holds is decisive:
                return verdict
    return Verdict(True, "; ".join(verdict.why for verdict in verdicts))


def _count(number: int) -> str:
    return "One run" if number == 1 else f"{number} runs"
