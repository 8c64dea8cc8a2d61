"""Classification by residuals: a sample belongs to the class whose atoms explain it best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..estimators.display import PicturedMixin
from ..estimators.ensemble import fit_many
from ..estimators.keeping import keep_fitted
from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin, describe_names, restore_names
from ..estimators.single import DictionaryLearning
from ..files.models import JSON
from ..files.packing import describe_classes, read_classes
from ..files.state import ModelState, check_file_count, make_estimator
from ..foundation.arrays import Array, Floats
from ..foundation.checks import check_choice, make_generator
from ..foundation.choices import GreedyPursuit
from ..foundation.missing import masked_to_nan
from ..foundation.parameters import COUNT, NONE, Choice, Constraints
from ..foundation.progress import Callback, Meter
from ..foundation.tables import name_bad_column
from ..foundation.tensors import with_numpy
from ..foundation.views import is_view_list
from ._blending import MOST_INVERSE_TEMPERATURE, fit_inverse_temperature, log_loss
from ._class_residuals import ClassAtoms
from ._file_checks import check_atom_classes, check_dictionary, check_sizes
from ._folds import draw_folds
from ._label_views import Numbers, indicators
from ._labelled import ONE_VIEW, Labelled, check_entries, check_labelled
from ._scaling import Preprocess, Scaler

Atoms: TypeAlias = Literal["samples", "learned"]
Coding: TypeAlias = Literal["joint", "class"]
#: Preprocessing, number of atoms and coding that are tried together.
Setting: TypeAlias = tuple[Preprocess | None, int, Coding]

SAMPLES_PER_ATOM = 3
MOST_ATOMS = 64
WAYS: tuple[Preprocess, ...] = ("common", "standardize", "unit")
SPARSITIES, LEARNED_SPARSITIES = (4, 1, 10, 30), (4, 10)
N_FOLDS, LEARNED_FOLDS = 4, 2
MOST_CHOOSING = 400  # samples for choosing the settings
LOG_LOSS_WEIGHT = 0.1  # added to the error rate, which is equal for many settings if samples are few
DEFAULT_INVERSE_TEMPERATURE = 10.0  # if no sample can be left out


class SparseRepresentationClassifier(RunMixin, SavedMixin, PicturedMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify a sample by the class whose atoms leave the smallest residual.

    The atoms are the training samples themselves, as in sparse representation-based classification [1]_, or those of
    dictionaries learned for each class. A sample is coded over the atoms of all classes together, and the residual of a
    class uses only the coefficients of its own atoms; or the sample is coded over the atoms of each class alone.

    Parameters
    ----------
    atoms : {"samples", "learned"}, default="samples"
        Training samples, or dictionaries learned for each class.
    n_components : int, optional
        Atoms of each class, at most as many as it has samples. If left out, all samples, or with
        ``atoms="learned"`` one atom per three samples, but at most 64.
    n_nonzero_coefs : int or "auto", default="auto"
        At most this many atoms per sample. ``"auto"`` chooses 1, 4, 10 or 30; see Notes.
    coding : {"auto", "joint", "class"}, default="auto"
        Code over the atoms of all classes, or over those of each class alone.
    preprocess : {"auto", "standardize", "common", "unit"} or None, default="auto"
        As in :class:`CoupledClassifier`, but ``"auto"`` chooses one of the three by validation.
    max_iter : int, default=10
        Iterations of learning; not used with ``atoms="samples"``.
    pursuit : {"omp", "ols"}, default="omp"
        As in :func:`coupledict.sparse_encode`.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Source of randomness for drawing samples and for learning.
    verbose : int, default=0
        1 shows how far the fit has come.
    callback : callable, optional
        Called as ``callback(progress)`` after each setting that was tried (stage "choosing"), and after each iteration
        of each class, or with samples as atoms after each class; a true return value stops the fit by
        :class:`coupledict.StoppedByCallback`, and the results of an earlier fit stay.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    components_ : array of shape (n_atoms, n_features), or with one more column
        Atoms sorted by class, preprocessed like samples; the constant coordinate, if there is one, comes last.
    atom_classes_ : array of shape (n_atoms,)
        Number of the class of each atom.
    n_nonzero_coefs_, coding_, preprocess_ : int, str, str
        What was given or chosen; ``"none"`` for no preprocessing.
    n_iter_ : int
        Iterations that were done; 1 where samples are the atoms.
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the features, if X had them.

    See Also
    --------
    CoupledClassifier : Dictionaries learned together with the labels.

    Notes
    -----
    **What is chosen.** Up to 400 training samples are left out, in up to four parts of a quarter of the samples, and
    classified by the atoms of the others, with each candidate setting. The setting with the fewest errors is taken;
    the likelihood of the true classes counts a little, too. With samples as atoms, this takes about as long as
    classifying 10,000 samples. With ``atoms="learned"``, two parts are left out, the candidates are 4 and 10 atoms, and
    it takes about nine times as long as learning. Parts are drawn in the same way in every fit.

    **Probabilities** are ``softmax(-s * residuals)``, with the s that suits those left-out samples best, so they are
    not overconfident.

    **When to use something else.** Where classes are clouds rather than directions, as in most tables of numbers, a
    ridge regression or :class:`CoupledClassifier` is better.

    References
    ----------
    .. [1] J. Wright, A. Y. Yang, A. Ganesh, S. S. Sastry and Y. Ma, "Robust Face Recognition via Sparse
       Representation", IEEE Transactions on Pattern Analysis and Machine Intelligence 31(2), 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from coupledict.classification import SparseRepresentationClassifier
    >>> scores = cross_val_score(SparseRepresentationClassifier(), *load_digits(return_X_y=True), cv=3)
    >>> bool(scores.mean() > 0.94)
    True
    """

    classes_: Array
    components_: Array
    atom_classes_: Numbers
    n_nonzero_coefs_: int
    coding_: Coding
    preprocess_: str
    n_features_in_: int
    n_iter_: int
    _scaler: Scaler
    _inverse_temperature: float

    _parameter_constraints: ClassVar[Constraints] = {
        "atoms": (Choice(Atoms),),
        "n_components": (NONE, COUNT),
        "n_nonzero_coefs": (Choice("auto"), COUNT),
        "coding": (Choice("auto", Coding),),
        "preprocess": (Choice(Preprocess), NONE),
        "max_iter": (COUNT,),
        "pursuit": (Choice(GreedyPursuit),),
        **RunMixin._parameter_constraints,
    }

    def __init__(
        self,
        atoms: Atoms = "samples",
        *,
        n_components: int | None = None,
        n_nonzero_coefs: int | Literal["auto"] = "auto",
        coding: Coding | Literal["auto"] = "auto",
        preprocess: Preprocess | None = "auto",
        max_iter: int = 10,
        pursuit: GreedyPursuit = "omp",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.atoms = atoms
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.coding = coding
        self.preprocess = preprocess
        self.max_iter = max_iter
        self.pursuit = pursuit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Make the atoms of each class.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The samples. Arrays of PyTorch, JAX and others are read in place.
        y : array of shape (n_samples,)
            Labels, as in :class:`CoupledClassifier`.
        sample_weight : array of shape (n_samples,), optional
            How much each sample counts when settings are chosen, in probabilities, and in learned atoms; a sample of
            weight 0 is left out. Where samples are the atoms, all remaining ones count equally.

        Returns
        -------
        self
        """
        self._check_parameters()
        if is_view_list(X):
            raise ValueError("Expected X to be one array, got several views. Use CoupledClassifier for those.")
        with name_bad_column(X, "X"):
            given = check_labelled(self, X, y, missing=None, sample_weight=sample_weight)
        n_classes, n_iter = given.classes.size, 1 if self.atoms == "samples" else self.max_iter
        with self._watched() as callback:
            (preprocess, n_nonzero, coding), inverse_temperature = self._choose(given, callback)
            scaler = Scaler.of(given.views[0], preprocess, given.weights)
            meter = Meter(callback, "learning", n_classes * n_iter)
            count = None if callback is None else meter.advance
            rng = make_generator(self.random_state)
            samples = scaler.coded(given.views[0])
            atoms = self._make_atoms(samples, given.y, given.weights, n_classes, n_nonzero, rng, count)
        fitted = given.names | {
            "classes_": given.classes,
            "components_": atoms.atoms,
            "atom_classes_": atoms.classes,
            "n_nonzero_coefs_": n_nonzero,
            "coding_": coding,
            "preprocess_": preprocess or "none",
            "n_iter_": n_iter,
            "_scaler": scaler,
            "_inverse_temperature": inverse_temperature,
        }
        keep_fitted(self, fitted)
        return self

    # What is chosen

    def _choices(self) -> tuple[list[tuple[Preprocess | None, int]], list[Coding]]:
        """Return the candidate preprocessings and numbers of atoms, the default ones first, and the codings."""
        ways = WAYS if self.preprocess == "auto" else (self.preprocess,)
        usual = SPARSITIES if self.atoms == "samples" else LEARNED_SPARSITIES
        numbers = usual if self.n_nonzero_coefs == "auto" else (self.n_nonzero_coefs,)
        codings: list[Coding] = list(get_args(Coding)) if self.coding == "auto" else [self.coding]
        return [(way, number) for way in ways for number in numbers], codings

    def _choose(self, given: Labelled, callback: Callback | None) -> tuple[Setting, float]:
        """Return the setting that suits left-out samples best, and the inverse temperature of its probabilities."""
        ways, codings = self._choices()
        meter = Meter(callback, "choosing", len(ways) * len(codings))
        folds = draw_folds(given.y, np.ones(given.y.size, bool), N_FOLDS, np.random.default_rng(0))
        chosen = self._left_out(folds)
        rows = np.concatenate(chosen)
        targets, weights = indicators(given.y[rows], given.classes.size), given.weights[rows]
        best: tuple[float, Setting, float] | None = None
        for way, number in ways:
            tried = self._residuals_left_out(given, way, number, codings, folds, chosen) if rows.size else {}
            for coding in codings:
                found = 0.0, (way, number, coding), DEFAULT_INVERSE_TEMPERATURE
                if rows.size:
                    decided = -tried[coding]
                    wrong = float(np.average(np.argmax(decided, axis=1) != given.y[rows], weights=weights))
                    error = wrong + LOG_LOSS_WEIGHT * log_loss(decided, targets, weights)
                    found = error, (way, number, coding), fit_inverse_temperature(decided, targets, weights)
                best = found if best is None or found[0] < best[0] else best
                meter.advance()
        assert best is not None
        return best[1:]

    def _left_out(self, folds: Numbers) -> list[Numbers]:
        """Return the samples of each fold that choose the settings, no more than needed."""
        chosen: list[Numbers] = []
        for fold in range(N_FOLDS if self.atoms == "samples" else LEARNED_FOLDS):
            members = np.flatnonzero(folds == fold)
            size = min(MOST_CHOOSING - sum(rows.size for rows in chosen), members.size)
            chosen.append(members[np.arange(size) * members.size // max(1, size)])
        return chosen

    def _residuals_left_out(
        self,
        given: Labelled,
        preprocess: Preprocess | None,
        n_nonzero: int,
        codings: list[Coding],
        folds: Numbers,
        chosen: list[Numbers],
    ) -> dict[Coding, Floats]:
        """Return the residuals of the samples of each fold over the atoms of the others, by coding."""
        samples = Scaler.of(given.views[0], preprocess, given.weights).coded(given.views[0])
        found: dict[Coding, list[Array]] = {coding: [] for coding in codings}
        for fold, rows in enumerate(chosen):
            if rows.size:
                kept = np.flatnonzero(folds != fold)
                parts = samples[kept], given.y[kept], given.weights[kept]
                atoms = self._make_atoms(*parts, given.classes.size, n_nonzero, np.random.default_rng(0), None)
                for coding, own in found.items():
                    tried = replace(atoms, joint=coding == "joint")
                    own.append(tried.residuals(samples[rows], self.n_jobs))
        return {coding: np.concatenate(own).astype(np.float64) for coding, own in found.items()}

    # Atoms

    def _make_atoms(
        self,
        samples: Array,
        y: Numbers,
        weights: Floats,
        n_classes: int,
        n_nonzero: int,
        rng: np.random.Generator,
        count: Callable[[], None] | None,
    ) -> ClassAtoms:
        """Return the atoms of all classes; `count` is called after each class or iteration."""
        blocks = []
        for label in range(n_classes):
            rows = np.flatnonzero(y == label)
            if self.atoms == "samples":
                blocks.append(self._draw(samples[rows], rng))
                if count is not None:
                    count()
            else:
                # Scaling a sample does not change which atoms code it: a larger sample counts more.
                sizes = np.sqrt(weights[rows])[:, None].astype(samples.dtype)
                blocks.append(self._learn(samples[rows] * sizes, n_nonzero, rng, count))
        numbers = np.repeat(np.arange(n_classes), [block.shape[0] for block in blocks])
        return ClassAtoms(np.vstack(blocks), numbers, n_classes, n_nonzero, self.pursuit)

    def _draw(self, samples: Array, rng: np.random.Generator) -> Array:
        """Return samples of a class as its atoms."""
        n = samples.shape[0]
        if self.n_components is None or self.n_components >= n:
            return samples
        return np.asarray(samples[np.sort(rng.choice(n, self.n_components, replace=False))])

    def _learn(
        self, samples: Array, n_nonzero: int, rng: np.random.Generator, count: Callable[[], None] | None
    ) -> Array:
        """Return atoms that are learned from the samples of a class."""
        n = samples.shape[0]
        learner = DictionaryLearning(
            min(self.n_components or min(-(-n // SAMPLES_PER_ATOM), MOST_ATOMS), n),
            n_nonzero_coefs=n_nonzero,
            max_iter=self.max_iter,
            pursuit=self.pursuit,
            init="samples",
            random_state=rng,
        )
        callback = None if count is None else lambda progress: count()
        fitted = fit_many([learner], samples, self.n_jobs, callback=callback)
        return np.asarray(fitted[0].components_)

    # Decisions

    def _residuals(self, X: object) -> Array:
        """Return the norm of the residual of each sample for each class, relative to the coded sample."""
        check_is_fitted(self)
        array = np.asarray(validate_data(self, masked_to_nan(X), reset=False, **ONE_VIEW))
        check_entries([X], [array], ["X"], None)
        atoms = ClassAtoms(
            self.components_,
            self.atom_classes_,
            self.classes_.size,
            self.n_nonzero_coefs_,
            self.pursuit,
            self.coding_ == "joint",
        )
        return atoms.residuals(self._scaler.coded(array), self.n_jobs)

    def decision_function(self, X: npt.ArrayLike) -> Array:
        """Return the negative residual norm of each class; the largest value wins.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,) for two classes
            Negative norms of the residuals of preprocessed samples; for two classes, the norm of the first minus that
            of the second.
        """
        norms = self._residuals(X)
        return -norms if self.classes_.size > 2 else norms[:, 0] - norms[:, 1]

    def predict_proba(self, X: npt.ArrayLike) -> Array:
        """Return the probability of each class; see the Notes of the estimator.

        Parameters
        ----------
        X : as in :meth:`decision_function`

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        norms = self._residuals(X)
        return np.asarray(softmax(-self._inverse_temperature * norms.astype(np.float64), axis=1).astype(norms.dtype))

    def predict(self, X: npt.ArrayLike) -> Array:
        """Return the class of each sample.

        Parameters
        ----------
        X : as in :meth:`decision_function`

        Returns
        -------
        array of shape (n_samples,)
        """
        nearest = np.argmin(self._residuals(X), axis=1)
        return np.asarray(self.classes_[nearest])

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the share of samples whose class is predicted correctly.

        Parameters
        ----------
        X : as in :meth:`decision_function`
        y, sample_weight
            As in :meth:`CoupledClassifier.score`.

        Returns
        -------
        float
        """
        return float(super().score(X, with_numpy(y, "y"), with_numpy(sample_weight, "sample_weight")))

    def _pictured(self) -> list[tuple[str, Array]]:
        return [("atoms", self.components_[:, : self.n_features_in_])] if hasattr(self, "components_") else []

    # To files and back

    def _to_state(self) -> ModelState:
        tensors = {"components": self.components_, "atom_classes": self.atom_classes_.astype(np.int64)}
        tensors |= self._scaler.tensors(0)
        chosen: dict[str, JSON] = {
            "n_nonzero_coefs": self.n_nonzero_coefs_,
            "coding": self.coding_,
            "preprocess": self.preprocess_,
            "inverse_temperature": self._inverse_temperature,
        }
        names = describe_classes(self.classes_) | describe_names(vars(self))
        return ModelState.of(self, tensors, chosen=chosen, **names)

    @classmethod
    def _from_state(cls, state: ModelState) -> Self:
        model = make_estimator(cls, state.parameters)
        check_sizes(state.tensors)
        model.classes_ = read_classes(state.facts)
        model._scaler = Scaler.from_tensors(state.tensors, 0)
        model.components_ = check_dictionary(state.tensors["components"], model._scaler.width)
        n_atoms, n_classes = model.components_.shape[0], model.classes_.size
        model.atom_classes_ = check_atom_classes(state.tensors["atom_classes"], n_atoms, n_classes)
        if np.any(np.diff(model.atom_classes_) < 0) or np.unique(model.atom_classes_).size < n_classes:
            raise ValueError("the classes of its atoms are not in order")
        model._read_chosen(state.facts["chosen"])
        model.n_features_in_ = model._scaler.n_features
        model.n_iter_ = 1 if model.atoms == "samples" else model.max_iter
        restore_names(model, state.facts)
        return model

    def _read_chosen(self, chosen: dict[str, Any]) -> None:
        """Set what was chosen, read from a file and checked."""
        self.n_nonzero_coefs_ = check_file_count(chosen["n_nonzero_coefs"], "number of atoms per sample", least=1)
        coding: Any = check_choice(chosen["coding"], "coding", get_args(Coding))
        check_choice(chosen["preprocess"], "preprocess", (*get_args(Preprocess), "none"))
        inverse_temperature = float(chosen["inverse_temperature"])
        if not 0 < inverse_temperature <= MOST_INVERSE_TEMPERATURE:
            raise ValueError(f"its probabilities have an inverse temperature of {inverse_temperature}")
        self.coding_ = coding
        self.preprocess_ = str(chosen["preprocess"])
        self._inverse_temperature = inverse_temperature
