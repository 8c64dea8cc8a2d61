"""Preparation of samples one by one: its formula, its edges, and what a matcher makes of it."""

from __future__ import annotations

import numpy as np
import pytest

import coupledict
from coupledict.matching import CrossModalMatcher
from coupledict.matching._preprocessing import SamplePreprocessing
from coupledict.matching._whitening import fit_preprocessing, fit_whitening
from support.learners import planted_views

FIXED = {"n_components": 12, "n_nonzero_coefs": 2, "n_dictionaries": 2, "max_iter": 3, "random_state": 0}
FIXED |= {"whiten_shrinkage": 3.0, "kernel_weight": 0.5, "direct_weight": 0.0}


def make(**parameters):
    return CrossModalMatcher(**(FIXED | parameters))


@pytest.fixture
def Xs():
    return planted_views(np.random.default_rng(0), n=150, widths=(12, 9))[0]


def test_the_formula(rng):
    X = 3 + rng.standard_normal((20, 7)) * rng.uniform(0.1, 5, (20, 1))
    centred = np.array([row - row.mean() for row in X])
    np.testing.assert_allclose(SamplePreprocessing("center").apply(X), centred)
    np.testing.assert_allclose(SamplePreprocessing("standardize").apply(X), [row / row.std() for row in centred])
    np.testing.assert_array_equal(SamplePreprocessing().apply(X), X)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e150, 1e-300, 12345.678])
def test_constant_samples_become_zero(value):
    rows = np.vstack([np.full(7, value), np.arange(7.0)])
    found = SamplePreprocessing("standardize").apply(rows)
    np.testing.assert_array_equal(found[0], 0)
    assert found[1].std() == pytest.approx(1)


def test_samples_that_lack_the_view_stay(rng):
    X = rng.standard_normal((5, 4))
    X[2] = np.nan
    found = SamplePreprocessing("standardize").apply(X)
    assert np.isnan(found[2]).all()
    assert np.isfinite(np.delete(found, 2, axis=0)).all()


def test_the_typical_mean_and_scale(rng):
    X = rng.standard_normal((9000, 6)) + 4  # over several blocks
    preprocessing = fit_preprocessing(X, "standardize")
    assert preprocessing.level == pytest.approx(X.mean())
    assert preprocessing.scale == pytest.approx(X.std(axis=1).mean())
    np.testing.assert_allclose(preprocessing.undo(np.ones((1, 6))), preprocessing.scale + preprocessing.level)
    assert fit_preprocessing(X, "center").scale == 1


@pytest.mark.parametrize("shrinkage", [None, 1.0])
def test_whitening_sees_prepared_samples(rng, shrinkage):
    X = 2 + rng.standard_normal((50, 8)) * rng.uniform(0.5, 2, (50, 1))
    prepared = SamplePreprocessing("standardize").apply(X)
    expected = fit_whitening(prepared, shrinkage).apply(prepared, np.dtype(float))
    white = fit_whitening(X, shrinkage, "standardize").apply(X, np.dtype(float))
    np.testing.assert_allclose(white @ white.T, expected @ expected.T, atol=1e-9)


def test_brightness_and_contrast_of_samples_do_not_matter(Xs, rng):
    gains, levels = rng.uniform(0.2, 5, (150, 1)), rng.uniform(-3, 3, (150, 1))
    other = [gains * Xs[0] + levels, Xs[1]]
    for preprocess in ("standardize", ["standardize", None]):
        table = make(preprocess=preprocess).fit(Xs).similarity(*Xs)
        np.testing.assert_allclose(make(preprocess=preprocess).fit(other).similarity(*other), table, atol=1e-8)
    table = make(preprocess="center").fit(Xs).similarity(*Xs)
    moved = [Xs[0] + levels, Xs[1]]
    np.testing.assert_allclose(make(preprocess="center").fit(moved).similarity(*moved), table, atol=1e-8)
    assert not np.allclose(make(preprocess="center").fit(other).similarity(*other), table, atol=1e-2)


@pytest.mark.parametrize("semi_coupled", [False, True])
def test_predictions_have_the_typical_mean(Xs, semi_coupled):
    Xs[1] += 7
    matcher = make(preprocess=[None, "standardize"], semi_coupled=semi_coupled).fit(Xs)
    found = matcher.predict([Xs[0], None], view=1)
    np.testing.assert_allclose(found.mean(axis=1), Xs[1].mean(), atol=1e-9)
    level = make(preprocess=[None, "center"], semi_coupled=semi_coupled).fit(Xs)
    error = np.mean((level.predict([Xs[0], None], view=1) - Xs[1]) ** 2)
    assert error < 0.8 * np.mean((Xs[1] - Xs[1].mean(axis=0)) ** 2)


def test_views_by_name_and_files(Xs, tmp_path):
    named = {"left": Xs[0], "right": Xs[1]}
    by_name = make(preprocess={"right": "center", "left": None}).fit(named)
    listed = make(preprocess=[None, "center"]).fit(Xs)
    assert by_name.preprocess_ == listed.preprocess_ == [None, "center"]
    table = listed.similarity(*Xs)
    np.testing.assert_array_equal(by_name.similarity(*Xs, source="left", target="right"), table)
    for model in (by_name, listed, make(preprocess="standardize").fit(Xs)):
        model.save(tmp_path / "model")
        same = coupledict.load(tmp_path / "model")
        assert same.preprocess_ == model.preprocess_
        directions = {"source": "left", "target": "right"} if model is by_name else {}
        np.testing.assert_array_equal(same.similarity(*Xs, **directions), model.similarity(*Xs, **directions))
        again = same.fit(named if model is by_name else Xs)
        np.testing.assert_array_equal(again.similarity(*Xs, **directions), model.similarity(*Xs, **directions))


@pytest.mark.parametrize("preprocess", ["center", "standardize"])
def test_edges(preprocess, rng):
    A, B = rng.standard_normal((30, 1)), np.repeat(rng.standard_normal((30, 1)), 5, axis=1)
    for views in ([A, B], [B, rng.standard_normal((30, 4))]):  # nothing is left of some views
        matcher = make(preprocess=preprocess).fit(views)
        assert np.isfinite(matcher.similarity(*views)).all()
        assert np.isfinite(matcher.predict([views[0], None], view=1)).all()


@pytest.mark.parametrize(
    ("preprocess", "message"),
    [
        ("scale", r"preprocess to be None or one of \('auto', 'center', 'standardize'\)"),
        (["center", 3], "preprocess to be None"),
        (["center"], "each of the 2 views, got 1"),
        ({"left": None, "right": None}, "views have no names"),
    ],
)
def test_errors(Xs, preprocess, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(preprocess=preprocess).fit(Xs)
