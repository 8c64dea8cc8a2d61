"""Bandwidth extension as an estimator: it learns from wide-band speech and extends narrow-band speech."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import as_file, files
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..estimators.running import TASK_CONSTRAINTS, RunMixin
from ..estimators.saving import SavedMixin
from ..files.models import JSON
from ..files.packing import pack_half, unpack_half
from ..files.state import ModelState, make_estimator
from ..foundation.arrays import Array
from ..foundation.checks import check_choice, make_generator
from ..foundation.parameters import COUNT, SHARE, Constraints, Integer
from ..foundation.progress import Callback, Meter
from ..parallel.jobs import count_jobs
from . import _frames
from ._band_model import BandModel
from ._frames import FIRST_HIGH, N_HIGH, NARROW_RATE, RATE, Floats, decibels
from ._layouts import LAYOUTS
from ._learning import BandFitter
from ._metrics import frame_distances, silence_floor
from ._signals import check_rate, check_signal, check_signals
from ._widening import BandLike, WidenedFile, widen_array, widen_blocks, widen_file


class BandwidthExtension(RunMixin, SavedMixin, BaseEstimator):  # type: ignore[misc]
    """Extend narrow-band speech (up to 4 kHz) to wide-band speech (up to 8 kHz), with a predicted high band.

    A frame of speech has two views: the log-spectra of the narrow band of the frame and of its neighbours (view 0), and
    the log-spectrum of its high band (view 1). Coupled dictionaries [1]_ of both views are learned from wide-band
    speech. To predict the high band, the narrow band is coded over its dictionary alone, and the code is multiplied by
    the other dictionary, refitted to such codes. The predictions of several dictionaries with different random starts
    are averaged. The magnitudes of the high band are the predicted ones; its phases are those of the narrow band,
    mirrored as in early codecs [2]_.

    There are two kinds of narrow-band speech, each with its own dictionaries: speech up to 4 kHz, and telephone speech,
    300 to 3400 Hz. For the latter, 3.4 to 4 kHz is filled in too. The rest of the signal is unchanged.

    Log-spectra are relative to the loudest frame within 0.64 s, so the level of a recording does not matter: an input
    twice as strong gives an output twice as strong.

    Parameters
    ----------
    n_components : int, default=512
        Number of atoms of each dictionary.
    n_nonzero_coefs : int, default=8
        Atoms in the code of a frame.
    context : int, default=2
        Neighbours on each side of a frame, 16 ms apart, that view 0 includes; 0 for none.
    n_features : int, default=60
        Number of principal components of the narrow band.
    n_details : int, default=16
        Number of principal components of the high band. More only make larger models.
    n_dictionaries : int, default=8
        Number of dictionaries whose predictions are averaged.
    max_samples : int, default=100000
        Largest number of frames to learn from, drawn at random if there are more; 100,000 are 13 minutes of speech.
    max_iter : int, default=5
        Iterations of dictionary learning; more of them overfit the training speakers.
    strength : float, default=0.2
        Strength of the high band, from 0 to 1; it may be changed after `fit`. With 0.5, spectra are as predicted, which
        is closest to the truth in dB. Halving it makes them 12 dB weaker, or 18 dB for telephone speech. The default is
        the largest value that lowered PESQ for none of the speakers it was chosen on. With 1, the high band has the
        energy of speech, and errors grow with it. See Notes.
    n_jobs, verbose
        As in :class:`coupledict.CoupledDictionaryLearning`.
    random_state : int, RandomState, Generator or None
        Randomness of the choice of frames and of the start of learning.
    callback : callable, optional
        Called with a :class:`coupledict.Progress` after iterations of `fit`, and while a signal is extended. If it
        returns a true value, the work ends with :class:`coupledict.StoppedByCallback`.

    Attributes
    ----------
    models_ : dict of str to BandModel
        The models of both kinds of speech, "narrow" and "telephone". The attribute `learners` of a model is the list of
        its coupled dictionaries, `bands` the maps between log-spectra and their views, `expansion` the factor by which
        predictions are spread around their mean at strength 1.

    See Also
    --------
    narrow_band, telephone_band : Make narrow-band speech from wide-band speech, as `fit` does.
    measure_band : Measure where the band of a signal ends.
    log_spectral_distance : Measure the distance between a high band and the true one.

    Notes
    -----
    Dictionaries are in float32, signals in float64. Apart from the signal itself, memory does not depend on the length
    of a signal; :meth:`extend_file` and :meth:`extend_blocks` do not hold the whole signal either.

    The narrow band does not determine the high band: errors of single frames are about 8 dB. How audible they are
    depends on the strength. PESQ, a model of listeners, prefers a weak high band; the distance in dB prefers one as
    predicted; the energy is right at strength 1. docs/audio.md shows the curve.

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

    _parameter_constraints: ClassVar[Constraints] = {
        **TASK_CONSTRAINTS,
        "context": (Integer(0),),
        "n_features": (COUNT,),
        "n_details": (COUNT,),
        "n_dictionaries": (COUNT,),
        "strength": (SHARE,),
        **RunMixin._parameter_constraints,
    }

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
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.context = context
        self.n_features = n_features
        self.n_details = n_details
        self.n_dictionaries = n_dictionaries
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.strength = strength
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Sequence[npt.ArrayLike], y: object = None, *, sampling_rate: int = RATE) -> Self:
        """Learn from wide-band speech; `fit` makes the narrow-band signals itself.

        Parameters
        ----------
        X : list of arrays of shape (n_samples,) or (n_samples, n_channels)
            Speech at 16 kHz, of the quality that results should have. Levels may differ between signals.
        y : ignored
            Accepted for pipelines.
        sampling_rate : int, default=16000
            Sampling rate of the signals; must be 16000. Pass the rate of your data, so that a wrong one is noticed.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_rate(sampling_rate, RATE, "signals to learn from")
        rng = make_generator(self.random_state)
        signals = check_signals(X)
        fitter = self._fitter()
        with self._watched() as callback:
            meter = Meter(callback, "learning", len(LAYOUTS) * fitter.n_steps())
            models = {kind: fitter.fit(signals, layout, rng, meter) for kind, layout in LAYOUTS.items()}
        self.models_ = models  # in one step, so that an interrupt leaves either all of them or none
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
            "normalize": "views",  # joint norms are 0.07 dB further from the truth, for held-out speakers
            "view_weights": "balanced",
            "ridge_alpha": 1e-3,  # the value behind the figures in docs/audio.md
        }

    def _widen(
        self, blocks: Iterable[Floats], n_samples: int | None = None, kind: str = "narrow"
    ) -> Iterator[tuple[Floats, Floats]]:
        """Yield blocks of a signal at 16 kHz, of shape (n_samples, n_channels): extended, and as it is.

        `n_samples` is its length, if known; `kind` that of its band, "narrow" or "telephone".
        """
        model = self.models_[kind]
        predictor = model.predictor(count_jobs(self.n_jobs))
        with self._watched() as callback:
            meter = Meter(callback, "widening", n_samples)
            for windows in model.windows(blocks):
                wide = np.stack([model.extend(window, predictor, self.strength) for window in windows], axis=-1)
                meter.advance(len(wide) // 2)
                yield wide, np.stack([window.samples for window in windows], axis=-1)

    def extend_blocks(
        self, blocks: Iterable[npt.ArrayLike], *, sampling_rate: int = NARROW_RATE, band: BandLike = None
    ) -> Iterator[Floats]:
        """Extend a signal that comes in blocks, in memory that does not depend on its length.

        The samples equal those of :meth:`extend` with the same band to the last bit, whatever the blocks. Output lags
        behind input by up to 50 s: this is for long signals, not for live ones.

        Parameters
        ----------
        blocks : iterable of arrays of shape (n_samples,) or (n_samples, n_channels)
            Speech, block after block.
        sampling_rate : int, default=8000
            Sampling rate of the signal, as in :meth:`extend`.
        band : None, "narrow", "telephone" or Band
            As in :meth:`extend`, except that None measures the first 30 s.

        Yields
        ------
        array of shape (n_samples,) or (n_samples, n_channels), float64
            Wide-band speech at ``output_rate(sampling_rate)``, in blocks of other sizes.
        """
        check_is_fitted(self, "models_")
        self._check_parameters()
        yield from widen_blocks(self._widen, blocks, sampling_rate, band)

    def extend(self, signal: npt.ArrayLike, *, sampling_rate: int = NARROW_RATE, band: BandLike = None) -> Array:
        """Return a narrow-band signal with a high band added.

        Parameters
        ----------
        signal : array of shape (n_samples,) or (n_samples, n_channels)
            Speech on any scale, floats or integers. Channels are extended independently. Arrays of PyTorch, JAX and
            others are read in place.
        sampling_rate : int, default=8000
            Sampling rate of the signal, 8000 or more. :func:`narrow_band` makes a signal at 8 kHz from one at 16 kHz.
        band : None, "narrow", "telephone" or Band
            Band of the signal: up to 4 kHz ("narrow"), up to 3.4 kHz ("telephone"), or a result of :func:`measure_band`
            for this signal or another one of the same kind. None measures it over all channels.

        Returns
        -------
        array of shape (n,) or (n, n_channels)
            Speech at ``output_rate(sampling_rate)``, that is 16 kHz, or the rate of the signal if it is higher. It has
            ``n = round(n_samples * output_rate / sampling_rate)`` samples, without delay, in the number type of
            `signal`: integers are rounded and clipped to their range, floats are not. Below 4 kHz it equals the input;
            at rates of 16 kHz and more, the high band is added to the samples of the input.

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
        """Extend a sound file, in memory that does not depend on its length.

        The file is read twice: to measure its band, and to extend it.

        Parameters
        ----------
        source : str or path
            File of speech at any sampling rate of at least 8 kHz.
        target : str or path
            File to write, at 16 kHz or the rate of the source if it is higher: .wav, .flac or .ogg. It appears whole or
            not at all. Channels and sample width are those of the source, but telephone codecs become 16 bit.
        band : None, "narrow", "telephone" or Band
            As in :meth:`extend`.
        force : bool, default=False
            Replace a file that exists.

        Returns
        -------
        WidenedFile
            What was done; `str` describes it in two sentences.

        Warns
        -----
        UserWarning
            If the source has a high band already. Nothing is added then.
        """
        check_is_fitted(self, "models_")
        self._check_parameters()
        return widen_file(self._widen, source, target, band, self._watched, force=force)

    def predict_high_band(self, signal: npt.ArrayLike, *, kind: str = "narrow") -> npt.NDArray[np.float32]:
        """Return the predicted log-spectra of the high band.

        Parameters
        ----------
        signal : array of shape (n_samples,)
            Narrow-band speech at 8 kHz.
        kind : {"narrow", "telephone"}, default="narrow"
            Kind of speech, as :func:`measure_band` returns it.

        Returns
        -------
        array of shape (n_frames, 129)
            Power in dB of the bins from 4 to 8 kHz, for frames of 512 samples at 16 kHz under a Hann window, one every
            128 samples, the first centred on the first sample; as `extend` uses them with ``strength=0.5``.
        """
        check_is_fitted(self, "models_")
        self._check_parameters()
        check_choice(kind, "kind", tuple(LAYOUTS))
        array = check_signal(signal, "signal")
        if array.ndim != 1:
            raise ValueError(
                f"Expected signal to have one dimension, got shape {array.shape}. Pass one channel at a time."
            )
        model = self.models_[kind]
        found, predictor = [np.empty((0, N_HIGH), np.float32)], model.predictor(count_jobs(self.n_jobs))
        for (window,) in model.windows([array.astype(np.float64)]):
            found.append(model.predict(window, predictor)[:, -N_HIGH:].astype(np.float32))
        return np.concatenate(found)

    def score(self, X: Sequence[npt.ArrayLike], y: object = None) -> float:
        """Return the negative log-spectral distance between the predicted high band and the true one, in dB.

        The distance is that of :func:`log_spectral_distance`, between spectra instead of signals, averaged over the
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
                found.append(frame_distances(np.concatenate(truth), high, silence_floor(signal)))
        if not found:
            raise ValueError("Expected signals with at least two samples, got none.")
        return -float(np.concatenate(found).mean())

    @classmethod
    def pretrained(cls, *, n_jobs: int | None = None, verbose: int = 0, callback: Callback | None = None) -> Self:
        """Load the model of the package.

        ``tools/train_bandwidth.py`` learned it from utterances of the CMU Arctic databases, LibriSpeech (CC BY 4.0) and
        AudioMNIST (MIT); ``CREDITS.md`` in its folder gives the credits.

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

        The model of the package is stored this way; the loss is too small to measure.
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
