"""Coupled dictionary learning: dictionaries that explain two or more views of the same signals with one sparse code."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .coding.encode import lasso_gaps, sparse_encode
    from .estimators.coder import SparseCoder
    from .estimators.coupled import PAPER, CoupledDictionaryLearning
    from .estimators.online import OnlineDictionaryLearning
    from .estimators.single import DictionaryLearning
    from .files.codes import CodeFile, open_codes
    from .files.models import ModelFileError
    from .foundation.progress import LearningProgress, Progress, StoppedByCallback
    from .foundation.version import __version__
    from .foundation.warning import InterruptedFitWarning, PredictionWarning
    from .kernels.instruction_sets import build_info
    from .learning.start import dct_dictionary
    from .loading import load

__all__ = [
    "CoupledDictionaryLearning",
    "PAPER",
    "DictionaryLearning",
    "OnlineDictionaryLearning",
    "SparseCoder",
    "sparse_encode",
    "lasso_gaps",
    "dct_dictionary",
    "load",
    "open_codes",
    "CodeFile",
    "ModelFileError",
    "Progress",
    "LearningProgress",
    "InterruptedFitWarning",
    "PredictionWarning",
    "StoppedByCallback",
    "build_info",
    "__version__",
]

#: The module that defines each name. A name is imported when it is first used: importing scikit-learn would make
#: `coupledict --help` slow.
_PLACES = {
    "CoupledDictionaryLearning": "estimators.coupled",
    "PAPER": "estimators.coupled",
    "DictionaryLearning": "estimators.single",
    "OnlineDictionaryLearning": "estimators.online",
    "SparseCoder": "estimators.coder",
    "sparse_encode": "coding.encode",
    "lasso_gaps": "coding.encode",
    "dct_dictionary": "learning.start",
    "load": "loading",
    "open_codes": "files.codes",
    "CodeFile": "files.codes",
    "ModelFileError": "files.models",
    "Progress": "foundation.progress",
    "LearningProgress": "foundation.progress",
    "InterruptedFitWarning": "foundation.warning",
    "PredictionWarning": "foundation.warning",
    "StoppedByCallback": "foundation.progress",
    "build_info": "kernels.instruction_sets",
    "__version__": "foundation.version",
}
#: The public modules; all others are private.
_MODULES = (
    "audio",
    "classification",
    "datasets",
    "distributed",
    "files",
    "images",
    "matching",
    "model_selection",
    "plotting",
    "report",
    "views",
)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value: Any = getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    elif name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # so that the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
