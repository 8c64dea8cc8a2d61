"""Search, cross-validation and splitting of samples that have several views.

These are scikit-learn's own tools, which see the samples in a list or a dict of views: to scikit-learn a list of two
arrays is a list of two samples. Views are wrapped in :class:`coupledict.views.Views`; then scikit-learn does the rest,
so parameters and results are its own. Samples that are not given as several views are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np
import sklearn.model_selection as tools
from sklearn import config_context
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .foundation.arrays import Array, Floats
from .foundation.tensors import with_numpy
from .foundation.views import Views, is_plain_views

__all__ = [
    "GridSearchCV",
    "RandomizedSearchCV",
    "cross_validate",
    "cross_val_score",
    "cross_val_predict",
    "learning_curve",
    "validation_curve",
    "train_test_split",
]


def _wrapped(X: Any, name: str = "X") -> Any:
    """Return several views as :class:`Views`, arrays of other libraries as NumPy's, and anything else unchanged."""
    return Views(X) if is_plain_views(X) else with_numpy(X, name)


def _by_numpy() -> AbstractContextManager[None]:
    """Return a context in which tools do not ask for the library of arrays: Views have none, all others are NumPy's."""
    context: AbstractContextManager[None] = config_context(array_api_dispatch=False)
    return context


def _apply(tool: Callable[..., Any], estimator: Any, X: Any, y: Any, options: dict[str, Any]) -> Any:
    """Return what a tool of scikit-learn returns for an estimator and samples that may have several views."""
    with _by_numpy():
        return tool(estimator, _wrapped(X), with_numpy(y, "y"), **_read(options))


def _read(options: Any) -> dict[str, Any]:
    """Return options such as groups, and those that are passed on, with NumPy's arrays for those of others."""
    own = {name: with_numpy(value, name) for name, value in options.items()}
    passed = {name: _read(value) for name, value in own.items() if name == "params" and isinstance(value, Mapping)}
    return own | passed


def _has_predict(search: Any) -> bool:
    return hasattr(super(_SearchOfViews, search), "predict")


class _SearchOfViews:
    """What searches over samples with several views add to those of scikit-learn."""

    best_estimator_: Any

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Try the settings by cross-validation, and fit the best one to all samples.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
            Anything else that the estimator takes is accepted too.
        y : array of shape (n_samples,), optional
            Labels, for estimators that need them.
        **params : dict
            As in scikit-learn.

        Returns
        -------
        self
        """
        with _by_numpy():
            super().fit(_wrapped(X), with_numpy(y, "y"), **_read(params))  # type: ignore[misc]
        return self

    @available_if(_has_predict)  # type: ignore[untyped-decorator]
    def predict(self, X: Any, **params: Any) -> Any:
        """Predict by the best estimator.

        Parameters
        ----------
        X : views
            As the estimator takes them.
        **params : dict
            Passed on to the estimator. Learners of several views need ``view``, the number or name of the wanted view.

        Returns
        -------
        array
            As the estimator predicts it.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X, **params)


class GridSearchCV(_SearchOfViews, tools.GridSearchCV):  # type: ignore[misc]
    """Search a grid of parameters by cross-validation, for samples that have several views.

    The same as ``sklearn.model_selection.GridSearchCV``, of which it is a subclass, but `fit` also takes a list or a
    dict of views: ``fit([U, L])`` is what ``fit(Views([U, L]))`` is in scikit-learn.

    Parameters
    ----------
    estimator, param_grid, scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As in scikit-learn. Without `scoring`, the estimator's own `score` is maximised.

    See Also
    --------
    RandomizedSearchCV : Tries some settings, drawn at random.
    coupledict.views.Views : Views in one object, for all tools of scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.model_selection import GridSearchCV
    >>> rng = np.random.default_rng(0)
    >>> sources = rng.standard_normal((300, 4)) * (rng.random((300, 4)) < 0.5)
    >>> U, L = sources @ rng.standard_normal((4, 6)), sources @ rng.standard_normal((4, 9))
    >>> learner = CoupledDictionaryLearning(8, random_state=0)
    >>> search = GridSearchCV(learner, {"n_nonzero_coefs": [1, 4]}, cv=3).fit([U, L])
    >>> search.best_params_
    {'n_nonzero_coefs': 4}
    >>> search.predict([U, None], view=1).shape
    (300, 9)
    """


