"""Signals and dictionaries for the benchmarks: image patches, pairs of views, random mixtures, cosine atoms.

Everything random is drawn from a seed: two runs with the same seed and images see the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import ndimage

from coupledict.experiments.sources import cut_patches

Array = NDArray[Any]


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
    return cut_patches(images, which, rows, columns, side, dtype)


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
    focused = cut_patches(images, which, rows, columns, side, dtype)
    blurred = cut_patches(soft, which, rows, columns, side, dtype)
    return focused, blurred


def _positions(images: list[Array], n_patches: int, side: int, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    room = np.array([(image.shape[0] - side + 1, image.shape[1] - side + 1) for image in images])
    count = room.prod(axis=1)
    which = rng.choice(len(images), size=n_patches, p=count / count.sum())
    rows = rng.integers(room[which, 0])
    columns = rng.integers(room[which, 1])
    return which, rows, columns


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


def colour_cosine_dictionary(side: int = 8, n_per_axis: int = 16) -> Array:
    """Make cosine atoms for colour patches whose channels red, green and blue lie one after the other.

    All atoms of :func:`cosine_dictionary` in grey, and half of them, those of the lowest frequencies, in each of two
    colours that are orthogonal to grey and to each other: red against blue, and green against both.

    Returns
    -------
    dictionary : ndarray of shape (2 * n_per_axis ** 2, 3 * side ** 2)
        Rows of unit norm, float64.
    """
    waves = cosine_dictionary(side, n_per_axis)
    low = np.argsort(np.add.outer(np.arange(n_per_axis), np.arange(n_per_axis)), axis=None, kind="stable")
    smooth = waves[low[: len(waves) // 2]]
    colours = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])
    return np.vstack([np.kron(colour, atoms) for colour, atoms in zip(colours, (waves, smooth, smooth), strict=True)])


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
