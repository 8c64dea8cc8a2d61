"""What the norm of an atom is worth: joint norms beside norm 1 in each view, on pairs of patches.

Told are the held-out error of both views coded together, the nonzeros, and the errors of each view predicted from the
other. Times play no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _main import Options, join, main, table

from coupledict import CoupledDictionaryLearning
from coupledict.experiments.sources import distinct_patches, load_pairs

N_TRAIN, N_HELD_OUT, N_ATOMS = 20_000, 10_000, 256
NORMS = ("joint", "views")
SETTINGS: dict[str, dict[str, Any]] = {
    **{f"T = {limit}": {"n_nonzero_coefs": limit} for limit in (3, 5, 10)},
    **{f"T = {limit}, balanced": {"n_nonzero_coefs": limit, "view_weights": "balanced"} for limit in (3, 5, 10)},
    **{f"tol = {tol}": {"tol": float(tol)} for tol in (256, 1024)},
    "T = 5, constant atom": {"n_nonzero_coefs": 5, "constant_atom": True},
}


def judge(learner: CoupledDictionaryLearning, held_out: Sequence[Array]) -> list[float]:
    """Return the weighted joint error, the mean nonzeros, and the errors of each view predicted from the other."""
    codes: Any = learner.transform(list(held_out))
    pairs = zip(learner.view_weights_, held_out, learner.inverse_transform(codes), strict=True)
    joint = np.sqrt(sum(weight * np.mean(np.sum((X - rebuilt) ** 2, axis=1)) for weight, X, rebuilt in pairs))
    first, second = held_out
    guesses = (learner.predict([None, second], view=0) - first, learner.predict([first, None], view=1) - second)
    return [float(joint), codes.nnz / len(first), *(float(np.sqrt(np.mean(np.sum(g**2, axis=1)))) for g in guesses)]


@cache
def patches(data: Path | None, n_train: int) -> tuple[list[Array], list[Array], str]:
    """Return pairs of patches to learn from and to judge by, and a sentence about them."""
    focused, blurred, sentence = load_pairs(data)
    views = distinct_patches([focused, blurred], n_train + N_HELD_OUT, seed=77)
    return [view[:n_train] for view in views], [view[n_train:] for view in views], sentence


def cases(options: Options) -> dict[str, tuple[str, str]]:
    """Return settings and norms."""
    titles = list(SETTINGS)[:1] if options.quick else SETTINGS
    return {f"{title}, {norm}": (title, norm) for title in titles for norm in NORMS}


def run(case: tuple[str, str], options: Options) -> list[list[float]]:
    """Learn with one setting and norm; return what `judge` says for each seed."""
    title, norm = case
    train, held_out, sentence = patches(options.data, N_TRAIN // 10 if options.quick else N_TRAIN)
    options.note(sentence)
    settings: dict[str, Any] = {"normalize": norm, **SETTINGS[title]}
    learners = (
        CoupledDictionaryLearning(N_ATOMS, n_jobs=-1, random_state=seed, **settings) for seed in range(options.repeats)
    )
    return [judge(learner.fit(train), held_out) for learner in learners]


def report(results: Mapping[str, list[list[float]]], options: Options) -> str:
    rows = []
    for case, found in results.items():
        joint, nonzeros, sharp, soft = np.mean(found, axis=0)
        rows.append([case, f"{joint:.4g}", f"{nonzeros:.2f}", f"{sharp:.1f}", f"{soft:.1f}"])
    heads = ["setting, norm", "error of both views", "nonzeros", "of sharp", "of blurred"]
    return join(f"Means over {options.repeats} seeds", table(heads, rows))


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder of images; bundled photographs stand in",
        repeats=(2, "seeds of a learner"),
        quick={"repeats": 1},
    )
