"""Classification beside rivals: handwritten digits, other data sets of scikit-learn, and Wikipedia features.

Every split has a training, a validation and a test part (50, 20 and 30 per cent, classes in proportion). Each method is
fitted to the training part with every setting of its grid; the one that is best on the validation part is fitted to
both, and the test part is touched once. `CoupledClassifier` as it comes has no grid; its defaults were chosen with
other splits of these data sets in sight.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _recognition_wiki import find_wiki, load_wiki
from _timing import Entry, duration, measure, table
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier

Make = Callable[..., Any]


@dataclass(frozen=True)
class Method:
    """A name, a function of training size, number of classes and a setting that makes a classifier, and its grid."""

    name: str
    make: Callable[..., Any]
    grid: list[dict[str, Any]]


def grid(**choices: Iterable[Any]) -> list[dict[str, Any]]:
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


SCALINGS: dict[str, Make] = {"own": StandardScaler, "unit": Normalizer, "none": FunctionTransformer}


def scaled(make: Make) -> Callable[..., Any]:
    """Return a maker of classifiers that see features standardised, at norm 1 or as they are."""

    def made(n: int, n_classes: int, *, scaling: str, **setting: Any) -> Any:
        return Pipeline([("scaling", SCALINGS[scaling]()), ("classifier", make(**setting))])

    return made


def dictlearn_methods() -> list[Method]:
    """Return the classifiers of dictlearn, where it is installed; atoms follow the number of samples."""
    try:
        from dictlearn.classification import DDLClassifier, DPLClassifier, LCDLClassifier
    except ImportError:
        print("dictlearn is not installed: its rows are missing.")
        return []

    def by_share(cls: Make, n: int, n_classes: int, *, scaling: str, samples_per_atom: int, **setting: Any) -> Any:
        per_class = cls is LCDLClassifier
        n_components = max(2, n // samples_per_atom // (n_classes if per_class else 1))
        classifier = cls(n_components, n_nonzero_coefs=4, init_method="trained", random_state=0, **setting)
        return Pipeline([("scaling", SCALINGS[scaling]()), ("classifier", classifier)])

    common: dict[str, Any] = {"scaling": ("own", "unit"), "samples_per_atom": (5,)}
    return [
        Method("D-KSVD, dictlearn", partial(by_share, DDLClassifier), grid(**common, alpha=(0.1, 1.0))),
        Method("LC-KSVD, dictlearn", partial(by_share, LCDLClassifier), grid(**common, beta=(0.1, 1.0))),
        Method(
            "DPL, dictlearn",
            scaled(partial(DPLClassifier, random_state=0)),
            grid(scaling=("own", "unit"), n_components=(5, 15), theta=(0.003, 0.03)),
        ),
    ]


def coupled(n_jobs: int, **fixed: Any) -> Callable[..., Any]:
    def made(n: int, n_classes: int, *, samples_per_atom: int | None = None, **setting: Any) -> Any:
        n_components = None if samples_per_atom is None else max(2 * n_classes, n // samples_per_atom)
        return CoupledClassifier(n_components, n_jobs=n_jobs, random_state=0, **fixed | setting)

    return made


def residuals(n_jobs: int, atoms: Any) -> Callable[..., Any]:
    def made(n: int, n_classes: int, **setting: Any) -> Any:
        return SparseRepresentationClassifier(atoms, n_jobs=n_jobs, random_state=0, **setting)

    return made


def all_methods(n_jobs: int) -> list[Method]:
    scalings = ("own", "unit", "none")
    tuned = grid(samples_per_atom=(4, 6, 12), n_nonzero_coefs=(2, 4, 8))
    return [
        Method("ridge", scaled(RidgeClassifier), grid(scaling=scalings, alpha=(0.01, 1.0, 100.0))),
        Method("linear SVM", scaled(partial(LinearSVC, max_iter=5000)), grid(scaling=scalings, C=(0.01, 0.1, 1.0))),
        Method("SVM with Gaussian kernel", scaled(SVC), grid(scaling=scalings, C=(1.0, 10.0, 100.0))),
        Method("kNN", scaled(KNeighborsClassifier), grid(scaling=scalings, n_neighbors=(1, 3, 5, 9))),
        *dictlearn_methods(),
        Method("SRC, samples", residuals(n_jobs, "samples"), grid(n_nonzero_coefs=(2, 4, 8))),
        Method("SRC, one dictionary per class", residuals(n_jobs, "learned"), grid(n_nonzero_coefs=(2, 4, 8))),
        Method("CoupledClassifier, one dictionary", coupled(n_jobs, n_dictionaries=1), [{}]),
        Method("CoupledClassifier", coupled(n_jobs), [{}]),
        Method("the same, LC-KSVD2", coupled(n_jobs, label_consistency=1.0), [{}]),
        Method("the same, settings chosen", coupled(n_jobs), tuned),
    ]


def load_tables(data: Path | None) -> dict[str, tuple[Array, Array]]:
    """Return features and labels by name, digits first."""
    tables = {name: getattr(datasets, f"load_{name}")() for name in ("digits", "wine", "breast_cancer", "iris")}
    found = {name: (table.data, table.target) for name, table in tables.items()}
    found["made"] = datasets.make_classification(
        1500, 40, n_informative=12, n_classes=5, class_sep=1.5, flip_y=0, random_state=1
    )
    folder = find_wiki(data)
    if folder is None:
        print("Neither --data nor COUPLEDICT_DATA is set: no Wikipedia features.")
    else:
        wiki = load_wiki(folder)
        for name, train, test in zip(("Wikipedia pictures", "Wikipedia text"), wiki.train, wiki.test, strict=True):
            found[name] = np.vstack([train, test]), np.concatenate([wiki.train_labels, wiki.test_labels])
    return found


def three_parts(y: Array, seed: int) -> tuple[Array, Array, Array]:
    rows = np.arange(y.size)
    rest, test = train_test_split(rows, test_size=0.3, stratify=y, random_state=seed)
    train, held = train_test_split(rest, test_size=2 / 7, stratify=y[rest], random_state=seed)
    return train, held, test


def choose(method: Method, X: Array, y: Array, train: Array, held: Array) -> dict[str, Any]:
    """Return the setting that is best on the validation part."""
    if len(method.grid) == 1:
        return method.grid[0]
    n_classes = np.unique(y).size
    scores = [
        method.make(train.size, n_classes, **setting).fit(X[train], y[train]).score(X[held], y[held])
        for setting in method.grid
    ]
    return method.grid[int(np.argmax(scores))]


def accuracies(method: Method, X: Array, y: Array, seeds: Iterable[int]) -> tuple[list[float], Callable[[], Any]]:
    """Return the accuracy on the test part of each split, and the fit of the first as a function."""
    found, fits = [], []
    for seed in seeds:
        train, held, test = three_parts(y, seed)
        setting = choose(method, X, y, train, held)
        both = np.concatenate([train, held])
        make = partial(method.make, both.size, np.unique(y).size, **setting)
        found.append(float(make().fit(X[both], y[both]).score(X[test], y[test])))
        fits.append(lambda make=make, both=both: make().fit(X[both], y[both]))
    return found, fits[0]


def run(data: Path | None, options: argparse.Namespace) -> None:
    """Print accuracies on all data sets, and the times to fit digits."""
    tables = load_tables(data)
    if options.sets:
        tables = {name: tables[name] for name in options.sets.split(",")}
    methods = all_methods(options.jobs)
    seeds = range(1000, 1000 + options.splits)
    rows: dict[str, list[str]] = {method.name: [method.name] for method in methods}
    entries = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # dictlearn divides by norms of atoms that it lost
        for name, (X, y) in tables.items():
            for method in methods:
                found, fit = accuracies(method, X, y, seeds)
                rows[method.name].append(f"{100 * np.mean(found):.1f} +- {100 * np.std(found):.1f}")
                if name == "digits":
                    entries.append(Entry(method.name, fit, options.threads))
            print(f"({name} done)", flush=True)
        timings = measure(entries, repeats=options.repeats)
    for timing in timings:
        rows[timing.name].append(duration(timing.median))
    headers = ["", *tables, *(["fit digits"] if timings else [])]
    print(f"\nAccuracy in per cent, mean and spread of {options.splits} splits; medians of {options.repeats} fits")
    print(table(headers, list(rows.values())), flush=True)
