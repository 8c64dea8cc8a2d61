"""How often the band of speech is recognised, at several sampling rates and after what recordings go through.

The folder ``speech`` of the data has folders ``arctic``, ``audiomnist`` and ``librispeech`` of wide-band files at
16 kHz. The limits in ``coupledict.audio._measurement`` were chosen on arctic and the first half of the files of
audiomnist (``--set tune``).
The other half and librispeech are for figures to report (``--set report``). One limit, ``EDGE``, was raised from 14 to
17 dB after these had shown that a dull voice was taken for narrow, so figures for wide speech are not quite untouched.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import scipy.signal
from _data import Array
from _main import Options, join, main, table

from coupledict.audio import measure_band
from coupledict.audio._files import READABLE, read_wide
from coupledict.audio._measurement import Kind

RATE = 16_000
RATES = (8000, 11_025, 16_000, 44_100, 48_000)
Way = Callable[[Array, int, np.random.Generator], Array]


@cache
def load(directory: Path | None, which: str) -> list[Array]:
    """Return the signals of a set."""
    if directory is None:
        raise SystemExit("Expected --data or COUPLEDICT_DATA to name a folder of speech, got neither.")

    def files(name: str) -> list[Path]:
        return sorted(file for file in (directory / "speech" / name).glob("*") if file.suffix.lower() in READABLE)

    digits = files("audiomnist")
    half = len(digits) // 2
    chosen = files("arctic") + digits[:half] if which == "tune" else files("librispeech") + digits[half:]
    return [read_wide(file)[:, 0] for file in chosen]


def resampled(signal: Array, rate: int, other: int) -> Array:
    """Return a signal at another rate, by a filter that is not the package's own."""
    common = int(np.gcd(rate, other))
    return np.asarray(scipy.signal.resample_poly(signal, other // common, rate // common))


def low_pass(signal: Array, rate: int, frequency: float) -> Array:
    """Return what lies below a frequency, with a slope of some 250 Hz."""
    taps = scipy.signal.firwin(2 * (rate // 100) + 1, frequency, window=("kaiser", 8.0), fs=rate)
    return np.asarray(scipy.signal.oaconvolve(signal, taps, "same"))


def companded(signal: Array) -> Array:
    """Return a signal in 8 bits on a logarithmic scale (mu-law)."""
    scale = 2 * np.abs(signal).max()
    steps = np.rint(127 * np.log1p(255 * np.abs(signal) / scale) / np.log(256))
    return np.asarray(np.sign(signal) * scale * (256 ** (steps / 127) - 1) / 255)


def noisy(signal: Array, decibels: float, rng: np.random.Generator) -> Array:
    """Return a signal with white noise that is so many dB weaker."""
    return np.asarray(signal + rng.standard_normal(signal.size) * signal.std() * 10 ** (-decibels / 20))


def narrow(signal: Array) -> Array:
    """Return a signal at 8 kHz, by a filter that ends at 3.8 kHz."""
    return low_pass(signal, RATE, 3800)[::2]


def telephone(signal: Array) -> Array:
    """Return a signal at 8 kHz in the band of a telephone, companded."""
    band = scipy.signal.firwin(129, [300, 3450], window=("kaiser", 5.0), fs=8000, pass_zero=False)
    return companded(scipy.signal.oaconvolve(narrow(signal), band, "same"))


WAYS: dict[str, tuple[Kind, Way]] = {
    "narrow": ("narrow", lambda signal, rate, _: resampled(narrow(signal), 8000, rate)),
    "narrow, noise at -40 dB": (
        "narrow",
        lambda signal, rate, rng: noisy(resampled(narrow(signal), 8000, rate), 40, rng),
    ),
    "narrow, noise at -30 dB": (
        "narrow",
        lambda signal, rate, rng: noisy(resampled(narrow(signal), 8000, rate), 30, rng),
    ),
    "narrow, noise at -20 dB": (
        "narrow",
        lambda signal, rate, rng: noisy(resampled(narrow(signal), 8000, rate), 20, rng),
    ),
    "narrow, mu-law at 8 kHz": ("narrow", lambda signal, rate, _: resampled(companded(narrow(signal)), 8000, rate)),
    "narrow, mu-law at the rate": ("narrow", lambda signal, rate, _: companded(resampled(narrow(signal), 8000, rate))),
    "telephone": ("telephone", lambda signal, rate, _: resampled(telephone(signal), 8000, rate)),
    "telephone, noise at -30 dB": (
        "telephone",
        lambda signal, rate, rng: noisy(resampled(telephone(signal), 8000, rate), 30, rng),
    ),
    "wide": ("wide", lambda signal, rate, _: resampled(signal, RATE, rate)),
    "wide, noise at -30 dB": ("wide", lambda signal, rate, rng: noisy(resampled(signal, RATE, rate), 30, rng)),
    "wide, mu-law at the rate": ("wide", lambda signal, rate, _: companded(resampled(signal, RATE, rate))),
    "wide, up to 7 kHz": ("wide", lambda signal, rate, _: resampled(low_pass(signal, RATE, 7000), RATE, rate)),
    "wide, 6 dB an octave weaker": (
        "wide",
        lambda signal, rate, _: resampled(scipy.signal.lfilter([1], [1, -0.8], signal), RATE, rate),
    ),
}


def pieces(signals: list[Array], seconds: float | None) -> list[Array]:
    """Return pieces of so many seconds that are not silent, or the signals as they are."""
    if seconds is None:
        return signals
    n = int(seconds * RATE)
    cut = [signal[start : start + n] for signal in signals for start in range(0, signal.size - n + 1, n)]
    return [piece for piece in cut if np.abs(piece).max() > 1e-3]


def cases(options: Options) -> dict[str, float | None]:
    """Return lengths in seconds; None stands for whole files."""
    return {"whole files": None, "pieces of 1 s": 1.0}


def run(seconds: float | None, options: Options) -> dict[str, dict[int, Counter[Kind]]]:
    """Return, by way and sampling rate, how many pieces are taken for what."""
    signals, rng = load(options.data, options.set), np.random.default_rng(0)
    if options.quick:
        signals = [signal[: 2 * RATE] for signal in signals[:3]]
    cut = options.repeats * pieces(signals, seconds)
    return {
        name: {
            rate: Counter(measure_band(way(piece, rate, rng), rate).kind for piece in cut)
            for rate in RATES
            if kind != "wide" or rate != 8000
        }
        for name, (kind, way) in WAYS.items()
    }


def report(results: Mapping[str, dict[str, dict[int, Counter[Kind]]]], options: Options) -> str:
    blocks = []
    for title, found in results.items():
        n = next(iter(found["narrow"].values())).total()
        blocks.append(f"{n} {title}: share that is recognised, and what the others are taken for")
        rows = [[name, *(_cell(found[name].get(rate), kind) for rate in RATES)] for name, (kind, _) in WAYS.items()]
        blocks.append(table(["", *(f"{rate / 1000:g} kHz" for rate in RATES)], rows))
    return join(*blocks)


def _cell(found: Counter[Kind] | None, kind: Kind) -> str:
    if found is None:
        return "-"
    others = ", ".join(f"{n} {other}" for other, n in found.items() if other != kind)
    return f"{found[kind] / found.total():.2f}" + (f" ({others})" if others else "")


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", choices=("tune", "report"), default="report", help="files (%(default)s)")


if __name__ == "__main__":
    main(
        cases,
        run,
        report,
        data="folder with a folder speech; nothing stands in for it",
        repeats=(1, "draws of the noise"),
        extend=extend,
    )
