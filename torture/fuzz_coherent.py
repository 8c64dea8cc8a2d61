"""Coherent dictionaries: the error of float32 is within a thousandth of that of float64, relative to the samples.

Low-rank, smooth and nearly duplicate atoms, and spectra that fall by up to five powers of ten. Only dictionaries whose
condition number is below 1e5 are judged; no error may exceed the sample, whatever the condition number.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from _main import Figures, main

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from coherent import FAMILIES, SIGNALS, condition, excess, make_atoms, make_signals

from coupledict import sparse_encode

ALLOWED, WELL_ENOUGH = 1e-3, 1e5


def run(count: int, seed: int) -> Figures:
    """Compare both number types on `count` problems of 64 samples."""
    rng = np.random.default_rng(seed)
    judged, better, worse, worst = 0, 0, 0, 0.0
    for number in range(count):
        family, pursuit = FAMILIES[number % len(FAMILIES)], str(rng.choice(["omp", "ols"]))
        atoms = make_atoms(rng, family, int(rng.integers(5, 300)), int(rng.integers(8, 200)))
        X = make_signals(rng, rng.choice(SIGNALS), atoms, 64)
        limit = int(rng.integers(1, min(*atoms.shape, 40) + 1))
        single, double = (
            sparse_encode(X.astype(dtype), atoms.astype(dtype), n_nonzero_coefs=limit, pursuit=pursuit)
            for dtype in (np.float32, np.float64)
        )
        what = f"{family}, {atoms.shape}, {pursuit}, {limit} nonzeros, problem {number} of seed {seed}"
        energy = np.sum((X - single.astype(float) @ atoms) ** 2, axis=1)
        if not np.all(energy <= np.sum(X**2, axis=1) * (1 + ALLOWED)):
            raise AssertionError(f"An error exceeds its sample: {what}.")
        if condition(atoms) >= WELL_ENOUGH:
            continue
        share, of_itself = excess(X, atoms, single, double)
        if share > ALLOWED:
            raise AssertionError(f"float32 has an error that is larger by {share:.2g} of the samples: {what}.")
        judged, worst = judged + 1, max(worst, share)
        better, worse = better + (of_itself < -ALLOWED), worse + (of_itself > ALLOWED)
    return {
        "cases": count,
        "judged": judged,
        "largest excess": float(f"{worst:.2g}"),
        "float32 worse by a thousandth of the error": worse,
        "float32 better by a thousandth of the error": better,
    }


if __name__ == "__main__":
    main(run, 2000)
