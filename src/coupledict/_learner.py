"""Coupled dictionary learning as an estimator: parameters in, dictionaries and history out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from . import _predict
from ._base import Normalize, ViewLearner, rebuild
from ._blocks import ArrayBlocks
from ._checkpoint import Checkpoint, read_checkpoint
from ._code_files import check_new
from ._containers import CodesMixin, check_names, keep_names
from ._data import Blocked, Chunked, Data, InMemory, open_views
from ._loop import State
from ._passes import count_jobs
from ._pursuit import Coupling, Pursuit, match_views
from ._schedule import Growth, Schedule
from ._views import Array, as_list, check_tol, check_views

ViewsLike: TypeAlias = Sequence[npt.ArrayLike] | Callable[[], Iterable[Sequence[npt.ArrayLike]]] | Any

#: Settings that make :class:`CoupledDictionaryLearning` Algorithm 1 of the paper to the letter: the sequential update,
#: the linear schedule, the cosine start, and the mean residual for unused atoms.
LETTER: dict[str, Any] = {
    "update": "sequential",
    "schedule": "linear",
    "growth": None,
    "init": "dct",
    "unused_atoms": "mean",
    "normalize": "views",
    "coupling": "code",
    "pursuit": "omp",
    "view_weights": None,
    "refit": False,
}


class CoupledDictionaryLearning(CodesMixin, ViewLearner):
    """Learn dictionaries for two or more views of the same samples, so that one sparse code explains all views.

    Minimises, over dictionaries ``D_v`` and codes ``C`` with at most T nonzeros a sample::

        sum_v w_v * ||X_v - C @ D_v||_F^2

    by turns: joint sparse coding of the samples, then an update of the atoms. The default updates atoms from sums over
    the codes (``A = C.T @ C``, ``B_v = C.T @ X_v``) in passes over samples that grow in number; it reaches the error of
    the paper's method many times sooner. ``CoupledDictionaryLearning(**LETTER)`` is the paper's Algorithm 1 [1]_.

    Parameters
    ----------
    n_components : int, optional
        Number of atoms in each dictionary. Four times the features of the largest view if left out, at most 256 unless
        that view has more.
    n_nonzero_coefs : int, optional
        At most this many atoms a sample (the paper's T0). If both this and `tol` are left out, a tenth of the features.
    tol : float, optional
        Stop coding a sample when its squared joint residual is at most `tol` (the paper's epsilon, a squared norm).
    max_iter : int, default=30
        Iterations.
    schedule : {"auto", "linear", "half", "constant"}, callable or list of int, default="auto"
        Most atoms a sample may use in each iteration. ``"linear"`` rises from 1 to the limit (the paper's section
        II-C), ``"half"`` does so in the first half of the iterations. ``"auto"`` is ``"half"`` with growing samples and
        ``"linear"`` without, but ``"constant"`` where `tol` is given, for there the rise does harm. A callable gets
        ``(iteration, max_iter, limit)``.
    growth : {"auto", None} or callable, default="auto"
        Samples that each pass sees. ``"auto"`` with ``update="statistics"`` grows geometrically from a fiftieth to all,
        in slices spread over all samples; None is all samples in every pass, and what ``"auto"`` means for the other
        updates. A callable gets ``(iteration, max_iter, n_samples)``.
    update : {"statistics", "sequential", "ksvd", "mod"}, default="statistics"
        How atoms change: from sums with frozen codes; by the paper's rank-1 update, which repairs coefficients and
        residuals atom by atom (eq. 12-15); by exact K-SVD; by the method of optimal directions.
    pursuit : {"omp", "ols"}, default="omp"
        As in :func:`coupledict.sparse_encode`.
    init : {"auto", "dct", "samples", "random"} or list of arrays, default="auto"
        Where learning starts. ``"auto"`` is the cosine dictionary where all views are square patches of one size and
        either `tol` is given or the update is not ``"statistics"``, and paired samples otherwise: each is the better
        start there.
    normalize : {"views", "joint"}, default="views"
        Norm 1 of each atom in each view (the paper), or over all views, weighted.
    coupling : {"code", "support"}, default="code"
        One code for all views (the paper), or one support with coefficients for each view (simultaneous OMP);
        `transform` then returns a list of codes.
    view_weights : "balanced" or list of float, optional
        Weights ``w_v``; 1 if left out. ``"balanced"`` is 1 over the mean squared norm of each view, so that all views
        count alike.
    unused_atoms : {"keep", "late", "worst", "mean"}, default="keep"
        What becomes of atoms that no sample used: they stay; worst represented samples take their place in the second
        half of the iterations, or in all; or the mean residual does (the paper's rule, only with updates that keep
        residuals). With the default update and start hardly any atom is unused and the rules tie.
    constant_atom : bool, default=False
        Make the first atom constant in each view (DC) and leave it so.
    refit : bool, default=True
        After learning, fit for `predict` a dictionary for each view by ridge regression on codes made from the other
        views alone. Not with ``coupling="support"``, where there is no common code to predict from.
    refit_alpha : float, default=1e-3
        Ridge penalty of the refit, relative to the mean squared use of an atom.
    sparse_output : bool, default=True
        Return codes as ``scipy.sparse.csr_array``; False gives dense arrays, and then ``set_output`` works.
    stop_tol : float, default=0
        Stop early when the objective falls by less than this share from one full pass to the next; 0 never does.
    warm_start : bool, default=False
        Start from the dictionaries of the fit before.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Source of the order of samples and of random starts. The same number gives the same result, to the last bit.
    verbose : int, default=0
        1 shows each iteration: a progress bar on a terminal, lines elsewhere.
    callback : callable, optional
        Called after each iteration with a state that has `iteration`, `n_iter`, `components` and `history`; the fit
        stops when it returns a true value.

    Attributes
    ----------
    components_ : list of arrays of shape (n_components, n_features_v)
        The dictionaries; atoms are rows, atom t of one view is the partner of atom t of the others.
    view_weights_ : array of shape (n_views,)
        The weights that were used.
    history_ : list of dict
        For each iteration: ``seconds`` since the fit began (without callbacks), ``limit``, ``n_samples``,
        ``mean_nonzeros``, ``objective`` (the weighted squared error of the codes over the dictionaries they were made
        with), ``error`` (its square root over n_samples, as the paper plots), ``rms`` (the root of its mean),
        ``view_errors``, ``unused``.
    n_iter_ : int
        Iterations that were done.
    n_features_in_ : list of int
        Features of each view.
    view_feature_names_in_ : list of arrays of str, or None
        Names of the features of each view, where at least one view was a table that had them.

    See Also
    --------
    DictionaryLearning : The same for a single view.
    OnlineDictionaryLearning : Learning from batches that arrive one after the other.

    References
    ----------
    .. [1] F. G. Veshki and S. A. Vorobyov, "A Fast Dictionary Learning Method for Coupled Feature Space Learning",
       IEEE Signal Processing Letters 26(10), 2019. doi:10.1109/LSP.2019.2934045

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import CoupledDictionaryLearning
    >>> rng = np.random.default_rng(0)
    >>> sources = rng.standard_normal((500, 4)) * (rng.random((500, 4)) < 0.5)
    >>> views = [sources @ rng.standard_normal((4, 6)), sources @ rng.standard_normal((4, 9))]
    >>> learner = CoupledDictionaryLearning(8, n_nonzero_coefs=4, random_state=0).fit(views)
    >>> codes = learner.transform([views[0], None])
    >>> codes.shape
    (500, 8)
    >>> predicted = learner.predict([views[0], None], view=1)
    >>> bool(np.mean((predicted - views[1]) ** 2) < 0.1 * np.mean(views[1] ** 2))
    True
    """

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
        normalize: Normalize = "views",
        coupling: Coupling = "code",
        view_weights: str | Sequence[float] | npt.NDArray[Any] | None = None,
        unused_atoms: str = "keep",
        constant_atom: bool = False,
        refit: bool = True,
        refit_alpha: float = 1e-3,
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
        self.normalize = normalize
        self.coupling = coupling
        self.view_weights = view_weights
        self.unused_atoms = unused_atoms
        self.constant_atom = constant_atom
        self.refit = refit
        self.refit_alpha = refit_alpha
        self.sparse_output = sparse_output
        self.stop_tol = stop_tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    n_features_in_: list[int]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_tol(self.refit_alpha, "refit_alpha")

    def fit(
        self,
        Xs: ViewsLike,
        y: object = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 1,
        resume: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn the dictionaries.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or Views
            The views; row i of each belongs to the same sample. :class:`coupledict.views.Views` is such a list for
            tools that split samples, and tables of pandas and polars are arrays with names. Samples that do not fit in
            memory come as a list of Zarr, HDF5 or memory-mapped arrays, as a sequence of chunks (each a list of arrays,
            one a view), as a callable that returns a fresh iterator over such chunks, or as Dask arrays, which are
            worked on by the current ``distributed.Client``. All of them need ``update="statistics"`` or ``"mod"``, and
            are read once an iteration.
        y : ignored
            Accepted for pipelines.
        checkpoint : path, optional
            File that keeps the state of the fit, so that it can be resumed. It is replaced as a whole.
        every : int, default=1
            Iterations between two checkpoints.
        resume : path, optional
            Checkpoint to go on from, with the same parameters and samples. The result is that of a fit that was never
            stopped, to the last bit.

        Returns
        -------
        self
        """
        data = self._open(Xs) or InMemory(self._check_all_views(Xs))
        if len(data.present) < data.n_views:
            absent = min(set(range(data.n_views)) - set(data.present))
            raise ValueError(f"Expected every view to be present in fit, got None for view {absent}.")
        self._check_parameters()
        saved = None if resume is None else read_checkpoint(resume, self)
        self._learn(data, saved, Checkpoint.at(checkpoint, every))
        keep_names(self, as_list(Xs) if isinstance(data, InMemory) else [])
        return self

    def partial_fit(self, Xs: Sequence[npt.ArrayLike], y: object = None) -> Self:
        """Learn from one more batch of samples; see :class:`OnlineDictionaryLearning`.

        Atoms follow running sums over the batches; `schedule`, `growth`, `update` and `unused_atoms` play no part.
        After `fit` it goes on from the dictionaries learned there. The refitted dictionaries of `predict` are dropped:
        they belong to the dictionaries before.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or Views
            The batch.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        self._learn_more(self._check_batch(Xs), forgetting=0.0)
        return self

    def _check_batch(self, Xs: object) -> list[Array]:
        views = self._check_all_views(Xs)
        if hasattr(self, "components_"):
            check_names(self, as_list(Xs))
        else:
            keep_names(self, as_list(Xs))
        widths = [view.shape[1] for view in views]
        if hasattr(self, "components_") and widths != self.n_features_in_:
            raise ValueError(f"Expected views of {self.n_features_in_} features, as before, got {widths}.")
        if views[0].shape[0] == 0:
            raise ValueError("Expected at least one sample in Xs, got 0.")
        self.n_features_in_ = widths
        self._refitted: dict[tuple[int, ...], dict[int, Array]] = {}
        return views

    @staticmethod
    def _check_all_views(Xs: object) -> list[Array]:
        checked = check_views(Xs, "Xs", single=False)
        views: list[Array] = []
        for v, view in enumerate(checked):
            if view is None:
                raise ValueError(f"Expected every view to be present in fit, got None for Xs[{v}].")
            if view.shape[1] == 0:
                raise ValueError(f"Expected Xs[{v}] to have at least one feature, got shape {view.shape}.")
            if views and view.shape[0] != views[0].shape[0]:
                raise ValueError(
                    "Expected the same number of samples in every view, got"
                    f" {views[0].shape[0]} and {view.shape[0]} (Xs[{v}])."
                )
            views.append(view)
        if not views:
            raise ValueError("Expected at least one view in Xs, got an empty list.")
        return views

    def _fresh(self, data: Data) -> dict[str, Any]:
        return super()._fresh(data) | {"n_features_in_": list(data.widths), "_refitted": {}}

    def _after_fit(self, data: Data, rng: np.random.Generator, n_jobs: int, scale: float = 1.0) -> None:
        if self.refit and self.coupling == "code" and len(data.widths) > 1:
            self._refitted = _predict.refit(
                data,
                self.components_,
                self.view_weights_,
                n_nonzero=self.n_nonzero_coefs,
                tol=self._scaled_tol(scale),
                pursuit=self.pursuit,
                alpha=float(self.refit_alpha),
                n_jobs=n_jobs,
                rng=rng,
            )

    def _present(self, Xs: object) -> tuple[list[int], list[Array]]:
        check_is_fitted(self, "components_")
        if isinstance(given := as_list(Xs), list | tuple):
            check_names(self, given)
        return match_views(Xs, list(self.components_), single=False, name="Xs")

    def transform(self, Xs: ViewsLike, *, out: str | os.PathLike[str] | None = None) -> Any:
        """Code samples from the views that are given.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or None for absent views, or Views
            Or samples that are not in memory, as `fit` takes them.
        out : path, optional
            Write the codes there, a part at a time, so that they need not fit in memory: to a Zarr group if the name
            ends in ``.zarr``, otherwise to a folder of ``.npz`` parts. The name appears when all is written.

        Returns
        -------
        csr_array, or array if ``sparse_output=False``, of shape (n_samples, n_components)
            Or a table, if ``set_output`` says so. With ``coupling="support"`` a list of them, one for each view that is
            given. With `out`, a :class:`coupledict.CodeFile`. For Dask arrays, a Dask array of such blocks.
        """
        check_is_fitted(self, "components_")
        if out is not None:
            check_new(out)  # before the samples are read
        data = self._open(Xs)
        if out is not None:
            if data is None:
                present, views = self._present(Xs)
                data = Blocked(ArrayBlocks.of(present, views, len(self.components_)))
            return self._write_codes(data, out)
        self._check_container()
        if data is not None:
            codes = data.codes(*self._chunked_recipe(data), count_jobs(self.n_jobs))
        else:
            codes, _ = self._encode(*self._present(Xs))
        return self._contained(codes[0] if self.coupling == "code" else codes, as_list(Xs))

    def _open(self, Xs: ViewsLike) -> Chunked | None:
        """Return samples that are not in memory, opened; None for those that are."""
        return open_views(as_list(Xs), single=False, name="Xs")

    @property
    def _n_features_out(self) -> int:
        return int(self.components_[0].shape[0])

    def fit_transform(self, Xs: ViewsLike, y: object = None) -> Any:
        """Learn the dictionaries and code the samples they were learned from.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v)
            As in `fit`.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        csr_array of shape (n_samples, n_components)
            As `transform` returns it.
        """
        return self.fit(Xs, y).transform(Xs)

    def inverse_transform(self, codes: Any) -> list[Array]:
        """Rebuild all views from codes.

        Parameters
        ----------
        codes : sparse or dense array of shape (n_samples, n_components)
            With ``coupling="support"`` a list of them, one a view.

        Returns
        -------
        list of arrays of shape (n_samples, n_features_v)
        """
        check_is_fitted(self, "components_")
        tables = list(codes) if self.coupling == "support" else [codes] * len(self.components_)
        if len(tables) != len(self.components_):
            raise ValueError(f"Expected {len(self.components_)} codes, one a view, got {len(tables)}.")
        return [rebuild(table, d) for table, d in zip(tables, self.components_, strict=True)]

    def predict(self, Xs: ViewsLike, *, view: int) -> Any:
        """Predict one view from the others.

        The given views are coded, and the code is turned into the wanted view by its dictionary: the refitted one where
        there is one for just these source views (each view alone, and all but one), the learned one otherwise.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or None for absent views
            The wanted view need not be there, and is not looked at if it is.
        view : int
            Number of the wanted view.

        Returns
        -------
        array of shape (n_samples, n_features_view)
        """
        check_is_fitted(self, "components_")
        n_views = len(self.components_)
        if isinstance(view, bool) or not isinstance(view, int | np.integer) or not -n_views <= view < n_views:
            raise ValueError(f"Expected view to be the number of one of the {n_views} views, got {view!r}.")
        if self.coupling == "support":
            raise ValueError("With coupling='support' views have no code in common, so none can predict another.")
        wanted = int(view) % n_views
        data = self._open(Xs)
        if data is not None:
            recipe, sources = self._chunked_recipe(data, without=wanted)
            atoms = self._atoms_for([data.present[i] for i in sources], wanted)
            return data.rebuilt(recipe, sources, atoms, count_jobs(self.n_jobs))
        present, views = self._present(Xs)
        places = [i for i, v in enumerate(present) if v != wanted]
        if not places:
            raise ValueError(f"Expected at least one view other than the wanted one ({wanted}) in Xs, got none.")
        weighty = [i for i in places if self.view_weights_[present[i]] > 0]
        places = weighty or places
        present, views = [present[i] for i in places], [views[i] for i in places]
        codes, _ = self._encode(present, views)
        return rebuild(codes[0], self._atoms_for(present, wanted))

    def _atoms_for(self, sources: list[int], wanted: int) -> Array:
        """Return the dictionary that turns codes of some views into the wanted one."""
        atoms: Array = self._refitted.get(tuple(sources), {}).get(wanted, self.components_[wanted])
        return atoms

    def score(self, Xs: ViewsLike, y: object = None) -> float:
        """Return the share of the weighted energy of the views that their codes explain; 1 is perfect.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or None for absent views
            As in `transform`.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        float
        """
        check_is_fitted(self, "components_")
        data = self._open(Xs)
        return self._explained(*self._present(Xs)) if data is None else self._explained_chunked(data)

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
        tags.input_tags.two_d_array = False  # a list of them
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
