"""Recognition and matching where samples lack views or entries, beside rivals in one run.

`digits`: six views of 2,000 handwritten digits (folder ``multifeature`` of DIR), of which each is absent with
probability 0.3 in training and test samples, at least one kept; and the same with 30 % of the entries missing. Rivals
see standardised features side by side: nearest neighbours after imputation, their number chosen by cross-validation on
the training part; a support vector machine after the same imputation, its penalty chosen likewise; and gradient
boosting, which takes NaN as it is. `CoupledClassifier(missing="nan")` is as it comes. Its head was chosen on other
data: scikit-learn's digits cut into views in three ways, wine, breast cancer and planted classes.

`wiki`: a fifth of the training articles keep picture and text (folder ``wiki``), of the others half lose the one and
half the other. Matching learned from the pairs alone stands beside matching learned from all.

Without data, scikit-learn's digits in quarters stand in for the first, and their halves for the second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _main import Options, add_choice, duration, join, main, table
from _recognition_wiki import Problem, find_wiki, load_halves, load_wiki, measures
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from coupledict.classification import CoupledClassifier
from coupledict.matching import CrossModalMatcher

SHARE, TEST_SHARE, PAIRED = 0.3, 0.3, 0.2
KINDS = ("nothing", "views", "entries")
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


def lose(views: Sequence[Array], what: str, seed: int, *, share: float = SHARE) -> list[Array]:
    """Return views with NaN for a share that samples lack: of ``"nothing"``, ``"views"`` or ``"entries"``."""
    rng = np.random.default_rng(seed)
    n = len(views[0])
    if what == "nothing":
        return list(views)
    if what == "entries":
        return [np.where(rng.random(view.shape) < share, np.nan, view) for view in views]
    gone = rng.random((n, len(views))) < share
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


def run_digits(kind: str, options: Options) -> dict[str, Any]:
    """Return accuracies and seconds of all classifiers, where nothing, views or entries are missing."""
    name, views, y = load_six_views(None if options.quick else options.data)
    found: dict[str, dict[str, list[float]]] = {}
    for seed in range(options.repeats):
        train, test = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, stratify=y, random_state=seed)
        if options.quick:
            train, test = train[:100], test[:100]
        given = lose(views, kind, seed)
        for method, fit in classifiers(options.jobs, seed).items():
            began = time.perf_counter()
            predict = fit([view[train] for view in given], y[train])
            right = np.mean(predict([view[test] for view in given]) == y[test])
            own = found.setdefault(method, {"accuracy": [], "seconds": []})
            own["accuracy"].append(100 * float(right))
            own["seconds"].append(time.perf_counter() - began)
    return {"data": name, "methods": found}


def tell_digits(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    """Return a table of all kinds."""
    first = next(iter(results.values()))
    rows = []
    for method in first["methods"]:
        accuracies = [found["methods"][method]["accuracy"] for found in results.values()]
        cells = [f"{np.mean(own):.2f} +- {np.std(own):.2f}" for own in accuracies]
        views = results["views"]["methods"][method]["seconds"]
        rows.append([method, *cells, duration(float(np.median(views)))])
    return join(
        f"{first['data']}; accuracy in per cent, mean and spread of {options.repeats} splits and patterns;"
        f" {SHARE:.0%} missing",
        table(["", *(f"{kind} missing" for kind in results), "time, views"], rows),
    )


def semi_pair(problem: Problem, seed: int) -> tuple[Array, list[Array]]:
    """Return the numbers of samples that keep both views, and views of which the other samples have one each."""
    n = len(problem.train_labels)
    order = np.random.default_rng(seed).permutation(n)
    pairs, rest = order[: int(PAIRED * n)], order[int(PAIRED * n) :]
    first, second = (np.array(view, np.float64) for view in problem.train)
    first[rest[::2]], second[rest[1::2]] = np.nan, np.nan
    return pairs, [first, second]


def run_wiki(problem: Problem, labelled: bool, options: Options) -> dict[str, list[list[float]]]:
    """Return mAP and reciprocal ranks of matching from pairs alone, from all samples, and from all pairs."""
    found: dict[str, list[list[float]]] = {}
    for seed in range(options.repeats):
        pairs, gaps = semi_pair(problem, seed)
        y = problem.train_labels if labelled else None
        ways = {
            "paired fifth only": ([view[pairs] for view in problem.train], None if y is None else y[pairs]),
            "a fifth paired, the rest not": (gaps, y),
            "all paired": (problem.train, y),
        }
        for name, (views, labels) in ways.items():
            matcher = CrossModalMatcher(missing="nan", n_jobs=options.jobs, random_state=seed).fit(views, labels)
            values = measures(matcher.similarity(*problem.test), problem.test_labels)
            found.setdefault(name, []).append([float(values[2]), float(values[4])])
    return found


def tell_wiki(title: str, found: dict[str, list[list[float]]], options: Options) -> str:
    """Return a table of one data set."""
    rows = []
    for name, draws in found.items():
        means, spreads = np.mean(draws, axis=0), np.std(draws, axis=0)
        rows.append([name, *(f"{m:.3f} +- {s:.3f}" for m, s in zip(means, spreads, strict=True))])
    return join(f"{title}, {options.repeats} draws", table(["", "mAP", "MRR"], rows))


def cases(options: Options) -> dict[str, str | tuple[Problem, bool]]:
    """Return what is missing in digits, and problems of matching with and without labels."""
    if options.data is None:
        options.note("Neither --data nor COUPLEDICT_DATA is set: scikit-learn's digits stand in for both data sets.")
    found: dict[str, str | tuple[Problem, bool]] = {}
    if "digits" in options.parts:
        found |= {f"digits: {kind}": kind for kind in KINDS}
    if "wiki" in options.parts:
        folder = find_wiki(options.data)
        problems = [load_halves(2)] if folder is None else [load_wiki(folder), load_halves(2)]
        if options.quick:
            last = problems[-1]
            problems = [replace(last, train=[X[:300] for X in last.train], train_labels=last.train_labels[:300])]
        for problem in problems:
            for labelled in (False, True):
                title = f"{problem.name}, {'with' if labelled else 'without'} labels"
                found[f"wiki: {title}"] = problem, labelled
    return found


def run(case: str | tuple[Problem, bool], options: Options) -> dict[str, Any]:
    """Return accuracies, or mAP and reciprocal ranks."""
    return run_digits(case, options) if isinstance(case, str) else run_wiki(*case, options)


def report(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    digits = {case.removeprefix("digits: "): found for case, found in results.items() if case.startswith("digits: ")}
    blocks = [tell_digits(digits, options)] if digits else []
    wiki = {case.removeprefix("wiki: "): found for case, found in results.items() if case.startswith("wiki: ")}
    return join(*blocks, *(tell_wiki(title, found, options) for title, found in wiki.items()))


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", ("digits", "wiki"))
    parser.add_argument("--jobs", type=int, default=1, help="threads of our own (%(default)s)")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with multifeature and wiki; scikit-learn's digits stand in",
        repeats=(5, "splits and patterns of what is missing"),
        extend=extend,
        quick={"repeats": 1},
    )
