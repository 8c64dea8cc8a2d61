"""The methods of the benchmark of classifiers, each as a careful user would have it.

Rivals choose their settings by cross-validation on the training part, and the scaling of features with them: each
feature at variance 1, or all multiplied by one number, as suits pixels and tf-idf. For dictlearn, whose classifiers
have no constant term: each feature at variance 1, samples at norm 1, or both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from _classifiers_data import Problem
from _data import Array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier

FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
DICTLEARN_SCALINGS = (StandardScaler(), Normalizer(), make_pipeline(StandardScaler(), Normalizer()))
HELD_OUT = StratifiedShuffleSplit(1, test_size=0.3, random_state=0)  # where a fit takes long


class CommonScaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Take the means away and multiply all features by one number, so that their mean variance is 1."""

    def fit(self, X: Array, y: Array | None = None) -> Self:
        """Learn means and the number."""
        self.mean_ = X.mean(axis=0)
        self.scale_ = float(np.sqrt(np.mean(X.var(axis=0))))
        return self

    def transform(self, X: Array) -> Array:
        """Scale samples."""
        scaled: Array = (X - self.mean_) / self.scale_
        return scaled


@dataclass(frozen=True)
class Method:
    """A name, and a function that makes a classifier for a training part.

    A classifier without probabilities of its own may be `calibrated` for them. Those of `own` are this project's;
    those that are not `ranked` are in the tables, but not among the ranks.
    """

    name: str
    make: Callable[[Problem], Any]
    calibrated: bool = False
    own: bool = False
    ranked: bool = True
    views: bool = False

    def suits(self, problem: Problem) -> bool:
        """Tell whether the method can be tried."""
        return bool(problem.widths) or not self.views


def search(
    classifier: Any,
    choices: Mapping[str, Iterable[Any]],
    *,
    scalings: Sequence[Any] = (StandardScaler(), CommonScaler()),
    cv: Any = FOLDS,
    scoring: str = "accuracy",
) -> GridSearchCV:
    """Return a search over the scaling and the settings of a classifier."""
    grid = {"scaling": list(scalings)} | {f"classifier__{name}": list(values) for name, values in choices.items()}
    pipeline = Pipeline([("scaling", StandardScaler()), ("classifier", classifier)])
    return GridSearchCV(pipeline, grid, cv=cv, scoring=scoring, error_score="raise")


def ridge(_: Problem) -> Any:
    return search(RidgeClassifierCV(alphas=np.logspace(-3, 4, 15)), {})


def linear_svm(problem: Problem) -> Any:
    penalties = np.array([0.1, 0.5, 2.0, 10.0]) / problem.X.shape[1]  # scaled features have a mean variance of 1
    return search(LinearSVC(max_iter=2000, random_state=0), {"C": penalties})


def kernel_svm(problem: Problem) -> Any:
    widths = np.array([0.1, 0.5, 2.0]) / problem.X.shape[1]
    return search(SVC(), {"C": (1.0, 10.0, 100.0), "gamma": widths})


def nearest(_: Problem) -> Any:
    return search(KNeighborsClassifier(), {"n_neighbors": (1, 3, 5, 9, 15, 25)})


def boosting(_: Problem) -> Any:
    return HistGradientBoostingClassifier(random_state=0)


def logistic(_: Problem) -> Any:
    choices = {"C": (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)}
    return search(LogisticRegression(max_iter=500), choices, scoring="neg_log_loss")


def pairs(problem: Problem) -> Any:
    """Return dictlearn's projective dictionary pair learning; a class has at most as many atoms as samples."""
    from dictlearn.classification import DPLClassifier

    fewest = int(np.bincount(problem.y).min())
    choices = {"n_components": sorted({min(5, fewest), min(20, fewest)}), "theta": (0.003, 0.03)}
    return search(DPLClassifier(5, random_state=0), choices, scalings=DICTLEARN_SCALINGS, cv=HELD_OUT)


def discriminative(problem: Problem) -> Any:
    """Return dictlearn's D-KSVD with one atom for five samples, up to 512 as ours."""
    from dictlearn.classification import DDLClassifier

    n_components = min(512, max(2, len(problem.y) // 5))
    most = min(n_components, problem.X.shape[1])
    classifier = DDLClassifier(n_components, init_method="trained", random_state=0)
    choices = {"n_nonzero_coefs": sorted({min(4, most), min(16, most)}), "alpha": (0.1, 1.0)}
    return search(classifier, choices, scalings=DICTLEARN_SCALINGS, cv=HELD_OUT)


def own(make: Callable[..., Any], _: Problem, **settings: Any) -> Any:
    return make(n_jobs=1, random_state=0, **settings)


METHODS = (
    Method("ridge", ridge),
    Method("linear SVM", linear_svm),
    Method("RBF SVM", kernel_svm, calibrated=True),
    Method("kNN", nearest),
    Method("gradient boosting", boosting),
    Method("logistic regression", logistic),
    Method("DPL, dictlearn", pairs),
    Method("D-KSVD, dictlearn", discriminative),
    Method("SparseRepresentationClassifier()", partial(own, SparseRepresentationClassifier), own=True),
    Method("CoupledClassifier()", partial(own, CoupledClassifier), own=True),
    Method("the same, six views", partial(own, CoupledClassifier), own=True, ranked=False, views=True),
    *(
        Method(f"the same, head={head!r}", partial(own, CoupledClassifier, head=head), own=True, ranked=False)
        for head in ("codes+features", "kernel")
    ),
)


def calibrate(fitted: Any, X: Array, y: Array) -> Any:
    """Return a classifier with the settings of a search whose decisions are made probabilities (Platt)."""
    return CalibratedClassifierCV(fitted.best_estimator_, cv=5, ensemble=False).fit(X, y)
