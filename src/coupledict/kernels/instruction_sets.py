"""Which instruction set the kernels use."""

from __future__ import annotations

import os
from typing import TypedDict

from ..foundation.version import __version__
from . import _native

VARIABLE = "COUPLEDICT_SIMD"


class BuildInfo(TypedDict):
    """What :func:`build_info` returns."""

    version: str
    compiler: str
    simd: str
    simd_available: list[str]


def active_level() -> str:
    """Return the instruction set that the next call will use: the fastest, unless `COUPLEDICT_SIMD` names another."""
    levels = _native.levels()
    asked = os.environ.get(VARIABLE, "")
    if asked in ("", "auto"):
        return levels[-1]
    if asked not in levels:
        choices = ", ".join(repr(level) for level in levels)
        raise ValueError(
            f"Expected {VARIABLE} to be 'auto' or an instruction set of this processor ({choices}), got {asked!r}."
        )
    return asked


def build_info() -> BuildInfo:
    """Return how this installation was built and what it runs on.

    Returns
    -------
    dict
        ``version`` of the package, ``compiler`` of the kernels, ``simd``: the instruction set in use, and
        ``simd_available``: the instruction sets that were compiled in and that this processor has, slowest first. The
        environment variable ``COUPLEDICT_SIMD`` selects one of them.

    Examples
    --------
    >>> import coupledict
    >>> sorted(coupledict.build_info())
    ['compiler', 'simd', 'simd_available', 'version']
    """
    return {
        "version": __version__,
        "compiler": _native.compiler,
        "simd": active_level(),
        "simd_available": _native.levels(),
    }
