"""Cross-modal matching as an estimator: rank samples of one view by their similarity to samples of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from ..estimators.ensemble import seeds
from ..estimators.keeping import keep_fitted
from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin, describe_names, restore_names
from ..estimators.tables import feature_names
from ..files.packing import describe_classes, read_classes
from ..files.state import ModelState, make_estimator
from ..foundation.arrays import Array
from ..foundation.checks import check_count
from ..foundation.mapped import in_memory
from ..foundation.missing import MISSING, Missing
from ..foundation.parameters import (
    BOOLEAN,
    COUNT,
    NON_NEGATIVE,
    NONE,
    PENALTY,
    SHARE,
    Choice,
    Constraints,
    Integer,
    OnePerView,
)
from ..foundation.progress import Callback, Meter
from ..foundation.views import (
    SPLIT_HINT,
    ViewArrays,
    ViewLike,
    ViewsLike,
    list_views,
    refuse_loose_views,
    refuse_others,
    view_names,
    view_number,
)
from ._checks import (
    Compare,
    Names,
    check_all_views,
    check_compare,
    check_labels,
    check_pairs,
    check_partners,
    one_hot_labels,
)
from ._comparing import Sides
from ._fitted import FittedMatcher
from ._fitting import Plan, fit_matcher
from ._index import GalleryIndex
from ._preprocessing import Preprocess, preprocess_of_views
from ._ranking import Indices
from ._sides import SidesMixin, is_single
from ._whitening import has_view


class CrossModalMatcher(SidesMixin, RunMixin, SavedMixin, BaseEstimator):  # type: ignore[misc]
    """Rank samples given in one view by their similarity to samples given in another, such as pictures for texts.

    Views are centred and whitened, and dictionaries are learned for them so that one sparse code explains all views of
    a sample [1]_. At matching time, a query has one view and the gallery another. The code of one view predicts the
    other, by a ridge regression fitted to codes made in the same way, and the prediction is compared with the actual
    view by the cosine. This can be done in both views, predicting the gallery's view from the query and the query's
    view from the gallery. The predictions of several dictionaries, which differ only in their random start, are
    averaged: each is a rough partition of the samples, and their mean is a finer one. Predictions by kernel ridge
    regression are averaged with them (`kernel_weight`). Views with the same features can also be compared directly
    (`direct_weight`).

    What a user leaves open is chosen by cross-validation on the training samples. See the notes for its cost.

    Labels, if given, are one more view (one-hot indicators), predicted from either side. Samples are then compared by
    the probability that their classes are the same.

    With ``semi_coupled=True``, each view has a dictionary of its own, and a ridge regression maps codes to codes, as in
    semi-coupled [2]_ and generalised coupled [3]_ dictionary learning. Samples then need not come in pairs: with labels
    for each view, the codes of one view are mapped to the mean codes of their classes in the other.

    Parameters
    ----------
    n_components : int, optional
        Atoms of each dictionary; by default a quarter of the samples, but at least 64 and at most 256. If samples lack
        views, the mean of the samples with the rarest view and of those with all views counts.
    n_nonzero_coefs : int, default=8
        At most this many atoms in the code of a sample.
    n_dictionaries : int, default=10
        Number of dictionaries, learned from different starts, whose predictions are averaged.
    semi_coupled : bool, default=False
        False: one code for all views. True: a dictionary for each view, and maps between their codes.
    compare : {"auto", "both", "target", "source", "codes", "labels"} or int, default="auto"
        Where query and gallery are compared. ``"target"``: in the view of the gallery, predicted from the query.
        ``"source"``: in the view of the query, predicted from the gallery. ``"both"``: the mean of the two. An integer:
        in the view of that number; if it is neither source nor target, it is predicted from both. ``"labels"``: by the
        probability that both are of one class. ``"codes"``: by the cosine of codes, or of mapped codes with
        ``semi_coupled=True``. ``"auto"`` is ``"labels"`` if `fit` had labels. Otherwise it is ``"both"``, or for two
        views the one of them that validation prefers.
    preprocess : {"auto", None, "center", "standardize"}, or these for each view in a list or a dict, default="auto"
        Preprocessing of each sample by itself. ``"center"``: its mean over the features is subtracted, such as the
        brightness of a picture. ``"standardize"``: it is divided by its standard deviation as well, such as the
        contrast; constant samples become 0. None: nothing. ``"auto"``: what validation prefers; views with fewer than 8
        features are left as they are.
    whiten : bool, default=True
        Divide the principal components of each view by ``sqrt(variance + whiten_shrinkage * mean variance)``. If
        False, views are only centred and scaled as a whole.
    whiten_shrinkage : float, optional
        See `whiten`; by default chosen by validation from 0.1 to 100, and 3 unless another is better. Larger values
        change the views less. Only with ``whiten=True``.
    kernel_weight : float, optional
        Weight of kernel ridge regression in predictions, from 0 to 1; the dictionaries have the rest. Chosen by
        validation if left out. With 0, dictionaries predict alone.
    direct_weight : float, optional
        Weight of the direct comparison of query and gallery, from 0 to 1; the comparison with predictions has the rest.
        It is possible only for views with the same number of features, with ``compare="both"`` or ``"auto"`` without
        labels, and for queries in one view. Directions in which partners differ count less. Chosen by validation if
        left out.
    ridge_alpha : float, default=0.1
        Ridge penalty of the maps from codes, relative to the mean squared use of an atom.
    label_weight : float, optional
        Weight of the labels in learning, where each view has weight 1; 1 by default. Only with labels, and not with
        ``semi_coupled=True``.
    max_iter : int, default=30
        Iterations of dictionary learning.
    missing : {"error", "nan"}, default="error"
        ``"nan"``: a row of NaN in a view means that the sample lacks the view; single NaN entries are an error. Each
        sample contributes to the dictionaries of the views that it has; the maps between views are learned from samples
        that have both. Queries in several views may lack some of them. ``"error"``: NaN is an error, except for rows
        that a masked array or nullable columns mark as missing. Infinity is always an error.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Source of the starts of learning. The same number gives the same result, to the last bit.
    verbose : int, default=0
        1 shows how far `fit`, `similarity`, `match` and `score` have come.
    callback : callable, optional
        Called as ``callback(progress)`` while these methods work; a true return value stops them by
        :class:`coupledict.StoppedByCallback`, and the results of an earlier fit stay.

    Attributes
    ----------
    preprocess_ : list of None, "center" or "standardize"
        Preprocessing of each sample, for each view.
    whiten_shrinkage_, kernel_weight_, direct_weight_ : float
        The values that are used; there is no `whiten_shrinkage_` with ``whiten=False``.
    components_ : list of lists of arrays of shape (n_components, n_whitened_features_v)
        For each of the `n_dictionaries`, one dictionary per view, of whitened features; if the views have names,
        ``components_[0]["text"]`` is one of them.
    classes_ : array of shape (n_classes,)
        The classes, if `fit` had labels.
    n_features_in_, view_names_in_, view_feature_names_in_
        As in :class:`coupledict.CoupledDictionaryLearning`.

    See Also
    --------
    CoupledDictionaryLearning : The learner behind it.

    Notes
    -----
    Validation uses samples that have every view: up to 600 in three or four folds for some thirty trials with the
    kernel alone, which take a second or two for two views, and up to 2000 for up to twelve dictionaries, which
    determine the weight of the kernel. In total, a fit takes two to three times as long as one where `preprocess`,
    `whiten_shrinkage`, `kernel_weight`, `direct_weight` and `compare` are given. With fewer than 16 samples, nothing is
    tried. A setting changes only if the scores of the same samples improve by more than their standard error. The folds
    do not depend on `random_state`: the same samples lead to the same choice.

    `fit` keeps a whitened copy of the views while it learns. Whitening takes the eigenvectors of a matrix as large as
    the smaller of features and samples. The kernel is that of at most 2048 training samples, which the matcher keeps.
    `match` reads the gallery in blocks: in addition to input and output it needs the queries' predictions and about
    200 MB, whatever the size of the gallery. For many searches in one gallery, use :meth:`index`.

    References
    ----------
    .. [1] F. G. Veshki and S. A. Vorobyov, "A Fast Dictionary Learning Method for Coupled Feature Space Learning",
       IEEE Signal Processing Letters 26(10), 2019. doi:10.1109/LSP.2019.2934045
    .. [2] S. Wang, L. Zhang, Y. Liang and Q. Pan, "Semi-Coupled Dictionary Learning with Applications to Image
       Super-Resolution and Photo-Sketch Synthesis", CVPR 2012.
    .. [3] D. Mandal and S. Biswas, "Generalized Coupled Dictionary Learning Approach With Applications to Cross-Modal
       Matching", IEEE Transactions on Image Processing 25(8), 2016.

    Examples
    --------
    Match left halves of digits with right halves, among 300:

    >>> from sklearn.datasets import load_digits
    >>> from coupledict.matching import CrossModalMatcher
    >>> images = load_digits().images
    >>> halves = [images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)]
    >>> train, test = [half[:1497] for half in halves], [half[1497:] for half in halves]
    >>> matcher = CrossModalMatcher(n_dictionaries=3, random_state=0).fit(train)
    >>> matcher.match(test[0], test[1], n_matches=5).shape
    (300, 5)
    >>> matcher.score(test) > 0.2
    True

    Use views by name, and predict right halves:

    >>> matcher = CrossModalMatcher(n_dictionaries=3, random_state=0).fit({"left": train[0], "right": train[1]})
    >>> matcher.match(test[0], test[1], source="left", target="right").shape
    (300, 300)
    >>> matcher.predict({"left": test[0]}, view="right").shape
    (300, 32)
    """

    classes_: Array
    components_: list[ViewArrays]

    _parameter_constraints: ClassVar[Constraints] = {
        "n_components": (NONE, COUNT),
        "n_nonzero_coefs": (COUNT,),
        "n_dictionaries": (COUNT,),
        "semi_coupled": (BOOLEAN,),
        "preprocess": (OnePerView(NONE, Choice("auto", "center", "standardize"), named=True),),
        "whiten": (BOOLEAN,),
        "whiten_shrinkage": (NONE, NON_NEGATIVE),
        "kernel_weight": (NONE, SHARE),
        "direct_weight": (NONE, SHARE),
        "ridge_alpha": (PENALTY,),
        "label_weight": (NONE, PENALTY),
        "max_iter": (COUNT,),
        "compare": (Choice(Compare), Integer(0)),
        "missing": (MISSING,),
        **RunMixin._parameter_constraints,
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int = 8,
        n_dictionaries: int = 10,
        semi_coupled: bool = False,
        preprocess: Preprocess | Sequence[Preprocess] | Mapping[str, Preprocess] = "auto",
        whiten: bool = True,
        whiten_shrinkage: float | None = None,
        kernel_weight: float | None = None,
        direct_weight: float | None = None,
        ridge_alpha: float = 0.1,
        label_weight: float | None = None,
        max_iter: int = 30,
        compare: Compare | int = "auto",
        missing: Missing = "error",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.n_dictionaries = n_dictionaries
        self.semi_coupled = semi_coupled
        self.preprocess = preprocess
        self.whiten = whiten
        self.whiten_shrinkage = whiten_shrinkage
        self.kernel_weight = kernel_weight
        self.direct_weight = direct_weight
        self.ridge_alpha = ridge_alpha
        self.label_weight = label_weight
        self.max_iter = max_iter
        self.compare = compare
        self.missing = missing
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _check_combination(self) -> None:
        if self.whiten_shrinkage is not None and not self.whiten:
            raise ValueError(f"whiten_shrinkage={self.whiten_shrinkage} means nothing with whiten=False.")
        if self.label_weight is not None and self.semi_coupled:
            raise ValueError("label_weight means nothing with semi_coupled=True, which learns views apart.")

    def _check_use_of_labels(self, labelled: bool, paired: bool) -> None:
        if not paired and not self.semi_coupled:
            raise ValueError(
                "Labels for each view mean that views hold different samples, from which only semi_coupled=True can"
                " learn. Give one array of labels for pairs."
            )
        if self.label_weight is not None and not labelled:
            raise ValueError("label_weight needs labels: give y to fit.")

    def fit(self, X: ViewsLike, y: Any = None) -> Self:
        """Learn from samples given in every view, or with ``missing="nan"`` in some.

        Parameters
        ----------
        X : list of two or more arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            The views; row i of each belongs to the same sample. With ``missing="nan"``, a row of NaN stands for a view
            that the sample lacks. Arrays of PyTorch, JAX and others are read in place.
        y : array of shape (n_samples,), or such an array for each view in a list or a dict by name, optional
            Class labels. With ``semi_coupled=True``, labels for each view mean that the views hold different
            samples, possibly different numbers of them, which share only the classes.

        Returns
        -------
        self
        """
        self._check_parameters()
        refuse_loose_views("fit({})", X, y)
        names, given = view_names(X), list_views(X)
        views = check_all_views(given, self.missing, names)
        labels, paired = check_labels(y, views, names)
        if paired:
            check_pairs(given, y, names)
        self._check_use_of_labels(labels is not None, paired)
        check_compare(self.compare, len(views), labelled=labels is not None)
        classes, one_hot = (None, None) if labels is None else one_hot_labels(labels)
        by_labels = labels is not None and (not paired or self.compare in ("auto", "labels"))
        plan = Plan.of(self, preprocess_of_views(self.preprocess, len(views), names))
        starts = seeds(self.random_state, self.n_dictionaries)
        with self._watched() as callback:
            fitted = fit_matcher(views, one_hot, paired, by_labels, plan, starts, callback)
        keep_fitted(
            self,
            self._shown(fitted, names)
            | {"classes_": classes, "view_names_in_": names, "view_feature_names_in_": feature_names(given)},
        )
        return self

    @staticmethod
    def _shown(fitted: FittedMatcher, names: Names) -> dict[str, Any]:
        """Return the attributes that show what was fitted."""
        return {
            "components_": [ViewArrays(member.components, names) for member in fitted.members],
            "n_features_in_": fitted.widths,
            "preprocess_": list(fitted.choice.kinds),
            "whiten_shrinkage_": fitted.choice.shrinkage,
            "kernel_weight_": fitted.choice.kernel_weight,
            "direct_weight_": fitted.choice.direct_weight,
            "_fitted": fitted,
        }

    def similarity(
        self,
        queries: ViewLike | ViewsLike,
        gallery: ViewLike,
        *,
        source: int | str | Sequence[int | str] = 0,
        target: int | str = 1,
    ) -> Array:
        """Return the similarity of each query to each sample of the gallery.

        Parameters
        ----------
        queries : array of shape (n_queries, n_features_source), or several
            Samples in the source view; where `source` is a list, a list of one array per view, or a dict by name.
        gallery : array of shape (n_gallery, n_features_target)
            Samples in the target view.
        source : int, str, or list of them, default=0
            Number or name of the view of the queries; a list for queries in several views.
        target : int or str, default=1
            Number or name of the view of the gallery.

        Returns
        -------
        array of shape (n_queries, n_gallery)
            From -1 to 1, or probabilities with ``compare="labels"``. Larger means more similar.
        """
        sides = self._sides(queries, gallery, source, target)
        with self._watched() as callback:
            return sides.similarities(callback)

    def match(
        self,
        queries: ViewLike | ViewsLike,
        gallery: ViewLike,
        *,
        source: int | str | Sequence[int | str] = 0,
        target: int | str = 1,
        n_matches: int | None = None,
        return_similarity: bool = False,
    ) -> Indices | tuple[Indices, Array]:
        """Rank the gallery for each query.

        Parameters
        ----------
        queries, gallery, source, target
            As in :meth:`similarity`.
        n_matches : int, optional
            Return only this many of the best; all if left out, or if the gallery has fewer.
        return_similarity : bool, default=False
            Return the similarities as well.

        Returns
        -------
        indices : array of shape (n_queries, n_matches)
            Indices of samples of the gallery, the best first; of equally good ones, the lower index first.
        similarities : array of shape (n_queries, n_matches)
            Their similarities; only with ``return_similarity=True``.
        """
        most = None if n_matches is None else check_count(n_matches, "n_matches")
        sides = self._sides(queries, gallery, source, target)
        with self._watched() as callback:
            indices, similarities = sides.best(most, callback)
        return (indices, similarities) if return_similarity else indices

    def index(
        self,
        gallery: ViewLike,
        *,
        source: int | str | Sequence[int | str] = 0,
        target: int | str = 1,
    ) -> GalleryIndex:
        """Prepare a gallery for many searches.

        Parameters
        ----------
        gallery, source, target
            As in :meth:`similarity`. A memory map is read in blocks.

        Returns
        -------
        GalleryIndex
            Its method ``match(queries, n_matches=10)`` returns what :meth:`match` would, except for the rounding of
            similarities to float32.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from coupledict.matching import CrossModalMatcher
        >>> halves = load_digits().data.reshape(-1, 2, 32)
        >>> upper, lower = halves[:, 0], halves[:, 1]
        >>> matcher = CrossModalMatcher(n_dictionaries=2, random_state=0).fit([upper[:500], lower[:500]])
        >>> index = matcher.index(lower[500:])
        >>> index.match(upper[500:510], n_matches=3).shape
        (10, 3)
        """
        sources, target_view = self._direction(source, target)
        comparison = self._comparison(sources, target_view)
        checked = self._check_side(gallery, target_view, "gallery", keep_mapped=True)
        sides = Sides(self._fitted, {}, checked, target_view, comparison, self.n_jobs)
        with self._watched() as callback:
            vectors = sides.vectors(np.dtype(np.float32), callback)
        check = partial(copy(self)._queries, sources=sources, single=is_single(source))
        return GalleryIndex(self._fitted, vectors, comparison, target_view, check, self.n_jobs)

    def predict(self, X: ViewsLike, *others: object, view: int | str) -> Array:
        """Predict one view from another, or from others.

        Parameters
        ----------
        X : views, as in :meth:`fit`
            None for those that are absent; in a dict, they may be left out. The target view itself is ignored.
        *others : not accepted
            Raises an error: several views belong in one list.
        view : int or str
            Number or name of the target view.

        Returns
        -------
        array of shape (n_samples, n_features_view)
            In the units of the view. If its samples are preprocessed (`preprocess_`), their means and scales are
            unknown: all get the averages of the training samples.
        """
        check_is_fitted(self)
        refuse_others("predict({})", others)
        given, n_views = list_views(X, self._names), len(self.n_features_in_)
        if not isinstance(given, list | tuple):
            raise TypeError(f"Expected X to be a list of arrays, one per view, or a dict, got {type(X).__name__}.")
        if len(given) != n_views:
            raise ValueError(f"Expected {n_views} views in X (None for an absent one), got {len(given)}.")
        target_view = view_number(view, n_views, self._names)
        sources = {v: array for v, array in enumerate(given) if array is not None and v != target_view}
        if not sources:
            raise ValueError(f"Expected at least one view other than the wanted one ({view!r}) in X, got none.")
        views = self._checked(sources, {v: f"X[{v}]" for v in sources}, "X")
        return self._fitted.predict(views, target_view, self.n_jobs)

    def score(self, X: ViewsLike, y: Any = None, *, partners: Any = None) -> float:
        """Return the quality of the rankings, as the mean over all pairs of views, in both directions.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            All views; each is matched with every other. Samples that lack one of two views are left out there.
        y : array of shape (n_samples,), or such an array for each view in a list or a dict by name, optional
            Labels. With labels for each view, views may hold different samples.
        partners : array of shape (n_samples_0,), optional
            For a matcher of two views and without `y`: the index in the second view of the partner of each sample of
            the first, -1 for one that has none. The views may hold different numbers of samples. Only the first view
            is then used for queries, only the second as gallery.

        Returns
        -------
        float
            The mean average precision (:func:`mean_average_precision`) with labels, the mean reciprocal rank of
            partners (:func:`mean_reciprocal_rank`) without.
        """
        check_is_fitted(self)
        refuse_loose_views("score({})", X, y)
        given = list_views(X, self._names)
        views, n_views = check_all_views(given, self.missing, self._names), len(self.n_features_in_)
        if len(views) != n_views:
            raise ValueError(f"Expected {n_views} views in X, got {len(views)}.{SPLIT_HINT}")
        if partners is not None:
            return self._score_of_partners(given, check_partners(partners, views, y))
        labels, paired = check_labels(y, views, self._names)
        if paired:
            check_pairs(given, y, self._names)
        pairs = [(source, target) for source in range(n_views) for target in range(n_views) if source != target]
        found = []
        with self._watched() as callback:
            meter = Meter(callback, "ranking", len(pairs))
            for source, target in pairs:
                queries, gallery = (has_view(views[v]) for v in (source, target))
                if labels is None:  # partners have both views
                    queries = gallery = queries & gallery
                sides = self._sides(_rows(given[source], queries), _rows(given[target], gallery), source, target)
                own = None if labels is None else (labels[source][queries], labels[target][gallery])
                found.append(sides.rating(own))
                meter.advance()
        return float(np.mean(found))

    def _score_of_partners(self, views: Any, partners: Indices) -> float:
        """Return the mean reciprocal rank of given partners."""
        chosen = partners >= 0
        sides = self._sides(_rows(views[0], chosen), views[1], 0, 1)
        with self._watched() as callback:
            meter = Meter(callback, "ranking", 1)
            found = sides.rating(None, partners[chosen])
            meter.advance()
        return found

    # To files and back

    def _to_state(self) -> ModelState:
        tensors, facts = self._fitted.tensors_and_facts()
        if hasattr(self, "classes_"):
            facts |= describe_classes(self.classes_)
        state = ModelState.of(self, tensors, **facts, **describe_names(vars(self)))
        if isinstance(self.preprocess, str) or self.preprocess is None:
            return state
        # Parameters in a file are numbers, strings or lists of numbers.
        asked = preprocess_of_views(self.preprocess, len(self.n_features_in_), self._names)
        parameters = {name: value for name, value in state.parameters.items() if name != "preprocess"}
        return replace(state, parameters=parameters, facts=state.facts | {"preprocess": asked})

    @classmethod
    def _from_state(cls, state: ModelState) -> Self:
        model = make_estimator(cls, state.parameters)
        if "preprocess" in state.facts:
            model.preprocess = state.facts["preprocess"]
            model._check_parameters()
        classes = read_classes(state.facts) if "classes" in state.facts else None
        check_compare(model.compare, state.facts["n_views"], labelled=classes is not None)
        preprocess_of_views(model.preprocess, state.facts["n_views"], None)
        fitted = FittedMatcher.from_state(state, classes)
        keep_fitted(model, cls._shown(fitted, None) | {"classes_": classes})
        restore_names(model, state.facts)
        model.components_ = [ViewArrays(atoms, model._names) for atoms in model.components_]
        return model


def _rows(view: Any, chosen: Array) -> Any:
    """Return the chosen rows of an array or a table; the same object if that is all of them."""
    return view if chosen.all() else _safe_indexing(in_memory(view), np.flatnonzero(chosen))
