"""Dictionary learning for a single view: the same engine, as an ordinary scikit-learn transformer."""

from __future__ import annotations

import copy
import os
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from ..coding.samples import not_finite
from ..data.interface import Data
from ..data.memory import InMemory
from ..foundation.arrays import Array
from ..foundation.choices import Pursuit, UnusedAtoms, UpdateName
from ..foundation.missing import Missing, masked_to_nan, may_miss
from ..foundation.parameters import BOOLEAN, Constraints
from ..foundation.progress import Callback
from ..foundation.tables import name_bad_column
from ..foundation.tensors import with_numpy
from ..learning.fitted import FittedDictionaries
from ..learning.schedule import Growth, Schedule
from ..learning.settings import LEARNING_CONSTRAINTS
from ..learning.start import Init
from .base import DictionaryEstimator, rebuild
from .opening import open_given, open_stored


class DictionaryLearning(DictionaryEstimator):
    """Learn a dictionary over which samples have sparse codes.

    Minimises ``||X - C @ D||_F^2`` over a dictionary D with atoms of norm 1 and codes C with at most T nonzeros
    per sample. It is :class:`CoupledDictionaryLearning` with a single view, as a scikit-learn transformer. With
    ``update="sequential"`` it is approximate K-SVD [1]_, with ``"ksvd"`` it is K-SVD, with ``"mod"`` the method of
    optimal directions. The default reaches the same error sooner.

    Parameters
    ----------
    n_components : int, optional
        Number of atoms. If left out, four times the features, but at most 256 unless there are more features, and at
        most a quarter of the samples.
    n_nonzero_coefs, tol, max_iter, schedule, growth, update, pursuit, alpha, positive_code, init, unused_atoms, \
constant_atom, missing, stop_tol, warm_start, n_jobs, random_state, verbose, callback
        As in :class:`CoupledDictionaryLearning`; `init` may be one array.
    positive_dict : bool, default=False
        Whether atoms are not negative; with ``update="statistics"`` or ``"sequential"``. Together with
        ``positive_code=True`` this is a sparse non-negative matrix factorisation.
    sparse_output : bool, default=True
        Return codes as ``scipy.sparse.csr_array``; False gives dense arrays, and then ``set_output`` works.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary; atoms are rows of norm 1.
    history_, n_iter_
        As in :class:`CoupledDictionaryLearning`.
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the features; only set if X had names.

    References
    ----------
    .. [1] R. Rubinstein, M. Zibulevsky and M. Elad, "Efficient Implementation of the K-SVD Algorithm using Batch
       Orthogonal Matching Pursuit", Technical Report CS-2008-08, Technion, 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from coupledict import DictionaryLearning
    >>> X = load_digits().data
    >>> learner = DictionaryLearning(128, n_nonzero_coefs=6, random_state=0).fit(X)
    >>> learner.score(X) > 0.95
    True
    """

    components_: Array
    n_features_in_: int

    _parameter_constraints: ClassVar[Constraints] = {
        **DictionaryEstimator._parameter_constraints,
        **{name: LEARNING_CONSTRAINTS[name] for name in ("schedule", "growth", "update", "unused_atoms", "stop_tol")},
        "positive_dict": (BOOLEAN,),
        "warm_start": (BOOLEAN,),
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        max_iter: int = 30,
        schedule: Schedule = "auto",
        growth: Growth = "auto",
        update: UpdateName = "statistics",
        pursuit: Pursuit = "omp",
        alpha: float | None = None,
        positive_code: bool = False,
        positive_dict: bool = False,
        init: Init = "auto",
        unused_atoms: UnusedAtoms = "keep",
        constant_atom: bool = False,
        missing: Missing = "error",
        sparse_output: bool = True,
        stop_tol: float = 0.0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.tol = tol
        self.max_iter = max_iter
        self.schedule = schedule
        self.growth = growth
        self.update = update
        self.pursuit = pursuit
        self.alpha = alpha
        self.positive_code = positive_code
        self.positive_dict = positive_dict
        self.init = init
        self.unused_atoms = unused_atoms
        self.constant_atom = constant_atom
        self.missing = missing
        self.sparse_output = sparse_output
        self.stop_tol = stop_tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _show(self, fitted: FittedDictionaries, names: dict[str, Any]) -> dict[str, Any]:
        if len(fitted.components) != 1:
            raise ValueError(f"a DictionaryLearning has one view, not {len(fitted.components)}")
        return {"components_": fitted.components[0], "n_features_in_": int(fitted.components[0].shape[1])}

    @property
    def _fitted(self) -> FittedDictionaries:
        return self._collect([self.components_], np.ones(1))

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 1,
        resume: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn the dictionary.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Arrays of PyTorch, JAX and others are read in place. Or samples that do not fit in memory: a Zarr, HDF5 or
            memory-mapped array, a sequence of chunks, a callable that returns a fresh iterator over them, or a Dask
            array; see :meth:`CoupledDictionaryLearning.fit`.
        y : ignored
            Accepted for pipelines.
        checkpoint, checkpoint_every, resume
            As in :meth:`CoupledDictionaryLearning.fit`.

        Returns
        -------
        self
        """
        self._check_parameters()
        go_on_from = [self.components_] if self.warm_start and hasattr(self, "components_") else None
        self._learn(
            self._open(X, reset=True),
            go_on_from=go_on_from,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
        )
        return self

    def _open_batch(self, X: Any) -> InMemory:
        return self._validate(X, reset=not hasattr(self, "components_"))

    def _validate(self, X: object, *, reset: bool) -> InMemory:
        """Return samples in memory as scikit-learn checks them; with `reset` the number of features is theirs."""
        seen = copy.copy(self) if reset else self  # validate_data writes to the estimator, and the fit may fail later
        options: Any = {"dtype": [np.float64, np.float32], "ensure_min_features": 1, "ensure_all_finite": "allow-nan"}
        # The check adds up all numbers, and looks closer if the sum overflows.
        with name_bad_column(X, "X"), np.errstate(over="ignore", invalid="ignore"):
            data = InMemory([np.asarray(validate_data(seen, masked_to_nan(X), reset=reset, **options))])
        data.missing = may_miss([X], data.views, ["X"], self.missing)
        if not data.missing and (bad := np.isnan(data.views[0]).any(axis=1)).any():
            raise not_finite([data.views[0][bad]], f"sample {int(np.argmax(bad))}")
        if hasattr(seen, "feature_names_in_"):
            data.feature_names = [seen.feature_names_in_]
        return data

    def _names(self, data: Data) -> dict[str, Any]:
        return {"feature_names_in_": None if data.feature_names is None else data.feature_names[0]}

    def _open(self, X: Any, *, reset: bool = False) -> Data:
        """Return samples, in memory or not."""
        X = with_numpy(X)
        if issparse(X) and not reset:
            return open_given(X, [self.components_], single=True, missing=self.missing)
        data = open_stored(X, single=True)
        if data is None:
            return self._validate(X, reset=reset)
        data.allow_missing(all_nan=self.missing == "nan")
        return data

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def inverse_transform(self, codes: Any) -> Array:
        """Rebuild samples from their codes.

        Parameters
        ----------
        codes : sparse or dense array of shape (n_samples, n_components)
            As `transform` gives them.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return rebuild(codes, self.components_)

    def impute(self, X: Any) -> Array:
        """Fill in missing entries by the codes of the known ones, and by a regression on these.

        See :meth:`CoupledDictionaryLearning.impute`.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            With ``missing="nan"``, NaN stands for a missing entry; masked arrays and tables with nullable columns mark
            them by themselves.

        Returns
        -------
        array of shape (n_samples, n_features)
            With known entries as they were given. For a Dask array, a Dask array.
        """
        check_is_fitted(self)
        return self._fitted.impute(self._open(X), self._settings(), self._threads())[0]

    def _pictured(self) -> list[tuple[str, Array]]:
        return [("dictionary", self.components_)] if hasattr(self, "components_") else []
