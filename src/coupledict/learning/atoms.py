"""The atoms of views that are coded together, side by side in one array, and their normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..foundation.arrays import Array, Flags, Floats
from ..parallel.blas import one_blas_thread
from .scaling import power_of_two

#: The part of a joint atom in a view is a rounding error if it is smaller than this share of the largest part there:
#: samples may have been coded in float32.
LEAST_PART = 1e-5
ROWS_PER_CALL = 512  # rows of a product or columns of a solution per call: an interrupt is noticed between two calls


def solve_factored(factor: Any, right: Array) -> Floats:
    """Solve with a Cholesky factor like ``scipy.linalg.cho_solve``, but a few columns per call."""
    starts = range(0, right.shape[1], ROWS_PER_CALL)
    return np.hstack([scipy.linalg.cho_solve(factor, right[:, start : start + ROWS_PER_CALL]) for start in starts])


@dataclass
class AtomGroup:
    """Atoms of a group of views that share their coefficients.

    Attributes
    ----------
    views : list of int
        Numbers of the views.
    starts : array of shape (n_views + 1,)
        First column of each view in `atoms`, and the end.
    weights : array of shape (n_views,)
        Divided by the square of `unit`.
    joint : bool
        Whether atoms have norm 1 over all views, weighted (``normalize="joint"``), instead of in each view.
    n_fixed : int
        Number of fixed atoms: the first `n_fixed` are never changed.
    positive : array of bool of shape (n_views,)
        Views in which atoms are not negative.
    atoms : float64 array of shape (n_components, n_features)
        Of norm 1 with `weights`; the learned atoms are these divided by `unit`.
    unit : float
        A power of two, 1 for weights of ordinary size. Balanced weights are reciprocals of squares of the samples, so
        atoms of joint norm 1 have the scale of the samples, whatever that is; with the largest weight near 1, no square
        over- or underflows.
    """

    views: list[int]
    starts: npt.NDArray[np.int64]
    weights: Floats
    joint: bool
    n_fixed: int
    positive: Flags
    atoms: Floats
    unit: float = 1.0

    @classmethod
    def of(
        cls,
        views: list[int],
        dictionaries: list[Array],
        weights: Floats,
        *,
        joint: bool,
        n_fixed: int,
        positive: Flags | None = None,
    ) -> AtomGroup:
        """Return the group of these dictionaries, with normalised atoms."""
        starts = np.concatenate([[0], np.cumsum([d.shape[1] for d in dictionaries])]).astype(np.int64)
        atoms = np.ascontiguousarray(np.hstack(dictionaries), np.float64)
        unit = power_of_two(float(weights.max()) ** 0.5) if joint else 1.0
        relative = np.ascontiguousarray(weights, np.float64) / unit / unit
        marked = np.zeros(len(views), bool) if positive is None else np.ascontiguousarray(positive, bool)
        group = cls(views, starts, relative, joint, n_fixed, marked, atoms, unit)
        group.normalize(np.arange(atoms.shape[0]))
        return group

    def columns(self, place: int) -> slice:
        """Return the columns of the view at that index in `views`."""
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    def split(self, dtype: np.dtype[Any]) -> list[Array]:
        """Return the learned atoms as one array per view.

        A joint atom may vanish in a view. What the updates leave of it there is a rounding error and is set to 0:
        otherwise, a sample coded from this view alone could use its direction, with an enormous coefficient.
        """
        parts = [(part / self.unit).astype(dtype, order="C") for part in self.parts()]
        if self.joint and len(parts) > 1:
            for part in parts:
                largest = np.abs(part).max(axis=1)
                part[largest < LEAST_PART * largest.max()] = 0
        return parts

    @property
    def layout(self) -> tuple[npt.NDArray[np.int64], Floats, Flags, bool, int]:
        """What the kernels need to know about the group: first columns, weights, signs, kind of norm, fixed atoms."""
        return self.starts, self.weights, self.positive, self.joint, self.n_fixed

    def parts(self) -> list[Floats]:
        """Return one slice of `atoms` per view, not copied."""
        return [self.atoms[:, self.columns(i)] for i in range(len(self.views))]

    def largest_norm(self, atoms: Array) -> float:
        """Return the largest norm among other atoms of this group."""
        squares = np.stack([np.sum(atoms[:, self.columns(i)] ** 2, axis=1) for i in range(len(self.views))])
        return float(np.sqrt(np.max(self.weights @ squares if self.joint else squares)))

    def normalize(self, which: npt.NDArray[Any]) -> None:
        """Bring some atoms to norm 1; zero atoms stay zero."""
        chosen = self.atoms[which]
        top = np.abs(chosen).max(axis=1, initial=0)
        extreme = (top > 1e100) | ((top < 1e-100) & (top > 0))  # squares of these could over- or underflow
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
        """Replace some atoms by these rows, normalised."""
        self.atoms[which] = rows
        self.normalize(which)

    def move_on(self, old: Array, share: float) -> None:
        """Move the atoms beyond their change since `old`, by a share of it; fixed ones have not changed.

        In non-negative views, entries that would become negative become 0. This makes no atom vanish: all have norm 1,
        so old entries times `share` cannot exceed new ones times 1 + `share` everywhere.
        """
        self.atoms += share * (self.atoms - old)
        for own, positive in zip(self.parts(), self.positive, strict=True):
            if positive:
                np.maximum(own, 0, out=own)
        self.normalize(np.arange(self.n_fixed, len(self.atoms)))

    def view_energies(self, energies: Array, a: Array, b: Array) -> Floats:
        """Return ||X_v - C D_v||^2 for each view from its energy ||X_v||^2, A = C^T C and B = C^T X."""
        change = np.empty_like(self.atoms)
        with one_blas_thread():
            for start in range(0, len(a), ROWS_PER_CALL):
                rows = slice(start, start + ROWS_PER_CALL)
                np.matmul(a[rows], self.atoms, out=change[rows])
        change -= 2 * b
        change *= self.atoms
        return np.asarray(np.maximum(energies + np.add.reduceat(change.sum(axis=0), self.starts[:-1]), 0), np.float64)


def group_atoms(
    arrays: list[Array],
    weights: Floats,
    *,
    coupled: bool,
    joint: bool,
    n_fixed: int,
    positive: Flags | None = None,
    relative: bool = False,
) -> list[AtomGroup]:
    """Group dictionaries, one per view, by shared coefficients: all in one group if `coupled`, else one group each.

    With `relative`, weights are divided by the largest, so that only their ratios matter.
    """
    if relative:
        weights = weights / weights.max()
    numbers = list(range(len(arrays)))
    return [
        AtomGroup.of(
            members,
            [arrays[v] for v in members],
            weights[members],
            joint=joint,
            n_fixed=n_fixed,
            positive=None if positive is None else positive[members],
        )
        for members in ([numbers] if coupled else [[v] for v in numbers])
    ]


def in_view_order(groups: list[AtomGroup], dtype: np.dtype[Any] | None = None) -> list[Array]:
    """Return the dictionaries in the order of the views: as learned, of type `dtype`; without one, as in the groups."""
    arrays: dict[int, Array] = {}
    for group in groups:
        arrays |= dict(zip(group.views, group.parts() if dtype is None else group.split(dtype), strict=True))
    return [arrays[v] for v in sorted(arrays)]
