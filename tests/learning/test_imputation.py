"""Missing entries filled in by conditional means, by similar samples and by codes, and how much each guess counts."""

from __future__ import annotations

import dataclasses

import dask
import dask.array as da
import numpy as np
import pytest

import coupledict
from coupledict import DictionaryLearning
from coupledict.learning.imputation import LEAST_SIMILARITY
from support.inner import Moments, Threads
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


# Means and covariances


@pytest.mark.parametrize("n", [3, 40])
def test_covariances_shrink_and_have_an_inverse(rng, n):
    X = spread_out(rng, n, 9)[0]
    X[:, 4] = 2.0
    moments = Moments.of(X, 0.3)
    expected = 0.7 * np.cov(X.T, bias=True)
    expected[np.diag_indices(9)] = np.where(np.arange(9) == 4, X.var(axis=0).mean(), X.var(axis=0))
    np.testing.assert_allclose(moments.mean, X.mean(axis=0))
    np.testing.assert_allclose(moments.covariance, expected, atol=1e-12)
    np.testing.assert_allclose(moments.precision @ expected, np.eye(9), atol=1e-9)


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_conditional_means_are_those_of_the_textbook(rng, share):
    X, covariance = spread_out(rng, 50)
    table = knock_out(rng, [X], share)[0]
    table[3] = np.nan
    table[4] = X[4]
    table[4, 6] = np.nan
    table[5:9] = table[10]
    mean = np.arange(7.0)
    for given in (table, np.where(np.arange(7) == 2, np.nan, table)):  # the second lacks a whole feature
        filled = Moments(mean, covariance).expect(given)
        np.testing.assert_array_equal(filled, Moments(mean, covariance).expect(given, Threads(2)))
        for row, own in zip(given, filled, strict=True):
            known = ~np.isnan(row)
            np.testing.assert_array_equal(own[known], row[known])
            among = covariance[np.ix_(known, known)]
            weights = np.linalg.lstsq(among, covariance[np.ix_(known, ~known)], rcond=None)[0]
            np.testing.assert_allclose(own[~known], mean[~known] + (row - mean)[known] @ weights, rtol=1e-6)
        np.testing.assert_array_equal(filled[3], mean)


def test_a_forged_covariance_is_refused():
    forged = Moments(np.zeros(3), np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]))
    with pytest.raises(ValueError, match="positive definite"):
        forged.expect(np.array([[1.0, 1.0, np.nan], [1.0, 1.0, 1.0]]))


# Guesses


def test_similar_samples_are_averaged_over_what_they_know(learner, damaged):
    """A twin of the second guess, sample by sample."""
    imputer = dataclasses.replace(learner._imputer, shares=np.tile([0.0, 1.0, 0.0], (2, 1)))
    table = np.hstack(damaged)[:20]
    found = np.hstack(imputer(table, [], WIDTHS, Threads(2)))
    moments, neighbours = imputer.moments, imputer.neighbours
    deviations = np.sqrt(np.diag(moments.covariance))
    complete = (moments.expect(table) - moments.mean) / deviations
    for row, own, point in zip(table, found, complete, strict=True):
        distances = np.sum((neighbours.points - point) ** 2, axis=1)
        weights = np.exp((distances.min() - distances) / (2 * sum(WIDTHS) * imputer.width))
        weights = weights / weights.sum()
        total = weights @ (neighbours.points * neighbours.known) + LEAST_SIMILARITY * point
        guess = total / (weights @ neighbours.known + LEAST_SIMILARITY) * deviations + moments.mean
        np.testing.assert_allclose(own, np.where(np.isnan(row), guess, row), rtol=1e-8, atol=1e-10)


def test_guesses_are_weighted_for_each_view(learner, damaged):
    shares = np.array([[0.5, 0.2, 0.3], [1.0, 0.0, 0.0]])
    guesses = []
    for own in (*np.eye(3), None):
        chosen = shares if own is None else np.tile(own, (2, 1))
        learner._imputer = dataclasses.replace(learner._imputer, shares=chosen)
        guesses.append(learner.impute(damaged))
    for v in range(2):
        expected = sum(share * guess[v] for share, guess in zip(shares[v], guesses[:3], strict=True))
        np.testing.assert_allclose(guesses[3][v], np.where(np.isnan(damaged[v]), expected, damaged[v]), atol=1e-12)


