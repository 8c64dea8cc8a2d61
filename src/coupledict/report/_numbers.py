"""Formats of numbers on the page; missing values become a dash."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from numbers import Real
from typing import Any, TypeGuard

NONE = "\N{EN DASH}"
SPACE = "\N{NO-BREAK SPACE}"
TIMES = "\N{MULTIPLICATION SIGN}"


def find(tree: Any, *keys: str) -> Any:
    """Return the value under these keys, or None if one of them is missing."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def entries(tree: Any, *keys: str) -> list[Any]:
    """Return the list under these keys, or an empty one."""
    found = find(tree, *keys)
    return list(found) if isinstance(found, Sequence) and not isinstance(found, str) else []


def text(tree: Any, *keys: str) -> str:
    """Return the value under these keys as text, or an empty string."""
    found = find(tree, *keys)
    return "" if found is None else str(found)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _write(value: Any, how: Callable[[float], str]) -> str:
    if is_number(value):
        return how(value)
    return value if isinstance(value, str) else NONE


def count(value: Any) -> str:
    """Write a count: ``20,000``."""
    return _write(value, lambda number: f"{number:,.0f}")


def fixed(value: Any, decimals: int = 2) -> str:
    """Write a number with a fixed number of decimals: ``0.97``."""
    return _write(value, lambda number: f"{number:,.{decimals}f}")


def significant(value: Any, digits: int = 3) -> str:
    """Write a number with three significant digits, trailing zeros kept: ``0.145``, ``2.30``, ``20.8``, ``1,234``."""

    def write(number: float) -> str:
        if number == 0:
            return "0"
        exponent = math.floor(math.log10(abs(float(f"{number:.{digits - 1}e}"))))
        if exponent < -5:
            return f"{number:.{digits - 1}e}"
        return f"{number:,.{max(0, digits - 1 - exponent)}f}"

    return _write(value, write)


def seconds(value: Any) -> str:
    """Write a duration: ``0.145 s``, ``3 min 20 s``."""

    def write(number: float) -> str:
        if number < 100:
            return f"{significant(number)}{SPACE}s"
        minutes, rest = divmod(round(number), 60)
        return f"{minutes}{SPACE}min {rest}{SPACE}s"

    return _write(value, write)


def share(value: Any, decimals: int = 1) -> str:
    """Write a share as per cent: ``94.1 %``."""
    return _write(value, lambda number: f"{100 * number:.{decimals}f}{SPACE}%")


def times(value: Any) -> str:
    """Write a ratio with a multiplication sign after it; one decimal below 100."""
    return _write(value, lambda number: f"{number:,.{1 if number < 100 else 0}f}{TIMES}")


def date(value: Any) -> str:
    """Write an ISO time as ``3 May 2025, 14:05``; other text stays as it is."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value if isinstance(value, str) else ""
    zone = f" {moment.tzname()}" if moment.tzinfo else ""
    return f"{moment.day}{SPACE}{moment:%B %Y, %H:%M}{zone}"
