"""Matching with samples that lack some views: what is accepted, what it teaches, what it is worth."""

import numpy as np
import pytest

import coupledict
from coupledict.matching import CrossModalMatcher

FIXED = {"preprocess": None, "whiten_shrinkage": 3.0, "kernel_weight": 0.5, "direct_weight": 0.0}


def make(**parameters):
    return CrossModalMatcher(**{"n_dictionaries": 3, "missing": "nan", "random_state": 0} | FIXED | parameters)


def planted(rng, n=500, widths=(12, 10)):
    """Samples near sparse sums of common atoms."""
    codes = rng.standard_normal((n, 20)) * (rng.random((n, 20)) < 0.15)
    return [codes @ rng.standard_normal((20, p)) + 0.1 * rng.standard_normal((n, p)) for p in widths]


def part(Xs, rows):
    return [X[rows].copy() for X in Xs]


def semi_paired(Xs, n_pairs):
    """The first samples have all views, each of the others has one."""
    gaps = [X.copy() for X in Xs]
    for v, X in enumerate(gaps):
        X[n_pairs:][np.arange(len(X) - n_pairs) % len(Xs) != v] = np.nan
    return gaps


@pytest.mark.parametrize("semi_coupled", [False, True])
def test_unpaired_samples_do_not_hurt(rng, semi_coupled):
    pairs, everything = [], []
    for _ in range(2):
        Xs = planted(rng)
        train, test = part(Xs, slice(0, 400)), part(Xs, slice(400, None))
        model = make(n_components=24, n_nonzero_coefs=4, semi_coupled=semi_coupled)
        pairs.append(model.fit(part(train, slice(0, 80))).score(test))
        everything.append(model.fit(semi_paired(train, 80)).score(test))
    assert np.mean(everything) > np.mean(pairs) - 0.03
    assert np.mean(everything) > 0.5  # chance is 0.05


@pytest.mark.parametrize("semi_coupled", [False, True])
def test_unpaired_samples_with_labels_help(rng, semi_coupled):
    y = rng.integers(4, size=500)
    Xs = [
        (2 * rng.standard_normal((4, 3, p)))[y, rng.integers(3, size=500)] + rng.standard_normal((500, p))
        for p in (9, 8)
    ]
    train, test = part(Xs, slice(0, 400)), part(Xs, slice(400, None))
    few = make(semi_coupled=semi_coupled).fit(part(train, slice(0, 40)), y[:40]).score(test, y[400:])
    everything = make(semi_coupled=semi_coupled).fit(semi_paired(train, 40), y[:400]).score(test, y[400:])
    assert everything > few + 0.02


@pytest.mark.parametrize("semi_coupled", [False, True])
def test_complete_samples_are_learned_as_without_the_parameter(rng, semi_coupled):
    Xs = planted(rng, 200)
    expected = make(missing="error", semi_coupled=semi_coupled).fit(Xs).similarity(*Xs)
    np.testing.assert_array_equal(make(semi_coupled=semi_coupled).fit(Xs).similarity(*Xs), expected)


def test_three_views_that_never_come_together(rng):
    """Each sample has two of three views; every pair of views has samples."""
    Xs = planted(rng, 450, (8, 9, 10))
    gaps = [np.where((np.arange(450) % 3 == v)[:, None], np.nan, X) for v, X in enumerate(Xs)]
    with pytest.raises(ValueError, match=r"all of the views \[0, 1, 2\], got none"):
        make().fit(gaps)
    for X, whole in zip(gaps, Xs, strict=True):
        X[:60] = whole[:60]
    model = make().fit(gaps)
    assert model.score(gaps) > 0.2


