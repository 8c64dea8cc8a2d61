"""
Restore a damaged photograph
============================

Four of five pixels of a photograph are lost, or something was written over it. A
dictionary learned from the remaining pixels restores it. Biharmonic inpainting, which
fits a smooth surface through the known pixels, is shown for comparison.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from skimage import data
from skimage.restoration import inpaint_biharmonic

from coupledict.images import Inpainting
from coupledict.images.metrics import psnr

photograph = data.coffee()[60:230, 180:400]

# %%
# Two kinds of damage
# -------------------
# A mask is true where pixels are *missing*. The second mask is handwriting, from
# another picture of scikit-image.

rng = np.random.default_rng(0)
strokes = np.kron(data.text()[20:105, 20:130] < 90, np.ones((2, 2), bool))
masks = {
    "80 % lost at random": rng.random(photograph.shape[:2]) < 0.8,
    "written over": strokes,
}

# %%
# Restore it
# ----------
# Known pixels do not change by a bit.

panels = []
for title, mask in masks.items():
    damaged = np.where(mask[..., None], 0, photograph).astype(np.uint8)
    began = time.perf_counter()
    restored = Inpainting(n_jobs=2, random_state=0).fill(damaged, mask)
    seconds = time.perf_counter() - began
    smooth = np.rint(
        255 * np.clip(inpaint_biharmonic(damaged, mask, channel_axis=-1), 0, 1)
    ).astype(np.uint8)
    assert np.array_equal(restored[~mask], photograph[~mask])
    print(f"{title} ({mask.mean():.0%} of the pixels): {seconds:.1f} s")
    panels.append(
        {
            title: damaged,
            "biharmonic": smooth,
            "coupledict": restored,
            "truth": photograph,
        }
    )

# %%
# Side by side
# ------------
# PSNR counts the whole picture; known pixels have no error.

figure, axes = plt.subplots(2, 4, figsize=(15, 6), layout="constrained")
for row, pictures in zip(axes, panels, strict=True):
    for axis, (title, picture) in zip(row, pictures.items(), strict=True):
        compared = title in ("biharmonic", "coupledict")
        axis.imshow(picture)
        axis.set_title(
            f"{title}\nPSNR {psnr(photograph, picture):.2f} dB" if compared else title
        )
        axis.set_axis_off()
plt.show()
