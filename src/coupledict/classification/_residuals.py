"""Classification by residuals: a sample belongs to the class whose atoms explain it best."""

from __future__ import annotations

from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..coding.encode import sparse_encode
from ..coding.rule import GreedyPursuit
from ..estimators.display import PicturedMixin
from ..estimators.ensemble import fit_many
from ..estimators.keeping import keep_fitted
from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin, describe_names, restore_names
from ..estimators.single import DictionaryLearning
from ..files.packing import describe_classes, read_classes
from ..files.state import ModelState, make_estimator
from ..foundation.arrays import Array
from ..foundation.checks import check_choice, check_counts, make_generator
from ..foundation.missing import masked_to_nan
from ..foundation.progress import Callback, Meter
from ..foundation.tables import name_bad_column
from ..foundation.views import is_view_list
from ._file_checks import check_atom_classes, check_dictionary, check_sizes
from ._label_views import Numbers
from ._labelled import ONE_VIEW, check_entries, check_labelled
from ._scaling import Preprocess, Scaler, check_preprocess

Atoms: TypeAlias = Literal["samples", "learned"]
Coding: TypeAlias = Literal["joint", "class"]

ROWS = 4096  # samples whose residuals are in memory at a time
SAMPLES_PER_ATOM = 3
MOST_ATOMS = 64


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
    n_nonzero_coefs : int, default=4
        At most this many atoms per sample.
    coding : {"joint", "class"}, default="joint"
        Code over the atoms of all classes, or over those of each class alone.
    preprocess : {"auto", "standardize", "common", "unit"} or None, default="auto"
        As in :class:`CoupledClassifier`.
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
        Called as ``callback(progress)`` after each iteration of each class, or with samples as atoms after each class;
        a true return value stops the fit by :class:`coupledict.StoppedByCallback`, and the results of an earlier fit
        stay.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    components_ : array of shape (n_atoms, n_features), or with one more column
        Atoms, class after class, preprocessed as samples are; the constant coordinate, if there is one, comes last.
    atom_classes_ : array of shape (n_atoms,)
        Number of the class of each atom.
    n_iter_ : int
        Iterations that were done; 1 where samples are the atoms.
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the features, if X had them.

    See Also
    --------
    CoupledClassifier : Dictionaries learned together with the labels.

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
    n_features_in_: int
    n_iter_: int
    _scaler: Scaler

    def __init__(
        self,
        atoms: Atoms = "samples",
        *,
        n_components: int | None = None,
        n_nonzero_coefs: int = 4,
        coding: Coding = "joint",
        preprocess: Preprocess | None = "auto",
        max_iter: int = 10,
        pursuit: GreedyPursuit = "omp",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self._set_run(n_jobs, random_state, verbose, callback)
        self.n_components, self.n_nonzero_coefs = n_components, n_nonzero_coefs
        self.atoms, self.coding, self.preprocess, self.pursuit, self.max_iter = (
            atoms,
            coding,
            preprocess,
            pursuit,
            max_iter,
        )

    def _check_parameters(self) -> None:
        check_choice(self.atoms, "atoms", get_args(Atoms))
        check_choice(self.coding, "coding", get_args(Coding))
        check_counts(self, "n_nonzero_coefs", "max_iter", optional=["n_components"])
        check_preprocess(self.preprocess)
        check_choice(self.pursuit, "pursuit", get_args(GreedyPursuit))
        self._check_run()

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Make the atoms of each class.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The samples.
        y : array of shape (n_samples,)
            Labels, as in :class:`CoupledClassifier`.

        Returns
        -------
        self
        """
        self._check_parameters()
        if is_view_list(X):
            raise ValueError("Expected X to be one array, got several views. For those there is CoupledClassifier.")
        with name_bad_column(X, "X"):
            given = check_labelled(self, X, y, missing=None)
        n_classes = given.classes.size
        scaler = Scaler.of(given.views[0], self.preprocess)
        samples = scaler.coded(given.views[0])
        rng = make_generator(self.random_state)
        n_iter = 1 if self.atoms == "samples" else self.max_iter
        with self._watched() as told:
            meter = Meter(told, "learning", n_classes * n_iter)
            count = None if told is None else lambda progress: meter.advance()
            blocks = []
            for label in range(n_classes):
                own = samples[given.y == label]
                if self.atoms == "samples":
                    blocks.append(self._draw(own, rng))
                    meter.advance()
                else:
                    blocks.append(self._learn(own, rng, count))
        fitted = given.names | {
            "classes_": given.classes,
            "components_": np.vstack(blocks),
            "atom_classes_": np.repeat(np.arange(n_classes), [block.shape[0] for block in blocks]),
            "n_iter_": n_iter,
            "_scaler": scaler,
        }
        keep_fitted(self, fitted)
        return self

    def _draw(self, samples: Array, rng: np.random.Generator) -> Array:
        """Return samples of a class as its atoms."""
        n = samples.shape[0]
        if self.n_components is None or self.n_components >= n:
            return samples
        return np.asarray(samples[np.sort(rng.choice(n, self.n_components, replace=False))])

    def _learn(self, samples: Array, rng: np.random.Generator, callback: Callback | None) -> Array:
        """Return atoms that are learned from the samples of a class."""
        n = samples.shape[0]
        learner = DictionaryLearning(
            min(self.n_components or min(-(-n // SAMPLES_PER_ATOM), MOST_ATOMS), n),
            n_nonzero_coefs=self.n_nonzero_coefs,
            max_iter=self.max_iter,
            pursuit=self.pursuit,
            init="samples",
            random_state=rng,
        )
        fitted = fit_many([learner], samples, self.n_jobs, callback=callback)
        return np.asarray(fitted[0].components_)

    def _residuals(self, X: object) -> Array:
        """Return the squared residual of each sample for each class, relative to the coded sample."""
        check_is_fitted(self)
        array = np.asarray(validate_data(self, masked_to_nan(X), reset=False, **ONE_VIEW))
        check_entries([X], [array], ["X"], None)
        bounds = np.searchsorted(self.atom_classes_, np.arange(self.classes_.size + 1))
        found = np.empty((array.shape[0], self.classes_.size), array.dtype)
        for first in range(0, array.shape[0], ROWS):
            samples = self._scaler.coded(array[first : first + ROWS])
            codes = self._codes(samples, self.components_) if self.coding == "joint" else None
            for label in range(self.classes_.size):
                part = slice(bounds[label], bounds[label + 1])
                atoms = self.components_[part]
                left = samples - (self._codes(samples, atoms) if codes is None else codes[:, part]) @ atoms
                found[first : first + ROWS, label] = np.einsum("ij,ij->i", left, left)
        return found

    def _codes(self, samples: Array, atoms: Array) -> Any:
        return sparse_encode(
            samples, atoms, n_nonzero_coefs=self.n_nonzero_coefs, pursuit=self.pursuit, n_jobs=self.n_jobs
        )

    def decision_function(self, X: npt.ArrayLike) -> Array:
        """Return the negative residual norm of each class: the largest value is the best.

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
        norms = np.sqrt(self._residuals(X))
        return -norms if self.classes_.size > 2 else norms[:, 0] - norms[:, 1]

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

    def _pictured(self) -> list[tuple[str, Array]]:
        return [("atoms", self.components_[:, : self.n_features_in_])] if hasattr(self, "components_") else []

    # To files and back

    def _to_state(self) -> ModelState:
        tensors = {"components": self.components_, "atom_classes": self.atom_classes_.astype(np.int64)}
        tensors |= self._scaler.tensors(0)
        return ModelState.of(self, tensors, **describe_classes(self.classes_), **describe_names(vars(self)))

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
        model.n_features_in_ = model._scaler.n_features
        model.n_iter_ = 1 if model.atoms == "samples" else model.max_iter
        restore_names(model, state.facts)
        return model
