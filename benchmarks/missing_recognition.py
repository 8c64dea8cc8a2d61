"""Recognition and matching where samples lack views or entries, beside rivals in one run.

Run ``python benchmarks/missing_recognition.py --data DIR`` from the root of the project.

`digits`: six views of 2,000 handwritten digits (folder ``multifeature`` of DIR), of which each is absent with
probability 0.3 in training and test samples, at least one kept; and the same with 30 % of the entries missing. Rivals
see standardised features side by side: nearest neighbours after imputation, their number chosen by cross-validation on
the training part; a support vector machine after the same imputation, its penalty chosen likewise; and gradient
boosting, which takes NaN as it is. `CoupledClassifier(missing="nan")` is as it comes. Its head was chosen on other
data: scikit-learn's digits cut into views in three ways, wine, breast cancer and planted classes.

`wiki`: a fifth of the training articles keep picture and text (folder ``wiki``), of the others half lose the one and
half the other. Matching learned from the pairs alone stands beside matching learned from all.

Without DIR, scikit-learn's digits in quarters stand in for the first, and their halves for the second.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _recognition_wiki import Problem, find_wiki, load_halves, load_wiki, measures
from _timing import duration, table
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from coupledict.classification import CoupledClassifier
from coupledict.experiments.sources import data_directory
from coupledict.matching import CrossModalMatcher

SHARE, TEST_SHARE, PAIRED = 0.3, 0.3, 0.2
VIEW_FILES = ("fou", "fac", "kar", "pix", "zer", "mor")
Fit = Callable[[list[Array], Array], Callable[[list[Array]], Array]]


def load_six_views(data: Path | None) -> tuple[str, list[Array], Array]:
    """Return a name, the views and the labels of the handwritten digits, or of what stands in for them."""
    if data is None:
        digits = load_digits()
        quarters = [digits.images[:, r : r + 4, c : c + 4].reshape(-1, 16) for r in (0, 4) for c in (0, 4)]
        return "quarters of scikit-learn's digits", quarters, digits.target
    folder = data / "multifeature" if (data / "multifeature").is_dir() else data
    tables = [np.loadtxt(folder / f"mfeat-{name}.csv", delimiter=",", skiprows=1) for name in VIEW_FILES]
    return "multifeature: six views", [array[:, :-1] for array in tables], tables[0][:, -1].astype(int)


def lose(views: Sequence[Array], what: str, seed: int) -> list[Array]:
    """Return views with NaN for what samples lack: ``"nothing"``, ``"views"`` or ``"entries"``."""
    rng = np.random.default_rng(seed)
    n = len(views[0])
    if what == "nothing":
        return list(views)
    if what == "entries":
        return [np.where(rng.random(view.shape) < SHARE, np.nan, view) for view in views]
    gone = rng.random((n, len(views))) < SHARE
    nothing = gone.all(axis=1)
    gone[nothing, rng.integers(len(views), size=np.count_nonzero(nothing))] = False
    return [np.where(gone[:, [v]], np.nan, view) for v, view in enumerate(views)]


def coupled(n_jobs: int, seed: int) -> Fit:
    def fit(views: list[Array], y: Array) -> Callable[[list[Array]], Array]:
        return CoupledClassifier(missing="nan", n_jobs=n_jobs, random_state=seed).fit(views, y).predict

    return fit


def side_by_side(*steps: Any) -> Fit:
    """Return a rival of one table: a pipeline of these steps."""

    def fit(views: list[Array], y: Array) -> Callable[[list[Array]], Array]:
        model = make_pipeline(*steps).fit(np.hstack(views), y)
        return lambda given: np.asarray(model.predict(np.hstack(given)))

    return fit


def classifiers(n_jobs: int, seed: int) -> dict[str, Fit]:
    neighbours = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3, 5, 9, 15]}, cv=5)
    machine = GridSearchCV(SVC(), {"C": [1, 10, 100]}, cv=3)
    scale, mean, near = StandardScaler(), SimpleImputer(), KNNImputer()
    return {
        "kNN, mean imputed": side_by_side(scale, mean, neighbours),
        "kNN, KNNImputer": side_by_side(scale, near, neighbours),
        "SVM, mean imputed": side_by_side(scale, mean, machine),
        "SVM, KNNImputer": side_by_side(scale, near, machine),
        "gradient boosting, NaN": side_by_side(HistGradientBoostingClassifier(random_state=0)),
        "CoupledClassifier": coupled(n_jobs, seed),
    }


def run_digits(data: Path | None, n_seeds: int, n_jobs: int) -> dict[str, Any]:
    """Print and return accuracies of all classifiers, where nothing, views or entries are missing."""
    name, views, y = load_six_views(data)
    kinds = ("nothing", "views", "entries")
    found: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in range(n_seeds):
        train, test = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, stratify=y, random_state=seed)
        for kind in kinds:
            given = lose(views, kind, seed)
            for method, fit in classifiers(n_jobs, seed).items():
                began = time.perf_counter()
                predict = fit([view[train] for view in given], y[train])
                right = np.mean(predict([view[test] for view in given]) == y[test])
                found.setdefault(method, {}).setdefault(kind, []).append(100 * float(right))
                if kind == "views":
                    seconds.setdefault(method, []).append(time.perf_counter() - began)
        print(f"split {seed + 1} of {n_seeds}", file=sys.stderr, flush=True)
    rows = []
    for method, of in found.items():
        cells = [f"{np.mean(of[kind]):.2f} +- {np.std(of[kind]):.2f}" for kind in kinds]
        rows.append([method, *cells, duration(float(np.median(seconds[method])))])
    print(f"\n{name}; accuracy in per cent, mean and spread of {n_seeds} splits and patterns; {SHARE:.0%} missing")
    print(table(["", *(f"{kind} missing" for kind in kinds), "time, views"], rows), flush=True)
    return {"data": name, "accuracy": found}


def semi_pair(problem: Problem, seed: int) -> tuple[Array, list[Array]]:
    """Return the numbers of samples that keep both views, and views of which the other samples have one each."""
    n = len(problem.train_labels)
    order = np.random.default_rng(seed).permutation(n)
    pairs, rest = order[: int(PAIRED * n)], order[int(PAIRED * n) :]
    first, second = (np.array(view, np.float64) for view in problem.train)
    first[rest[::2]], second[rest[1::2]] = np.nan, np.nan
    return pairs, [first, second]


def run_wiki(data: Path | None, n_seeds: int, n_jobs: int) -> list[dict[str, Any]]:
    """Print and return mAP and reciprocal ranks of matching from pairs alone, from all samples, and from all pairs."""
    folder = find_wiki(data)
    problems = [load_halves(2)] if folder is None else [load_wiki(folder), load_halves(2)]
    results: list[dict[str, Any]] = []
    for problem in problems:
        for labelled in (False, True):
            found: dict[str, list[list[float]]] = {}
            for seed in range(n_seeds):
                pairs, gaps = semi_pair(problem, seed)
                y = problem.train_labels if labelled else None
                cases = {
                    "paired fifth only": ([view[pairs] for view in problem.train], None if y is None else y[pairs]),
                    "a fifth paired, the rest not": (gaps, y),
                    "all paired": (problem.train, y),
                }
                for name, (views, labels) in cases.items():
                    matcher = CrossModalMatcher(missing="nan", n_jobs=n_jobs, random_state=seed).fit(views, labels)
                    values = measures(matcher.similarity(*problem.test), problem.test_labels)
                    found.setdefault(name, []).append([float(values[2]), float(values[4])])
            rows = []
            for name, draws in found.items():
                means, spreads = np.mean(draws, axis=0), np.std(draws, axis=0)
                rows.append([name, *(f"{m:.3f} +- {s:.3f}" for m, s in zip(means, spreads, strict=True))])
            print(f"\n{problem.name}, {'with' if labelled else 'without'} labels, {n_seeds} draws")
            print(table(["", "mAP", "MRR"], rows), flush=True)
            results.append({"data": problem.name, "labelled": labelled, "map_and_mrr": found})
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Recognition and matching with missing views and entries.")
    parser.add_argument("--data", metavar="DIR", help="folder of the data (else COUPLEDICT_DATA, else digits only)")
    parser.add_argument("--parts", default="digits,wiki", help="parts to run (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="splits and patterns (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="threads of our own (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to this file")
    options = parser.parse_args(arguments)
    data = data_directory(options.data)
    if data is None:
        print("Neither --data nor COUPLEDICT_DATA is set: scikit-learn's digits stand in for both data sets.")
    parts = {"digits": run_digits, "wiki": run_wiki}
    found = {part: parts[part](data, options.seeds, options.jobs) for part in options.parts.split(",")}
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
