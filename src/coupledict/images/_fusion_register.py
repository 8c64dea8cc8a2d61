"""Registration of sources: the small shift, rotation and change of scale between the images of a focus stack.

Shifts are measured on tiles all over the image, and one similarity transform is fitted to them by robust least squares:
tiles without detail, or with something that moved by itself, get little weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from ..foundation.arrays import Array
from ..foundation.progress import Meter
from ._fusion_evidence import Grey, luma

TILES = 6  # along each axis
LEAST_TILE = 32
SUBPIXELS = 20
ROUNDS = 3  # each measures the displacement that the one before left
SMOOTHING, COARSENESS = 1.0, 4.0  # Gaussian widths, in pixels: blurred and focused sources share the band between
OUTLIER = 1.0  # pixels


def scikit_image() -> tuple[Any, Any]:
    """Return the two functions of scikit-image that registration uses."""
    try:
        from skimage.registration import phase_cross_correlation
        from skimage.transform import warp
    except ImportError as error:
        raise ImportError(
            "Expected scikit-image to be installed, for register=True."
            ' Install it with: pip install "coupledict[images]"'
        ) from error
    return phase_cross_correlation, warp


def register(images: list[Array], scale: float, meter: Meter) -> list[Array]:
    """Align all images with the first; `meter` counts the aligned ones."""
    scikit_image()
    meter.advance(0)  # the first image takes a while: report the stage at once
    reference = _detail(luma(images[0], scale))
    moved = [images[0]]
    for image in images[1:]:
        moved.append(_move(image, find_similarity(reference, luma(image, scale))))
        meter.advance()
    return moved


def find_similarity(reference: Grey, moving: Grey) -> npt.NDArray[np.float64]:
    """Return the matrix that maps positions (x, y, 1) in the reference to positions in the moving image."""
    _, warp = scikit_image()
    matrix = np.eye(3)
    for _ in range(ROUNDS):
        moved = _detail(warp(moving, matrix, order=1, mode="edge", preserve_range=True).astype(np.float32))
        matrix = matrix @ _fit(*_tile_shifts(reference, moved))
    return matrix


def _detail(image: Grey) -> Grey:
    """Return the band of detail from which shifts are measured: without noise, and without slow changes of light."""
    detail: Grey = ndimage.gaussian_filter(image, SMOOTHING) - ndimage.gaussian_filter(image, COARSENESS)
    return detail


def _tile_shifts(reference: Grey, moved: Grey) -> tuple[Array, Array, Array]:
    """Return the centres of tiles, the matching positions in the moved image, and the weights of the tiles."""
    phase_cross_correlation, _ = scikit_image()
    sides = [min(size, max(LEAST_TILE, size // TILES * 2)) for size in reference.shape]
    starts = [
        np.unique(np.linspace(0, size - side, TILES).astype(int))
        for size, side in zip(reference.shape, sides, strict=True)
    ]
    window = np.outer(*(np.hanning(side + 2)[1:-1] for side in sides)).astype(np.float32)
    middles, targets, weights = [], [], []
    for row in starts[0]:
        for column in starts[1]:
            tile = slice(row, row + sides[0]), slice(column, column + sides[1])
            one, other = reference[tile] * window, moved[tile] * window
            weights.append(
                float(np.sqrt(np.sum(one * one, dtype=np.float64) * np.sum(other * other, dtype=np.float64)))
            )
            shift = np.zeros(2)
            if weights[-1] > 0:
                shift = phase_cross_correlation(one, other, upsample_factor=SUBPIXELS, normalization=None)[0]
            middles.append((column + sides[1] / 2, row + sides[0] / 2))
            targets.append((middles[-1][0] - shift[1], middles[-1][1] - shift[0]))
    return np.array(middles), np.array(targets), np.array(weights)


def _fit(places: Array, targets: Array, weights: Array) -> npt.NDArray[np.float64]:
    """Fit a similarity, x' = a x - b y + c and y' = b x + a y + d, by robust least squares."""
    if not weights.any():
        return np.eye(3)
    x, y = places.T
    one, zero = np.ones_like(x), np.zeros_like(x)
    table = np.concatenate([np.stack([x, -y, one, zero], 1), np.stack([y, x, zero, one], 1)])
    wanted = targets.T.ravel()
    shares = weights / weights.max()
    trust = np.ones_like(x)
    for _ in range(20):
        root = np.tile(np.sqrt(shares * trust), 2)
        a, b, c, d = np.linalg.lstsq(table * root[:, None], wanted * root, rcond=None)[0]
        away = np.hypot(*(table @ (a, b, c, d) - wanted).reshape(2, -1))
        trust = 1 / (1 + (away / OUTLIER) ** 2) ** 2
    return np.array([[a, -b, c], [b, a, d], [0.0, 0.0, 1.0]])


def _move(image: Array, matrix: npt.NDArray[np.float64]) -> Array:
    """Return an image warped by a similarity, in its own dtype."""
    _, warp = scikit_image()
    moved = np.empty_like(image)
    real = np.float64 if image.dtype.itemsize >= 4 and image.dtype != np.float32 else np.float32
    for channel in np.ndindex(image.shape[2:]):
        values = warp(image[(..., *channel)].astype(real), matrix, order=3, mode="edge", preserve_range=True)
        if image.dtype.kind in "iu":
            limits = np.iinfo(image.dtype)
            values = np.rint(values).clip(limits.min, limits.max)
        moved[(..., *channel)] = values
    return moved
