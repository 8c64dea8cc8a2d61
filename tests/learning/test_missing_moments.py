"""Means and covariances beside codes: sums over pairs, conditional means, and how much each guess counts."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

import coupledict
from coupledict import DictionaryLearning
from support.inner import Moments, MomentSums
from support.learners import make, planted_views
from support.masked_twins import knock_out

WIDTHS = (6, 9)


@pytest.fixture
def views(rng):
    return planted_views(rng, n=260, widths=WIDTHS)[0]


@pytest.fixture
def damaged(rng, views):
    return knock_out(rng, views, 0.2)


@pytest.fixture
def learner(damaged):
    return make(missing="nan", max_iter=6).fit(damaged)


def spread_out(rng, n=400, p=7):
    """Correlated samples with a mean, and their covariance."""
    mixing = rng.standard_normal((p, p))
    return rng.standard_normal((n, p)) @ mixing + np.arange(p), mixing.T @ mixing


# Sums


def test_covariances_of_pairs_that_are_known(rng):
    X = knock_out(rng, [spread_out(rng)[0]], 0.3)[0]
    mean, covariance = MomentSums.over([X[:, :3], X[:, 3:]]).estimate()
    np.testing.assert_allclose(mean, np.nanmean(X, axis=0))
    for i in range(7):
        for j in range(7):
            both = ~np.isnan(X[:, i]) & ~np.isnan(X[:, j])
            expected = np.mean((X[both, i] - mean[i]) * (X[both, j] - mean[j]))
            np.testing.assert_allclose(covariance[i, j], expected)


def test_sums_are_added_and_taken_away(rng):
    X = knock_out(rng, [spread_out(rng)[0]], 0.3)[0]
    parts = MomentSums.over([X[:150]])
    parts += MomentSums.over([X[150:]])
    whole = MomentSums.over([X])
    rest = whole - MomentSums.over([X[150:]])
    for name in ("counts", "firsts", "products"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name))
        np.testing.assert_allclose(getattr(rest, name), getattr(MomentSums.over([X[:150]]), name), atol=1e-9)


def test_what_nobody_knows_has_mean_and_covariance_zero():
    X = np.array([[1.0, np.nan, np.nan], [3.0, np.nan, np.nan], [np.nan, np.nan, 4.0]])
    mean, covariance = MomentSums.over([X]).estimate()
    np.testing.assert_array_equal(mean, [2, 0, 4])
    np.testing.assert_array_equal(covariance, [[1, 0, 0], [0, 0, 0], [0, 0, 0]])


# Conditional means


def test_conditional_means_are_those_of_the_textbook(rng):
    X, covariance = spread_out(rng, 50)
    table = knock_out(rng, [X], 0.4)[0]
    table[3] = np.nan
    table[4] = X[4]
    mean = np.arange(7.0)
    filled = Moments(mean, covariance, np.ones((1, 2))).expect(table)
    for row, own in zip(table, filled, strict=True):
        known = ~np.isnan(row)
        np.testing.assert_array_equal(own[known], row[known])
        if known.any() and not known.all():
            weights = np.linalg.lstsq(covariance[np.ix_(known, known)], covariance[np.ix_(known, ~known)], rcond=None)[
                0
            ]
            np.testing.assert_allclose(own[~known], mean[~known] + (row - mean)[known] @ weights, rtol=1e-6)
    np.testing.assert_array_equal(filled[3], mean)


def test_a_forged_covariance_is_refused():
    forged = Moments(np.zeros(3), np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]), np.ones((1, 2)))
    with pytest.raises(ValueError, match="positive definite"):
        forged.expect(np.array([[1.0, 1.0, np.nan]] * 3))


# Learners


def test_both_guesses_are_added_up(learner, damaged):
    moments = learner._moments
    both = learner.impute(damaged)
    learner._moments = None
    codes = learner.impute(damaged)
    expected = np.split(moments.expect(np.hstack(damaged)), [WIDTHS[0]], axis=1)
    for v, (X, own) in enumerate(zip(damaged, both, strict=True)):
        a, b = moments.shares[v]
        np.testing.assert_allclose(own, np.where(np.isnan(X), a * codes[v] + b * expected[v], X), atol=1e-12)
    assert (moments.shares > 0).any()


def test_the_better_guess_counts_more(rng):
    """Sparse samples that a dictionary explains exactly, and samples without any sparsity."""
    sparse = planted_views(rng, n=2500, n_components=40, widths=(20,), noise=0.01)[0][0]
    dense = rng.standard_normal((900, 3)) @ rng.standard_normal((3, 20)) + 0.05 * rng.standard_normal((900, 20))
    shares = []
    for X in (sparse, dense):
        learner = DictionaryLearning(40, n_nonzero_coefs=2, missing="nan", random_state=0)
        shares.append(learner.fit(knock_out(rng, [X], 0.2)[0])._moments.shares[0])
    assert shares[0][0] > 1.5 * shares[0][1]
    assert shares[1][1] > 2 * shares[1][0]


def test_imputation_is_no_worse_than_either_guess(rng):
    X, _ = spread_out(rng, 600, 12)
    table = knock_out(rng, [X], 0.25)[0]
    learner = DictionaryLearning(24, n_nonzero_coefs=3, missing="nan", random_state=0).fit(table)
    holes = np.isnan(table)
    moments = learner._moments
    both, alone = learner.impute(table), moments.expect(table)
    learner._moments = None
    codes = learner.impute(table)
    errors = [np.mean((guess - X)[holes] ** 2) for guess in (both, alone, codes)]
    assert errors[0] < 1.1 * min(errors[1:])


def test_complete_samples_are_judged_too(views):
    learner = make(missing="nan", max_iter=4).fit(views)
    assert learner._moments.shares.shape == (2, 2)
    assert make(max_iter=4).fit(views)._moments is None


@pytest.mark.parametrize("X", [np.zeros((60, 5)), np.ones((60, 5)), np.eye(5)[[0, 1, 2]]])
def test_samples_that_have_no_covariances(rng, X):
    table = knock_out(rng, [X], 0.3)[0]
    table[0] = X[0]
    learner = DictionaryLearning(4, n_nonzero_coefs=1, missing="nan", random_state=0, max_iter=3).fit(table)
    assert np.isfinite(learner.impute(np.vstack([X[0], np.where(np.arange(5) < 2, np.nan, X[0])]))).all()


def test_threads_chunks_and_dask_agree(damaged):
    alone, shared = (make(missing="nan", max_iter=3, n_jobs=n).fit(damaged) for n in (1, 2))
    np.testing.assert_array_equal(alone._moments.covariance, shared._moments.covariance)
    np.testing.assert_array_equal(alone._moments.shares, shared._moments.shares)
    chunks = [[X[i : i + 65] for X in damaged] for i in range(0, 260, 65)]
    with dask.config.set(scheduler="threads"):
        lazy = make(missing="nan", max_iter=3).fit([da.from_array(X, chunks=(65, -1)) for X in damaged])
    cut = make(missing="nan", max_iter=3).fit(chunks)
    np.testing.assert_array_equal(cut._moments.covariance, lazy._moments.covariance)
    np.testing.assert_array_equal(cut._moments.shares, lazy._moments.shares)


def test_they_are_saved(learner, damaged, tmp_path):
    learner.save(tmp_path / "model.safetensors")
    loaded = coupledict.load(tmp_path / "model.safetensors")
    for one, other in zip(learner.impute(damaged), loaded.impute(damaged), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_batch_drops_them(learner, damaged):
    assert learner.partial_fit(damaged)._moments is None
