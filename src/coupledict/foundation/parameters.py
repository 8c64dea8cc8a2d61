"""Constraints of parameters as data, and the functions that check values by them.

An estimator has a class attribute ``_parameter_constraints``: for each parameter, the constraints of which a value must
meet one. A value of the wrong kind raises TypeError, a wrong value of the right kind ValueError; the message names the
parameter, what was expected and what was given.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from .tensors import is_tensor


class Constraint(ABC):
    """What a parameter may be."""

    #: What to do about a wrong value, for the error message.
    remedy: str = ""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of the values in words, as in "Expected tol to be {a number}"."""

    @property
    def values(self) -> str:
        """The allowed values in words; for a constraint that allows all values of its kind, the kind."""
        return self.kind

    @abstractmethod
    def has_kind(self, value: Any) -> bool:
        """Return whether a value is of the right kind."""

    def accepts(self, value: Any) -> bool:
        """Return whether a value meets the constraint."""
        return self.has_kind(value)


#: For each parameter, the constraints of which its value must meet one. A parameter without any is checked elsewhere.
Constraints: TypeAlias = dict[str, tuple[Constraint, ...]]


@dataclass(frozen=True)
class Instance(Constraint):
    """An instance of one of these types."""

    types: tuple[type, ...]
    text: str

    @property
    def kind(self) -> str:
        return self.text

    def has_kind(self, value: Any) -> bool:
        return isinstance(value, self.types)


NONE = Instance((type(None),), "None")
BOOLEAN = Instance((bool, np.bool_), "True or False")
CALLABLE = Instance((Callable,), "a callable")  # type: ignore[arg-type]
GENERATOR = Instance((np.random.Generator, np.random.RandomState), "a NumPy generator")


class Choice(Constraint):
    """One of several strings.

    Parameters
    ----------
    *choices : str, Literal or mapping
        Strings, the ``Literal`` that types the parameter, or a table whose keys are the strings; new keys are accepted.
    """

    def __init__(self, *choices: Any) -> None:
        self._choices = choices

    @property
    def names(self) -> tuple[str, ...]:
        """The strings."""
        return tuple(name for choice in self._choices for name in _names(choice))

    @property
    def kind(self) -> str:
        return repr(self.names[0]) if len(self.names) == 1 else f"one of {self.names}"

    def has_kind(self, value: Any) -> bool:
        return isinstance(value, str)

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.names


def _names(choice: Any) -> Iterable[str]:
    if isinstance(choice, str):
        return [choice]
    return choice if isinstance(choice, Mapping) else get_args(choice)


@dataclass(frozen=True)
class Integer(Constraint):
    """An integer from `low` to `high`; with `odd`, an odd one."""

    low: float = -math.inf
    high: float = math.inf
    odd: bool = False
    remedy: str = ""

    @property
    def kind(self) -> str:
        return "an odd integer" if self.odd else "an integer"

    @property
    def values(self) -> str:
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"{self.kind} from {self.low} to {self.high}"
        bound = f"at least {self.low}" if math.isfinite(self.low) else f"at most {self.high}"
        return f"{self.kind} of {bound}" if self.odd else bound

    def has_kind(self, value: Any) -> bool:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)

    def accepts(self, value: Any) -> bool:
        return self.has_kind(value) and self.low <= value <= self.high and not (self.odd and value % 2 == 0)


@dataclass(frozen=True)
class Real(Constraint):
    """A finite number between `low` and `high`; `closed` names the ends that belong to the range.

    `noun` is what the number is called in errors.
    """

    low: float = -math.inf
    high: float = math.inf
    closed: Literal["both", "left", "right", "neither"] = "both"
    noun: str = "number"
    remedy: str = ""

    @property
    def kind(self) -> str:
        return "a number"

    @property
    def values(self) -> str:
        if math.isfinite(self.low) and math.isfinite(self.high) and self.closed == "both":
            return f"a {self.noun} from {self.low:g} to {self.high:g}"
        bounds = []
        if math.isfinite(self.low):
            bounds.append(f"of at least {self.low:g}" if self.closed in ("both", "left") else f"above {self.low:g}")
        if math.isfinite(self.high):
            bounds.append(f"at most {self.high:g}" if self.closed in ("both", "right") else f"below {self.high:g}")
        return f"a {self.noun} {' and '.join(bounds)}" if len(bounds) == 2 else f"a finite {self.noun} {bounds[0]}"

    def has_kind(self, value: Any) -> bool:
        return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)

    def accepts(self, value: Any) -> bool:
        if not self.has_kind(value):
            return False
        number = float(value)
        above = self.low <= number if self.closed in ("both", "left") else self.low < number
        below = number <= self.high if self.closed in ("both", "right") else number < self.high
        return above and below and math.isfinite(number)


