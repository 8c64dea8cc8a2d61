"""The job that fills in what samples lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..coding.coder import Shortfall
from ..coding.recipe import Recipe
from ..coding.samples import Samples
from ..data.jobs import Encode, Resources, Restore, RowJob, Rows
from ..foundation.arrays import Array
from ..parallel.jobs import Threads
from .decoding import Decoder, is_absent
from .imputation import Imputer
from .view_predictor import TargetPredictors

PREDICTED_SHARE = 0.75  # of its predictors in a view that a sample lacks, where there is an imputer, too


@dataclass(frozen=True)
class ImputeViews(RowJob):
    """Returns all views of samples, with known entries as they are and all others filled in.

    Attributes
    ----------
    recipe : Recipe or None
        Codes the samples; None if no code is needed.
    sources : list of int
        Positions of the views to code among those that are present.
    decoder : Decoder
        From codes to views.
    imputer : Imputer or None
        None if only codes and predictors count.
    targets : dict of TargetPredictors
        For each view that has predictors of its own, what predicts it where a sample lacks it.
    dtype : float32 or float64
    restore : Restore or None
    """

    recipe: Recipe | None
    sources: Sequence[int]
    decoder: Decoder
    imputer: Imputer | None
    targets: dict[int, TargetPredictors]
    dtype: np.dtype[Any]
    restore: Restore | None

    @property
    def templates(self) -> list[Any]:
        """Empty views."""
        return [np.empty((0, width), self.dtype) for width in self.decoder.widths]

    def do(self, samples: Samples, resources: Resources) -> Rows:
        """Return the views of a block."""
        views = [np.asarray(view, self.dtype) for view in samples.seen]
        given = dict(zip(self.decoder.given, views, strict=True))
        filled: list[Array] = []
        if self.recipe is None:
            shortfall = _count_unknown(samples, views)
        else:
            codes = Encode(self.recipe, self.sources).do(samples, resources)
            shortfall = codes.shortfall
            filled = self.decoder(views, codes.arrays[0])
        if self.imputer is not None:
            widths = self.decoder.widths
            absent = [np.full((len(samples), width), np.nan, self.dtype) for width in widths]
            table = np.hstack([given.get(v, absent[v]) for v in range(len(widths))])
            filled = self.imputer(table, filled, widths, resources.threads)
        self._predict_absent(given, filled, resources.threads)
        return Rows(filled if self.restore is None else self.restore(filled, samples.views), shortfall)

    def _predict_absent(self, given: dict[int, Array], filled: list[Array], threads: Threads) -> None:
        """Predict views that samples lack as a whole; `filled` is changed."""
        known = np.logical_or.reduce([~is_absent(view) for view in given.values()])
        share = self.dtype.type(1.0 if self.imputer is None else PREDICTED_SHARE)
        for v, predictors in self.targets.items():
            lacking = is_absent(given[v]) if v in given else np.ones(len(known), bool)
            rows = np.flatnonzero(lacking & known)
            if rows.size and predictors.usable:
                samples = Samples([view[rows] for view in given.values()], self.dtype, missing=self.decoder.missing)
                predicted = predictors.predict(samples, threads)[0]
                filled[v][rows] = share * predicted + (1 - share) * filled[v][rows]


def _count_unknown(samples: Samples, views: Sequence[Array]) -> Shortfall:
    """Return how many samples have no known entry; raise for entries that cannot be used."""
    if any(not np.isfinite(view).all() for view in views):
        samples.check_finite()
    unknown = np.logical_and.reduce([is_absent(view) for view in views])
    return Shortfall(len(samples), unknown=int(np.count_nonzero(unknown)))
