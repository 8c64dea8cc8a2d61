"""The learning loop: code, update, look, repeat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _passes
from ._atoms import AtomGroup
from ._passes import Samples, Sums
from ._progress import Progress
from ._pursuit import Coder, Coupling, Pursuit, as_csr
from ._schedule import Order
from ._unused import UnusedRule
from ._updates import CodeUpdate, Statistics, SumUpdate, Update
from ._views import Array

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
    worst: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


def make_record(
    n_samples: int,
    energy: float,
    n_nonzeros: int,
    view_energies: npt.NDArray[np.float64],
    uses: npt.NDArray[np.int64],
    limit: int,
    seconds: float,
) -> Record:
    """Return the entry of the history for one iteration, in plain Python numbers."""
    n = max(n_samples, 1)
    return {
        "seconds": seconds,
        "limit": limit,
        "n_samples": n_samples,
        "mean_nonzeros": n_nonzeros / n,
        "objective": energy,
        "error": float(np.sqrt(energy)) / n,
        "rms": float(np.sqrt(energy / n)),
        "view_errors": [float(np.sqrt(left)) / n for left in view_energies],
        "unused": int(np.count_nonzero(uses == 0)),
    }


class Stream:
    """Running sums over batches, and the atoms that follow them."""

    def __init__(self, groups: list[AtomGroup]) -> None:
        self.groups = groups
        self.n_batches = 0
        self.sums: list[Sums] = []

    def absorb(self, found: _passes.Statistics, forgetting: float) -> None:
        """Add the sums of one batch, let older ones fade, and sweep over the atoms."""
        self.n_batches += 1
        keep = (1 - 1 / self.n_batches) ** 2 * (1 - forgetting)
        if self.sums:
            self.sums = [
                Sums(keep * old.a + new.a, keep * old.b + new.b) for old, new in zip(self.sums, found.sums, strict=True)
            ]
        else:
            self.sums = found.sums
        update = Statistics(n_sweeps=1)
        for group, sums in zip(self.groups, self.sums, strict=True):
            update.apply(group, sums)


class Loop:
    """Learns the atoms of some groups in place.

    Attributes
    ----------
    history : list of dict
    """

    def __init__(self, views: list[Array], dtype: np.dtype[Any], groups: list[AtomGroup], settings: Settings) -> None:
        self.views, self.dtype, self.groups, self.settings = views, dtype, groups, settings
        self.history: list[Record] = []

    def run(
        self,
        rng: np.random.Generator,
        callback: Callable[[State], object] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Iterate until the schedule ends, the objective settles, or the callback asks to stop.

        An interrupt restores the atoms of the last finished iteration and goes on as KeyboardInterrupt.
        """
        settings = self.settings
        n_iter = len(settings.limits)
        everything = None if settings.sizes is None else Order.random(self.views[0].shape[0], rng)
        place, all_in = 0, False
        seconds = 0.0
        for iteration, limit in enumerate(settings.limits):
            before = [group.atoms.copy() for group in self.groups]
            began = time.perf_counter()
            try:
                order = None
                if everything is not None and settings.sizes is not None:
                    size = everything.size if all_in else int(settings.sizes[iteration])
                    order = everything.slice(place, size)
                    place += order.size
                samples = Samples(self.views, self.dtype, order)
                outcome = self._iterate(samples, int(limit), iteration, n_iter)
            except BaseException:
                for group, atoms in zip(self.groups, before, strict=True):
                    group.atoms[:] = atoms
                raise
            seconds += time.perf_counter() - began
            self.history.append(
                make_record(
                    outcome.n_samples,
                    outcome.energy,
                    outcome.n_nonzeros,
                    outcome.view_energies,
                    outcome.uses,
                    int(limit),
                    seconds,
                )
            )
            if progress is not None:
                progress.show(self.history[-1], iteration + 1, n_iter)
            if callback is not None:
                state = State(iteration + 1, n_iter, components_of(self.groups, self.dtype), list(self.history))
                if callback(state):
                    break
            if self._settled():
                # On a part of the samples that may be chance: only two passes over all of them end the fit.
                if self.history[-2]["n_samples"] == self.views[0].shape[0]:
                    break
                all_in = True

    def _iterate(self, samples: Samples, limit: int, iteration: int, n_iter: int) -> _Outcome:
        settings = self.settings
        coder = Coder(
            components_of(self.groups, self.dtype),
            settings.weights,
            self.dtype,
            n_nonzero=limit,
            tol=settings.tol,
            pursuit=settings.pursuit,
            n_samples=len(samples),
            n_jobs=settings.n_jobs,
            coupling=settings.coupling,
        )
        replacing = settings.unused.applies(iteration, n_iter)
        n_worst = coder.n_atoms if replacing else 0
        if isinstance(settings.update, CodeUpdate):
            outcome = self._update_from_codes(settings.update, coder, samples, n_worst)
        else:
            assert isinstance(settings.update, SumUpdate)
            outcome = self._update_from_sums(settings.update, coder, samples, n_worst)
        if replacing:
            self._replace_unused(outcome)
        return outcome

    def _update_from_sums(self, update: SumUpdate, coder: Coder, samples: Samples, n_worst: int) -> _Outcome:
        found = _passes.statistics(coder, samples, self.settings.n_jobs, n_worst=n_worst)
        energies = np.zeros(len(self.views))
        for group, sums in zip(self.groups, found.sums, strict=True):
            if len(self.views) == 1:
                energies[0] = found.energy / self.settings.weights[0]
            else:
                energies[group.views] = group.view_energies(found.view_energy[group.views], sums.a, sums.b)
            update.apply(group, sums)
        return _Outcome(found.n_samples, found.energy, found.n_nonzeros, energies, found.uses, found.worst)

    def _update_from_codes(self, update: CodeUpdate, coder: Coder, samples: Samples, n_worst: int) -> _Outcome:
        coded = _passes.encode(coder, samples, self.settings.n_jobs)
        views = samples.read(0, len(samples))
        energies = np.zeros(len(self.views))
        for group, codes in zip(self.groups, as_csr(coded, coder.n_atoms), strict=True):
            residual = np.ascontiguousarray(np.hstack([views[v] for v in group.views]))
            residual -= codes @ group.atoms.astype(self.dtype)
            for i, v in enumerate(group.views):
                part = residual[:, group.columns(i)]
                energies[v] = float(np.einsum("ij,ij->", part, part, dtype=np.float64))
            update.apply(group, codes, residual, mean_unused=self.settings.unused.mean)
        uses = np.bincount(coded.indices, minlength=coder.n_atoms)
        worst = np.argsort(-coded.energy, kind="stable")[:n_worst]
        worst = np.array([samples.number(int(row)) for row in worst], np.int64)
        return _Outcome(len(samples), float(coded.energy.sum()), coded.indices.size, energies, uses, worst)

    def _replace_unused(self, outcome: _Outcome) -> None:
        """Put the worst represented samples, each once, in place of the atoms that nobody used."""
        unused = np.flatnonzero(outcome.uses == 0)
        unused = unused[unused >= self.groups[0].n_fixed][: outcome.worst.size]
        rows = outcome.worst[: unused.size]
        if unused.size == 0:
            return
        fresh = [np.asarray(view[rows], np.float64) for view in self.views]
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
