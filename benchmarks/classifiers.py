"""Classifiers on eight data sets of different kinds, beside rivals whose settings are chosen with care.

It needs the group ``bench``. Runs that are on record in the file ``--cache`` are not done again; ``--again ours`` does
those of this project again. ``--table FILE`` tries data of your own: ``.csv`` whose last column is the label, or
``.npz`` with X and y.

The data sets were chosen and named before any result of them was known; text was made smaller later, because rivals
took too long. Figures are reported on these, and settings of ours are chosen on others
(``benchmarks/classifier_settings.py``). But for digits, wine and breast cancer: other splits of these three were in
sight when an earlier version got its five dictionaries, its atoms per sample and its constant coordinate.

- digits: scikit-learn's, 1,797 of 8 x 8 pixels, 10 classes;
- wine: 178 of 13 features, 3 classes;
- breast cancer: 569 of 30 features, 2 classes;
- multifeature: 2,000 handwritten digits described by 649 features in six views (folder ``multifeature`` of DIR), 10
  classes;
- text: 1,280 docstrings of SciPy, scikit-learn and scikit-image by tf-idf of 500 terms; the class is one of 32
  sub-packages, whose names are taken out: many classes and few samples;
- spectra: 60 infrared spectra of coffee at 1,841 wavenumbers, 3 countries (chemotools): more features than samples;
- faces: 200 pictures of 25 x 25 pixels, half of them faces (scikit-image): more features than samples;
- tabular: 6,366 answers to a questionnaire, 8 features, 2 classes that overlap much (Fair 1978, statsmodels).

Of five random splits each has 70 per cent to learn from and 30 to test, classes in proportion. Ridge, SVMs, nearest
neighbours and logistic regression choose their settings by cross-validation in three folds, DPL and D-KSVD on 30 per
cent that are held out, gradient boosting has scikit-learn's defaults, and ours are as they come. The terms of text and
their weights come from all documents, without their classes, for every method alike. Everything has one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from _classifiers_data import SETS, Problem, load_table
from _classifiers_methods import METHODS, Method
from _classifiers_report import tables
from _classifiers_runs import Outcome, Record, run_splits
from _main import Options, add_choice, main

NAMES = [method.name for method in METHODS]
SHORT = {
    "ours": [method.name for method in METHODS if method.own],
    "rivals": [method.name for method in METHODS if not method.own],
}


@cache
def load(name: str, data: Path | None) -> Problem | None:
    """Return a data set by its name, or a table by its file; None where it is not there."""
    return SETS[name](data) if name in SETS else load_table(Path(name))


def listed(names: list[str]) -> list[str]:
    """Return methods, with those that short names stand for."""
    return [one for name in names for one in SHORT.get(name, [name])]


def cases(options: Options) -> dict[str, tuple[str, Method]]:
    """Return data sets and methods."""
    found: dict[str, tuple[str, Method]] = {}
    for name in [*(options.sets or ([] if options.table else SETS)), *options.table]:
        problem = load(name, options.data)
        if problem is None:
            options.note(f"Neither --data nor COUPLEDICT_DATA is set: no {name}.")
            continue
        for method in METHODS:
            if method.name in listed(options.methods) and method.suits(problem):
                found[f"{Path(name).stem}; {method.name}"] = name, method
    return found


def run(case: tuple[str, Method], options: Options) -> list[Outcome]:
    """Return the outcome of each split, from the record where it is there."""
    name, method = case
    problem = load(name, options.data)
    assert problem is not None
    again = method.name in listed(options.again)
    return run_splits(Path(name).stem, problem, method, options.repeats, Record(options.cache), again=again)


def report(results: Mapping[str, list[Outcome]], options: Options) -> str:
    return tables(results)


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "sets", list(SETS))
    parser.set_defaults(sets=None)
    parser.add_argument(
        "--table", metavar="FILE", action="append", default=[], help="a data set of your own instead, repeatable"
    )
    add_choice(parser, "methods", [*NAMES, *SHORT], default=NAMES, separator=";")
    add_choice(parser, "again", [*NAMES, *SHORT], default=(), separator=";")
    parser.add_argument("--cache", metavar="FILE", type=Path, help="keep outcomes in this JSON file")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with multifeature; without it that set is left out",
        repeats=(5, "random splits"),
        extend=extend,
        quick={"repeats": 1, "sets": ["wine"], "methods": ["ours", "ridge"]},
    )
