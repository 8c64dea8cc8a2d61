"""Which of two sources is in focus, as a number for every pixel: the detail it has against the detail it should have.

A coupled dictionary has learned, from pairs of focused and blurred patches, two views: the mean of a pair, and half of
its difference, which is the detail that focus adds. At every place the mean of two sources is coded, and the code
predicts the detail h. The source whose difference d from the mean agrees with h is in focus, the one that disagrees is
not. The errors of the two orders, focused first and blurred first, differ by

    ||d + h||^2 - ||d - h||^2 = 4 <d, h>

so one code decides between them. White noise in the mean of two sources is independent of the noise in their
difference: the evidence <d, h> of noise is zero on average, whatever the code makes of it.

The evidence is divided by the energy of the patches, so that a strong edge does not speak for its surroundings, plus a
multiple of the energy of the noise, so that what is only noise does not speak at all. It is summed over scales, because
noise fades and blur does not where the images are made smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from .._learner import CoupledDictionaryLearning
from .._views import Array
from ._patches import extract_patches, patch_bands

Grey = npt.NDArray[np.float32]

LUMA = (0.299, 0.587, 0.114)  # Rec. 601, as Pillow and JPEG have it
NOISE_FACTOR = 30.0  # benchmarks/fusion.py: 10 to 100 are alike
MEDIAN_OF_NORMAL = 0.6745  # of the absolute value, in standard deviations


def luma(image: Array, scale: float) -> Grey:
    """Return the brightness of an image times `scale`; of channels other than red, green, blue and alpha the mean."""
    real = np.result_type(image.dtype, np.float32).type
    if image.ndim == 2:
        return np.asarray(image * real(scale), np.float32)
    weights = LUMA if image.shape[2] in (3, 4) else (1 / image.shape[2],) * image.shape[2]
    grey = np.zeros(image.shape[:2], np.float32)
    for channel, weight in enumerate(weights):
        grey += image[..., channel] * real(weight * scale)
    return grey


def centred_rows(image: Grey, side: int) -> Grey:
    """Return all square patches of an image as rows, without their means."""
    rows: Grey = extract_patches(image, (side, side)).reshape(-1, side * side)
    rows -= rows.mean(axis=1, keepdims=True)
    return rows


def noise_variance(image: Grey) -> float:
    """Estimate the variance of white noise from the median of mixed second differences.

    They are zero on ramps and on straight horizontal and vertical edges, and the median does not mind what is left of
    the picture in places.
    """
    if min(image.shape) < 3:
        return 0.0
    differences = np.diff(np.diff(image, n=2, axis=0), n=2, axis=1)  # of noise: 36 times its variance
    middle = float(np.median(np.abs(differences, out=differences)))
    return (middle / MEDIAN_OF_NORMAL) ** 2 / 36


def patch_evidence(
    learner: CoupledDictionaryLearning,
    source: Grey,
    other: Grey,
    *,
    side: int,
    max_bytes: int,
    done: Callable[[int], None] | None = None,
) -> Grey:
    """Return the evidence of every patch, worked out in bands; what a patch gives does not depend on its band.

    `done` is told of the patches of each band that is finished.
    """
    noise = np.float32(NOISE_FACTOR * side * side * (noise_variance(source) + noise_variance(other)) / 2)
    mean, difference = (source + other) * np.float32(0.5), (source - other) * np.float32(0.5)
    parts = []
    for band in patch_bands(mean.shape, (side, side), max_bytes=max_bytes):
        means, differences = centred_rows(mean[band], side), centred_rows(difference[band], side)
        details = learner.predict([means, None], view=1)
        energy = np.einsum("ij,ij->i", means, means) + np.einsum("ij,ij->i", differences, differences) + noise
        agreement = np.einsum("ij,ij->i", differences, details)
        parts.append(np.divide(agreement, energy, out=np.zeros_like(agreement), where=energy > 0))
        if done is not None:
            done(len(means))
    return np.concatenate(parts).reshape(mean.shape[0] - side + 1, mean.shape[1] - side + 1)


def spread(evidence: Grey, side: int) -> Grey:
    """Return for every pixel the mean evidence of the patches that cover it; at the borders those are fewer."""
    for axis, count in enumerate(evidence.shape):
        room = count + side - 1
        width = [(side - 1, side - 1) if a == axis else (0, 0) for a in (0, 1)]
        means = ndimage.uniform_filter1d(np.pad(evidence, width), side, axis=axis, mode="constant")
        evidence = np.moveaxis(np.moveaxis(means, axis, 0)[side // 2 : side // 2 + room], 0, axis)
        pixel = np.arange(room)
        covering = np.minimum.reduce([pixel + 1, room - pixel, np.full(room, count), np.full(room, side)])
        evidence = evidence * (side / covering).astype(np.float32).reshape([-1 if a == axis else 1 for a in (0, 1)])
    return evidence


def halve(image: Grey) -> Grey:
    """Return the means of blocks of 2 x 2 pixels; an odd last row or column is left out."""
    rows, columns = image.shape[0] // 2 * 2, image.shape[1] // 2 * 2
    image = image[:rows, :columns]
    return ((image[::2, ::2] + image[1::2, ::2]) + (image[::2, 1::2] + image[1::2, 1::2])) * np.float32(0.25)


def double(values: Grey, shape: tuple[int, ...]) -> Grey:
    """Return a map of blocks of 2 x 2 pixels as a map of pixels, linearly interpolated; the edge goes on as it is."""
    for axis, size in enumerate(shape):
        near = np.moveaxis(values, axis, 0)
        before, after = np.concatenate([near[:1], near[:-1]]), np.concatenate([near[1:], near[-1:]])
        finer = np.empty((size, *near.shape[1:]), np.float32)
        even = near.shape[0] * 2
        finer[0:even:2] = np.float32(0.75) * near + np.float32(0.25) * before
        finer[1:even:2] = np.float32(0.75) * near + np.float32(0.25) * after
        finer[even:] = finer[even - 1]
        values = np.moveaxis(finer, 0, axis)
    return values


def over_scales(
    measure: Callable[[Grey, Grey], Grey], source: Grey, other: Grey, *, side: int, n_scales: int, window: int
) -> Grey:
    """Sum what a measure finds in the patches of two sources over scales, and average it over a window.

    Each scale weighs less than the finer one before by the square root of 2.
    """
    levels: list[Grey] = []
    while len(levels) < n_scales and min(source.shape) >= side:
        levels.append(spread(measure(source, other), side))
        source, other = halve(source), halve(other)
    total = levels.pop()
    while levels:
        finer = levels.pop()
        total = finer + double(total, finer.shape) * np.float32(math.sqrt(0.5))
    smooth: Grey = ndimage.uniform_filter(total, window, mode="reflect")
    return smooth


def count_patches(shape: tuple[int, ...], *, side: int, n_scales: int) -> int:
    """Return the number of patches that :func:`pixel_evidence` looks at in all scales."""
    total, height, width = 0, shape[0], shape[1]
    for _ in range(n_scales):
        total += max(0, height - side + 1) * max(0, width - side + 1)
        height, width = height // 2, width // 2
    return total


def pixel_evidence(
    learner: CoupledDictionaryLearning,
    source: Grey,
    other: Grey,
    *,
    side: int,
    n_scales: int,
    window: int,
    max_bytes: int,
    done: Callable[[int], None] | None = None,
) -> Grey:
    """Return the evidence that `source` is in focus and `other` is not, for every pixel; negative for the reverse.

    It changes its sign when the two are exchanged. `done` is told of patches as they are finished, of those that
    :func:`count_patches` counts.
    """
    measure = partial(patch_evidence, learner, side=side, max_bytes=max_bytes, done=done)
    return over_scales(measure, source, other, side=side, n_scales=n_scales, window=window)
