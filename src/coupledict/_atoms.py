"""The atoms of views that are coded together, side by side in one array, and what it means that they are normalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ._passes import one_blas_thread
from ._views import Array

ROWS_PER_CALL = 512  # of a product or a solution; between two calls an interrupt is heard


def solve_factored(factor: Any, right: Array) -> npt.NDArray[np.float64]:
    """Solve by a Cholesky factor, as ``scipy.linalg.cho_solve`` does, for a few columns at a time."""
    starts = range(0, right.shape[1], ROWS_PER_CALL)
    return np.hstack([scipy.linalg.cho_solve(factor, right[:, start : start + ROWS_PER_CALL]) for start in starts])


@dataclass
class AtomGroup:
    """Atoms of the views that share their coefficients.

    Attributes
    ----------
    views : list of int
        Numbers of the views.
    starts : array of shape (n_views + 1,)
        First column of each view in `atoms`, and the end.
    weights : array of shape (n_views,)
    joint : bool
        Atoms have norm 1 over all views, weighted (``normalize="joint"``), not in each view.
    n_fixed : int
        The first atoms are never changed.
    atoms : float64 array of shape (n_components, n_features)
    """

    views: list[int]
    starts: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    joint: bool
    n_fixed: int
    atoms: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls,
        views: list[int],
        dictionaries: list[Array],
        weights: npt.NDArray[np.float64],
        *,
        joint: bool,
        n_fixed: int,
    ) -> AtomGroup:
        """Put dictionaries side by side and normalise them."""
        starts = np.concatenate([[0], np.cumsum([d.shape[1] for d in dictionaries])]).astype(np.int64)
        atoms = np.ascontiguousarray(np.hstack(dictionaries), np.float64)
        group = cls(views, starts, np.ascontiguousarray(weights, np.float64), joint, n_fixed, atoms)
        group.normalize(np.arange(atoms.shape[0]))
        return group

    def columns(self, place: int) -> slice:
        """Return the columns of the view at that place in `views`."""
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    def split(self, dtype: np.dtype[Any]) -> list[Array]:
        """Return one array of atoms a view, copied."""
        return [self.atoms[:, self.columns(i)].astype(dtype, order="C") for i in range(len(self.views))]

    def normalize(self, which: npt.NDArray[Any]) -> None:
        """Bring some atoms to norm 1; zero atoms stay zero."""
        chosen = self.atoms[which]
        top = np.abs(chosen).max(axis=1, initial=0)
        extreme = (top > 1e100) | ((top < 1e-100) & (top > 0))  # squares of these would not be numbers any more
        chosen[extreme] /= top[extreme, None]
        squares = np.stack([np.sum(chosen[:, self.columns(i)] ** 2, axis=1) for i in range(len(self.views))])
        if self.joint:
            norms = np.sqrt(self.weights @ squares)
            chosen /= np.where(norms > 0, norms, 1)[:, None]
        else:
            for i, norms in enumerate(np.sqrt(squares)):
                chosen[:, self.columns(i)] /= np.where(norms > 0, norms, 1)[:, None]
        self.atoms[which] = chosen

    def replace(self, which: npt.NDArray[Any], rows: Array) -> None:
        """Put new atoms in place of some and normalise them."""
        self.atoms[which] = rows
        self.normalize(which)

    def view_energies(self, energies: Array, a: Array, b: Array) -> npt.NDArray[np.float64]:
        """Return ||X_v - C D_v||^2 for each view from its energy ||X_v||^2, A = C^T C and B = C^T X."""
        change = np.empty_like(self.atoms)
        with one_blas_thread():
            for start in range(0, len(a), ROWS_PER_CALL):
                rows = slice(start, start + ROWS_PER_CALL)
                np.matmul(a[rows], self.atoms, out=change[rows])
        change -= 2 * b
        change *= self.atoms
        return np.asarray(np.maximum(energies + np.add.reduceat(change.sum(axis=0), self.starts[:-1]), 0), np.float64)
