"""Classification by coupled dictionaries: labels are one more view of the samples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from .._base import check_choice, generator
from .._containers import check_names, keep_names, named_columns
from .._display import PicturedMixin
from .._ensemble import fit_many, seeds
from .._learner import CoupledDictionaryLearning
from .._passes import count_jobs, in_order
from .._pursuit import Pursuit, check_pursuit
from .._views import Array, as_list, check_count, check_tol
from . import _label_views as labels
from ._heads import Head, fit_head, fit_sharpness
from ._labelled import Labelled, check_given, check_labelled
from ._scaling import Scaler, check_preprocess

Float: TypeAlias = npt.NDArray[np.float64]
Views: TypeAlias = npt.ArrayLike | Sequence[npt.ArrayLike | None]

SAMPLES_PER_ATOM = 6  # with fewer, codes of the samples that were learned from look less like those of others
MOST_ATOMS = 512
FEATURES_GAIN = 2.0  # of the features beside codes, in the head; from 1 to 3 it makes little difference


@dataclass(frozen=True)
class Route:
    """How one set of views is turned into decisions: a head for each dictionary, and what makes them probabilities."""

    heads: list[Head]
    sharpness: float


class CoupledClassifier(PicturedMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify by sparse codes over dictionaries that were learned together with the labels.

    Features and label indicators are two views of a sample that share one sparse code (discriminative K-SVD [1]_); with
    `label_consistency` a third view asks that samples of a class use atoms of that class (label-consistent K-SVD [2]_).
    To classify, samples are coded from their features alone, and a ridge regression, fitted to training codes made the
    same way, turns codes and features into decisions. Several dictionaries from different starts decide together.

    There may be several feature views: ``fit([X0, X1], y)``. Any of them may then be absent: ``predict([X0, None])``
    recognises in one domain what was learned in both, through the common code.

    Parameters
    ----------
    n_components : int, optional
        Atoms of each dictionary. One for six samples if left out, but at most 512, and at least two a class.
    n_nonzero_coefs : int, default=4
        At most this many atoms a sample.
    label_weight : float, optional
        Weight of the label view in learning, that of each feature view being 1. If left out 1, but 0 where samples
        without labels are to be learned from. With 0 and `label_consistency` above 0, learning is that of LC-KSVD1;
        with both above 0, that of LC-KSVD2; with neither, dictionaries do not know the labels.
    label_consistency : float, default=0
        Weight of the view of target codes.
    head : {"codes+features", "codes"}, default="codes+features"
        What the ridge regression sees.
    alpha : float or "auto", default="auto"
        Its penalty, relative to the mean squared input. ``"auto"`` takes the one with the smallest error on samples
        that are left out, which needs no second fit; the first dictionary chooses for all.
    refit : bool, default=True
        False takes the learned label dictionary as it is, as D-KSVD does; only with ``head="codes"``.
    preprocess : {"auto", "standardize", "common", "unit"} or None, default="auto"
        What is done to features before they are coded. ``"standardize"`` gives each of them mean 0 and variance 1,
        ``"common"`` multiplies all by one number; both then add a constant coordinate and bring samples to norm 1, for
        codes tell directions only. ``"auto"`` is the former where the largest standard deviation is more than ten times
        the median one, and the latter otherwise, as for pixels or counts. ``"unit"`` only brings samples to norm 1.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the ridge regression: given by label, or inversely proportional to their frequency.
    n_dictionaries : int, default=5
        Dictionaries, each from a start of its own; their decisions are averaged.
    max_iter : int, default=5
        Iterations of each fit.
    pursuit : {"omp", "ols"}, default="omp"
        As in :func:`coupledict.sparse_encode`.
    unlabeled : int, float or str, optional
        What in y stands for a sample without label, such as -1. Such samples shape the dictionaries, and carry labels
        from one view to another; see Notes.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        The same number gives the same result, to the last bit.
    verbose : int, default=0
        1 shows the iterations of each fit.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_features_in_ : int, or list of int
        Features, of each view if there are several.
    feature_names_in_ : array of str
        Names of the features, where X was a single view that had them.
    view_feature_names_in_ : list of arrays of str, or None
        Names of the features of each view, where X was a list of views, at least one of which had them.
    learners_ : list of CoupledDictionaryLearning
        The dictionaries. Their first views are the features, as `preprocess` made them (a constant coordinate comes
        last); then come the label view and the view of target codes, where they have weight.
    atom_classes_ : array of shape (n_components,)
        Number of the class that each atom started from; not there if samples without labels were learned from.
    n_iter_ : int
        Iterations that were done.

    See Also
    --------
    SparseRepresentationClassifier : Classification by class residuals, without learning or by a dictionary a class.
    coupledict.CoupledDictionaryLearning : The learner.

    Notes
    -----
    With up to four feature views every set of views has a ridge regression of its own, fitted to codes made from just
    these views; with more, each view alone, all but one, and all. Another set averages those of its views alone.

    **Labels in one domain only.** Let some samples have both views but no label (`unlabeled`), and others a label but
    one view (the row of the other is NaN throughout). Dictionaries are learned from samples that have all views. A
    set of views in which all classes have labelled samples gets a head from those; any other set gets one fitted to
    what the former decide about samples that have both.

    **Probabilities** are ``softmax(s * decisions)``, where s makes them likeliest for decisions about training samples
    left out of the ridge regression; the most probable class is the one that `predict` returns. The dictionaries saw
    those samples, so probabilities are somewhat too sure where there are few.

    References
    ----------
    .. [1] Q. Zhang and B. Li, "Discriminative K-SVD for Dictionary Learning in Face Recognition", CVPR 2010.
    .. [2] Z. Jiang, Z. Lin and L. S. Davis, "Label Consistent K-SVD: Learning a Discriminative Dictionary for
       Recognition", IEEE Transactions on Pattern Analysis and Machine Intelligence 35(11), 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from coupledict.classification import CoupledClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = CoupledClassifier(random_state=0).fit(X[:1200], y[:1200])
    >>> classifier.score(X[1200:], y[1200:]) > 0.94
    True

    Learned from both halves of the pictures, used on the lower half:

    >>> halves = [X[:, :32], X[:, 32:]]
    >>> classifier.fit([half[:1200] for half in halves], y[:1200])
    CoupledClassifier(random_state=0)
    >>> classifier.score([None, halves[1][1200:]], y[1200:]) > 0.75
    True
    """

    classes_: Array
    atom_classes_: labels.Numbers
    learners_: list[CoupledDictionaryLearning]

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int = 4,
        label_weight: float | None = None,
        label_consistency: float = 0.0,
        head: Literal["codes+features", "codes"] = "codes+features",
        alpha: float | Literal["auto"] = "auto",
        refit: bool = True,
        preprocess: Literal["auto", "standardize", "common", "unit"] | None = "auto",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        n_dictionaries: int = 5,
        max_iter: int = 5,
        pursuit: Pursuit = "omp",
        unlabeled: float | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.label_weight = label_weight
        self.label_consistency = label_consistency
        self.head = head
        self.alpha = alpha
        self.refit = refit
        self.preprocess = preprocess
        self.class_weight = class_weight
        self.n_dictionaries = n_dictionaries
        self.max_iter = max_iter
        self.pursuit = pursuit
        self.unlabeled = unlabeled
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        if self.n_components is not None:
            check_count(self.n_components, "n_components")
        for name in ("n_nonzero_coefs", "n_dictionaries", "max_iter"):
            check_count(getattr(self, name), name)
        if self.label_weight is not None:
            check_tol(self.label_weight, "label_weight")
        check_tol(self.label_consistency, "label_consistency")
        check_choice(self.head, "head", ("codes+features", "codes"))
        if self.alpha != "auto":
            check_tol(self.alpha, "alpha")
        check_preprocess(self.preprocess)
        check_pursuit(self.pursuit)
        if not self.refit and self.head != "codes":
            raise ValueError("refit=False takes the label dictionary as it is, for codes alone. Use head='codes'.")
        if not self.refit and (self.label_weight == 0 or self.alpha != "auto" or self.class_weight is not None):
            raise ValueError(
                "refit=False takes the label dictionary as it is: it needs a label_weight above 0, and alpha and"
                " class_weight have no meaning then."
            )

    def fit(self, X: Views, y: npt.ArrayLike) -> Self:
        """Learn from labelled samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list of arrays of shape (n_samples, n_features_v), or Views
            One feature view or several. With several, a row that is NaN throughout says that the sample lacks the view.
        y : array of shape (n_samples,)
            Labels: integers, strings, or anything else that scikit-learn takes for classes.

        Returns
        -------
        self
        """
        self._check_parameters()
        with named_columns(X, "X"):
            given = check_labelled(self, X, y, self.unlabeled)
        if hasattr(self, "atom_classes_"):  # of an earlier fit
            del self.atom_classes_
        self.classes_, self._single = given.classes, given.single
        widths = [view.shape[1] for view in given.views]
        if not given.single:
            self.n_features_in_ = widths
        keep_names(self, [] if given.single else as_list(X))
        self._dtype = np.result_type(np.float32, *given.views)
        self._scalers = [Scaler.of(view[given.present[:, v]], self.preprocess) for v, view in enumerate(given.views)]
        self._learn(given)
        self._fit_routes(given)
        self.n_iter_ = max(learner.n_iter_ for learner in self.learners_)
        return self

    # The dictionaries

    def _learn(self, given: Labelled) -> None:
        rows = np.flatnonzero(given.complete)
        views = [
            scaler.coded(view[rows] if rows.size < view.shape[0] else view)
            for scaler, view in zip(self._scalers, given.views, strict=True)
        ]
        label_weight = self._label_weight(given)
        n_classes = self.classes_.size
        n_components = self.n_components or max(min(rows.size // SAMPLES_PER_ATOM, MOST_ATOMS), 2 * n_classes)
        weights = [1 / max(float(np.mean(np.einsum("ij,ij->i", view, view))), 1e-300) for view in views]
        extras: list[Float] = []
        y = given.y[rows]
        if given.all_labelled:
            self.atom_classes_ = labels.share_atoms(n_components, np.bincount(y, minlength=n_classes))
            if label_weight > 0:
                extras.append(labels.indicators(y, n_classes))
                weights.append(label_weight)
            if self.label_consistency > 0:
                extras.append(labels.target_codes(y, self.atom_classes_))
                weights.append(float(self.label_consistency))
        learners = []
        for seed in seeds(self.random_state, self.n_dictionaries):
            rng = generator(seed)
            if given.all_labelled:
                drawn = labels.draw_by_class(y, self.atom_classes_, rng)
            else:
                drawn = np.resize(rng.permutation(rows.size), n_components)
            learners.append(
                CoupledDictionaryLearning(
                    n_components,
                    n_nonzero_coefs=self.n_nonzero_coefs,
                    max_iter=self.max_iter,
                    pursuit=self.pursuit,
                    init=[*labels.start(views, drawn, rng), *(extra[drawn] for extra in extras)],
                    normalize="joint",
                    view_weights=weights,
                    refit=False,
                    random_state=rng,
                    verbose=self.verbose,
                )
            )
        self.learners_ = fit_many(learners, [*views, *(extra.astype(views[0].dtype) for extra in extras)], self.n_jobs)
        for learner in self.learners_:  # starts and generators are large, or no data, and of no more use
            learner.set_params(init="auto", random_state=None)

    def _label_weight(self, given: Labelled) -> float:
        """Return the weight of the label view; raise for label views where labels are missing."""
        if given.all_labelled:
            return 1.0 if self.label_weight is None else float(self.label_weight)
        if self.label_weight or self.label_consistency > 0 or not self.refit:
            raise ValueError(
                "Expected a label for every sample that has all views, got some without: there is no label view to"
                " learn from. Leave label_weight and label_consistency out, and refit=True."
            )
        return 0.0

    # The heads

    def _fit_routes(self, given: Labelled) -> None:
        n_classes = self.classes_.size
        targets = labels.indicators(given.y, n_classes)
        targets[~given.labelled] = 0
        weights = np.ones(self.classes_.size)
        if self.class_weight is not None:
            known = self.classes_[given.y[given.labelled]]
            weights = compute_class_weight(self.class_weight, classes=self.classes_, y=known).astype(np.float64)
        self._routes: dict[tuple[int, ...], Route] = {}
        waiting = []
        for sources in labels.view_sets(len(given.views)):
            rows = given.labelled & given.present[:, sources].all(axis=1)
            if np.unique(given.y[rows]).size < n_classes:
                waiting.append(sources)
                continue
            self._routes[sources] = self._fit_route(given, sources, rows, targets[rows], weights[given.y[rows]])
        if not self._routes:
            raise ValueError("Expected views in which samples of every class are labelled, got none.")
        teachers = sorted(self._routes, key=len, reverse=True)
        for sources in waiting:
            guessed, known = targets.copy(), given.labelled & given.present[:, sources].all(axis=1)
            for teacher in teachers:
                rows = given.present[:, [*sources, *teacher]].all(axis=1) & ~known
                if rows.any():
                    guessed[rows] = self._decide(teacher, [given.views[v][rows] for v in teacher])
                    known |= rows
            if known.any():
                self._routes[sources] = self._fit_route(
                    given, sources, known, guessed[known], weights[np.argmax(guessed[known], axis=1)]
                )

    def _fit_route(
        self, given: Labelled, sources: tuple[int, ...], rows: npt.NDArray[np.bool_], targets: Float, weights: Float
    ) -> Route:
        views = [given.views[v] if rows.all() else given.views[v][rows] for v in sources]
        likely = indicators_of(targets)
        if not self.refit:
            heads = [
                Head(np.asarray(learner.components_[len(given.views)], np.float64), np.zeros(self.classes_.size), 0.0)
                for learner in self.learners_
            ]
            made = list(self._inputs(sources, views))
            decided = np.mean([head(inputs) for head, inputs in zip(heads, made, strict=True)], axis=0)
            return Route(heads, fit_sharpness(decided, likely, weights))
        first, *others = self._inputs(sources, views)
        fitted = [fit_head(first, targets, weights, self.alpha)]
        # Dictionaries of one kind want the same penalty; a head that is given it takes much less time.
        fitted += in_order(
            lambda inputs: fit_head(inputs, targets, weights, fitted[0][0].alpha),
            others,
            max(1, min(count_jobs(self.n_jobs), len(others))),
            np.zeros(1, np.int32),
        )
        decided = np.mean([left_out for _, left_out in fitted], axis=0)
        return Route([head for head, _ in fitted], fit_sharpness(decided, likely, weights))

    def _coded(self, sources: tuple[int, ...], views: list[Array]) -> list[Array | None]:
        """Return all views of the learners, as they are coded, with None for those that are not given."""
        Xs: list[Array | None] = [None] * len(self.learners_[0].components_)
        for v, view in zip(sources, views, strict=True):
            Xs[v] = self._scalers[v].coded(view)
        return Xs

    def _inputs(self, sources: tuple[int, ...], views: list[Array]) -> Iterator[Float]:
        """Yield, for each dictionary, what its head sees of samples that have these views."""
        Xs = self._coded(sources, views)
        features = [self._scalers[v].features(view) * FEATURES_GAIN for v, view in zip(sources, views, strict=True)]
        for learner in self.learners_:
            codes = learner.set_params(n_jobs=self.n_jobs).transform(Xs).toarray().astype(np.float64)
            if self.refit:
                # Norms are over all views, so an atom may be small in these; the head sees coefficients of unit atoms.
                codes *= np.sqrt(
                    sum(learner.view_weights_[v] * np.sum(learner.components_[v] ** 2.0, axis=1) for v in sources)
                )
            yield np.hstack([codes, *features]) if self.head == "codes+features" else codes

    # Decisions

    def _decide(self, sources: tuple[int, ...], views: list[Array]) -> Float:
        route = self._routes[sources]
        made = self._inputs(sources, views)
        return np.asarray(np.mean([head(inputs) for head, inputs in zip(route.heads, made, strict=True)], axis=0))

    def _given(self, X: object) -> tuple[tuple[int, ...], list[Array]]:
        check_is_fitted(self, "learners_")
        if not self._single and isinstance(given := as_list(X), list | tuple):
            check_names(self, given, "X")
        return check_given(self, X, [scaler.shift.size for scaler in self._scalers], single=self._single)

    def _scores(self, X: object) -> tuple[Float, float]:
        """Return a decision for each class, and the sharpness of their probabilities."""
        sources, views = self._given(X)
        if sources in self._routes:
            return self._decide(sources, views), self._routes[sources].sharpness
        alone = [v for v in range(len(sources)) if (sources[v],) in self._routes]
        if not alone:
            raise ValueError(
                f"Expected views that a labelled sample had, or shared with one in fit, got views {list(sources)} only."
            )
        decided = [self._decide((sources[v],), [views[v]]) for v in alone]
        sharpness = [self._routes[sources[v],].sharpness for v in alone]
        return np.asarray(np.mean(decided, axis=0)), float(np.mean(sharpness))

    def decision_function(self, X: Views) -> Array:
        """Return how much speaks for each class.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list of arrays of shape (n_samples, n_features_v)
            Views as in `fit`; ``None`` for one that is absent.

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,) for two classes
            Estimates of the label indicators, averaged over the dictionaries; for two classes, the second less the
            first.
        """
        scores, _ = self._scores(X)
        return (scores if self.classes_.size > 2 else scores[:, 1] - scores[:, 0]).astype(self._dtype)

    def predict_proba(self, X: Views) -> Array:
        """Return the probability of each class; see Notes of the class for how.

        Parameters
        ----------
        X : as in :meth:`decision_function`

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        scores, sharpness = self._scores(X)
        return np.asarray(softmax(sharpness * scores, axis=1).astype(self._dtype))

    def predict(self, X: Views) -> Array:
        """Return the class of each sample.

        Parameters
        ----------
        X : as in :meth:`decision_function`

        Returns
        -------
        array of shape (n_samples,)
        """
        scores, _ = self._scores(X)
        return np.asarray(self.classes_[np.argmax(scores, axis=1)])

    def encode(self, X: Views, dictionary: int = 0) -> csr_array:
        """Return codes of samples, which say what atoms a decision rests on.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list of arrays of shape (n_samples, n_features_v)
            Views as in `fit`; ``None`` for one that is absent.
        dictionary : int, default=0
            Number of the dictionary in `learners_`.

        Returns
        -------
        csr_array of shape (n_samples, n_components)
        """
        given = self._given(X)
        codes: csr_array = self.learners_[dictionary].set_params(n_jobs=self.n_jobs).transform(self._coded(*given))
        return codes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that :func:`coupledict.load` reads; opening it runs no code.

        Parameters
        ----------
        path : path-like
        """
        from ._saving import save_coupled

        check_is_fitted(self, "learners_")
        save_coupled(self, path)

    def _pictured(self) -> list[tuple[str, Array]]:
        if not self.__sklearn_is_fitted__():
            return []
        widths = [scaler.shift.size for scaler in self._scalers]  # without the constant coordinate
        atoms = self.learners_[0].components_
        return [(f"first dictionary, view {v}", atoms[v][:, :width]) for v, width in enumerate(widths)]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_routes")


def indicators_of(targets: Float) -> Float:
    """Return indicators of the largest target of each sample."""
    return labels.indicators(np.argmax(targets, axis=1), targets.shape[1])