class RandomizedSearchCV(_SearchOfViews, tools.RandomizedSearchCV):  # type: ignore[misc]
    """Try parameters drawn at random by cross-validation, for samples that have several views.

    The same as ``sklearn.model_selection.RandomizedSearchCV``, of which it is a subclass, but `fit` also takes a list
    or a dict of views.

    Parameters
    ----------
    estimator, param_distributions, n_iter, scoring, n_jobs, refit, cv, verbose, pre_dispatch, random_state, \
error_score, return_train_score
        As in scikit-learn. Without `scoring`, the estimator's own `score` is maximised.

    See Also
    --------
    GridSearchCV : Tries all settings of a grid.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import randint
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.model_selection import RandomizedSearchCV
    >>> rng = np.random.default_rng(0)
    >>> U = rng.standard_normal((200, 6))
    >>> learner = CoupledDictionaryLearning(8, n_nonzero_coefs=2, max_iter=3, random_state=0)
    >>> choices = {"n_components": randint(8, 17)}
    >>> search = RandomizedSearchCV(learner, choices, n_iter=3, cv=2, random_state=0).fit({"a": U, "b": 2 * U})
    >>> 8 <= search.best_params_["n_components"] <= 16
    True
    """


def cross_validate(estimator: Any, X: Any, y: Any = None, **options: Any) -> dict[str, Any]:
    """Fit and score an estimator of several views by cross-validation, and measure times.

    Parameters
    ----------
    estimator : estimator
        A learner, classifier or matcher of coupledict, or a pipeline that ends with one.
    X : list of arrays of shape (n_samples, n_features_v), dict of them by name, or Views
        The samples; they are split, not the list.
    y : array of shape (n_samples,), optional
        Labels, for estimators that need them.
    **options : dict
        As in ``sklearn.model_selection.cross_validate``: `cv`, `scoring`, `n_jobs` and others.

    Returns
    -------
    dict
        What scikit-learn returns: ``test_score``, ``fit_time`` and others, each with one number per split.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.model_selection import cross_validate
    >>> U = np.random.default_rng(0).standard_normal((200, 6))
    >>> learner = CoupledDictionaryLearning(8, n_nonzero_coefs=2, random_state=0)
    >>> found = cross_validate(learner, [U, 2 * U], cv=4, return_train_score=True)
    >>> found["test_score"].shape, bool(np.mean(found["train_score"]) > 0.5)
    ((4,), True)
    """
    found: dict[str, Any] = _apply(tools.cross_validate, estimator, X, y, options)
    return found


def cross_val_score(estimator: Any, X: Any, y: Any = None, **options: Any) -> Floats:
    """Score an estimator of several views by cross-validation.

    Parameters
    ----------
    estimator, X, y
        As in :func:`cross_validate`.
    **options : dict
        As in ``sklearn.model_selection.cross_val_score``.

    Returns
    -------
    array of shape (n_splits,)
        The score of each split.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.model_selection import cross_val_score
    >>> U = np.random.default_rng(0).standard_normal((200, 6))
    >>> learner = CoupledDictionaryLearning(8, n_nonzero_coefs=2, random_state=0)
    >>> cross_val_score(learner, {"a": U, "b": 2 * U}, cv=4).shape
    (4,)
    """
    return np.asarray(_apply(tools.cross_val_score, estimator, X, y, options))


def cross_val_predict(estimator: Any, X: Any, y: Any = None, **options: Any) -> Array:
    """Predict the label of each sample of several views, by a classifier that has not seen the sample.

    Parameters
    ----------
    estimator, X, y
        As in :func:`cross_validate`; the estimator is a classifier.
    **options : dict
        As in ``sklearn.model_selection.cross_val_predict``: `cv`, `method` and others.

    Returns
    -------
    array of shape (n_samples,), or (n_samples, n_classes) for probabilities
        What scikit-learn returns.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from coupledict.classification import CoupledClassifier
    >>> from coupledict.model_selection import cross_val_predict
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> found = cross_val_predict(CoupledClassifier(random_state=0), [X[:, :32], X[:, 32:]], y, cv=2)
    >>> bool((found == y).mean() > 0.95)
    True
    """
    return np.asarray(_apply(tools.cross_val_predict, estimator, X, y, options))


