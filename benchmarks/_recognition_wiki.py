"""Cross-modal retrieval beside its rivals: Wikipedia's pictures and texts, and the halves of handwritten digits.

All methods see the same features. The settings of each are chosen on three random splits of the training set; then it
learns from the whole training set and the test set is ranked, every test sample being a query and the other view's test
samples the gallery.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from _main import Options, duration, join, table

from coupledict.matching import CrossModalMatcher, mean_average_precision, mean_reciprocal_rank, rank_k

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Arrays = list[Array]
#: Training views, labels, seed and settings in; a function from test views to similarities (view 0 by view 1) out.
Fit = Callable[..., Callable[[Arrays], Array]]

#: Settings of a matcher of dictionaries alone, where nothing is chosen by validation.
DICTIONARIES: dict[str, Any] = {"preprocess": None, "whiten_shrinkage": 3.0, "kernel_weight": 0.0, "direct_weight": 0.0}
N_SPLITS = 3
RIDGES = (0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Problem:
    """Two views of labelled samples, split, and the measure that chooses settings where no labels are learned from."""

    name: str
    train: Arrays
    test: Arrays
    train_labels: Labels
    test_labels: Labels
    by_pairs: bool


@dataclass(frozen=True)
class Method:
    """A way to match, and the settings among which validation chooses."""

    name: str
    fit: Fit
    grid: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    seeded: bool = False


def grid(**choices: Iterable[Any]) -> list[dict[str, Any]]:
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


# Rivals


def standardised(Xs: Arrays) -> tuple[Arrays, Callable[[Arrays], Arrays]]:
    """Centre views and scale each as a whole."""
    means = [X.mean(axis=0) for X in Xs]
    scales = [np.sqrt(np.mean((X - m) ** 2)) for X, m in zip(Xs, means, strict=True)]

    def apply(views: Arrays) -> Arrays:
        return [(X - m) / s for X, m, s in zip(views, means, scales, strict=True)]

    return apply(Xs), apply


def cosines(a: Array, b: Array) -> Array:
    a, b = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in (a, b))
    return np.asarray(a @ b.T)


def chance(Xs: Arrays, y: Labels, seed: int) -> Callable[[Arrays], Array]:
    return lambda views: np.random.default_rng(seed).random((len(views[0]), len(views[1])))


def cca(Xs: Arrays, y: Labels, seed: int, *, alpha: float, n: int, weighted: bool) -> Callable[[Arrays], Array]:
    """Regularised canonical correlations; `weighted` multiplies each pair of variates by its correlation."""
    (a, b), apply = standardised(Xs)

    def half_inverse(x: Array) -> Array:
        c = x.T @ x / len(x)
        c += alpha * np.trace(c) / len(c) * np.eye(len(c))
        return np.asarray(scipy.linalg.inv(scipy.linalg.cholesky(c, lower=True)).T)

    left, right = half_inverse(a), half_inverse(b)
    u, s, vt = scipy.linalg.svd(left.T @ (a.T @ b / len(a)) @ right, full_matrices=False)
    gains = s[:n] if weighted else np.ones(len(s[:n]))
    left, right = left @ u[:, :n] * gains, right @ vt[:n].T * gains

    def similarities(views: Arrays) -> Array:
        p, q = apply(views)
        return cosines(p @ left, q @ right)

    return similarities


def pls(Xs: Arrays, y: Labels, seed: int, *, n: int) -> Callable[[Arrays], Array]:
    """Partial least squares (the singular vectors of the cross-covariance)."""
    (a, b), apply = standardised(Xs)
    u, _, vt = scipy.linalg.svd(a.T @ b, full_matrices=False)

    def similarities(views: Arrays) -> Array:
        p, q = apply(views)
        return cosines(p @ u[:, :n], q @ vt[:n].T)

    return similarities


def regression(make: Callable[..., Any]) -> Fit:
    """Match by predicting one view from the other, compared where validation says: in view 0, 1 or both."""

    def fit(Xs: Arrays, y: Labels, seed: int, *, compare: int | str, **setting: Any) -> Callable[[Arrays], Array]:
        (a, b), apply = standardised(Xs)
        forth = make(a, **setting).fit(a, b) if compare != 0 else None
        back = make(b, **setting).fit(b, a) if compare != 1 else None

        def similarities(views: Arrays) -> Array:
            p, q = apply(views)
            parts = [] if forth is None else [cosines(forth.predict(p), q)]
            parts += [] if back is None else [cosines(p, back.predict(q))]
            return np.asarray(np.mean(parts, axis=0))

        return similarities

    return fit


def make_ridge(x: Array, alpha: float) -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=alpha * len(x))


def make_knn(x: Array, n: int) -> Any:
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor(n, algorithm="brute")


def make_kernel_ridge(x: Array, alpha: float, width: float) -> Any:
    from sklearn.kernel_ridge import KernelRidge

    return KernelRidge(kernel="rbf", gamma=width / x.shape[1], alpha=alpha)


def semantic(make: Callable[..., Any]) -> Fit:
    """Match by the probability of one class, one classifier per view ("semantic matching", Rasiwasia et al. 2010)."""

    def fit(Xs: Arrays, y: Labels, seed: int, *, product: bool, **setting: Any) -> Callable[[Arrays], Array]:
        (a, b), apply = standardised(Xs)
        first, second = make(a, **setting).fit(a, y), make(b, **setting).fit(b, y)

        def similarities(views: Arrays) -> Array:
            p, q = (model.predict_proba(x) for model, x in zip((first, second), apply(views), strict=True))
            return np.asarray(p @ q.T) if product else cosines(p, q)

        return similarities

    return fit


def make_logistic(x: Array, c: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, max_iter=3000)


def make_svc(x: Array, c: float, width: float) -> Any:
    # Probabilities by Platt's method, as scikit-learn long offered them within SVC.
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    return CalibratedClassifierCV(SVC(C=c, gamma=width / x.shape[1]), cv=3, ensemble=False)


# Ours


def matcher(labelled: bool, n_jobs: int, **fixed: Any) -> Fit:
    def fit(Xs: Arrays, y: Labels, seed: int, **setting: Any) -> Callable[[Arrays], Array]:
        model = CrossModalMatcher(**(fixed | setting), n_jobs=n_jobs, random_state=seed)
        model.fit(Xs, y if labelled else None)
        return lambda views: model.similarity(views[0], views[1])

    return fit


def unpaired(n_jobs: int, **fixed: Any) -> Fit:
    """Learn from halves of the training set that have no sample in common."""

    def fit(Xs: Arrays, y: Labels, seed: int, **setting: Any) -> Callable[[Arrays], Array]:
        model = CrossModalMatcher(**(fixed | setting), semi_coupled=True, n_jobs=n_jobs, random_state=seed)
        model.fit([Xs[0][::2], Xs[1][1::2]], [y[::2], y[1::2]])
        return lambda views: model.similarity(views[0], views[1])

    return fit


def methods_without_labels(n_jobs: int) -> list[Method]:
    where = (0, 1, "both")
    tuned = grid(n_components=(128, 256), n_nonzero_coefs=(4, 8), whiten_shrinkage=(1.0, 10.0), compare=("both", 1))
    both = DICTIONARIES | {"compare": "both"}
    return [
        Method("chance", chance, seeded=True),
        Method("PLS", pls, grid(n=(2, 5, 9, 20))),
        Method("CCA", cca, grid(alpha=(0.001, 0.01, 0.1, 0.3, 1.0, 3.0), n=(3, 5, 9, 20), weighted=(False, True))),
        Method("ridge", regression(make_ridge), grid(alpha=RIDGES, compare=where)),
        Method("kNN regression", regression(make_knn), grid(n=(5, 10, 30, 60), compare=where)),
        Method(
            "kernel ridge (RBF)",
            regression(make_kernel_ridge),
            grid(alpha=(0.1, 0.3, 1.0), width=(0.3, 1.0, 3.0), compare=where),
        ),
        Method("codes", matcher(False, n_jobs, **DICTIONARIES, compare="codes"), seeded=True),
        Method("one dictionary", matcher(False, n_jobs, **both, n_dictionaries=1), seeded=True),
        Method("semi-coupled dictionaries", matcher(False, n_jobs, **both, semi_coupled=True), seeded=True),
        Method("dictionaries", matcher(False, n_jobs, **both), seeded=True),
        Method(
            "dictionaries, 20, tuned", matcher(False, n_jobs, **DICTIONARIES, n_dictionaries=20), tuned, seeded=True
        ),
        Method("defaults", matcher(False, n_jobs), seeded=True),
    ]


def methods_with_labels(n_jobs: int) -> list[Method]:
    tuned = grid(n_components=(128, 256), n_nonzero_coefs=(4, 8), whiten_shrinkage=(1.0, 10.0))
    both = (False, True)
    return [
        Method("logistic semantic matching", semantic(make_logistic), grid(c=(0.001, 0.01, 0.1, 1.0), product=both)),
        Method("RBF-SVM semantic matching", semantic(make_svc), grid(c=(1.0, 10.0), width=(0.3, 1.0), product=both)),
        Method("one dictionary", matcher(True, n_jobs, **DICTIONARIES, n_dictionaries=1), seeded=True),
        Method("semi-coupled dictionaries", matcher(True, n_jobs, **DICTIONARIES, semi_coupled=True), seeded=True),
        Method("semi-coupled, views of different samples", unpaired(n_jobs, **DICTIONARIES), seeded=True),
        Method("dictionaries", matcher(True, n_jobs, **DICTIONARIES), seeded=True),
        Method("dictionaries, 20, tuned", matcher(True, n_jobs, **DICTIONARIES, n_dictionaries=20), tuned, seeded=True),
        Method("defaults", matcher(True, n_jobs), seeded=True),
        Method("defaults, views of different samples", unpaired(n_jobs), seeded=True),
    ]


# Data


def find_wiki(data: Path | None) -> Path | None:
    if data is None:
        return None
    for folder in (data, data / "wiki"):
        if (folder / "raw_features.mat").is_file():
            return folder
    raise FileNotFoundError(f"Expected raw_features.mat in '{data}' or its folder 'wiki', found none.")


def load_wiki(folder: Path) -> Problem:
    """Load picture and text features; roots of histograms, whose Euclidean distance is that of Hellinger."""
    from scipy.io import loadmat

    features = loadmat(folder / "raw_features.mat")

    def labels(part: str) -> Labels:
        lines = (folder / f"{part}set_txt_img_cat.list").read_text().splitlines()
        return np.array([int(line.split()[-1]) for line in lines])

    return Problem(
        "Wikipedia: picture (128) and text (10)",
        [np.sqrt(features["I_tr"]), features["T_tr"]],
        [np.sqrt(features["I_te"]), features["T_te"]],
        labels("train"),
        labels("test"),
        by_pairs=False,
    )


def load_halves(axis: int) -> Problem:
    """Load the halves of handwritten digits: 1400 to learn from, 397 to test."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    halves = [half.reshape(len(half), -1) for half in np.split(digits.images, 2, axis=axis)]
    order = np.random.default_rng(0).permutation(len(digits.target))
    train, test = order[:1400], order[1400:]
    return Problem(
        f"Digits: {'left and right' if axis == 2 else 'upper and lower'} half (32 and 32)",
        [half[train] for half in halves],
        [half[test] for half in halves],
        digits.target[train],
        digits.target[test],
        by_pairs=True,
    )


