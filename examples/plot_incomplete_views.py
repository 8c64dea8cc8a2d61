"""
Learn from incomplete samples
=============================

What can be learned from samples that lack entries or whole views? A photograph is cut
into blocks, and each block has three views, its colours. Many blocks lack a colour, and
all of them lack pixels, so no sample is complete. Dictionaries are learned from the
known entries, and then predict the missing ones. Means and nearest neighbours are the
rivals.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data
from sklearn.impute import KNNImputer

from coupledict import CoupledDictionaryLearning
from coupledict.images import assemble_patches, extract_patches

SIDE = 6

# %%
# Blocks that lack colours and pixels
# -----------------------------------
# NaN marks missing entries: a row of NaN in a view is a missing colour. The mean is
# subtracted from each feature, over the samples that have it, and not from each block:
# the mean of a block would depend on which colours it happens to have.

rng = np.random.default_rng(0)
picture = data.chelsea()[30:270, 120:360].astype(np.float32)
blocks = extract_patches(picture, SIDE, stride=SIDE)
truth = [
    np.ascontiguousarray(blocks[..., c]).reshape(len(blocks), -1) for c in range(3)
]
absent = rng.random((len(blocks), 3)) < 0.2
absent[absent.all(axis=1), 1] = False  # something must be known
views = [np.where(rng.random(view.shape) < 0.3, np.nan, view) for view in truth]
for v, view in enumerate(views):
    view[absent[:, v]] = np.nan
means = [np.nanmean(view, axis=0) for view in views]
centred = [view - mean for view, mean in zip(views, means, strict=True)]

complete = ~np.isnan(np.hstack(views)).any(axis=1)
lost = np.isnan(np.hstack(views)).mean()
print(f"{lost:.0%} of the entries are missing; {complete.sum()} blocks are complete")

# %%
# Imputation
# ----------
# ``impute`` keeps known entries, takes missing pixels from the code of the block, and
# predicts a missing colour from the others. It is not always the best method: where
# only whole colours are missing from ``data.coffee()``, a picture of few and very
# different colours, nearest neighbours are closer. Hide known entries, and compare.

learner = CoupledDictionaryLearning(
    64, n_nonzero_coefs=4, missing="nan", n_jobs=2, random_state=0
).fit(centred)
filled = [
    view + mean for view, mean in zip(learner.impute(centred), means, strict=True)
]
neighbours = np.split(
    KNNImputer(n_neighbors=5).fit_transform(np.hstack(views)), 3, axis=1
)
plain = [
    np.where(np.isnan(view), mean, view)
    for view, mean in zip(views, means, strict=True)
]


def error(found):
    """Return the root mean square error of the entries that were missing."""
    hidden = np.isnan(np.hstack(views))
    return np.sqrt(np.mean((np.hstack(found) - np.hstack(truth))[hidden] ** 2))


def picture_of(found):
    """Return the picture that blocks make, as bytes."""
    rows = np.dstack([np.nan_to_num(view) for view in found]).reshape(blocks.shape)
    return np.rint(
        np.clip(assemble_patches(rows, picture.shape, stride=SIDE), 0, 255)
    ).astype(np.uint8)


figure, axes = plt.subplots(1, 5, figsize=(15, 3.6), layout="constrained")
answers = {"means": plain, "five neighbours": neighbours, "coupledict": filled}
for axis, (title, found) in zip(
    axes, {"given": views, **answers, "truth": truth}.items(), strict=True
):
    axis.imshow(picture_of(found))
    axis.set_title(
        f"{title}\nerror {error(found):.1f} grey values" if title in answers else title
    )
    axis.set_axis_off()

# %%
# Learning from incomplete samples
# --------------------------------
# Dictionaries for the complete blocks of another part of the photograph, learned from
# samples with more and more missing entries. Filling in means first makes them learn
# the means, too.


def all_colours(picture, max_patches):
    patches = extract_patches(
        picture, SIDE, max_patches=max_patches, random_state=0
    ).reshape(max_patches, -1, 3)
    return [patches[..., c] - mean.mean() for c, mean in enumerate(means)]


train, test = (
    all_colours(picture, 3_000),
    all_colours(data.chelsea()[30:270, :110].astype(np.float32), 2_000),
)
shares = [0.0, 0.2, 0.4, 0.6]
left = {"known entries": [], "means filled in": []}
for share in shares:
    lossy = [np.where(rng.random(view.shape) < share, np.nan, view) for view in train]
    for way, errors in left.items():
        given = (
            lossy
            if way == "known entries"
            else [np.where(np.isnan(v), np.nanmean(v, axis=0), v) for v in lossy]
        )
        model = CoupledDictionaryLearning(
            64, n_nonzero_coefs=4, missing="nan", n_jobs=2, random_state=0
        ).fit(given)
        errors.append(100 * (1 - model.score(test)))
figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
for way, errors in left.items():
    axis.plot(100 * np.array(shares), errors, marker="o", label=f"learned from {way}")
axis.set(
    xlabel="missing entries in learning [%]",
    ylabel="energy of other, complete blocks\nthat is not explained [%]",
)
axis.set_ylim(0)
axis.legend()
plt.show()
