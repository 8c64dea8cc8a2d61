"""Feature names of the input, and pandas or polars tables as output; neither library is imported unless it is needed.

Feature names are stored and checked by scikit-learn's own rules, for each view. What `transform` returns follows
``set_output``, as everywhere in scikit-learn, with two differences, because samples may be in views and files: the
index is that of the first view that has one, and codes in a file or in a Dask array are returned unchanged.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..files.codes import CodeFile
from ..foundation.arrays import Array
from ..foundation.tables import is_table

#: What `transform` returns; not listed: tables of pandas and polars, and Dask arrays.
Codes: TypeAlias = csr_array | Array | CodeFile | list[csr_array] | list[Array]


def feature_names(views: Sequence[object]) -> list[Array | None] | None:
    """Return the feature names of each view, by scikit-learn's rules; None if no view has names."""
    names = [_names(view) for view in views]
    return names if any(own is not None for own in names) else None


def keep_feature_names(estimator: Any, names: list[Array | None] | None) -> None:
    """Set ``view_feature_names_in_`` to the feature names of each view; remove it if there are none."""
    if names is None:
        vars(estimator).pop("view_feature_names_in_", None)
    else:
        estimator.view_feature_names_in_ = names


def check_names(estimator: Any, views: Sequence[object], name: str = "X") -> None:
    """Raise or warn, as scikit-learn does, if feature names are not those of `fit`."""
    known = getattr(estimator, "view_feature_names_in_", None)
    if known is None or len(known) != len(views):  # the number of views is checked elsewhere
        return
    for v, view in enumerate(views):
        if view is not None:
            check_names_of(estimator, v, view, f"{name}[{v}]")


def check_names_of(estimator: Any, number: int, view: object, name: str) -> None:
    """Do the same as :func:`check_names`, for one view."""
    own = getattr(estimator, "view_feature_names_in_", {number: None})[number]
    if own is None:
        return
    proxy = _proxy(type(estimator).__name__)
    proxy.feature_names_in_ = own
    try:
        validate_data(proxy, view, reset=False, skip_check_array=True)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _names(view: object) -> Array | None:
    if not is_table(view):
        return None
    proxy = _proxy("Names")
    validate_data(proxy, view, skip_check_array=True)
    return getattr(proxy, "feature_names_in_", None)


def _proxy(name: str) -> Any:
    """Return an estimator of one view with that class name, on which scikit-learn stores and checks feature names."""
    return type(name, (BaseEstimator,), {})()


def _dense(codes: Any) -> Any:
    """Return codes as dense arrays; a Dask array stays a Dask array, with dense chunks."""
    if isinstance(codes, csr_array):
        return codes.toarray()
    if hasattr(codes, "map_blocks"):
        return codes.map_blocks(csr_array.toarray, dtype=codes.dtype, meta=np.empty((0, 0), codes.dtype))
    return codes


class OutputMixin(TransformerMixin):  # type: ignore[misc]
    """Mixin for transformers whose `transform` implements ``set_output`` itself.

    scikit-learn's automatic wrapping of `transform` is turned off.
    """

    _sklearn_output_config: dict[str, str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        kwargs["auto_wrap_output_keys"] = None
        super().__init_subclass__(**kwargs)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : ignored
            Accepted for pipelines.

        Returns
        -------
        array of str
        """
        check_is_fitted(self)
        return np.asarray(self._output_names(), dtype=object)

    @abstractmethod
    def _output_names(self) -> list[str]:
        """Return the names of the columns."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` and `fit_transform` return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            A pandas or polars table needs ``sparse_output=False``. None changes nothing.

        Returns
        -------
        self
        """
        if transform is not None:
            self._sklearn_output_config = getattr(self, "_sklearn_output_config", {}) | {"transform": transform}
        return self


class CodesMixin(OutputMixin):
    """Mixin for transformers that return codes; their `transform` ends with :meth:`_contained`."""

    sparse_output: bool

    @property
    def _n_features_out(self) -> int:
        raise NotImplementedError

    def _output_names(self) -> list[str]:
        prefix = type(self).__name__.lower()
        return [f"{prefix}{t}" for t in range(self._n_features_out)]

    def _container(self) -> str:
        """Return the chosen type of output: "default", "pandas" or "polars"."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if chosen not in ("default", "pandas", "polars"):
            raise ValueError(f"Expected the output to be 'default', 'pandas' or 'polars', got {chosen!r}.")
        return str(chosen)

    def _check_container(self) -> None:
        """Raise, before any work is done, for codes that no table can hold."""
        container = self._container()
        if container == "default":
            return
        if getattr(self, "coupling", "code") == "support":
            raise ValueError(
                f"With coupling='support' each view has codes of its own, not one table: there is no {container}"
                " output. Use set_output(transform='default')."
            )
        if self.sparse_output:
            raise ValueError(
                f"The transformer outputs a scipy sparse matrix. Use {type(self).__name__}(sparse_output=False) for"
                f" {container} output, or set_output(transform='default')."
            )

    def _contained(self, codes: Any, X: object) -> Any:
        """Return codes in the type that `sparse_output` and `set_output` ask for; `X` are the coded views."""
        if isinstance(codes, list):  # with coupling="support", one array for each view
            return [self._contained(table, X) for table in codes]
        if not self.sparse_output:
            codes = _dense(codes)
        container = self._container() if isinstance(codes, np.ndarray) else "default"
        if container == "default":
            return codes
        library: Any = importlib.import_module(container)
        names = self.get_feature_names_out()
        if container == "polars":
            return library.DataFrame(codes, schema=names.tolist(), orient="row")
        views = X if isinstance(X, list | tuple) else [X]
        indices = (view.index for view in views if isinstance(view, library.DataFrame))
        return library.DataFrame(codes, index=next(indices, None), columns=names, copy=False)
