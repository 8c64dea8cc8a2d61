"""Learners to files and back: what of a learner is data, and how it is told."""

from __future__ import annotations

import importlib
import inspect
import os
from typing import Any

import numpy as np

from ._views import Array
from .model_io import ModelFileError, read_model, write_model

#: Tasks with models of their own, and the module of each that rebuilds them; imported only for a file that names one.
TASKS = {
    "SuperResolution": ".images._sr_saving",
    "BandwidthExtension": ".audio._saving",
    "CoupledClassifier": ".classification._saving",
    "SparseRepresentationClassifier": ".classification._saving",
    "CrossModalMatcher": ".matching._saving",
}


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


def save_learner(learner: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted learner; see :func:`load`."""
    tensors, metadata = describe(
        learner, learner._view_components, learner.view_weights_, learner.history_, getattr(learner, "_refitted", {})
    )
    if hasattr(learner, "feature_names_in_"):
        metadata["feature_names_in"] = [str(name) for name in learner.feature_names_in_]
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

    groups = learner._group(
        [np.asarray(array, np.float64) for array in learner._view_components], learner.view_weights_
    )
    stream = Stream(groups, float(metadata["stream"]["scale"]))
    stream.n_batches, n_iter = int(metadata["stream"]["n_batches"]), int(metadata["stream"]["n_iter"])
    if not 0 < stream.n_batches <= n_iter:
        raise ValueError(f"it claims {stream.n_batches} batches in {n_iter} iterations")
    if not (np.isfinite(stream.scale) and stream.scale > 0):
        raise ValueError(f"it claims that its batches were multiplied by {stream.scale}")
    for g, group in enumerate(groups):
        atoms, a, b = (tensors[f"stream.{part}.{g}"] for part in ("atoms", "a", "b"))
        n_atoms = group.atoms.shape[0]
        if atoms.shape != group.atoms.shape or a.shape != (n_atoms, n_atoms) or b.shape != group.atoms.shape:
            raise ValueError("the sums of its batches do not fit its dictionaries")
        group.atoms[:] = atoms
        stream.sums.append(Sums(np.asarray(a, np.float64), np.asarray(b, np.float64)))
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
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
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
    if "stream" in metadata:
        _rebuild_stream(learner, tensors, metadata)
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
