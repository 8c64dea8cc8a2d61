"""Learning from batches: each is coded, added to the running sums, and forgotten."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from ..coding.recipe import Recipe
from ..data.jobs import SumCodes
from ..data.memory import InMemory
from ..data.order import Chosen
from ..foundation.block_sizes import SIZES
from ..parallel.jobs import Threads
from .atoms import in_view_order
from .engine import LEARNED_NEGATIVE, find_standard, find_weights, start_atoms
from .fitted import FittedDictionaries
from .loop import make_record
from .scaling import Scaling
from .settings import LearningSettings
from .start import check_positive
from .updates import DECAY, LASSO_DECAY, RunningSums


def begin_batches(
    data: InMemory,
    settings: LearningSettings,
    threads: Threads,
    rng: np.random.Generator,
    known: FittedDictionaries | None = None,
    n_samples: int | None = None,
) -> FittedDictionaries:
    """Return the state before the next batch: that of the dictionaries in `known`, or a new start from this batch.

    A new start also decides how samples are standardized, and how many atoms there are, unless settings say so: it is
    best to know how many samples will come.
    """
    data = data.scaled(data.find_scale(threads))
    standard = find_standard(data, settings, threads) if known is None else known.standard
    data = data.standardized(standard)
    if known is None:
        weights, dtype = find_weights(data, settings, threads), data.dtype
        n_components = settings.count_components(data.widths, n_samples)
        groups = start_atoms(data, replace(settings, n_components=n_components), weights, rng, None)
    else:
        weights, dtype = known.weights, known.dtype
        groups = start_atoms(data, settings, weights, rng, known.components)
    return FittedDictionaries(
        in_view_order(groups, dtype),
        weights,
        [] if known is None else known.history,
        0 if known is None else known.n_iter,
        running=RunningSums(groups, data.scale),
        standard=standard,
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
    running = fitted.running
    if running is None:
        raise ValueError("Expected running sums to go on from; begin_batches makes them.")
    running = _with_signs(running, settings, len(data.views))
    began = time.perf_counter()
    if running.scale != 1:
        data = data.chosen(rows).scaled(running.scale, fitted.dtype)
        rows = None
    data = data.standardized(fitted.standard)
    scaling = Scaling.of(running.scale, fitted.weights)
    recipe = Recipe(
        in_view_order(running.groups),
        scaling.relative(fitted.weights),
        fitted.dtype,
        scaling.rule(settings.rule),
        data.n_samples if rows is None else rows.size,
        data.missing,
    )
    found = data.run(SumCodes(recipe), threads, rows)
    running = running.absorb(found, forgetting, LASSO_DECAY if settings.rule.pursuit == "lasso" else DECAY)
    seconds = (fitted.history[-1]["seconds"] if fitted.history else 0.0) + time.perf_counter() - began
    record = make_record(found, recipe.n_nonzero, seconds, scaling)
    return FittedDictionaries(
        in_view_order(running.groups, fitted.dtype),
        fitted.weights,
        [*fitted.history[1 - SIZES.stream_records :], record],
        fitted.n_iter + 1,
        running=running,
        standard=fitted.standard,
    )


def _with_signs(running: RunningSums, settings: LearningSettings, n_views: int) -> RunningSums:
    """Return running sums whose atoms are not negative in the views of the settings, which may have changed."""
    positive = settings.positive_views(n_views)
    check_positive(in_view_order(running.groups), positive, "components_", LEARNED_NEGATIVE)
    groups = [replace(group, positive=positive[group.views]) for group in running.groups]
    return replace(running, groups=groups)
