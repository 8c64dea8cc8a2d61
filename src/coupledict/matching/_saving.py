"""Matchers to files and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .._saving import check_range, describe_names, restore_names
from .._task_files import begin_task, describe_classes, describe_task, load_task, read_classes
from .._views import Array
from ..model_io import write_model
from ._mapped import LABELS, Member, Target
from ._whitening import Whitening

MOST, MOST_SCALING = 1e50, 1e154  # whitening undoes the units of features, everything else is of the order of 1

if TYPE_CHECKING:
    from ._matcher import CrossModalMatcher


def save(model: CrossModalMatcher, path: str | os.PathLike[str]) -> None:
    """Write a fitted matcher."""
    metadata = (
        describe_task(model)
        | describe_names(model)
        | {
            "n_views": len(model.n_features_in_),
            "n_members": len(model._members),
            "turned": [whitening.axes is not None for whitening in model._whitenings],
        }
    )
    tensors: dict[str, Array] = {"weights": model._members[0].weights}
    if model._prior is not None:
        tensors["prior"] = model._prior
        metadata |= describe_classes(model.classes_)
    for v, whitening in enumerate(model._whitenings):
        tensors |= {f"mean.{v}": whitening.mean, f"gains.{v}": whitening.gains}
        if whitening.axes is not None:
            tensors[f"axes.{v}"] = whitening.axes
    for i, member in enumerate(model._members):
        tensors |= {f"components.{i}.{v}": atoms for v, atoms in enumerate(member.components)}
        for sources, targets in member.maps.items():
            name = f"map.{i}.{'-'.join(map(str, sources))}"
            tensors |= {f"{name}.{target}": table for target, table in targets.items()}
    write_model(path, tensors, metadata)


def load(path: str | os.PathLike[str]) -> CrossModalMatcher:
    """Read a matcher."""
    return load_task(path, rebuild)


def rebuild(tensors: dict[str, Array], metadata: dict[str, Any]) -> CrossModalMatcher:
    """Make a matcher of what its file holds; a file that contradicts itself raises one of the errors `load` expects."""
    from ._matcher import CrossModalMatcher

    model = begin_task(CrossModalMatcher, metadata)
    n_views, n_members = metadata["n_views"], metadata["n_members"]
    if not isinstance(n_views, int) or not isinstance(n_members, int) or n_views < 2 or n_members < 1:
        raise ValueError(f"it claims {n_views!r} views and {n_members!r} dictionaries")
    check_range({name: array for name, array in tensors.items() if not name.startswith(("mean.", "gains."))}, MOST)
    check_range(tensors, MOST_SCALING)
    weights = tensors["weights"]
    if weights.shape != (n_views,) or np.any(weights <= 0):
        raise ValueError("its view weights do not fit its views")
    whitenings = [_whitening(tensors, v, turned=metadata["turned"][v]) for v in range(n_views)]
    classes, prior = _labels(tensors, metadata)
    members = []
    for i in range(n_members):
        components = [tensors[f"components.{i}.{v}"] for v in range(n_views)]
        _check_components(components, whitenings, tied=model.coupling == "code")
        member = Member(components, weights, model.coupling == "code", model.n_nonzero_coefs)
        member.maps = _maps(tensors, i, member, None if prior is None else prior.size)
        members.append(member)
    model._whitenings, model._members = whitenings, members
    model._keep([whitening.n_features for whitening in whitenings], classes, prior)
    restore_names(model, metadata)
    return model


def _whitening(tensors: dict[str, Array], v: int, *, turned: bool) -> Whitening:
    mean, gains, axes = tensors[f"mean.{v}"], tensors[f"gains.{v}"], tensors[f"axes.{v}"] if turned else None
    shapes = (gains.size, mean.size) if axes is not None else None
    fits = mean.ndim == gains.ndim == 1 and mean.size > 0 and np.all(gains > 0)
    if not fits or (axes is None and gains.size != mean.size) or (axes is not None and axes.shape != shapes):
        raise ValueError(f"its whitening of view {v} contradicts itself")
    return Whitening(mean, gains, axes)


def _labels(tensors: dict[str, Array], metadata: dict[str, Any]) -> tuple[Array | None, Array | None]:
    if "classes" not in metadata:
        return None, None
    classes, prior = read_classes(metadata), tensors["prior"]
    if classes.shape != prior.shape:
        raise ValueError("its classes do not fit their shares")
    return classes, prior


def _check_components(components: list[Array], whitenings: list[Whitening], *, tied: bool) -> None:
    for atoms, whitening in zip(components, whitenings, strict=True):
        if atoms.ndim != 2 or atoms.shape[1] != whitening.gains.size or atoms.shape[0] == 0:
            raise ValueError("its dictionaries do not fit its views")
        if atoms.dtype != components[0].dtype or atoms.dtype.kind != "f":
            raise ValueError("its dictionaries have mixed number types")
    if tied and len({len(atoms) for atoms in components}) > 1:
        raise ValueError("its dictionaries do not fit each other")


def _maps(
    tensors: dict[str, Array], i: int, member: Member, n_classes: int | None
) -> dict[tuple[int, ...], dict[Target, Array]]:
    """Return the maps of a member: one from each view at least, to each other view and to labels if there are any."""
    n_views = len(member.components)
    maps: dict[tuple[int, ...], dict[Target, Array]] = {}
    for key, table in tensors.items():
        if not key.startswith(f"map.{i}."):
            continue
        _, _, numbers, name = key.split(".")
        sources = tuple(int(v) for v in numbers.split("-"))
        target: Target = LABELS if name == LABELS else int(name)
        known = all(0 <= v < n_views for v in sources) and (target == LABELS or 0 <= int(target) < n_views)
        if not known or table.shape != _map_shape(member, sources, target, n_classes):
            raise ValueError(f"its tensor {key!r} does not fit its dictionaries")
        maps.setdefault(sources, {})[target] = table
    for sources in [(v,) for v in range(n_views)] + list(maps):
        wanted = {v for v in range(n_views) if v not in sources} | (set() if n_classes is None else {LABELS})
        if set(maps.get(sources, {})) != wanted:
            raise ValueError(f"its maps from views {list(sources)} are not complete")
    return maps


def _map_shape(member: Member, sources: tuple[int, ...], target: Target, n_classes: int | None) -> tuple[Any, Any]:
    n_codes = len(member.components[0]) if member.coupled else sum(len(member.components[v]) for v in sources)
    if target == LABELS:
        return n_codes, n_classes
    return n_codes, member.components[int(target)].shape[1 if member.coupled else 0]
