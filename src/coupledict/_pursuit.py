"""Sparse codes from views and dictionaries: the front door of the kernels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from . import _native, _passes
from ._levels import active_level
from ._views import (
    Array,
    ViewList,
    check_count,
    check_tol,
    check_views,
    check_weights,
    common_dtype,
    is_view_list,
)

Pursuit: TypeAlias = Literal["omp", "ols"]
Coupling: TypeAlias = Literal["code", "support"]

# A larger Gram matrix is not made: the kernels then work without it.
GRAM_BUDGET_BYTES = 1 << 30


def normalize_atoms(dictionaries: Sequence[Array], scales: npt.NDArray[np.float64]) -> tuple[Array, Array]:
    """Return the joint atoms with unit norm, in float64, and their norms before.

    A joint atom is the row of its views side by side, view v multiplied by ``scales[v]``. Zero atoms stay zero, and so
    do those whose norm is below the smallest normal number: too few of its bits are left to divide by. The largest
    entry is divided out first, so that no square over- or underflows.
    """
    # In C order whatever the dictionaries have: sums over the features then round the same for every layout.
    joint = np.ascontiguousarray(
        np.hstack([np.asarray(d, np.float64) * scale for d, scale in zip(dictionaries, scales, strict=True)])
    )
    largest = np.abs(joint).max(axis=1)
    safe = np.where(largest > 0, largest, 1.0)
    joint /= safe[:, None]
    norms = np.sqrt(np.einsum("ij,ij->i", joint, joint))
    joint /= np.where(norms > 0, norms, 1.0)[:, None]
    with np.errstate(over="ignore"):
        norms = norms * largest
    if not np.isfinite(norms).all():
        raise ValueError(
            f"Expected atoms whose norm is at most {np.finfo(np.float64).max:.4g}, got a larger one (atom"
            f" {int(np.argmin(np.isfinite(norms)))}). Divide the dictionary by a number."
        )
    lost = norms < np.finfo(np.float64).smallest_normal
    norms[lost], joint[lost] = 0, 0
    return joint, norms


class Coder:
    """Dictionaries made ready for coding, with the rule that ends it; checked arguments only.

    Parameters
    ----------
    dictionaries : list of arrays (n_components, n_features_v)
        One for each view that will be given.
    weights : array of shape (n_views,)
        At least one of them is positive.
    dtype : float32 or float64
        Number type of the samples, the work and the codes.
    n_nonzero, tol, pursuit
        As in :func:`sparse_encode`; `n_nonzero` is clipped here.
    n_samples : int
        About how many samples will be coded; for a few, the Gram matrix is not worth its making.
    n_jobs : int
        Threads for the preparation.
    coupling : {"code", "support"}
        One code for all views, or one support with coefficients for each view (simultaneous OMP).
    """

    def __init__(
        self,
        dictionaries: list[Array],
        weights: npt.NDArray[np.float64],
        dtype: np.dtype[Any],
        *,
        n_nonzero: int | None,
        tol: float | None,
        pursuit: Pursuit,
        n_samples: int,
        n_jobs: int,
        coupling: Coupling = "code",
    ) -> None:
        views = list(range(len(dictionaries)))
        self.groups: list[list[int]] = [views] if coupling == "code" else [[v] for v in views]
        # Only the ratios of the weights matter to the codes; a largest weight of 1 keeps every product in range.
        top = float(weights.max())
        scales = np.sqrt(weights / top)
        n_atoms, widths = dictionaries[0].shape[0], [d.shape[1] for d in dictionaries]
        # An atom is orthogonalised within its group, so no group can use more atoms than it has features.
        most = min([n_atoms, *(sum(widths[v] for v in group) for group in self.groups)])
        if n_nonzero is None:
            n_nonzero = most if tol is not None else max(1, sum(widths) // 10)
        self.n_nonzero = min(n_nonzero, most)
        self.unlimited = n_nonzero >= most
        self.n_atoms = n_atoms
        self.tol = tol
        self.dtype = dtype
        self._n_features = sum(widths)
        self._scales = scales.tolist()
        self._top_weight = top
        self._kernel_tol = -1.0 if tol is None else tol / top
        self._ols = pursuit == "ols"
        self._make = _native.Plan32 if dtype == np.float32 else _native.Plan64
        self.gram_free = coupling == "code" and n_atoms * n_atoms * dtype.itemsize > GRAM_BUDGET_BYTES
        with_gram = n_atoms * n_atoms * dtype.itemsize <= GRAM_BUDGET_BYTES and n_samples * self.n_nonzero > n_atoms
        self._plans = []
        for group in self.groups:
            joint, norms = normalize_atoms([dictionaries[v] for v in group], scales[group])
            plan = self._make(np.ascontiguousarray(joint, dtype=dtype), norms, active_level())
            if with_gram:
                _passes.fill_gram(plan, n_jobs)
            self._plans.append(plan)

    @property
    def multiply_adds(self) -> float:
        """Multiply-adds that one sample may take."""
        limit = self.n_nonzero
        orthogonalising = self.n_atoms * limit * limit * len(self.groups)
        correlating = self.n_atoms * self._n_features * (1 if self._plans[0].has_gram else limit)
        return float(orthogonalising + correlating)

    def encode_rows(
        self,
        views: list[Array],
        workspace: _native.Workspace,
        stop: npt.NDArray[np.int32],
        energy: npt.NDArray[np.float64],
        status: npt.NDArray[np.uint8],
    ) -> _passes.Part:
        """Code a chunk of samples; writes the squared residual and the status of each."""
        n = views[0].shape[0]
        counts = np.empty(n, np.int32)
        indices = np.empty(n * self.n_nonzero, np.int32)
        values = [np.empty(n * self.n_nonzero, self.dtype) for _ in self.groups]
        common: Any = {
            "n_nonzero": self.n_nonzero,
            "tol": self._kernel_tol,
            "workspace": workspace,
            "stop": stop,
            "counts": counts,
            "indices": indices,
            "energy": energy,
            "status": status,
        }
        if len(self.groups) == 1:
            written = self._plans[0].encode(
                views, self._scales, ols=self._ols, gram_free=self.gram_free, values=values[0], **common
            )
        else:
            written = self._make.encode_support(self._plans, views, self._scales, values=values, **common)
        with np.errstate(over="ignore"):  # an energy too large for a number is infinite, and above any tol
            energy *= self._top_weight
        return _passes.Part(counts, indices[:written], [piece[:written] for piece in values])


@dataclass(frozen=True)
class Recipe:
    """What a :class:`Coder` is made from: plain data, which can travel to where the samples are."""

    dictionaries: list[Array]
    weights: npt.NDArray[np.float64]
    dtype: np.dtype[Any]
    n_nonzero: int | None
    tol: float | None
    pursuit: Pursuit
    n_samples: int
    coupling: Coupling = "code"

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return int(self.dictionaries[0].shape[0])

    def coder(self, n_jobs: int) -> Coder:
        """Make the coder."""
        return Coder(
            self.dictionaries,
            self.weights,
            self.dtype,
            n_nonzero=self.n_nonzero,
            tol=self.tol,
            pursuit=self.pursuit,
            n_samples=self.n_samples,
            n_jobs=n_jobs,
            coupling=self.coupling,
        )


def check_dictionaries(value: object, name: str = "dictionary") -> tuple[ViewList, bool]:
    """Return the dictionaries as a list, and whether a single array was given."""
    single = not is_view_list(value)
    dictionaries = check_views(value, name, single=single)
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
    return dictionaries, single


def match_views(
    X: object, dictionaries: Sequence[Array | None], *, single: bool, name: str = "X"
) -> tuple[list[int], list[Array]]:
    """Return the numbers of the views that X gives, and their arrays, checked against the dictionaries."""
    views = check_views(X, name, single=single)
    if len(views) != len(dictionaries):
        raise ValueError(
            f"Expected {len(dictionaries)} views in {name}, one for each dictionary (None for an absent one),"
            f" got {len(views)}."
        )
    present = [v for v, view in enumerate(views) if view is not None]
    if not present:
        raise ValueError(f"Expected at least one view in {name}, got only None.")
    arrays: list[Array] = []
    for v in present:
        view, d, label = views[v], dictionaries[v], name if single else f"{name}[{v}]"
        assert view is not None
        if d is None:
            raise ValueError(f"Expected {label} to be None, as dictionary[{v}] is; got an array of shape {view.shape}.")
        if view.shape[1] != d.shape[1]:
            raise ValueError(
                f"Expected {label} to have {d.shape[1]} features, as its dictionary has, got {view.shape[1]}."
            )
        if arrays and view.shape[0] != arrays[0].shape[0]:
            raise ValueError(
                f"Expected the same number of samples in every view, got {arrays[0].shape[0]} and"
                f" {view.shape[0]} ({label})."
            )
        arrays.append(view)
    return present, arrays


def check_pursuit(pursuit: object) -> Pursuit:
    """Return `pursuit` if it is one."""
    if pursuit == "omp":
        return "omp"
    if pursuit == "ols":
        return "ols"
    raise ValueError(f"Expected pursuit to be 'omp' or 'ols', got {pursuit!r}.")


def count_unreached(coded: _passes.Coded, coder: Coder) -> int:
    """Return how many samples ended above tol although they were allowed more atoms."""
    if coder.tol is None:
        return 0
    ends = [_native.EXHAUSTED, _native.DEPENDENT, *([_native.LIMIT] if coder.unlimited else [])]
    return int(np.count_nonzero(np.isin(coded.status, ends) & (coded.energy > coder.tol)))


def warn_if_unreached(count: int, n_samples: int, tol: float | None) -> None:
    """Warn once, with a count, where coding ended above tol although it was allowed more atoms."""
    if count:
        warnings.warn(
            f"{count} of {n_samples} samples did not reach tol={tol}: what is left of them is, up to"
            " rounding, orthogonal to every atom. Use a larger tol or a dictionary that spans the samples.",
            ConvergenceWarning,
            stacklevel=3,
        )


def sparse_encode(
    X: object,
    dictionary: object,
    *,
    n_nonzero_coefs: int | None = None,
    tol: float | None = None,
    pursuit: Pursuit = "omp",
    view_weights: Sequence[float] | npt.NDArray[Any] | None = None,
    n_jobs: int | None = None,
) -> csr_array:
    """Code samples sparsely over a dictionary, or over coupled dictionaries of several views.

    Finds, sample by sample and greedily, codes ``C`` with few nonzeros that make::

        sum_v view_weights[v] * ||X[v] - C @ dictionary[v]||_F^2

    small: one code explains all views. A view that is absent from `X` (``None``) is left out of the sum.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or list of such arrays
        The samples; a list holds one array a view, with ``None`` for absent views. Read-only, strided, Fortran-ordered
        and memory-mapped arrays are read in place and never changed.
    dictionary : array of shape (n_components, n_features), or list of such arrays
        Atoms are rows, of any norm: they are normalised inside, and codes refer to them as given. Zero atoms are never
        chosen, nor are those whose norm is below 2.2e-308. A list holds one dictionary a view.
    n_nonzero_coefs : int, optional
        At most this many nonzeros a sample (the paper's T0); clipped to n_components and to the features of the given
        views. If both this and `tol` are left out, a tenth of the features, at least 1. With `tol` alone there is no
        limit but the clipping.
    tol : float, optional
        Stop when the squared joint residual, ``sum_v view_weights[v] * ||x_v - c D_v||^2``, is at most `tol` (the
        paper's epsilon; a squared norm, not a norm).
    pursuit : {"omp", "ols"}, default="omp"
        Orthogonal matching pursuit takes the atom that correlates most with the residual. Orthogonal least squares
        takes the one that lowers the residual most; it costs more and gives slightly smaller errors.
    view_weights : list of float, optional
        Non-negative weight of each view in the sum; 1 for every view if left out. A view of weight 0 counts as absent.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only: results are the
        same to the last bit.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_samples, n_components)
        The codes, with sorted indices. float32 if `X` and `dictionary` hold nothing but float32, float16, booleans and
        integers of up to 16 bits; float64 otherwise.

    Raises
    ------
    ValueError, TypeError
        For arguments that do not fit together, NaN or infinity; the message names the argument.

    Warns
    -----
    ConvergenceWarning
        Where samples cannot reach `tol`, because what is left of them is orthogonal to all atoms.

    Notes
    -----
    Ties between atoms go to the lowest index. Coding also ends when no correlation with the residual exceeds rounding
    error, about ``8 * eps * ||x||``, or when only atoms remain that depend linearly on those chosen; a code may thus
    have fewer nonzeros than allowed. Memory beyond input and output: the Gram matrix of the dictionary, or none of it
    where it would pass 1 GiB, and a chunk of samples a thread.

    References
    ----------
    .. [1] F. G. Veshki and S. A. Vorobyov, "A Fast Dictionary Learning Method for Coupled Feature Space Learning",
       IEEE Signal Processing Letters 26(10), 2019. doi:10.1109/LSP.2019.2934045
    .. [2] R. Rubinstein, M. Zibulevsky and M. Elad, "Efficient Implementation of the K-SVD Algorithm using Batch
       Orthogonal Matching Pursuit", Technical Report CS-2008-08, Technion, 2008.

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
    """
    dictionaries, single = check_dictionaries(dictionary)
    present, views = match_views(X, dictionaries, single=single)
    weights = check_weights(view_weights, len(dictionaries))[present]
    if not weights.any():
        raise ValueError("Expected a positive weight for at least one of the given views, got only zeros.")
    kept = [i for i, weight in enumerate(weights) if weight > 0]
    chosen = [dictionaries[present[i]] for i in kept]
    views = [views[i] for i in kept]
    threads = _passes.count_jobs(n_jobs)
    dtype = common_dtype([*views, *chosen])
    coder = Coder(
        [d for d in chosen if d is not None],
        weights[kept],
        dtype,
        n_nonzero=None if n_nonzero_coefs is None else check_count(n_nonzero_coefs, "n_nonzero_coefs"),
        tol=None if tol is None else check_tol(tol),
        pursuit=check_pursuit(pursuit),
        n_samples=views[0].shape[0],
        n_jobs=threads,
    )
    coded = _passes.encode(coder, _passes.Samples(views, dtype), threads)
    warn_if_unreached(count_unreached(coded, coder), coded.status.size, coder.tol)
    return as_csr(coded, coder.n_atoms)[0]


def as_csr(coded: _passes.Coded, n_components: int) -> list[csr_array]:
    """Return codes as CSR arrays that know their indices to be sorted and unique, one for each group of views."""
    nnz = coded.indices.size
    index_dtype = np.int32 if max(nnz, n_components) <= np.iinfo(np.int32).max else np.int64
    indptr, indices = coded.indptr.astype(index_dtype), coded.indices.astype(index_dtype, copy=False)
    codes = []
    for values in coded.values:
        matrix = csr_array((values, indices, indptr), shape=(indptr.size - 1, n_components))
        matrix.has_sorted_indices = True
        matrix.has_canonical_format = True
        codes.append(matrix)
    return codes
