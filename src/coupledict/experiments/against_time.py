"""The paper's second experiment: error and sparsity against time, one dictionary, a tolerance.

All methods share one coder and, unless stated otherwise, start from the same cosine dictionary. While a learner is
timed, its dictionaries are only copied; they are evaluated afterwards, by coding the training patches and held-out
patches with the full number of atoms. Curves are those of the first run, with the median times of all runs; every run
has its own patches, and the figures of all runs decide the claims.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .courses import SIDES, Course
from .levels import Level
from .machine import limit_threads
from .methods import (
    CONSTANT_METHOD,
    DEFAULT_METHOD,
    KSVD_METHOD,
    METHODS,
    PAPER_KEEP_METHOD,
    PAPER_METHOD,
    SAMPLES_METHOD,
    Method,
)
from .peers import DICTLEARN, SKLEARN, SPAMS, available_peers
from .regimes import Regime, TimeSizes
from .steps import BeginStep
from .watching import Learner

PEERS = {
    SPAMS: "trainDL: online learning, coded by orthogonal least squares, limited only by the tolerance",
    DICTLEARN: "approximate K-SVD with its own orthogonal matching pursuit; unused atoms become random",
    SKLEARN: "MiniBatchDictionaryLearning: online learning with the lasso, its penalty set for as many atoms as ours",
}
PEER_POINTS = 12  # evaluated dictionaries of a peer
PAUSE = 0.05  # seconds before a run, until library threads of the previous one stop spinning
KSVD_ITERATIONS = 5  # the paper compares their time with that of its own iterations

Courses = dict[str, Course]


def count_steps(sizes: TimeSizes) -> int:
    """Return the largest number of steps of a regime; peers that are not installed are left out."""
    runs = sum(sizes.repeats if method.repeated else 1 for method in METHODS)
    return runs + 2 * len(METHODS) + sizes.repeats + len(PEERS)


def against_time(
    draws: list[Regime],
    *,
    sizes: TimeSizes,
    seed: int,
    begin: BeginStep,
    find_peers: Callable[[], tuple[list[Learner], list[str]]] = available_peers,
) -> dict[str, Any]:
    """Run all methods on each draw of patches, evaluate them, and compare them with K-SVD; return plain numbers."""
    regime = draws[0]
    runs: list[Courses] = []
    for number, draw in enumerate(draws):
        courses: Courses = {}
        for method in _in_order(number):
            begin(f"{regime.key}: {method.name}, run {number + 1} of {len(draws) if method.repeated else 1}")
            with limit_threads(regime.threads):
                time.sleep(PAUSE)
                points, history = method.run(draw, seed + number)
            courses[method.key] = Course(draw, points, history, method.curve_step * sizes.thinning)
        runs.append(courses)
    methods = []
    for method in METHODS:
        begin(f"{regime.key}: judging {method.name}")
        times = [[point.seconds for point in run[method.key].points] for run in runs if method.key in run]
        figures = _describe(method, runs[0][method.key], np.median(times, axis=0).tolist())
        methods.append(figures | {"runs": len(times)})
    compared = _compare(regime.key, methods, runs[0], begin)
    trials = []
    for number, courses in enumerate(runs):
        begin(f"{regime.key}: comparing the methods of run {number + 1} of {len(runs)}")
        trials.append(_trial(courses))
    return {
        "key": regime.key,
        "title": regime.title,
        "n_patches": len(regime.train[0]),
        "n_held_out": len(regime.held_out),
        "n_components": regime.n_components,
        "n_nonzero_coefs": regime.n_nonzero_coefs,
        "tol": regime.tol,
        "repeats": len(draws),
        "methods": methods,
        **compared,
        "trials": trials,
        **run_peers(regime, sizes.peer_seconds, begin, find_peers),
    }


def _in_order(number: int) -> list[Method]:
    """Return the methods in an order that differs from run to run, so that none is always first."""
    rotated = [METHODS[(place + number) % len(METHODS)] for place in range(len(METHODS))]
    return [method for method in rotated if method.repeated or number == 0]


def _describe(method: Method, course: Course, seconds: list[float]) -> dict[str, Any]:
    """Return the curves of a method: its sparsity and error, iteration by iteration."""
    n_patches = len(course.patches("train"))
    curve = []
    for k in course.kept:
        record, train, held_out = course.history[k], course.level(k, "train"), course.level(k, "held")
        curve.append(
            {
                "iteration": k + 1,
                "seconds": seconds[k],
                "limit": record["limit"],
                "nonzeros": record["mean_nonzeros"],
                # The paper's error, scaled to the number of patches, because some passes see only a part of them.
                "error": record["rms"] / np.sqrt(n_patches),
                "train_nonzeros": train.nonzeros,
                "train_error": train.error,
                "held_nonzeros": held_out.nonzeros,
                "held_error": held_out.error,
                "unused": record["unused"],
            }
        )
    return {
        "key": method.key,
        "name": method.name,
        "description": method.description,
        "iterations": len(course.points),
        "seconds": seconds[-1],
        "curve": curve,
    }


def _compare(key: str, methods: list[dict[str, Any]], courses: Courses, begin: BeginStep) -> dict[str, Any]:
    """Find when each method reaches the final level of K-SVD, on training patches and on held-out ones."""
    ksvd = next(method for method in methods if method["key"] == KSVD_METHOD)
    targets = {side: courses[KSVD_METHOD].last(side) for side in SIDES}
    reached = []
    for method in methods:
        begin(f"{key}: when {method['name']} reaches K-SVD's level")
        course = courses[method["key"]]
        seconds = {point["iteration"]: point["seconds"] for point in method["curve"]}
        moments = {side: _moment(course, targets[side], side, seconds, ksvd["seconds"]) for side in SIDES}
        first = moments["train"] or {"iteration": None, "seconds": None, "ratio": None}
        reached.append({"key": method["key"], "name": method["name"], **first, "held": moments["held"]})
    end = {
        "method": KSVD_METHOD,
        "seconds": ksvd["seconds"],
        "iterations": ksvd["iterations"],
        "nonzeros": targets["train"].nonzeros,
        "error": targets["train"].error,
        "held_nonzeros": targets["held"].nonzeros,
        "held_error": targets["held"].error,
        "sentence": (
            "A method has reached the level of K-SVD once its codes, made just accurate enough for the same average"
            " error, are as sparse as K-SVD's last ones."
        ),
    }
    return {"target": end, "reached": reached}


def _moment(
    course: Course, target: Level, side: str, seconds: dict[int, float], ksvd_seconds: float
) -> dict[str, Any] | None:
    """Return when a method reached a level, and how many times sooner than K-SVD."""
    index = course.reaching(target, side)
    if index is None:
        return None
    return {"iteration": index + 1, "seconds": seconds[index + 1], "ratio": ksvd_seconds / seconds[index + 1]}


def _trial(courses: Courses) -> dict[str, Any]:
    """Return the figures of one run that decide the claims.

    Shares of nonzeros are at equal error: the nonzeros of one dictionary's codes, relative to those of equally accurate
    codes of the other.
    """
    ksvd, paper = courses[KSVD_METHOD], courses[PAPER_METHOD]
    fifth = ksvd.points[KSVD_ITERATIONS - 1].seconds
    return {
        "paper_sooner": _times_sooner(paper, ksvd, "train"),
        "paper_sooner_than_from_samples": _times_sooner(paper, courses[SAMPLES_METHOD], "train"),
        "default_sooner": _times_sooner(courses[DEFAULT_METHOD], ksvd, "train"),
        "default_sooner_held": _times_sooner(courses[DEFAULT_METHOD], ksvd, "held"),
        "iterations": sum(point.seconds <= fifth for point in paper.points),
        "share_of_ksvd": _share(paper, ksvd, "train"),
        "share_of_ksvd_held": _share(paper, ksvd, "held"),
        "share_of_constant": _share(paper, courses[CONSTANT_METHOD], "held"),
        "share_of_keep": _share(paper, courses[PAPER_KEEP_METHOD], "held"),
        "seconds": {"paper": paper.seconds, "constant": courses[CONSTANT_METHOD].seconds, "ksvd": ksvd.seconds},
        "most_unused": paper.most_unused,
    }


def _times_sooner(course: Course, rival: Course, side: str) -> float | None:
    """Return how many times sooner a method reaches the final level of its rival; None if it never does."""
    index = course.reaching(rival.last(side), side)
    return None if index is None else rival.seconds / course.points[index].seconds


def _share(course: Course, rival: Course, side: str) -> float | None:
    """Return the nonzeros of a method relative to its rival, at equal error; None if it cannot be that accurate."""
    level = rival.last(side)
    nonzeros = course.nonzeros_at(level.error, side)
    return nonzeros / level.nonzeros if np.isfinite(nonzeros) else None


def run_peers(
    regime: Regime, seconds: float, begin: BeginStep, find_peers: Callable[[], tuple[list[Learner], list[str]]]
) -> dict[str, Any]:
    """Let other packages learn for some seconds from the same start, and evaluate them like our own methods."""
    peers, missing = find_peers() if seconds else ([], [])
    results = []
    for peer in peers:
        if peer.name not in PEERS:
            continue
        begin(f"{regime.key}: {peer.name}")
        with limit_threads(regime.threads):
            time.sleep(PAUSE)
            points = peer.run(regime, patience=seconds)
        chosen = np.unique(np.geomspace(1, len(points), PEER_POINTS).round().astype(int)) - 1
        curve = []
        for k in chosen:
            train = regime.level(regime.train[0], points[k].dictionary)
            held_out = regime.level(regime.held_out, points[k].dictionary)
            curve.append(
                {
                    "seconds": points[k].seconds,
                    "nonzeros": train.nonzeros,
                    "error": train.error,
                    "held_nonzeros": held_out.nonzeros,
                    "held_error": held_out.error,
                }
            )
        results.append({"name": peer.name, "description": PEERS[peer.name], **curve[-1], "curve": curve})
    absent = [name for name in PEERS if any(line.startswith(f"{name} is") for line in missing)]
    return {"peers": results, "peers_missing": absent}
