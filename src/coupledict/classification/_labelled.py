"""Labelled samples as users hand them over: one array or several views, some rows absent, some labels missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from .._views import Array, check_views, is_view_list

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Labelled:
    """Checked samples.

    Attributes
    ----------
    views : list of arrays (n_samples, n_features_v)
    single : bool
        One array was given, not a list.
    present : bool array of shape (n_samples, n_views)
        Which views each sample has.
    y : integer array of shape (n_samples,)
        Number of the class in `classes`; 0 for samples without label.
    labelled : bool array of shape (n_samples,)
    classes : array of shape (n_classes,)
    """

    views: list[Array]
    single: bool
    present: Mask
    y: npt.NDArray[np.intp]
    labelled: Mask
    classes: Array

    @property
    def complete(self) -> Mask:
        """Samples that have all views."""
        return np.asarray(self.present.all(axis=1))

    @property
    def all_labelled(self) -> bool:
        """Whether all samples that have all views are labelled."""
        return bool(self.labelled[self.complete].all())


def check_labelled(estimator: Any, X: object, y: Any, unlabeled: object = None) -> Labelled:
    """Check what `fit` was given; a single array goes through scikit-learn's checks, which keep its feature names."""
    kinds = [np.float64, np.float32]
    single = not is_view_list(X)
    if single and unlabeled is None:
        array, y = validate_data(estimator, X, y, dtype=kinds, ensure_min_features=1)
        views = [np.asarray(array)]
    else:
        if y is None:
            raise ValueError("Expected a label for each sample in y, got None.")
        views = [np.asarray(validate_data(estimator, X, dtype=kinds))] if single else _all_views(X, kinds)
        y = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
    y = column_or_1d(y, warn=True)
    if not single and hasattr(estimator, "feature_names_in_"):  # of an earlier fit to a single array
        del estimator.feature_names_in_
    n_samples = views[0].shape[0]
    if y.shape[0] != n_samples:
        raise ValueError(f"Expected a label for each of the {n_samples} samples, got {y.shape[0]}.")
    present = np.ones((n_samples, len(views)), bool)
    if not single:
        present = np.stack([_present(view, v) for v, view in enumerate(views)], axis=1)
    complete = present.all(axis=1)
    if not complete.any():
        raise ValueError("Expected samples that have all views, got none: there is nothing to couple the views by.")
    labelled = np.ones(n_samples, bool)
    if unlabeled is not None:
        labelled = ~np.isnan(y.astype(float)) if unlabeled != unlabeled else np.asarray(y != unlabeled)
    known = y[labelled]
    if known.size:
        check_classification_targets(known)
    classes, numbers = np.unique(known, return_inverse=True)
    if classes.size < 2:
        which = "none" if classes.size == 0 else f"one class, {classes[0]!r}"
        raise ValueError(f"Expected samples of at least two classes in y, got {which}.")
    coded = np.zeros(n_samples, np.intp)
    coded[labelled] = numbers
    return Labelled(views, single, present, coded, labelled, classes)


def _all_views(X: object, kinds: list[Any]) -> list[Array]:
    views: list[Array] = []
    for v, view in enumerate(check_views(X, "X", single=False)):
        if view is None:
            raise ValueError(f"Expected every view to be there in fit, got None for X[{v}].")
        if view.shape[0] == 0 or view.shape[1] == 0:
            raise ValueError(f"Expected X[{v}] to have at least one sample and one feature, got shape {view.shape}.")
        if views and view.shape[0] != views[0].shape[0]:
            raise ValueError(
                f"Expected the same number of samples in every view, got {views[0].shape[0]} and"
                f" {view.shape[0]} (X[{v}])."
            )
        views.append(view if view.dtype in kinds else view.astype(np.float64))
    if not views:
        raise ValueError("Expected at least one view in X, got an empty list.")
    return views


def _present(view: Array, v: int) -> Mask:
    """Return which samples have the view; raise for samples that have half of it."""
    missing = np.isnan(view)
    absent = missing.all(axis=1)
    if (missing.any(axis=1) & ~absent).any() or np.isinf(view).any():
        raise ValueError(
            f"Expected the rows of X[{v}] to be finite, or NaN throughout for a sample that lacks the view, got rows"
            " with some NaN or infinity."
        )
    return np.asarray(~absent)


def check_given(estimator: Any, X: object, widths: list[int], *, single: bool) -> tuple[tuple[int, ...], list[Array]]:
    """Return the numbers of the views that a fitted estimator is given, and their arrays."""
    if single:
        return (0,), [np.asarray(validate_data(estimator, X, dtype=[np.float64, np.float32], reset=False))]
    views = check_views(X, "X", single=False)
    if len(views) != len(widths):
        raise ValueError(f"Expected {len(widths)} views in X (None for an absent one), got {len(views)}.")
    present = tuple(v for v, view in enumerate(views) if view is not None)
    if not present:
        raise ValueError("Expected at least one view in X, got only None.")
    arrays: list[Array] = []
    for v in present:
        view = views[v]
        assert view is not None
        if view.shape[1] != widths[v]:
            raise ValueError(f"Expected X[{v}] to have {widths[v]} features, as in fit, got {view.shape[1]}.")
        if arrays and view.shape[0] != arrays[0].shape[0]:
            raise ValueError(
                f"Expected the same number of samples in every view, got {arrays[0].shape[0]} and"
                f" {view.shape[0]} (X[{v}])."
            )
        if view.shape[0] == 0:
            raise ValueError(f"Expected at least one sample in X[{v}], got none.")
        if not np.isfinite(view).all():
            raise ValueError(f"Expected X[{v}] to be finite, got NaN or infinity. Give None for an absent view.")
        arrays.append(view)
    return present, arrays
