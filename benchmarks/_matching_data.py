"""Data sets of the benchmark of matching: two views of samples, some to choose settings on and some to report.

Image pairs are made, not downloaded: pieces of photographs that ship with scikit-image, beside a drawing of each. The
photograph changes in brightness and contrast and is lit from one side, the drawing is slightly out of shape, as a drawn
portrait is. The two kinds of drawing are made by different filters, one for choosing and one for reporting. Pieces of
the two pictures of a stereo camera are real pairs, and two colours of small patches are nearly copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Drawing = Callable[[Array], Array]

TUNE_PHOTOGRAPHS = ("camera", "chelsea", "brick", "gravel", "coffee")
REPORT_PHOTOGRAPHS = ("astronaut", "rocket", "coins", "grass", "moon")
COLOURED = ("astronaut", "rocket")  # of those to report
N_TRAIN, N_TEST = 88, 100  # as many as in the photographs and sketches of CUHK


@dataclass(frozen=True)
class Problem:
    """Two views, split; with labels, mAP over classes is measured as well."""

    name: str
    train: list[Array]
    test: list[Array]
    train_labels: Labels | None = None
    test_labels: Labels | None = None


# Photographs and drawings


def pencil(image: Array) -> Array:
    """Return a pencil drawing: what is darker than its surroundings is dark, all else is paper."""
    return np.clip(image / np.maximum(ndimage.gaussian_filter(image, 2.0), 0.05), 0, 1)


def charcoal(image: Array) -> Array:
    """Return a charcoal drawing: soft edges, and shades in four steps."""
    edges = ndimage.gaussian_gradient_magnitude(image, 1.0)
    shades = np.floor(4 * ndimage.gaussian_filter(image, 1.5)) / 4
    return np.clip(0.6 * shades + 0.4 - 4 * edges, 0, 1)


def out_of_shape(image: Array, rng: np.random.Generator, pixels: float) -> Array:
    """Return an image moved by a smooth random field of about that many pixels."""
    fields = [ndimage.gaussian_filter(rng.standard_normal(image.shape), image.shape[0] / 6) for _ in range(2)]
    places = np.indices(image.shape) + np.stack([pixels * field / field.std() for field in fields])
    return np.asarray(ndimage.map_coordinates(image, places, order=1, mode="nearest"))


def lit(image: Array, rng: np.random.Generator) -> Array:
    """Return an image of another brightness and contrast, lit from one side."""
    rows, columns = (np.linspace(-1, 1, n) for n in image.shape)
    light = rng.normal(0, 0.1) * rows[:, None] + rng.normal(0, 0.1) * columns
    return np.asarray(rng.uniform(0.4, 1.4) * image + rng.uniform(-0.3, 0.3) + light)


def drawn(name: str, photographs: list[Array], draw: Drawing, seed: int, n_train: int) -> Problem:
    """Return photographs and drawings of them, in random order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(photographs))
    views = [
        np.stack([lit(photographs[i], rng).ravel() for i in order]),
        np.stack([out_of_shape(draw(photographs[i]), rng, 1.0).ravel() for i in order]),
    ]
    return Problem(name, [view[:n_train] for view in views], [view[n_train:] for view in views])


def grey(name: str) -> Array:
    """Return a photograph of scikit-image as grey values from 0 to 1."""
    import skimage.color
    import skimage.data

    image: Any = getattr(skimage.data, name)()
    return np.asarray(skimage.color.rgb2gray(image) if image.ndim == 3 else image / 255.0, dtype=float)


def pieces(names: tuple[str, ...], size: int, count: int, seed: int) -> list[Array]:
    """Return pieces of photographs, as many of each, at random places."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        image = grey(names[number % len(names)])
        row, column = (int(rng.integers(n - size)) for n in image.shape)
        found.append(image[row : row + size, column : column + size])
    return found


def faces() -> list[Array]:
    """Return the 100 faces of scikit-image's subset of Labeled Faces in the Wild, 25 x 25."""
    import skimage.data

    both: Any = getattr(skimage.data, "lfw_subset")()  # noqa: B009 - its type is not known
    return [np.asarray(face, dtype=float) for face in both[:100]]


