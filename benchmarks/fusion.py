"""Multi-focus fusion of the Lytro pairs, beside published methods and beside the energy of the Laplacian.

Run ``python benchmarks/fusion.py --data DIR`` from the root of the project, with the parts wanted: ``lytro`` (needs
--data) and ``large`` (a pair of 24 megapixels; not by default). Focus stacks are in ``benchmarks/stacks.py``.

``lytro`` scores the fusion of the 20 Lytro pairs with the dictionary that ships, which has never seen them, by the
measures of ``coupledict.images.metrics``, after saving it as the published results are saved. The Laplacian has all
that the fusion has but the dictionary. ``as they are`` is without alignment, as the published methods are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _memory import levels
from _stacks_quality import MEASURES
from fusion_metrics import Scores, lytro_pairs, published_methods, score_folder, score_pictures
from fusion_metrics import table as score_table
from scipy import ndimage

from coupledict.experiments.sources import data_directory
from coupledict.images import MultiFocusFusion


def lytro(data: Path, output: Path | None) -> None:
    """Score the Lytro pairs beside the published results."""
    pairs = lytro_pairs(data)
    ours: dict[str, Scores] = {}
    for name, engine in MEASURES.items():
        pictures = {pair: engine(register=False, n_jobs=-1).fuse(list(sources)) for pair, sources in pairs.items()}
        ours[f"{name}, as they are"] = score_pictures({pair: fused.image for pair, fused in pictures.items()}, data)
        if output is not None and engine is MultiFocusFusion:
            _write(output, pictures)
    aligned = {pair: MultiFocusFusion(n_jobs=-1, keep_size=True).fuse(list(sources)) for pair, sources in pairs.items()}
    moved = sum(any(source.aligned for source in fused.sources) for fused in aligned.values())
    ours[f"{next(iter(MEASURES))}, {moved} pairs aligned"] = score_pictures(
        {pair: fused.image for pair, fused in aligned.items()}, data
    )
    published = {}
    for method in published_methods(data):
        print(f"scoring {method}", file=sys.stderr, flush=True)
        published[method] = score_folder(data / "fused_lytro", data, method=method)
    print("Means over the Lytro pairs (rank among the published methods). All fused pictures are JPEG, quality 75.")
    print(score_table(published, ours), end="\n\n")


def _write(folder: Path, pictures: dict[str, Any]) -> None:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for pair, fused in pictures.items():
        Image.fromarray(fused.image).save(folder / f"lytro_{pair}.png")
        Image.fromarray(255 * fused.decision).save(folder / f"decision_{pair}.png")


def colour_pair(height: int, width: int) -> list[Array]:
    """Return a colour pair of any size, made of a bundled photograph laid side by side."""
    import skimage.data

    sharp = getattr(skimage.data, "astronaut")()  # noqa: B009 - its type is not known
    soft = ndimage.gaussian_filter(sharp, (2, 2, 0))
    repeats = (-(-height // sharp.shape[0]), -(-width // sharp.shape[1]), 1)
    first, second = (np.tile(image, repeats)[:height, :width].copy() for image in (sharp, soft))
    middle = width // 2
    first[:, middle:], second[:, middle:] = second[:, middle:].copy(), first[:, middle:].copy()
    return [first, second]


def large() -> None:
    """Fuse a pair of 24 megapixels in a process of its own, and report time and memory."""
    answer = subprocess.run([sys.executable, __file__, "--child"], check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(answer.stdout)
    print(
        f"Colour pair of 24 megapixels, 8 bit, 2 threads: {found['seconds']:.0f} s; resident memory"
        f" {found['before']:.0f} MB with the sources, {found['highest']:.0f} MB at the most;"
        f" {100 * found['wrong']:.2f} % of the pixels wrong."
    )


def _child() -> None:
    pair = colour_pair(4000, 6000)
    before, _ = levels()
    start = time.perf_counter()
    fused = MultiFocusFusion(n_jobs=2).fuse(pair)
    seconds = time.perf_counter() - start
    wrong = float(np.mean(fused.decision != (np.arange(6000) >= 3000)))
    print(json.dumps({"seconds": seconds, "before": before / 1e6, "highest": levels()[1] / 1e6, "wrong": wrong}))


def main() -> None:
    """Run the parts that are wanted."""
    parser = argparse.ArgumentParser(description="Measure multi-focus fusion.")
    parts = ("lytro", "large")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)} (default: lytro)")
    parser.add_argument("--data", metavar="DIR", help="folder with lytro and fused_lytro (else COUPLEDICT_DATA)")
    parser.add_argument("--output", metavar="DIR", type=Path, help="folder for the fused Lytro pairs, as PNG")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _child()
        return
    if unknown := set(arguments.parts) - set(parts):
        parser.error(f"expected parts of {', '.join(parts)}, got {', '.join(sorted(unknown))}")
    wanted = arguments.parts or parts[:1]
    data = data_directory(arguments.data)
    if "lytro" in wanted and data is None:
        print("Lytro: neither --data nor COUPLEDICT_DATA is set, so the Lytro pairs are left out.\n")
    elif "lytro" in wanted and data is not None:
        lytro(data, arguments.output)
    if "large" in wanted:
        large()


if __name__ == "__main__":
    main()
