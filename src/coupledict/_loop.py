"""The learning loop: code, update, look, repeat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _passes
from ._atoms import AtomGroup
from ._data import Data, InMemory, Part
from ._passes import Sums, Worst
from ._progress import Progress
from ._pursuit import Coupling, Pursuit, Recipe, as_csr
from ._schedule import Order
from ._unused import UnusedRule
from ._updates import CodeUpdate, Statistics, SumUpdate, Update
from ._views import Array

LARGEST = float(np.finfo(np.float64).max)  # what a file can hold instead of infinity

Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """Everything the loop needs to know beside the samples and the atoms; all of it checked."""

    update: Update
    limits: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64] | None
    tol: float | None
    pursuit: Pursuit
    coupling: Coupling
    weights: npt.NDArray[np.float64]
    unused: UnusedRule
    stop_tol: float
    n_jobs: int
    scale: float = 1.0  # what the samples were multiplied by


@dataclass(frozen=True)
class State:
    """What a callback sees after an iteration.

    Attributes
    ----------
    iteration : int
        Iterations that are finished.
    n_iter : int
        Iterations that were asked for.
    components : list of arrays
        The dictionaries, one a view; copies.
    history : list of dict
        One record for each finished iteration.
    """

    iteration: int
    n_iter: int
    components: list[Array]
    history: list[Record]


def components_of(groups: list[AtomGroup], dtype: np.dtype[Any]) -> list[Array]:
    """Return the dictionaries in the order of the views."""
    arrays = {v: array for group in groups for v, array in zip(group.views, group.split(dtype), strict=True)}
    return [arrays[v] for v in sorted(arrays)]


@dataclass
class _Outcome:
    """What one iteration showed."""

    n_samples: int
    energy: float
    n_nonzeros: int
    view_energies: npt.NDArray[np.float64]
    uses: npt.NDArray[np.int64]
    worst: Worst


def make_record(
    n_samples: int,
    energy: float,
    n_nonzeros: int,
    view_energies: npt.NDArray[np.float64],
    uses: npt.NDArray[np.int64],
    limit: int,
    seconds: float,
    scale: float = 1.0,
) -> Record:
    """Return the entry of the history for one iteration, in plain Python numbers.

    Energies are those of samples that were multiplied by `scale`; the record is of the samples as they were.
    """
    n = max(n_samples, 1)
    return {
        "seconds": seconds,
        "limit": limit,
        "n_samples": n_samples,
        "mean_nonzeros": n_nonzeros / n,
        "objective": min(energy / scale / scale, LARGEST),
        "error": float(np.sqrt(energy)) / n / scale,
        "rms": float(np.sqrt(energy / n)) / scale,
        "view_errors": [float(np.sqrt(left)) / n / scale for left in view_energies],
        "unused": int(np.count_nonzero(uses == 0)),
    }


def check_sums(found: _passes.Statistics) -> _passes.Statistics:
    """Return the sums of a pass; raise where they left the range of numbers."""
    if not all(np.isfinite(array).all() for sums in found.sums for array in (sums.a, sums.b)):
        raise ValueError(
            "Sums over the codes of X exceed the range of its number type. Multiply X by a small number, or give it as"
            " float64."
        )
    return found


class Stream:
    """Running sums over batches, and the atoms that follow them."""

    def __init__(self, groups: list[AtomGroup], scale: float = 1.0) -> None:
        self.groups, self.scale = groups, scale  # samples are multiplied by `scale`
        self.n_batches = 0
        self.sums: list[Sums] = []

    def absorb(self, found: _passes.Statistics, forgetting: float) -> Stream:
        """Add the sums of one batch, let older ones fade, and sweep over the atoms.

        Returns the stream after the batch; this one stays as it is, for an interrupt may come in the middle.
        """
        check_sums(found)
        after = Stream([replace(group, atoms=group.atoms.copy()) for group in self.groups], self.scale)
        after.n_batches = self.n_batches + 1
        keep = (1 - 1 / after.n_batches) ** 2 * (1 - forgetting)
        after.sums = [
            Sums(keep * old.a + new.a, keep * old.b + new.b) for old, new in zip(self.sums, found.sums, strict=True)
        ] if self.sums else found.sums  # fmt: skip
        update = Statistics(n_sweeps=1)
        for group, sums in zip(after.groups, after.sums, strict=True):
            update.apply(group, sums)
        return after


@dataclass
class Position:
    """Where a loop is: with it and the atoms, it can go on as if it had never stopped.

    Attributes
    ----------
    iteration : int
        Iterations that are finished.
    order : Order or None
        In which growing samples are taken; None before the first iteration, and where every pass sees all.
    place : int
        The place in that order.
    all_in : bool
        Whether every pass sees all samples from now on.
    """

    iteration: int = 0
    order: Order | None = None
    place: int = 0
    all_in: bool = False


class Loop:
    """Learns the atoms of some groups in place.

    Attributes
    ----------
    history : list of dict
    position : Position
    """

    def __init__(
        self,
        data: Data,
        groups: list[AtomGroup],
        settings: Settings,
        history: list[Record] | None = None,
        position: Position | None = None,
    ) -> None:
        self.data, self.dtype, self.groups, self.settings = data, data.dtype, groups, settings
        self.history: list[Record] = history or []
        self.position = position or Position()

    def run(
        self,
        rng: np.random.Generator,
        callback: Callable[[State], object] | None = None,
        progress: Progress | None = None,
        checkpoint: Callable[[], object] | None = None,
    ) -> None:
        """Iterate until the schedule ends, the objective settles, or the callback asks to stop.

        An interrupt restores the atoms of the last finished iteration and goes on as KeyboardInterrupt. `checkpoint` is
        called when an iteration is finished and before anybody else hears of it.
        """
        settings, position = self.settings, self.position
        n_iter = len(settings.limits)
        if settings.sizes is not None and position.order is None:
            position.order = self.data.order(rng)
        while position.iteration < n_iter and not self._ended():
            before = [group.atoms.copy() for group in self.groups]
            began = time.perf_counter()
            try:
                part, place, size = None, position.place, self.data.n_samples
                if position.order is not None and settings.sizes is not None:
                    if not position.all_in:
                        size = int(settings.sizes[position.iteration])
                    part, place = self.data.take(position.order, place, size)
                outcome = self._iterate(part, size, position.iteration, n_iter)
                seconds = (self.history[-1]["seconds"] if self.history else 0.0) + time.perf_counter() - began
                record = make_record(
                    outcome.n_samples,
                    outcome.energy,
                    outcome.n_nonzeros,
                    outcome.view_energies,
                    outcome.uses,
                    int(settings.limits[position.iteration]),
                    seconds,
                    settings.scale,
                )
            except BaseException:
                for group, atoms in zip(self.groups, before, strict=True):
                    group.atoms[:] = atoms
                raise
            self.history.append(record)  # from here on the iteration counts
            position.place = place
            position.iteration += 1
            position.all_in = position.all_in or self._settled()
            if checkpoint is not None:
                checkpoint()
            if progress is not None:
                progress.show(self.history[-1], position.iteration, n_iter)
            if callback is not None:
                state = State(position.iteration, n_iter, components_of(self.groups, self.dtype), list(self.history))
                if callback(state):
                    break

    def _ended(self) -> bool:
        """Tell whether the objective has settled; on a part of the samples that may be chance, so only on all."""
        return self._settled() and all(record["n_samples"] == self.data.n_samples for record in self.history[-2:])

    def _iterate(self, part: Part | None, size: int, iteration: int, n_iter: int) -> _Outcome:
        settings = self.settings
        recipe = Recipe(
            components_of(self.groups, self.dtype),
            settings.weights,
            self.dtype,
            n_nonzero=int(settings.limits[iteration]),
            tol=settings.tol,
            pursuit=settings.pursuit,
            n_samples=size,
            coupling=settings.coupling,
        )
        replacing = settings.unused.applies(iteration, n_iter)
        n_worst = recipe.n_atoms if replacing else 0
        if isinstance(settings.update, CodeUpdate):
            outcome = self._update_from_codes(settings.update, recipe, part, n_worst)
        else:
            assert isinstance(settings.update, SumUpdate)
            outcome = self._update_from_sums(settings.update, recipe, part, n_worst)
        if replacing:
            self._replace_unused(outcome)
        return outcome

    def _update_from_sums(self, update: SumUpdate, recipe: Recipe, part: Part | None, n_worst: int) -> _Outcome:
        found = check_sums(self.data.statistics(recipe, part, self.settings.n_jobs, n_worst=n_worst))
        n_views = len(self.data.widths)
        energies = np.zeros(n_views)
        for group, sums in zip(self.groups, found.sums, strict=True):
            if n_views == 1:
                energies[0] = found.energy / self.settings.weights[0]
            else:
                energies[group.views] = group.view_energies(found.view_energy[group.views], sums.a, sums.b)
            update.apply(group, sums)
        return _Outcome(found.n_samples, found.energy, found.n_nonzeros, energies, found.uses, found.worst)

    def _update_from_codes(self, update: CodeUpdate, recipe: Recipe, part: Part | None, n_worst: int) -> _Outcome:
        assert isinstance(self.data, InMemory)  # the learner has refused anything else
        samples = self.data.samples(part)
        coded = _passes.encode(recipe.coder(self.settings.n_jobs), samples, self.settings.n_jobs)
        views = samples.read(0, len(samples))
        energies = np.zeros(len(views))
        for group, codes in zip(self.groups, as_csr(coded, recipe.n_atoms), strict=True):
            residual = np.ascontiguousarray(np.hstack([views[v] for v in group.views]))
            residual -= codes @ group.atoms.astype(self.dtype)
            for i, v in enumerate(group.views):
                own = residual[:, group.columns(i)]
                energies[v] = float(np.einsum("ij,ij->", own, own, dtype=np.float64))
            update.apply(group, codes, residual, mean_unused=self.settings.unused.mean)
        uses = np.bincount(coded.indices, minlength=recipe.n_atoms)
        rows = np.argsort(-coded.energy, kind="stable")[:n_worst]
        worst = Worst(n_worst, coded.energy[rows], samples.rows(rows)) if n_worst else Worst.none()
        return _Outcome(len(samples), float(coded.energy.sum()), coded.indices.size, energies, uses, worst)

    def _replace_unused(self, outcome: _Outcome) -> None:
        """Put the worst represented samples, each once, in place of the atoms that nobody used."""
        unused = np.flatnonzero(outcome.uses == 0)
        unused = unused[unused >= self.groups[0].n_fixed][: outcome.worst.energy.size]
        if unused.size == 0:
            return
        fresh = [np.asarray(rows[: unused.size], np.float64) for rows in outcome.worst.rows]
        alive = np.logical_and.reduce([np.any(part != 0, axis=1) for part in fresh])
        for group in self.groups:
            group.replace(unused[alive], np.hstack([fresh[v][alive] for v in group.views]))

    def _settled(self) -> bool:
        """Tell whether the objective per sample no longer falls, with the full limit in both passes."""
        if self.settings.stop_tol <= 0 or len(self.history) < 2:
            return False
        last, now = self.history[-2:]
        if now["limit"] != self.settings.limits[-1] or last["limit"] != now["limit"]:
            return False
        before, after = (record["objective"] / max(record["n_samples"], 1) for record in (last, now))
        return bool(before - after <= self.settings.stop_tol * before)
