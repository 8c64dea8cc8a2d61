"""Online dictionary learning: batches one after the other, constant memory."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from . import _passes
from ._base import Normalize, generator
from ._blocks import kind_of_blocks
from ._containers import keep_names
from ._data import InMemory, is_dask
from ._learner import CoupledDictionaryLearning
from ._passes import Samples, Sums, Worst
from ._pursuit import Coder, Coupling, Pursuit, as_csr
from ._schedule import Chosen
from ._views import Array, as_list, check_count, check_tol


class OnlineDictionaryLearning(CoupledDictionaryLearning):
    """Learn dictionaries from batches of samples, for any number of views.

    Each batch is coded with the present dictionaries, added to the running sums ``A = C.T @ C`` and
    ``B_v = C.T @ X_v``, and followed by one sweep over the atoms: the scheme of Mairal et al. [1]_. Memory does not
    depend on how many samples have been seen. `partial_fit` takes one batch; `fit` draws batches from arrays.

    Parameters
    ----------
    n_components, n_nonzero_coefs, tol, init, normalize, coupling, view_weights, constant_atom, refit, refit_alpha, \
sparse_output, n_jobs, random_state
        As in :class:`CoupledDictionaryLearning`.
    batch_size : int, default=256
        Samples in a batch of `fit`.
    max_iter : int, default=256
        Batches that `fit` draws.
    forgetting : float in [0, 1), default=0
        Share of the past that each batch takes away, beside the fading of the first batches; above 0 the dictionaries
        follow data that change.
    pursuit : {"omp", "ols", "lasso"}, default="omp"
        How samples are coded. ``"lasso"`` is the l1 coder of the original method, computed by scikit-learn with the
        penalty `alpha`; it knows no `n_nonzero_coefs`, `tol` or ``coupling="support"``.
    alpha : float, optional
        Penalty of ``pursuit="lasso"``: codes minimise ``0.5 * ||x - c D||^2 + alpha * ||c||_1`` over all views.

    Attributes
    ----------
    components_, view_weights_, history_, n_iter_, n_features_in_, view_feature_names_in_
        As in :class:`CoupledDictionaryLearning`; one record of the history for each batch.

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
        max_iter: int = 256,
        forgetting: float = 0.0,
        pursuit: Pursuit | str = "omp",
        alpha: float | None = None,
        init: Any = "auto",
        normalize: Normalize = "views",
        coupling: Coupling = "code",
        view_weights: str | Sequence[float] | npt.NDArray[Any] | None = None,
        constant_atom: bool = False,
        refit: bool = True,
        refit_alpha: float = 1e-3,
        sparse_output: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.tol = tol
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.forgetting = forgetting
        self.pursuit = pursuit
        self.alpha = alpha
        self.init = init
        self.normalize = normalize
        self.coupling = coupling
        self.view_weights = view_weights
        self.constant_atom = constant_atom
        self.refit = refit
        self.refit_alpha = refit_alpha
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Settings of the batch learner that mean nothing here.
    update = "statistics"
    unused_atoms = "keep"
    stop_tol = 0.0
    warm_start = False
    callback = None

    def _check_parameters(self) -> None:
        check_count(self.batch_size, "batch_size")
        check_tol(self.forgetting, "forgetting")
        if self.forgetting >= 1:
            raise ValueError(f"Expected forgetting to be less than 1, got {self.forgetting}.")
        if self.pursuit != "lasso":
            if self.alpha is not None:
                raise ValueError(f"alpha is the penalty of pursuit='lasso'; it has no meaning for {self.pursuit!r}.")
            super()._check_parameters()
            return
        self._check_common_parameters()
        check_tol(self.refit_alpha, "refit_alpha")
        if self.alpha is None or check_tol(self.alpha, "alpha") == 0:
            raise ValueError(f"Expected a positive alpha with pursuit='lasso', got {self.alpha!r}.")
        if self.n_nonzero_coefs is not None or self.tol is not None:
            raise ValueError("n_nonzero_coefs and tol have no meaning with pursuit='lasso'; its codes follow alpha.")
        if self.coupling != "code":
            raise ValueError("pursuit='lasso' codes all views together; coupling='support' is not offered with it.")

    def fit(self, Xs: Sequence[npt.ArrayLike], y: object = None) -> Self:  # type: ignore[override]
        """Learn from `max_iter` batches drawn from the samples, in random order, again and again.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or Views
        y : ignored

        Returns
        -------
        self
        """
        given = as_list(Xs)
        if is_dask(given) or kind_of_blocks(given, single=False) is not None:
            raise TypeError(
                "fit draws its batches from arrays in memory. Call partial_fit with one chunk of the samples after the"
                " other, or use CoupledDictionaryLearning, whose fit reads chunks."
            )
        views = self._check_all_views(given)
        self._check_parameters()
        check_count(self.max_iter, "max_iter")
        n = views[0].shape[0]
        if n == 0:
            raise ValueError("Expected at least one sample in Xs, got 0.")
        self._forget()
        rng = generator(self.random_state)
        data = InMemory(views)
        try:
            self._begin(data, rng)
            order, place = rng.permutation(n), 0
            keep_names(self, given)
            for _ in range(self.max_iter):
                if place + self.batch_size > n and place > 0:
                    order, place = rng.permutation(n), 0
                self._learn_more(views, self.forgetting, Chosen(order[place : place + self.batch_size]))
                place += self.batch_size
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt) or not getattr(self, "history_", []):
                self._forget()
                raise
            warnings.warn(
                f"The fit was interrupted; the model is that of batch {self.n_iter_} of {self.max_iter}.",
                UserWarning,
                stacklevel=2,
            )
            return self
        if self.pursuit != "lasso":
            assert self._stream is not None
            scale = self._stream.scale
            self._after_fit(data.scaled(scale), rng, _passes.count_jobs(self.n_jobs), scale)
        return self

    def _forget(self) -> None:
        for name in ("components_", "history_", "_stream"):
            self.__dict__.pop(name, None)

    def partial_fit(self, Xs: Sequence[npt.ArrayLike], y: object = None) -> Self:
        """Learn from one batch of samples.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or Views
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        self._learn_more(self._check_batch(Xs), self.forgetting)
        return self

    def _batch_statistics(self, coder: Coder, samples: Samples, n_jobs: int) -> _passes.Statistics:
        if self.pursuit != "lasso":
            return super()._batch_statistics(coder, samples, n_jobs)
        views = samples.read(0, len(samples))
        codes = self._lasso(list(range(len(views))), views)
        residuals = [view - codes @ d for view, d in zip(views, self.components_, strict=True)]
        energies = [float(np.sum(np.square(r, dtype=np.float64))) for r in residuals]
        dense = codes.toarray().astype(np.float64)
        return _passes.Statistics(
            n_samples=len(samples),
            sums=[Sums(dense.T @ dense, dense.T @ np.hstack(views).astype(np.float64))],
            uses=np.count_nonzero(dense, axis=0).astype(np.int64),
            energy=float(self.view_weights_ @ energies),
            n_nonzeros=int(codes.nnz),
            view_energy=np.array([float(np.sum(np.square(v, dtype=np.float64))) for v in views]),
            worst=Worst.none(),
        )

    def _lasso(self, present: list[int], views: list[Array]) -> csr_array:
        """Return l1 codes over the weighted views side by side, by scikit-learn."""
        from sklearn.decomposition import sparse_encode

        scales = np.sqrt(self.view_weights_[present])
        joint = np.hstack([view * scale for view, scale in zip(views, scales, strict=True)])
        atoms = np.hstack([self.components_[v] * scale for v, scale in zip(present, scales, strict=True)])
        codes = sparse_encode(
            np.asarray(joint, np.float64), np.asarray(atoms, np.float64), algorithm="lasso_cd", alpha=self.alpha
        )
        return csr_array(codes.astype(self.components_[0].dtype))

    def _encode(self, present: list[int], views: list[Array]) -> tuple[list[csr_array], _passes.Coded]:
        if self.pursuit != "lasso":
            return super()._encode(present, views)
        codes = self._lasso(present, views)
        residuals = [view - codes @ self.components_[v] for v, view in zip(present, views, strict=True)]
        energy = sum(
            self.view_weights_[v] * np.sum(np.square(r, dtype=np.float64), axis=1)
            for v, r in zip(present, residuals, strict=True)
        )
        status = np.zeros(len(views[0]), np.uint8)
        coded = _passes.Coded(codes.indptr.astype(np.int64), codes.indices, [codes.data], np.asarray(energy), status)
        return as_csr(coded, codes.shape[1]), coded
