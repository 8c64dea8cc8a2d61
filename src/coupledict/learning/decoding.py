"""From codes back to samples: views that are predicted from others, and missing entries that are filled in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..coding.samples import Samples, not_finite
from ..data.moments import Moments
from ..foundation.arrays import Array, Floats
from ..parallel.jobs import Threads
from .predictors import ANY_OTHERS, Predictors
from .view_predictor import TargetPredictors


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
    moments : Moments or None
        Counts beside the codes where known entries stay.
    threads : int
        Threads that the moments may use.
    targets : dict of TargetPredictors
        For each view that has predictors of its own, what fills it in where a sample lacks it.
    """

    components: list[Array]
    weights: Floats
    predictors: Predictors
    joint: bool
    given: list[int]
    wanted: list[int]
    keep: bool
    moments: Moments | None = None
    threads: int = 1
    missing: bool = True
    targets: dict[int, TargetPredictors] = field(default_factory=dict)

    @property
    def widths(self) -> list[int]:
        """Number of features of each view that is returned."""
        return [int(self.components[v].shape[1]) for v in self.wanted]

    def __call__(self, views: Sequence[Array], codes: csr_array) -> list[Array]:
        """Return the wanted views of some samples from the given views and their codes."""
        known = dict(zip(self.given, views, strict=True))
        coded = [v for v in self.given if self.weights[v] > 0 and (self.keep or v not in self.wanted)]
        absent = np.stack([_is_absent(known[v]) for v in coded])
        if self.keep:
            self._check_uncoded({v: view for v, view in known.items() if v not in coded})
        decoded = []
        for v in self.wanted:
            own = known.get(v) if self.keep else None
            out = np.empty((codes.shape[0], self.components[v].shape[1]), codes.dtype)
            lacking = np.ones(codes.shape[0], bool)
            if own is not None:
                out[:] = own
                lacking = _is_absent(own)
                rows = np.flatnonzero(np.isnan(out).any(axis=1) & ~lacking)
                out[rows] = np.where(np.isnan(out[rows]), codes[rows] @ self.components[v], out[rows])
            for sources, rows in _same_views(coded, absent, lacking):
                atoms = self.predicting_atoms(sources, v)
                if rows.size == codes.shape[0]:
                    out = np.asarray(codes @ atoms)
                else:
                    out[rows] = codes[rows] @ atoms
            decoded.append(out)
        if self.keep and self.moments is not None:
            decoded = self._with_moments(self.moments, known, decoded)
        if self.keep:
            self._predict_absent(known, decoded)
        return decoded

    def _predict_absent(self, known: dict[int, Array], decoded: list[Array]) -> None:
        """Fill in views that samples lack as a whole by the predictors that there are; `decoded` is changed."""
        for v, predictors in self.targets.items():
            own = known.get(v)
            rows = np.arange(len(decoded[v])) if own is None else np.flatnonzero(_is_absent(own))
            if rows.size and predictors.usable:
                views = [known[u][rows] for u in self.given]
                samples = Samples(views, decoded[v].dtype, missing=self.missing)
                decoded[v][rows] = predictors.predict(samples, Threads(self.threads))[0]

    def _check_uncoded(self, views: dict[int, Array]) -> None:
        """Raise for NaN, unless it is allowed, and infinity in views that are returned although none was coded."""
        for v, view in views.items():
            bad = (np.isinf(view) if self.missing else ~np.isfinite(view)).any(axis=1)
            if bad.any():
                raise not_finite([view[bad]], f"sample {int(np.argmax(bad))}", [f"X[{v}]"], missing=self.missing)

    def _with_moments(self, moments: Moments, known: dict[int, Array], decoded: list[Array]) -> list[Array]:
        """Return all views, where what codes say of missing entries and what moments say are added up."""
        n, dtype = decoded[0].shape[0], decoded[0].dtype
        absent = [np.full((n, atoms.shape[1]), np.nan, dtype) for atoms in self.components]
        views = [np.asarray(known.get(v, absent[v]), dtype) for v in range(len(self.components))]
        gaps = [np.isnan(view) for view in views]
        rows = np.flatnonzero(np.logical_or.reduce([gap.any(axis=1) for gap in gaps]))
        expected = moments.expect(np.hstack([view[rows] for view in views]), Threads(self.threads))
        unknown = np.logical_and.reduce([gap[rows].all(axis=1) for gap in gaps])
        start = 0
        for out, gap, (by_codes, by_moments) in zip(decoded, gaps, moments.shares, strict=True):
            own = expected[:, start : start + out.shape[1]]
            both = by_codes * out[rows] + np.where(unknown, 1.0, by_moments)[:, None] * own
            out[rows] = np.where(gap[rows], both, out[rows])
            start += out.shape[1]
        return decoded

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


def _is_absent(view: Array) -> npt.NDArray[np.bool_]:
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
