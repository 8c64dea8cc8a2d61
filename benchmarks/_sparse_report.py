"""How the results of the sparse coding benchmark are kept and told: tables, goals and a plot."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _coders import DICTLEARN, OLS_CODERS, OURS, OURS_OLS, SKLEARN, SPAMS, Problem, Quality
from _main import duration, join, table
from _plots import Bar, Panel, bar_panels
from _timing import Timing

THREADS = (1, 2)
MOST = THREADS[-1]
#: Order of the bars and, for each coder, the colours of float32 and float64.
COLOURS = {
    OURS: ("#00665e", "#3aa99f"),
    OURS_OLS: ("#1f6f3d", "#6dbb85"),
    SPAMS: ("#a8481c", "#e39a6f"),
    DICTLEARN: ("#8d8fb8", "#8d8fb8"),
    SKLEARN: ("#6b7885", "#aab4be"),
}


@dataclass(frozen=True)
class Case:
    """The sizes and the stopping rule of a case."""

    key: str
    title: str
    n_samples: int
    n_features: int
    n_components: int
    n_nonzero_coefs: int
    tol: float | None

    @classmethod
    def of(cls, problem: Problem) -> Case:
        """Take them from a problem."""
        return cls(**{name: getattr(problem, name) for name in cls.__dataclass_fields__})

    @property
    def heading(self) -> str:
        """Title with sizes."""
        return f"{self.title}  ({self.n_samples:,} x {self.n_features}, {self.n_components} atoms)"

    @property
    def useful_flops(self) -> float:
        """Useful operations of OMP with exactly `n_nonzero_coefs` atoms, as sparse_coding.py defines them."""
        steps = sum(m + 2 for m in range(self.n_nonzero_coefs - 1))
        return 2.0 * self.n_samples * self.n_components * (self.n_features + steps)


@dataclass(frozen=True)
class Row:
    """One coder on one case, in one precision, on a number of threads."""

    case: str
    coder: str
    dtype: str
    threads: int
    timing: Timing
    quality: Quality


@dataclass(frozen=True)
class Agreement:
    """How far our OLS codes and those of SPAMS agree."""

    case: str
    dtype: str
    equal_supports: float
    relative_error_difference: float


@dataclass(frozen=True)
class Goal:
    """A goal, the worst value measured for it and the case where that was, and cases that cannot count."""

    text: str
    target: float
    value: float
    where: str
    unit: str = "x"
    not_comparable: tuple[str, ...] = ()

    @property
    def reached(self) -> bool:
        """Whether the value is on the right side: below for megabytes, not below for ratios."""
        return self.value < self.target if self.unit == " MB" else self.value >= self.target

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if math.isnan(self.value):
            return "not comparable"
        return "reached" if self.reached else "NOT reached"


@dataclass(frozen=True)
class Ratio:
    """The time of one row over another's, and whether their codes are comparable."""

    value: float
    fair: bool
    slow: Row
    fast: Row

    def __str__(self) -> str:
        return f"{self.value:.3g}x" + ("" if self.fair else " !")


@dataclass(frozen=True)
class Found:
    """What was measured in one case."""

    case: Case
    rows: list[Row]
    agreements: list[Agreement]
    identical_for_any_n_jobs: bool
    memory_mb: dict[str, float] | None


