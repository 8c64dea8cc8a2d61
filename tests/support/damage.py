"""How a file must be refused that cannot be read."""

from __future__ import annotations

import tracemalloc

import media
import pytest

from coupledict.images._files import read_image


def unreadable(path, words):
    """Return what is said of an image that is refused, in little memory and one sentence."""
    tracemalloc.start()
    try:
        with pytest.raises(OSError, match=words) as caught:
            read_image(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    media.check_refusal(caught.value, path)
    return str(caught.value)
