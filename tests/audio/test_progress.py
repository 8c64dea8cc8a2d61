"""Progress of bandwidth extension: reported up to the total; a callback stops it at once; use changes nothing."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
import soundfile

from coupledict import StoppedByCallback
from coupledict.audio import BandwidthExtension, narrow_band
from coupledict.foundation.block_sizes import SIZES
from support.voices import voice

SMALL = {"n_components": 16, "n_nonzero_coefs": 2, "n_dictionaries": 3, "max_iter": 2, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return BandwidthExtension(**SMALL).fit([voice(0, 1.0)])


@pytest.fixture
def short_windows():
    with SIZES.changed(window_frames=32):
        yield


class Listener:
    """Keeps what is reported, and asks to stop once, after so many calls."""

    def __init__(self, stop_at=None):
        self.reports = []
        self.stop_at = stop_at

    def __call__(self, progress):
        self.reports.append((progress.stage, progress.completed, progress.total))
        return len(self.reports) == self.stop_at


def check_course(reports, stage, total):
    assert {(name, whole) for name, _, whole in reports} == {(stage, total)}
    assert all(before[1] < after[1] for before, after in pairwise(reports))
    assert reports[-1][1] == total or total is None


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_fit_tells_how_far_it_has_come(n_jobs):
    listener = Listener()
    BandwidthExtension(**SMALL, n_jobs=n_jobs, callback=listener).fit([voice(0, 1.0)])
    check_course(listener.reports, "learning", 2 * 2 * (3 + 4 * 2))
    assert len(listener.reports) == 44


@pytest.mark.usefixtures("short_windows")
def test_signals_tell_how_far_they_have_come(model, tmp_path):
    narrow, listener = narrow_band(voice(2, 1.0)), Listener()
    watched = copy.copy(model).set_params(callback=listener, n_jobs=2)
    np.testing.assert_array_equal(watched.extend(narrow), model.extend(narrow))
    check_course(listener.reports, "widening", narrow.size)
    listener.reports.clear()
    list(watched.extend_blocks([narrow[:100], narrow[100:]]))
    check_course(listener.reports, "widening", None)
    assert listener.reports[-1][1] == narrow.size
    listener.reports.clear()
    soundfile.write(tmp_path / "narrow.wav", narrow, 8000)
    watched.extend_file(tmp_path / "narrow.wav", tmp_path / "wide.wav")
    check_course([report for report in listener.reports if report[0] == "measuring"], "measuring", narrow.size)
    check_course([report for report in listener.reports if report[0] != "measuring"], "widening", narrow.size)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("stop_at", [1, 4, 9])
def test_a_stopped_fit_leaves_the_model_as_it_was(model, stop_at, n_jobs):
    listener = Listener(stop_at)
    other = copy.copy(model).set_params(n_jobs=n_jobs, callback=listener, random_state=5)
    before = dict(vars(other))
    with pytest.raises(StoppedByCallback):
        other.fit([voice(1, 1.0)])
    assert len(listener.reports) == stop_at, "a callback that has asked to stop is not called again"
    assert vars(other).keys() == before.keys()
    assert all(vars(other)[name] is value for name, value in before.items())


@pytest.mark.usefixtures("short_windows")
def test_a_stopped_file_is_not_written(model, tmp_path):
    soundfile.write(tmp_path / "narrow.wav", narrow_band(voice(2, 1.0)), 8000)
    for stop_at, stage in ((1, "measuring"), (3, "widening")):
        listener = Listener(stop_at)
        with pytest.raises(StoppedByCallback):
            copy.copy(model).set_params(callback=listener).extend_file(tmp_path / "narrow.wav", tmp_path / "wide.wav")
        assert listener.reports[-1][0] == stage
    assert [file.name for file in tmp_path.iterdir()] == ["narrow.wav"]


def test_widening_does_not_change_a_model(model, tmp_path):
    other = copy.copy(model).set_params(n_jobs=2)
    before = pickle.dumps(copy.deepcopy(vars(other)))
    other.extend(narrow_band(voice(2, 1.0)))
    other.score([voice(2, 1.0)])
    other.save(tmp_path / "model")
    assert pickle.dumps(copy.deepcopy(vars(other))) == before


def test_verbose_shows_the_stages(model, capsys):
    copy.copy(model).set_params(verbose=1).extend(narrow_band(voice(2, 1.0)))
    assert "BandwidthExtension, widening: " in capsys.readouterr().out
    BandwidthExtension(**SMALL, verbose=1).fit([voice(0, 1.0)])
    assert "BandwidthExtension, learning: 44/44" in capsys.readouterr().out
