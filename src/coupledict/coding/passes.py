"""One pass over the samples: chunks in, codes or sums over codes out.

One call of a coder codes one chunk. Results are used in the order of the chunks, and no coder mixes samples: codes do
not depend on the number of threads or on the size of the chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

import numpy as np

from ..foundation.arrays import Array, Flags
from ..kernels import _native
from ..kernels.instruction_sets import active_level
from ..parallel.cancel import CancelToken
from ..parallel.jobs import (
    LEAST_CHUNK_SECONDS,
    MAX_CHUNK,
    MULTIPLY_ADDS_PER_SECOND,
    SIGNAL_BLOCK,
    Threads,
    split_chunks,
)
from ..parallel.ordered import in_order
from .coder import Coder, Filler, Scratch, Workspaces
from .results import ChunkCodes, Coded, GrowingArray, PassSums, Sums, WorstSamples
from .samples import Samples

SUMS_SHARE = 50  # least multiply-adds of coding, in a small chunk, for each number of the sums
CHUNKS = 8  # of a pass over many samples: enough to share among threads, and few sums to add
ADDS_PER_CALL = 3e7  # a tenth of a second where the sums are far larger than any cache


def encode(coder: Coder, samples: Samples, threads: Threads, *, chunk_size: int | None = None) -> Coded:
    """Code all samples."""
    n = len(samples)
    chunks, short = split_chunks(n, coder.multiply_adds, threads.count, chunk_size, whole_blocks=coder.whole_blocks)
    cancel = CancelToken(threads.cancel)
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
        views = coder.prepare(samples.read(start, end), scratch)
        part = coder.encode_rows(views, scratch)
        workspaces.take_back(workspace)
        samples.check_status(start, status[start:end])
        indptr[start + 1 : end + 1] = part.counts
        return part

    for part in in_order(code, chunks, min(threads.count, len(chunks)), cancel, take_part=short):
        indices.extend(part.indices)
        for whole, piece in zip(values, part.values, strict=True):
            whole.extend(piece)
    np.cumsum(indptr, out=indptr)
    return Coded(indptr, indices.finish(), [whole.finish() for whole in values], energy, status)


class Explained(ABC):
    """X in B = C^T X: the views that the codes should explain, and the treatment of their missing entries.

    Parameters
    ----------
    groups : list of lists of int
        Views whose sums are one array.
    widths : list of int
        Number of features of each view.
    """

    has_gaps: bool

    def __init__(self, groups: list[list[int]], widths: list[int]) -> None:
        self.groups = groups
        self.widths = [sum(widths[v] for v in group) for group in groups]
        self.n_views = len(widths)

    @abstractmethod
    def add(self, views: list[Array], codes: ChunkCodes, scratch: Scratch, sums: PassSums) -> list[Array]:
        """Add the views and the codes of a chunk to the sums; return the views as they were added."""


class CompleteViews(Explained):
    """Views without missing entries."""

    has_gaps = False

    def add(self, views: list[Array], codes: ChunkCodes, scratch: Scratch, sums: PassSums) -> list[Array]:
        """Add the views as they are."""
        for g, group in enumerate(self.groups):
            _accumulate(g, [views[v] for v in group], codes, codes.values[g], scratch, sums)
        energies = _energies(views)
        sums.view_samples += codes.counts.size
        sums.view_energy += energies
        sums.known_energy += energies
        return views


class IncompleteViews(Explained):
    """Views with missing entries, which are filled in with what the codes predict."""

    has_gaps = True

    def __init__(self, groups: list[list[int]], widths: list[int], filler: Filler) -> None:
        super().__init__(groups, widths)
        self._filler = filler

    def add(self, views: list[Array], codes: ChunkCodes, scratch: Scratch, sums: PassSums) -> list[Array]:
        """Add the filled-in views, and the part of the sums that comes from known entries."""
        has_view = self._samples_with(views, scratch)
        kept = self._kept(codes, has_view)
        for group, part, own in zip(self.groups, kept, sums.sums, strict=True):
            _add_known([views[v] for v in group], part, own)
        filled = self._filler.fill(views, codes)
        for g, (group, part) in enumerate(zip(self.groups, kept, strict=True)):
            _accumulate(g, [filled[v] for v in group], part, part.values[0], scratch, sums)
        sums.view_samples += np.array([np.count_nonzero(has) for has in has_view])
        sums.view_energy += _energies(self._counted(filled, has_view))
        sums.known_energy += np.array([np.nansum(np.square(view, dtype=np.float64)) for view in views])
        return filled

    def _samples_with(self, views: list[Array], scratch: Scratch) -> list[Flags]:
        """Return, for each view, which samples have it."""
        return [np.asarray(~np.isnan(view).all(axis=1)) for view in views]

    def _kept(self, codes: ChunkCodes, has_view: list[Flags]) -> list[ChunkCodes]:
        """Return the codes that are counted in each group."""
        return [codes] * len(self.groups)

    def _counted(self, views: list[Array], has_view: list[Flags]) -> list[Array]:
        """Return the rows of each view whose energy is counted."""
        return views


class IncompleteTargets(IncompleteViews):
    """The same for views that are explained but not coded, each a group of its own.

    Samples that lack the view, or everything that it could be predicted from, are not counted.
    """

    def _samples_with(self, views: list[Array], scratch: Scratch) -> list[Flags]:
        coded = scratch.status != _native.UNKNOWN
        return [np.asarray(has & coded) for has in super()._samples_with(views, scratch)]

    def _kept(self, codes: ChunkCodes, has_view: list[Flags]) -> list[ChunkCodes]:
        return [codes.kept(has_view[v]) for (v,) in self.groups]

    def _counted(self, views: list[Array], has_view: list[Flags]) -> list[Array]:
        return [view[has] for view, has in zip(views, has_view, strict=True)]


def _add_known(views: list[Array], codes: ChunkCodes, sums: Sums) -> None:
    """Add, for each atom and feature, the squared coefficients of the samples that know the feature."""
    if sums.known is None:
        raise ValueError("Expected sums over samples with missing entries.")
    start = 0
    for view in views:
        own = np.zeros((sums.known.shape[0], view.shape[1]), sums.known.dtype)
        _native.accumulate_known(view, codes.counts, codes.indices, codes.values[0], own, active_level())
        sums.known[:, start : start + view.shape[1]] += own
        start += view.shape[1]


def _energies(views: list[Array]) -> Array:
    """Return the squared norm of all samples of each view."""
    return np.array([np.einsum("ij,ij->", view, view, dtype=np.float64) for view in views])


def _accumulate(
    g: int, views: list[Array], codes: ChunkCodes, values: Array, scratch: Scratch, total: PassSums
) -> None:
    """Add codes to the sums of group g, a few samples per call, so that a cancelled pass ends soon."""
    n, width = codes.counts.size, sum(view.shape[1] for view in views)
    step = max(1, int(ADDS_PER_CALL * n / max(1, codes.indices.size * width)))
    level, first = active_level(), 0
    total.uses.fill(0)  # every group has the same
    for start in range(0, n, step):
        if scratch.cancel.cancelled:
            return
        counts = codes.counts[start : start + step]
        last = first + int(counts.sum())
        _native.accumulate(
            [view[start : start + step] for view in views],
            counts,
            codes.indices[first:last],
            values[first:last],
            total.sums[g].a,
            total.sums[g].b,
            total.uses,
            scratch.workspace,
            level,
        )
        first = last


def _rows_of_chunk(n: int, coder: Coder, width: int) -> int:
    """Return how many samples share their sums; it does not depend on the number of threads.

    Sums are written and added once per chunk. A small number of samples whose coding takes long, as with the lasso, is
    split into smaller chunks, so that there is one for every thread.
    """
    least = max(512, 2 * coder.n_atoms)
    if n < 4 * least:
        sums = len(coder.groups) * coder.n_atoms * (coder.n_atoms + width)
        worth = max(SUMS_SHARE * sums, LEAST_CHUNK_SECONDS * MULTIPLY_ADDS_PER_SECOND) / coder.multiply_adds
        least = int(np.clip(worth, SIGNAL_BLOCK, least))
    return int(np.clip(n // CHUNKS, least, MAX_CHUNK))


def _explained(coder: Coder, samples: Samples, targets: Samples | None) -> Explained:
    """Return how a pass treats the views that its codes should explain: those that are coded, or the targets."""
    if targets is None:
        widths = samples.widths
        return (
            CompleteViews(coder.groups, widths)
            if coder.filler is None
            else IncompleteViews(coder.groups, widths, coder.filler)
        )
    everything = list(range(len(targets.views)))
    if coder.target_filler is None:
        return CompleteViews([everything], targets.widths)
    return IncompleteTargets([[v] for v in everything], targets.widths, coder.target_filler)


def sum_codes(
    coder: Coder, samples: Samples, threads: Threads, *, n_worst: int = 0, targets: Samples | None = None
) -> PassSums:
    """Code all samples and keep only sums over the codes, and the `n_worst` worst coded samples.

    With `targets`, X in B = C^T X consists of these views of the same samples: all in one group, or each in its own if
    entries may be missing; then only samples that have the view are counted. The size of the chunks does not depend on
    the number of threads, and their sums are added in order: the result is the same to the last bit for any number.
    Memory: the sums of a few chunks per thread.
    """
    explained = _explained(coder, samples, targets)
    chunks, short = split_chunks(
        len(samples),
        coder.multiply_adds,
        threads.count,
        _rows_of_chunk(len(samples), coder, sum(explained.widths)),
    )
    cancel = CancelToken(threads.cancel)
    workspaces = Workspaces()
    idle: deque[PassSums] = deque()

    def empty(dtype: np.dtype[Any]) -> PassSums:
        return PassSums.zeros(coder.n_atoms, explained.widths, explained.n_views, dtype, known=explained.has_gaps)

    def code(chunk: tuple[int, int]) -> PassSums:
        start, end = chunk
        workspace = workspaces.lend()
        scratch = Scratch(workspace, cancel, np.empty(end - start), np.empty(end - start, np.uint8))
        views = coder.prepare(samples.read(start, end), scratch)
        codes = coder.encode_rows(views, scratch)
        samples.check_status(start, scratch.status)
        try:
            own = idle.pop()
            own.clear()
        except IndexError:
            own = empty(coder.dtype)
        given = views if targets is None else targets.read(start, end)
        added = explained.add(given, codes, scratch, own)
        workspaces.take_back(workspace)
        own.n_samples = end - start
        own.energy = float(scratch.energy.sum())
        own.n_nonzeros = codes.indices.size
        own.penalty = coder.penalty_of(codes)
        if n_worst:
            own.worst = WorstSamples.of(n_worst, scratch.energy, added)
        return own

    total = empty(np.dtype(np.float64))
    total.worst = WorstSamples.none(n_worst, samples.widths, coder.dtype)
    for found in in_order(code, chunks, min(threads.count, len(chunks)), cancel, take_part=short):
        total += found
        idle.append(found)
    for sums in total.sums:  # the kernel fills only the upper triangle
        np.add(sums.a, np.triu(sums.a, 1).T, out=sums.a)
    return total
