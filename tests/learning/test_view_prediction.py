"""Predictors of views: when they win, that they never lose by much, and that they are the same wherever samples are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

import coupledict
from coupledict import PAPER, CoupledDictionaryLearning, PredictionWarning, sparse_encode
from coupledict.learning.choice import HEADS
from coupledict.learning.predictors import source_sets
from support.dask_cluster import as_dask, cut
from support.learners import make as make_plain
from support.learners import planted_views


def make(n_components=12, **parameters):
    return make_plain(n_components, **{"scale": "auto", "predictor": "auto"} | parameters)


PENALTIES = np.logspace(-4, 4, 9)


def r2(y, predicted):
    return 1 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean(axis=0)) ** 2)


def learner(**parameters):
    return CoupledDictionaryLearning(**{"random_state": 0, "max_iter": 10} | parameters)


def compare(x, y, n, **parameters):
    """Return R^2 of a learner and of ridge regression, fitted to the first n samples, and the learner."""
    fitted = learner(**parameters).fit([x[:n], y[:n]])
    peer = RidgeCV(PENALTIES).fit(x[:n], y[:n]).predict(x[n:])
    return r2(y[n:], fitted.predict([x[n:], None], view=1)), r2(y[n:], peer), fitted


def sparse_views(rng, n, widths, n_atoms=40, share=0.05):
    codes = rng.standard_normal((n, n_atoms)) * (rng.random((n, n_atoms)) < share)
    return [codes @ rng.standard_normal((n_atoms, width)) for width in widths]


def linear_views(rng, n, widths, noise=0.3, n_factors=4, where=0.0):
    factors = rng.standard_normal((n, n_factors))
    return [factors @ rng.standard_normal((n_factors, w)) + noise * rng.standard_normal((n, w)) + where for w in widths]


# Where it wins, and where it must not lose


def test_codes_win_where_samples_are_sparse(rng):
    x, y = sparse_views(rng, 3000, (20, 12))
    own, peer, fitted = compare(x, y, 2400, n_components=60, n_nonzero_coefs=6, max_iter=30)
    assert own > 0.95
    assert peer < 0.6
    scores = fitted.prediction_scores_[0]
    assert scores["shares"]["codes"] == max(scores["shares"].values())
    assert scores["r2"] == pytest.approx(own, abs=0.05)
    assert scores["ridge_r2"] == pytest.approx(peer, abs=0.05)


@pytest.mark.parametrize("n", [60, 2000])
def test_a_linear_map_is_predicted_as_well_as_by_ridge_regression(n, rng):
    x = 2 * rng.standard_normal((n + 500, 8)) + 1
    y = x @ rng.standard_normal((8, 5)) + 3 + rng.standard_normal((n + 500, 5))
    own, peer, _ = compare(x, y, n)
    assert own > peer - 0.01
    assert peer > 0.9


def test_an_exact_map_is_found_whatever_samples_settings_are_chosen_on(rng):
    x = rng.standard_normal((6000, 3)) + np.linspace(0, 3, 6000)[:, None]  # settings are chosen on some of these
    y = x @ rng.standard_normal((3, 2)) + 5
    assert r2(y, learner().fit([x, y]).predict([x, None], view=1)) > 1 - 1e-6


@pytest.mark.filterwarnings("ignore::coupledict.PredictionWarning")
def test_clouds_of_points_are_predicted_better(rng):
    x = rng.standard_normal((1500, 2))
    y = np.abs(x) + 0.05 * rng.standard_normal(x.shape)
    own, peer, fitted = compare(x, y, 1000)
    assert own > 0.9
    assert peer < 0.1
    assert fitted.prediction_scores_[0]["shares"]["ridge"] < 0.1


def test_views_far_from_zero_are_predicted_there(rng):
    for n in (12, 100):
        x = rng.standard_normal((n, 6)) + 1000
        y = 2 * x[:, :3] + 0.1 * rng.standard_normal((n, 3)) - 1000
        predicted = learner().fit([x, y]).predict([x, None], view=1)
        np.testing.assert_allclose(predicted.mean(axis=0), y.mean(axis=0), atol=0.1)
        assert r2(y, predicted) > 0.9


def test_a_wide_table(rng):
    x, y = linear_views(rng, 80, (800, 5), noise=0.1)
    own, peer, fitted = compare(x, y, 40)
    assert own > peer - 0.02
    assert own > 0.95
    assert fitted.components_[0].shape == (10, 800)
    assert fitted.predict([None, y], view=0).shape == (80, 800)


def test_what_nothing_predicts_is_the_mean(rng):
    x, y = rng.standard_normal((600, 4)), rng.standard_normal((600, 3)) + 5
    with pytest.warns(PredictionWarning, match=r"No other view predicts X\[[01]\]"):
        own, _, fitted = compare(x, y, 400)
    assert own > -0.1
    assert abs(fitted.prediction_scores_[0]["r2"]) < 0.1


# Scores


def test_scores_are_those_of_samples_that_were_held_out(rng):
    x, y = linear_views(rng, 1000, (6, 4))
    fitted = learner().fit({"x": x[:500], "y": y[:500]})
    (forth, back) = fitted.prediction_scores_
    assert (forth["sources"], forth["target"]) == (("x",), "y")
    assert (back["sources"], back["target"]) == (("y",), "x")
    assert forth["n_samples"] == 500
    assert set(forth["shares"]) == set(HEADS)
    assert sum(forth["shares"].values()) == pytest.approx(1)
    assert forth["mean_r2"] == 0
    assert forth["mean_rmse"] == pytest.approx(np.sqrt(np.mean(y.var(axis=0))), rel=0.1)
    left = y[500:] - fitted.predict({"x": x[500:]}, view="y")
    assert forth["rmse"] == pytest.approx(np.sqrt(np.mean(left**2)), rel=0.1)
    assert forth["ridge_rmse"] >= forth["rmse"]
    for name in ("", "ridge_", "mean_"):
        assert forth[f"{name}r2"] == pytest.approx(1 - (forth[f"{name}rmse"] / forth["mean_rmse"]) ** 2)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scores_of_samples_out_of_scale(scale, rng, tmp_path):
    Xs = [X * scale for X in linear_views(rng, 60, (6, 4))]
    fitted = learner().fit(Xs)
    scores = fitted.prediction_scores_[0]
    assert scores["r2"] > 0.75
    assert 0.1 < scores["rmse"] / scale < 1
    predicted = fitted.predict([Xs[0], None], view=1)
    assert r2(Xs[1] / scale, predicted / scale) > 0.75
    fitted.save(tmp_path / "model.safetensors")
    loaded = coupledict.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict([Xs[0], None], view=1), predicted)
    assert loaded.prediction_scores_ == fitted.prediction_scores_


# Samples of all sorts


@pytest.mark.filterwarnings("ignore::coupledict.PredictionWarning")
@pytest.mark.parametrize("n", [1, 2, 5, 9, 10, 12])
def test_few_samples(n, rng):
    Xs = [rng.standard_normal((n, width)) + 3 for width in (4, 3)]
    fitted = learner().fit(Xs)
    for v in (0, 1):
        predicted = fitted.predict([Xs[0], Xs[1]], view=v)
        assert predicted.shape == Xs[v].shape
        assert np.isfinite(predicted).all()
        assert np.abs(predicted - Xs[v].mean(axis=0)).max() < 10


@pytest.mark.filterwarnings("ignore::coupledict.PredictionWarning")
@pytest.mark.parametrize("n", [5, 50, 700])
@pytest.mark.parametrize("constant", [(0,), (1,), (0, 1)])
def test_constant_views(n, constant, rng):
    Xs = [np.full((n, 4), 7.0) if v in constant else rng.standard_normal((n, 4)) for v in (0, 1)]
    fitted = learner().fit(Xs)
    for v in (0, 1):
        predicted = fitted.predict(Xs, view=v)
        wanted = Xs[v].mean(axis=0)
        np.testing.assert_allclose(predicted, np.broadcast_to(wanted, predicted.shape), atol=1e-6)


def test_features_that_are_constant_or_equal(rng):
    x, y = linear_views(rng, 300, (6, 4))
    x = np.hstack([x, np.ones((300, 2)), x[:, :2]])
    y = np.hstack([y, np.zeros((300, 1))])
    own, peer, fitted = compare(x, y, 200)
    assert own > peer - 0.02
    np.testing.assert_allclose(fitted.predict([x, None], view=1)[:, -1], 0, atol=1e-8)


def test_integers_read_only_and_other_orders_of_memory(rng):
    whole = [np.round(20 * X).astype(np.int64) for X in linear_views(rng, 80, (6, 4))]
    expected = learner().fit([X.astype(float) for X in whole]).predict([whole[0].astype(float), None], view=1)
    np.testing.assert_array_equal(learner().fit(whole).predict([whole[0], None], view=1), expected)
    other = [np.asfortranarray(X, dtype=float) for X in whole]
    for X in other:
        X.flags.writeable = False
    fitted = learner().fit(other)
    np.testing.assert_array_equal(fitted.predict([other[0], None], view=1), expected)
    strided = np.repeat(other[0], 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(fitted.predict([strided, None], view=1), expected)


def test_number_types(rng):
    Xs = linear_views(rng, 200, (6, 4))
    single = [X.astype(np.float32) for X in Xs]
    narrow, wide = learner().fit(single), learner().fit(Xs)
    predicted = narrow.predict([single[0], None], view=1)
    assert predicted.dtype == np.float32
    assert narrow.predict([Xs[0], None], view=1).dtype == np.float64
    np.testing.assert_allclose(predicted, wide.predict([Xs[0], None], view=1), atol=0.2)
    assert all(found.bias.dtype == np.float32 for found in narrow._view_predictors.values())


def test_infinity_and_nan_are_refused(rng):
    Xs = linear_views(rng, 60, (6, 4))
    fitted = learner().fit(Xs)
    assert fitted._view_predictors[(0,), 1].codes is None, "samples are not coded, which would refuse them"
    for bad in (np.nan, np.inf, -np.inf):
        x = Xs[0].copy()
        x[7, 2] = bad
        with pytest.raises(ValueError, match=r"got (NaN|infinity) in X\[0\], sample 7"):
            fitted.predict([x, None], view=1)
        wanted = Xs[1].copy()
        wanted[7, 2] = bad
        np.testing.assert_array_equal(
            fitted.predict([Xs[0], wanted], view=1), fitted.predict([Xs[0], None], view=1), "the wanted view is ignored"
        )


def test_no_samples(rng):
    Xs = linear_views(rng, 60, (6, 4))
    assert learner().fit(Xs).predict([Xs[0][:0], None], view=1).shape == (0, 4)


# The same results


@pytest.mark.parametrize("n", [70, 5000])
def test_threads_change_nothing(n, rng):
    Xs = sparse_views(rng, n, (9, 6), n_atoms=12, share=0.15)
    one, two = (make(n_jobs=n_jobs).fit(Xs) for n_jobs in (1, 2))
    assert one.prediction_scores_ == two.prediction_scores_
    np.testing.assert_array_equal(one.predict([Xs[0], None], view=1), two.predict([Xs[0], None], view=1))


def test_the_same_seed_gives_the_same_predictor(rng):
    Xs = linear_views(rng, 100, (6, 4))
    one, same, other = (make(random_state=seed).fit(Xs).predict([Xs[0], None], view=1) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    np.testing.assert_allclose(one, other, atol=1)


@pytest.mark.filterwarnings("ignore::coupledict.PredictionWarning")
@pytest.mark.parametrize("place", ["chunks", *(pytest.param(p, marks=pytest.mark.slow) for p in ("zarr", "dask"))])
def test_samples_elsewhere_agree_with_samples_in_memory(place, rng, tmp_path):
    zarr = pytest.importorskip("zarr")
    x = rng.standard_normal((300, 5))
    Xs = [x, np.abs(x @ rng.standard_normal((5, 4)))]
    stored = [
        zarr.create_array(store=tmp_path / f"{v}.zarr", data=X, chunks=(70, X.shape[1])) for v, X in enumerate(Xs)
    ]
    places = {"memory": Xs, "chunks": cut(Xs, 70), "zarr": stored, "dask": as_dask(Xs, 70)}
    start, found = [X[:12] for X in Xs], {}
    for name in ("memory", "chunks", place):
        given = places[name]
        for n_jobs in (1, 2):
            fitted = make(growth=None, init=start, n_jobs=n_jobs).fit(given)
            predicted = fitted.predict([x, None], view=1)
            np.testing.assert_array_equal(found.setdefault(name, predicted), predicted)
        given = [[first, None] for first, _ in given] if name == "chunks" else [given[0], None]
        np.testing.assert_allclose(np.asarray(fitted.predict(given, view=1)), predicted, atol=1e-10)
    assert r2(Xs[1], found["memory"]) > 0.5
    if place == "dask":  # of the same chunks, which a Zarr array puts together
        np.testing.assert_array_equal(found["dask"], found["chunks"])
    for predicted in found.values():
        np.testing.assert_allclose(predicted, found["memory"], atol=1e-6)


def test_many_samples_in_chunks(rng):
    """More than settings are chosen on."""
    Xs = linear_views(rng, 6000, (5, 3))
    memory, chunks = (make(growth=None, max_iter=2).fit(given) for given in (Xs, cut(Xs, 512)))
    np.testing.assert_allclose(chunks.predict([Xs[0], None], view=1), memory.predict([Xs[0], None], view=1), atol=0.1)


# Several views


def test_every_set_of_sources_of_three_views(rng):
    Xs = linear_views(rng, 200, (6, 5, 4))
    fitted = learner(max_iter=4).fit(Xs)
    assert {(scores["sources"], scores["target"]) for scores in fitted.prediction_scores_} == {
        (sources, v) for sources in source_sets(3) for v in range(3) if v not in sources
    }
    for sources in source_sets(3):
        for v in {0, 1, 2} - set(sources):
            given = [X if i in sources else None for i, X in enumerate(Xs)]
            predicted = fitted.predict(given, view=v)
            assert r2(Xs[v], predicted) > 0.8
            given[v] = Xs[v]
            np.testing.assert_array_equal(fitted.predict(given, view=v), predicted, "the wanted view is ignored")


def test_sources_that_no_predictor_was_fitted_for(rng):
    Xs = linear_views(rng, 150, (6, 5, 4, 3))
    fitted = learner(max_iter=2).fit(Xs)
    alone = [r2(Xs[3], fitted.predict([X if i == v else None for i, X in enumerate(Xs)], view=3)) for v in (0, 1)]
    both = r2(Xs[3], fitted.predict([Xs[0], Xs[1], None, None], view=3))
    assert both > max(alone) - 0.02
    assert len(fitted.prediction_scores_) == 4 * 3 + 4


@pytest.mark.slow
def test_sources_that_no_predictor_was_fitted_for_and_missing_entries(rng):
    Xs = linear_views(rng, 150, (6, 5, 4, 3))
    fitted = learner(max_iter=2, missing="nan").fit(Xs)
    alone = [r2(Xs[3], fitted.predict([X if i == v else None for i, X in enumerate(Xs)], view=3)) for v in (0, 1)]
    absent = [*Xs[:2], np.full_like(Xs[2], np.nan), np.full_like(Xs[3], np.nan)]
    whole = fitted.predict([Xs[0], Xs[1], None, None], view=3)
    assert r2(Xs[3], whole) > max(alone) - 0.02
    np.testing.assert_allclose(fitted.predict(absent, view=3), whole, atol=1e-10)


def test_views_of_weight_zero_predict_nothing(rng):
    Xs = linear_views(rng, 200, (6, 5, 4))
    fitted = learner(view_weights=[1.0, 1.0, 0.0], max_iter=4).fit(Xs)
    assert all(2 not in scores["sources"] for scores in fitted.prediction_scores_)
    assert r2(Xs[2], fitted.predict([Xs[0], Xs[1], None], view=2)) > 0.8
    np.testing.assert_array_equal(
        fitted.predict([None, Xs[1], Xs[2]], view=0), fitted.predict([None, Xs[1], None], view=0)
    )
    with pytest.raises(ValueError, match="a view of positive weight"):
        fitted.predict([None, None, Xs[2]], view=0)


@pytest.mark.parametrize("given", ["all", "one"])
def test_each_predictor_has_codes_of_its_own_number_of_atoms(given, rng):
    """What is filled in is what predict says, however many atoms the codes of the other entries have."""
    Xs = sparse_views(rng, 900, (16, 12), n_atoms=30)
    fitted = learner(n_components=40, n_nonzero_coefs=8).fit(Xs)
    assert fitted._view_predictors[(0,), 1].codes is not None
    assert fitted._view_predictors[(0,), 1].n_nonzero < 8
    predicted = fitted.predict([Xs[0], None], view=1)
    predictor, standard = fitted._view_predictors[(0,), 1], fitted._standard
    codes = sparse_encode(Xs[0] - standard.offsets[0], fitted.components_[0], n_nonzero_coefs=predictor.n_nonzero)
    by_hand = predictor([Xs[0] - standard.offsets[0]], codes) + standard.offsets[1]
    np.testing.assert_allclose(predicted, by_hand, atol=1e-9)
    if given == "one":
        np.testing.assert_array_equal(fitted.impute([Xs[0], None])[1], predicted)
        np.testing.assert_array_equal(fitted.impute([Xs[0], None])[0], Xs[0])
    else:
        some = np.ma.masked_array(Xs[1], np.repeat(np.arange(900)[:, None] % 3 == 0, 12, axis=1))
        filled = fitted.impute([Xs[0], some])[1]
        np.testing.assert_allclose(filled[::3], predicted[::3], atol=1e-9)
        np.testing.assert_array_equal(filled[1::3], Xs[1][1::3])


def test_samples_that_lack_views_are_predicted_each_from_what_it_has(rng):
    """Each as if all samples lacked the same views, whichever heads and numbers of atoms that takes."""
    Xs = sparse_views(rng, 900, (12, 10, 8), n_atoms=30)
    fitted = learner(n_components=40, n_nonzero_coefs=8, missing="nan").fit(Xs)
    lacking = np.arange(900) % 3
    given = [X.copy() for X in Xs[:2]]
    for v in (0, 1):
        given[v][lacking == v] = np.nan
    predicted = fitted.predict([*given, None], view=2)
    for kind, sources in ((0, (1,)), (1, (0,)), (2, (0, 1))):
        alone = fitted.predict([X if v in sources else None for v, X in enumerate(Xs)], view=2)
        np.testing.assert_allclose(predicted[lacking == kind], alone[lacking == kind], atol=1e-9)


# Missing entries


def test_missing_entries_and_absent_views(rng):
    whole = linear_views(rng, 400, (8, 6), where=50)
    holes = [np.where(rng.random(X.shape) < 0.1, np.nan, X) for X in whole]
    holes[1][:50] = np.nan
    fitted = learner(missing="nan", max_iter=10).fit(holes)
    predicted = fitted.predict([holes[0], None], view=1)
    assert r2(whole[1], predicted) > 0.8
    filled = fitted.impute(holes)
    for found, given, X in zip(filled, holes, whole, strict=True):
        known = ~np.isnan(given)
        np.testing.assert_array_equal(found[known], given[known])
        assert r2(X, found) > 0.9
    imputer = fitted._imputer
    fitted._imputer = None
    np.testing.assert_allclose(fitted.impute([holes[0], None])[1][:50], fitted.predict([holes[0], None], view=1)[:50])
    fitted._imputer, fitted._view_predictors = imputer, {}
    guessed = fitted.impute(holes)[1]
    np.testing.assert_allclose(filled[1][:50], 0.75 * predicted[:50] + 0.25 * guessed[:50], atol=1e-9)


def test_a_sample_of_which_nothing_is_known_is_the_mean(rng):
    whole = linear_views(rng, 300, (8, 6), where=50)
    fitted = learner(missing="nan").fit(whole)
    nothing = [np.full((2, 8), np.nan), np.full((2, 6), np.nan)]
    with pytest.warns(UserWarning, match="2 of 2 samples have no known entry"):
        predicted = fitted.predict(nothing, view=1)
    np.testing.assert_allclose(predicted, np.broadcast_to(whole[1].mean(axis=0), (2, 6)), atol=0.5)


def test_a_view_that_no_sample_has_is_predicted_by_the_dictionary(rng):
    Xs = linear_views(rng, 60, (6, 4, 3))
    Xs[2][:] = np.nan
    fitted = learner(missing="nan", max_iter=2).fit(Xs)
    assert all(scores["target"] != 2 for scores in fitted.prediction_scores_)
    assert np.isfinite(fitted.predict([Xs[0], Xs[1], None], view=2)).all()


# Other predictors


def test_dictionaries_predict_as_they_did(rng):
    """Codes of the source view times the refitted dictionary, or the learned one."""
    Xs = planted_views(rng)[0]
    fitted = make(predictor="ridge", scale=None).fit(Xs)
    codes = fitted.transform([Xs[0], None])
    np.testing.assert_array_equal(fitted.predict([Xs[0], None], view=1), codes @ fitted.predictors_[0,][1])
    assert fitted.prediction_scores_ == []
    fitted = make(predictor="dictionary", scale=None, normalize="views").fit(Xs)
    codes = fitted.transform([Xs[0], None])
    np.testing.assert_array_equal(fitted.predict([Xs[0], None], view=1), codes @ fitted.components_[1])
    assert fitted.predictors_ == {}
    assert PAPER["predictor"] == "dictionary"


def test_dictionaries_of_centred_samples_predict_in_the_units_of_the_samples(rng):
    Xs = [X + 100 for X in planted_views(rng)[0]]
    fitted = make(predictor="ridge").fit(Xs)
    codes = fitted.transform([Xs[0], None])
    expected = codes @ fitted.predictors_[0,][1] + fitted.mean_[1]
    np.testing.assert_allclose(fitted.predict([Xs[0], None], view=1), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "parameters",
    [
        {"tol": 0.1},
        {"n_nonzero_coefs": None, "pursuit": "lasso", "alpha": 0.1},
        {"positive_code": True},
        {"constant_atom": True},
        {"scale": None},
        {"update": "sequential"},
    ],
    ids=str,
)
def test_other_settings(parameters, rng):
    Xs = sparse_views(rng, 400, (9, 6), n_atoms=12, share=0.15)
    fitted = make(**parameters).fit(Xs)
    assert r2(Xs[1], fitted.predict([Xs[0], None], view=1)) > 0.5


def test_codes_of_their_own_predict_nothing(rng):
    fitted = make(coupling="support").fit(planted_views(rng)[0])
    assert fitted.prediction_scores_ == []


# Files


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::coupledict.PredictionWarning")  # absolute values do not predict signs
def test_files_keep_every_bit(rng, tmp_path):
    seen = set()
    clouds = rng.standard_normal((200, 3))
    for Xs in (
        sparse_views(rng, 300, (9, 6), n_atoms=12, share=0.15),
        [clouds, np.abs(clouds)],
        [clouds, np.abs(clouds @ rng.standard_normal((3, 150)))],
        linear_views(rng, 9, (4, 3)),
    ):
        for dtype in (np.float32, np.float64):
            given = [X.astype(dtype) for X in Xs]
            fitted = make().fit(given)
            fitted.save(tmp_path / "model.safetensors")
            loaded = coupledict.load(tmp_path / "model.safetensors")
            np.testing.assert_array_equal(
                loaded.predict([given[0], None], view=1), fitted.predict([given[0], None], view=1)
            )
            assert loaded.prediction_scores_ == fitted.prediction_scores_
            for found in fitted._view_predictors.values():
                seen |= set(found.to_tensors()[0])
    assert {"codes", "kernel", "maps", "map_axes"} <= seen, "every part was in a file"
