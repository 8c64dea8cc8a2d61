"""The engine behind the estimators: from samples and settings to fitted dictionaries, in one fit or in batches."""

from __future__ import annotations

import copy
import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..coding.making import make_coder
from ..coding.passes import sum_codes
from ..coding.recipe import Recipe
from ..coding.samples import Samples
from ..data.interface import Data
from ..data.memory import InMemory
from ..data.order import Chosen
from ..foundation.arrays import Array, Floats, multiply, safe_scale
from ..foundation.block_sizes import SIZES
from ..foundation.checks import make_generator
from ..foundation.progress import Callback
from ..foundation.tensors import with_numpy
from ..parallel.jobs import Threads
from .atoms import AtomGroup, group_atoms, in_view_order, weight_unit
from .checkpoint import Checkpoint, SavedFit
from .fitted import FittedDictionaries
from .imputation import fit_moments
from .loop import Loop, LoopPlan, Outcome
from .predictors import fit_predictors
from .running_sums import DECAY, LASSO_DECAY, RunningSums
from .schedule import FIRST_SHARE, FIRST_SHARE_INCOMPLETE, Growth, sample_sizes, sparsity_limits
from .settings import LearningSettings
from .start import check_init, check_positive, start
from .updates import for_size

# A tolerance below this share of the largest possible squared norm of a sample is too small for float32.
FLOAT32_TOL = 1e-6
# Where a tolerance ends the coding, atoms settle slowly, and moving on in the direction of their last change saves a
# third of the passes. Where the number of atoms ends it, that only adds to the noise of passes over few samples.
EXTRAPOLATION = 0.5
WHOLE_PER_ATOM = 2  # with at least so many samples that have all views, only these teach in the first half
MOST_VIEWS_TO_TEACH = 3  # with more, the many sets of source views would take several times as long as learning
INTERRUPTED = "The fit was interrupted"
LEARNED_NEGATIVE = "They were learned without it, so learning cannot go on from them; fit anew."


def fit(
    data: Data,
    settings: LearningSettings,
    threads: Threads,
    *,
    ridge_alpha: float | Literal["auto"] | None = None,
    find_moments: bool = True,
    go_on_from: list[Array] | None = None,
    saved: SavedFit | None = None,
    checkpoint: Checkpoint | None = None,
    callback: Callback | None = None,
) -> FittedDictionaries:
    """Learn dictionaries.

    Parameters
    ----------
    data : Data
        The samples; all views must be present.
    settings : LearningSettings
    threads : Threads
    ridge_alpha : float or "auto", optional
        Penalty of the ridge regression that refits dictionaries for prediction; without it none are refitted.
    find_moments : bool
        Whether means and covariances are found beside the dictionaries where entries may be missing.
    go_on_from : list of arrays, optional
        Dictionaries to start from.
    saved : SavedFit, optional
        The checkpoint of a fit to resume.
    checkpoint : Checkpoint, optional
    callback : callable, optional

    Returns
    -------
    FittedDictionaries
        After an interrupt, those of the last finished iteration, with a warning; if no iteration is finished, the
        KeyboardInterrupt is raised.
    """
    if data.n_samples == 0:
        raise ValueError("Expected at least one sample in X, got 0.")
    if settings.update.needs_codes and not data.all_held:
        raise ValueError(
            f"update={settings.update.name!r} goes through the residuals of all samples, atom by atom, so they must be"
            " in memory all at once. Use update='statistics' (or 'mod'), which needs sums over the samples only."
        )
    largest = data.largest(threads)
    data = data.scaled(safe_scale(largest, data.dtype))
    may_miss = data.missing
    n_incomplete, n_lacking = data.gaps(threads) if data.missing else (0, 0)
    if not n_incomplete:
        data = copy.copy(data)
        data.missing = False
    loop, rng = _begin(data, settings, threads, largest * data.scale, n_lacking, go_on_from, saved)
    write = None if checkpoint is None else lambda loop: checkpoint.write(loop, rng)
    interrupted = _interrupted(lambda: loop.run(rng, callback, write), loop)
    if checkpoint is not None and not interrupted:
        checkpoint.write(loop, rng, last=True)
    fitted = FittedDictionaries(
        in_view_order(loop.groups, data.dtype), loop.plan.weights, loop.history, len(loop.history)
    )
    if interrupted:
        return fitted
    try:
        if ridge_alpha is not None:
            teachers = loop.position.filled_by if data.n_views <= MOST_VIEWS_TO_TEACH else []
            fitted = _with_predictors(fitted, data, settings, ridge_alpha, threads, rng, teachers)
        if may_miss and find_moments:
            fitted = dataclasses.replace(fitted, moments=fit_moments(fitted, data, settings, threads, rng))
        return fitted
    except KeyboardInterrupt:
        warnings.warn(
            f"{INTERRUPTED} after its last iteration; predict will use the dictionaries as learned.",
            UserWarning,
            stacklevel=4,
        )
    return fitted


