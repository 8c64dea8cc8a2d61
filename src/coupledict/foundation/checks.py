"""Checks of single arguments, which return what they checked. The messages are those of `parameters`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Floats
from .parameters import BOOLEAN, COUNT, NON_NEGATIVE, RANDOM_STATE, SHARE, Choice, check_value
from .tensors import with_numpy


def check_count(value: object, name: str) -> int:
    """Return `value` as an integer of at least 1."""
    check_value(value, name, COUNT)
    return int(value)  # type: ignore[call-overload,no-any-return]


def check_non_negative(value: object, name: str) -> float:
    """Return `value` as a finite number of at least 0."""
    check_value(value, name, NON_NEGATIVE)
    return float(value)  # type: ignore[arg-type]


def check_share(value: object, name: str) -> float:
    """Return `value` as a number from 0 to 1."""
    check_value(value, name, SHARE)
    return float(value)  # type: ignore[arg-type]


def check_truth(value: object, name: str) -> bool:
    """Return `value` as True or False; numbers and strings are neither."""
    check_value(value, name, BOOLEAN)
    return bool(value)


def check_choice(value: object, name: str, choices: Sequence[str]) -> str:
    """Return `value` if it is one of the choices."""
    check_value(value, name, Choice(*choices))
    return str(value)


def check_weights(view_weights: object, n_views: int) -> Floats:
    """Return non-negative weights, one per view; None means 1 for every view."""
    if view_weights is None:
        return np.ones(n_views)
    view_weights = with_numpy(view_weights, "view_weights")
    if isinstance(view_weights, str) or not isinstance(view_weights, Sequence | np.ndarray):
        raise TypeError(f"Expected view_weights to be None or a list of {n_views} numbers, got {view_weights!r}.")
    try:
        weights = np.asarray(view_weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"Expected view_weights to be a list of numbers, got {view_weights!r}.") from error
    if weights.shape != (n_views,):
        raise ValueError(f"Expected view_weights to hold {n_views} numbers, one per view, got shape {weights.shape}.")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError(f"Expected view_weights to be finite and not negative, got {view_weights!r}.")
    return weights


def make_generator(random_state: object) -> np.random.Generator:
    """Turn a `random_state`, as scikit-learn accepts it, or a NumPy generator into a NumPy generator."""
    check_value(random_state, "random_state", *RANDOM_STATE)
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, dtype=np.uint32))
    return np.random.default_rng(random_state)  # type: ignore[arg-type]
