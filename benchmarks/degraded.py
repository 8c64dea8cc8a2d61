"""Super-resolution of degraded pictures beside bicubic and Lanczos: noise and JPEG compression of several strengths.

The data are the folders ``Set5`` and ``Set14``, or a folder ``sr`` that holds them; ``--folder DIR`` takes all pictures
of any folder instead. Large pictures are made small by `imresize`; the small ones, 8 bits, get Gaussian noise in each
channel or are compressed by Pillow. They are enlarged by the models that ship, which find out themselves what was done.
Luma is compared with that of the large picture, `scale` pixels at each edge are left out. Told are the mean gains over
bicubic and Lanczos, and the worst picture beside the better of the two. Without data, three photographs of scikit-image
are taken, which the models have seen.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _main import Options, join, main, table
from super_resolution import HELD_OUT, bundled, read

from coupledict.images import SuperResolution, imresize

LUMA = np.array([0.299, 0.587, 0.114])
LEVELS = ("noise 0", "noise 3", "noise 10", "noise 20", "JPEG 95", "JPEG 90", "JPEG 75", "JPEG 50")
HEADS = (
    "", "bicubic", "ours", "over bicubic", "over Lanczos", "worst", "SSIM over bicubic", "over Lanczos", "worst",
    "seconds per million small pixels",
)  # fmt: skip
SUFFIXES = (".png", ".bmp", ".jpg", ".jpeg", ".tif", ".tiff")


def luma(image: Array) -> Array:
    return np.asarray(image @ LUMA) if image.ndim == 3 else image.astype(np.float64)


def degrade(image: Array, level: str, seed: int) -> Array:
    """Return a small picture with noise, or compressed; "noise 10, JPEG 90" is both."""
    for step in level.split(", "):
        kind, value = step.split()
        if kind == "noise" and float(value):
            noise = float(value) * np.random.default_rng(seed).standard_normal(image.shape)
            image = np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)
        elif kind == "JPEG":
            from PIL import Image

            file = io.BytesIO()
            Image.fromarray(image).save(file, "JPEG", quality=int(value))
            with Image.open(file) as opened:
                image = np.asarray(opened)
    return image


def lanczos(image: Array, scale: int) -> Array:
    from PIL import Image

    size = (image.shape[1] * scale, image.shape[0] * scale)
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS))


def scores(image: Array, original: Array, border: int) -> tuple[float, float]:
    """Return PSNR and SSIM of luma."""
    from skimage.metrics import structural_similarity

    inner = slice(border, -border)
    ours, theirs = (luma(each)[inner, inner] for each in (image, original))
    psnr = 10 * np.log10(255**2 / np.mean((ours - theirs) ** 2))
    same = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}  # as Wang et al. (2004) have it
    similarity: Any = structural_similarity
    return float(psnr), float(similarity(ours, theirs, data_range=255, **same))


def load(options: Options) -> dict[str, dict[str, Array]]:
    """Return sets of large pictures by name."""
    if options.folder is None and options.data is None:
        options.note(
            "Neither --data nor COUPLEDICT_DATA is set: photographs of scikit-image, which the models have seen."
        )
    sets = _read_sets(options.data, options.folder)
    return {name: dict(list(sets[name].items())[:1]) for name in list(sets)[:1]} if options.quick else sets


@cache
def _read_sets(data: Path | None, folder: Path | None) -> dict[str, dict[str, Array]]:
    if folder is not None:
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
        return {folder.name: {file.stem: read(file) for file in files}}
    if data is None:
        return {"bundled": {name: bundled(name) for name in HELD_OUT}}
    root = data if (data / "Set5").is_dir() else data / "sr"
    return {
        name: {file.stem[:7]: read(file) for file in sorted((root / name / "image_SRF_2").glob("*_HR.png"))}
        for name in ("Set5", "Set14")
    }


def cases(options: Options) -> dict[str, tuple[str, int, str]]:
    """Return sets, scales and levels."""
    return {
        f"{name}, x{scale}; {level}": (name, scale, level)
        for name in load(options)
        for scale in options.scales
        for level in options.levels
    }


def run(case: tuple[str, int, str], options: Options) -> dict[str, Any]:
    """Return PSNR and SSIM of each picture, by bicubic, Lanczos and ours, and the seconds and pixels of all."""
    name, s, level = case
    pictures = load(options)[name]
    model = SuperResolution.pretrained(s, degradation=options.degradation, n_jobs=options.jobs)
    found: dict[str, Any] = {"pictures": list(pictures), "scores": [], "seconds": 0.0, "pixels": 0}
    for seed, image in enumerate(pictures.values()):
        rows, columns = image.shape[0] // s, image.shape[1] // s
        large = image[: rows * s, : columns * s]
        small = degrade(imresize(large, shape=(rows, columns)), level, seed)
        times = []
        for _ in range(options.repeats):
            began = time.perf_counter()
            ours = model.upscale(small)
            times.append(time.perf_counter() - began)
        found["seconds"] += float(np.median(times))
        found["pixels"] += rows * columns
        found["scores"].append([scores(each, large, s) for each in (imresize(small, s), lanczos(small, s), ours)])
    return found


def report(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    blocks = []
    for title in dict.fromkeys(case.split("; ")[0] for case in results):
        own = {case.split("; ")[1]: found for case, found in results.items() if case.startswith(f"{title}; ")}
        n_pictures = len(next(iter(own.values()))["pictures"])
        blocks.append(f"{title}, {n_pictures} pictures")
        blocks.append(table(HEADS, [row(level, found) for level, found in own.items()]))
    return join(*blocks)


def row(level: str, found: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    names, values = found["pictures"], np.array(found["scores"])
    gains = values[:, 2:3] - values[:, :2]
    means = gains.mean(axis=0)
    worst = gains.min(axis=1)
    least = worst.argmin(axis=0)
    cells = [level, f"{values[:, 0, 0].mean():.2f}", f"{values[:, 2, 0].mean():.2f}"]
    cells += [f"{gain:+.2f}" for gain in means[:, 0]] + [f"{worst[least[0], 0]:+.2f} ({names[least[0]]})"]
    cells += [f"{gain:+.4f}" for gain in means[:, 1]] + [f"{worst[least[1], 1]:+.4f} ({names[least[1]]})"]
    return [*cells, f"{found['seconds'] / found['pixels'] * 1e6:.1f}"]


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", metavar="DIR", type=Path, help="a folder of large pictures to take instead")
    parser.add_argument("--scales", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--levels", nargs="+", default=LEVELS, help='such as "noise 10" or "noise 10, JPEG 90"')
    parser.add_argument("--degradation", default="auto", help="as in SuperResolution (%(default)s)")
    parser.add_argument("--jobs", type=int, default=-1, help="threads (%(default)s: all cores)")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder of Set5 and Set14; photographs of scikit-image stand in",
        repeats=(1, "timed runs of each picture"),
        extend=extend,
        quick={"scales": [2], "levels": LEVELS[:2]},
    )
