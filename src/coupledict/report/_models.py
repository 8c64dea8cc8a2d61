"""The dictionaries of any kind of model, for display."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._explorer import Atoms


@dataclass(frozen=True)
class ModelAtoms:
    """Dictionaries with equal numbers of atoms, one per view.

    Attributes
    ----------
    dictionaries : list of arrays of shape (n_components, n_features_v)
    names : list of str or None
        Names of the views, if the model has them.
    patch_size : list of tuples or None
        As :func:`coupledict.report.explorer_page` takes it.
    n_sets : int
        Number of sets of dictionaries in the model, of which this is one.
    """

    dictionaries: list[Atoms]
    names: list[str] | None = None
    patch_size: list[tuple[int, ...]] | None = None
    n_sets: int = 1


def model_atoms(model: Any, number: int = 0) -> ModelAtoms:
    """Return the dictionaries of a fitted model: of a learner, or of a task.

    Parameters
    ----------
    model : estimator
        What :func:`coupledict.load` returns.
    number : int, default=0
        Number of the set of dictionaries, for a model with several.

    Returns
    -------
    ModelAtoms

    Raises
    ------
    ValueError
        If there is no set of that number.
    """
    kind = type(model).__name__
    if kind == "SuperResolution":
        found = [_super_resolution(model)]
    elif kind == "BandwidthExtension":
        found = [_bandwidth(part, learner.components_) for part in model.models_.values() for learner in part.learners]
    elif kind == "CoupledClassifier":
        found = [_classifier(model, learner.components_) for learner in model.learners_]
    elif kind == "CrossModalMatcher":
        found = [_plain(components, model) for components in model.components_]
    elif kind == "MultiFocusFusion":
        found = [_plain(model.learner_.components_, model.learner_)]
    elif kind in ("SparseRepresentationClassifier", "DictionaryLearning"):
        found = [_plain([model.components_])]
    else:
        found = [_plain(model.components_, model)]
    if not 0 <= number < len(found):
        raise ValueError(f"Expected the number of one of {len(found)} sets of dictionaries, from 0, got {number}.")
    return ModelAtoms(found[number].dictionaries, found[number].names, found[number].patch_size, len(found))


def _plain(components: Any, owner: Any = None) -> ModelAtoms:
    names = getattr(owner, "view_names_in_", None)
    return ModelAtoms([np.asarray(view, np.float64) for view in components], None if names is None else list(names))


def _super_resolution(model: Any) -> ModelAtoms:
    """Return the pattern that each atom matches in a small picture, and the detail that it adds to the large one."""
    details = model.details_
    if details.ndim == 3:
        details = np.einsum("kf,kfd->kd", model.components_, details)  # the detail that each anchor predicts for itself
    views = _plain([model.components_ @ model.projection_.T, details @ model.basis_]).dictionaries
    sides = [math.isqrt(view.shape[1]) for view in views]
    return ModelAtoms(views, ["Looks for", "Adds"], [(side, side) for side in sides])


def _bandwidth(model: Any, components: Any) -> ModelAtoms:
    """Return the features of the low band and the spectra of the high band."""
    views = _plain([components[0], components[1] @ model.bands.basis]).dictionaries
    return ModelAtoms(views, ["Low band", "High band"], [(view.shape[1],) for view in views])


def _classifier(model: Any, components: Any) -> ModelAtoms:
    """Return the views, and after them the views of labels, if there are any."""
    found = _plain(components, model)
    n_views = len(model.n_features_in_) if isinstance(model.n_features_in_, list) else 1
    names = found.names or [f"View {v}" for v in range(n_views)]
    return ModelAtoms(found.dictionaries, names + ["Labels"] * (len(found.dictionaries) - n_views))
