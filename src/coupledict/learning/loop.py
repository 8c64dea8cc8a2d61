"""The learning loop: code the samples, update the atoms, record the error, repeat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..coding.recipe import Recipe
from ..coding.results import PassSums
from ..coding.rule import CodingRule
from ..data.interface import Data, Portion
from ..data.jobs import KeepCodes, SumCodes
from ..data.memory import InMemory
from ..data.order import Order
from ..files.state import LARGEST
from ..foundation.arrays import Array, Floats
from ..foundation.progress import Callback, LearningProgress, Record
from ..parallel.jobs import Threads
from .atoms import AtomGroup, in_view_order
from .scaling import Scaling
from .start import positive_parts
from .updates import CodeUpdate, SumUpdate, UnusedRule, Update


@dataclass(frozen=True)
class LoopPlan:
    """Everything that the loop needs in addition to the samples and the atoms; all values are checked.

    Attributes
    ----------
    rule : CodingRule
        The rule for scaled samples and weights; its `n_nonzero` is replaced by the entries of `limits`.
    limits : array of shape (max_iter,)
        Maximal number of atoms per sample, for each iteration.
    sizes : array of shape (max_iter,), or None
        Number of samples that each pass reads; None if every pass reads all.
    weights : array of shape (n_views,)
        As they were given.
    scaling : Scaling
        How passes see samples and weights.
    update : Update
    unused : UnusedRule
    stop_tol : float
        As in :class:`coupledict.learning.settings.LearningSettings`.
    threads : Threads
    dtype : float32 or float64
        Number type that the samples are coded in.
    extrapolation : float
        After each iteration but the last, atoms move further in the direction of their change, by this share of it.
    switch : int or None
        If entries are missing, the iteration from which samples are filled in before they are coded, by the
        dictionaries of that time; before it, they are coded by their known entries. None for complete samples.
    """

    rule: CodingRule
    limits: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64] | None
    weights: Floats
    scaling: Scaling
    update: Update
    unused: UnusedRule
    stop_tol: float
    threads: Threads
    dtype: np.dtype[Any]
    extrapolation: float = 0.0
    switch: int | None = None

    @property
    def relative_weights(self) -> Floats:
        """Weights as passes see them."""
        return self.scaling.relative(self.weights)


def make_record(
    found: PassSums, limit: int, seconds: float, scaling: Scaling, residuals: Floats | None = None
) -> Record:
    """Return the entry of the history for a pass, in plain Python numbers, for samples and weights as they were given.

    `residuals` are the squared residuals of the views; without them the entry lacks the errors of the views.
    """
    n = max(found.n_samples, 1)
    record: Record = {
        "seconds": seconds,
        "limit": limit,
        "n_samples": found.n_samples,
        "mean_nonzeros": found.n_nonzeros / n,
        "objective": min(scaling.energy(found.energy + found.penalty), LARGEST),
        "error": scaling.root(float(np.sqrt(found.energy)) / n),
        "rms": scaling.root(float(np.sqrt(found.energy / n))),
    }
    if residuals is not None:
        record["view_errors"] = [float(np.sqrt(left)) / n / scaling.samples for left in residuals]
    record["unused"] = int(np.count_nonzero(found.uses == 0))
    return record


@dataclass
class Position:
    """The position of a loop. With it, the atoms and the history, the loop can continue as if it had never stopped.

    Attributes
    ----------
    iteration : int
        Number of finished iterations.
    order : Order or None
        The order in which passes take samples; None before the first iteration, and if every pass reads all samples.
    place : int
        Where in that order the next pass begins.
    all_in : bool
        Whether every pass reads all samples from now on.
    filled_by : list of arrays
        Dictionaries that fill in missing entries; empty before the switch.
    """

    iteration: int = 0
    order: Order | None = None
    place: int = 0
    all_in: bool = False
    filled_by: list[Array] = field(default_factory=list)


class Loop:
    """Learns the atoms of the groups, in place.

    Attributes
    ----------
    history : list of dict
    position : Position
    """

    def __init__(
        self,
        data: Data,
        groups: list[AtomGroup],
        plan: LoopPlan,
        history: list[Record] | None = None,
        position: Position | None = None,
    ) -> None:
        self.data = data
        self.groups = groups
        self.plan = plan
        self.history: list[Record] = history or []
        self.position = position or Position()
        self._filled: Data | None = None  # in memory, samples are filled in once

    @property
    def n_iter(self) -> int:
        """Number of iterations that were asked for."""
        return len(self.plan.limits)

    def run(
        self,
        rng: np.random.Generator,
        callback: Callback | None = None,
        checkpoint: Callable[[Loop], object] | None = None,
    ) -> None:
        """Iterate until the schedule ends, the objective settles, or the callback asks to stop.

        An interrupt or an error restores the atoms of the last finished iteration and is raised again. `checkpoint` is
        called after each iteration, before `callback`.
        """
        position = self.position
        if self.plan.sizes is not None and position.order is None:
            position.order = self.data.order(rng)
        while position.iteration < self.n_iter and not self._ended():
            before = [group.atoms.copy() for group in self.groups]
            try:
                record, place = self._iterate()
            except BaseException:
                for group, atoms in zip(self.groups, before, strict=True):
                    group.atoms[:] = atoms
                raise
            self.history.append(record)  # from here on the iteration counts as finished
            position.place = place
            position.iteration += 1
            position.all_in = position.all_in or self._settled()
            if checkpoint is not None:
                checkpoint(self)
            if callback is not None and callback(self._progress()):
                break

    def _progress(self) -> LearningProgress:
        components = in_view_order(self.groups, self.data.dtype)
        if self.data.standard is not None:
            components = self.data.standard.restored_atoms(components)
        return LearningProgress("learning", self.position.iteration, self.n_iter, components, list(self.history))

    def _iterate(self) -> tuple[Record, int]:
        """Run one pass and update the atoms; return the record, and where in the order the next pass begins."""
        plan, position, began = self.plan, self.position, time.perf_counter()
        if plan.switch is not None and position.iteration >= plan.switch and not position.filled_by:
            position.filled_by = [atoms.copy() for atoms in in_view_order(self.groups)]
        portion, place, size = None, position.place, self.data.n_samples
        if position.order is not None and plan.sizes is not None:
            if not position.all_in:
                size = int(plan.sizes[position.iteration])
            portion, place = self.data.take(position.order, place, size)
        found, residuals = self._learn_from(portion, size)
        seconds = (self.history[-1]["seconds"] if self.history else 0.0) + time.perf_counter() - began
        limit = int(plan.limits[position.iteration])
        return make_record(found, limit, seconds, plan.scaling, residuals), place

    def _learn_from(self, portion: Portion | None, size: int) -> tuple[PassSums, Floats]:
        """Run a pass and update the atoms; return its figures, and the squared residual of each view."""
        plan, iteration = self.plan, self.position.iteration
        rule = replace(plan.rule, n_nonzero=self._limit(iteration))
        recipe = Recipe(in_view_order(self.groups), plan.relative_weights, plan.dtype, rule, size, self.data.missing)
        data, recipe = self._prepared(recipe)
        before = [group.atoms.copy() for group in self.groups] if plan.extrapolation else []
        replacing = plan.unused.applies(iteration, self.n_iter)
        n_worst = recipe.n_atoms if replacing else 0
        if isinstance(plan.update, CodeUpdate):
            kept = data.run(KeepCodes(recipe, n_worst), plan.threads, portion)
            found, residuals = kept.found, self._update_from_codes(plan.update, kept.codes, kept.views)
        elif isinstance(plan.update, SumUpdate):
            found = data.run(SumCodes(recipe, n_worst), plan.threads, portion).check_finite()
            residuals = self._update_from_sums(plan.update, found)
        else:
            raise TypeError(f"Expected an update from sums or from codes, got {type(plan.update).__name__}.")
        if iteration + 1 < self.n_iter:
            for group, old in zip(self.groups, before, strict=False):
                group.move_on(old, plan.extrapolation)
        if replacing:
            self._replace_unused(found)
        return found, residuals

    def _prepared(self, recipe: Recipe) -> tuple[Data, Recipe]:
        """Return samples and recipe for a pass: before the switch, after it, or for complete samples."""
        plan, filled_by = self.plan, self.position.filled_by
        if not filled_by:
            return self.data, recipe
        rule = replace(recipe.rule, n_nonzero=self._limit(self.n_iter - 1))
        filling = Recipe(filled_by, plan.relative_weights, plan.dtype, rule, self.data.n_samples, missing=True)
        if not isinstance(self.data, InMemory):
            return self.data, replace(recipe, missing=False, filled_by=filling)
        if self._filled is None:
            self._filled = self.data.filled(filling, plan.threads)
        return self._filled, replace(recipe, missing=False)

    def _limit(self, iteration: int) -> int | None:
        """Return the maximal number of atoms of a sample; None for the lasso, which has no limit."""
        return None if self.plan.rule.pursuit == "lasso" else int(self.plan.limits[iteration])

    def _update_from_sums(self, update: SumUpdate, found: PassSums) -> Floats:
        """Update the atoms; return the squared residual of each view before."""
        residuals = np.zeros(len(self.data.widths))
        for g, (group, sums) in enumerate(zip(self.groups, found.sums, strict=True)):
            complete = found.estimate_complete(g, group.atoms)
            if len(residuals) == 1:
                residuals[0] = found.energy / self.plan.relative_weights[0]
            else:
                residuals[group.views] = group.view_energies(found.view_energy[group.views], sums.a, sums.b)
            update.apply(group, complete)
        return residuals

    def _update_from_codes(self, update: CodeUpdate, codes: list[csr_array], views: list[Array]) -> Floats:
        """Update the atoms; return the squared residual of each view before, over known entries."""
        plan = self.plan
        residuals = np.zeros(len(views))
        for group, own in zip(self.groups, codes, strict=True):
            residual = np.ascontiguousarray(np.hstack([views[v] for v in group.views]))
            residual -= own @ group.atoms.astype(plan.dtype)
            for i, v in enumerate(group.views):
                part = residual[:, group.columns(i)]
                residuals[v] = float(np.einsum("ij,ij->", part, part, dtype=np.float64))
            update.apply(group, own, residual, mean_unused=plan.unused.mean, positive_code=plan.rule.positive)
        return residuals

    def _replace_unused(self, found: PassSums) -> None:
        """Replace the atoms that no sample used by the worst represented samples, using each sample once."""
        unused = np.flatnonzero(found.uses == 0)
        unused = unused[unused >= self.groups[0].n_fixed][: found.worst.energy.size]
        if unused.size == 0:
            return
        fresh = [np.asarray(rows[: unused.size], np.float64) for rows in found.worst.rows]
        fresh = positive_parts(fresh, np.concatenate([group.positive for group in self.groups]))
        alive = np.logical_and.reduce([np.any(part != 0, axis=1) for part in fresh])
        for group in self.groups:
            group.replace(unused[alive], np.hstack([fresh[v][alive] for v in group.views]))

    def _ended(self) -> bool:
        """Return whether the objective over all samples has settled; over a portion of them that may be chance."""
        return self._settled() and all(record["n_samples"] == self.data.n_samples for record in self.history[-2:])

    def _settled(self) -> bool:
        """Return whether the objective per sample hardly fell between the last two passes, both at the full limit."""
        first = self.plan.switch or 0  # records before the switch are of samples coded in another way
        if self.plan.stop_tol <= 0 or len(self.history) < first + 2:
            return False
        last, now = self.history[-2:]
        if now["limit"] != self.plan.limits[-1] or last["limit"] != now["limit"]:
            return False
        before, after = (record["objective"] / max(record["n_samples"], 1) for record in (last, now))
        return bool(before - after <= self.plan.stop_tol * before)
