"""scikit-learn's names for sparse coding and dictionary learning, as a user who moves to coupledict would map them.

Each adapter takes scikit-learn's arguments and calls coupledict; docs/migration/scikit_learn.md has the same mapping in
words. What coupledict does not offer raises :class:`NotOfferedError`: a test that needs it fails by that alone.
Arguments that only say how scikit-learn computes (`precompute`, `gram`, `check_input`, ...) have nothing to map to.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import coupledict

LASSO = ("lasso_lars", "lasso_cd")  # two solvers of one problem


class NotOfferedError(NotImplementedError):
    """What scikit-learn has and coupledict does not."""


def not_offered(name):
    """Return a function that stands for a name without a counterpart."""

    def refuse(*args, **kwargs):
        raise NotOfferedError(name)

    return refuse


# sparse coding


def rule(algorithm, n_nonzero_coefs=None, alpha=None, default_alpha=1.0):
    """Return the arguments of coupledict that are scikit-learn's algorithm and its parameters."""
    if algorithm in LASSO:
        return {"pursuit": "lasso", "alpha": default_alpha if alpha is None else alpha}
    if algorithm == "omp":
        return {"pursuit": "omp", "n_nonzero_coefs": n_nonzero_coefs, "tol": alpha}
    raise NotOfferedError(f"algorithm={algorithm!r}")


def sparse_encode(
    X,
    dictionary,
    *,
    gram=None,
    cov=None,
    algorithm="lasso_lars",
    n_nonzero_coefs=None,
    alpha=None,
    copy_cov=True,
    init=None,
    max_iter=1000,
    n_jobs=None,
    check_input=True,
    verbose=0,
    positive=False,
):
    chosen = rule(algorithm, n_nonzero_coefs, alpha)
    return coupledict.sparse_encode(X, dictionary, **chosen, positive_code=positive, n_jobs=n_jobs).toarray()


def orthogonal_mp(
    X, y, *, n_nonzero_coefs=None, tol=None, precompute=False, copy_X=True, return_path=False, return_n_iter=False
):
    """Samples are columns here, and atoms too."""
    samples = np.atleast_2d(np.asarray(y).T)

    def coded(limit):
        return coupledict.sparse_encode(samples, np.asarray(X).T, n_nonzero_coefs=limit, tol=tol).toarray().T

    codes = coded(None if tol is not None else n_nonzero_coefs)
    if return_path:  # the pursuit is greedy: shorter codes are the steps of longer ones
        most = int(np.count_nonzero(codes, axis=0).max())
        codes = np.stack([coded(limit) for limit in range(1, most + 1)], axis=-1)
    codes = codes[:, 0] if np.ndim(y) == 1 else codes
    return (codes, int(np.count_nonzero(codes, axis=0).max())) if return_n_iter else codes


def orthogonal_mp_gram(
    Gram,
    Xy,
    *,
    n_nonzero_coefs=None,
    tol=None,
    norms_squared=None,
    copy_Gram=True,
    copy_Xy=True,
    return_path=False,
    return_n_iter=False,
):
    """Code a dictionary and samples that have the given inner products: coupledict takes no Gram matrix."""
    values, vectors = np.linalg.eigh(np.asarray(Gram, dtype=np.float64))
    kept = values > values[-1] * len(values) * np.finfo(np.asarray(Gram).dtype).eps
    roots = np.sqrt(values[kept])
    dtype = np.result_type(Gram, Xy)
    X = (roots[:, None] * vectors[:, kept].T).astype(dtype)
    y = ((vectors[:, kept].T @ Xy).T / roots).T.astype(dtype)
    return orthogonal_mp(
        X, y, n_nonzero_coefs=n_nonzero_coefs, tol=tol, return_path=return_path, return_n_iter=return_n_iter
    )


class OrthogonalMatchingPursuit(BaseEstimator):
    """Regression of targets on few columns of X; `precompute` has no counterpart."""

    def __init__(self, *, n_nonzero_coefs=None, tol=None, fit_intercept=True, precompute="auto"):
        self.n_nonzero_coefs, self.tol = n_nonzero_coefs, tol
        self.fit_intercept, self.precompute = fit_intercept, precompute

    def fit(self, X, y):
        middle, mean = (X.mean(axis=0), y.mean(axis=0)) if self.fit_intercept else (np.zeros(X.shape[1]), 0.0)
        self.coef_ = orthogonal_mp(X - middle, y - mean, n_nonzero_coefs=self.n_nonzero_coefs, tol=self.tol).T
        self.intercept_ = mean - self.coef_ @ middle if self.fit_intercept else 0.0
        self.n_nonzero_coefs_ = None if self.tol is not None else self.n_nonzero_coefs
        return self


