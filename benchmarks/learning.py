"""Time the learners beside their rivals, and show the quality that each reaches.

Run ``python benchmarks/learning.py`` from the root of the project. All learners get the same samples, the same
limits, the same number of threads and float64; peers get the views side by side. It has five parts:

* ``iteration``: one full iteration (code and update) beside dictlearn's and beside K-SVD as usually written;
* ``quality``: seconds until a learner reaches the held-out quality of 30 plain iterations, and its final quality;
* ``unused``: held-out quality and dead atoms for each rule for unused atoms;
* ``memory``: peak memory beyond the input, for few and for many samples;
* ``identity``: the same bits for any number of threads, and for the same seed; digests to compare versions by.

It prints tables and writes a JSON file and a plot of quality against time. Our default and the peers keep the norm of
the stacked atom at 1. The paper keeps that of each view, which leaves less freedom; where there are several views, our
default therefore also runs with ``normalize="views"``, under the paper's constraint.

Settings must not be chosen on the images that are reported: ``--half first`` takes the first half of the images by
name, ``--half second`` the others. Digits and planted dictionaries have no images and stay the same.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import get_args

import numpy as np
from _learners import our_learners
from _learning_memory import memory_of_fit
from _learning_parts import identical_bits, one_iteration, unused_atoms
from _learning_quality import hold
from _learning_report import (
    Run,
    as_record,
    check_goals,
    draw,
    print_contest,
    print_iterations,
    print_rest,
    print_unused,
)
from _learning_tasks import CASES, QUICK, SEED, THREADS, Sizes, Source

import coupledict
from coupledict.experiments.machine import load_average, machine
from coupledict.experiments.peers import DICTLEARN, available_peers
from coupledict.experiments.sources import Half, data_directory

PARTS = ("iteration", "quality", "unused", "memory", "identity")
DISTRIBUTIONS = ("coupledict", "numpy", "scipy", "scikit-learn", "spams-bin", "dictlearn", "numba")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Compare dictionary learners: time, quality reached, memory.")
    parser.add_argument("--data", metavar="DIR", help="folder of images (else COUPLEDICT_DATA, else bundled)")
    parser.add_argument("--output", metavar="DIR", default="output/benchmarks", help="where results go")
    parser.add_argument("--quick", action="store_true", help="few samples and 2 runs, to see that it works")
    parser.add_argument("--repeats", type=int, metavar="N", default=5, help="timed runs of each learner")
    parser.add_argument(
        "--budget", type=float, metavar="S", default=60.0, help="a learner that takes longer gets fewer runs, but 1"
    )
    parser.add_argument(
        "--patience", type=float, metavar="S", default=60.0, help="seconds of learning that a peer may take"
    )
    parser.add_argument("--parts", default=",".join(PARTS), metavar="A,B", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--cases", default=",".join(CASES), metavar="A,B", help=f"some of {', '.join(CASES)}")
    parser.add_argument(
        "--half", choices=get_args(Half), default="all", help="only this half of the images, sorted by name"
    )
    arguments = parser.parse_args()
    for name, known in (("parts", PARTS), ("cases", CASES)):
        chosen = getattr(arguments, name).split(",")
        unknown = [part for part in chosen if part not in known]
        if unknown:
            parser.error(f"argument --{name}: expected some of {', '.join(known)}, got {', '.join(unknown)}")
        setattr(arguments, name, chosen)
    if arguments.repeats < 1:
        parser.error(f"argument --repeats: expected at least 1, got {arguments.repeats}")
    if arguments.quick:
        arguments.repeats = min(arguments.repeats, 2)
        arguments.patience = min(arguments.patience, 0.5)
        arguments.budget = min(arguments.budget, 5.0)
    return arguments


def _progress(name: str) -> None:
    """Show on a terminal what is running."""
    if sys.stderr.isatty():
        print(f"\r  {name:<70}", end="" if name else "\r", file=sys.stderr, flush=True)


def measure_all(arguments: argparse.Namespace, source: Source, sizes: Sizes) -> tuple[Run, list[str]]:
    """Run the parts that were asked for and print their tables; also return a line for each missing peer."""
    run = Run()
    peers, missing = available_peers()
    print("\n".join(missing))
    limits = {"repeats": arguments.repeats, "budget": arguments.budget, "progress": _progress}
    if "iteration" in arguments.parts:
        task = source.one_iteration()
        run.iterations = one_iteration(task, [peer for peer in peers if peer.name == DICTLEARN], **limits)
        _progress("")
        print_iterations(task.heading, run.iterations)
    for key in arguments.cases if "quality" in arguments.parts else ():
        task = source.task(key)
        learners = [*our_learners(task, sizes.n_iterations), *peers]
        run.contests.append(hold(task, learners, patience=arguments.patience, **limits))
        _progress("")
        print_contest(run.contests[-1])
    if "unused" in arguments.parts:
        for key in arguments.cases:
            run.unused += unused_atoms(source.task(key), sizes.n_iterations, _progress)
        _progress("")
        print_unused(run.unused)
    if "memory" in arguments.parts:
        X = source.many(max(sizes.memory))
        for n_samples in sizes.memory:
            _progress(f"memory: {n_samples:,} samples")
            run.memory += memory_of_fit(np.ascontiguousarray(X[:n_samples]), THREADS, sizes.n_iterations)
    if "identity" in arguments.parts:
        run.identities = identical_bits(source.task("pairs20k-T5").only(sizes.identity), _progress)
    _progress("")
    return run, missing


def main() -> None:
    """Run the parts that were asked for, tell the results and save them."""
    arguments = parse_arguments()
    sizes = QUICK if arguments.quick else Sizes()
    source = Source(data_directory(arguments.data), sizes, arguments.half)
    load_before = load_average()
    here = {**machine(DISTRIBUTIONS), "coupledict_build": coupledict.build_info()}
    print("\n".join([f"{here['cpu']}, {here['cores']} cores, load {load_before}.", *source.sentences]))

    run, missing = measure_all(arguments, source, sizes)
    goals = check_goals(run)
    print_rest(run, goals)
    if arguments.quick:
        print("This was a quick run on few samples: the goals are meant for the full sizes.")

    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    record = {
        "command": shlex.join(["python", *sys.argv]),
        "quick": arguments.quick,
        "seed": SEED,
        "half": arguments.half,
        "images": source.sentences,
        "missing_peers": missing,
        "machine": here,
        "load_average": {"before": load_before, "after": load_average()},
        "timing": {
            "threads": THREADS,
            "repeats": arguments.repeats,
            "budget_s": arguments.budget,
            "patience_s": arguments.patience,
            "order": "in turns, rotating",
        },
        **as_record(run, goals),
    }
    (output / "learning.json").write_text(json.dumps(record, indent=1, default=str) + "\n")
    written = ["learning.json"]
    if run.contests:
        draw(run, output / "learning.png", here["cpu"])
        written.append("learning.png")
    print(f"\nWritten: {' and '.join(written)} in {output}")


if __name__ == "__main__":
    main()
