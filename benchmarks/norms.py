"""What the norm of an atom is worth: joint norms beside norm 1 in each view, on pairs of patches.

Run ``python benchmarks/norms.py`` from the root of the project. For each case it prints the held-out error of both
views coded together, the nonzeros, and the errors of each view predicted from the other. Times play no part.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from _data import Array

from coupledict import CoupledDictionaryLearning
from coupledict.experiments.sources import data_directory, distinct_patches, load_pairs

N_TRAIN, N_HELD_OUT, N_ATOMS, SEEDS = 20_000, 10_000, 256, (0, 1)
CASES: dict[str, dict[str, Any]] = {
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


def main() -> None:
    """Learn with both norms in every case."""
    parser = argparse.ArgumentParser(description="Compare joint norms with norm 1 in each view.")
    parser.add_argument("--data", metavar="DIR", help="folder of images (else COUPLEDICT_DATA, else bundled)")
    focused, blurred, sentence = load_pairs(data_directory(parser.parse_args().data))
    views = distinct_patches([focused, blurred], N_TRAIN + N_HELD_OUT, seed=77)
    train, held_out = [view[:N_TRAIN] for view in views], [view[N_TRAIN:] for view in views]
    print(sentence)
    print(f"{'':22}{'norm':8}{'both views':>12}{'nonzeros':>10}{'sharp':>9}{'blurred':>9}   (means over seeds {SEEDS})")
    for title, settings in CASES.items():
        for norm in ("joint", "views"):
            figures = np.mean(
                [
                    judge(
                        CoupledDictionaryLearning(
                            N_ATOMS, normalize=norm, n_jobs=-1, random_state=seed, **settings
                        ).fit(train),
                        held_out,
                    )
                    for seed in SEEDS
                ],
                axis=0,
            )
            joint, nonzeros, sharp, soft = figures
            print(f"{title:22}{norm:8}{joint:12.4g}{nonzeros:10.2f}{sharp:9.1f}{soft:9.1f}", flush=True)


if __name__ == "__main__":
    main()
