"""``coupledict widen``, as a user runs it."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
from command import call as run
from command import refused
from voices import voice

from coupledict.audio import BandwidthExtension, narrow_band


@pytest.fixture
def source(tmp_path):
    soundfile.write(tmp_path / "narrow.wav", 0.5 * narrow_band(voice(3, 1.0)), 8000)
    return tmp_path / "narrow.wav"


def test_widen(source, tmp_path):
    target = tmp_path / "wide.flac"
    done = run("widen", source, target)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"Wrote {target}."
    found, rate = soundfile.read(target)
    assert rate == 16_000
    expected = BandwidthExtension.pretrained().extend(soundfile.read(source)[0])
    np.testing.assert_allclose(found, np.clip(expected, -1, 1), atol=1e-4)
    assert "exists already" in refused(run("widen", source, target))
    assert run("widen", source, target, "--force", "--threads", 1).returncode == 0


def test_train_and_keep_the_model(source, tmp_path):
    (tmp_path / "speech" / "deeper").mkdir(parents=True)
    soundfile.write(tmp_path / "speech" / "a.wav", voice(0), 16_000)
    soundfile.write(tmp_path / "speech" / "deeper" / "b.flac", voice(1), 16_000)
    (tmp_path / "speech" / "notes.txt").write_text("not sound")
    first, second, kept = tmp_path / "first.wav", tmp_path / "second.wav", tmp_path / "model"
    done = run("widen", source, first, "--train", tmp_path / "speech", "--save-model", kept)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # nobody watches
    assert done.stdout.splitlines() == [f"Wrote {first}.", f"Wrote {kept}; use it with --model."]
    assert run("widen", source, second, "--model", kept).returncode == 0
    np.testing.assert_array_equal(soundfile.read(first)[0], soundfile.read(second)[0])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "m", "--train", "t"], "Expected --model or --train, got both"),
        (["--save-model", "m"], "Expected --save-model together with --train"),
        (["--train", "nowhere"], "Expected a folder of speech to learn from, found none at 'nowhere'."),
        (["--model", "nowhere"], "nowhere"),
    ],
)
def test_options_that_do_not_fit(source, tmp_path, arguments, sentence):
    assert sentence in refused(run("widen", source, tmp_path / "wide.wav", *arguments))
    assert not (tmp_path / "wide.wav").exists()


def test_files_that_do_not_fit(source, tmp_path):
    target = tmp_path / "wide.wav"
    assert "ending in .wav, .flac, .ogg" in refused(run("widen", source, tmp_path / "wide.txt"))
    (tmp_path / "empty").mkdir()
    assert "Expected sound files" in refused(run("widen", source, target, "--train", tmp_path / "empty"))
    soundfile.write(tmp_path / "rate.wav", voice(0, 0.1), 16_000)
    assert "at 8000 Hz, got 16000 Hz" in refused(run("widen", tmp_path / "rate.wav", target))
    soundfile.write(tmp_path / "empty" / "rate.wav", voice(0, 0.1), 8000)
    assert "at 16000 Hz, got 8000 Hz" in refused(run("widen", source, target, "--train", tmp_path / "empty"))
    (tmp_path / "kept").touch()
    refusal = refused(run("widen", source, target, "--train", tmp_path / "empty", "--save-model", tmp_path / "kept"))
    assert "exists already" in refusal
    assert not target.exists()


def test_what_is_cut_is_told(tmp_path):
    narrow = narrow_band(voice(4, 1.0))
    soundfile.write(tmp_path / "loud.wav", narrow / np.abs(narrow).max(), 8000)
    done = run("widen", tmp_path / "loud.wav", tmp_path / "wide.wav")
    assert done.returncode == 0
    assert done.stderr.startswith("Warning: ")
    assert "samples were too loud for the file and were cut" in done.stderr
