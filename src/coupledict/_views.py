"""What a set of views is: arrays of the same samples, checked once, read in chunks.

A view is an array (n_samples, n_features_v). A single view and a list of views go through the same functions; an absent
view is ``None``. :class:`Views` is such a list for tools that want to count and choose samples. Number types follow one
rule everywhere (:func:`common_dtype`) and are converted a chunk at a time, so that a large array of integers or a
memory map is never copied whole.
"""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.utils import _safe_indexing

from ._containers import frame_to_array, is_frame

Array: TypeAlias = npt.NDArray[Any]
ViewList: TypeAlias = list[Array | None]


class Views:
    """Views of the same samples as one thing that has as many entries as there are samples.

    To scikit-learn a list of two views is a list of two samples. This is the same list with the shape of one table, the
    views side by side, so that whatever counts, splits, shuffles or chooses samples does so with the rows of all views
    at once: ``GridSearchCV``, ``cross_validate``, ``train_test_split``, ``Pipeline``. All estimators of coupledict take
    it where they take a list of views; others see the table. Nothing is copied until rows are chosen.

    Parameters
    ----------
    views : list of arrays of shape (n_samples, n_features_v), or None for absent views
        Also tables of pandas and polars, whose names are kept.

    Attributes
    ----------
    views : list
        The views as they were given; iterating gives them, too.
    shape : (n_samples, n_features)
        n_features is the sum over the views that are there.

    See Also
    --------
    EachView : Does to each view what a scikit-learn transformer does to a table.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV, train_test_split
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.views import Views
    >>> rng = np.random.default_rng(0)
    >>> sources = rng.standard_normal((300, 4)) * (rng.random((300, 4)) < 0.5)
    >>> views = Views([sources @ rng.standard_normal((4, 6)), sources @ rng.standard_normal((4, 9))])
    >>> views
    Views(300 samples of 6 + 9 features)
    >>> train, test = train_test_split(views, random_state=0)
    >>> train
    Views(225 samples of 6 + 9 features)
    >>> learner = CoupledDictionaryLearning(8, random_state=0)
    >>> search = GridSearchCV(learner, {"n_nonzero_coefs": [1, 4]}, cv=3).fit(train)
    >>> search.best_params_
    {'n_nonzero_coefs': 4}
    >>> search.score(test) > 0.9
    True

    Rows are chosen with brackets; the views themselves are in a list:

    >>> views[:10]
    Views(10 samples of 6 + 9 features)
    >>> views.views[1].shape
    (300, 9)
    """

    def __init__(self, views: Any) -> None:
        views = as_list(views)
        if not isinstance(views, list | tuple):
            raise TypeError(f"Expected views to be a list of arrays, one a view, got {type(views).__name__}.")
        self.views: list[Any] = [view if view is None or hasattr(view, "shape") else np.asarray(view) for view in views]
        given = [(v, view) for v, view in enumerate(self.views) if view is not None]
        if not given:
            raise ValueError("Expected at least one view, got none.")
        for v, view in given:
            if len(view.shape) != 2:
                raise ValueError(f"Expected views[{v}] to have 2 dimensions, got shape {tuple(view.shape)}.")
            if view.shape[0] != given[0][1].shape[0]:
                raise ValueError(
                    "Expected the same number of samples in every view, got"
                    f" {given[0][1].shape[0]} and {view.shape[0]} (views[{v}])."
                )
        self.shape = (int(given[0][1].shape[0]), sum(int(view.shape[1]) for _, view in given))

    ndim = 2

    @classmethod
    def split(cls, X: Any, widths: Sequence[int]) -> Views:
        """Return the columns of one table as views.

        Parameters
        ----------
        X : array or table of shape (n_samples, n_features)
        widths : list of int
            Features of each view, from the left; they add up to n_features.

        Returns
        -------
        Views

        Examples
        --------
        >>> import numpy as np
        >>> from coupledict.views import Views
        >>> Views.split(np.zeros((5, 10)), [4, 6])
        Views(5 samples of 4 + 6 features)
        """
        table = X if hasattr(X, "shape") else np.asarray(X)
        sizes = [check_count(width, "widths") for width in widths]
        if len(table.shape) != 2 or sum(sizes) != table.shape[1]:
            raise ValueError(f"Expected a table of {sum(sizes)} columns for views of {sizes}, got shape {table.shape}.")
        ends = np.cumsum([0, *sizes]).tolist()
        return cls([_safe_indexing(table, slice(*pair), axis=1) for pair in itertools.pairwise(ends)])

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.views)

    def __getitem__(self, rows: Any) -> Views:
        if isinstance(rows, tuple):  # scikit-learn writes X[rows, ...]
            rows, *rest = rows
            if rest not in ([], [Ellipsis], [slice(None)]):
                raise IndexError("Expected rows alone; columns belong to the views, which are in the list .views.")
        if isinstance(rows, int | np.integer):
            raise IndexError(
                f"Expected rows as a slice, a mask or an array of numbers, got {rows}. A single row is"
                f" [{rows}:{rows + 1}]; the views themselves are in the list .views."
            )
        return Views([None if view is None else _safe_indexing(view, rows) for view in self.views])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("Expected copy to be None or True: views side by side are a new array.")
        if any(view is None for view in self.views):
            raise ValueError("Expected every view to be present to put them side by side, got None for some.")
        return np.hstack([check_view(view, f"views[{v}]") for v, view in enumerate(self.views)]).astype(dtype)

    def __repr__(self) -> str:
        widths = " + ".join("absent" if view is None else str(view.shape[1]) for view in self.views)
        return f"Views({self.shape[0]} samples of {widths} features)"