@dataclass
class Run:
    """Everything that a run of the benchmark finds out."""

    matmul_gflops: dict[str, float]
    cases: list[Case] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    identical_for_any_n_jobs: dict[str, bool] = field(default_factory=dict)
    memory_mb: dict[str, float] | None = None

    def add(self, found: Found) -> None:
        """Add what was measured in one case."""
        self.cases.append(found.case)
        self.rows += found.rows
        self.agreements += found.agreements
        self.identical_for_any_n_jobs[found.case.key] = found.identical_for_any_n_jobs
        self.memory_mb = found.memory_mb or self.memory_mb

    def row(self, case: str, coder: str, dtype: str, threads: int) -> Row | None:
        """Return the row of a coder, or None where there is none."""
        for row in self.rows:
            if (row.case, row.coder, row.dtype, row.threads) == (case, coder, dtype, threads):
                return row
        return None

    def against(self, row: Row, coder: str, threads: int) -> Ratio | None:
        """Return the time of a row over that of a coder in the same case and precision."""
        other = self.row(row.case, coder, row.dtype, threads)
        if other is None:
            return None
        same_pursuit = (row.coder in OLS_CODERS) == (other.coder in OLS_CODERS)
        fair = row.quality.comparable(other.quality, same_pursuit=same_pursuit)
        return Ratio(row.timing.median / other.timing.median, fair, row, other)

    def rates(self) -> list[dict[str, Any]]:
        """Return useful GFLOP/s of our OMP on one thread, for the cases without a tolerance."""
        rates = []
        for case in self.cases:
            for dtype, roof in self.matmul_gflops.items():
                row = self.row(case.key, OURS, dtype, 1)
                if row is not None and case.tol is None:
                    rate = case.useful_flops / row.timing.median / 1e9
                    rates.append({"case": case.key, "dtype": dtype, "gflops": rate, "share": rate / roof})
        return rates


def check_goals(run: Run) -> list[Goal]:
    """Hold the results against the goals; a goal for which nothing was measured is left out."""
    keys = [case.key for case in run.cases]
    patches, random = [key for key in keys if key != "random"], [key for key in keys if key == "random"]
    goals: list[Goal] = []

    def ask(
        text: str, target: float, where: list[str], slow: tuple[str, int], fast: tuple[str, int], dtype: str
    ) -> None:
        rows = [row for key in where if (row := run.row(key, slow[0], dtype, slow[1])) is not None]
        ratios = [ratio for row in rows if (ratio := run.against(row, *fast)) is not None]
        if ratios:
            fair = [(ratio.value, ratio.slow.case) for ratio in ratios if ratio.fair]
            unfair = tuple(ratio.slow.case for ratio in ratios if not ratio.fair)
            worst = min(fair, default=(float("nan"), "none"))
            goals.append(Goal(f"{text}, {dtype}", target, *worst, not_comparable=unfair))

    for coder, name in ((OURS, "OMP"), (OURS_OLS, "OLS")):
        text = f"{name} against SPAMS, {MOST} threads"
        for dtype, target in (("float32", 5.0), ("float64", 4.0)):
            ask(f"{text}, patches", target, patches, (SPAMS, MOST), (coder, MOST), dtype)
        for dtype in run.matmul_gflops:
            ask(f"{text}, 256 x 1024", 3.0, random, (SPAMS, MOST), (coder, MOST), dtype)
    for dtype in run.matmul_gflops:
        ask(f"OMP against scikit-learn, {MOST} threads", 100.0, keys, (SKLEARN, MOST), (OURS, MOST), dtype)
    for dtype in run.matmul_gflops:
        ask(f"OMP, {MOST} threads against 1", 1.7, keys, (OURS, 1), (OURS, MOST), dtype)
    if run.memory_mb is not None:
        goals.append(Goal("peak memory beyond input and output", 100.0, run.memory_mb["beyond"], "many", " MB"))
    return goals


