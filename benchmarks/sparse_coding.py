"""Time the sparse coder beside its peers, and show what each reaches.

Run ``python benchmarks/sparse_coding.py`` from the root of the project. It compares coupledict with SPAMS,
dictlearn and scikit-learn in one run, with equal threads and taking turns; it prints tables and writes a JSON
file and a plot. A ratio of times counts towards a goal only where the codes of both sides are comparable.

The rate of the kernel is judged by the useful floating-point operations of OMP with T atoms,

    2 n (K p + K sum_{m < T-1} (m + 2))

for n signals, K atoms and p features: the correlations, and for each atom but the last, in every column, m
multiply-adds that orthogonalise its row of the Gram matrix, one that scales it and one that repairs the
correlations. Choosing atoms, solving, checking the input and building the result count as time, not as work.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _coders import (
    DTYPES,
    OURS,
    OURS_OLS,
    SPAMS,
    Coder,
    Problem,
    available_coders,
    equal_supports,
    identical,
    judge,
    ours,
    squared_error,
)
from _data import (
    Array,
    centred_patches,
    cosine_dictionary,
    focused_and_blurred,
    random_mixtures,
)
from _memory import memory_beyond
from _sparse_report import (
    THREADS,
    Agreement,
    Case,
    Row,
    Run,
    as_record,
    check_goals,
    draw,
    print_case,
    print_summary,
)
from _timing import Entry, matmul_rate, measure

import coupledict
from coupledict.experiments.machine import load_average, machine
from coupledict.experiments.sources import data_directory, load_images

CASES = ("T5", "T10", "tol", "views", "random", "many")
DISTRIBUTIONS = ("coupledict", "numpy", "scipy", "scikit-learn", "spams-bin", "dictlearn", "numba")
SEED = 0


@dataclass(frozen=True)
class Sizes:
    """How many signals the cases have."""

    patches: int = 10_000
    random: int = 5_000
    many: int = 1_000_000


def build(key: str, images: list[Array], sizes: Sizes) -> Problem:
    """Make the problem of a case."""
    cosines = cosine_dictionary()
    if key == "views":
        views = focused_and_blurred(images, sizes.patches, seed=SEED)
        return Problem(key, "two-view patches, T = 10", views, (cosines, cosines), 10)
    if key == "random":
        X, D = random_mixtures(sizes.random, seed=SEED)
        return Problem(key, "random dictionary, T = 32", (X,), (D,), 32)
    if key == "many":
        X = centred_patches(images, sizes.many, seed=SEED + 1, dtype=np.float32)
        D = cosines.astype(np.float32)
        return Problem(key, "many patches, T = 5", (X,), (D,), 5, dtypes=("float32",), peers=(SPAMS,))
    limit, tol = {"T5": (5, None), "T10": (10, None), "tol": (32, 4.0)}[key]
    stop = f"T = {limit}" + (f", tol = {tol:g}" if tol is not None else "")
    X = centred_patches(images, sizes.patches, seed=SEED)
    return Problem(key, f"patches, {stop}", (X,), (cosines,), limit, tol)


def run_case(run: Run, problem: Problem, coders: list[Coder], repeats: int, budget: float) -> None:
    """Time every coder on a problem in all precisions and thread counts, in turns, and judge the codes."""
    casts = {dtype: problem.cast(dtype) for dtype in problem.dtypes}
    tasks = [
        (coder, dtype, threads)
        for dtype in casts
        for coder in coders
        if dtype in coder.dtypes and coder.name in (OURS, OURS_OLS, *problem.peers)
        for threads in THREADS
    ]
    entries = [
        Entry(f"{coder.name} {dtype} {threads}", coder.prepare(casts[dtype], threads), threads)
        for coder, dtype, threads in tasks
    ]
    timings = measure(entries, repeats=repeats, budget=budget, progress=_progress)
    _progress("")
    signals = {dtype: cast.stacked() for dtype, cast in casts.items()}
    codes: dict[tuple[str, str], tuple[Any, Array]] = {}
    for (coder, dtype, threads), timing in zip(tasks, timings, strict=True):
        answer, atoms = coder.read(timing.result), casts[dtype].atoms(unit=coder.unit_atoms)
        quality = judge(signals[dtype], answer, atoms)
        run.rows.append(Row(problem.key, coder.name, dtype, threads, replace(timing, result=None), quality))
        codes[coder.name, dtype] = answer, atoms
    for dtype, X in signals.items():
        if (SPAMS, dtype) in codes:
            pair = codes[OURS_OLS, dtype], codes[SPAMS, dtype]
            run.agreements.append(compare(problem.key, dtype, X, *pair))
    run.identical_for_any_n_jobs[problem.key] = all(map(same_for_any_threads, casts.values()))
    run.cases.append(Case.of(problem))


def compare(case: str, dtype: str, X: Array, mine: tuple[Any, Array], theirs: tuple[Any, Array]) -> Agreement:
    """Compare two (codes, atoms): equal supports, and the difference of squared errors relative to theirs."""
    reference = squared_error(X, *theirs)
    difference = (squared_error(X, *mine) - reference) / reference
    return Agreement(case, dtype, equal_supports(mine[0], theirs[0]), difference)


def same_for_any_threads(problem: Problem) -> bool:
    """Encode with 1, 2 and 3 threads in both pursuits; tell whether no bit differs."""
    return all(identical([ours(problem, n_jobs, pursuit)() for n_jobs in (1, 2, 3)]) for pursuit in ("omp", "ols"))


def _progress(name: str) -> None:
    """Show on a terminal which coder is warming up."""
    if sys.stderr.isatty():
        print(f"\r  {name:<40}", end="" if name else "\r", file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    names = ", ".join(CASES)
    parser = argparse.ArgumentParser(description="Compare sparse coders: time, error reached, memory.")
    parser.add_argument("--data", metavar="DIR", help="folder of images (else COUPLEDICT_DATA, else bundled)")
    parser.add_argument("--output", metavar="DIR", default="output/benchmarks", help="where results go")
    parser.add_argument("--quick", action="store_true", help="few signals and 3 runs, to see that it works")
    parser.add_argument("--repeats", type=int, metavar="N", default=7, help="timed runs of each coder")
    parser.add_argument(
        "--budget",
        type=float,
        metavar="S",
        default=30.0,
        help="a coder that takes longer gets fewer runs, but 5",
    )
    parser.add_argument("--cases", default=",".join(CASES), metavar="A,B", help=f"some of {names}")
    arguments = parser.parse_args()
    arguments.cases = arguments.cases.split(",")
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        parser.error(f"argument --cases: expected some of {names}, got {', '.join(unknown)}")
    if arguments.repeats < 1:
        parser.error(f"argument --repeats: expected at least 1, got {arguments.repeats}")
    if arguments.quick:
        arguments.repeats = min(arguments.repeats, 3)
    return arguments


def main() -> None:
    """Run the cases that were asked for, tell the results and save them."""
    arguments = parse_arguments()
    images, sentence = load_images(data_directory(arguments.data))
    sizes = Sizes(1_000, 500, 20_000) if arguments.quick else Sizes()
    coders, missing = available_coders()
    load_before = load_average()
    here = {**machine(DISTRIBUTIONS), "coupledict_build": coupledict.build_info()}
    print("\n".join([f"{here['cpu']}, {here['cores']} cores, load {load_before}.", sentence, *missing]))

    run = Run({dtype: matmul_rate(dtype, repeats=arguments.repeats) for dtype in DTYPES})
    for key in arguments.cases:
        problem = build(key, images, sizes)
        run_case(run, problem, coders, arguments.repeats, arguments.budget)
        if key == "many":
            run.memory_mb = memory_beyond(problem.views[0], problem.dictionaries[0], 5, 2)
        print_case(run, run.cases[-1])
    goals = check_goals(run)
    print_summary(run, goals)
    if arguments.quick:
        print("This was a quick run on few signals: the goals are meant for the full sizes.")

    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    record = {
        "command": shlex.join(["python", *sys.argv]),
        "quick": arguments.quick,
        "seed": SEED,
        "images": sentence,
        "missing_peers": missing,
        "machine": here,
        "load_average": {"before": load_before, "after": load_average()},
        "timing": {"repeats": arguments.repeats, "budget_s": arguments.budget, "order": "in turns, rotating"},
        **as_record(run, goals),
    }
    (output / "sparse_coding.json").write_text(json.dumps(record, indent=1, default=str) + "\n")
    draw(run, output / "sparse_coding.png", here["cpu"])
    print(f"\nWritten: sparse_coding.json and sparse_coding.png in {output}")


if __name__ == "__main__":
    main()
