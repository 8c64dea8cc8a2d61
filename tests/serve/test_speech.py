"""Speech on the page: recordings are widened as the library does it, within limits, and told of."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
import soundfile

from coupledict.audio import BandwidthExtension, measure_band
from coupledict.serve import _jobs, _samples, _spectra, _tasks
from coupledict.serve._jobs import Phase
from coupledict.serve._uploads import Form, Limits, Upload
from support.serving import png, serving, stack
from support.voices import RATE, telephone, voice

FORMATS = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG", ".aiff": "AIFF", ".au": "AU", ".mp3": "MP3"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("serve") / "jobs") as client:
        yield client


@pytest.fixture(scope="module")
def call():
    """Two seconds of a voice from a telephone, at 8 kHz."""
    return telephone(voice(1, 2.0))


def sound(samples, rate=8000, kind="WAV", subtype=None):
    out = io.BytesIO()
    soundfile.write(out, samples, rate, subtype, format=kind)
    return out.getvalue()


def heard(client, job, file):
    status, headers, content = client.ask("GET", f"/jobs/{job['id']}/{file}")
    assert (status, headers["content-type"].partition("/")[0]) == (200, "audio")
    return soundfile.read(io.BytesIO(content), always_2d=True)


def expected(tmp_path, content, name="in.wav", *, strength=0.2, band=None):
    """Return what the library makes of a file, as a file."""
    (tmp_path / name).write_bytes(content)
    widener = BandwidthExtension.pretrained().set_params(strength=strength)
    widener.extend_file(tmp_path / name, tmp_path / "out.wav", band=band)
    return soundfile.read(tmp_path / "out.wav", always_2d=True)


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_kind_of_recording_is_widened_as_the_library_does(client, call, tmp_path, suffix):
    content = sound(call, kind=FORMATS[suffix])
    job = client.do("widen", (f"my call{suffix}", content))
    assert job["state"] == "done", job
    found, rate = heard(client, job, "widened.wav")
    right, right_rate = expected(tmp_path, content, f"in{suffix}")
    assert (rate, right_rate) == (16_000, 16_000)
    assert np.array_equal(found, right)
    reported = job["result"]
    assert reported["source"]["band"]["kind"] == "telephone"
    assert (reported["source"]["rate"], reported["source"]["channels"], reported["source"]["measured"]) == (
        8000,
        1,
        True,
    )
    assert reported["source"]["seconds"] == pytest.approx(2.0, abs=0.2)  # MP3 adds some silence
    assert [entry["name"] for entry in reported["result"]["formats"]] == ["my-call-wide.wav", "my-call-wide.flac"]
    assert reported["result"]["format"] == ("FLAC" if suffix == ".flac" else "WAV")
    assert np.array_equal(heard(client, job, "widened.flac")[0], found)


def test_options_reach_the_model(client, call, tmp_path):
    job = client.do("widen", ("a.wav", sound(call)), strength="0.5", band="narrow")
    found, _ = heard(client, job, "widened.wav")
    assert np.array_equal(found, expected(tmp_path, sound(call), strength=0.5, band="narrow")[0])
    source = job["result"]["source"]
    assert (source["band"]["kind"], source["measured"]) == ("narrow", False)


def test_a_band_that_is_there_already_is_told_and_left(client, capfd):
    wide = voice(2, 2.0)
    job = client.do("widen", ("a.wav", sound(wide, RATE)))
    reported = job["result"]
    assert (job["state"], reported["widened"], reported["source"]["band"]["kind"]) == ("done", False, "wide")
    assert "result" not in reported
    assert np.allclose(heard(client, job, reported["before"])[0][:, 0], wide, atol=2**-15)
    assert client.ask("GET", f"/jobs/{job['id']}/widened.wav")[0] == 404
    assert capfd.readouterr().err == ""  # the page says it; the terminal need not


def test_silence_is_told_too(client):
    job = client.do("widen", ("a.wav", sound(np.zeros(RATE), RATE)))
    assert (job["result"]["widened"], job["result"]["source"]["band"]["kind"]) == (False, "unknown")
    assert client.do("widen", ("a.wav", sound(np.zeros(8000))))["result"]["widened"]  # at 8 kHz it can only be narrow


def test_what_is_heard_can_be_played_by_every_browser(client, call):
    many = np.repeat(np.repeat(call, 12)[:, None], 3, axis=1) * [0.2, 0.4, 0.6]  # 96 kHz
    job = client.do("widen", ("a.wav", sound(many[: 2**15], 96_000, subtype="DOUBLE")), band="telephone")
    assert job["state"] == "done", job
    for file in (job["result"]["before"], job["result"]["after"]):
        samples, rate = heard(client, job, file)
        assert (rate, samples.shape[1]) == (48_000, 1)
    samples, rate = heard(client, job, "widened.wav")
    assert (rate, samples.shape) == (96_000, (2**15, 3))  # the result itself is whole
    path = f"/jobs/{job['id']}/after.wav"
    status, headers, content = client.ask("GET", path, headers={"Range": "bytes=0-43"})
    assert (status, len(content)) == (206, 44)  # so that one can begin anywhere
    assert "media-src 'self'" in headers["content-security-policy"]


def test_formats_that_cannot_hold_it_are_not_offered(client, call):
    job = client.do("widen", ("a.wav", sound(np.repeat(call[:, None], 9, axis=1))))
    assert [entry["format"] for entry in job["result"]["result"]["formats"]] == ["WAV"]
    assert client.ask("GET", f"/jobs/{job['id']}/widened.flac")[0] == 404


@pytest.mark.parametrize(
    "content", [b"", b"no sound", sound(np.arange(-1, 1, 1e-4), kind="FLAC")[:2000], b"RIFF\xff\xff\xff\xffWAVEfmt "]
)
def test_a_bad_file_is_told_in_a_sentence_with_its_own_name(client, content):
    message = client.message("widen", ("mine.wav", content))
    assert message.startswith("'mine.wav' could not be read as sound: it ")
    assert str(client.folder) not in message


def test_bad_requests_are_refused(client, call):
    one = ("a.wav", sound(call))
    assert client.message("widen", one, one) == "Expected one recording at a time, got 2."
    assert client.message("widen", one, band="x") == "Expected a band of auto, narrow or telephone, got 'x'."
    for strength in ("2", "-1", "nan", "much"):
        assert client.message("widen", one, strength=strength) == f"Expected a strength from 0 to 1, got {strength!r}."
    empty = ("e.wav", sound(np.zeros(0)))
    assert client.message("widen", empty) == "Expected a recording with sound in it, got none in 'e.wav'."
    slow = ("s.wav", sound(call, 4000))
    assert client.message("widen", slow).startswith("Expected 's.wav' at a whole number of Hz, 8000 or more, got 4000")


@pytest.mark.parametrize("kind", ["WAV", "MP3"])  # the second does not know how long it is
def test_samples_are_counted_before_they_are_widened(client, call, monkeypatch, kind):
    monkeypatch.setenv("COUPLEDICT_MAX_SAMPLES", "31000")  # of the result, which has 32000
    monkeypatch.setattr(BandwidthExtension, "pretrained", lambda **options: pytest.fail("too late"))
    message = client.message("widen", ("long.wav", sound(call, kind=kind)))
    assert message.startswith(
        "Expected at most 0.031 million samples over all channels, but 'long.wav' widened would have 0.0"
    )
    assert "COUPLEDICT_MAX_SAMPLES" in message
    assert client.json("GET", "/about")[1]["megasamples"] == 0.031


def test_without_soundfile_the_page_says_so_and_the_rest_works(client, call, rng, monkeypatch):
    assert client.json("GET", "/about")[1]["sounds"][0] == ".wav"
    monkeypatch.setitem(sys.modules, "soundfile", None)
    _, about = client.json("GET", "/about")
    assert 'pip install "coupledict[audio]"' in about["missing"]["widen"]
    assert about.keys() >= {"megabytes", "pictures"}
    assert client.message("widen", ("a.wav", b"anything")) == about["missing"]["widen"]
    assert client.message("widen", sample="yes") == about["missing"]["widen"]
    assert client.do("enlarge", ("a.png", png(stack(rng)[0])))["state"] == "done"


def test_a_library_that_is_broken_is_told(client, monkeypatch):
    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name == "soundfile":
                raise OSError("sndfile library not found")

    monkeypatch.delitem(sys.modules, "soundfile")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    _, about = client.json("GET", "/about")
    assert about["missing"]["widen"].startswith("Expected soundfile to work, but importing it failed (OSError: sndfile")


def test_a_limit_that_is_no_number_is_told(client, monkeypatch):
    monkeypatch.setenv("COUPLEDICT_MAX_SAMPLES", "many")
    _, about = client.json("GET", "/about")
    assert about["missing"]["widen"] == "Expected COUPLEDICT_MAX_SAMPLES to be a number of samples, got 'many'."


def test_there_is_a_voice_for_those_who_have_none(client, tmp_path):
    job = client.do("widen", sample="yes")
    assert job["result"]["widened"]
    assert "synthetic" in job["result"]["note"]
    first, again = tmp_path / "first", tmp_path / "again"
    for folder in (first, again):
        folder.mkdir()
        _samples.telephone_call(folder)
    assert (first / "sample.wav").read_bytes() == (again / "sample.wav").read_bytes()
    samples, rate = soundfile.read(first / "sample.wav")
    assert measure_band(samples, rate).kind == "telephone"
    assert 3 < samples.size / rate < 5


@pytest.mark.parametrize("cancelled", [None, "Measuring the band", "Adding the high band", "Writing the result"])
def test_it_tells_how_far_it_is_and_stops_where_it_is_cancelled(tmp_path, call, cancelled):
    (tmp_path / "a.wav").write_bytes(sound(np.tile(call, 30)))
    (tmp_path / "job").mkdir()
    reported = []

    class Watched(_jobs.Job):
        def watch(self, phases):
            callback = super().watch(phases)

            def tell(progress):
                stop = callback(progress)
                reported.append((self.phase, self.share))
                if self.phase == cancelled:
                    self.cancel()
                return stop

            return tell

    form = Form({}, [Upload(tmp_path / "a.wav", "a.wav")])
    job = Watched(lambda job: _tasks.TASKS["widen"](job, form, Limits(1, 1)), tmp_path / "job", {})
    job.run()
    shares = [share for _, share in reported]
    assert shares == sorted(shares)
    if cancelled:
        assert (job.state, reported[-1][0]) == ("cancelled", cancelled)
        return
    assert job.state == "done"
    assert list(dict(reported)) == ["Measuring the band", "Adding the high band", "Writing the result"]
    assert shares[0] > 0
    assert shares[-1] > 0.9


def test_a_share_is_told_only_when_it_is_known(tmp_path):
    from coupledict import Progress

    job = _jobs.Job(lambda job: {}, tmp_path, {})
    assert job.share is None
    tell = job.watch({"half": Phase("Doing the second half", 0.5, 1.0)})
    tell(Progress("half", 7, None))
    assert (job.phase, job.share) == ("Doing the second half", None)
    tell(Progress("half", 1, 4))
    assert job.share == 0.625
    tell(Progress("another", 1, 1))
    assert (job.phase, job.share) == ("Doing the second half", 0.625)
    job.report("Reading")
    assert (job.phase, job.share) == ("Reading", None)


def test_spectra_show_what_there_is_where_it_is(tmp_path):
    time = np.arange(16_000) / 16_000
    tone = 0.5 * np.sin(2 * np.pi * 6000 * time) * (time > 0.5)
    soundfile.write(tmp_path / "wide.wav", tone, 16_000)
    soundfile.write(tmp_path / "narrow.wav", np.zeros(8000), 8000)
    wide, narrow = _spectra.draw_spectra(tmp_path / "wide.wav", tmp_path / "narrow.wav")
    light = wide.sum(axis=2).astype(int)
    row, column = np.unravel_index(np.argmax(light), light.shape)
    assert abs(row - (255 - 6000 / 8000 * 256)) <= 1  # from the top
    assert column > 512
    assert np.array_equal(wide[100, 100], _spectra.COLOURS[0])
    assert (narrow == _spectra.COLOURS[0]).all()
