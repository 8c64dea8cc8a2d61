"""Cross-domain recognition: labels are known in one view, and samples of another are to be recognised.

Handwritten digits as two views: upper and lower half, sharp and blurred at a quarter of the pixels; and Wikipedia
articles, text and picture, where they are. Half of the training samples have a label and the first view only, the other
half has both views and no label; test samples have the second view only. Rivals choose their settings on a validation
part that has labels in the second view, which nobody would have; `CoupledClassifier` is as it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from _data import Array
from _main import Options, join, table
from _recognition_wiki import find_wiki, grid, load_wiki
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from coupledict.classification import CoupledClassifier


@dataclass(frozen=True)
class Transfer:
    """What may be learned from: labelled samples of the first view, and pairs without labels."""

    known: Array
    labels: Array
    pairs: tuple[Array, Array]


LABELLED = (
    "pairs with labels, both views given",
    "pairs with labels, the first given",
    "pairs with labels, the second given",
    "the second view alone, with labels",
)
Predictor = Callable[[Array], Array]
Fit = Callable[..., Predictor]


def three_parts(y: Array, seed: int) -> tuple[Array, Array, Array]:
    """Return the rows to learn from, those to choose settings on, and those to test: 50, 20 and 30 per cent."""
    rows = np.arange(y.size)
    rest, test = train_test_split(rows, test_size=0.3, stratify=y, random_state=seed)
    train, held = train_test_split(rest, test_size=2 / 7, stratify=y[rest], random_state=seed)
    return train, held, test


def direct(task: Transfer, *, n_neighbors: int) -> Predictor:
    """Take the second view for the first."""
    return KNeighborsClassifier(n_neighbors).fit(task.known, task.labels).predict  # type: ignore[no-any-return]


def cca(task: Transfer, *, alpha: float, n: int, n_neighbors: int) -> Predictor:
    """Nearest neighbours in the space of regularised canonical correlations."""
    means = [X.mean(axis=0) for X in task.pairs]
    first, second = (X - mean for X, mean in zip(task.pairs, means, strict=True))
    whitenings = []
    for X in (first, second):
        moments = X.T @ X / len(X)
        moments += alpha * np.trace(moments) / len(moments) * np.eye(len(moments))
        whitenings.append(np.asarray(scipy.linalg.inv(scipy.linalg.cholesky(moments))))
    left, _, right = np.linalg.svd(whitenings[0].T @ (first.T @ second / len(first)) @ whitenings[1])
    n = min(n, len(left), len(right))
    maps = whitenings[0] @ left[:, :n], whitenings[1] @ right[:n].T
    nearest = KNeighborsClassifier(n_neighbors, metric="cosine").fit((task.known - means[0]) @ maps[0], task.labels)
    return lambda X: np.asarray(nearest.predict((X - means[1]) @ maps[1]))


def mapped(task: Transfer, *, alpha: float, n_neighbors: int) -> Predictor:
    """Predict the first view from the second by ridge regression, then nearest neighbours."""
    ridge = Ridge(alpha).fit(task.pairs[1], task.pairs[0])
    nearest = KNeighborsClassifier(n_neighbors).fit(task.known, task.labels)
    return lambda X: np.asarray(nearest.predict(ridge.predict(X)))


def guessed(make: Callable[..., Any]) -> Fit:
    """Return a rival that labels the pairs by their first view and learns the second from those labels."""

    def fit(task: Transfer, **setting: Any) -> Predictor:
        labels = make(**setting).fit(task.known, task.labels).predict(task.pairs[0])
        return make(**setting).fit(task.pairs[1], labels).predict  # type: ignore[no-any-return]

    return fit


def coupled(n_jobs: int) -> Fit:
    def fit(task: Transfer) -> Predictor:
        second = np.vstack([np.full((len(task.known), task.pairs[1].shape[1]), np.nan), task.pairs[1]])
        y = np.concatenate([task.labels, np.full(len(task.pairs[0]), -1)])
        model = CoupledClassifier(missing="nan", unlabeled=-1, n_jobs=n_jobs, random_state=0)
        model.fit([np.vstack([task.known, task.pairs[0]]), second], y)
        return lambda X: model.predict([None, X])

    return fit


def load_pairs(data: Path | None) -> dict[str, tuple[Array, Array, Array]]:
    digits = load_digits()
    upper, lower = digits.data[:, :32], digits.data[:, 32:]
    blurred = np.stack([gaussian_filter(image, 1.0)[::2, ::2] for image in digits.images]).reshape(len(upper), -1)
    found = {
        "upper > lower": (upper, lower, digits.target),
        "lower > upper": (lower, upper, digits.target),
        "sharp > blurred": (digits.data, blurred, digits.target),
    }
    folder = find_wiki(data)
    if folder is not None:
        wiki = load_wiki(folder)
        pictures, text = (np.vstack(parts) for parts in zip(wiki.train, wiki.test, strict=True))
        found["text > picture"] = (text, pictures, np.concatenate([wiki.train_labels, wiki.test_labels]))
    return found


def try_fit(fit: Fit, settings: list[dict[str, Any]], views: tuple[Array, Array], y: Array, seed: int) -> float:
    """Return the accuracy in the second view on the test part."""
    train, held, test = three_parts(y, seed)
    half = train.size // 2
    known, pairs = train[:half], train[half:]
    task = Transfer(views[0][known], y[known], (views[0][pairs], views[1][pairs]))
    scores = [np.mean(fit(task, **setting)(views[1][held]) == y[held]) for setting in settings] if settings[1:] else [0]
    best = fit(task, **settings[int(np.argmax(scores))])
    return float(np.mean(best(views[1][test]) == y[test]))


def labelled_pairs(n_jobs: int, views: tuple[Array, Array], y: Array, seed: int) -> dict[str, float]:
    """Return accuracies of a classifier that learned from pairs with labels, on any views of the test part."""
    train, _, test = three_parts(y, seed)
    model = CoupledClassifier(n_jobs=n_jobs, random_state=0).fit([view[train] for view in views], y[train])
    alone = CoupledClassifier(n_jobs=n_jobs, random_state=0).fit(views[1][train], y[train])
    first, second = (view[test] for view in views)
    scores = [model.score(given, y[test]) for given in ([first, second], [first, None], [None, second])]
    return dict(zip(LABELLED, [*scores, alone.score(second, y[test])], strict=True))


def run(views: tuple[Array, Array], y: Array, options: Options) -> dict[str, list[float]]:
    """Return the accuracies of all methods on a pair of views, for each split."""
    neighbours = (1, 5, 15)
    rivals: dict[str, tuple[Fit, list[dict[str, Any]]]] = {
        "the second view taken for the first": (direct, grid(n_neighbors=neighbours)),
        "regularised CCA and kNN": (cca, grid(alpha=(0.01, 0.1, 1.0), n=(4, 8, 16), n_neighbors=neighbours)),
        "ridge to the first view and kNN": (mapped, grid(alpha=(0.1, 10.0, 1000.0), n_neighbors=neighbours)),
        "pairs labelled by kNN, and kNN": (guessed(KNeighborsClassifier), grid(n_neighbors=neighbours)),
        "pairs labelled by ridge, and ridge": (guessed(RidgeClassifier), grid(alpha=(0.1, 10.0, 1000.0))),
        "CoupledClassifier": (coupled(options.jobs), [{}]),
    }
    found: dict[str, list[float]] = {name: [] for name in (*rivals, *LABELLED)}
    for seed in range(1000, 1000 + options.repeats):
        for name, (fit, settings) in rivals.items():
            if fit is not direct or views[0].shape == views[1].shape:
                found[name].append(try_fit(fit, settings, views, y, seed))
        for name, score in labelled_pairs(options.jobs, views, y, seed).items():
            found[name].append(score)
    return found


def report(results: Mapping[str, dict[str, list[float]]], options: Options) -> str:
    """Return a table of all pairs of views."""
    names = next(iter(results.values()))
    rows = []
    for name in names:
        every = [found[name] for found in results.values()]
        cells = [f"{100 * np.mean(own):.1f} +- {100 * np.std(own):.1f}" if own else "-" for own in every]
        rows.append([name, *cells])
    return join(
        f"Accuracy in per cent, mean and spread of {options.repeats} splits; labels in the first view > test in the"
        " second, but for the last four rows",
        table(["", *results], rows),
    )