def tell_case(run: Run, case: Case) -> str:
    """Return times and the quality reached for one case, by precision and threads."""
    rows = sorted((row for row in run.rows if row.case == case.key), key=lambda row: (row.dtype, row.threads))
    lines = []
    for row in rows:
        low, high = row.timing.quartiles
        lines.append(
            [
                row.coder,
                row.dtype,
                str(row.threads),
                duration(row.timing.median),
                f"{duration(low)} - {duration(high)}",
                row.timing.repeats,
                str(run.against(row, OURS, row.threads) or ""),
                str(run.against(row, OURS_OLS, row.threads) or "") if row.coder == SPAMS else "",
                f"{row.quality.rms_residual:.4f}",
                f"{row.quality.mean_nonzeros:.3f}",
                str(row.quality.max_nonzeros),
            ]
        )
    headers = ["coder", "dtype", "threads", "median", "quartiles", "runs", "time / OMP", "time / OLS"]
    remarks = []
    short = [row.timing.budget for row in rows if len(row.timing.seconds) < row.timing.asked]
    if short:
        remarks.append(f"\\* fewer runs: more would have taken this coder longer than the budget of {short[0]:g} s.")
    if any(" !" in cell for line in lines for cell in line):
        remarks.append("! The codes of the two sides are not comparable, so this ratio counts towards no goal.")
    if case.tol is not None and any(row.coder == SKLEARN for row in rows):
        remarks.append("scikit-learn stops at the tolerance only: it ignores T here, so its codes may be longer.")
    headers += ["RMS residual", "mean nnz", "max nnz"]
    return join(f"## {case.heading}", table(headers, lines, left=2), *remarks)


def tell_summary(run: Run, goals: list[Goal]) -> str:
    """Return what holds for the run as a whole."""
    blocks = []
    if run.agreements:
        blocks.append("## Our OLS beside SPAMS, whose omp is OLS")
        lines = [
            [
                entry.case,
                entry.dtype,
                f"{entry.equal_supports:.3%}",
                f"{entry.relative_error_difference:+.1e}",
            ]
            for entry in run.agreements
        ]
        blocks.append(table(["case", "dtype", "equal supports", "squared error, relative difference"], lines, left=2))
    blocks.append("## Our OMP on one thread: useful operations beside the machine's matrix product")
    lines = [
        [
            rate["case"],
            rate["dtype"],
            f"{rate['gflops']:.1f}",
            f"{run.matmul_gflops[rate['dtype']]:.1f}",
            f"{rate['share']:.0%}",
        ]
        for rate in run.rates()
    ]
    blocks.append(table(["case", "dtype", "GFLOP/s", "matmul GFLOP/s", "share"], lines, left=2))
    blocks.append("## Bit-identical codes for n_jobs = 1, 2 and 3, OMP and OLS")
    blocks.append(
        "\n".join(f"- {key}: {'yes' if same else 'NO'}" for key, same in run.identical_for_any_n_jobs.items())
    )
    if run.memory_mb is not None:
        blocks.append(
            "Memory of case many, n_jobs = 2: input {input:.0f} MB, output {output:.0f} MB, "
            "peak beyond both {beyond:.1f} MB".format(**run.memory_mb)
        )
    return join(*blocks, _tell_goals(goals))


def _tell_goals(goals: list[Goal]) -> str:
    lines = [
        [
            goal.text,
            goal.verdict,
            f"{goal.target:g}{goal.unit}",
            "-" if math.isnan(goal.value) else f"{goal.value:.2f}{goal.unit}",
            goal.where,
            ", ".join(goal.not_comparable) or "-",
        ]
        for goal in goals
    ]
    heads = ["goal", "", "asked", "measured", "in case", "not comparable"]
    return join("## Goals, each with the worst value of its cases", table(heads, lines, left=2))


def draw(run: Run, path: Path, cpu: str) -> None:
    """Plot the times on the larger number of threads, with markers for one thread."""
    order = list(COLOURS)
    panels = []
    for case in run.cases:
        chosen = [row for row in run.rows if row.case == case.key and row.threads == MOST]
        bars = []
        for row in sorted(chosen, key=lambda row: (order.index(row.coder), row.dtype)):
            remark = "" if row.coder in (OURS, OURS_OLS) else str(run.against(row, OURS, MOST) or "")
            single = run.row(case.key, row.coder, row.dtype, 1)
            marker = single.timing.median if single is not None else None
            bars.append(Bar(row.coder, row.dtype, row.timing.median, marker, remark))
        panels.append(Panel(case.heading, bars))
    bar_panels(
        panels,
        COLOURS,
        path,
        title=f"Sparse coding on {MOST} threads, {cpu}",
        marker_label="circles: 1 thread; factors: against our OMP, same precision (!: not comparable)",
    )
