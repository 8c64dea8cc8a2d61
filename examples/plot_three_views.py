"""
Three views, any of them missing
================================

A sample has three views: what a step of a machine draws, how it shakes, and how warm it gets, say. Few causes are
behind all of them. Which views are needed to know the third? Any set of views can be coded and any other predicted from
it, with the same dictionaries.
"""

import matplotlib.pyplot as plt
import numpy as np

from coupledict import CoupledDictionaryLearning

# %%
# Curves with common causes
# -------------------------
# Each of eight causes leaves a trace in each view: a decaying oscillation, a bump, a step. Two or three of them are
# active in a sample. There is noise in all views, most in the last.

rng = np.random.default_rng(0)
t = np.linspace(0, 1, 60)
starts, rates = rng.uniform(0.05, 0.7, 8), rng.uniform(4, 14, 8)
after = np.maximum(t - starts[:, None], 0)
traces = [
    np.exp(-6 * after) * np.sin(2 * np.pi * rates[:, None] * after),
    np.exp(-((t - starts[:, None] - 0.1) ** 2) / 0.004),
    (after > 0) * (1 - np.exp(-8 * after)),
]
names, noise = ["current", "vibration", "temperature"], [0.1, 0.1, 0.2]


def samples(n):
    causes = rng.standard_normal((n, 8)) * (rng.random((n, 8)).argsort(axis=1) < rng.integers(2, 4, (n, 1)))
    clean = [causes @ trace for trace in traces]
    return [view + level * rng.standard_normal(view.shape) for view, level in zip(clean, noise, strict=True)], clean


train, _ = samples(4000)
test, clean = samples(500)
learner = CoupledDictionaryLearning(
    8, n_nonzero_coefs=3, max_iter=100, view_weights="balanced", n_jobs=2, random_state=0
).fit(train)

# %%
# What is known of a view from the others
# ---------------------------------------
# An absent view is ``None``; the wanted one is not looked at.

sets = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
table = np.full((3, len(sets)), np.nan)
for column, given in enumerate(sets):
    for wanted in set(range(3)) - set(given):
        found = learner.predict([test[v] if v in given else None for v in range(3)], view=wanted)
        table[wanted, column] = 1 - np.sum((found - clean[wanted]) ** 2) / np.sum(clean[wanted] ** 2)
figure, axis = plt.subplots(figsize=(10, 3.4), layout="constrained")
shown = axis.imshow(table, cmap="viridis", vmin=0, vmax=1, aspect="auto")
for (wanted, column), share in np.ndenumerate(table):
    if not np.isnan(share):
        axis.text(column, wanted, f"{share:.2f}", ha="center", va="center", color="white" if share < 0.6 else "black")
axis.set_xticks(range(len(sets)), [",\n".join(names[v] for v in given) for given in sets])
axis.set_yticks(range(3), names)
axis.set(xlabel="given", ylabel="predicted")
figure.colorbar(shown, label="share of the energy\nthat is right")

# %%
# One sample
# ----------
# The temperature of one sample from the two others, beside what was measured and the truth without noise. Half of the
# samples are predicted better than this one, half worse.

found = learner.predict([test[0], test[1], None], view=2)
errors = np.sum((found - clean[2]) ** 2, axis=1) / np.sum(clean[2] ** 2, axis=1)
number = int(np.argsort(errors)[len(errors) // 2])
figure, axes = plt.subplots(1, 3, figsize=(13, 3.4), layout="constrained")
for v, axis in enumerate(axes):
    axis.plot(t, test[v][number], color="0.7", label="measured")
    axis.plot(t, clean[v][number], "k--", linewidth=1, label="without noise")
    axis.set(title=names[v] + (" (given)" if v < 2 else " (predicted)"), xlabel="time")
axes[2].plot(t, found[number], color="C3", linewidth=2, label="predicted")
axes[2].legend(frameon=False)

# %%
# The atoms
# ---------
# The three dictionaries, side by side: each row is one atom in all views, the six that are used most.

uses = np.diff(learner.transform(test).tocsc().indptr)
figure, axes = plt.subplots(6, 3, figsize=(10, 6), layout="constrained", sharex=True)
for row, atom in zip(axes, np.argsort(-uses)[:6], strict=True):
    for axis, atoms, name in zip(row, learner.components_, names, strict=True):
        axis.plot(t, atoms[atom], color="C0")
        axis.axhline(0, color="0.8", linewidth=0.8)
        axis.set_yticks([])
        axis.spines[["top", "right", "left"]].set_visible(False)
        if axis in axes[0]:
            axis.set_title(name)
    row[0].set_ylabel(f"atom {atom}", rotation=0, ha="right", va="center")
plt.show()
