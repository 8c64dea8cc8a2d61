"""Classifiers to files and back: dictionaries, scalings and heads as arrays, the rest as JSON."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._learner import CoupledDictionaryLearning
from .._saving import check_history, check_range, describe_names, restore_names
from .._task_files import begin_task, describe_classes, describe_task, read_classes
from .._views import Array
from ..model_io import JSON, write_model
from ._coupled import CoupledClassifier, Route
from ._heads import Head
from ._residuals import SparseRepresentationClassifier
from ._scaling import Scaler

MOST, MOST_SCALING = 1e50, 1e200  # scalings undo the units of features, everything else is of the order of 1
MOST_SHARPNESS = 1e6  # fits give at most exp(6)
ESTIMATORS = {cls.__name__: cls for cls in (CoupledClassifier, SparseRepresentationClassifier)}


def _metadata(model: Any, **more: JSON) -> dict[str, JSON]:
    """Return what both kinds of model have to tell."""
    return describe_task(model) | describe_classes(model.classes_) | describe_names(model) | more


def _scaling(scaler: Scaler, v: int) -> dict[str, Array]:
    return {f"scaling.{v}.{name}": array for name, array in scaler.as_arrays().items()}


def save_residuals(model: SparseRepresentationClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted SparseRepresentationClassifier."""
    tensors = {"components": model.components_, "atom_classes": model.atom_classes_.astype(np.int64)}
    write_model(path, tensors | _scaling(model._scaler, 0), _metadata(model))


