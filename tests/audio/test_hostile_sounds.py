"""Hostile sound files: their samples or an error of one sentence; never beyond the limit, never half written."""

from __future__ import annotations

import builtins
import errno
import io
import os
import struct

import media
import numpy as np
import pytest
import soundfile

from coupledict.audio._files import Reader, _CarefulFile, open_source, read_wide, write_blocks
from support.command import call, refused

RNG = np.random.default_rng(0)


def wav(*, rate=8000, channels=1, bits=16, kind=1, claimed=None, data=bytes(200)):
    """Return a WAV file, whatever it claims."""
    claimed = len(data) if claimed is None else claimed
    block = channels * bits // 8 % 65536
    about = struct.pack("<HHIIHH", kind, channels, rate, rate * block % 2**32, block, bits)
    return (
        b"RIFF"
        + struct.pack("<I", min(claimed + 36, 2**32 - 1))
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + about
        + b"data"
        + struct.pack("<I", claimed)
        + data
    )


def read_sound(path):
    with Reader(path) as reader:
        return np.concatenate([np.empty((0, reader.n_channels)), *reader.blocks()]), reader.rate


def test_a_header_that_claims_four_gigabytes(tmp_path):
    (tmp_path / "a.wav").write_bytes(wav(claimed=2**32 - 1, data=struct.pack("<50h", *range(50))))
    samples, _ = read_sound(tmp_path / "a.wav")
    np.testing.assert_array_equal(samples[:, 0] * 32768, np.arange(50))


def claiming(path, n_samples):
    """Make a FLAC file claim that each channel has so many samples, at most 2 ** 36 - 1; 0 says that nobody knows."""
    contents = bytearray(path.read_bytes())
    contents[21] = contents[21] & 0xF0 | n_samples >> 32
    contents[22:26] = struct.pack(">I", n_samples & 0xFFFFFFFF)
    path.write_bytes(contents)


