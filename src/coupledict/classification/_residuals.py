"""Classification by residuals: a sample belongs to the class whose atoms explain it best."""

from __future__ import annotations

import os
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._base import check_choice, generator
from .._containers import named_columns
from .._display import PicturedMixin
from .._ensemble import fit_many
from .._pursuit import Pursuit, check_pursuit, sparse_encode
from .._single import DictionaryLearning
from .._views import Array, check_count
from ._labelled import check_labelled
from ._scaling import Scaler, check_preprocess

ROWS = 4096  # samples whose residuals are in memory at a time
SAMPLES_PER_ATOM = 3
MOST_ATOMS = 64


class SparseRepresentationClassifier(PicturedMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify a sample by the class whose atoms leave the smallest residual.

    The atoms are the training samples themselves, as in sparse representation-based classification [1]_, or those of
    dictionaries learned for each class. A sample is coded sparsely over the atoms of all classes together, and the part
    of the code that belongs to a class is all that may explain it for that class; or it is coded over each class alone.

    Parameters
    ----------
    dictionary : {"samples", "classes"}, default="samples"
        Training samples as atoms, or a dictionary learned for each class.
    n_components : int, optional
        Atoms of each class, at most as many as it has samples. If left out, all samples, or with
        ``dictionary="classes"`` one atom for three samples, but at most 64.
    n_nonzero_coefs : int, default=4
        At most this many atoms a sample.
    coding : {"joint", "class"}, default="joint"
        Over the atoms of all classes, or over those of each class alone.
    preprocess : {"auto", "standardize", "common", "unit"} or None, default="auto"
        As in :class:`CoupledClassifier`.
    max_iter : int, default=10
        Iterations of learning; with samples as atoms there is none.
    pursuit : {"omp", "ols"}, default="omp"
        As in :func:`coupledict.sparse_encode`.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        For the draw of samples and for learning.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    components_ : array of shape (n_atoms, n_features), or with one more column
        Atoms, class after class, in the coordinates that `preprocess` makes; a constant one comes last.
    atom_classes_ : array of shape (n_atoms,)
        Number of the class of each atom.
    n_iter_ : int
        Iterations that were done; 1 where samples are the atoms.
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the features, where X had them.

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
    >>> from coupledict.classification import SparseRepresentationClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = SparseRepresentationClassifier().fit(X[:1200], y[:1200])
    >>> classifier.score(X[1200:], y[1200:]) > 0.94
    True
    """

    def __init__(
        self,
        dictionary: Literal["samples", "classes"] = "samples",
        *,
        n_components: int | None = None,
        n_nonzero_coefs: int = 4,
        coding: Literal["joint", "class"] = "joint",
        preprocess: Literal["auto", "standardize", "common", "unit"] | None = "auto",
        max_iter: int = 10,
        pursuit: Pursuit = "omp",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.dictionary = dictionary
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.coding = coding
        self.preprocess = preprocess
        self.max_iter = max_iter
        self.pursuit = pursuit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_choice(self.dictionary, "dictionary", ("samples", "classes"))
        check_choice(self.coding, "coding", ("joint", "class"))
        if self.n_components is not None:
            check_count(self.n_components, "n_components")
        for name in ("n_nonzero_coefs", "max_iter"):
            check_count(getattr(self, name), name)
        check_preprocess(self.preprocess)
        check_pursuit(self.pursuit)

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Make the atoms of each class.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The samples.
        y : array of shape (n_samples,)
            Labels: integers, strings, or anything else that scikit-learn takes for classes.

        Returns
        -------
        self
        """
        self._check_parameters()
        if isinstance(X, list) and any(entry is None or np.ndim(entry) == 2 for entry in X):
            raise ValueError("Expected X to be one array, got a list of views. For those there is CoupledClassifier.")
        with named_columns(X, "X"):
            given = check_labelled(self, X, y)
        self.classes_ = given.classes
        self._scaler = Scaler.of(given.views[0], self.preprocess)
        samples = self._scaler.coded(given.views[0])
        rng = generator(self.random_state)
        blocks = [self._atoms(samples[given.y == label], rng) for label in range(self.classes_.size)]
        self.components_ = np.vstack(blocks)
        self.atom_classes_ = np.repeat(np.arange(self.classes_.size), [block.shape[0] for block in blocks])
        self.n_iter_ = 1 if self.dictionary == "samples" else self.max_iter
        return self

    def _atoms(self, samples: Array, rng: np.random.Generator) -> Array:
        """Return the atoms of a class from its samples."""
        n = samples.shape[0]
        if self.dictionary == "samples":
            if self.n_components is None or self.n_components >= n:
                return samples
            return np.asarray(samples[np.sort(rng.choice(n, self.n_components, replace=False))])
        n_components = min(self.n_components or min(-(-n // SAMPLES_PER_ATOM), MOST_ATOMS), n)
        learner = DictionaryLearning(
            n_components,
            n_nonzero_coefs=self.n_nonzero_coefs,
            max_iter=self.max_iter,
            pursuit=self.pursuit,
            init="samples",
            n_jobs=self.n_jobs,
            random_state=rng,
        )
        return np.asarray(fit_many([learner], samples, self.n_jobs)[0].components_)

    def _residuals(self, X: object) -> Array:
        """Return the squared residual of each sample for each class, relative to the coded sample."""
        check_is_fitted(self, "components_")
        array = np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))
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
        """Return the residual of each class, negative: the largest is the best.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,) for two classes
            Norms of residuals of the samples as `preprocess` makes them; for two classes, the first less the second.
        """
        norms = np.sqrt(self._residuals(X))
        return -norms if self.classes_.size > 2 else norms[:, 0] - norms[:, 1]

    def predict(self, X: npt.ArrayLike) -> Array:
        """Return the class of each sample.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples,)
        """
        nearest = np.argmin(self._residuals(X), axis=1)
        return np.asarray(self.classes_[nearest])

    def _pictured(self) -> list[tuple[str, Array]]:
        return [("atoms", self.components_[:, : self.n_features_in_])] if hasattr(self, "components_") else []

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that :func:`coupledict.load` reads; opening it runs no code.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced, as a whole.
        """
        from ._saving import save_residuals

        check_is_fitted(self, "components_")
        save_residuals(self, path)
