"""A smooth estimate of missing pixels: averages over growing neighbourhoods, then a surface that bends little.

The averages fill holes of any size, from the outside in. Conjugate gradients then reduce the bending energy, the sum of
squared Laplacians, with the known pixels fixed; this is biharmonic inpainting without factorising a system.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array, Floats

Mask: TypeAlias = npt.NDArray[np.bool_]

KERNEL = (0.125, 0.375, 0.375, 0.125)  # of the averages that halve a picture: a quadratic spline
N_STEPS = 25  # of conjugate gradients; 100 change PSNR by less than 0.05 dB where 80 % of the pixels are missing


def fill_smoothly(plane: Array, known: Mask) -> Floats:
    """Return one channel as float64 with its missing pixels replaced by a smooth estimate.

    The estimate stays within the range of the known pixels; there must be at least one.
    """
    values = np.where(known, plane, 0.0)
    estimate = np.where(known, values, _average(values, known.astype(np.float64)))
    low, high = values[known].min(), values[known].max()
    return np.clip(_unbend(estimate, ~known), low, high)


def _average(values: Floats, weights: Floats) -> Floats:
    """Return values where their weight is 1, and averages over ever larger neighbourhoods where it is less.

    `values` are already multiplied by their weights.
    """
    if min(weights.shape) <= 2 or weights.all():
        mean = values.sum() / weights.sum()
        return np.divide(values, weights, out=np.full_like(values, mean), where=weights > 0)
    sums, totals = _halve(values), _halve(weights)
    enough = np.minimum(4 * totals, 1)  # one known pixel of four counts as much as four
    sums = np.divide(sums * enough, totals, out=np.zeros_like(sums), where=totals > 0)
    coarse = _average(sums, enough)
    return values + (1 - weights) * _double(coarse, weights.shape)


def _halve(plane: Floats) -> Floats:
    """Return a plane at half the height and width, rounded up, averaged by the kernel; it is 0 outside."""
    for _ in range(2):
        padded = np.pad(plane, ((1, 2 + len(plane) % 2), (0, 0)))
        n = -(-len(plane) // 2)
        plane = sum(weight * padded[i : i + 2 * n : 2] for i, weight in enumerate(KERNEL)).T  # type: ignore[union-attr]
    return plane


def _double(plane: Floats, shape: tuple[int, ...]) -> Floats:
    """Return a plane interpolated linearly to this shape, about twice its height and width."""
    for size in shape:
        places = np.clip((np.arange(size) - 0.5) / 2, 0, len(plane) - 1)
        before = places.astype(int)
        after = np.minimum(before + 1, len(plane) - 1)
        share = (places - before)[:, None]
        plane = ((1 - share) * plane[before] + share * plane[after]).T
    return plane


def _unbend(plane: Floats, missing: Mask) -> Floats:
    """Return a plane whose missing pixels are changed to reduce its bending energy."""
    residual = np.where(missing, -_laplacian(_laplacian(plane)), 0)
    direction, length = residual.copy(), float(np.sum(residual * residual))
    for _ in range(N_STEPS):
        if length <= np.finfo(np.float64).tiny:
            break
        bent = np.where(missing, _laplacian(_laplacian(direction)), 0)
        step = length / float(np.sum(direction * bent))
        plane = plane + step * direction
        residual -= step * bent
        before, length = length, float(np.sum(residual * residual))
        direction = residual + length / before * direction
    return plane


def _laplacian(plane: Floats) -> Floats:
    """Return the sum of the differences from the four neighbours; pixels at the edge have fewer neighbours."""
    padded = np.pad(plane, 1, mode="edge")
    out = padded[:-2, 1:-1] + padded[2:, 1:-1]
    out += padded[1:-1, :-2]
    out += padded[1:-1, 2:]
    out -= 4 * plane
    return np.asarray(out, np.float64)
