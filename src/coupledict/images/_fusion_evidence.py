"""Evidence at every pixel for which of two sources is in focus: its detail, compared with the detail of focus.

A coupled dictionary has learned, from pairs of focused and blurred patches, two views: the mean of a pair, and half of
its difference, which is the detail that focus adds. At every place the mean of two sources is coded, and the code
predicts the detail h. The source whose difference d from the mean agrees with h is in focus, the one that disagrees is
not. The errors of the two orders, focused first and blurred first, differ by

    ||d + h||^2 - ||d - h||^2 = 4 <d, h>

so one code decides between them. White noise in the mean of two sources is independent of the noise in their
difference: the evidence <d, h> of noise is zero on average, whatever the code is.

The evidence is divided by the energy of the patches plus a multiple of the energy of the noise: a strong edge then does
not dominate its surroundings, and pure noise has almost no influence. The evidence is summed over scales, because
smaller images have less noise but show the same blur.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from ..coding.prepared import PreparedCoder
from ..coding.rule import CodingRule
from ..estimators.coupled import CoupledDictionaryLearning
from ..foundation.arrays import Array
from ..foundation.progress import Meter
from ._patches import extract_patches, patch_bands

Grey = npt.NDArray[np.float32]

LUMA = (0.299, 0.587, 0.114)  # Rec. 601, as Pillow and JPEG have it
NOISE_FACTOR = 30.0  # 10 to 100 give similar results in benchmarks/fusion.py
MEDIAN_OF_NORMAL = 0.6745  # median absolute value of a normal variable, in standard deviations


class DetailPredictor:
    """Predicts the detail that focus adds from the means of patches; one coder serves all patches.

    Parameters
    ----------
    learner : CoupledDictionaryLearning
        Fitted; view 0 is the mean, view 1 the detail.
    n_patches : int
        About how many patches there will be.
    n_jobs : int
        Threads.
    """

    def __init__(self, learner: CoupledDictionaryLearning, n_patches: int, n_jobs: int) -> None:
        atoms, self._n_jobs = learner.components_[0], n_jobs
        rule = CodingRule.checked(
            learner.n_nonzero_coefs,
            learner.tol,
            learner.pursuit,
            alpha=learner.alpha,
            positive_code=learner.positive_code,
        )
        dtype = np.result_type(np.float32, atoms.dtype)
        weights = np.asarray(learner.view_weights_[:1])
        self._coder = PreparedCoder([atoms], rule, dtype, n_patches, weights=weights, n_jobs=n_jobs)
        self._detail_atoms = learner.predictors_.get((0,), {}).get(1, learner.components_[1])

    def predict(self, means: Grey) -> Array:
        """Return the details of patches, one per row."""
        return np.asarray(self._coder.encode([means], self._n_jobs) @ self._detail_atoms)


def luma(image: Array, scale: float) -> Grey:
    """Return the brightness of an image times `scale`; with neither 3 nor 4 channels, the mean of all."""
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
    rows: Grey = extract_patches(image, side).reshape(-1, side * side)
    rows -= rows.mean(axis=1, keepdims=True)
    return rows


def noise_variance(image: Grey) -> float:
    """Estimate the variance of white noise from the median of mixed second differences.

    These differences are zero on ramps and on straight horizontal and vertical edges, and the median ignores the few
    places where the image still contributes.
    """
    if min(image.shape) < 3:
        return 0.0
    differences = np.diff(np.diff(image, n=2, axis=0), n=2, axis=1)  # their variance is 36 times that of the noise
    middle = float(np.median(np.abs(differences, out=differences)))
    return (middle / MEDIAN_OF_NORMAL) ** 2 / 36


def patch_evidence(
    predictor: DetailPredictor, source: Grey, other: Grey, *, side: int, max_bytes: int, meter: Meter
) -> Grey:
    """Return the evidence of every patch, computed in bands; the evidence does not depend on the bands."""
    noise = np.float32(NOISE_FACTOR * side * side * (noise_variance(source) + noise_variance(other)) / 2)
    mean, difference = (source + other) * np.float32(0.5), (source - other) * np.float32(0.5)
    parts = []
    for band in patch_bands(mean.shape, side, max_bytes=max_bytes):
        means, differences = centred_rows(mean[band], side), centred_rows(difference[band], side)
        details = predictor.predict(means)
        energy = np.einsum("ij,ij->i", means, means) + np.einsum("ij,ij->i", differences, differences) + noise
        agreement = np.einsum("ij,ij->i", differences, details)
        parts.append(np.divide(agreement, energy, out=np.zeros_like(agreement), where=energy > 0))
        meter.advance(len(means))
    return np.concatenate(parts).reshape(mean.shape[0] - side + 1, mean.shape[1] - side + 1)


def spread(evidence: Grey, side: int) -> Grey:
    """Return for every pixel the mean evidence of the patches that cover it; pixels at the borders have fewer."""
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
    """Upsample a map of blocks of 2 x 2 pixels by linear interpolation; beyond its edge, the map is constant."""
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
    """Sum a measure of the patches of two sources over scales, and average it over a window.

    The weight of each scale is that of the next finer one divided by the square root of 2.
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
    """Return the number of patches that :func:`pixel_evidence` uses in all scales."""
    total, height, width = 0, shape[0], shape[1]
    for _ in range(n_scales):
        total += max(0, height - side + 1) * max(0, width - side + 1)
        height, width = height // 2, width // 2
    return total


def pixel_evidence(
    predictor: DetailPredictor,
    source: Grey,
    other: Grey,
    *,
    side: int,
    n_scales: int,
    window: int,
    max_bytes: int,
    meter: Meter,
) -> Grey:
    """Return the evidence that `source` is in focus and `other` is not, for every pixel; negative for the reverse.

    Exchanging the two images changes its sign. `meter` counts patches; :func:`count_patches` gives their total.
    """
    measure = partial(patch_evidence, predictor, side=side, max_bytes=max_bytes, meter=meter)
    return over_scales(measure, source, other, side=side, n_scales=n_scales, window=window)
