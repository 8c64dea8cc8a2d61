"""Predictors of views from samples with missing entries: their penalty, and what counts in their sums."""

from __future__ import annotations

import numpy as np
import pytest

import coupledict
from coupledict import OnlineDictionaryLearning, sparse_encode
from coupledict.learning.predictors import ALPHAS, LEAST_ALPHA, choose_alpha, ridge
from support.gaps import N, masked_codes, unit_atoms
from support.inner import CodingRule, InMemory, Recipe, SumCodes, Threads
from support.learners import make, planted_views
from support.masked_twins import knock_out


@pytest.fixture
def views(rng):
    return planted_views(rng, n=N)[0]


# The penalty of a regression


def cross_validated(C, X, norms):
    """The penalty of the smallest generalised cross-validation error, with the hat matrix in full."""
    S, errors = C * (norms / norms.max()), []
    for alpha in ALPHAS:
        gram = S.T @ S
        hat = S @ np.linalg.solve(gram + alpha * np.trace(gram) / len(gram) * np.eye(len(gram)), S.T)
        errors.append(len(C) * np.sum((X - hat @ X) ** 2) / (len(C) - np.trace(hat)) ** 2)
    return ALPHAS[int(np.argmin(errors))]


def test_the_penalty_is_that_of_generalised_cross_validation():
    chosen = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, n_atoms = int(rng.integers(8, 120)), int(rng.integers(3, 20))
        C = rng.standard_normal((n, n_atoms)) * rng.uniform(0.1, 2, n_atoms)
        X = C @ rng.standard_normal((n_atoms, 5)) + rng.uniform(0.01, 8) * rng.standard_normal((n, 5))
        norms = rng.uniform(0.05, 1, n_atoms)
        alpha = choose_alpha(C.T @ C, C.T @ X, float(np.sum(X**2)), n, norms)
        assert alpha == cross_validated(C, X, norms)
        chosen.add(alpha)
    assert len(chosen) > 5, "the problems should ask for many penalties"


def test_the_regression_is_that_of_the_hat_matrix(rng):
    """So the penalty means the same where it is chosen and where it is used."""
    C, X, norms = rng.standard_normal((30, 6)), rng.standard_normal((30, 4)), rng.uniform(0.1, 1, 6)
    S = C * (norms / norms.max())
    hat = S @ np.linalg.solve(S.T @ S + 0.3 * np.trace(S.T @ S) / 6 * np.eye(6), S.T)
    np.testing.assert_allclose(C @ ridge(C.T @ C, C.T @ X, 0.3, norms), hat @ X, atol=1e-12)


def test_the_penalty_of_large_dictionaries_is_a_rule():
    def chosen(n_atoms, n_samples):
        a, b = np.eye(n_atoms) * n_samples, np.ones((n_atoms, 1)) * n_samples
        return choose_alpha(a, b, 1.01 * n_atoms * n_samples, n_samples, np.ones(n_atoms))

    assert chosen(1025, 4100) == 0.25
    assert chosen(1025, 10**7) == LEAST_ALPHA
    assert chosen(1024, 4096) < 0.01, "by cross-validation: there is hardly any noise"
    assert choose_alpha(np.zeros((3, 3)), np.zeros((3, 1)), 0.0, 0, np.ones(3)) == 3, "no sample at all"


@pytest.mark.parametrize("learner", [make(), OnlineDictionaryLearning(9, max_iter=2, random_state=0)])
def test_the_word_auto(learner, views, tmp_path):
    fixed = {}
    for alpha in ("auto", 0.5):
        learner.set_params(ridge_alpha=alpha).fit(views).save(tmp_path / "model.safetensors")
        loaded = coupledict.load(tmp_path / "model.safetensors")
        assert loaded.ridge_alpha == alpha
        np.testing.assert_array_equal(loaded.predictors_[0,][1], learner.predictors_[0,][1])
        fixed[alpha] = learner.predictors_[0,][1]
    assert not np.allclose(fixed["auto"], fixed[0.5]), "another penalty gives other dictionaries"
    for wrong in ("automatic", "", "0.1"):
        with pytest.raises(ValueError, match="Expected ridge_alpha to be 'auto' or a number, got "):
            learner.set_params(ridge_alpha=wrong).fit(views)


def test_predictors_are_refitted_with_the_chosen_penalty(views):
    """Codes of a view alone, in full, then the oracle of above."""
    learner = make(normalize="views", growth=None).fit(views)
    for source, target in ((0, 1), (1, 0)):
        D = learner.components_[source]
        C = sparse_encode(views[source], D, n_nonzero_coefs=2).toarray()
        alpha = cross_validated(C, views[target], np.ones(12))
        expected = ridge(C.T @ C, C.T @ views[target], alpha)
        np.testing.assert_allclose(learner.predictors_[source,][target], expected, atol=1e-6)


# Sums for a prediction


@pytest.mark.parametrize(("sources", "others"), [([0], [1, 2]), ([1], [0, 2]), ([0, 2], [1])])
def test_only_samples_with_something_to_predict_and_to_predict_from_count(sources, others, rng):
    """For each predicted view on its own: sums over the samples that are left when all others are cut off."""
    Xs = knock_out(rng, planted_views(rng, n=200, widths=(6, 9, 4), noise=0.3)[0], 0.2, absent=0.3)
    Ds, weights = unit_atoms(rng, (6, 9, 4)), np.array([0.5, 2.0, 1.25])
    data = InMemory(Xs)
    data.missing = True
    chosen, rule = [Ds[v] for v in sources], CodingRule(3, None, "omp")
    recipe = Recipe(chosen, weights[sources], np.dtype(float), rule, 200, missing=True, targets=[Ds[v] for v in others])
    found = data.run(SumCodes(recipe, sources=sources, targets=others), Threads(2))
    codes = masked_codes([Xs[v] for v in sources], chosen, n_nonzero_coefs=3, view_weights=weights[sources])
    has = [~np.isnan(X).all(axis=1) for X in Xs]
    seen = np.logical_or.reduce([has[v] for v in sources])
    for g, v in enumerate(others):
        kept = seen & has[v]
        assert 0 < np.count_nonzero(kept) < min(np.count_nonzero(seen), np.count_nonzero(has[v]))
        C, X = codes[kept], Xs[v][kept]
        filled = np.where(np.isnan(X), C @ Ds[v], X)
        np.testing.assert_allclose(found.sums[g].a, C.T @ C, atol=1e-9)
        np.testing.assert_allclose(found.sums[g].b, C.T @ filled, atol=1e-9)
        np.testing.assert_allclose(found.sums[g].known, (C**2).T @ ~np.isnan(X), atol=1e-9)
        assert found.view_samples[g] == np.count_nonzero(kept)
        assert found.view_energy[g] == pytest.approx(np.sum(filled**2))
