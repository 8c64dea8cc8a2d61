"""Time of the sparse coder beside SPAMS, dictlearn and scikit-learn, and the error that each reaches.

All have equal threads and take turns in one run; tables and a plot tell the results. A ratio of times counts
towards a goal only where the codes of both sides are comparable.

The rate of the kernel is judged by the useful floating-point operations of OMP with T atoms,

    2 n (K p + K sum_{m < T-1} (m + 2))

for n signals, K atoms and p features: the correlations, and for each atom but the last, in every column, m
multiply-adds that orthogonalise its row of the Gram matrix, one that scales it and one that repairs the
correlations. Choosing atoms, solving, checking the input and building the result count as time, not as work.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
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
from _main import Options, add_choice, join, main
from _memory import memory_beyond
from _sparse_report import (
    THREADS,
    Agreement,
    Case,
    Found,
    Row,
    Run,
    check_goals,
    draw,
    tell_case,
    tell_summary,
)
from _timing import Entry, matmul_rate, measure

from coupledict.experiments.machine import cpu_name
from coupledict.experiments.sources import load_images

PROBLEMS = ("T5", "T10", "tol", "views", "random", "many")
MATMUL = "matrix product"
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


def measure_case(problem: Problem, coders: list[Coder], repeats: int, budget: float) -> Found:
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
    timings = measure(entries, repeats=repeats, budget=budget)
    rows, agreements = [], []
    signals = {dtype: cast.stacked() for dtype, cast in casts.items()}
    codes: dict[tuple[str, str], tuple[Any, Array]] = {}
    for (coder, dtype, threads), timing in zip(tasks, timings, strict=True):
        answer, atoms = coder.read(timing.result), casts[dtype].atoms(unit=coder.unit_atoms)
        quality = judge(signals[dtype], answer, atoms)
        rows.append(Row(problem.key, coder.name, dtype, threads, replace(timing, result=None), quality))
        codes[coder.name, dtype] = answer, atoms
    for dtype, X in signals.items():
        if (SPAMS, dtype) in codes:
            pair = codes[OURS_OLS, dtype], codes[SPAMS, dtype]
            agreements.append(compare(problem.key, dtype, X, *pair))
    same = all(map(same_for_any_threads, casts.values()))
    memory = None if problem.key != "many" else memory_beyond(problem.views[0], problem.dictionaries[0], 5, 2)
    return Found(Case.of(problem), rows, agreements, same, memory)


def compare(case: str, dtype: str, X: Array, mine: tuple[Any, Array], theirs: tuple[Any, Array]) -> Agreement:
    """Compare two (codes, atoms): equal supports, and the difference of squared errors relative to theirs."""
    reference = squared_error(X, *theirs)
    difference = (squared_error(X, *mine) - reference) / reference
    return Agreement(case, dtype, equal_supports(mine[0], theirs[0]), difference)


def same_for_any_threads(problem: Problem) -> bool:
    """Encode with 1, 2 and 3 threads in both pursuits; tell whether no bit differs."""
    return all(identical([ours(problem, n_jobs, pursuit)() for n_jobs in (1, 2, 3)]) for pursuit in ("omp", "ols"))


@cache
def images(data: Path | None) -> tuple[list[Array], str]:
    """Return images, and a sentence about them."""
    return load_images(data)


def cases(options: Options) -> dict[str, str]:
    """Return the keys of problems, and the matrix product that rates are held against."""
    return {key: key for key in (MATMUL, *options.cases)}


def run(key: str, options: Options) -> Found | dict[str, float]:
    """Return what was measured in a case, or the rates of the matrix product."""
    if key == MATMUL:
        return {dtype: matmul_rate(dtype, repeats=options.repeats) for dtype in DTYPES}
    coders, missing = available_coders()
    pictures, sentence = images(options.data)
    for note in (sentence, *missing):
        options.note(note)
    sizes = Sizes(1_000, 500, 20_000) if options.quick else Sizes()
    return measure_case(build(key, pictures, sizes), coders, options.repeats, options.budget)


def report(results: Mapping[str, Found | dict[str, float]], options: Options) -> str:
    rates = results[MATMUL]
    assert isinstance(rates, dict)
    whole = Run(rates)
    for found in results.values():
        if isinstance(found, Found):
            whole.add(found)
    draw(whole, options.output / "sparse_coding.png", cpu_name())
    return join(*(tell_case(whole, case) for case in whole.cases), tell_summary(whole, check_goals(whole)))


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "cases", PROBLEMS)
    parser.add_argument(
        "--budget",
        type=float,
        metavar="S",
        default=30.0,
        help="a coder that takes longer gets fewer runs, but 5 (%(default)s)",
    )


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder of images; bundled photographs stand in",
        repeats=(7, "timed runs of each coder"),
        extend=extend,
        quick={"repeats": 3, "cases": ["T5", "many"]},
    )
