"""The lasso, by scikit-learn's coordinate descent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..kernels import _native
from .coder import TYPICAL_NONZERO, Coder, Scratch
from .filling import Filler
from .recipe import Recipe
from .results import ChunkCodes


class LassoCoder(Coder):
    """The lasso over all views side by side, weighted, by scikit-learn's coordinate descent."""

    chunk_rows = 256  # matrix products of different shapes round differently, so the shape is fixed
    STEPS = 100  # a rough number of sweeps of coordinate descent; only the sizes of chunks depend on it
    MAX_SWEEPS = 20_000  # coherent atoms need many sweeps, and each is cheap

    def __init__(self, recipe: Recipe) -> None:
        if recipe.rule.alpha is None:
            raise ValueError("Expected a rule with a penalty alpha for the lasso, got none.")
        self._alpha, self._positive = recipe.rule.alpha, recipe.rule.positive
        self._scales = np.sqrt(recipe.weights)
        pairs = zip(recipe.dictionaries, self._scales, strict=True)
        self._atoms = np.hstack([np.asarray(d, np.float64) * scale for d, scale in pairs])
        self.n_atoms, self.dtype = recipe.n_atoms, recipe.dtype
        self.groups = [list(range(len(recipe.dictionaries)))]
        self.n_nonzero, self.typical_nonzero = self.n_atoms, min(self.n_atoms, TYPICAL_NONZERO)
        self.multiply_adds = float(self._atoms.size + self.STEPS * self.n_atoms**2)
        self.filler = Filler(recipe.dictionaries, recipe.dtype) if recipe.missing else None

    def encode_rows(self, views: list[Array], scratch: Scratch) -> ChunkCodes:
        """Code a chunk of samples."""
        from sklearn.decomposition import sparse_encode  # slow to import, and rarely needed

        pairs = zip(views, self._scales, strict=True)
        with np.errstate(invalid="ignore"):  # infinity times a weight of 0
            joint = np.hstack([np.asarray(view, np.float64) * scale for view, scale in pairs])
        known = ~np.isnan(joint) if self.filler is not None else np.ones(joint.shape, bool)
        finite = np.isfinite(joint, where=known, out=np.ones(joint.shape, bool)).all(axis=1)
        finite &= ~np.logical_or.reduce([np.isinf(view).any(axis=1) for view in views])
        scratch.status[:] = np.where(known.any(axis=1), _native.LIMIT, _native.UNKNOWN)
        scratch.status[~finite] = _native.NOT_FINITE
        joint[~finite], joint[~known] = 0, 0
        codes = np.zeros((len(joint), self.n_atoms), self.dtype)
        for rows, features in _same_features(known):
            if features.any():
                codes[rows] = sparse_encode(
                    joint[np.ix_(rows, features)],
                    self._atoms[:, features],
                    algorithm="lasso_cd",
                    alpha=self._alpha,
                    max_iter=self.MAX_SWEEPS,
                    positive=self._positive,
                )
        residual = np.where(known, joint - codes @ self._atoms, 0)
        scratch.energy[:] = np.einsum("ij,ij->i", residual, residual)
        rows, indices = np.nonzero(codes)
        counts = np.bincount(rows, minlength=len(joint)).astype(np.int32)
        return ChunkCodes(counts, indices.astype(np.int32), [codes[rows, indices]])


def _same_features(known: npt.NDArray[np.bool_]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]]:
    """Yield the samples that know the same features, and a mask of these."""
    if known.all():
        if len(known):
            yield np.arange(len(known)), known[0]
        return
    masks, kinds = np.unique(known, axis=0, return_inverse=True)
    for kind, features in enumerate(masks):
        yield np.flatnonzero(kinds.ravel() == kind), features
