"""Online dictionary learning: one batch after the other, in constant memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np

from ..coding.rule import Coupling, Pursuit
from ..data.interface import Data
from ..data.memory import InMemory
from ..data.order import Chosen
from ..foundation.checks import check_count, check_non_negative, make_generator
from ..foundation.missing import Missing
from ..foundation.progress import Callback, LearningProgress
from ..foundation.views import ViewsLike
from ..learning import engine
from ..learning.fitted import FittedDictionaries
from ..learning.settings import LearningSettings, Normalize, PositiveDict, ViewWeights
from ..learning.start import Init
from .opening import is_in_memory, open_all_views
from .several_views import SeveralViews


class OnlineDictionaryLearning(SeveralViews):
    """Learn dictionaries from batches of samples, for any number of views.

    Each batch is coded with the present dictionaries and added to the running sums ``A = C.T @ C`` and
    ``B_v = C.T @ X_v``; then all atoms are updated once: the scheme of Mairal et al. [1]_. Memory does not depend on
    how many samples have been used. `partial_fit` takes one batch; `fit` draws batches from arrays.

    Parameters
    ----------
    n_components, n_nonzero_coefs, tol, pursuit, alpha, positive_code, positive_dict, init, normalize, coupling, \
missing, view_weights, constant_atom, predictor, ridge_alpha, sparse_output, n_jobs, random_state, verbose
        As in :class:`CoupledDictionaryLearning`. ``pursuit="lasso"`` is the l1 coder of the original method.
    batch_size : int, default=256
        Number of samples per batch in `fit`.
    max_iter : int, default=30
        Number of passes of `fit` over the samples, each in a new random order.
    forgetting : float in [0, 1), default=0
        Share of the running sums that each batch removes, in addition to the decay of the first batches. Above 0 the
        dictionaries follow data that change over time.
    callback : callable, optional
        Called after each batch of `fit` with a :class:`coupledict.LearningProgress`: `completed` and `total` (batches),
        `components` and `history`. If it returns a true value, the fit stops and keeps what was learned so far.

    Attributes
    ----------
    components_, view_weights_, predictors_, n_features_in_, view_names_in_, view_feature_names_in_
        As in :class:`CoupledDictionaryLearning`.
    history_ : list of dict
        One record per batch, for the last thousand batches.
    n_iter_ : int
        Number of batches that were learned from.

    References
    ----------
    .. [1] J. Mairal, F. Bach, J. Ponce and G. Sapiro, "Online Learning for Matrix Factorization and Sparse Coding",
       Journal of Machine Learning Research 11, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import OnlineDictionaryLearning
    >>> rng = np.random.default_rng(0)
    >>> learner = OnlineDictionaryLearning(8, n_nonzero_coefs=2, random_state=0)
    >>> for _ in range(10):
    ...     batch = rng.standard_normal((50, 4))
    ...     learner = learner.partial_fit([batch, 2 * batch])
    >>> learner.n_iter_
    10
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        batch_size: int = 256,
        max_iter: int = 30,
        forgetting: float = 0.0,
        pursuit: Pursuit = "omp",
        alpha: float | None = None,
        positive_code: bool = False,
        positive_dict: PositiveDict = False,
        init: Init = "auto",
        normalize: Normalize = "joint",
        coupling: Coupling = "code",
        missing: Missing = "error",
        view_weights: ViewWeights = None,
        constant_atom: bool = False,
        predictor: Literal["ridge", "dictionary"] = "ridge",
        ridge_alpha: float | Literal["auto"] = "auto",
        sparse_output: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self._set_run(n_jobs, random_state, verbose, callback)
        self.n_components, self.n_nonzero_coefs = n_components, n_nonzero_coefs
        self.tol = tol
        self.batch_size, self.max_iter, self.forgetting = batch_size, max_iter, forgetting
        self.pursuit, self.alpha, self.positive_code, self.coupling = pursuit, alpha, positive_code, coupling
        self.positive_dict = positive_dict
        self.init, self.constant_atom = init, constant_atom
        self.normalize, self.missing, self.view_weights = normalize, missing, view_weights
        self.predictor, self.ridge_alpha, self.sparse_output = predictor, ridge_alpha, sparse_output

    def _settings(self) -> LearningSettings:
        check_count(self.batch_size, "batch_size")
        if check_non_negative(self.forgetting, "forgetting") >= 1:
            raise ValueError(f"Expected forgetting to be less than 1, got {self.forgetting}.")
        return LearningSettings.checked(**self._shared_settings())

    def fit(self, X: ViewsLike, y: object = None) -> Self:
        """Learn from batches drawn from the samples in random order, pass after pass.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            Arrays in memory.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._check_arguments("fit", X, y)
        if not is_in_memory(X):
            raise TypeError(
                "fit draws its batches from arrays in memory. Call partial_fit with one chunk of the samples after the"
                " other, or use CoupledDictionaryLearning, whose fit reads chunks."
            )
        self._learn_in_batches(open_all_views(X, missing=self.missing))
        return self

    def _learn_in_batches(self, data: Data) -> None:
        """Fit to samples in memory, in batches."""
        if not isinstance(data, InMemory):
            raise TypeError("fit draws its batches from arrays in memory.")
        self._check_run()
        if data.n_samples == 0:
            raise ValueError("Expected at least one sample in X, got 0.")
        settings, threads, rng = self._settings(), self._threads(), make_generator(self.random_state)
        fitted = engine.begin_batches(data, settings, threads, rng)
        try:
            with self._watched() as told:
                for rows in self._batches(data.n_samples, rng):
                    fitted = engine.learn_batch(fitted, data, settings, threads, forgetting=self.forgetting, rows=rows)
                    if told is not None and told(self._progress(fitted, data.n_samples)):
                        break
            ridge_alpha = self._ridge_alpha()
            if ridge_alpha is not None:
                fitted = engine.add_predictors(fitted, data, settings, ridge_alpha, threads, rng)
        except KeyboardInterrupt:
            if not fitted.history:
                raise
            warnings.warn(
                f"{engine.INTERRUPTED}; the model is that of batch {fitted.n_iter} of"
                f" {self._count_batches(data.n_samples)}.",
                UserWarning,
                stacklevel=3,
            )
        self._keep(fitted, self._names(data))

    def _forgetting(self) -> float:
        return self.forgetting

    def _count_batches(self, n_samples: int) -> int:
        return self.max_iter * -(-n_samples // self.batch_size)

    def _batches(self, n_samples: int, rng: np.random.Generator) -> Iterator[Chosen]:
        """Yield the rows of each batch; every pass uses every sample once."""
        for _ in range(self.max_iter):
            order = rng.permutation(n_samples)
            for start in range(0, n_samples, self.batch_size):
                yield Chosen(order[start : start + self.batch_size])

    def _progress(self, fitted: FittedDictionaries, n_samples: int) -> LearningProgress:
        total = self._count_batches(n_samples)
        components = [array.copy() for array in fitted.components]
        return LearningProgress("learning", fitted.n_iter, total, components, list(fitted.history))
