"""Learning of the model of one kind of narrow-band speech, from wide-band speech."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.ensemble import fit_many, plain_learner, seeds
from ..foundation.arrays import Array
from ..foundation.progress import Meter
from ..parallel.blas import one_blas_thread
from . import _frames
from ._band_model import BandModel, low_band, windows
from ._bands import Bands
from ._frames import SILENT, Floats
from ._layouts import NARROW, Layout
from ._synthesis import find_expansion
from ._telephone import mu_law, telephone_filter

TRIAL_DICTIONARIES = 2  # enough to estimate the expansion
QUARTERS = 4


def _coded(signal: Floats) -> Floats:
    return mu_law(telephone_filter(signal))


#: How each kind of narrow-band speech is made from a signal at 8 kHz; models learn from all versions.
VERSIONS: dict[str, tuple[Callable[[Floats], Floats], ...]] = {
    "narrow": (lambda signal: signal,),
    "telephone": (telephone_filter, _coded),
}


@dataclass(frozen=True)
class BandFitter:
    """Learns a :class:`BandModel` from signals.

    Attributes
    ----------
    settings : dict
        Parameters of each learner.
    context, n_features, n_details, n_dictionaries, max_samples, n_jobs
        As in :class:`BandwidthExtension`.
    """

    settings: dict[str, Any]
    context: int
    n_features: int
    n_details: int
    n_dictionaries: int
    max_samples: int
    n_jobs: int | None

    @property
    def n_components(self) -> int:
        """Atoms of each dictionary."""
        return int(self.settings["n_components"])

    @property
    def n_trials(self) -> int:
        """Number of dictionaries that are tested on each quarter of the frames."""
        return min(self.n_dictionaries, TRIAL_DICTIONARIES)

    def n_steps(self) -> int:
        """Return the number of iterations that a fit reports."""
        return (self.n_dictionaries + QUARTERS * self.n_trials) * int(self.settings["max_iter"])

    def fit(self, signals: list[Floats], layout: Layout, rng: np.random.Generator, meter: Meter) -> BandModel:
        """Learn from the channels of wide-band signals."""
        low, high = self.samples(signals, layout, rng)
        if len(low) < self.n_components:
            raise ValueError(
                f"Expected signals with at least n_components={self.n_components} frames that are not silent, got"
                f" {len(low)} (125 per second). Use more speech, or fewer components."
            )
        with one_blas_thread():
            bands = Bands.learn(low, high, self.n_features, self.n_details)
            views = [bands.narrow_view(low), bands.high_view(high)]
        learners = self._learn(self.n_dictionaries, views, rng, meter)
        expansion = self._find_expansion(bands, views, high, rng, meter)
        return BandModel(layout, self.context, bands, learners, expansion, len(low))

    def samples(
        self, signals: list[Floats], layout: Layout = NARROW, rng: np.random.Generator | None = None
    ) -> tuple[Array, Array]:
        """Return the log-spectra of both bands, of all frames or a random choice, without silent ones."""
        rng = rng or np.random.default_rng(0)
        versions = VERSIONS[layout.kind]
        total = sum(_frames.count_frames(signal.size) for signal in signals) * len(versions)
        wanted = np.ones(total, bool)
        wanted[rng.permutation(total)[self.max_samples :]] = False
        low: list[Array] = [np.empty((0, (2 * self.context + 1) * layout.n_low), np.float32)]
        high: list[Array] = [np.empty((0, layout.n_high), np.float32)]
        start = 0
        for signal in signals:
            narrow = _frames.downsample(signal)
            for version in versions:
                found = windows([version(narrow)], self.context, layout)
                for (window,), spectrum in zip(found, _frames.wide_spectra(signal), strict=True):
                    level = window.level[window.around(0)]
                    use = wanted[start : start + level.size] & (level > SILENT)
                    low.append(low_band(window, self.context, layout)[use])
                    high.append(_frames.high_band(spectrum, level, layout.first)[use])
                    start += level.size
        return np.concatenate(low), np.concatenate(high)

    def _learn(
        self, n: int, views: list[Array], rng: np.random.Generator, meter: Meter
    ) -> list[CoupledDictionaryLearning]:
        learners = [plain_learner(**self.settings, random_state=seed) for seed in seeds(rng, n)]
        return fit_many(learners, views, self.n_jobs, lambda progress: meter.advance())

    def _find_expansion(
        self, bands: Bands, views: list[Array], high: Array, rng: np.random.Generator, meter: Meter
    ) -> float:
        """Return the expansion, from predictions of each quarter of the frames by dictionaries learned from the others.

        Quarters are in the order of the signals, so that few voices are in more than one. The expansion is 1 if there
        are too few frames for a test.
        """
        n_frames = len(high)
        if n_frames - -(-n_frames // QUARTERS) < self.n_components:
            meter.advance(QUARTERS * self.n_trials * int(self.settings["max_iter"]))
            return 1.0
        predicted = np.empty_like(views[1])
        for own in np.array_split(np.arange(n_frames), QUARTERS):
            others = [np.delete(view, own, axis=0) for view in views]
            fitted = self._learn(self.n_trials, others, rng, meter)
            predicted[own] = np.mean([learner.predict([views[0][own], None], view=1) for learner in fitted], axis=0)
        with one_blas_thread():
            spectra = bands.spectra(predicted)
        return find_expansion(spectra, high, bands.high_mean, bands.ceiling)
