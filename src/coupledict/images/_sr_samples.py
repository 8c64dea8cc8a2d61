"""Training samples for super-resolution: windows of small images, and the detail that interpolation misses.

An image is made smaller and interpolated back to its size; the difference from the original is the detail. If there are
too few samples, slightly smaller copies of the images provide more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..foundation.arrays import Array
from ._resize import imresize
from ._sr_geometry import Geometry, turn_squares

N_LEVELS = 12  # copies of an image, each 0.98 times as large as the one before (Timofte et al., 2014)
LEVEL_FACTOR = 0.98


@dataclass(frozen=True)
class Draw:
    """A random choice of samples from one copy of one image: their number and the seed."""

    image: int
    level: int
    count: int
    seed: np.random.SeedSequence


def _copy_shape(shape: Sequence[int], level: int, geometry: Geometry) -> tuple[int, int]:
    """Return the size of a copy, cropped to a multiple of the scale."""
    rows, columns = (int(np.ceil(LEVEL_FACTOR**level * n)) // geometry.scale * geometry.scale for n in shape)
    return rows, columns


def _room(shape: Sequence[int], geometry: Geometry) -> tuple[int, int]:
    """Return the number of rows and columns of windows that lie inside the small image."""
    rows, columns = (max(0, n // geometry.scale - 2 * geometry.radius) for n in shape)
    return rows, columns


def plan(shapes: Sequence[tuple[int, int]], geometry: Geometry, n_samples: int, rng: np.random.Generator) -> list[Draw]:
    """Distribute samples evenly over as many copies of the images as they need."""
    rooms: list[tuple[int, int, int]] = []
    total = 0
    for level in range(N_LEVELS):
        for image, shape in enumerate(shapes):
            rows, columns = _room(_copy_shape(shape, level, geometry), geometry)
            if rows * columns:
                rooms.append((image, level, rows * columns))
                total += rows * columns
        if total >= n_samples:
            break
    share = min(1.0, n_samples / max(total, 1))
    seeds = np.random.SeedSequence(rng.integers(2**63)).spawn(len(rooms))
    return [
        Draw(image, level, round(share * room), seed)
        for (image, level, room), seed in zip(rooms, seeds, strict=True)
        if round(share * room)
    ]


def batches(draws: Sequence[Draw], size: int) -> list[list[Draw]]:
    """Group draws into batches of about `size` samples."""
    groups: list[list[Draw]] = []
    filled = size
    for draw in draws:
        if filled >= size:
            groups.append([])
            filled = 0
        groups[-1].append(draw)
        filled += draw.count
    return groups


def samples(planes: Sequence[Array], draws: Sequence[Draw], geometry: Geometry) -> tuple[Array, Array]:
    """Return windows (n_samples, window ** 2) and details (n_samples, side ** 2), both turned."""
    windows, details = zip(*_each(planes, draws, geometry), strict=True)
    return np.concatenate(windows), np.concatenate(details)


def _each(planes: Sequence[Array], draws: Sequence[Draw], geometry: Geometry) -> Iterator[tuple[Array, Array]]:
    for draw in draws:
        plane = planes[draw.image]
        if draw.level:
            plane = imresize(plane, LEVEL_FACTOR**draw.level)
        rows, columns = (n // geometry.scale for n in plane.shape)
        plane = plane[: rows * geometry.scale, : columns * geometry.scale]
        small = imresize(plane, shape=(rows, columns))
        missing = plane - imresize(small, shape=plane.shape)
        room = _room(plane.shape, geometry)
        chosen = np.random.default_rng(draw.seed).choice(room[0] * room[1], draw.count, replace=False)
        chosen.sort()  # neighbours in memory are read together
        i, j = np.divmod(chosen, room[1])
        turns = geometry.turns(small)[i, j]
        offset, step = geometry.radius - geometry.half, geometry.scale
        windows = sliding_window_view(small, (geometry.window, geometry.window))[i, j]
        details = sliding_window_view(missing, (geometry.side, geometry.side))[(i + offset) * step, (j + offset) * step]
        yield turn_squares(windows, turns), turn_squares(details, turns)
