"""Duality gaps of the lasso: bounds on how far codes are from the minimum."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict import lasso_gaps, sparse_encode
from coupledict.coding.gap import duality_gaps
from support.problems import random_dictionary


def objective(Xs, Ds, weights, codes, alpha):
    """The objective of each code, over known entries."""
    squares = [w * np.nansum((X - codes @ D) ** 2, axis=1) for w, X, D in zip(weights, Xs, Ds, strict=True)]
    return 0.5 * np.sum(squares, axis=0) + alpha * np.abs(codes).sum(axis=1)


@pytest.fixture
def problem(rng):
    """Two weighted views, one of them with missing entries."""
    Xs = [3 * rng.standard_normal((40, 12)), rng.standard_normal((40, 7))]
    Xs[0][rng.random(Xs[0].shape) < 0.2] = np.nan
    return Xs, [random_dictionary(rng, 30, X.shape[1]) for X in Xs], [0.5, 2.0]


@pytest.mark.parametrize("positive", [False, True])
def test_gaps_of_codes_are_rounding_errors(problem, positive):
    Xs, Ds, weights = problem
    rule = {"alpha": 0.7, "positive_code": positive, "missing": "nan", "view_weights": weights}
    codes = sparse_encode(Xs, Ds, pursuit="lasso", **rule)
    gaps = lasso_gaps(Xs, Ds, codes, **rule)
    assert gaps.shape == (40,)
    assert gaps.dtype == np.float64
    assert np.all(gaps <= 1e-11 * objective(Xs, Ds, weights, codes.toarray(), 0.7))
    single = [X.astype(np.float32) for X in Xs], [D.astype(np.float32) for D in Ds]
    rough = lasso_gaps(*single, sparse_encode(*single, pursuit="lasso", **rule), **rule)
    assert 0 < rough.max() < 1e-4 * objective(Xs, Ds, weights, codes.toarray(), 0.7).max()


@pytest.mark.parametrize("positive", [False, True])
def test_gaps_bound_what_worse_codes_lose(problem, positive, rng, sizes):
    sizes(gap_numbers=200)  # several blocks of samples
    Xs, Ds, weights = problem
    best = sparse_encode(
        Xs, Ds, pursuit="lasso", alpha=0.7, positive_code=positive, missing="nan", view_weights=weights
    )
    worse = best.copy()
    worse.data = worse.data * rng.uniform(0.5, 1.4, worse.nnz)
    gaps = duality_gaps(Xs, Ds, np.array(weights), worse, 0.7, positive=positive)
    lost = [objective(Xs, Ds, weights, codes.toarray(), 0.7) for codes in (worse, best)]
    assert np.all(gaps >= lost[0] - lost[1] - 1e-9)
    assert np.median(gaps) < 100 * np.median(lost[0] - lost[1])  # bounds, but not idle ones


def test_gaps_of_views_that_count(problem):
    """A view of weight 0 counts as absent, and codes may be dense."""
    Xs, Ds, _ = problem
    codes = sparse_encode(Xs[1], Ds[1], pursuit="lasso", alpha=0.7).toarray()
    gaps = lasso_gaps(Xs, Ds, codes, alpha=0.7, missing="nan", view_weights=[0, 1])
    np.testing.assert_array_equal(gaps, lasso_gaps(Xs[1], Ds[1], codes, alpha=0.7))


def test_codes_that_do_not_fit_are_refused():
    X, atoms = np.ones((1, 2)), np.eye(2)
    with pytest.raises(
        ValueError, match=r"Expected codes of shape \(1, 2\), one row for each sample of X, got \(2, 2\)"
    ):
        lasso_gaps(X, atoms, np.eye(2), alpha=0.1)
    with pytest.raises(ValueError, match="Expected a positive alpha with pursuit='lasso', got 0"):
        lasso_gaps(X, atoms, np.zeros((1, 2)), alpha=0)
