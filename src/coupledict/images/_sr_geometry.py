"""Geometry of super-resolution: the positions, features and orientation of patches.

A patch covers `patch_size` pixels of the small image along each axis, and `scale` times as many of the large one; there
is one around every pixel of the small image. Its features are the first and second differences of the small image
interpolated to the large size. Interpolation and differences are linear, so one matrix computes both from a *window* of
the small image: all pixels that the patch and its differences depend on. The large image is not needed.

Every patch is flipped and transposed such that brightness rises most along its rows, and rises along its columns too. A
*turn* is one of these eight operations. A model then learns one orientation instead of eight.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ._resize import contributions, dense

N_TURNS = 8  # rows flipped or not, columns flipped or not, transposed or not
MOMENT_REACH = 3  # pixels on each side that decide the turn of a patch
DIFFERENCE_REACH = 2  # pixels on each side that the second difference needs


class Geometry:
    """The geometry of patches for one scale.

    Parameters
    ----------
    scale : int
        Factor from the small to the large image, along each axis.
    patch_size : int
        Side of a patch in pixels of the small image, odd.
    """

    def __init__(self, scale: int, patch_size: int) -> None:
        self.scale = scale
        self.patch_size = patch_size
        self.half = patch_size // 2
        self.side = scale * patch_size

    @cached_property
    def _lines(self) -> tuple[Array, Array, Array]:
        """Matrices from a line of a window to values, first and second differences along a line of a patch."""
        reach = self.half + 5  # more than any of them needs; zeros are removed below
        n = 2 * reach + 1
        upscaled = dense(*contributions(n, n * self.scale, self.scale), 0, n - 1)
        first = (reach - self.half) * self.scale
        before2, before, values, after, after2 = (
            upscaled[first + shift : first + shift + self.side]
            for shift in range(-DIFFERENCE_REACH, DIFFERENCE_REACH + 1)
        )
        parts = (values, after - before, after2 - 2 * values + before2)
        used = np.flatnonzero(np.any([part.any(axis=0) for part in parts], axis=0))
        radius = max(reach - int(used[0]), min(MOMENT_REACH, reach))
        keep = slice(reach - radius, reach + radius + 1)
        return parts[0][:, keep], parts[1][:, keep], parts[2][:, keep]

    @property
    def window(self) -> int:
        """Side of a window in pixels of the small image."""
        return int(self._lines[0].shape[1])

    @property
    def radius(self) -> int:
        """Pixels of the small image by which a window extends beyond its centre."""
        return self.window // 2

    def differences(self) -> npt.NDArray[np.float64]:
        """Return the matrix (window ** 2, 4 * side ** 2) from windows to differences along columns and rows."""
        values, first, second = self._lines
        pairs = ((first, values), (values, first), (second, values), (values, second))
        return np.hstack([np.kron(vertical, horizontal).T for vertical, horizontal in pairs])

    def pad(self, plane: Array) -> Array:
        """Return the small image padded by `radius` edge pixels on each side, as in resizing."""
        return np.pad(plane, self.radius, mode="edge")

    def turns(self, padded: Array) -> npt.NDArray[np.uint8]:
        """Return for each pixel of a padded image the number of the turn of its patch."""
        margin = self.radius - MOMENT_REACH
        inner = padded[margin : padded.shape[0] - margin, margin : padded.shape[1] - margin]
        down = _along(_along(inner, 0, rise=True), 1, rise=False)
        right = _along(_along(inner, 1, rise=True), 0, rise=False)
        numbers = 1 * (down < 0) + 2 * (right < 0) + 4 * (np.abs(down) > np.abs(right))
        return np.asarray(numbers, np.uint8)

    @staticmethod
    def turned(side: int) -> npt.NDArray[np.int64]:
        """Return the order of pixels for each turn: ``square.ravel()[turned(side)[t]]`` is the turned square."""
        places = np.arange(side * side).reshape(side, side)
        squares = []
        for turn in range(N_TURNS):
            square = places[:: -1 if turn & 1 else 1, :: -1 if turn & 2 else 1]
            squares.append((square.T if turn & 4 else square).ravel())
        return np.array(squares)

    def turned_back(self, side: int) -> npt.NDArray[np.int64]:
        """Return the inverse of each order of :meth:`turned`."""
        return np.argsort(self.turned(side), axis=1)

    @property
    def cells(self) -> npt.NDArray[np.int64]:
        """The order that groups the pixels of a patch by the pixel of the small image (the cell) they lie in."""
        p, s = self.patch_size, self.scale
        return np.arange(self.side**2).reshape(p, s, p, s).transpose(0, 2, 1, 3).ravel()


def turn_squares(squares: Array, turns: Array) -> Array:
    """Return square pieces of an image flattened and turned, each by its own turn; `squares` may be overwritten."""
    flat = squares.reshape(len(squares), -1)
    order = Geometry.turned(squares.shape[1])
    for turn in np.unique(turns):
        (group,) = np.nonzero(turns == turn)
        flat[group] = flat[group][:, order[turn]]
    return flat


def _along(plane: Array, axis: int, *, rise: bool) -> Array:
    """Return how much a plane rises along an axis around each pixel, or its sum; both with Gaussian weights.

    Pixels at equal distances are combined first, so that a symmetric patch rises by exactly 0, and rounding does not
    decide its turn.
    """
    plane = plane if axis == 0 else plane.T
    length = plane.shape[0] - 2 * MOMENT_REACH
    total = np.zeros((length, plane.shape[1]), plane.dtype) if rise else plane[MOMENT_REACH:-MOMENT_REACH].copy()
    for distance in range(1, MOMENT_REACH + 1):
        before = plane[MOMENT_REACH - distance :][:length]
        after = plane[MOMENT_REACH + distance :][:length]
        weight = plane.dtype.type(np.exp(-0.5 * distance**2))
        total += weight * distance * (after - before) if rise else weight * (after + before)
    return total if axis == 0 else total.T
