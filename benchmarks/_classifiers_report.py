"""Tables of the benchmark of classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from _classifiers_methods import METHODS
from _classifiers_runs import Outcome
from _data import Array
from _main import duration, join, table
from scipy.stats import rankdata

REFERENCE = "ridge"


class Figures:
    """Outcomes as arrays over splits, by data set and method."""

    def __init__(self, results: Mapping[str, list[Outcome]]) -> None:
        self._outcomes = {tuple(case.split("; ", 1)): found for case, found in results.items()}
        self.problems = list(dict.fromkeys(name for name, _ in self._outcomes))
        tried = {method for _, method in self._outcomes}
        self.methods = [method for method in METHODS if method.name in tried]

    def of(self, name: str, method: str, key: str) -> Array | None:
        """Return a figure for each split, or None where it was not measured."""
        found = self._outcomes.get((name, method), [])
        values = [outcome[key] for outcome in found if key in outcome]
        return np.array(values) if values and len(values) == len(found) else None

    def cells(self, key: str, write: Callable[[Array], str]) -> list[list[str]]:
        """Return a row of cells for each method."""
        rows = []
        for method in self.methods:
            values = [self.of(name, method.name, key) for name in self.problems]
            if any(value is not None for value in values):
                rows.append([method.name, *("-" if value is None else write(value) for value in values)])
        return rows

    def choices(self) -> list[list[str]]:
        """Return what our methods chose by themselves in the first split."""
        rows = []
        for method in (method for method in self.methods if method.own):
            for name in self.problems:
                for outcome in self._outcomes.get((name, method.name), [])[:1]:
                    chosen = outcome.get("chosen", {})
                    rows.append([method.name, name, ", ".join(f"{k} {v}" for k, v in chosen.items())])
        return rows

    def ranks(self) -> dict[str, float]:
        """Return the mean rank of each method that is ranked and was tried on every set; 1 is best."""
        means: dict[str, list[float]] = {}
        for method in (method for method in self.methods if method.ranked):
            values = [self.of(name, method.name, "accuracy") for name in self.problems]
            known = [float(value.mean()) for value in values if value is not None]
            if len(known) == len(values):
                means[method.name] = known
        columns = zip(*means.values(), strict=True)
        ranks = np.mean([rankdata(-np.round(column, 10)) for column in columns], axis=0)
        return dict(zip(means, map(float, np.atleast_1d(ranks)), strict=True)) if means else {}

    def against_reference(self) -> list[list[str]]:
        """Return for each method the paired differences to ridge, and on how many sets it wins, ties and loses."""
        rows = []
        for method in (method for method in self.methods if method.name != REFERENCE):
            cells, verdicts = [], []
            for name in self.problems:
                theirs, base = (self.of(name, own, "accuracy") for own in (method.name, REFERENCE))
                if theirs is None or base is None:
                    cells.append("-")
                    continue
                gain = 100 * (theirs - base)
                verdicts.append(0 if abs(gain.mean()) <= gain.std() else int(np.sign(gain.mean())))
                cells.append(f"{gain.mean():+.1f} +- {gain.std():.1f}")
            if not verdicts:
                continue
            counts = "/".join(str(verdicts.count(verdict)) for verdict in (1, 0, -1))
            rows.append([method.name, *cells, counts])
        return rows


def tables(results: Mapping[str, list[Outcome]]) -> str:
    """Return all tables."""
    figures = Figures(results)
    headers, ranks = ["", *figures.problems], figures.ranks()
    rows = figures.cells("accuracy", lambda values: f"{100 * values.mean():.1f} +- {100 * values.std():.1f}")
    ranked = [[*row, f"{ranks[row[0]]:.2f}" if row[0] in ranks else "-"] for row in rows]
    splits = len(next(iter(results.values())))

    def median(values: Array) -> str:
        return duration(float(np.median(values)))

    return join(
        f"Accuracy in per cent, mean and spread of {splits} splits, and mean rank over the data sets",
        table([*headers, "rank"], ranked),
        f"Accuracy less that of {REFERENCE} on the same split, in per cent, mean and spread; on how many sets it is"
        " above, within, below the spread",
        table([*headers, "won/tied/lost"], figures.against_reference()),
        "What was chosen in the first split",
        table(["", "data set", "chosen"], figures.choices(), left=3),
        "Brier score, 0 to 2",
        table(headers, figures.cells("brier", lambda values: f"{values.mean():.3f}")),
        "Log loss",
        table(headers, figures.cells("log_loss", lambda values: f"{values.mean():.3f}")),
        "Processor time to fit, choice of settings included; medians",
        table(headers, figures.cells("fit", median)),
        "Processor time to classify the test part; medians",
        table(headers, figures.cells("predict", median)),
    )
