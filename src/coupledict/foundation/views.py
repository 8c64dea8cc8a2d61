"""Views: arrays of the same samples, in a list or by name, and the checks of what users give.

A view is an array (n_samples, n_features_v). A single view and several go through the same functions; an absent view is
``None``. Several views are a list, a dict of arrays by name, or :class:`Views`, which wraps either for tools that count
and select samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.utils import _safe_indexing

from .arrays import Array
from .checks import check_count
from .missing import masked_to_nan
from .tables import check_same_rows, is_table, table_to_array
from .tensors import as_array, as_numpy, is_tensor

ViewList: TypeAlias = list[Array | None]
#: What users give for several views.
ViewsLike: TypeAlias = "Sequence[npt.ArrayLike | None] | Mapping[str, npt.ArrayLike | None] | Views | Any"
#: What users give for one view.
ViewLike: TypeAlias = npt.ArrayLike


class ViewArrays(list[Array]):
    """A list with one array per view; if the views have names, these are accepted as indices too.

    Parameters
    ----------
    arrays : iterable of arrays
        One per view.
    names : sequence of str, optional
        Names of the views, in the same order.

    Attributes
    ----------
    names : tuple of str, or None

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.views import ViewArrays
    >>> arrays = ViewArrays([np.zeros((2, 3)), np.ones((2, 4))], ["sharp", "blurred"])
    >>> arrays["blurred"].shape, arrays[0].shape, len(arrays)
    ((2, 4), (2, 3), 2)
    """

    def __init__(self, arrays: Sequence[Array] = (), names: Sequence[str] | None = None) -> None:
        super().__init__(arrays)
        self.names = None if names is None else tuple(names)

    @overload
    def __getitem__(self, place: SupportsIndex | str) -> Array: ...
    @overload
    def __getitem__(self, place: slice) -> list[Array]: ...
    def __getitem__(self, place: SupportsIndex | slice | str) -> Array | list[Array]:
        if isinstance(place, str):
            return super().__getitem__(view_number(place, len(self), self.names))
        return super().__getitem__(place)

    def __reduce__(self) -> tuple[type[ViewArrays], tuple[list[Array], tuple[str, ...] | None]]:
        return ViewArrays, (list(self), self.names)


def view_number(view: object, n_views: int, names: Sequence[str] | None, name: str = "view") -> int:
    """Return the number of a view, given its number or its name."""
    if isinstance(view, str):
        if names is None:
            raise ValueError(f"Expected {name} to be a number, because the views have no names, got {view!r}.")
        if view not in names:
            raise ValueError(f"Expected {name} to be the name of a view, one of {list(names)}, got {view!r}.")
        return list(names).index(view)
    if isinstance(view, bool) or not isinstance(view, int | np.integer) or not -n_views <= view < n_views:
        raise ValueError(f"Expected {name} to be the number of one of the {n_views} views, got {view!r}.")
    return int(view) % n_views


def view_names(value: object) -> tuple[str, ...] | None:
    """Return the names of views that are given by name; None for views without names."""
    if isinstance(value, Views):
        return value.names
    if not isinstance(value, Mapping) or scipy.sparse.issparse(value):  # one of SciPy's formats is a dict
        return None
    strange = [key for key in value if not isinstance(key, str)]
    if strange:
        raise TypeError(f"Expected the names of views to be strings, got {strange[0]!r}.")
    return tuple(value)


def list_views(value: Any, names: Sequence[str] | None = (), *, name: str = "X") -> Any:
    """Return views given by name or as :class:`Views` as a list; arrays of other libraries become NumPy's.

    Anything else is returned unchanged.

    Parameters
    ----------
    value : object
        What a user gave.
    names : sequence of str, or None
        The expected names, in the order of the returned list; a view that is not given is None in the list. None means
        that the views are known to have no names. If left out, any names are accepted, in the order of `value`.
    name : str
        What to call `value` in errors.
    """
    own = view_names(value)
    if isinstance(value, Views):
        value = value.views if own is None else dict(zip(own, value.views, strict=True))
    if own is None:
        return _numpy_views(value, name)
    if names is None:
        raise ValueError(f"Expected {name} to be a list, as the views had no names before, got a dict of {list(own)}.")
    unknown = [view for view in own if names and view not in names]
    if unknown:
        raise ValueError(f"Expected views named {list(names)} in {name}, got one named {unknown[0]!r}.")
    return _numpy_views([value.get(view) for view in (names or own)], name, names or own)


def _numpy_views(value: Any, name: str, names: Sequence[str] | None = None) -> Any:
    """Return one view or a list of them with NumPy's arrays in place of those of other libraries."""
    if not isinstance(value, list | tuple):
        return as_numpy(value, name)
    if not any(map(is_tensor, value)):
        return value
    labels = view_labels(range(len(value)), names, name)
    return [as_numpy(entry, label) for entry, label in zip(value, labels, strict=True)]