def _begin(
    data: Data,
    settings: LearningSettings,
    threads: Threads,
    largest: float,
    n_lacking: int,
    go_on_from: list[Array] | None,
    saved: SavedFit | None,
) -> tuple[Loop, np.random.Generator]:
    """Return the loop before its first iteration, or where a fit was saved, and the source of randomness.

    `largest` is the largest absolute value of a sample, `n_lacking` the number of samples that lack a whole view.
    """
    if saved is None:
        rng = make_generator(settings.random_state)
        weights = _find_weights(data, settings, threads)
        groups = _start(data, settings, weights, rng, go_on_from)
        return Loop(
            data, groups, _plan(data, settings, weights, len(groups[0].atoms), threads, largest, n_lacking)
        ), rng
    saved.check(data)
    groups = _group(saved.atoms, saved.weights, settings)
    for group in groups:  # normalising again could change the last bit
        group.atoms[:] = np.hstack([saved.atoms[v] for v in group.views]) * group.unit
    plan = _plan(data, settings, saved.weights, len(groups[0].atoms), threads, largest, n_lacking)
    return Loop(data, groups, plan, saved.history, saved.position), saved.rng


def _interrupted(run: Callable[[], object], loop: Loop) -> bool:
    """Run a loop; return whether an interrupt ended it, with a warning. One before the first iteration goes on."""
    try:
        run()
    except KeyboardInterrupt:
        if not loop.history:
            raise
        warnings.warn(
            f"{INTERRUPTED}; the model is that of iteration {len(loop.history)} of {loop.n_iter}.",
            UserWarning,
            stacklevel=5,
        )
        return True
    return False


def _with_predictors(
    fitted: FittedDictionaries,
    data: Data,
    settings: LearningSettings,
    ridge_alpha: float | Literal["auto"],
    threads: Threads,
    rng: np.random.Generator,
    teachers: list[Array] | None = None,
) -> FittedDictionaries:
    """Return the fitted dictionaries with refitted ones for prediction, if views can predict each other."""
    if settings.rule.coupling == "support" or len(data.widths) < 2:
        return fitted
    unit = weight_unit(fitted.weights)
    rule, weights = settings.rule.scaled(data.scale).scaled_objective(1 / unit), fitted.weights / unit
    predictors = fit_predictors(data, fitted.components, weights, rule, ridge_alpha, threads, rng, teachers)
    return dataclasses.replace(fitted, predictors=predictors)


def _find_weights(data: Data, settings: LearningSettings, threads: Threads) -> Floats:
    energies = data.mean_energies(threads) if settings.balanced else None
    return settings.find_weights(energies, len(data.widths), data.scale)


def _group(arrays: list[Array], weights: Floats, settings: LearningSettings) -> list[AtomGroup]:
    return group_atoms(
        arrays,
        weights,
        coupled=settings.rule.coupling == "code",
        joint=settings.joint_norm,
        n_fixed=int(settings.constant_atom),
        positive=settings.positive_views(len(arrays)),
        relative=not settings.balanced,
    )


