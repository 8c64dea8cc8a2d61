"""
Predict a missing channel
=========================

What blue goes with this red and green? Three views of each patch, one per channel,
share a sparse code. Dictionaries are learned from three photographs; in another one,
the codes of red and green predict blue. A linear map of the same patches, fitted by
ridge regression, is the rival.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data
from sklearn.linear_model import Ridge

from coupledict import CoupledDictionaryLearning
from coupledict.images import assemble_patches, extract_patches
from coupledict.plotting import plot_pairs

SIDE, BLUE = 6, 2

# %%
# One view per channel
# --------------------
# The mean of red and green, which is known where blue is missing, is subtracted from
# all three channels.


def channel_patches(picture, max_patches=None):
    """Return the patches of each channel less the mean of red and green, and it."""
    patches = extract_patches(
        picture.astype(np.float32), SIDE, max_patches=max_patches, random_state=0
    )
    views = [
        np.ascontiguousarray(patches[..., c]).reshape(len(patches), -1)
        for c in range(3)
    ]
    means = (
        views[0].mean(axis=1, keepdims=True) + views[1].mean(axis=1, keepdims=True)
    ) / 2
    return [view - means for view in views], means


known = [
    channel_patches(picture, 15_000)[0]
    for picture in (data.coffee(), data.rocket(), data.chelsea())
]
train = [np.concatenate(views) for views in zip(*known, strict=True)]
learner = CoupledDictionaryLearning(
    256, n_nonzero_coefs=4, view_weights="balanced", n_jobs=2, random_state=0
)
learner.fit(train)
# In float64: neighbouring pixels are so similar that float32 would leave few correct
# digits.
rival = Ridge(alpha=1.0).fit(np.hstack(train[:BLUE]).astype(np.float64), train[BLUE])

# %%
# Atoms of three views
# --------------------
# They show the same structure in each channel, with the contrast of that channel.

plot_pairs(
    [atoms[:64] for atoms in learner.components_], labels=["red", "green", "blue"]
)

# %%
# Another photograph, without its blue
# ------------------------------------
# An absent view is ``None``. Every patch is predicted, and overlapping patches are
# averaged.

picture = data.astronaut()[:256, 80:400]
views, means = channel_patches(picture)
truth = picture[..., BLUE].astype(np.float32)
guesses = {
    "a linear map": rival.predict(np.hstack(views[:BLUE])),
    "coupled dictionaries": learner.predict([views[0], views[1], None], view=BLUE),
}
panels = {"photograph": picture}
for name, guess in guesses.items():
    blue = assemble_patches((guess + means).reshape(-1, SIDE, SIDE), picture.shape[:2])
    error = float(np.sqrt(np.mean((blue - truth) ** 2)))
    print(f"blue predicted by {name}: RMS error {error:.1f}")
    panels[f"blue by {name}\nRMS error {error:.1f}"] = np.dstack(
        [picture[..., :BLUE], np.clip(np.rint(blue), 0, 255).astype(np.uint8)]
    )
figure, axes = plt.subplots(1, len(panels), figsize=(13, 4.2), layout="constrained")
for axis, (title, panel) in zip(axes, panels.items(), strict=True):
    axis.imshow(panel)
    axis.set_title(title)
    axis.set_axis_off()
plt.show()