# Measuring


def measures(similarities: Array, labels: Labels) -> Array:
    """Return mAP both ways and their mean, rank-1 and the mean reciprocal rank (means of both ways)."""
    ways = (similarities, similarities.T)
    precision = [mean_average_precision(way, labels, labels) for way in ways]
    ranks = [[rank_k(way), mean_reciprocal_rank(way)] for way in ways]
    return np.array([*precision, np.mean(precision), *np.mean(ranks, axis=0)])


def choose(method: Method, problem: Problem, labelled: bool) -> dict[str, Any]:
    """Return the setting with the best mean over the splits: mAP, or the reciprocal rank where pairs are the aim."""
    if len(method.grid) == 1:
        return method.grid[0]
    column = 4 if problem.by_pairs and not labelled else 2
    n = len(problem.train_labels)
    scores = np.zeros(len(method.grid))
    for split in range(N_SPLITS):
        order = np.random.default_rng(split).permutation(n)
        held, kept = order[: n // 4], order[n // 4 :]
        for i, setting in enumerate(method.grid):
            # Fewer dictionaries choose as well as many, and sooner.
            quick = {"n_dictionaries": 5} if method.seeded else {}
            fitted = method.fit([X[kept] for X in problem.train], problem.train_labels[kept], split, **setting | quick)
            scores[i] += measures(fitted([X[held] for X in problem.train]), problem.train_labels[held])[column]
    return method.grid[int(np.argmax(scores))]


def try_method(method: Method, problem: Problem, labelled: bool, n_seeds: int) -> list[str]:
    """Choose settings, learn from all training samples, and rank the test set: one row of the table."""
    setting = choose(method, problem, labelled)
    found, seconds = [], []
    for seed in range(n_seeds if method.seeded else 1):
        began = time.perf_counter()
        fitted = method.fit(problem.train, problem.train_labels, seed, **setting)
        seconds.append(time.perf_counter() - began)
        found.append(measures(fitted(problem.test), problem.test_labels))
    means, spread = np.mean(found, axis=0), np.std(found, axis=0)
    spreads = f"{spread[2]:.4f}" if len(found) > 1 else ""
    note = ", ".join(f"{name}={value}" for name, value in setting.items())
    cells = [f"{value:.3f}" for value in means]
    return [method.name, *cells[:3], spreads, *cells[3:], duration(float(np.median(seconds))), note]


def problems(data: Path | None) -> list[Problem]:
    """Return Wikipedia where it is there, and the halves of digits."""
    folder = find_wiki(data)
    return [*([] if folder is None else [load_wiki(folder)]), load_halves(2), load_halves(1)]


def run(problem: Problem, labelled: bool, options: Options) -> dict[str, Any]:
    """Return a title and the rows of all methods that were asked for."""
    methods = (methods_with_labels if labelled else methods_without_labels)(options.jobs)
    only = [name.strip() for name in options.only.split(";") if name.strip()]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        rows = [
            try_method(method, problem, labelled, options.repeats)
            for method in methods
            if not only or method.name in only
        ]
    title = f"{problem.name}, learned {'with' if labelled else 'without'} labels"
    return {
        "title": f"{title}; {len(problem.train_labels)} to learn from, {len(problem.test_labels)} to test",
        "rows": rows,
    }


def report(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    """Return a table for each data set, without labels and with."""
    headers = ["", "mAP 0>1", "1>0", "mean", "+-", "rank-1", "MRR", "fit", "chosen on validation splits"]
    return join(*(join(found["title"], table(headers, found["rows"])) for found in results.values()))
