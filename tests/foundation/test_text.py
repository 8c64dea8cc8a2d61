"""Text from files, made fit for a terminal."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from coupledict.foundation.text import printable, quoted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, 3 x 4", "plain text, 3 x 4"),
        ("Größe \N{IDEOGRAPHIC SPACE} 大きさ", "Größe \N{IDEOGRAPHIC SPACE} 大きさ"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("one\ntwo\r\tthree\x7f", r"one\ntwo\r\tthree\x7f"),
        ("abc\u202egnp.exe", r"abc\u202egnp.exe"),
        ("\u2066\u200f\u2028\ufeff\U000e0041", r"\u2066\u200f\u2028\ufeff\U000e0041"),
        ("\udcff", r"\udcff"),
        (b"\x1b[2J", r"b'\x1b[2J'"),
    ],
)
def test_what_steers_a_terminal_is_written_as_an_escape(text, expected):
    assert printable(text) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (Path("a model.safetensors"), "'a model.safetensors'"),
        (r"C:\models\new.safetensors", r"'C:\models\new.safetensors'"),
        ("a\nb\x1b[2J", r"'a\nb\x1b[2J'"),
        (b"bytes", "'bytes'"),
    ],
)
def test_a_path_is_quoted_with_its_backslashes_as_they_are_and_on_one_line(path, expected):
    assert quoted(path) == expected


def test_no_character_that_is_left_steers_a_terminal():
    left = printable("".join(map(chr, range(0x11000))))
    assert {sign for sign in left if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")} == {
        "\u200c",
        "\u200d",
    }
    left.encode()  # no halves of characters
