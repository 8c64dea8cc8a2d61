"""The settings that the default of the learner chose between: start, schedule, growth, norm of the atoms, the engine.

The defaults were chosen by looking at
held-out patches of seed 0, the ones benchmarks/learning.py reports. These patches are of another seed, so that
its figures are not those the choice was made on; the images are the same, unless ``--half`` takes one half of them and
``benchmarks/learning.py --half`` reports the other. One setting is changed at a time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import numpy as np
from _data import Array
from _main import Options, duration, join, main, table

from coupledict import CoupledDictionaryLearning, sparse_encode
from coupledict.experiments.sources import Half, distinct_patches, load_images, load_pairs
from coupledict.learning import engine, updates

N_TRAIN, N_HELD_OUT = 20_000, 5_000
TASKS: tuple[tuple[str, bool, int, float | None], ...] = (
    ("pairs, T = 5", True, 5, None),
    ("pairs, T = 10", True, 10, None),
    ("patches, T = 5", False, 5, None),
    ("patches, eps = 64", False, 64, 64.0),
)


def grow(first: int, reached: float) -> Callable[[int, int, int], int]:
    """Return a growth from a share of the samples to all, reached after a share of the iterations."""

    def size(iteration: int, n_iter: int, n_samples: int) -> int:
        start = max(512, n_samples / first)
        done = min(1.0, iteration / (reached * (n_iter - 1)))
        return int(np.round(start * (n_samples / start) ** done))

    return size


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "start: cosines": {"init": "dct"},
    "start: samples": {"init": "samples"},
    "schedule: linear": {"schedule": "linear"},
    "schedule: half": {"schedule": "half"},
    "schedule: constant": {"schedule": "constant"},
    "growth: from n / 20": {"growth": grow(20, 1.0)},
    "growth: all at 85 %": {"growth": grow(50, 0.85)},
    "growth: none": {"growth": None},
    "norm 1 in each view": {"normalize": "views"},
    "30 sequential, constant T": {"update": "sequential", "schedule": "constant", "growth": None},
}
# What is no parameter of the learner: the object that is changed, its attribute, and the other value.
ENGINE: dict[str, tuple[Any, str, Any]] = {
    "engine: coding in float64": (engine, "_coding_dtype", lambda data, *_: data.dtype),
    "engine: two sweeps": (updates.Statistics.__init__, "__defaults__", (2,)),
    "engine: atoms stay": (engine, "EXTRAPOLATION", 0.0),
}


def quality(held_out: list[Array], components: list[Array], limit: int, tol: float | None) -> float:
    """Return the RMS error of held-out samples, or their mean nonzeros where a tolerance is given."""
    codes = sparse_encode(held_out, components, n_nonzero_coefs=limit, tol=tol, n_jobs=-1)
    if tol is not None:
        return float(codes.nnz / codes.shape[0])
    squares = sum(float(np.sum((x - codes @ d) ** 2)) for x, d in zip(held_out, components, strict=True))
    return float(np.sqrt(squares / codes.shape[0]))


@cache
def patches(data: Path | None, half: Half, paired: bool, seed: int) -> tuple[tuple[Array, ...], str]:
    """Return the views of patches, those to be held out at the end, and a sentence about the images."""
    if paired:
        focused, blurred, sentence = load_pairs(data, half=half)
        return distinct_patches([focused, blurred], N_TRAIN + N_HELD_OUT, seed=seed), sentence
    images, sentence = load_images(data, half=half)
    return distinct_patches([images], N_TRAIN + N_HELD_OUT, seed=seed), sentence


def cases(options: Options) -> dict[str, tuple[bool, int, float | None, str]]:
    """Return tasks, and settings by name."""
    names = ["default", "engine: atoms stay"] if options.quick else [*SETTINGS, *ENGINE]
    tasks = TASKS[:1] if options.quick else TASKS
    return {f"{title}; {name}": (*task, name) for title, *task in tasks for name in names}  # type: ignore[misc]


def run(case: tuple[bool, int, float | None, str], options: Options) -> dict[str, list[float]]:
    """Learn with one setting; return quality and seconds for each seed."""
    paired, limit, tol, name = case
    views, sentence = patches(options.data, options.half, paired, options.seed)
    options.note(sentence)
    n_train = N_TRAIN // 10 if options.quick else N_TRAIN
    train, held_out = [view[:n_train] for view in views], [view[N_TRAIN:] for view in views]
    found: dict[str, list[float]] = {"quality": [], "seconds": []}
    for seed in range(1 if "sequential" in name else options.repeats):
        learner = CoupledDictionaryLearning(
            256,
            n_nonzero_coefs=limit,
            tol=tol,
            n_jobs=-1,
            random_state=seed,
            predictor="dictionary",
            **SETTINGS.get(name, {}),
        )
        with patch.object(*ENGINE[name]) if name in ENGINE else nullcontext():
            learner.fit(train)
        found["quality"].append(quality(held_out, learner.components_, limit, tol))
        found["seconds"].append(learner.history_[-1]["seconds"])
    return found


def report(results: Mapping[str, dict[str, list[float]]], options: Options) -> str:
    rows = []
    for case, found in results.items():
        each = ", ".join(f"{value:.3f}" for value in found["quality"])
        times = duration(float(np.median(found["seconds"])))
        rows.append([*case.split("; "), f"{np.median(found['quality']):.3f}", each, times])
    caption = (
        f"Seed of the patches: {options.seed}. RMS error, or nonzeros where there is a tolerance: lower is better."
    )
    return join(caption, table(["task", "setting", "median", "each seed", "time"], rows, left=2))


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1234, help="seed of the patches (%(default)s)")
    parser.add_argument(
        "--half", choices=get_args(Half), default="all", help="only this half of the images, sorted by name"
    )


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder of images; bundled photographs stand in",
        repeats=(3, "seeds of a learner; 1 where that takes long"),
        extend=extend,
        quick={"repeats": 1},
    )
