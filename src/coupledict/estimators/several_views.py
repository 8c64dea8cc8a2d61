"""The base class of learners of several views: coding, rebuilding and predicting from the views that are given."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..coding.rule import CodingRule, Coupling, Pursuit
from ..data.interface import Data
from ..data.memory import InMemory
from ..foundation.arrays import Array, Floats
from ..foundation.checks import check_choice, check_penalty
from ..foundation.missing import Missing
from ..foundation.views import ViewArrays, ViewsLike, list_views, refuse_loose_views, refuse_others, view_number
from ..learning.fitted import FittedDictionaries
from ..learning.predictors import Predictors
from .base import DictionaryEstimator, rebuild
from .opening import open_all_views, open_views
from .splitting import SplitGuardMixin
from .tables import Codes, check_names


class SeveralViews(SplitGuardMixin, DictionaryEstimator):
    """A learner whose samples have several views."""

    n_nonzero_coefs: int | None
    tol: float | None
    pursuit: Pursuit
    alpha: float | None
    positive_code: bool
    coupling: Coupling
    predictor: Literal["ridge", "dictionary"]
    ridge_alpha: float | Literal["auto"]

    components_: ViewArrays
    view_weights_: Floats
    predictors_: Predictors
    n_features_in_: list[int]
    view_names_in_: tuple[str, ...]
    view_feature_names_in_: list[Array | None]

    def _show(self, fitted: FittedDictionaries, names: dict[str, Any]) -> dict[str, Any]:
        return {
            "components_": ViewArrays(fitted.components, names.get("view_names_in_", self._view_names)),
            "view_weights_": fitted.weights,
            "predictors_": fitted.predictors,
            "n_features_in_": [int(array.shape[1]) for array in fitted.components],
        }

    @property
    def _fitted(self) -> FittedDictionaries:
        weights = getattr(self, "view_weights_", np.ones(len(self.components_)))
        return self._collect(list(self.components_), weights, getattr(self, "predictors_", {}))

    @property
    def _view_names(self) -> tuple[str, ...] | None:
        return getattr(self, "view_names_in_", None)

    def _ridge_alpha(self) -> float | Literal["auto"] | None:
        return self.ridge_alpha if self.predictor == "ridge" else None

    def _shared_settings(self) -> dict[str, Any]:
        """Return the settings that all learners of several views have, for ``LearningSettings.checked``."""
        check_choice(self.missing, "missing", get_args(Missing))
        check_choice(self.predictor, "predictor", ("ridge", "dictionary"))
        if not isinstance(self.ridge_alpha, str):
            check_penalty(self.ridge_alpha, "ridge_alpha")
        elif self.ridge_alpha != "auto":
            raise TypeError(f"Expected ridge_alpha to be 'auto' or a number, got {self.ridge_alpha!r}.")
        rule = CodingRule.checked(
            self.n_nonzero_coefs,
            self.tol,
            self.pursuit,
            coupling=self.coupling,
            alpha=self.alpha,
            positive_code=self.positive_code,
        )
        names = ("n_components", "max_iter", "init", "normalize", "view_weights", "constant_atom", "random_state")
        return {"rule": rule} | {name: getattr(self, name) for name in (*names, "positive_dict")}

    def _names(self, data: Data) -> dict[str, Any]:
        return {"view_names_in_": data.view_names, "view_feature_names_in_": data.feature_names}

    def _open_batch(self, X: ViewsLike) -> InMemory:
        """Return the samples of a batch; raise unless they are in memory and match earlier batches."""
        known = hasattr(self, "components_")
        data = open_all_views(X, self._view_names if known else (), self.missing)
        if not isinstance(data, InMemory):
            raise TypeError("Expected a batch of arrays in memory; call partial_fit with one chunk after the other.")
        if data.n_samples == 0:
            raise ValueError("Expected at least one sample in X, got 0.")
        if known:
            check_names(self, list_views(X, self._view_names))
            if data.widths != self.n_features_in_:
                raise ValueError(f"Expected views of {self.n_features_in_} features, as before, got {data.widths}.")
        return data

    def _check_arguments(self, method: str, X: object, y: object = None, others: tuple[object, ...] = ()) -> None:
        refuse_loose_views(f"{method}({{}})", X, y)
        refuse_others(f"{method}({{}})", others)

    def _open(self, X: ViewsLike) -> Data:
        """Return samples; some views may be absent."""
        check_is_fitted(self)
        if isinstance(given := self._list(X), list | tuple):
            check_names(self, given)
        return open_views(X, self.components_, self._view_names, self.missing)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_[0].shape[0])

    def fit_transform(self, X: ViewsLike, y: object = None) -> Codes:
        """Learn the dictionaries and code the samples they were learned from.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            As in `fit`.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        csr_array of shape (n_samples, n_components)
            As `transform` returns it.
        """
        self._check_arguments("fit_transform", X, y)
        codes: Codes = self.fit(X, y).transform(X)
        return codes

    def inverse_transform(self, codes: Any) -> ViewArrays:
        """Rebuild all views from codes.

        Parameters
        ----------
        codes : sparse or dense array of shape (n_samples, n_components)
            With ``coupling="support"``, a list of such arrays, one per view.

        Returns
        -------
        list of arrays of shape (n_samples, n_features_v)
            If the views have names, these are accepted as indices too.
        """
        check_is_fitted(self)
        tables = list(codes) if self.coupling == "support" else [codes] * len(self.components_)
        if len(tables) != len(self.components_):
            raise ValueError(f"Expected {len(self.components_)} codes, one per view, got {len(tables)}.")
        pairs = zip(tables, self.components_, strict=True)
        return ViewArrays([rebuild(table, atoms) for table, atoms in pairs], self._view_names)

    def predict(self, X: ViewsLike, *others: object, view: int | str) -> Array:
        """Predict one view from the others.

        The given views are coded, and the codes are multiplied by a dictionary of the wanted view: the refitted one if
        there is one for exactly these source views (each view alone, and all but one), otherwise the learned one.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            None stands for an absent view; a dict may leave it out. The wanted view need not be present, and is
            ignored if it is. With ``missing="nan"`` samples may lack entries, or all of some views: each is predicted
            from what it has.
        *others : not accepted
            An error says that views belong into one list.
        view : int or str
            Number of the wanted view, or its name.

        Returns
        -------
        array of shape (n_samples, n_features_view)
            For Dask arrays, a Dask array.
        """
        check_is_fitted(self)
        self._check_arguments("predict", X, others=others)
        wanted = view_number(view, len(self.components_), self._view_names)
        return self._fitted.predict(self._open(X), self._settings(), wanted, self._threads())

    def impute(self, X: ViewsLike, *others: object) -> ViewArrays:
        """Fill in what samples lack: missing entries, and views that some or all samples do not have.

        Two guesses are added up. Samples are coded by their known entries: entries of a view that a sample has are the
        codes times the dictionary of that view, and an absent view is predicted from the others, as `predict` does. If
        the learner was fitted with ``missing="nan"``, to at least 20 samples of at most 1024 features, the second guess
        is the linear regression of what is missing on what is known, from means and covariances. How much each counts
        was found in `fit`, by hiding known entries; otherwise only the codes count. A sample of which nothing is known
        gets the means, or zeros.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            With ``missing="nan"``, NaN stands for a missing entry; masked arrays and tables with nullable columns mark
            them by themselves. None stands for a view that all samples lack; a dict may leave it out.
        *others : not accepted
            An error says that views belong into one list.

        Returns
        -------
        list of arrays of shape (n_samples, n_features_v)
            All views, with known entries as they were given. If the views have names, these are accepted as indices
            too. For Dask arrays, Dask arrays.
        """
        check_is_fitted(self)
        self._check_arguments("impute", X, others=others)
        filled = self._fitted.impute(self._open(X), self._settings(), self._threads())
        return ViewArrays(filled, self._view_names)

    def _list(self, X: ViewsLike) -> Any:
        return list_views(X, self._view_names)

    def _pictured(self) -> list[tuple[str, Array]]:
        if not hasattr(self, "components_"):
            return []
        names = self._view_names or [f"view {v}" for v in range(len(self.components_))]
        titles = ["dictionary"] if len(self.components_) == 1 else names
        return list(zip(titles, self.components_, strict=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # the input is a list of 2-D arrays
        return tags
