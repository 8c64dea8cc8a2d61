"""How the results of the benchmark of large dictionaries are kept and told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from _coders import OURS
from _large_learning import Iteration
from _main import duration, join, table

GOAL = 0.5


@dataclass(frozen=True)
class Row:
    """One coder on n signals; `scaled_from` is the number of signals on which it was timed, where that is not n."""

    n_components: int
    n_features: int
    n_nonzero_coefs: int
    n_signals: int
    coder: str
    seconds: float
    runs: str
    scaled_from: int | None
    share: float
    share_with_gram: float | None
    relative_residual: float | None
    same_atoms_as_ours: float


@dataclass(frozen=True)
class Memory:
    """Megabytes of signals and atoms, of the codes, and of the peak beyond both while n signals are coded."""

    n_components: int
    n_features: int
    n_nonzero_coefs: int
    n_signals: int
    input_mb: float
    output_mb: float
    beyond_mb: float


def tell_rows(rows: Sequence[Row]) -> str:
    """Return what was measured for one dictionary."""
    ours = {row.n_signals: row.seconds for row in rows if row.coder == OURS}
    lines = [
        [
            row.coder,
            f"{row.n_signals:,}",
            duration(row.seconds) + (" c" if row.scaled_from else ""),
            row.runs,
            f"{row.seconds / ours[row.n_signals]:.3g}x",
            f"{row.share:.0%}",
            "-" if row.share_with_gram is None else f"{row.share_with_gram:.0%}",
            "-" if row.relative_residual is None else f"{row.relative_residual:.4f}",
            f"{row.same_atoms_as_ours:.0%}",
        ]
        for row in rows
    ]
    heads = ["coder", "signals", "time", "runs", "/ ours", "share", "share, Gram", "residual", "same atoms"]
    return table(heads, lines)


def tell_rest(
    rows: Sequence[Row], memory: Sequence[Memory], iterations: Sequence[Iteration], left_out: Sequence[str]
) -> str:
    """Return memory, learning, what was left out, and whether the goal was reached."""
    lines = [[f"{value:,.0f}" for value in asdict(row).values()] for row in memory]
    blocks = [
        "c computed from fewer signals. \\* fewer runs: more would have passed the budget. Residual: relative, RMS."
        " Same atoms: signals with the same support as ours.",
        "Coding: megabytes of signals and atoms, of the codes, and of the peak beyond both",
        table(["atoms", "features", "T", "signals", "input", "output", "beyond"], lines, left=0),
    ]
    if iterations:
        blocks.append("One iteration of learning, set-up included, one run; megabytes of input, and of the peak beyond")
        lines = [
            [row.update, f"{row.n_samples:,}", f"{row.n_atoms:,}", f"{row.n_features:,}", str(row.n_nonzero_coefs),
             "not finished" if row.seconds is None else duration(row.seconds), f"{row.input_mb:,.0f}",
             "-" if row.beyond_mb is None else f"{row.beyond_mb:,.0f}"]
            for row in iterations
        ]  # fmt: skip
        blocks.append(table(["update", "samples", "atoms", "features", "T", "time", "input MB", "beyond MB"], lines))
    worst = min((row for row in rows if row.coder == OURS), key=lambda row: row.share)
    verdict = "reached" if worst.share >= GOAL else "NOT reached"
    where = (
        f"{worst.n_components:,} atoms, {worst.n_features:,} features, T = {worst.n_nonzero_coefs}, {worst.n_signals:,}"
    )
    goal = f"Goal: share of sgemm at least {GOAL:.0%}: {verdict}, worst {worst.share:.0%} ({where} signals)."
    return join(*blocks, *left_out, goal)
