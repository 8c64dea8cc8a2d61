"""Sparse coding over a fixed dictionary as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin

from ._containers import CodesMixin, check_names, keep_names
from ._display import PicturedMixin
from ._pursuit import Pursuit, check_dictionaries, match_views, sparse_encode
from ._views import as_list, check_view, is_view_list


class SparseCoder(ClassNamePrefixFeaturesOutMixin, CodesMixin, PicturedMixin, BaseEstimator):  # type: ignore[misc]
    """Code samples over a dictionary that is given, not learned.

    A transformer around :func:`coupledict.sparse_encode`, for pipelines. It has nothing to learn: `fit` only checks.

    Parameters
    ----------
    dictionary : array of shape (n_components, n_features), or list of such arrays
        Atoms are rows. A list holds one dictionary a view; samples are then lists of arrays too.
    n_nonzero_coefs, tol, pursuit, view_weights, n_jobs
        As in :func:`coupledict.sparse_encode`; `tol` is a squared norm.
    sparse_output : bool, default=True
        Return codes as ``scipy.sparse.csr_array``; False gives dense arrays, and then ``set_output`` works.

    See Also
    --------
    coupledict.sparse_encode : The function behind it.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import SparseCoder
    >>> coder = SparseCoder(np.eye(3), n_nonzero_coefs=1, sparse_output=False)
    >>> codes = coder.fit_transform(np.array([[0.0, 2.0, 0.5]]))
    >>> codes
    array([[0., 2., 0.]])
    >>> coder.inverse_transform(codes)
    array([[0., 2., 0.]])
    """

    def __init__(
        self,
        dictionary: object,
        *,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        pursuit: Pursuit = "omp",
        view_weights: Sequence[float] | npt.NDArray[Any] | None = None,
        sparse_output: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.n_nonzero_coefs = n_nonzero_coefs
        self.tol = tol
        self.pursuit = pursuit
        self.view_weights = view_weights
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs

    def fit(self, X: object = None, y: object = None) -> Self:
        """Check the dictionary, and X against it if it is given; nothing is learned.

        Parameters
        ----------
        X : array or list of arrays, optional
            Samples that will be coded.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        dictionaries, single = check_dictionaries(self.dictionary)
        if X is not None:
            match_views(X, dictionaries, single=single)
            keep_names(self, self._given(X))
        return self

    def _given(self, X: Any) -> list[Any]:
        """Return the views of X as a list; one array is one view."""
        given = as_list(X)
        return list(given) if is_view_list(given) and is_view_list(self.dictionary) else [given]

    def transform(self, X: object) -> Any:
        """Code samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list of such arrays
            The samples; None in a list for absent views.

        Returns
        -------
        csr_array, or array if ``sparse_output=False``, of shape (n_samples, n_components)
            Or a table, if ``set_output`` says so.
        """
        self._check_container()
        check_names(self, self._given(X), "X")
        codes = sparse_encode(
            X,
            self.dictionary,
            n_nonzero_coefs=self.n_nonzero_coefs,
            tol=self.tol,
            pursuit=self.pursuit,
            view_weights=self.view_weights,
            n_jobs=self.n_jobs,
        )
        return self._contained(codes, as_list(X))

    def inverse_transform(self, codes: object) -> npt.NDArray[Any] | list[npt.NDArray[Any] | None]:
        """Rebuild samples from their codes.

        Parameters
        ----------
        codes : sparse or dense array of shape (n_samples, n_components)
            As `transform` gives them.

        Returns
        -------
        array of shape (n_samples, n_features), or list of such arrays
            As `dictionary` is: one array, or one a view.
        """
        dictionaries, single = check_dictionaries(self.dictionary)
        table: Any = codes if issparse(codes) else check_view(codes, "codes")
        if table.ndim != 2 or table.shape[1] != self._n_features_out:
            raise ValueError(f"Expected codes of shape (n_samples, {self._n_features_out}), got {table.shape}.")
        rebuilt = [None if d is None else np.asarray(table @ d) for d in dictionaries]
        return rebuilt[0] if single and rebuilt[0] is not None else rebuilt

    @property
    def _n_features_out(self) -> int:
        try:
            dictionaries, _ = check_dictionaries(self.dictionary)
        except (TypeError, ValueError) as error:  # a property that is not there: looking around shall not raise
            raise AttributeError(str(error)) from error
        return int(next(d.shape[0] for d in dictionaries if d is not None))

    def _pictured(self) -> list[tuple[str, Any]]:
        dictionaries, single = check_dictionaries(self.dictionary)
        return [("dictionary" if single else f"view {v}", d) for v, d in enumerate(dictionaries) if d is not None]

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
