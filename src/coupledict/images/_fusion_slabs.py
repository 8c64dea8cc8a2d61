"""Very long stacks are fused in slabs: each slab of neighbouring pictures becomes one picture, and these are fused.

The pictures of a slab are aligned with its middle one, whose whole frame is kept, so fused slabs have the size of the
sources. They lie on disk until they are fused in turn. What is known about their pictures is then transformed to the
frame of the result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..foundation.arrays import Array
from . import _fusion_motion as motions
from ._fusion_result import FusedSource, Fusion, Labels, Matrix, make_labels, source_shares

MOST_AT_ONCE = 100  # pictures that are fused without slabs: more would need much memory
USUAL_SIZE = 50  # pictures per slab if there are more


def slab_size(n_sources: int, wanted: int | None) -> int | None:
    """Return the number of pictures per slab; None if the stack is fused at once."""
    if wanted is None:
        return USUAL_SIZE if n_sources > MOST_AT_ONCE else None
    return wanted if n_sources > wanted and len(split(n_sources, wanted)) > 1 else None


def split(n_sources: int, size: int) -> list[range]:
    """Return the numbers of the pictures of each slab; slabs are about equally long and have at least two pictures."""
    n_slabs = max(1, min(-(-n_sources // size), n_sources // 2))
    ends = np.linspace(0, n_sources, n_slabs + 1).round().astype(int)
    return [range(first, last) for first, last in pairwise(ends.tolist())]


def fuse_slabs(
    images: Sequence[Any],
    size: int,
    fuse_slab: Callable[[Sequence[Any], int], Fusion],
    fuse_all: Callable[[Sequence[Array]], Fusion],
) -> Fusion:
    """Fuse slabs, then their results; `fuse_slab` gets the pictures of a slab and the number of its first picture."""
    slabs = split(len(images), size)
    fused: list[Fusion] = []
    kinds: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
    # If the fusion fails, its traceback keeps files open, which Windows cannot remove; that must not hide the error.
    with tempfile.TemporaryDirectory(prefix="coupledict-slabs-", ignore_cleanup_errors=True) as folder:
        files = [Path(folder) / f"{number}.npy" for number in range(len(slabs))]
        for numbers, file in zip(slabs, files, strict=True):
            slab = fuse_slab([images[number] for number in numbers], numbers[0])
            kind = slab.image.shape, slab.image.dtype
            kinds.append(kind)
            if kind != kinds[0]:
                raise ValueError(
                    f"Expected images of one shape and number type, got {kinds[0][0]}, {kinds[0][1]} in images 0 to"
                    f" {numbers[0] - 1} and {kind[0]}, {kind[1]} in images {numbers[0]} to"
                    f" {numbers[-1]}, counted from 0. Crop or convert them first."
                )
            np.save(file, slab.image)
            fused.append(replace(slab, image=np.empty(0), depth=np.empty(0, np.float32)))
        whole = fuse_all([np.load(file, mmap_mode="r", allow_pickle=False) for file in files])
    decision, depth = _decisions(whole, fused, slabs)
    sources = [
        _in_frame_of_result(source, slab.sources, number, whole.sources[place])
        for place, slab in enumerate(fused)
        for number, source in enumerate(slab.sources)
    ]
    shares = source_shares(decision, len(images))
    sources = [replace(source, share=share) for source, share in zip(sources, shares, strict=True)]
    reference = slabs[whole.reference][fused[whole.reference].reference]
    return Fusion(whole.image, decision, depth, reference, whole.box, sources)


def _decisions(whole: Fusion, slabs: list[Fusion], numbers: list[range]) -> tuple[Labels, Any]:
    """Return the number of the picture that each pixel comes from, and the depth, from the decisions of the slabs."""
    n_sources = numbers[-1].stop
    shape = whole.decision.shape
    decision = make_labels(shape, n_sources)
    top, left = whole.box[:2]
    origin = motions.translation(left, top)
    for place, (slab, own) in enumerate(zip(slabs, numbers, strict=True)):
        move: Matrix = whole.sources[place].matrix @ origin
        moved = motions.warp(slab.decision, move, (shape[0], shape[1]), kernel="nearest")
        here = whole.decision == place
        decision[here] = moved[here].astype(decision.dtype) + own[0]
    middles = np.array([own[0] + (len(own) - 1) / 2 for own in numbers])
    depth = np.interp(whole.depth, np.arange(len(numbers)), middles).astype(np.float32)
    return decision, depth


def _in_frame_of_result(source: FusedSource, others: list[FusedSource], number: int, slab: FusedSource) -> FusedSource:
    """Return what was done to a picture of a slab, in the frame of the result."""
    aligned = source.aligned or slab.aligned
    matrix = source.matrix @ slab.matrix
    matrix = matrix / matrix[2, 2]
    note = source.note or (slab.note.replace("It was", "Its slab was") if number == len(others) // 2 else "")
    moved = max(source.shift, slab.shift) if aligned else 0.0
    return replace(source, aligned=aligned, matrix=matrix, gain=source.gain * slab.gain, note=note, shift=moved)
