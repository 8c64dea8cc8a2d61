"""Fitting a head for each set of views: to labels, or to the decisions of other views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from ..foundation.arrays import Array, Floats
from ..foundation.progress import Callback, Meter
from ..parallel.jobs import count_jobs
from ..parallel.ordered import in_order
from ._blending import fit_inverse_temperature, fit_shares, log_loss
from ._heads import Head, fit_head
from ._kernel import CalibratedKernelHead, choose_kernel, choose_landmarks, fit_kernel_head, stratified_subset
from ._label_views import Numbers, indicators, view_sets
from ._labelled import Labelled, Mask
from ._landmarks import LandmarkFitter
from ._recognizer import Recognizer, Sources
from ._source_heads import SourceHead

SPARSITIES = (4, 10, 30)  # numbers of atoms to choose from
CHOOSING_DICTIONARIES, CHOOSING_SAMPLES = 2, 1500  # for choosing the number of atoms


@dataclass(frozen=True)
class HeadFitter:
    """Fits heads to samples.

    Attributes
    ----------
    recognizer : Recognizer
        Scalings and dictionaries; it has no heads yet.
    given : Labelled
        The samples.
    folds : integer array of shape (n_samples,)
        The dictionary that did not learn from a sample; -1 if all did.
    ridge_alpha : float or "auto"
    class_weight : dict, "balanced" or None
    gains : list of lists of arrays
        Ways to scale the features, each a list with an array per view, for ``head="blend"`` to choose from.
    n_jobs : int or None
    """

    recognizer: Recognizer
    given: Labelled
    folds: Numbers
    ridge_alpha: float | Literal["auto"]
    class_weight: Mapping[Any, float] | Literal["balanced"] | None
    gains: list[list[Floats]]
    n_jobs: int | None

    # Complete samples that all have labels

    def choose_sparsity(self) -> int:
        """Return the number of atoms per sample with the smallest log loss on samples that a dictionary did not see."""
        given, most = self.given, self.recognizer.learners[0].components_[0].shape[0]
        rows = stratified_subset(given.y, CHOOSING_SAMPLES)
        views, folds = [view[rows] for view in given.views], self.folds[rows]
        targets, weights = indicators(given.y[rows], given.classes.size), self._weights()[rows]
        everything = tuple(range(len(views)))
        choices = sorted({min(number, most) for number in SPARSITIES})
        found = []
        for number in choices:
            fewer = replace(self, recognizer=self.recognizer.with_sparsity(number, CHOOSING_DICTIONARIES))
            _, decided, known = fewer._fit_codes(everything, views, folds, targets, weights)
            found.append(log_loss(decided[known], targets[known], weights[known]))
        return int(choices[int(np.argmin(found))])

    def fit_blend(self, callback: Callback | None) -> Recognizer:
        """Return the recognizer with a blended head for each set of views."""
        given = self.given
        sets = view_sets(len(given.views))
        meter = Meter(callback, "fitting heads", len(sets))
        targets, weights = indicators(given.y, given.classes.size), self._weights()
        fitter = LandmarkFitter(
            self.recognizer.scalers, given, self.folds, self.ridge_alpha, self.gains, weights, self.n_jobs
        )
        source_heads: dict[Sources, SourceHead] = {}
        for sources in sets:
            views = [given.views[v] for v in sources]
            heads, decided, known = self._fit_codes(sources, views, self.folds, targets, weights)
            source_head, left_out = fitter.fit(sources)
            decisions = {"codes": decided} | left_out
            decisions = {part: own[known] for part, own in decisions.items()}
            source_heads[sources] = replace(source_head, code_heads=heads).with_shares(
                fit_shares(decisions, targets[known], weights[known])
            )
            meter.advance()
        return replace(self.recognizer, source_heads=source_heads, landmarks=fitter.landmarks)

    # All others

    def fit(self, callback: Callback | None) -> Recognizer:
        """Return the recognizer with a head for each set of views that labels reach, possibly through others."""
        given, n_classes = self.given, self.given.classes.size
        targets = indicators(given.y, n_classes)
        targets[~given.labelled] = 0
        source_heads: dict[Sources, SourceHead] = {}
        waiting = []
        sets = view_sets(len(given.views))
        meter = Meter(callback, "fitting heads", len(sets))
        for sources in sets:
            rows = given.labelled & given.present[:, sources].all(axis=1)
            if np.unique(given.y[rows]).size < n_classes:
                waiting.append(sources)
                continue
            source_heads[sources] = self._fit_source_head(sources, rows, targets[rows])
            meter.advance()
        if not source_heads:
            raise ValueError("Expected a view in which every class has labelled samples, got none.")
        teacher = replace(self.recognizer, source_heads=dict(source_heads))
        for sources in waiting:
            pseudo_targets, known = self._pseudo_targets(sources, teacher, targets)
            if known.any():
                source_heads[sources] = self._fit_source_head(sources, known, pseudo_targets[known])
            meter.advance()
        return replace(self.recognizer, source_heads=source_heads)

    def fit_kernel(self, callback: Callback | None) -> Recognizer:
        """Return the recognizer with one kernel head for samples with any views, fitted to all labelled samples."""
        given = self.given
        rows = given.labelled & given.present.any(axis=1)
        y = given.y[rows]
        if np.unique(y).size < given.classes.size:
            raise ValueError("Expected every class to have a labelled sample with some view, got a class without one.")
        meter = Meter(callback, "fitting heads", 1)
        everything = tuple(range(len(given.views)))
        inputs = self.recognizer.kernel_inputs(everything, [view[rows] for view in given.views], self.n_jobs)
        targets, weights = indicators(y, given.classes.size), self._weights()[rows]
        _, factor, penalty = choose_kernel([inputs], targets, weights, y)
        head, left_out = fit_kernel_head(
            inputs,
            targets,
            weights,
            None if self.ridge_alpha == "auto" else self.ridge_alpha,
            choose_landmarks(y),
            factor,
            penalty,
        )
        meter.advance()
        return replace(
            self.recognizer, kernel=CalibratedKernelHead(head, fit_inverse_temperature(left_out, targets, weights))
        )

    def _weights(self) -> Floats:
        """Return the weight of each sample, including that of its class; their mean is 1, as penalties expect."""
        weights = self.given.weights * self._class_factors()[self.given.y]
        return np.asarray(weights / weights.mean())

    def _class_factors(self) -> Floats:
        given = self.given
        if self.class_weight is None:
            return np.ones(given.classes.size)
        known, weights = given.classes[given.y[given.labelled]], given.weights[given.labelled]
        found = compute_class_weight(self.class_weight, classes=given.classes, y=known, sample_weight=weights)
        return np.asarray(found.astype(np.float64))

    def _pseudo_targets(self, sources: Sources, teacher: Recognizer, targets: Floats) -> tuple[Floats, Mask]:
        """Return targets for samples that have these views, from labels or other views, and which samples have one."""
        given = self.given
        pseudo_targets, known = targets.copy(), given.labelled & given.present[:, sources].all(axis=1)
        for teacher_sources in sorted(teacher.source_heads, key=len, reverse=True):
            rows = given.present[:, [*sources, *teacher_sources]].all(axis=1) & ~known
            if rows.any():
                pseudo_targets[rows] = teacher.decide(
                    teacher_sources, [given.views[v][rows] for v in teacher_sources], self.n_jobs
                )
                known |= rows
        return pseudo_targets, known

    def _fit_source_head(self, sources: Sources, rows: Mask, targets: Floats) -> SourceHead:
        views = [self.given.views[v] if rows.all() else self.given.views[v][rows] for v in sources]
        likely = np.argmax(targets, axis=1)
        weights = self.given.weights[rows] * self._class_factors()[likely]
        heads, decided, known = self._fit_codes(sources, views, self.folds[rows], targets, weights)
        right = indicators(likely, targets.shape[1])
        return SourceHead(fit_inverse_temperature(decided[known], right[known], weights[known]), heads)

    # Codes

    def _fit_codes(
        self, sources: Sources, views: list[Array], folds: Numbers, targets: Floats, weights: Floats
    ) -> tuple[list[Head], Floats, Mask]:
        """Return a head for each dictionary, its decisions about unseen samples, and which samples have one.

        If every dictionary saw every sample, decisions are means of those of heads that did not see them.
        """
        inputs = self.recognizer.inputs(sources, views, self.n_jobs)
        left_out = [np.flatnonzero(folds == number) for number in range(len(self.recognizer.learners))]
        if self.recognizer.head == "dictionary":
            heads = self._label_dictionaries()
            everyone = [head(own) for head, own in zip(heads, inputs, strict=True)]
            parts = [own[rows] for own, rows in zip(everyone, left_out, strict=True)]
        else:
            fold, chooses = [rows if rows.size else None for rows in left_out], self.ridge_alpha == "auto"
            first = fit_head(next(inputs), targets, weights, self.ridge_alpha, fold[0])
            # Similar dictionaries need about the same penalty, and a head with a given penalty is fitted faster.
            others = in_order(
                lambda task: fit_head(task[1], targets, weights, first[0].ridge_alpha, fold[task[0]], rescaled=chooses),
                enumerate(inputs, 1),
                max(1, min(count_jobs(self.n_jobs), len(fold) - 1)),
            )
            fitted = [first, *others]
            heads, parts = [head for head, _ in fitted], [own for _, own in fitted]
            everyone = parts
        known = np.isin(folds, np.arange(len(heads)))
        if not known.any():
            return heads, np.asarray(np.mean(everyone, axis=0)), ~known
        decided = np.zeros_like(targets)
        for own, rows in zip(parts, left_out, strict=True):
            decided[rows] = own if rows.size else 0.0
        return heads, decided, known

    def _label_dictionaries(self) -> list[Head]:
        """Return the learned label dictionaries as heads; their view comes after the feature views."""
        n_views, n_classes = len(self.given.views), self.given.classes.size
        labels = [learner.components_[n_views] for learner in self.recognizer.learners]
        return [Head(np.asarray(atoms, np.float64), np.zeros(n_classes), 0.0) for atoms in labels]
