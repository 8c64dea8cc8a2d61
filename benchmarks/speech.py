"""Bandwidth extension of speech, leaving one speaker out: distance of the high band from the truth, and how it sounds.

Run ``python benchmarks/speech.py --data DIR`` from the root of the project, where DIR (else COUPLEDICT_DATA) holds a
folder ``speech`` with folders ``arctic`` and ``librispeech`` of wide-band files. Each speaker is widened by models that
learned from all others; the files without a speaker's name count as one speaker. Ridge regression and nearest
neighbours see the same frames, with the same context. Settings of all methods were chosen without the speaker who is
left out: by the distance for each of the others, after learning from the remaining four. Whoever is left out, the same
settings are best or within 0.02 dB of it (ridge: 0.03 dB), so they are fixed here. docs/audio.md says more. Without
data, made-up voices stand in, which say nothing about speech.

The distance is that of ``coupledict.audio.log_spectral_distance``, between predicted and true spectra.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import scipy.signal
from _data import Array
from _timing import table
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from coupledict.audio import BandwidthExtension, log_spectral_distance, narrow_band
from coupledict.audio._files import READABLE, read_wide
from coupledict.audio._frames import FIRST_HIGH, RATE, decibels, wide_spectra
from coupledict.audio._metrics import floor_of, frame_distances
from coupledict.experiments.sources import data_directory

N_NEIGHBORS = 160
ALPHA = 3.0  # of the ridge, for each frame
DEEPER = 10.0  # dB by which the second floor lies below the first
Speakers = dict[str, list[Array]]


def speaker(file: Path) -> str:
    """Return who speaks in a file: cmu_arctic_us_NAME_..., arctic_... (nobody knows), NUMBER-..."""
    parts = file.name.split("_")
    if parts[0] == "cmu":
        return parts[3]
    return "unnamed" if parts[0] == "arctic" else file.name.split("-")[0]


def load_speakers(given: str | None) -> Speakers | None:
    """Return the signals of each speaker, cut to an even number of samples."""
    directory = data_directory(given)
    if directory is None:
        return None
    folder = directory / "speech" if (directory / "speech").is_dir() else directory
    speakers: Speakers = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() in READABLE:
            signal = read_wide(file)[:, 0]
            speakers.setdefault(speaker(file), []).append(signal[: signal.size // 2 * 2])
    if len(speakers) < 2:
        raise FileNotFoundError(f"Expected speech of at least two speakers in '{folder}', found {len(speakers)}.")
    return speakers


def made_up_speakers(n: int = 4, seconds: float = 6.0) -> Speakers:
    """Return noises whose high band follows their low band."""
    speakers = {}
    for number in range(n):
        rng = np.random.default_rng(number)
        noise = rng.standard_normal(int(seconds * RATE))
        bright = np.repeat(rng.random(int(seconds * 10)), RATE // 10)
        dark = scipy.signal.lfilter([1], [1, -0.9], noise)
        speakers[f"voice {number}"] = [bright * noise + (1 - bright) * dark]
    return speakers


def low_bands(model: BandwidthExtension, signal: Array) -> tuple[Array, Array]:
    """Return the log-spectra of the narrow band that the model sees, and the levels they are relative to."""
    windows = [window for (window,) in model._analyse([narrow_band(signal)])]
    levels = [window.level[window.around(0)] for window in windows]
    return np.concatenate([model._low_band(window) for window in windows]), np.concatenate(levels)


Predictor = Callable[[Array], Array]


def rival(model: BandwidthExtension, training: list[Array], regressor: object) -> Predictor:
    """Fit a regressor of scikit-learn to the frames that the model learns from."""
    low, high = model._samples(training, np.random.default_rng(0))
    scaler = StandardScaler().fit(low)
    if isinstance(regressor, Ridge):
        regressor.set_params(alpha=ALPHA * len(low))
    regressor.fit(scaler.transform(low), high)  # type: ignore[attr-defined]

    def predict(signal: Array) -> Array:
        own, level = low_bands(model, signal)
        found: Array = regressor.predict(scaler.transform(own))  # type: ignore[attr-defined]
        return found + level[:, None]

    return predict


def distances(predict: Predictor, signals: list[Array]) -> tuple[float, float]:
    """Return the mean distance over frames, with both floors."""
    found: list[list[Array]] = [[], []]
    for signal in signals:
        truth = np.concatenate([decibels(part[:, FIRST_HIGH:]) for part in wide_spectra(signal)])
        predicted = predict(signal)
        for parts, below in zip(found, (0.0, DEEPER), strict=True):
            parts.append(frame_distances(truth, predicted, floor_of(signal) - below))
    return float(np.concatenate(found[0]).mean()), float(np.concatenate(found[1]).mean())


def sound(model: BandwidthExtension, signals: list[Array]) -> dict[str, float]:
    """Return what the widened signals of one speaker are like."""
    high_pass = scipy.signal.firwin(513, 4100, fs=RATE, pass_zero=False)
    lsd, levels, jumps, seconds, lengths = [], [], [], [], []
    for signal in signals:
        narrow = narrow_band(signal)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            wide = model.extend(narrow)
            times.append(time.perf_counter() - began)
        lsd.append(log_spectral_distance(signal, wide))
        true, ours = (scipy.signal.oaconvolve(one, high_pass, "same") for one in (signal, wide))
        levels.append(10 * np.log10(np.mean(ours**2) / np.mean(true**2)))
        jumps.append(np.abs(np.diff(wide)).max() / np.abs(np.diff(signal)).max())
        seconds.append(float(np.median(times)) / (signal.size / RATE))
        lengths.append(wide.size == 2 * narrow.size == signal.size)
    weights = [signal.size for signal in signals]
    return {
        "lsd": float(np.average(lsd, weights=weights)),
        "level": float(np.mean(levels)),
        "jump": float(np.max(jumps)),
        "seconds": float(np.mean(seconds)),
        "lengths": float(all(lengths)),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of distances, and one of how the widened signals are."""
    parser = argparse.ArgumentParser(description="Bandwidth extension, leaving one speaker out.")
    parser.add_argument("--data", metavar="DIR", help="folder of speech (else COUPLEDICT_DATA, else made up)")
    parser.add_argument("--speakers", nargs="+", metavar="NAME", help="leave out only these (all)")
    parser.add_argument("--jobs", type=int, default=1, help="threads (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    speakers = load_speakers(options.data)
    if speakers is None:
        print("Neither --data nor COUPLEDICT_DATA is set: made-up voices, which say nothing about speech.")
        speakers = made_up_speakers()
    names = [name for name in speakers if not options.speakers or name in options.speakers]
    methods: dict[str, dict[str, tuple[float, float]]] = {}
    sounds = {}
    for name in names:
        training = [signal for other, signals in speakers.items() if other != name for signal in signals]
        model = BandwidthExtension(n_jobs=options.jobs, random_state=options.seed)
        ridge = rival(model, training, Ridge())
        neighbours = rival(model, training, KNeighborsRegressor(N_NEIGHBORS))
        model.fit(training)
        own = speakers[name]
        predictors: dict[str, Predictor] = {
            "coupled dictionaries": lambda signal, m=model: m.predict_high_band(narrow_band(signal)),  # type: ignore[misc]
            "ridge": ridge,
            f"{N_NEIGHBORS} nearest neighbours": neighbours,
            "empty high band": lambda signal: np.full((1, 1), -np.inf),
        }
        for method, predict in predictors.items():
            methods.setdefault(method, {})[name] = distances(predict, own)
        sounds[name] = sound(model, own)
        print(f"{name}: done", flush=True)
    rows = []
    for method, found in methods.items():
        cells = [f"{found[name][0]:.2f}" for name in names]
        means = [f"{np.mean([found[name][floor] for name in names]):.2f}" for floor in range(2)]
        rows.append([method, *cells, *means])
    print("\nLog-spectral distance of predicted spectra from 4 to 8 kHz, dB")
    print(table(["", *names, "mean", "mean, floor at 90 dB"], rows))
    print("\nWidened signals")
    titles = {"lsd": "distance, dB", "level": "level of the high band, dB over the true one"}
    titles |= {"jump": "largest step between samples, over the true one", "seconds": "seconds a second of speech"}
    shown = [
        [title, *(f"{sounds[name][key]:.3g}" for name in names), f"{np.mean([sounds[n][key] for n in names]):.3g}"]
        for key, title in titles.items()
    ]
    print(table(["", *names, "mean"], shown))
    print(f"Lengths equal: {all(sounds[name]['lengths'] for name in names)}.", flush=True)


if __name__ == "__main__":
    main()