class Coded(BaseEstimator):
    """What the adapters of transformers share: codes by their own rule, and the rest by the model of coupledict."""

    def _coder(self, dictionary):
        if self.split_sign:
            raise NotOfferedError("split_sign")
        chosen = rule(
            self.transform_algorithm,
            self.transform_n_nonzero_coefs,
            self.transform_alpha,
            getattr(self, "alpha", 1.0),
        )
        return coupledict.SparseCoder(
            dictionary, **chosen, positive_code=self.positive_code, sparse_output=False, n_jobs=self.n_jobs
        )

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)

    def get_feature_names_out(self, input_features=None):
        return self._model.get_feature_names_out(input_features)


class SparseCoder(Coded):
    def __init__(
        self,
        dictionary,
        *,
        transform_algorithm="omp",
        transform_n_nonzero_coefs=None,
        transform_alpha=None,
        split_sign=False,
        n_jobs=None,
        positive_code=False,
        transform_max_iter=1000,
    ):
        self.dictionary, self.transform_algorithm = dictionary, transform_algorithm
        self.transform_n_nonzero_coefs, self.transform_alpha = transform_n_nonzero_coefs, transform_alpha
        self.split_sign, self.n_jobs = split_sign, n_jobs
        self.positive_code, self.transform_max_iter = positive_code, transform_max_iter

    def fit(self, X, y=None):
        self._checked = self._model.fit(X)
        return self

    def transform(self, X, y=None):
        return self._model.transform(X)

    def inverse_transform(self, X):
        return self._model.inverse_transform(X)

    @property
    def _model(self):
        return self._coder(self.dictionary)

    @property
    def n_features_in_(self):
        return getattr(self, "_checked", self._model).n_features_in_

    def __sklearn_tags__(self):
        return self._model.__sklearn_tags__()

    def __sklearn_is_fitted__(self):
        return self._model.__sklearn_is_fitted__()


# dictionary learning


def learner(cls, **parameters):
    """Return a learner of coupledict for parameters of scikit-learn that both kinds have."""
    if parameters.pop("fit_algorithm") not in ("lars", "cd"):  # two solvers of the lasso again
        raise NotOfferedError("fit_algorithm")
    return cls(pursuit="lasso", **parameters)


class DictionaryLearning(Coded):
    def __init__(
        self,
        n_components=None,
        *,
        alpha=1,
        max_iter=1000,
        tol=1e-8,
        fit_algorithm="lars",
        transform_algorithm="omp",
        transform_n_nonzero_coefs=None,
        transform_alpha=None,
        n_jobs=None,
        code_init=None,
        dict_init=None,
        callback=None,
        verbose=False,
        split_sign=False,
        random_state=None,
        positive_code=False,
        positive_dict=False,
        transform_max_iter=1000,
    ):
        self.n_components, self.alpha, self.max_iter, self.tol = n_components, alpha, max_iter, tol
        self.fit_algorithm, self.transform_algorithm = fit_algorithm, transform_algorithm
        self.transform_n_nonzero_coefs, self.transform_alpha = transform_n_nonzero_coefs, transform_alpha
        self.n_jobs, self.code_init, self.dict_init = n_jobs, code_init, dict_init
        self.callback, self.verbose, self.split_sign, self.random_state = callback, verbose, split_sign, random_state
        self.positive_code, self.positive_dict = positive_code, positive_dict
        self.transform_max_iter = transform_max_iter

    def fit(self, X, y=None):
        if self.code_init is not None:
            raise NotOfferedError("code_init")
        self._model = learner(
            coupledict.DictionaryLearning,
            n_components=np.shape(X)[1] if self.n_components is None else self.n_components,
            alpha=self.alpha,
            max_iter=self.max_iter,
            stop_tol=self.tol,
            fit_algorithm=self.fit_algorithm,
            init="auto" if self.dict_init is None else self.dict_init,
            callback=self.callback,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            positive_code=self.positive_code,
            positive_dict=self.positive_dict,
        ).fit(X)
        self.components_, self.n_iter_ = self._model.components_, self._model.n_iter_
        self.error_ = [entry["objective"] / 2 for entry in self._model.history_]
        return self

    def transform(self, X):
        check_is_fitted(self)
        return self._coder(self.components_).transform(X)

    def inverse_transform(self, X):
        check_is_fitted(self)
        return self._coder(self.components_).inverse_transform(X)


