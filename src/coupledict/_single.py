"""Dictionary learning for a single view: the face of the same engine that scikit-learn knows."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ._base import ViewLearner, rebuild
from ._blocks import ArrayBlocks
from ._checkpoint import Checkpoint, read_checkpoint
from ._code_files import check_new
from ._containers import CodesMixin, named_columns
from ._data import Blocked, Data, InMemory, open_views
from ._loop import Record, State
from ._passes import count_jobs
from ._pursuit import Pursuit
from ._schedule import Growth, Schedule
from ._views import Array


class DictionaryLearning(ClassNamePrefixFeaturesOutMixin, CodesMixin, ViewLearner):  # type: ignore[misc]
    """Learn a dictionary over which samples have sparse codes.

    Minimises ``||X - C @ D||_F^2`` over a dictionary D with atoms of norm 1 and codes C with at most T nonzeros a
    sample. It is :class:`CoupledDictionaryLearning` with a single view, as a scikit-learn transformer. With
    ``update="sequential"`` it is approximate K-SVD [1]_, with ``"ksvd"`` K-SVD, with ``"mod"`` the method of optimal
    directions; the default reaches their error sooner.

    Parameters
    ----------
    n_components : int, optional
        Number of atoms. Four times the features if left out, at most 256 unless there are more features.
    n_nonzero_coefs, tol, max_iter, schedule, growth, update, pursuit, init, unused_atoms, constant_atom, stop_tol, \
warm_start, n_jobs, random_state, verbose, callback
        As in :class:`CoupledDictionaryLearning`; `init` may be one array.
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
        Names of the features, where X had them.

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

    # With one view there is nothing to couple, weigh or normalise together.
    normalize = "views"
    coupling = "code"
    view_weights = None

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        max_iter: int = 30,
        schedule: Schedule = "auto",
        growth: Growth = "auto",
        update: str = "statistics",
        pursuit: Pursuit = "omp",
        init: Any = "auto",
        unused_atoms: str = "keep",
        constant_atom: bool = False,
        sparse_output: bool = True,
        stop_tol: float = 0.0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[[State], object] | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.tol = tol
        self.max_iter = max_iter
        self.schedule = schedule
        self.growth = growth
        self.update = update
        self.pursuit = pursuit
        self.init = init
        self.unused_atoms = unused_atoms
        self.constant_atom = constant_atom
        self.sparse_output = sparse_output
        self.stop_tol = stop_tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 1,
        resume: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn the dictionary.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Or samples that do not fit in memory: a Zarr, HDF5 or memory-mapped array, a sequence of chunks, a callable
            that returns a fresh iterator over them, or a Dask array; see :meth:`CoupledDictionaryLearning.fit`.
        y : ignored
            Accepted for pipelines.
        checkpoint, every, resume
            As in :meth:`CoupledDictionaryLearning.fit`.

        Returns
        -------
        self
        """
        data: Data | None = open_views(X, single=True, name="X")
        if data is None:
            data = InMemory([self._validate(X, reset=True)])
        else:
            self.n_features_in_ = data.widths[0]
            self.__dict__.pop("feature_names_in_", None)
        self._check_parameters()
        saved = None if resume is None else read_checkpoint(resume, self)
        self._learn(data, saved, Checkpoint.at(checkpoint, every))
        return self

    def partial_fit(self, X: npt.ArrayLike, y: object = None) -> Self:
        """Learn from one more batch of samples; see :class:`OnlineDictionaryLearning`.

        Atoms follow running sums over the batches; `schedule`, `growth`, `update` and `unused_atoms` play no part.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The batch.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        first = not hasattr(self, "components_")
        self._learn_more([self._validate(X, reset=first)], forgetting=0.0)
        return self

    def _validate(self, X: object, *, reset: bool) -> Array:
        kinds = [np.float64, np.float32]
        # It adds up all numbers, and looks closer if that overflows.
        with named_columns(X, "X"), np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(validate_data(self, X, dtype=kinds, reset=reset, ensure_min_features=1))

    @property
    def _view_components(self) -> list[Array]:
        return [self.components_]

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _keep(
        self, components: list[Array], weights: npt.NDArray[np.float64], history: list[Record], **more: Any
    ) -> None:
        super()._keep(components, weights, history, **{"components_": components[0], **more})

    def transform(self, X: Any, *, out: str | os.PathLike[str] | None = None) -> Any:
        """Code samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Or samples that are not in memory, as `fit` takes them.
        out : path, optional
            Write the codes there; see :meth:`CoupledDictionaryLearning.transform`.

        Returns
        -------
        csr_array, or array if ``sparse_output=False``, of shape (n_samples, n_components)
            Or a table, if ``set_output`` says so. With `out`, a :class:`coupledict.CodeFile`.
        """
        check_is_fitted(self, "components_")
        if out is not None:
            check_new(out)  # before the samples are read
        data = open_views(X, single=True, name="X")
        if out is not None:
            if data is None:
                data = Blocked(ArrayBlocks.of([0], [self._validate(X, reset=False)], 1))
            return self._write_codes(data, out)
        self._check_container()
        if data is not None:
            return self._contained(data.codes(*self._chunked_recipe(data), count_jobs(self.n_jobs))[0], X)
        codes, _ = self._encode([0], [self._validate(X, reset=False)])
        return self._contained(codes[0], X)

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
        check_is_fitted(self, "components_")
        return rebuild(codes, self.components_)

    def score(self, X: Any, y: object = None) -> float:
        """Return the share of the energy of the samples that their codes explain; 1 is perfect.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            As in `fit`.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        float
        """
        check_is_fitted(self, "components_")
        data = open_views(X, single=True, name="X")
        if data is not None:
            return self._explained_chunked(data)
        return float(self._explained([0], [self._validate(X, reset=False)]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that :func:`coupledict.load` reads; see there.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced, as a whole.
        """
        from ._saving import save_learner

        check_is_fitted(self, "components_")
        save_learner(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
