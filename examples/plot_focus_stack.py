"""
Fuse a focus stack
==================

Five photographs in focus at different distances become one that is in focus everywhere.
The stack is made from one photograph, so the truth is known. It behaves like a stack
from a camera: from picture to picture the focus moves from far to near, the field of
view grows a little (the lens *breathes*), the hand moves, and the exposure changes.
(The shipped dictionary has seen this photograph, but any other works as well: try your
own.)
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from skimage import data
from skimage.transform import AffineTransform, warp

from coupledict.images import MultiFocusFusion
from coupledict.images.metrics import psnr

# %%
# Five photographs, each in focus at one distance
# -----------------------------------------------
# The table is far at the top and near at the bottom. The nearer a place is to the focus
# distance of a picture, the sharper it is.

n_pictures, middle = 5, 2
scene = data.coffee()[:380, 60:560].astype(float)
height, width = scene.shape[:2]
# in pictures: what is in focus in each
distance = np.linspace(0, n_pictures - 1, height)[:, None]
blurs = np.arange(0, 5, 0.5)
blurred = np.stack([gaussian_filter(scene, (sigma, sigma, 0)) for sigma in blurs])

sources, rng = [], np.random.default_rng(0)
for number in range(n_pictures):
    wanted = np.rint(np.abs(distance - number) / 0.5).astype(int)
    picture = np.take_along_axis(
        blurred, np.broadcast_to(wanted[None, ..., None], (1, *scene.shape)), axis=0
    )[0]
    step = number - middle
    shift = rng.uniform(-3, 3, 2) if step else np.zeros(2)
    centre = AffineTransform(translation=(-width / 2, -height / 2))
    move = (
        centre
        + AffineTransform(scale=1 + 0.006 * step)
        + AffineTransform(translation=shift - centre.translation)
    )
    moved = warp(picture, move, order=3, mode="reflect") * (1 + 0.02 * step)
    sources.append(np.clip(moved, 0, 255).round().astype(np.uint8)[30:-30, 40:-40])
truth = scene[30:-30, 40:-40].astype(np.uint8)

# %%
# One that is in focus everywhere
# -------------------------------
# Pictures are aligned with the one in the middle, neighbour by neighbour, and their
# exposure is matched. Coupled dictionaries of sharp and blurred patches then measure
# how much each picture is in focus at each place. The result is the area that all
# pictures cover, with a record of what was done to each of them.

fused = MultiFocusFusion(n_jobs=2).fuse(sources)
top, left, bottom, right = fused.box
truth = truth[top:bottom, left:right]
for number, source in enumerate(fused.sources):
    print(
        f"picture {number + 1}: corners moved by up to {source.shift:.1f} pixels,"
        f" brightness x {source.gain:.3f},\n  correlation {source.correlation[0]:.3f}"
        f" -> {source.correlation[1]:.3f}, {source.share:.0%} of the result"
    )

# %%
# Without alignment, edges are doubled. The decision, smoothed, is a map of depth.

ignored = (
    MultiFocusFusion(register=False, n_jobs=2)
    .fuse(sources)
    .image[top:bottom, left:right]
)
panels = {
    "the first: far in focus": sources[0][top:bottom, left:right],
    "the last: near in focus": sources[-1][top:bottom, left:right],
    "fused without alignment": ignored,
    "fused": fused.image,
}
figure, axes = plt.subplots(2, 3, figsize=(12, 6.2), layout="constrained")
for axis, (title, panel) in zip(axes.flat, panels.items(), strict=False):
    axis.imshow(panel)
    axis.set_title(f"{title}\nPSNR {psnr(truth, panel):.1f} dB")
shown = axes[1, 1].imshow(fused.depth + 1, cmap="viridis", vmin=1, vmax=n_pictures)
axes[1, 1].set_title("depth: which picture,\nas a smooth surface")
figure.colorbar(shown, ax=axes[1, 1], ticks=range(1, n_pictures + 1), shrink=0.8)
axes[1, 2].imshow(
    np.abs(fused.image.astype(int) - truth).mean(axis=2), cmap="magma", vmin=0, vmax=20
)
axes[1, 2].set_title("error,\nin grey values (0 to 20)")
for axis in axes.flat:
    axis.set_axis_off()
plt.show()
