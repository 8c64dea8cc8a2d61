"""Check labelled samples: one array or several views, of which entries, whole rows and labels may be missing."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array, column_or_1d, validate_data

from ..estimators.tables import feature_names
from ..foundation.arrays import Array, Floats
from ..foundation.labels import refuse_missing_labels
from ..foundation.missing import Missing, masked_to_nan, may_miss
from ..foundation.tables import check_same_rows
from ..foundation.tensors import with_numpy
from ..foundation.views import check_views, is_view_list, list_views, view_labels, view_names

Mask: TypeAlias = npt.NDArray[np.bool_]

NUMBER_TYPES: list[Any] = [np.float64, np.float32]
#: How scikit-learn checks a single view; whether its numbers are finite is checked after that.
ONE_VIEW: dict[str, Any] = {"dtype": NUMBER_TYPES, "ensure_all_finite": False}


@dataclass(frozen=True)
class Labelled:
    """Checked samples.

    Attributes
    ----------
    views : list of arrays (n_samples, n_features_v)
        NaN stands for a missing entry.
    present : bool array of shape (n_samples, n_views)
        Which views each sample has, at least in part.
    incomplete : bool
        Whether entries may be missing.
    y : integer array of shape (n_samples,)
        Number of the class in `classes`; 0 for samples without label.
    labelled : bool array of shape (n_samples,)
    classes : array of shape (n_classes,)
    weights : array of shape (n_samples,)
        Positive, with mean 1.
    names : dict
        The attributes in which an estimator stores the numbers and names of features and views; None for names that do
        not exist.
    """

    views: list[Array]
    present: Mask
    incomplete: bool
    y: npt.NDArray[np.intp]
    labelled: Mask
    classes: Array
    weights: Floats
    names: dict[str, Any]

    @property
    def all_labelled(self) -> bool:
        """Whether all samples are labelled."""
        return bool(self.labelled.all())


def check_labelled(
    estimator: Any,
    X: Any,
    y: Any,
    unlabeled: object = None,
    missing: Missing | None = "error",
    sample_weight: Any = None,
) -> Labelled:
    """Check the input of `fit`; the estimator is not changed. Samples of weight 0 are left out.

    `missing` says whether NaN stands for a missing entry; None if the estimator has no such parameter.
    """
    y, sample_weight = with_numpy(y, "y"), with_numpy(sample_weight, "sample_weight")
    _refuse_missing_labels(estimator, y, unlabeled)
    if is_view_list(X):
        _check_labels_are_given(y)
        given, labels = check_rows_agree(X, y, sample_weight)
        views = _all_views(given, labels)
        y = _as_label_array(y)
        widths = [view.shape[1] for view in views]
        names = _names(widths, view_names_in_=view_names(X), view_feature_names_in_=feature_names(given))
        incomplete = check_entries(given, views, labels, missing)
    else:
        check_rows_agree(X, y, sample_weight)
        array, y, names = _check_single_view(estimator, X, y, may_be_unlabeled=unlabeled is not None)
        views, incomplete = [array], check_entries([X], [array], ["X"], missing)
    y = column_or_1d(y, warn=True)
    n_samples = views[0].shape[0]
    if y.shape[0] != n_samples:
        raise ValueError(f"Expected a label for each of the {n_samples} samples, got {y.shape[0]}.")
    weights = _check_weights(sample_weight, views[0])
    if not weights.all():
        kept = weights > 0
        views, y, weights = [view[kept] for view in views], y[kept], weights[kept]
    weights = weights / weights.mean()
    present = has_views(views)
    if not present.any(axis=0).all():
        raise ValueError(f"Expected samples that have view {int(np.argmin(present.any(axis=0)))}, got none.")
    numbers, labelled, classes = _number_classes(y, unlabeled)
    return Labelled(views, present, incomplete, numbers, labelled, classes, weights, names)


def _check_weights(sample_weight: Any, view: Array) -> Floats:
    """Return a weight for each sample; all are 1 if none are given."""
    if sample_weight is None:
        return np.ones(view.shape[0])
    weights = np.asarray(_check_sample_weight(sample_weight, view, dtype=np.float64), np.float64)
    if np.any(weights < 0) or not weights.any():
        raise ValueError("Expected sample_weight to have no negative and at least one positive value, got others.")
    return np.asarray(weights / weights.max())


def check_entries(given: Any, views: list[Array], names: list[str], missing: Missing | None) -> bool:
    """Return whether entries of the views may be missing; raise for infinity and for unexpected NaN."""
    incomplete = may_miss(given, views, names, missing or "error")
    remedy = "" if missing is None else " If NaN stands for a missing entry, use missing='nan'."
    if incomplete and missing is None:
        raise ValueError(
            "Expected X to be complete, got missing entries. CoupledClassifier(missing='nan') accepts them."
        )
    for view, name in zip(views, names, strict=True):
        bad = np.isinf(view) if incomplete else ~np.isfinite(view)
        if bad.any():
            row, column = (int(place) for place in np.argwhere(bad)[0])
            what = "NaN" if np.isnan(view[row, column]) else "infinity"
            others = int(bad.any(axis=1).sum()) - 1
            more = f", and in {others} more sample{'s' if others > 1 else ''}" if others else ""
            raise ValueError(
                f"Expected {name} to be finite, got {what} in sample {row}, feature {column}{more}."
                f"{remedy if what == 'NaN' else ''}"
            )
    return incomplete


def has_views(views: list[Array]) -> Mask:
    """Return which views each sample has, at least in part."""
    return np.stack([~np.isnan(view).all(axis=1) for view in views], axis=1)


def _check_single_view(estimator: Any, X: Any, y: Any, *, may_be_unlabeled: bool) -> tuple[Array, Any, dict[str, Any]]:
    """Return a single array as scikit-learn checks it, the labels, and the names of the features."""
    scratch = copy.copy(estimator)  # scikit-learn would set names on the estimator itself
    if may_be_unlabeled:
        _check_labels_are_given(y)
        array, y = validate_data(scratch, masked_to_nan(X), **ONE_VIEW), _as_label_array(y)
    else:
        array, y = validate_data(scratch, masked_to_nan(X), y, **ONE_VIEW)
    names = _names(scratch.n_features_in_, feature_names_in_=getattr(scratch, "feature_names_in_", None))
    return np.asarray(array), y, names


def _names(n_features: int | list[int], **known: Any) -> dict[str, Any]:
    names = dict.fromkeys(("feature_names_in_", "view_names_in_", "view_feature_names_in_"))
    return {"n_features_in_": n_features, **names, **known}


def _check_labels_are_given(y: Any) -> None:
    if y is None:
        raise ValueError("Expected a label for each sample in y, got None.")


def _refuse_missing_labels(estimator: Any, y: Any, unlabeled: object) -> None:
    """Raise for None and NaN among the labels, unless NaN is the mark of samples without a label."""
    if y is None or unlabeled != unlabeled:
        return

    def remedy(mark: str) -> str:
        if unlabeled is not None:
            return f"Put {unlabeled!r} in its place: with unlabeled={unlabeled!r} that marks a sample without a label."
        if not hasattr(estimator, "unlabeled"):
            return f"Leave such samples out; CoupledClassifier(unlabeled={mark}) learns from them, marked by {mark}."
        return (
            f"Put {mark} in its place, and name that mark by the parameter unlabeled:"
            f" {type(estimator).__name__}(unlabeled={mark})."
        )

    refuse_missing_labels(y, "y", remedy)


def _as_label_array(y: Any) -> Any:
    return check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")


def _number_classes(y: Any, unlabeled: object) -> tuple[npt.NDArray[np.intp], Mask, Array]:
    """Return the number of each sample's class, which samples have one, and the classes."""
    labelled = np.ones(y.shape[0], bool)
    if unlabeled is not None:
        labelled = ~np.isnan(y.astype(float)) if unlabeled != unlabeled else np.asarray(y != unlabeled)
    known = y[labelled]
    if known.size:
        check_classification_targets(known)
    classes, numbers = np.unique(known, return_inverse=True)
    if classes.size < 2:
        which = "none" if classes.size == 0 else f"one class, {classes[0]!r}"
        raise ValueError(f"Expected samples of at least two classes in y, got {which}.")
    coded = np.zeros(y.shape[0], np.intp)
    coded[labelled] = numbers
    return coded, labelled, classes


