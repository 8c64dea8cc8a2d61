"""Time of the learners beside SPAMS, dictlearn and scikit-learn, and the quality that each reaches.

All learners get the same samples, the same limits, the same number of threads and float64; peers get the views side by
side. There are five parts:

* ``iteration``: one full iteration (code and update) beside dictlearn's and beside K-SVD as usually written;
* ``quality``: seconds until a learner reaches the held-out quality of 30 plain iterations, and its final quality;
* ``unused``: held-out quality and dead atoms for each rule for unused atoms;
* ``memory``: peak memory beyond the input, for few and for many samples;
* ``identity``: the same bits for any number of threads, and for the same seed; digests to compare versions by.

A plot shows quality against time. Our default and the peers keep the norm of the stacked atom at 1. The paper keeps
that of each view, which leaves less freedom; where there are several views, our default therefore also runs with
``normalize="views"``, under the paper's constraint.

Settings must not be chosen on the images that are reported: ``--half first`` takes the first half of the images by
name, ``--half second`` the others. Digits and planted dictionaries have no images and stay the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
from _learners import our_learners
from _learning_memory import memory_of_fit
from _learning_parts import identical_bits, one_iteration, unused_atoms
from _learning_quality import hold
from _learning_report import Run, check_goals, draw, tell_contest, tell_iterations, tell_rest, tell_unused
from _learning_tasks import QUICK, TASKS, THREADS, Sizes, Source
from _main import Options, add_choice, join, main, progress

from coupledict.experiments.machine import cpu_name
from coupledict.experiments.peers import DICTLEARN, available_peers
from coupledict.experiments.sources import Half

PARTS = ("iteration", "quality", "unused", "memory", "identity")


@cache
def make_source(data: Path | None, quick: bool, half: Half) -> Source:
    """Return what makes the samples of all tasks."""
    return Source(data, QUICK if quick else Sizes(), half)


def cases(options: Options) -> dict[str, tuple[str, str]]:
    """Return parts, and the tasks of those that have several."""
    found: dict[str, tuple[str, str]] = {}
    for part in options.parts:
        if part in ("quality", "unused"):
            found |= {f"{part}: {key}": (part, key) for key in options.cases}
        else:
            found[part] = part, ""
    return found


def run(case: tuple[str, str], options: Options) -> Any:
    """Return what the part finds out."""
    part, key = case
    sizes = QUICK if options.quick else Sizes()
    source = make_source(options.data, options.quick, options.half)
    peers, missing = available_peers()
    for note in (*source.sentences, *missing):
        options.note(note)
    limits = {"repeats": options.repeats, "budget": options.budget, "progress": progress}
    if part == "iteration":
        task = source.one_iteration()
        rivals = [peer for peer in peers if peer.name == DICTLEARN]
        return {"heading": task.heading, "rows": one_iteration(task, rivals, **limits)}
    if part == "quality":
        task = source.task(key)
        return hold(task, [*our_learners(task, sizes.n_iterations), *peers], patience=options.patience, **limits)
    if part == "unused":
        return unused_atoms(source.task(key), sizes.n_iterations, progress)
    if part == "memory":
        X = source.many(max(sizes.memory))
        parts = (np.ascontiguousarray(X[:n_samples]) for n_samples in sizes.memory)
        return [row for given in parts for row in memory_of_fit(given, THREADS, sizes.n_iterations)]
    return identical_bits(source.task("pairs20k-T5").only(sizes.identity), progress)


def report(results: Mapping[str, Any], options: Options) -> str:
    whole, blocks = Run(), []
    for case, found in results.items():
        part = case.partition(":")[0]
        if part == "iteration":
            whole.iterations = found["rows"]
            blocks.append(tell_iterations(found["heading"], found["rows"]))
        elif part == "quality":
            whole.contests.append(found)
            blocks.append(tell_contest(found))
        elif part == "unused":
            whole.unused += found
        elif part == "memory":
            whole.memory = found
        else:
            whole.identities = found
    if whole.unused:
        blocks.append(tell_unused(whole.unused))
    if whole.contests:
        draw(whole, options.output / "learning.png", cpu_name())
    return join(*blocks, tell_rest(whole, check_goals(whole)))


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", PARTS)
    add_choice(parser, "cases", TASKS)
    parser.add_argument(
        "--budget", type=float, metavar="S", default=60.0, help="a learner that takes longer gets fewer runs, but 1"
    )
    parser.add_argument(
        "--patience", type=float, metavar="S", default=60.0, help="seconds of learning that a peer may take"
    )
    parser.add_argument(
        "--half", choices=get_args(Half), default="all", help="only this half of the images, sorted by name"
    )


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder of images; bundled photographs stand in",
        repeats=(5, "timed runs of each learner"),
        extend=extend,
        quick={"repeats": 2, "patience": 0.5, "budget": 5.0, "cases": ["pairs20k-T5"]},
    )