def stereo(size: int, seed: int) -> Problem:
    """Return pieces of the left and the right picture of a stereo camera, from the same place of each."""
    import skimage.color
    import skimage.data

    both: Any = getattr(skimage.data, "stereo_motorcycle")()  # noqa: B009 - its type is not known
    images = [skimage.color.rgb2gray(image) for image in both[:2]]
    rng = np.random.default_rng(seed)
    views: list[list[Array]] = [[], []]
    for _ in range(N_TRAIN + N_TEST):
        row, column = (int(rng.integers(n - size)) for n in images[0].shape)
        for view, image in zip(views, images, strict=True):
            view.append(image[row : row + size, column : column + size].ravel())
    tables = [np.stack(view) for view in views]
    return Problem(
        f"stereo pictures, {size} x {size}", [view[:N_TRAIN] for view in tables], [view[N_TRAIN:] for view in tables]
    )


def colours(size: int, seed: int) -> Problem:
    """Return the red and the blue values of patches: 1000 to learn from, 500 to test."""
    import skimage.data

    rng = np.random.default_rng(seed)
    views: list[list[Array]] = [[], []]
    for number in range(1500):
        image: Any = getattr(skimage.data, COLOURED[number % len(COLOURED)])()
        row, column = (int(rng.integers(n - size)) for n in image.shape[:2])
        for view, channel in zip(views, (0, 2), strict=True):
            view.append(image[row : row + size, column : column + size, channel].ravel() / 255.0)
    tables = [np.stack(view) for view in views]
    return Problem(
        f"red and blue of patches, {size} x {size}", [view[:1000] for view in tables], [view[1000:] for view in tables]
    )


# Features


def multifeature(folder: Path, first: str, second: str, n_train: int) -> Problem:
    """Return two of the feature sets of 2000 handwritten digits; the last 500 of a random order are for testing."""
    tables = [np.loadtxt(folder / f"mfeat-{name}.csv", delimiter=",", skiprows=1) for name in (first, second)]
    order = np.random.default_rng(0).permutation(len(tables[0]))
    train, test = order[:n_train], order[1500:]
    labels = tables[0][:, -1].astype(np.int64)
    return Problem(
        f"multifeature {first}-{second}, {n_train} pairs",
        [table[train, :-1] for table in tables],
        [table[test, :-1] for table in tables],
        labels[train],
        labels[test],
    )


# The two lists


def to_tune(data: Path | None, draw: int) -> list[Problem]:
    """Return the data sets that settings were chosen on."""
    import _recognition_wiki as known

    problems = [
        drawn("faces in pencil, 25 x 25", faces(), pencil, draw, 50),
        drawn("pieces in pencil, 40 x 40", pieces(TUNE_PHOTOGRAPHS, 40, N_TRAIN + N_TEST, draw), pencil, draw, N_TRAIN),
        held_out(known.load_halves(1), draw),
    ]
    if data is not None:
        for pair in (("pix", "fou"), ("kar", "zer")):
            problems += [multifeature(data / "multifeature", *pair, n) for n in (100, 1500)]
        problems.append(held_out(known.load_wiki(data / "wiki"), draw))
    return problems


def to_report(data: Path | None, draw: int) -> list[Problem]:
    """Return the data sets that figures are reported of."""
    import _recognition_wiki as known

    problems = [
        drawn(
            "pieces in charcoal, 64 x 64",
            pieces(REPORT_PHOTOGRAPHS, 64, N_TRAIN + N_TEST, draw),
            charcoal,
            draw,
            N_TRAIN,
        ),
        stereo(48, draw),
        colours(8, draw),
        as_problem(known.load_halves(2), "left and right halves of digits"),
    ]
    if data is not None:
        problems.append(multifeature(data / "multifeature", "fac", "zer", 100))
        problems.append(multifeature(data / "multifeature", "fac", "fou", 1500))
        problems.append(as_problem(known.load_wiki(data / "wiki"), "Wikipedia"))
    return problems


def as_problem(known: Any, name: str) -> Problem:
    """Return a data set of the other benchmark."""
    return Problem(name, known.train, known.test, known.train_labels, known.test_labels)


def held_out(known: Any, draw: int) -> Problem:
    """Return a random quarter of a training set as the samples to test, and the others to learn from."""
    order = np.random.default_rng(5 + draw).permutation(len(known.train_labels))
    held, kept = np.split(order, [len(order) // 4])
    return Problem(
        f"{known.name}, training set only",
        [view[kept] for view in known.train],
        [view[held] for view in known.train],
        known.train_labels[kept],
        known.train_labels[held],
    )
