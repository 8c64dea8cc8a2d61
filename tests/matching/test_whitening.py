"""Whitening beside its formula, both ways to principal components, and the way back."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict.matching._whitening import check_finite, fit_whitening

F64 = np.dtype(np.float64)


def mixed(rng, n=400, width=6):
    return rng.standard_normal((n, width)) @ rng.standard_normal((width, width)) + 5


def covariance(X):
    return np.cov(X.T, bias=True)


def test_without_penalty_all_variances_become_one(rng):
    X = mixed(rng)
    white = fit_whitening(X, 0.0).apply(X, F64)
    np.testing.assert_allclose(covariance(white), np.eye(6), atol=1e-10)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-10)


def test_penalty_by_its_formula(rng):
    X = mixed(rng)
    white = fit_whitening(X, 3.0).apply(X, F64)
    variances, axes = np.linalg.eigh(covariance(X))
    # Products of samples do not depend on the choice of axes.
    middle = axes @ np.diag(1 / (variances + 3 * variances.mean())) @ axes.T
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(white @ white.T, centred @ middle @ centred.T, atol=1e-10)


def test_few_samples_of_many_features_by_the_same_formula(rng):
    X = mixed(rng, 12, 30)
    whitening = fit_whitening(X, 0.5)
    white = whitening.apply(X, F64)
    assert white.shape == (12, 11)  # centred samples span one dimension less than their number
    variances, axes = np.linalg.eigh(covariance(X))
    middle = axes @ np.diag(1 / (np.clip(variances, 0, None) + 0.5 * variances.mean())) @ axes.T
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(white @ white.T, centred @ middle @ centred.T, atol=1e-8)
    np.testing.assert_allclose(whitening.undo(white), X, atol=1e-8)


def test_scaling_alone(rng):
    X = mixed(rng)
    white = fit_whitening(X, None).apply(X, F64)
    assert np.mean(white**2) == pytest.approx(1)
    np.testing.assert_allclose(white / white[0, 0], (X - X.mean(axis=0)) / (X - X.mean(axis=0))[0, 0])


@pytest.mark.parametrize("alpha", [None, 0.0, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_there_and_back_over_several_blocks(rng, alpha, dtype):
    X = mixed(rng, 9000).astype(dtype)
    whitening = fit_whitening(X, alpha)
    white = whitening.apply(X, np.dtype(dtype))
    assert white.dtype == dtype
    back = whitening.undo(white)
    assert back.dtype == dtype
    np.testing.assert_allclose(back, X, atol=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("alpha", [None, 1.0])
def test_a_constant_view(alpha):
    X = np.full((5, 3), 7.0)
    np.testing.assert_array_equal(fit_whitening(X, alpha).apply(X, F64), np.zeros((5, 3)))


def test_a_constant_feature_is_left_out(rng):
    X = np.hstack([mixed(rng), np.ones((400, 1))])
    assert fit_whitening(X, 0.0).apply(X, F64).shape == (400, 6)


def test_the_sample_that_is_not_finite_is_named(rng):
    X = mixed(rng, 5000)
    check_finite(X, "X")
    X[4321, 2] = np.inf
    with pytest.raises(ValueError, match=r"Expected X to be finite.* sample 4321\."):
        check_finite(X, "X")
