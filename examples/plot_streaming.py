"""
More samples than memory
========================

Samples that do not fit in memory can stay on disk, be generated on the fly, or arrive
as a stream. A long fit writes checkpoints, from which it resumes with a bit-identical
result. Each of these is one line.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from coupledict import CoupledDictionaryLearning, OnlineDictionaryLearning
from coupledict.images import extract_patches
from coupledict.plotting import COLOURS

SIDE = 8
names = ["camera", "brick", "grass", "gravel"]
pictures = {name: getattr(data, name)().astype(np.float32) for name in names}


def chunk_of(name, seed, n_patches=4000):
    """Return two views of patches of a picture: their left and their right halves."""
    patches = extract_patches(
        pictures[name], (SIDE, SIDE), max_patches=n_patches, random_state=seed
    )
    patches -= patches.mean(axis=(1, 2), keepdims=True)
    return [half.reshape(n_patches, -1) for half in np.split(patches, 2, axis=2)]


held_out = [
    np.concatenate(view)
    for view in zip(*(chunk_of(name, 99, 500) for name in names), strict=True)
]

# %%
# Chunks generated in each pass
# -----------------------------
# A callable returns a fresh iterator over chunks, each a list of views. A chunk is in
# memory only while it is processed. Memory-mapped, HDF5 or Zarr arrays work the same
# way: ``fit([sharp_zarr, blurred_zarr])``.


def chunks():
    for seed in range(3):
        for name in names:
            yield chunk_of(name, seed)


parameters = {"n_components": 128, "n_nonzero_coefs": 4, "random_state": 0, "n_jobs": 2}
whole = CoupledDictionaryLearning(**parameters, max_iter=12).fit(chunks)
print(
    f"from {12 * 4000:,} samples, of which a few chunks were in memory:"
    f" {whole.score(held_out):.4f}"
)

# %%
# Stopped and resumed
# -------------------
# Here a callback stops the fit after five iterations, as a power cut would. The fit
# then resumes from the checkpoint.

with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "fit.safetensors"
    stopped = CoupledDictionaryLearning(
        **parameters, max_iter=12, callback=lambda progress: progress.completed == 5
    )
    stopped.fit(chunks, checkpoint=checkpoint)
    resumed = CoupledDictionaryLearning(**parameters, max_iter=12).fit(
        chunks, resume=checkpoint
    )
same = all(
    np.array_equal(a, b)
    for a, b in zip(whole.components_, resumed.components_, strict=True)
)
print(
    f"stopped after {stopped.n_iter_} iterations, resumed to {resumed.n_iter_};"
    f" the same to the last bit: {same}"
)

# %%
# A stream that changes
# ---------------------
# Batches of 500 patches arrive one after the other: first of brick, then of grass. With
# ``forgetting`` the dictionaries adapt faster, and forget more.

streams = {
    forgetting: OnlineDictionaryLearning(
        64, n_nonzero_coefs=4, forgetting=forgetting, random_state=0
    )
    for forgetting in (0.0, 0.05, 0.2)
}
tests = {name: chunk_of(name, 99, 1000) for name in ("brick", "grass")}
course = {(forgetting, name): [] for forgetting in streams for name in tests}
for number in range(60):
    batch = chunk_of("brick" if number < 30 else "grass", number, 500)
    for forgetting, learner in streams.items():
        learner.partial_fit(batch)
        for name, samples in tests.items():
            course[forgetting, name].append(learner.score(samples))

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for axis, name in zip(axes, tests, strict=True):
    for forgetting, colour in zip(streams, COLOURS, strict=False):
        axis.plot(
            range(1, 61),
            course[forgetting, name],
            color=colour,
            label=f"forgetting = {forgetting}",
        )
    axis.axvline(30.5, color="0.6", linewidth=1)
    axis.annotate(
        "grass from here on",
        (31, 0.02),
        xycoords=("data", "axes fraction"),
        color="0.4",
    )
    axis.set(title=f"patches of {name}", xlabel="batches seen")
    axis.grid(alpha=0.3)
axes[0].set_ylabel("share of the energy explained")
axes[1].legend(frameon=False, loc="upper left")
plt.show()
