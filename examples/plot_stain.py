"""
Tell stains apart, and change the look of a tissue
==================================================

Tissue sections are stained to make their parts visible: hematoxylin makes nuclei blue,
a brown stain marks one protein. The strength of the colours differs between
laboratories. The colours of the two stains and their density at every pixel are learned
from the picture alone: a dictionary of two non-negative atoms, and non-negative sparse
codes. Rendered in other colours, the same densities have another look.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

from coupledict.images import StainSeparator

tissue = data.immunohistochemistry()[10:310, 150:470]

# %%
# Separate the stains
# -------------------
# Here the brown stain lies over many blue nuclei: the smaller the penalty, the more
# pixels may have both stains. The first is hematoxylin: stains are ordered by the ratio
# of absorbed blue to red light. Without the densities of one stain, the picture shows
# only the other.

began = time.perf_counter()
separator = StainSeparator(alpha=0.01).fit(tissue)
densities = separator.transform(tissue)
print(
    f"{time.perf_counter() - began:.2f} s, {separator.n_iter_} steps;"
    " optical density in red, green and blue:"
)
print(separator.stain_matrix_.round(2))
alone = [separator.inverse_transform(densities * keep) for keep in ([1, 0], [0, 1])]

# %%
# The same tissue from another laboratory
# ---------------------------------------
# Here it is simulated: a redder and weaker hematoxylin, a redder and stronger brown,
# and a yellowish background. Every pixel changes; stains learned from the changed
# picture alone undo most of it.

other = np.array([[0.52, 0.78, 0.35], [0.22, 0.65, 0.73]])
light = np.array([0.97, 0.93, 0.82]) * np.exp(-(densities * [0.7, 1.4]) @ other)
changed = np.rint(255 * light).astype(np.uint8)
normal = separator.normalize(changed)
for title, picture in (("changed", changed), ("normalized", normal)):
    difference = np.abs(picture.astype(float) - tissue).mean()
    print(f"{title}: mean difference of {difference:.1f} levels from the original")

# %%
# Side by side
# ------------

figure, axes = plt.subplots(2, 3, figsize=(12, 8.4), layout="constrained")
panels = {
    "the picture": tissue,
    "hematoxylin alone": alone[0],
    "brown stain alone": alone[1],
    "from another laboratory": changed,
    "the same, normalized": normal,
}
for axis, (title, picture) in zip(axes.flat, panels.items(), strict=False):
    axis.imshow(picture)
    axis.set_title(title)
    axis.set_axis_off()

# %%
# Each pixel of tissue is a point of optical density; the stains are the edges of the
# fan that these points fill.

last = axes[1, 2]
shown = tissue.reshape(-1, 3)[::7]
depth = -np.log(np.maximum(shown, 1) / 255 / separator.white_)
last.scatter(depth[:, 0], depth[:, 2], s=2, c=shown / 255)
for name, colour in zip(("hematoxylin", "brown"), separator.stain_matrix_, strict=True):
    last.annotate(
        "", 1.9 * colour[[0, 2]], (0, 0), arrowprops={"arrowstyle": "->", "lw": 2}
    )
    last.text(*(1.95 * colour[[0, 2]]), name, fontsize=11, ha="right")
last.set(
    xlim=(0, 1.6),
    ylim=(0, 2),
    title="pixels and stains",
    xlabel="optical density, red",
    ylabel="optical density, blue",
)
plt.show()
