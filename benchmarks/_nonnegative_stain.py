"""The stains of two tiles of tissue (folder ``stain``: source.png, target.png): how far seeds and pixels agree.

Every method learns the two stain colours 20 times. `seed`: from the same pixels with another seed, or called again
where there is no seed to set. `drawn`: from 100,000 pixels that are drawn anew each time. Told is the largest angle, in
degrees, between a colour and the median of the 20, hematoxylin / eosin; also for tiles of 2,000 x 2,000 pixels that
repeat them, of which coupledict draws a million with each seed. Times are for colours and densities of a tile
of 2,000 x 2,000 pixels, which repeats the source: medians of 5, in turns, on one thread.

Rivals: Macenko's method, written here; the numpy backend of torchstain, which has that method alone;
``spams.trainDL`` and ``spams.lasso`` with the settings of StainTools; scikit-learn's ``DictionaryLearning`` with the
settings of tiatoolbox 2, which turns rows and columns around, and least squares for the densities, as it does. What is
not installed is left out, with a word about it. Rivals are given the same background as coupledict, and the same
threshold for tissue, except torchstain, which has its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _data import Array
from _main import Options, duration, join, table
from _timing import Entry, measure

from coupledict.images import StainSeparator
from coupledict.images._files import read_image
from coupledict.images._stain_pictures import estimate_white

TILES = ("source", "target")
N_SEEDS = 20
DRAWN = 100_000
SIDE = 2000
THRESHOLD = 0.15  # mean optical density of tissue
ALPHA, CODE_ALPHA = 0.1, 0.01  # the penalties of StainTools
Learn = Callable[[Array, int], Array]


def optical_density(pixels: Array, white: Array) -> Array:
    """Return the optical density of pixels of 8 bits, as rows."""
    depth: Array = np.maximum(-np.log(np.maximum(pixels.reshape(-1, 3), 1) / 255 / white), 0)
    return depth


def tissue(pixels: Array, white: Array) -> Array:
    """Return the optical density of the pixels of tissue."""
    depth = optical_density(pixels, white)
    shown: Array = depth[depth.mean(axis=1) > THRESHOLD]
    return shown


def ordered(colours: Array) -> Array:
    """Return colours of norm 1, by the rule of the rivals: the one that absorbs more red is hematoxylin."""
    units: Array = colours / np.linalg.norm(colours, axis=1, keepdims=True)
    return np.asarray(units if units[0, 0] >= units[1, 0] else units[::-1])


# Methods: pixels of shape (rows, columns, 3), seed -> stain colours


def ours(pixels: Array, seed: int) -> Array:
    return np.asarray(StainSeparator(random_state=seed).fit(pixels).stain_matrix_)


def macenko(pixels: Array, seed: int, white: Array) -> Array:
    """Take the ends of the fan of colours in the plane of the two main axes (Macenko et al., 2009)."""
    del seed
    depth = tissue(pixels, white)
    axes = np.linalg.eigh(np.cov(depth.T))[1][:, [2, 1]]
    axes *= np.where(axes[0] < 0, -1, 1)
    angles = np.arctan2(depth @ axes[:, 1], depth @ axes[:, 0])
    ends = np.percentile(angles, [1, 99])
    return ordered(np.stack([axes @ [np.cos(end), np.sin(end)] for end in ends]))


def torchstain(pixels: Array, seed: int) -> Array:
    del seed
    normalizer = importlib.import_module("torchstain").normalizers.MacenkoNormalizer(backend="numpy")
    normalizer.fit(pixels)
    return ordered(np.asarray(normalizer.HERef).T)


def staintools(pixels: Array, seed: int, white: Array) -> Array:
    """Learn by SPAMS as StainTools calls it; there is no seed to set."""
    del seed
    import spams

    depth = np.asfortranarray(tissue(pixels, white).T)
    settings = {"mode": 2, "modeD": 0, "posAlpha": True, "posD": True, "verbose": False, "numThreads": 1}
    return ordered(np.asarray(spams.trainDL(depth, K=2, lambda1=ALPHA, **settings)).T)


def tiatoolbox(pixels: Array, seed: int, white: Array) -> Array:
    """Learn by scikit-learn as tiatoolbox calls it."""
    from sklearn.decomposition import DictionaryLearning

    learner = DictionaryLearning(
        2,
        alpha=ALPHA,
        transform_alpha=ALPHA,
        fit_algorithm="lars",
        transform_algorithm="lasso_lars",
        positive_dict=True,
        max_iter=3,
        transform_max_iter=1000,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ordered(learner.fit_transform(tissue(pixels, white).T).T)


def _with_white(method: Callable[[Array, int, Array], Array], white: Array) -> Learn:
    return lambda pixels, seed: method(pixels, seed, white)


def methods(white: Array) -> dict[str, Learn]:
    """Return the methods that are installed; rivals get this background."""
    found: dict[str, Learn] = {"coupledict": ours, "Macenko": _with_white(macenko, white)}
    if importlib.util.find_spec("torchstain"):
        found["torchstain (Macenko)"] = torchstain
    if importlib.util.find_spec("spams"):
        found["SPAMS, as StainTools"] = _with_white(staintools, white)
    found["scikit-learn, as tiatoolbox"] = _with_white(tiatoolbox, white)
    return found


# Agreement


def spread(found: Array) -> list[float]:
    """Return, for each stain, the largest angle to the median, in degrees."""
    middle = np.median(found, axis=0)
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    largest = np.degrees(np.arccos(np.clip((found * middle).sum(axis=2), -1, 1))).max(axis=0)
    return [float(angle) for angle in largest]


def agreement(image: Array, learn: Learn, n_seeds: int) -> dict[str, Any]:
    """Learn with other seeds, and from other pixels."""
    flat = image.reshape(-1, 1, 3)
    seeds = np.array([learn(image, seed) for seed in range(n_seeds)])
    drawn = []
    for seed in range(n_seeds):
        if learn is ours:
            drawn.append(np.asarray(StainSeparator(max_samples=DRAWN, random_state=seed).fit(image).stain_matrix_))
            continue
        places = np.random.default_rng(seed).choice(len(flat), min(DRAWN, len(flat)), replace=False)
        drawn.append(learn(flat[np.sort(places)], seed))
    return {"seed": spread(seeds), "drawn": spread(np.array(drawn)), "colours": np.median(seeds, axis=0).tolist()}


def enlarge(image: Array, side: int) -> Array:
    """Repeat a tile up to a square of this side."""
    times = [-(-side // room) for room in image.shape[:2]]
    return np.tile(image, (*times, 1))[:side, :side]


# Time


def separate(name: str, image: Array, white: Array) -> Callable[[], Array]:
    """Return what finds colours and densities of an image by a method."""
    if name == "coupledict":
        return lambda: StainSeparator().fit(image).transform(image)
    learn = methods(white)[name]

    def by_least_squares() -> Array:
        colours = learn(image, 0)
        return np.asarray(np.linalg.lstsq(colours.T, optical_density(image, white).T, rcond=None)[0])

    def by_lasso() -> Array:
        import spams

        colours, depth = np.asfortranarray(learn(image, 0).T), np.asfortranarray(optical_density(image, white).T)
        return np.asarray(spams.lasso(depth, colours, mode=2, lambda1=CODE_ALPHA, pos=True, numThreads=1).toarray())

    return by_lasso if "SPAMS" in name else by_least_squares


def run(options: Options) -> dict[str, Any]:
    """Return angles, seconds and colours by method; nothing where there are no tiles."""
    folder = None if options.data is None else options.data / "stain"
    if folder is None or not all((folder / f"{name}.png").is_file() for name in TILES):
        options.note("stain is left out: there are no tiles source.png and target.png in the folder stain of the data.")
        return {}
    n_seeds, side = (3, 400) if options.quick else (N_SEEDS, SIDE)
    images = {name: np.ascontiguousarray(read_image(folder / f"{name}.png").pixels[..., :3]) for name in TILES}
    if options.quick:
        images = {name: image[:200, :200] for name, image in images.items()}
    whites = {name: np.asarray(estimate_white(image)) for name, image in images.items()}
    if importlib.util.find_spec("torchstain") is None:
        options.note("torchstain is left out: it is not installed.")
    results: dict[str, Any] = {name: {} for name in methods(whites["source"])}
    for method in results:
        for name, image in images.items():
            results[method][name] = agreement(image, methods(whites[name])[method], n_seeds)
    large = {name: enlarge(image, side) for name, image in images.items()}
    entries = [Entry(name, separate(name, large["source"], whites["source"])) for name in results]
    for timing in measure(entries, repeats=options.repeats, at_least=options.repeats):
        results[timing.name]["seconds"] = timing.median
    for name, image in large.items():
        results["coupledict"][name]["large"] = spread(np.array([ours(image, seed) for seed in range(n_seeds)]))
    return {"side": side, "methods": results}


def report(found: dict[str, Any]) -> str:
    """Return the tables."""
    side, results = found["side"], found["methods"]
    rows, colours = [], []
    for method, result in results.items():
        shown = [
            " / ".join(f"{angle:.3f}" for angle in result[name][how]) for name in TILES for how in ("seed", "drawn")
        ]
        rows.append([method, *shown, duration(result["seconds"])])
        for name in TILES:
            parts = ["; ".join(", ".join(f"{part:.3f}" for part in colour) for colour in result[name]["colours"])]
            colours.append([method, name, *parts])
    headers = [f"{name}, {how}" for name in TILES for how in ("seed", "drawn")]
    large = [
        f"coupledict, {name} repeated to {side} x {side}, seeds:"
        f" {' / '.join(f'{angle:.3f}' for angle in results['coupledict'][name]['large'])}"
        for name in TILES
    ]
    return join(
        table(["method", *headers, f"{side} x {side}"], rows),
        *large,
        table(["method", "tile", "colours of hematoxylin; eosin"], colours, left=3),
    )
