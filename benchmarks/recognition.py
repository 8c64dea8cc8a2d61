"""Recognition beside rivals: in another domain than that of the labels, and matching of pictures and text.

The folder ``wiki`` of the data has the features of Rasiwasia et al. (2010). Without it there are the data sets of
scikit-learn only. The parts (``--parts``) are ``domain`` (labels in one view, samples in another) and ``wiki``
(matching). Classification in the domain of the labels is in ``benchmarks/classifiers.py``, speech in
``benchmarks/speech.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import _recognition_domain as domain
import _recognition_wiki as wiki
from _main import Options, add_choice, join, main

Case = tuple[Any, ...]


def cases(options: Options) -> dict[str, Case]:
    """Return views and labels of the part domain, problems with and without labels of the part wiki."""
    if options.data is None:
        options.note("Neither --data nor COUPLEDICT_DATA is set: digits only.")
    found: dict[str, Case] = {}
    if "domain" in options.parts:
        pairs = domain.load_pairs(options.data)
        found |= {f"domain: {name}": (domain, (first, second), y) for name, (first, second, y) in pairs.items()}
    if "wiki" in options.parts:
        for problem in wiki.problems(options.data):
            for labelled in (False, True):
                found[f"wiki: {problem.name}, {'with' if labelled else 'without'} labels"] = wiki, problem, labelled
    if options.quick:
        return {case: own for case, own in found.items() if case in ("domain: upper > lower", next(reversed(found)))}
    return found


def run(case: Case, options: Options) -> Any:
    """Return what the part finds out."""
    part, *given = case
    return part.run(*given, options)


def report(results: Mapping[str, Any], options: Options) -> str:
    blocks = []
    for name, part in (("domain", domain), ("wiki", wiki)):
        own = {case.removeprefix(f"{name}: "): found for case, found in results.items() if case.startswith(f"{name}: ")}
        if own:
            blocks += [f"## {name}", part.report(own, options)]
    return join(*blocks)


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", ("domain", "wiki"))
    parser.add_argument("--jobs", type=int, default=1, help="threads of coupledict (%(default)s)")
    parser.add_argument("--only", default="", help="methods of wiki to run, separated by semicolons (all)")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with wiki; without it there are digits only",
        repeats=(5, "random splits of domain, random states of wiki"),
        extend=extend,
        quick={"repeats": 1, "only": "one dictionary"},
    )
