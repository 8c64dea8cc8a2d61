"""Fitting the parts of a decision that need no dictionary: features, kernel, and class residuals."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..foundation.arrays import Floats
from ._class_residuals import N_NONZERO_COEFS, order_by_class
from ._heads import Head, fit_head, scale_free_error
from ._kernel import choose_kernel, choose_landmarks, fit_kernel_head
from ._label_views import Numbers, indicators
from ._labelled import Labelled
from ._scaling import Scaler
from ._source_heads import Landmarks, SourceHead, stack_coded


class LandmarkFitter:
    """Fits these parts for sets of views, from complete samples with labels.

    The scaling of the features, the width of the kernel and its penalty are chosen once, with all views.

    Parameters
    ----------
    scalers : list of Scaler
    given : Labelled
    folds : integer array of shape (n_samples,)
        Samples of a fold, from 0 on, are compared only with samples of other folds.
    ridge_alpha : float or "auto"
    gains : list of lists of arrays
        Ways to scale the features, each a list with an array per view.
    weights : array of shape (n_samples,)
    n_jobs : int or None

    Attributes
    ----------
    landmarks : Landmarks
    """

    def __init__(
        self,
        scalers: list[Scaler],
        given: Labelled,
        folds: Numbers,
        ridge_alpha: float | Literal["auto"],
        gains: list[list[Floats]],
        weights: Floats,
        n_jobs: int | None,
    ) -> None:
        self._scalers = scalers
        self._given = given
        self._folds = folds
        self._ridge_alpha = ridge_alpha
        self._weights = weights
        self._n_jobs = n_jobs
        self._targets = indicators(given.y, given.classes.size)
        chosen = choose_landmarks(given.y)
        self._rows = chosen[order_by_class(given.y[chosen])]
        views = [view[self._rows] for view in given.views]
        everything = tuple(range(len(views)))
        ways = [Landmarks(views, given.y[self._rows], {"kernel": way}, 1) for way in gains]
        inputs = [way.features("kernel", scalers, everything, given.views) for way in ways]
        number, self._factor, self._penalty = choose_kernel(inputs, self._targets, weights, given.y)
        linear = int(np.argmin([self._linear_error(own) for own in inputs])) if len(inputs) > 1 else 0
        self.landmarks = Landmarks(
            views, given.y[self._rows], {"features": gains[linear], "kernel": gains[number]}, N_NONZERO_COEFS
        )

    def _fit_linear(self, inputs: Floats) -> tuple[Head, Floats]:
        return fit_head(inputs, self._targets, self._weights, self._ridge_alpha)

    def _linear_error(self, inputs: Floats) -> float:
        roots = np.sqrt(self._weights)[:, None]
        centred = self._targets - np.average(self._targets, axis=0, weights=self._weights)
        return scale_free_error(roots * (self._targets - self._fit_linear(inputs)[1]), roots * centred)

    def fit(self, sources: tuple[int, ...]) -> tuple[SourceHead, dict[str, Floats]]:
        """Return a head with these parts, and the decisions of each part about samples that it did not see."""
        given, landmarks, scalers = self._given, self.landmarks, self._scalers
        views = [given.views[v] for v in sources]
        features, linear_decisions = self._fit_linear(landmarks.features("features", scalers, sources, views))
        kernel, kernel_decisions = fit_kernel_head(
            landmarks.features("kernel", scalers, sources, views),
            self._targets,
            self._weights,
            None if self._ridge_alpha == "auto" else self._ridge_alpha,
            self._rows,
            self._factor,
            self._penalty,
        )
        atoms = landmarks.atoms(scalers, sources, given.classes.size)
        samples = stack_coded(scalers, sources, views)
        left = np.empty_like(self._targets)
        for fold in np.unique(self._folds):
            rows = np.flatnonzero(self._folds == fold)
            # A sample that is never left out is alone in its class, which would otherwise have no atom.
            own = atoms if fold < 0 else atoms.without(np.flatnonzero(self._folds[self._rows] == fold))
            left[rows] = own.residuals(samples[rows], self._n_jobs)
        source_head = SourceHead(1.0, [], features, kernel, atoms)
        return source_head, {"features": linear_decisions, "kernel": kernel_decisions, "residuals": -left}
