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

from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin
from ..files.models import JSON
from ..files.packing import pack_half, unpack_half
from ..files.state import ModelState, make_estimator
from ..foundation.arrays import Array
from ..foundation.checks import check_choice, check_count, check_counts, check_share, make_generator
from ..foundation.progress import Callback, Meter
from ..parallel.jobs import count_jobs
from . import _frames
from ._band_model import BandModel
from ._frames import FIRST_HIGH, N_HIGH, NARROW_RATE, RATE, Floats, decibels
from ._layouts import LAYOUTS
from ._learning import BandFitter
from ._metrics import floor_of, frame_distances
from ._signals import check_rate, check_signal, check_signals
from ._widening import BandLike, WidenedFile, widen_array, widen_blocks, widen_file


class BandwidthExtension(RunMixin, SavedMixin, BaseEstimator):  # type: ignore[misc]
    """Extend narrow-band speech (up to 4 kHz) to wide-band speech (up to 8 kHz), with a predicted high band.

    A frame of speech has two views: the log-spectra of the narrow band of the frame and of its neighbours (view 0), and
    the log-spectrum of its high band (view 1). Coupled dictionaries [1]_ of both views are learned from wide-band
    speech. To predict the high band, the narrow band is coded over its dictionary alone, and the code is multiplied by
    the other dictionary, refitted to such codes; the predictions of several dictionaries that differ in their random
    start are averaged. The phases are those of the narrow band, mirrored as in old codecs [2]_; the magnitudes are the
    predicted ones.

    There are two kinds of narrow-band speech, each with its own dictionaries: what ends at 4 kHz, and what telephones
    pass, 300 to 3400 Hz. Of the latter, 3.4 to 4 kHz are filled in too. The rest of the signal is not changed.

    Log-spectra are taken relative to the loudest frame within 0.64 s, so the level of a recording does not matter: an
    input twice as strong gives an output twice as strong.

    Parameters
    ----------
    n_components : int, default=512
        Atoms of each dictionary.
    n_nonzero_coefs : int, default=8
        Atoms in the code of a frame.
    context : int, default=2
        Neighbours on each side of a frame, 16 ms apart, that view 0 includes; 0 for none.
    n_features : int, default=60
        Principal components that the narrow band is reduced to.
    n_details : int, default=16
        Principal components that the high band is reduced to. More only make larger models.
    n_dictionaries : int, default=8
        Dictionaries whose predictions are averaged.
    max_samples : int, default=100000
        Most frames to learn from, drawn at random if there are more; 100,000 are 13 minutes of speech.
    max_iter : int, default=5
        Iterations of dictionary learning; more of them fit the speakers of the training, not others.
    strength : float, default=0.2
        How strong the high band is, from 0 to 1; it may be changed after the fit. With 0.5 spectra are as predicted,
        which is closest to the truth in dB. Halving it makes them 12 dB weaker, 18 dB for speech from telephones. The
        default is the strongest with which no speaker that it was chosen on became worse by PESQ. With 1 the high band
        has the energy of speech, and errors are spread with it. See Notes.
    n_jobs, verbose
        As in :class:`coupledict.CoupledDictionaryLearning`.
    random_state : int, RandomState, Generator or None
        Source of the choice of frames and of the start of learning.
    callback : callable, optional
        Called with a :class:`coupledict.Progress` after iterations of `fit`, and while a signal is extended. A true
        return value stops the work by :class:`coupledict.StoppedByCallback`.

    Attributes
    ----------
    models_ : dict of str to BandModel
        What was learned for each kind of speech, "narrow" and "telephone". The attribute `learners` of a model is the
        list of its coupled dictionaries, `bands` the maps between log-spectra and their views, `expansion` the factor
        by which predictions are spread around their mean at strength 1.

    See Also
    --------
    narrow_band, telephone_band : Narrow-band speech from wide-band speech, as it is made for learning.
    measure_band : Where the band of a signal ends.
    log_spectral_distance : How far a high band is from the true one.

    Notes
    -----
    Dictionaries work in float32, signals in float64. Apart from the signal itself, memory does not depend on the length
    of a signal; :meth:`extend_file` and :meth:`extend_blocks` do not hold the whole signal either.

    What the narrow band does not tell, nobody can predict: errors of single frames are about 8 dB. How loud they are
    heard depends on the strength. PESQ, a model of listeners, prefers a weak high band, the distance in dB one that is
    as predicted, and its energy is right at strength 1. docs/audio.md has the curve.

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
        n_components: int = 512,
        *,
        n_nonzero_coefs: int = 8,
        context: int = 2,
        n_features: int = 60,
        n_details: int = 16,
        n_dictionaries: int = 8,
        max_samples: int = 100_000,
        max_iter: int = 5,
        strength: float = 0.2,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self._set_run(n_jobs, random_state, verbose, callback)
        self.n_components, self.n_nonzero_coefs = n_components, n_nonzero_coefs
        self.n_features, self.n_details = n_features, n_details
        self.context, self.n_dictionaries = context, n_dictionaries
        self.max_samples, self.max_iter, self.strength = max_samples, max_iter, strength

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
        signals = check_signals(X)
        fitter = self._fitter()
        with self._watched() as told:
            meter = Meter(told, "learning", len(LAYOUTS) * fitter.n_steps())
            models = {kind: fitter.fit(signals, layout, rng, meter) for kind, layout in LAYOUTS.items()}
        self.models_ = models  # in one step, so that an interrupt leaves either all or nothing
        return self

    def _fitter(self) -> BandFitter:
        return BandFitter(
            self._settings(),
            self.context,
            self.n_features,
            self.n_details,
            self.n_dictionaries,
            self.max_samples,
            self.n_jobs,
        )

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

    def _widen(
        self, blocks: Iterable[Floats], n_samples: int | None = None, kind: str = "narrow"
    ) -> Iterator[tuple[Floats, Floats]]:
        """Yield a signal that comes in blocks of shape (n_samples, n_channels) at 16 kHz: extended, and as it is.

        Its length is `n_samples`, if known; its band is of the kind "narrow" or "telephone".
        """
        model = self.models_[kind]
        predictor = model.predictor(count_jobs(self.n_jobs))
        with self._watched() as told:
            meter = Meter(told, "widening", n_samples)
            for windows in model.windows(blocks):
                wide = np.stack([model.extend(window, predictor, self.strength) for window in windows], axis=-1)
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
        check_is_fitted(self, "models_")
        self._check_parameters()
        yield from widen_blocks(self._widen, blocks, sampling_rate, band)

    def extend(self, signal: npt.ArrayLike, *, sampling_rate: int = NARROW_RATE, band: BandLike = None) -> Array:
        """Return a narrow-band signal with a high band.

        Parameters
        ----------
        signal : array of shape (n_samples,) or (n_samples, n_channels)
            Speech of any scale; floats or integers. Channels are widened one by one. Arrays of PyTorch, JAX and others
            are read in place.
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
        check_is_fitted(self, "models_")
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
        check_is_fitted(self, "models_")
        self._check_parameters()
        return widen_file(self._widen, source, target, band, self._watched, force=force)

    def predict_high_band(self, signal: npt.ArrayLike, *, kind: str = "narrow") -> npt.NDArray[np.float32]:
        """Return the log-spectra that are predicted for the high band.

        Parameters
        ----------
        signal : array of shape (n_samples,)
            Narrow-band speech at 8 kHz.
        kind : {"narrow", "telephone"}, default="narrow"
            Kind of speech, as :func:`measure_band` tells it.

        Returns
        -------
        array of shape (n_frames, 129)
            In dB, the power of the bins from 4 to 8 kHz of frames of 512 samples at 16 kHz under a Hann window, one
            every 128, the first centred on the first sample. They are as `extend` uses them with ``strength=0.5``.
        """
        check_is_fitted(self, "models_")
        self._check_parameters()
        check_choice(kind, "kind", tuple(LAYOUTS))
        array = check_signal(signal, "signal")
        if array.ndim != 1:
            raise ValueError(f"Expected signal to have one dimension, got shape {array.shape}. Give channels alone.")
        model = self.models_[kind]
        found, predictor = [np.empty((0, N_HIGH), np.float32)], model.predictor(count_jobs(self.n_jobs))
        for (window,) in model.windows([array.astype(np.float64)]):
            found.append(model.predict(window, predictor)[:, -N_HIGH:].astype(np.float32))
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
        check_is_fitted(self, "models_")
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

        It was learned by ``tools/train_bandwidth.py`` from utterances of the CMU Arctic databases, LibriSpeech (CC BY
        4.0) and AudioMNIST (MIT); ``CREDITS.md`` beside it gives the credits.

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
        tensors: dict[str, Array] = {}
        facts: dict[str, JSON] = {}
        for kind, model in self.models_.items():
            own, facts[kind] = model.tensors_and_facts()
            tensors |= {f"{kind}.{name}": array for name, array in own.items()}
        if half:
            packed = {name: array for name, array in tensors.items() if array.dtype == np.float32}
            facts["half"] = {name: list[JSON](array.shape) for name, array in packed.items()}
            tensors |= {name: pack_half(array) for name, array in packed.items()}
        return ModelState.of(self, tensors, **facts)

    @classmethod
    def _from_state(cls, state: ModelState) -> Self:
        estimator, facts = make_estimator(cls, state.parameters), state.facts
        halves = {name: unpack_half(state.tensors[name], shape) for name, shape in facts.get("half", {}).items()}
        tensors, models = state.tensors | halves, {}
        for kind, layout in LAYOUTS.items():
            start = f"{kind}."
            own = {name.removeprefix(start): array for name, array in tensors.items() if name.startswith(start)}
            models[kind] = BandModel.from_file(layout, estimator.context, own, facts[kind], estimator._settings())
        estimator.models_ = models
        return estimator

    def _check_parameters(self) -> None:
        counts = ("n_components", "n_nonzero_coefs", "n_features", "n_details", "n_dictionaries", "max_samples")
        check_counts(self, *counts, "max_iter")
        if self.context != 0:
            check_count(self.context, "context")
        check_share(self.strength, "strength")
        self._check_run()
