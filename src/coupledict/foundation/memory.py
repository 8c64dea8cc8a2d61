"""Freed memory, given back to the system between two steps of long work."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def give_back_memory() -> None:
    """Ask the C library to return what was freed.

    GNU's keeps freed blocks of up to 32 MB for itself. After a pass over large pictures that can be as much as the next
    pass needs. Elsewhere nothing is done.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
