"""How far a fused picture is from the truth of a synthetic stack.

Two ways. In the frame of the reference, for a fusion that tells which part of it the picture is (`score_fusion`). And
in the frame of the picture, whatever that is (`score_picture`): the truth is warped to it by an affine transform that
OpenCV's ECC finds, and each channel of the picture is scaled to fit. The picture itself is not resampled, so a rival
that aligns to another source, crops, or keeps the brightness of another source loses nothing by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from _stacks_drawing import Float, Image, cv2
from _stacks_scenes import Stack
from numpy.typing import NDArray
from scipy import ndimage

Mask: TypeAlias = NDArray[np.bool_]
Matrix: TypeAlias = NDArray[Any]

BAND = 20  # pixels from an edge
WRONG = 0.5  # pixels of radius by which a decision is worse than the best one
CONTRAST = 4.0  # standard deviation of grey levels in 7 x 7 pixels, from which a decision matters


@dataclass(frozen=True)
class Score:
    """Figures of one picture; NaN where they have no meaning.

    Attributes
    ----------
    inside, full : float
        PSNR in dB, over all channels: where all sources cover the reference's frame, and wherever the picture is.
    band, halo : float
        Root of the mean squared error, in grey levels, within 20 pixels of edges; of that, where nothing is in focus.
    wrong : float
        Share of pixels with contrast that come from a source blurred more than the best one.
    corner : float
        Root of the mean squared error of the corners' positions over the sources, in pixels.
    """

    inside: float
    full: float
    band: float
    halo: float
    wrong: float = float("nan")
    corner: float = float("nan")


def psnr(image: NDArray[Any], truth: NDArray[Any], mask: Mask | None = None) -> float:
    """Return the peak signal-to-noise ratio in dB, of 8-bit pictures; 99 for equal ones."""
    error = rmse(image, truth, mask)
    return float(min(20 * np.log10(255 / max(error, 1e-9)), 99.0)) if error == error else error


def rmse(image: NDArray[Any], truth: NDArray[Any], mask: Mask | None = None) -> float:
    """Return the root of the mean squared error, where a mask is true; NaN where it is nowhere."""
    squares = np.square(image.astype(np.float32) - truth)
    if mask is not None:
        squares = squares[mask]
    return float(np.sqrt(squares.mean(dtype=np.float64))) if squares.size else float("nan")


def covered(stack: Stack) -> Mask:
    """Return where, in the reference's frame, all sources have pixels."""
    height, width = stack.labels.shape
    row, column = np.mgrid[:height, :width]
    places = np.stack([column, row, np.ones_like(row)]).reshape(3, -1).astype(np.float64)
    kept = np.ones(height * width, np.bool_)
    for matrix in stack.matrices:
        x, y = (matrix @ places)[:2]
        kept &= (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    return kept.reshape(height, width)


def band(stack: Stack) -> Mask:
    """Return the pixels within 20 pixels of edges."""
    if not stack.edges.any():
        return stack.edges
    near: Mask = ndimage.distance_transform_edt(~stack.edges) <= BAND
    return near


def wrong_labels(stack: Stack, decision: NDArray[Any], box: tuple[int, int, int, int]) -> float:
    """Return the share of pixels with contrast that come from a source blurred more than the best one."""
    inner = np.s_[box[0] : box[2], box[1] : box[3]]
    grey = stack.truth[inner].mean(axis=2)
    contrast = np.sqrt(np.maximum(ndimage.uniform_filter(grey**2, 7) - ndimage.uniform_filter(grey, 7) ** 2, 0))
    radii = stack.radii[:, *inner]
    chosen = np.take_along_axis(radii, decision[None].astype(np.intp), axis=0)[0]
    return float(np.mean((chosen > radii.min(axis=0) + WRONG)[contrast > CONTRAST]))


def corner_error(stack: Stack, matrices: Sequence[NDArray[Any]]) -> float:
    """Return the root of the mean squared error of the corners' positions in the sources that were moved."""
    height, width = stack.labels.shape
    corners = np.array([[0, 0, 1], [width - 1, 0, 1], [0, height - 1, 1], [width - 1, height - 1, 1]], np.float64).T
    errors = []
    for index, (found, true) in enumerate(zip(matrices, stack.matrices, strict=True)):
        if index != stack.reference:
            place = np.asarray(found, np.float64) @ corners
            errors.append(((place[:2] / place[2] - (true @ corners)[:2]) ** 2).sum(axis=0).mean())
    return float(np.sqrt(np.mean(errors)))


def score_fusion(stack: Stack, fusion: Any, whole: Any = None) -> Score:
    """Score a Fusion in the reference's frame; `whole` is one with ``keep_size=True``."""
    top, left, bottom, right = fusion.box
    inner = np.s_[top:bottom, left:right]
    near = band(stack)[inner]
    truth = stack.truth[inner]
    matrices = [getattr(source, "matrix", None) for source in fusion.sources]
    known = [matrix for matrix in matrices if matrix is not None]
    return Score(
        inside=psnr(fusion.image, truth),
        full=psnr(whole.image, stack.truth) if whole is not None else float("nan"),
        band=rmse(fusion.image, truth, near),
        halo=rmse(fusion.image, truth, near & stack.unfocused[inner]),
        wrong=wrong_labels(stack, fusion.decision, fusion.box),
        corner=corner_error(stack, known) if len(known) == len(matrices) else float("nan"),
    )


def score_picture(stack: Stack, image: Image) -> Score:
    """Score a picture in a frame of its own; see the head of this module."""
    matrix = to_truth(stack, image)
    shape = image.shape[:2]
    truth = np.dstack([_warp(stack.truth[..., band].astype(np.float32), matrix, shape, 3) for band in range(3)])
    inside, near, blank, valid = (
        _warp(mask.astype(np.float32), matrix, shape, 0) > 0.5
        for mask in (covered(stack), band(stack), stack.unfocused, np.ones(stack.labels.shape))
    )
    fitted = image.astype(np.float32)
    for channel in range(3):
        have, want = fitted[..., channel][inside], truth[..., channel][inside]
        fitted[..., channel] *= (have * want).sum(dtype=np.float64) / max((have**2).sum(dtype=np.float64), 1e-9)
    return Score(
        inside=psnr(fitted, truth, inside),
        full=psnr(fitted, truth, valid),
        band=rmse(fitted, truth, near & inside),
        halo=rmse(fitted, truth, near & blank & inside),
    )


def to_truth(stack: Stack, image: Image) -> Matrix:
    """Return the affine matrix from positions in the picture to positions in the truth, by ECC from coarse to fine.

    It starts from the frame of each source, shifted by half of what was cropped, and ends with what fits best. Where a
    picture fits as it is, it stays there, so that one in the reference's frame has no error of this alignment.
    """
    goal, truth = _grey(image), _grey(stack.truth)
    cropped = np.eye(3)
    cropped[:2, 2] = [(b - a) / 2 for a, b in zip(image.shape[1::-1], stack.truth.shape[1::-1], strict=True)]
    starts = [np.linalg.inv(matrix) @ cropped for matrix in stack.matrices]
    best = min(starts, key=lambda matrix: _misfit(goal, truth, matrix))
    found = best
    for scale in (4, 2, 1):
        found = _refined(goal, truth, found, scale)
    return min((best, found), key=lambda matrix: _misfit(goal, truth, matrix))


def _refined(goal: Float, truth: Float, matrix: Matrix, scale: int) -> Matrix:
    """Return a matrix that ECC found at a scale, or the same one where it does not converge."""
    small = np.diag([1 / scale, 1 / scale, 1.0])
    small[:2, 2] = (1 / scale - 1) / 2  # centres of pixels
    one, other = (
        cv2.resize(grey, None, fx=1 / scale, fy=1 / scale, interpolation=cv2.INTER_AREA) for grey in (goal, truth)
    )
    start = (small @ matrix @ np.linalg.inv(small))[:2].astype(np.float32)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 200, 1e-7)
    try:
        mask = np.full(other.shape, 255, np.uint8)
        _, found = cv2.findTransformECC(one, other, start, cv2.MOTION_AFFINE, criteria, mask, 5)
    except cv2.error:
        return matrix
    return np.linalg.inv(small) @ np.vstack([found, [0, 0, 1]]).astype(np.float64) @ small


def _grey(image: Image) -> Float:
    grey: Float = image.astype(np.float32).mean(axis=2)
    return grey


def _misfit(goal: Float, truth: Float, matrix: Matrix) -> float:
    """Return the mean squared difference of brightness, where both are known."""
    warped = _warp(truth, matrix, goal.shape, 3)
    inside = _warp(np.ones_like(truth), matrix, goal.shape, 0) > 0.5
    if inside.sum() < 0.25 * goal.size:
        return float("inf")
    return float(np.mean(np.square(goal - warped)[inside]))


def _warp(values: Float, matrix: Matrix, shape: tuple[int, ...], order: int) -> Float:
    """Return values at the positions that a matrix gives to the pixels of a frame; 0 outside for order 0."""
    turned = matrix[[1, 0, 2]][:, [1, 0, 2]]  # ndimage counts rows first
    if np.array_equal(turned, np.eye(3)) and values.shape == tuple(shape):
        return values
    affine: Any = ndimage.affine_transform
    mode = "constant" if order == 0 else "mirror"
    warped: Float = affine(values, turned[:2, :2], turned[:2, 2], tuple(shape), order=order, mode=mode)
    return warped
