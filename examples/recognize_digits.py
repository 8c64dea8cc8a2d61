"""Recognise handwritten digits by a few atoms each, and show which atoms spoke for what.

Pictures and labels are two views of a sample that share one sparse code. A picture is coded by the picture halves of
the atoms alone; their label halves, refitted, say which digit it is. A ridge classifier on the pixels is the rival.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier

N_SHOWN = 5
N_ATOMS = 4


def show(axis: Axes, picture: npt.NDArray[np.float64], title: str, color: str = "black") -> None:
    axis.imshow(picture.reshape(8, 8), cmap="gray_r")
    axis.set_title(title, fontsize=8, color=color)
    axis.set_xticks([])
    axis.set_yticks([])


def show_codes(
    axes: npt.NDArray[np.object_], model: CoupledClassifier, X: npt.NDArray[np.float64], y: list[int]
) -> None:
    """Draw pictures, and beside each the atoms of the first dictionary that explain it, largest first."""
    atoms, labels = model.learners_[0].components_
    pictures = atoms[:, :-1]  # without the constant coordinate
    codes = model.encode(X).toarray()
    found, sure = model.predict(X), model.predict_proba(X).max(axis=1)
    for row, code in enumerate(codes):
        right = found[row] == y[row]
        said = f"a {y[row]}: {100 * sure[row]:.0f} % {found[row]}"
        show(axes[row, 0], X[row], said, "black" if right else "crimson")
        order = np.argsort(-np.abs(code))[:N_ATOMS]
        for axis, atom in zip(axes[row, 1:], order, strict=True):
            show(axis, pictures[atom], f"{code[atom]:+.2f} x a {labels[atom].argmax()}", "dimgray")


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output/examples"), help="folder for the picture")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    X, y = load_digits(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    classifiers = {
        "ridge on pixels": RidgeClassifierCV(np.logspace(-2, 4, 7)),
        "coupled dictionaries": CoupledClassifier(n_jobs=-1, random_state=0),
        "all training samples as atoms": SparseRepresentationClassifier(n_jobs=-1),
    }
    for name, classifier in classifiers.items():
        began = time.perf_counter()
        classifier.fit(train, y_train)
        seconds = time.perf_counter() - began
        print(f"{name}: {100 * classifier.score(test, y_test):.1f} % right, fitted in {1e3 * seconds:.0f} ms")

    model = classifiers["coupled dictionaries"]
    wrong = np.flatnonzero(model.predict(test) != y_test)
    shown = np.concatenate([np.arange(N_SHOWN - 2), wrong[:2]])
    figure = plt.figure(figsize=(12, 7), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.1, 1))
    left.suptitle("Test pictures, and the atoms that explain them")
    show_codes(left.subplots(N_SHOWN, 1 + N_ATOMS, squeeze=False), model, test[shown], y_test[shown].tolist())
    axis = right.subplots()
    counts = confusion_matrix(y_test, model.predict(test))
    axis.imshow(np.where(np.eye(10, dtype=bool), 0, counts), cmap="Reds", vmin=0, vmax=8)
    for truth, said in np.argwhere(counts):
        axis.text(said, truth, counts[truth, said], ha="center", va="center")
    axis.set(xlabel="recognised as", ylabel="truth", xticks=range(10), yticks=range(10))
    axis.set_title(f"{100 * model.score(test, y_test):.1f} % of {len(test)} pictures right")
    path = output / "recognize_digits.png"
    figure.savefig(path, dpi=110)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