class Views:
    """Views of the same samples in one object whose length is the number of samples.

    To scikit-learn a list of two views is a list of two samples. This object has the shape of one table, the views side
    by side, so that tools that count, split, shuffle or select samples do so with the rows of all views at once:
    ``GridSearchCV``, ``cross_validate``, ``train_test_split``, ``Pipeline``. All estimators of coupledict accept it in
    place of a list of views; other estimators see the table. Nothing is copied until rows are selected.

    Parameters
    ----------
    views : list of arrays of shape (n_samples, n_features_v), or dict of them by name
        None stands for an absent view. Tables of pandas and polars are accepted, and keep their column names. Arrays
        of PyTorch, JAX and others become NumPy arrays that share their memory.

    Attributes
    ----------
    views : list
        The views as they were given; iterating over the object yields them too.
    names : tuple of str, or None
        Names of the views, where they were given by name.
    shape : (n_samples, n_features)
        n_features is the sum over the views that are present.

    See Also
    --------
    EachView : Applies a scikit-learn transformer to each view.

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

    Brackets select rows; the views themselves are in a list:

    >>> views[:10]
    Views(10 samples of 6 + 9 features)
    >>> views.views[1].shape
    (300, 9)
    """

    def __init__(self, views: Any) -> None:
        self.names = view_names(views)
        views = list_views(views, name="views")
        if not isinstance(views, list | tuple):
            raise TypeError(
                f"Expected views to be a list of arrays, one per view, or a dict of them by name, got"
                f" {type(views).__name__}. Write [U, L] for two views, or [X] for one."
            )
        self.views: list[Any] = [_with_rows(view) for view in views]
        given = [(v, view) for v, view in enumerate(self.views) if view is not None]
        if not given:
            raise ValueError("Expected at least one view, got none.")
        for v, view in given:
            if len(view.shape) != 2:
                raise ValueError(f"Expected views[{v}] to have 2 dimensions, got shape {tuple(view.shape)}.")
        labels = view_labels(range(len(self.views)), self.names, "views")
        check_same_samples(self.views, labels)
        check_same_rows(self.views, labels)
        self.shape = (int(given[0][1].shape[0]), sum(int(view.shape[1]) for _, view in given))

    ndim = 2

    @classmethod
    def split(cls, X: Any, widths: Sequence[int]) -> Views:
        """Split the columns of one table into views.

        Parameters
        ----------
        X : array or table of shape (n_samples, n_features)
        widths : list of int
            Number of features of each view, from left to right; their sum is n_features.

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
        X = as_numpy(X)
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
        chosen = [None if view is None else _safe_indexing(view, rows) for view in self.views]
        return Views(chosen if self.names is None else dict(zip(self.names, chosen, strict=True)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("Expected copy to be None or True: views side by side are a new array.")
        if any(view is None for view in self.views):
            raise ValueError("Expected every view to be present to put them side by side, got None for some.")
        table = np.hstack([check_view(view, f"views[{v}]") for v, view in enumerate(self.views)])
        return table if dtype is None else table.astype(dtype)

    def __repr__(self) -> str:
        sizes = ["absent" if view is None else str(view.shape[1]) for view in self.views]
        if self.names is not None:
            sizes = [f"{name} {size}" for name, size in zip(self.names, sizes, strict=True)]
        widths = " + ".join(sizes)
        return f"Views({self.shape[0]} samples of {widths} features)"


def _with_rows(view: Any) -> Any:
    """Return a view as it was given, but rows in lists as an array, and a sparse array in a format that has rows."""
    is_sparse: bool = scipy.sparse.issparse(view)
    if is_sparse:
        return view.tocsr()
    return view if view is None or hasattr(view, "shape") else np.asarray(view)


def is_view_list(value: object, name: str = "X") -> bool:
    """Return whether this is a list of views, not one array written as a list of rows. `name` is for errors."""
    value = list_views(value, name=name)
    return isinstance(value, list | tuple) and all(entry is None or n_dims(entry) == 2 for entry in value)


def refuse_loose_views(call: str, X: object, *others: object) -> None:
    """Raise if views are given as several arguments instead of one list.

    The argument after X is y in scikit-learn, which may be anything if X is a list of several views. An array with
    several columns beside one view is another view.

    Parameters
    ----------
    call : str
        How the list is given, with ``{}`` in place of it: ``"fit({})"``.
    X : object
        The first argument.
    *others : object
        The arguments after it.
    """
    loose: list[Any] = [value for value in others if value is not None]
    if not loose or not (_is_matrix(X) or (is_plain_views(X) and len(list_views(X)) == 1)):
        return
    if all(_is_matrix(value) and _n_columns(value) > 1 for value in loose):
        _raise_for_arguments(call, 1 + len(loose))


def refuse_others(call: str, others: Sequence[object]) -> None:
    """Raise if there are arguments after the views. `call` is that of :func:`refuse_loose_views`."""
    if others:
        _raise_for_arguments(call, 1 + len(others))


def _raise_for_arguments(call: str, count: int) -> NoReturn:
    views = call.format("[U, L]" if count == 2 else "[U, L, ...]")
    raise TypeError(f"Expected the views in one list, got {count} arguments. Give a list: {views}.")


#: What errors add that follow when a tool of scikit-learn splits a list of views, each of which it takes for a sample.
SPLIT_HINT = (
    " If a tool of scikit-learn has split a list of views, as if each were a sample: wrap the views in"
    " coupledict.views.Views, as in Views([U, L]), or use the same tool of coupledict.model_selection."
)


@contextmanager
def explain_split_lists(X: object) -> Iterator[None]:
    """Add SPLIT_HINT to a ValueError about samples that are a plain list of views."""
    try:
        yield
    except ValueError as error:
        if isinstance(X, list | tuple) and is_plain_views(X):
            raise ValueError(f"{error}{SPLIT_HINT}") from error
        raise


def is_plain_views(value: object) -> bool:
    """Return whether these are several views in a list, a tuple or a dict, not wrapped in :class:`Views`.

    A list of chunks, each of which holds several views, does not count.
    """
    if isinstance(value, Mapping) and not scipy.sparse.issparse(value):
        entries = list(value.values()) if all(isinstance(key, str) for key in value) else []
    else:
        entries = list(value) if isinstance(value, list | tuple) else []
    given = [entry for entry in entries if entry is not None]
    return len(given) > 0 and all(_is_matrix(entry) for entry in given)


def _is_matrix(entry: Any) -> bool:
    if isinstance(entry, Views | Mapping | str) and not scipy.sparse.issparse(entry):
        return False
    return n_dims(entry) == 2


def n_dims(entry: Any) -> int:
    """Return the number of dimensions without reading arrays: np.ndim would copy a table, and arrays in a list."""
    if hasattr(entry, "shape"):
        return len(entry.shape)
    if isinstance(entry, list | tuple):
        return 1 + (n_dims(entry[0]) if entry else 0)
    try:
        return int(as_array(entry).ndim)  # not np.ndim, which may be overridden
    except TypeError:
        if not is_tensor(entry):
            raise
        return 0  # it is refused where its name is known


def _n_columns(matrix: Any) -> int:
    matrix = as_numpy(matrix)
    return int(matrix.shape[1]) if hasattr(matrix, "shape") else len(matrix[0])


def _sparse_rows(value: Any, name: str) -> Any:
    """Return a sparse array in CSR format; raise unless it has two dimensions and holds real numbers."""
    check_view(np.empty((0,) * value.ndim, value.dtype), name)
    return value.tocsr()


def check_view(value: object, name: str, *, keep_mapped: bool = False, keep_sparse: bool = False) -> Array:
    """Return `value` as a 2-D array of real numbers, without converting its number type.

    Only numbers that are marked as missing, which become NaN, need a floating-point type. An array of another library
    is read in place. An array in a mapped file is copied to memory, unless it is kept there for callers that read it
    with :func:`coupledict.foundation.arrays.read_rows`. For these a sparse array can be kept too, in CSR format.
    """
    if scipy.sparse.issparse(value) and keep_sparse:
        rows: Array = _sparse_rows(value, name)
        return rows
    if scipy.sparse.issparse(value):
        raise TypeError(f"Expected {name} to be a dense array, got a sparse one. Convert it with {name}.toarray().")
    table = table_to_array(value, name) if is_table(value) else value
    array = np.asarray(masked_to_nan(table, name, keep_mapped=keep_mapped))
    if array.ndim != 2:
        hint = f" Use {name}.reshape(1, -1) for a single sample." if array.ndim == 1 else ""
        raise ValueError(f"Expected {name} to have 2 dimensions, got {array.ndim} (shape {array.shape}).{hint}")
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise TypeError(
            f"Expected {name} to hold real numbers of at most 64 bits, got dtype {array.dtype}."
            f" Convert it, for instance with {name}.astype(float)."
        )
    return array


def view_labels(numbers: Iterable[int], names: Sequence[str] | None, name: str = "X") -> list[str]:
    """Return what to call views in errors: ``X[0]``, or ``X['left']`` if they have names."""
    return [f"{name}[{v}]" if not names else f"{name}[{names[v]!r}]" for v in numbers]


def check_same_samples(views: Sequence[Any], labels: Sequence[str], hint: str = "") -> None:
    """Raise unless views have the same number of rows.

    Parameters
    ----------
    views : list of anything that has a shape, with None for an absent view
    labels : list of str
        What to call them in errors.
    hint : str
        What to do about different numbers of rows.
    """
    given = [(view, label) for view, label in zip(views, labels, strict=True) if view is not None]
    for view, label in given[1:]:
        first = given[0][0]
        if view.shape[0] != first.shape[0]:
            raise ValueError(
                "Expected the same number of samples in every view, got"
                f" {first.shape[0]} and {view.shape[0]} ({label}).{hint}"
            )


def check_views(
    value: object,
    name: str,
    *,
    single: bool,
    keep_mapped: bool = False,
    keep_sparse: bool = False,
    names: Sequence[str] | None = None,
    paired: bool = True,
) -> ViewList:
    """Return `value` as a list of checked views; with `single`, one array is expected. See :func:`check_view`.

    Several views are a list, as :func:`list_views` returns it; `names` are those of the views, for errors. Unless rows
    are not `paired`, being of different samples, there must be as many in every view, with the same index in tables.
    """
    if single:
        return [check_view(value, name, keep_mapped=keep_mapped, keep_sparse=keep_sparse)]
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"Expected {name} to be a list of arrays, one per view, or a dict of them by name; got"
            f" {type(value).__name__}. Write [U, L] for two views, or [{name}] for one."
        )
    # The number of views may be wrong, which is said elsewhere.
    labels = view_labels(range(len(value)), names if names and len(names) == len(value) else None, name)
    views = [
        None if entry is None else check_view(entry, label, keep_mapped=keep_mapped, keep_sparse=keep_sparse)
        for entry, label in zip(value, labels, strict=True)
    ]
    if paired:
        check_same_samples(views, labels)
        check_same_rows(value, labels)
    return views
