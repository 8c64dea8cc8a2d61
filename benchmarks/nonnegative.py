"""The lasso and non-negative codes and atoms, beside rivals in one run.

Run ``python benchmarks/nonnegative.py --data DIR`` from the root of the project. Parts (``--parts``):

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
import importlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from coupledict.experiments.sources import data_directory

PARTS = ("coding", "pursuit", "online", "stain", "unmixing")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description="The lasso and non-negative codes and atoms, beside rivals.")
    parser.add_argument("--data", metavar="DIR", help="folder of the data (else COUPLEDICT_DATA, else bundled data)")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to run (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="few samples: to see that everything runs")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to this file")
    options = parser.parse_args(arguments)
    data = data_directory(options.data)
    if data is None:
        print("Neither --data nor COUPLEDICT_DATA is set: bundled photographs stand in, and cubes are left out.")
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"expected parts among {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    found = {}
    for part in parts:
        print(f"\n{part}", flush=True)
        began = time.perf_counter()
        found[part] = importlib.import_module(f"_nonnegative_{part}").run(data, quick=options.quick)
        print(f"({time.perf_counter() - began:.0f} s)", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
