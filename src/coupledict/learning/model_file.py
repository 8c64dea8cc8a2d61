"""The file format of fitted dictionaries: arrays and JSON values, checked when they are read."""

from __future__ import annotations

import numpy as np

from ..coding.results import Sums
from ..files.models import JSON
from ..files.state import (
    ModelState,
    check_file_count,
    check_file_weights,
    check_history,
    check_range,
    is_number,
    shorten,
)
from ..foundation.arrays import Array, Floats
from ..foundation.standardization import Standardization
from .fitted import FittedDictionaries
from .imputation import Imputer
from .prediction import ViewPredictors
from .predictors import ANY_OTHERS, Predictors
from .settings import LearningSettings
from .updates import RunningSums
from .view_predictor import ViewPredictor

ANY_NAME = "any"  # how ANY_OTHERS is written in files
OTHER_NORM = 0.01  # a larger difference of a norm from 1 is not a rounding error
LEAST_ROOM = (
    1e-6  # of the largest number of a dtype; larger atoms in a file are refused, because products would overflow
)


def to_tensors(fitted: FittedDictionaries) -> tuple[dict[str, Array], dict[str, JSON]]:
    """Return the state as arrays and JSON values."""
    tensors = {f"components.{v}": array for v, array in enumerate(fitted.components)}
    tensors["view_weights"] = np.asarray(fitted.weights, np.float64)
    for sources, targets in fitted.predictors.items():
        for view, array in targets.items():
            tensors[f"refit.{'-'.join(map(str, sources)) or ANY_NAME}.{view}"] = array
    if fitted.imputer is not None:
        tensors |= {f"imputer.{name}": array for name, array in fitted.imputer.to_tensors().items()}
    if fitted.standard is not None:
        for v, (offset, factor) in enumerate(zip(fitted.standard.offsets, fitted.standard.factors, strict=True)):
            tensors[f"standard.offsets.{v}"] = np.asarray(offset, np.float64)
            tensors[f"standard.factors.{v}"] = np.asarray(factor, np.float64)
    described: list[JSON] = []
    for number, predictor in enumerate(fitted.view_predictors.values()):
        own, settings = predictor.to_tensors()
        tensors |= {f"predictor.{number}.{name}": array for name, array in own.items()}
        described.append(settings)
    facts: dict[str, JSON] = {"history": list[JSON](fitted.history), "n_views": len(fitted.components)}
    if described:
        facts["predictors"] = described
    if (running := fitted.running) is not None:
        facts["stream"] = {"n_batches": running.n_batches, "n_iter": fitted.n_iter, "scale": running.scale}
        for g, group in enumerate(running.groups):
            tensors[f"stream.atoms.{g}"] = group.atoms / group.unit
        for g, (group, sums) in enumerate(zip(running.groups, running.sums, strict=False)):
            tensors[f"stream.a.{g}"] = sums.a * group.unit * group.unit
            tensors[f"stream.b.{g}"] = sums.b * group.unit
    return tensors, facts


def from_tensors(state: ModelState, settings: LearningSettings) -> FittedDictionaries:
    """Return the checked contents of a file; raise one of ``CONTRADICTIONS`` if they are inconsistent."""
    tensors, facts = state.tensors, state.facts
    n_views = facts["n_views"]
    if not isinstance(n_views, int) or n_views < 1:
        raise ValueError(f"it claims {shorten(n_views)} views")
    components = _check_components([tensors[f"components.{v}"] for v in range(n_views)])
    for start in ("components.", "refit.", "imputer.", "standard.", "predictor."):
        check_range(tensors, LEAST_ROOM * float(np.finfo(components[0].dtype).max), start)
    weights = check_file_weights(tensors["view_weights"], n_views)
    history = check_history(facts["history"])
    predictors = _read_predictors(tensors, components)
    imputer = _read_imputer(tensors, components)
    standard = _read_standard(tensors, components)
    view_predictors = _read_view_predictors(state, components)
    if "stream" not in facts:
        return FittedDictionaries(
            components,
            weights,
            history,
            len(history),
            predictors,
            imputer=imputer,
            standard=standard,
            view_predictors=view_predictors,
        )
    n_iter = check_file_count(facts["stream"]["n_iter"], "number of iterations")
    running = _read_running_sums(state, components, weights, settings)
    if running.n_batches > n_iter:
        raise ValueError(f"it claims {running.n_batches} batches in {n_iter} iterations")
    return FittedDictionaries(
        components, weights, history, n_iter, predictors, running, imputer, standard, view_predictors
    )


