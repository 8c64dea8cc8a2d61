"""One pass over the samples: chunks in, codes or sums over codes out.

One call of a coder codes one chunk. Results are used in the order of the chunks, and no coder mixes samples: codes do
not depend on the number of threads or on the size of the chunks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array, Floats
from ..kernels import _native
from ..kernels.instruction_sets import active_level
from ..parallel.cancel import CancelToken
from ..parallel.jobs import LEAST_CHUNK_SECONDS, MAX_CHUNK, MULTIPLY_ADDS_PER_SECOND, SIGNAL_BLOCK, cut
from ..parallel.ordered import in_order
from .coder import Coder, Scratch, Workspaces
from .filling import Filler, add_known
from .results import ChunkCodes, Coded, GrowingArray, PassSums, Sums, WorstSamples
from .samples import Samples

SUMS_SHARE = 50  # in a small chunk, multiply-adds of coding for each number of the sums
CHUNKS = 8  # of a pass over many samples: enough to share, and few sums to add
ADDS_PER_CALL = 3e7  # a tenth of a second where the sums are far larger than any cache


def encode(
    coder: Coder,
    samples: Samples,
    n_jobs: int,
    *,
    chunk_size: int | None = None,
    cancel: CancelToken | None = None,
) -> Coded:
    """Code all samples. `cancel` is the token of the outer work, if there is any."""
    n = len(samples)
    chunks, short = cut(n, coder.multiply_adds, n_jobs, chunk_size, whole_blocks=coder.whole_blocks)
    cancel = CancelToken(cancel)
    workspaces = Workspaces()
    indptr = np.zeros(n + 1, np.int64)
    energy = np.empty(n, np.float64)
    status = np.empty(n, np.uint8)
    expected = n * coder.typical_nonzero
    indices = GrowingArray(expected, np.int32)
    values = [GrowingArray(expected, coder.dtype) for _ in coder.groups]

    def code(chunk: tuple[int, int]) -> ChunkCodes:
        start, end = chunk
        workspace = workspaces.lend()
        scratch = Scratch(workspace, cancel, energy[start:end], status[start:end])
        views = coder.prepare(samples.read(start, end), workspace, cancel)
        part = coder.encode_rows(views, scratch)
        workspaces.take_back(workspace)
        samples.check_status(start, status[start:end])
        indptr[start + 1 : end + 1] = part.counts
        return part

    for part in in_order(code, chunks, min(n_jobs, len(chunks)), cancel, take_part=short):
        indices.extend(part.indices)
        for whole, piece in zip(values, part.values, strict=True):
            whole.extend(piece)
    np.cumsum(indptr, out=indptr)
    return Coded(indptr, indices.finish(), [whole.finish() for whole in values], energy, status)


@dataclass(frozen=True)
class _ChunkSums:
    """What one chunk adds to the sums of a pass: its accumulators, and the rest."""

    own: _Accumulators
    energy: float
    n_nonzeros: int
    penalty: float
    view_energy: Floats
    known_energy: Floats
    view_samples: npt.NDArray[np.int64]
    worst: WorstSamples


class _Accumulators:
    """Sums of one chunk, in the number type of the samples; reused from chunk to chunk."""

    def __init__(self, n_atoms: int, widths: list[int], dtype: np.dtype[Any], *, missing: bool) -> None:
        self.a = [np.empty((n_atoms, n_atoms), dtype) for _ in widths]
        self.b = [np.empty((n_atoms, width), dtype) for width in widths]
        self.known = [np.empty((n_atoms, width), dtype) for width in widths] if missing else []
        self.uses = np.empty(n_atoms, np.int64)

    def clear(self) -> None:
        for array in (*self.a, *self.b, *self.known, self.uses):
            array.fill(0)

    def add(
        self,
        g: int,
        views: list[Array],
        codes: ChunkCodes,
        values: Array,
        workspace: _native.Workspace,
        cancel: CancelToken,
    ) -> None:
        """Add codes to the sums of group g, a few samples per call, so that a cancelled pass ends soon."""
        n, width = codes.counts.size, sum(view.shape[1] for view in views)
        step = max(1, int(ADDS_PER_CALL * n / max(1, codes.indices.size * width)))
        level, first = active_level(), 0
        self.uses.fill(0)
        for start in range(0, n, step):
            if cancel.cancelled:
                return
            counts = codes.counts[start : start + step]
            last = first + int(counts.sum())
            _native.accumulate(
                [view[start : start + step] for view in views],
                counts,
                codes.indices[first:last],
                values[first:last],
                self.a[g],
                self.b[g],
                self.uses,
                workspace,
                level,
            )
            first = last


@dataclass(frozen=True)
class Targets:
    """Views that codes are to explain, where they are not the views that are coded.

    Attributes
    ----------
    samples : Samples
        Other views of the same samples.
    filler : Filler or None
        Fills in their missing entries; None if there are none.
    """

    samples: Samples
    filler: Filler | None = None


def _rows_of_chunk(n: int, coder: Coder, width: int) -> int:
    """Return how many samples share their sums; it does not depend on the number of threads.

    Sums are written and added once for each chunk. A few samples whose coding takes long, as by the lasso, are cut into
    smaller chunks, so that there is one for every thread.
    """
    least = max(512, 2 * coder.n_atoms)
    if n < 4 * least:
        sums = len(coder.groups) * coder.n_atoms * (coder.n_atoms + width)
        worth = max(SUMS_SHARE * sums, LEAST_CHUNK_SECONDS * MULTIPLY_ADDS_PER_SECOND) / coder.multiply_adds
        least = int(np.clip(worth, SIGNAL_BLOCK, least))
    return int(np.clip(n // CHUNKS, least, MAX_CHUNK))


def sum_codes(
    coder: Coder,
    samples: Samples,
    n_jobs: int,
    *,
    n_worst: int = 0,
    targets: Targets | None = None,
    cancel: CancelToken | None = None,
) -> PassSums:
    """Code all samples and keep only sums over the codes, and the `n_worst` worst coded samples.

    With `targets`, X in B = C^T X are these views: all in one group, or each in its own if entries may be missing; then
    only samples that have the view count. The size of the chunks does not depend on
    `n_jobs`, and their sums are added in order: the result is the same to the last bit for any number of threads.
    Memory: the sums of a few chunks per thread. `cancel` is the token of the outer work, if there is any.
    """
    n, n_atoms = len(samples), coder.n_atoms
    explained = samples if targets is None else targets.samples
    filler = coder.filler if targets is None else targets.filler
    groups = coder.groups
    if targets is not None:
        everything = list(range(len(explained.views)))
        groups = [everything] if filler is None else [[v] for v in everything]
    widths = [sum(explained.views[v].shape[1] for v in group) for group in groups]
    chunks, short = cut(n, coder.multiply_adds, n_jobs, _rows_of_chunk(n, coder, sum(widths)))
    cancel = CancelToken(cancel)
    workspaces = Workspaces()
    idle: deque[_Accumulators] = deque()

    def code(chunk: tuple[int, int]) -> _ChunkSums:
        start, end = chunk
        energy, status = np.empty(end - start), np.empty(end - start, np.uint8)
        workspace = workspaces.lend()
        views = coder.prepare(samples.read(start, end), workspace, cancel)
        codes = coder.encode_rows(views, Scratch(workspace, cancel, energy, status))
        samples.check_status(start, status)
        has_view = None
        if targets is not None:
            coded, views = views, explained.read(start, end)
            if coder.teacher is not None:
                views = coder.teacher.fill(coded, views, workspace, cancel)
                has_view = [status != _native.UNKNOWN for _ in views]
        try:
            own = idle.pop()
        except IndexError:
            own = _Accumulators(n_atoms, widths, coder.dtype, missing=filler is not None)
        own.clear()
        parts = [codes] * len(groups)
        known_energy = None
        if filler is not None:
            known_energy = np.array([np.nansum(np.square(view, dtype=np.float64)) for view in views])
            has_view = [~np.isnan(view).all(axis=1) for view in views]
            if targets is not None:  # samples without a view, or without anything to predict it from, say nothing
                has_view = [has & (status != _native.UNKNOWN) for has in has_view]
                parts = [codes.kept(np.asarray(has_view[v])) for (v,) in groups]
            for g, group in enumerate(groups):
                add_known([views[v] for v in group], parts[g], own.known[g])
            views = filler.fill(views, codes)
        for g, (group, part) in enumerate(zip(groups, parts, strict=True)):
            values = part.values[g if targets is None else 0]
            own.add(g, [views[v] for v in group], part, values, workspace, cancel)
        workspaces.take_back(workspace)
        worst = WorstSamples.none()
        if n_worst:
            rows = np.argsort(-energy, kind="stable")[:n_worst]
            worst = WorstSamples(n_worst, energy[rows], [view[rows] for view in views])
        counts = np.full(len(views), end - start)
        if has_view is not None:
            counts = np.array([np.count_nonzero(has) for has in has_view])
            if targets is not None:
                views = [view[has] for view, has in zip(views, has_view, strict=True)]
        sizes = np.array([np.einsum("ij,ij->", view, view, dtype=np.float64) for view in views])
        known_energy = sizes if known_energy is None else known_energy
        total, penalty = float(energy.sum()), coder.penalty_of(codes)
        return _ChunkSums(own, total, codes.indices.size, penalty, sizes, known_energy, counts, worst)

    a = [np.zeros((n_atoms, n_atoms)) for _ in widths]
    b = [np.zeros((n_atoms, width)) for width in widths]
    known = [np.zeros((n_atoms, width)) if filler is not None else None for width in widths]
    worst = WorstSamples.of(n_worst, [view.shape[1] for view in samples.views], coder.dtype)
    n_views = len(explained.views)
    total = PassSums(
        n, [], np.zeros(n_atoms, np.int64), 0.0, 0, np.zeros(n_views), np.zeros(n_views), np.zeros(n_views, int), worst
    )
    for found in in_order(code, chunks, min(n_jobs, len(chunks)), cancel, take_part=short):
        for g in range(len(widths)):
            a[g] += found.own.a[g]
            b[g] += found.own.b[g]
        for sums, part in zip(known, found.own.known, strict=False):
            if sums is not None:
                sums += part
        total.uses += found.own.uses
        idle.append(found.own)
        total.energy += found.energy
        total.n_nonzeros += found.n_nonzeros
        total.penalty += found.penalty
        total.view_energy += found.view_energy
        total.known_energy += found.known_energy
        total.view_samples += found.view_samples
        total.worst = total.worst.merge(found.worst)
    for matrix in a:  # the kernel fills only the upper triangle
        matrix += np.triu(matrix, 1).T
    total.sums = [Sums(*parts) for parts in zip(a, b, known, strict=True)]
    return total
