"""Dictionaries that explain two or more views of the same signals together."""

from importlib.metadata import version

from ._code_files import CodeFile, open_codes
from ._coder import SparseCoder
from ._init import dct_dictionary
from ._learner import LETTER, CoupledDictionaryLearning
from ._levels import build_info
from ._online import OnlineDictionaryLearning
from ._pursuit import sparse_encode
from ._saving import load
from ._single import DictionaryLearning
from .model_io import ModelFileError

__version__ = version("coupledict")

__all__ = [
    "CoupledDictionaryLearning",
    "LETTER",
    "DictionaryLearning",
    "OnlineDictionaryLearning",
    "load",
    "open_codes",
    "CodeFile",
    "ModelFileError",
    "SparseCoder",
    "sparse_encode",
    "dct_dictionary",
    "build_info",
]
