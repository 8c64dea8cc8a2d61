"""Super-resolution on Set5 and Set14 beside published figures: luma PSNR, and seconds.

The data are the folders ``T91``, ``Set5`` and ``Set14``, or a folder ``sr`` that holds them. Models learn from T91, as
the published ones did. The convention is that of the literature: the small images are those of the data, only luma is
compared, rounded to 8 bits, and `scale` pixels at each edge are left out. Without data, models learn from seven
photographs of scikit-image and are tried on three others; there is nothing published to compare with then.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _data import Array
from _main import Options, duration, join, main, table

from coupledict.experiments.sources import BUNDLED
from coupledict.images import SuperResolution, imresize

Method = Literal["bicubic", "none", "auto", "coupled", "anchored"]
#: Rows of our own: interpolation, the models that ship for clean and for any pictures, and those that learn here.
METHODS: tuple[Method, ...] = ("bicubic", "none", "auto", "coupled", "anchored")
HELD_OUT = ("astronaut", "chelsea", "coffee")
LUMA = np.array([65.481, 128.553, 24.966]) / 255  # ITU-R BT.601 as MATLAB's rgb2ycbcr has it, on top of 16
Pair = tuple[Array, Array]
Upscaler = Callable[[Array], Array]

#: Mean PSNR on Set5 and Set14 by scale. Zeyde et al. (2010), ANR (Timofte et al., ICCV 2013) and A+ (Timofte et al.,
#: ACCV 2014) as in the tables of the last; SelfExSR (Huang et al., CVPR 2015), which learns from the image itself, and
#: SRCNN (Dong et al., TPAMI 2016), a network that learned from ImageNet, as in those of Kim et al. (VDSR, CVPR 2016).
PUBLISHED: dict[str, dict[int, tuple[float, float]]] = {
    "bicubic": {2: (33.66, 30.24), 3: (30.39, 27.55), 4: (28.42, 26.00)},
    "Zeyde et al.": {2: (35.78, 31.81), 3: (31.90, 28.67), 4: (29.69, 26.88)},
    "ANR": {2: (35.83, 31.80), 3: (31.92, 28.65), 4: (29.69, 26.85)},
    "A+": {2: (36.54, 32.28), 3: (32.59, 29.13), 4: (30.28, 27.32)},
    "SelfExSR": {2: (36.49, 32.22), 3: (32.58, 29.16), 4: (30.31, 27.40)},
    "SRCNN": {2: (36.66, 32.42), 3: (32.75, 29.28), 4: (30.48, 27.49)},
}


def read(path: Path) -> Array:
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))


def luma(image: Array) -> Array:
    """Return the luma of an 8-bit image, from 16 to 235; a grey image is its own."""
    return image @ LUMA + 16 if image.ndim == 3 else image.astype(np.float64)


def rounded(plane: Array) -> Array:
    return np.clip(np.floor(plane + 0.5), 0, 255)


def psnr(plane: Array, original: Array, border: int) -> float:
    inner = slice(border, -border)
    return float(10 * np.log10(255**2 / np.mean((rounded(plane)[inner, inner] - original[inner, inner]) ** 2)))


def find_data(directory: Path | None) -> Path | None:
    """Return the folder that holds T91, Set5 and Set14."""
    if directory is None:
        return None
    for folder in (directory, directory / "sr"):
        if all((folder / name).is_dir() for name in ("T91", "Set5", "Set14")):
            return folder
    raise FileNotFoundError(f"Expected folders T91, Set5 and Set14 in '{directory}' or its folder 'sr', found none.")


@cache
def load_sets(folder: Path | None, scale: int) -> dict[str, list[Pair]]:
    """Return pairs of small and large images for each set."""
    if folder is None:
        pairs = []
        for name in HELD_OUT:
            image = bundled(name)
            image = image[: image.shape[0] // scale * scale, : image.shape[1] // scale * scale]
            pairs.append((imresize(image, shape=(image.shape[0] // scale, image.shape[1] // scale)), image))
        return {"held out": pairs}
    sets = {}
    for name in ("Set5", "Set14"):
        files = sorted((folder / name / f"image_SRF_{scale}").glob("*_HR.png"))
        sets[name] = [(read(file.with_name(file.name.replace("_HR", "_LR"))), read(file)) for file in files]
    return sets


def bundled(name: str) -> Array:
    from skimage import data

    return np.asarray(getattr(data, name)())


@cache
def load_training(folder: Path | None) -> list[Array]:
    if folder is None:
        return [bundled(name) for name in BUNDLED if name not in HELD_OUT]
    return [read(file) for file in sorted((folder / "T91").iterdir()) if file.suffix in (".bmp", ".png", ".jpg")]


def differing_pixels(sets: dict[str, list[Pair]]) -> tuple[int, int]:
    """Return how many values of the small images `imresize` makes differently, and how many there are."""
    made = [(imresize(large, shape=small.shape[:2]), small) for pairs in sets.values() for small, large in pairs]
    return sum(int(np.count_nonzero(ours != theirs)) for ours, theirs in made), sum(small.size for _, small in made)


def score(upscale: Upscaler, sets: dict[str, list[Pair]], scale: int, repeats: int) -> tuple[list[float], list[float]]:
    """Return the mean PSNR of each set, and the seconds for each image of the first: medians of the repeats."""
    means, seconds = [], []
    for number, pairs in enumerate(sets.values()):
        found = []
        for small, large in pairs:
            plane = luma(small).astype(np.float32)
            found.append(psnr(upscale(plane), rounded(luma(large)), scale))
            if number == 0:
                seconds.append(float(np.median([_seconds(upscale, plane) for _ in range(repeats)])))
        means.append(float(np.mean(found)))
    return means, seconds


def _seconds(upscale: Upscaler, plane: Array) -> float:
    began = time.perf_counter()
    upscale(plane)
    return time.perf_counter() - began


def cases(options: Options) -> dict[str, tuple[int, Method]]:
    """Return scales and methods."""
    if options.data is None:
        options.note(
            "Neither --data nor COUPLEDICT_DATA is set: photographs of scikit-image, nothing published. The pretrained"
            " models have seen all of them."
        )
    return {f"x{scale}, {method}": (scale, method) for scale in options.scales for method in METHODS}


def run(case: tuple[int, Method], options: Options) -> dict[str, Any]:
    """Return mean PSNR of the sets and seconds by row, and how many values imresize makes differently."""
    scale, method = case
    folder = find_data(options.data)
    sets = load_sets(folder, scale)
    if options.quick:
        sets = {name: pairs[:1] for name, pairs in sets.items()}
    rows: dict[str, Any] = {}

    def add(name: str, upscale: Upscaler, fitting: float | None = None) -> None:
        means, seconds = score(upscale, sets, scale, options.repeats)
        rows[name] = {"means": means, "seconds": seconds, "fit": fitting}

    if method == "bicubic":
        add("bicubic (imresize)", lambda plane: imresize(plane, float(scale)))
    elif method == "none" or method == "auto":
        shipped = SuperResolution.pretrained(scale, degradation=method, n_jobs=options.jobs)
        add("pretrained" if method == "none" else 'pretrained, "auto"', shipped.upscale)
    else:
        model = SuperResolution(scale, method=method, n_jobs=options.jobs, random_state=options.seed)
        began = time.perf_counter()
        model.fit(load_training(folder)[:5] if options.quick else load_training(folder))
        add(method, model.upscale, time.perf_counter() - began)
        if method == "anchored":
            model.set_params(ensemble=True)
            add("anchored, ensemble", model.upscale)
    differing = differing_pixels(sets) if method == "bicubic" and folder is not None else None
    return {"sets": list(sets), "rows": rows, "differing": differing}


def report(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    blocks = []
    for scale in options.scales:
        own = [found for case, found in results.items() if case.startswith(f"x{scale},")]
        rows = []
        for name, row in (item for found in own for item in found["rows"].items()):
            times = [duration(float(np.mean(row["seconds"]))), duration(max(row["seconds"]))]
            fitting = "" if row["fit"] is None else duration(row["fit"])
            rows.append([name, *(f"{mean:.2f}" for mean in row["means"]), *times, fitting])
        if options.data is not None:
            for name, figures in PUBLISHED.items():
                rows.append([f"{name} (published)", *(f"{value:.2f}" for value in figures[scale]), "", "", ""])
        blocks.append(f"Scale {scale}")
        if own[0]["differing"] is not None:
            blocks.append("imresize: {} of {:,} values of the small images differ.".format(*own[0]["differing"]))
        blocks.append(table(["", *own[0]["sets"], "seconds an image", "the slowest", "fit"], rows))
    return join(*blocks)


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scales", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--jobs", type=int, default=-1, help="threads (%(default)s: all cores)")
    parser.add_argument("--seed", type=int, default=0)


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder of T91, Set5 and Set14; photographs of scikit-image stand in",
        repeats=(5, "timed runs of each image"),
        extend=extend,
        quick={"repeats": 1, "scales": [2]},
    )
