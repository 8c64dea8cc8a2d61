"""
How many atoms a photograph needs
=================================

T atoms of a cosine dictionary describe every 8 x 8 patch: with T = 1 the picture is
already recognisable, and each further atom refines it. Orthogonal least squares (OLS)
chooses slightly better atoms than orthogonal matching pursuit (OMP), but takes longer.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from coupledict import build_info, dct_dictionary, sparse_encode
from coupledict.images import assemble_patches, extract_patches
from coupledict.plotting import COLOURS

SIDE = 8

# %%
# Coding a picture
# ----------------
# Each patch is coded without its mean; overlapping patches are averaged when the
# picture is reassembled.

picture = data.camera()[60:316, 120:376].astype(np.float32)
atoms = dct_dictionary((SIDE, SIDE), 256).astype(np.float32)
patches = extract_patches(picture, SIDE).reshape(-1, SIDE**2)
means = patches.mean(axis=1, keepdims=True)

results = {}
print(f"{len(patches):,} patches over {len(atoms)} atoms ({build_info()['simd']})")
for pursuit in ("omp", "ols"):
    for n_nonzero in (1, 2, 4, 8):
        began = time.perf_counter()
        codes = sparse_encode(
            patches - means, atoms, n_nonzero_coefs=n_nonzero, pursuit=pursuit, n_jobs=2
        )
        seconds = time.perf_counter() - began
        rebuilt = assemble_patches(
            (codes @ atoms + means).reshape(-1, SIDE, SIDE), picture.shape
        )
        error = float(np.sqrt(np.mean((rebuilt - picture) ** 2)))
        results[pursuit, n_nonzero] = rebuilt, error
        print(
            f"  {pursuit.upper()}, {n_nonzero} atoms per patch:"
            f" RMS error {error:5.2f}, {1e3 * seconds:5.0f} ms"
        )

# %%
# What a few atoms show, and what they miss
# -----------------------------------------
# The error is below each picture: red where it is too bright, blue where it is too
# dark.

limits = [1, 2, 4, 8]
figure, axes = plt.subplots(2, len(limits), figsize=(12, 6.6), layout="constrained")
for column, n_nonzero in enumerate(limits):
    rebuilt, error = results["omp", n_nonzero]
    axes[0, column].imshow(rebuilt, cmap="gray", vmin=0, vmax=255)
    axes[0, column].set_title(
        f"{n_nonzero} atom{'s' * (n_nonzero > 1)} per patch\nRMS error {error:.1f}"
    )
    axes[1, column].imshow(rebuilt - picture, cmap="RdBu_r", vmin=-40, vmax=40)
for axis in axes.flat:
    axis.set_axis_off()

# %%
# OMP and OLS
# -----------
# The first atom is the same; after that OLS finds slightly better ones.

errors = {
    pursuit: np.array([results[pursuit, limit][1] for limit in limits])
    for pursuit in ("omp", "ols")
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(limits, errors["omp"], "o-", color=COLOURS[0])
left.set(
    xlabel="atoms per patch",
    ylabel="RMS error of OMP (grey values)",
    xticks=limits,
    ylim=(0, None),
)
right.plot(limits, 100 * (1 - errors["ols"] / errors["omp"]), "s-", color=COLOURS[1])
right.set(
    xlabel="atoms per patch", ylabel="error of OLS below that of OMP, %", xticks=limits
)
for axis in (left, right):
    axis.grid(alpha=0.3)
plt.show()
