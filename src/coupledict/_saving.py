"""Learners to files and back: what of a learner is data, and how it is told."""

from __future__ import annotations

import importlib
import inspect
import os
from typing import Any

import numpy as np

from .model_io import ModelFileError, read_model, write_model

#: Tasks with models of their own, and the module of each that rebuilds them; imported only for a file that names one.
TASKS = {"SuperResolution": ".images._sr_saving"}


def _plain(value: object) -> Any:
    """Return a parameter as JSON can hold it, or None for what it cannot: callables, generators, arrays."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer | np.floating | np.bool_):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray) and all(np.ndim(entry) == 0 for entry in value):
        return [_plain(entry) for entry in value]
    return None


def _learners() -> dict[str, Any]:
    from ._learner import CoupledDictionaryLearning
    from ._online import OnlineDictionaryLearning
    from ._single import DictionaryLearning

    return {cls.__name__: cls for cls in (CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning)}


def save_learner(learner: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted learner; see :func:`load`."""
    from . import __version__

    components = learner._view_components
    tensors = {f"components.{v}": array for v, array in enumerate(components)}
    tensors["view_weights"] = np.asarray(learner.view_weights_, np.float64)
    refitted = getattr(learner, "_refitted", {})
    for sources, targets in refitted.items():
        for view, array in targets.items():
            tensors[f"refit.{'-'.join(map(str, sources))}.{view}"] = array
    parameters = {
        name: _plain(value) for name, value in learner.get_params(deep=False).items() if name not in ("callback",)
    }
    lost = [name for name, value in learner.get_params(deep=False).items() if value is not None and name != "callback"
            and parameters[name] is None]  # fmt: skip
    metadata = {
        "estimator": type(learner).__name__,
        "version": __version__,
        "parameters": {name: value for name, value in parameters.items() if name not in lost},
        "history": learner.history_,
        "n_views": len(components),
    }
    if hasattr(learner, "feature_names_in_"):
        metadata["feature_names_in"] = [str(name) for name in learner.feature_names_in_]
    write_model(path, tensors, metadata)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a learner that `save` wrote.

    The file is a safetensors file: data, never code, so it is safe to open one from a stranger. Dictionaries come back
    to the last bit. Parameters that are not data (a callable schedule or growth, a callback, a random generator,
    starting arrays) come back as their defaults; they matter to another `fit` only.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    CoupledDictionaryLearning, DictionaryLearning or OnlineDictionaryLearning

    Raises
    ------
    ModelFileError
        For a file that is damaged, not a model, or written by a newer format.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib, coupledict
    >>> X = np.random.default_rng(0).standard_normal((100, 4))
    >>> learner = coupledict.DictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.safetensors"
    ...     learner.save(path)
    ...     same = coupledict.load(path)
    >>> np.array_equal(same.components_, learner.components_)
    True
    """
    tensors, metadata = read_model(path)
    try:
        return _rebuild(tensors, metadata)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"Expected {os.fspath(path)!r} to hold a complete model, but {error}.") from error


def _rebuild(tensors: dict[str, Any], metadata: dict[str, Any]) -> Any:
    learners = _learners()
    name = metadata["estimator"]
    if name in TASKS:
        return importlib.import_module(TASKS[name], __package__).rebuild(tensors, metadata)
    if name not in learners:
        raise ValueError(f"it names an unknown estimator {name!r}")
    known = inspect.signature(learners[name].__init__).parameters
    parameters = metadata["parameters"]
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(f"it has unknown parameters {unknown}")
    learner = learners[name](**parameters)
    learner._check_parameters()
    n_views = metadata["n_views"]
    if not isinstance(n_views, int) or n_views < 1:
        raise ValueError(f"it claims {n_views!r} views")
    components = [tensors[f"components.{v}"] for v in range(n_views)]
    weights = tensors["view_weights"]
    if weights.shape != (n_views,) or weights.dtype != np.float64 or np.any(weights < 0) or not weights.any():
        raise ValueError("its view weights do not fit its views")
    if any(array.ndim != 2 or array.shape[0] != components[0].shape[0] for array in components):
        raise ValueError("its dictionaries do not fit each other")
    if any(array.dtype != components[0].dtype or array.dtype.kind != "f" for array in components):
        raise ValueError("its dictionaries have mixed number types")
    if any(array.size == 0 for array in components):
        raise ValueError("its dictionaries do not have at least one atom and one feature")
    history = metadata["history"]
    if not isinstance(history, list) or not all(isinstance(record, dict) for record in history):
        raise ValueError("its history is not a list of records")
    learner._keep(components, weights, history)
    widths = [array.shape[1] for array in components]
    if name == "DictionaryLearning":
        if n_views != 1:
            raise ValueError(f"a DictionaryLearning has one view, not {n_views}")
        learner.n_features_in_ = widths[0]
        if "feature_names_in" in metadata:
            names = metadata["feature_names_in"]
            if not isinstance(names, list) or len(names) != widths[0] or not all(isinstance(n, str) for n in names):
                raise ValueError("its feature names do not fit its features")
            learner.feature_names_in_ = np.array(names, dtype=object)
        return learner
    learner.n_features_in_ = widths
    learner._refitted = {}
    for key, array in tensors.items():
        if key.startswith("refit."):
            _, sources, target = key.split(".")
            numbers, view = tuple(int(v) for v in sources.split("-")), int(target)
            fits = all(0 <= v < n_views for v in (*numbers, view)) and view not in numbers
            if not fits or array.shape != components[view].shape or array.dtype != components[view].dtype:
                raise ValueError(f"its tensor {key!r} does not fit its dictionaries")
            learner._refitted.setdefault(numbers, {})[view] = array
    return learner
