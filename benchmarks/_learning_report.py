"""How the results of the learning benchmark are kept and told: tables, goals and a plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _learners import DEFAULT, KSVD, MOD, N_SEEDS, PAPER, PER_VIEW, REFERENCE, UsualKSVD
from _learning_memory import Memory
from _learning_parts import RULES, SEQUENTIAL, Identity, Iteration, Unused
from _learning_plots import Curve, CurvePanel, Style, curve_panels
from _learning_quality import Contest, Trace
from _learning_tasks import THREADS
from _main import duration, join, table

from coupledict.experiments.peers import DICTLEARN, DICTLEARN_WORST, SKLEARN, SPAMS, SPAMS_OWN

PEERS = (SPAMS, SPAMS_OWN, DICTLEARN, DICTLEARN_WORST, SKLEARN)
STYLES = {
    DEFAULT: Style("#00665e", 2.6, order=6),
    PER_VIEW: Style("#3aa99f", 1.8, (0, (4, 1.5)), order=5),
    REFERENCE: Style("#22303c", 1.8, order=4),
    PAPER: Style("#c2a21a", 1.6),
    KSVD: Style("#7a4fa3", 1.6),
    MOD: Style("#b08fcf", 1.6),
    SPAMS: Style("#a8481c", 1.8, order=4),
    SPAMS_OWN: Style("#e39a6f", 1.6),
    DICTLEARN: Style("#3f53c9", 1.6),
    DICTLEARN_WORST: Style("#9aa6f0", 1.6),
    SKLEARN: Style("#8b98a5", 1.6),
}
#: Peak memory may differ by this much when there are four times as many samples.
MEMORY_SLACK_MB = 10.0


@dataclass(frozen=True)
class Goal:
    """A goal, what was asked, the worst value measured and where that was."""

    text: str
    asked: str
    measured: str
    where: str
    reached: bool

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        return "reached" if self.reached else "NOT reached"


@dataclass
class Run:
    """Everything that a run of the benchmark finds out."""

    iterations: list[Iteration] = field(default_factory=list)
    contests: list[Contest] = field(default_factory=list)
    unused: list[Unused] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)


def check_goals(run: Run) -> list[Goal]:
    """Hold the results against the goals; a goal for which nothing was measured is left out."""
    goals = [*_iteration_goals(run.iterations), *_sooner(run.contests, REFERENCE, 10.0)]
    for name in PEERS:
        goals += _sooner(run.contests, name, 2.0)
    goals += _final(run.contests)
    return [*goals, *_memory_goals(run.memory), *_identity_goals(run.identities)]


def _iteration_goals(rows: list[Iteration]) -> list[Goal]:
    times = {row.name: float(np.median(row.first)) for row in rows}
    goals = []
    for name, factor in ((DICTLEARN, 8.0), (UsualKSVD.name, 100.0)):
        if name in times:
            value = times[name] / times[SEQUENTIAL]
            text = f"one iteration: sequential faster than {name}"
            goals.append(Goal(text, f"{factor:g}x", f"{value:.1f}x", "iteration", value >= factor))
    return goals


def _sooner(contests: Sequence[Contest], name: str, factor: float) -> list[Goal]:
    found = [(*ratio, contest.key) for contest in contests if (ratio := contest.sooner(name)) is not None]
    if not found:
        return []
    value, bound, where = min(found)
    measured = "target missed" if value == 0 else f"{'> ' if bound else ''}{value:.1f}x"
    return [Goal(f"time to quality: {name} / {DEFAULT}", f"{factor:g}x", measured, where, value >= factor)]


def _final(contests: Sequence[Contest]) -> list[Goal]:
    """Hold the end of the default against the best end of all peers."""
    found = []
    for contest in contests:
        ours, theirs = contest.final(DEFAULT), [contest.final(name) for name in PEERS]
        ends = [end for end in theirs if end is not None]
        if ours is not None and ends:
            found.append((min(ends) / ours, contest.key))
    if not found:
        return []
    value, where = min(found)
    return [Goal(f"final quality: best peer / {DEFAULT}", ">= 1", f"{value:.4f}", where, value >= 1.0)]


def _memory_goals(rows: list[Memory]) -> list[Goal]:
    goals = []
    for growth in dict.fromkeys(row.growth for row in rows):
        few, many = (row for row in rows if row.growth == growth)
        value = many.beyond_mb - few.beyond_mb
        text = f"memory beyond the input, {many.n_samples:,} samples more than {few.n_samples:,}, growth {growth}"
        goals.append(Goal(text, f"< {MEMORY_SLACK_MB:g} MB", f"{value:.1f} MB", "memory", value < MEMORY_SLACK_MB))
    return goals


def _identity_goals(rows: list[Identity]) -> list[Goal]:
    goals = []
    for text, answers in (
        ("bit-identical for n_jobs = 1, 2, 3", {f"{row.setting} {row.dtype}": row.any_n_jobs for row in rows}),
        ("bit-identical for the same seed", {f"{row.setting} {row.dtype}": row.same_seed for row in rows}),
    ):
        if answers:
            broken = [name for name, same in answers.items() if not same]
            goals.append(
                Goal(text, "all", f"{len(answers) - len(broken)}/{len(answers)}", ", ".join(broken), not broken)
            )
    return goals


def tell_iterations(heading: str, rows: list[Iteration]) -> str:
    """Return the times of one iteration and what it reaches."""
    times = {row.name: float(np.median(row.first)) for row in rows}
    lines = [
        [
            row.name,
            duration(times[row.name]),
            duration(float(np.median(row.later))) if row.later else "-",
            row.repeats,
            f"{times[row.name] / times[SEQUENTIAL]:.3g}x",
            f"{row.quality.mean_nonzeros:.3f}",
            f"{row.quality.rms_residual:.4f}",
            f"{row.learned.mean_nonzeros:.3f}" if row.later else "-",
        ]
        for row in rows
    ]
    headers = ["learner", "first iteration", "second", "runs", "first / sequential", "mean nnz after 1", "RMS after 1"]
    return join(
        f"## {heading}, {THREADS} threads",
        table([*headers, "mean nnz after 2"], lines),
        "The first iteration includes the set-up of a fit, but for dictlearn and the usual K-SVD. Quality: the same"
        " patches coded by coupledict with the dictionary learned. \\* fewer runs: more would have passed the budget.",
    )


def tell_contest(contest: Contest) -> str:
    """Return how soon each learner reached the target, and what it reached in the end."""
    lines = []
    for name in contest.names():
        trace = contest.named(name)
        assert trace is not None
        ratio = contest.sooner(name)
        final = contest.final(name) or 0.0
        lines.append(
            [
                name,
                "-" if trace.to_target is None else duration(trace.to_target),
                "" if ratio is None or name == DEFAULT else _factor(*ratio),
                trace.repeats,
                f"{final:.4f}",
                f"{final / contest.target - 1:+.2%}",
                f"{trace.best:.4f}",
                duration(trace.seconds[-1]),
                str(len(trace.seconds)),
                "" if trace.recovered is None else str(trace.recovered),
            ]
        )
    headers = ["learner", "to target", "/ default", "runs", "final", "against target", "best", "whole run", "points"]
    if contest.traces[0].recovered is not None:
        headers.append("recovered")
    remarks = []
    seeds = contest.seeds()
    if len(seeds) > 1:
        times = ", ".join("-" if trace.to_target is None else duration(trace.to_target) for trace in seeds)
        finals = ", ".join(f"{trace.final:.4f}" for trace in seeds)
        remarks.append(f"The default is the median of {N_SEEDS} seeds: to target {times}; final {finals}.")
    if any("*" in trace.repeats for trace in contest.traces):
        remarks.append("\\* fewer runs: more would have passed the budget.")
    if any(trace.to_target is None for trace in contest.traces):
        remarks.append("\\> a learner that never reached the target counts with all the time it took.")
    return join(
        f"## {contest.heading}, {THREADS} threads",
        f"Held-out {contest.measure}: {contest.start:.4f} at the start, target {contest.target:.4f}",
        table(headers, [line[: len(headers)] for line in lines]),
        *remarks,
    )


def _factor(value: float, bound: bool) -> str:
    return "default missed" if value == 0 else f"{'> ' if bound else ''}{value:.3g}x"


def tell_unused(rows: list[Unused]) -> str:
    """Return held-out quality and dead atoms for each rule."""
    lines = []
    for case, setup in dict.fromkeys((row.case, row.setup) for row in rows):
        mine = {row.rule: row for row in rows if (row.case, row.setup) == (case, setup)}
        best = min(row.score for row in mine.values())
        cells = [
            f"{mine[rule].score:.4f}{'*' if mine[rule].score == best else ''} ({mine[rule].dead})"
            if rule in mine
            else "-"
            for rule in RULES
        ]
        lines.append([case, setup, next(iter(mine.values())).measure, *cells])
    return join(
        "## Rules for unused atoms: held-out quality (dead atoms)",
        table(["case", "setting", "measure", *RULES], lines, left=3),
        "\\* the best of the row. Dead: used by no training sample when all are coded with the final dictionary.",
    )


def tell_rest(run: Run, goals: list[Goal]) -> str:
    """Return memory, identity of bits, and the goals."""
    blocks = []
    if run.memory:
        lines = [
            [f"{row.n_samples:,}", row.growth, f"{row.input_mb:.0f}", f"{row.beyond_mb:.1f}"] for row in run.memory
        ]
        blocks.append('## Peak memory of update="statistics" beyond the input, float32')
        blocks.append(table(["samples", "growth", "input MB", "beyond MB"], lines, left=0))
    if run.identities:
        lines = [
            [
                row.setting,
                row.dtype,
                "yes" if row.any_n_jobs else "NO",
                "yes" if row.same_seed else "NO",
                row.dictionaries,
                row.codes,
                row.predictions,
            ]
            for row in run.identities
        ]
        heads = ["setting", "dtype", "n_jobs = 1, 2, 3", "same seed", "dictionaries", "codes", "predictions"]
        blocks += ["## Identical bits", table(heads, lines, left=2)]
        blocks.append("The last three are digests, to compare two versions of the library on one machine.")
    if goals:
        lines = [[goal.text, goal.verdict, goal.asked, goal.measured, goal.where or "-"] for goal in goals]
        blocks.append("## Goals, each with the worst value of its cases")
        blocks.append(table(["goal", "", "asked", "measured", "in case"], lines, left=2))
    return join(*blocks)


def draw(run: Run, path: Path, cpu: str) -> None:
    """Plot held-out quality against seconds for every case."""
    panels = []
    for contest in run.contests:
        middle = contest.named(DEFAULT)
        curves = [
            Curve(
                DEFAULT if trace.name.startswith(DEFAULT) else trace.name,
                trace.seconds,
                trace.scores,
                _mark(trace, contest.target),
                faint=trace.name.startswith(DEFAULT) and trace is not middle,
            )
            for trace in contest.traces
        ]
        panels.append(CurvePanel(contest.heading, contest.measure, contest.start, contest.target, curves))
    curve_panels(panels, STYLES, path, title=f"Held-out quality against time, {THREADS} threads, {cpu}")


def _mark(trace: Trace, target: float) -> tuple[float, float] | None:
    for seconds, value in zip(trace.seconds, trace.scores, strict=True):
        if value <= target and not math.isnan(value):
            return seconds, value
    return None
