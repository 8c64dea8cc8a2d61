"""Learners to files and back: what of a learner is data, and how it is told."""

from __future__ import annotations

import importlib
import inspect
import os
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._loop import LARGEST
from ._passes import count_jobs
from ._views import Array
from .model_io import JSON, MOST, contradiction, read_model, write_model

#: Tasks with models of their own, and the module of each that rebuilds them; imported only for a file that names one.
TASKS = {
    "SuperResolution": ".images._sr_saving",
    "BandwidthExtension": ".audio._saving",
    "CoupledClassifier": ".classification._saving",
    "SparseRepresentationClassifier": ".classification._saving",
    "CrossModalMatcher": ".matching._saving",
}

#: What rebuilding a model from a file that contradicts itself may raise.
CONTRADICTIONS = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)

MOST_THREADS = 4096
LONGEST_NAME = 200  # of a choice
MOST_WEIGHT = 1e304  # of a view
LEAST_ROOM = 1e-6  # of the range of a number type, for what atoms are multiplied by


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


def describe_parameters(learner: Any) -> dict[str, Any]:
    """Return the parameters of a learner that are data."""
    given = learner.get_params(deep=False)
    plain = {name: _plain(value) for name, value in given.items() if name != "callback"}
    return {name: value for name, value in plain.items() if value is not None or given[name] is None}


def make_estimator(cls: Any, parameters: Any) -> Any:
    """Return an estimator with the parameters that a file tells, checked by what they are for and by their size."""
    if not isinstance(parameters, dict):
        raise ValueError("its parameters are not a JSON object")
    known = inspect.signature(cls).parameters
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(f"it has unknown parameters {unknown}")
    for name, value in parameters.items():
        most = MOST_THREADS if name == "n_jobs" else MOST
        entries = value if isinstance(value, list) else [value]
        numbers = [entry for entry in entries if isinstance(entry, int | float)]
        plain = len(numbers) == len(entries) or value is None or (isinstance(value, str) and len(value) <= LONGEST_NAME)
        flag = isinstance(known[name].default, bool)
        if name == "random_state":
            plain = value is None or (isinstance(value, int) and value >= 0)
        elif any(abs(entry) > most for entry in numbers if isinstance(entry, int)) or (flag and value not in (0, 1)):
            plain = False
        if not plain:
            raise ValueError(f"its parameter {name} is {_shown(value)}")
    estimator = cls(**parameters)
    estimator._check_parameters()
    count_jobs(parameters.get("n_jobs"))
    return estimator


def check_history(history: Any) -> list[dict[str, Any]]:
    """Return a history that a file tells, which is one of numbers."""
    if not isinstance(history, list) or not all(isinstance(record, dict) for record in history):
        raise ValueError("its history is not a list of records")
    for record in history:
        for name, value in ({"seconds": None} | record).items():
            entries = value if isinstance(value, list) and name == "view_errors" else [value]
            if not all(_is_number(entry) for entry in entries):
                raise ValueError(f"its history holds {_shown(value)}, which is no number")
    return history


def check_file_weights(weights: Array, n_views: int) -> Array:
    """Return the weights of views, of which one at least is positive and none so large that sums overflow."""
    fits = weights.shape == (n_views,) and weights.dtype == np.float64
    if not fits or np.any(weights < 0) or np.any(weights > MOST_WEIGHT) or not weights.any():
        raise ValueError("its view weights do not fit its views")
    return weights


def check_range(tensors: Mapping[str, Array], most: float, start: str = "") -> None:
    """Raise where tensors of these names hold numbers so large that using them would leave the range of numbers."""
    for name, array in tensors.items():
        chosen = name.startswith(start) and array.dtype.kind == "f"
        if chosen and max(float(array.max(initial=0)), -float(array.min(initial=0))) > most:
            raise ValueError(f"its tensor {name!r} holds numbers beyond {most:g}")


def check_count_of(value: Any, what: str, least: int = 0) -> int:
    """Return a count that a file tells."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
        raise ValueError(f"its {what} is {_shown(value)}")
    return value


def describe_names(estimator: Any) -> dict[str, JSON]:
    """Return the names of the features that an estimator has learned from, where there are any."""
    names: dict[str, JSON] = {}
    if hasattr(estimator, "feature_names_in_"):
        names["feature_names_in"] = [str(name) for name in estimator.feature_names_in_]
    if hasattr(estimator, "view_feature_names_in_"):
        names["view_feature_names_in"] = [
            None if own is None else [str(name) for name in own] for own in estimator.view_feature_names_in_
        ]
    return names


def restore_names(estimator: Any, metadata: dict[str, Any]) -> None:
    """Give an estimator, which knows its features by number, the names that :func:`describe_names` described."""
    widths = estimator.n_features_in_
    if "feature_names_in" in metadata:
        estimator.feature_names_in_ = _check_names(metadata["feature_names_in"], widths)
    if "view_feature_names_in" in metadata:
        names = metadata["view_feature_names_in"]
        if not isinstance(widths, list) or not isinstance(names, list) or len(names) != len(widths):
            raise ValueError("its feature names do not fit its views")
        estimator.view_feature_names_in_ = [
            None if own is None else _check_names(own, width) for own, width in zip(names, widths, strict=True)
        ]


def _check_names(names: object, n_features: object) -> Array:
    if not isinstance(names, list) or len(names) != n_features or not all(isinstance(name, str) for name in names):
        raise ValueError("its feature names do not fit its features")
    return np.array(names, dtype=object)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _shown(value: object) -> str:
    """Return a value for an error: a few characters of it."""
    return reprlib.repr(value)


def describe(
    learner: Any,
    components: list[Array],
    weights: Array,
    history: list[dict[str, Any]],
    refitted: dict[tuple[int, ...], dict[int, Array]],
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the tensors and the metadata of a model."""
    from . import __version__

    tensors = {f"components.{v}": array for v, array in enumerate(components)}
    tensors["view_weights"] = np.asarray(weights, np.float64)
    for sources, targets in refitted.items():
        for view, array in targets.items():
            tensors[f"refit.{'-'.join(map(str, sources))}.{view}"] = array
    metadata = {
        "estimator": type(learner).__name__,
        "version": __version__,
        "parameters": describe_parameters(learner),
        "history": history,
        "n_views": len(components),
    }
    return tensors, metadata