def _check_components(components: list[Array]) -> list[Array]:
    """Return the dictionaries of a file; raise unless they fit each other."""
    if any(array.ndim != 2 or array.shape[0] != components[0].shape[0] for array in components):
        raise ValueError("its dictionaries do not fit each other")
    if any(array.dtype != components[0].dtype or array.dtype.kind != "f" for array in components):
        raise ValueError("its dictionaries have mixed number types")
    if any(array.size == 0 for array in components):
        raise ValueError("its dictionaries do not have at least one atom and one feature")
    return components


def _read_predictors(tensors: dict[str, Array], components: list[Array]) -> Predictors:
    predictors: Predictors = {}
    for key, array in tensors.items():
        if not key.startswith("refit."):
            continue
        _, sources, target = key.split(".")
        numbers = ANY_OTHERS if sources == ANY_NAME else tuple(int(v) for v in sources.split("-"))
        view = int(target)
        fits = all(0 <= v < len(components) for v in (*numbers, view)) and view not in numbers
        if not fits or array.shape != components[view].shape or array.dtype != components[view].dtype:
            raise ValueError(f"its tensor {key!r} does not fit its dictionaries")
        predictors.setdefault(numbers, {})[view] = array
    return predictors


def _read_imputer(tensors: dict[str, Array], components: list[Array]) -> Imputer | None:
    own = {key.removeprefix("imputer."): array for key, array in tensors.items() if key.startswith("imputer.")}
    if not own:
        return None
    imputer = Imputer.from_tensors(own)
    imputer.check([int(atoms.shape[1]) for atoms in components])
    return imputer


def _read_standard(tensors: dict[str, Array], components: list[Array]) -> Standardization | None:
    if not any(key.startswith("standard.") for key in tensors):
        return None
    parts = [[tensors[f"standard.{name}.{v}"] for v in range(len(components))] for name in ("offsets", "factors")]
    for arrays in parts:
        for array, atoms in zip(arrays, components, strict=True):
            if array.shape != atoms.shape[1:] or array.dtype != np.float64:
                raise ValueError("its offsets and factors do not fit its dictionaries")
    if any(np.any(np.frexp(factors)[0] != 0.5) for factors in parts[1]):
        raise ValueError("its factors are not powers of two")
    standard = Standardization(*parts)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if not all(np.isfinite(atoms).all() for atoms in standard.restored_atoms(components)):
            raise ValueError("its factors are too small for its dictionaries")
    return standard


def _read_view_predictors(state: ModelState, components: list[Array]) -> ViewPredictors:
    found: ViewPredictors = {}
    n_tensors = 0
    for number, settings in enumerate(state.facts.get("predictors", [])):
        start = f"predictor.{number}."
        own = {key[len(start) :]: array for key, array in state.tensors.items() if key.startswith(start)}
        n_tensors += len(own)
        predictor = ViewPredictor.from_tensors(own, settings)
        predictor.check([int(atoms.shape[1]) for atoms in components], components[0].shape[0], components[0].dtype)
        found[predictor.sources, predictor.target] = predictor
    if n_tensors != sum(key.startswith("predictor.") for key in state.tensors):
        raise ValueError("it has arrays of predictors that it does not describe")
    return found


def _read_running_sums(
    state: ModelState, components: list[Array], weights: Floats, settings: LearningSettings
) -> RunningSums:
    facts, tensors = state.facts["stream"], state.tensors
    scale = facts["scale"]
    if not is_number(scale) or not scale > 0:
        raise ValueError(f"it claims that its batches were multiplied by {shorten(scale)}")
    groups = settings.group([np.asarray(array, np.float64) for array in components], weights)
    sums = []
    for g, group in enumerate(groups):
        atoms, a, b = (tensors[f"stream.{part}.{g}"] for part in ("atoms", "a", "b"))
        n_atoms = group.atoms.shape[0]
        if atoms.shape != group.atoms.shape or a.shape != (n_atoms, n_atoms) or b.shape != group.atoms.shape:
            raise ValueError("the sums of its batches do not fit its dictionaries")
        if any(array.dtype != np.float64 for array in (atoms, a, b)) or np.any(a.diagonal() < 0):
            raise ValueError("the sums of its batches are not sums of squares")
        unit = group.unit
        with np.errstate(over="ignore"):
            size = group.largest_norm(atoms * unit)
        if not np.isfinite(size):
            raise ValueError("the atoms of its batches are too large")
        if size > 0 and abs(size - 1) > OTHER_NORM:
            unit /= size  # view_weights was changed after the batches
        group.atoms[:] = atoms * unit  # normalising again could change the last bit
        sums.append(Sums(a / unit / unit, b / unit))
    return RunningSums(groups, float(scale), check_file_count(facts["n_batches"], "number of batches", 1), sums)
