"""Opens the samples that users give as :class:`Data`: arrays in memory, files, streams of chunks, Dask arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scipy.sparse import issparse

from ..coding.encode import match_views
from ..data.blocks import ArrayBlocks, Blocked, find_blocks, kind_of_blocks
from ..data.interface import Data
from ..data.memory import InMemory
from ..foundation.arrays import Array
from ..foundation.missing import Missing, may_miss
from ..foundation.views import check_views, view_labels
from .tables import feature_names


def is_dask(value: object) -> bool:
    """Return whether some of the views, or the only one, are given as Dask arrays."""
    entries = value if isinstance(value, list | tuple) else [value]
    return any(type(entry).__module__.startswith("dask.") for entry in entries)


def is_in_memory(given: Any) -> bool:
    """Return whether several views, in a list, are arrays in memory, without reading any."""
    return not is_dask(given) and kind_of_blocks(given, single=False) is None


def open_stored(given: Any, *, single: bool, names: Sequence[str] | None = ()) -> Data | None:
    """Return samples that are not in memory as :class:`Data`; None for arrays in memory."""
    if is_dask(given):
        from ..distributed import DaskData  # Dask is optional

        entries = given if isinstance(given, list | tuple) else [given]
        return DaskData(entries, ["X"] if single else [f"X[{v}]" for v in range(len(entries))])
    blocks = find_blocks(given, single=single, name="X", view_names=names)
    return None if blocks is None else Blocked(blocks)


def open_all_views(given: Any, names: Sequence[str] | None, missing: Missing = "error") -> Data:
    """Return the samples of a fit; all views must be present. They are a list, `names` are their names, if any."""
    data = open_stored(given, single=False)
    if data is None:
        data = InMemory(_check_all_views(given, names))
        data.missing = may_miss(given, data.views, data.names or ["X[0]"], missing)
        data.feature_names = feature_names(given)
    else:
        data.allow_missing(all_nan=missing == "nan")
    if len(data.present) < data.n_views:
        absent = min(set(range(data.n_views)) - set(data.present))
        raise ValueError(f"Expected every view to be present in fit, got None for view {absent}.")
    if names is not None:
        data.view_names = tuple(names)
    return data


def open_views(
    given: Any, dictionaries: Sequence[Array], names: Sequence[str] | None, missing: Missing = "error"
) -> Data:
    """Return samples to code over dictionaries; some views may be absent. They are a list, `names` are their names."""
    stored = open_stored(given, single=False, names=names)
    if stored is not None:
        stored.allow_missing(all_nan=missing == "nan")
        return stored
    data = open_given(given, dictionaries, single=False, missing=missing, names=names)
    data.view_names = None if names is None else tuple(names)
    return data


def open_given(
    given: Any, dictionaries: Sequence[Array], *, single: bool, missing: Missing, names: Sequence[str] | None = None
) -> Data:
    """Return samples to code that are at hand: in memory, or read a block at a time if some of them are sparse."""
    present, views, incomplete = match_views(given, dictionaries, single=single, missing=missing, names=names)
    data: Data = InMemory(views, present, len(dictionaries))
    if any(issparse(view) for view in views):  # only a block of them is dense at once
        data = Blocked(ArrayBlocks.of(present, views, len(dictionaries)))
    data.missing = incomplete
    return data


def _check_all_views(given: object, names: Sequence[str] | None) -> list[Array]:
    views: list[Array] = []
    for v, view in enumerate(check_views(given, "X", single=False, names=names)):
        label = view_labels([v], names)[0]
        if view is None:
            raise ValueError(f"Expected every view to be present in fit, got None for {label}.")
        if view.shape[1] == 0:
            raise ValueError(f"Expected {label} to have at least one feature, got shape {view.shape}.")
        views.append(view)
    if not views:
        raise ValueError("Expected at least one view in X, got an empty list.")
    return views
