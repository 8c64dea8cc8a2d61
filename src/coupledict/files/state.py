"""The state of a fitted estimator as data: the name of its class, its parameters, arrays, and a few facts.

Nothing here depends on an estimator; ``coupledict.loading`` maps the names to classes.
"""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np

from ..foundation.arrays import Array
from ..foundation.tensors import with_numpy
from ..foundation.version import __version__
from .models import JSON, MOST, contradiction, read_model, write_model

#: Errors that rebuilding a model from an inconsistent file may raise.
CONTRADICTIONS = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)

MOST_OF = {"n_jobs": 4096, "max_iter": 10**7}  # limits of some parameters
FLAGS_BY_VIEW = ("positive_dict",)  # parameters that are true or false, or a list of these
LONGEST_NAME = 200  # characters of a parameter that is a string
MOST_WEIGHT = 1e304  # largest weight of a view
LARGEST = float(np.finfo(np.float64).max)

Estimator = TypeVar("Estimator")


@dataclass(frozen=True)
class ModelState:
    """A fitted estimator as data.

    Attributes
    ----------
    estimator : str
        Name of its class.
    parameters : dict
        Those of its parameters that are data.
    tensors : dict of str to array
        What it learned.
    facts : dict
        Everything else, as JSON values.
    """

    estimator: str
    parameters: dict[str, Any]
    tensors: dict[str, Array]
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, estimator: Any, tensors: Mapping[str, Array], **facts: JSON) -> Self:
        """Return the state of an estimator with these learned tensors and facts."""
        return cls(type(estimator).__name__, plain_parameters(estimator), dict(tensors), dict(facts))

    def write(self, path: str | os.PathLike[str], *, replace: bool = True, **more: JSON) -> None:
        """Write the state to a file; :meth:`read` returns the values of `more` among the facts."""
        header = {"estimator": self.estimator, "version": __version__, "parameters": self.parameters}
        write_model(path, self.tensors, header | self.facts | more, replace=replace)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a state from a file.

        Raises
        ------
        ModelFileError
            For a file that is damaged, not a model, or written by a newer version.
        """
        tensors, metadata = read_model(path)
        try:
            name, parameters = metadata.pop("estimator"), metadata.pop("parameters")
            if not isinstance(name, str) or not isinstance(parameters, dict):
                raise ValueError("it does not name its estimator and its parameters")
        except CONTRADICTIONS as error:
            raise contradiction(path, "a complete model", error) from error
        return cls(name, parameters, tensors, metadata)


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator that are data: no callables, generators or arrays beyond 1 dimension."""
    given = estimator.get_params(deep=False)
    plain = {name: _plain(value) for name, value in given.items() if name != "callback"}
    return {name: value for name, value in plain.items() if value is not None or given[name] is None}


def _plain(value: object) -> Any:
    """Return a parameter as a JSON value; None if it cannot be one."""
    value = with_numpy(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer | np.floating | np.bool_):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray) and all(np.ndim(entry) == 0 for entry in value):
        return [_plain(entry) for entry in value]
    return None


def make_estimator(cls: type[Estimator], parameters: Any) -> Estimator:
    """Return an estimator with the parameters of a file; their kinds and sizes are checked first."""
    if not isinstance(parameters, dict):
        raise ValueError("its parameters are not a JSON object")
    known = inspect.signature(cls).parameters
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(f"it has unknown parameters {unknown}")
    for name, value in parameters.items():
        most = MOST_OF.get(name, MOST)
        entries = value if isinstance(value, list) else [value]
        numbers = [entry for entry in entries if isinstance(entry, int | float)]
        plain = len(numbers) == len(entries) or value is None or (isinstance(value, str) and len(value) <= LONGEST_NAME)
        flags = entries if name in FLAGS_BY_VIEW else [value]
        no_flag = isinstance(known[name].default, bool) and any(entry not in (0, 1) for entry in flags)
        if name == "random_state":
            plain = value is None or (isinstance(value, int) and value >= 0)
        elif no_flag or any(abs(entry) > most for entry in numbers if isinstance(entry, int)):
            plain = False
        if not plain:
            raise ValueError(f"its parameter {name} is {shorten(value)}")
    estimator: Any = cls(**parameters)
    estimator._check_parameters()
    return estimator  # type: ignore[no-any-return]


def check_history(history: Any) -> list[dict[str, Any]]:
    """Return the history of a file; raise unless it is a list of records of numbers."""
    if not isinstance(history, list) or not all(isinstance(record, dict) for record in history):
        raise ValueError("its history is not a list of records")
    for record in history:
        for name, value in ({"seconds": None} | record).items():
            entries = value if isinstance(value, list) and name == "view_errors" else [value]
            if not all(is_number(entry) for entry in entries):
                raise ValueError(f"its history holds {shorten(value)}, which is not a number")
    return history


def check_file_weights(weights: Array, n_views: int) -> Array:
    """Return the view weights of a file; at least one must be positive, and none so large that sums overflow."""
    fits = weights.shape == (n_views,) and weights.dtype == np.float64
    if not fits or np.any(weights < 0) or np.any(weights > MOST_WEIGHT) or not weights.any():
        raise ValueError("its view weights do not fit its views")
    return weights


def check_range(tensors: Mapping[str, Array], most: float, start: str = "") -> None:
    """Raise if a tensor whose name begins with `start` holds numbers beyond `most`, with which sums may overflow."""
    for name, array in tensors.items():
        chosen = name.startswith(start) and array.dtype.kind == "f"
        if chosen and max(float(array.max(initial=0)), -float(array.min(initial=0))) > most:
            raise ValueError(f"its tensor {name!r} holds numbers beyond {most:g}")


def check_file_count(value: Any, what: str, least: int = 0) -> int:
    """Return a count of a file; raise unless it is an integer from `least` to MOST."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
        raise ValueError(f"its {what} is {shorten(value)}")
    return value


def is_number(value: object) -> bool:
    """Return whether a value of a file is a number within the range of float64."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def shorten(value: object) -> str:
    """Return a short repr of a value, for an error message."""
    return reprlib.repr(value)
