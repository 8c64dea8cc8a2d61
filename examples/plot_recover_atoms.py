"""
A second view helps to find the atoms of the first
==================================================

Signals are made of a few atoms of a known dictionary. A learner sees only the signals:
how many of the true atoms does it find, and how many signals does it need? Does a
second view of every signal help to find the atoms of the first?
"""

import matplotlib.pyplot as plt
import numpy as np

from coupledict import CoupledDictionaryLearning, DictionaryLearning
from coupledict.datasets import make_coupled_signals, match_atoms, recovery_score

# %%
# Signals with the truth
# ----------------------
# Each signal mixes 3 of 30 atoms, with the same coefficients in both views. A view has
# 12 features, and noise of 30 % of the signal. An atom counts as found if the absolute
# cosine between it and a learned atom is at least 0.95; no learned atom counts twice.

settings = {"n_components": 30, "n_nonzero_coefs": 3, "random_state": 0}
shape = {
    "n_components": 30,
    "n_nonzero_coefs": 3,
    "n_features": {"left": 12, "right": 12},
    "noise": 0.3,
}
counts, seeds = (100, 200, 400, 800, 1600, 3200), range(3)
found = {
    "both views": np.zeros((len(seeds), len(counts))),
    "the left view alone": np.zeros((len(seeds), len(counts))),
}
for column, count in enumerate(counts):
    for seed in seeds:
        signals = make_coupled_signals(count, **shape, random_state=seed)
        truth = signals.components["left"]
        both = CoupledDictionaryLearning(**settings, max_iter=60).fit(signals.views)
        alone = DictionaryLearning(**settings, max_iter=60).fit(signals.views["left"])
        for name, atoms in zip(
            found, (both.components_["left"], alone.components_), strict=True
        ):
            found[name][seed, column] = recovery_score(atoms, truth, threshold=0.95)

# %%
# How many signals it takes
# -------------------------
# The atoms of both views together have twice as many features to distinguish them, and
# each code is known better. So the left atoms are found from a fraction of the signals.
# The bands reach from the worst to the best of three draws.

figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for colour, (name, shares) in zip(("C0", "C1"), found.items(), strict=True):
    axis.fill_between(
        counts,
        shares.min(axis=0),
        shares.max(axis=0),
        color=colour,
        alpha=0.2,
        linewidth=0,
    )
    axis.plot(
        counts, shares.mean(axis=0), "o-", color=colour, label=f"learned from {name}"
    )
axis.set_xscale("log")
axis.set_xticks(counts, [f"{count:,}" for count in counts])
axis.minorticks_off()
axis.set(xlabel="signals", ylabel="share of the left atoms found", ylim=(0, 1.03))
axis.legend(frameon=False, loc="lower right")

# %%
# The atoms themselves
# --------------------
# From 400 signals: for each true atom, one per column, the atom learned from both views
# and the one from the left view alone, in the order and with the sign of the true one.
# All have norm 1 here. The cosine with the true atom is below.

signals = make_coupled_signals(400, **shape, random_state=0)
truth = signals.components["left"]
both = (
    CoupledDictionaryLearning(**settings, max_iter=60)
    .fit(signals.views)
    .components_["left"]
)
alone = (
    DictionaryLearning(**settings, max_iter=60).fit(signals.views["left"]).components_
)
figure, axes = plt.subplots(
    4,
    1,
    figsize=(9, 6.5),
    layout="constrained",
    height_ratios=(3, 3, 3, 2),
    sharex=True,
)


def show(axis, atoms, title):
    unit = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    axis.imshow(unit.T, cmap="RdBu", vmin=-0.8, vmax=0.8, aspect="auto")
    axis.set(ylabel=title, yticks=[])


show(axes[0], truth, "true")
for axis, atoms, colour, title in (
    (axes[1], both, "C0", "both views"),
    (axes[2], alone, "C1", "left view\nalone"),
):
    matches = match_atoms(atoms, truth)
    show(axis, np.sign(matches.cosines)[:, None] * atoms[matches.learned], title)
    axes[3].plot(
        matches.true,
        np.abs(matches.cosines),
        "o",
        color=colour,
        label=title.replace("\n", " "),
    )
axes[3].axhline(0.95, color="0.7", linewidth=0.8)
axes[3].set(xlabel="number of the true atom", ylabel="cosine", ylim=(0, 1.05))
axes[3].legend(frameon=False, loc="lower left", ncols=2)
plt.show()
