"""Checks of parameters. Each error names the parameter, what was expected and what was given."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

import numpy as np

from .arrays import Floats
from .tensors import with_numpy

MOST_PENALTY = 1e100  # larger ones would overflow, and mean the same


def check_count(value: object, name: str) -> int:
    """Return `value` as an integer of at least 1."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"Expected {name} to be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"Expected {name} to be at least 1, got {value}.")
    return int(value)


def check_counts(owner: object, *names: str, optional: Sequence[str] = ()) -> None:
    """Check parameters of an estimator that are integers of at least 1; optional ones may be None."""
    given = [*names, *(name for name in optional if getattr(owner, name) is not None)]
    for name in given:
        check_count(getattr(owner, name), name)


def check_non_negative(value: object, name: str) -> float:
    """Return `value` as a finite number of at least 0."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"Expected {name} to be a number, got {value!r}.")
    number = float(value)
    if not (np.isfinite(number) and number >= 0):
        what = "squared norm" if name == "tol" else "number"
        raise ValueError(f"Expected {name} to be a finite {what} of at least 0, got {value}.")
    return number


def check_penalty(value: object, name: str) -> float:
    """Return `value` as a number of at least 0 that can be multiplied with ordinary numbers."""
    number = check_non_negative(value, name)
    if number > MOST_PENALTY:
        raise ValueError(f"Expected {name} to be at most {MOST_PENALTY:g}, got {value}.")
    return number


def check_share(value: object, name: str) -> float:
    """Return `value` as a number from 0 to 1."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"Expected {name} to be a number from 0 to 1, got {value!r}.")
    if not 0 <= float(value) <= 1:
        raise ValueError(f"Expected {name} to be a number from 0 to 1, got {value}.")
    return float(value)


def check_truth(value: object, name: str) -> bool:
    """Return `value` as True or False; numbers and strings are neither."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"Expected {name} to be True or False, got {value!r}.")
    return bool(value)


def check_truths(value: object, name: str) -> bool | tuple[bool, ...]:
    """Return `value` as True or False, for all views, or as a tuple of these, one per view."""
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return tuple(check_truth(entry, f"{name}[{v}]") for v, entry in enumerate(value))
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"Expected {name} to be True or False, or a list of these, one per view, got {value!r}.")
    return bool(value)


def check_choice(value: object, name: str, choices: Sequence[str]) -> str:
    """Return `value` if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"Expected {name} to be one of {tuple(choices)}, got {value!r}.")
    return value


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
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, dtype=np.uint32))
    if random_state is None or isinstance(random_state, int | np.integer):
        return np.random.default_rng(random_state)
    raise TypeError(f"Expected random_state to be None, an integer or a NumPy generator, got {random_state!r}.")
