"""Recognition beside rivals: in another domain than that of the labels, and matching of pictures and text.

Run ``python benchmarks/recognition.py --data DIR`` from the root of the project; DIR (else COUPLEDICT_DATA) has a
folder ``wiki`` with the features of Rasiwasia et al. (2010). Without it there are the data sets of scikit-learn only.
``--parts`` chooses: ``domain`` (labels in one view, samples in another), ``wiki`` (matching). Classification in the
domain of the labels is in ``benchmarks/classifiers.py``, speech in ``benchmarks/speech.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import _recognition_domain
import _recognition_wiki

from coupledict.experiments.sources import data_directory

PARTS: dict[str, Callable[..., None]] = {
    "domain": _recognition_domain.run,
    "wiki": _recognition_wiki.run,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description="Recognition beside rivals.")
    parser.add_argument("--data", metavar="DIR", help="folder of the data (else COUPLEDICT_DATA, else bundled data)")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to run, separated by commas (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="threads of coupledict (%(default)s)")
    parser.add_argument("--splits", type=int, default=5, help="random splits (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="repeats of what is random, in matching (%(default)s)")
    options = parser.parse_args(arguments)
    parts = options.parts.split(",")
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        parser.error(f"Expected --parts to be some of {', '.join(PARTS)}, got {', '.join(unknown)}.")
    data = data_directory(options.data)
    for part in parts:
        print(f"\n== {part}", flush=True)
        PARTS[part](data, options)


if __name__ == "__main__":
    main()
