"""Alignment of a focus stack: the motion from each picture to the next, chained towards the middle picture.

Neighbours in a stack are similar: their focus, scale and exposure differ little. So motion is estimated between
neighbours only, and these steps are chained towards the middle picture. A step maximises the enhanced correlation
coefficient of the two pictures (Evangelidis and Psarakis, IEEE TPAMI 30(10), 2008; the implementation is OpenCV's),
from coarse to fine. The finest level is half as large as the pictures or smaller: differences in focus matter less
there, and the motion is still accurate to a few hundredths of a pixel.

Each step is verified on tiles all over the picture: a true motion increases the correlation of nearly all of them.
Defocus can mimic a motion, but one that helps some tiles and harms others. A step that fails is not used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ._fusion_result import Matrix
from ._opencv import opencv

Grey = npt.NDArray[np.float32]
Motion: TypeAlias = Literal["shift", "similarity", "affine", "projective"]

FINEST_PIXELS = 1.6e6  # more pixels make steps slower, not more accurate
COARSEST_SIDE = 40
MOST_ROUNDS, SMALLEST_GAIN = 50, 1e-5  # when OpenCV stops: iterations, and increase of the coefficient
LEAST_OVERLAP = 0.5  # share of a picture that its neighbour must show
START_PIXELS, CLEAR_MARGIN = 2.5e5, 0.1  # of the finest level that may give the start; by how much it must be better
LARGEST_CHANGE = 0.2  # of scale and rotation (in radians) from one picture to the next
TILES = 5  # along each side of a picture, on which a step is verified
SHADING_SIGMA = 8.0  # pixels; slower changes of brightness are removed before tiles are compared
FAINT_SHARE = 0.05  # tiles with less than this share of the median detail are not used
# Share by which a step must reduce 1 - correlation, in three of four tiles. Synthetic aligned pairs have 0.000 to
# 0.001, the Lytro pairs -0.08 to 0.11, moved pictures 0.25 and more, or 0.05 under strong defocus.
LEAST_IMPROVEMENT = 0.04
SMALL_MOVEMENT = 0.004  # share of the longer side below which a movement must improve more: blur can mimic it
LEAST_SMALL_IMPROVEMENT = 0.12
LEAST_MOVEMENT = 0.15  # of a corner, in pixels: resampling would do more harm than a smaller one
UNVERIFIED, UNNEEDED = "no motion makes it more like its neighbour", "it is aligned"
LEAST_CORRELATION = 0.3  # of pictures of one scene
SLIGHT_MOVEMENT = 0.002  # share of the longer side below which a movement that fails is not reported
BLOCK = 8  # pixels of the coarse level over which brightness is compared
DARKEST_BLOCK = 16.0  # brightness, of 255, below which a block does not show the exposure
EQUAL_EXPOSURE = 0.005
LARGEST_GAIN = 2.0


@dataclass(frozen=True)
class Step:
    """The motion from one picture to the next.

    Attributes
    ----------
    matrix : array of shape (3, 3)
        Maps positions (x, y, 1) of the first picture to positions in the second.
    gain : float
        Brightness of the second picture divided by that of the first.
    correlation : tuple of two floats
        Before and after alignment.
    note : str
        Why the motion was not used, or empty.
    unrelated : bool
        Whether the pictures have too little in common for their motion to be known.
    """

    matrix: Matrix
    gain: float
    correlation: tuple[float, float]
    note: str = ""
    unrelated: bool = False


def finest_level(shape: tuple[int, ...]) -> int:
    """Return how many times a picture is halved before its motion is estimated."""
    level = 1 if min(shape[:2]) >= 2 * COARSEST_SIDE else 0
    while shape[0] * shape[1] / 4**level > FINEST_PIXELS:
        level += 1
    return level


def levels(grey: Grey) -> list[Grey]:
    """Return the levels of a picture that motion is estimated on, the finest first."""
    cv2 = opencv()
    level = grey
    for _ in range(finest_level(grey.shape)):
        level = cv2.pyrDown(level)
    found = [level]
    while min(found[-1].shape) >= 2 * COARSEST_SIDE:
        found.append(cv2.pyrDown(found[-1]))
    return found


def find_step(first: list[Grey], second: list[Grey], motion: Motion, factor: float) -> Step:
    """Return the step between two pictures, given as levels; `factor` is the factor by which the finest was reduced."""
    matrix, failure = _estimate(first, second, motion)
    before, after = (_correlation(first[0], second[0], found, matrix) for found in (np.eye(3), matrix))
    if not failure:
        longest = factor * max(first[0].shape)
        moved = largest_movement(scaled(matrix, 1 / factor), [factor * side for side in first[0].shape])
        least = LEAST_IMPROVEMENT if moved > SMALL_MOVEMENT * longest else LEAST_SMALL_IMPROVEMENT
        if after <= before or _tile_improvement(first[0], second[0], matrix) < least:
            failure = UNVERIFIED if moved > max(LEAST_MOVEMENT, SLIGHT_MOVEMENT * longest) else UNNEEDED
    if failure:
        stays, unrelated = np.eye(3), failure not in (UNVERIFIED, UNNEEDED) or before < LEAST_CORRELATION
        gain = 1.0 if unrelated else _gain(first, second, stays)
        return Step(stays, gain, (before, before), failure.removesuffix(UNNEEDED), unrelated)
    return Step(scaled(matrix, 1 / factor), _gain(first, second, matrix), (before, after))


class StackAligner:
    """Aligns the pictures of a stack one after the other.

    A picture that has nothing in common with its neighbours, such as one taken by mistake, is an outlier: it is
    skipped, and the next picture is aligned with the one before it.
    """

    def __init__(self, motion: Motion, factor: float) -> None:
        self.steps: list[Step] = []
        self.outliers: set[int] = set()
        self._motion = motion
        self._factor = factor
        self._last: list[list[Grey]] = []  # levels of the last two pictures

    def add(self, levels: list[Grey]) -> None:
        """Add the next picture, given as levels, and estimate the step to it."""
        if self._last:
            step = find_step(self._last[-1], levels, self._motion, self._factor)
            if step.unrelated and len(self._last) > 1 and self.steps[-1].unrelated:
                past = find_step(self._last[-2], levels, self._motion, self._factor)
                if not past.unrelated:  # the step before it is now the identity, so this one starts where that one does
                    self.outliers.add(len(self.steps))
                    step, self.steps[-1] = past, replace(self.steps[-1], unrelated=False, note="")
            self.steps.append(step)
        self._last = [*self._last[-1:], levels]


def _estimate(first: list[Grey], second: list[Grey], motion: Motion) -> tuple[Matrix, str]:
    """Return the motion between the finest levels, and why it cannot be used, or an empty string."""
    cv2 = opencv()
    kinds = {"shift": cv2.MOTION_TRANSLATION, "projective": cv2.MOTION_HOMOGRAPHY}
    kind = kinds.get(motion, cv2.MOTION_AFFINE)
    matrix, begin = _start(first, second)
    for number in reversed(range(begin + 1)):
        # Coarse levels have too few pixels for eight unknowns.
        here = cv2.MOTION_AFFINE if number and kind == cv2.MOTION_HOMOGRAPHY else kind
        rows = 3 if here == cv2.MOTION_HOMOGRAPHY else 2
        end = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, MOST_ROUNDS, SMALLEST_GAIN)
        try:
            _, found = cv2.findTransformECC(
                first[number], second[number], matrix[:rows].astype(np.float32), here, end, None, 1
            )
        except cv2.error:  # it did not converge, or one of the pictures is flat
            return np.eye(3), "no motion could be found"
        matrix = np.eye(3)
        matrix[:rows] = found
        if motion == "similarity":
            matrix = _nearest_similarity(matrix, first[number].shape)
        if number:
            matrix = scaled(matrix, 0.5)
    return matrix, _implausible(matrix, first[0].shape)


def _start(first: list[Grey], second: list[Grey]) -> tuple[Matrix, int]:
    """Return the motion that estimation starts from, and its level.

    The level is the coarsest one, and the motion a shift by phase correlation if that increases the correlation of the
    pictures; or a finer level, if its own phase correlation is clearly better: the coarsest does not show fine texture.
    """
    last = len(first) - 1
    middle = min(
        last, next(number for number, level in enumerate(first) if level.size < START_PIXELS or number == last)
    )
    one, other = first[middle], second[middle]
    coarse = _phase_shift(first[-1], second[-1])
    found = [np.eye(3), scaled(coarse, 0.5 ** (last - middle)), _phase_shift(one, other)]
    scores = [_correlation(one, other, matrix, matrix) for matrix in found]
    best = int(np.argmax(scores))
    if best == 2 and scores[2] > max(scores[:2]) + CLEAR_MARGIN:
        return found[2], middle
    return (coarse if scores[1] > scores[0] else np.eye(3)), last


def _phase_shift(first: Grey, second: Grey) -> Matrix:
    """Return a shift by phase correlation, or the identity if the shift is too large."""
    cv2 = opencv()
    window = cv2.createHanningWindow(first.shape[::-1], cv2.CV_32F)
    shift, _ = cv2.phaseCorrelate(first - first.mean(), second - second.mean(), window)
    moved = np.eye(3)
    moved[:2, 2] = shift
    reach = LEAST_OVERLAP / 2 * np.array(first.shape[::-1])
    return np.eye(3) if not np.isfinite(moved).all() or (np.abs(moved[:2, 2]) > reach).any() else moved


def _nearest_similarity(matrix: Matrix, shape: tuple[int, ...]) -> Matrix:
    """Return the rotation, scale and shift that are nearest to an affine motion over a picture."""
    a, b = (matrix[0, 0] + matrix[1, 1]) / 2, (matrix[1, 0] - matrix[0, 1]) / 2
    middle = np.array([(shape[1] - 1) / 2, (shape[0] - 1) / 2, 1.0])
    near = np.array([[a, -b, 0.0], [b, a, 0.0], [0.0, 0.0, 1.0]])
    near[:2, 2] = (matrix @ middle - near @ middle)[:2]
    return near


def _implausible(matrix: Matrix, shape: tuple[int, ...]) -> str:
    """Return why a motion is impossible for neighbours in a stack, or an empty string."""
    height, width = shape
    local = matrix[:2, :2] - np.outer(matrix[:2, 2], matrix[2, :2])
    shift = np.abs(
        move_points(matrix, np.array([[(width - 1) / 2, (height - 1) / 2]])) - [(width - 1) / 2, (height - 1) / 2]
    )
    if (
        np.linalg.norm(local - np.eye(2), 2) > LARGEST_CHANGE
        or (shift > LEAST_OVERLAP * np.array([width, height])).any()
    ):
        return "the motion found is too large for neighbours in a stack"
    return ""


def translation(x: float, y: float) -> Matrix:
    """Return the matrix that adds (x, y) to positions."""
    return np.array([[1.0, 0, x], [0, 1, y], [0, 0, 1]])


def scaled(matrix: Matrix, factor: float) -> Matrix:
    """Return a motion between the same pictures reduced by `factor`; pixel 0 stays pixel 0, as in a pyramid."""
    to = np.diag([1 / factor, 1 / factor, 1.0])
    found: Matrix = to @ matrix @ np.linalg.inv(to)
    found /= found[2, 2]
    return found


def warp(image: Any, matrix: Matrix, shape: tuple[int, int], *, kernel: str, border: str = "reflect") -> Any:
    """Return a picture of `shape` whose pixel p is the value of `image` at `matrix` p."""
    cv2 = opencv()
    kernels = {"nearest": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "lanczos": cv2.INTER_LANCZOS4}
    borders = {"reflect": cv2.BORDER_REFLECT_101, "zero": cv2.BORDER_CONSTANT}
    flags, mode, size = kernels[kernel] | cv2.WARP_INVERSE_MAP, borders[border], (shape[1], shape[0])
    if np.array_equal(matrix[2], (0, 0, 1)):
        return cv2.warpAffine(image, matrix[:2], size, flags=flags, borderMode=mode)
    return cv2.warpPerspective(image, matrix, size, flags=flags, borderMode=mode)


def _correlation(first: Grey, second: Grey, matrix: Matrix, covering: Matrix) -> float:
    """Return the correlation of two pictures, one moved by `matrix`, where `matrix` and `covering` both reach."""
    shape = (first.shape[0], first.shape[1])
    moved = warp(second, matrix, shape, kernel="linear")
    whole = np.ones(second.shape, np.uint8)
    both = [warp(whole, found, shape, kernel="nearest", border="zero") > 0 for found in (matrix, covering)]
    seen = both[0] & both[1]
    if seen.mean() < LEAST_OVERLAP / 2:
        return -1.0
    one, other = first[seen].astype(np.float64), moved[seen].astype(np.float64)
    one, other = one - one.mean(), other - other.mean()
    size = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / size if size > 0 else 0.0


def _tile_improvement(first: Grey, second: Grey, matrix: Matrix) -> float:
    """Return the share by which a motion reduces 1 - correlation of tiles: the lower quartile over all tiles."""
    cv2 = opencv()
    shape = (first.shape[0], first.shape[1])
    pictures = [first, second, warp(second, matrix, shape, kernel="linear")]
    one, before, after = (picture - cv2.GaussianBlur(picture, (0, 0), SHADING_SIGMA) for picture in pictures)
    seen = warp(np.ones(second.shape, np.float32), matrix, shape, kernel="nearest", border="zero")
    size = (TILES, TILES)

    def mean(values: Grey) -> Grey:
        found: Grey = cv2.resize(values * seen, size, interpolation=cv2.INTER_AREA)
        return found

    energies = [mean(values * values) for values in (one, before, after)]
    detail = np.sqrt(energies[0] * energies[1])
    used = detail > FAINT_SHARE * np.median(detail)
    if not used.any():
        return 0.0
    old, new = (
        mean(one * values)[used] / np.sqrt(np.maximum(energies[0] * energy, 1e-12))[used]
        for values, energy in ((before, energies[1]), (after, energies[2]))
    )
    return float(np.percentile((new - old) / (1 - old + 1e-3), 25))


def _gain(first: list[Grey], second: list[Grey], matrix: Matrix) -> float:
    """Return the brightness of the second picture relative to the first: the median over blocks of a coarse level."""
    cv2 = opencv()
    number = min(1, len(first) - 1)
    one, other = first[number], second[number]
    shape = (one.shape[0], one.shape[1])
    matrix = scaled(matrix, 2.0**number)
    moved = warp(other, matrix, shape, kernel="linear")
    seen = warp(np.ones(other.shape, np.float32), matrix, shape, kernel="nearest", border="zero")
    size = (max(1, shape[1] // BLOCK), max(1, shape[0] // BLOCK))
    means = [cv2.resize(values, size, interpolation=cv2.INTER_AREA) for values in (one, moved, seen)]
    used = (means[2] == 1) & (means[0] > DARKEST_BLOCK) & (means[1] > DARKEST_BLOCK)
    if not used.any():
        return 1.0
    low, gain, high = (float(value) for value in np.percentile(means[1][used] / means[0][used], (25, 50, 75)))
    if low <= 1 <= high:  # some blocks are brighter, others darker: this is blur, not exposure
        return 1.0
    return gain if 1 / LARGEST_GAIN < gain < LARGEST_GAIN else 1.0


def move_points(matrix: Matrix, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the positions to which a motion moves points, given as rows (x, y)."""
    moved = np.column_stack([points, np.ones(len(points))]) @ matrix.T
    found: npt.NDArray[np.float64] = moved[:, :2] / moved[:, 2:]
    return found


