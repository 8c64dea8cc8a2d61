"""``coupledict widen``, as a user runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import soundfile

from coupledict.audio import BandwidthExtension, narrow_band
from support.command import call as run
from support.command import refused
from support.voices import resampled, telephone, voice


@pytest.fixture
def source(tmp_path):
    soundfile.write(tmp_path / "narrow.wav", 0.5 * narrow_band(voice(3, 1.0)), 8000)
    return tmp_path / "narrow.wav"


def test_widen(source, tmp_path):
    target = tmp_path / "wide.flac"
    done = run("widen", source, "-o", target)
    assert done.returncode == 0, done.stderr
    expected = (
        f"{source}: 8 kHz, 1 channel, band ends at 4.0 kHz (narrow). Wrote {target} at 16 kHz, with a band up to 8 kHz."
    )
    assert done.stdout.strip() == expected
    found, rate = soundfile.read(target)
    assert rate == 16_000
    expected = BandwidthExtension.pretrained().extend(soundfile.read(source)[0])
    np.testing.assert_allclose(found, np.clip(expected, -1, 1), atol=1e-4)
    assert "exists already" in refused(run("widen", source, "-o", target))
    assert run("widen", source, "-o", target, "--force", "--threads", 1).returncode == 0


def test_strength(source, tmp_path):
    assert run("widen", source, "-o", tmp_path / "wide.wav", "--strength", 0.5).returncode == 0
    found, _ = soundfile.read(tmp_path / "wide.wav")
    expected = BandwidthExtension.pretrained().set_params(strength=0.5).extend(soundfile.read(source)[0])
    np.testing.assert_allclose(found, np.clip(expected, -1, 1), atol=1e-4)
    refused(run("widen", source, "-o", tmp_path / "loud.wav", "--strength", 2))
    assert not (tmp_path / "loud.wav").exists()


@pytest.mark.slow
def test_train_and_keep_the_model(source, tmp_path):
    (tmp_path / "speech" / "deeper").mkdir(parents=True)
    soundfile.write(tmp_path / "speech" / "a.wav", voice(0), 16_000)
    soundfile.write(tmp_path / "speech" / "deeper" / "b.flac", voice(1), 16_000)
    (tmp_path / "speech" / "notes.txt").write_text("not sound")
    first, second, kept = tmp_path / "first.wav", tmp_path / "second.wav", tmp_path / "model"
    done = run("widen", source, "-o", first, "--train", tmp_path / "speech", "--save-model", kept)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    said, last = done.stdout.splitlines()
    assert f"Wrote {first} at 16 kHz" in said
    assert last == f"Wrote {kept}; use it with --model."
    assert run("widen", source, "-o", second, "--model", kept).returncode == 0
    np.testing.assert_array_equal(soundfile.read(first)[0], soundfile.read(second)[0])


@pytest.mark.slow
def test_training_files_of_other_rates(source, tmp_path):
    folder = tmp_path / "speech"
    folder.mkdir()
    soundfile.write(folder / "a.wav", resampled(voice(0), 16_000, 48_000), 48_000)
    soundfile.write(folder / "b.wav", telephone(voice(1), 16_000), 16_000)
    done = run("widen", source, "-o", tmp_path / "wide.wav", "--train", folder)
    assert done.returncode == 0, done.stderr
    assert "1 of 2 files" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "m", "--train", "t"], "Expected --model or --train, got both"),
        (["--save-model", "m"], "Expected --save-model only with --train"),
        (["--train", "nowhere"], "Expected a folder of speech to learn from, found none at 'nowhere'."),
        (["--model", "nowhere"], "nowhere"),
    ],
)
def test_options_that_do_not_fit(source, tmp_path, arguments, sentence):
    assert sentence in refused(run("widen", source, "-o", tmp_path / "wide.wav", *arguments))
    assert not (tmp_path / "wide.wav").exists()


def test_files_that_do_not_fit(source, tmp_path):
    target = tmp_path / "wide.wav"
    assert "ending in .wav, .flac, .ogg" in refused(run("widen", source, "-o", tmp_path / "wide.txt"))
    (tmp_path / "empty").mkdir()
    assert "Expected sound files" in refused(run("widen", source, "-o", target, "--train", tmp_path / "empty"))
    soundfile.write(tmp_path / "rate.wav", voice(0, 0.1), 6000)
    assert "8000 or more, got 6000 Hz" in refused(run("widen", tmp_path / "rate.wav", "-o", target))
    soundfile.write(tmp_path / "rate.wav", np.zeros((800, 9)), 48_000)
    assert "can hold 9 channels at 48000 Hz" in refused(
        run("widen", tmp_path / "rate.wav", "-o", tmp_path / "wide.flac")
    )
    soundfile.write(tmp_path / "empty" / "rate.wav", voice(0, 0.1), 8000)
    assert "at 16000 Hz, got 8000 Hz" in refused(run("widen", source, "-o", target, "--train", tmp_path / "empty"))
    (tmp_path / "kept").touch()
    refusal = refused(
        run("widen", source, "-o", target, "--train", tmp_path / "empty", "--save-model", tmp_path / "kept")
    )
    assert "exists already" in refusal
    assert not target.exists()


def test_a_telephone_call_at_48_khz(tmp_path):
    wide = voice(5, 2.0)
    soundfile.write(tmp_path / "call.wav", np.stack([0.3 * telephone(wide, 48_000)] * 2, axis=1), 48_000, "PCM_24")
    done = run("widen", tmp_path / "call.wav", "-o", tmp_path / "wide.wav", "--json")
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["band"]["kind"] == "telephone"
    assert 3300 < reported["band"]["high"] < 3650
    assert (reported["widened"], reported["input_rate"], reported["output_rate"], reported["channels"]) == (
        True,
        48_000,
        48_000,
        2,
    )
    info = soundfile.info(tmp_path / "wide.wav")
    assert (info.samplerate, info.channels, info.frames, info.subtype) == (48_000, 2, reported["samples"], "PCM_24")
    said = run("widen", tmp_path / "call.wav", "-o", tmp_path / "again.wav", "--band", "narrow").stdout
    assert "call.wav: 48 kHz, 2 channels, band ends at 4.0 kHz (narrow). Wrote" in said


def test_what_is_wide_is_copied_and_told(tmp_path):
    soundfile.write(tmp_path / "wide.wav", 0.5 * voice(5, 2.0), 16_000)
    done = run("widen", tmp_path / "wide.wav", "-o", tmp_path / "same.wav")
    assert done.returncode == 0
    assert "Warning: '" in done.stderr
    assert "already has a band up to " in done.stderr
    assert done.stdout.strip().endswith("same.wav at 16 kHz, with nothing added.")
    assert (tmp_path / "same.wav").read_bytes() == (tmp_path / "wide.wav").read_bytes()


def test_what_is_cut_is_told(tmp_path):
    narrow = narrow_band(voice(4, 1.0))
    soundfile.write(tmp_path / "loud.wav", narrow / np.abs(narrow).max(), 8000)
    done = run("widen", tmp_path / "loud.wav", "-o", tmp_path / "wide.wav")
    assert done.returncode == 0
    assert done.stderr.startswith("Warning: ")
    assert "samples were too loud for the file and were clipped" in done.stderr