def test_the_better_guess_counts_more(rng):
    """Samples near a plane, samples on a curve, and sparse ones that a dictionary explains exactly."""
    sparse = planted_views(rng, n=1500, n_components=40, widths=(20,), noise=0.01)[0][0]
    dense = rng.standard_normal((700, 3)) @ rng.standard_normal((3, 20)) + 0.05 * rng.standard_normal((700, 20))
    curve = np.cos(np.outer(2 * np.pi * rng.random(700), np.arange(1, 21)) + np.arange(20))
    for best, (n_atoms, X) in enumerate(((40, dense), (5, curve), (40, sparse))):
        learner = DictionaryLearning(n_atoms, n_nonzero_coefs=2, missing="nan", random_state=0)
        shares = learner.fit(knock_out(rng, [X], 0.2)[0])._imputer.shares[0]
        assert shares.sum() == pytest.approx(1)
        assert np.argmax(shares) == best


@pytest.mark.parametrize("what", ["entries", "views"])
def test_few_samples_are_filled_in_better_than_by_means(rng, what):
    """40 samples of 60 features: fewer than a covariance needs."""
    X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 60)) + 0.3 * rng.standard_normal((40, 60))
    lost = rng.random(X.shape) < 0.3
    if what == "views":
        lost[:] = False
        lost[::4, :30] = True
        lost[1::4, 30:] = True
    table = np.where(lost, np.nan, X)
    filled = np.hstack(
        make(missing="nan", max_iter=4).fit([table[:, :30], table[:, 30:]]).impute(np.split(table, 2, axis=1))
    )
    error, of_means = (np.mean((guess - X)[lost] ** 2) for guess in (filled, np.nanmean(table, axis=0) + 0 * X))
    assert error < 0.6 * of_means


def test_codes_that_do_not_count_are_not_made(learner, damaged):
    learner._imputer = dataclasses.replace(learner._imputer, shares=np.tile([0.7, 0.3, 0.0], (2, 1)))
    filled = learner.impute(damaged)
    learner.components_ = [np.zeros_like(atoms) for atoms in learner.components_]
    for one, other in zip(learner.impute(damaged), filled, strict=True):
        np.testing.assert_array_equal(one, other)
    damaged[1][4, 0] = np.inf
    with pytest.raises(ValueError, match=r"infinity in X\[1\], sample 4"):
        learner.impute(damaged)


# Learners


def test_complete_samples_are_judged_too(views):
    learner = make(missing="nan", max_iter=4).fit(views)
    assert learner._imputer.shares.shape == (2, 3)
    assert make(max_iter=4).fit(views)._imputer is None


@pytest.mark.parametrize("X", [np.zeros((60, 5)), np.ones((60, 5)), np.eye(5)[[0, 1, 2]]])
def test_samples_that_have_no_covariances(rng, X):
    table = knock_out(rng, [X], 0.3)[0]
    table[0] = X[0]
    learner = DictionaryLearning(4, n_nonzero_coefs=1, missing="nan", random_state=0, max_iter=3).fit(table)
    assert np.isfinite(learner.impute(np.vstack([X[0], np.where(np.arange(5) < 2, np.nan, X[0])]))).all()


def test_threads_chunks_and_dask_agree(damaged):
    alone, shared = (make(missing="nan", max_iter=3, n_jobs=n).fit(damaged) for n in (1, 2))
    chunks = [[X[i : i + 65] for X in damaged] for i in range(0, 260, 65)]
    with dask.config.set(scheduler="threads"):
        lazy = make(missing="nan", max_iter=3).fit([da.from_array(X, chunks=(65, -1)) for X in damaged])
    cut = make(missing="nan", max_iter=3).fit(chunks)
    for one, other in ((alone, shared), (cut, lazy)):
        tensors = other._imputer.to_tensors()
        for name, array in one._imputer.to_tensors().items():
            np.testing.assert_array_equal(array, tensors[name])


def test_it_is_saved(learner, damaged, tmp_path):
    learner.save(tmp_path / "model.safetensors")
    loaded = coupledict.load(tmp_path / "model.safetensors")
    for one, other in zip(learner.impute(damaged), loaded.impute(damaged), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "forge"),
    [
        ("mean", lambda array: array[:-1]),
        ("covariance", lambda array: array + np.triu(np.ones_like(array), 1)),
        ("covariance", np.ones_like),
        ("points", lambda array: array[:0]),
        ("points", lambda array: array * 1e12),
        ("points", lambda array: array.astype(np.float32)),
        ("known", lambda array: array * 0.5),
        ("width", lambda array: array * 0),
        ("shares", lambda array: array * 2),
        ("shares", lambda array: array * 0.9),
    ],
)
def test_forged_files_are_refused(learner, name, forge):
    imputer = learner._imputer
    imputer.check(WIDTHS)
    tensors = imputer.to_tensors()
    with pytest.raises(ValueError, match=r"its|positive definite"):
        type(imputer).from_tensors(tensors | {name: forge(tensors[name])}).check(WIDTHS)


def test_a_batch_drops_it(learner, damaged):
    assert learner.partial_fit(damaged)._imputer is None
