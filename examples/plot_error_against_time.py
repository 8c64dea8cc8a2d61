"""
Error against time
==================

How long does it take to learn a good dictionary? The default, the paper's method,
approximate K-SVD, the method of optimal directions and online learning start from the
same patches. The paper's second experiment asks this with a tolerance; here the number
of atoms per patch is limited, so that one number ranks the methods.
``coupledict reproduce`` runs the whole experiment, with repeats and other packages.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from coupledict import (
    PAPER,
    CoupledDictionaryLearning,
    DictionaryLearning,
    sparse_encode,
)
from coupledict.images import extract_patches
from coupledict.plotting import COLOURS, MARKERS

SIDE, N_ATOMS, T = 8, 256, 5

# %%
# Patches for training and testing
# --------------------------------


def patches_of(pictures, n_patches, seed):
    found = [
        extract_patches(
            picture.astype(np.float32),
            (SIDE, SIDE),
            max_patches=n_patches,
            random_state=seed,
        )
        for picture in pictures
    ]
    flat = np.concatenate(found).reshape(-1, SIDE**2)
    return flat - flat.mean(axis=1, keepdims=True)


pictures = [data.camera(), data.brick(), data.grass(), data.gravel()]
train, held_out = patches_of(pictures, 4000, seed=0), patches_of(pictures, 1000, seed=1)

# %%
# Watch them learn
# ----------------
# A callback stores a copy of the dictionary and the time after each iteration:
# ``history_`` does not count the time of callbacks. Afterwards the copies are evaluated
# on held-out patches.


def watch(learner, samples):
    """Return the seconds after each iteration, and the dictionaries."""
    seen = []
    learner.set_params(callback=lambda progress: seen.append(progress.components[0]))
    learner.fit(samples)
    return [record["seconds"] for record in learner.history_], seen


common = {"n_nonzero_coefs": T, "n_jobs": 2, "random_state": 0}
runs = {
    "default": watch(DictionaryLearning(N_ATOMS, max_iter=30, **common), train),
    "the paper's method": watch(
        CoupledDictionaryLearning(N_ATOMS, max_iter=15, **PAPER, **common), [train]
    ),
    "approximate K-SVD": watch(
        DictionaryLearning(
            N_ATOMS, max_iter=15, update="sequential", schedule="constant", **common
        ),
        train,
    ),
    "optimal directions": watch(
        DictionaryLearning(N_ATOMS, max_iter=15, update="mod", **common), train
    ),
}

online, seconds, seen, spent = DictionaryLearning(N_ATOMS, **common), [], [], 0.0
order = np.random.default_rng(0).permutation(len(train))
for start in range(0, len(order), 512):  # batches, as they would arrive from a stream
    began = time.perf_counter()
    online.partial_fit(train[order[start : start + 512]])
    spent += time.perf_counter() - began
    seconds.append(spent)
    seen.append(online.components_.copy())
runs["batches, one pass"] = seconds, seen

# %%
# The comparison
# --------------
# The error is that of held-out patches, coded with five atoms each.

energy = float(np.sum(held_out**2))
figure, axis = plt.subplots(figsize=(8, 4.6), layout="constrained")
for (name, (seconds, seen)), colour, marker in zip(
    runs.items(), COLOURS, MARKERS, strict=False
):
    errors = []
    for atoms in seen:
        codes = sparse_encode(held_out, atoms, n_nonzero_coefs=T, n_jobs=2)
        errors.append(float(np.sum((held_out - codes @ atoms) ** 2)) / energy)
    axis.plot(seconds, errors, color=colour, marker=marker, markersize=4, label=name)
    print(f"{name}: {errors[-1]:.4f} after {seconds[-1]:.2f} s")
axis.set(
    xscale="log",
    xlabel="seconds",
    ylabel="share of the energy of new patches\nthat five atoms leave unexplained",
)
axis.set_ylim(top=min(axis.get_ylim()[1], 0.4))
axis.grid(alpha=0.3, which="both")
axis.legend(frameon=False)
plt.show()
