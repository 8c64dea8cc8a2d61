"""Text for a terminal: contents of files made safe to print, and whether the terminal takes escape codes."""

from __future__ import annotations

import os
import unicodedata
from typing import IO

#: Categories of characters that steer a terminal, turn the direction of writing, end a line or are half a character.
STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
JOINERS = "\u200c\u200d"  # of these categories, but parts of words and of emoji


def printable(text: object) -> str:
    r"""Return text in one line, with characters that steer a terminal or hide others written as escapes.

    Files and their names may come from anyone. Printed as they are, they could move the cursor, change the title of
    a window, or look like something else.

    Parameters
    ----------
    text : object
        What is to be printed, as ``str`` gives it.

    Returns
    -------
    str
        The same text if it has no such characters; ``\x1b`` and ``\u202e`` stand for some of them.
    """
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    return "".join(_escaped(sign) if unicodedata.category(sign) in STEERING else sign for sign in plain)


def quoted(path: str | bytes | os.PathLike[str]) -> str:
    """Return a path between quotes, for a sentence: as ``repr`` does, but with each backslash of Windows only once."""
    return f"'{printable(os.fsdecode(path))}'"


def takes_escapes(stream: IO[str]) -> bool:
    """Tell whether a stream is a terminal that may be sent escape codes: none are wanted with NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _escaped(sign: str) -> str:
    return sign if sign in JOINERS else sign.encode("unicode_escape").decode()
