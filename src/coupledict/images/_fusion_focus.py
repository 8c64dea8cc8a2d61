"""A focus measure on a grid of cells: the energy that blur would remove, estimated by pairs of atoms.

The coupled dictionary holds atoms of pictures in focus, each with its blurred counterpart. The patches of a source are
coded over the atoms in focus; the code times the differences between the atoms of each pair is the part of the patch
that blur would remove. Its energy is large where the source is in focus. Coding stops at the level of the noise, which
no atom fits well: where a source shows nothing but noise, the energy is 0.

Patches are not taken from the brightness itself, whose energy lies in slow changes that blur preserves, but from its
slightly smoothed Laplacian. The same is done on smaller copies of the picture, where noise is weaker, and where strong
blur can be distinguished from stronger blur.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..coding.coders import PreparedCoder
from ..coding.rule import CodingRule
from ..estimators.coupled import CoupledDictionaryLearning
from ._grey import Grey
from ._opencv import opencv

CELL = 4  # pixels along a side of a cell: the distance of neighbouring patches
SMOOTHING = 0.7  # Gaussian width before the Laplacian, in pixels
SCALE_WEIGHTS = (1.0, 0.7, 0.5, 0.3)  # of the energy at each scale, from fine to coarse
NOISE_FACTOR = 2.0  # patches are coded to this multiple of the energy of the noise
LEAST_NOISE = 0.02  # variance in squared grey values, of 255: what rounding leaves in smooth regions
BAND_PATCHES = 1 << 13  # coded at a time
PYRAMID = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)  # kernel of OpenCV's pyrDown


def detail(grey: Grey) -> Grey:
    """Return the Laplacian of slightly smoothed brightness."""
    cv2 = opencv()
    smooth = cv2.GaussianBlur(grey, (7, 7), SMOOTHING, borderType=cv2.BORDER_REFLECT_101)
    found: Grey = cv2.Laplacian(smooth, cv2.CV_32F, ksize=1, borderType=cv2.BORDER_REFLECT_101)
    return found


@lru_cache(maxsize=8)
def noise_gain(scale: int) -> float:
    """Return the variance of :func:`detail` of white noise of variance 1 that was halved `scale` times."""
    # The weights of all pixels in one value of detail: the transposed operations, applied to a point.
    point = np.zeros((11, 11), np.float32)
    point[5, 5] = 1
    halves = np.outer(PYRAMID, PYRAMID)
    weights: Any = detail(point).astype(np.float64)
    for _ in range(scale):
        finer = np.zeros((2 * weights.shape[0] + 5, 2 * weights.shape[1] + 5))
        for row in range(5):
            for column in range(5):
                rows, columns = (
                    slice(shift, shift + 2 * side, 2) for shift, side in zip((row, column), weights.shape, strict=True)
                )
                finer[rows, columns] += halves[row, column] * weights
        weights = finer
    return float(np.sum(weights**2))


def cell_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of cells of a picture along each axis; the last ones may lie partly outside."""
    return -(-shape[0] // CELL), -(-shape[1] // CELL)


def cell_means(grey: Grey) -> Grey:
    """Return the mean brightness of each cell."""
    cv2 = opencv()
    rows, columns = cell_shape(grey.shape)
    below, beside = rows * CELL - grey.shape[0], columns * CELL - grey.shape[1]
    if below or beside:
        grey = cv2.copyMakeBorder(grey, 0, below, 0, beside, cv2.BORDER_REPLICATE)
    means: Grey = cv2.resize(grey, (columns, rows), interpolation=cv2.INTER_AREA)
    return means


class FocusMeasure:
    """Measures focus with a coupled dictionary; several threads may share one object.

    Parameters
    ----------
    learner : CoupledDictionaryLearning
        Fitted; view 0 is the detail of patches in focus, view 1 that of the same patches blurred.
    n_scales : int
    """

    def __init__(self, learner: CoupledDictionaryLearning, n_scales: int) -> None:
        sharp, soft = (np.asarray(atoms, np.float32) for atoms in learner.components_)
        norms = np.linalg.norm(sharp, axis=1, keepdims=True)
        norms[norms == 0] = 1
        self._side = round(sharp.shape[1] ** 0.5)
        self._n_scales = n_scales
        self._blur_loss = (sharp - soft) / norms
        rule = CodingRule.checked(learner.n_nonzero_coefs, 1.0, "omp", positive_code=learner.positive_code)
        self._coder = PreparedCoder([sharp / norms], rule, np.dtype(np.float32), BAND_PATCHES)

    def measure(self, grey: Grey, noise: float, finest_done: Callable[[], None] = lambda: None) -> Grey:
        """Return the focus of each cell of a picture of brightness 0 to 255, given the variance of its noise.

        `finest_done` is called after the finest scale, which takes most of the time.
        """
        cv2 = opencv()
        rows, columns = cell_shape(grey.shape)
        noise = max(noise, LEAST_NOISE)
        total = np.zeros((rows, columns), np.float32)
        for scale in range(self._n_scales):
            if scale:
                grey = cv2.pyrDown(grey)
            if min(grey.shape) < self._side:
                break
            found = self._measure_scale(detail(grey), NOISE_FACTOR * noise_gain(scale) * noise)
            if scale:
                size = (found.shape[1] << scale, found.shape[0] << scale)
                found = cv2.resize(found, size, interpolation=cv2.INTER_LINEAR)[:rows, :columns]
            else:
                finest_done()
            total += np.float32(SCALE_WEIGHTS[min(scale, len(SCALE_WEIGHTS) - 1)]) * found
        return total

    def _measure_scale(self, values: Grey, tolerance: float) -> Grey:
        """Return the energy per pixel that blur would remove from the patch around each cell."""
        cv2, side = opencv(), self._side
        rows, columns = cell_shape(values.shape)
        before = (side - CELL) // 2
        after = [
            max(0, CELL * (count - 1) + side - before - size)
            for count, size in zip((rows, columns), values.shape, strict=True)
        ]
        before = max(before, 0)
        framed = cv2.copyMakeBorder(values, before, after[0], before, after[1], cv2.BORDER_REFLECT_101)
        patches = np.lib.stride_tricks.sliding_window_view(framed, (side, side))[::CELL, ::CELL]
        limit = np.float32(side * side * tolerance)
        found = np.zeros((rows, columns), np.float32)
        band = max(1, BAND_PATCHES // columns)
        for first in range(0, rows, band):
            part = patches[first : min(first + band, rows), :columns]
            flat = part.reshape(-1, side * side)
            significant = np.einsum("ij,ij->i", flat, flat) > limit
            codes = self._coder.encode([flat[significant] * (1 / np.sqrt(limit))])
            lost = codes @ self._blur_loss
            energy = np.zeros(len(flat), np.float32)
            energy[significant] = np.einsum("ij,ij->i", lost, lost) * np.float32(tolerance)
            found[first : first + band] = energy.reshape(-1, columns)
        return found
