"""Saving and loading of all estimators; each defines its conversion to a state and from one."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..files.models import JSON, ModelFileError, contradiction
from ..files.state import CONTRADICTIONS, ModelState
from ..foundation.arrays import Array
from ..foundation.text import printable, quoted
from ..foundation.views import ViewArrays

Saved = TypeVar("Saved", bound="SavedMixin")


class SavedMixin:
    """Mixin for estimators that can be saved to a file, as data without code, and loaded from it."""

    @abstractmethod
    def _to_state(self) -> ModelState:
        """Return the fitted estimator as data."""

    @classmethod
    @abstractmethod
    def _from_state(cls, state: ModelState) -> Self:
        """Make a fitted estimator from a state; raise one of ``CONTRADICTIONS`` if the state is inconsistent."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file: parameters and arrays, never code.

        Parameters
        ----------
        path : path-like
            Where to write: a new name, or a file, which is replaced completely and keeps its permissions. Read-only
            files, pipes, sockets and devices are refused.

        See Also
        --------
        coupledict.load : Reads the file, whatever the class of the estimator.
        """
        check_is_fitted(self)
        save_with(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator of this class that :meth:`save` wrote; its results are the same to the last bit.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        estimator
            The fitted estimator; parameters that are not data have their defaults, see :func:`coupledict.load`.

        Raises
        ------
        ModelFileError
            For a file that is damaged, of another estimator, or written by a newer version.
        """
        state = ModelState.read(path)
        if state.estimator != cls.__name__:
            raise ModelFileError(
                f"Expected {quoted(path)} to hold a {cls.__name__}, got a {printable(state.estimator[:100])}."
                " coupledict.load opens models of all kinds."
            )
        return restore(cls, state, path)


def save_with(estimator: SavedMixin, path: str | os.PathLike[str], *, replace: bool = True, **more: JSON) -> None:
    """Write a fitted estimator as :meth:`SavedMixin.save` does, with `more` among its facts."""
    state = estimator._to_state()
    _check_opens(estimator, state)
    state.write(path, replace=replace, **more)


def _check_opens(estimator: SavedMixin, state: ModelState) -> None:
    """Raise for a state that would be refused when it is read, such as one with parameters changed after the fit."""
    try:
        type(estimator)._from_state(state)
    except CONTRADICTIONS as error:
        raise ValueError(f"Expected a model that can be opened again, got one that cannot: {error}") from error


def restore(cls: type[Saved], state: ModelState, path: str | os.PathLike[str]) -> Saved:
    """Make an estimator from a state that was read from a file; raise ModelFileError if the state is inconsistent."""
    try:
        return cls._from_state(state)
    except CONTRADICTIONS as error:
        raise contradiction(path, "a complete model", error) from error


def describe_names(attributes: Mapping[str, Any]) -> dict[str, JSON]:
    """Return the names of features and views among the attributes of an estimator, as facts of a model."""
    names: dict[str, JSON] = {}
    if (features := attributes.get("feature_names_in_")) is not None:
        names["feature_names_in"] = [str(name) for name in features]
    if (by_view := attributes.get("view_feature_names_in_")) is not None:
        names["view_feature_names_in"] = [None if own is None else [str(name) for name in own] for own in by_view]
    if (views := attributes.get("view_names_in_")) is not None:
        names["view_names_in"] = list[JSON](views)
    return names


def restore_names(estimator: Any, facts: dict[str, Any]) -> None:
    """Set the names that :func:`describe_names` returned on an estimator whose `n_features_in_` is set."""
    widths = estimator.n_features_in_
    if "feature_names_in" in facts:
        estimator.feature_names_in_ = _check_names(facts["feature_names_in"], widths)
    if "view_feature_names_in" in facts:
        names = facts["view_feature_names_in"]
        if not isinstance(widths, list) or not isinstance(names, list) or len(names) != len(widths):
            raise ValueError("its feature names do not fit its views")
        estimator.view_feature_names_in_ = [
            None if own is None else _check_names(own, width) for own, width in zip(names, widths, strict=True)
        ]
    if "view_names_in" in facts:
        names = check_view_names(facts["view_names_in"], widths)
        estimator.view_names_in_ = names
        if isinstance(getattr(estimator, "components_", None), ViewArrays):
            estimator.components_ = ViewArrays(estimator.components_, names)


def check_view_names(names: object, widths: object) -> tuple[str, ...]:
    """Return the names of views in a file; raise unless they fit the views."""
    fits = isinstance(names, list) and isinstance(widths, list) and len(names) == len(widths) == len(set(names))
    if not fits or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("the names of its views do not fit its views")
    return tuple(names)


def _check_names(names: object, n_features: object) -> Array:
    if not isinstance(names, list) or len(names) != n_features or not all(isinstance(name, str) for name in names):
        raise ValueError("its feature names do not fit its features")
    return np.array(names, dtype=object)
