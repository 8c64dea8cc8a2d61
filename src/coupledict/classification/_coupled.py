"""Classification by coupled dictionaries: labels are one more view of the samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Number
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.display import PicturedMixin
from ..estimators.ensemble import seeds
from ..estimators.keeping import keep_fitted
from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin, describe_names, restore_names
from ..estimators.tables import check_names
from ..files.packing import describe_classes, read_classes
from ..files.state import ModelState, make_estimator
from ..foundation.arrays import Array, Floats
from ..foundation.checks import make_generator
from ..foundation.choices import GreedyPursuit
from ..foundation.missing import MISSING, Missing
from ..foundation.parameters import COUNT, NON_NEGATIVE, NONE, PENALTY, Choice, Constraints, Instance
from ..foundation.progress import Callback
from ..foundation.tables import name_bad_column
from ..foundation.tensors import with_numpy
from ..foundation.views import ViewLike, ViewsLike, list_views, refuse_loose_views, refuse_others
from . import _label_views as labels
from ._dictionaries import default_components, learn_dictionaries
from ._file_checks import check_atom_classes, check_sizes
from ._folds import LEAST_FOLDS, draw_folds
from ._head_fitting import HeadFitter
from ._labelled import Labelled, check_given, check_labelled, check_rows_agree
from ._recognizer import HeadKind, Recognizer, Sources
from ._scaling import Preprocess, Scaler

N_NONZERO_COEFS = 4  # in learning, and in coding unless validation chooses


class CoupledClassifier(RunMixin, SavedMixin, PicturedMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify by sparse codes over dictionaries that are learned together with the labels.

    Features and label indicators are two views of a sample that share one sparse code (discriminative K-SVD [1]_); with
    `label_consistency` a third view asks that samples of a class use atoms of that class (label-consistent K-SVD [2]_).
    To classify, samples are coded from their features alone, and a ridge regression, fitted to training codes made the
    same way, turns codes and features into decisions. The decisions of several dictionaries with different starts are
    averaged.

    By default, three more classifiers contribute: a ridge regression on the features, one with a Gaussian kernel, and
    the residuals of samples over a few training samples of each class. The shares of these parts are fitted to samples
    that they have not seen; a part that does not help gets none. See Notes.

    There may be several feature views: ``fit([X0, X1], y)``, or by name ``fit({"upper": X0, "lower": X1}, y)``. Any of
    them may then be absent: ``predict([X0, None])``, or ``predict({"upper": X0})``, recognises in one domain what was
    learned in both, through the common code.

    Parameters
    ----------
    n_components : int, optional
        Atoms of each dictionary. By default, one per six samples or, if that is more, ten per class but at most one per
        three samples; never more than 512 nor fewer than two per class.
    n_nonzero_coefs : int or "auto", default="auto"
        At most this many atoms per sample. ``"auto"`` learns with 4 and codes with 4, 10 or 30, whichever suits samples
        that a dictionary did not see; with 4 if labels or entries are missing.
    label_weight : float, optional
        Weight of the label view in learning; each feature view has weight 1. The default is 1, or 0 if some samples
        have no label. With 0 and `label_consistency` above 0, learning is that of LC-KSVD1; with both above 0, that of
        LC-KSVD2; with both 0, labels are not a view.
    label_consistency : float, default=0
        Weight of the view of target codes.
    head : {"auto", "blend", "codes+features", "codes", "kernel", "dictionary"}, default="auto"
        How decisions are made: by four parts together (``"blend"``, see Notes); by a ridge regression on codes and
        features, or on codes alone; by one with a Gaussian kernel on the features, whose missing entries the
        dictionaries fill in; or by the label dictionary as it was learned, as in D-KSVD, which needs a `label_weight`
        above 0. ``"auto"`` is ``"blend"`` if no label and no entry is missing, ``"kernel"`` if only entries may be
        missing, and ``"codes+features"`` otherwise.
    ridge_alpha : float or "auto", default="auto"
        Penalty of the ridge regressions, relative to the mean squared input. ``"auto"`` takes the one with the smallest
        error on held-out samples, which needs no second fit; for codes, the first dictionary chooses it for all.
    preprocess : {"auto", "standardize", "common", "unit"} or None, default="auto"
        Preprocessing of features before they are coded. ``"standardize"`` gives each of them mean 0 and variance 1,
        ``"common"`` multiplies all by one number; both then add a constant coordinate and scale samples to norm 1,
        because codes depend on directions only. ``"auto"`` is ``"standardize"`` if the largest standard deviation is
        more than ten times the median one, and ``"common"`` otherwise, as for pixels or counts. ``"unit"`` only scales
        samples to norm 1.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in heads, shares and probabilities: given by label, or inversely proportional to their
        frequency. Dictionaries do not depend on it, but they do on `sample_weight` of `fit`.
    n_dictionaries : int, default=5
        Number of dictionaries, each with its own random start; their decisions are averaged. Each leaves out a fifth of
        the samples, or fewer if there are more than five dictionaries, to test its decisions on.
    max_iter : int, default=5
        Iterations of each fit.
    pursuit : {"omp", "ols"}, default="omp"
        As in :func:`coupledict.sparse_encode`.
    missing : {"error", "nan"}, default="error"
        ``"nan"``: NaN stands for a missing entry, and a row of NaN in a view for a view that the sample lacks, in
        `fit` and when samples are classified. ``"error"``: NaN is an error, except where a masked array or a nullable
        column of a table marks entries as missing. Infinity is always an error.
    unlabeled : int, float or str, optional
        Value in y that marks a sample without label, such as -1. Such samples shape the dictionaries, and carry labels
        from one view to another; see Notes.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        The same number gives the same result, to the last bit.
    verbose : int, default=0
        1 shows how far the fit has come.
    callback : callable, optional
        Called as ``callback(progress)`` after each iteration of each dictionary and after the heads of each set of
        views are fitted; a true return value stops the fit by :class:`coupledict.StoppedByCallback`, and the results of
        an earlier fit stay.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_features_in_ : int, or list of int
        Features, of each view if there are several.
    feature_names_in_ : array of str
        Names of the features, if X was a single view that had them.
    view_names_in_ : tuple of str
        Names of the views, if X was given by name.
    view_feature_names_in_ : list of arrays of str, or None
        Names of the features of each view, if X was several views of which at least one had them.
    learners_ : list of CoupledDictionaryLearning
        The dictionaries. Their first views are the features, as `preprocess` made them (a constant coordinate comes
        last); then come the label view and the view of target codes, if their weights are above 0.
    atom_classes_ : array of shape (n_components,)
        Number of the class that each atom started from; absent if some training samples had no label.
    n_components_, n_nonzero_coefs_, head_ : int, int, str
        What was given or chosen.
    head_shares_ : dict of float
        With ``head_ == "blend"``, the shares of "codes", "features", "kernel" and "residuals" when all views are given;
        they sum to 1, and parts without a share are left out.
    n_iter_ : int
        Iterations that were done.

    See Also
    --------
    SparseRepresentationClassifier : Classification by class residuals, without learning or by one dictionary per class.
    coupledict.CoupledDictionaryLearning : The learner.

    Notes
    -----
    **Parts of a blend.** *Codes*: the heads of the dictionaries, on codes and features. *Features*: a ridge regression.
    *Kernel*: a ridge regression with a Gaussian kernel of validated width; it keeps all training samples, or 1,500 if
    there are more than 2,000. *Residuals*: each sample is coded by up to ten of these samples of each class alone, as
    in :class:`SparseRepresentationClassifier`; a large residual speaks against the class. Features are scaled as
    `preprocess` says; if that is "auto", both common and individual scales are tried for features and kernel. Shares
    maximise the likelihood of training samples, each judged by parts that did not see it: by the dictionary that left
    it out and a head without all samples that this dictionary left out, by regressions without it, and by the training
    samples of other folds.

    All this takes about four to eight times as long as ``head="codes+features"`` with a given `n_nonzero_coefs`: half a
    second for 800 samples of 14 features, three seconds for 2,000 of 256. Most of it is the kernel, cubic in the number
    of samples up to 2,000, and the heads by which the sparsity is chosen.

    With up to four feature views every set of views has heads of its own, fitted to codes made from just these views;
    with more, each view alone, all but one, and all. For any other set, the decisions of its single views are averaged.

    **Missing entries and views.** With ``missing="nan"``, all samples shape the dictionaries with what they have. With
    ``head="kernel"`` there is one head for whatever a sample has: its missing features are taken from its codes times
    the dictionaries, averaged over the dictionaries, and training samples are filled in the same way. The head
    compares samples with up to 2,000 training samples, which the model keeps and saves. With the other heads, a sample
    that has a part of a view counts as having that view. All this assumes that whether something is missing does not
    depend on the class.

    **Labels in one domain only.** Let some samples have both views but no label (`unlabeled`), and others a label but
    only one view (the row of the other is NaN throughout, with ``missing="nan"``). A set of views in which all classes
    have labelled samples gets a head fitted to those; any other set gets a head fitted to the decisions of the former
    about samples that have both.

    **Probabilities** are ``softmax(s * decisions)``, where s maximises the likelihood of training samples, judged as
    for the shares of a blend; `predict` returns the most probable class. With ``head="kernel"``, the dictionaries have
    seen these samples, but they only fill in what is missing.

    **Weights.** A sample of weight 2 counts as much as two in dictionaries, scalings, heads, shares and probabilities.
    Initial atoms and folds are drawn without weights, so the result is not exactly that of repeating the sample.

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
    n_components_: int
    n_nonzero_coefs_: int
    head_: HeadKind
    head_shares_: dict[str, float]
    n_features_in_: int | list[int]
    n_iter_: int
    _recognizer: Recognizer

    _parameter_constraints: ClassVar[Constraints] = {
        "n_components": (NONE, COUNT),
        "n_nonzero_coefs": (Choice("auto"), COUNT),
        "label_weight": (NONE, PENALTY),
        "label_consistency": (NON_NEGATIVE,),
        "head": (Choice("auto", HeadKind),),
        "ridge_alpha": (Choice("auto"), PENALTY),
        "preprocess": (Choice(Preprocess), NONE),
        "class_weight": (NONE, Choice("balanced"), Instance((Mapping,), "a dict")),
        "n_dictionaries": (COUNT,),
        "max_iter": (COUNT,),
        "pursuit": (Choice(GreedyPursuit),),
        "missing": (MISSING,),
        "unlabeled": (NONE, Instance((str, Number, np.generic), "one label")),
        **RunMixin._parameter_constraints,
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int | Literal["auto"] = "auto",
        label_weight: float | None = None,
        label_consistency: float = 0.0,
        head: HeadKind | Literal["auto"] = "auto",
        ridge_alpha: float | Literal["auto"] = "auto",
        preprocess: Preprocess | None = "auto",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        n_dictionaries: int = 5,
        max_iter: int = 5,
        pursuit: GreedyPursuit = "omp",
        missing: Missing = "error",
        unlabeled: float | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.label_weight = label_weight
        self.label_consistency = label_consistency
        self.head = head
        self.ridge_alpha = ridge_alpha
        self.preprocess = preprocess
        self.class_weight = class_weight
        self.n_dictionaries = n_dictionaries
        self.max_iter = max_iter
        self.pursuit = pursuit
        self.missing = missing
        self.unlabeled = unlabeled
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _check_combination(self) -> None:
        unused = self.ridge_alpha != "auto" or self.class_weight is not None
        if self.head == "dictionary" and (self.label_weight == 0 or unused):
            raise ValueError(
                "head='dictionary' takes the label dictionary as it is: it needs a label_weight above 0, and"
                " ridge_alpha and class_weight have no meaning then."
            )

    def fit(self, X: ViewLike | ViewsLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learn from labelled samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or several of shape (n_samples, n_features_v)
            One feature view, or several in a list, a dict by name, or Views. With ``missing="nan"``, NaN stands for a
            missing entry, and a row of NaN for a view that the sample lacks. Arrays of PyTorch, JAX and others are read
            in place, labels and weights too.
        y : array of shape (n_samples,)
            Labels: integers, strings, or anything else that scikit-learn takes for classes.
        sample_weight : array of shape (n_samples,), optional
            How much each sample counts, in dictionaries, heads and probabilities; only ratios matter, and a sample of
            weight 0 is left out.

        Returns
        -------
        self
        """
        self._check_parameters()
        refuse_loose_views("fit({}, y)", X, y)
        with name_bad_column(X, "X"):
            given = check_labelled(self, X, y, self.unlabeled, self.missing, sample_weight)
        head = self._head(given)
        scalers = [Scaler.of(view, self.preprocess, given.weights) for view in given.views]
        dtype = np.result_type(np.float32, *given.views)
        rng = make_generator(self.random_state)
        folds = self._draw_folds(given, head, rng)
        with self._watched() as callback:
            learners, atom_classes = learn_dictionaries(
                given,
                scalers,
                folds,
                label_weights=(self._label_weight(given), float(self.label_consistency)),
                n_components=self.n_components or default_components(given.y.size, given.classes.size),
                seeds=seeds(rng, self.n_dictionaries),
                n_jobs=self.n_jobs,
                callback=callback,
                **self._learner_parameters(),
            )
            recognizer = Recognizer(scalers, learners, head, dtype)
            fitter = HeadFitter(
                recognizer, given, folds, self.ridge_alpha, self.class_weight, self._gains(given, scalers), self.n_jobs
            )
            recognizer = self._fit_heads(fitter, callback)
        fitted = given.names | {
            "classes_": given.classes,
            "atom_classes_": atom_classes,
            "n_iter_": max(learner.n_iter_ for learner in learners),
        }
        keep_fitted(self, fitted | self._shown(recognizer))
        return self

    @staticmethod
    def _shown(recognizer: Recognizer) -> dict[str, Any]:
        """Return the public attributes: the parts of the recognizer, and what was chosen."""
        learner = recognizer.learners[0]
        source_head = recognizer.source_heads.get(tuple(range(len(recognizer.scalers))))
        blended = recognizer.head == "blend" and source_head is not None
        return {
            "learners_": recognizer.learners,
            "n_components_": int(learner.components_[0].shape[0]),
            "n_nonzero_coefs_": learner.n_nonzero_coefs,
            "head_": recognizer.head,
            "head_shares_": dict(source_head.shares) if blended and source_head is not None else None,
            "_recognizer": recognizer,
        }

    def _head(self, given: Labelled) -> HeadKind:
        simple = given.all_labelled and not given.incomplete
        if self.head == "blend" and not simple:
            raise ValueError("Expected complete samples with labels for head='blend', got missing entries or labels.")
        if self.head != "auto":
            return self.head
        if simple:
            return "blend"
        return "kernel" if given.all_labelled else "codes+features"

    def _draw_folds(self, given: Labelled, head: HeadKind, rng: np.random.Generator) -> labels.Numbers:
        """Return, for each sample, the number of the dictionary that does not learn from it; -1 if all do."""
        if head == "kernel":  # dictionaries only fill in what is missing
            return np.full(given.y.size, -1, np.intp)
        return draw_folds(given.y, given.labelled, max(LEAST_FOLDS, self.n_dictionaries), rng)

    def _gains(self, given: Labelled, scalers: list[Scaler]) -> list[list[Floats]]:
        """Return the candidate scalings of the features for heads."""
        if self.preprocess != "auto":
            return [[scaler.gain for scaler in scalers]]
        ways: tuple[Preprocess, ...] = ("standardize", "common")
        return [[Scaler.of(view, way, given.weights).gain for view in given.views] for way in ways]

    def _fit_heads(self, fitter: HeadFitter, callback: Callback | None) -> Recognizer:
        recognizer, given = fitter.recognizer, fitter.given
        if recognizer.head == "kernel":
            return fitter.fit_kernel(callback)
        simple = given.all_labelled and not given.incomplete
        if self.n_nonzero_coefs == "auto" and simple and recognizer.head != "dictionary":
            fitter = replace(fitter, recognizer=recognizer.with_sparsity(fitter.choose_sparsity()))
        return fitter.fit_blend(callback) if recognizer.head == "blend" else fitter.fit(callback)

    def _learner_parameters(self) -> dict[str, Any]:
        return {
            "n_nonzero_coefs": N_NONZERO_COEFS if self.n_nonzero_coefs == "auto" else self.n_nonzero_coefs,
            "max_iter": self.max_iter,
            "pursuit": self.pursuit,
            "normalize": "joint",
            "predictor": "dictionary",
        }

    def _label_weight(self, given: Labelled) -> float:
        """Return the weight of the label view; raise for label views where labels are missing."""
        if given.all_labelled:
            return 1.0 if self.label_weight is None else float(self.label_weight)
        if self.label_weight or self.label_consistency > 0 or self.head == "dictionary":
            raise ValueError(
                "Expected a label for every sample, got some without: there is no label view to"
                " learn from. Leave label_weight and label_consistency out, and use a head other than 'dictionary'."
            )
        return 0.0

    # Decisions

    def _given(self, X: Any) -> tuple[Sources, list[Array]]:
        """Return the numbers of the given views, and the views."""
        check_is_fitted(self)
        single = not isinstance(self.n_features_in_, list)
        if not single:
            X = list_views(X, getattr(self, "view_names_in_", None))
            if isinstance(X, list | tuple):
                check_names(self, X, "X")
        return check_given(self, X, self._recognizer.widths, single=single, missing=self.missing)

    def _scores(self, X: Any) -> tuple[Floats, Floats]:
        sources, views = self._given(X)
        return self._recognizer.scores(sources, views, self.n_jobs)

    def decision_function(self, X: ViewLike | ViewsLike) -> Array:
        """Return the decision value of each class.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or several of shape (n_samples, n_features_v)
            Views as in `fit`; None for one that all samples lack, which may be left out of a dict.

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,) for two classes
            Larger means likelier. Each part of a blend is divided by its standard deviation; without a blend,
            decisions are estimates of the label indicators. For two classes, the second minus the first.
        """
        scores, _ = self._scores(X)
        return (scores if self.classes_.size > 2 else scores[:, 1] - scores[:, 0]).astype(self._recognizer.dtype)

    def predict_proba(self, X: ViewLike | ViewsLike) -> Array:
        """Return the probability of each class; see the Notes of the estimator.

        Parameters
        ----------
        X : as in :meth:`decision_function`

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        scores, inverse_temperature = self._scores(X)
        return np.asarray(softmax(inverse_temperature * scores, axis=1).astype(self._recognizer.dtype))

    def score(self, X: ViewLike | ViewsLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the share of samples whose class is predicted correctly.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or several views
            As in :meth:`decision_function`.
        y : array of shape (n_samples,)
            The right labels.
        sample_weight : array of shape (n_samples,), optional
            How much each sample counts.

        Returns
        -------
        float
        """
        refuse_loose_views("score({}, y)", X, y)
        check_rows_agree(X, y, sample_weight)
        return float(super().score(X, with_numpy(y, "y"), with_numpy(sample_weight, "sample_weight")))

    def predict(self, X: ViewLike | ViewsLike, *others: object) -> Array:
        """Return the class of each sample.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or several views
            As in :meth:`decision_function`.
        *others : not accepted
            Raises an error: several views belong in one list.

        Returns
        -------
        array of shape (n_samples,)
            Labels, as in `classes_`.
        """
        refuse_others("predict({})", others)
        scores, _ = self._scores(X)
        return np.asarray(self.classes_[np.argmax(scores, axis=1)])

    def encode(self, X: ViewLike | ViewsLike, learner: int = 0) -> csr_array:
        """Return the codes of samples, which show the atoms behind a decision.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or several of shape (n_samples, n_features_v)
            Views as in `fit`; None for an absent one, which may be left out of a dict.
        learner : int, default=0
            Index in `learners_` of the learner that codes the samples.

        Returns
        -------
        csr_array of shape (n_samples, n_components)
        """
        sources, views = self._given(X)
        return self._recognizer.codes(sources, views, learner, self.n_jobs)

    # To files and back

    def _to_state(self) -> ModelState:
        tensors, facts = self._recognizer.tensors_and_facts()
        if hasattr(self, "atom_classes_"):
            tensors["atom_classes"] = self.atom_classes_.astype(np.int64)
        single = not isinstance(self.n_features_in_, list)
        return ModelState.of(
            self, tensors, single=single, **facts, **describe_classes(self.classes_), **describe_names(vars(self))
        )

    @classmethod
    def _from_state(cls, state: ModelState) -> Self:
        model = make_estimator(cls, state.parameters)
        check_sizes(state.tensors)
        facts, single = state.facts, bool(state.facts["single"])
        if single and facts["n_views"] != 1:
            raise ValueError("it contradicts itself about its views")
        model.classes_ = read_classes(facts)
        n_classes = model.classes_.size
        recognizer = Recognizer.from_state(state, n_classes, **model._learner_parameters())
        keep_fitted(model, cls._shown(recognizer))
        model.n_features_in_ = recognizer.widths[0] if single else recognizer.widths
        if "atom_classes" in state.tensors:
            n_atoms = model.learners_[0].components_[0].shape[0]
            model.atom_classes_ = check_atom_classes(state.tensors["atom_classes"], n_atoms, n_classes)
        model.n_iter_ = max(learner.n_iter_ for learner in model.learners_)
        restore_names(model, facts)
        return model

    def _pictured(self) -> list[tuple[str, Array]]:
        if not self.__sklearn_is_fitted__():
            return []
        widths = self._recognizer.widths  # without the constant coordinate
        names = getattr(self, "view_names_in_", [f"view {v}" for v in range(len(widths))])
        atoms = self.learners_[0].components_
        return [
            (f"first dictionary, {name}", atoms[v][:, :width])
            for v, (name, width) in enumerate(zip(names, widths, strict=True))
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "nan"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_recognizer")
