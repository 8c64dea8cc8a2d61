"""Runs of the benchmark of classifiers: a method on a split of a data set, kept in a file so that it is done once."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _classifiers_data import Problem
from _classifiers_methods import Method, calibrate
from _data import Array
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from coupledict.experiments.machine import limit_threads

TEST_SHARE, FIRST_SEED = 0.3, 3000
SMALLEST = float(np.finfo(float).eps)  # a probability below it counts as this in the log loss
CHOSEN = ("n_components", "n_nonzero_coefs", "coding", "preprocess", "head_shares")

Outcome = dict[str, Any]


class Record:
    """Outcomes by data set, method and split, in a JSON file if there is one."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.outcomes: dict[str, Outcome] = json.loads(file.read_text()) if file is not None and file.exists() else {}

    def find(self, name: str, problem: Problem, method: Method, split: int) -> Outcome | None:
        """Return what is known of a run on these very data."""
        found = self.outcomes.get(f"{name}/{method.name}/{split}")
        return found if found is not None and found["data"] == problem.fingerprint else None

    def keep(self, name: str, problem: Problem, method: Method, split: int, outcome: Outcome) -> None:
        """Add a run, and write the file."""
        self.outcomes[f"{name}/{method.name}/{split}"] = outcome | {"data": problem.fingerprint}
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(json.dumps(self.outcomes, indent=1))


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the processor time it took, which other processes do not disturb much."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def score_probabilities(shares: Array, y: Array) -> Outcome:
    """Return Brier score (the sum over classes, 0 to 2) and log loss."""
    truth = np.eye(shares.shape[1])[y]
    likelihood = np.clip(shares[np.arange(len(y)), y], SMALLEST, 1)
    brier = np.mean(np.sum((shares - truth) ** 2, axis=1))
    return {"brier": float(brier), "log_loss": float(-np.mean(np.log(likelihood)))}


def chosen(classifier: Any) -> dict[str, str]:
    """Return the settings that a search found, or that one of our classifiers chose by itself."""
    if hasattr(classifier, "best_params_"):
        return {name: str(value) for name, value in classifier.best_params_.items()}
    values = {name: getattr(classifier, f"{name}_", None) for name in CHOSEN}
    written = {name: value for name, value in values.items() if value is not None}
    return {
        name: " ".join(f"{part} {share:.2f}" for part, share in value.items())
        if isinstance(value, dict)
        else str(value)
        for name, value in written.items()
    }


def run_split(problem: Problem, method: Method, split: int) -> Outcome:
    """Fit to the training part of a split and score the test part."""
    rows = np.arange(len(problem.y))
    train, test = train_test_split(rows, test_size=TEST_SHARE, stratify=problem.y, random_state=FIRST_SEED + split)

    def part(chosen: Array) -> Any:
        return [view[chosen] for view in problem.views] if method.views else problem.X[chosen]

    X, y, new = part(train), problem.y[train], part(test)
    classifier = method.make(replace(problem, X=problem.X[train], y=y))
    _, fitting = timed(lambda: classifier.fit(X, y))
    predicted, predicting = timed(lambda: classifier.predict(new))
    truth = problem.y[test]
    outcome: Outcome = {"accuracy": float(np.mean(predicted == truth)), "fit": fitting, "predict": predicting}
    outcome["chosen"] = chosen(classifier)
    if method.calibrated:
        classifier = calibrate(classifier, X, y)
    if hasattr(classifier, "predict_proba"):
        outcome |= score_probabilities(np.asarray(classifier.predict_proba(new), dtype=float), truth)
    return outcome


def run_splits(
    name: str, problem: Problem, method: Method, splits: int, record: Record, *, again: bool = False
) -> list[Outcome]:
    """Return the outcomes of all splits; those on record are not run again unless they are asked for."""
    outcomes = []
    with warnings.catch_warnings(), limit_threads(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # dictlearn divides by norms of atoms that it lost
        for split in range(splits):
            outcome = None if again else record.find(name, problem, method, split)
            if outcome is None:
                outcome = run_split(problem, method, split)
                record.keep(name, problem, method, split, outcome)
            outcomes.append(outcome)
    return outcomes
