"""Bandwidth extension of speakers who were kept back, beside rivals: distances in dB, PESQ, and levels.

The folder ``speech`` of the data has folders ``arctic``, ``librispeech`` and ``audiomnist`` of wide-band files.
Speakers are kept back three at a time, and widened by models that learned from all others; files without a speaker's
name count as one.

Settings were chosen on the speakers of CMU Arctic and LibriSpeech and the first six of AudioMNIST (``--set tune``):
those of the dictionaries and of the rivals by the distance, the default strength and the caution with telephones as the
strongest with which PESQ of no speaker is more than 0.1 below that of the input. Figures are reported on the other six
speakers of AudioMNIST (``--set report``). They are not from a first look: magnitudes are flat and strengths weaken all
frames alike because of what all speakers gave, and dictionaries have 512 atoms instead of 128 since nearest neighbours
were found to be ahead on all of AudioMNIST.

Rivals see the same frames, with the same context, and are made into sound the same way. PESQ (ITU-T P.862.2, wide-band)
needs the package ``pesq``; without it those columns are empty. Without data, made-up voices stand in, which say nothing
about speech.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.signal
from _data import Array
from _main import Options, add_choice, join, main, table
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from coupledict.audio import BandwidthExtension, log_spectral_distance, narrow_band, telephone_band
from coupledict.audio._band_model import BandModel
from coupledict.audio._files import READABLE, read_wide
from coupledict.audio._frames import FIRST_HIGH, N_HIGH, RATE, decibels, upsample, wide_spectra
from coupledict.audio._metrics import frame_distances, silence_floor

N_NEIGHBORS = 160
ALPHA = 3.0  # of the ridge, for each frame
STRENGTHS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0)
RIVAL_STRENGTHS = (0.2, 0.5)  # as weak as the default, and as predicted
N_KEPT_BACK = 3
LAST_TUNED_ON = "21"  # of AudioMNIST; the other collections are tuned on as a whole
PEAK = 0.5
HIGH_PASS = scipy.signal.firwin(513, 4100, fs=RATE, pass_zero=False)
MAKE = {"narrow": narrow_band, "telephone": telephone_band}


class Predictor(Protocol):
    """Predicts log-spectra of the high band from those of the narrow band."""

    def predict(self, low: Array) -> Array:
        """Return log-spectra relative to the level."""
        ...


@dataclass(frozen=True)
class Speaker:
    """Who speaks, in which collection, and what."""

    name: str
    collection: str
    signals: list[Array] = field(default_factory=list)


def name_of(file: Path) -> str:
    """Return who speaks in a file: cmu_arctic_us_NAME_..., arctic_... (nobody knows), speakerNN, NUMBER-..."""
    parts = file.stem.split("_")
    if parts[0] == "cmu":
        return parts[3]
    return "unnamed" if parts[0] == "arctic" else file.stem.split("-")[0].removeprefix("speaker")


@cache
def load_speakers(directory: Path | None) -> list[Speaker]:
    """Return all speakers; signals have an even number of samples and the same peak."""
    if directory is None:
        return made_up_speakers()
    folder = directory / "speech" if (directory / "speech").is_dir() else directory
    found: dict[tuple[str, str], Speaker] = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() in READABLE:
            key = (name_of(file), file.parent.name)
            signal = read_wide(file)[:, 0]
            signal = signal[: signal.size // 2 * 2]
            found.setdefault(key, Speaker(*key)).signals.append(PEAK * signal / np.abs(signal).max())
    if len(found) <= N_KEPT_BACK:
        raise FileNotFoundError(f"Expected speech of more than {N_KEPT_BACK} speakers in '{folder}', got {len(found)}.")
    return list(found.values())


def made_up_speakers(n: int = 6, seconds: float = 6.0) -> list[Speaker]:
    """Return noises whose high band follows their low band."""
    speakers = []
    for number in range(n):
        rng = np.random.default_rng(number)
        noise = rng.standard_normal(int(seconds * RATE))
        bright = np.repeat(rng.random(int(seconds * 10)), RATE // 10)
        dark = scipy.signal.lfilter([1], [1, -0.9], noise)
        signal = bright * noise + (1 - bright) * dark
        speakers.append(Speaker(f"voice {number}", "made up", [PEAK * signal / np.abs(signal).max()]))
    return speakers


def rating(truth: Array, signal: Array) -> float:
    """Return PESQ, or NaN where the package is missing."""
    try:
        from pesq import pesq
    except ImportError:
        return float("nan")
    return float(pesq(RATE, truth, signal, "wb"))


def level(truth: Array, signal: Array) -> float:
    """Return the level of the high band, in dB over the true one."""
    true, ours = (np.mean(scipy.signal.oaconvolve(one, HIGH_PASS, "same") ** 2) for one in (truth, signal))
    return float(10 * np.log10(ours / true))


class Rival:
    """A regressor of scikit-learn, fitted to the frames that the model learns from."""

    def __init__(self, regressor: Any, low: Array, high: Array) -> None:
        self._scaler = StandardScaler().fit(low)
        if isinstance(regressor, Ridge):
            regressor.set_params(alpha=ALPHA * len(low))
        self._regressor = regressor.fit(self._scaler.transform(low), high)

    def predict(self, low: Array) -> Array:
        """Return log-spectra relative to the level."""
        return np.asarray(self._regressor.predict(self._scaler.transform(low)))


def distance(part: BandModel, predictor: Predictor, signal: Array, narrow: Array) -> float:
    """Return the mean distance over frames of predicted spectra from 4 to 8 kHz."""
    truth = np.concatenate([decibels(piece[:, FIRST_HIGH:]) for piece in wide_spectra(signal)])
    windows = [window for (window,) in part.windows([narrow])]
    found = np.concatenate([part.predict(window, predictor)[:, -N_HIGH:] for window in windows])  # type: ignore[arg-type]
    return float(frame_distances(truth, found, silence_floor(signal)).mean())


def widened(part: BandModel, predictor: Predictor, narrow: Array, strength: float) -> Array:
    windows = (window for (window,) in part.windows([narrow]))
    return np.concatenate([part.extend(window, predictor, strength) for window in windows])  # type: ignore[arg-type]


Rows = dict[tuple[str, float], list[tuple[float, float, float]]]  # PESQ, distance of signals, level


@dataclass
class Found:
    """What one speaker's signals gave, for one kind of narrow band."""

    spectra: dict[str, list[float]] = field(default_factory=dict)
    sounds: Rows = field(default_factory=dict)

    def spectrum(self, method: str) -> float:
        """Return the mean distance of predicted spectra."""
        return float(np.mean(self.spectra[method]))

    def sound(self, method: str, strength: float) -> Array:
        """Return the means of PESQ, distance and level."""
        return np.asarray(np.mean(self.sounds[method, strength], axis=0))


