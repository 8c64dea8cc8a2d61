"""The settings that the default of the learner chose between: start, schedule, growth, norm of the atoms, the engine.

Run ``python benchmarks/default_settings.py`` from the root of the project. The defaults were chosen by looking at
held-out patches of seed 0, the ones benchmarks/learning.py reports. This script cuts patches of another seed, so that
its figures are not those the choice was made on; the images are the same, unless ``--half`` takes one half of them and
``benchmarks/learning.py --half`` reports the other. One setting is changed at a time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, get_args
from unittest.mock import patch

import numpy as np
from _data import Array

from coupledict import CoupledDictionaryLearning, sparse_encode
from coupledict.experiments.sources import Half, data_directory, distinct_patches, load_images, load_pairs
from coupledict.learning import engine, updates

N_TRAIN, N_HELD_OUT, N_SEEDS = 20_000, 5_000, 3
CASES: tuple[tuple[str, bool, int, float | None], ...] = (
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


def main() -> None:
    """Learn with every setting in every case."""
    parser = argparse.ArgumentParser(description="Compare the settings behind the learner's default.")
    parser.add_argument("--data", metavar="DIR", help="folder of images (else COUPLEDICT_DATA, else bundled)")
    parser.add_argument("--seed", type=int, default=1234, help="seed of the patches")
    parser.add_argument(
        "--half", choices=get_args(Half), default="all", help="only this half of the images, sorted by name"
    )
    arguments = parser.parse_args()
    directory = data_directory(arguments.data)
    images, sentence = load_images(directory, half=arguments.half)
    focused, blurred, pairs_sentence = load_pairs(directory, half=arguments.half)
    print(f"{sentence}\n{pairs_sentence}\nSeed of the patches: {arguments.seed}. Lower is better.")
    for title, paired, limit, tol in CASES:
        sets = [focused, blurred] if paired else [images]
        views = distinct_patches(sets, N_TRAIN + N_HELD_OUT, seed=arguments.seed)
        train, held_out = [view[:N_TRAIN] for view in views], [view[N_TRAIN:] for view in views]
        for name in (*SETTINGS, *ENGINE):
            results, seconds = [], []
            changed = patch.object(*ENGINE[name]) if name in ENGINE else nullcontext()
            for seed in range(1 if "sequential" in name else N_SEEDS):
                learner = CoupledDictionaryLearning(
                    256,
                    n_nonzero_coefs=limit,
                    tol=tol,
                    n_jobs=-1,
                    random_state=seed,
                    predictor="dictionary",
                    **SETTINGS.get(name, {}),
                )
                with changed:
                    learner.fit(train)
                results.append(quality(held_out, learner.components_, limit, tol))
                seconds.append(learner.history_[-1]["seconds"])
            each = ", ".join(f"{result:.3f}" for result in results)
            print(f"{title:<18} {name:<26} {np.median(results):8.3f}  ({each})  {np.median(seconds):.2f} s", flush=True)


if __name__ == "__main__":
    main()
