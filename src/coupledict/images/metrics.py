"""Quality of pictures: four measures of fusion, implemented from their definitions, and the signal-to-noise ratio.

The four measures assess a picture fused from two sources, without a reference. They measure how much of the sources it
retains: their edges (:func:`q_abf`), their grey levels (:func:`nmi`), their local structure (:func:`q_y`), or the
contrast that the eye sees (:func:`q_cb`). A copy of one source scores high on :func:`nmi` and :func:`q_y`, so never
rely on these two alone.

Every function takes grey pictures of shape (height, width), or colour pictures of shape (height, width, 3 or 4), and
uses the luma 0.299 R + 0.587 G + 0.114 B of the latter: with weights of 16 bits, and rounded to integers if the picture
holds integers, as Pillow's ``convert("L")`` does. Alpha is ignored. The papers leave some details open (borders, flat
windows, the angle between two gradients); the Notes of each function state the choices. All computation is in float64.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.fft
from scipy import ndimage
from scipy.special import expit

from ._metric_pictures import N_LEVELS, Image, check_fusion, check_scale, same_size

__all__ = ["fusion_scores", "q_abf", "nmi", "q_y", "q_cb", "psnr"]

# Xydeas and Petrovic: height, slope and middle of the two sigmoids
GRADIENT_SIGMOID = (0.9994, 15.0, 0.5)
ANGLE_SIGMOID = (0.9879, 22.0, 0.8)

# Yang et al.
WINDOW, WINDOW_SIGMA = 7, 1.5
SIMILAR = 0.75  # sources at least this similar both count; otherwise only the one that is better preserved
STABILIZER = 1e-5  # K of the constants C = (K L)^2 of SSIM: large enough to hide rounding, too small to change a score

# Chen and Blum: the contrast sensitivity function, the two Gaussians of the local contrast, the masking function
SENSITIVITY_WIDE, SENSITIVITY_NARROW, SENSITIVITY_DIP = 15.387, 1.3456, 0.7622
VIEWING_ANGLE = 15.0  # degrees of the field of view that the picture covers
CONTRAST_SIGMAS = (2.0, 4.0)
MASKING_P, MASKING_Q, MASKING_Z = 3, 2, 1e-4
ROUNDING = 1e-10  # differences below this share of the largest value are rounding errors of the filters


def fusion_scores(
    first: npt.ArrayLike, second: npt.ArrayLike, fused: npt.ArrayLike, *, data_range: float = 255
) -> dict[str, float]:
    """Score a fused picture by all four measures of fusion.

    Parameters
    ----------
    first, second : array of shape (height, width) or (height, width, 3 or 4)
        The sources, at least 7 x 7 pixels.
    fused : array of shape (height, width) or (height, width, 3 or 4)
        The picture made from them.
    data_range : float, default=255
        The value of white, with black at 0: 65535 for pictures of 16 bits, 1 for floating-point pictures on that
        scale. Only :func:`nmi` depends on it.

    Returns
    -------
    dict
        The scores by the names of the functions: ``"q_abf"``, ``"nmi"``, ``"q_y"``, ``"q_cb"``. Higher is better.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.ndimage import gaussian_filter
    >>> from coupledict.images import metrics
    >>> sharp = np.random.default_rng(0).uniform(0, 255, (64, 64))
    >>> first, second = sharp.copy(), sharp.copy()
    >>> first[:, 32:] = gaussian_filter(sharp, 2)[:, 32:]
    >>> second[:, :32] = gaussian_filter(sharp, 2)[:, :32]
    >>> good = metrics.fusion_scores(first, second, sharp)
    >>> average = metrics.fusion_scores(first, second, (first + second) / 2)
    >>> all(good[name] > average[name] for name in good)
    True
    """
    pictures = check_fusion(first, second, fused, smallest=WINDOW)
    return {
        "q_abf": _q_abf(*pictures),
        "nmi": _nmi(*pictures, data_range),
        "q_y": _q_y(*pictures),
        "q_cb": _q_cb(*pictures),
    }


def q_abf(first: npt.ArrayLike, second: npt.ArrayLike, fused: npt.ArrayLike) -> float:
    """Measure how much of the edges of the sources a fused picture retains (Xydeas and Petrovic, Q^AB/F).

    With the gradient ``g`` of the Sobel operator in each picture, the retained strength of a source A is
    ``G = min(|g_A|, |g_F|) / max(|g_A|, |g_F|)``, its retained direction is ``D = 1 - angle(g_A, g_F) / (pi / 2)``,
    and

        Q^AF = 0.9994 / (1 + exp(-15 (G - 0.5))) * 0.9879 / (1 + exp(-22 (D - 0.8)))

    The score is the mean of Q^AF and Q^BF over all pixels, weighted by ``|g_A|`` and ``|g_B|``.

    Parameters
    ----------
    first, second : array of shape (height, width) or (height, width, 3 or 4)
        The sources, at least 3 x 3 pixels, on any scale of values.
    fused : array of shape (height, width) or (height, width, 3 or 4)
        The picture made from them.

    Returns
    -------
    float
        From 0 to 0.9748, which is reached where all three pictures are the same, or the sources have no edges.

    Notes
    -----
    The paper defines the angle as the difference of two arc tangents. It jumps at vertical gradients, so that an edge
    that was retained counts as lost. Here it is the angle between the two gradients, from 0 to pi: an edge keeps its
    direction if its dark side stays dark, and rotating all pictures by 90 degrees does not change the score. Gradients
    are computed only where the operator fits into the picture, without padding. Other choices change the scores of good
    fusions of photographs: the difference of arc tangents by -.0003, angles modulo pi by +.008, a border of zeros by
    +.016.

    References
    ----------
    C. S. Xydeas and V. Petrovic, "Objective image fusion performance measure", Electronics Letters 36(4), 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import metrics
    >>> step = np.repeat([[0, 0, 0, 0, 200, 200, 200, 200]], 8, axis=0)
    >>> flat = np.full((8, 8), 100)
    >>> round(metrics.q_abf(step, flat, step), 4)
    0.9748
    >>> round(metrics.q_abf(step, flat, flat), 4)
    0.0005
    """
    return _q_abf(*check_fusion(first, second, fused, smallest=3))


def nmi(first: npt.ArrayLike, second: npt.ArrayLike, fused: npt.ArrayLike, *, data_range: float = 255) -> float:
    """Measure the mutual information of the grey levels of a fused picture and its sources (Hossny et al., normalised).

    With the entropies H of 256 grey levels and the mutual information I of pairs of them:

        2 (I(A, F) / (H(A) + H(F)) + I(B, F) / (H(B) + H(F)))

    Parameters
    ----------
    first, second : array of shape (height, width) or (height, width, 3 or 4)
        The sources, with values from 0 to `data_range`.
    fused : array of shape (height, width) or (height, width, 3 or 4)
        The picture made from them, with values from 0 to `data_range`.
    data_range : float, default=255
        The value of white, with black at 0: 65535 for pictures of 16 bits, 1 for floating-point pictures on that
        scale. Values are rounded to 256 levels.

    Returns
    -------
    float
        From 0 to 2, which is reached where all three pictures are the same. A copy of one source scores at least 1.

    Notes
    -----
    Two pictures of a single grey level each determine each other: their share is 1. The conversion from colour to grey
    matters more here than in the other measures: truncating luma instead of rounding it lowers the scores of good
    fusions by .02.

    References
    ----------
    M. Hossny, S. Nahavandi and D. Creighton, "Comments on 'Information measure for performance of image fusion'",
    Electronics Letters 44(18), 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import metrics
    >>> halves, stripes = np.array([[0, 0], [255, 255]]), np.array([[0, 255], [0, 255]])
    >>> metrics.nmi(halves, stripes, halves)
    1.0
    """
    return _nmi(*check_fusion(first, second, fused, smallest=1), data_range)


def q_y(first: npt.ArrayLike, second: npt.ArrayLike, fused: npt.ArrayLike) -> float:
    """Measure how much of the local structure of the sources a fused picture retains (Yang et al., Q_Y).

    S is the structural similarity (SSIM) of two pictures in a window, v the variance in it. Where the sources are
    similar, S(A, B) >= 0.75, a window scores ``l S(A, F) + (1 - l) S(B, F)`` with ``l = v_A / (v_A + v_B)``; elsewhere
    it scores the larger of ``S(A, F)`` and ``S(B, F)``. The score is the mean over all windows.

    Parameters
    ----------
    first, second : array of shape (height, width) or (height, width, 3 or 4)
        The sources, at least 7 x 7 pixels, on any scale with black at 0.
    fused : array of shape (height, width) or (height, width, 3 or 4)
        The picture made from them.

    Returns
    -------
    float
        From -1 to 1, which is reached where all three pictures are the same. A copy of one source scores high.

    Notes
    -----
    Windows have 7 x 7 pixels, as in the paper, with Gaussian weights of width 1.5, and lie within the picture. The
    constants of SSIM are ``C1 = C2 = (1e-5 L)^2`` with L the largest value in the pictures. They only define 0 / 0: two
    flat windows are equal in contrast and structure. The usual constants, (0.01 L)^2 and (0.03 L)^2, tolerate errors in
    smooth regions and raise the scores of good fusions by .005.

    References
    ----------
    C. Yang, J.-Q. Zhang, X.-R. Wang and X. Liu, "A novel similarity based quality metric for image fusion",
    Information Fusion 9(2), 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import metrics
    >>> picture = np.random.default_rng(0).uniform(0, 255, (16, 16))
    >>> round(metrics.q_y(picture, picture, picture), 6)
    1.0
    >>> round(metrics.q_y(picture, picture, 255 - picture), 6) < 0
    True
    """
    return _q_y(*check_fusion(first, second, fused, smallest=WINDOW))


def q_cb(first: npt.ArrayLike, second: npt.ArrayLike, fused: npt.ArrayLike) -> float:
    """Measure how much of the visible contrast of the sources a fused picture retains (Chen and Blum, Q_CB).

    Each picture passes through a model of the eye: the contrast sensitivity filter
    ``exp(-(r / 15.387)^2) - 0.7622 exp(-(r / 1.3456)^2)`` for r cycles per degree; the local contrast
    ``c = |smooth_2 / smooth_4 - 1|`` of its copies smoothed by Gaussians of widths 2 and 4 pixels; the masked contrast
    ``m = c^3 / (c^2 + 0.0001)``. The retained share of a source A is ``min(m_A, m_F) / max(m_A, m_F)``. The score is
    the mean over all pixels of the retained shares of A and B, weighted by ``m_A^2`` and ``m_B^2``.

    Parameters
    ----------
    first, second : array of shape (height, width) or (height, width, 3 or 4)
        The sources, on any scale with black at 0.
    fused : array of shape (height, width) or (height, width, 3 or 4)
        The picture made from them.

    Returns
    -------
    float
        From 0 to 1, which is reached where all three pictures are the same.

    Notes
    -----
    The picture covers 15 degrees of the field of view in height and width, so r is the number of cycles in the picture
    divided by 15. The filter works on the Fourier transform and treats the picture as periodic; the Gaussians are
    truncated at four widths, and the picture is mirrored at its borders (padding with zeros would create contrast
    there). Grey levels are not rescaled; stretching each picture to the full range first, as some programs do, lowers
    the scores of good fusions by .014. A pixel without contrast in all pictures scores 1, because nothing can be lost.

    References
    ----------
    Y. Chen and R. S. Blum, "A new automated quality assessment algorithm for image fusion", Image and Vision Computing
    27(10), 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import metrics
    >>> picture = np.random.default_rng(0).uniform(50, 200, (32, 32))
    >>> metrics.q_cb(picture, picture, picture)
    1.0
    >>> metrics.q_cb(picture, picture, np.full((32, 32), 125))
    0.0
    """
    return _q_cb(*check_fusion(first, second, fused, smallest=1))


def psnr(reference: npt.ArrayLike, image: npt.ArrayLike, *, data_range: float = 255, crop: int = 0) -> float:
    """Return the peak signal-to-noise ratio of a picture in decibels: ``10 log10(data_range^2 / mean squared error)``.

    Parameters
    ----------
    reference : array of shape (height, width) or (height, width, 3 or 4)
        The true picture, with values from 0 to `data_range`.
    image : array of shape (height, width) or (height, width, 3 or 4)
        The picture. Grey is compared as it is, neither rounded nor clipped; colour by its luma.
    data_range : float, default=255
        The value of white, with black at 0: 65535 for pictures of 16 bits, 1 for floating-point pictures on that scale.
    crop : int, default=0
        Pixels ignored on each of the four sides. Super-resolution is usually scored with `crop` equal to its factor.

    Returns
    -------
    float
        Infinite if there is no difference.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import metrics
    >>> round(metrics.psnr(np.full((8, 8), 100), np.full((8, 8), 101)), 3)
    48.131
    """
    target, picture = same_size({"reference": reference, "image": image})
    white = check_scale(target, "reference", data_range)
    if isinstance(crop, bool | np.bool_) or not isinstance(crop, numbers.Integral):
        raise TypeError(f"Expected crop to be an integer, got {crop!r}.")
    if not 0 <= 2 * crop < min(target.shape):
        raise ValueError(
            f"Expected crop to be at least 0 and to leave some of the {target.shape[0]} x {target.shape[1]} pixels,"
            f" got {crop}."
        )
    rows, columns = (slice(int(crop), size - int(crop)) for size in target.shape)
    error = np.mean(np.square(target[rows, columns] - picture[rows, columns]))
    return math.inf if error == 0 else float(10 * np.log10(white**2 / error))


def _q_abf(first: Image, second: Image, fused: Image) -> float:
    gradient = _sobel(fused)
    kept = weight = 0.0
    for source in (first, second):
        quality, strength = _edges_kept(_sobel(source), gradient)
        kept += float(np.sum(quality * strength))
        weight += float(np.sum(strength))
    if weight == 0:  # no edges in the sources: nothing is lost
        return float(_sigmoid(1.0, *GRADIENT_SIGMOID) * _sigmoid(1.0, *ANGLE_SIGMOID))
    return kept / weight


def _sobel(image: Image) -> tuple[Image, Image]:
    """Return the horizontal and vertical derivatives at all pixels except those of the border."""
    down = image[:-2] + 2 * image[1:-1] + image[2:]
    across = image[:, :-2] + 2 * image[:, 1:-1] + image[:, 2:]
    return down[:, 2:] - down[:, :-2], across[2:] - across[:-2]


def _edges_kept(source: tuple[Image, Image], fused: tuple[Image, Image]) -> tuple[Image, Image]:
    """Return Q^AF and the strength of the edges of the source, which is their weight."""
    strength, other = np.hypot(*source), np.hypot(*fused)
    share = _ratio(np.minimum(strength, other), np.maximum(strength, other), 0.0)
    dot = source[0] * fused[0] + source[1] * fused[1]
    cross = source[0] * fused[1] - source[1] * fused[0]
    direction = 1 - np.arctan2(np.abs(cross), dot) / (np.pi / 2)
    return _sigmoid(share, *GRADIENT_SIGMOID) * _sigmoid(direction, *ANGLE_SIGMOID), strength


def _sigmoid(value: Any, height: float, slope: float, middle: float) -> Any:
    return height * expit(slope * (value - middle))


def _nmi(first: Image, second: Image, fused: Image, data_range: float) -> float:
    a, b, f = (
        _levels(image, name, data_range)
        for image, name in zip((first, second, fused), ("first", "second", "fused"), strict=True)
    )
    return _shared(a, f) + _shared(b, f)


def _levels(image: Image, name: str, data_range: float) -> npt.NDArray[np.int64]:
    """Return the grey level of every pixel, from 0 to 255."""
    white = check_scale(image, name, data_range)
    return np.floor(image.ravel() * ((N_LEVELS - 1) / white) + 0.5).astype(np.int64)


def _shared(source: npt.NDArray[np.int64], fused: npt.NDArray[np.int64]) -> float:
    """Return 2 I / (H + H) of two pictures given as grey levels."""
    counts = np.bincount(source * N_LEVELS + fused, minlength=N_LEVELS**2).reshape(N_LEVELS, N_LEVELS)
    each = _entropy(counts.sum(axis=1)) + _entropy(counts.sum(axis=0))
    return 2 * (each - _entropy(counts)) / each if each > 0 else 1.0


def _entropy(counts: npt.NDArray[np.int64]) -> float:
    p = counts[counts > 0] / counts.sum()
    return max(0.0, -float(np.sum(p * np.log2(p))))


def _q_y(first: Image, second: Image, fused: Image, similar: float = SIMILAR) -> float:
    scale = max(float(np.abs(image).max()) for image in (first, second, fused))
    if scale == 0:
        return 1.0
    # Values near 0 lose the fewest digits when a squared mean is subtracted from a mean of squares.
    windows = _Windows([image / scale - 0.5 for image in (first, second, fused)])
    similarity, a_kept, b_kept = windows.similarity(0, 1), windows.similarity(0, 2), windows.similarity(1, 2)
    a_varies, b_varies = windows.covariance(0, 0), windows.covariance(1, 1)
    share = (a_varies + STABILIZER**2 / 2) / (a_varies + b_varies + STABILIZER**2)
    both = share * a_kept + (1 - share) * b_kept
    return float(np.mean(np.where(similarity >= similar, both, np.maximum(a_kept, b_kept))))


class _Windows:
    """Weighted means, covariances and structural similarities of images in all windows within them.

    Images hold values from 0 to 1, minus 0.5.
    """

    def __init__(self, images: list[Image]) -> None:
        offsets = np.arange(WINDOW) - WINDOW // 2
        weights = np.exp(-(offsets**2) / (2 * WINDOW_SIGMA**2))
        self._weights = weights / weights.sum()
        self._images = images
        self._means = [self._mean(image) for image in images]
        self._covariances: dict[tuple[int, int], Image] = {}

    def _mean(self, image: Image) -> Image:
        inside = slice(WINDOW // 2, -(WINDOW // 2))
        across = ndimage.correlate1d(image, self._weights, axis=1)[:, inside]
        return ndimage.correlate1d(across, self._weights, axis=0)[inside]

    def covariance(self, i: int, j: int) -> Image:
        """Return the covariance of two images in every window."""
        if (i, j) not in self._covariances:
            product = self._mean(self._images[i] * self._images[j])
            self._covariances[i, j] = product - self._means[i] * self._means[j]
        return self._covariances[i, j]

    def similarity(self, i: int, j: int) -> Image:
        """Return the SSIM of two images in every window."""
        x, y = self._means[i] + 0.5, self._means[j] + 0.5
        c = STABILIZER**2
        brightness = (2 * x * y + c) / (x**2 + y**2 + c)
        return brightness * (2 * self.covariance(i, j) + c) / (self.covariance(i, i) + self.covariance(j, j) + c)


def _q_cb(first: Image, second: Image, fused: Image) -> float:
    sensitivity = _contrast_sensitivity(*first.shape)
    a, b, f = (_masked_contrast(image, sensitivity) for image in (first, second, fused))
    a_kept, b_kept = (_ratio(np.minimum(m, f), np.maximum(m, f), 1.0) for m in (a, b))
    share = _ratio(a**2, a**2 + b**2, 0.5)
    return float(np.mean(share * a_kept + (1 - share) * b_kept))


def _contrast_sensitivity(height: int, width: int) -> Image:
    """Return the filter for the half of the Fourier transform that ``rfft2`` computes."""
    down = scipy.fft.fftfreq(height, 1 / height) / VIEWING_ANGLE
    across = scipy.fft.rfftfreq(width, 1 / width) / VIEWING_ANGLE
    squares: Image = down[:, None] ** 2 + across**2
    return np.exp(-squares / SENSITIVITY_WIDE**2) - SENSITIVITY_DIP * np.exp(-squares / SENSITIVITY_NARROW**2)


def _masked_contrast(image: Image, sensitivity: Image) -> Image:
    seen = scipy.fft.irfft2(scipy.fft.rfft2(image) * sensitivity, s=image.shape)
    narrow, wide = (ndimage.gaussian_filter(seen, sigma, mode="reflect") for sigma in CONTRAST_SIGMAS)
    difference = np.abs(narrow - wide)
    least = ROUNDING * max(float(np.abs(image).max()), np.finfo(np.float64).tiny)
    difference[difference <= least] = 0
    contrast = difference / np.maximum(np.abs(wide), least)
    masked: Image = contrast**MASKING_P / (contrast**MASKING_Q + MASKING_Z)
    return masked


def _ratio(numerator: Image, denominator: Image, otherwise: float) -> Image:
    """Divide, with a value for 0 / 0."""
    return np.divide(numerator, denominator, out=np.full_like(denominator, otherwise), where=denominator > 0)
