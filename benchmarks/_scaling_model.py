"""A model of an iteration on a cluster: what the workers compute, what the scheduler hands out, what travels.

Assumptions: every worker computes at the speed of a thread here beside another one, and reads its chunks at least as
fast; the scheduler spends the same time on every task and works beside the workers; sums go up the tree at the speed of
one network link a level, and the dictionary reaches workers in rounds that double; workers are equally fast and none is
lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FAN_IN = 8  # sums that a node of the tree adds up
GROUPS_PER_THREAD = 4  # as in coupledict.distributed
LINK = 1.25e8  # bytes a second of a network link: 1 Gbit/s, a poor one
ADD_SECONDS_PER_BYTE = 1 / 4e9  # adding up sums is bound by memory


@dataclass(frozen=True)
class Costs:
    """What was measured here.

    Seconds for a sample, by a thread alone and beside another; for a task; bytes of sums and of the dictionary.
    """

    alone: float
    sample: float
    task: float
    sums: int
    recipe: int


@dataclass(frozen=True)
class Forecast:
    """Times in seconds, and bytes that travel, for one iteration."""

    n_blocks: int
    n_tasks: int
    computing: float
    scheduling: float
    reducing: float
    spreading: float
    traffic: float

    @property
    def seconds(self) -> float:
        """The iteration: computing and scheduling go on side by side, the rest comes before and after."""
        return max(self.computing, self.scheduling) + self.reducing + self.spreading


def forecast(costs: Costs, n_samples: int, n_workers: int, rows: int, link: float = LINK) -> Forecast:
    """Return what an iteration over `n_samples` in blocks of `rows` takes on some workers."""
    n_blocks = -(-n_samples // rows)
    # Where there are many blocks for each worker, one task does the blocks of a whole lowest node.
    together = FAN_IN if n_blocks >= FAN_IN * GROUPS_PER_THREAD * n_workers else 1
    n_leaves = -(-n_blocks // together)
    nodes, level, n_levels = 0, n_leaves, 0
    while level > 1:
        level = -(-level // FAN_IN)
        nodes += level
        n_levels += 1
    # Tasks are dealt out whole: the last round is that of the workers that have one more.
    rounds = -(-n_leaves // n_workers)
    # A node of eight parts runs where one of them is; with few workers more of them are there already.
    moved = (n_leaves + nodes - 1) * (1 - max(1 / n_workers, 1 / FAN_IN)) + 1
    n_tasks = n_leaves + nodes + 1
    adding = FAN_IN * costs.sums * ADD_SECONDS_PER_BYTE
    crossing = (FAN_IN - 1) * costs.sums / link if n_workers > 1 else 0.0
    return Forecast(
        n_blocks=n_blocks,
        n_tasks=n_tasks,
        computing=min(rounds * together * rows, n_samples) * (costs.sample if n_workers > 1 else costs.alone),
        scheduling=n_tasks * costs.task,
        reducing=n_levels * (adding + crossing),
        spreading=math.ceil(math.log2(n_workers + 1)) * costs.recipe / link,
        traffic=moved * costs.sums + n_workers * costs.recipe,
    )


def foretell(costs: Costs, measured: dict[int, float], n_samples: int, rows: int) -> str:
    """Return the forecast beside what was measured, and for a large cluster."""
    lines = [
        f"Model: {1e6 * costs.alone:.3f} s for a million samples and a thread alone, {1e6 * costs.sample:.3f} s beside"
        f" another, {1e3 * costs.task:.2f} ms a task, {costs.sums / 1e3:.0f} kB of sums a block,"
        f" {costs.recipe / 1e3:.0f} kB of dictionary",
        "",
    ]
    for n_workers, seconds in measured.items():
        cost = forecast(costs, n_samples, n_workers, rows, link=4e9)  # processes of one machine
        lines.append(
            f"- {n_workers} worker(s), {n_samples:,} samples: predicted {cost.seconds:.3f} s, measured {seconds:.3f} s"
            f" ({cost.seconds / seconds - 1:+.0%})"
        )
    for large in (50_000, 200_000, 1_000_000):
        cost = forecast(costs, 10**9, 100, large)
        lines.append(
            f"- 100 workers, 1,000,000,000 samples, links of 1 Gbit/s, chunks of {large:,}: {cost.seconds:.1f} s an"
            f" iteration (computing {cost.computing:.1f}, scheduling {cost.scheduling:.1f}, reducing"
            f" {cost.reducing:.2f}, spreading {cost.spreading:.3f}); {cost.traffic / 1e9:.2f} GB travel in"
            f" {cost.n_tasks:,} tasks"
        )
    return "\n".join(lines)