def save_coupled(model: CoupledClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted CoupledClassifier."""
    tensors: dict[str, Array] = {"view_weights": model.learners_[0].view_weights_}
    for v, scaler in enumerate(model._scalers):
        tensors |= _scaling(scaler, v)
    for number, learner in enumerate(model.learners_):
        tensors |= {f"components.{number}.{v}": array for v, array in enumerate(learner.components_)}
    if hasattr(model, "atom_classes_"):
        tensors["atom_classes"] = model.atom_classes_.astype(np.int64)
    routes: dict[str, JSON] = {}
    for sources, route in model._routes.items():
        name = "-".join(map(str, sources))
        routes[name] = {"sharpness": route.sharpness, "alphas": [head.alpha for head in route.heads]}
        for number, head in enumerate(route.heads):
            tensors[f"head.{name}.{number}.coef"] = head.coef
            tensors[f"head.{name}.{number}.intercept"] = head.intercept
    metadata = _metadata(
        model,
        routes=routes,
        single=model._single,
        dtype=model._dtype.name,
        n_views=len(model._scalers),
        n_dictionaries=len(model.learners_),
        history=[list[JSON](learner.history_) for learner in model.learners_],
    )
    write_model(path, tensors, metadata)


def rebuild(tensors: dict[str, Array], metadata: dict[str, Any]) -> CoupledClassifier | SparseRepresentationClassifier:
    """Make a model of what its file holds; a file that contradicts itself raises one of the errors `load` expects."""
    model: Any = begin_task(ESTIMATORS[metadata["estimator"]], metadata)
    check_range({name: array for name, array in tensors.items() if not name.startswith("scaling.")}, MOST)
    check_range(tensors, MOST_SCALING, "scaling.")
    model.classes_ = read_classes(metadata)
    build = _coupled if isinstance(model, CoupledClassifier) else _residuals
    build(model, tensors, metadata)
    restore_names(model, metadata)
    return model  # type: ignore[no-any-return]


def _read_scaling(tensors: dict[str, Array], v: int) -> Scaler:
    start = f"scaling.{v}."
    return Scaler.from_arrays({name[len(start) :]: array for name, array in tensors.items() if name.startswith(start)})


def _check_dictionary(array: Array, width: int | None = None) -> Array:
    if array.ndim != 2 or array.size == 0 or array.dtype.kind != "f" or (width is not None and array.shape[1] != width):
        raise ValueError("its dictionaries do not fit its features")
    return array


def _check_atom_classes(numbers: Array, n_atoms: int, n_classes: int) -> Array:
    if numbers.shape != (n_atoms,) or np.any(numbers < 0) or np.any(numbers >= n_classes):
        raise ValueError("the classes of its atoms do not fit its dictionaries")
    return numbers.astype(np.intp)


def _residuals(model: Any, tensors: dict[str, Array], metadata: dict[str, Any]) -> None:
    model._scaler = _read_scaling(tensors, 0)
    model.components_ = _check_dictionary(tensors["components"], model._scaler.width)
    numbers = _check_atom_classes(tensors["atom_classes"], model.components_.shape[0], model.classes_.size)
    if np.any(np.diff(numbers) < 0) or np.unique(numbers).size < model.classes_.size:
        raise ValueError("the classes of its atoms are not in order")
    model.atom_classes_ = numbers
    model.n_features_in_ = model._scaler.shift.size
    model.n_iter_ = 1 if model.dictionary == "samples" else model.max_iter


def _coupled(model: Any, tensors: dict[str, Array], metadata: dict[str, Any]) -> None:
    n_views, n_classes = metadata["n_views"], model.classes_.size
    if metadata["dtype"] not in ("float32", "float64") or (metadata["single"] and n_views != 1):
        raise ValueError("it contradicts itself about its views")
    model._single, model._dtype = bool(metadata["single"]), np.dtype(metadata["dtype"])
    model._scalers = [_read_scaling(tensors, v) for v in range(n_views)]
    widths = [scaler.shift.size for scaler in model._scalers]
    model.n_features_in_ = widths[0] if model._single else widths
    weights = tensors["view_weights"]
    if weights.ndim != 1 or weights.size < n_views or np.any(weights < 0) or not weights[:n_views].all():
        raise ValueError("its view weights do not fit its views")
    model.learners_ = []
    for number in range(metadata["n_dictionaries"]):
        components = [_check_dictionary(tensors[f"components.{number}.{v}"]) for v in range(weights.size)]
        for v, scaler in enumerate(model._scalers):
            _check_dictionary(components[v], scaler.width)
        if len({array.shape[0] for array in components}) != 1:
            raise ValueError("its dictionaries do not fit each other")
        model.learners_.append(_learner(model, components, weights, metadata["history"][number]))
    n_atoms = model.learners_[0].components_[0].shape[0]
    if "atom_classes" in tensors:
        model.atom_classes_ = _check_atom_classes(tensors["atom_classes"], n_atoms, n_classes)
    model._routes = {}
    for name, told in metadata["routes"].items():
        sources = tuple(int(v) for v in name.split("-"))
        if not set(sources) <= set(range(n_views)):
            raise ValueError(f"it has a head for views {name}, which it does not have")
        n_inputs = n_atoms + (sum(widths[v] for v in sources) if model.head == "codes+features" else 0)
        heads = []
        for number, alpha in enumerate(told["alphas"]):
            coef, intercept = (tensors[f"head.{name}.{number}.{part}"] for part in ("coef", "intercept"))
            if coef.shape != (n_inputs, n_classes) or intercept.shape != (n_classes,):
                raise ValueError(f"its head for views {name} does not fit its dictionaries")
            heads.append(Head(coef, intercept, float(alpha)))
        if len(heads) != len(model.learners_):
            raise ValueError("it has not as many heads as dictionaries")
        sharpness = float(told["sharpness"])
        if not 0 < sharpness <= MOST_SHARPNESS:
            raise ValueError(f"its head for views {name} has a sharpness of {sharpness}")
        model._routes[sources] = Route(heads, sharpness)
    model.n_iter_ = max(learner.n_iter_ for learner in model.learners_)


def _learner(model: Any, components: list[Array], weights: Array, history: Any) -> CoupledDictionaryLearning:
    learner = CoupledDictionaryLearning(
        components[0].shape[0],
        n_nonzero_coefs=model.n_nonzero_coefs,
        max_iter=model.max_iter,
        pursuit=model.pursuit,
        normalize="joint",
        view_weights=weights.tolist(),
        refit=False,
    )
    learner._keep(components, weights, check_history(history))
    learner.n_features_in_ = [array.shape[1] for array in components]
    learner._refitted = {}
    return learner
