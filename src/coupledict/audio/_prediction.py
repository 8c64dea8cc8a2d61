"""Prediction of the high band from the narrow one: the mean of the predictions of several coupled dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..coding.coders import PreparedCoder
from ..coding.rule import CodingRule
from ..estimators.coupled import CoupledDictionaryLearning
from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..parallel.blas import one_blas_thread
from ._bands import Bands


class HighBandPredictor:
    """Predicts log-spectra of the high band; its coders serve all windows of a signal.

    Parameters
    ----------
    bands : Bands
    learners : list of CoupledDictionaryLearning
        Fitted; view 0 is the narrow band, view 1 the high band.
    n_jobs : int
        Number of threads.
    """

    def __init__(self, bands: Bands, learners: Sequence[CoupledDictionaryLearning], n_jobs: int) -> None:
        self._bands = bands
        self._n_jobs = n_jobs
        self._pairs = []
        for learner in learners:
            atoms, rule = learner.components_[0], CodingRule(n_nonzero=learner.n_nonzero_coefs)
            coder = PreparedCoder([atoms], rule, atoms.dtype, SIZES.window_frames, n_jobs=n_jobs)
            self._pairs.append((coder, learner.predictors_[(0,)][1]))

    def predict(self, low: Array) -> Array:
        """Return log-spectra of the high band from those of the narrow band, both relative to the level."""
        with one_blas_thread():
            narrow = self._bands.narrow_view(low)
            found = np.zeros((len(narrow), len(self._bands.basis)), np.float32)
            for coder, atoms in self._pairs:
                found += np.asarray(coder.encode([narrow], self._n_jobs) @ atoms)
            return self._bands.spectra(found / len(self._pairs))