def try_speaker(part: BandModel, predictors: dict[str, Predictor], speaker: Speaker, kind: str, found: Found) -> None:
    """Add what a speaker's signals give."""
    for signal in speaker.signals:
        narrow = MAKE[kind](signal)
        for method, predictor in predictors.items():
            found.spectra.setdefault(method, []).append(distance(part, predictor, signal, narrow))
            ours = method == "coupled dictionaries"
            for strength in STRENGTHS if ours else RIVAL_STRENGTHS:
                wide = widened(part, predictor, narrow, strength) if strength else upsample(narrow)
                row = rating(signal, wide), log_spectral_distance(signal, wide), level(signal, wide)
                found.sounds.setdefault((method, strength), []).append(row)


def cases(options: Options) -> dict[str, list[Speaker]]:
    """Return the speakers who are kept back together."""
    speakers = load_speakers(options.data)
    wanted = speakers
    if options.data is None:
        options.note("Neither --data nor COUPLEDICT_DATA is set: made-up voices, which say nothing about speech.")
    else:
        kept = {s.name for s in speakers if s.collection == "audiomnist" and s.name > LAST_TUNED_ON}
        wanted = [s for s in speakers if (s.name in kept) == (options.set == "report")]
    groups = [wanted[start : start + N_KEPT_BACK] for start in range(0, len(wanted), N_KEPT_BACK)]
    if options.quick:
        groups = [[Speaker(one.name, one.collection, one.signals[:1]) for one in groups[0][:1]]]
    return {", ".join(speaker.name for speaker in group): group for group in groups}


