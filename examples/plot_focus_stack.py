"""
Fuse a focus stack
==================

Three photographs that are in focus in different places become one that is in focus everywhere. The stack is made from
one photograph, so that the truth is known: each third of it is sharp in one source and blurred in the other two. (The
dictionary that ships with the package has seen this photograph, but any other does as well: try your own.)
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from skimage import data

from coupledict.images import MultiFocusFusion
from coupledict.images.metrics import psnr

# %%
# Three photographs, each in focus in one third
# ---------------------------------------------

sharp = data.coffee()[40:340, 90:540]
soft = gaussian_filter(sharp.astype(float), (2.0, 2.0, 0)).round().astype(np.uint8)
thirds = np.arange(sharp.shape[1]) // 150
sources = [np.where((thirds == number)[:, None], sharp, soft) for number in range(3)]

# %%
# One that is in focus everywhere
# -------------------------------
# Coupled dictionaries of sharp and blurred patches tell for each patch which source explains it as sharp. The decision
# map says which source each pixel was taken from.

fused, decision = MultiFocusFusion(n_jobs=2).fuse(sources)
print(f"{np.mean(decision == thirds):.1%} of the pixels come from the source that is in focus there.")

panels = {f"source {number + 1}": source for number, source in enumerate(sources)}
panels |= {"fused": fused, "taken from source": decision}
figure, axes = plt.subplots(2, 3, figsize=(12, 5.8), layout="constrained")
for axis, (title, panel) in zip(axes.flat, panels.items(), strict=False):
    axis.imshow(panel, cmap="viridis")
    axis.set_title(title if panel.ndim == 2 else f"{title}: PSNR {psnr(sharp, panel):.1f} dB")
for number, colour in enumerate(("white", "white", "black")):
    axes[1, 1].text(75 + 150 * number, 150, number + 1, color=colour, fontsize=20, ha="center", va="center")
axes[1, 2].imshow(np.abs(fused.astype(int) - sharp).mean(axis=2), cmap="magma", vmin=0, vmax=20)
axes[1, 2].set_title("what is wrong, in grey values (0 to 20)")
for axis in axes.flat:
    axis.set_axis_off()
plt.show()
