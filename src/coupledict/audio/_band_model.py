"""The model of one kind of narrow-band speech: prediction of a high band for windows of a signal, and its arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.ensemble import restore_learner
from ..files.models import JSON
from ..files.state import check_file_count
from ..foundation.arrays import Array
from ..learning.fitted import FittedDictionaries
from . import _frames
from ._bands import Bands, check_number, check_tensors
from ._frames import HOP, LENGTH, Floats, Window
from ._layouts import Layout
from ._prediction import HighBandPredictor
from ._synthesis import apply_strength, overlap_add, shape_spectra

OVERLAP = LENGTH // HOP // 2  # frames on each side that extend into a window
ARRAYS = ("low_mean", "projection", "high_mean", "basis")
NUMBERS = ("ceiling", "constant", "expansion")


def windows(blocks: Iterable[Floats], context: int, layout: Layout) -> Iterator[list[Window]]:
    """Yield windows of a narrow-band signal, one for each channel."""
    for window, n in _frames.windows(blocks, *_frames.size_and_border(context)):
        channels = window.reshape(len(window), -1).T
        yield [_frames.analyse(np.ascontiguousarray(channel), n, context, layout.low) for channel in channels]


def low_band(window: Window, context: int, layout: Layout, more: int = 0) -> Array:
    """Return the input of a model for the frames of a window, and for `more` frames on both sides."""
    frames = window.around(context, more)
    return _frames.low_band(window.spectrum[frames], window.level[frames], context, layout.low)


@dataclass(frozen=True)
class BandModel:
    """What :class:`BandwidthExtension` learns for one kind of narrow-band speech.

    Attributes
    ----------
    layout : Layout
        The bins that are read and predicted.
    context : int
        Neighbours on each side of a frame that are read.
    bands : Bands
        Maps between log-spectra and views.
    learners : list of CoupledDictionaryLearning
        The coupled dictionaries; view 0 is what is read, view 1 what is predicted.
    expansion : float
        Factor by which predictions are spread around their mean to have the energy of speech.
    n_samples : int
        Number of frames learned from.
    """

    layout: Layout
    context: int
    bands: Bands
    learners: list[CoupledDictionaryLearning]
    expansion: float
    n_samples: int

    def predictor(self, n_jobs: int) -> HighBandPredictor:
        """Return the predictor of log-spectra for all windows of a signal."""
        return HighBandPredictor(self.bands, self.learners, n_jobs)

    def windows(self, blocks: Iterable[Floats]) -> Iterator[list[Window]]:
        """Yield windows of a narrow-band signal, one for each channel."""
        return windows(blocks, self.context, self.layout)

    def extend(self, window: Window, predictor: HighBandPredictor, strength: float) -> Floats:
        """Return the samples of a window with a high band added."""
        frames = window.around(0, OVERLAP)
        predicted = predictor.predict(low_band(window, self.context, self.layout, OVERLAP))
        mean, ceiling = self.bands.high_mean, self.bands.ceiling
        high = apply_strength(predicted, mean, ceiling, self.expansion, strength, self.layout.caution)
        spectra = shape_spectra(window.spectrum[frames], window.level[frames], high, self.layout)
        samples = overlap_add(spectra, self.layout.first)
        return window.samples + samples[LENGTH : LENGTH + window.samples.size]

    def predict(self, window: Window, predictor: HighBandPredictor) -> Array:
        """Return the predicted log-spectra of the frames of a window, in dB."""
        high = predictor.predict(low_band(window, self.context, self.layout))
        return high + window.level[window.around(0), None]

    def tensors_and_facts(self) -> tuple[dict[str, Array], dict[str, JSON]]:
        """Return the model as arrays and JSON values for a file."""
        tensors: dict[str, Array] = {name: getattr(self.bands, name) for name in ARRAYS}
        tensors["low_atoms"] = np.stack([learner.components_[0] for learner in self.learners])
        tensors["high_atoms"] = np.stack([learner.components_[1] for learner in self.learners])
        tensors["refitted"] = np.stack([learner.predictors_[(0,)][1] for learner in self.learners])
        tensors["view_weights"] = np.stack([learner.view_weights_ for learner in self.learners])
        facts: dict[str, JSON] = {
            "ceiling": float(self.bands.ceiling),
            "constant": float(self.bands.constant),
            "expansion": float(self.expansion),
            "n_samples": int(self.n_samples),
            "n_nonzero": self.learners[0].n_nonzero_coefs,  # the parameter may have been changed after the fit
        }
        return tensors, facts

    @classmethod
    def from_file(
        cls, layout: Layout, context: int, tensors: Mapping[str, Array], facts: Any, settings: dict[str, Any]
    ) -> BandModel:
        """Return the model from what :meth:`tensors_and_facts` returned; raise if the parts contradict each other."""
        check_tensors(tensors, (2 * context + 1) * layout.n_low, layout.n_high)
        numbers = {name: check_number(facts[name], name) for name in NUMBERS}
        parts: dict[str, Any] = {name: tensors[name] for name in ARRAYS}
        bands = Bands(**parts, constant=numbers["constant"], ceiling=numbers["ceiling"])
        settings = settings | {"n_nonzero_coefs": check_file_count(facts["n_nonzero"], "number of nonzeros", 1)}
        learners = []
        atoms = (tensors[name] for name in ("low_atoms", "high_atoms", "refitted", "view_weights"))
        for low, high, refitted, weights in zip(*atoms, strict=True):
            fitted = FittedDictionaries([low, high], weights, [], 0, {(0,): {1: refitted}})
            learners.append(restore_learner(fitted, **settings))
        n_samples = check_file_count(facts["n_samples"], "number of samples")
        return cls(layout, context, bands, learners, numbers["expansion"], n_samples)
