"""Tables of the benchmark of classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from _classifiers_data import Problem
from _classifiers_methods import Method
from _classifiers_runs import Record
from _data import Array
from _timing import duration, table
from scipy.stats import rankdata

REFERENCE = "ridge"


class Figures:
    """What the record says, as arrays over splits."""

    def __init__(self, problems: dict[str, Problem], methods: Sequence[Method], splits: int, record: Record) -> None:
        self.problems, self.methods, self.splits, self.record = problems, methods, splits, record

    def of(self, name: str, method: Method, key: str) -> Array | None:
        """Return a figure for each split, or None where it was not measured."""
        found = [self.record.find(name, self.problems[name], method, split) for split in range(self.splits)]
        values = [outcome[key] for outcome in found if outcome is not None and key in outcome]
        return np.array(values) if len(values) == self.splits else None

    def cells(self, key: str, write: Callable[[Array, str], str]) -> list[list[str]]:
        """Return a row of cells for each method."""
        rows = []
        for method in self.methods:
            values = {name: self.of(name, method, key) for name in self.problems}
            if all(value is None for value in values.values()):
                continue
            rows.append([method.name, *("-" if v is None else write(v, name) for name, v in values.items())])
        return rows

    def choices(self) -> list[list[str]]:
        """Return what our methods chose by themselves in the first split."""
        rows = []
        for method in self.methods:
            for name in self.problems:
                found = self.record.find(name, self.problems[name], method, 0) if method.own else None
                if found is not None:
                    rows.append([method.name, name, ", ".join(f"{k} {v}" for k, v in found.get("chosen", {}).items())])
        return rows

    def ranks(self) -> dict[str, float]:
        """Return the mean rank of each method that is ranked and was tried on every set; 1 is best."""
        tried = [
            method
            for method in self.methods
            if method.ranked and all(self.of(name, method, "accuracy") is not None for name in self.problems)
        ]
        means = [[float(np.mean(self._known(name, method))) for method in tried] for name in self.problems]
        ranks = np.mean([rankdata(-np.round(row, 10)) for row in means], axis=0) if tried else []
        return {method.name: float(rank) for method, rank in zip(tried, ranks, strict=True)}

    def _known(self, name: str, method: Method) -> Array:
        values = self.of(name, method, "accuracy")
        assert values is not None
        return values

    def against_reference(self) -> list[list[str]]:
        """Return for each method the paired differences to ridge, and on how many sets it wins, ties and loses."""
        reference = next((method for method in self.methods if method.name == REFERENCE), None)
        if reference is None:
            return []
        rows = []
        for method in self.methods:
            if method is reference:
                continue
            cells, verdicts = [], []
            for name in self.problems:
                theirs, base = self.of(name, method, "accuracy"), self.of(name, reference, "accuracy")
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


def print_report(figures: Figures) -> None:
    """Print all tables."""
    headers = ["", *figures.problems]
    ranks = figures.ranks()

    def spread(values: Array, _: str) -> str:
        return f"{100 * values.mean():.1f} +- {100 * values.std():.1f}"

    rows = figures.cells("accuracy", spread)
    ranked = [[*row, f"{ranks[row[0]]:.2f}" if row[0] in ranks else "-"] for row in rows]
    print(f"\nAccuracy in per cent, mean and spread of {figures.splits} splits, and mean rank over the data sets")
    print(table([*headers, "rank"], ranked))
    print(
        f"\nAccuracy less that of {REFERENCE} on the same split, in per cent, mean and spread; on how many sets it is"
    )
    print("above, within, below the spread")
    print(table([*headers, "won/tied/lost"], figures.against_reference()))
    print("\nWhat was chosen in the first split")
    print(table(["", "data set", "chosen"], figures.choices(), left=3))
    print("\nBrier score, 0 to 2")
    print(table(headers, figures.cells("brier", lambda values, _: f"{values.mean():.3f}")))
    print("\nLog loss")
    print(table(headers, figures.cells("log_loss", lambda values, _: f"{values.mean():.3f}")))
    print("\nProcessor time to fit, choice of settings included; medians")
    print(table(headers, figures.cells("fit", lambda values, _: duration(float(np.median(values))))))
    print("\nProcessor time to classify the test part; medians")
    print(table(headers, figures.cells("predict", lambda values, _: duration(float(np.median(values))))), flush=True)