def check_rows_agree(X: Any, y: Any, sample_weight: Any = None) -> tuple[list[Any], list[str]]:
    """Return the views and their names in messages; raise if labels or weights have another index."""
    several = is_view_list(X)
    given = list(list_views(X)) if several else [X]
    names = view_labels(range(len(given)), view_names(X)) if several else ["X"]
    check_same_rows([*given, y, sample_weight], [*names, "y", "sample_weight"])
    return given, names


def _all_views(X: object, labels: Sequence[str]) -> list[Array]:
    views: list[Array] = []
    for view, label in zip(check_views(X, "X", single=False), labels, strict=True):
        if view is None:
            raise ValueError(f"Expected every view to be present in fit, got None for {label}.")
        if view.shape[0] == 0 or view.shape[1] == 0:
            raise ValueError(f"Expected {label} to have at least one sample and one feature, got shape {view.shape}.")
        views.append(view if view.dtype in NUMBER_TYPES else view.astype(np.float64))
    if not views:
        raise ValueError("Expected at least one view in X, got an empty list.")
    return views


def check_given(
    estimator: Any, X: Any, widths: list[int], *, single: bool, missing: Missing
) -> tuple[tuple[int, ...], list[Array]]:
    """Return the numbers of the views that a fitted estimator is given, and their arrays."""
    if single:
        array = np.asarray(validate_data(estimator, masked_to_nan(X), reset=False, **ONE_VIEW))
        check_entries([X], [array], ["X"], missing)
        return (0,), [array]
    views = check_views(X, "X", single=False, names=getattr(estimator, "view_names_in_", None))
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
        if view.shape[0] == 0:
            raise ValueError(f"Expected at least one sample in X[{v}], got none.")
        arrays.append(view)
    check_entries([X[v] for v in present], arrays, [f"X[{v}]" for v in present], missing)
    return present, arrays
