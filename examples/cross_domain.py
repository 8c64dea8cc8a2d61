"""Recognise digits by their lower halves, though labels were only ever known for upper halves.

Some pictures have a label, but only their upper half was kept. Others are whole, but nobody labelled them. Dictionaries
of both halves, coupled by the whole pictures, carry the labels over. The rivals: lower halves taken for upper ones, and
nearest neighbours in the space of canonical correlations.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from coupledict.classification import CoupledClassifier

N_SHOWN = 8


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output/examples"), help="folder for the picture")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    labelled, whole, test = order[:600], order[600:1200], order[1200:]
    upper, lower = X[:, :32], X[:, 32:]

    train = np.concatenate([labelled, whole])
    views = [upper[train], lower[train].copy()]
    views[1][: len(labelled)] = np.nan  # these samples lack the lower half
    labels = np.concatenate([y[labelled], np.full(len(whole), -1)])  # and these a label
    model = CoupledClassifier(unlabeled=-1, n_jobs=-1, random_state=0).fit(views, labels)

    direct = KNeighborsClassifier(5).fit(upper[labelled], y[labelled])
    varying = [half[whole].std(axis=0) > 0 for half in (upper, lower)]
    halves = [half[:, kept] for half, kept in zip((upper, lower), varying, strict=True)]
    cca = CCA(8, max_iter=2000).fit(halves[0][whole], halves[1][whole])
    nearest = KNeighborsClassifier(5).fit(cca.transform(halves[0][labelled]), y[labelled])
    found = {
        "lower taken for upper": direct.predict(lower[test]),
        "CCA and nearest neighbours": nearest.predict(cca.transform(halves[0][test], halves[1][test])[1]),
        "coupled, lower half given": model.predict([None, lower[test]]),
        "coupled, upper half given": model.predict([upper[test], None]),
        "coupled, both halves given": model.predict([upper[test], lower[test]]),
    }
    scores = {name: float(np.mean(guess == y[test])) for name, guess in found.items()}
    for name, score in scores.items():
        print(f"{name}: {100 * score:.1f} % right")

    figure, (axis, *pictures) = plt.subplots(
        1, 1 + N_SHOWN, figsize=(14, 2.6), width_ratios=[5, *[1] * N_SHOWN], layout="constrained"
    )
    bars = axis.barh(list(scores), [100 * score for score in scores.values()], color=["silver"] * 2 + ["C0"] * 3)
    axis.bar_label(bars, fmt="%.0f %%", padding=3)
    axis.set(xlim=(0, 112), xlabel="test pictures recognised, %")
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    said = found["coupled, lower half given"]
    for place, sample in zip(pictures, range(N_SHOWN), strict=True):
        picture = X[test[sample]].reshape(8, 8)
        place.imshow(np.where(np.arange(8)[:, None] < 4, np.nan, picture), cmap="gray_r", vmin=0, vmax=16)
        right = said[sample] == y[test[sample]]
        place.set_title(f"{said[sample]}", color="black" if right else "crimson")
        place.set_xlabel(f"a {y[test[sample]]}", fontsize=9)
        place.set_xticks([])
        place.set_yticks([])
    path = output / "cross_domain.png"
    figure.savefig(path, dpi=110)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
