"""
Three views, any of them missing
================================

A sample has three views, such as the current, the vibration and the temperature of a
machine. A few causes are behind all of them. Which views are needed to predict the
third? Any set of views can be coded and any other predicted from it, with the same
dictionaries.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np

from coupledict import CoupledDictionaryLearning

# %%
# Curves with common causes
# -------------------------
# Each of eight causes leaves a trace in each view: a decaying oscillation, a bump, a
# step. Two or three of them are active in a sample. All views are noisy, the last one
# most. Views are given by name.

rng = np.random.default_rng(0)
t = np.linspace(0, 1, 60)
starts, rates = rng.uniform(0.05, 0.7, 8), rng.uniform(4, 14, 8)
after = np.maximum(t - starts[:, None], 0)
traces = [
    np.exp(-6 * after) * np.sin(2 * np.pi * rates[:, None] * after),
    np.exp(-((t - starts[:, None] - 0.1) ** 2) / 0.004),
    (after > 0) * (1 - np.exp(-8 * after)),
]
names, noise = (
    ["current", "vibration", "temperature"],
    {"current": 0.1, "vibration": 0.1, "temperature": 0.2},
)


def samples(n):
    causes = rng.standard_normal((n, 8)) * (
        rng.random((n, 8)).argsort(axis=1) < rng.integers(2, 4, (n, 1))
    )
    clean = {name: causes @ trace for name, trace in zip(names, traces, strict=True)}
    noisy = {
        name: clean[name] + noise[name] * rng.standard_normal(clean[name].shape)
        for name in names
    }
    return noisy, clean


train, _ = samples(4000)
test, clean = samples(500)
learner = CoupledDictionaryLearning(
    8,
    n_nonzero_coefs=3,
    max_iter=100,
    view_weights="balanced",
    n_jobs=2,
    random_state=0,
).fit(train)

# %%
# Predicting a view from the others
# ---------------------------------
# An absent view is left out; the predicted view is not used.

sets = [given for size in (1, 2) for given in combinations(names, size)]
table = np.full((3, len(sets)), np.nan)
for column, given in enumerate(sets):
    for row, wanted in enumerate(names):
        if wanted in given:
            continue
        found = learner.predict({name: test[name] for name in given}, view=wanted)
        table[row, column] = 1 - np.sum((found - clean[wanted]) ** 2) / np.sum(
            clean[wanted] ** 2
        )
figure, axis = plt.subplots(figsize=(10, 3.4), layout="constrained")
shown = axis.imshow(table, cmap="viridis", vmin=0, vmax=1, aspect="auto")
for (row, column), share in np.ndenumerate(table):
    if not np.isnan(share):
        axis.text(
            column,
            row,
            f"{share:.2f}",
            ha="center",
            va="center",
            color="white" if share < 0.6 else "black",
        )
axis.set_xticks(range(len(sets)), [",\n".join(given) for given in sets])
axis.set_yticks(range(3), names)
axis.set(xlabel="given", ylabel="predicted")
figure.colorbar(shown, label="share of the energy\npredicted")

# %%
# One sample
# ----------
# The temperature of one sample, predicted from the two other views, with the measured
# curve and the truth without noise. Half of the samples are predicted better than this
# one, half worse.

found = learner.predict(
    {"current": test["current"], "vibration": test["vibration"]}, view="temperature"
)
truth = clean["temperature"]
errors = np.sum((found - truth) ** 2, axis=1) / np.sum(truth**2, axis=1)
number = int(np.argsort(errors)[len(errors) // 2])
figure, axes = plt.subplots(1, 3, figsize=(13, 3.4), layout="constrained")
for name, axis in zip(names, axes, strict=True):
    axis.plot(t, test[name][number], color="0.7", label="measured")
    axis.plot(t, clean[name][number], "k--", linewidth=1, label="without noise")
    axis.set(
        title=name + (" (predicted)" if name == "temperature" else " (given)"),
        xlabel="time",
    )
axes[2].plot(t, found[number], color="C3", linewidth=2, label="predicted")
axes[2].legend(frameon=False)

# %%
# The atoms
# ---------
# The three dictionaries, side by side: each row is one atom in all views, for the six
# most used atoms. An atom has norm 1 over all views together, each weighted by 1 over
# its energy; all curves of a view are drawn on one scale.

uses = np.diff(learner.transform(test).tocsc().indptr)
figure, axes = plt.subplots(
    6, 3, figsize=(10, 6), layout="constrained", sharex=True, sharey="col"
)
for row, atom in zip(axes, np.argsort(-uses)[:6], strict=True):
    for axis, name in zip(row, names, strict=True):
        axis.plot(t, learner.components_[name][atom], color="C0")
        axis.axhline(0, color="0.8", linewidth=0.8)
        axis.set_yticks([])
        axis.spines[["top", "right", "left"]].set_visible(False)
        if axis in axes[0]:
            axis.set_title(name)
    row[0].set_ylabel(f"atom {atom}", rotation=0, ha="right", va="center")
plt.show()
