"""Inpainting beside its rivals: five photographs of scikit-image with 50 and 80 % of their pixels missing at random.

Rivals are biharmonic inpainting of scikit-image
and the two methods of OpenCV (radius 3); OpenCV is left out, with a word about it, if it is not installed. All get the
same damaged pixels of 8 bits, and PSNR is that of the whole picture of 8 bits, in colour over all channels, where known
pixels have no error. ``--masks`` also takes ``text``, lines of text that cover about a seventh of the picture, and
``holes``, squares of 12 to 24 pixels. The settings were chosen on other pictures: pieces of 160 x 160 pixels of
``coins``, ``gravel`` and ``rocket`` of scikit-image, of t8, t21 and t40 of T91, and of the butterfly and the bird of
Set5.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from _data import Array
from _main import Options, add_choice, duration, join, main, table

from coupledict.experiments.machine import limit_threads
from coupledict.images import Inpainting
from coupledict.images.metrics import psnr

PHOTOGRAPHS = ("camera", "astronaut", "coffee", "chelsea", "brick")
MASKS = ("50", "80", "text", "holes")
Filler = Callable[[Array, Array], Array]


def photograph(name: str) -> Array:
    from skimage import data

    return np.asarray(getattr(data, name)())


def make_mask(kind: str, shape: tuple[int, ...], seed: int) -> Array:
    """Return which pixels are missing."""
    rng = np.random.default_rng(seed)
    if kind.isdigit():
        return np.less(rng.random(shape[:2]), int(kind) / 100)
    if kind == "text":
        return _text(shape[0], shape[1])
    mask = np.zeros(shape[:2], np.bool_)
    for _ in range(mask.size // 8000):
        side = int(rng.integers(12, 25))
        top, left = (int(rng.integers(0, room - side)) for room in shape[:2])
        mask[top : top + side, left : left + side] = True
    return mask


def _text(height: int, width: int) -> Array:
    from PIL import Image, ImageDraw, ImageFont

    canvas = Image.new("L", (width, height))
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(20)
    for number, top in enumerate(range(4, height, 26)):
        draw.text((-10 * (number % 5), top), "what was written over the picture is gone again " * 3, 255, font)
    return np.asarray(np.asarray(canvas) > 64)


def biharmonic(image: Array, mask: Array) -> Array:
    from skimage.restoration import inpaint_biharmonic

    filled = inpaint_biharmonic(image, mask, channel_axis=-1 if image.ndim == 3 else None)
    return np.asarray(np.rint(255 * np.clip(filled, 0, 1)), np.uint8)


def opencv(method: str, threads: int) -> Filler:
    import cv2

    def fill(image: Array, mask: Array) -> Array:
        cv2.setNumThreads(threads)
        return np.asarray(cv2.inpaint(image, mask.astype(np.uint8), 3, getattr(cv2, method)))

    return fill


def fillers(options: Options) -> dict[str, Filler]:
    """Return what is compared, by name."""
    jobs = options.jobs
    chosen: dict[str, Filler] = {
        "coupledict": Inpainting(n_jobs=jobs, random_state=options.seed).fill,
        "biharmonic": biharmonic,
    }
    if importlib.util.find_spec("cv2") is None:
        options.note("OpenCV is left out: it is not installed (pip install opencv-python-headless).")
    else:
        chosen |= {"OpenCV Telea": opencv("INPAINT_TELEA", jobs), "OpenCV NS": opencv("INPAINT_NS", jobs)}
    return chosen


def cases(options: Options) -> dict[str, tuple[str, str]]:
    """Return kinds of masks, and photographs."""
    names = PHOTOGRAPHS[:1] if options.quick else PHOTOGRAPHS
    return {f"{kind}; {name}": (kind, name) for kind in options.masks for name in names}


def run(case: tuple[str, str], options: Options) -> dict[str, Any]:
    """Return PSNR and seconds of each, run in turns."""
    kind, name = case
    image = photograph(name)[:200, :200] if options.quick else photograph(name)
    mask = make_mask(kind, image.shape, options.seed)
    damaged = np.where(mask if image.ndim == 2 else mask[:, :, None], 0, image).astype(np.uint8)
    chosen = fillers(options)
    found: dict[str, dict[str, Any]] = {name: {"seconds": []} for name in chosen}
    for _ in range(options.repeats):
        for name, fill in chosen.items():
            with limit_threads(options.jobs):
                began = time.perf_counter()
                filled = fill(damaged, mask)
                found[name]["seconds"].append(time.perf_counter() - began)
            found[name]["psnr"] = float(psnr(image, filled))
    return {"shape": image.shape, "missing": float(mask.mean()), "methods": found}


def report(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    blocks = []
    for kind in options.masks:
        own = {case.split("; ")[1]: found for case, found in results.items() if case.startswith(f"{kind}; ")}
        rows, gains = [], []
        for name, found in own.items():
            methods = found["methods"]
            rows.append([name, "x".join(map(str, found["shape"])), *map(_cell, methods.values())])
            gains.append([result["psnr"] for result in methods.values()])
        rows.append(["mean", "", *(f"{mean:.2f}" for mean in np.mean(gains, axis=0))])
        blocks.append(f"{kind}{' % of the pixels' if kind.isdigit() else ''} missing: PSNR in dB, median seconds")
        blocks.append(table(["", "size", *methods], rows))
    return join(*blocks)


def _cell(result: dict[str, Any]) -> str:
    return f"{result['psnr']:.2f}, {duration(float(np.median(result['seconds'])))}"


def extend(parser: argparse.ArgumentParser) -> None:
    add_choice(parser, "masks", MASKS, default=MASKS[:2])
    parser.add_argument("--jobs", type=int, default=2, help="threads (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data=None,
        repeats=(3, "timed runs of each"),
        extend=extend,
        quick={"repeats": 1, "masks": ["50"]},
    )