def learning_curve(estimator: Any, X: Any, y: Any = None, **options: Any) -> tuple[Array, ...]:
    """Score an estimator of several views by cross-validation, for rising numbers of training samples.

    Parameters
    ----------
    estimator, X, y
        As in :func:`cross_validate`.
    **options : dict
        As in ``sklearn.model_selection.learning_curve``: `train_sizes`, `cv` and others.

    Returns
    -------
    tuple of arrays
        What scikit-learn returns: numbers of samples, training scores and test scores.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.model_selection import learning_curve
    >>> U = np.random.default_rng(0).standard_normal((200, 6))
    >>> learner = CoupledDictionaryLearning(8, n_nonzero_coefs=2, max_iter=5, random_state=0)
    >>> sizes, train_scores, test_scores = learning_curve(learner, [U, 2 * U], train_sizes=[20, 80], cv=2)
    >>> sizes, test_scores.shape
    (array([20, 80]), (2, 2))
    """
    found: tuple[Array, ...] = _apply(tools.learning_curve, estimator, X, y, options)
    return found


def validation_curve(estimator: Any, X: Any, y: Any = None, **options: Any) -> tuple[Array, Array]:
    """Score an estimator of several views by cross-validation, for the values of one parameter.

    Parameters
    ----------
    estimator, X, y
        As in :func:`cross_validate`.
    **options : dict
        As in ``sklearn.model_selection.validation_curve``: `param_name`, `param_range`, `cv` and others.

    Returns
    -------
    tuple of two arrays of shape (n_values, n_splits)
        Training scores and test scores.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.model_selection import validation_curve
    >>> U = np.random.default_rng(0).standard_normal((200, 6))
    >>> learner = CoupledDictionaryLearning(8, max_iter=5, random_state=0)
    >>> train_scores, test_scores = validation_curve(
    ...     learner, [U, 2 * U], param_name="n_nonzero_coefs", param_range=[1, 3], cv=2
    ... )
    >>> bool(test_scores[1].mean() > test_scores[0].mean())
    True
    """
    found: tuple[Array, Array] = _apply(tools.validation_curve, estimator, X, y, options)
    return found


def train_test_split(*arrays: Any, **options: Any) -> list[Any]:
    """Split samples of several views, and what belongs to them, into a training and a test part.

    Parameters
    ----------
    *arrays : lists or dicts of views, Views, arrays, tables or lists
        Several views of the samples, labels, weights: whatever has one entry per sample. A list or a dict of 2-D arrays
        is several views. Arrays of other libraries become NumPy's.
    **options : dict
        As in ``sklearn.model_selection.train_test_split``: `test_size`, `random_state`, `stratify` and others.

    Returns
    -------
    list
        For each argument its training part, then its test part, of the kind that was given: a list of views for a list
        or a tuple, a dict for a dict.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.model_selection import train_test_split
    >>> rng = np.random.default_rng(0)
    >>> U, L, y = rng.standard_normal((100, 6)), rng.standard_normal((100, 9)), np.arange(100) % 2
    >>> train, test, y_train, y_test = train_test_split([U, L], y, test_size=0.25, stratify=y, random_state=0)
    >>> [view.shape for view in train], y_test.shape
    ([(75, 6), (75, 9)], (25,))
    """
    read = [_wrapped(array, f"arrays[{place}]") for place, array in enumerate(arrays)]
    with _by_numpy():
        parts = tools.train_test_split(*read, **_read(options))
    given = [array for array in arrays for _ in range(2)]
    return [_as_given(part, array) for part, array in zip(parts, given, strict=True)]


def _as_given(part: Any, array: Any) -> Any:
    """Return a part of an argument in the kind of container that the argument was given in."""
    if not is_plain_views(array):
        return part
    return list(part.views) if part.names is None else dict(zip(part.names, part.views, strict=True))
