"""
Choosing T, tol and K
=====================

Three numbers determine what a dictionary can do: the largest number of atoms per sample
(T, ``n_nonzero_coefs``), the error at which coding stops (``tol``, a squared norm), and
the number of atoms (K, ``n_components``). More atoms explain training samples better.
What matters is how well they explain held-out samples, and what they are used for.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from coupledict import DictionaryLearning
from coupledict.images import assemble_patches, extract_patches
from coupledict.plotting import COLOURS, MARKERS

SIDE = 8


def patches_of(picture, n_patches, seed):
    patches = extract_patches(
        picture, (SIDE, SIDE), max_patches=n_patches, random_state=seed
    ).reshape(-1, SIDE**2)
    return patches - patches.mean(axis=1, keepdims=True)


picture = data.camera().astype(np.float32)
train, held_out = (
    patches_of(picture[:, :256], 2_000, 0),
    patches_of(picture[:, 256:], 2_000, 1),
)

# %%
# How many atoms there are, and how many a sample uses
# ----------------------------------------------------
# The error of training patches (dashed) falls to zero with K: with as many atoms as
# samples, each sample is an atom. The error of patches from the other half of the
# photograph (solid) falls slowly; the gap is overfitting, and closes with more training
# samples. Doubling the atoms in a code helps more than doubling those in the
# dictionary.

sizes = [16, 32, 64, 128, 256, 512]
figure, axis = plt.subplots(figsize=(8, 4.6), layout="constrained")
for T, colour, marker in zip((2, 4, 8), COLOURS, MARKERS, strict=False):
    fitted = [
        DictionaryLearning(
            K, n_nonzero_coefs=T, max_iter=15, n_jobs=2, random_state=0
        ).fit(train)
        for K in sizes
    ]
    for samples, style, label in ((held_out, "-", f"T = {T}"), (train, "--", None)):
        errors = [1 - learner.score(samples) for learner in fitted]
        axis.loglog(
            sizes, errors, style, color=colour, marker=marker, markersize=5, label=label
        )
axis.set(
    xlabel="atoms in the dictionary (K)",
    ylabel="unexplained share of the energy",
)
axis.set_xticks(sizes, [str(size) for size in sizes])
axis.minorticks_off()
axis.plot([], [], "k-", label="held out")
axis.plot([], [], "k--", label="training")
axis.grid(alpha=0.3)
axis.legend(frameon=False, ncols=2)

# %%
# Where the noise is known, give tol
# ----------------------------------
# Noise of standard deviation s in each of p pixels gives a patch a squared error of
# about ``p * s**2``, which is not worth explaining. With this ``tol`` each patch takes
# as many atoms as it needs, and the noise stays out. The factor on the axis shows how
# far one may deviate from this rule.

clean = picture[60:252, 120:312]
sigma = 20.0
noisy = clean + sigma * np.random.default_rng(0).standard_normal(clean.shape).astype(
    np.float32
)
patches = extract_patches(noisy, (SIDE, SIDE)).reshape(-1, SIDE**2)
means = patches.mean(axis=1, keepdims=True)

factors, panels = [0.6, 0.8, 1.0, 1.2, 1.5, 2.0], {}
for factor in factors:
    tol = factor * SIDE**2 * sigma**2
    learner = DictionaryLearning(
        256, tol=tol, max_iter=5, n_jobs=2, random_state=0
    ).fit((patches - means)[::4])
    codes = learner.transform(patches - means)
    result = assemble_patches(
        (codes @ learner.components_ + means).reshape(-1, SIDE, SIDE), clean.shape
    )
    panels[factor] = (
        result,
        float(np.sqrt(np.mean((result - clean) ** 2))),
        codes.nnz / len(patches),
    )
    print(
        f"tol = {factor} p s^2: {panels[factor][2]:.2f} atoms per patch,"
        f" RMS error {panels[factor][1]:.1f}"
    )

figure, (error_axis, *image_axes) = plt.subplots(
    1, 4, figsize=(14, 3.6), width_ratios=[1.4, 1, 1, 1], layout="constrained"
)
error_axis.plot(
    factors, [panels[factor][1] for factor in factors], "o-", color=COLOURS[0]
)
error_axis.axhline(sigma, color="0.5", linestyle=":")
error_axis.text(factors[-1], 0.98 * sigma, "the noise itself", ha="right", va="top")
error_axis.set(
    xlabel="tol / (pixels x noise variance)",
    ylabel="RMS error (grey values)",
    ylim=(0, 1.1 * sigma),
)
error_axis.grid(alpha=0.3)
best = min(factors, key=lambda factor: panels[factor][1])
for axis, (title, panel) in zip(
    image_axes,
    {
        f"noisy: RMS error {sigma:.0f}": noisy,
        f"tol = {factors[0]} p s²: {panels[factors[0]][1]:.1f}": panels[factors[0]][0],
        f"tol = {best} p s²: {panels[best][1]:.1f}": panels[best][0],
    }.items(),
    strict=True,
):
    axis.imshow(panel, cmap="gray", vmin=0, vmax=255)
    axis.set_title(title)
    axis.set_axis_off()
plt.show()
