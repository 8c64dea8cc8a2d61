"""The sparse coders that are compared, each behind the same small face, and the judges of what they return.

How the peers stop, read from their sources and seen in their results:

* SPAMS ``omp`` stops at L atoms or when the squared residual is <= eps, and gives no atom to a signal
  whose energy is <= eps already: the rule of coupledict. It chooses atoms as ``pursuit="ols"`` does
  (correlation over the remaining norm of the atom), so it is compared with both pursuits. It is always
  given eps, if only 0: without it, float32 codes of the 2.6.14 wheel differ from run to run on the same
  input and are often empty, as if the tolerance were undefined.
* scikit-learn ``orthogonal_mp_gram`` ignores ``n_nonzero_coefs`` when ``tol`` is given, so its codes may
  be longer than the limit.
* dictlearn ``sparse_encode`` obeys both limits. It computes in float64 whatever it is given, so it runs
  there only, and its loop over signals runs on one thread: a second one can speed up nothing but its
  matrix products.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import coupledict

Array = NDArray[Any]
Call = Callable[[], Any]

DTYPES = ("float32", "float64")
OURS, OURS_OLS = "coupledict OMP", "coupledict OLS"
SPAMS, SKLEARN, DICTLEARN = "SPAMS", "scikit-learn", "dictlearn"
OLS_CODERS = (OURS_OLS, SPAMS)


@dataclass(frozen=True)
class Problem:
    """Signals in one or more views, a dictionary for each view, and where to stop."""

    key: str
    title: str
    views: tuple[Array, ...]
    dictionaries: tuple[Array, ...]
    n_nonzero_coefs: int
    tol: float | None = None
    dtypes: tuple[str, ...] = DTYPES
    peers: tuple[str, ...] = (SPAMS, SKLEARN, DICTLEARN)

    @property
    def n_samples(self) -> int:
        """Number of signals."""
        return len(self.views[0])

    @property
    def n_features(self) -> int:
        """Number of features of all views together."""
        return sum(view.shape[1] for view in self.views)

    @property
    def n_components(self) -> int:
        """Number of atoms."""
        return len(self.dictionaries[0])

    def cast(self, dtype: str) -> Problem:
        """Return the same problem in another precision, as contiguous arrays."""
        return replace(
            self,
            views=tuple(np.ascontiguousarray(view, dtype=dtype) for view in self.views),
            dictionaries=tuple(np.ascontiguousarray(atoms, dtype=dtype) for atoms in self.dictionaries),
        )

    def stacked(self) -> Array:
        """Return the views side by side, shape (n_samples, n_features)."""
        return self.views[0] if len(self.views) == 1 else np.hstack(self.views)

    def atoms(self, *, unit: bool) -> Array:
        """Return the dictionaries side by side, on request with rows of unit norm, as the peers need them."""
        atoms = np.hstack(self.dictionaries)
        if unit:
            atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
        return np.ascontiguousarray(atoms)


@dataclass(frozen=True)
class Coder:
    """A sparse coder: what prepares its call, and how its answer is read.

    `prepare` gets a problem of the right precision and a number of threads; what it does is not timed.
    `read` turns the answer into codes of shape (n_samples, n_components) for the atoms the coder was given.
    """

    name: str
    prepare: Callable[[Problem, int], Call]
    read: Callable[[Any], Any]
    dtypes: tuple[str, ...] = DTYPES
    unit_atoms: bool = True


def available_coders() -> tuple[list[Coder], list[str]]:
    """Return the coders that can run here, and one line for each peer that is not installed."""
    coders = [
        Coder(OURS, lambda problem, threads: ours(problem, threads, "omp"), _as_rows, unit_atoms=False),
        Coder(OURS_OLS, lambda problem, threads: ours(problem, threads, "ols"), _as_rows, unit_atoms=False),
    ]
    peers: tuple[tuple[str, tuple[str, ...], str, Callable[[ModuleType], Coder]], ...] = (
        (SPAMS, ("spams",), "spams-bin", _spams),
        (DICTLEARN, ("dictlearn", "numba"), "dictlearn numba", _dictlearn),
        (SKLEARN, ("sklearn.linear_model",), "scikit-learn", _sklearn),
    )
    missing = []
    for name, modules, packages, make in peers:
        try:
            loaded = [importlib.import_module(module) for module in modules]
        except ImportError as error:
            missing.append(f"{name} is left out: {error}. To compare with it: pip install {packages}")
        else:
            coders.append(make(loaded[0]))
    return coders, missing


def ours(problem: Problem, n_jobs: int, pursuit: str) -> Call:
    """Prepare a call of ``coupledict.sparse_encode``."""
    single = len(problem.views) == 1
    X: Any = problem.views[0] if single else list(problem.views)
    dictionary: Any = problem.dictionaries[0] if single else list(problem.dictionaries)
    encode: Callable[..., Any] = coupledict.sparse_encode
    return lambda: encode(
        X,
        dictionary,
        n_nonzero_coefs=problem.n_nonzero_coefs,
        tol=problem.tol,
        pursuit=pursuit,
        n_jobs=n_jobs,
    )


def _spams(module: ModuleType) -> Coder:
    def prepare(problem: Problem, threads: int) -> Call:
        X = np.asfortranarray(problem.stacked().T)
        D = np.asfortranarray(problem.atoms(unit=True).T)
        eps = 0.0 if problem.tol is None else problem.tol
        return lambda: module.omp(X, D, L=problem.n_nonzero_coefs, eps=eps, numThreads=threads)

    return Coder(SPAMS, prepare, _as_columns)


def _sklearn(module: ModuleType) -> Coder:
    def prepare(problem: Problem, threads: int) -> Call:
        X, D = problem.stacked(), problem.atoms(unit=True)

        def call() -> Any:
            gram, correlations, energies = _products(X, D)
            with warnings.catch_warnings():
                # It warns for each signal that it cannot reduce further, flat patches among them.
                warnings.simplefilter("ignore", RuntimeWarning)
                return module.orthogonal_mp_gram(
                    gram,
                    correlations,
                    n_nonzero_coefs=problem.n_nonzero_coefs,
                    tol=problem.tol,
                    norms_squared=energies,
                    copy_Xy=False,
                )

        return call

    # float64 only: it is a loop in Python that takes minutes, and no faster in float32.
    return Coder(SKLEARN, prepare, _as_columns, dtypes=("float64",))


def _dictlearn(module: ModuleType) -> Coder:
    def prepare(problem: Problem, threads: int) -> Call:
        X, D = problem.stacked(), problem.atoms(unit=True)

        def call() -> Any:
            gram, correlations, energies = _products(X, D)
            return module.sparse_encode(
                None,
                algorithm="omp",
                n_nonzero_coefs=problem.n_nonzero_coefs,
                tol=problem.tol,
                gram=gram,
                cov=correlations,
                norms_squared=energies,
            )

        return call

    return Coder(DICTLEARN, prepare, _as_rows, dtypes=("float64",))


def _products(X: Array, D: Array) -> tuple[Array, Array, Array]:
    """Return Gram, correlations with contiguous columns (both peers read those fastest) and energies."""
    return D @ D.T, (X @ D.T).T, np.einsum("ij,ij->i", X, X)


def _as_rows(answer: Any) -> Any:
    return sparse.csr_array(answer)


def _as_columns(answer: Any) -> Any:
    return sparse.csr_array(answer.T)


@dataclass(frozen=True)
class Quality:
    """What codes reach: root of the mean squared residual norm, and the number of atoms used."""

    rms_residual: float
    mean_nonzeros: float
    max_nonzeros: int

    def comparable(self, other: Quality, *, same_pursuit: bool) -> bool:
        """Tell whether times may be compared: atoms used within 5 %, residuals within 1 %, or 25 %.

        The same pursuit must reach the same error but for rounding. OMP beside OLS under one stopping rule
        may differ by more; empty codes and another stopping rule differ by more still.
        """
        allowed = 1.01 if same_pursuit else 1.25
        residuals = sorted((self.rms_residual, other.rms_residual))
        atoms = sorted((self.mean_nonzeros, other.mean_nonzeros))
        return residuals[1] <= allowed * residuals[0] and atoms[1] <= 1.05 * atoms[0]


def squared_error(X: Array, codes: Any, atoms: Array, *, chunk: int = 50_000) -> float:
    """Return ``||X - codes @ atoms||_F ** 2``, computed in float64 by chunks."""
    atoms = np.asarray(atoms, dtype=np.float64)
    total = 0.0
    for start in range(0, len(X), chunk):
        rows = slice(start, start + chunk)
        total += float(np.sum((X[rows] - codes[rows].astype(np.float64) @ atoms) ** 2))
    return total


def judge(X: Array, codes: Any, atoms: Array) -> Quality:
    """Measure what codes reach on the signals, with the atoms they were made for."""
    counts = np.diff(codes.indptr)
    rms = np.sqrt(squared_error(X, codes, atoms) / len(X))
    return Quality(float(rms), float(counts.mean()), int(counts.max()))


def equal_supports(first: Any, second: Any) -> float:
    """Return the share of signals for which two codes use the same atoms."""
    ones = [abs(codes).sign().astype(np.int32) for codes in (first, second)]
    different = abs(ones[0] - ones[1]).sum(axis=1)
    return float(np.mean(np.asarray(different) == 0))


def identical(codes: list[Any]) -> bool:
    """Tell whether codes are equal bit for bit in data, indices and row pointers."""
    return all(
        getattr(codes[0], part).dtype == getattr(other, part).dtype
        and getattr(codes[0], part).tobytes() == getattr(other, part).tobytes()
        for other in codes[1:]
        for part in ("data", "indices", "indptr")
    )
