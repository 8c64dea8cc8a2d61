"""Multi-focus fusion of the Lytro pairs, beside published methods and beside the energy of the Laplacian.

`lytro` scores the fusion of the 20 Lytro pairs with the dictionary that ships, which has never seen them, by the
measures of ``coupledict.images.metrics``, after saving it as the published results are saved. The Laplacian has all
that the fusion has but the dictionary. `as they are` is without alignment, as the published methods are. Two rows tell
what the measures are worth: a copy of the first source, and the average of both. ``--fused NAME=FOLDER`` adds a row for
pictures ``lytro_NN*.jpg`` or ``.png`` of your own.

`large` tells time and memory for a pair of 24 megapixels, and is not measured by default. Focus stacks are in
``benchmarks/stacks.py``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _fusion_scores import Scores, lytro_pairs, published_methods, score_folder, score_pictures, score_table
from _main import Options, add_choice, join, main
from _memory import levels
from _stacks_quality import MEASURES
from scipy import ndimage

from coupledict.images import MultiFocusFusion

PUBLISHED = "published: "
#: Rows that no method made.
TRIVIAL: dict[str, Callable[[Array, Array], Array]] = {
    "copy of A": lambda first, second: first,
    "average": lambda first, second: np.rint((first.astype(float) + second) / 2).astype(np.uint8),
}
Score = Callable[[Options, Path], Scores]


def fuse(name: str) -> Score:
    """Return what scores a fusion of ours by a measure of focus, without alignment."""

    def score(options: Options, data: Path) -> Scores:
        engine = MEASURES[name](register=False, n_jobs=-1)
        pictures = {pair: engine.fuse(list(sources)) for pair, sources in chosen_pairs(options, data).items()}
        if MEASURES[name] is MultiFocusFusion:
            _write(options.output / "fusion", pictures)
        return score_pictures({pair: fused.image for pair, fused in pictures.items()}, data)

    return score


def fuse_aligned(options: Options, data: Path) -> Scores:
    """Score our fusion of aligned pairs."""
    pairs = chosen_pairs(options, data)
    aligned = {pair: MultiFocusFusion(n_jobs=-1, keep_size=True).fuse(list(sources)) for pair, sources in pairs.items()}
    moved = sum(any(source.aligned for source in fused.sources) for fused in aligned.values())
    options.note(f"{moved} of {len(pairs)} pairs were moved by the alignment.")
    return score_pictures({pair: fused.image for pair, fused in aligned.items()}, data)


def make(trivial: str) -> Score:
    """Return what scores a picture that no method made."""
    return lambda options, data: score_pictures(
        {pair: TRIVIAL[trivial](*sources) for pair, sources in chosen_pairs(options, data).items()}, data
    )


def read(folder: Path, method: str | None = None) -> Score:
    """Return what scores the fused pictures of a folder."""

    def score(options: Options, data: Path) -> Scores:
        pairs = chosen_pairs(options, data)
        return {pair: own for pair, own in score_folder(folder, data, method=method).items() if pair in pairs}

    return score


def chosen_pairs(options: Options, data: Path) -> dict[str, tuple[Array, Array]]:
    """Return all pairs, or the first one in a quick run."""
    pairs = lytro_pairs(data)
    return dict(list(pairs.items())[:1]) if options.quick else pairs


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


def large(options: Options) -> dict[str, float]:
    """Fuse a pair of 24 megapixels in processes of their own; return medians of time and memory."""
    command = [sys.executable, "-c", "import fusion; fusion.child()"]
    runs = []
    for _ in range(options.repeats):
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)
        runs.append(json.loads(done.stdout))
    return {key: float(np.median([run[key] for run in runs])) for key in runs[0]}


def child() -> None:
    """Fuse a pair of 24 megapixels, and print time and memory."""
    pair = colour_pair(4000, 6000)
    before, _ = levels()
    start = time.perf_counter()
    fused = MultiFocusFusion(n_jobs=2).fuse(pair)
    seconds = time.perf_counter() - start
    wrong = float(np.mean(fused.decision != (np.arange(6000) >= 3000)))
    print(json.dumps({"seconds": seconds, "before": before / 1e6, "highest": levels()[1] / 1e6, "wrong": wrong}))


def cases(options: Options) -> dict[str, Score | None]:
    """Return what scores the pairs, by row; None stands for the large pair."""
    found: dict[str, Score | None] = {}
    data = options.data
    if "lytro" in options.parts and data is None:
        options.note("Neither --data nor COUPLEDICT_DATA is set: the Lytro pairs are left out.")
    elif "lytro" in options.parts and data is not None:
        methods = published_methods(data)
        published = {f"{PUBLISHED}{name}": read(data / "fused_lytro", name) for name in methods}
        found |= dict(list(published.items())[:2]) if options.quick else published
        found |= {name: make(name) for name in TRIVIAL}
        found |= {f"{name}, as they are": fuse(name) for name in MEASURES}
        found[f"{next(iter(MEASURES))}, aligned"] = fuse_aligned
        found |= {name: read(Path(folder)) for name, folder in options.fused}
    if "large" in options.parts:
        found["large"] = None
    return found


def run(score: Score | None, options: Options) -> Any:
    """Return scores by pair and measure, or time and memory of the large pair."""
    if score is None:
        return large(options)
    assert options.data is not None
    return score(options, options.data)


def report(results: Mapping[str, Any], options: Options) -> str:
    published = {name.removeprefix(PUBLISHED): own for name, own in results.items() if name.startswith(PUBLISHED)}
    others = {name: own for name, own in results.items() if not name.startswith(PUBLISHED) and name != "large"}
    blocks = []
    if others:
        blocks.append("Means over the Lytro pairs (rank among published methods). All pictures are JPEG, quality 75.")
        blocks.append(score_table(published, others))
    if "large" in results:
        found = results["large"]
        blocks.append(
            f"Colour pair of 24 megapixels, 8 bit, 2 threads: {found['seconds']:.0f} s; resident memory"
            f" {found['before']:.0f} MB with the sources, {found['highest']:.0f} MB at the most;"
            f" {100 * found['wrong']:.2f} % of the pixels wrong."
        )
    return join(*blocks)


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "parts", ("lytro", "large"), default=("lytro",))
    parser.add_argument(
        "--fused", metavar="NAME=DIR", type=_named, action="append", default=[], help="another row, repeatable"
    )


def _named(text: str) -> tuple[str, str]:
    name, _, folder = text.partition("=")
    if not (name and folder):
        raise argparse.ArgumentTypeError(f"expected NAME=DIR, got {text}")
    return name, folder


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with lytro and fused_lytro; without it only the part large is there",
        repeats=(1, "timed runs of the part large"),
        extend=extend,
    )
