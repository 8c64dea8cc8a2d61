"""The comparison helper must notice wrong codes; each case here breaks one thing."""

from __future__ import annotations

import numpy as np
import pytest

from support import twins
from support.compare import Problem, assert_codes_match, assert_greedy, fault_of_code
from support.problems import random_dictionary


@pytest.fixture(params=["omp", "ols"])
def case(request, rng):
    X, D = rng.standard_normal((6, 12)), random_dictionary(rng, 30, 12)
    codes = twins.sparse_encode([X], [D], n_nonzero_coefs=4, pursuit=request.param)
    return Problem.of([X], [D], n_nonzero_coefs=4, pursuit=request.param), codes


def test_accepts_the_twin(case):
    problem, codes = case
    assert_greedy(problem, codes)
    assert_codes_match(problem, codes, codes)


def test_notices_wrong_coefficients(case):
    problem, codes = case
    wrong = codes.copy()
    wrong[2, np.flatnonzero(wrong[2])[1]] *= 1 + 1e-6
    assert fault_of_code(problem, wrong[2], problem.signals[2]) is not None
    with pytest.raises(AssertionError, match="Code 2 differs"):
        assert_codes_match(problem, wrong, codes)


def test_notices_a_worse_atom(case):
    problem, codes = case
    wrong = codes.copy()
    worst = int(np.argmin(np.abs(problem.atoms @ problem.signals[3])))
    support = [*np.flatnonzero(wrong[3])[:3], worst]
    wrong[3] = 0
    wrong[3, support] = np.linalg.lstsq(problem.atoms[support].T, problem.signals[3], rcond=None)[0]
    with pytest.raises(AssertionError, match=r"Code 3 .*not because of a tie"):
        assert_codes_match(problem, wrong, codes)


def test_notices_too_many_and_too_few_atoms(case):
    problem, _ = case
    many = np.linalg.lstsq(problem.atoms[:5].T, problem.signals[0], rcond=None)[0]
    assert "more than 4" in fault_of_code(problem, np.r_[many, np.zeros(25)], problem.signals[0])
    assert "stops at 0 atoms" in fault_of_code(problem, np.zeros(30), problem.signals[0])


def test_notices_going_on_after_tol(case, rng):
    problem, codes = case
    residuals = np.sum((problem.signals - codes @ problem.atoms) ** 2, axis=1)
    loose = Problem(
        problem.signals,
        problem.atoms,
        12,
        float(np.sum(problem.signals[0] ** 2)) * 0.9,
        problem.pursuit,
        problem.dtype,
    )
    assert residuals[0] < loose.tol
    assert "after tol was reached" in fault_of_code(loose, codes[0], problem.signals[0])


def test_notices_nan(case):
    problem, codes = case
    wrong = codes.copy()
    wrong[1, 0] = np.nan
    assert "not finite" in fault_of_code(problem, wrong[1], problem.signals[1])


def test_accepts_a_tie_but_not_many(case):
    """Two equal atoms: either may be chosen, but a helper that lets everything be a tie would be of no use."""
    problem, _ = case
    atoms = np.vstack([problem.atoms, problem.atoms[:5]])
    twin = Problem(problem.signals, atoms, 4, None, problem.pursuit, problem.dtype)
    codes = twins.sparse_encode([problem.signals], [atoms], n_nonzero_coefs=4, pursuit=problem.pursuit)
    moved = codes.copy()
    moved[:, 30:], moved[:, :5] = codes[:, :5], codes[:, 30:]
    assert_codes_match(twin, moved, codes, max_ties=1.0)
    assert np.any(moved != codes)
    with pytest.raises(AssertionError, match="chose other atoms; at most"):
        assert_codes_match(twin, moved, codes, max_ties=0.0)


def test_notices_a_wrong_shape(case):
    problem, codes = case
    with pytest.raises(AssertionError, match="Expected shape"):
        assert_codes_match(problem, codes[:-1], codes)