def save_learner(learner: Any, path: str | os.PathLike[str], **more: JSON) -> None:
    """Write a fitted learner; see :func:`load`. More can be said of it in its metadata."""
    tensors, metadata = describe(
        learner, learner._view_components, learner.view_weights_, learner.history_, getattr(learner, "_refitted", {})
    )
    metadata |= describe_names(learner) | more
    stream = getattr(learner, "_stream", None)
    if stream is not None:
        metadata["stream"] = {"n_batches": stream.n_batches, "n_iter": learner.n_iter_, "scale": stream.scale}
        for g, group in enumerate(stream.groups):
            tensors[f"stream.atoms.{g}"] = group.atoms
        for g, sums in enumerate(stream.sums):
            tensors[f"stream.a.{g}"], tensors[f"stream.b.{g}"] = sums.a, sums.b
    write_model(path, tensors, metadata)


def _rebuild_stream(learner: Any, tensors: dict[str, Array], metadata: dict[str, Any]) -> None:
    """Give a learner back the running sums of its batches."""
    from ._loop import Stream
    from ._passes import Sums

    told = metadata["stream"]
    groups = learner._group(
        [np.asarray(array, np.float64) for array in learner._view_components], learner.view_weights_
    )
    scale, n_iter = told["scale"], check_count_of(told["n_iter"], "number of iterations")
    if not _is_number(scale) or not scale > 0:
        raise ValueError(f"it claims that its batches were multiplied by {_shown(scale)}")
    stream = Stream(groups, float(scale))
    stream.n_batches = check_count_of(told["n_batches"], "number of batches", 1)
    if stream.n_batches > n_iter:
        raise ValueError(f"it claims {stream.n_batches} batches in {n_iter} iterations")
    for g, group in enumerate(groups):
        atoms, a, b = (tensors[f"stream.{part}.{g}"] for part in ("atoms", "a", "b"))
        n_atoms = group.atoms.shape[0]
        if atoms.shape != group.atoms.shape or a.shape != (n_atoms, n_atoms) or b.shape != group.atoms.shape:
            raise ValueError("the sums of its batches do not fit its dictionaries")
        if any(array.dtype != np.float64 for array in (atoms, a, b)) or np.any(a.diagonal() < 0):
            raise ValueError("the sums of its batches are no sums")
        group.atoms[:] = atoms
        stream.sums.append(Sums(a, b))
    learner._stream = stream
    learner.n_iter_ = n_iter


def load(path: str | os.PathLike[str]) -> Any:
    """Read a learner that `save` wrote.

    The file is a safetensors file: data, never code, so it is safe to open one from a stranger. Dictionaries come back
    to the last bit, and so do the running sums of `partial_fit`, which goes on as if nothing had happened. Parameters
    that are not data (a callable schedule or growth, a callback, a random generator, starting arrays) come back as
    their defaults; they matter to another `fit` only. A checkpoint of a fit opens as the model of its last iteration.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, or the estimator of a task

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
    except CONTRADICTIONS as error:
        raise contradiction(path, "a complete model", error) from error


def _rebuild(tensors: dict[str, Any], metadata: dict[str, Any]) -> Any:
    learners = _learners()
    name = metadata["estimator"]
    if name in TASKS:
        return importlib.import_module(TASKS[name], __package__).rebuild(tensors, metadata)
    if name not in learners:
        raise ValueError(f"it names an unknown estimator {_shown(name)}")
    learner = make_estimator(learners[name], metadata["parameters"])
    n_views = metadata["n_views"]
    if not isinstance(n_views, int) or n_views < 1:
        raise ValueError(f"it claims {_shown(n_views)} views")
    components = [tensors[f"components.{v}"] for v in range(n_views)]
    weights = check_file_weights(tensors["view_weights"], n_views)
    if any(array.ndim != 2 or array.shape[0] != components[0].shape[0] for array in components):
        raise ValueError("its dictionaries do not fit each other")
    if any(array.dtype != components[0].dtype or array.dtype.kind != "f" for array in components):
        raise ValueError("its dictionaries have mixed number types")
    if any(array.size == 0 for array in components):
        raise ValueError("its dictionaries do not have at least one atom and one feature")
    for start in ("components.", "refit."):
        check_range(tensors, LEAST_ROOM * float(np.finfo(components[0].dtype).max), start)
    learner._keep(components, weights, check_history(metadata["history"]))
    if "stream" in metadata:
        _rebuild_stream(learner, tensors, metadata)
    widths = [array.shape[1] for array in components]
    if name == "DictionaryLearning":
        if n_views != 1:
            raise ValueError(f"a DictionaryLearning has one view, not {n_views}")
        learner.n_features_in_ = widths[0]
        restore_names(learner, metadata)
        return learner
    learner.n_features_in_ = widths
    restore_names(learner, metadata)
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
