"""A synthetic voice, for users without a recording: syllables of a hiss and a vowel, with the melody of a sentence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.signal import butter, firwin, lfilter, oaconvolve, resample_poly, sosfilt

Floats = npt.NDArray[np.float64]

RATE, TELEPHONE_RATE = 16_000, 8000
STEP = 80  # samples, 5 ms, during which the mouth keeps its shape
#: Formants of vowels in Hz: where the mouth resonates.
VOWELS = {
    "a": (750, 1250, 2600, 3600, 4700),
    "e": (500, 1850, 2550, 3600, 4700),
    "i": (300, 2200, 2950, 3650, 4800),
    "o": (450, 850, 2500, 3400, 4600),
    "u": (330, 900, 2300, 3300, 4500),
}
#: Bands of hisses in Hz, and how loud they are.
HISSES = {"s": (4200, 7600, 0.25), "x": (2200, 5800, 0.3), "f": (1500, 7500, 0.08), "t": (3000, 7000, 0.2)}
#: Its syllables: a hiss, if any, and two vowels, gliding from the first to the second.
SENTENCES = ("sao", "xee", "tou", "aie", "fau", "sii"), ("toe", "suu", "iaa", "xoo", "fea")
PITCHES = (132.0, 94.0)  # Hz at the beginning and at the end of a sentence
VOICED, HISSED, BURST, PAUSE = 0.21, 0.11, 0.03, 0.35  # seconds of sounds, and between sentences
TELEPHONE = (300, 3400)  # Hz


def telephone_voice() -> Floats:
    """Return a voice in the band of a telephone, at 8 kHz; about three seconds, always the same."""
    rng = np.random.default_rng(0)
    parts = [part for sentence in SENTENCES for part in (_say(rng, sentence), np.zeros(int(PAUSE * RATE)))]
    wide = np.concatenate(parts)
    wide += 1e-4 * rng.standard_normal(wide.size)
    band = firwin(129, TELEPHONE, window=("kaiser", 5.0), fs=TELEPHONE_RATE, pass_zero=False)
    narrow = oaconvolve(resample_poly(wide, TELEPHONE_RATE, RATE), band, "same")
    return np.asarray(0.7 * narrow / np.abs(narrow).max())


def _say(rng: np.random.Generator, sentence: tuple[str, ...]) -> Floats:
    n = int(VOICED * RATE)
    pitches = np.geomspace(*PITCHES, n * len(sentence)).reshape(len(sentence), n)
    parts = []
    for syllable, pitch in zip(sentence, pitches, strict=True):
        if syllable[0] in HISSES:
            parts.append(_hiss(rng, syllable[0]))
        parts.append(_glide(rng, syllable[-2], syllable[-1], pitch))
    return np.concatenate(parts)


def _glide(rng: np.random.Generator, begin: str, end: str, pitch: Floats) -> Floats:
    """Return the pulses of a voice, filtered by a mouth that changes its shape."""
    unsteady = pitch * (1 + 0.01 * lfilter([0.02], [1, -0.98], rng.standard_normal(pitch.size)))
    pulses = np.diff(np.floor(np.cumsum(unsteady / RATE)), prepend=0.0) + 0.004 * rng.standard_normal(pitch.size)
    sound = lfilter([1], [1, -0.9], pulses)  # the throat attenuates high frequencies
    shapes = np.linspace(VOWELS[begin], VOWELS[end], pitch.size // STEP + 1)
    for formants in shapes.T:
        sound = _resonate(sound, formants)
    return np.asarray(_fade(sound / np.abs(sound).max(), 0.03))


def _resonate(sound: Floats, frequencies: Floats) -> Floats:
    """Return a sound filtered by a moving resonance, given every `STEP` samples."""
    out, state = np.empty_like(sound), np.zeros(2)
    for start, frequency in zip(range(0, sound.size, STEP), frequencies, strict=False):
        radius = np.exp(-np.pi * (50 + 0.04 * frequency) / RATE)
        poles = [1, -2 * radius * np.cos(2 * np.pi * frequency / RATE), radius**2]
        part = slice(start, start + STEP)
        out[part], state = lfilter([sum(poles)], poles, sound[part], zi=state)
    return out


def _hiss(rng: np.random.Generator, kind: str) -> Floats:
    low, high, loudness = HISSES[kind]
    band = butter(2, [low, high], "bandpass", fs=RATE, output="sos")
    sound = sosfilt(band, rng.standard_normal(int((BURST if kind == "t" else HISSED) * RATE)))
    return np.asarray(_fade(loudness * sound / np.abs(sound).max(), 0.01))


def _fade(sound: Floats, seconds: float) -> Floats:
    """Return a sound with a fade at both ends."""
    n = int(seconds * RATE)
    ramp = 0.5 - 0.5 * np.cos(np.pi * np.arange(n) / n)
    envelope = np.concatenate([ramp, np.ones(sound.size - 2 * n), ramp[::-1]])
    return np.asarray(sound * envelope)
