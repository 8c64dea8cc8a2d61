"""Text from files, made fit for a terminal."""

from __future__ import annotations

import unicodedata

#: Categories of characters that steer a terminal, turn the direction of writing, end a line or are half a character.
STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
JOINERS = "\u200c\u200d"  # of these categories, but parts of words and of emoji


def printable(text: object) -> str:
    r"""Return text in one line, with characters that steer a terminal or hide others written as escapes.

    Files and their names may come from strangers: printed as they are, they could move the cursor, change the title of
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
    told = str(text)
    if told.isascii() and told.isprintable():
        return told
    return "".join(_escaped(sign) if unicodedata.category(sign) in STEERING else sign for sign in told)


def _escaped(sign: str) -> str:
    return sign if sign in JOINERS else sign.encode("unicode_escape").decode()
