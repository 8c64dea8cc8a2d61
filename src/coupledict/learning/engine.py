"""The engine behind the estimators: from samples and settings to fitted dictionaries."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..data.interface import Data
from ..data.jobs import CountIncomplete, FindMoments
from ..data.memory import InMemory
from ..foundation.arrays import Array, Floats, safe_scale
from ..foundation.checks import make_generator
from ..foundation.choices import PredictorName
from ..foundation.progress import Callback
from ..foundation.quiet import without_warnings
from ..foundation.standardization import Standardization
from ..foundation.tensors import with_numpy
from ..foundation.warning import InterruptedFitWarning, warn
from ..parallel.jobs import Threads
from .advice import advise_scores, advise_settings
from .atoms import AtomGroup, in_view_order
from .checkpoint import Checkpoint, SavedFit
from .fitted import FittedDictionaries
from .imputation import fit_imputer
from .loop import Loop, LoopPlan
from .prediction import fit_view_predictors
from .predictors import fit_predictors
from .scaling import Scaling
from .schedule import FIRST_SHARE, FIRST_SHARE_INCOMPLETE, Growth, sample_sizes, sparsity_limits
from .settings import LearningSettings
from .start import check_init, check_positive, start
from .updates import UNUSED_RULES, make_update

# A tolerance below this share of the largest possible squared norm of a sample is too small for float32.
FLOAT32_TOL = 1e-6
# Where a tolerance ends the coding, atoms converge slowly, and moving further in the direction of their last change
# saves a third of the passes. Where the number of atoms ends it, that only adds to the noise of small passes.
EXTRAPOLATION = 0.5
LEARNED_NEGATIVE = "They were learned without it, so learning cannot go on from them; fit anew."


def fit(
    data: Data,
    settings: LearningSettings,
    threads: Threads,
    *,
    predictor: PredictorName = "dictionary",
    ridge_alpha: float | Literal["auto"] = "auto",
    find_imputer: bool = True,
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
    predictor : "auto", "ridge" or "dictionary"
        What predicts a view from others: separate predictors, dictionaries refitted to codes, or the dictionaries as
        they are.
    ridge_alpha : float or "auto"
        Penalty of the ridge regression that refits dictionaries.
    find_imputer : bool
        Whether dictionaries get an imputer beside them where entries may be missing.
    go_on_from : list of arrays, optional
        Dictionaries to start from, in the units of the samples.
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
    if settings.needs_codes and not data.all_held:
        raise ValueError(
            f"update={settings.update!r} goes through the residuals of all samples, atom by atom, so they must be"
            " in memory all at once. Use update='statistics' (or 'mod'), which needs sums over the samples only."
        )
    largest = data.largest(threads)  # which refuses what is not finite
    if predictor == "auto" and _predictable(data, settings):
        advise_settings(settings, data.widths, data.n_samples)
    data = data.scaled(safe_scale(largest, data.dtype))
    standard = find_standard(data, settings, threads)
    data = data.standardized(standard)
    if go_on_from is not None and standard is not None:
        go_on_from = standard.standard_atoms(go_on_from)
    may_miss = data.missing
    data = _complete(data, threads)
    loop, rng = _begin(data, settings, threads, largest * data.scale, go_on_from, saved)
    write = None if checkpoint is None else lambda loop: checkpoint.write(loop, rng)
    interrupted = _interrupted(lambda: loop.run(rng, callback, write), loop)
    if checkpoint is not None and not interrupted:
        checkpoint.write(loop, rng, last=True)
    fitted = FittedDictionaries(
        in_view_order(loop.groups, data.dtype),
        loop.plan.weights,
        loop.history,
        len(loop.history),
        standard=standard,
    )
    if interrupted:
        return fitted
    try:
        if predictor == "ridge":
            fitted = with_predictors(fitted, data, settings, ridge_alpha, threads, rng)
        if may_miss and find_imputer:
            fitted = with_imputer(fitted, data, settings, threads, rng)
        if predictor == "auto":
            fitted = with_view_predictors(fitted, data, settings, threads, rng)
    except KeyboardInterrupt:
        warn(
            "The fit was interrupted after its last iteration; predict will use the dictionaries as learned.",
            InterruptedFitWarning,
        )
    return fitted


def refit_predictors(
    fitted: FittedDictionaries,
    data: Data,
    settings: LearningSettings,
    threads: Threads,
    rng: np.random.Generator,
    *,
    predictor: PredictorName,
    ridge_alpha: float | Literal["auto"] = "auto",
    find_imputer: bool = True,
) -> FittedDictionaries:
    """Return the dictionaries, which stay as they are, with what predicts views and fills them in, from these samples.

    Parameters are those of :func:`fit`.
    """
    if data.n_samples == 0:
        raise ValueError("Expected at least one sample in X, got 0.")
    data = copy.copy(data)
    data.dtype = fitted.dtype
    data = data.scaled(data.find_scale(threads)).standardized(fitted.standard)
    may_miss = data.missing
    data = _complete(data, threads)
    fitted = dataclasses.replace(fitted, imputer=None, predictors={}, view_predictors={})
    if may_miss and find_imputer:
        fitted = with_imputer(fitted, data, settings, threads, rng)
    if predictor == "ridge":
        return with_predictors(fitted, data, settings, ridge_alpha, threads, rng)
    return with_view_predictors(fitted, data, settings, threads, rng, again=False)


def _complete(data: Data, threads: Threads) -> Data:
    """Return samples that may lack entries as ones that do not, if none does."""
    if data.missing and not data.run(CountIncomplete(), threads):
        data = copy.copy(data)
        data.missing = False
    return data


def _predictable(data: Data, settings: LearningSettings) -> bool:
    """Return whether views have a code in common, from which one of them can be predicted."""
    return settings.rule.coupling == "code" and len(data.widths) > 1


def _begin(
    data: Data,
    settings: LearningSettings,
    threads: Threads,
    largest: float,
    go_on_from: list[Array] | None,
    saved: SavedFit | None,
) -> tuple[Loop, np.random.Generator]:
    """Return the loop before its first iteration, or where a fit was saved, and the random generator.

    `largest` is the largest absolute value of a sample.
    """
    if saved is None:
        rng = make_generator(settings.random_state)
        weights = find_weights(data, settings, threads)
        groups = start_atoms(data, settings, weights, rng, go_on_from)
        return Loop(data, groups, _plan(data, settings, weights, len(groups[0].atoms), threads, largest)), rng
    saved.check(data)
    groups = settings.group(saved.atoms, saved.weights)
    for group in groups:  # normalising again could change the last bit
        group.atoms[:] = np.hstack([saved.atoms[v] for v in group.views]) * group.unit
    plan = _plan(data, settings, saved.weights, len(groups[0].atoms), threads, largest)
    return Loop(data, groups, plan, saved.history, saved.position), saved.rng


def _interrupted(run: Callable[[], object], loop: Loop) -> bool:
    """Run a loop; return whether an interrupt ended it, with a warning. If no iteration is finished, raise it."""
    try:
        run()
    except KeyboardInterrupt:
        if not loop.history:
            raise
        warn(
            f"The fit was interrupted; the model is that of iteration {len(loop.history)} of {loop.n_iter}.",
            InterruptedFitWarning,
        )
        return True
    return False


def with_predictors(
    fitted: FittedDictionaries,
    data: Data,
    settings: LearningSettings,
    ridge_alpha: float | Literal["auto"],
    threads: Threads,
    rng: np.random.Generator,
) -> FittedDictionaries:
    """Return the fitted dictionaries with refitted ones for prediction, if views can predict each other."""
    if not _predictable(data, settings):
        return fitted
    scaling = Scaling.of(data.scale, fitted.weights)
    weights, rule = scaling.relative(fitted.weights), scaling.rule(settings.rule)
    predictors = fit_predictors(data, fitted.components, weights, rule, ridge_alpha, threads, rng)
    return dataclasses.replace(fitted, predictors=predictors)


def with_imputer(
    fitted: FittedDictionaries, data: Data, settings: LearningSettings, threads: Threads, rng: np.random.Generator
) -> FittedDictionaries:
    """Return the fitted dictionaries with what fills in missing entries, if views have codes in common."""
    if settings.rule.coupling == "support":
        return fitted
    plain = dataclasses.replace(fitted, standard=None)  # the samples that it gets are standardized

    def fill_by_codes(table: Floats) -> Array:
        batch = InMemory(np.split(table.astype(data.dtype), np.cumsum(data.widths)[:-1], axis=1))
        batch.missing = True
        with without_warnings():
            return np.hstack(plain.impute(batch, settings, threads))

    imputer = fit_imputer(data, len(fitted.components[0]), fill_by_codes, threads, rng)
    return dataclasses.replace(fitted, imputer=imputer)


def with_view_predictors(
    fitted: FittedDictionaries,
    data: Data,
    settings: LearningSettings,
    threads: Threads,
    rng: np.random.Generator,
    *,
    again: bool = True,
) -> FittedDictionaries:
    """Return the fitted dictionaries with predictors of their own, if views can predict each other.

    With `again`, few samples are those that the dictionaries were learned from, and which settings are best is judged
    by ones that are learned again from a part of them.
    """
    if not _predictable(data, settings):
        return fitted
    scaling = Scaling.of(data.scale, fitted.weights)
    rule = scaling.rule(settings.rule)
    n_atoms = fitted.components[0].shape[0]
    if rule.tol is None and rule.pursuit != "lasso":
        rule = dataclasses.replace(rule, n_nonzero=settings.limit(data.widths, n_atoms))
    again = again and isinstance(settings.init, str)

    def learn(batch: InMemory, n_components: int) -> list[Array]:
        """Return dictionaries learned from other samples, which are already standardized."""
        own = dataclasses.replace(settings, n_components=n_components, scale=None, view_weights=list(weights))
        own = dataclasses.replace(own, stop_tol=0.0)
        with without_warnings():
            learned = fit(batch, own, threads, find_imputer=False)
        if learned.n_iter < own.max_iter:
            raise KeyboardInterrupt  # the fit has ended early, with a warning that was held back
        return learned.components

    weights = scaling.relative(fitted.weights)
    predictors = fit_view_predictors(
        data,
        fitted.components,
        weights,
        rule,
        learn if again else None,
        threads,
        rng,
        fitted.moments,
    )
    advise_scores(predictors, data.view_names, len(data.widths))
    return dataclasses.replace(fitted, view_predictors=predictors)


def find_standard(data: Data, settings: LearningSettings, threads: Threads) -> Standardization | None:
    """Return the standardization of the samples before scaling; None if they are not standardized."""
    if not settings.standardizes:
        return None
    found = data.run(FindMoments(), threads)
    wide = settings.rule.tol is not None or settings.rule.pursuit == "lasso"
    variances = [np.ones_like(own) for own in found.variances] if wide else found.variances
    return Standardization.of([mean / data.scale for mean in found.means], variances)


def find_weights(data: Data, settings: LearningSettings, threads: Threads) -> Floats:
    """Return the weights of the views; balanced ones follow from the samples."""
    energies = data.mean_energies(threads) if settings.balanced else None
    return settings.find_weights(energies, len(data.widths), data.scale)


def start_atoms(
    data: Data,
    settings: LearningSettings,
    weights: Floats,
    rng: np.random.Generator,
    go_on_from: list[Array] | None,
) -> list[AtomGroup]:
    """Return the atoms that learning starts from."""
    widths = data.widths
    n_components, positive = settings.count_components(widths, data.n_samples), settings.positive_views(len(widths))
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
        cosines = settings.rule.tol is not None or settings.update != "statistics"
        checked = check_init(init, widths, n_components, cosines=cosines, positive=positive)
        if data.standard is not None and not isinstance(checked, str):
            checked = data.standard.standard_atoms(checked)
        arrays = start(checked, data, n_components, rng, positive)
    if settings.constant_atom and not all(array[0, 0] != 0 and np.ptp(array[0]) == 0 for array in arrays):
        arrays = [np.vstack([np.ones((1, array.shape[1])), array[: n_components - 1]]) for array in arrays]
    return settings.group(arrays, weights)


def _coding_dtype(
    data: Data, settings: LearningSettings, weights: Floats, largest: float, tol: float | None
) -> np.dtype[Any]:
    """Return the number type to code samples in while learning.

    Passes over some of the samples only approximate the sums over all of them, so float32 is precise enough, unless
    samples or tolerance are beyond its range. `largest` is the largest absolute value of a sample; weights and `tol`
    are those that passes use.
    """
    single = np.dtype(np.float32)
    if not settings.growing or settings.rule.pursuit == "lasso" or safe_scale(largest, single) != 1:
        return data.dtype
    if tol is not None and not tol > FLOAT32_TOL * float(weights @ data.widths) * largest**2 > 0:
        return data.dtype
    return single


def _plan(
    data: Data,
    settings: LearningSettings,
    weights: Floats,
    n_components: int,
    threads: Threads,
    largest: float,
) -> LoopPlan:
    growth = settings.growth if settings.growing else None
    has_tol, n_iter = settings.rule.tol is not None, settings.max_iter
    # Updates that also change the codes gain nothing from filling in.
    filling = data.missing and n_iter >= settings.least_iterations_to_fill and not settings.needs_codes
    switch = (n_iter + 1) // 2 if filling else None
    scaling = Scaling.of(data.scale, weights)
    rule = scaling.rule(settings.rule)
    limits, sizes = _limits_and_sizes(data, settings, growth, n_components, switch)
    return LoopPlan(
        rule=rule,
        limits=limits,
        sizes=sizes,
        weights=weights,
        scaling=scaling,
        update=make_update(settings.update, n_components, all_held=data.all_held),
        unused=UNUSED_RULES[settings.unused_atoms],
        stop_tol=settings.stop_tol,
        threads=threads,
        dtype=_coding_dtype(data, settings, scaling.relative(weights), largest, rule.tol),
        extrapolation=EXTRAPOLATION if growth is not None and has_tol else 0.0,
        switch=switch,
    )


def _limits_and_sizes(
    data: Data, settings: LearningSettings, growth: Growth, n_components: int, switch: int | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """Return how many atoms a sample may use, and how many samples a pass reads, for each iteration.

    Both start again at the switch, after which samples are filled in, unless they were given for all iterations.
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
        sample_sizes(growth, n_samples, n, n_components, has_tol=has_tol, first_share=first_share)
        for n in (rounds if isinstance(growth, str) else [n_iter])
    ]
    given = [own for own in sizes if own is not None]
    return np.concatenate(limits), np.concatenate(given) if given else None
