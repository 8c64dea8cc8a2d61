"""
Labels in one domain, recognition in another
============================================

Digits are recognised by their lower halves, although labels are known only for upper
halves. Some pictures have a label, but only their upper half. Others are complete, but
unlabelled. Dictionaries of both halves, coupled by the complete pictures, transfer the
labels. The rivals treat lower halves as upper ones, or use nearest neighbours in the
space of canonical correlations.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from coupledict.classification import CoupledClassifier

# %%
# Labelled halves and unlabelled wholes
# -------------------------------------
# A missing view is a row of NaN, a missing label is -1.

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
labelled, whole, test = order[:600], order[600:1200], order[1200:]
upper, lower = X[:, :32], X[:, 32:]

train = np.concatenate([labelled, whole])
views = {"upper": upper[train], "lower": lower[train].copy()}
views["lower"][: len(labelled)] = np.nan
labels = np.concatenate([y[labelled], np.full(len(whole), -1)])
model = CoupledClassifier(missing="nan", unlabeled=-1, n_jobs=2, random_state=0)
model.fit(views, labels)

# %%
# The rivals
# ----------

direct = KNeighborsClassifier(5).fit(upper[labelled], y[labelled])
varying = [half[whole].std(axis=0) > 0 for half in (upper, lower)]
halves = [half[:, kept] for half, kept in zip((upper, lower), varying, strict=True)]
cca = CCA(8, max_iter=2000).fit(halves[0][whole], halves[1][whole])
nearest = KNeighborsClassifier(5).fit(cca.transform(halves[0][labelled]), y[labelled])
found = {
    "lower taken for upper": direct.predict(lower[test]),
    "CCA and nearest neighbours": nearest.predict(
        cca.transform(halves[0][test], halves[1][test])[1]
    ),
    "coupled, lower half given": model.predict({"lower": lower[test]}),
    "coupled, upper half given": model.predict({"upper": upper[test]}),
    "coupled, both halves given": model.predict(
        {"upper": upper[test], "lower": lower[test]}
    ),
}
scores = {name: float(np.mean(guess == y[test])) for name, guess in found.items()}

figure, axis = plt.subplots(figsize=(8, 2.8), layout="constrained")
bars = axis.barh(
    list(scores),
    [100 * score for score in scores.values()],
    color=["silver"] * 2 + ["C0"] * 3,
)
axis.bar_label(bars, fmt="%.0f %%", padding=3)
axis.set(xlim=(0, 112), xlabel="test pictures recognised, %")
axis.invert_yaxis()
axis.spines[["top", "right"]].set_visible(False)

# %%
# What the lower halves are taken for
# -----------------------------------

said = found["coupled, lower half given"]
figure, axes = plt.subplots(2, 8, figsize=(9, 3.2), layout="constrained")
for axis, sample in zip(axes.flat, range(axes.size), strict=True):
    picture = np.where(np.arange(8)[:, None] < 4, np.nan, X[test[sample]].reshape(8, 8))
    right = said[sample] == y[test[sample]]
    axis.imshow(picture, cmap="gray_r", vmin=0, vmax=16)
    title = f"{said[sample]}" if right else f"{said[sample]}, is a {y[test[sample]]}"
    axis.set_title(title, color="black" if right else "crimson", fontsize=10)
    axis.set(xticks=[], yticks=[])
plt.show()
