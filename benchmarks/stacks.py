"""Focus stacks as photographers bring them: quality, halos, alignment, speed and memory, beside rivals.

Run ``python benchmarks/stacks.py`` from the root of the project, with the parts wanted:

- ``quality``: PSNR of synthetic stacks with known truth (`_stacks_scenes.py` tells how they are made), aligned and
  moved (1 % of breathing a step, shifts to 3 px, turns to 0.2 degrees, exposure +-3 %), with noise 0, 5 and 15;
- ``quick``: the same without fitting pictures to the truth, beside rivals on aligned stacks only; not by default;
- ``halos``: errors within 20 px of edges in front of a background that no source focuses;
- ``alignment``: errors of the corners over motions, blurs and noise, and whether aligned stacks are left alone;
- ``ablation``: what the dictionary adds to simpler measures of focus;
- ``speed``: CPU seconds per megapixel and picture, threads, and memory over the number of pictures;
- ``real``: the stacks pcb and flies, fused into --output by everyone, with crops at 100 % side by side (needs --data);
- ``lytro``: the Lytro pairs, which are aligned but for a few: what alignment does to them (needs --data).

Settings were chosen on ``--set tune`` (photographs of scikit-image); figures are reported on ``--set report`` (Set14).

Every picture is scored alike, in its own frame: the truth is warped to it by an affine transform that ECC finds, and
each channel is scaled to fit, so that a rival that aligns to another source or crops loses nothing by it; "as it is" is
the score without that. Rivals that are not installed are left out, and it is said (`_stacks_rivals.py` lists them).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _stacks_drawing import cv2
from _stacks_quality import Plan, ablation, alignment, halos, quality
from _stacks_quick import quick
from _stacks_real import lytro, real
from _stacks_rivals import Fuse, rivals
from _stacks_scenes import KINDS, photographs
from _stacks_speed import child, speed

from coupledict.experiments.sources import data_directory

PARTS = ("quality", "halos", "alignment", "ablation", "speed", "real", "lytro")
MORE = ("quick",)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the fusion of focus stacks.")
    parts = ", ".join(PARTS + MORE)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {parts} (default: all but the last)")
    parser.add_argument("--data", metavar="DIR", help="folder with sr, stacks and lytro (else COUPLEDICT_DATA)")
    parser.add_argument("--set", choices=("tune", "report"), default="report", help="photographs (default: report)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of scenes (default: all)")
    parser.add_argument("--noises", nargs="+", type=float, default=(0.0, 5.0, 15.0), help="(default: 0 5 15)")
    parser.add_argument("--n", type=int, default=5, help="sources of a synthetic stack (default: 5)")
    parser.add_argument("--rivals", nargs="*", metavar="NAME", help="(default: all that are installed)")
    parser.add_argument("--threads", type=int, default=1, help="of ours, where time is not measured (default: 1)")
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="folder that keeps synthetic stacks (else a temporary one)"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder for pictures of real stacks")
    parser.add_argument("--child", metavar="JSON", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS + MORE):
        parser.error(f"expected parts of {parts}, got {', '.join(sorted(unknown))}")
    return arguments


def main() -> None:
    """Run the parts that are wanted."""
    arguments = _arguments()
    if arguments.child:
        child(json.loads(arguments.child))
        return
    wanted = arguments.parts or PARTS
    data = data_directory(arguments.data)
    found, words = rivals()
    if arguments.rivals is not None:
        words += [f"{name} is left out: there is no such rival here." for name in set(arguments.rivals) - set(found)]
        found = {name: fuse for name, fuse in found.items() if name in arguments.rivals}
    cv2.setNumThreads(arguments.threads)
    print("\n".join([*words, photographs(arguments.set, data)[1]]), end="\n\n")
    with tempfile.TemporaryDirectory() as folder:
        cache = arguments.cache or Path(folder)
        plan = Plan(arguments.set, data, tuple(arguments.kinds), arguments.n, cache, arguments.threads)
        _run(wanted, plan, found, arguments)


def _run(wanted: Sequence[str], plan: Plan, found: dict[str, Fuse], arguments: argparse.Namespace) -> None:
    if "quality" in wanted:
        quality(plan, found, arguments.noises)
    if "quick" in wanted:
        quick(plan, found, arguments.noises)
    if "halos" in wanted:
        halos(plan, found, arguments.noises)
    if "alignment" in wanted:
        alignment(plan, arguments.noises)
    if "ablation" in wanted:
        ablation(plan, arguments.noises)
    if "speed" in wanted:
        speed(plan.data, found)
    for name, run in (("real", real), ("lytro", lytro)):
        if name in wanted and plan.data is None:
            print(f"{name}: left out, as neither --data nor COUPLEDICT_DATA is set.\n")
        elif name in wanted and plan.data is not None:
            run(plan.data, found, arguments.output)


if __name__ == "__main__":
    main()