def as_list(value: Any) -> Any:
    """Return :class:`Views` as the list they hold, and anything else as it is."""
    return value.views if isinstance(value, Views) else value


def is_view_list(value: object) -> bool:
    """Tell a list of views from one array written as a list of rows."""
    value = as_list(value)
    return isinstance(value, list | tuple) and all(entry is None or _n_dims(entry) == 2 for entry in value)


def _n_dims(entry: Any) -> int:
    # A table of polars has no ndim, and is not to be copied to learn it.
    return len(entry.shape) if hasattr(entry, "shape") else int(np.ndim(entry))


def check_view(value: object, name: str) -> Array:
    """Return `value` as a 2-D array of real numbers, without converting its number type."""
    if scipy.sparse.issparse(value):
        raise TypeError(f"Expected {name} to be a dense array, got a sparse one. Convert it with {name}.toarray().")
    array = frame_to_array(value, name) if is_frame(value) else np.asarray(value)
    if array.ndim != 2:
        hint = f" Use {name}.reshape(1, -1) for a single sample." if array.ndim == 1 else ""
        raise ValueError(f"Expected {name} to have 2 dimensions, got {array.ndim} (shape {array.shape}).{hint}")
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise TypeError(
            f"Expected {name} to hold real numbers of at most 64 bits, got dtype {array.dtype}."
            f" Convert it, for instance with {name}.astype(float)."
        )
    return array


def check_views(value: object, name: str, *, single: bool) -> ViewList:
    """Return `value` as a list of checked views; `single` says that one array is expected."""
    if single:
        return [check_view(value, name)]
    value = as_list(value)
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"Expected {name} to be a list of arrays, one a view, as the dictionary is; got {type(value).__name__}."
        )
    return [None if entry is None else check_view(entry, f"{name}[{v}]") for v, entry in enumerate(value)]


def common_dtype(arrays: Sequence[Array | None]) -> np.dtype[Any]:
    """Return the number type that coding uses for these arrays: float32 or float64.

    float32 where every array is float32, float16, boolean or an integer of at most 16 bits (all of their values are
    float32 numbers), float64 otherwise.
    """
    return np.result_type(np.float32, *(array.dtype for array in arrays if array is not None))


def check_weights(view_weights: object, n_views: int) -> npt.NDArray[np.float64]:
    """Return one non-negative weight a view."""
    if view_weights is None:
        return np.ones(n_views)
    if isinstance(view_weights, str) or not isinstance(view_weights, Sequence | np.ndarray):
        raise TypeError(f"Expected view_weights to be None or a list of {n_views} numbers, got {view_weights!r}.")
    try:
        weights = np.asarray(view_weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"Expected view_weights to be a list of numbers, got {view_weights!r}.") from error
    if weights.shape != (n_views,):
        raise ValueError(f"Expected view_weights to hold {n_views} numbers, one a view, got shape {weights.shape}.")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError(f"Expected view_weights to be finite and not negative, got {view_weights!r}.")
    return weights


def check_count(value: object, name: str) -> int:
    """Return `value` as an integer of at least 1."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"Expected {name} to be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"Expected {name} to be at least 1, got {value}.")
    return int(value)


def check_tol(value: object, name: str = "tol") -> float:
    """Return `value` as a finite number of at least 0."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"Expected {name} to be a number, got {value!r}.")
    number = float(value)
    if not (np.isfinite(number) and number >= 0):
        what = "squared norm" if name == "tol" else "number"
        raise ValueError(f"Expected {name} to be a finite {what} of at least 0, got {value}.")
    return number


def read_rows(view: Array, start: int, stop: int, dtype: np.dtype[Any]) -> Array:
    """Return rows of a view in the given number type, copied only where the kernels could not read them in place."""
    rows = np.asarray(view[start:stop], dtype=dtype)
    whole_strides = all(stride % rows.itemsize == 0 for stride in rows.strides)
    return rows if rows.flags.aligned and whole_strides else np.ascontiguousarray(rows)
