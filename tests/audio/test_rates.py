"""Speech at any sampling rate: its band is recognised, its samples stay, and nothing depends on blocks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.signal

from coupledict.audio import (
    Band,
    BandwidthExtension,
    _widening,
    measure_band,
    narrow_band,
    output_rate,
)
from coupledict.audio._measurement import measure_blocks
from coupledict.audio._rates import resample, resampled_length
from coupledict.foundation.block_sizes import SIZES
from support.cases import first_and_slow
from support.voices import companded, resampled, telephone, voice

RATES = (8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000)


@pytest.fixture(scope="module")
def model():
    small = {"n_components": 32, "n_nonzero_coefs": 4, "n_dictionaries": 2, "random_state": 0}
    return BandwidthExtension(**small).fit([voice(0), voice(1)])


@pytest.fixture(scope="module")
def wide():
    return voice(2, 2.0)


@pytest.fixture(scope="module")
def narrow(wide):
    return narrow_band(wide)


def noise(sound, decibels):
    """Return white noise, so many dB below a sound."""
    return np.random.default_rng(7).standard_normal(sound.size) * np.sqrt(np.mean(sound**2)) * 10 ** (-decibels / 20)


def low_pass(sound, rate, frequency):
    taps = scipy.signal.firwin(2 * (rate // 100) + 1, frequency, window=("kaiser", 8.0), fs=rate)
    return scipy.signal.oaconvolve(sound, taps, "same")


def hum(sound, rate):
    times = np.arange(sound.size) / rate
    return sum(0.1 / k * np.sin(2 * np.pi * 50 * k * times) for k in (1, 2, 3, 5)) * np.abs(sound).max()


WAYS = {
    "as it is": lambda sound, rate: sound,
    "companded": lambda sound, rate: companded(sound),
    "noise": lambda sound, rate: sound + noise(sound, 40),
    "16 bit": lambda sound, rate: np.rint(3000 * sound / np.abs(sound).max()),
    "hum": lambda sound, rate: sound + hum(sound, rate),
    "whistle": lambda sound, rate: sound + 0.01 * np.sin(2 * np.pi * 0.45 * np.arange(sound.size)),
    "low-pass": lambda sound, rate: low_pass(sound + noise(sound, 50), rate, 0.36 * rate) if rate > 16_000 else sound,
    "very soft": lambda sound, rate: 1e-9 * sound,
}


def rates_and_ways(rates, ways):
    """Return every way at some rates, and every rate with some way; the rest is slow."""
    ways = list(ways)
    often = [(rate, way) for rate in rates if rate in (8000, 11_025, 44_100) for way in ways]
    once = [(rate, ways[number % len(ways)]) for number, rate in enumerate(rates)]
    return first_and_slow([*often, *once], product(rates, ways))


@pytest.mark.parametrize(("rate", "way"), rates_and_ways(RATES, WAYS))
def test_narrow_bands_are_recognised(narrow, rate, way):
    band = measure_band(WAYS[way](resampled(narrow, 8000, rate), rate), rate)
    assert (band.kind, band.sampling_rate) == ("narrow", rate)
    assert 3650 < band.high <= 4400


@pytest.mark.parametrize(("rate", "way"), rates_and_ways(RATES, WAYS))
def test_telephone_bands_are_recognised(wide, rate, way):
    if way == "whistle" and rate == 8000:
        return  # it lies where the band has ended
    band = measure_band(WAYS[way](telephone(wide, rate), rate), rate)
    assert band.kind == "telephone"
    assert 3100 <= band.high <= 3650
    if way != "hum":
        assert 125 <= band.low <= 375


@pytest.mark.parametrize(("rate", "way"), rates_and_ways(RATES[1:], [way for way in WAYS if way != "whistle"]))
def test_wide_bands_are_recognised(wide, rate, way):
    band = measure_band(WAYS[way](resampled(wide, 16_000, rate), rate), rate)
    assert band.kind == "wide"
    assert 4600 < band.high <= rate / 2


@pytest.mark.parametrize("rate", [8000, 16_000, 48_000])
def test_a_band_that_ends_early(wide, rate):
    band = measure_band(low_pass(resampled(wide, 16_000, rate), rate, 2000), rate)
    assert band.kind == "telephone"
    assert abs(band.high - 2000) <= 250


@pytest.mark.parametrize("end", [5200, 7000])
def test_other_bands_are_wide(wide, end):
    band = measure_band(low_pass(resampled(wide, 16_000, 44_100), 44_100, end), 44_100)
    assert band.kind == "wide"
    assert abs(band.high - end) <= 250


@pytest.mark.parametrize("rate", [11_025, 16_000, 44_100])
def test_soft_filters_leave_an_edge(narrow, rate):
    """Filters with a wide slope leave mirror images above 4 kHz."""
    common = np.gcd(rate, 8000)
    soft = scipy.signal.resample_poly(narrow, rate // common, 8000 // common, window=("kaiser", 10.0))
    assert measure_band(soft, rate).kind == "narrow"


def test_a_weak_high_band_is_still_one(wide):
    """A voice whose spectrum falls by 12 dB an octave more has no edge."""
    dull = scipy.signal.lfilter([1], np.poly([0.8, 0.8]), wide)
    assert measure_band(dull, 16_000).kind == "wide"


def test_a_step_of_the_spectrum_is_no_end(wide):
    """What lies above 3.8 kHz is 10 dB weaker, as in dull voices, and the band goes on."""
    low = low_pass(wide, 16_000, 3800)
    assert measure_band(low + 10 ** (-10 / 20) * (wide - low), 16_000).kind == "wide"
    assert measure_band(low + 10 ** (-30 / 20) * (wide - low), 16_000).kind == "narrow"


def test_bands_that_cannot_be_measured():
    for rate in (8000, 44_100):
        for signal in (np.zeros(0), np.zeros((0, 2)), np.zeros(50_000), np.ones(100), np.full(50_000, 1e-200)):
            assert measure_band(signal, rate) == Band(0.0, 0.0, rate, "unknown")
    assert "too little sound" in str(measure_band([], 8000))


def test_channels_are_measured_together(wide, narrow):
    slow = resampled(narrow, 8000, 16_000)
    assert measure_band(np.stack([slow, np.zeros_like(slow)], axis=1), 16_000).kind == "narrow"
    assert measure_band(np.stack([slow, wide], axis=1), 16_000).kind == "wide"


def test_the_measure_depends_neither_on_blocks_nor_on_the_scale(wide, monkeypatch):
    signal = telephone(wide, 22_050)[:, None]
    whole = measure_blocks([signal], 22_050)
    assert measure_blocks(np.array_split(signal, [1, 5, 700, 20_000]), 22_050) == whole
    assert measure_band(signal[:, 0] * 2.0**40, 22_050) == whole
    assert measure_band(np.rint(3e4 * signal / np.abs(signal).max()).astype(np.int16), 22_050).kind == whole.kind


@pytest.mark.parametrize("rate", [0, -1, 7999, 8000.5, np.nan, np.inf, 2**31 - 1, 2**31])
def test_rates_that_are_none(model, rate):
    for use in (measure_band, output_rate, lambda signal, rate: model.extend(signal, sampling_rate=rate)):
        with pytest.raises(ValueError, match="Expected the signal at a"):
            use(rate, *[]) if use is output_rate else use(np.zeros(10), rate)
    with pytest.raises(ValueError, match="Expected the signal at a"):
        next(model.extend_blocks([np.zeros(10)], sampling_rate=rate))


@pytest.mark.parametrize("rate", ["8000", None, True])
def test_rates_that_are_no_numbers(rate):
    with pytest.raises(TypeError, match="to be a number"):
        output_rate(rate)


def test_the_rate_of_the_output():
    assert [output_rate(rate) for rate in (8000, 11_025, 16_000.0, 44_100)] == [16_000, 16_000, 16_000, 44_100]


PAIRS = [
    (16_000, 8000),
    (44_100, 8000),
    (11_025, 8000),
    (16_000, 44_100),
    (11_025, 16_000),
    (16_000, 48_000),
    (44_056, 8000),
]


@pytest.mark.parametrize(("rate", "other"), PAIRS)
def test_resampling_follows_the_formula(rate, other):
    """Each sample is a sum over samples nearby, weighted by the low-pass filter where they lie."""
    rng, n, lower = np.random.default_rng(3), 400, min(rate, other)
    signal = rng.standard_normal((n, 2))
    found = np.concatenate(list(resample([signal], rate, other)))
    assert len(found) == resampled_length(n, rate, other) == int(n * other / rate + 0.5)
    distance = lower * (np.arange(len(found))[:, None] / other - np.arange(n) / rate)
    window = np.i0(8.0 * np.sqrt(np.maximum(0, 1 - (distance / 64) ** 2))) / np.i0(8.0) * (np.abs(distance) <= 64)
    weights = window * 0.95 * np.sinc(0.95 * distance) * lower / rate
    np.testing.assert_allclose(found, weights @ signal, atol=2e-4)


@pytest.mark.parametrize(("rate", "other"), PAIRS)
def test_resampling_does_not_depend_on_blocks(rate, other):
    signal = np.random.default_rng(3).standard_normal((7 * rate // 100, 1))
    with SIZES.changed(resampled_samples=100):
        whole = np.concatenate(list(resample([signal], rate, other)))
        parts = np.concatenate(list(resample(np.array_split(signal, [1, 2, 300]), rate, other)))
    np.testing.assert_array_equal(parts, whole)
    np.testing.assert_allclose(np.concatenate(list(resample([signal], rate, other))), whole, atol=1e-12)


def test_from_16_to_8_khz_as_the_model_learned_it(wide):
    found = np.concatenate(list(resample([wide[:, None]], 16_000, 8000)))
    np.testing.assert_array_equal(found[:, 0], narrow_band(wide))


def power(signal, rate, low, high):
    spectrum = np.abs(np.fft.rfft(signal * np.hanning(signal.size))) ** 2
    frequencies = np.fft.rfftfreq(signal.size, 1 / rate)
    return spectrum[(frequencies >= low) & (frequencies < high)].sum()


@pytest.mark.parametrize(
    "rate",
    [pytest.param(rate, marks=[] if rate in (8000, 11_025, 16_000, 44_100) else pytest.mark.slow) for rate in RATES],
)
def test_a_high_band_is_added_at_every_rate(model, narrow, rate):
    signal = resampled(narrow, 8000, rate)
    found, out = model.extend(signal, sampling_rate=rate), output_rate(rate)
    assert found.size == resampled_length(signal.size, rate, out)
    at_16 = resampled(found, out, 16_000)
    expected = model.extend(narrow)
    ratio = power(at_16, 16_000, 4200, 7500) / power(expected, 16_000, 4200, 7500)
    assert abs(10 * np.log10(ratio)) < 2  # filters change what the model reads near 4 kHz
    own = resampled(signal, rate, out)
    if rate >= 16_000:
        added = found - signal
        own = signal
    else:
        added = found[: own.size] - own[: found.size]
    assert power(added, out, 0, 3500) < 1e-4 * power(own, out, 0, 3500)
    if out > 17_000:
        assert power(added, out, 8100, out / 2) < 1e-5 * power(added, out, 4000, 8000)


def test_an_added_band_stays_in_place(model, narrow):
    """The high band at 48 kHz is that at 16 kHz, neither earlier nor later."""
    signal = resampled(narrow, 8000, 48_000)
    added = resampled(model.extend(signal, sampling_rate=48_000) - signal, 48_000, 16_000)
    slow = resampled(narrow, 8000, 16_000)
    expected = model.extend(slow, sampling_rate=16_000) - slow
    lags = np.arange(-8, 9)
    middle = slice(1000, -1000)
    match = [np.dot(added[middle], np.roll(expected, lag)[middle]) for lag in lags]
    assert lags[int(np.argmax(match))] == 0


@pytest.mark.parametrize("rate", [11_025, 44_100])
def test_an_impulse_stays_in_place(rate):
    signal = np.zeros((rate, 1))
    signal[rate // 3 // 441 * 441] = 1
    other = 16_000
    found = np.concatenate(list(resample([signal], rate, other)))[:, 0]
    assert np.argmax(found) == round(rate // 3 // 441 * 441 * other / rate)


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_samples_without_anything_to_add_stay_the_same_bits(rate):
    """A model that adds nothing returns the samples of the input."""

    def nothing(blocks, n_samples=None, kind="narrow"):
        for block in blocks:
            twice = np.repeat(block, 2, axis=0)
            yield twice, twice

    signal = np.random.default_rng(1).standard_normal((90_001, 2)).astype(np.float32)
    found = _widening.widen_array(nothing, signal, rate, "narrow")
    np.testing.assert_array_equal(found, signal)
    assert found.dtype == np.float32


@pytest.mark.parametrize("rate", [8000, 11_025, 44_100])
def test_streams_do_not_depend_on_blocks(model, narrow, rate):
    signal = np.stack([resampled(narrow, 8000, rate), resampled(narrow[::-1], 8000, rate)], axis=1)
    cuts = np.random.default_rng(0).integers(0, len(signal), 20)
    with SIZES.changed(window_frames=64, resampled_samples=1000, added_samples=700):
        expected = model.extend(signal, sampling_rate=rate)
        for blocks in ([signal], np.split(signal, np.sort(cuts))):
            found = np.concatenate(list(model.extend_blocks(blocks, sampling_rate=rate)))
            np.testing.assert_array_equal(found, expected)
        blocks = np.array_split(signal, 300)
        found = np.concatenate(list(_widening.widen_blocks(model._widen, blocks, rate, None, measured=1)))
        np.testing.assert_array_equal(found, expected)
        mono = np.concatenate(list(model.extend_blocks([signal[:, 0]], sampling_rate=rate)))
    np.testing.assert_array_equal(mono, expected[:, 0])
    assert list(model.extend_blocks([], sampling_rate=rate)) == []


def test_a_stream_is_not_held():
    """Output comes while input goes on, as soon as the beginning is measured."""
    given = []

    def source():
        for number in range(200):
            given.append(number)
            yield np.random.default_rng(number).standard_normal(48_000) * 0.1

    def passing(blocks, n_samples=None, kind="narrow"):
        for block in blocks:
            yield (twice := np.repeat(block, 2, axis=0)), twice

    stream = _widening.widen_blocks(passing, source(), 48_000, "narrow", measured=1)
    next(stream)
    assert len(given) < 6


def test_the_first_seconds_tell_the_band_of_a_stream(model, wide, narrow):
    slow = resampled(narrow, 8000, 16_000)
    kinds = []

    def asked(blocks, n_samples=None, kind="narrow"):
        kinds.append(kind)
        for block in blocks:
            yield (twice := np.repeat(block, 2, axis=0)), twice

    list(_widening.widen_blocks(asked, [telephone(wide, 16_000)], 16_000, None))
    list(_widening.widen_blocks(asked, [slow], 16_000, None))
    list(_widening.widen_blocks(asked, [slow], 16_000, "telephone"))
    list(_widening.widen_blocks(asked, [wide], 16_000, Band(0.0, 4000.0, 16_000, "narrow")))
    assert kinds == ["telephone", "narrow", "telephone", "narrow"]
    with pytest.warns(UserWarning, match="already has a band .*, so nothing was added"):
        found = np.concatenate(list(model.extend_blocks([wide], sampling_rate=16_000)))
    np.testing.assert_array_equal(found, wide)


@pytest.mark.parametrize("n_blocks", [1, 7])
def test_only_the_first_seconds_are_measured(wide, narrow, n_blocks):
    kinds = []

    def asked(blocks, n_samples=None, kind="narrow"):
        kinds.append(kind)
        for block in blocks:
            yield (twice := np.repeat(block, 2, axis=0)), twice

    signal = np.concatenate([resampled(narrow, 8000, 16_000), wide])
    blocks = np.array_split(signal, n_blocks)
    found = np.concatenate(list(_widening.widen_blocks(asked, blocks, 16_000, None, measured=2)))
    assert kinds == ["narrow"]
    np.testing.assert_array_equal(found, signal)


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.float64])
def test_what_is_wide_stays_as_it_is(model, wide, dtype):
    signal = (3000 * wide).astype(dtype)
    with pytest.warns(UserWarning, match=r"The signal already has a band up to \d\.\d kHz.*band='narrow'") as caught:
        found = model.extend(signal, sampling_rate=16_000)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(found, signal)
    assert found.dtype == dtype
    assert found is not signal
    assert not np.array_equal(model.extend(signal, sampling_rate=16_000, band="narrow"), signal)


def test_what_is_wide_at_a_low_rate_is_resampled(model, wide):
    signal = resampled(wide, 16_000, 11_025)
    with pytest.warns(UserWarning, match="nothing was added"):
        found = model.extend(signal, sampling_rate=11_025)
    assert found.size == resampled_length(signal.size, 11_025, 16_000)
    assert power(found, 16_000, 5600, 8000) < 1e-6 * power(found, 16_000, 0, 5000)


@pytest.mark.parametrize("band", ["wide", "", 4000, ["narrow"]])
def test_bands_that_are_none(model, narrow, band):
    with pytest.raises(ValueError, match="Expected band to be None, 'narrow', 'telephone' or a Band, got"):
        model.extend(narrow, band=band)


def test_silent_and_short_signals(model):
    for rate in (8000, 11_025, 48_000):
        assert not model.extend(np.zeros((1000, 2)), sampling_rate=rate).any()
        for n in (0, 1, 2, 100):
            found = model.extend(np.ones(n), sampling_rate=rate)
            assert found.size == resampled_length(n, rate, output_rate(rate))
            assert np.isfinite(found).all()


def test_channels_that_are_the_same_are_widened_once(model, narrow):
    signal, seen = resampled(narrow, 8000, 16_000), []

    def counting(blocks, n_samples=None, kind="narrow"):
        for block in blocks:
            seen.append(block.shape[1])
            yield (twice := np.repeat(block, 2, axis=0)), twice

    _widening.widen_array(counting, np.stack([signal] * 3, axis=1), 16_000, None)
    assert set(seen) == {1}
    pair = model.extend(np.stack([signal, signal], axis=1), sampling_rate=16_000)
    np.testing.assert_array_equal(pair[:, 0], pair[:, 1])
    np.testing.assert_array_equal(pair[:, 0], model.extend(signal, sampling_rate=16_000))
    one = model.extend(np.stack([signal, np.zeros_like(signal)], axis=1), sampling_rate=16_000)
    np.testing.assert_array_equal(one[:, 0], pair[:, 0])
    assert not one[:, 1].any()
