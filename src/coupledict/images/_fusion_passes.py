"""The two passes over a stack: the first measures every picture, the second blends them; the decision lies in between.

The first pass reads each picture, measures its focus and estimates its motion from its neighbour. It keeps two numbers
for each cell of 4 x 4 pixels. The second pass reads the pictures again and adds them to the result. So memory hardly
grows with the number of pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.memory import give_back_memory
from ..foundation.progress import Meter
from ..parallel.ordered import in_order
from . import _fusion_motion as motions
from ._fusion_blend import PlacedSource, Pyramid, label_pixels, tiles
from ._fusion_focus import CELL, FocusMeasure, cell_means, cell_shape
from ._fusion_labels import Volume, decide, prior
from ._fusion_motion import Motion, StackAligner, Step
from ._fusion_result import FusedSource, Fusion, Labels, Matrix, source_shares
from ._fusion_stack import Stack
from ._grey import Grey, luma, noise_variance
from ._opencv import opencv

#: Units of progress per picture: the first pass, the decision, and the second pass.
MEASURE_UNITS, DECIDE_UNITS, BLEND_UNITS = 50, 5, 45
READ_UNITS, FINEST_SCALE_UNITS = 10, 30  # parts of the first pass
BAND = 256  # rows at a time
HOT_DIFFERENCE = 20.0  # least difference of a hot pixel from all its neighbours, in grey values of 255
HOT_CONTRAST = 2.0  # the same, as a multiple of the differences between these neighbours
HOT_NOISE = 8.0  # the same, in standard deviations of the noise
LEAST_HOT_PICTURES = 3  # pictures in which a pixel must stand out to count as hot
LARGEST_HALF = 60_000.0  # below the largest float16


@dataclass
class PictureMeasures:
    """What the first pass keeps of one picture."""

    energy: Volume
    brightness: Volume
    noise: float | None
    hot_pixels: npt.NDArray[np.intp]
    levels: list[Grey]


@dataclass
class StackMeasures:
    """What the first pass keeps of all pictures."""

    energy: Volume
    brightness: Volume
    noise: float
    hot_pixels: npt.NDArray[np.intp]
    steps: list[Step] = field(default_factory=list)
    outliers: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Placement:
    """Where each picture lies in the frame of the reference."""

    reference: int
    matrices: list[Matrix]
    gains: list[float]
    aligned: list[bool]
    box: tuple[int, int, int, int]
    partial: bool  # whether some pictures cover only part of the box


def measure_stack(
    stack: Stack, focus: FocusMeasure, motion: Motion | None, *, n_jobs: int, meter: Meter
) -> StackMeasures:
    """Read every picture once, measure its focus and, unless `motion` is None, its motion from the previous one."""
    first = stack.read(0)  # before any thread starts: it sets the shape and dtype of the stack

    def one(number: int) -> PictureMeasures:
        pixels = first if number == 0 else stack.read(number)
        grey = luma(pixels, stack.scale)
        del pixels
        meter.advance(READ_UNITS)
        noise = noise_variance(grey)
        return PictureMeasures(
            _to_half(focus.measure(grey, noise or 0.0, partial(meter.advance, FINEST_SCALE_UNITS))),
            _to_half(cell_means(grey)),
            noise,
            _find_isolated_pixels(grey, noise or 0.0),
            [] if motion is None else motions.levels(grey),
        )

    cells = cell_shape(stack.shape)
    found = StackMeasures(
        np.empty((len(stack), *cells), np.float16), np.empty((len(stack), *cells), np.float16), 0.0, np.empty(0, int)
    )
    aligner = StackAligner(motion, 2.0 ** motions.finest_level(stack.shape)) if motion is not None else None
    noises = []
    for number, seen in enumerate(in_order(one, range(len(stack)), n_jobs)):
        found.energy[number], found.brightness[number] = seen.energy, seen.brightness
        noises += [] if seen.noise is None else [seen.noise]
        found.hot_pixels = (
            seen.hot_pixels if number == 0 else np.intersect1d(found.hot_pixels, seen.hot_pixels, assume_unique=True)
        )
        if aligner is not None:
            aligner.add(seen.levels)
        give_back_memory()
        meter.advance(MEASURE_UNITS - READ_UNITS - FINEST_SCALE_UNITS)
    found.noise = min(noises, default=0.0)  # one camera: the picture with the least texture shows its noise best
    if aligner is not None:
        found.steps, found.outliers = aligner.steps, aligner.outliers
    if len(stack) < LEAST_HOT_PICTURES:
        found.hot_pixels = np.empty(0, int)
    return found


def _to_half(values: Grey) -> Volume:
    return np.minimum(values, LARGEST_HALF).astype(np.float16)


def _find_isolated_pixels(grey: Grey, noise: float) -> npt.NDArray[np.intp]:
    """Return the pixels that differ strongly from all their neighbours, where these are similar to each other."""
    cv2 = opencv()
    around = np.ones((3, 3), np.uint8)
    around[1, 1] = 0
    by = np.float32(max(HOT_DIFFERENCE, HOT_NOISE * noise**0.5))
    found = []
    for first in range(0, grey.shape[0], BAND):  # in bands, to save memory; each has one more row at both ends
        low = max(0, first - 1)
        part = grey[low : first + BAND + 1]
        highest, lowest = cv2.dilate(part, around), cv2.erode(part, around)
        # Within texture, a point of one pixel is no defect.
        away = np.maximum(np.float32(HOT_CONTRAST) * (highest - lowest), by)
        there = (part > highest + away) | (part < lowest - away)
        there = there[first - low :][:BAND]
        found.append(np.flatnonzero(there) + first * grey.shape[1])
    return np.concatenate(found)


def place(stack: Stack, measures: StackMeasures, reference: int, *, always: bool, keep_size: bool) -> Placement:
    """Return where each picture lies, from the steps between neighbours; without steps, no picture moves."""
    n, shape, steps = len(stack), stack.shape, measures.steps
    matrices, gains = [np.eye(3)] * n, [1.0] * n
    if steps:
        matrices, gains = motions.chain(steps, reference)
    least = 0.0 if always else motions.LEAST_MOVEMENT
    aligned = [
        number not in measures.outliers and motions.largest_movement(matrix, shape) > least
        for number, matrix in enumerate(matrices)
    ]
    matrices = [matrix if moved else np.eye(3) for matrix, moved in zip(matrices, aligned, strict=True)]
    gains = [gain if abs(gain - 1) > motions.EQUAL_EXPOSURE else 1.0 for gain in gains]
    box = common = motions.common_box(matrices, shape)
    if keep_size:
        box = (0, 0, shape[0], shape[1])
    return Placement(reference, matrices, gains, aligned, box, box != common)


def _move_cells(values: Volume, matrix: Matrix, box: tuple[int, int, int, int]) -> tuple[Volume, Grey]:
    """Return the cells of a picture resampled to those of the box, and which of these it covers."""
    top, left, bottom, right = box
    shape = cell_shape((bottom - top, right - left))
    middle = (CELL - 1) / 2
    pixel_of_cell = np.array([[CELL, 0, middle], [0, CELL, middle], [0, 0, 1.0]])
    origin = motions.translation(left, top)
    move = np.linalg.inv(pixel_of_cell) @ matrix @ origin @ pixel_of_cell
    full = values.astype(np.float32)
    moved = motions.warp(full, move, shape, kernel="linear")
    covered = motions.warp(np.ones_like(full), move, shape, kernel="linear", border="zero")
    return moved.astype(np.float16), (covered > 0.99).astype(np.float32)


def fuse_stack(
    stack: Stack, measures: StackMeasures, placement: Placement, *, smoothness: float, n_jobs: int, meter: Meter
) -> Fusion:
    """Choose a source for every cell, and blend the pictures; the energy and brightness of `measures` are used up."""
    n, (top, left, bottom, right) = len(stack), placement.box
    shape = (bottom - top, right - left)
    whole = placement.box == (0, 0, *stack.shape[:2])
    energy, brightness = measures.energy, measures.brightness
    covered: list[Grey | None] = [None] * n
    cells = cell_shape(shape)
    if any(placement.aligned) or not whole:
        moved = [np.empty((n, *cells), np.float16) for _ in range(2)]
        for number, matrix in enumerate(placement.matrices):
            moved[0][number], seen = _move_cells(energy[number], matrix, placement.box)
            moved[1][number], _ = _move_cells(brightness[number], matrix, placement.box)
            covered[number] = seen if placement.partial else None
        energy, brightness = moved
        del moved
    for number, gain in enumerate(placement.gains):
        if gain != 1:
            brightness[number] /= np.float16(gain)
            energy[number] /= np.float16(gain**2)
    for number in measures.outliers:
        energy[number], covered[number] = 0, np.zeros(cells, np.float32)
    measures.energy = measures.brightness = np.empty((0, 0, 0), np.float16)
    noise = measures.noise
    decision = decide(energy, brightness, covered, noise, smoothness)
    priors = np.empty((n, *cells), np.uint8)
    for number in range(n):
        weight, reached = prior(decision, brightness, number, noise), covered[number]
        priors[number] = np.rint(255 * (weight if reached is None else weight * reached))
    labels = label_pixels(decision.costs, shape)
    depth = decision.depth()
    del decision, energy, brightness
    give_back_memory()
    meter.advance(DECIDE_UNITS * n)
    image = _blend(stack, measures, placement, priors, n_jobs, meter)
    sources = _describe_sources(stack, placement, labels)
    return Fusion(image, labels, _enlarge(depth, shape), placement.reference, placement.box, sources)


def _enlarge(values: Grey, shape: tuple[int, int]) -> Grey:
    cv2 = opencv()
    size = (CELL * values.shape[1], CELL * values.shape[0])
    return np.ascontiguousarray(cv2.resize(values, size, interpolation=cv2.INTER_LINEAR)[: shape[0], : shape[1]])


def _blend(
    stack: Stack,
    measures: StackMeasures,
    placement: Placement,
    priors: npt.NDArray[np.uint8],
    n_jobs: int,
    meter: Meter,
) -> Array:
    """Add the pictures to a pyramid one by one; the next one is read meanwhile."""
    n, (top, left, bottom, right) = len(stack), placement.box
    shape = (bottom - top, right - left)
    pyramid = Pyramid(shape + stack.shape[2:], stack.dtype, stack.scale, measures.noise)
    parts = tiles(shape)
    origin = motions.translation(left, top)
    ahead: list[Array] = [_repair_hot_pixels(stack.read(0), measures.hot_pixels)]

    def read(number: int) -> None:
        if number < n:
            ahead.append(_repair_hot_pixels(stack.read(number), measures.hot_pixels))

    for number in range(n):
        placed = PlacedSource(
            ahead.pop(0),
            placement.matrices[number] @ origin if placement.aligned[number] else None,
            (top, left),
            1 / placement.gains[number],
            priors[number].astype(np.float32) / 255,
            number == placement.reference,
            placement.partial,
        )
        work: list[Callable[[], None]] = [
            partial(read, number + 1),
            *(partial(pyramid.add, placed, part) for part in parts),
        ]
        for done, _ in enumerate(in_order(_run, work, n_jobs)):
            meter.advance(BLEND_UNITS * (done + 1) // len(work) - BLEND_UNITS * done // len(work))
        give_back_memory()
    return pyramid.collapse()


def _run(work: Callable[[], None]) -> None:
    work()


def _repair_hot_pixels(pixels: Array, hot_pixels: npt.NDArray[np.intp]) -> Array:
    """Return a picture with its hot pixels replaced by the median of their neighbours."""
    if not len(hot_pixels):
        return pixels
    pixels = pixels.copy()
    height, width = pixels.shape[:2]
    rows, columns = np.divmod(hot_pixels, width)
    around = [
        pixels[np.clip(rows + row, 0, height - 1), np.clip(columns + column, 0, width - 1)]
        for row in (-1, 0, 1)
        for column in (-1, 0, 1)
        if row or column
    ]
    pixels[rows, columns] = np.median(around, axis=0).astype(pixels.dtype)
    return pixels


def _describe_sources(stack: Stack, placement: Placement, labels: Labels) -> list[FusedSource]:
    found = []
    for number, share in enumerate(source_shares(labels, len(stack))):
        matrix, aligned = placement.matrices[number], placement.aligned[number]
        found.append(
            FusedSource(
                share,
                aligned,
                motions.largest_movement(matrix, stack.shape) if aligned else 0.0,
                matrix,
                1 / placement.gains[number],
                (1.0, 1.0),
            )
        )
    return found


def with_steps(fused: Fusion, measures: StackMeasures) -> Fusion:
    """Add the correlation of each source with its neighbour, and why it was not aligned."""
    sources, steps = list(fused.sources), measures.steps
    for outwards in (range(fused.reference + 1, len(sources)), range(fused.reference - 1, -1, -1)):
        disconnected = False
        for number in outwards if steps else ():
            step = steps[number - 1] if number > fused.reference else steps[number]
            note = f"It was not aligned with its neighbour: {step.note}." if step.note else ""
            if disconnected and not note:
                note = "It was aligned with its neighbour, but a picture between it and the middle one was not."
            disconnected |= step.unrelated
            if number in measures.outliers:
                note = "It was left out: it has nothing in common with its neighbours."
            sources[number] = replace(sources[number], correlation=step.correlation, note=note)
    return replace(fused, sources=sources)
