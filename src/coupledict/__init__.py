"""Dictionaries that explain two or more views of the same signals together."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

    __version__: str

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

#: Where each name is defined. They are imported when they are first asked for: scikit-learn takes longer to import than
#: `coupledict --help` may take.
_PLACES = {
    "CoupledDictionaryLearning": "._learner",
    "LETTER": "._learner",
    "DictionaryLearning": "._single",
    "OnlineDictionaryLearning": "._online",
    "load": "._saving",
    "open_codes": "._code_files",
    "CodeFile": "._code_files",
    "ModelFileError": ".model_io",
    "SparseCoder": "._coder",
    "sparse_encode": "._pursuit",
    "dct_dictionary": "._init",
    "build_info": "._levels",
}
_MODULES = ("audio", "classification", "distributed", "images", "matching", "model_io", "plotting", "report", "views")


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value: Any = getattr(importlib.import_module(_PLACES[name], __name__), name)
    elif name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("coupledict")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next time this function is not asked
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})
