"""The kernel beside the dictionaries and the direct comparison of views, beside formulas and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from coupledict.foundation.block_sizes import SIZES
from coupledict.matching import CrossModalMatcher, rank_k
from coupledict.matching._direct import SHRINKAGE, fit_metrics, learn_metric
from coupledict.matching._kernel import JITTER, fit_kernel
from coupledict.matching._whitening import fit_whitening

SMALL = {"n_components": 8, "n_nonzero_coefs": 2, "n_dictionaries": 1, "max_iter": 2, "random_state": 0}
SMALL |= {"preprocess": None, "whiten_shrinkage": 3.0, "direct_weight": 0.0, "compare": "both"}


def curved(rng, n=120):
    """Two views of points on a curved surface."""
    a, b = rng.uniform(-2, 2, (2, n))
    return [np.stack([a, b, np.sin(2 * a), a * b], axis=1), np.stack([np.cos(b), a - b, np.sin(a + b)], axis=1)]


def ridge_of_sklearn(X, Y, width, alpha):
    return KernelRidge(kernel="rbf", gamma=width / np.mean(np.sum(X**2, axis=1)), alpha=alpha).fit(X, Y)


def test_it_is_kernel_ridge_regression(rng):
    A, B = curved(rng)
    new = A + 0.1 * rng.standard_normal(A.shape)
    one_hot = np.eye(3)[np.arange(120) % 3]
    maps = fit_kernel([A, B], [one_hot, one_hot], True, 0.4, 0.2)
    expected = ridge_of_sklearn(A, B, 0.4, 0.2).predict(new)
    np.testing.assert_allclose(maps.predict({0: new}, 1, None), expected, atol=1e-10)
    scores = ridge_of_sklearn(A, one_hot - one_hot.mean(axis=0), 0.4, 0.2).predict(new)
    np.testing.assert_allclose(maps.predict({0: new}, "labels", None), scores, atol=1e-10)


def test_several_source_views_count_alike(rng):
    A, B = curved(rng)
    C = rng.standard_normal((120, 2)) + A[:, :2]
    maps = fit_kernel([A, B, C], None, True, 0.4, 0.2)
    both = np.hstack([X / np.sqrt(np.mean(np.sum(X**2, axis=1))) for X in (A, C)])
    expected = ridge_of_sklearn(both, B, 0.4, 0.2).predict(both)
    np.testing.assert_allclose(maps.predict({0: A, 2: C}, 1, None), expected, atol=1e-10)


def test_samples_that_lack_a_view_teach_nothing_of_it(rng):
    A, B = curved(rng)
    gaps = B.copy()
    gaps[50:] = np.nan
    maps = fit_kernel([A, gaps], None, True, 0.4, 0.2)
    X, Y = A[:50], B[:50]
    gamma = 0.4 / np.mean(np.sum(A**2, axis=1))
    expected = KernelRidge(kernel="rbf", gamma=gamma, alpha=0.2).fit(X, Y).predict(A)
    # All samples of the first view are landmarks; those without a partner change nothing but rounding.
    np.testing.assert_allclose(maps.predict({0: A}, 1, None), expected, atol=1e-5)


def test_fewer_landmarks_than_samples(rng):
    A, B = curved(rng)
    with SIZES.changed(kernel_rows=16):
        maps = fit_kernel([A, B], None, True, 0.4, 0.2, most_landmarks=40)
        found = maps.predict({0: A}, 1, None)
    chosen = np.arange(40) * 3
    gamma = 0.4 / np.mean(np.sum(A**2, axis=1))
    table = np.exp(-gamma * np.sum((A[:, None] - A[chosen]) ** 2, axis=2))
    left = table.T @ table + 0.2 * table[chosen]
    left += JITTER * np.trace(left) / 40 * np.eye(40)
    np.testing.assert_allclose(found, table @ np.linalg.solve(left, table.T @ B), atol=1e-5)


def test_different_samples_meet_in_means_of_classes(rng):
    A, B = curved(rng)
    y0, y1 = np.arange(120) % 3, np.arange(90) % 3
    one_hot = [np.eye(3)[y0], np.eye(3)[y1]]
    maps = fit_kernel([A, B[:90]], one_hot, False, 0.4, 0.2)
    means = np.array([B[:90][y1 == c].mean(axis=0) for c in range(3)])
    np.testing.assert_allclose(
        maps.predict({0: A}, 1, None), ridge_of_sklearn(A, means[y0], 0.4, 0.2).predict(A), atol=1e-10
    )


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_weights_of_predictions(rng, weight):
    Xs = curved(rng)
    alone = CrossModalMatcher(**SMALL, kernel_weight=0.0).fit(Xs)
    mixed = CrossModalMatcher(**SMALL, kernel_weight=weight).fit(Xs)
    kernel = CrossModalMatcher(**SMALL, kernel_weight=1.0).fit(Xs)
    one, both, other = (m.predict([Xs[0], None], view=1) for m in (alone, mixed, kernel))
    np.testing.assert_allclose(both, (1 - weight) * one + weight * other, atol=1e-10)
    assert np.mean((other - Xs[1]) ** 2) < 0.5 * np.mean((one - Xs[1]) ** 2)


def test_threads_and_number_types(rng):
    Xs = [X.astype(np.float32) for X in curved(rng, 1100)]
    tables = [CrossModalMatcher(**SMALL, kernel_weight=0.5, n_jobs=n).fit(Xs).similarity(*Xs) for n in (1, 3)]
    np.testing.assert_array_equal(*tables)
    assert tables[0].dtype == np.float32


# Direct comparison


@pytest.mark.parametrize(("n", "width"), [(200, 6), (10, 40)])
def test_the_metric_by_its_formula(rng, n, width):
    first, second = (rng.standard_normal((n, width)) @ rng.standard_normal((width, width)) for _ in range(2))
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    difference = first / np.sqrt(np.mean(first**2)) - second / np.sqrt(np.mean(second**2))
    covariance = difference.T @ difference / n
    floor = SHRINKAGE * np.trace(covariance) / width
    values, axes = np.linalg.eigh(covariance + floor * np.eye(width))
    expected = first @ axes @ np.diag(np.sqrt(floor / values)) @ axes.T
    np.testing.assert_allclose(learn_metric(first, second, width).rescale(first), expected, atol=1e-7)


def test_views_of_other_widths_have_no_metric(rng):
    views = [rng.standard_normal((20, p)) for p in (4, 5, 4)]
    assert list(fit_metrics(views, [fit_whitening(view, 1.0) for view in views])) == [(0, 2)]


def pictures(rng, n=160, width=300):
    """A picture and a changed one, of many features; only a part of the changes is common to all."""
    first = rng.standard_normal((n, width))
    return [first, first + 2 * rng.standard_normal((n, 5)) @ rng.standard_normal((5, width))]


def test_partners_of_many_features_are_found_directly(rng):
    Xs = pictures(rng)
    train, test = [X[:60] for X in Xs], [X[60:] for X in Xs]
    ranks = {}
    for weight in (0.0, 0.5, 1.0):
        model = CrossModalMatcher(**(SMALL | {"direct_weight": weight}), kernel_weight=0.5).fit(train)
        tables = [model.similarity(*test), model.similarity(test[1], test[0], source=1, target=0).T]
        np.testing.assert_allclose(*tables, atol=1e-10)
        ranks[weight] = rank_k(tables[0])
        assert np.abs(tables[0]).max() <= 1 + 1e-9
    assert ranks[1.0] > 0.9
    assert ranks[1.0] > ranks[0.0] + 0.3
    means = [X[:60].mean(axis=0) for X in Xs]
    plain = np.corrcoef(test[0] - means[0], test[1] - means[1])[:100, 100:]
    assert ranks[1.0] > rank_k(plain)
