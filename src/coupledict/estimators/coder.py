"""Sparse coding over a fixed dictionary as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ..coding.encode import check_dictionaries, match_views, sparse_encode
from ..coding.rule import CODING_CONSTRAINTS
from ..coding.samples import first_bad, not_finite_in
from ..foundation.arrays import Array, common_dtype
from ..foundation.checks import check_weights
from ..foundation.choices import Pursuit
from ..foundation.mapped import find_map
from ..foundation.missing import MISSING, Missing
from ..foundation.parameters import BOOLEAN, N_JOBS, NONE, ArrayLike, Constraints, check_parameters
from ..foundation.tables import is_table
from ..foundation.tensors import with_numpy
from ..foundation.views import ViewsLike, is_view_list, list_views, view_labels, view_names
from .base import rebuild
from .display import PicturedMixin
from .keeping import keep_fitted
from .tables import Codes, CodesMixin, check_names, feature_names, keep_feature_names


class SparseCoder(CodesMixin, PicturedMixin, BaseEstimator):  # type: ignore[misc]
    """Code samples over a dictionary that is given, not learned.

    A transformer around :func:`coupledict.sparse_encode`, for pipelines. `fit` learns nothing; it only checks.

    Parameters
    ----------
    dictionary : array of shape (n_components, n_features), or list or dict of such arrays
        Atoms are rows. A list holds one dictionary per view, a dict the dictionary of each view by name; samples are
        then lists or dicts of arrays too. Arrays of PyTorch, JAX and others are read in place, here and in samples.
    n_nonzero_coefs, tol, pursuit, alpha, positive_code, missing, view_weights, n_jobs
        As in :func:`coupledict.sparse_encode`; `tol` is a squared norm.
    sparse_output : bool, default=True
        Return codes as ``scipy.sparse.csr_array``; False gives dense arrays, and then ``set_output`` works.

    Attributes
    ----------
    n_features_in_ : int, or list of int
        Number of features of the dictionary, or of the dictionary of each view; None for a view without one. Set by
        `fit`, which need not be called.
    feature_names_in_ : array of str
        Names of the features in `fit`, if the dictionary is one array and samples were a table.
    view_feature_names_in_ : list of arrays of str
        The same for each view; None for a view without names.

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

    _parameter_constraints: ClassVar[Constraints] = {
        "dictionary": (),
        **CODING_CONSTRAINTS,
        "missing": (MISSING,),
        "view_weights": (NONE, ArrayLike("a list of numbers")),
        "sparse_output": (BOOLEAN,),
        "n_jobs": N_JOBS,
    }

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
        """Check the dictionary, and if X is given, that X fits it, is finite and has a sample; nothing is learned.

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
        check_parameters(self._parameter_constraints, vars(self))
        dictionaries, single = check_dictionaries(self.dictionary)
        widths = [None if d is None else int(d.shape[1]) for d in dictionaries]
        if X is not None:
            given = self._list(X)
            table = _check_single(self, X, least=1) if single else given
            found = match_views(table, dictionaries, single=single, missing=self.missing, keep_mapped=True)
            self._check_values(*found)
            names = feature_names(given)
            keep_feature_names(self, names)
            keep_fitted(self, {"feature_names_in_": None if names is None or not single else names[0]})
        self.n_features_in_ = widths[0] if single else widths
        return self

    def _check_values(self, present: list[int], views: list[Array], incomplete: bool) -> None:
        """Raise for views without samples, and for NaN or infinity in those that have a weight."""
        if views[0].shape[0] == 0:
            raise ValueError("Expected at least one sample in X, got 0 sample(s).")
        dictionaries, single = check_dictionaries(self.dictionary)
        weights = check_weights(self.view_weights, len(dictionaries))
        for v, view in zip(present, views, strict=True):
            if weights[v] > 0 and first_bad(view, missing=incomplete)[1]:
                names = None if single else view_labels([v], view_names(self.dictionary))
                raise not_finite_in(view, names, missing=incomplete)

    def _list(self, X: Any) -> list[Any]:
        """Return the views of X as a list; a single array is one view."""
        given = list_views(X, view_names(self.dictionary))
        return list(given) if is_view_list(given) and is_view_list(self.dictionary) else [given]

    def transform(self, X: ViewsLike) -> Codes:
        """Code samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or list or dict of such arrays
            The samples; None in a list for absent views. Sparse arrays of SciPy are accepted; a chunk of their rows at
            a time is made dense.

        Returns
        -------
        csr_array, or array if ``sparse_output=False``, of shape (n_samples, n_components)
            Or a table, if ``set_output`` says so.
        """
        self._check_container()
        given = self._list(X)
        check_names(self, given)
        table = X
        if check_dictionaries(self.dictionary)[1]:
            table = _check_single(self, X, least=0)
            if hasattr(self, "n_features_in_") and table.shape[1:] != (self.n_features_in_,):
                raise ValueError(  # in the words that scikit-learn's checks expect
                    f"X has {table.shape[-1]} features, but SparseCoder is expecting {self.n_features_in_} features as"
                    " input. Give samples with as many features as the dictionary has."
                )
        coded = sparse_encode(
            table,
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
        codes: Codes = self._contained(coded, given)
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
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "nan"
        tags.transformer_tags.preserves_dtype = ["float64"]
        with suppress(TypeError, ValueError):
            if common_dtype(check_dictionaries(self.dictionary)[0]) == np.float32:
                tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _check_single(coder: SparseCoder, X: Any, *, least: int) -> Any:
    """Return a single array as scikit-learn checks it; tables, masked arrays and memory maps have other checks."""
    X = with_numpy(X)
    if is_table(X) or np.ma.isMaskedArray(X) or find_map(X) is not None:
        return X
    # The check adds up all numbers, and looks closer if the sum overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        return check_array(
            X,
            accept_sparse=True,
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=least,
            input_name="X",
            estimator=coder,
        )
