"""The base class of learners of several views: coding, rebuilding and predicting from the views that are given."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.interface import Data
from ..data.memory import InMemory
from ..foundation.arrays import Array, Floats
from ..foundation.checks import make_generator
from ..foundation.choices import Coupling, PredictorName
from ..foundation.parameters import PENALTY, Choice, Constraints
from ..foundation.progress import Record
from ..foundation.views import (
    ViewArrays,
    ViewsLike,
    list_views,
    refuse_loose_views,
    refuse_others,
    view_names,
    view_number,
)
from ..foundation.warning import PredictionWarning, warn
from ..learning import engine
from ..learning.fitted import FittedDictionaries
from ..learning.predictors import Predictors
from ..learning.settings import LEARNING_CONSTRAINTS
from .base import DictionaryEstimator, rebuild
from .opening import open_all_views, open_views
from .tables import Codes, check_names
from .verbose import describe_prediction


class SeveralViews(DictionaryEstimator):
    """A learner whose samples have several views."""

    _parameter_constraints: ClassVar[Constraints] = {
        **DictionaryEstimator._parameter_constraints,
        **{name: LEARNING_CONSTRAINTS[name] for name in ("positive_dict", "normalize", "view_weights")},
        "coupling": (Choice(Coupling),),
        "predictor": (Choice(PredictorName),),
        "ridge_alpha": (Choice("auto"), PENALTY),
    }

    coupling: Coupling
    predictor: PredictorName
    ridge_alpha: float | Literal["auto"]

    components_: ViewArrays
    view_weights_: Floats
    mean_: ViewArrays
    predictors_: Predictors
    prediction_scores_: list[Record]
    n_features_in_: list[int]
    view_names_in_: tuple[str, ...]
    view_feature_names_in_: list[Array | None]

    def _show(self, fitted: FittedDictionaries, names: dict[str, Any]) -> dict[str, Any]:
        view_names = names.get("view_names_in_", self._view_names)
        components = fitted.components
        offsets = [np.zeros(atoms.shape[1]) for atoms in components]
        if (standard := fitted.standard) is not None:
            components = standard.restored_atoms(components)
            offsets = standard.offsets
        return {
            "components_": ViewArrays(components, view_names),
            "mean_": ViewArrays([np.asarray(offset, fitted.dtype) for offset in offsets], view_names),
            "view_weights_": fitted.weights,
            "predictors_": fitted.predictors,
            "prediction_scores_": [predictor.describe(view_names) for predictor in fitted.view_predictors.values()],
            "n_features_in_": [int(array.shape[1]) for array in fitted.components],
        }

    @property
    def _fitted(self) -> FittedDictionaries:
        weights = getattr(self, "view_weights_", np.ones(len(self.components_)))
        return self._collect(list(self.components_), weights, getattr(self, "predictors_", {}))

    @property
    def _view_names(self) -> tuple[str, ...] | None:
        return getattr(self, "view_names_in_", None)

    def _prediction(self) -> dict[str, Any]:
        return {"predictor": self.predictor, "ridge_alpha": self.ridge_alpha}

    def _names(self, data: Data) -> dict[str, Any]:
        return {"view_names_in_": data.view_names, "view_feature_names_in_": data.feature_names}

    def _open_batch(self, X: ViewsLike) -> InMemory:
        """Return the samples of a batch; raise unless they are in memory and match earlier batches."""
        data = self._open_known(X)
        if not isinstance(data, InMemory):
            raise TypeError("Expected a batch of arrays in memory; call partial_fit with one chunk after the other.")
        if data.n_samples == 0:
            raise ValueError("Expected at least one sample in X, got 0.")
        return data

    def _open_known(self, X: ViewsLike) -> Data:
        """Return samples with all views; raise unless they match those that were learned from, if there are any."""
        if not hasattr(self, "components_"):
            return open_all_views(list_views(X, ()), view_names(X), self.missing)
        given = list_views(X, self._view_names)
        data = open_all_views(given, self._view_names, self.missing)
        check_names(self, given)
        if data.widths != self.n_features_in_:
            raise ValueError(f"Expected views of {self.n_features_in_} features, as before, got {data.widths}.")
        return data

    def _check_arguments(self, method: str, X: object, y: object = None, others: tuple[object, ...] = ()) -> None:
        refuse_loose_views(f"{method}({{}})", X, y)
        refuse_others(f"{method}({{}})", others)

    def _open(self, given: Any) -> Data:
        if isinstance(given, list | tuple):
            check_names(self, given)
        return open_views(given, self.components_, self._view_names, self.missing)

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

    def fit_predictors(self, X: ViewsLike, y: object = None) -> Self:
        """Fit what `predict` and `impute` use beside the dictionaries, which stay as they are.

        `fit` does this by itself. Call it after `partial_fit`, which drops the predictors: they belong to the former
        dictionaries, and making new ones takes a hundred times as long as learning from a batch. It also fits a learner
        to samples of another device or place, of which there are too few to learn dictionaries from.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            As in `fit`, with all views. Some thousand samples suffice; those that the dictionaries were learned from
            make `prediction_scores_` a little too good.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        settings = self._settings()
        self._check_arguments("fit_predictors", X, y)
        if self.predictor == "dictionary" or settings.rule.coupling == "support" or len(self.components_) < 2:
            raise ValueError(
                "Expected two or more views with coupling='code' and a predictor other than 'dictionary', which has"
                f" nothing to fit, got {len(self.components_)} with coupling={self.coupling!r} and"
                f" predictor={self.predictor!r}."
            )
        data = self._open_known(X)
        rng = make_generator(self.random_state)
        fitted = engine.refit_predictors(
            self._fitted,
            data,
            settings,
            self._threads(),
            rng,
            **self._prediction(),
            find_imputer=self._finds_imputer,
        )
        self._keep(fitted)
        self._tell_predictions()
        return self

    def inverse_transform(self, codes: Any) -> ViewArrays:
        """Rebuild all views from codes: codes times atoms, plus the means that were subtracted.

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
        means = getattr(self, "mean_", None)
        rebuilt = [rebuild(table, atoms) for table, atoms in pairs]
        if means is not None and self._standard is not None:
            rebuilt = [rows + mean for rows, mean in zip(rebuilt, means, strict=True)]
        return ViewArrays(rebuilt, self._view_names)

    def predict(self, X: ViewsLike, *others: object, view: int | str) -> Array:
        """Predict one view from the others.

        With ``predictor="auto"`` of :class:`CoupledDictionaryLearning`, by a weighted mean of regressions on the given
        views, which were fitted after learning: for each view alone, and for all but one. From any other set of views,
        the regressions on all but one predict, with the missing sources filled in by their conditional means if `fit`
        found covariances (``missing="nan"``), otherwise by the means. ``prediction_scores_`` says how far to trust the
        result.

        With the other predictors, the given views are coded, and the codes are multiplied by a dictionary of the wanted
        view: the refitted one if there is one for exactly these source views, otherwise the learned one.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            None stands for an absent view; a dict may leave it out. The wanted view need not be present, and is
            ignored if it is. With ``missing="nan"`` samples may lack entries, or all of some views: each is predicted
            from what it has.
        *others : not accepted
            An error says that views belong in one list.
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
        settings, data = self._settings(), self._open(self._list(X))
        if self._running is not None and self.predictor != "dictionary" and not self._has_predictors:
            warn(
                "partial_fit has dropped the predictors, so predict multiplies codes by the dictionary as learned. Call"
                " fit_predictors with some thousand samples to have new ones, or set predictor='dictionary'.",
                PredictionWarning,
            )
        return self._fitted.predict(data, settings, wanted, self._threads())

    @property
    def _has_predictors(self) -> bool:
        return bool(self._view_predictors) or bool(getattr(self, "predictors_", {}))

    def impute(self, X: ViewsLike, *others: object) -> ViewArrays:
        """Fill in what samples lack: missing entries, and views that some or all samples do not have.

        If the learner was fitted with ``missing="nan"``, to at least 20 samples of at most 1024 features, up to three
        guesses are blended: the conditional mean given the known entries, from means and covariances; the mean of what
        similar training samples know; and the code of the known entries times the dictionaries. Their weights were
        found in `fit`, by hiding known entries of samples held out. Otherwise only codes count. A view that a sample
        lacks as a whole is predicted from the others, as `predict` does, and the guesses have a small weight beside
        that. A sample of which nothing is known gets the means, or zeros.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            With ``missing="nan"``, NaN stands for a missing entry; masked arrays and tables with nullable columns mark
            them by themselves. None stands for a view that all samples lack; a dict may leave it out.
        *others : not accepted
            An error says that views belong in one list.

        Returns
        -------
        list of arrays of shape (n_samples, n_features_v)
            All views, with known entries as they were given. If the views have names, these are accepted as indices
            too. For Dask arrays, Dask arrays.
        """
        check_is_fitted(self)
        self._check_arguments("impute", X, others=others)
        settings, data = self._settings(), self._open(self._list(X))
        filled = self._fitted.impute(data, settings, self._threads())
        return ViewArrays(filled, self._view_names)

    def _list(self, X: ViewsLike) -> Any:
        return list_views(X, self._view_names)

    def _pictured(self) -> list[tuple[str, Array]]:
        if not hasattr(self, "components_"):
            return []
        names = self._view_names or [f"view {v}" for v in range(len(self.components_))]
        titles = ["dictionary"] if len(self.components_) == 1 else names
        return list(zip(titles, self.components_, strict=True))

    def _described(self) -> list[str]:
        names = self._view_names or [f"view {v}" for v in range(len(getattr(self, "components_", [])))]
        return [describe_prediction(predictor.describe(names)) for predictor in self._view_predictors.values()]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # the input is a list of 2-D arrays
        return tags
