"""Bandwidth extension as an estimator: wide-band speech in, a model that makes narrow-band speech wide out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import as_file, files
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._base import generator
from .._ensemble import fit_many, seeds
from .._learner import CoupledDictionaryLearning
from .._passes import one_blas_thread
from .._views import Array, check_count
from . import _frames
from ._frames import FIRST_HIGH, HOP, LENGTH, N_HIGH, NARROW_RATE, RATE, SILENT, Floats, Window, decibels
from ._metrics import floor_of, frame_distances
from ._signals import check_rate, check_signal, check_signals, store
from ._synthesis import expand, find_expansion, loudest, overlap_add, shape

CONSTANT = 0.5  # a feature that never changes, over the root mean square of the norm of the others
LEAST_VARIANCE = 1e-6  # relative; directions with less are rounding
OVERLAP = LENGTH // HOP // 2  # frames on either side that reach into a window
TRIAL_DICTIONARIES = 2  # enough to see how much predictions must be spread
N_ITER = 8  # more iterations fit the speakers of the training, not others


class BandwidthExtension(BaseEstimator):  # type: ignore[misc]
    """Widen narrow-band speech (8 kHz) to wide-band (16 kHz), with the high band that speech usually has.

    A frame of speech is seen as the log-spectrum of its narrow band beside those of its neighbours (view 0) and as the
    log-spectrum of its high band, 4 to 8 kHz (view 1). Coupled dictionaries of both views are learned from wide-band
    speech. The narrow band is coded over its dictionary alone, and the code, over the other one refitted to such codes,
    is the high band; several dictionaries that differ in their random start are averaged. The fine structure is that of
    the narrow band mirrored at 4 kHz, as old codecs do it [2]_, shaped by the predicted spectrum. What is below 4 kHz
    stays as it is.

    Log-spectra are taken relative to the loudest frame within 0.64 s, so what comes out does not depend on the level of
    a recording: a signal twice as strong gives a signal twice as strong.

    Parameters
    ----------
    n_components : int, default=128
        Atoms of each dictionary.
    n_nonzero_coefs : int, default=4
        Atoms in the code of a frame.
    context : int, default=2
        Neighbours on each side of a frame, 16 ms apart, that its narrow band is seen with; 0 for none.
    n_features : int, default=40
        Principal components that the narrow band is reduced to.
    n_details : int, default=16
        Principal components that the high band is reduced to. More only make larger models.
    n_dictionaries : int, default=16
        Dictionaries whose predictions are averaged; 16 are 0.1 dB better than 4.
    n_samples : int, default=100000
        Most frames to learn from, drawn at random where there are more; 100,000 are 13 minutes of speech.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Source of the choice of frames and of the start of learning.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    learners_ : list of CoupledDictionaryLearning
        The coupled dictionaries; view 0 is the narrow band, view 1 the high band.
    low_mean_, projection_ : arrays of shape (n_low,) and (n_low, n_features)
        Mean of the log-spectra of narrow bands, and the map from there to view 0.
    high_mean_, basis_ : arrays of shape (129,) and (n_details, 129)
        Mean of the log-spectra of high bands, and the map from view 1 to there.
    constant_ : float
        Last feature of view 0, the same for all frames.
    ceiling_ : float
        Level in dB that no frame of the high band is given more of.
    expansion_ : float
        By how much predictions are spread around their mean, so that the high band has the energy it should have.
    n_samples_ : int
        Frames learned from.

    See Also
    --------
    narrow_band : Narrow-band speech from wide-band speech, as it is made for learning.
    log_spectral_distance : How far a high band is from the true one.

    Notes
    -----
    Dictionaries work in float32, signals in float64. Memory does not depend on the length of a signal, but for the
    signal itself; :meth:`extend_file` and :meth:`extend_blocks` do not even hold that.

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
        n_samples: int = 100_000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.context = context
        self.n_features = n_features
        self.n_details = n_details
        self.n_dictionaries = n_dictionaries
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, signals: Sequence[npt.ArrayLike], y: object = None, *, sampling_rate: int = RATE) -> Self:
        """Learn from wide-band speech; the narrow-band side is made here.

        Parameters
        ----------
        signals : list of arrays of shape (n_samples,) or (n_samples, n_channels)
            Speech at 16 kHz, as it shall sound. Levels may differ from one to the next.
        y : ignored
            Accepted for pipelines.
        sampling_rate : int, default=16000
            Of the signals; must be 16000, and is asked for so that other rates do not pass unnoticed.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_rate(sampling_rate, RATE, "signals to learn from")
        rng = generator(self.random_state)
        low, high = self._samples(check_signals(signals), rng)
        self.n_samples_ = len(low)
        if self.n_samples_ < self.n_components:
            raise ValueError(
                f"Expected signals with at least n_components={self.n_components} frames that are not silent, got"
                f" {self.n_samples_} (125 a second). Use more speech, or fewer components."
            )
        with one_blas_thread():
            self.low_mean_, self.projection_ = _standard(low, self.n_features)
            self.high_mean_, self.basis_ = _principal(high, self.n_details)
            self.ceiling_ = loudest(high)
            features = (low - self.low_mean_) @ self.projection_
            self.constant_ = CONSTANT * float(np.sqrt(np.mean(np.sum(features**2, axis=1))))
            views = [self._view(low), (high - self.high_mean_) @ self.basis_.T]
        if self.verbose:
            print(f"Learning {self.n_dictionaries} dictionaries from {self.n_samples_:,} frames.", file=sys.stderr)
        learners = [self._learner(seed) for seed in seeds(rng, self.n_dictionaries)]
        self.learners_ = fit_many(learners, views, self.n_jobs)
        self.expansion_ = self._find_expansion(views, high, rng)
        return self

    def _find_expansion(self, views: list[Array], high: Array, rng: np.random.Generator) -> float:
        """Return how much predictions must be spread: found on each quarter of the frames, learned from the others.

        Quarters are in the order of the signals, so that few voices are in more than one.
        """
        quarters = np.array_split(np.arange(len(high)), 4)
        if len(high) - len(quarters[0]) < self.n_components:
            return 1.0
        predicted = np.empty_like(views[1])
        for own in quarters:
            learners = [self._learner(seed) for seed in seeds(rng, min(self.n_dictionaries, TRIAL_DICTIONARIES))]
            fitted = fit_many(learners, [np.delete(view, own, axis=0) for view in views], self.n_jobs)
            predicted[own] = np.mean([learner.predict([views[0][own], None], view=1) for learner in fitted], axis=0)
        with one_blas_thread():
            spectra = predicted @ self.basis_ + self.high_mean_
        return find_expansion(spectra, high, self.high_mean_, self.ceiling_)

    def _learner(self, seed: int | None) -> CoupledDictionaryLearning:
        return CoupledDictionaryLearning(
            self.n_components,
            n_nonzero_coefs=self.n_nonzero_coefs,
            max_iter=N_ITER,
            view_weights="balanced",
            random_state=seed,
        )

    def _samples(self, signals: list[Floats], rng: np.random.Generator) -> tuple[Array, Array]:
        """Return the log-spectra of both bands: all frames that are not silent, or as many as are wanted of them."""
        total = sum(_frames.count(signal.size) for signal in signals)
        wanted = np.ones(total, bool)
        wanted[rng.permutation(total)[self.n_samples :]] = False
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

    def _view(self, low: Array) -> Array:
        """Return view 0: principal components of the narrow band, and a constant.

        Without the constant a code could only scale what is predicted; with it, codes are nearly weighted means, and
        go less astray for voices that are unlike those of the training (0.2 dB).
        """
        features = (low - self.low_mean_) @ self.projection_
        return np.hstack([features, np.full((len(features), 1), self.constant_, np.float32)])

    def _analyse(self, blocks: Iterable[Floats]) -> Iterator[list[Window]]:
        """Yield windows of a narrow-band signal, one for each channel."""
        for window, n in _frames.windows(blocks, *_frames.size_and_border(self.context)):
            channels = window.reshape(len(window), -1).T
            yield [_frames.analyse(np.ascontiguousarray(channel), n, self.context) for channel in channels]

    def _predict(self, window: Window, more: int = 0) -> Array:
        """Return the log-spectra of the high band over the level, for a window and some more frames on both sides."""
        with one_blas_thread():
            narrow = self._view(self._low_band(window, more))
            found = np.zeros((len(narrow), len(self.basis_)), np.float32)
            for learner in self.learners_:
                found += learner.set_params(n_jobs=self.n_jobs).predict([narrow, None], view=1)
            return np.asarray((found / len(self.learners_)) @ self.basis_ + self.high_mean_)

    def _extend(self, window: Window) -> Floats:
        """Return the samples of a window with a high band."""
        frames = window.around(0, OVERLAP)
        high = expand(self._predict(window, OVERLAP), self.high_mean_, self.ceiling_, self.expansion_)
        samples = overlap_add(shape(window.spectrum[frames], window.level[frames], high))
        return window.samples + samples[LENGTH : LENGTH + window.samples.size]

    def extend_blocks(self, blocks: Iterable[npt.ArrayLike]) -> Iterator[Floats]:
        """Widen a signal that comes in blocks, in memory that does not depend on its length.

        The samples are those of :meth:`extend`, to the last bit, whatever the blocks. Output lags behind input by up
        to 17 s: it is for long signals, not for live ones.

        Parameters
        ----------
        blocks : iterable of arrays of shape (n_samples,) or (n_samples, n_channels)
            Narrow-band speech at 8 kHz, block after block.

        Yields
        ------
        array of shape (n_samples,) or (n_samples, n_channels), float64
            Wide-band speech at 16 kHz, in blocks of other sizes; together twice as many samples as came.
        """
        check_is_fitted(self, "learners_")
        shapes: list[tuple[int, ...]] = []

        def checked() -> Iterator[Floats]:
            for number, block in enumerate(blocks):
                array = check_signal(block, f"block {number}")
                shapes[1:] = [array.shape[1:]]
                if shapes[0] != shapes[-1]:
                    raise ValueError(f"Expected blocks of one shape but for their lengths, got another at {number}.")
                yield array.astype(np.float64)

        for windows in self._analyse(checked()):
            wide = np.stack([self._extend(window) for window in windows], axis=-1)
            yield wide.reshape(len(wide), *shapes[0])

    def extend(self, signal: npt.ArrayLike, *, sampling_rate: int = NARROW_RATE) -> Array:
        """Return a narrow-band signal with a high band.

        Parameters
        ----------
        signal : array of shape (n_samples,) or (n_samples, n_channels)
            Speech at 8 kHz, of any scale; floats or integers. Channels are widened one by one.
        sampling_rate : int, default=8000
            Of the signal; must be 8000, and is asked for so that other rates do not pass unnoticed.
            :func:`narrow_band` makes such a signal of one at 16 kHz.

        Returns
        -------
        array of shape (2 * n_samples,) or (2 * n_samples, n_channels)
            Speech at 16 kHz, in the number type of `signal`: integers are rounded and cut to their range, floats are
            not. Below 4 kHz it is the signal.
        """
        check_is_fitted(self, "learners_")
        check_rate(sampling_rate, NARROW_RATE, "the signal")
        array = check_signal(signal, "signal")
        size = _frames.size_and_border(self.context)[0]
        out: Array = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
        end = 0
        pieces = (array[start : start + size] for start in range(0, len(array), size))
        for wide in self.extend_blocks(pieces):
            out[end : end + len(wide)] = store(wide, array.dtype)
            end += len(wide)
        return out

    def extend_file(
        self,
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        force: bool = False,
    ) -> int:
        """Widen a sound file, in memory that does not depend on its length.

        Parameters
        ----------
        source : str or path
            File of narrow-band speech at 8 kHz.
        target : str or path
            File to write, at 16 kHz: .wav, .flac or .ogg. It appears whole or not at all.
        force : bool, default=False
            Replace a file that exists.

        Returns
        -------
        int
            How many samples were cut because the file cannot hold values beyond -1 and 1; usually 0.
        """
        from ._files import Reader, check_output, write_blocks

        check_is_fitted(self, "learners_")
        check_output(target, force=force)
        with Reader(source) as reader:
            check_rate(reader.rate, NARROW_RATE, f"'{reader.path}'")
            blocks = self._track(reader.blocks(), reader.n_blocks, "Widening")
            return write_blocks(target, self.extend_blocks(blocks), RATE, reader.n_channels, reader.subtype)

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
            every 128, the first centred on the first sample. `extend` gives them a wider range of levels.
        """
        check_is_fitted(self, "learners_")
        array = check_signal(signal, "signal")
        if array.ndim != 1:
            raise ValueError(f"Expected signal to have one dimension, got shape {array.shape}. Give channels alone.")
        found = [np.empty((0, N_HIGH), np.float32)]
        for (window,) in self._analyse([array.astype(np.float64)]):
            high = self._predict(window) + window.level[window.around(0), None]
            found.append(high.astype(np.float32))
        return np.concatenate(found)

    def score(self, signals: Sequence[npt.ArrayLike], y: object = None) -> float:
        """Return minus the log-spectral distance of the predicted high band from the true one, in dB.

        The distance is that of :func:`log_spectral_distance`, between spectra instead of signals; the mean over the
        frames of all signals.

        Parameters
        ----------
        signals : list of arrays of shape (n_samples,) or (n_samples, n_channels)
            Wide-band speech at 16 kHz; the narrow-band side is made here.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        float
            At most 0; larger is better.
        """
        check_is_fitted(self, "learners_")
        found = []
        for signal in check_signals(signals):
            truth = [decibels(part[:, FIRST_HIGH:]) for part in _frames.wide_spectra(signal)]
            if truth:
                high = self.predict_high_band(_frames.downsample(signal))
                found.append(frame_distances(np.concatenate(truth), high, floor_of(signal)))
        if not found:
            raise ValueError("Expected signals with at least two samples, got none.")
        return -float(np.concatenate(found).mean())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file of data, without code, that :meth:`load` and :func:`coupledict.load` read.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced, as a whole.
        """
        from ._saving import save

        check_is_fitted(self, "learners_")
        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BandwidthExtension:
        """Read a model that :meth:`save` wrote; it extends to the same bits.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        BandwidthExtension

        Raises
        ------
        ModelFileError
            For a file that is damaged, not such a model, or written by a newer version.
        """
        from ._saving import load

        return load(path)

    @classmethod
    def pretrained(cls, *, n_jobs: int | None = None, verbose: int = 0) -> BandwidthExtension:
        """Load the model that comes with the package.

        It was learned by ``tools/train_bandwidth.py`` from utterances of the CMU Arctic databases and from LibriSpeech
        (CC BY 4.0); ``CREDITS.md`` beside it gives the credits.

        Parameters
        ----------
        n_jobs, verbose
            As in :class:`BandwidthExtension`.

        Returns
        -------
        BandwidthExtension
        """
        with as_file(files(__package__) / "models" / "bandwidth.safetensors") as path:
            model = cls.load(path)
        model.set_params(n_jobs=n_jobs, verbose=verbose)
        return model

    def _track(self, items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
        """Show how far a loop has come."""
        if not self.verbose:
            return items
        from rich.console import Console
        from rich.progress import track

        return track(items, what, total=total, console=Console(stderr=True))

    def _check_parameters(self) -> None:
        for name in ("n_components", "n_nonzero_coefs", "n_features", "n_details", "n_dictionaries", "n_samples"):
            check_count(getattr(self, name), name)
        if self.context != 0:
            check_count(self.context, "context")


def _principal(X: Array, most: int) -> tuple[Array, Array]:
    """Return the mean of samples, and as rows their principal axes, largest first."""
    mean = X.mean(axis=0)
    variances, axes = _axes(X - mean)
    return mean, np.ascontiguousarray(axes[:, : min(most, len(variances))].T)


def _standard(X: Array, most: int) -> tuple[Array, Array]:
    """Return the mean of samples, and the map to the principal components of what differs from it, standardised."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    scale = 1 / np.maximum(deviation, 1e-3 * max(float(deviation.max()), 1e-30))
    variances, axes = _axes((X - mean) * scale)
    return mean, scale[:, None] * axes[:, : min(most, len(variances))]


def _axes(centred: Array) -> tuple[Array, Array]:
    """Return the variances of centred samples along their principal axes, largest first, and these as columns."""
    variances, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64) / len(centred))
    variances, axes = variances[::-1], axes[:, ::-1]
    if not variances[0] > 0:
        raise ValueError("Expected signals that change from frame to frame, got only constant ones.")
    kept = int(np.count_nonzero(variances > LEAST_VARIANCE * variances[0]))
    return variances[:kept].astype(np.float32), axes[:, :kept].astype(np.float32)
