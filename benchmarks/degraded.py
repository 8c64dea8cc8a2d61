"""Super-resolution of degraded pictures beside bicubic and Lanczos: noise and JPEG compression of several strengths.

Run ``python benchmarks/degraded.py --data DIR`` from the root of the project, where DIR (else COUPLEDICT_DATA) holds
the folders ``Set5`` and ``Set14``, or a folder ``sr`` that does; ``--folder DIR`` takes all pictures of any folder
instead. Large pictures are made small by `imresize`; the small ones, 8 bits, get Gaussian noise in each channel or are
compressed by Pillow. They are enlarged by the models that ship, which find out themselves what was done. Luma is
compared with that of the large picture, `scale` pixels at each edge are left out. Printed are the mean gains over
bicubic and Lanczos, and the worst picture beside the better of the two. Without data, three photographs of scikit-image
are taken, which the models have seen.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _timing import table
from super_resolution import HELD_OUT, bundled, read

from coupledict.experiments.sources import data_directory
from coupledict.images import SuperResolution, imresize

LUMA = np.array([0.299, 0.587, 0.114])
LEVELS = ("noise 0", "noise 3", "noise 10", "noise 20", "JPEG 95", "JPEG 90", "JPEG 75", "JPEG 50")
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


def load(options: argparse.Namespace) -> dict[str, dict[str, Array]]:
    """Return sets of large pictures by name."""
    if options.folder is not None:
        files = sorted(file for file in Path(options.folder).iterdir() if file.suffix.lower() in SUFFIXES)
        return {Path(options.folder).name: {file.stem: read(file) for file in files}}
    directory = data_directory(options.data)
    if directory is None:
        print("Neither --data nor COUPLEDICT_DATA is set: photographs of scikit-image, which the models have seen.")
        return {"bundled": {name: bundled(name) for name in HELD_OUT}}
    root = directory if (directory / "Set5").is_dir() else directory / "sr"
    return {
        name: {file.stem[:7]: read(file) for file in sorted((root / name / "image_SRF_2").glob("*_HR.png"))}
        for name in ("Set5", "Set14")
    }


def row(pictures: dict[str, Array], model: SuperResolution, level: str) -> tuple[list[str], float, int]:
    """Return a row of the table, the seconds of enlarging, and the pixels of the small pictures."""
    found, names, seconds, pixels = [], list(pictures), 0.0, 0
    s = model.scale
    for seed, image in enumerate(pictures.values()):
        rows, columns = image.shape[0] // s, image.shape[1] // s
        large = image[: rows * s, : columns * s]
        small = degrade(imresize(large, shape=(rows, columns)), level, seed)
        began = time.perf_counter()
        ours = model.upscale(small)
        seconds, pixels = seconds + time.perf_counter() - began, pixels + rows * columns
        found.append([scores(each, large, s) for each in (imresize(small, s), lanczos(small, s), ours)])
    values = np.array(found)
    gains = values[:, 2:3] - values[:, :2]
    means = gains.mean(axis=0)
    worst = gains.min(axis=1)
    least = worst.argmin(axis=0)
    cells = [level, f"{values[:, 0, 0].mean():.2f}", f"{values[:, 2, 0].mean():.2f}"]
    cells += [f"{gain:+.2f}" for gain in means[:, 0]] + [f"{worst[least[0], 0]:+.2f} ({names[least[0]]})"]
    cells += [f"{gain:+.4f}" for gain in means[:, 1]] + [f"{worst[least[1], 1]:+.4f} ({names[least[1]]})"]
    return cells, seconds, pixels


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each scale and set."""
    parser = argparse.ArgumentParser(description="Super-resolution of degraded pictures.")
    parser.add_argument("--data", metavar="DIR", help="folder of Set5 and Set14 (else COUPLEDICT_DATA, else bundled)")
    parser.add_argument("--folder", metavar="DIR", help="a folder of large pictures to take instead")
    parser.add_argument("--scales", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--levels", nargs="+", default=LEVELS, help='such as "noise 10" or "noise 10, JPEG 90"')
    parser.add_argument("--degradation", default="auto", help="as in SuperResolution (%(default)s)")
    parser.add_argument("--jobs", type=int, default=-1, help="threads (%(default)s: all cores)")
    options = parser.parse_args(arguments)
    head = [
        "",
        "bicubic",
        "ours",
        "over bicubic",
        "over Lanczos",
        "worst",
        "SSIM over bicubic",
        "over Lanczos",
        "worst",
    ]
    for name, pictures in load(options).items():
        for scale in options.scales:
            model = SuperResolution.pretrained(scale, degradation=options.degradation, n_jobs=options.jobs)
            rows, times = [], []
            for level in options.levels:
                cells, seconds, pixels = row(pictures, model, level)
                rows.append(cells)
                times.append(f"{level} {seconds / pixels * 1e6:.1f}")
            print(f"\n{name}, {len(pictures)} pictures, x{scale}\n{table(head, rows)}")
            print(f"Seconds per million small pixels: {', '.join(times)}.", flush=True)


if __name__ == "__main__":
    main()
