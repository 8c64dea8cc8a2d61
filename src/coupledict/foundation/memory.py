"""Freed memory, given back to the system between two steps of long work."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def give_back_memory() -> None:
    """Ask the C library to return what was freed.

    The GNU C library keeps freed blocks of up to 32 MB. After a pass over large pictures these can be as much as the
    next pass needs. With other C libraries nothing is done.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
