"""
Find the right half of a digit by its left half
===============================================

The two halves of handwritten digits are two views. Dictionaries learned from 1200 whole
digits predict which right half goes with a left one; of 597 other digits, each left
half ranks all right halves. With labels, halves of the same digit come first instead of
partners.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from coupledict.matching import (
    CrossModalMatcher,
    mean_average_precision,
    mean_reciprocal_rank,
    rank_k,
)

# %%
# Learn from whole digits
# -----------------------

N_TRAIN = 1200

digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
images, labels = digits.images[order], digits.target[order]
halves = [images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)]
train, test = [half[:N_TRAIN] for half in halves], [half[N_TRAIN:] for half in halves]
known, held = labels[:N_TRAIN], labels[N_TRAIN:]

plain = CrossModalMatcher(n_dictionaries=5, n_jobs=2, random_state=0).fit(train)
labelled = CrossModalMatcher(n_dictionaries=5, n_jobs=2, random_state=0)
labelled.fit(train, known)
for name, matcher in (("without labels", plain), ("with labels", labelled)):
    table = matcher.similarity(*test)
    print(
        f"{name}: the very partner is first for {rank_k(table):.0%}\n"
        f"  and among the first ten for {rank_k(table, 10):.0%}"
        f" (mean reciprocal rank {mean_reciprocal_rank(table):.2f});"
        f" mAP of digits {mean_average_precision(table, held, held):.2f}"
    )
print(
    f"by chance: first for {1 / len(held):.1%},"
    f" among the first ten for {10 / len(held):.1%}; mAP 0.10"
)

# %%
# What is found
# -------------
# Green marks the partner, blue another picture of the same digit, red another digit.
# The right halves are indexed once, and can then be searched many times.

N_BEST, SHOWN = 6, (3, 12, 27, 41, 58, 77)

gallery = plain.index(test[1])
best = gallery.match(test[0], n_matches=N_BEST)
predicted = plain.predict([test[0], None], view=1)
titles = [
    "left half",
    "the truth",
    "predicted",
    *(f"match {i + 1}" for i in range(N_BEST)),
]
figure, axes = plt.subplots(
    len(SHOWN), len(titles), figsize=(11, 7.6), layout="constrained"
)
for row, number in zip(axes, SHOWN, strict=True):
    rights = [np.zeros(32), test[1][number], predicted[number], *test[1][best[number]]]
    for axis, title, right in zip(row, titles, rights, strict=True):
        axis.imshow(
            np.hstack([test[0][number].reshape(8, 4), right.reshape(8, 4)]),
            cmap="gray",
            vmin=0,
            vmax=16,
        )
        axis.axvline(3.5, color="tab:orange", linewidth=1)
        axis.set(xticks=[], yticks=[])
        if number == SHOWN[0]:
            axis.set_title(title)
    for axis, found in zip(row[3:], best[number], strict=True):
        colour = (
            "tab:green"
            if found == number
            else "tab:blue"
            if held[found] == held[number]
            else "tab:red"
        )
        for spine in axis.spines.values():
            spine.set(color=colour, linewidth=3)
plt.show()
