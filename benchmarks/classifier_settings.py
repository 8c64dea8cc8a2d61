"""What the defaults of the classifiers were chosen by: accuracy, Brier score and time on data of many kinds.

The data ("tune") are made by `_classifier_settings_data.py`: clusters, surfaces under lamps,
subspaces, moons, rings, documents, spectra, tables, expressions, pen strokes, textures, letters, numerals, and, with
``--data``, voices and pixels seen from the air. None of them is reported in docs/recognition.md.

Chosen here: the four parts of a blend and that their shares maximise the likelihood of samples left out (least squares
gave codes too large a share where there are many classes); ten atoms for residuals; the grids of rates, penalties and
sparsities; ten atoms per class; how representations by samples choose. Rivals choose their settings by
cross-validation, as somebody careful would.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from _classifier_settings_data import Array, Split, all_sets
from _main import Options, add_choice, duration, join, main, table
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier

SCALERS = [StandardScaler(), "passthrough"]


class Machine(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A support vector machine with a Gaussian kernel whose scaling, width and C are chosen by cross-validation."""

    def fit(self, X: Array, y: Array) -> Machine:
        """Choose and fit."""
        large = len(X) > 3000
        self.best_: tuple[float, Any] = (-1.0, None)
        for scaler in SCALERS[:1] if large else SCALERS:
            scaled = X if scaler == "passthrough" else scaler.fit_transform(X)
            usual = 1 / (X.shape[1] * scaled.var())
            grid = {
                "svc__C": [3, 30] if large else [1, 10, 100],
                "svc__gamma": [factor * usual for factor in ((0.3, 1) if large else (0.2, 1, 3))],
            }
            search = GridSearchCV(make_pipeline(scaler, SVC()), grid, cv=3).fit(X, y)
            if search.best_score_ > self.best_[0]:
                self.best_ = search.best_score_, search.best_estimator_
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Array) -> Array:
        """Return the class of each sample."""
        return np.asarray(self.best_[1].predict(X))


def neighbours() -> Any:
    """Return nearest neighbours whose scaling and number are chosen by cross-validation."""
    grid = {"standardscaler": SCALERS, "kneighborsclassifier__n_neighbors": [1, 3, 5, 9, 15]}
    return GridSearchCV(make_pipeline(StandardScaler(), KNeighborsClassifier()), grid, cv=3)


def logistic() -> Any:
    """Return logistic regression whose penalty is chosen by cross-validation."""
    grid = {"logisticregression__C": [0.001, 0.01, 0.1, 1]}
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    return GridSearchCV(model, grid, cv=3, scoring="neg_log_loss")


def earlier(split: Split) -> Any:
    """Return the settings that were the default before: dictionaries decide alone, with four atoms per sample."""
    n_classes = np.unique(split.y).size
    n_components = max(min(split.y.size // 6, 512), 2 * n_classes)
    return CoupledClassifier(n_components, n_nonzero_coefs=4, head="codes+features", random_state=0)


METHODS: dict[str, Callable[[Split], Any]] = {
    "coupled": lambda split: CoupledClassifier(random_state=0),
    "coupled, before": earlier,
    "representation": lambda split: SparseRepresentationClassifier(),
    "representation, before": lambda split: SparseRepresentationClassifier(n_nonzero_coefs=4, coding="joint"),
    "ridge": lambda split: make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 4, 15))),
    "machine": lambda split: Machine(),
    "neighbours": lambda split: neighbours(),
    "logistic": lambda split: logistic(),
}


def judge(model: Any, split: Split) -> dict[str, float]:
    """Return accuracy, Brier score and mean negative log-likelihood where there are probabilities, and seconds."""
    began = time.perf_counter()
    model = clone(model).fit(split.X, split.y)
    found = {"seconds": time.perf_counter() - began}
    found["accuracy"] = float(np.mean(model.predict(split.new) == split.truth))
    if isinstance(model, CoupledClassifier | SparseRepresentationClassifier) or "LogisticRegression" in str(model):
        likely, right = model.predict_proba(split.new), split.truth[:, None] == model.classes_
        found["Brier"] = float(np.mean(np.sum((likely - right) ** 2, axis=1)))
        found["surprise"] = -float(np.mean(np.log(np.maximum(likely[right], 1e-15))))
    return found


Rows = dict[str, list[dict[str, float]]]  # method -> a row of figures for each split


def cases(options: Options) -> dict[str, Callable[[int], Split]]:
    """Return makers of splits, by data set."""
    sets = all_sets(options.data)
    if options.data is None:
        options.note("Neither --data nor COUPLEDICT_DATA is set: no voices, and no pixels seen from the air.")
    names = options.sets.split(";") if options.sets else list(sets)
    if unknown := sorted(set(names) - set(sets)):
        raise SystemExit(f"Expected --sets to be some of {'; '.join(sets)}, got {'; '.join(unknown)}.")
    return {name: sets[name] for name in (names[:1] if options.quick else names)}


def run(make: Callable[[int], Split], options: Options) -> dict[str, Any]:
    """Judge all methods on a data set."""
    splits = [make(seed) for seed in range(options.repeats)]
    rows: Rows = {}
    for method in options.methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
            rows[method] = [judge(METHODS[method](split), split) for split in splits]
    return {"shape": splits[0].X.shape, "n_classes": np.unique(splits[0].y).size, "rows": rows}


def report(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    blocks = []
    accuracies: dict[str, list[float]] = {method: [] for method in options.methods}
    for name, found in results.items():
        (n_samples, n_features), rows = found["shape"], []
        for method, own in found["rows"].items():
            means = {key: float(np.mean([row[key] for row in own])) for key in own[0]}
            accuracies[method].append(means["accuracy"])
            cells = [f"{means[key]:.3f}" if key in means else "-" for key in ("accuracy", "Brier", "surprise")]
            rows.append([method, *cells, duration(means["seconds"])])
        blocks.append(f"{name}: {n_samples} samples, {n_features} features, {found['n_classes']} classes")
        blocks.append(table(["", "accuracy", "Brier", "surprise", "fit"], rows))
    ranks = np.mean(
        [np.argsort(np.argsort([-own[i] for own in accuracies.values()])) + 1 for i in range(len(results))], axis=0
    )
    rows = [
        [method, f"{np.mean(own):.3f}", f"{rank:.1f}"]
        for (method, own), rank in zip(accuracies.items(), ranks, strict=True)
    ]
    return join(*blocks, "Means over all data sets", table(["", "accuracy", "rank"], rows))


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sets", default="", help="names of data sets, separated by semicolons (all)")
    add_choice(parser, "methods", list(METHODS), separator=";")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with speech/audiomnist and unmixing; without it these sets are left out",
        repeats=(3, "splits of each data set"),
        extend=extend,
        quick={"repeats": 1, "methods": ["coupled", "ridge"]},
    )
