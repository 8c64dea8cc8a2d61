"""Is the dictionary worth it? Multi-focus fusion beside published methods and beside energies of the Laplacian.

Run ``python benchmarks/fusion.py`` from the root of the project, with the parts wanted: ``lytro`` (needs --data),
``synthetic``, ``speed``, and ``large`` (a pair of 24 megapixels; not by default).

``lytro`` scores the fusion of the 20 Lytro pairs with the dictionary that ships, which has never seen them, by the
measures of ``coupledict.images.metrics``, after saving it as the published results are saved.

``synthetic`` blurs one half of a photograph and then the other, adds noise to both, and counts the pixels that are
decided wrongly. It does so for all bundled photographs in two halves: the dictionary for one half has learned from the
other half only. The settings of the fusion were chosen on photographs of the second half.

The rivals compare energies of the Laplacian, or of the Laplacian of a Gaussian, of both sources. They get the same sums
over patches, the same window and the same clean-up, and stand here three times: as they are, over the same scales, and
with all that the fusion has but the dictionary, the scales and what it divides evidence by, the energy and the noise.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _memory import levels
from _timing import Entry, measure, table
from fusion_metrics import Scores, lytro_pairs, published_methods, score_folder, score_pictures
from fusion_metrics import table as score_table
from scipy import ndimage

from coupledict.experiments.sources import data_directory
from coupledict.images import MultiFocusFusion
from coupledict.images._fusion_decision import compose, remove_small
from coupledict.images._fusion_evidence import NOISE_FACTOR, Grey, luma, noise_variance, over_scales

HALVES = (("astronaut", "brick", "coffee", "grass", "rocket"), ("camera", "chelsea", "coins", "gravel", "moon"))
BLURS = (1.0, 2.0, 3.0)  # standard deviations of the Gaussian, in pixels
NOISES = (0.0, 5.0, 15.0)  # standard deviations, on the scale 0-255
FUSION = MultiFocusFusion()
SIDE, WINDOW, SCALES = FUSION.patch_size, FUSION.window, FUSION.n_scales

Energy = Callable[[Grey], Array]
Decide = Callable[[Grey, Grey], Array]


def laplacian(image: Grey) -> Array:
    """Return the squared Laplacian, of four neighbours."""
    return np.square(ndimage.laplace(image, mode="mirror"))


def gaussian_laplacian(image: Grey, sigma: float = 1.0) -> Array:
    """Return the squared Laplacian of a Gaussian."""
    return np.square(ndimage.gaussian_laplace(image, sigma, mode="mirror"))


def patch_means(values: Array) -> Array:
    """Return the mean of every patch."""
    means: Array = ndimage.uniform_filter(values.astype(np.float64), SIDE, mode="mirror")
    return means[SIDE // 2 : values.shape[0] - SIDE // 2 + 1, SIDE // 2 : values.shape[1] - SIDE // 2 + 1]


def energy_evidence(energy: Energy, source: Grey, other: Grey, *, normalise: bool = False) -> Grey:
    """Return for every patch how much more energy the source has; with `normalise` divided as the fusion divides."""
    evidence = patch_means(energy(source)) - patch_means(energy(other))
    if normalise:
        noise = NOISE_FACTOR * (noise_variance(source) + noise_variance(other)) / 2
        variances = [patch_means(np.square(x, dtype=np.float64)) - patch_means(x) ** 2 for x in (source, other)]
        evidence /= np.maximum(sum(variances) / 2 + noise, 1e-12)
    return evidence.astype(np.float32)


def by_energy(energy: Energy, n_scales: int, normalise: bool, source: Grey, other: Grey) -> Array:
    """Decide by energies; 0 is the source."""
    evidence = partial(energy_evidence, energy, normalise=normalise)
    return (over_scales(evidence, source, other, side=SIDE, n_scales=n_scales, window=WINDOW) < 0).astype(np.uint8)


def by_dictionary(fusion: MultiFocusFusion, source: Grey, other: Grey) -> Array:
    """Decide by the dictionary; 0 is the source."""
    decision: Array = fusion.set_params(min_region=0, seam=0).fuse([source, other]).decision
    return decision


RIVALS: dict[str, Decide] = {
    f"{name}{addition}": partial(by_energy, energy, n_scales, normalise)
    for addition, n_scales, normalise in ((""  , 1, False), (", scales", SCALES, False), (", all else", SCALES, True))
    for name, energy in (
        ("Laplacian", laplacian),
        ("LoG 1", gaussian_laplacian),
        ("LoG 2", partial(gaussian_laplacian, sigma=2.0)),
    )
}  # fmt: skip


def clean(decision: Array) -> Array:
    """Remove small regions, as the fusion does."""
    return remove_small(decision, 2, FUSION.min_region * decision.size)


def trained(names: tuple[str, ...], **parameters: Any) -> MultiFocusFusion:
    """Return a fusion that has learned as the one that ships, but from these photographs only."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
    fusion: MultiFocusFusion = importlib.import_module("train_fusion").train(names, **parameters)
    return fusion


def photograph(name: str) -> Grey:
    """Return a bundled photograph as brightness from 0 to 255."""
    import skimage.data

    return luma(getattr(skimage.data, name)(), 1.0)


