"""Learning the dictionaries of a classifier: features and labels are views, and each dictionary leaves samples out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.ensemble import fit_many, plain_learner
from ..foundation.arrays import Array, Floats
from ..foundation.checks import make_generator
from ..foundation.progress import Callback, Meter
from . import _label_views as labels
from ._labelled import Labelled
from ._scaling import Scaler, mean_energy

SAMPLES_PER_ATOM = 6  # with fewer, codes of training samples differ more from those of new samples
ATOMS_PER_CLASS = 10  # pictures of an object under any light span about nine dimensions
MOST_ATOMS = 512


def default_components(n_samples: int, n_classes: int) -> int:
    """Return the default number of atoms of a dictionary."""
    by_class = min(ATOMS_PER_CLASS * n_classes, n_samples // 3)
    return max(min(max(n_samples // SAMPLES_PER_ATOM, by_class), MOST_ATOMS), 2 * n_classes)


def learn_dictionaries(
    given: Labelled,
    scalers: list[Scaler],
    folds: labels.Numbers,
    *,
    label_weights: tuple[float, float],
    n_components: int,
    seeds: list[int],
    n_jobs: int | None,
    callback: Callback | None,
    **parameters: Any,
) -> tuple[list[CoupledDictionaryLearning], labels.Numbers | None]:
    """Return the fitted learners, and the class that each atom started from where all samples have labels.

    The learner with number i does not learn from the samples of fold i. `label_weights` are the weights of the label
    view and of the view of target codes, `parameters` are those of the learners.
    """
    views = [scaler.coded(view) for scaler, view in zip(scalers, given.views, strict=True)]
    weights = [1 / max(mean_energy(view), 1e-300) for view in views]
    atom_classes, extras = None, list[Array]()
    if given.all_labelled:
        atom_classes = labels.share_atoms(n_components, np.bincount(given.y, minlength=given.classes.size))
        extras, own = _label_views(given, atom_classes, label_weights)
        weights += own
    whole = labels.fill_with_means(views, given.y if given.all_labelled else None)
    # Scaling a sample does not change which atoms code it, so a larger sample only counts more.
    dtype = views[0].dtype
    sizes = np.sqrt(given.weights)[:, None].astype(dtype)
    scaled = [view * sizes for view in (*views, *(extra.astype(dtype) for extra in extras))]
    meter = Meter(callback, "learning", len(seeds) * parameters["max_iter"])
    count = None if callback is None else lambda progress: meter.advance()
    learners = []
    for number, seed in enumerate(seeds):
        rng = make_generator(seed)
        rows = np.flatnonzero(folds != number)
        if atom_classes is None:
            drawn = rows[np.resize(rng.permutation(rows.size), n_components)]
        else:
            drawn = rows[labels.draw_by_class(given.y[rows], atom_classes, rng)]
        learner = plain_learner(
            n_components,
            init=[*labels.start(whole, drawn, rng), *(extra[drawn] for extra in extras)],
            view_weights=weights,
            missing="nan" if given.incomplete else "error",
            random_state=rng,
            **parameters,
        )
        learners += fit_many([learner], [view[rows] for view in scaled], n_jobs, callback=count)
    for learner in learners:  # starts are large, generators cannot be saved, and neither is used again
        learner.set_params(init="auto", random_state=None)
    return learners, atom_classes


def _label_views(
    given: Labelled, atom_classes: labels.Numbers, label_weights: tuple[float, float]
) -> tuple[list[Array], list[float]]:
    """Return the label views that have a weight, and the weights."""
    label_weight, label_consistency = label_weights
    views: list[Floats] = []
    if label_weight > 0:
        views.append(labels.indicators(given.y, given.classes.size))
    if label_consistency > 0:
        views.append(labels.target_codes(given.y, atom_classes))
    return list[Array](views), [weight for weight in label_weights if weight > 0]