def run(kept: list[Speaker], options: Options) -> dict[str, dict[str, Found]]:
    """Return, by kind and speaker, what models of all speakers who were not kept back make of those who were."""
    if importlib.util.find_spec("pesq") is None:
        options.note("PESQ is left out: the package pesq is not installed.")
    who = {(speaker.name, speaker.collection) for speaker in kept}
    others = [speaker for speaker in load_speakers(options.data) if (speaker.name, speaker.collection) not in who]
    training = [signal for speaker in others for signal in speaker.signals][: 10 if options.quick else None]
    found: dict[str, dict[str, Found]] = {kind: {} for kind in options.kinds}
    seeds = range(options.seed, options.seed + options.repeats)
    for model in (BandwidthExtension(n_jobs=options.jobs, random_state=seed).fit(training) for seed in seeds):
        for kind in options.kinds:
            part = model.models_[kind]
            low, high = model._fitter().samples(training, part.layout)
            predictors: dict[str, Predictor] = {
                "coupled dictionaries": part.predictor(1),
                "ridge regression": Rival(Ridge(), low, high),
                f"{N_NEIGHBORS} nearest neighbours": Rival(KNeighborsRegressor(N_NEIGHBORS), low, high),
            }
            for speaker in kept:
                try_speaker(part, predictors, speaker, kind, found[kind].setdefault(speaker.name, Found()))
    return found


def report(results: Mapping[str, dict[str, dict[str, Found]]], options: Options) -> str:
    blocks = [
        tables({name: one for found in results.values() for name, one in found[kind].items()}, kind)
        for kind in options.kinds
    ]
    return join(*blocks)


def tables(found: dict[str, Found], kind: str) -> str:
    """Return the tables of one kind of narrow band."""
    names, every = list(found), list(found.values())
    methods = list(every[0].spectra)
    cells = {method: [one.spectrum(method) for one in every] for method in methods}
    spectra = [[method, *(f"{v:.2f}" for v in values), f"{np.mean(values):.2f}"] for method, values in cells.items()]
    ours = np.array(cells[methods[0]])
    ahead = sum(np.all([ours < np.array(cells[rival]) for rival in methods[1:]], axis=0))
    sounds = []
    plain = np.array([one.sound(methods[0], 0.0) for one in every])
    for method, strength in every[0].sounds:
        values = np.array([one.sound(method, strength) for one in every])
        change = values[:, 0] - plain[:, 0]
        cells_of = [f"{values[:, 0].mean():.2f}", f"{change.min():+.2f}", str(np.count_nonzero(change < -0.1))]
        cells_of.append(f"{values[:, 1].mean():.2f}")
        cells_of += [f"{values[:, 2].mean():+.1f}", f"{np.abs(values[:, 2]).max():.1f}"] if strength else ["", ""]
        sounds.append(["not widened" if not strength else f"{method}, strength {strength:g}", *cells_of])
    return join(
        f"{kind}: distance of predicted spectra from 4 to 8 kHz, dB",
        table(["", *names, "mean"], spectra),
        f"Closer than both rivals for {ahead} of {len(names)} speakers.",
        f"{kind}: widened signals; the least change of PESQ is that of the worst speaker",
        table(["", "PESQ", "least change", "below by 0.1", "distance, dB", "level, dB", "largest"], sounds),
    )


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", choices=("tune", "report"), default="report", help="speakers (%(default)s)")
    add_choice(parser, "kinds", list(MAKE))
    parser.add_argument("--jobs", type=int, default=1, help="threads (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first random state (%(default)s)")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with a folder speech; made-up voices stand in",
        repeats=(1, "random states of the models"),
        extend=extend,
        quick={"kinds": ["narrow"]},
    )
