"""Bandwidth extension: what it predicts, and what it must never do to a signal."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.signal import firwin, oaconvolve, resample
from sklearn.exceptions import NotFittedError

from coupledict.audio import (
    BandwidthExtension,
    _band_model,
    _frames,
    _synthesis,
    log_spectral_distance,
    narrow_band,
    telephone_band,
)
from coupledict.audio._layouts import NARROW, TELEPHONE
from coupledict.foundation.block_sizes import SIZES
from support.voices import RATE, voice

# The strongest high band, so that what must not happen to it would show.
SMALL = {"n_components": 48, "n_nonzero_coefs": 6, "n_dictionaries": 2, "strength": 1.0, "random_state": 0}
QUICK = SMALL | {"context": 0, "max_iter": 2}
LOW_PASS = firwin(801, 3700, fs=RATE)
HIGH_PASS = firwin(801, 4300, fs=RATE, pass_zero=False)


@pytest.fixture(scope="module")
def model():
    return BandwidthExtension(**SMALL).fit([voice(seed) for seed in range(3)])


@pytest.fixture(scope="module")
def truth():
    return voice(10)


@pytest.fixture(scope="module")
def narrow(truth):
    return narrow_band(truth)


@pytest.fixture(scope="module")
def wide(model, narrow):
    return model.extend(narrow)


def level(signal):
    return 10 * np.log10(np.mean(oaconvolve(signal, HIGH_PASS, "same") ** 2))


def spectra_by_hand(signal):
    """Log-spectra of the high band, frame by frame from the definition."""
    padded = np.concatenate([np.zeros(256), signal, np.zeros(512)])
    turn = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(512) / 512)
    frames = [padded[128 * t : 128 * t + 512] * turn for t in range(-(-len(signal) // 128))]
    return 10 * np.log10(np.abs(np.fft.fft(frames, axis=1)[:, :257]) ** 2 + 1e-30)


def distance_by_hand(truth, high):
    whole = spectra_by_hand(truth)
    floor = whole.max() - 80
    return np.mean(np.sqrt(np.mean((np.maximum(whole[:, 128:], floor) - np.maximum(high, floor)) ** 2, axis=1)))


def test_the_high_band_is_predicted_for_a_voice_it_never_heard(model, truth, narrow, wide):
    distance = -model.score([truth])
    mean = np.mean([spectra_by_hand(voice(seed))[:, 128:].mean(axis=0) for seed in range(3)], axis=0)
    empty = log_spectral_distance(truth, _frames.upsample(narrow))
    assert distance < 0.75 * distance_by_hand(truth, np.broadcast_to(mean, (len(truth) // 128, 129)))
    assert log_spectral_distance(truth, wide) < 0.5 * empty
    assert abs(level(wide) - level(truth)) < 3


def test_distances_are_those_of_the_definition(model, truth, narrow, wide):
    assert log_spectral_distance(truth, wide) == pytest.approx(distance_by_hand(truth, spectra_by_hand(wide)[:, 128:]))
    high = model.predict_high_band(narrow)
    assert high.shape == (len(truth) // 128, 129)
    assert -model.score([truth]) == pytest.approx(distance_by_hand(truth, high), rel=1e-5)
    both = [truth, voice(11, 1.0)]
    parts = [-model.score([signal]) * len(signal) for signal in both]
    assert -model.score(both) == pytest.approx(sum(parts) / sum(map(len, both)), rel=1e-5)
    assert log_spectral_distance(truth, truth) == 0


def test_the_low_band_is_the_signal(narrow, wide):
    assert wide.shape == (2 * narrow.size,)
    inner = slice(1000, -1000)
    resampled = resample(narrow, 2 * narrow.size)
    difference = oaconvolve(wide - resampled, LOW_PASS, "same")[inner]
    assert np.sqrt(np.mean(difference**2)) < 1e-3 * np.sqrt(np.mean(resampled**2))
    np.testing.assert_array_equal(_frames.upsample(narrow)[::2], narrow)


class EqualEverywhere:
    """A predictor of the same high band for every frame."""

    def predict(self, low):
        return np.full((len(low), 129), -30.0)


def test_the_high_band_comes_at_the_right_time(model, rng):
    burst = np.zeros(16_000)
    burst[6000:8000] = rng.standard_normal(2000)
    part = model.models_["narrow"]
    wide = [part.extend(window, EqualEverywhere(), 1.0) for (window,) in part.windows([burst])]
    high = oaconvolve(np.concatenate(wide), HIGH_PASS, "same") ** 2
    low = _frames.upsample(burst) ** 2
    centres = [np.dot(np.arange(32_000), energy) / energy.sum() for energy in (high, low)]
    assert abs(centres[0] - centres[1]) < 50


def test_no_clicks(truth, wide):
    assert np.abs(np.diff(wide)).max() < 1.5 * np.abs(np.diff(truth)).max()


@pytest.mark.parametrize("gain", [2.0, 1e-3, 3e4, -1.0])
def test_level_does_not_matter(model, narrow, wide, gain):
    np.testing.assert_allclose(model.extend(gain * narrow), gain * wide, atol=1e-9 * abs(gain))


def test_levels_of_the_training_do_not_matter(narrow):
    one, other = (
        BandwidthExtension(**QUICK).fit([voice(seed, 1.0) * factor**seed for seed in range(2)]).extend(narrow)
        for factor in (1.0, 10.0)
    )
    np.testing.assert_allclose(other, one, atol=1e-3)


@pytest.mark.parametrize("size", [1, 7, 5000, 10**6])
def test_blocks_give_the_same_bits(model, narrow, wide, size):
    narrow, wide = (narrow[:100], model.extend(narrow[:100])) if size == 1 else (narrow, wide)
    blocks = (narrow[start : start + size] for start in range(0, narrow.size, size))
    np.testing.assert_array_equal(np.concatenate(list(model.extend_blocks(blocks))), wide)


@pytest.mark.parametrize("segment", [8, 100])
def test_windows_do_not_show(model, narrow, wide, segment):
    with SIZES.changed(window_frames=segment):
        np.testing.assert_allclose(model.extend(narrow)[:8000], wide[:8000], atol=1e-6)
        high = model.predict_high_band(narrow)
    np.testing.assert_allclose(high, model.predict_high_band(narrow), atol=1e-3)


def test_training_in_windows():
    signals = [voice(seed, 1.0) for seed in range(3)]
    model = BandwidthExtension(**QUICK).fit(signals)
    with SIZES.changed(window_frames=64):
        other = BandwidthExtension(**QUICK).fit(signals)
    for kind, n in (("narrow", 3 * 125), ("telephone", 2 * 3 * 125)):
        ours, theirs = model.models_[kind], other.models_[kind]
        np.testing.assert_allclose(theirs.bands.high_mean, ours.bands.high_mean, atol=1e-4)
        assert theirs.n_samples == ours.n_samples == n


def test_long_signals_are_read_as_they_come(model, rng):
    taken = 0

    def blocks():
        nonlocal taken
        for _ in range(60):
            taken += 8000
            yield rng.standard_normal(8000)

    made = 0
    for wide in model.extend_blocks(blocks()):
        made += wide.size
        assert taken - made / 2 < 180_000
    assert made == 2 * taken == 60 * 16_000


def test_channels_are_widened_one_by_one(model, narrow):
    pair = np.stack([narrow[:6000], 3 * narrow[2000:8000]], axis=1)
    wide = model.extend(pair)
    assert wide.shape == (12_000, 2)
    for channel in range(2):
        np.testing.assert_array_equal(wide[:, channel], model.extend(pair[:, channel]))


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_short_signals(model, narrow, n, dtype):
    wide = model.extend((1000 * narrow[5000 : 5000 + n]).astype(dtype))
    assert wide.shape == (2 * n,)
    assert wide.dtype == dtype
    assert np.isfinite(wide).all()


def test_number_types(model, narrow, wide):
    np.testing.assert_allclose(model.extend(narrow.astype(np.float32)), wide, atol=1e-3)
    whole = np.rint(20_000 * narrow).astype(np.int16)
    exact = model.extend(whole.astype(np.float64))
    np.testing.assert_array_equal(model.extend(whole), np.rint(exact).astype(np.int16))
    np.testing.assert_array_equal(model.extend(whole.astype(np.int64)), np.rint(exact).astype(np.int64))
    loud = np.where(np.arange(4000) // 40 % 2, 32_767, -32_768).astype(np.int16)  # as a clipped recording is
    cut = model.extend(loud)
    np.testing.assert_array_equal(cut, np.clip(np.rint(model.extend(loud.astype(float))), -32_768, 32_767))
    top = np.full(300, np.iinfo(np.int64).max)
    assert (model.extend(top)[100:500] > 0).all()  # no overflow


@pytest.mark.parametrize("change", [np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2]])
def test_layouts_and_inputs_that_must_not_change(model, narrow, wide, change):
    signal = change(narrow.copy())
    signal.flags.writeable = False
    np.testing.assert_array_equal(model.extend(signal), wide)
    np.testing.assert_array_equal(signal, narrow)


def test_memory_maps(model, narrow, wide, tmp_path):
    np.save(tmp_path / "signal.npy", narrow)
    np.testing.assert_array_equal(model.extend(np.load(tmp_path / "signal.npy", mmap_mode="r")), wide)


def test_silence_and_constants(model, narrow, wide):
    assert not model.extend(np.zeros(3000)).any()
    np.testing.assert_allclose(model.extend(np.full(9000, 0.7))[6000:12_000], 0.7, atol=1e-9)
    gap = np.concatenate([narrow[:8000], np.zeros(20_000), narrow[:8000]])
    found = model.extend(gap)
    assert np.abs(found[17_000:54_000]).max() < 1e-9
    assert np.abs(found[:15_000] - wide[:15_000]).max() < 0.1


@pytest.mark.parametrize("frequency", [50, 440, 1000, 3000, 3990])
def test_tones_do_not_whistle(model, frequency):
    tone = np.sin(2 * np.pi * frequency * np.arange(8000) / 8000)
    high = model.extend(tone) - _frames.upsample(tone)
    assert np.sqrt(np.mean(high**2)) < 0.2 * np.sqrt(np.mean(tone**2))


def test_threads_and_seeds(narrow):
    signals = [voice(0, 1.0)]
    one, two, other = (
        BandwidthExtension(**QUICK | parameters).fit(signals).extend(narrow)
        for parameters in ({}, {"n_jobs": 2}, {"random_state": 1})
    )
    np.testing.assert_array_equal(two, one)
    assert not np.array_equal(other, one)


@pytest.mark.parametrize("layout", [NARROW, TELEPHONE], ids=lambda layout: layout.kind)
def test_predictions_are_the_mean_over_dictionaries(model, narrow, layout):
    part = model.models_[layout.kind]
    bands = part.bands
    (window,) = next(part.windows([narrow]))
    features = (_band_model.low_band(window, 2, layout) - bands.low_mean) @ bands.projection
    features = np.pad(features, ((0, 0), (0, 1)), constant_values=bands.constant)
    each = [learner.predict([features, None], view=1) @ bands.basis + bands.high_mean for learner in part.learners]
    expected = (np.mean(each, axis=0) + window.level[window.around(0), None])[:, -129:]
    np.testing.assert_allclose(model.predict_high_band(narrow, kind=layout.kind), expected, atol=1e-4)
    assert len(each) == 2
    assert not np.allclose(each[0], each[1], atol=0.1)


def test_neighbours_stand_where_they_should(rng):
    spectrum = rng.standard_normal((30, 257)) + 1j * rng.standard_normal((30, 257))
    level = np.zeros(30)
    band = np.maximum(10 * np.log10(np.abs(spectrum[:, 2:124]) ** 2), -90)
    found = _frames.low_band(spectrum, level, 2, NARROW.low)
    assert found.shape == (22, 5 * 122)
    np.testing.assert_allclose(found[3], np.concatenate([band[7 + k] for k in (-4, -2, 0, 2, 4)]), rtol=1e-4)


def test_levels_are_those_of_the_loudest_frame_around(rng):
    spectrum = np.full((400, 257), 1e-3, complex)
    spectrum[200, 60] = 10.0
    found = _frames.levels(spectrum, NARROW.low)
    energy = np.full(400, 10 * np.log10(122e-6))
    energy[200] = 20
    loudest = [energy[max(t - 80, 0) : t + 81].max() for t in range(400)]
    expected = [np.mean([loudest[min(max(s, 0), 399)] for s in range(t - 40, t + 41)]) for t in range(400)]
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_overlap_add_is_the_inverse(rng):
    signal = oaconvolve(rng.standard_normal(4096), HIGH_PASS, "same")
    spectrum = _frames.spectra(signal)
    back = _synthesis.overlap_add(spectrum[:, 128:], 128)
    np.testing.assert_allclose(back[384:-384], signal[384 : back.size - 384], atol=1e-3)


def test_the_fine_structure_is_a_mirror(rng):
    signal = rng.standard_normal(4096)
    mirrored = _frames.spectra(signal * (-1.0) ** np.arange(4096))
    found = _synthesis.excitation(_frames.spectra(signal), NARROW)
    np.testing.assert_allclose(found[:, :-2], mirrored[:, 128:-2], atol=1e-9)
    assert not found[:, -2:].any()


def test_the_fine_structure_of_telephones_is_that_of_one_signal(rng):
    times, signal = np.arange(8192), rng.standard_normal(8192)
    signal = oaconvolve(signal, firwin(801, [400, 3200], fs=RATE, pass_zero=False), "same")
    found = _synthesis.overlap_add(_synthesis.excitation(_frames.spectra(signal), TELEPHONE), TELEPHONE.first)
    # Modulation gives both sidebands. The mirrored one is the lower of 6750 Hz, the shifted one the upper of 4750 Hz.
    mirrored = 2 * signal * np.cos(2 * np.pi * 6750 / RATE * times)
    shifted = 2 * signal * np.cos(2 * np.pi * 4750 / RATE * times)
    for made, band in ((mirrored, (3700, 5800)), (shifted, (6700, 7700))):
        only = firwin(801, band, fs=RATE, pass_zero=False)
        ours, theirs = (oaconvolve(one[: found.size], only, "same")[1500:-1500] for one in (found, made))
        np.testing.assert_allclose(ours, theirs, atol=2e-2 * np.abs(theirs).max())


def test_windows_cover_a_signal_once(rng):
    signal = rng.standard_normal(1000)
    cut = list(_frames.windows([signal[:3], signal[3:700], signal[700:]], 64, 10))
    np.testing.assert_array_equal(np.concatenate([window[10 : 10 + n] for window, n in cut]), signal)
    padded = np.concatenate([np.zeros(10), signal, np.zeros(100)])
    for number, (window, _) in enumerate(cut):
        np.testing.assert_array_equal(window, padded[64 * number : 64 * number + 84])


def test_narrow_band(truth):
    narrow = narrow_band(truth[:-1])
    assert narrow.shape == (truth.size // 2 - 1,)
    assert narrow_band(truth.astype(np.float32)).dtype == np.float32
    pair = np.stack([truth, -truth], axis=1)
    np.testing.assert_array_equal(narrow_band(pair)[:, 1], -narrow_band(truth))
    low = oaconvolve(truth, LOW_PASS, "same")[::2]
    difference = oaconvolve(narrow_band(truth), firwin(401, 3500, fs=8000), "same") - oaconvolve(
        low, firwin(401, 3500, fs=8000), "same"
    )
    assert np.abs(difference[500:-500]).max() < 1e-3 * np.abs(low).max()
    with pytest.raises(ValueError, match="at 16000 Hz, got 8000 Hz"):
        narrow_band(truth, sampling_rate=8000)


def test_most_frames(truth):
    model = BandwidthExtension(**QUICK | {"n_components": 16, "n_dictionaries": 1, "context": 1, "max_samples": 200})

    def counts(signals):
        return [part.n_samples for part in model.fit(signals).models_.values()]

    assert counts([truth, truth[:8000]]) == [200, 200]
    assert counts([truth[:8001]]) == [63, 126]
    assert counts([np.stack([truth, truth], axis=1)[:8000]]) == [126, 200]
    model.set_params(context=0, max_samples=2000)
    assert counts([truth[:8000], np.zeros(80_000)]) == [63, 126]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 0}, "n_components to be at least 1"),
        ({"n_nonzero_coefs": 0}, "n_nonzero_coefs to be at least 1"),
        ({"context": -1}, "context to be at least 0"),
        ({"n_features": 0}, "n_features to be at least 1"),
        ({"n_details": 0}, "n_details to be at least 1"),
        ({"n_dictionaries": 0}, "n_dictionaries to be at least 1"),
        ({"max_samples": 0}, "max_samples to be at least 1"),
        ({"n_components": 10_000}, "at least n_components=10000 frames"),
        ({"strength": -0.1}, "strength to be a number from 0 to 1, got -0.1"),
        ({"strength": np.nan}, "strength to be a number from 0 to 1, got nan"),
    ],
)
def test_parameters_that_are_wrong(truth, change, message):
    with pytest.raises(ValueError, match=message):
        BandwidthExtension(**change).fit([truth])


@pytest.mark.parametrize(
    ("signals", "error", "message"),
    [
        (np.zeros(100), TypeError, "list of arrays, got one array"),
        ("speech", TypeError, "list of arrays, got 'speech'"),
        (3, TypeError, "list of arrays, got 3"),
        ([], ValueError, "at least one signal"),
        ([np.zeros(100_000)], ValueError, "frames that are not silent, got 0"),
        ([np.zeros((2, 2, 2))], ValueError, r"signals\[0\] to have shape"),
        ([[np.nan] * 10], ValueError, r"signals\[0\] to be finite, got NaN or infinity at sample 0"),
        ([[True, False]], TypeError, "dtype bool"),
    ],
)
def test_signals_to_learn_from_that_are_wrong(signals, error, message):
    with pytest.raises(error, match=message):
        BandwidthExtension().fit(signals)


@pytest.mark.parametrize(
    ("signal", "error", "message"),
    [
        ([0.0, np.inf, 0.0], ValueError, "NaN or infinity at sample 1"),
        (np.zeros((2, 2, 2)), ValueError, r"got shape \(2, 2, 2\)"),
        (3.0, ValueError, "shape"),
        (np.zeros(3, complex), TypeError, "complex"),
        (np.zeros(3, bool), TypeError, "bool"),
        (["a"], TypeError, "dtype <U1"),
    ],
)
def test_signals_to_widen_that_are_wrong(model, signal, error, message):
    with pytest.raises(error, match=message):
        model.extend(signal)
    with pytest.raises(error):
        list(model.extend_blocks([signal]))


def test_rates_that_are_wrong(model, narrow):
    with pytest.raises(ValueError, match=r"the signal at a whole number of Hz, 8000 or more, got 7999 Hz\."):
        model.extend(narrow, sampling_rate=7999)
    with pytest.raises(ValueError, match="learn from at 16000 Hz, got 8000"):
        BandwidthExtension().fit([narrow], sampling_rate=8000)
    with pytest.raises(TypeError, match="to be a number"):
        model.extend(narrow, sampling_rate="8000")


def test_other_mistakes(model, narrow, truth):
    with pytest.raises(NotFittedError):
        BandwidthExtension().extend(narrow)
    with pytest.raises(ValueError, match="Expected blocks that differ only in length"):
        list(model.extend_blocks([np.zeros((4, 2)), np.zeros((4, 1))]))
    with pytest.raises(ValueError, match="one dimension"):
        model.predict_high_band(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="the same number of samples"):
        log_spectral_distance(truth, truth[1:])
    with pytest.raises(ValueError, match="one dimension"):
        log_spectral_distance(np.zeros((4, 2)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match="at least two samples"):
        model.score([[1.0]])


def test_no_frame_is_louder_than_true_ones(rng):
    high = rng.normal(-50, 20, (400, 129)).astype(np.float32)
    mean = high.mean(axis=0)
    found = _synthesis.expand(high, mean, -30.0, 1.5)
    assert (10 * np.log10(np.mean(10 ** (found / 10), axis=1)) < -30.0 + 1e-6).all()
    free = _synthesis.expand(high, mean, 1e9, 1.5)
    np.testing.assert_allclose(free - mean, 1.5 * (high - mean), atol=1e-3)


@pytest.mark.parametrize(("shrunk", "expected"), [(1.0, 1.0), (1 / 1.5, 1.5), (0.1, 2.5)])
def test_expansion_undoes_what_prediction_shrinks(rng, shrunk, expected):
    level = rng.normal(-50, 10, (2000, 1))
    truth = level + 10 * np.log10(rng.exponential(size=(2000, 129)))  # a noise around each level
    level = level + 10 * np.log10(np.mean(10 ** (truth / 10)) / np.mean(10 ** (level / 10)))  # of equal energy
    mean = level.mean() + np.zeros(129)
    predicted = mean + shrunk * (level - mean)
    assert _synthesis.find_expansion(predicted, truth, mean, 100.0) == pytest.approx(expected, abs=0.03)


def test_expansion_is_found_in_fit(model, truth):
    assert all(1 <= part.expansion < 1.6 for part in model.models_.values())
    few = BandwidthExtension(n_components=60, n_nonzero_coefs=2, n_dictionaries=1, random_state=0).fit([truth[:10_000]])
    assert few.models_["narrow"].expansion == 1  # too few frames to try


def test_strength_is_a_scale(model, narrow):
    other = copy.copy(model)
    levels = {}
    for strength in (0, 0.1, 0.2, 0.4, 0.5, 0.75, 1):
        wide = other.set_params(strength=strength).extend(narrow, band="narrow")
        if strength:
            levels[strength] = level(wide)
        else:
            np.testing.assert_allclose(wide, _frames.upsample(narrow), atol=1e-15)
    assert sorted(levels.values()) == list(levels.values())
    assert levels[0.4] - levels[0.2] == pytest.approx(12.04, abs=0.1)
    assert model.strength == 1


def test_telephone_speech_is_filled_from_where_it_ends(model, truth):
    call = telephone_band(truth)
    added = model.extend(call, band="telephone") - _frames.upsample(call)
    narrow_only = model.extend(call, band="narrow") - _frames.upsample(call)
    gap = firwin(801, [3500, 3900], fs=RATE, pass_zero=False)
    ours, theirs, true = (np.mean(oaconvolve(one, gap, "same") ** 2) for one in (added, narrow_only, truth))
    assert 0.1 < ours / true < 10
    assert theirs < 0.01 * true
    below = oaconvolve(added, firwin(801, 3200, fs=RATE), "same")
    assert np.mean(below**2) < 1e-6 * np.mean(_frames.upsample(call) ** 2)


def test_telephones_need_their_own_dictionaries(model, truth):
    call = telephone_band(truth)
    high = spectra_by_hand(truth)[:, 128:]
    found = {kind: model.predict_high_band(call, kind=kind) for kind in ("narrow", "telephone")}
    errors = {kind: np.sqrt(np.mean((predicted - high) ** 2)) for kind, predicted in found.items()}
    assert errors["telephone"] < 0.9 * errors["narrow"]
    with pytest.raises(ValueError, match="Expected kind to be one of"):
        model.predict_high_band(call, kind="radio")


def test_telephone_band(truth):
    call = telephone_band(truth)
    assert call.shape == (truth.size // 2,)
    smooth = telephone_band(truth, companded=False)
    noise = 10 * np.log10(np.mean((call - smooth) ** 2) / np.mean(smooth**2))
    assert -45 < noise < -30  # eight bits on a logarithmic scale: about 38 dB whatever the level
    quiet = telephone_band(1e-3 * truth)
    np.testing.assert_allclose(quiet, 1e-3 * call, atol=1e-12)
    assert telephone_band((1000 * truth).astype(np.int16)).dtype == np.int16
    assert not telephone_band(np.zeros(100)).any()
    pair = np.stack([truth, truth], axis=1)
    np.testing.assert_array_equal(telephone_band(pair)[:, 1], call)
    for frequency, passed in ((100, 0.0), (1000, 1.0), (3900, 0.0)):
        tone = np.sin(2 * np.pi * frequency * np.arange(16_000) / RATE)
        inner = telephone_band(tone, companded=False)[2000:-2000]
        assert np.abs(inner).max() == pytest.approx(passed, abs=0.02)
