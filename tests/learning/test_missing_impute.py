"""Missing entries filled in, views predicted from incomplete samples, and scores over what is known."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coupledict import DictionaryLearning, OnlineDictionaryLearning, sparse_encode
from support.learners import make, planted_views
from support.masked_twins import knock_out

WIDTHS = (6, 9, 4)


@pytest.fixture
def views(rng):
    return planted_views(rng, n=260, widths=WIDTHS)[0]


@pytest.fixture
def damaged(rng, views):
    Xs = knock_out(rng, views, 0.15)
    Xs[0][:, :3] = views[0][:, :3]  # each sample has something of the first view
    for v in (1, 2):
        Xs[v][rng.random(260) < 0.2] = np.nan
    return Xs


@pytest.fixture(params=["joint", "views"])
def learner(request, views):
    return make(missing="nan", normalize=request.param, max_iter=6, view_weights=[1.0, 0.5, 2.0]).fit(views)


@pytest.fixture
def by_codes(learner):
    """The same without its imputer, which tests/learning/test_imputation.py is about."""
    learner._imputer = None
    return learner


# Filled in


def test_known_entries_stay_to_the_bit_and_nothing_is_missing_any_more(learner, damaged):
    before = [X.copy() for X in damaged]
    filled = learner.impute(damaged)
    for X, own, given_before in zip(damaged, filled, before, strict=True):
        assert own.dtype == X.dtype
        assert np.isfinite(own).all()
        known = ~np.isnan(X)
        np.testing.assert_array_equal(own[known], X[known])
        np.testing.assert_array_equal(X, given_before)


def test_entries_come_from_codes_and_absent_views_are_predicted(by_codes, damaged):
    """Formulas: the codes of known entries times the dictionary, or what predict says about such samples."""
    weights = [1.0, 0.5, 2.0]
    codes = sparse_encode(damaged, by_codes.components_, n_nonzero_coefs=2, missing="nan", view_weights=weights)
    filled = by_codes.impute(damaged)
    for v, (X, own) in enumerate(zip(damaged, filled, strict=True)):
        absent = np.isnan(X).all(axis=1)
        expected = np.where(np.isnan(X), codes @ by_codes.components_[v], X)
        np.testing.assert_allclose(own[~absent], expected[~absent], atol=1e-9)
        if v == 0:
            assert not absent.any()
            continue
        others = [other if u != v else None for u, other in enumerate(damaged)]
        np.testing.assert_allclose(own[absent], by_codes.predict(others, view=v)[absent], atol=1e-9)
    assert np.isnan(damaged[1]).all(axis=1).sum() > 20


def test_a_view_that_is_none_is_predicted(by_codes, views):
    for absent in range(3):
        given_views = [None if v == absent else X for v, X in enumerate(views)]
        filled = by_codes.impute(given_views)
        np.testing.assert_array_equal(filled[absent], by_codes.predict(given_views, view=absent))
        gone = [np.full_like(X, np.nan) if v == absent else X for v, X in enumerate(views)]
        np.testing.assert_allclose(by_codes.impute(gone)[absent], filled[absent], atol=1e-9)
        for v in range(3):
            if v != absent:
                np.testing.assert_array_equal(filled[v], views[v])


@pytest.mark.filterwarnings("ignore:.*no known entry")
def test_samples_that_lack_views_are_predicted_like_those_where_all_lack_them(learner, views):
    """Each sample by the dictionary for the views that it has."""
    some = [X.copy() for X in views]
    some[0][:100], some[1][50:150] = np.nan, np.nan
    predicted = learner.predict(some, view=2)
    for rows, present in ((slice(0, 50), [1]), (slice(50, 100), []), (slice(100, 150), [0]), (slice(150, 260), [0, 1])):
        if not present:
            np.testing.assert_array_equal(predicted[rows], 0)
            continue
        alone = [views[v][rows] if v in present else None for v in range(3)]
        np.testing.assert_allclose(predicted[rows], learner.predict(alone, view=2), atol=1e-9)


def test_missing_entries_are_filled_in_better_than_by_means(views, damaged):
    learner = make(missing="nan", max_iter=20, n_nonzero_coefs=2).fit(damaged)
    for X, own, truth in zip(damaged, learner.impute(damaged), views, strict=True):
        holes = np.isnan(X) & ~np.isnan(X).all(axis=1)[:, None]
        means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
        errors = [np.mean((guess - truth)[holes] ** 2) for guess in (own, means)]
        assert errors[0] < 0.7 * errors[1]


def test_nothing_known_is_filled_with_means_and_a_warning(learner):
    means = np.split(learner._imputer.moments.mean, np.cumsum(WIDTHS)[:-1])
    with pytest.warns(UserWarning, match="1 of 2 samples have no known entry"):
        filled = learner.impute([np.vstack([np.full(p, np.nan), np.ones(p)]) for p in WIDTHS])
    for own, mean in zip(filled, means, strict=True):
        np.testing.assert_allclose(own[0], mean)
        np.testing.assert_array_equal(own[1], 1)
    learner._imputer = None
    with pytest.warns(UserWarning, match="1 of 2 samples have no known entry"):
        filled = learner.impute([np.vstack([np.full(p, np.nan), np.ones(p)]) for p in WIDTHS])
    for own in filled:
        np.testing.assert_array_equal(own[0], 0)


@pytest.mark.parametrize("n", [0, 1])
def test_no_samples_or_one(learner, n):
    Xs = [np.full((n, p), np.nan) for p in WIDTHS]
    Xs[1][:, 2] = 3.0
    assert [(X.shape, np.isnan(X).any()) for X in learner.impute(Xs)] == [((n, p), False) for p in WIDTHS]
    assert learner.predict(Xs, view=0).shape == (n, 6)


def test_other_number_types_and_tables(learner, views):
    whole = [np.round(X * 9).astype(np.int16) for X in views]
    filled = learner.impute([np.ma.array(whole[0], mask=whole[0] > 9), *whole[1:]])
    np.testing.assert_array_equal(filled[0][whole[0] <= 9], whole[0][whole[0] <= 9])
    np.testing.assert_array_equal(filled[1], whole[1])
    table = pd.DataFrame(views[0]).astype("Float64").mask(views[0] > 1)
    expected = learner.impute([np.where(views[0] > 1, np.nan, views[0]), *views[1:]])
    learner.set_params(missing="error")
    np.testing.assert_array_equal(learner.impute([table, *views[1:]])[0], expected[0])


def test_names_of_views(views, damaged):
    learner = make(missing="nan").fit(dict(zip("abc", damaged, strict=True)))
    filled = learner.impute({"c": damaged[2], "a": damaged[0]})
    assert filled.names == ("a", "b", "c")
    plain = make(missing="nan").fit(damaged).impute([damaged[0], None, damaged[2]])
    for name, own in zip("abc", plain, strict=True):
        np.testing.assert_array_equal(filled[name], own)


def test_chunks_and_dask(learner, damaged):
    cut = [[X[i : i + 60] for X in damaged] for i in range(0, 260, 60)]
    lazy = [da.from_array(X, chunks=(60, -1)) for X in damaged]
    expected = learner.impute(damaged)
    with dask.config.set(scheduler="threads"):
        for own, chunked, later in zip(expected, learner.impute(cut), learner.impute(lazy), strict=True):
            assert isinstance(later, da.Array)
            assert (later.shape, later.dtype, later.chunks[0]) == (own.shape, own.dtype, (60, 60, 60, 60, 20))
            np.testing.assert_allclose(chunked, own, atol=1e-12)
            np.testing.assert_array_equal(later.compute(), chunked)
        predicted = learner.predict([*damaged[:2], None], view=2)
        chunked = learner.predict([[*chunk[:2], None] for chunk in cut], view=2)
        np.testing.assert_allclose(chunked, predicted, atol=1e-12)
        np.testing.assert_array_equal(learner.predict([*lazy[:2], None], view=2).compute(), chunked)
        assert learner.score(lazy) == learner.score(cut)


def test_a_single_view(views, damaged):
    learner = DictionaryLearning(12, n_nonzero_coefs=2, max_iter=6, random_state=0, missing="nan").fit(damaged[0])
    learner._imputer = None
    filled = learner.impute(damaged[0])
    codes = learner.transform(damaged[0])
    np.testing.assert_allclose(filled, np.where(np.isnan(damaged[0]), codes @ learner.components_, damaged[0]))
    np.testing.assert_array_equal(filled[~np.isnan(damaged[0])], damaged[0][~np.isnan(damaged[0])])
    chunks = [damaged[0][:200], damaged[0][200:]]
    np.testing.assert_allclose(learner.impute(chunks), filled, atol=1e-12)
    lazy = learner.impute(da.from_array(damaged[0], chunks=(200, -1)))
    np.testing.assert_array_equal(lazy.compute(), learner.impute(chunks))
    np.testing.assert_array_equal(learner.impute(views[0]), views[0])
    narrow = learner.impute(damaged[0].astype(np.float32))
    np.testing.assert_allclose(narrow, filled, atol=1e-4)


def test_online_learners_impute_too(damaged):
    learner = OnlineDictionaryLearning(12, n_nonzero_coefs=2, max_iter=3, random_state=0, missing="nan").fit(damaged)
    for X, own in zip(damaged, learner.impute(damaged), strict=True):
        np.testing.assert_array_equal(own[~np.isnan(X)], X[~np.isnan(X)])
        assert np.isfinite(own).all()


# Scores


def test_scores_count_known_entries(learner, damaged):
    weights = np.array([1.0, 0.5, 2.0])
    codes = sparse_encode(damaged, learner.components_, n_nonzero_coefs=2, missing="nan", view_weights=weights)
    pairs = list(zip(damaged, learner.components_, strict=True))
    left = weights @ [np.nansum((X - codes @ D) ** 2) for X, D in pairs]
    total = weights @ [np.nansum(X**2) for X in damaged]
    assert learner.score(damaged) == pytest.approx(1 - left / total, rel=1e-9)
    assert learner.score([X * 2.0**400 for X in damaged]) == pytest.approx(1 - left / total, rel=1e-9)
    first = sparse_encode(damaged[:1], learner.components_[:1], n_nonzero_coefs=2, missing="nan")
    expected = 1 - np.nansum((damaged[0] - first @ learner.components_[0]) ** 2) / np.nansum(damaged[0] ** 2)
    assert learner.score([damaged[0], None, None]) == pytest.approx(expected, rel=1e-9)


# Properties


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, K, p = draw(st.integers(1, 5)), draw(st.integers(1, 30)), draw(st.integers(1, 14))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    X, D = rng.standard_normal((n, p)), rng.standard_normal((K, p))
    if draw(st.booleans()):  # small integers make ties, zero atoms, duplicates and dependence common
        X, D = np.round(X), np.round(D)
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]))] = np.nan
    return X.astype(dtype), D.astype(dtype), draw(st.integers(1, 14)), draw(st.sampled_from(["omp", "ols"]))


def encode(problem, scale=1):
    X, D, limit, pursuit = problem
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no known entry")
        return sparse_encode(X * X.dtype.type(scale), D, n_nonzero_coefs=limit, pursuit=pursuit, missing="nan")


@given(problems())
@settings(max_examples=200)
def test_residuals_of_known_entries_are_orthogonal_to_the_chosen_atoms(problem):
    X, D, limit, _ = problem
    codes = encode(problem)
    codes.check_format(full_check=True)
    assert np.isfinite(codes.data).all()
    for i, x in enumerate(X.astype(float)):
        known = ~np.isnan(x)
        own = slice(codes.indptr[i], codes.indptr[i + 1])
        support, values = codes.indices[own], codes.data[own].astype(float)
        assert len(support) <= min(limit, known.sum(), D.shape[0])
        assert len(set(support.tolist())) == len(support)
        atoms = D[np.ix_(support, known)].astype(float)
        residual = x[known] - values @ atoms
        norms = np.linalg.norm(atoms, axis=1)
        assert np.all(norms > 0)
        condition = np.linalg.cond(atoms / norms[:, None]) if len(support) else 1
        slack = 50 * np.finfo(X.dtype).eps * condition**2 * np.linalg.norm(x[known])
        assert np.all(np.abs(atoms @ residual) <= slack * norms + 1e-30)
        assert np.linalg.norm(residual) <= np.linalg.norm(x[known]) + slack


@given(problems(), st.integers(-30, 30))
def test_scaling_the_samples_scales_the_codes(problem, power):
    codes, scaled = encode(problem), encode(problem, 2.0**power)
    np.testing.assert_array_equal(scaled.indices, codes.indices)
    rounding = 1e-3 if codes.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(scaled.data, codes.data * codes.dtype.type(2.0**power), rtol=rounding)


@given(problems(), st.randoms(use_true_random=False))
def test_samples_are_coded_one_by_one(problem, random):
    X, *rest = problem
    order = list(range(len(X)))
    random.shuffle(order)
    np.testing.assert_array_equal(encode((X[order], *rest)).toarray(), encode(problem).toarray()[order])