class MiniBatchDictionaryLearning(Coded):
    """`max_no_improvement` and `tol` end learning early in scikit-learn; coupledict makes all passes."""

    def __init__(
        self,
        n_components=None,
        *,
        alpha=1,
        max_iter=1000,
        fit_algorithm="lars",
        n_jobs=None,
        batch_size=256,
        shuffle=True,
        dict_init=None,
        transform_algorithm="omp",
        transform_n_nonzero_coefs=None,
        transform_alpha=None,
        verbose=False,
        split_sign=False,
        random_state=None,
        positive_code=False,
        positive_dict=False,
        transform_max_iter=1000,
        callback=None,
        tol=1e-3,
        max_no_improvement=10,
    ):
        self.n_components, self.alpha, self.max_iter = n_components, alpha, max_iter
        self.fit_algorithm, self.n_jobs, self.batch_size, self.shuffle = fit_algorithm, n_jobs, batch_size, shuffle
        self.dict_init, self.transform_algorithm = dict_init, transform_algorithm
        self.transform_n_nonzero_coefs, self.transform_alpha = transform_n_nonzero_coefs, transform_alpha
        self.verbose, self.split_sign, self.random_state = verbose, split_sign, random_state
        self.positive_code, self.positive_dict = positive_code, positive_dict
        self.transform_max_iter, self.callback = transform_max_iter, callback
        self.tol, self.max_no_improvement = tol, max_no_improvement

    def _online(self, X):
        return learner(
            coupledict.OnlineDictionaryLearning,
            n_components=np.shape(X)[1] if self.n_components is None else self.n_components,
            alpha=self.alpha,
            max_iter=self.max_iter,
            batch_size=self.batch_size,
            fit_algorithm=self.fit_algorithm,
            init="auto" if self.dict_init is None else [self.dict_init],
            callback=self.callback,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=int(self.verbose),
            positive_code=self.positive_code,
            positive_dict=self.positive_dict,
        )

    def fit(self, X, y=None):
        self._model = self._online(X).fit([X])
        return self._show()

    def partial_fit(self, X, y=None):
        if not hasattr(self, "_model"):
            self._model = self._online(X)
        self._model.partial_fit([X])
        return self._show()

    def _show(self):
        self.components_, self.n_steps_ = self._model.components_[0], self._model.n_iter_
        return self

    transform = DictionaryLearning.transform
    inverse_transform = DictionaryLearning.inverse_transform


def dict_learning(
    X,
    n_components,
    *,
    alpha,
    max_iter=100,
    tol=1e-8,
    method="lars",
    n_jobs=None,
    dict_init=None,
    code_init=None,
    callback=None,
    verbose=False,
    random_state=None,
    return_n_iter=False,
    positive_dict=False,
    positive_code=False,
    method_max_iter=1000,
):
    model = DictionaryLearning(
        n_components,
        alpha=alpha,
        max_iter=max_iter,
        tol=tol,
        fit_algorithm=method,
        transform_algorithm="lasso_cd",
        n_jobs=n_jobs,
        dict_init=dict_init,
        code_init=code_init,
        callback=callback,
        verbose=verbose,
        random_state=random_state,
        positive_dict=positive_dict,
        positive_code=positive_code,
    )
    found = model.fit_transform(X), model.components_, model.error_
    return (*found, model.n_iter_) if return_n_iter else found


def dict_learning_online(
    X,
    n_components=2,
    *,
    alpha=1,
    max_iter=100,
    return_code=True,
    dict_init=None,
    callback=None,
    batch_size=256,
    verbose=False,
    shuffle=True,
    n_jobs=None,
    method="lars",
    random_state=None,
    positive_dict=False,
    positive_code=False,
    method_max_iter=1000,
    tol=1e-3,
    max_no_improvement=10,
):
    model = MiniBatchDictionaryLearning(
        n_components,
        alpha=alpha,
        max_iter=max_iter,
        dict_init=dict_init,
        callback=callback,
        batch_size=batch_size,
        verbose=verbose,
        n_jobs=n_jobs,
        fit_algorithm=method,
        transform_algorithm="lasso_cd",
        random_state=random_state,
        positive_dict=positive_dict,
        positive_code=positive_code,
    ).fit(X)
    return (model.transform(X), model.components_) if return_code else model.components_


#: What replaces which name: module of scikit-learn -> name -> ours.
REPLACED = {
    "sklearn.linear_model": {
        "orthogonal_mp": orthogonal_mp,
        "orthogonal_mp_gram": orthogonal_mp_gram,
        "OrthogonalMatchingPursuit": OrthogonalMatchingPursuit,
        "OrthogonalMatchingPursuitCV": not_offered("OrthogonalMatchingPursuitCV"),
    },
    "sklearn.decomposition": {
        "sparse_encode": sparse_encode,
        "SparseCoder": SparseCoder,
        "DictionaryLearning": DictionaryLearning,
        "MiniBatchDictionaryLearning": MiniBatchDictionaryLearning,
        "dict_learning": dict_learning,
        "dict_learning_online": dict_learning_online,
    },
    "sklearn.decomposition._dict_learning": {"_update_dict": not_offered("_update_dict")},
}
