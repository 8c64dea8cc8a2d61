"""The lasso and non-negative codes and atoms, beside rivals in one run.

The parts (``--parts``) are:

`coding`: the lasso with and without negative coefficients, for patches of 8 x 8 and 16 x 16 pixels over 256 and 1,024
learned atoms and penalties that give about 5, 10 and 20 nonzeros; time and objective beside ``spams.lasso`` and
scikit-learn's ``lasso_lars``.

`pursuit`: non-negative OMP and OLS: their time beside the ordinary ones, and their error beside non-negative least
squares over the atoms that scikit-learn's OMP chose.

`online`: OnlineDictionaryLearning with the lasso beside ``spams.trainDL`` and ``MiniBatchDictionaryLearning``: the time
to a held-out objective. Settings are chosen on the first half of the Lytro images and reported on the second.

`stain`: the stains of a section under the microscope, told apart.

`unmixing`: spectra and abundances of the cubes Samson and Jasper Ridge (folder ``unmixing``), beside NMF and VCA.
Settings are chosen on one cube and reported on the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import _nonnegative_coding
import _nonnegative_online
import _nonnegative_pursuit
import _nonnegative_stain
import _nonnegative_unmixing
from _main import Options, add_choice, join, main
from _nonnegative_problems import HAS_SPAMS, NO_SPAMS

PARTS: dict[str, ModuleType] = {
    "coding": _nonnegative_coding,
    "pursuit": _nonnegative_pursuit,
    "online": _nonnegative_online,
    "stain": _nonnegative_stain,
    "unmixing": _nonnegative_unmixing,
}


def cases(options: Options) -> dict[str, ModuleType]:
    """Return the parts that were asked for."""
    if options.data is None:
        options.note("Neither --data nor COUPLEDICT_DATA is set: bundled photographs, no tiles and no cubes.")
    if not HAS_SPAMS:
        options.note(NO_SPAMS)
    return {part: PARTS[part] for part in options.parts}


def run(part: ModuleType, options: Options) -> Any:
    """Return what a part finds out."""
    return part.run(options)


def report(results: Mapping[str, Any], options: Options) -> str:
    return join(*(join(f"## {part}", PARTS[part].report(found)) for part, found in results.items() if found))


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", list(PARTS))


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with lytro, stain and unmixing; bundled photographs stand in for the first",
        repeats=(5, "timed runs of coding and stain, seeds of unmixing; pursuit has 7 runs, online 3 seeds"),
        extend=extend,
        quick={"repeats": 1},
    )
