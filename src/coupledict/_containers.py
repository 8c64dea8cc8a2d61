"""Tables of pandas and polars, coming in as views and going out as codes; neither library is imported unless asked for.

Names of features are kept and checked by scikit-learn's own rules, view by view. What `transform` returns follows
``set_output``, as everywhere in scikit-learn, with two differences that samples in views and files ask for: the index
is that of the first view that has one, and what is no table (a file of codes, a Dask array) is handed through as it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

Array = npt.NDArray[Any]


def is_frame(value: object) -> bool:
    """Tell a table with named columns, of pandas or polars, from an array."""
    return all(hasattr(value, name) for name in ("columns", "dtypes", "to_numpy", "shape"))


def frame_to_array(frame: Any, name: str) -> Array:
    """Return a table of numbers as an array of their common type, missing ones as NaN."""
    kinds = set(frame.dtypes)
    if len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and kind.kind in "fiub":
        return np.asarray(frame.to_numpy())  # the common case, without a copy
    columns = [_column(frame, place, name) for place in range(frame.shape[1])]
    if not columns:
        return np.empty(frame.shape)
    return np.stack(columns, axis=1, dtype=np.result_type(*columns), casting="unsafe")


def _column(frame: Any, place: int, name: str) -> Array:
    column = frame.iloc[:, place] if hasattr(frame, "iloc") else frame[:, place]
    dtype = column.dtype
    # A nullable type of pandas says which NumPy type its numbers have; integers that are missing need one with NaN.
    plain = getattr(dtype, "numpy_dtype", None)
    if isinstance(plain, np.dtype) and plain.kind in "fiub":
        if plain.kind != "f" and column.hasnans:
            plain = np.dtype(np.float64)
        return np.asarray(column.to_numpy(plain, na_value=np.nan) if plain.kind == "f" else column.to_numpy(plain))
    array = np.asarray(column.to_numpy())
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"Expected the columns of {name} to hold real numbers, got column {frame.columns[place]!r} of dtype"
            f" {dtype}. Leave it out, or convert it to numbers first."
        )
    return array


@contextmanager
def named_columns(X: object, name: str) -> Iterator[None]:
    """Let an error about a table name the column that does not hold numbers, if there is one."""
    try:
        yield
    except (TypeError, ValueError):
        if is_frame(X):
            frame_to_array(X, name)
        raise


def keep_names(estimator: Any, views: Sequence[object]) -> None:
    """Keep the names of the features of each view in ``view_feature_names_in_``, where there are any."""
    names = [_names(view) for view in views]
    if any(own is not None for own in names):
        estimator.view_feature_names_in_ = names
    else:
        vars(estimator).pop("view_feature_names_in_", None)


def check_names(estimator: Any, views: Sequence[object], name: str = "Xs") -> None:
    """Raise, or warn, as scikit-learn does, where names of features are not those that `keep_names` saw."""
    known = getattr(estimator, "view_feature_names_in_", None)
    if known is None or len(known) != len(views):  # their number is checked elsewhere
        return
    for v, view in enumerate(views):
        if view is not None:
            check_names_of(estimator, v, view, f"{name}[{v}]")


def check_names_of(estimator: Any, number: int, view: object, name: str) -> None:
    """Do what :func:`check_names` does for the view of that number."""
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
    if not is_frame(view):
        return None
    proxy = _proxy("Names")
    validate_data(proxy, view, skip_check_array=True)
    return getattr(proxy, "feature_names_in_", None)


def _proxy(name: str) -> Any:
    """Return an estimator of that name for one view, whose names scikit-learn can look after."""
    return type(name, (BaseEstimator,), {})()


def _dense(codes: Any) -> Any:
    """Return codes without sparsity; a Dask array stays one."""
    if isinstance(codes, csr_array):
        return codes.toarray()
    if hasattr(codes, "map_blocks"):
        return codes.map_blocks(csr_array.toarray, dtype=codes.dtype, meta=np.empty((0, 0), codes.dtype))
    return codes


class CodesMixin(TransformerMixin):  # type: ignore[misc]
    """A transformer that returns codes: names of its features, and ``set_output``.

    scikit-learn would wrap every `transform` by itself. It is told not to; `transform` ends with :meth:`_contained`.
    """

    sparse_output: bool
    _sklearn_output_config: dict[str, str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        kwargs["auto_wrap_output_keys"] = None
        super().__init_subclass__(**kwargs)

    @property
    def _n_features_out(self) -> int:
        raise NotImplementedError

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the codes: the name of the class in lower case, and the number of the atom.

        Parameters
        ----------
        input_features : ignored
            Accepted for pipelines.

        Returns
        -------
        array of str
        """
        prefix = type(self).__name__.lower()
        return np.asarray([f"{prefix}{t}" for t in range(self._n_features_out)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` and `fit_transform` return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            A table of pandas or polars needs ``sparse_output=False``. None changes nothing.

        Returns
        -------
        self
        """
        if transform is not None:
            self._sklearn_output_config = getattr(self, "_sklearn_output_config", {}) | {"transform": transform}
        return self

    def _container(self) -> str:
        """Return what `transform` shall return: "default", "pandas" or "polars"."""
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
        """Return codes as `sparse_output` and `set_output` ask for; `X` is what they were made from."""
        if isinstance(codes, list):  # with coupling="support", one for each view
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