def test_queries_that_lack_a_view(rng):
    Xs = planted(rng, 300, (8, 9, 10))
    model = make().fit(semi_paired(Xs, 150))
    queries = part(Xs[:2], slice(0, 20))
    queries[0][:5], queries[1][5:9] = np.nan, np.nan
    found = model.similarity(queries, Xs[2], source=[0, 1], target=2)
    both = model.similarity(part(Xs[:2], slice(9, 20)), Xs[2], source=[0, 1], target=2)
    np.testing.assert_allclose(found[9:], both, atol=1e-10)
    # "target" compares in the third view, predicted from what a query has.
    model.set_params(compare="target")
    found = model.similarity(queries, Xs[2], source=[0, 1], target=2)
    np.testing.assert_allclose(found[:5], model.similarity(Xs[1][:5], Xs[2], source=1, target=2), atol=1e-10)
    np.testing.assert_allclose(found[5:9], model.similarity(Xs[0][5:9], Xs[2], source=0, target=2), atol=1e-10)
    predicted = model.predict([*queries, None], view=2)
    np.testing.assert_allclose(predicted[:5], model.predict([None, Xs[1][:5], None], view=2))
    queries[1][:2] = np.nan
    with pytest.raises(ValueError, match="got none in sample 0"):
        model.similarity(queries, Xs[2], source=[0, 1], target=2)
    with pytest.raises(ValueError, match="gallery to be finite"):
        model.similarity(Xs[0], np.where(np.arange(300)[:, None] == 4, np.nan, Xs[2]), source=0, target=2)


def test_what_is_refused(rng):
    Xs = planted(rng, 100)
    gaps = semi_paired(Xs, 50)
    with pytest.raises(ValueError, match=r"X\[0\] to be finite, got NaN or infinity in sample 51.*missing='nan'"):
        make(missing="error").fit(gaps)
    with pytest.raises(ValueError, match="missing to be one of"):
        make(missing="none").fit(Xs)
    entry = part(Xs, slice(None))
    entry[1][7, 3] = np.nan
    with pytest.raises(ValueError, match=r"rows of X\[1\] to be finite, or NaN throughout.*in sample 7"):
        make().fit(entry)
    entry[1][7] = np.inf
    with pytest.raises(ValueError, match=r"in sample 7"):
        make().fit(entry)
    with pytest.raises(ValueError, match=r"have the view X\[1\], got none"):
        make().fit([Xs[0], np.full_like(Xs[1], np.nan)])
    with pytest.raises(ValueError, match=r"all of the views \[0, 1\], got none"):
        make().fit(semi_paired(Xs, 0))


def test_masked_arrays_need_no_parameter(rng):
    Xs = planted(rng, 200)
    gaps = semi_paired(Xs, 100)
    masked = [np.ma.masked_array(X, np.isnan(gap)) for X, gap in zip(Xs, gaps, strict=True)]
    expected = make().fit(gaps).similarity(*Xs)
    np.testing.assert_array_equal(make(missing="error").fit(masked).similarity(*Xs), expected)


@pytest.mark.parametrize("labelled", [False, True])
def test_choices_are_made_by_samples_that_have_every_view(rng, labelled):
    Xs = planted(rng, 160)
    y = np.arange(160) % 3 if labelled else None
    pairs = part(Xs, slice(0, 80))
    free = {"preprocess": "auto", "whiten_shrinkage": None, "kernel_weight": None, "n_components": 16, "max_iter": 3}
    model = make(**free).fit(semi_paired(Xs, 80), y)
    other = make(**free).fit(pairs, None if y is None else y[:80])
    for name in ("preprocess_", "whiten_shrinkage_", "kernel_weight_"):
        assert getattr(model, name) == getattr(other, name)
    assert np.isfinite(model.similarity(*Xs)).all()


def test_scores_count_samples_with_both_views(rng):
    Xs = planted(rng, 200)
    model = make().fit(Xs)
    gaps = semi_paired(Xs, 50)
    assert model.score(gaps) == model.score(part(Xs, slice(0, 50)))


def test_files(rng, tmp_path):
    Xs = planted(rng, 200)
    model = make().fit(semi_paired(Xs, 100))
    model.save(tmp_path / "model")
    again = coupledict.load(tmp_path / "model")
    assert again.missing == "nan"
    np.testing.assert_array_equal(again.similarity(*Xs), model.similarity(*Xs))
