"""Ridge regressions from sums of products, against scikit-learn and against systems that are solved in full."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge as PeerRidge

from coupledict.learning.linear_maps import Extended, Products, Ridge

N, WIDTH, FURTHER = 60, 5, 7


@pytest.fixture
def table(rng):
    """Features and targets far from 0; the further features depend on the coordinates."""
    t = rng.standard_normal((N, WIDTH)) * [3, 2, 1, 0.5, 0.1] + 4
    f = np.maximum(t @ rng.standard_normal((WIDTH, FURTHER)), 0) + 0.3 * rng.standard_normal((N, FURTHER))
    y = t @ rng.standard_normal((WIDTH, 3)) + f @ rng.standard_normal((FURTHER, 3)) + rng.standard_normal((N, 3)) - 9
    return np.hstack([t, f]), y


def test_sums_of_parts_are_those_of_the_whole(table):
    f, y = table
    whole, parts = Products.over(f, y), Products.over(f[:20], y[:20])
    parts += Products.over(f[20:20], y[20:20])
    parts += Products.over(f[20:], y[20:])
    assert parts.n_samples == N
    for name in ("f", "y", "ff", "fy", "yy"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)
    np.testing.assert_allclose(whole.yy, np.sum(y**2, axis=0))


def test_sums_are_centred(table):
    f, y = table
    mean, y_mean, ff, fy = Products.over(f, y).centred()
    np.testing.assert_allclose(mean, f.mean(axis=0))
    np.testing.assert_allclose(y_mean, y.mean(axis=0))
    np.testing.assert_allclose(ff, (f - mean).T @ (f - mean), atol=1e-9)
    np.testing.assert_allclose(fy, (f - mean).T @ (y - y_mean), atol=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 1e-3, 1.0, 1e4])
@pytest.mark.parametrize("width", [WIDTH, 2])
def test_ridge_is_that_of_scikit_learn(table, penalty, width):
    f, y = table
    ridge = Ridge(Products.over(f, y), width)
    t = f[:, :width]
    peer = PeerRidge(penalty * np.mean(t.var(axis=0))).fit(t, y)
    np.testing.assert_allclose(ridge.solve(penalty), peer.coef_.T, atol=1e-8)
    np.testing.assert_allclose(ridge.y_mean, peer.predict(t).mean(axis=0))


@pytest.mark.parametrize(("penalty", "further_penalty"), [(0.5, 0.1), (100.0, 2.0), (1e-4, 1e5)])
@pytest.mark.parametrize("columns", [slice(WIDTH, None), slice(WIDTH + 2, WIDTH + 5)])
def test_two_penalties_are_those_of_one_system(table, penalty, further_penalty, columns):
    f, y = table
    ridge = Ridge(Products.over(f, y), WIDTH)
    extended = Extended(ridge, penalty, ridge.further(columns))
    found = extended.solve(further_penalty)
    coordinates = ridge.solve(penalty) - extended.explained @ found

    both = np.hstack([f[:, :WIDTH], f[:, columns]])
    both, centred = both - both.mean(axis=0), y - y.mean(axis=0)
    t, further = both[:, :WIDTH], both[:, WIDTH:]
    # The unit of the second penalty is the mean variance of what the coordinates leave of the further features.
    first = penalty * np.mean(t.var(axis=0))
    left = further.T @ further - further.T @ t @ np.linalg.solve(t.T @ t + first * np.eye(WIDTH), t.T @ further)
    second = further_penalty * np.trace(left) / len(left) / N
    penalties = np.r_[np.full(WIDTH, first), np.full(further.shape[1], second)]
    expected = np.linalg.solve(both.T @ both + np.diag(penalties), both.T @ centred)
    np.testing.assert_allclose(np.vstack([coordinates, found]), expected, atol=1e-8)
    np.testing.assert_allclose(extended.mean, f[:, columns].mean(axis=0))


def test_features_that_are_constant_predict_nothing():
    f, y = np.ones((20, 6)), np.arange(20.0)[:, None]
    for products in (Products.over(f, y), Products.over(f[:1], y[:1])):
        ridge = Ridge(products, 4)
        np.testing.assert_array_equal(ridge.solve(1.0), 0)
        np.testing.assert_array_equal(Extended(ridge, 1.0, ridge.further(slice(4, None))).solve(1.0), 0)


def test_large_penalties_shrink_to_zero(table):
    f, y = table
    ridge = Ridge(Products.over(f, y), WIDTH)
    assert np.abs(ridge.solve(1e15)).max() < 1e-10
    extended = Extended(ridge, 1.0, ridge.further(slice(WIDTH, None)))
    assert np.abs(extended.solve(1e15)).max() < 1e-10


def test_errors_of_a_path_are_those_of_each_penalty(table, rng):
    f, y = table
    ridge = Ridge(Products.over(f, y), WIDTH)
    t, features, wanted = rng.standard_normal((9, WIDTH)), rng.standard_normal((9, f.shape[1] - WIDTH)), y[:9] + 1
    penalties = [0.0, 1e-3, 1.0, 1e6]
    guesses = [(t - ridge.mean[:WIDTH]) @ ridge.solve(penalty) + ridge.y_mean for penalty in penalties]
    expected = [np.sum((guess - wanted) ** 2) for guess in guesses]
    np.testing.assert_allclose(ridge.errors(penalties, t, wanted), expected)

    extended = Extended(ridge, 1.0, ridge.further(slice(WIDTH, None)))
    left = wanted - guesses[2]
    rest = features - extended.mean - (t - ridge.mean[:WIDTH]) @ extended.explained
    expected = [np.sum((left - rest @ extended.solve(penalty)) ** 2) for penalty in penalties]
    np.testing.assert_allclose(extended.errors(penalties, extended.turn(t, features), left), expected)
