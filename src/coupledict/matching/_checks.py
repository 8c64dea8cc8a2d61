"""Checks of the input of a matcher: views, labels, directions, the kind of comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.labels import refuse_missing_labels
from ..foundation.missing import Missing, may_miss
from ..foundation.tables import check_same_rows
from ..foundation.tensors import as_array, with_numpy
from ..foundation.views import SPLIT_HINT, check_same_samples, check_views, list_views, view_labels, view_number
from ._whitening import check_finite, check_rows, has_view

#: Where query and gallery can be compared, besides the number of a view.
Compare: TypeAlias = Literal["auto", "both", "target", "source", "codes", "labels"]
#: Names of the views, if they have names.
Names: TypeAlias = Sequence[str] | None


def check_all_views(X: Any, missing: Missing, names: Names = None) -> list[Array]:
    """Return two or more views, none of them empty; they may differ in their samples.

    They are finite, except for the rows of NaN of samples that lack the view, where `missing` or the views allow them.
    """
    views: list[Array] = []
    for v, view in enumerate(check_views(X, "X", single=False, names=names, paired=False)):
        label = view_labels([v], names)[0]
        if view is None:
            raise ValueError(f"Expected every view to be present, got None for {label}.")
        if 0 in view.shape:
            raise ValueError(f"Expected {label} to have at least one sample and one feature, got shape {view.shape}.")
        check_entries(X[v], view, label, missing)
        if not has_view(view).any():
            raise ValueError(f"Expected samples that have the view {label}, got none.")
        views.append(view)
    if len(views) < 2:
        raise ValueError(f"Expected two or more views in X, got {len(views)}.{SPLIT_HINT}")
    return views


def check_entries(given: Any, view: Array, name: str, missing: Missing) -> None:
    """Raise for infinity, for unexpected NaN, and for samples that have only a part of the view."""
    if may_miss([given], [view], [name], missing):
        check_rows(view, name)
    else:
        check_finite(view, name, " If a row of NaN stands for a sample that lacks the view, use missing='nan'.")


def check_pairs(X: Sequence[Any], y: Any, names: Names) -> None:
    """Raise if views of the same samples, or their labels, have different indexes."""
    check_same_rows([*X, y], [*view_labels(range(len(X)), names), "y"])


def check_labels(y: Any, views: list[Array], names: Names) -> tuple[list[Array] | None, bool]:
    """Return the labels of each view, or None, and whether row i of all views is the same sample."""
    if isinstance(y, Mapping):
        y = list_views(y, names, name="y")
        if any(entry is None for entry in y):
            raise ValueError(f"Expected labels for each of the views {list(names or [])} in y, got only some.")
    y = with_numpy(y, "y")
    counts = [view.shape[0] for view in views]
    if isinstance(y, list | tuple) and len(y) == len(views) and all(np.ndim(entry) == 1 for entry in y):
        return [_label_array(entry, n, f"y[{v}]") for v, (entry, n) in enumerate(zip(y, counts, strict=True))], False
    check_same_samples(
        views,
        view_labels(range(len(views)), names),
        " Views of different samples need labels for each, y=[y0, y1], and semi_coupled=True.",
    )
    return None if y is None else [_label_array(y, counts[0], "y")] * len(views), True


def _label_array(y: Any, n: int, name: str) -> Array:
    refuse_missing_labels(y, name, lambda mark: "Leave such samples out, or leave y out to learn from pairs alone.")
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"Expected {name} to hold {n} labels, one per sample, got shape {labels.shape}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"Expected {name} to hold labels, got infinity.")
    if labels.dtype.kind == "O" and len({type(label) for label in labels.tolist()}) > 1:
        raise TypeError(f"Expected {name} to hold labels of one type, got several. Convert them, say to strings.")
    return labels


def one_hot_labels(labels: list[Array]) -> tuple[Array, list[Array]]:
    """Return the classes and, for each view, one indicator per class."""
    classes = np.unique(np.concatenate(labels))
    if classes.size < 2:
        raise ValueError(f"Expected labels of at least 2 classes, got {classes.size}.")
    one_hot = []
    for v, part in enumerate(labels):
        table = (part[:, None] == classes).astype(np.float64)
        if not table.any(axis=0).all():
            missing = classes[np.argmin(table.any(axis=0))]
            raise ValueError(f"Expected every class in every view, got no sample of class {missing} in X[{v}].")
        one_hot.append(table)
    return classes, one_hot


def check_compare(compare: object, n_views: int, *, labelled: bool) -> str | int:
    """Return the kind of comparison, with "auto" replaced by its choice; raise if it is not possible."""
    if isinstance(compare, int | np.integer) and not isinstance(compare, bool):
        if not 0 <= compare < n_views:
            raise ValueError(f"Expected compare to be the number of one of the {n_views} views, got {compare}.")
        return int(compare)
    if compare not in get_args(Compare):
        raise ValueError(f"Expected compare to be one of {get_args(Compare)} or the number of a view, got {compare!r}.")
    if compare == "labels" and not labelled:
        raise ValueError("compare='labels' needs labels: give y to fit.")
    if compare == "auto":
        return "labels" if labelled else "both"
    return str(compare)


def check_partners(partners: Any, views: list[Array], y: Any) -> npt.NDArray[np.int64]:
    """Return, for each sample of the first view, the index of its partner in the second; -1 for none."""
    if y is not None or len(views) != 2:
        raise ValueError("Expected partners only without labels y and with two views, got them otherwise.")
    partner_indices, (n, n_gallery) = as_array(partners, "partners"), (len(view) for view in views)
    if partner_indices.shape != (n,) or partner_indices.dtype.kind not in "iu":
        raise ValueError(
            f"Expected partners to be {n} integers, one for each sample of X[0], got shape {partner_indices.shape} of"
            f" {partner_indices.dtype}."
        )
    if partner_indices.min() < -1 or partner_indices.max() >= n_gallery or not (partner_indices >= 0).any():
        raise ValueError(
            f"Expected partners to be indices of the {n_gallery} samples of X[1], or -1 for none, and not all -1, got"
            f" numbers from {partner_indices.min()} to {partner_indices.max()}."
        )
    return partner_indices.astype(np.int64)


def check_direction(source: Any, target: Any, n_views: int, names: Names) -> tuple[tuple[int, ...], int]:
    """Return the numbers of the source views and of the target view, given by number or by name."""
    given = list(source) if isinstance(source, list | tuple | np.ndarray) else [source]
    sources = [_check_number(view, "source", n_views, names) for view in given]
    target_view = _check_number(target, "target", n_views, names)
    if not sources or len(set(sources)) != len(sources):
        raise ValueError(f"Expected source to name each view once, and at least one, got {source!r}.")
    if target_view in sources:
        raise ValueError(f"Expected target to differ from the source view, got {target!r} for both.")
    return tuple(sources), target_view


def _check_number(view: Any, name: str, n_views: int, names: Names) -> int:
    number = view_number(view, n_views, names, name)
    if not isinstance(view, str) and view < 0:
        raise ValueError(
            f"Expected {name} to be the number of one of the {n_views} views, from 0 to {n_views - 1}, got {view!r}."
        )
    return number
