"""Constraints of parameters: what they accept, what errors say, and that every parameter of an estimator has some."""

from __future__ import annotations

import importlib
import inspect
from typing import Literal

import numpy as np
import pytest

from coupledict.foundation.parameters import (
    BOOLEAN,
    CALLABLE,
    COUNT,
    N_JOBS,
    NON_NEGATIVE,
    NONE,
    PENALTY,
    RANDOM_STATE,
    SHARE,
    ArrayLike,
    Choice,
    Integer,
    OnePerView,
    Real,
    Tuple,
    check_value,
)
from support.inner import PLACES

NAMES = Literal["a", "b"]
WRONG = {
    "an integer": (COUNT, 1.0, TypeError, "an integer, got 1.0."),
    "no truth value": (COUNT, True, TypeError, "an integer, got True."),
    "at least": (COUNT, np.int64(0), ValueError, "at least 1, got 0."),
    "from to": (Integer(1, 3), 4, ValueError, "an integer from 1 to 3, got 4."),
    "odd": (Integer(1, odd=True), 4, ValueError, "an odd integer of at least 1, got 4."),
    "a number": (NON_NEGATIVE, "1", TypeError, "a number, got '1'."),
    "finite": (NON_NEGATIVE, np.inf, ValueError, "a finite number of at least 0, got inf."),
    "not NaN": (NON_NEGATIVE, np.nan, ValueError, "a finite number of at least 0, got nan."),
    "noun": (Real(0, noun="squared norm"), -1, ValueError, "a finite squared norm of at least 0, got -1."),
    "share": (SHARE, 1.5, ValueError, "a number from 0 to 1, got 1.5."),
    "open left": (Real(0, 1, closed="right"), 0, ValueError, "a number above 0 and at most 1, got 0."),
    "open right": (Real(0, 1, closed="left"), 1, ValueError, "a number of at least 0 and below 1, got 1."),
    "truth": (BOOLEAN, 1, TypeError, "True or False, got 1."),
    "choice": (Choice(NAMES), "c", ValueError, "one of ('a', 'b'), got 'c'."),
    "table": (Choice({"a": 1, "b": 2}), "c", ValueError, "one of ('a', 'b'), got 'c'."),
    "choice of another kind": (Choice(NAMES), 3, TypeError, "one of ('a', 'b'), got 3."),
    "flags": (OnePerView(BOOLEAN), [True, 1], TypeError, "True or False, or a list of these, one per view, got [True,"),
    "pair": (Tuple(SHARE, 2, "two numbers"), (0, 2), ValueError, "two numbers, each a number from 0 to 1, got (0, 2)."),
    "pair of three": (Tuple(SHARE, 2, "two numbers"), (0, 0, 0), ValueError, "two numbers, each a number from 0 to 1"),
    "arrays": (ArrayLike("a list of arrays", entry_dims=2), [[1.0]], ValueError, "a list of arrays, got [[1.0]]."),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_tell_what_was_expected_and_what_was_given(case):
    constraint, value, error, text = WRONG[case]
    with pytest.raises(error) as caught:
        check_value(value, "size", constraint)
    assert str(caught.value).startswith(f"Expected size to be {text}")
    assert not constraint.accepts(value)


def test_errors_name_all_alternatives_of_the_wrong_kind_and_the_range_of_the_right_one():
    growth = Choice("auto"), NONE, CALLABLE
    for value, error in (("none", ValueError), (3, TypeError)):
        with pytest.raises(error, match=rf"growth to be 'auto', None or a callable, got {value!r}\.$"):
            check_value(value, "growth", *growth)
    with pytest.raises(ValueError, match=r"alpha to be a number from 0 to 1e\+100, got -1\.$"):
        check_value(-1, "alpha", Choice("auto"), PENALTY)
    with pytest.raises(ValueError, match=r"n_jobs to be at least 1 or at most -1, got 0\. -1 is all cores\.$"):
        check_value(0, "n_jobs", *N_JOBS)
    with pytest.raises(TypeError, match=r"n_jobs to be None or an integer, got 1\.5\.$"):
        check_value(1.5, "n_jobs", *N_JOBS)


def test_what_is_accepted():
    accepted = [
        (COUNT, [1, np.int8(3), 10**30]),
        (NON_NEGATIVE, [0, 0.0, np.float32(2), 3]),
        (SHARE, [0, 1, 0.5]),
        (BOOLEAN, [True, np.True_]),
        (Choice("auto", NAMES), ["auto", "a", "b"]),
        (OnePerView(BOOLEAN), [True, [True, False], np.array([True])]),
        (OnePerView(NONE, Choice(NAMES), named=True), [None, "a", ["a", None], {"left": "b"}]),
        (ArrayLike("a list of arrays", entry_dims=2), [[np.eye(2)], [[[1.0]]], np.eye(2)]),
        (Tuple(SHARE, 2, "two numbers"), [(0, 1), [0, 1], np.array([0.0, 1.0])]),
    ]
    for constraint, values in accepted:
        for value in values:
            check_value(value, "x", constraint)
    for value in (None, 3, np.random.default_rng(0), np.random.RandomState(0)):
        check_value(value, "random_state", *RANDOM_STATE)
    check_value(object(), "x")  # without constraints it is checked elsewhere


def estimators():
    found = {getattr(importlib.import_module(place), name) for name, place in PLACES.items()}
    from coupledict import SparseCoder
    from coupledict.images import Inpainting

    return sorted(found | {SparseCoder, Inpainting}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", estimators(), ids=lambda cls: cls.__name__)
def test_every_parameter_has_constraints_and_its_default_meets_them(cls):
    known = inspect.signature(cls).parameters
    constraints = cls._parameter_constraints
    assert set(constraints) == set(known)
    for name, allowed in constraints.items():
        if known[name].default is not inspect.Parameter.empty:
            check_value(known[name].default, name, *allowed)
        if allowed:
            with pytest.raises(TypeError, match=f"Expected {name} to be "):
                check_value(object(), name, *allowed)
