"""Online dictionary learning: one batch after the other, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ..data.interface import Data
from ..data.memory import InMemory
from ..data.order import Chosen
from ..foundation.checks import make_generator
from ..foundation.choices import CodePredictor, Coupling, Normalize, Pursuit
from ..foundation.missing import Missing
from ..foundation.parameters import COUNT, Choice, Constraints, Real
from ..foundation.progress import Callback, LearningProgress
from ..foundation.views import ViewsLike, list_views, view_names
from ..foundation.warning import InterruptedFitWarning, warn
from ..learning import batches, engine
from ..learning.fitted import FittedDictionaries
from ..learning.settings import PositiveDict, ViewWeights
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
missing, view_weights, constant_atom, ridge_alpha, sparse_output, n_jobs, random_state, verbose
        As in :class:`CoupledDictionaryLearning` with ``scale=None``: samples are taken as they are. `partial_fit` does
        not know how many samples will come; without `n_components`, their number limits that of the atoms in `fit`
        only. ``pursuit="lasso"`` is the l1 coder of the original method.
    predictor : {"ridge", "dictionary"}, default="ridge"
        How `predict` computes a view from codes of the others, as in :class:`CoupledDictionaryLearning`.
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

    _parameter_constraints: ClassVar[Constraints] = {
        **SeveralViews._parameter_constraints,
        "batch_size": (COUNT,),
        "predictor": (Choice(CodePredictor),),
        "forgetting": (Real(0, 1, closed="left"),),
    }

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
        predictor: CodePredictor = "ridge",
        ridge_alpha: float | Literal["auto"] = "auto",
        sparse_output: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.tol = tol
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.forgetting = forgetting
        self.pursuit = pursuit
        self.alpha = alpha
        self.positive_code = positive_code
        self.positive_dict = positive_dict
        self.init = init
        self.normalize = normalize
        self.coupling = coupling
        self.missing = missing
        self.view_weights = view_weights
        self.constant_atom = constant_atom
        self.predictor = predictor
        self.ridge_alpha = ridge_alpha
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

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
        given = list_views(X)
        if not is_in_memory(given):
            raise TypeError(
                "fit draws its batches from arrays in memory. Call partial_fit with one chunk of the samples after the"
                " other, or use CoupledDictionaryLearning, whose fit reads chunks."
            )
        self._learn_in_batches(open_all_views(given, view_names(X), self.missing))
        return self

    def _learn_in_batches(self, data: Data) -> None:
        """Fit to samples in memory, in batches."""
        if not isinstance(data, InMemory):
            raise TypeError("fit draws its batches from arrays in memory.")
        if data.n_samples == 0:
            raise ValueError("Expected at least one sample in X, got 0.")
        settings, threads, rng = self._settings(), self._threads(), make_generator(self.random_state)
        fitted = batches.begin_batches(data, settings, threads, rng, n_samples=data.n_samples)
        try:
            with self._watched() as report:
                for rows in self._batches(data.n_samples, rng):
                    fitted = batches.learn_batch(fitted, data, settings, threads, forgetting=self.forgetting, rows=rows)
                    if report is not None and report(self._progress(fitted, data.n_samples)):
                        break
            if self.predictor == "ridge":
                fitted = engine.refit_predictors(
                    fitted, data, settings, threads, rng, **self._prediction(), find_imputer=self._finds_imputer
                )
        except KeyboardInterrupt:
            if not fitted.history:
                raise
            warn(
                f"The fit was interrupted; the model is that of batch {fitted.n_iter} of"
                f" {self._count_batches(data.n_samples)}.",
                InterruptedFitWarning,
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
