"""Paired data sets on which prediction is measured, each split by picture, speaker, stripe or at random.

Settings may be chosen on the half ``"chosen"``, figures are reported on the half ``"reported"``. Each kind of data has
a set in both where there are two. Training rows stay in their natural order: those of one picture, speaker or stripe
lie together. A set of fewer than 300 rows has five random splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.signal
import skimage.data
from _data import Array
from _recognition_wiki import find_wiki, load_wiki
from missing_recognition import load_six_views
from PIL import Image
from scipy import ndimage
from scipy.io import loadmat
from sklearn import datasets
from sklearn.model_selection import ShuffleSplit, train_test_split

from coupledict.audio._files import READABLE, read_wide
from coupledict.datasets import make_coupled_signals
from coupledict.experiments.sources import FOCUSED_REGIONS, bundled_image, lytro_folder

TEST_ROWS = 5_000
N_SPLITS = 5
VIEW_NAMES = ("fou", "fac", "kar", "pix", "zer", "mor")
Half = Literal["chosen", "reported"]
Pair = tuple[Array, Array]


@dataclass(frozen=True)
class Split:
    """Pairs to learn from and pairs to test on."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array


@dataclass(frozen=True)
class PairedSet:
    """A paired data set: what it is, how it is split, its half, and the splits of it; ``folder`` is what it reads."""

    name: str
    what: str
    split: str
    half: Half
    load: Callable[[Path], list[Split]]
    folder: str = ""


# Patches of pictures


def draw_patches(images: Sequence[Pair], n_rows: int, *, side: int, seed: int) -> Pair:
    """Cut the same patches from pairs of pictures, ordered by picture, row and column."""
    rng = np.random.default_rng(seed)
    found: list[Pair] = []
    for number, (source, target) in enumerate(images):
        count = n_rows * (number + 1) // len(images) - n_rows * number // len(images)
        height, width = (length - side + 1 for length in source.shape[:2])
        places = np.sort(rng.choice(height * width, size=min(count, height * width), replace=False))
        found.append((_windows(source, places, width, side), _windows(target, places, width, side)))
    return np.vstack([x for x, _ in found]), np.vstack([y for _, y in found])


