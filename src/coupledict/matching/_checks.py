"""What users hand to a matcher, checked: views, labels, directions, the kind of comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._views import Array, check_views
from ._whitening import check_finite

COMPARISONS = ("auto", "both", "target", "source", "codes", "labels")


def check_all_views(Xs: Any) -> list[Array]:
    """Return two or more finite views, none of them empty; they may differ in their numbers of samples."""
    views: list[Array] = []
    for v, view in enumerate(check_views(Xs, "Xs", single=False)):
        if view is None:
            raise ValueError(f"Expected every view to be present, got None for Xs[{v}].")
        if 0 in view.shape:
            raise ValueError(f"Expected Xs[{v}] to have at least one sample and one feature, got shape {view.shape}.")
        check_finite(view, f"Xs[{v}]")
        views.append(view)
    if len(views) < 2:
        raise ValueError(f"Expected two or more views in Xs, got {len(views)}.")
    return views


def check_labels(y: Any, views: list[Array]) -> tuple[list[Array] | None, bool]:
    """Return labels for each view, or None, and whether the rows of the views are of the same samples."""
    counts = [view.shape[0] for view in views]
    if isinstance(y, list | tuple) and len(y) == len(views) and all(np.ndim(entry) == 1 for entry in y):
        return [_label_array(entry, n, f"y[{v}]") for v, (entry, n) in enumerate(zip(y, counts, strict=True))], False
    if len(set(counts)) > 1:
        raise ValueError(
            f"Expected the same number of samples in every view, got {counts}. Views of different samples need labels"
            " for each, y=[y0, y1], and coupling='mapped'."
        )
    return None if y is None else [_label_array(y, counts[0], "y")] * len(views), True


def _label_array(y: Any, n: int, name: str) -> Array:
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"Expected {name} to hold {n} labels, one a sample, got shape {labels.shape}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"Expected {name} to hold labels, got NaN or infinity.")
    if labels.dtype.kind == "O" and len({type(label) for label in labels.tolist()}) > 1:
        raise TypeError(f"Expected {name} to hold labels of one type, got several. Convert them, to strings for one.")
    return labels


def one_hot(labels: list[Array]) -> tuple[Array, list[Array]]:
    """Return the classes and, for each view, one indicator a class."""
    classes = np.unique(np.concatenate(labels))
    if classes.size < 2:
        raise ValueError(f"Expected labels of at least 2 classes, got {classes.size}.")
    hot = []
    for v, part in enumerate(labels):
        table = (part[:, None] == classes).astype(np.float64)
        if not table.any(axis=0).all():
            missing = classes[np.argmin(table.any(axis=0))]
            raise ValueError(f"Expected every class in every view, got no sample of class {missing} in Xs[{v}].")
        hot.append(table)
    return classes, hot


def check_compare(compare: object, n_views: int, *, labelled: bool) -> str | int:
    """Return the kind of comparison with "auto" decided; raise where it cannot be."""
    if isinstance(compare, int | np.integer) and not isinstance(compare, bool):
        if not 0 <= compare < n_views:
            raise ValueError(f"Expected compare to be the number of one of the {n_views} views, got {compare}.")
        return int(compare)
    if compare not in COMPARISONS:
        raise ValueError(f"Expected compare to be one of {COMPARISONS} or the number of a view, got {compare!r}.")
    if compare == "labels" and not labelled:
        raise ValueError("compare='labels' needs labels: give y to fit.")
    if compare == "auto":
        return "labels" if labelled else "both"
    return str(compare)


def check_direction(source: Any, target: Any, n_views: int) -> tuple[tuple[int, ...], int]:
    """Return the numbers of the source views and of the target view."""
    given = list(source) if isinstance(source, list | tuple | np.ndarray) else [source]
    for name, numbers in (("source", given), ("target", [target])):
        for number in numbers:
            whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
            if not whole or not 0 <= number < n_views:
                raise ValueError(
                    f"Expected {name} to be the number of one of the {n_views} views, from 0 to {n_views - 1}, got"
                    f" {number!r}."
                )
    sources, wanted = [int(number) for number in given], int(target)
    if not sources or len(set(sources)) != len(sources):
        raise ValueError(f"Expected source to name each view once, and at least one, got {source!r}.")
    if wanted in sources:
        raise ValueError(f"Expected target to be another view than the source, got {wanted} for both.")
    return tuple(sources), wanted
