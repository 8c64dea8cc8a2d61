"""Signals and dictionaries for the benchmarks: image patches, pairs of views, random mixtures, cosine atoms.

Everything random is drawn from a seed: two runs with the same seed and images see the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import ndimage

Array = NDArray[Any]

#: Photographs inside the scikit-image wheel: none of them is downloaded.
BUNDLED = (
    "camera",
    "coins",
    "moon",
    "brick",
    "grass",
    "gravel",
    "astronaut",
    "chelsea",
    "coffee",
    "rocket",
)

#: Regions of the Lytro pairs where one image is in focus and the other is not: pair, focused, blurred, row, column,
#: height, width. The authors of the paper trained on these.
FOCUSED_REGIONS = (
    ("07", "B", "A", 140, 3, 100, 152),
    ("09", "A", "B", 85, 55, 304, 187),
    ("12", "B", "A", 148, 300, 226, 216),
    ("13", "B", "A", 41, 121, 206, 353),
    ("17", "B", "A", 89, 343, 180, 168),
)


def data_directory(given: str | None) -> Path | None:
    """Return the folder of ``--data``, else of ``COUPLEDICT_DATA``, else None."""
    name = given or os.environ.get("COUPLEDICT_DATA")
    return Path(name) if name else None


def load_images(directory: Path | None) -> tuple[list[Array], str]:
    """Load grey images on the scale 0-255, and a sentence that says which.

    Parameters
    ----------
    directory : Path or None
        Folder whose sub-folder ``lytro`` holds the Lytro multi-focus pairs; None takes bundled photographs.

    Returns
    -------
    images : list of ndarray of shape (height, width), float32
    sentence : str
    """
    if directory is None:
        return _bundled_images(), (
            f"Images: {len(BUNDLED)} photographs bundled with scikit-image (neither --data nor COUPLEDICT_DATA is set)."
        )
    files = sorted((directory / "lytro").glob("*.jpg"))
    if not files:
        raise FileNotFoundError(
            f"Expected images lytro/*.jpg in the data folder '{directory}', found none; "
            "correct --data or COUPLEDICT_DATA, or leave both unset to use the bundled photographs."
        )
    return [_grey(file) for file in files], f"Images: the Lytro multi-focus set, {len(files)} images."


def load_pairs(directory: Path | None, *, sigma: float = 2.0) -> tuple[list[Array], list[Array], str]:
    """Load regions in focus and the same regions out of focus, on the scale 0-255, and a sentence that says which.

    Parameters
    ----------
    directory : Path or None
        Folder whose sub-folder ``lytro`` holds the Lytro multi-focus pairs; None takes bundled photographs and
        blurs them with a Gaussian of width `sigma`.

    Returns
    -------
    focused, blurred : list of ndarray of shape (height, width), float32
    sentence : str
    """
    if directory is None:
        images = _bundled_images()
        soft = [ndimage.gaussian_filter(image, sigma) for image in images]
        sentence = f"Pairs: bundled photographs and copies blurred by a Gaussian of width {sigma:g}: not real pairs."
        return images, soft, sentence
    focused, blurred = [], []
    for pair, sharp, blunt, row, column, height, width in FOCUSED_REGIONS:
        region = slice(row, row + height), slice(column, column + width)
        focused.append(_grey(directory / "lytro" / f"lytro-{pair}-{sharp}.jpg")[region])
        blurred.append(_grey(directory / "lytro" / f"lytro-{pair}-{blunt}.jpg")[region])
    return focused, blurred, f"Pairs: {len(focused)} focused and blurred regions of the Lytro multi-focus set."


def _grey(file: Path) -> Array:
    from PIL import Image

    with Image.open(file) as image:
        return np.asarray(image.convert("L"), dtype=np.float32)


def _bundled_images() -> list[Array]:
    import skimage.color
    import skimage.data

    images = []
    for name in BUNDLED:
        image = getattr(skimage.data, name)()
        if image.ndim == 3:
            image = 255.0 * skimage.color.rgb2gray(image)
        images.append(np.asarray(image, dtype=np.float32))
    return images


def centred_patches(
    images: list[Array], n_patches: int, *, side: int = 8, seed: int = 0, dtype: DTypeLike = np.float64
) -> Array:
    """Cut patches at random positions and take the mean of each away.

    Every position of every image is equally likely, and a position may come twice.

    Returns
    -------
    patches : ndarray of shape (n_patches, side * side)
    """
    which, rows, columns = _positions(images, n_patches, side, seed)
    return _cut(images, which, rows, columns, side, dtype)


def focused_and_blurred(
    images: list[Array],
    n_patches: int,
    *,
    side: int = 8,
    sigma: float = 2.0,
    seed: int = 0,
    dtype: DTypeLike = np.float64,
) -> tuple[Array, Array]:
    """Cut the same patches from images and from their Gaussian-blurred copies, both mean-centred.

    Returns
    -------
    focused, blurred : ndarray of shape (n_patches, side * side)
    """
    which, rows, columns = _positions(images, n_patches, side, seed)
    soft = [ndimage.gaussian_filter(image, sigma) for image in images]
    focused = _cut(images, which, rows, columns, side, dtype)
    blurred = _cut(soft, which, rows, columns, side, dtype)
    return focused, blurred


def distinct_patches(
    sets: Sequence[list[Array]], n_patches: int, *, side: int = 8, seed: int = 0, dtype: DTypeLike = np.float64
) -> tuple[Array, ...]:
    """Cut patches at the same random positions from sets of images of equal sizes, each patch mean-centred.

    Every position of every image is equally likely, and no position comes twice, so that the patches can be
    divided into some to learn from and some that were never seen (they may overlap).

    Returns
    -------
    patches : tuple of ndarray of shape (n_patches, side * side)
        One for each set.
    """
    rng = np.random.default_rng(seed)
    room = np.array([(image.shape[0] - side + 1, image.shape[1] - side + 1) for image in sets[0]])
    count = room.prod(axis=1)
    ends = np.cumsum(count)
    places = rng.choice(int(ends[-1]), size=n_patches, replace=False)
    which = np.searchsorted(ends, places, side="right")
    rows, columns = np.divmod(places - (ends - count)[which], room[which, 1])
    return tuple(_cut(images, which, rows, columns, side, dtype) for images in sets)


def _positions(images: list[Array], n_patches: int, side: int, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    room = np.array([(image.shape[0] - side + 1, image.shape[1] - side + 1) for image in images])
    count = room.prod(axis=1)
    which = rng.choice(len(images), size=n_patches, p=count / count.sum())
    rows = rng.integers(room[which, 0])
    columns = rng.integers(room[which, 1])
    return which, rows, columns


def _cut(images: list[Array], which: Array, rows: Array, columns: Array, side: int, dtype: DTypeLike) -> Array:
    patches = np.empty((len(which), side * side), dtype=dtype)
    for number, image in enumerate(images):
        (mine,) = np.nonzero(which == number)
        windows = np.lib.stride_tricks.sliding_window_view(image, (side, side))
        patches[mine] = windows[rows[mine], columns[mine]].reshape(len(mine), side * side)
    patches -= patches.mean(axis=1, keepdims=True)
    return patches


def cosine_dictionary(side: int = 8, n_per_axis: int = 16) -> Array:
    """Make the overcomplete separable DCT dictionary for square patches.

    One-dimensional cosines of ``n_per_axis`` frequencies, the mean removed from all but the first, and
    normalised; the atoms are their Kronecker products.

    Returns
    -------
    dictionary : ndarray of shape (n_per_axis ** 2, side ** 2)
        Rows of unit norm, float64.
    """
    frequencies = np.arange(n_per_axis)[:, None]
    waves = np.cos(np.pi * frequencies * np.arange(side) / n_per_axis)
    waves[1:] -= waves[1:].mean(axis=1, keepdims=True)
    waves /= np.linalg.norm(waves, axis=1, keepdims=True)
    return np.kron(waves, waves)


def random_mixtures(
    n_signals: int,
    *,
    n_features: int = 256,
    n_components: int = 1024,
    n_nonzero: int = 32,
    noise: float = 0.05,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Draw a Gaussian dictionary with unit rows, and sparse mixtures of its atoms with noise.

    Parameters
    ----------
    noise : float
        Norm of the noise of a signal over the norm of its mixture, on average.

    Returns
    -------
    signals : ndarray of shape (n_signals, n_features)
    dictionary : ndarray of shape (n_components, n_features)
    """
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_components, n_features))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    codes = np.zeros((n_signals, n_components))
    support = np.argsort(rng.random((n_signals, n_components)), axis=1)[:, :n_nonzero]
    np.put_along_axis(codes, support, rng.standard_normal((n_signals, n_nonzero)), axis=1)
    signals = codes @ dictionary
    scale = noise * np.sqrt(n_nonzero / n_features)
    signals += scale * rng.standard_normal(signals.shape)
    return signals, dictionary
