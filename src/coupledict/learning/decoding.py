"""From codes back to samples: views that are predicted from others, and missing entries that are filled in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..coding.samples import not_finite
from ..foundation.arrays import Array, Floats
from .predictors import ANY_OTHERS, Predictors


@dataclass(frozen=True)
class Decoder:
    """Dictionaries to multiply codes by, depending on which views a code comes from.

    Attributes
    ----------
    components : list of arrays (n_components, n_features_v)
    weights : array of shape (n_views,)
    predictors : dict
        Refitted dictionaries; see :mod:`coupledict.learning.predictors`.
    joint : bool
        Whether atoms have norm 1 over all views.
    given : list of int
        Numbers of the views that are given.
    wanted : list of int
        Numbers of the views to return.
    missing : bool
        Whether NaN stands for a missing entry in views that are kept.
    keep : bool
        Whether known entries stay as they are; otherwise wanted views are predicted as if they were not given.
    """

    components: list[Array]
    weights: Floats
    predictors: Predictors
    joint: bool
    given: list[int]
    wanted: list[int]
    keep: bool
    missing: bool = True

    @property
    def widths(self) -> list[int]:
        """Number of features of each view that is returned."""
        return [int(self.components[v].shape[1]) for v in self.wanted]

    def __call__(self, views: Sequence[Array], codes: csr_array) -> list[Array]:
        """Return the wanted views of some samples from the given views and their codes."""
        known = dict(zip(self.given, views, strict=True))
        coded = [v for v in self.given if self.weights[v] > 0 and (self.keep or v not in self.wanted)]
        absent = np.stack([is_absent(known[v]) for v in coded])
        if self.keep:
            self._check_uncoded({v: view for v, view in known.items() if v not in coded})
        decoded = []
        for v in self.wanted:
            own = known.get(v) if self.keep else None
            out = np.empty((codes.shape[0], self.components[v].shape[1]), codes.dtype)
            lacking = np.ones(codes.shape[0], bool)
            if own is not None:
                out[:] = own
                lacking = is_absent(own)
                rows = np.flatnonzero(np.isnan(out).any(axis=1) & ~lacking)
                out[rows] = np.where(np.isnan(out[rows]), codes[rows] @ self.components[v], out[rows])
            for sources, rows in _same_views(coded, absent, lacking):
                atoms = self.predicting_atoms(sources, v)
                if rows.size == codes.shape[0]:
                    out = np.asarray(codes @ atoms)
                else:
                    out[rows] = codes[rows] @ atoms
            decoded.append(out)
        return decoded

    def _check_uncoded(self, views: dict[int, Array]) -> None:
        """Raise for NaN, unless it is allowed, and infinity in views that are returned although none was coded."""
        for v, view in views.items():
            bad = (np.isinf(view) if self.missing else ~np.isfinite(view)).any(axis=1)
            if bad.any():
                raise not_finite([view[bad]], f"sample {int(np.argmax(bad))}", [f"X[{v}]"], missing=self.missing)

    def predicting_atoms(self, sources: list[int], view: int) -> Array:
        """Return the dictionary that predicts a view from codes of `sources`: the refitted one, if there is one.

        Otherwise it is the learned one. With joint norms, an atom of which the sources have a share s of the energy
        below one half is multiplied by 2 s: the less the sources see of an atom, the larger are the coefficients that
        their noise gives it. With this, a prediction never has more energy than its sources gave the atom.
        """
        learned = self.components[view]
        if not sources:  # nothing is known, and codes are 0
            return learned
        for key in (tuple(sources), ANY_OTHERS):
            atoms = self.predictors.get(key, {}).get(view)
            if atoms is not None:
                return atoms
        if not self.joint:
            return learned
        # The predicted view counts whatever its weight, even if it is 0: as much as the sources.
        counted = [*sources, view]
        weights = np.where(self.weights > 0, self.weights, self.weights[sources].mean())[counted]
        largest = max(float(np.abs(self.components[v]).max()) for v in counted) or 1.0
        scales = np.sqrt(weights / weights.max()) / largest
        squares = [
            np.sum((self.components[v].astype(np.float64) * scale) ** 2, axis=1)
            for v, scale in zip(counted, scales, strict=True)
        ]
        seen, total = sum(squares[:-1]), sum(squares)
        share = seen / np.where(total > 0, total, 1)
        return np.asarray(learned * np.minimum(2 * share, 1)[:, None], learned.dtype)


def is_absent(view: Array) -> npt.NDArray[np.bool_]:
    """Return for each sample whether it lacks the view."""
    return np.asarray(np.isnan(view).all(axis=1)) if view.dtype.kind == "f" else np.zeros(len(view), bool)


def _same_views(
    views: list[int], absent: npt.NDArray[np.bool_], chosen: npt.NDArray[np.bool_]
) -> Iterator[tuple[list[int], npt.NDArray[np.int64]]]:
    """Yield sets of views with the chosen samples that have just these."""
    rows = np.flatnonzero(chosen)
    if not absent.any():
        yield views, rows
        return
    patterns, kinds = np.unique(absent[:, rows], axis=1, return_inverse=True)
    for kind, pattern in enumerate(patterns.T):
        yield [v for v, gone in zip(views, pattern, strict=True) if not gone], rows[kinds.ravel() == kind]
