"""Fitting the way from codes to classes, for each set of views: from labels, or from what other views decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from ..foundation.arrays import Floats
from ..foundation.progress import Callback, Meter
from ..parallel.jobs import count_jobs
from ..parallel.ordered import in_order
from ._heads import Head, Route, fit_head, fit_sharpness
from ._kernel import KernelRoute, fit_kernel_head
from ._label_views import indicators, view_sets
from ._labelled import Labelled, Mask
from ._recognizer import Recognizer, Sources


@dataclass(frozen=True)
class RouteFitter:
    """Fits routes to samples.

    Attributes
    ----------
    recognizer : Recognizer
        Scalings and dictionaries; it has no routes yet.
    given : Labelled
        The samples.
    ridge_alpha : float or "auto"
    class_weight : dict, "balanced" or None
    n_jobs : int or None
    """

    recognizer: Recognizer
    given: Labelled
    ridge_alpha: float | Literal["auto"]
    class_weight: Mapping[Any, float] | Literal["balanced"] | None
    n_jobs: int | None

    def fit(self, callback: Callback | None) -> dict[Sources, Route]:
        """Return a route for each set of views that labels reach, directly or through other views."""
        given, n_classes = self.given, self.given.classes.size
        targets = indicators(given.y, n_classes)
        targets[~given.labelled] = 0
        weights = self._class_weights()
        routes: dict[Sources, Route] = {}
        waiting = []
        sets = view_sets(len(given.views))
        meter = Meter(callback, "fitting heads", len(sets))
        for sources in sets:
            rows = given.labelled & given.present[:, sources].all(axis=1)
            if np.unique(given.y[rows]).size < n_classes:
                waiting.append(sources)
                continue
            routes[sources] = self._fit_route(sources, rows, targets[rows], weights[given.y[rows]])
            meter.advance()
        if not routes:
            raise ValueError("Expected views in which samples of every class are labelled, got none.")
        taught = dict(routes)
        for sources in waiting:
            guessed, known = self._guess(sources, taught, targets)
            if known.any():
                likely = np.argmax(guessed[known], axis=1)
                routes[sources] = self._fit_route(sources, known, guessed[known], weights[likely])
            meter.advance()
        return routes

    def fit_kernel(self, callback: Callback | None) -> KernelRoute:
        """Return the route of samples with any views, fitted to all that have labels."""
        given = self.given
        rows = given.labelled & given.present.any(axis=1)
        y = given.y[rows]
        if np.unique(y).size < given.classes.size:
            raise ValueError("Expected labelled samples of every class that have some view, got a class without any.")
        meter = Meter(callback, "fitting heads", 1)
        everything = tuple(range(len(given.views)))
        inputs = self.recognizer.kernel_inputs(everything, [view[rows] for view in given.views], self.n_jobs)
        targets, weights = indicators(y, given.classes.size), self._class_weights()[y]
        head, left_out = fit_kernel_head(inputs, targets, weights, self.ridge_alpha, y)
        meter.advance()
        return KernelRoute(head, fit_sharpness(left_out, targets, weights))

    def _class_weights(self) -> Floats:
        given = self.given
        if self.class_weight is None:
            return np.ones(given.classes.size)
        known = given.classes[given.y[given.labelled]]
        weights = compute_class_weight(self.class_weight, classes=given.classes, y=known)
        return np.asarray(weights.astype(np.float64))

    def _guess(self, sources: Sources, taught: dict[Sources, Route], targets: Floats) -> tuple[Floats, Mask]:
        """Return targets for samples that have these views, from labels or other views, and which samples have one."""
        given = self.given
        guessed, known = targets.copy(), given.labelled & given.present[:, sources].all(axis=1)
        for teacher in sorted(taught, key=len, reverse=True):
            rows = given.present[:, [*sources, *teacher]].all(axis=1) & ~known
            if rows.any():
                views = [given.views[v][rows] for v in teacher]
                guessed[rows] = taught[teacher].decide(self.recognizer.inputs(teacher, views, self.n_jobs))
                known |= rows
        return guessed, known

    def _fit_route(self, sources: Sources, rows: Mask, targets: Floats, weights: Floats) -> Route:
        views = [self.given.views[v] if rows.all() else self.given.views[v][rows] for v in sources]
        likely = indicators(np.argmax(targets, axis=1), targets.shape[1])
        inputs = self.recognizer.inputs(sources, views, self.n_jobs)
        if self.recognizer.head == "dictionary":
            heads = self._label_dictionaries()
            return Route(heads, fit_sharpness(Route(heads, 1.0).decide(inputs), likely, weights))
        first, *others = inputs
        fitted = [fit_head(first, targets, weights, self.ridge_alpha)]
        # Dictionaries of one kind need about the same penalty, and a head with a given penalty is fitted much faster.
        fitted += in_order(
            lambda own: fit_head(own, targets, weights, fitted[0][0].ridge_alpha),
            others,
            max(1, min(count_jobs(self.n_jobs), len(others))),
        )
        decided = np.mean([left_out for _, left_out in fitted], axis=0)
        return Route([head for head, _ in fitted], fit_sharpness(decided, likely, weights))

    def _label_dictionaries(self) -> list[Head]:
        """Return the learned label dictionaries as heads; their view comes after the feature views."""
        n_views, n_classes = len(self.given.views), self.given.classes.size
        labels = [learner.components_[n_views] for learner in self.recognizer.learners]
        return [Head(np.asarray(atoms, np.float64), np.zeros(n_classes), 0.0) for atoms in labels]
