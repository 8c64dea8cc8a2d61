"""How badly the atoms of each class explain samples, and decisions by that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from ..coding.encode import sparse_encode
from ..coding.rule import GreedyPursuit
from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ._label_views import Numbers

N_NONZERO_COEFS = 10  # of 1, 4, 10, 30, the best on most data where residuals matter


@dataclass(frozen=True)
class ClassAtoms:
    """Atoms, class after class, and how samples are coded over them.

    Attributes
    ----------
    atoms : array of shape (n_atoms, n_features)
    classes : array of shape (n_atoms,)
        Number of the class of each atom, in order.
    n_classes : int
    n_nonzero_coefs : int
    pursuit : {"omp", "ols"}
    joint : bool
        Whether samples are coded over the atoms of all classes together, and the residual of a class uses the
        coefficients of its atoms; otherwise, samples are coded over the atoms of each class alone.
    """

    atoms: Array
    classes: Numbers
    n_classes: int
    n_nonzero_coefs: int = N_NONZERO_COEFS
    pursuit: GreedyPursuit = "omp"
    joint: bool = False

    def residuals(self, samples: Array, n_jobs: int | None = None) -> Array:
        """Return the norm of the residual of each sample for each class; the sample itself if a class has no atoms."""
        bounds = np.searchsorted(self.classes, np.arange(self.n_classes + 1))
        found = np.empty((samples.shape[0], self.n_classes), samples.dtype)
        step = SIZES.residual_rows
        for first in range(0, samples.shape[0], step):
            rows = samples[first : first + step]
            codes = self._codes(rows, self.atoms, n_jobs) if self.joint else None
            for label in range(self.n_classes):
                part = slice(bounds[label], bounds[label + 1])
                atoms = self.atoms[part]
                left = rows
                if len(atoms):
                    left = rows - (self._codes(rows, atoms, n_jobs) if codes is None else codes[:, part]) @ atoms
                found[first : first + step, label] = np.einsum("ij,ij->i", left, left)
        return np.sqrt(found)

    def _codes(self, samples: Array, atoms: Array, n_jobs: int | None) -> csr_array:
        n_nonzero = min(self.n_nonzero_coefs, len(atoms))
        return sparse_encode(samples, atoms, n_nonzero_coefs=n_nonzero, pursuit=self.pursuit, n_jobs=n_jobs)

    def without(self, left_out: Numbers) -> ClassAtoms:
        """Return the atoms without some, given by their numbers."""
        kept = np.setdiff1d(np.arange(len(self.atoms)), left_out)
        return ClassAtoms(
            self.atoms[kept], self.classes[kept], self.n_classes, self.n_nonzero_coefs, self.pursuit, self.joint
        )


def order_by_class(y: Numbers) -> Numbers:
    """Return the numbers of the samples, class after class."""
    return np.argsort(y, kind="stable")