def corners(shape: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the corners of a picture as rows (x, y)."""
    right, bottom = shape[1] - 1.0, shape[0] - 1.0
    return np.array([[0.0, 0.0], [right, 0.0], [0.0, bottom], [right, bottom]])


def largest_movement(matrix: Matrix, shape: Sequence[float]) -> float:
    """Return the largest distance by which a motion moves a corner."""
    ends = corners(shape)
    return float(np.hypot(*(move_points(matrix, ends) - ends).T).max())


def chain(steps: list[Step], reference: int) -> tuple[list[Matrix], list[float]]:
    """Return, for each picture, the motion from the reference to it, and its brightness relative to the reference."""
    n = len(steps) + 1
    matrices, gains = [np.eye(3) for _ in range(n)], [1.0] * n
    for number in range(reference + 1, n):
        step = steps[number - 1]
        matrices[number] = step.matrix @ matrices[number - 1]
        gains[number] = gains[number - 1] * step.gain
    for number in reversed(range(reference)):
        step = steps[number]
        matrices[number] = np.linalg.inv(step.matrix) @ matrices[number + 1]
        gains[number] = gains[number + 1] / step.gain
    return [matrix / matrix[2, 2] for matrix in matrices], gains


def common_box(matrices: list[Matrix], shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return top, left, bottom and right of a rectangle of the reference that every picture covers.

    Each side is moved inwards until both its ends lie in every picture. If less than a quarter of a side is left, the
    whole frame is returned.
    """
    height, width = shape[:2]
    top, left, bottom, right = 0.0, 0.0, height - 1.0, width - 1.0
    for _ in range(4):  # moving one side slightly moves the ends of the others
        for matrix in matrices:
            ends = move_points(matrix, np.array([[left, top], [right, top], [left, bottom], [right, bottom]]))
            x, y = ends.T
            left += max(0.0, -x[0], -x[2])
            right -= max(0.0, x[1] - (width - 1), x[3] - (width - 1))
            top += max(0.0, -y[0], -y[1])
            bottom -= max(0.0, y[2] - (height - 1), y[3] - (height - 1))
    box = (math.ceil(top - 1e-6), math.ceil(left - 1e-6), math.floor(bottom + 1e-6) + 1, math.floor(right + 1e-6) + 1)
    return box if box[2] - box[0] >= height / 4 and box[3] - box[1] >= width / 4 else (0, 0, height, width)
