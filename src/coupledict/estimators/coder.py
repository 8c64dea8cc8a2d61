"""Sparse coding over a fixed dictionary as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, get_args

import numpy.typing as npt
from sklearn.base import BaseEstimator

from ..coding.encode import check_dictionaries, match_views, sparse_encode
from ..coding.rule import Pursuit
from ..foundation.arrays import Array
from ..foundation.checks import check_choice
from ..foundation.missing import Missing
from ..foundation.views import ViewsLike, is_view_list, list_views, view_names
from .base import rebuild
from .display import PicturedMixin
from .tables import Codes, CodesMixin, check_names, feature_names, keep_feature_names


class SparseCoder(CodesMixin, PicturedMixin, BaseEstimator):  # type: ignore[misc]
    """Code samples over a dictionary that is given, not learned.

    A transformer around :func:`coupledict.sparse_encode`, for pipelines. `fit` learns nothing; it only checks.

    Parameters
    ----------
    dictionary : array of shape (n_components, n_features), or list or dict of such arrays
        Atoms are rows. A list holds one dictionary per view, a dict the dictionary of each view by name; samples are
        then lists or dicts of arrays too.
    n_nonzero_coefs, tol, pursuit, alpha, positive_code, missing, view_weights, n_jobs
        As in :func:`coupledict.sparse_encode`; `tol` is a squared norm.
    sparse_output : bool, default=True
        Return codes as ``scipy.sparse.csr_array``; False gives dense arrays, and then ``set_output`` works.

    See Also
    --------
    coupledict.sparse_encode : The function that does the work.

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
        dictionary: ViewsLike,
        *,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        pursuit: Pursuit = "omp",
        alpha: float | None = None,
        positive_code: bool = False,
        missing: Missing = "error",
        view_weights: Sequence[float] | npt.NDArray[Any] | None = None,
        sparse_output: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.n_nonzero_coefs = n_nonzero_coefs
        self.tol = tol
        self.pursuit = pursuit
        self.alpha = alpha
        self.positive_code = positive_code
        self.missing = missing
        self.view_weights = view_weights
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs

    def fit(self, X: ViewsLike = None, y: object = None) -> Self:
        """Check the dictionary, and if X is given, that X fits it; nothing is learned.

        Parameters
        ----------
        X : array, list of arrays or dict of them by name, optional
            Samples that will be coded.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        check_choice(self.missing, "missing", get_args(Missing))
        dictionaries, single = check_dictionaries(self.dictionary)
        if X is not None:
            given = self._list(X)
            match_views(given if not single else X, dictionaries, single=single, missing=self.missing)
            keep_feature_names(self, feature_names(given))
        return self

    def _list(self, X: Any) -> list[Any]:
        """Return the views of X as a list; a single array is one view."""
        given = list_views(X, view_names(self.dictionary))
        return list(given) if is_view_list(given) and is_view_list(self.dictionary) else [given]

    def transform(self, X: ViewsLike) -> Codes:
        """Code samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list or dict of such arrays
            The samples; None in a list for absent views.

        Returns
        -------
        csr_array, or array if ``sparse_output=False``, of shape (n_samples, n_components)
            Or a table, if ``set_output`` says so.
        """
        self._check_container()
        check_names(self, self._list(X))
        coded = sparse_encode(
            X,
            self.dictionary,
            n_nonzero_coefs=self.n_nonzero_coefs,
            tol=self.tol,
            pursuit=self.pursuit,
            alpha=self.alpha,
            positive_code=self.positive_code,
            missing=self.missing,
            view_weights=self.view_weights,
            n_jobs=self.n_jobs,
        )
        codes: Codes = self._contained(coded, self._list(X))
        return codes

    def inverse_transform(self, codes: Any) -> Array | list[Array | None]:
        """Multiply codes by the dictionary.

        Parameters
        ----------
        codes : csr_array, or any sparse or dense array, of shape (n_samples, n_components)

        Returns
        -------
        array of shape (n_samples, n_features), or list of such arrays
            One array if `dictionary` is one array, otherwise one per view; None where a view has no dictionary.
        """
        dictionaries, single = check_dictionaries(self.dictionary)
        rebuilt = [None if d is None else rebuild(codes, d) for d in dictionaries]
        return rebuilt[0] if single and rebuilt[0] is not None else rebuilt

    @property
    def _n_features_out(self) -> int:
        try:
            dictionaries, _ = check_dictionaries(self.dictionary)
        except (TypeError, ValueError) as error:  # hasattr() must not raise, so the property is then absent
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
        tags.input_tags.allow_nan = self.missing == "nan"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
