"""Dictionaries that explain two or more views of the same signals together."""

from ._levels import build_info
from ._pursuit import sparse_encode

__all__ = ["sparse_encode", "build_info"]
