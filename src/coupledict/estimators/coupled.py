"""Coupled dictionary learning as an estimator: learns one dictionary per view."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal, Self

from ..foundation.choices import Coupling, Normalize, PredictorName, Pursuit, UnusedAtoms, UpdateName
from ..foundation.missing import Missing
from ..foundation.parameters import BOOLEAN, Constraints
from ..foundation.progress import Callback
from ..foundation.views import ViewsLike, list_views, view_names
from ..learning.schedule import Growth, Schedule
from ..learning.settings import LEARNING_CONSTRAINTS, PositiveDict, ViewWeights
from ..learning.start import Init
from .opening import open_all_views
from .several_views import SeveralViews

#: Parameters with which :class:`CoupledDictionaryLearning` is exactly Algorithm 1 of the paper: the sequential update,
#: the linear schedule, the cosine start, the mean residual for unused atoms, and norm 1 in each view.
PAPER: dict[str, Any] = {
    "update": "sequential",
    "schedule": "linear",
    "growth": None,
    "init": "dct",
    "unused_atoms": "mean",
    "normalize": "views",
    "coupling": "code",
    "pursuit": "omp",
    "view_weights": None,
    "scale": None,
    "predictor": "dictionary",
}


class CoupledDictionaryLearning(SeveralViews):
    """Learn dictionaries for two or more views of the same samples, so that one sparse code explains all views.

    Minimises, over dictionaries ``D_v`` and codes ``C`` with at most T nonzeros per sample::

        sum_v w_v * ||X_v - C @ D_v||_F^2

    by alternating joint sparse coding of the samples with an update of the atoms. The default updates atoms from sums
    over the codes (``A = C.T @ C``, ``B_v = C.T @ X_v``), in passes over more and more samples; it reaches the error of
    the paper's method many times sooner. ``CoupledDictionaryLearning(**PAPER)`` is the paper's Algorithm 1 [1]_.

    Parameters
    ----------
    n_components : int, optional
        Number of atoms in each dictionary. If left out, four times the features of the largest view, but at most 256
        unless that view has more features, and at most a quarter of the samples.
    n_nonzero_coefs : int, optional
        At most this many atoms per sample (the paper's T0); a tenth of the features if this and `tol` are left out.
        Where ``predictor="auto"`` uses codes, it chooses between this number, a half and a quarter of it.
    tol : float, optional
        Stop coding a sample when its squared joint residual is at most `tol` (the paper's epsilon, a squared norm). It
        is in the units of the samples: with `tol`, ``scale="auto"`` centres features but multiplies none, and weights
        are 1 unless `view_weights` says otherwise.
    max_iter : int, default=30
        Number of passes over the samples; with growing samples the early passes use only a part of them.
    scale : {"auto", None}, default="auto"
        Whether samples are standardized before learning and coding. ``"auto"`` subtracts the mean of each feature
        (`mean_`) and, if `view_weights` is left out, brings views to equal energy by their weights. In a view whose
        features have standard deviations that differ by more than a factor of 8, such as a table of quantities in
        different units, it also multiplies each feature by a power of two that brings them to comparable sizes.
        Results are in the units of the samples. With `tol` or `alpha`, which are in these units, too, it only centres.
        None takes samples as they are, and so does ``"auto"`` with `positive_code`, `positive_dict` or `constant_atom`.
        In a stream, the first batch of `partial_fit` decides.
    schedule : {"auto", "linear", "half", "constant"}, callable or list of int, default="auto"
        Maximal number of atoms per sample, for each iteration. ``"linear"`` rises from 1 to the limit (the paper's
        section II-C), ``"half"`` does so in the first half of the iterations. ``"auto"`` is ``"half"`` with growing
        samples and ``"linear"`` without, but ``"constant"`` if `tol` is given, because then the rise makes the result
        worse. A callable gets ``(iteration, max_iter, limit)`` and returns the number.
    growth : {"auto", None} or callable, default="auto"
        Number of samples that each pass uses. With ``update="statistics"``, ``"auto"`` grows geometrically from a
        fiftieth of the samples to all, in slices spread over all samples. None uses all samples in every pass, and so
        does ``"auto"`` with the other updates. A callable gets ``(iteration, max_iter, n_samples)`` and returns the
        number. Unless every pass uses all samples, they are coded in float32 while learning, whatever their own type,
        and with `tol` atoms move on after each pass in the direction of their change, by half of it.
    update : {"statistics", "sequential", "ksvd", "mod"}, default="statistics"
        How atoms are updated: ``"statistics"`` from sums over the codes, which stay fixed; ``"sequential"`` by the
        paper's rank-1 update, which also updates coefficients and residuals atom by atom (eq. 12-15); ``"ksvd"`` by
        exact K-SVD; ``"mod"`` by the method of optimal directions.
    pursuit : {"omp", "ols", "lasso"}, default="omp"
        As in :func:`coupledict.sparse_encode`. ``"lasso"`` needs `alpha`; `n_nonzero_coefs` and `tol` must be left out.
    alpha : float, optional
        Penalty of ``pursuit="lasso"``, as in :func:`coupledict.sparse_encode`.
    positive_code : bool, default=False
        Whether coefficients are not negative, as in :func:`coupledict.sparse_encode`. Not with ``update="ksvd"``.
    positive_dict : bool or list of bool, default=False
        Whether atoms are not negative: in all views, or for each view. With ``update="statistics"`` or
        ``"sequential"``; the others cannot keep it. Samples may be negative all the same. The dictionaries that
        `predict` uses with ``predictor="ridge"`` come from a regression, and may have negative entries.
    init : {"auto", "dct", "samples", "random"} or list of arrays, default="auto"
        Dictionaries to start from. ``"auto"`` is the cosine dictionary if all views are square patches of one size and
        either `tol` is given or the update is not ``"statistics"``, and paired samples otherwise: each is the better
        start in its case. In views with non-negative atoms, ``"samples"`` are positive parts of samples, ``"random"``
        is not negative, and ``"dct"`` is refused.
    normalize : {"joint", "views"}, default="joint"
        Which norm of an atom is 1. ``"joint"``: that over all views that share their coefficients, weighted,
        ``sum_v w_v * ||d_v||^2 = max_v w_v``, so that learning finds how the energy of an atom is divided among the
        views. Only the ratios of weights in a list count. With balanced weights the sum is 1, so that atoms have the
        scale of the samples. ``"views"``: that in each view (the paper). With ``coupling="support"`` each view has
        coefficients of its own, and both are the same. Norms are those over features as `scale` multiplies them.
    coupling : {"code", "support"}, default="code"
        ``"code"``: one code for all views (the paper). ``"support"``: the same atoms in all views, but coefficients of
        its own for each view (simultaneous OMP); `transform` then returns a list of codes.
    missing : {"error", "nan"}, default="error"
        ``"nan"``: NaN stands for a missing entry, and a row of NaN in a view for a view that the sample lacks. Samples
        are coded by what they know, as in :func:`coupledict.sparse_encode`, and teach the dictionaries of the views
        that they have. ``"error"``: NaN is an error, except where a masked array or a nullable column of a table marks
        entries as missing. Infinity always is.
    view_weights : "balanced" or list of float, optional
        Weights ``w_v``. ``"balanced"`` is 1 over the mean squared norm of each view, as standardized by `scale`, so
        that all views count equally. If left out, they are balanced if samples are standardized, unless `tol` or
        `alpha` is given, and 1 otherwise.
    unused_atoms : {"keep", "late", "worst", "mean"}, default="keep"
        What happens to atoms that no sample used. ``"keep"``: nothing. ``"worst"``: the worst represented samples
        replace them, in all iterations but the last. ``"late"``: the same, but only in the second half of the
        iterations. ``"mean"``: the mean residual replaces them (the paper's rule; only with ``update="sequential"`` or
        ``"ksvd"``). With the default update and start hardly any atom is unused, and the rules do equally well.
    constant_atom : bool, default=False
        Whether the first atom is constant in each view (DC) and stays so.
    predictor : {"auto", "ridge", "dictionary"}, default="auto"
        How `predict` computes a view from the others. ``"auto"``: by a weighted mean of up to five regressions: linear
        in the given views; in these and their sparse code; in these and their similarity to representative samples;
        linear maps of each neighbourhood of the samples, added to the first; and such maps alone. Settings and weights
        are those with the smallest error on samples held out (`prediction_scores_`); afterwards all samples count, up
        to 16,384 of them or 64 per atom. ``"ridge"``: by a dictionary fitted after learning, by ridge regression of
        each view on codes of the other views alone. ``"dictionary"``: by the learned dictionary (the paper); with joint
        norms, an atom of which the given views have a share s below one half of the energy that it has in them and in
        the wanted view is multiplied by 2 s, because codes over atoms that are small in the given views are mostly
        noise. With ``coupling="support"`` there is no common code to predict from.
    ridge_alpha : float or "auto", default="auto"
        Penalty of the regression of ``predictor="ridge"``, relative to the mean of the diagonal of ``C.T @ C``.
        ``"auto"`` takes the one with the smallest generalised cross-validation error, for each view and each set of
        source views: it is large where few samples have the view.
    sparse_output : bool, default=True
        Return codes as ``scipy.sparse.csr_array``; False gives dense arrays, and then ``set_output`` works.
    stop_tol : float, default=0
        Stop early when the objective falls by less than this share from one full pass to the next; 0 never stops early.
    warm_start : bool, default=False
        Whether to start from the dictionaries of the previous fit.
    n_jobs : int, optional
        Number of threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Determines the order of samples and random starts. The same integer gives the same result, to the last bit.
    verbose : int, default=0
        1 shows each iteration: as a progress bar on a terminal, as lines elsewhere. Then it prints how well views
        predict each other (`prediction_scores_`).
    callback : callable, optional
        Called after each iteration with a :class:`coupledict.LearningProgress`: `completed` and `total` (iterations),
        `components` and `history`. If it returns a true value, the fit stops and keeps what was learned so far.

    Attributes
    ----------
    components_ : list of arrays of shape (n_components, n_features_v)
        The dictionaries. Atoms are rows, of the norm that `normalize` says; atom t of one view belongs to atom t of
        the others, and may be small in one of them. They are in the units of the samples: codes times atoms, plus
        `mean_`, rebuild a view. If views were given by name, ``components_["name"]`` is the dictionary of that view.
    mean_ : list of arrays of shape (n_features_v,)
        What was subtracted from the samples: means of the features, or zeros where samples are taken as they are.
    view_weights_ : array of shape (n_views,)
        The weights that were used, of views as standardized by `scale`.
    history_ : list of dict
        For each iteration: ``seconds`` since the fit began (without callbacks), ``limit``, ``n_samples``,
        ``mean_nonzeros``, ``objective`` (the weighted squared error of the codes, with the dictionaries that they were
        computed with; for the lasso plus ``2 * alpha`` times the sum of the absolute coefficients), ``error`` (the
        square root of the squared error divided by n_samples, as the paper plots it), ``rms`` (the square root of its
        mean over the samples), ``view_errors`` (``error`` of each view, not weighted), ``unused`` (the number of atoms
        that no sample used).
    n_iter_ : int
        Number of iterations that were done.
    prediction_scores_ : list of dict
        With ``predictor="auto"``, how well views predict each other, on samples held out: one dict for each set of
        source views (each view alone, and all but one) and each other view. ``sources`` and ``target`` are names or
        numbers of views, ``n_samples`` is the number of samples held out; ``r2`` and ``rmse`` are the coefficient of
        determination and the root of the mean squared error of the prediction, ``ridge_r2``, ``ridge_rmse``,
        ``mean_r2`` and ``mean_rmse`` those of ridge regression and of the mean, for comparison. ``shares`` has the
        weights of the five regressions: ``ridge``, ``codes``, ``kernel``, ``ridge_maps`` and ``mean_maps``. Errors are
        those of features as multiplied by `scale`. With fewer than ten samples nothing is held out, and ``n_samples``
        is 0. Empty with other predictors.
    predictors_ : dict
        With ``predictor="ridge"``, for each tuple of source views, the refitted dictionaries that `predict` uses: a
        dict from the number of the target view to its dictionary. With ``missing="nan"`` and more than two views, the
        empty tuple stands for whatever other views a sample has. Empty with other predictors.
    n_features_in_ : list of int
        Number of features of each view.
    view_names_in_ : tuple of str
        Names of the views; only set if they were given by name.
    view_feature_names_in_ : list of arrays of str, or None
        Names of the features of each view, None for a view without; only set if a view was a table with such names.

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

    Views may have names:

    >>> learner = learner.fit({"left": views[0], "right": views[1]})
    >>> learner.components_["right"].shape
    (8, 9)
    >>> learner.predict({"left": views[0]}, view="right").shape
    (500, 9)
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **SeveralViews._parameter_constraints,
        **{
            name: LEARNING_CONSTRAINTS[name]
            for name in ("schedule", "growth", "update", "unused_atoms", "stop_tol", "scale")
        },
        "warm_start": (BOOLEAN,),
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        max_iter: int = 30,
        scale: Literal["auto"] | None = "auto",
        schedule: Schedule = "auto",
        growth: Growth = "auto",
        update: UpdateName = "statistics",
        pursuit: Pursuit = "omp",
        alpha: float | None = None,
        positive_code: bool = False,
        positive_dict: PositiveDict = False,
        init: Init = "auto",
        normalize: Normalize = "joint",
        coupling: Coupling = "code",
        missing: Missing = "error",
        view_weights: ViewWeights = None,
        unused_atoms: UnusedAtoms = "keep",
        constant_atom: bool = False,
        predictor: PredictorName = "auto",
        ridge_alpha: float | Literal["auto"] = "auto",
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
        self.scale = scale
        self.schedule = schedule
        self.growth = growth
        self.update = update
        self.pursuit = pursuit
        self.alpha = alpha
        self.positive_code = positive_code
        self.positive_dict = positive_dict
        self.init = init
        self.normalize = normalize
        self.coupling = coupling
        self.missing = missing
        self.view_weights = view_weights
        self.unused_atoms = unused_atoms
        self.constant_atom = constant_atom
        self.predictor = predictor
        self.ridge_alpha = ridge_alpha
        self.sparse_output = sparse_output
        self.stop_tol = stop_tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(
        self,
        X: ViewsLike,
        y: object = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 1,
        resume: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn the dictionaries.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            The views; row i of each belongs to the same sample. :class:`coupledict.views.Views` wraps such a list or
            dict for tools that split samples; tables of pandas and polars are accepted as arrays with names, and
            arrays of PyTorch, JAX and others are read in place. Samples that do not fit in memory can be Zarr, HDF5 or
            memory-mapped arrays, a sequence of chunks (each a list or dict of arrays, one per view), a callable that
            returns a fresh iterator over such chunks, or Dask arrays, which the current ``distributed.Client``
            processes. All of these need ``update="statistics"`` or ``"mod"``, and are read once per iteration, and once
            before the first.
        y : ignored
            Accepted for pipelines.
        checkpoint : path, optional
            File for the state of the fit, from which it can be resumed. It is always replaced completely.
        checkpoint_every : int, default=1
            Number of iterations from one checkpoint to the next.
        resume : path, optional
            Checkpoint to resume from, with the same parameters and samples. The result is the same as without the
            interruption, to the last bit.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._check_arguments("fit", X, y)
        data = open_all_views(list_views(X), view_names(X), self.missing)
        go_on_from = list(self.components_) if self.warm_start and hasattr(self, "components_") else None
        self._learn(
            data, go_on_from=go_on_from, checkpoint=checkpoint, checkpoint_every=checkpoint_every, resume=resume
        )
        return self
