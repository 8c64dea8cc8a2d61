"""Bandwidth extension as an estimator: it learns from wide-band speech and extends narrow-band speech."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import as_file, files
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.ensemble import fit_many, restore_learner, seeds
from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin
from ..files.models import JSON
from ..files.packing import pack_half, unpack_half
from ..files.state import ModelState, check_file_count, make_estimator
from ..foundation.arrays import Array
from ..foundation.checks import check_count, check_counts, make_generator
from ..foundation.progress import Callback, Meter
from ..learning.fitted import FittedDictionaries
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import count_jobs
from . import _frames
from ._bands import Bands, check_number, check_tensors
from ._frames import FIRST_HIGH, HOP, LENGTH, N_HIGH, NARROW_RATE, RATE, SILENT, Floats, Window, decibels
from ._metrics import floor_of, frame_distances
from ._prediction import HighBandPredictor
from ._signals import check_rate, check_signal, check_signals
from ._synthesis import expand, find_expansion, overlap_add, shape
from ._widening import BandLike, WidenedFile, widen_array, widen_blocks, widen_file

OVERLAP = LENGTH // HOP // 2  # frames on either side that reach into a window
TRIAL_DICTIONARIES = 2  # enough to estimate the expansion
QUARTERS = 4
ARRAYS = ("low_mean", "projection", "high_mean", "basis")
NUMBERS = ("ceiling", "constant", "expansion")


class BandwidthExtension(RunMixin, SavedMixin, BaseEstimator):  # type: ignore[misc]
    """Extend narrow-band speech (8 kHz) to wide-band speech (16 kHz), with a predicted high band.

    A frame of speech has two views: the log-spectra of the narrow band of the frame and of its neighbours (view 0), and
    the log-spectrum of its high band, 4 to 8 kHz (view 1). Coupled dictionaries [1]_ of both views are learned from
    wide-band speech. To predict the high band, the narrow band is coded over its dictionary alone, and the code is
    multiplied by the other dictionary, refitted to such codes; the predictions of several dictionaries that differ in
    their random start are averaged. The fine structure is that of the narrow band mirrored at 4 kHz, as in old codecs
    [2]_, shaped by the predicted spectrum. The band below 4 kHz is not changed.

    Log-spectra are taken relative to the loudest frame within 0.64 s, so the level of a recording does not matter: an
    input twice as strong gives an output twice as strong.

    Parameters
    ----------
    n_components : int, default=128
        Atoms of each dictionary.
    n_nonzero_coefs : int, default=4
        Atoms in the code of a frame.
    context : int, default=2
        Neighbours on each side of a frame, 16 ms apart, that view 0 includes; 0 for none.
    n_features : int, default=40
        Principal components that the narrow band is reduced to.
    n_details : int, default=16
        Principal components that the high band is reduced to. More only make larger models.
    n_dictionaries : int, default=16
        Dictionaries whose predictions are averaged; 16 are 0.1 dB better than 4.
    max_samples : int, default=100000
        Most frames to learn from, drawn at random if there are more; 100,000 are 13 minutes of speech.
    max_iter : int, default=8
        Iterations of dictionary learning; more of them fit the speakers of the training, not others.
    n_jobs, verbose
        As in :class:`coupledict.CoupledDictionaryLearning`.
    random_state : int, RandomState, Generator or None
        Source of the choice of frames and of the start of learning.
    callback : callable, optional
        Called with a :class:`coupledict.Progress` after iterations of `fit`, and while a signal is extended. A true
        return value stops the work by :class:`coupledict.StoppedByCallback`.

    Attributes
    ----------
    learners_ : list of CoupledDictionaryLearning
        The coupled dictionaries; view 0 is the narrow band, view 1 the high band.
    low_mean_, projection_ : arrays of shape (n_low,) and (n_low, n_features)
        Mean of the log-spectra of narrow bands, and the map from log-spectra minus this mean to view 0.
    high_mean_, basis_ : arrays of shape (129,) and (n_details, 129)
        Mean of the log-spectra of high bands, and the map from view 1 to log-spectra minus this mean.
    constant_ : float
        Last feature of view 0, the same for all frames.
    ceiling_ : float
        Highest level in dB of a frame of the high band.
    expansion_ : float
        Factor by which predictions are spread around their mean, so that the high band has the right energy.
    n_samples_ : int
        Frames learned from.

    See Also
    --------
    narrow_band : Narrow-band speech from wide-band speech, as it is made for learning.
    log_spectral_distance : How far a high band is from the true one.

    Notes
    -----
    Dictionaries work in float32, signals in float64. Apart from the signal itself, memory does not depend on the length
    of a signal; :meth:`extend_file` and :meth:`extend_blocks` do not hold the whole signal either.

    References
    ----------
    .. [1] F. G. Veshki and S. A. Vorobyov, "A Fast Dictionary Learning Method for Coupled Feature Space Learning",
       IEEE Signal Processing Letters 26(10), 2019. The learning is that of
       :class:`coupledict.CoupledDictionaryLearning`.
    .. [2] J. Makhoul and M. Berouti, "High-frequency regeneration in speech coding systems", ICASSP 1979.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.audio import BandwidthExtension
    >>> narrow = (3000 * np.random.default_rng(0).standard_normal(8000)).astype(np.int16)  # a second of hiss
    >>> wide = BandwidthExtension.pretrained().extend(narrow)
    >>> wide.shape, wide.dtype
    ((16000,), dtype('int16'))
    """

    def __init__(
        self,
        n_components: int = 128,
        *,
        n_nonzero_coefs: int = 4,
        context: int = 2,
        n_features: int = 40,
        n_details: int = 16,
        n_dictionaries: int = 16,
        max_samples: int = 100_000,
        max_iter: int = 8,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self._set_run(n_jobs, random_state, verbose, callback)
        self.n_components, self.n_nonzero_coefs = n_components, n_nonzero_coefs
        self.n_features, self.n_details = n_features, n_details
        self.context, self.n_dictionaries = context, n_dictionaries
        self.max_samples, self.max_iter = max_samples, max_iter

    def fit(self, X: Sequence[npt.ArrayLike], y: object = None, *, sampling_rate: int = RATE) -> Self:
        """Learn from wide-band speech; `fit` makes the narrow-band signals itself.

        Parameters
        ----------
        X : list of arrays of shape (n_samples,) or (n_samples, n_channels)
            Speech at 16 kHz, as results should sound. Levels may differ between signals.
        y : ignored
            Accepted for pipelines.
        sampling_rate : int, default=16000
            Sampling rate of the signals; must be 16000. Give the rate of your data, so that a wrong one is noticed.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_rate(sampling_rate, RATE, "signals to learn from")
        rng = make_generator(self.random_state)
        low, high = self._samples(check_signals(X), rng)
        if len(low) < self.n_components:
            raise ValueError(
                f"Expected signals with at least n_components={self.n_components} frames that are not silent, got"
                f" {len(low)} (125 per second). Use more speech, or fewer components."
            )
        with one_blas_thread():
            bands = Bands.learn(low, high, self.n_features, self.n_details)
            views = [bands.narrow_view(low), bands.high_view(high)]
        with self._watched() as told:
            n_fits = self.n_dictionaries + (self._n_trials(len(high)) * QUARTERS)
            meter = Meter(told, "learning", n_fits * self.max_iter)
            count = None if told is None else lambda progress: meter.advance()
            learners = fit_many(self._learners(rng, self.n_dictionaries), views, self.n_jobs, count)
            expansion = self._find_expansion(bands, views, high, rng, count)
        self._keep(bands, learners, expansion, len(low))
        return self

    def _n_trials(self, n_frames: int) -> int:
        """Return how many dictionaries are tried on each quarter of the frames; 0 if the others have too few."""
        enough = n_frames - -(-n_frames // QUARTERS) >= self.n_components
        return min(self.n_dictionaries, TRIAL_DICTIONARIES) if enough else 0

    def _find_expansion(
        self, bands: Bands, views: list[Array], high: Array, rng: np.random.Generator, told: Callback | None
    ) -> float:
        """Return the expansion, from predictions of each quarter of the frames by dictionaries learned from the others.

        Quarters are in the order of the signals, so that few voices are in more than one.
        """
        n_trials = self._n_trials(len(high))
        if not n_trials:
            return 1.0
        predicted = np.empty_like(views[1])
        for own in np.array_split(np.arange(len(high)), QUARTERS):
            others = [np.delete(view, own, axis=0) for view in views]
            fitted = fit_many(self._learners(rng, n_trials), others, self.n_jobs, told)
            predicted[own] = np.mean([learner.predict([views[0][own], None], view=1) for learner in fitted], axis=0)
        with one_blas_thread():
            spectra = bands.spectra(predicted)
        return find_expansion(spectra, high, bands.high_mean, bands.ceiling)

    def _learners(self, rng: np.random.Generator, n: int) -> list[CoupledDictionaryLearning]:
        return [CoupledDictionaryLearning(**self._settings(), random_state=seed) for seed in seeds(rng, n)]

    def _settings(self) -> dict[str, Any]:
        """Return the parameters of a learner."""
        return {
            "n_components": self.n_components,
            "n_nonzero_coefs": self.n_nonzero_coefs,
            "max_iter": self.max_iter,
            "normalize": "views",  # joint norms are 0.07 dB further from the truth, for speakers who are left out
            "view_weights": "balanced",
            "ridge_alpha": 1e-3,  # what the figures of docs/audio.md were measured with
        }

    def _keep(self, bands: Bands, learners: list[CoupledDictionaryLearning], expansion: float, n_samples: int) -> None:
        """Set all fitted attributes in one step, so that an interrupt leaves either all of them or none."""
        arrays = {f"{name}_": getattr(bands, name) for name in (*ARRAYS, "constant", "ceiling")}
        self.__dict__.update(arrays, learners_=learners, expansion_=expansion, n_samples_=n_samples)

    @property
    def _bands(self) -> Bands:
        return Bands(self.low_mean_, self.projection_, self.high_mean_, self.basis_, self.constant_, self.ceiling_)

    def _predictor(self) -> HighBandPredictor:
        return HighBandPredictor(self._bands, self.learners_, count_jobs(self.n_jobs))

    def _samples(self, signals: list[Floats], rng: np.random.Generator) -> tuple[Array, Array]:
        """Return the log-spectra of both bands: of all frames, or of a random choice, without the silent ones."""
        total = sum(_frames.count(signal.size) for signal in signals)
        wanted = np.ones(total, bool)
        wanted[rng.permutation(total)[self.max_samples :]] = False
        low: list[Array] = [np.empty((0, self._n_low), np.float32)]
        high: list[Array] = [np.empty((0, N_HIGH), np.float32)]
        start = 0
        for signal in signals:
            windows = self._analyse([_frames.downsample(signal)])
            for (window,), spectrum in zip(windows, _frames.wide_spectra(signal), strict=True):
                level = window.level[window.around(0)]
                use = wanted[start : start + level.size] & (level > SILENT)
                low.append(self._low_band(window)[use])
                high.append(_frames.high_band(spectrum, level)[use])
                start += level.size
        return np.concatenate(low), np.concatenate(high)

    @property
    def _n_low(self) -> int:
        return (2 * self.context + 1) * (_frames.LOW.stop - _frames.LOW.start)

    def _low_band(self, window: Window, more: int = 0) -> Array:
        frames = window.around(self.context, more)
        return _frames.low_band(window.spectrum[frames], window.level[frames], self.context)

    def _analyse(self, blocks: Iterable[Floats]) -> Iterator[list[Window]]:
        """Yield windows of a narrow-band signal, one for each channel."""
        for window, n in _frames.windows(blocks, *_frames.size_and_border(self.context)):
            channels = window.reshape(len(window), -1).T
            yield [_frames.analyse(np.ascontiguousarray(channel), n, self.context) for channel in channels]

    def _extend(self, window: Window, predictor: HighBandPredictor) -> Floats:
        """Return the samples of a window with a high band."""
        frames = window.around(0, OVERLAP)
        predicted = predictor.predict(self._low_band(window, OVERLAP))
        high = expand(predicted, self.high_mean_, self.ceiling_, self.expansion_)
        samples = overlap_add(shape(window.spectrum[frames], window.level[frames], high))
        return window.samples + samples[LENGTH : LENGTH + window.samples.size]

    def _widen(
        self, blocks: Iterable[Floats], n_samples: int | None = None, kind: str = "narrow"
    ) -> Iterator[tuple[Floats, Floats]]:
        """Yield a signal that comes in blocks of shape (n_samples, n_channels) at 16 kHz: extended, and as it is.

        Its length is `n_samples`, if known; its band is of the kind "narrow" or "telephone".
        """
        predictor = self._predictor()
        with self._watched() as told:
            meter = Meter(told, "widening", n_samples)
            for windows in self._analyse(blocks):
                wide = np.stack([self._extend(window, predictor) for window in windows], axis=-1)
                meter.advance(len(wide) // 2)
                yield wide, np.stack([window.samples for window in windows], axis=-1)

    def extend_blocks(
        self, blocks: Iterable[npt.ArrayLike], *, sampling_rate: int = NARROW_RATE, band: BandLike = None
    ) -> Iterator[Floats]:
        """Widen a signal that comes in blocks, in memory that does not depend on its length.

        The samples are those of :meth:`extend` with the same band, to the last bit, whatever the blocks. Output lags
        behind input by up to 50 s: it is for long signals, not for live ones.

        Parameters
        ----------
        blocks : iterable of arrays of shape (n_samples,) or (n_samples, n_channels)
            Speech, block after block.
        sampling_rate : int, default=8000
            Sampling rate of the signal, as in :meth:`extend`.
        band : None, "narrow", "telephone" or Band
            As in :meth:`extend`; but None measures the first 30 s.

        Yields
        ------
        array of shape (n_samples,) or (n_samples, n_channels), float64
            Wide-band speech at ``output_rate(sampling_rate)``, in blocks of other sizes.
        """
        check_is_fitted(self, "learners_")
        self._check_parameters()
        yield from widen_blocks(self._widen, blocks, sampling_rate, band)

    def extend(self, signal: npt.ArrayLike, *, sampling_rate: int = NARROW_RATE, band: BandLike = None) -> Array:
        """Return a narrow-band signal with a high band.

        Parameters
        ----------
        signal : array of shape (n_samples,) or (n_samples, n_channels)
            Speech of any scale; floats or integers. Channels are widened one by one.
        sampling_rate : int, default=8000
            Sampling rate of the signal, 8000 or more. :func:`narrow_band` makes a signal at 8 kHz from one at 16 kHz.
        band : None, "narrow", "telephone" or Band
            Band that the signal has: up to 4 kHz ("narrow"), up to 3.4 kHz ("telephone"), or what :func:`measure_band`
            has returned, for this signal or another one of the same kind. None measures it, over all channels.

        Returns
        -------
        array of shape (n,) or (n, n_channels)
            Speech at ``output_rate(sampling_rate)``, that is 16 kHz, or the rate of the signal if it is higher. It has
            ``n = round(n_samples * output_rate / sampling_rate)`` samples, without a delay, in the number type of
            `signal`: integers are rounded and clipped to their range, floats are not. Below 4 kHz it equals the input;
            at 16 kHz and more, the high band is added to the samples of the input.

        Warns
        -----
        UserWarning
            If the signal has a high band already. Nothing is added then.
        """
        check_is_fitted(self, "learners_")
        self._check_parameters()
        return widen_array(self._widen, signal, sampling_rate, band)

    def extend_file(
        self,
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        band: BandLike = None,
        force: bool = False,
    ) -> WidenedFile:
        """Widen a sound file, in memory that does not depend on its length.

        The file is read twice: to measure its band, and to widen it.

        Parameters
        ----------
        source : str or path
            File of speech at any sampling rate from 8 kHz on.
        target : str or path
            File to write, at 16 kHz or the rate of the source if it is higher: .wav, .flac or .ogg. It appears whole or
            not at all. Channels and the width of samples are those of the source, but telephone codecs become 16 bit.
        band : None, "narrow", "telephone" or Band
            As in :meth:`extend`.
        force : bool, default=False
            Replace a file that exists.

        Returns
        -------
        WidenedFile
            What was done; as a string, in two sentences.

        Warns
        -----
        UserWarning
            If the source has a high band already. Nothing is added then.
        """
        check_is_fitted(self, "learners_")
        self._check_parameters()
        return widen_file(self._widen, source, target, band, self._watched, force=force)

    def predict_high_band(self, signal: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return the log-spectra that are predicted for the high band.

        Parameters
        ----------
        signal : array of shape (n_samples,)
            Narrow-band speech at 8 kHz.

        Returns
        -------
        array of shape (n_frames, 129)
            In dB, the power of the bins from 4 to 8 kHz of frames of 512 samples at 16 kHz under a Hann window, one
            every 128, the first centred on the first sample. `extend` spreads them further, by `expansion_`.
        """
        check_is_fitted(self, "learners_")
        self._check_parameters()
        array = check_signal(signal, "signal")
        if array.ndim != 1:
            raise ValueError(f"Expected signal to have one dimension, got shape {array.shape}. Give channels alone.")
        found, predictor = [np.empty((0, N_HIGH), np.float32)], self._predictor()
        for (window,) in self._analyse([array.astype(np.float64)]):
            high = predictor.predict(self._low_band(window)) + window.level[window.around(0), None]
            found.append(high.astype(np.float32))
        return np.concatenate(found)

    def score(self, X: Sequence[npt.ArrayLike], y: object = None) -> float:
        """Return minus the log-spectral distance of the predicted high band from the true one, in dB.

        The distance is that of :func:`log_spectral_distance`, between spectra instead of signals; the mean over the
        frames of all signals.

        Parameters
        ----------
        X : list of arrays of shape (n_samples,) or (n_samples, n_channels)
            Wide-band speech at 16 kHz; `score` makes the narrow-band signals itself.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        float
            At most 0; larger is better.
        """
        check_is_fitted(self, "learners_")
        self._check_parameters()
        found = []
        for signal in check_signals(X):
            truth = [decibels(part[:, FIRST_HIGH:]) for part in _frames.wide_spectra(signal)]
            if truth:
                high = self.predict_high_band(_frames.downsample(signal))
                found.append(frame_distances(np.concatenate(truth), high, floor_of(signal)))
        if not found:
            raise ValueError("Expected signals with at least two samples, got none.")
        return -float(np.concatenate(found).mean())

    @classmethod
    def pretrained(cls, *, n_jobs: int | None = None, verbose: int = 0, callback: Callback | None = None) -> Self:
        """Load the model that comes with the package.

        It was learned by ``tools/train_bandwidth.py`` from utterances of the CMU Arctic databases and from LibriSpeech
        (CC BY 4.0); ``CREDITS.md`` beside it gives the credits.

        Parameters
        ----------
        n_jobs, verbose, callback
            As in :class:`BandwidthExtension`.

        Returns
        -------
        BandwidthExtension
        """
        with as_file(files(__package__) / "models" / "bandwidth.safetensors") as path:
            model = cls.load(path)
        model.set_params(n_jobs=n_jobs, verbose=verbose, callback=callback)
        return model

    def _to_state(self, *, half: bool = False) -> ModelState:
        """Return the fitted estimator as data; with `half` in half precision.

        The model that comes with the package is stored so; the loss is too small to measure.
        """
        learners = self.learners_
        tensors: dict[str, Array] = {name: getattr(self, f"{name}_") for name in ARRAYS}
        tensors["low_atoms"] = np.stack([learner.components_[0] for learner in learners])
        tensors["high_atoms"] = np.stack([learner.components_[1] for learner in learners])
        tensors["refitted"] = np.stack([learner.predictors_[(0,)][1] for learner in learners])
        facts: dict[str, JSON] = {name: float(getattr(self, f"{name}_")) for name in NUMBERS}
        facts["n_samples"] = int(self.n_samples_)
        facts["n_nonzero"] = learners[0].n_nonzero_coefs  # the parameter may have been changed after the fit
        if half:
            facts["half"] = {name: list[JSON](array.shape) for name, array in tensors.items()}
            tensors = {name: pack_half(array) for name, array in tensors.items()}
        tensors["view_weights"] = np.stack([learner.view_weights_ for learner in learners])
        return ModelState.of(self, tensors, **facts)

    @classmethod
    def _from_state(cls, state: ModelState) -> Self:
        estimator, facts = make_estimator(cls, state.parameters), state.facts
        halves = {name: unpack_half(state.tensors[name], shape) for name, shape in facts.get("half", {}).items()}
        tensors = state.tensors | halves
        check_tensors(tensors, estimator._n_low)
        numbers = {name: check_number(facts[name], name) for name in NUMBERS}
        parts: dict[str, Any] = {name: tensors[name] for name in ARRAYS}
        bands = Bands(**parts, constant=numbers["constant"], ceiling=numbers["ceiling"])
        settings, learners = estimator._settings(), []
        told = facts.get("n_nonzero", settings["n_nonzero_coefs"])
        settings["n_nonzero_coefs"] = check_file_count(told, "number of nonzeros", 1)
        atoms = (tensors[name] for name in ("low_atoms", "high_atoms", "refitted", "view_weights"))
        for low, high, refitted, weights in zip(*atoms, strict=True):
            fitted = FittedDictionaries([low, high], weights, [], 0, {(0,): {1: refitted}})
            learners.append(restore_learner(fitted, **settings))
        n_samples = check_file_count(facts["n_samples"], "number of samples")
        estimator._keep(bands, learners, numbers["expansion"], n_samples)
        return estimator

    def _check_parameters(self) -> None:
        counts = ("n_components", "n_nonzero_coefs", "n_features", "n_details", "n_dictionaries", "max_samples")
        check_counts(self, *counts, "max_iter")
        if self.context != 0:
            check_count(self.context, "context")
        self._check_run()