def _windows(image: Array, places: Array, width: int, side: int) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(image, (side, side), axis=(0, 1))
    return np.asarray(windows[places // width, places % width].reshape(len(places), -1), dtype=np.float64)


def split_pictures(train: Sequence[Pair], test: Sequence[Pair], n_train: int, *, side: int = 8) -> list[Split]:
    """Draw patches of both views, less the mean of the source."""

    def draw(images: Sequence[Pair], n_rows: int, seed: int) -> Pair:
        x, y = draw_patches(images, n_rows, side=side, seed=seed)
        means = x.mean(axis=1, keepdims=True)
        return x - means, y - means

    return [Split(*draw(train, n_train, 0), *draw(test, TEST_ROWS, 1))]


def lytro_regions(folder: Path, *, n_train: int) -> list[Split]:
    """Regions out of focus, and in focus: three pairs to learn from, two to test."""
    found = []
    for pair, sharp, soft, row, column, height, width in FOCUSED_REGIONS:
        focused, blurred = (_read_lytro(folder, pair, side) for side in (sharp, soft))
        region = slice(row, row + height), slice(column, column + width)
        found.append((blurred[region], focused[region]))
    return split_pictures(found[:3], found[3:], n_train)


def lytro_pictures(folder: Path, *, n_train: int) -> list[Split]:
    """Whole pictures A and B, of the pairs without a region: ten to learn from, five to test."""
    with_region = {region[0] for region in FOCUSED_REGIONS}
    names = [f"{number:02}" for number in range(1, 21) if f"{number:02}" not in with_region]
    found = [(_read_lytro(folder, name, "A"), _read_lytro(folder, name, "B")) for name in names]
    return split_pictures(found[:10], found[10:], n_train)


def _read_lytro(folder: Path, pair: str, side: str) -> Array:
    return _read_grey(lytro_folder(folder) / f"lytro-{pair}-{side}.jpg")


def _read_grey(file: Path) -> Array:
    with Image.open(file) as image:
        return np.asarray(image.convert("L"), dtype=np.float64)


def blurred_photographs(_: Path, *, names: tuple[Sequence[str], Sequence[str]], noise: float) -> list[Split]:
    """Photographs of scikit-image, to learn from and to test, blurred by a Gaussian of width 1.5, with white noise."""
    train, test = names
    rng = np.random.default_rng(0)

    def blur(name: str) -> Pair:
        image = bundled_image(name)
        return ndimage.gaussian_filter(image, 1.5) + rng.normal(0, noise, image.shape), image

    return split_pictures([blur(name) for name in train], [blur(name) for name in test], 8_000)


def colour_photographs(_: Path) -> list[Split]:
    """Red and green of patches of 4 x 4 pixels, and their blue."""

    def colours(name: str) -> Pair:
        image = bundled_image(name, colour=True)
        return image[..., :2], image[..., 2]

    return split_pictures(
        [colours(name) for name in ("chelsea", "coffee", "rocket")], [colours("astronaut")], 6_000, side=4
    )


def stained_tissue(_: Path) -> list[Split]:
    """Red and green of a stained section, and their blue: the upper and the lower part of one picture."""
    image = np.asarray(_picture("immunohistochemistry"), dtype=np.float64)
    upper, lower = image[:320], image[328:]
    return split_pictures([(upper[..., :2], upper[..., 2])], [(lower[..., :2], lower[..., 2])], 3_000, side=4)


def stereo_pair(_: Path) -> list[Split]:
    """Left picture, and the right one shifted by the true disparity: every other stripe of rows is for the test."""
    *both, disparity = _picture("stereo_motorcycle")
    left, right = (np.asarray(image, dtype=np.float64) @ (0.2125, 0.7154, 0.0721) for image in both)
    known = np.isfinite(disparity)
    shift = np.rint(np.where(known, disparity, np.median(disparity[known]))).astype(int)
    columns = np.clip(np.arange(left.shape[1]) - shift, 0, None)
    right = np.take_along_axis(right, columns, axis=1)
    stripes = [(left[row : row + 64], right[row : row + 64]) for row in range(0, 7 * 71, 71)]
    return split_pictures(stripes[::2], stripes[1::2], 8_000)


def _picture(name: str) -> Any:
    return getattr(skimage.data, name)()


def upscaled_pictures(folder: Path, *, scale: int, gradients: bool, n_train: int) -> list[Split]:
    """Patches of pictures made small and large again, or their gradients, and the detail that was lost.

    For scale 2, 60 pictures of T91 to learn from and the others to test; for scale 3 all of them, and Set14.
    """
    train = sorted((folder / "sr" / "T91").glob("*.bmp"))
    test = sorted((folder / "sr" / "Set14").rglob(f"*SRF_{scale}_HR.png"))
    if scale == 2:
        train, test = train[:60], train[60:]

    def pair(file: Path) -> Pair:
        image = _read_grey(file)
        height, width = (length // scale * scale for length in image.shape)
        image = image[:height, :width]
        small = Image.fromarray(image.astype(np.float32)).resize(
            (width // scale, height // scale), Image.Resampling.BICUBIC
        )
        large = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float64)
        source = np.stack([np.gradient(large, axis=axis) for axis in (0, 1)], axis=2) if gradients else large
        return source, image - large

    def draw(files: Sequence[Path], n_rows: int, seed: int) -> Pair:
        x, y = draw_patches([pair(file) for file in files], n_rows, side=7, seed=seed)
        return x if gradients else x - x.mean(axis=1, keepdims=True), y

    return [Split(*draw(train, n_train, 0), *draw(test, TEST_ROWS, 1))]


# Speech and spectra


def speech_bands(folder: Path, *, place: str, n_test: int, hop: int, n_train: int) -> list[Split]:
    """Log spectra of frames below and above 4 kHz; the last speakers are for the test."""
    files = sorted(file for file in (folder / "speech" / place).glob("*") if file.suffix.lower() in READABLE)
    frames = [_log_bands(read_wide(file)[:, 0], hop) for file in files]
    x, y = (np.vstack(parts) for parts in zip(*frames[:-n_test], strict=True))
    x_test, y_test = (np.vstack(parts) for parts in zip(*frames[-n_test:], strict=True))
    rows, test_rows = spread(len(x), n_train), spread(len(x_test), TEST_ROWS)
    return [Split(x[rows], y[rows], x_test[test_rows], y_test[test_rows])]


def _log_bands(signal: Array, hop: int) -> Pair:
    spectrum = np.abs(scipy.signal.stft(signal, nperseg=512, noverlap=512 - hop)[2].T[:, 1:]) ** 2
    loudness = spectrum.sum(axis=1)
    spectrum = spectrum[loudness > 1e-4 * np.quantile(loudness, 0.99)]
    floor = 1e-8 * spectrum.mean()
    low, high = spectrum[:, :128].reshape(-1, 64, 2), spectrum[:, 128:].reshape(-1, 32, 4)
    return np.log(low.mean(axis=2) + floor), np.log(high.mean(axis=2) + floor)


def spread(length: int, most: int) -> Array:
    """Return at most so many rows, evenly spread."""
    return np.arange(length) if length <= most else np.linspace(0, length - 1, most).astype(int)


def camera_and_spectra(folder: Path, *, name: str) -> list[Split]:
    """Three broad bands with noise at 40 dB, and the spectrum of a pixel; five stripes of columns."""
    y = np.asarray(loadmat(folder / "unmixing" / f"{name}.mat")["Y"], dtype=np.float64).T
    y = y / y.max()
    thirds = np.array_split(np.arange(y.shape[1]), 3)
    x = np.stack([y[:, third].mean(axis=1) for third in thirds], axis=1)
    x = x + np.random.default_rng(0).normal(size=x.shape) * 0.01 * np.sqrt(np.mean(x**2, axis=0))
    stripes = np.array_split(np.arange(len(x)), 5)
    train, test = np.concatenate(stripes[::2]), np.concatenate(stripes[1::2])
    return [Split(x[train], y[train], x[test], y[test])]


# Tables


def handwritten(folder: Path, *, source: str, target: str) -> list[Split]:
    """Two of the six views of handwritten digits, shuffled and stratified: 1,400 to learn from, 600 to test."""
    _, views, labels = load_six_views(folder)
    x, y = (views[VIEW_NAMES.index(name)] for name in (source, target))
    return [_stratified(x, y, labels)]


def digit_halves(_: Path) -> list[Split]:
    """Left and right half of scikit-learn's digits."""
    digits = datasets.load_digits()
    x, y = (digits.images[:, :, half].reshape(-1, 32) for half in (slice(4), slice(4, 8)))
    return [_stratified(x, y, digits.target)]


def _stratified(x: Array, y: Array, labels: Array) -> Split:
    train, test = train_test_split(np.arange(len(x)), test_size=0.3, stratify=labels, random_state=0)
    return Split(x[train], y[train], x[test], y[test])


def face_halves(_: Path) -> list[Split]:
    """Left and right half of pictures of faces."""
    faces = np.asarray(_picture("lfw_subset")[:100], dtype=np.float64)
    return _random_splits(faces[:, :, :12].reshape(100, -1), faces[:, :, 13:].reshape(100, -1))


def wikipedia(folder: Path) -> list[Split]:
    """Picture and text features of articles, as they were published."""
    found = find_wiki(folder)
    assert found is not None
    problem = load_wiki(found)
    return [Split(*problem.train, *problem.test)]


def newsgroups(folder: Path) -> list[Split]:
    """Two views of word counts of 500 posts."""
    with np.load(folder / "paired" / "newsgroups.npz") as found:
        return [_stratified(found["view0"].astype(float), found["view1"].astype(float), found["label"])]


def liver(folder: Path, *, from_genes: bool) -> list[Split]:
    """Genes and clinical values, standardised by their spread, of 64 rats."""
    with np.load(folder / "paired" / "liver.npz") as found:
        genes, clinic = found["gene"].astype(np.float64), found["clinic"].astype(np.float64)
    clinic = clinic / clinic.std(axis=0)
    return _random_splits(genes, clinic) if from_genes else _random_splits(clinic, genes)


def features_in_two(_: Path, *, name: str, n_source: int) -> list[Split]:
    """Features of a table of scikit-learn, divided by their spread and cut in two."""
    table = np.asarray(getattr(datasets, f"load_{name}")().data, dtype=np.float64)
    table = table / table.std(axis=0)
    return _random_splits(table[:, :n_source], table[:, n_source:])


def exercises(_: Path) -> list[Split]:
    """Exercises and measures of the body of 20 men."""
    found = datasets.load_linnerud()
    return _random_splits(np.asarray(found.data, dtype=np.float64), found.target / found.target.std(axis=0))


def _random_splits(x: Array, y: Array) -> list[Split]:
    cuts = ShuffleSplit(N_SPLITS if len(x) < 300 else 1, test_size=0.3, random_state=0)
    return [Split(x[train], y[train], x[test], y[test]) for train, test in cuts.split(x)]


def simulated(
    _: Path, *, n_train: int, n_components: int, widths: Sequence[int], limit: int, noise: float
) -> list[Split]:
    """Signals that share a sparse code."""
    signals = make_coupled_signals(
        n_train + 2_000,
        n_components=n_components,
        n_features=widths,
        n_nonzero_coefs=limit,
        noise=noise,
        random_state=0,
    )
    x, y = signals.views.values()
    return [Split(x[:n_train], y[:n_train], x[n_train:], y[n_train:])]


FIRST_PICTURES = ("camera", "moon", "gravel"), ("brick", "coins")
OTHER_PICTURES = ("astronaut", "chelsea", "grass"), ("coffee", "rocket")

SETS: tuple[PairedSet, ...] = (
    PairedSet("lytro pictures", "8 x 8 patches of picture A, of picture B", "pictures", "chosen",
              partial(lytro_pictures, n_train=12_000), "lytro"),
    PairedSet("super-resolution x2", "gradients of upscaled 7 x 7 patches, lost detail", "pictures", "chosen",
              partial(upscaled_pictures, scale=2, gradients=True, n_train=10_000), "sr"),
    PairedSet("arctic bands", "log spectra below 4 kHz, above", "speakers", "chosen",
              partial(speech_bands, place="arctic", n_test=3, hop=128, n_train=20_000), "speech"),
    PairedSet("Jasper", "three broad bands, spectra", "stripes", "chosen",
              partial(camera_and_spectra, name="Jasper"), "unmixing"),
    PairedSet("digits kar to pix", "Karhunen-Loeve coefficients, pixels", "random", "chosen",
              partial(handwritten, source="kar", target="pix"), "multifeature"),
    PairedSet("digits fou to mor", "Fourier coefficients, morphological features", "random", "chosen",
              partial(handwritten, source="fou", target="mor"), "multifeature"),
    PairedSet("digit halves", "left half of 8 x 8 digits, right half", "random", "chosen", digit_halves),
    PairedSet("newsgroups", "word counts of two views", "random", "chosen", newsgroups, "paired"),
    PairedSet("clinic to genes", "clinical values of rats, genes", "random, 5", "chosen",
              partial(liver, from_genes=False), "paired"),
    PairedSet("diabetes", "first 4 features, the other 6", "random", "chosen",
              partial(features_in_two, name="diabetes", n_source=4)),
    PairedSet("wine", "first 6 features, the other 7", "random, 5", "chosen",
              partial(features_in_two, name="wine", n_source=6)),
    PairedSet("blur", "8 x 8 patches, blurred, sharp", "pictures", "chosen",
              partial(blurred_photographs, noise=0.0, names=FIRST_PICTURES)),
    PairedSet("blur and noise", "8 x 8 patches, blurred, with noise of 5, sharp", "pictures", "chosen",
              partial(blurred_photographs, noise=5.0, names=FIRST_PICTURES)),
    PairedSet("sparse 80 atoms", "simulated, 3 of 80 atoms, 5 % noise", "random", "chosen",
              partial(simulated, n_train=4_000, n_components=80, widths=(40, 40), limit=3, noise=0.05)),
    PairedSet("colours", "red and green of 4 x 4 patches, blue", "pictures", "chosen", colour_photographs),
    PairedSet("lytro defocus", "8 x 8 patches out of focus, in focus", "pictures", "reported",
              partial(lytro_regions, n_train=20_000), "lytro"),
    PairedSet("super-resolution x3", "upscaled 7 x 7 patches, lost detail", "pictures", "reported",
              partial(upscaled_pictures, scale=3, gradients=False, n_train=15_000), "sr"),
    PairedSet("audiomnist bands", "log spectra below 4 kHz, above", "speakers", "reported",
              partial(speech_bands, place="audiomnist", n_test=4, hop=160, n_train=20_000), "speech"),
    PairedSet("Samson", "three broad bands, spectra", "stripes", "reported",
              partial(camera_and_spectra, name="Samson"), "unmixing"),
    PairedSet("digits fac to zer", "profile correlations, Zernike moments", "random", "reported",
              partial(handwritten, source="fac", target="zer"), "multifeature"),
    PairedSet("digits zer to kar", "Zernike moments, Karhunen-Loeve coefficients", "random", "reported",
              partial(handwritten, source="zer", target="kar"), "multifeature"),
    PairedSet("face halves", "left half of 25 x 25 faces, right half", "random, 5", "reported", face_halves),
    PairedSet("wikipedia", "picture features, topics of the text", "as published", "reported", wikipedia, "wiki"),
    PairedSet("genes to clinic", "genes of rats, clinical values", "random, 5", "reported",
              partial(liver, from_genes=True), "paired"),
    PairedSet("breast cancer", "first 10 features, the other 20", "random", "reported",
              partial(features_in_two, name="breast_cancer", n_source=10)),
    PairedSet("linnerud", "exercises, measures of the body", "random, 5", "reported", exercises),
    PairedSet("blur others", "8 x 8 patches, blurred, sharp", "pictures", "reported",
              partial(blurred_photographs, noise=0.0, names=OTHER_PICTURES)),
    PairedSet("blur and noise others", "8 x 8 patches, blurred, with noise of 5, sharp", "pictures", "reported",
              partial(blurred_photographs, noise=5.0, names=OTHER_PICTURES)),
    PairedSet("sparse 128 atoms", "simulated, 4 of 128 atoms, 10 % noise", "random", "reported",
              partial(simulated, n_train=10_000, n_components=128, widths=(64, 48), limit=4, noise=0.1)),
    PairedSet("stereo", "8 x 8 patches of the left picture, of the right", "stripes", "reported", stereo_pair),
    PairedSet("stained tissue", "red and green of 4 x 4 patches, blue", "stripes", "reported", stained_tissue),
)  # fmt: skip

#: Sets of which prediction is measured for many numbers of rows: as many as they have.
LARGE_SETS: tuple[PairedSet, ...] = (
    PairedSet("lytro defocus", "8 x 8 patches out of focus, in focus", "pictures", "reported",
              partial(lytro_regions, n_train=50_000), "lytro"),
    PairedSet("super-resolution x3", "upscaled 7 x 7 patches, lost detail", "pictures", "reported",
              partial(upscaled_pictures, scale=3, gradients=False, n_train=50_000), "sr"),
    PairedSet("audiomnist bands", "log spectra below 4 kHz, above", "speakers", "reported",
              partial(speech_bands, place="audiomnist", n_test=4, hop=32, n_train=50_000), "speech"),
)  # fmt: skip