def test_flac_files_that_claim_or_hold_too_much(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.flac", np.zeros((40_000, 4)), 8000)
    monkeypatch.setenv("COUPLEDICT_MAX_SAMPLES", "159999")
    for use in (Reader, open_source):
        with pytest.raises(OSError, match=r"more samples than the limit of 0\.159999 million; set COUPLEDICT_MAX"):
            use(tmp_path / "a.flac")
    monkeypatch.setenv("COUPLEDICT_MAX_SAMPLES", "160000")
    assert read_sound(tmp_path / "a.flac")[0].shape == (40_000, 4)
    monkeypatch.delenv("COUPLEDICT_MAX_SAMPLES")
    claiming(tmp_path / "a.flac", 50_000_001)
    with pytest.raises(OSError, match="more samples than the limit of 200 million"):
        Reader(tmp_path / "a.flac")
    for n_samples in (50_000_001, 1_000_000_000):
        claiming(tmp_path / "a.flac", n_samples)
        with open_source(tmp_path / "a.flac") as reader:  # it is not held in memory
            assert reader.n_samples == n_samples
    for n_samples in (1_000_000_001, 2**36 - 1):
        claiming(tmp_path / "a.flac", n_samples)
        with pytest.raises(OSError, match="more samples than the limit of 4000 million"):
            open_source(tmp_path / "a.flac")
    monkeypatch.setenv("COUPLEDICT_MAX_SAMPLES", "-1")
    with pytest.raises(ValueError, match="Expected COUPLEDICT_MAX_SAMPLES to be a number of samples, got '-1'"):
        Reader(tmp_path / "a.flac")


def test_a_sound_that_goes_on_beyond_its_claim_is_stopped(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.flac", RNG.uniform(-0.5, 0.5, 200_000), 8000)
    claiming(tmp_path / "a.flac", 0)
    with Reader(tmp_path / "a.flac") as reader:
        assert reader.n_samples is None
    monkeypatch.setenv("COUPLEDICT_MAX_SAMPLES", "100000")
    with pytest.raises(OSError, match="more samples than the limit"):
        read_sound(tmp_path / "a.flac")


@pytest.mark.parametrize("rate", [0, 2**32 - 1])
def test_rates_that_are_none(tmp_path, rate):
    (tmp_path / "a.wav").write_bytes(wav(rate=rate))
    with pytest.raises(OSError, match="damaged or not a sound file"):
        Reader(tmp_path / "a.wav")


@pytest.mark.parametrize("rate", [1, 8000, 2**31 - 1])
def test_other_rates_are_told(tmp_path, rate):
    (tmp_path / "a.wav").write_bytes(wav(rate=rate))
    with pytest.raises(ValueError, match=rf"a\.wav' at .*, got {rate} Hz"):
        read_wide(tmp_path / "a.wav")


@pytest.mark.parametrize("rate", [1, 7999, 767_999, 2**31 - 1])
def test_rates_that_cannot_be_widened(tmp_path, rate):
    (tmp_path / "a.wav").write_bytes(wav(rate=rate))
    with pytest.raises(ValueError, match=rf"a\.wav' at a .* got {rate} Hz"):
        open_source(tmp_path / "a.wav")
    refusal = refused(call("widen", tmp_path / "a.wav", "-o", tmp_path / "out.wav"))
    assert f"got {rate} Hz" in refusal
    assert [file.name for file in tmp_path.iterdir()] == ["a.wav"]


@pytest.mark.parametrize("channels", [0, 1025, 65535])
def test_channels_that_are_none(tmp_path, channels):
    (tmp_path / "a.wav").write_bytes(wav(channels=channels))
    with pytest.raises(OSError, match="damaged or not a sound file"):
        Reader(tmp_path / "a.wav")


def test_many_channels_are_read_in_small_blocks(tmp_path):
    samples = RNG.integers(-30_000, 30_000, (300, 700)).astype(np.int16)
    soundfile.write(tmp_path / "a.wav", samples, 8000, "PCM_16")
    with Reader(tmp_path / "a.wav") as reader:
        blocks = list(reader.blocks())
    assert max(block.size for block in blocks) <= 1 << 16
    assert (len(blocks), sum(map(len, blocks))) == (4, reader.n_samples)
    np.testing.assert_array_equal(np.concatenate(blocks) * 32768, samples)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize(
    ("suffix", "subtype"), [(".wav", "PCM_24"), (".wav", "FLOAT"), (".wav", "DOUBLE"), (".flac", "PCM_24")]
)
def test_short_sounds_of_every_width(tmp_path, n, suffix, subtype):
    soundfile.write(tmp_path / f"a{suffix}", np.full(n, 0.25), 16_000, subtype)
    if n == 0 and suffix == ".flac":  # libsndfile takes it for an unknown length
        with pytest.raises(OSError, match="damaged or not a sound file"):
            read_wide(tmp_path / f"a{suffix}")
        return
    np.testing.assert_array_equal(read_wide(tmp_path / f"a{suffix}"), np.full((n, 1), 0.25))


def test_sounds_that_break_off(tmp_path):
    whole = RNG.uniform(-0.5, 0.5, 20_000)
    for suffix in (".flac", ".ogg"):
        soundfile.write(tmp_path / f"a{suffix}", whole, 8000)
        contents, cut = (tmp_path / f"a{suffix}").read_bytes(), tmp_path / f"cut{suffix}"
        for length in np.linspace(0, len(contents) - 5000, 8).astype(int):
            cut.write_bytes(contents[:length])
            try:
                found = read_sound(cut)[0]
                assert suffix == ".ogg", "FLAC says how long it is"
                assert len(found) < len(whole), "as many pages of the stream as there are"
            except OSError as error:
                media.check_refusal(error, cut)


class OnSmallDisk(io.FileIO):
    """A file on a disk that is soon full."""

    def write(self, contents):
        if self.tell() + len(contents) > 100_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(contents)


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, capfd, monkeypatch):
    """libsndfile calls the file, and would print what goes wrong and fail an assertion."""
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "open", OnSmallDisk)
        with pytest.raises(OSError, match="No space left"):
            write_blocks(tmp_path / "a.wav", [np.zeros((60_000, 1))] * 5, 16_000, 1, "PCM_16")
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_file_that_cannot_be_written_to_keeps_its_error():
    with open("/dev/full", "r+b", buffering=0) as full:
        careful = _CarefulFile(full)
        assert careful.write(b"abc") == 3
        with pytest.raises(OSError, match="No space left"):
            careful.check()


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(FileNotFoundError, match="found none"):
        Reader(tmp_path / "pipe.wav")


def test_a_sound_that_cannot_be_widened(tmp_path):
    samples = np.zeros(4000, np.float32)
    samples[7] = np.nan
    (tmp_path / "a.wav").write_bytes(wav(kind=3, bits=32, data=samples.tobytes()))
    assert "NaN or infinity at sample 7" in refused(call("widen", tmp_path / "a.wav", "-o", tmp_path / "out.wav"))
    (tmp_path / "a.wav").write_bytes(wav(rate=0))
    assert "damaged or not a sound file" in refused(call("widen", tmp_path / "a.wav", "-o", tmp_path / "out.wav"))
    assert [file.name for file in tmp_path.iterdir()] == ["a.wav"]
