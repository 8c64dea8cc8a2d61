"""Focus stacks as photographers bring them: quality, halos, alignment, speed and memory, beside rivals.

The parts (``--parts``) are:

- ``quality``: PSNR of synthetic stacks with known truth (`_stacks_scenes.py` tells how they are made), aligned and
  moved (1 % of breathing a step, shifts to 3 px, turns to 0.2 degrees, exposure +-3 %), with noise 0, 5 and 15;
- ``unfitted``: the same without fitting pictures to the truth, beside rivals on aligned stacks only; not by default;
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
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from _main import Options, add_choice, join, main
from _stacks_drawing import cv2
from _stacks_quality import (
    Plan,
    ablation,
    alignment,
    alignments,
    collect,
    halos,
    tell_ablation,
    tell_alignment,
    tell_halos,
    tell_quality,
    title_of,
)
from _stacks_real import STACKS, lytro, real, tell_lytro, tell_real
from _stacks_rivals import Fuse, rivals
from _stacks_scenes import KINDS, photographs
from _stacks_speed import MANY, SIDES, memory, speed, tell_memory, tell_speed
from _stacks_unfitted import tell_unfitted, unfitted

PARTS = ("quality", "halos", "alignment", "ablation", "speed", "real", "lytro")
MORE = ("unfitted",)


@cache
def temporary() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for synthetic stacks that goes when the program ends."""
    return tempfile.TemporaryDirectory()


def chosen_rivals(options: Options) -> dict[str, Fuse]:
    """Return the rivals that are asked for and installed."""
    found, words = rivals()
    if options.rivals is not None:
        words += [f"{name} is left out: there is no such rival here." for name in set(options.rivals) - set(found)]
        found = {name: fuse for name, fuse in found.items() if name in options.rivals}
    for word in words:
        options.note(word)
    return found


def cases(options: Options) -> dict[str, Callable[[], Any]]:
    """Return what is measured, by part and title."""
    cv2.setNumThreads(options.threads)
    options.note(photographs(options.set, options.data)[1])
    found = chosen_rivals(options)
    cache = options.cache or Path(temporary().name)
    plan = Plan(options.set, options.data, tuple(options.kinds), options.n, cache, options.threads)
    own: dict[str, Callable[[], Any]] = {}
    for motion in ("none", "moved"):
        for noise in options.noises:
            title = title_of(motion, noise)
            if "quality" in options.parts:
                own[f"quality: {title}"] = partial(collect, plan, found, motion, noise)
            if "halos" in options.parts:
                own[f"halos: {title}"] = partial(halos, plan, found, motion, noise)
            if "unfitted" in options.parts and motion == "none":
                own[f"unfitted: {title}"] = partial(unfitted, plan, found, motion, noise)
    if "unfitted" in options.parts:
        own["unfitted: moved, noise 0, ours"] = partial(unfitted, plan, found, "moved", 0)
    if "alignment" in options.parts:
        for setting in alignments(options.noises):
            title = "{}, blur to {:g} px, noise {:g}".format(*setting)
            own[f"alignment: {title}"] = partial(alignment, plan, *setting)
    if "ablation" in options.parts:
        own |= {f"ablation: noise {noise:g}": partial(ablation, plan, noise) for noise in options.noises}
    if "speed" in options.parts:
        own |= _speed_cases(options, ["coupledict", *found])
    for part in ("real", "lytro"):
        if part in options.parts and options.data is None:
            options.note(f"{part} is left out, as neither --data nor COUPLEDICT_DATA is set.")
    if "real" in options.parts and options.data is not None:
        own |= {f"real: {name}": partial(real, name, found, options) for name in STACKS}
    if "lytro" in options.parts and options.data is not None:
        own["lytro: pairs"] = partial(lytro, options)
    return own


def _speed_cases(options: Options, methods: list[str]) -> dict[str, Callable[[], Any]]:
    """Return stacks that are timed, and sizes of those whose memory is measured."""
    names = [str(size) for size in SIDES]
    if options.data is not None and any((options.data / "stacks" / "pcb").glob("*.jpg")):
        names.append("pcb")
    sizes = [*((3, n) for n in MANY), (12, MANY[0])]
    if options.quick:
        methods, names, sizes = methods[:2], names[:1], []
    own: dict[str, Callable[[], Any]] = {f"speed: {name}": partial(speed, name, methods, options) for name in names}
    for size, n in sizes:
        own[f"memory: {n} pictures of {size} MP"] = partial(memory, size, n)
    return own


def run(case: Callable[[], Any], options: Options) -> Any:
    """Return what a case finds out."""
    return case()


def report(results: Mapping[str, Any], options: Options) -> str:
    parts: dict[str, dict[str, Any]] = {}
    for case, found in results.items():
        part, title = case.split(": ", 1)
        parts.setdefault(part, {})[title] = found
    tell: dict[str, Callable[[dict[str, Any]], str]] = {
        "quality": tell_quality,
        "unfitted": tell_unfitted,
        "halos": tell_halos,
        "alignment": tell_alignment,
        "ablation": tell_ablation,
        "speed": partial(tell_speed, options=options),
        "memory": tell_memory,
        "real": lambda own: join(*(tell_real(name, rows) for name, rows in own.items())),
        "lytro": lambda own: tell_lytro(own["pairs"]),
    }
    return join(*(join(f"## {part}", tell[part](parts[part])) for part in tell if part in parts))


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", PARTS + MORE, default=PARTS)
    parser.add_argument("--set", choices=("tune", "report"), default="report", help="photographs (%(default)s)")
    add_choice(parser, "kinds", KINDS)
    parser.add_argument("--noises", nargs="+", type=float, default=(0.0, 5.0, 15.0), help="(0 5 15)")
    parser.add_argument("--n", type=int, default=5, help="sources of a synthetic stack (%(default)s)")
    parser.add_argument("--rivals", nargs="*", metavar="NAME", help="(all that are installed)")
    parser.add_argument("--threads", type=int, default=1, help="of ours, where time is not measured (%(default)s)")
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="folder that keeps synthetic stacks (else a temporary one)"
    )


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with sr, stacks and lytro; photographs of scikit-image stand in for the first",
        repeats=(5, "timed runs of the part speed"),
        extend=extend,
        quick={
            "repeats": 1,
            "parts": ["unfitted", "ablation", "speed", "lytro"],
            "set": "tune",
            "kinds": [KINDS[0]],
            "noises": [5.0],
            "n": 3,
        },
    )
