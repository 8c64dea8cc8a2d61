"""Dictionaries that explain two or more views of the same signals together."""

from importlib.metadata import version

from ._coder import SparseCoder
from ._init import dct_dictionary
from ._learner import LETTER, CoupledDictionaryLearning
from ._levels import build_info
from ._pursuit import sparse_encode

__version__ = version("coupledict")

__all__ = [
    "CoupledDictionaryLearning",
    "LETTER",
    "SparseCoder",
    "sparse_encode",
    "dct_dictionary",
    "build_info",
]
