"""Bandwidth models and sound files: what is saved is loaded, what is damaged is refused, nothing is half written."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest
import soundfile

import coupledict
from coupledict import ModelFileError
from coupledict.audio import Band, BandwidthExtension, WidenedFile, _files, narrow_band
from coupledict.files import read_model, write_model
from coupledict.foundation.block_sizes import SIZES
from support.voices import resampled, telephone, voice

NAMES = ("low_mean", "projection", "high_mean", "basis")


@pytest.fixture(scope="module")
def model():
    small = {"n_components": 32, "n_nonzero_coefs": 4, "n_dictionaries": 2, "random_state": 0}
    return BandwidthExtension(**small).fit([voice(0), voice(1)])


@pytest.fixture(scope="module")
def narrow():
    return narrow_band(voice(2, 2.0))


@pytest.fixture
def small_blocks():
    with SIZES.changed(sound_samples=3000, window_frames=16):
        yield


@pytest.fixture
def source(narrow, tmp_path):
    soundfile.write(tmp_path / "narrow.wav", narrow, 8000, "DOUBLE")
    return tmp_path / "narrow.wav"


def test_a_saved_model_extends_to_the_same_bits(model, narrow, tmp_path):
    model.save(tmp_path / "model")
    same = BandwidthExtension.load(tmp_path / "model")
    assert same.get_params() == model.get_params()
    for kind, part in model.models_.items():
        other = same.models_[kind]
        assert (other.n_samples, other.bands.ceiling) == (part.n_samples, part.bands.ceiling)
        np.testing.assert_array_equal(same.extend(narrow, band=kind), model.extend(narrow, band=kind))
    same.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_half_precision(model, narrow, tmp_path):
    model._to_state(half=True).write(tmp_path / "half")
    model.save(tmp_path / "full")
    assert (tmp_path / "half").stat().st_size < 0.55 * (tmp_path / "full").stat().st_size
    same = BandwidthExtension.load(tmp_path / "half")
    for kind, part in model.models_.items():
        for name in NAMES:
            rounded = getattr(part.bands, name).astype(np.float16).astype(np.float32)
            np.testing.assert_array_equal(getattr(same.models_[kind].bands, name), rounded)
    assert np.abs(same.predict_high_band(narrow) - model.predict_high_band(narrow)).mean() < 0.3


def _saved(model, folder):
    model.save(folder / "model")
    return folder / "model"


def test_the_model_that_ships(narrow):
    model = BandwidthExtension.pretrained(n_jobs=2)
    assert model.n_jobs == 2
    wide = model.extend(narrow)
    assert wide.shape == (2 * narrow.size,)
    assert np.abs(np.fft.rfft(wide)[wide.size // 4 + 100 :]).max() > 0


def without(key):
    return lambda tensors, metadata: (tensors.pop(key, None), metadata.pop(key, None))


def changing(part, key, value):
    return lambda tensors, metadata: (tensors if part == "tensors" else metadata).update({key: value})


def changing_fact(key, value):
    return lambda tensors, metadata: metadata["narrow"].update({key: value})


@pytest.mark.parametrize(
    "damage",
    [
        *(without(f"narrow.{key}") for key in ("projection", "low_atoms", "refitted", "view_weights")),
        *(without(key) for key in ("parameters", "narrow", "telephone", "telephone.basis")),
        changing("metadata", "parameters", {"context": -1}),
        changing("metadata", "parameters", {"context": 1}),
        changing("metadata", "parameters", {"speed": 2}),
        changing("metadata", "parameters", [3]),
        changing_fact("ceiling", "loud"),
        changing_fact("ceiling", None),
        changing_fact("n_samples", "many"),
        changing_fact("n_nonzero", 0),
        lambda tensors, metadata: metadata["narrow"].pop("constant"),
        changing("metadata", "half", {"narrow.basis": [1, 2]}),
        changing("metadata", "half", {"nothing": [1]}),
        changing("tensors", "narrow.low_atoms", np.zeros((2, 32, 3), np.float32)),
        changing("tensors", "narrow.low_atoms", np.zeros((2, 32), np.float32)),
        changing("tensors", "narrow.high_atoms", np.zeros((2, 31, 16), np.float32)),
        changing("tensors", "narrow.high_mean", np.zeros(129)),
        changing("tensors", "narrow.view_weights", np.zeros((2, 2))),
        changing("tensors", "narrow.basis", np.zeros((0, 129), np.float32)),
        changing("metadata", "telephone", {}),
        changing("metadata", "telephone", 3),
        changing("tensors", "telephone.high_mean", np.zeros(129, np.float32)),
    ],
)
def test_models_that_contradict_themselves(model, tmp_path, damage):
    path = _saved(model, tmp_path)
    tensors, metadata = read_model(path)
    damage(tensors, metadata)
    write_model(path, tensors, metadata)
    with pytest.raises(ModelFileError, match=r"Expected '.*model' to hold a complete model, but"):
        BandwidthExtension.load(path)


def test_a_model_of_another_kind(model, tmp_path):
    tensors, metadata = read_model(_saved(model, tmp_path))
    write_model(tmp_path / "model", tensors, metadata | {"estimator": "SuperResolution"})
    with pytest.raises(ModelFileError, match="to hold a BandwidthExtension, got a SuperResolution"):
        BandwidthExtension.load(tmp_path / "model")
    with pytest.raises(ModelFileError, match="to hold a complete model, but"):
        coupledict.load(tmp_path / "model")


@pytest.mark.usefixtures("small_blocks")
def test_files_hold_what_extend_returns(model, narrow, source, tmp_path):
    target = tmp_path / "wide.wav"
    assert model.extend_file(source, target).n_clipped == 0
    found, rate = soundfile.read(target)
    assert rate == 16_000
    np.testing.assert_array_equal(found, model.extend(narrow))
    assert soundfile.info(target).subtype == "DOUBLE"


def test_channels_of_a_file(model, narrow, tmp_path):
    pair = np.stack([narrow, narrow[::-1]], axis=1)
    soundfile.write(tmp_path / "pair.wav", pair, 8000, "DOUBLE")
    model.extend_file(tmp_path / "pair.wav", tmp_path / "wide.wav")
    np.testing.assert_array_equal(soundfile.read(tmp_path / "wide.wav")[0], model.extend(pair))


@pytest.mark.parametrize(
    ("kind", "subtype", "suffix", "expected"),
    [
        ("wav", "PCM_16", ".wav", "PCM_16"),
        ("wav", "PCM_24", ".flac", "PCM_24"),
        ("wav", "ULAW", ".wav", "PCM_16"),
        ("wav", "FLOAT", ".flac", "PCM_16"),
        ("flac", "PCM_16", ".ogg", "VORBIS"),
        ("ogg", "VORBIS", ".wav", "PCM_16"),
    ],
)
def test_formats(model, narrow, tmp_path, kind, subtype, suffix, expected):
    soundfile.write(tmp_path / f"narrow.{kind}", narrow, 8000, subtype)
    target = tmp_path / f"wide{suffix.upper()}"
    model.extend_file(tmp_path / f"narrow.{kind}", target)
    info = soundfile.info(target)
    assert (info.subtype, info.samplerate, info.frames) == (expected, 16_000, 2 * narrow.size)
    widened = model.extend(soundfile.read(tmp_path / f"narrow.{kind}")[0])
    error = soundfile.read(target)[0] - widened
    assert np.sqrt(np.mean(error**2)) < (0.2 if suffix == ".ogg" else 2e-4) * np.sqrt(np.mean(widened**2)) + 1e-4


@pytest.mark.parametrize("rate", [11_025, 16_000, 44_100])
def test_files_of_any_rate(model, tmp_path, rate):
    call = telephone(voice(2, 2.0), rate)
    pair = np.stack([call, 0.5 * call[::-1]], axis=1)
    soundfile.write(tmp_path / "call.wav", pair, rate, "DOUBLE")
    with SIZES.changed(sound_samples=3000):
        done = model.extend_file(tmp_path / "call.wav", tmp_path / "wide.wav")
    found, out = soundfile.read(tmp_path / "wide.wav")
    assert isinstance(done, WidenedFile)
    assert (done.sampling_rate, done.output_rate, done.n_samples) == (rate, out, len(found))
    assert (out, done.n_channels, done.band.kind, done.widened) == (max(rate, 16_000), 2, "telephone", True)
    np.testing.assert_array_equal(found, model.extend(pair, sampling_rate=rate))
    model.extend_file(tmp_path / "call.wav", tmp_path / "other.wav", band="narrow")
    np.testing.assert_array_equal(
        soundfile.read(tmp_path / "other.wav")[0], model.extend(pair, sampling_rate=rate, band="narrow")
    )


def test_one_voice_on_two_channels(model, narrow, tmp_path):
    signal = resampled(narrow, 8000, 16_000)
    soundfile.write(tmp_path / "pair.wav", np.stack([signal, signal], axis=1), 16_000, "DOUBLE")
    assert model.extend_file(tmp_path / "pair.wav", tmp_path / "wide.wav").n_channels == 2
    found = soundfile.read(tmp_path / "wide.wav")[0]
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    np.testing.assert_array_equal(found[:, 0], model.extend(signal, sampling_rate=16_000))


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT"])
def test_wide_files_keep_their_samples(model, tmp_path, subtype):
    soundfile.write(tmp_path / "wide.wav", 0.9 * voice(2, 1.0), 44_100, subtype)
    with pytest.warns(UserWarning, match=r"wide\.wav' already has a band up to .*, so nothing was added"):
        done = model.extend_file(tmp_path / "wide.wav", tmp_path / "same.wav")
    assert (done.widened, done.band.kind) == (False, "wide")
    assert str(done).endswith("same.wav at 44.1 kHz, with nothing added.")
    for dtype in ("int32", "float64"):
        same, before = (soundfile.read(tmp_path / name, dtype=dtype)[0] for name in ("same.wav", "wide.wav"))
        np.testing.assert_array_equal(same, before)


@pytest.mark.parametrize(
    ("suffix", "subtype", "step"), [(".wav", "PCM_16", 2**-15), (".wav", "PCM_24", 2**-23), (".flac", "PCM_16", 2**-15)]
)
def test_samples_are_rounded_to_the_nearest(tmp_path, suffix, subtype, step):
    samples = np.random.default_rng(0).uniform(-0.99, 0.99, (5000, 1))
    _files.write_blocks(tmp_path / f"a{suffix}", [samples], 16_000, 1, subtype)
    found = soundfile.read(tmp_path / f"a{suffix}", always_2d=True)[0]
    assert np.abs(found - samples).max() <= 0.5001 * step


def test_wav_files_beyond_4_gigabytes(tmp_path):
    for n, kind in ((250, b"RIFF"), (251, b"RF64")):
        path, samples = tmp_path / f"{n}.wav", np.random.default_rng(0).uniform(-0.5, 0.5, (n, 2))
        _files.write_blocks(path, [samples], 16_000, 2, "PCM_16", n, most_riff=1000)
        assert path.read_bytes()[:4] == kind
        np.testing.assert_allclose(soundfile.read(path)[0], samples, atol=2**-15)


@pytest.mark.parametrize(
    ("name", "channels", "rate"),
    [("a.flac", 9, 16_000), ("a.ogg", 256, 16_000), ("a.ogg", 1, 384_000), ("a.flac", 1, 88_204)],
)
def test_formats_that_cannot_hold_the_result(model, tmp_path, name, channels, rate):
    soundfile.write(tmp_path / "many.wav", np.zeros((100, channels)), rate)
    refusal = f"can hold {channels} channels at {rate} Hz, got .*Use .wav"
    with pytest.raises(ValueError, match=refusal):
        model.extend_file(tmp_path / "many.wav", tmp_path / name)
    with pytest.raises(ValueError, match=refusal):
        _files.check_source(tmp_path / "many.wav", tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == ["many.wav"]


def test_a_telephone_codec(model, narrow, tmp_path):
    soundfile.write(tmp_path / "a.wav", narrow, 8000, "GSM610")
    done = model.extend_file(tmp_path / "a.wav", tmp_path / "wide.wav")
    info = soundfile.info(tmp_path / "wide.wav")
    assert (info.subtype, info.frames) == ("PCM_16", done.n_samples)


def test_a_band_that_is_known(model, narrow, source, tmp_path):
    known = Band(0.0, 4000.0, 8000, "narrow")
    assert model.extend_file(source, tmp_path / "wide.wav", band=known).band is known
    with pytest.raises(ValueError, match="Expected band to be None"):
        model.extend_file(source, tmp_path / "other.wav", band="high")
    assert not (tmp_path / "other.wav").exists()


@pytest.mark.usefixtures("small_blocks")
def test_what_is_too_loud_is_cut_and_told(model, narrow, tmp_path):
    loud = narrow / np.abs(narrow).max()
    soundfile.write(tmp_path / "loud.wav", loud, 8000, "PCM_16")
    exact = model.extend(soundfile.read(tmp_path / "loud.wav")[0])
    n_cut = model.extend_file(tmp_path / "loud.wav", tmp_path / "wide.wav").n_clipped
    assert n_cut == np.count_nonzero(np.abs(exact) > 1) > 0
    np.testing.assert_allclose(soundfile.read(tmp_path / "wide.wav")[0], np.clip(exact, -1, 1), atol=1e-4)


@pytest.mark.usefixtures("small_blocks")
def test_nothing_is_half_written(model, source, tmp_path):
    target = tmp_path / "wide.wav"
    target.write_text("before")

    def interrupt(progress):
        if progress.stage == "widening" and progress.completed > progress.total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy.copy(model).set_params(callback=interrupt).extend_file(source, target, force=True)
    assert target.read_text() == "before"
    assert {file.name for file in tmp_path.iterdir()} == {"narrow.wav", "wide.wav"}


def test_a_file_may_replace_itself(model, narrow, source):
    model.extend_file(source, source, force=True)
    np.testing.assert_array_equal(soundfile.read(source)[0], model.extend(narrow))


def test_files_that_cannot_be_written(model, source, tmp_path):
    with pytest.raises(ValueError, match=r"ending in \.wav, \.flac, \.ogg, got"):
        model.extend_file(source, tmp_path / "wide.mp4")
    (tmp_path / "wide.wav").touch()
    with pytest.raises(FileExistsError, match="exists already"):
        model.extend_file(source, tmp_path / "wide.wav")
    (tmp_path / "folder.wav").mkdir()
    with pytest.raises(IsADirectoryError):
        model.extend_file(source, tmp_path / "folder.wav", force=True)
    with pytest.raises(FileNotFoundError, match="Expected the folder"):
        model.extend_file(source, tmp_path / "nowhere" / "wide.wav")


def test_files_that_cannot_be_widened(model, narrow, source, tmp_path):
    target = tmp_path / "wide.wav"
    with pytest.raises(FileNotFoundError, match="Expected a sound file, found none"):
        model.extend_file(tmp_path / "nothing.wav", target)
    (tmp_path / "text.wav").write_text("text")
    with pytest.raises(OSError, match="damaged or not a sound file"):
        model.extend_file(tmp_path / "text.wav", target)
    (tmp_path / "bytes.raw").write_bytes(bytes(100))
    with pytest.raises(OSError, match="damaged or not a sound file"):
        model.extend_file(tmp_path / "bytes.raw", target)
    soundfile.write(tmp_path / "rate.wav", narrow, 7_999)
    with pytest.raises(ValueError, match=r"rate\.wav' at a whole number of Hz, 8000 or more, got 7999 Hz"):
        model.extend_file(tmp_path / "rate.wav", target)
    soundfile.write(tmp_path / "nan.wav", np.where(np.arange(100) == 7, np.nan, 0), 8000, "FLOAT")
    with pytest.raises(ValueError, match="NaN or infinity at sample 7"):
        model.extend_file(tmp_path / "nan.wav", target)
    assert not target.exists()


def test_empty_files(model, tmp_path):
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 8000)
    model.extend_file(tmp_path / "empty.wav", tmp_path / "wide.wav")
    assert soundfile.info(tmp_path / "wide.wav").frames == 0


def test_without_soundfile(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ImportError, match=r'pip install "coupledict\[audio\]"'):
        model.extend_file(tmp_path / "narrow.wav", tmp_path / "wide.wav")