COUNT = Integer(1)
NON_NEGATIVE = Real(0)
SHARE = Real(0, 1)
PENALTY = Real(0, 1e100)  # larger ones would overflow, and mean the same


@dataclass(frozen=True)
class ArrayLike(Constraint):
    """A sequence or an array; with `entry_dims`, the entries of a list are arrays of so many dimensions."""

    text: str
    entry_dims: int | None = None

    @property
    def kind(self) -> str:
        return self.text

    def has_kind(self, value: Any) -> bool:
        return not isinstance(value, str) and (is_tensor(value) or isinstance(value, Sequence | np.ndarray))

    def accepts(self, value: Any) -> bool:
        if not self.has_kind(value):
            return False
        if self.entry_dims is None or not isinstance(value, list | tuple):
            return True
        return all(is_tensor(entry) or np.ndim(entry) == self.entry_dims for entry in value)


@dataclass(frozen=True)
class Tuple(Constraint):
    """A fixed number of values, each of which meets a constraint; `text` tells what they are."""

    entry: Constraint
    length: int
    text: str
    remedy: str = ""

    @property
    def kind(self) -> str:
        return self.text

    @property
    def values(self) -> str:
        return f"{self.text}, each {self.entry.values}"

    def has_kind(self, value: Any) -> bool:
        return isinstance(value, tuple | list | np.ndarray)

    def accepts(self, value: Any) -> bool:
        return self.has_kind(value) and len(value) == self.length and all(map(self.entry.accepts, value))


class OnePerView(Constraint):
    """A value for all views, or a list of values, one per view; with `named`, also a dict of them by name.

    Whether there are as many as views is checked where the views are known.
    """

    def __init__(self, *entry: Constraint, named: bool = False) -> None:
        self.entry = entry
        self.named = named

    @property
    def kind(self) -> str:
        several = "a list or a dict of these" if self.named else "a list of these"
        return f"{_either(one.kind for one in self.entry)}, or {several}, one per view"

    def has_kind(self, value: Any) -> bool:
        return all(any(one.has_kind(part) for one in self.entry) for part in self._parts(value))

    def accepts(self, value: Any) -> bool:
        return all(any(one.accepts(part) for one in self.entry) for part in self._parts(value))

    def _parts(self, value: Any) -> Iterable[Any]:
        if self.named and isinstance(value, Mapping):
            return value.values()
        several = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)
        return value if several else [value]


#: Number of threads: negative ones count from all cores.
N_JOBS = (NONE, COUNT, Integer(high=-1, remedy=" -1 is all cores."))
RANDOM_STATE = (NONE, Integer(0), GENERATOR)


def check_value(value: Any, name: str, *constraints: Constraint) -> None:
    """Raise unless a value meets one of the constraints, if there are any."""
    if not constraints or any(constraint.accepts(value) for constraint in constraints):
        return
    of_kind = [constraint for constraint in constraints if constraint.has_kind(value)]
    ranges = [constraint.values for constraint in of_kind if constraint.values != constraint.kind]
    expected = _either(ranges or [constraint.kind for constraint in constraints])
    given = value if ranges else repr(value)
    remedy = "".join(constraint.remedy for constraint in of_kind)
    error = ValueError if of_kind else TypeError
    raise error(f"Expected {name} to be {expected}, got {given}.{remedy}")


def check_parameters(constraints: Constraints, values: Mapping[str, Any]) -> None:
    """Raise for the first of the values, given by name, that does not meet its constraints."""
    for name, allowed in constraints.items():
        check_value(values[name], name, *allowed)


def _either(texts: Iterable[str]) -> str:
    """Return alternatives in words, each once: "a, b or c"."""
    *first, last = dict.fromkeys(texts)
    return f"{', '.join(first)} or {last}" if first else last
