"""``sparse_encode``: checks samples and dictionaries as given by users, and codes the samples in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..foundation.arrays import Array, Floats, common_dtype
from ..foundation.checks import check_weights
from ..foundation.choices import Pursuit
from ..foundation.mapped import rows_in_memory
from ..foundation.missing import MISSING, Missing, may_miss
from ..foundation.parameters import check_parameters, check_value
from ..foundation.tables import check_same_rows
from ..foundation.tensors import as_numpy
from ..foundation.views import ViewList, ViewsLike, check_views, is_view_list, list_views, view_labels, view_names
from ..parallel.jobs import Threads, count_jobs
from .coders import make_coder
from .gap import duality_gaps
from .passes import encode
from .recipe import Recipe
from .rule import CODING_CONSTRAINTS, CodingRule
from .samples import Samples


def check_dictionaries(value: object) -> tuple[ViewList, bool]:
    """Return the dictionaries as a list, and whether a single array was given."""
    name = "dictionary"
    listed = list_views(value, name=name)
    single = not is_view_list(listed, name)
    dictionaries = check_views(listed, name, single=single, names=view_names(value), paired=False)
    given = [d for d in dictionaries if d is not None]
    if not given:
        raise ValueError(f"Expected {name} to hold at least one array, got {value!r}.")
    for v, d in enumerate(dictionaries):
        label = name if single else f"{name}[{v}]"
        if d is None:
            continue
        if d.shape[0] == 0 or d.shape[1] == 0:
            raise ValueError(f"Expected {label} to have at least one atom and one feature, got shape {d.shape}.")
        if d.shape[0] != given[0].shape[0]:
            raise ValueError(
                f"Expected the same number of atoms in every view, got {given[0].shape[0]} and {d.shape[0]} ({label})."
            )
        if not np.isfinite(d).all():
            raise ValueError(f"Expected {label} to be finite, got NaN or infinity.")
    if not single:
        check_same_rows(listed, view_labels(range(len(listed)), view_names(value), name))
    return dictionaries, single


def match_views(
    X: object,
    dictionaries: Sequence[Array | None],
    *,
    single: bool,
    missing: Missing = "error",
    keep_mapped: bool = False,
    names: Sequence[str] | None = None,
) -> tuple[list[int], list[Array], bool]:
    """Return the numbers and arrays of the views that are present in X, checked against the dictionaries.

    Several views are given as a list, as `list_views` returns it; `names` are the names of the views in error
    messages.

    The last result is whether entries may be missing, because `missing` or the views themselves say so. Arrays in
    mapped files are copied to memory unless `keep_mapped` is set; :func:`coupledict.foundation.arrays.read_rows` then
    reads them. Sparse arrays stay sparse, in CSR format.
    """
    views = check_views(X, "X", single=single, keep_mapped=keep_mapped, keep_sparse=True, names=names)
    if len(views) != len(dictionaries):
        raise ValueError(
            f"Expected {len(dictionaries)} views in X, one for each dictionary (None for an absent one),"
            f" got {len(views)}."
        )
    present = [v for v, view in enumerate(views) if view is not None]
    if not present:
        raise ValueError("Expected at least one view in X, got only None.")
    arrays: list[Array] = []
    labels: list[str] = []
    for v in present:
        view, d, label = views[v], dictionaries[v], "X" if single else view_labels([v], names)[0]
        assert view is not None
        if d is None:
            raise ValueError(f"Expected {label} to be None, as dictionary[{v}] is; got an array of shape {view.shape}.")
        if view.shape[1] != d.shape[1]:
            raise ValueError(
                f"Expected {label} to have {d.shape[1]} features, as its dictionary has, got {view.shape[1]}."
            )
        arrays.append(view)
        labels.append(label)
    given: Any = [X] if single else X
    return present, arrays, may_miss([given[v] for v in present], arrays, labels, missing)


def sparse_encode(
    X: ViewsLike,
    dictionary: ViewsLike,
    *,
    n_nonzero_coefs: int | None = None,
    tol: float | None = None,
    pursuit: Pursuit = "omp",
    alpha: float | None = None,
    positive_code: bool = False,
    missing: Missing = "error",
    view_weights: Sequence[float] | npt.NDArray[Any] | None = None,
    n_jobs: int | None = None,
) -> csr_array:
    """Code samples sparsely over a dictionary, or over coupled dictionaries of several views.

    Finds codes ``C`` with few nonzeros, sample by sample and greedily (unless ``pursuit="lasso"``), that make this sum
    small::

        sum_v view_weights[v] * ||X[v] - C @ dictionary[v]||_F^2

    One code explains all views. A view that is absent from `X` (``None``) is left out of the sum.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or list or dict of such arrays
        The samples; a list holds one array per view, with ``None`` for absent views, and a dict holds them by name.
        Read-only, strided and Fortran-ordered arrays are read in place and never changed, and so are those of PyTorch,
        JAX and anything else that has ``__dlpack__``, if they are on the CPU. Memory maps are copied a chunk at a time;
        a file that was truncated raises OSError. Sparse arrays of SciPy are accepted; a chunk of their rows at a time
        is made dense.
    dictionary : array of shape (n_components, n_features), or list or dict of such arrays
        Atoms are rows, of any norm: they are normalised internally, and codes refer to the atoms as given. Zero atoms
        are never chosen, nor are atoms whose norm is below 2.2e-308. A list holds one dictionary per view, a dict the
        dictionary of each view by name.
    n_nonzero_coefs : int, optional
        At most this many nonzeros per sample (the paper's T0); clipped to n_components and to the features of the given
        views. If both this and `tol` are left out, a tenth of the features, at least 1. With `tol` alone, only the
        clipping limits the number.
    tol : float, optional
        Stop when the squared joint residual, ``sum_v view_weights[v] * ||x_v - c D_v||^2``, is at most `tol` (the
        paper's epsilon; a squared norm, not a norm).
    pursuit : {"omp", "ols", "lasso"}, default="omp"
        Orthogonal matching pursuit takes the atom that correlates most with the residual. Orthogonal least squares
        takes the one that lowers the residual most; it costs more and gives slightly smaller errors. ``"lasso"``
        minimises with an l1 penalty instead, exactly, by an active-set method (:func:`coupledict.lasso_gaps` tells how
        exactly); it needs `alpha`, and `n_nonzero_coefs` and `tol` must be left out.
    alpha : float, optional
        Penalty of ``pursuit="lasso"``: codes minimise
        ``0.5 * sum_v view_weights[v] * ||x_v - c D_v||^2 + alpha * ||c||_1``, with the atoms as given, not normalised.
    positive_code : bool, default=False
        Whether coefficients are not negative. OMP and OLS then take the atom that correlates most, or lowers the
        residual most, with a positive sign, and coefficients are those of non-negative least squares over the chosen
        atoms [3]_; an atom whose coefficient becomes 0 leaves. The lasso minimises over non-negative codes.
    missing : {"error", "nan"}, default="error"
        ``"nan"``: NaN in `X` stands for a missing entry, and a row of NaN in a view for an absent view. Each sample is
        coded as if it had its known entries alone: residuals, norms of atoms and `tol` count these. A sample gets at
        most as many atoms as it has known entries, and one without any gets none, with a warning. ``"error"``: NaN is
        an error. Entries that a masked array, or a nullable column of a table, marks as missing are always accepted;
        infinity never is.
    view_weights : list of float, optional
        Non-negative weight of each view in the sum; 1 for every view if left out. A view of weight 0 counts as absent.
    n_jobs : int, optional
        Number of threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only: the
        results are the same to the last bit.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_samples, n_components)
        The codes, with sorted indices. float32 if `X` and `dictionary` hold nothing but float32, float16, booleans and
        integers of up to 16 bits; float64 otherwise.

    Raises
    ------
    ValueError, TypeError
        For arguments that do not fit together, infinity, or NaN without ``missing="nan"``; the message names the
        argument.

    Warns
    -----
    ConvergenceWarning
        If samples cannot reach `tol`, because their residual is orthogonal to all atoms.
    UserWarning
        If no entry of a sample is known.

    Notes
    -----
    Ties between atoms go to the lowest index. Coding also ends when no correlation with the residual exceeds rounding
    error, about ``8 * eps * ||x||``, or when only atoms remain that depend linearly on those chosen; a code may thus
    have fewer nonzeros than allowed. Memory beyond input and output: the Gram matrix of the dictionary, unless it would
    take more than 1 GiB, and a chunk of samples per thread.

    References
    ----------
    .. [1] F. G. Veshki and S. A. Vorobyov, "A Fast Dictionary Learning Method for Coupled Feature Space Learning",
       IEEE Signal Processing Letters 26(10), 2019. doi:10.1109/LSP.2019.2934045
    .. [2] R. Rubinstein, M. Zibulevsky and M. Elad, "Efficient Implementation of the K-SVD Algorithm using Batch
       Orthogonal Matching Pursuit", Technical Report CS-2008-08, Technion, 2008.
    .. [3] T. T. Nguyen, J. Idier, C. Soussen and E.-H. Djermoune, "Non-Negative Orthogonal Greedy Algorithms", IEEE
       Transactions on Signal Processing 67(21), 2019. doi:10.1109/TSP.2019.2943225

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import sparse_encode
    >>> atoms = np.eye(3)
    >>> sparse_encode([[0.0, 2.0, 0.5]], atoms, n_nonzero_coefs=1).toarray()
    array([[0., 2., 0.]])

    Two views of one sample, and the code found from the first view alone:

    >>> views = [np.array([[3.0, 0.0]]), np.array([[0.0, 3.0, 3.0]])]
    >>> dictionaries = [np.eye(2), np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])]
    >>> sparse_encode(views, dictionaries, n_nonzero_coefs=1).toarray()
    array([[3., 0.]])
    >>> sparse_encode([views[0], None], dictionaries, n_nonzero_coefs=1).toarray()
    array([[3., 0.]])

    A sample with a missing entry:

    >>> sparse_encode([[1.0, np.nan, 2.0]], [[1.0, 1.0, 2.0], [0.0, 1.0, 0.0]], missing="nan").toarray()
    array([[1., 0.]])
    """
    parameters = {
        "n_nonzero_coefs": n_nonzero_coefs,
        "tol": tol,
        "pursuit": pursuit,
        "alpha": alpha,
        "positive_code": positive_code,
    }
    check_parameters(CODING_CONSTRAINTS, parameters)
    rule = CodingRule.checked(n_nonzero_coefs, tol, pursuit, alpha=alpha, positive_code=positive_code)
    given = _open(X, dictionary, view_weights, missing)
    threads = Threads(count_jobs(n_jobs))
    samples = given.samples
    recipe = Recipe(given.dictionaries, given.weights, samples.dtype, rule, len(samples), samples.missing)
    coder = make_coder(recipe, threads)
    coded = encode(coder, samples, threads)
    coder.count_shortfall(coded).warn(coder.tol)
    return coded.as_csr(coder.n_atoms)[0]


def lasso_gaps(
    X: ViewsLike,
    dictionary: ViewsLike,
    codes: csr_array,
    *,
    alpha: float,
    positive_code: bool = False,
    missing: Missing = "error",
    view_weights: Sequence[float] | npt.NDArray[Any] | None = None,
) -> Floats:
    """Return the duality gaps of lasso codes: by how much each exceeds the minimum of its objective, at most.

    Computed in float64 from the codes as they are. Gaps of float64 codes of :func:`coupledict.sparse_encode` are
    rounding errors.

    Parameters
    ----------
    X, dictionary, alpha, positive_code, missing, view_weights
        As in :func:`coupledict.sparse_encode`.
    codes : array or scipy.sparse array of shape (n_samples, n_components)
        Codes of `X`, however they were computed.

    Returns
    -------
    array of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict import lasso_gaps, sparse_encode
    >>> X, atoms = np.array([[3.0, 1.0]]), np.eye(2)
    >>> codes = sparse_encode(X, atoms, pursuit="lasso", alpha=0.5)
    >>> lasso_gaps(X, atoms, codes, alpha=0.5)
    array([0.])
    >>> lasso_gaps(X, atoms, 0 * codes, alpha=0.5).round(2)
    array([3.47])
    """
    check_value(alpha, "alpha", *CODING_CONSTRAINTS["alpha"])
    check_value(positive_code, "positive_code", *CODING_CONSTRAINTS["positive_code"])
    rule = CodingRule.checked(None, None, "lasso", alpha=alpha, positive_code=positive_code)
    given = _open(X, dictionary, view_weights, missing)
    shape = len(given.samples), given.dictionaries[0].shape[0]
    found = csr_array(as_numpy(codes, "codes"))
    if found.shape != shape:
        raise ValueError(f"Expected codes of shape {shape}, one row for each sample of X, got {found.shape}.")
    views = [rows_in_memory(view, 0, shape[0]) for view in given.samples.views]
    return duality_gaps(views, given.dictionaries, given.weights, found, float(alpha), positive=rule.positive)


@dataclass(frozen=True)
class _Given:
    """The given views whose weight is positive: samples, dictionaries and weights."""

    samples: Samples
    dictionaries: list[Array]
    weights: Floats


def _open(X: ViewsLike, dictionary: ViewsLike, view_weights: object, missing: Missing) -> _Given:
    """Check samples and dictionaries as given by users."""
    check_value(missing, "missing", MISSING)
    dictionaries, single = check_dictionaries(dictionary)
    named = view_names(dictionary)
    given = list_views(X, named)
    present, views, incomplete = match_views(
        given, dictionaries, single=single, missing=missing, keep_mapped=True, names=named
    )
    weights = check_weights(view_weights, len(dictionaries))[present]
    if not weights.any():
        raise ValueError("Expected a positive weight for at least one of the given views, got only zeros.")
    kept = [i for i, weight in enumerate(weights) if weight > 0]
    chosen = [d for i in kept if (d := dictionaries[present[i]]) is not None]
    views = [views[i] for i in kept]
    names = None if single else tuple(view_labels([present[i] for i in kept], named))
    samples = Samples(views, common_dtype([*views, *chosen]), names=names, missing=incomplete)
    return _Given(samples, chosen, weights[kept])