def _start(
    data: Data,
    settings: LearningSettings,
    weights: Floats,
    rng: np.random.Generator,
    go_on_from: list[Array] | None,
) -> list[AtomGroup]:
    """Return the atoms that learning starts from."""
    widths = data.widths
    n_components, positive = settings.count_components(widths), settings.positive_views(len(widths))
    if go_on_from is not None:
        if settings.n_components is None:
            n_components = go_on_from[0].shape[0]
        arrays: list[Array] = [np.asarray(array, np.float64) for array in go_on_from]
        if [array.shape for array in arrays] != [(n_components, width) for width in widths]:
            raise ValueError(
                f"Expected views of {[array.shape[1] for array in arrays]} features and {arrays[0].shape[0]} atoms"
                f" to go on from the dictionaries that were learned, got {widths} and {n_components}."
            )
        check_positive(arrays, positive, "components_", LEARNED_NEGATIVE)
    else:
        given = with_numpy(settings.init, "init")
        init = [given] if len(widths) == 1 and isinstance(given, np.ndarray) else given
        # Samples are the better start where the number of atoms ends the coding, cosines where a tolerance ends it
        # (benchmarks/default_settings.py). The other updates start from cosines, as the paper does.
        cosines = settings.rule.tol is not None or settings.update.name != "statistics"
        checked = check_init(init, widths, n_components, cosines=cosines, positive=positive)
        arrays = start(checked, data, n_components, rng, positive)
    if settings.constant_atom and not all(array[0, 0] != 0 and np.ptp(array[0]) == 0 for array in arrays):
        arrays = [np.vstack([np.ones((1, array.shape[1])), array[: n_components - 1]]) for array in arrays]
    return _group(arrays, weights, settings)


def _coding_dtype(data: Data, settings: LearningSettings, weights: Floats, largest: float) -> np.dtype[Any]:
    """Return the number type to code samples in while learning.

    Passes over some of the samples only approximate the sums over all, so float32 is precise enough for them, unless
    samples or tolerance are beyond its range: `largest` is the largest absolute value of a sample.
    """
    single = np.dtype(np.float32)
    if not settings.growing or settings.rule.pursuit == "lasso" or safe_scale(largest, single) != 1:
        return data.dtype
    unit = weight_unit(weights)
    tol = settings.rule.scaled(data.scale).scaled_objective(1 / unit).tol
    if tol is not None and not tol > FLOAT32_TOL * float(weights / unit @ data.widths) * largest**2 > 0:
        return data.dtype
    return single


def _plan(
    data: Data,
    settings: LearningSettings,
    weights: Floats,
    n_components: int,
    threads: Threads,
    largest: float,
    n_lacking: int,
) -> LoopPlan:
    growth = settings.growth if settings.growing else None
    has_tol, n_iter = settings.rule.tol is not None, settings.max_iter
    # Updates that also change the codes gain nothing from it.
    filling = data.missing and n_iter >= settings.least_iterations_to_fill and not settings.update.needs_codes
    n_whole = data.n_samples - n_lacking
    whole_only = filling and n_lacking > 0 and n_whole >= WHOLE_PER_ATOM * n_components
    switch = None
    if filling:
        switch = 2 * n_iter // 3 if whole_only else (n_iter + 1) // 2
    useful = n_whole / data.n_samples if whole_only else 1.0
    unit = weight_unit(weights)
    limits, sizes = _limits_and_sizes(data, settings, growth, n_components, switch, useful)
    return LoopPlan(
        rule=settings.rule.scaled(data.scale).scaled_objective(1 / unit),
        limits=limits,
        sizes=sizes,
        weights=weights,
        update=for_size(settings.update, n_components, all_held=data.all_held),
        unused=settings.unused,
        stop_tol=settings.stop_tol,
        threads=threads,
        dtype=_coding_dtype(data, settings, weights, largest),
        extrapolation=EXTRAPOLATION if growth is not None and has_tol else 0.0,
        switch=switch,
        whole_only=whole_only,
        weight_unit=unit,
    )


