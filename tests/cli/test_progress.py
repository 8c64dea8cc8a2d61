"""What a command says while it works, when nobody sits at a terminal; the clock is made."""

from __future__ import annotations

import io
import re
import sys

import pytest

from coupledict import Progress
from coupledict.cli._progress import Lines, _duration, progress_bar
from support.inner import Bar, takes_escapes, watched


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def work(clock, lines, seconds, total, stage="fusing"):
    """Finish `total` units of work in so many seconds."""
    for done in range(1, total + 1):
        clock.now += seconds / total
        lines(Progress(stage, done, total))


def test_short_work_is_silent(clock):
    reported = []
    work(clock, Lines("", reported.append, clock), 9.9, 1000)
    assert reported == []


def test_longer_work_shows_life_and_the_time_left(clock):
    reported = []
    work(clock, Lines("", reported.append, clock), 50, 1000)
    assert reported == [
        "fusing: 20 % in 10 s, about 40 s left",
        "fusing: 30 % in 15 s, about 35 s left",
        "fusing: 40 % in 20 s, about 30 s left",
        "fusing: 50 % in 25 s, about 25 s left",
        "fusing: 60 % in 30 s, about 20 s left",
        "fusing: 70 % in 35 s, about 15 s left",
        "fusing: 80 % in 40 s, about 10 s left",
        "fusing: 90 % in 45 s, about 5 s left",
        "fusing: 100 % in 50 s",
    ]


def test_lines_do_not_crowd(clock):
    """Work that goes fast after a slow beginning."""
    reported = []
    lines = Lines("", reported.append, clock)
    work(clock, lines, 9.9, 1, "learning")
    work(clock, lines, 5, 100)
    assert reported == ["fusing: 10 % in 10 s, about 4 s left", "fusing: 71 % in 13 s, about 1 s left"]


def test_long_work_is_never_silent_for_long(clock):
    reported = []
    work(clock, Lines("flower (2 of 3)", reported.append, clock), 7200, 7200)
    assert 100 < len(reported) < 140
    assert reported[0] == "flower (2 of 3): fusing: 1 % in 60 s, about 119 min left"
    assert reported[-2] == "flower (2 of 3): fusing: 99 % in 119 min, about 60 s left"
    assert reported[-1] == "flower (2 of 3): fusing: 100 % in 2 h 0 min"


def test_stages_follow_each_other(clock):
    reported = []
    lines = Lines("", reported.append, clock)
    work(clock, lines, 20, 2, "learning")
    work(clock, lines, 40, 2, "fusing")
    assert reported == [
        "learning: 50 % in 10 s, about 10 s left",
        "learning: 100 % in 20 s",
        "fusing: 50 % in 40 s, about 20 s left",
        "fusing: 100 % in 60 s",
    ]


def test_work_without_a_total_says_that_it_lives(clock):
    reported = []
    lines = Lines("", reported.append, clock)
    for done in range(200):
        clock.now += 1
        lines(Progress("reading", done, None))
    assert reported == ["reading: 60 s so far", "reading: 2 min so far", "reading: 3 min so far"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (9000, "2 h 30 min")]
)
def test_durations(seconds, expected):
    assert _duration(seconds) == expected


def test_lines_are_for_logs_and_not_for_machines(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["coupledict", "fuse"])
    with progress_bar("stack") as reported:
        assert isinstance(reported, Lines)
    reported._tell("a line")
    assert capsys.readouterr() == ("", "a line\n")
    monkeypatch.setattr(sys, "argv", ["coupledict", "fuse", "--json"])
    with progress_bar() as reported:
        assert reported is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("variables", "takes"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_no_escapes_where_none_are_wanted(monkeypatch, variables, takes):
    for name, value in ({"NO_COLOR": "", "TERM": "xterm"} | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["coupledict", "learn"])
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("learning") as reported:
        reported(Progress("coding", 1, 2))
    assert ("\x1b" in sys.stderr.getvalue()) is takes
    with watched(1, "learning") as reported:
        reported(Progress("coding", 1, 2))
    assert ("\x1b" in sys.stderr.getvalue()) is takes
    assert not takes_escapes(io.StringIO())


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_bar_has_one_line_with_a_share_and_the_time_left_at_any_width(width):
    from rich.console import Console

    shown = io.StringIO()
    with Bar("CoupledDictionaryLearning", Console(file=shown, width=width, force_terminal=True)) as bar:
        for step in range(4):
            bar(Progress("limit 5, nonzeros 4.98, RMS error 12.34, unused 0, and more that is known", step, 10))
        bar._bar.refresh()
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part) for part in re.split("[\r\n]+", shown.getvalue())]
    (last,) = {line for line in lines if "30%" in line}
    assert len(last) <= width
    assert re.search(r"━ +30% .*(-|\d):(--|\d\d):(--|\d\d) limit 5, nonzeros 4", last)
    assert ("CoupledDictionaryLearning" in last) == (width >= 90)
