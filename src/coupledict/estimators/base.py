"""The base class of all learners: calls the engine, stores the fitted state, and uses it."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Self, overload

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..coding.rule import CODING_CONSTRAINTS, CodingRule
from ..data.interface import Data
from ..data.memory import InMemory
from ..files.codes import CodeFile, check_new
from ..files.state import ModelState, make_estimator, plain_parameters
from ..foundation.arrays import Array, Floats
from ..foundation.checks import make_generator
from ..foundation.choices import Pursuit
from ..foundation.missing import MISSING, Missing
from ..foundation.parameters import BOOLEAN, Constraints, check_parameters
from ..foundation.progress import Callback, Record
from ..foundation.standardization import Standardization
from ..foundation.views import ViewsLike, check_view, explain_split_lists
from ..learning import batches, engine
from ..learning.checkpoint import Checkpoint, read_checkpoint
from ..learning.fitted import FittedDictionaries
from ..learning.imputation import Imputer
from ..learning.model_file import from_tensors, to_tensors
from ..learning.prediction import ViewPredictors
from ..learning.predictors import Predictors
from ..learning.settings import LEARNING_CONSTRAINTS, LearningSettings
from ..learning.updates import RunningSums
from ..parallel.jobs import Threads, count_jobs
from .display import PicturedMixin
from .keeping import keep_fitted
from .running import RunMixin
from .saving import SavedMixin, describe_names, restore_names
from .tables import Codes, CodesMixin
from .verbose import watched

SETTING_NAMES = frozenset(field.name for field in fields(LearningSettings))


class DictionaryEstimator(RunMixin, SavedMixin, PicturedMixin, CodesMixin, BaseEstimator):  # type: ignore[misc]
    """A learner: parameters in, fitted dictionaries out.

    Parameters that have the names of :class:`LearningSettings` become these. Subclasses define how fitted dictionaries
    become attributes (`_show`), and back (`_fitted`).
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **RunMixin._parameter_constraints,
        **CODING_CONSTRAINTS,
        **{name: LEARNING_CONSTRAINTS[name] for name in ("n_components", "max_iter", "init", "constant_atom")},
        "missing": (MISSING,),
        "sparse_output": (BOOLEAN,),
    }

    n_nonzero_coefs: int | None
    tol: float | None
    pursuit: Pursuit
    alpha: float | None
    positive_code: bool
    missing: Missing
    history_: list[Record]
    n_iter_: int
    _running: RunningSums | None = None
    _imputer: Imputer | None = None
    _standard: Standardization | None = None
    _view_predictors: ClassVar[ViewPredictors] = {}  # of a learner that is not fitted
    _finds_imputer = True  # switched off by tasks that have several estimates of missing entries

    def _settings(self) -> LearningSettings:
        """Return the parameters as settings; raise for parameters that are wrong, or that do not work together."""
        check_parameters(self._parameter_constraints, vars(self))
        return self._make_settings()

    def _make_settings(self) -> LearningSettings:
        """Return the parameters, each of which has been checked, as settings; raise if they do not work together."""
        rule = CodingRule.checked(
            self.n_nonzero_coefs,
            self.tol,
            self.pursuit,
            coupling=getattr(self, "coupling", "code"),
            alpha=self.alpha,
            positive_code=self.positive_code,
        )
        return LearningSettings(
            rule=rule, **{name: value for name, value in vars(self).items() if name in SETTING_NAMES}
        )

    @abstractmethod
    def _show(self, fitted: FittedDictionaries, names: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes for fitted dictionaries, except those that all learners have."""

    @property
    @abstractmethod
    def _fitted(self) -> FittedDictionaries:
        """The fitted state, collected from the attributes."""

    def _check_combination(self) -> None:
        self._make_settings()

    @property
    def _rule(self) -> CodingRule:
        """The coding rule, from the parameters as they are now."""
        return self._settings().rule

    def _threads(self) -> Threads:
        return Threads(count_jobs(self.n_jobs))

    def _names(self, data: Data) -> dict[str, Any]:
        """Return the attributes for the names of views and features; None for those to be absent."""
        return {}

    def _keep(self, fitted: FittedDictionaries, names: dict[str, Any] | None = None) -> None:
        """Set the fitted attributes in one step, which an interrupt cannot split. `names` come from `_names`."""
        names = {} if names is None else names
        common = {
            "history_": fitted.history,
            "n_iter_": fitted.n_iter,
            "_running": fitted.running,
            "_imputer": fitted.imputer,
            "_standard": fitted.standard,
            "_view_predictors": fitted.view_predictors,
        }
        keep_fitted(self, common | names | self._show(fitted, names))

    def _collect(
        self, components: list[Array], weights: Floats, predictors: Predictors | None = None
    ) -> FittedDictionaries:
        """Return the fitted state. Only `components_` must exist, so they may also have been set by hand."""
        history, n_iter = getattr(self, "history_", []), getattr(self, "n_iter_", 0)
        if self._standard is not None:
            components = self._standard.standard_atoms(components)
        return FittedDictionaries(
            components,
            weights,
            history,
            n_iter,
            predictors or {},
            self._running,
            self._imputer,
            self._standard,
            self._view_predictors,
        )

    def _prediction(self) -> dict[str, Any]:
        """Return how a view is predicted from others, as arguments of the engine."""
        return {}

    def _learn(
        self,
        data: Data,
        *,
        threads: Threads | None = None,
        callback: Callback | None = None,
        go_on_from: list[Array] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 1,
        resume: str | os.PathLike[str] | None = None,
    ) -> None:
        """Fit to opened samples. Ensembles pass their own threads and callback."""
        settings, name, parameters = self._settings(), type(self).__name__, plain_parameters(self)
        if checkpoint is None and checkpoint_every != 1:
            raise ValueError(
                f"Expected a name for the checkpoint with checkpoint_every={checkpoint_every!r}, got checkpoint=None."
            )
        names = self._names(data)
        facts = describe_names(names)
        writer = None if checkpoint is None else Checkpoint(checkpoint, checkpoint_every, name, parameters, facts)
        saved = None if resume is None else read_checkpoint(resume, name, parameters)
        with watched(self.verbose, name, self.callback if callback is None else callback) as report:
            fitted = engine.fit(
                data,
                settings,
                self._threads() if threads is None else threads,
                **self._prediction(),
                find_imputer=self._finds_imputer,
                go_on_from=go_on_from,
                saved=saved,
                checkpoint=writer,
                callback=report,
            )
        self._keep(fitted, names)
        self._tell_predictions()

    def _tell_predictions(self) -> None:
        """With `verbose`, print how well views predict each other."""
        if self.verbose:
            for line in self._described():
                print(f"{type(self).__name__}: {line}", flush=True)

    def _learn_batch(self, batch: InMemory, settings: LearningSettings, forgetting: float = 0.0) -> None:
        """Learn from one more batch, starting from the present state."""
        threads = self._threads()
        known = self._fitted if hasattr(self, "components_") else None
        names = self._names(batch) if known is None else {}
        if known is None or known.running is None:
            rng = make_generator(self.random_state)
            known = batches.begin_batches(batch, settings, threads, rng, known)
        self._keep(batches.learn_batch(known, batch, settings, threads, forgetting=forgetting), names)

    @abstractmethod
    def _open_batch(self, X: Any) -> InMemory:
        """Return the samples of a batch; raise unless they are in memory and match earlier batches."""

    def _forgetting(self) -> float:
        """Return the share of the running sums that each batch removes."""
        return 0.0

    def partial_fit(self, X: ViewsLike, y: object = None) -> Self:
        """Learn from one more batch of samples.

        Atoms are updated from running sums over the batches, as in :class:`coupledict.OnlineDictionaryLearning`;
        parameters that describe passes over the samples, such as `max_iter`, `schedule` and `update`, are not used.
        After `fit` it starts from the dictionaries learned there. What `predict` uses beside the dictionaries is
        dropped, because it belongs to the former ones; `fit_predictors` makes it anew. The first batch, or an earlier
        `fit`, decides what is subtracted from features and what they are multiplied by (`scale`).

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list or dict of such arrays
            The batch: arrays in memory; all views must be present.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        settings = self._settings()
        self._check_arguments("partial_fit", X, y)
        self._learn_batch(self._open_batch(X), settings, self._forgetting())
        return self

    @abstractmethod
    def _open(self, given: Any) -> Data:
        """Return samples, as `_list` returns them, as :class:`Data`; some of several views may be absent."""

    def _list(self, X: Any) -> Any:
        """Return what a user gave; several views as a list."""
        return X

    def _check_arguments(self, method: str, X: object, y: object = None, others: tuple[object, ...] = ()) -> None:
        """Raise if views are given as several arguments: as y, which is ignored otherwise, or as others."""
        if others:
            raise TypeError(
                f"Expected one array of samples, got {1 + len(others)} arguments. For several views there is"
                f" CoupledDictionaryLearning; it takes them as a list: {method}([U, L])."
            )

    @overload
    def transform(self, X: ViewsLike, *others: object) -> Codes: ...
    @overload
    def transform(self, X: ViewsLike, *others: object, out: str | os.PathLike[str]) -> CodeFile: ...
    def transform(self, X: ViewsLike, *others: object, out: str | os.PathLike[str] | None = None) -> Codes:
        """Code samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list or dict of such arrays
            The samples, in memory or not, as in `fit`. Of several views, None stands for an absent one; a dict may
            leave it out. Sparse arrays of SciPy are accepted; a block of their rows at a time is made dense.
        *others : not accepted
            An error says that views belong in one list.
        out : path, optional
            Write the codes there, part by part, so that they need not fit in memory: to a Zarr group if the name ends
            in ``.zarr``, otherwise to a folder of ``.npz`` parts. The name appears when all parts are written.

        Returns
        -------
        csr_array, or array if ``sparse_output=False``, of shape (n_samples, n_components)
            Or a table, if ``set_output`` says so. With ``coupling="support"``, a list of arrays, one for each given
            view. With `out`, a :class:`coupledict.CodeFile`. For Dask arrays, a Dask array with such chunks.
        """
        check_is_fitted(self)
        self._check_arguments("transform", X, others=others)
        rule, threads = self._rule, self._threads()
        given = self._list(X)
        if out is not None:
            check_new(out)  # before the samples are read
            return self._fitted.write_codes(self._open(given), rule, out, threads)
        self._check_container()
        codes = self._fitted.codes(self._open(given), rule, threads)
        contained: Codes = self._contained(codes[0] if rule.coupling == "code" else codes, given)
        return contained

    def score(self, X: ViewsLike, y: object = None) -> float:
        """Return the share of the squared norm of samples, weighted over the views, that their codes explain.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list or dict of such arrays
            As in `transform`.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        float
            1 if the codes explain the samples completely.
        """
        check_is_fitted(self)
        self._check_arguments("score", X, y)
        rule = self._rule
        with explain_split_lists(X):
            data = self._open(self._list(X))
        return self._fitted.explained(data, rule, self._threads())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self.missing == "nan"
        return tags

    def _to_state(self) -> ModelState:
        tensors, facts = to_tensors(self._fitted)
        return ModelState.of(self, tensors, **facts, **describe_names(vars(self)))

    @classmethod
    def _from_state(cls, state: ModelState) -> Any:
        learner = make_estimator(cls, state.parameters)
        settings = learner._settings()
        fitted = from_tensors(state, settings)
        settings.check_fit(fitted.components)
        learner._keep(fitted)
        restore_names(learner, state.facts)
        return learner


def rebuild(codes: Any, atoms: Array) -> Array:
    """Return codes @ atoms as an array."""
    table: Any = codes if issparse(codes) else check_view(codes, "codes")
    if table.ndim != 2 or table.shape[1] != atoms.shape[0]:
        raise ValueError(f"Expected codes of shape (n_samples, {atoms.shape[0]}), got {table.shape}.")
    return np.asarray(table @ atoms)