def _limits_and_sizes(
    data: Data, settings: LearningSettings, growth: Growth, n_components: int, switch: int | None, useful: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """Return how many atoms a sample may use, and how many samples a pass reads, for each iteration.

    Both begin anew at the switch, from which on samples are filled in, unless they were given for all iterations.
    `useful` is the share of the samples that are not left out before it.
    """
    has_tol, n_iter, n_samples = settings.rule.tol is not None, settings.max_iter, data.n_samples
    limit = settings.limit(data.widths, n_components)
    constant = settings.rule.pursuit == "lasso" and settings.schedule == "auto"  # only the penalty limits the codes
    schedule = "constant" if constant else settings.schedule
    growing = growth is not None
    rounds = [n_iter] if switch is None else [switch, n_iter - switch]
    first_share = FIRST_SHARE if switch is None else FIRST_SHARE_INCOMPLETE
    limits = [
        sparsity_limits(schedule, limit, n, has_tol=has_tol, growing=growing)
        for n in (rounds if isinstance(schedule, str) else [n_iter])
    ]
    sizes = [
        sample_sizes(growth, n_samples, n, n_components, has_tol=has_tol, first_share=first_share, useful=share)
        for n, share in zip(rounds if isinstance(growth, str) else [n_iter], (useful, 1.0), strict=False)
    ]
    given = [own for own in sizes if own is not None]
    return np.concatenate(limits), np.concatenate(given) if given else None


# Batches


def begin_batches(
    data: InMemory,
    settings: LearningSettings,
    threads: Threads,
    rng: np.random.Generator,
    known: FittedDictionaries | None = None,
) -> FittedDictionaries:
    """Return the state before the next batch: from the dictionaries in `known`, or from a new start with this batch."""
    data = data.scaled(data.find_scale(threads))
    if known is None:
        weights, dtype = _find_weights(data, settings, threads), data.dtype
        groups = _start(data, settings, weights, rng, None)
    else:
        weights, dtype = known.weights, known.dtype
        groups = _start(data, settings, weights, rng, known.components)
    return FittedDictionaries(
        in_view_order(groups, dtype),
        weights,
        [] if known is None else known.history,
        0 if known is None else known.n_iter,
        running=RunningSums(groups, data.scale),
    )


def learn_batch(
    fitted: FittedDictionaries,
    data: InMemory,
    settings: LearningSettings,
    threads: Threads,
    *,
    forgetting: float = 0.0,
    rows: Chosen | None = None,
) -> FittedDictionaries:
    """Learn from one more batch of checked views: code it, add it to the running sums, sweep over the atoms.

    With `rows`, the batch consists of these samples only.
    """
    running, views, missing = fitted.running, data.views, data.missing
    if running is None:
        raise ValueError("Expected running sums to go on from; begin_batches makes them.")
    running = _with_signs(running, settings, len(views))
    began = time.perf_counter()
    if running.scale != 1:
        chosen = views if rows is None else [np.asarray(view[rows.samples]) for view in views]
        views, rows = multiply(chosen, running.scale, fitted.dtype), None
    unit = weight_unit(fitted.weights)
    rule = settings.rule.scaled(running.scale).scaled_objective(1 / unit)
    n_samples = views[0].shape[0] if rows is None else rows.size
    recipe = Recipe(in_view_order(running.groups), fitted.weights / unit, fitted.dtype, rule, n_samples, missing)
    coder = make_coder(recipe, threads.count, threads.cancel)
    found = sum_codes(
        coder,
        Samples(views, fitted.dtype, rows, names=data.names, missing=missing),
        threads.count,
        cancel=threads.cancel,
    )
    running = running.absorb(found, forgetting, LASSO_DECAY if rule.pursuit == "lasso" else DECAY)
    outcome = Outcome(
        found.n_samples, found.energy, found.n_nonzeros, np.empty(0), found.uses, found.worst, found.penalty
    )
    seconds = (fitted.history[-1]["seconds"] if fitted.history else 0.0) + time.perf_counter() - began
    record = outcome.record(coder.n_nonzero, seconds, running.scale, unit)
    del record["view_errors"]  # they are not computed for a batch
    return FittedDictionaries(
        in_view_order(running.groups, fitted.dtype),
        fitted.weights,
        [*fitted.history[1 - SIZES.stream_records :], record],
        fitted.n_iter + 1,
        running=running,
    )


def _with_signs(running: RunningSums, settings: LearningSettings, n_views: int) -> RunningSums:
    """Return running sums whose atoms are not negative in the views that the settings say, which may be new ones."""
    positive = settings.positive_views(n_views)
    check_positive(in_view_order(running.groups), positive, "components_", LEARNED_NEGATIVE)
    groups = [dataclasses.replace(group, positive=positive[group.views]) for group in running.groups]
    return dataclasses.replace(running, groups=groups)


def add_predictors(
    fitted: FittedDictionaries,
    data: InMemory,
    settings: LearningSettings,
    ridge_alpha: float | Literal["auto"],
    threads: Threads,
    rng: np.random.Generator,
) -> FittedDictionaries:
    """Return dictionaries that were learned from batches, with refitted ones for prediction."""
    scale = 1.0 if fitted.running is None else fitted.running.scale
    return _with_predictors(fitted, data.scaled(scale), settings, ridge_alpha, threads, rng)
