"""The shares of heads, the samples that are held out, and principal axes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from coupledict.learning.choice import (
    FEW_SAMPLES,
    HEADS,
    LEAST_SHARE,
    N_RUNS,
    RUN_PART,
    Features,
    Trial,
    best_shares,
    choose,
    leading_axes,
    make_splits,
)
from coupledict.learning.local_maps import Anchors

# Shares


def grid(n, steps):
    """All weights of sum 1 that are multiples of 1 / steps."""
    for cuts in itertools.combinations(range(steps + n - 1), n - 1):
        yield np.diff([-1, *cuts, steps + n - 1]) - 1


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_no_weights_of_a_grid_are_better(n, rng):
    every = np.array(list(grid(n, 20))) / 20
    for trial in range(20):
        # Residuals of heads that resemble each other, more or less.
        left = rng.standard_normal((n, 30)) * rng.uniform(0.2, 2, (n, 1)) + rng.uniform(0, 3) * rng.standard_normal(30)
        products = left @ left.T
        shares = best_shares(products)
        assert shares.sum() == pytest.approx(1)
        assert all(share == 0 or share >= LEAST_SHARE for share in shares)
        error = shares @ products @ shares
        assert error <= products.diagonal().min() * (1 + 1e-12), "never worse than the best head alone"
        smallest = np.einsum("ij,jk,ik->i", every, products, every).min()
        # A share below the least may be worth a little more.
        assert error <= smallest * (1 + 1e-3), (trial, error, smallest)


def test_equal_heads_and_heads_without_error():
    for products in (np.ones((3, 3)), np.zeros((5, 5)), np.full((5, 5), 1e-300), np.diag([0.0, 1.0, 1.0])):
        shares = best_shares(products)
        assert shares.sum() == pytest.approx(1)
        assert shares @ products @ shares == pytest.approx(products.diagonal().min())
    np.testing.assert_allclose(best_shares(np.diag([1.0, 1.0])), 0.5)
    np.testing.assert_allclose(best_shares(np.diag([1.0, 3.0])), [0.75, 0.25])


# Samples held out


@pytest.mark.parametrize("n", [1, 2, 5, 9, 100, FEW_SAMPLES - 1])
def test_each_of_few_samples_is_held_out_once(n, rng):
    splits = make_splits(n, rng)
    assert len(splits) == min(5, n)
    np.testing.assert_array_equal(np.sort(np.concatenate(splits)), np.arange(n))
    assert max(map(len, splits)) - min(map(len, splits)) <= 1


@pytest.mark.parametrize("n", [FEW_SAMPLES, 1000, 4096, 4111])
def test_of_many_samples_runs_are_held_out(n, rng):
    (held,) = make_splits(n, rng)
    assert (np.diff(held) > 0).all(), "in order, and none twice"
    runs = np.split(held, np.flatnonzero(np.diff(held) > 1) + 1)
    assert len(runs) == N_RUNS
    assert held.size == pytest.approx(n / RUN_PART, rel=0.1)
    assert min(map(len, runs)) >= n // (N_RUNS * RUN_PART)
    assert held[0] > 0
    assert held[-1] < n - 1


# Principal axes


@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("shape", [(30, 9), (9, 30), (12, 12)], ids=["tall", "wide", "square"])
@pytest.mark.parametrize("count", [2, 8, 100])
def test_axes_are_those_of_a_singular_value_decomposition(shape, rank, count, rng):
    n, width = shape
    left = rng.standard_normal((n, rank)) * 2.0 ** -np.arange(rank)
    table = left @ rng.standard_normal((rank, width))
    axes = leading_axes(table, count)
    assert axes.shape[0] == width
    assert min(count, rank) <= axes.shape[1] <= min(count, n, width)
    np.testing.assert_allclose(axes.T @ axes, np.eye(axes.shape[1]), atol=1e-7)
    expected = np.linalg.svd(table)[2][: min(count, rank)]
    np.testing.assert_allclose(np.abs(expected @ axes[:, : len(expected)]), np.eye(len(expected)), atol=1e-6)


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (1, 4), (1, 1)])
def test_axes_of_a_table_of_zeros(shape):
    axes = leading_axes(np.zeros(shape), 5)
    assert np.isfinite(axes).all()
    assert (np.linalg.norm(axes, axis=0) <= 1 + 1e-12).all()


# Heads


@pytest.fixture
def trial(rng):
    t = rng.standard_normal((200, 3)) * [3, 1, 0.3]
    y = np.abs(t @ rng.standard_normal((3, 40)))
    codes = np.where(np.abs(t) > 1, t, 0)
    anchors = {"lines": Anchors.lines(np.eye(3)), "points": Anchors.points(t, 20, rng)}
    features = Features(t, {2: codes}, {kind: own.correlations(t) for kind, own in anchors.items()}, 1.0)
    out = np.arange(200) % 5 == 0
    return Trial(features.rows(~out), features.rows(out), y[~out], y[out], anchors)


def test_the_scores_are_those_of_the_shares(trial):
    choice = choose([trial], [2])
    heads = {
        "ridge": trial.ridge(choice.penalty),
        "codes": trial.further("codes", choice.n_nonzero, choice.penalty, choice.codes_penalty),
        "kernel": trial.further("kernel", choice.width, choice.penalty, choice.kernel_penalty),
        "ridge_maps": trial.maps(choice.kind, choice.penalty, choice.ridge_maps)["ridge"],
        "mean_maps": trial.maps(choice.kind, choice.penalty, choice.mean_maps)["mean"],
    }
    assert set(choice.shares) == set(heads) == set(HEADS)
    blend = sum(choice.shares[name] * heads[name] for name in heads)
    errors = {name: float(np.linalg.norm(found - trial.y_held)) for name, found in heads.items()}
    assert choice.scores.prediction == pytest.approx(np.linalg.norm(blend - trial.y_held), rel=1e-3)
    assert choice.scores.ridge == pytest.approx(errors["ridge"], rel=1e-3)
    assert choice.scores.mean == pytest.approx(np.linalg.norm(trial.y.mean(axis=0) - trial.y_held), rel=1e-3)
    assert choice.scores.n_samples == 40
    assert choice.scores.prediction <= min(errors.values()) * (1 + 1e-9)
    assert choice.scores.prediction < 0.7 * errors["ridge"], "absolute values are not linear"


def test_without_codes_their_head_has_no_share(trial):
    choice = choose([trial], [])
    assert choice.shares["codes"] == 0
    assert choice.n_nonzero is None
    assert sum(choice.shares.values()) == pytest.approx(1)
