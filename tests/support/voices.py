"""Made-up voices at 16 kHz: vowels, hisses and pauses, whose high band follows from their low band."""

from __future__ import annotations

import numpy as np
from scipy.signal import butter, firwin, lfilter, oaconvolve, resample_poly, sosfilt

RATE = 16_000


def resonator(frequency, width):
    radius = np.exp(-np.pi * width / RATE)
    poles = [1, -2 * radius * np.cos(2 * np.pi * frequency / RATE), radius**2]
    return [sum(poles)], poles


def vowel(rng, n, pitch):
    steps = np.cumsum(pitch * (1 + 0.02 * rng.standard_normal(n)) / RATE)
    sound = np.diff(np.floor(steps), prepend=0.0) + 0.003 * rng.standard_normal(n)
    for frequency in rng.uniform([300, 900, 2300, 4300], [800, 1800, 2900, 5200]):
        sound = lfilter(*resonator(frequency, 0.06 * frequency + 60), sound)
    return sound / np.abs(sound).max()


def hiss(rng, n):
    band = butter(2, [rng.uniform(2000, 3000), rng.uniform(6500, 7500)], "bandpass", fs=RATE, output="sos")
    sound = sosfilt(band, rng.standard_normal(n))
    return 0.4 * sound / np.abs(sound).max()


def voice(seed, seconds=4.0):
    """Return a voice of its own pitch; the same seed gives the same samples."""
    rng = np.random.default_rng(seed)
    pitch, parts, total = rng.uniform(90, 220), [], 0
    while total < seconds * RATE:
        n = int(RATE * rng.uniform(0.08, 0.25))
        kind = rng.choice(3, p=[0.5, 0.35, 0.15])
        sound = vowel(rng, n, pitch) if kind == 0 else hiss(rng, n) if kind == 1 else np.zeros(n)
        parts.append(sound * np.sin(np.linspace(0, np.pi, n)) ** 0.5)
        total += n
    sound = np.concatenate(parts)[: int(seconds * RATE)]
    return 0.5 * sound + 1e-4 * rng.standard_normal(sound.size)


def resampled(sound, rate, other):
    """Return a sound at another rate, by a steep filter at half the lower rate."""
    common = np.gcd(rate, other)
    longer = max(rate, other) // common
    return resample_poly(sound, other // common, rate // common, window=firwin(200 * longer + 1, 0.99 / longer))


def companded(sound):
    """Return a sound with the noise of a telephone codec: 8 bits on a logarithmic scale (mu-law)."""
    scale = 2 * np.abs(sound).max()
    steps = np.rint(127 * np.log1p(255 * np.abs(sound) / scale) / np.log(256))
    return np.sign(sound) * scale * (256 ** (steps / 127) - 1) / 255


def telephone(wide, rate=8000):
    """Return a voice as a telephone sends it, 300 to 3400 Hz and companded at 8 kHz; then at any rate."""
    band = firwin(129, [300, 3450], window=("kaiser", 5.0), fs=8000, pass_zero=False)
    return resampled(companded(oaconvolve(resampled(wide, RATE, 8000), band, "same")), 8000, rate)
