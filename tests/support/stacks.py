"""Small focus stacks whose truth is known: smooth textures, moved by SciPy's splines and blurred by Gaussians."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

MARGIN = 40  # pixels of a canvas around the frame, so that moved pictures are real to their borders


def texture(shape, seed=0, finest=1.5):
    """Return a texture with structures of all sizes, from 0 to 255."""
    rng = np.random.default_rng(seed)
    widths = [width for width in (finest, 2 * finest, 4 * finest, 8 * finest) if 4 * width < min(shape)] or [finest]
    sums = sum(width * ndimage.gaussian_filter(rng.standard_normal(shape), width) for width in widths)
    return 255 * (sums - sums.min()) / np.ptp(sums)


def canvas(shape, seed=0, finest=1.5):
    """Return a texture with a margin."""
    return texture((shape[0] + 2 * MARGIN, shape[1] + 2 * MARGIN), seed, finest)


def view(scene, matrix, shape):
    """Return the picture of `shape` that shows the point p of the frame of a canvas at `matrix` p."""
    rows, columns = np.mgrid[: shape[0], : shape[1]].reshape(2, -1)
    x, y, scale = np.linalg.inv(matrix) @ np.stack([columns, rows, np.ones(rows.size)])
    return ndimage.map_coordinates(scene, [y / scale + MARGIN, x / scale + MARGIN], order=5).reshape(shape)


def motion(shape, *, shift=(0.0, 0.0), turn=0.0, scale=1.0, shear=0.0, tilt=(0.0, 0.0)):
    """Return a motion about the middle of a picture; `tilt` is how much the scale changes across the picture."""
    middle = np.array([[1, 0, (shape[1] - 1) / 2], [0, 1, (shape[0] - 1) / 2], [0, 0, 1.0]])
    cos, sin = scale * np.cos(turn), scale * np.sin(turn)
    move = np.array([[cos + shear, -sin, shift[0]], [sin, cos - shear, shift[1]], [0, 0, 1]])
    move[2, :2] = tilt[0] / shape[1], tilt[1] / shape[0]
    found = middle @ move @ np.linalg.inv(middle)
    return found / found[2, 2]


def corner_error(found, true, shape):
    """Return the root mean square distance of the corners, moved by two motions."""
    right, bottom = shape[1] - 1, shape[0] - 1
    ends = np.array([[0, 0, 1], [right, 0, 1], [0, bottom, 1], [right, bottom, 1]], float).T
    one, other = (matrix @ ends for matrix in (found, true))
    return float(np.sqrt(np.mean(np.sum((one[:2] / one[2] - other[:2] / other[2]) ** 2, axis=0))))


def strips(sharp, n_sources=2, sigma=2.0):
    """Return sources that are sharp in one upright strip each, and the number of the sharp source at each column."""
    soft = ndimage.gaussian_filter(sharp.astype(np.float64), (sigma, sigma) + (0,) * (sharp.ndim - 2))
    soft = soft.round().astype(sharp.dtype) if sharp.dtype.kind in "iu" else soft.astype(sharp.dtype)
    owner = np.arange(sharp.shape[1]) * n_sources // sharp.shape[1]
    index = (slice(None), *[None] * (sharp.ndim - 2))
    return [np.where((owner == number)[index], sharp, soft) for number in range(n_sources)], owner


def moved_strips(shape, motions, *, sigma=2.0, gains=None, seed=0):
    """Return a stack whose sources were moved and differ in exposure, and the true picture in the frame of all.

    Source k is in focus in the k-th upright strip of the scene, wherever motion takes that.
    """
    scene = 0.8 * canvas(shape, seed) + 25
    soft, n = ndimage.gaussian_filter(scene, sigma), len(motions)
    across = np.arange(scene.shape[1]) - MARGIN
    owner = np.clip(across * n // shape[1], 0, n - 1)
    pictures = []
    for number, matrix in enumerate(motions):
        seen = view(np.where(owner == number, scene, soft), matrix, shape)
        pictures.append(np.clip(seen * (1 if gains is None else gains[number]), 0, 255).round().astype(np.uint8))
    return pictures, scene[MARGIN:-MARGIN, MARGIN:-MARGIN]


def psnr(truth, picture, border=0):
    """Return the peak signal-to-noise ratio for values to 255, without a border."""
    inner = slice(border, -border or None)
    error = np.asarray(truth, float)[inner, inner] - np.asarray(picture, float)[inner, inner]
    return float(10 * np.log10(255**2 / np.mean(error**2)))
