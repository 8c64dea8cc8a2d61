"""The two passes over a stack: a first look at every picture, and the blend; the decision is made in between.

In the first pass each picture is read and its focus is measured, and the motion from its neighbour is found. What is
kept of it are two numbers for each cell of 4 x 4 pixels. The second pass reads the pictures again and adds them to the
result. So memory hardly grows with the number of pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.memory import give_back_memory
from ..foundation.progress import Meter
from ..parallel.ordered import in_order
from . import _fusion_motion as motions
from ._fusion_blend import Placed, Pyramid, label_pixels, tiles
from ._fusion_focus import CELL, FocusMeasure, cell_means, cell_shape
from ._fusion_labels import Volume, decide, prior
from ._fusion_motion import Motion, Road, Step
from ._fusion_result import FusedSource, Fusion, Matrix
from ._fusion_stack import Stack
from ._grey import Grey, luma, noise_variance
from ._opencv import opencv

#: Units of progress for each picture: the first pass, the decision, and the second pass.
LOOK, DECIDE, BLEND = 50, 5, 45
READ, MEASURE = 10, 30  # of the first pass
BAND = 256  # rows at a time
HOT = 20.0  # grey values, of 255, by which a hot pixel differs at least from all its neighbours
HOT_CONTRAST = 2.0  # the same, in differences between these neighbours
HOT_NOISE = 8.0  # the same, in standard deviations of the noise
LEAST_FOR_HOT = 3  # pictures in which a pixel must stand out to be called hot
LARGEST_VALUE = 60_000.0  # of float16


@dataclass
class Look:
    """What the first pass keeps of one picture."""

    energy: Volume
    brightness: Volume
    noise: float | None
    hot: npt.NDArray[np.intp]
    levels: list[Grey]


@dataclass
class Overview:
    """What the first pass has found in all pictures."""

    energy: Volume
    brightness: Volume
    noise: float
    hot: npt.NDArray[np.intp]
    steps: list[Step] = field(default_factory=list)
    strangers: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Placement:
    """Where each picture is in the frame of the reference."""

    matrices: list[Matrix]
    gains: list[float]
    aligned: list[bool]
    box: tuple[int, int, int, int]
    partly: bool  # whether some pictures cover only a part of the box


def look(stack: Stack, measure: FocusMeasure, motion: Motion | None, *, n_jobs: int, meter: Meter) -> Overview:
    """Read every picture once: measure its focus, and find its motion from the one before unless `motion` is None."""
    first = stack.read(0)  # before any thread begins: it tells the shape and kind of all

    def one(number: int) -> Look:
        pixels = first if number == 0 else stack.read(number)
        grey = luma(pixels, stack.scale)
        del pixels
        meter.advance(READ)
        noise = noise_variance(grey)
        return Look(
            _half(measure.measure(grey, noise or 0.0, partial(meter.advance, MEASURE))),
            _half(cell_means(grey)),
            noise,
            _stand_out(grey, noise or 0.0),
            [] if motion is None else motions.levels(grey),
        )

    cells = cell_shape(stack.shape)
    found = Overview(
        np.empty((len(stack), *cells), np.float16), np.empty((len(stack), *cells), np.float16), 0.0, np.empty(0, int)
    )
    road = Road(motion, 2.0 ** motions.finest_level(stack.shape)) if motion is not None else None
    noises = []
    for number, seen in enumerate(in_order(one, range(len(stack)), n_jobs)):
        found.energy[number], found.brightness[number] = seen.energy, seen.brightness
        noises += [] if seen.noise is None else [seen.noise]
        found.hot = seen.hot if number == 0 else np.intersect1d(found.hot, seen.hot, assume_unique=True)
        if road is not None:
            road.go_on(seen.levels)
        give_back_memory()
        meter.advance(LOOK - READ - MEASURE)
    found.noise = min(noises, default=0.0)  # the same camera: the least textured picture shows it best
    if road is not None:
        found.steps, found.strangers = road.steps, road.strangers
    if len(stack) < LEAST_FOR_HOT:
        found.hot = np.empty(0, int)
    return found


def _half(values: Grey) -> Volume:
    return np.minimum(values, LARGEST_VALUE).astype(np.float16)


def _stand_out(grey: Grey, noise: float) -> npt.NDArray[np.intp]:
    """Return the pixels that differ by far from all their neighbours, which are alike."""
    cv2 = opencv()
    around = np.ones((3, 3), np.uint8)
    around[1, 1] = 0
    by = np.float32(max(HOT, HOT_NOISE * noise**0.5))
    found = []
    for first in range(0, grey.shape[0], BAND):  # in bands with a row more at both ends, for memory
        low = max(0, first - 1)
        part = grey[low : first + BAND + 1]
        highest, lowest = cv2.dilate(part, around), cv2.erode(part, around)
        # Beside texture even a point of one pixel is no fault.
        away = np.maximum(np.float32(HOT_CONTRAST) * (highest - lowest), by)
        there = (part > highest + away) | (part < lowest - away)
        there = there[first - low :][:BAND]
        found.append(np.flatnonzero(there) + first * grey.shape[1])
    return np.concatenate(found)


def place(stack: Stack, overview: Overview, reference: int, *, always: bool, keep_size: bool) -> Placement:
    """Return where each picture is, from the steps between neighbours; without steps all stay where they are."""
    n, shape, steps = len(stack), stack.shape, overview.steps
    matrices, gains = [np.eye(3)] * n, [1.0] * n
    if steps:
        matrices, gains = motions.chain(steps, reference)
    least = 0.0 if always else motions.UNMOVED
    aligned = [
        number not in overview.strangers and motions.largest_movement(matrix, shape) > least
        for number, matrix in enumerate(matrices)
    ]
    matrices = [matrix if moved else np.eye(3) for matrix, moved in zip(matrices, aligned, strict=True)]
    gains = [gain if abs(gain - 1) > motions.EQUAL_EXPOSURE else 1.0 for gain in gains]
    box = common = motions.common_box(matrices, shape)
    if keep_size:
        box = (0, 0, shape[0], shape[1])
    return Placement(matrices, gains, aligned, box, box != common)


def _move_cells(values: Volume, matrix: Matrix, box: tuple[int, int, int, int]) -> tuple[Volume, Grey]:
    """Return the cells of a picture in those of the box, and which of them it covers."""
    top, left, bottom, right = box
    shape = cell_shape((bottom - top, right - left))
    middle = (CELL - 1) / 2
    pixel_of_cell = np.array([[CELL, 0, middle], [0, CELL, middle], [0, 0, 1.0]])
    origin = np.array([[1.0, 0, left], [0, 1, top], [0, 0, 1]])
    move = np.linalg.inv(pixel_of_cell) @ matrix @ origin @ pixel_of_cell
    full = values.astype(np.float32)
    moved = motions.warp(full, move, shape, kernel="linear")
    covered = motions.warp(np.ones_like(full), move, shape, kernel="linear", border="zero")
    return moved.astype(np.float16), (covered > 0.99).astype(np.float32)


def fuse_stack(
    stack: Stack,
    overview: Overview,
    placement: Placement,
    reference: int,
    *,
    smoothness: float,
    n_jobs: int,
    meter: Meter,
) -> Fusion:
    """Decide about all cells, and blend the pictures."""
    n, (top, left, bottom, right) = len(stack), placement.box
    shape = (bottom - top, right - left)
    whole = placement.box == (0, 0, *stack.shape[:2])
    energy, brightness = overview.energy, overview.brightness
    covered: list[Grey | None] = [None] * n
    cells = cell_shape(shape)
    if any(placement.aligned) or not whole:
        moved = [np.empty((n, *cells), np.float16) for _ in range(2)]
        for number, matrix in enumerate(placement.matrices):
            moved[0][number], seen = _move_cells(energy[number], matrix, placement.box)
            moved[1][number], _ = _move_cells(brightness[number], matrix, placement.box)
            covered[number] = seen if placement.partly else None
        energy, brightness = moved
        del moved
    for number, gain in enumerate(placement.gains):
        if gain != 1:
            brightness[number] /= np.float16(gain)
            energy[number] /= np.float16(gain**2)
    for number in overview.strangers:
        energy[number], covered[number] = 0, np.zeros(cells, np.float32)
    overview.energy = overview.brightness = np.empty((0, 0, 0), np.float16)
    noise = overview.noise
    decision = decide(energy, brightness, covered, noise, smoothness)
    priors = np.empty((n, *cells), np.uint8)
    for number in range(n):
        weight, reached = prior(decision, brightness, number, noise), covered[number]
        priors[number] = np.rint(255 * (weight if reached is None else weight * reached))
    labels = label_pixels(decision.costs, shape)
    depth = decision.depth()
    del decision, energy, brightness
    give_back_memory()
    meter.advance(DECIDE * n)
    image = _blend(stack, overview, placement, priors, reference, n_jobs, meter)
    return Fusion(
        image, labels, _enlarge(depth, shape), reference, placement.box, _report(stack, overview, placement, labels)
    )


def _enlarge(values: Grey, shape: tuple[int, int]) -> Grey:
    cv2 = opencv()
    size = (CELL * values.shape[1], CELL * values.shape[0])
    return np.ascontiguousarray(cv2.resize(values, size, interpolation=cv2.INTER_LINEAR)[: shape[0], : shape[1]])


def _blend(
    stack: Stack,
    overview: Overview,
    placement: Placement,
    priors: npt.NDArray[np.uint8],
    reference: int,
    n_jobs: int,
    meter: Meter,
) -> Array:
    """Add the pictures to a pyramid one by one; while one is added, the next is read."""
    n, (top, left, bottom, right) = len(stack), placement.box
    shape = (bottom - top, right - left)
    pyramid = Pyramid(shape + stack.shape[2:], stack.dtype, stack.scale, overview.noise)
    parts = tiles(shape)
    origin = np.array([[1.0, 0, left], [0, 1, top], [0, 0, 1]])
    ahead: list[Array] = [_cooled(stack.read(0), overview.hot)]

    def read(number: int) -> None:
        if number < n:
            ahead.append(_cooled(stack.read(number), overview.hot))

    for number in range(n):
        placed = Placed(
            ahead.pop(0),
            placement.matrices[number] @ origin if placement.aligned[number] else None,
            (top, left),
            1 / placement.gains[number],
            priors[number].astype(np.float32) / 255,
            number == reference,
            placement.partly,
        )
        work: list[Callable[[], None]] = [
            partial(read, number + 1),
            *(partial(pyramid.add, placed, part) for part in parts),
        ]
        for done, _ in enumerate(in_order(_run, work, n_jobs)):
            meter.advance(BLEND * (done + 1) // len(work) - BLEND * done // len(work))
        give_back_memory()
    return pyramid.collapse()


def _run(work: Callable[[], None]) -> None:
    work()


def _cooled(pixels: Array, hot: npt.NDArray[np.intp]) -> Array:
    """Return a picture whose hot pixels have the median of their neighbours."""
    if not len(hot):
        return pixels
    pixels = pixels.copy()
    height, width = pixels.shape[:2]
    rows, columns = np.divmod(hot, width)
    around = [
        pixels[np.clip(rows + row, 0, height - 1), np.clip(columns + column, 0, width - 1)]
        for row in (-1, 0, 1)
        for column in (-1, 0, 1)
        if row or column
    ]
    pixels[rows, columns] = np.median(around, axis=0).astype(pixels.dtype)
    return pixels


def _report(stack: Stack, overview: Overview, placement: Placement, labels: Any) -> list[FusedSource]:
    shares = np.bincount(labels.ravel(), minlength=len(stack)) / labels.size
    found = []
    for number, share in enumerate(shares):
        matrix, aligned = placement.matrices[number], placement.aligned[number]
        found.append(
            FusedSource(
                float(share),
                aligned,
                motions.largest_movement(matrix, stack.shape) if aligned else 0.0,
                matrix,
                1 / placement.gains[number],
                (1.0, 1.0),
            )
        )
    return found


def with_steps(fused: Fusion, overview: Overview) -> Fusion:
    """Add to each source what its step towards the reference has found."""
    sources, steps = list(fused.sources), overview.steps
    for outwards in (range(fused.reference + 1, len(sources)), range(fused.reference - 1, -1, -1)):
        cut_off = False
        for number in outwards if steps else ():
            step = steps[number - 1] if number > fused.reference else steps[number]
            note = f"It was not aligned with its neighbour: {step.note}." if step.note else ""
            if cut_off and not note:
                note = "It was aligned with its neighbour, but a picture between it and the middle one was not."
            cut_off |= step.lost
            if number in overview.strangers:
                note = "It was left out: it has nothing in common with its neighbours."
            sources[number] = replace(sources[number], correlation=step.correlation, note=note)
    return replace(fused, sources=sources)
