"""What becomes of unused atoms under each rule, with the paper's other settings.

It learns from patches by the paper's method to the letter, but for the rule. Told are the held-out quality, how many
atoms are unused from iteration to iteration, and how many atoms have a twin in the end. Times play no part.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array, centred_patches
from _main import Options, main, table

from coupledict import PAPER, CoupledDictionaryLearning, sparse_encode
from coupledict.experiments.sources import load_images

LIMITS: tuple[tuple[str, int, float | None], ...] = (
    ("eps = 256", 32, 256.0),
    ("eps = 64", 64, 64.0),
    ("T = 5", 5, None),
    ("T = 10", 10, None),
)
RULES = ("mean", "keep", "late", "worst")
N_TRAIN, N_HELD_OUT, N_ITERATIONS = 10_000, 3_000, 32


@cache
def patches(data: Path | None) -> tuple[Array, str]:
    """Return patches to learn from and to judge by, and a sentence about the images."""
    images, sentence = load_images(data)
    return centred_patches(images, N_TRAIN + N_HELD_OUT, seed=0), sentence


def cases(options: Options) -> dict[str, tuple[int, float | None, str]]:
    """Return limits of the atoms of a patch, tolerances and rules."""
    limits = LIMITS[2:3] if options.quick else LIMITS
    return {f"{title}, {rule}": (limit, tol, rule) for title, limit, tol in limits for rule in RULES}


def run(case: tuple[int, float | None, str], options: Options) -> dict[str, Any]:
    """Learn with one rule; return the quality and the number of unused atoms after each iteration."""
    limit, tol, rule = case
    X, sentence = patches(options.data)
    options.note(sentence)
    train, held_out = X[: N_TRAIN // 10 if options.quick else N_TRAIN], X[N_TRAIN:]
    settings: dict[str, Any] = {**PAPER, "unused_atoms": rule, "max_iter": 4 if options.quick else N_ITERATIONS}
    learner = CoupledDictionaryLearning(256, n_nonzero_coefs=limit, tol=tol, n_jobs=-1, random_state=0, **settings).fit(
        [train]
    )
    atoms = learner.components_[0]
    codes = sparse_encode(held_out, atoms, n_nonzero_coefs=limit, tol=tol, n_jobs=-1)
    likeness = np.abs(atoms @ atoms.T) - np.eye(len(atoms))
    return {
        "nonzeros": codes.nnz / len(held_out),
        "rms": float(np.sqrt(np.mean(np.sum((held_out - codes @ atoms) ** 2, axis=1)))),
        "unused": [record["unused"] for record in learner.history_],
        "twins": int(np.count_nonzero(likeness.max(axis=1) > 0.99)),
    }


def report(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    rows = []
    for case, found in results.items():
        unused = found["unused"]
        seen = ", ".join(map(str, unused[::4]))
        rows.append(
            [case, f"{found['nonzeros']:.3f}", f"{found['rms']:.3f}", seen, str(unused[-1]), str(found["twins"])]
        )
    heads = ["limit, rule", "atoms per patch", "RMS error", "unused in iterations 1, 5, 9, ..", "last", "with a twin"]
    return table(heads, rows)


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder of images; bundled photographs stand in",
        repeats=(0, "the start is the paper's, and nothing is drawn"),
    )
