"""What becomes of unused atoms under each rule, with the paper's other settings.

Run ``python benchmarks/unused_atoms.py`` from the root of the project. It learns from patches by the paper's method to
the letter, but for the rule, and prints for each case the held-out quality, how many atoms are unused from iteration to
iteration, and how many atoms have a twin in the end. Times play no part.
"""

from __future__ import annotations

import argparse

import numpy as np
from _data import centred_patches

from coupledict import PAPER, CoupledDictionaryLearning, sparse_encode
from coupledict.experiments.sources import data_directory, load_images

CASES: tuple[tuple[str, int, float | None], ...] = (
    ("eps = 256", 32, 256.0),
    ("eps = 64", 64, 64.0),
    ("T = 5", 5, None),
    ("T = 10", 10, None),
)
RULES = ("mean", "keep", "late", "worst")
N_TRAIN, N_HELD_OUT, N_ITERATIONS = 10_000, 3_000, 32


def main() -> None:
    """Learn with every rule in every case."""
    parser = argparse.ArgumentParser(description="Compare the rules for unused atoms.")
    parser.add_argument("--data", metavar="DIR", help="folder of images (else COUPLEDICT_DATA, else bundled)")
    images, sentence = load_images(data_directory(parser.parse_args().data))
    print(sentence)
    patches = centred_patches(images, N_TRAIN + N_HELD_OUT, seed=0)
    train, held_out = patches[:N_TRAIN], patches[N_TRAIN:]
    for title, limit, tol in CASES:
        for rule in RULES:
            settings = {**PAPER, "unused_atoms": rule}
            learner = CoupledDictionaryLearning(
                256, n_nonzero_coefs=limit, tol=tol, max_iter=N_ITERATIONS, n_jobs=-1, random_state=0, **settings
            ).fit([train])
            atoms = learner.components_[0]
            codes = sparse_encode(held_out, atoms, n_nonzero_coefs=limit, tol=tol, n_jobs=-1)
            rms = float(np.sqrt(np.mean(np.sum((held_out - codes @ atoms) ** 2, axis=1))))
            likeness = np.abs(atoms @ atoms.T) - np.eye(len(atoms))
            unused = [record["unused"] for record in learner.history_]
            print(
                f"{title:<10} {rule:<6} {codes.nnz / len(held_out):7.3f} atoms per patch, RMS error {rms:7.3f};"
                f" unused in iterations 1, 5, 9, .. {unused[::4]} and last {unused[-1]};"
                f" {np.count_nonzero(likeness.max(axis=1) > 0.99)} atoms with a twin"
            )


if __name__ == "__main__":
    main()