def halves(image: Grey, blur: float, noise: float, seed: int) -> tuple[Grey, Grey, Array]:
    """Return two sources, one in focus left of a wavy line and the other right of it, and the true decision."""
    height, width = image.shape
    row, column = np.mgrid[:height, :width]
    truth = (column > width * (0.5 + 0.12 * np.sin(3 * np.pi * row / height))).astype(np.uint8)
    soft = ndimage.gaussian_filter(image, blur)
    rng = np.random.default_rng(seed)
    sources = [
        (np.where(truth == own, image, soft) + noise * rng.standard_normal(image.shape)).astype(np.float32)
        for own in (0, 1)
    ]
    return sources[0], sources[1], truth


def synthetic() -> None:
    """Count wrong pixels, before and after clean-up, for every rival, blur and noise."""
    print("Wrong pixels in %, means over bundled photographs: before / after regions under 1 % are removed.")
    print("For each half of the photographs the dictionary has learned from the other half.\n")
    wrong: dict[tuple[str, float, float], list[tuple[float, float]]] = {}
    for half, others in (HALVES, HALVES[::-1]):
        measures: dict[str, Decide] = {"dictionary": partial(by_dictionary, trained(others)), **RIVALS}
        for number, name in enumerate(half):
            print(f"fusing halves of {name}", file=sys.stderr, flush=True)
            image = photograph(name)
            for blur in BLURS:
                for noise in NOISES:
                    first, second, truth = halves(image, blur, noise, seed=number)
                    for rival, decide in measures.items():
                        decision = decide(first, second)
                        shares = (float(np.mean(d != truth)) for d in (decision, clean(decision)))
                        wrong.setdefault((rival, blur, noise), []).append((next(shares), next(shares)))
    names = ["dictionary", *RIVALS]

    def cell(rival: str, blurs: tuple[float, ...], noise: float) -> str:
        before, after = 100 * np.mean([pair for blur in blurs for pair in wrong[rival, blur, noise]], axis=0)
        return f"{before:.2f} / {after:.2f}"

    for blurs in (BLURS, *((blur,) for blur in BLURS)):
        title = "all blurs" if blurs == BLURS else f"blur {blurs[0]:g}"
        rows = [[name, *(cell(name, blurs, noise) for noise in NOISES)] for name in names]
        print(table([title, *(f"noise {noise:g}" for noise in NOISES)], rows), end="\n\n")


def lytro(data: Path, output: Path | None) -> None:
    """Score the Lytro pairs beside the published results."""
    pairs = lytro_pairs(data)
    makers: dict[str, Decide] = {"Laplacian": RIVALS["Laplacian"], "LoG 1": RIVALS["LoG 1"]}
    ours: dict[str, Scores] = {}
    pictures = {}
    fusion = MultiFocusFusion(n_jobs=-1)
    for pair, sources in pairs.items():
        pictures[pair] = fusion.fuse(sources)
    if output is not None:
        _write(output, pictures)
    ours["dictionary"] = score_pictures({pair: fused.image for pair, fused in pictures.items()}, data)
    for name, decide in makers.items():
        fused = {}
        for pair, sources in pairs.items():
            decision = clean(decide(luma(sources[0], 1.0), luma(sources[1], 1.0)))
            fused[pair] = compose(list(sources), decision, FUSION.seam)
        ours[name] = score_pictures(fused, data)
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


def speed() -> None:
    """Time colour pairs of several sizes, with one and two threads."""
    entries = []
    for side in (260, 520, 1040):
        pair = colour_pair(side, side)
        for jobs in (1, 2):
            call = partial(MultiFocusFusion(n_jobs=jobs).fuse, pair)
            entries.append(Entry(f"{side} x {side}, {jobs} threads", call, threads=jobs))
    timings = measure(entries, repeats=5)
    rows = [[t.name, f"{t.median:.2f} s", f"{1e6 * t.median / int(t.name.split()[0]) ** 2:.2f} s"] for t in timings]
    print(table(["colour pair", "median of 5", "per megapixel"], rows), end="\n\n")


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
    parts = ("lytro", "synthetic", "speed", "large")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)} (default: the first three)")
    parser.add_argument("--data", metavar="DIR", help="folder with lytro and fused_lytro (else COUPLEDICT_DATA)")
    parser.add_argument("--output", metavar="DIR", type=Path, help="folder for the fused Lytro pairs, as PNG")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _child()
        return
    if unknown := set(arguments.parts) - set(parts):
        parser.error(f"expected parts of {', '.join(parts)}, got {', '.join(sorted(unknown))}")
    wanted = arguments.parts or parts[:3]
    data = data_directory(arguments.data)
    if "lytro" in wanted and data is None:
        print("Lytro: neither --data nor COUPLEDICT_DATA is set, so the Lytro pairs are left out.\n")
    elif "lytro" in wanted and data is not None:
        lytro(data, arguments.output)
    for name, run in (("synthetic", synthetic), ("speed", speed), ("large", large)):
        if name in wanted:
            run()


if __name__ == "__main__":
    main()
