"""Classifiers on eight data sets of different kinds, beside rivals whose settings are chosen with care.

Run ``python benchmarks/classifiers.py --data DIR --cache FILE.json`` from the root of the project, with the group
``bench`` installed. Runs that are on record in FILE are not done again; ``--again ours`` does those of this project
again. ``--table FILE`` tries data of your own: ``.csv`` whose last column is the label, or ``.npz`` with X and y.

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
from collections.abc import Sequence
from pathlib import Path

from _classifiers_data import SETS, Problem, load_table
from _classifiers_methods import METHODS
from _classifiers_report import Figures, print_report
from _classifiers_runs import Record, run_all

from coupledict.experiments.machine import machine
from coupledict.experiments.sources import data_directory

OURS = [method.name for method in METHODS if method.own]
VERSIONS = ("coupledict", "numpy", "scipy", "scikit-learn", "scikit-image", "dictlearn", "chemotools", "statsmodels")


def load_problems(options: argparse.Namespace) -> dict[str, Problem]:
    """Return the data sets that were asked for, and are there."""
    names = options.sets.split(",") if options.sets else [] if options.table else list(SETS)
    unknown = sorted(set(names) - set(SETS))
    if unknown:
        raise SystemExit(f"Expected --sets to be some of {', '.join(SETS)}, got {', '.join(unknown)}.")
    loaded = {name: SETS[name](data_directory(options.data)) for name in names}
    for name, problem in loaded.items():
        if problem is None:
            print(f"Neither --data nor COUPLEDICT_DATA is set: no {name}.")
    found = {name: problem for name, problem in loaded.items() if problem is not None}
    return found | {Path(file).stem: load_table(Path(file)) for file in options.table}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description="Classifiers beside rivals.")
    parser.add_argument("--data", metavar="DIR", help="folder of the data (else COUPLEDICT_DATA, else bundled data)")
    parser.add_argument("--sets", help=f"data sets, separated by commas ({','.join(SETS)})")
    parser.add_argument("--methods", help="methods, separated by semicolons (all); 'ours' and 'rivals' are short names")
    parser.add_argument(
        "--table", metavar="FILE", action="append", default=[], help="a data set of your own, repeatable"
    )
    parser.add_argument("--splits", type=int, default=5, help="random splits (%(default)s)")
    parser.add_argument("--cache", metavar="FILE", type=Path, help="keep outcomes in this JSON file")
    parser.add_argument("--again", help="methods that are run again although they are on record, as in --methods")
    options = parser.parse_args(arguments)
    short = {"ours": OURS, "rivals": [method.name for method in METHODS if not method.own]}

    def listed(text: str | None, default: list[str]) -> list[str]:
        names = [one for name in text.split(";") for one in short.get(name, [name])] if text else default
        unknown = sorted(set(names) - {method.name for method in METHODS})
        if unknown:
            parser.error(f"Expected methods to be some of {'; '.join(m.name for m in METHODS)}, got {unknown}.")
        return names

    chosen = listed(options.methods, [method.name for method in METHODS])
    again = listed(options.again, [])
    problems = load_problems(options)
    methods = [method for method in METHODS if method.name in chosen]
    record = Record(options.cache)
    run_all(problems, methods, options.splits, record, again)
    described = machine(VERSIONS)
    print(described["cpu"], described["versions"])
    print_report(Figures(problems, methods, options.splits, record))


if __name__ == "__main__":
    main()
