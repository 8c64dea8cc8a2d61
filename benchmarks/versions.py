"""Time and results of this version beside those of another, which is installed in an environment of its own.

``--other PYTHON`` names the Python of the other version: a virtual environment into which its wheel was installed, with
the extra ``images``. Both run each case in turns, in processes that stay, and what they return is compared bit by bit.
Learners take samples as they are and predict by codes (``scale=None, predictor="ridge"``) where a version knows these
parameters. Without ``--other`` this version stands in for it, which shows how far times differ by themselves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _main import Options, add_choice, duration, join, main, progress, table
from _versions_worker import CASES

WORKER = Path(__file__).with_name("_versions_worker.py")
QUICK = ("OMP T=5 float32",)


@dataclass(frozen=True)
class Comparison:
    """Seconds of both versions, by the clock and of the processor, and whether their results have the same bits."""

    seconds: dict[str, list[float]]
    cpu: dict[str, list[float]]
    digests: dict[str, list[str]]

    @property
    def same(self) -> bool:
        """Whether all results are the same."""
        return len({digest for own in self.digests.values() for digest in own}) == 1

    @property
    def ratio(self) -> float:
        """The median of this version's times over those of the other, run by run."""
        pairs = zip(self.seconds["this"], self.seconds["other"], strict=True)
        return float(np.median([this / other for this, other in pairs]))


def cases(options: Options) -> dict[str, str]:
    """Return the names of the cases."""
    return {name: name for name in (QUICK if options.quick else options.cases)}


def run(case: str, options: Options) -> Comparison:
    """Run a case by both versions in turns; the first round is not timed."""
    pythons = {"this": sys.executable, "other": options.other or sys.executable}
    workers = {
        name: subprocess.Popen(
            [python, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for name, python in pythons.items()
    }
    found = Comparison(
        seconds={name: [] for name in workers},
        cpu={name: [] for name in workers},
        digests={name: [] for name in workers},
    )
    try:
        for round_ in range(options.repeats + 1):
            order = list(workers) if round_ % 2 else list(workers)[::-1]
            for name in order:
                answer = _ask(workers[name], case)
                found.digests[name].append(answer["digest"])
                if round_:
                    found.seconds[name].append(answer["seconds"])
                    found.cpu[name].append(answer["cpu"])
    finally:
        for worker in workers.values():
            worker.kill()
            worker.communicate()
    progress(f"  {found.ratio:.3f} of the other's time, {'same' if found.same else 'OTHER'} bits")
    return found


def _ask(worker: subprocess.Popen[str], case: str) -> Any:
    if worker.stdin is None or worker.stdout is None:
        raise RuntimeError("Expected a worker with pipes.")
    worker.stdin.write(case + "\n")
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(f"A version failed at {case!r}; its error stands above.")
    return json.loads(line)


def report(results: Mapping[str, Comparison], options: Options) -> str:
    """Tell times, ratios, and whose bits differ."""
    rows = []
    for name, found in results.items():
        medians = {which: float(np.median(own)) for which, own in found.seconds.items()}
        spread = [this / other for this, other in zip(found.seconds["this"], found.seconds["other"], strict=True)]
        low, high = np.quantile(spread, [0.25, 0.75])
        row = [name, duration(medians["other"]), duration(medians["this"]), f"{found.ratio:.3f}"]
        rows.append([*row, f"{low:.3f} to {high:.3f}", "same" if found.same else "differ"])
    overall = float(np.exp(np.mean([np.log(found.ratio) for found in results.values()])))
    heads = ["case", "other", "this", "ratio", "quartiles", "bits"]
    return join(table(heads, rows), f"Geometric mean of the ratios: {overall:.3f}.")


def extend(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--other", metavar="PYTHON", help="the Python of the other version (default: this one)")
    add_choice(parser, "cases", list(CASES), separator=";")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data=None,
        repeats=(9, "timed calls of each version"),
        extend=extend,
        quick={"repeats": 1},
    )
