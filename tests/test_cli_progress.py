"""What a command says while it works, when nobody sits at a terminal; the clock is made."""

from __future__ import annotations

import sys

import pytest

from coupledict.cli._progress import Lines, _duration, progress_bar
from coupledict.foundation.progress import Progress


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
    told = []
    work(clock, Lines("", told.append, clock), 9.9, 1000)
    assert told == []


def test_longer_work_shows_life_and_the_time_left(clock):
    told = []
    work(clock, Lines("", told.append, clock), 50, 1000)
    assert told == [
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
    told = []
    lines = Lines("", told.append, clock)
    work(clock, lines, 9.9, 1, "learning")
    work(clock, lines, 5, 100)
    assert told == ["fusing: 10 % in 10 s, about 4 s left", "fusing: 71 % in 13 s, about 1 s left"]


def test_long_work_is_never_silent_for_long(clock):
    told = []
    work(clock, Lines("flower (2 of 3)", told.append, clock), 7200, 7200)
    assert 100 < len(told) < 140
    assert told[0] == "flower (2 of 3): fusing: 1 % in 60 s, about 119 min left"
    assert told[-2] == "flower (2 of 3): fusing: 99 % in 119 min, about 60 s left"
    assert told[-1] == "flower (2 of 3): fusing: 100 % in 2 h 0 min"


def test_stages_follow_each_other(clock):
    told = []
    lines = Lines("", told.append, clock)
    work(clock, lines, 20, 2, "learning")
    work(clock, lines, 40, 2, "fusing")
    assert told == [
        "learning: 50 % in 10 s, about 10 s left",
        "learning: 100 % in 20 s",
        "fusing: 50 % in 40 s, about 20 s left",
        "fusing: 100 % in 60 s",
    ]


def test_work_without_a_total_says_that_it_lives(clock):
    told = []
    lines = Lines("", told.append, clock)
    for done in range(200):
        clock.now += 1
        lines(Progress("reading", done, None))
    assert told == ["reading: 60 s so far", "reading: 2 min so far", "reading: 3 min so far"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (9000, "2 h 30 min")]
)
def test_durations(seconds, expected):
    assert _duration(seconds) == expected


def test_lines_are_for_commands_that_want_them_and_not_for_machines(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["coupledict", "fuse"])
    with progress_bar() as told:
        assert told is None
    with progress_bar("stack", lines=True) as told:
        assert isinstance(told, Lines)
    told._tell("a line")
    assert capsys.readouterr() == ("", "a line\n")
    monkeypatch.setattr(sys, "argv", ["coupledict", "fuse", "--json"])
    with progress_bar(lines=True) as told:
        assert told is None
