"""Shapes on a canvas for synthetic stacks: depths, things with sharp outlines, wires and hairs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Image: TypeAlias = NDArray[np.uint8]
Float: TypeAlias = NDArray[Any]  # float32

cv2: Any = importlib.import_module("cv2")  # typed differently from version to version

OVER = 2  # pixels of the canvas per pixel, along each side
OPTICS = 0.45  # standard deviation of what even a lens in focus blurs, in pixels
HEADROOM = 0.96  # so that a brighter picture does not clip


def depths(n: int, farthest: float) -> list[float]:
    """Return up to four depths from far to near."""
    return sorted({float(round(depth)) for depth in np.linspace(max(farthest, 0), 0, 4)}, reverse=True)


def steps(shape: tuple[int, ...], n: int, rng: np.random.Generator) -> Float:
    """Return a depth with jumps: large areas, smaller ones, and thin lines, the near before the far."""
    depth = np.round(spread(smooth_noise(shape, min(shape) / 6, rng), (n - 1) / 2, n - 1))
    for place in depths(n, n - 2):
        depth[blobs(shape, rng) > 0.5] = place
    for number, (_, alpha) in enumerate(wires(shape, 6, rng)):
        depth[alpha > 0.4] = number % 2 if n > 3 else 0
    return depth.astype(np.float32)


def merged(wires: Sequence[tuple[NDArray[np.float64], Float]], rng: np.random.Generator) -> tuple[Float, Float]:
    """Return colours and opacity of wires at one depth, laid over one another."""
    shape = wires[0][1].shape
    colours, alpha = np.zeros((*shape, 3), np.float32), np.zeros(shape, np.float32)
    for colour, own in wires:
        texture = 1 + 0.25 * spread(smooth_noise(shape, 2 * OVER, rng), -1, 1)
        painted = (HEADROOM * colour * texture[..., None]).clip(0, 245).astype(np.float32)
        colours += (own / np.maximum(own + alpha * (1 - own), 1e-6))[..., None] * (painted - colours)
        alpha = own + alpha * (1 - own)
    return colours, alpha


def tilted(shape: tuple[int, ...], rng: np.random.Generator) -> Float:
    angle = rng.uniform(0, 2 * np.pi)
    row, column = np.mgrid[: shape[0], : shape[1]].astype(np.float32)
    height: Float = np.cos(angle) * row + np.sin(angle) * column
    return height


def smooth_noise(shape: tuple[int, ...], width: float, rng: np.random.Generator) -> Float:
    white = rng.standard_normal(shape).astype(np.float32)
    smooth: Float = ndimage.gaussian_filter(white, width, mode="reflect", truncate=3)
    return smooth


def spread(values: Float, low: float, high: float) -> Float:
    """Scale values to reach from `low` to `high`."""
    unit = (values - values.min()) / (values.max() - values.min())
    spread: Float = (low + (high - low) * unit).astype(np.float32)
    return spread


def blobs(shape: tuple[int, ...], rng: np.random.Generator) -> Float:
    """Return the opacity of a few things with sharp, curved outlines and corners."""
    mask = np.zeros(shape, np.uint8)
    for _ in range(3):
        centre = rng.uniform(0.05, 0.95, 2) * shape
        size = rng.uniform(0.07, 0.16) * min(shape)
        corners = int(rng.integers(3, 12))
        angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
        reach = size * rng.uniform(0.5, 1.3, corners)
        points = centre[::-1] + np.c_[np.cos(angles), np.sin(angles)] * reach[:, None]
        cv2.fillPoly(mask, [np.round(16 * points).astype(np.int32)], 255, cv2.LINE_AA, 4)
    return softened(mask)


def wires(shape: tuple[int, ...], count: int, rng: np.random.Generator) -> list[tuple[NDArray[np.float64], Float]]:
    """Return colours and opacities of wires and hairs, one to four pixels wide, that cross the picture."""
    found = []
    for _ in range(count):
        mask = np.zeros(shape, np.uint8)
        start, end = rng.uniform(0, 1, 2), rng.uniform(0, 1, 2)
        side = int(rng.integers(2))
        start[side], end[side] = -0.05, 1.05
        along = np.linspace(0, 1, 200)[:, None]
        bend = rng.uniform(-0.15, 0.15) * np.sin(np.pi * rng.integers(1, 4) * along)
        points = ((1 - along) * start + along * end + bend * (end - start)[::-1]) * np.array(shape)[::-1]
        # Drawn by hand rather than by OpenCV's lines: those are whole pixels wide.
        distance = distance_to(points, shape)
        width = rng.uniform(1.0, 4.0) * OVER
        mask = (255 * np.clip(0.5 + width / 2 - distance, 0, 1)).astype(np.uint8)
        colour = rng.uniform(10, 60, 3) if rng.random() < 0.5 else rng.uniform(140, 230, 3)
        found.append((colour, softened(mask)))
    return found


def distance_to(points: NDArray[np.float64], shape: tuple[int, ...]) -> Float:
    """Return the distance of pixels from a line through points, up to some ten pixels exactly."""
    far = np.ones(shape, np.uint8)
    cv2.polylines(far, [np.round(points).astype(np.int32)], False, 0, 1)
    distance: Float = np.full(shape, 99.0, np.float32)
    near = np.argwhere(ndimage.distance_transform_edt(far) < 8)
    first, last = points[:-1], points[1:]
    along = last - first
    place = near[:, None, ::-1] - first
    share = np.clip((place * along).sum(-1) / (along**2).sum(-1), 0, 1)
    distance[near[:, 0], near[:, 1]] = np.sqrt(((place - share[..., None] * along) ** 2).sum(-1).min(axis=1))
    return distance


def softened(mask: Image) -> Float:
    soft: Float = cv2.GaussianBlur(mask.astype(np.float32) / 255, (0, 0), OVER * OPTICS)
    return soft
