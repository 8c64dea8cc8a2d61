"""What `scale` subtracts and multiplies by: results are in the units of the samples, whatever these are."""

from __future__ import annotations

import numpy as np
import pytest

import coupledict
from coupledict import (
    PAPER,
    CoupledDictionaryLearning,
    InterruptedFitWarning,
    OnlineDictionaryLearning,
    PredictionWarning,
)
from support.inner import Standardization
from support.learners import assert_same_model, planted_views
from support.learners import make as make_plain


def make(n_components=12, **parameters):
    return make_plain(n_components, **{"scale": "auto", "predictor": "auto"} | parameters)


UNITS = np.array([1e-3, 1.0, 1000.0, 5.0, 0.2, 40.0])


@pytest.fixture
def Xs(rng):
    return planted_views(rng, n=400)[0]


@pytest.fixture
def table(Xs):
    """A view of patches around 1,000, and one of features in units of their own; the second has 6 of them."""
    return [Xs[1] + 1000, Xs[0] * UNITS + 7 * UNITS]


def plain(**parameters):
    return make(predictor="dictionary", **parameters)


def close(found, expected, rtol=1e-10):
    for one, other in zip(found, expected, strict=True):
        largest = np.abs(other).max(axis=0) + (np.abs(other).max(axis=0) == 0)
        np.testing.assert_allclose(one / largest, other / largest, rtol=rtol, atol=rtol)


# Centring and units


def test_codes_times_atoms_plus_mean_rebuild_samples(table):
    learner = plain(n_nonzero_coefs=4, max_iter=10).fit(table)
    for mean, X in zip(learner.mean_, table, strict=True):
        np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-12)
    codes = learner.transform(table)
    rebuilt = learner.inverse_transform(codes)
    close(rebuilt, [codes @ D + mean for D, mean in zip(learner.components_, learner.mean_, strict=True)])
    for found, X in zip(rebuilt, table, strict=True):
        assert np.sum((found - X) ** 2 / X.var(axis=0)) < 0.3 * X.size, "each feature, in its own units"
    again = learner.inverse_transform(learner.transform(rebuilt))
    for one, other in zip(again, rebuilt, strict=True):  # a code of few atoms is not always found again
        assert np.sum((one - other) ** 2 / other.var(axis=0)) < 0.01 * other.size


def test_units_that_are_powers_of_two_change_nothing_but_the_units(table):
    units = [np.ones(9), 2.0 ** np.array([-9, 7, 0, 3, -2, 11])]
    one, other = (plain().fit(given) for given in (table, [X * u for X, u in zip(table, units, strict=True)]))
    for a, b, u in zip(one.components_, other.components_, units, strict=True):
        np.testing.assert_array_equal(a * u, b)
    np.testing.assert_array_equal(
        one.transform(table).toarray(), other.transform([table[0], table[1] * units[1]]).toarray()
    )


def test_features_of_a_table_count_alike(table):
    patches, others = plain().fit(table)._standard.factors
    np.testing.assert_array_equal(patches, 1)
    assert (np.frexp(others)[0] == 0.5).all(), "powers of two"
    deviations = table[1].std(axis=0) * others
    assert deviations.max() < 2.1 * deviations.min()


@pytest.mark.parametrize("where", [0.0, 1000.0, -1e6])
def test_where_samples_are_does_not_matter(Xs, where):
    one, other = (plain(growth=None).fit(given) for given in (Xs, [X + where for X in Xs]))
    close(one.components_, other.components_, rtol=1e-6)
    assert one.score(Xs) == pytest.approx(other.score([X + where for X in Xs]), abs=1e-6)


def test_the_score_is_the_share_of_the_centred_samples(table):
    learner = plain().fit(table)
    rebuilt = learner.inverse_transform(learner.transform(table))
    factors, weights = learner._standard.factors, learner.view_weights_
    left, whole = (
        sum(w * np.sum(((X - Y) * f) ** 2) for w, X, Y, f in zip(weights, table, others, factors, strict=True))
        for others in (rebuilt, learner.mean_)
    )
    assert learner.score(table) == pytest.approx(1 - left / whole)


def test_without_scale_nothing_is_subtracted(Xs):
    learner = plain(scale=None).fit(Xs)
    assert all((mean == 0).all() for mean in learner.mean_)
    np.testing.assert_array_equal(learner.view_weights_, 1)
    close(learner.inverse_transform(learner.transform(Xs)), [learner.transform(Xs) @ D for D in learner.components_])


def test_the_paper_subtracts_nothing(rng):
    Xs = [rng.standard_normal((200, 16)) + 3 for _ in range(2)]
    learner = CoupledDictionaryLearning(25, n_nonzero_coefs=2, max_iter=2, **PAPER).fit(Xs)
    assert learner._standard is None
    assert learner.prediction_scores_ == []
    assert all((mean == 0).all() for mean in learner.mean_)
    np.testing.assert_allclose([np.linalg.norm(D, axis=1) for D in learner.components_], 1)


def test_number_types(table):
    for dtype in (np.float32, np.float64):
        learner = plain().fit([X.astype(dtype) for X in table])
        assert {array.dtype for array in (*learner.components_, *learner.mean_)} == {np.dtype(dtype)}
        rebuilt = learner.inverse_transform(learner.transform([X.astype(dtype) for X in table]))
        assert rebuilt[0].dtype == dtype


def test_integers_and_names(table):
    whole = {"a": np.round(table[0]).astype(int), "b": np.round(table[1]).astype(np.int32)}
    learner = plain().fit(whole)
    np.testing.assert_allclose(learner.mean_["a"], whole["a"].mean(axis=0))
    learner.set_params(predictor="auto").fit(whole)
    assert learner.prediction_scores_[0]["target"] == "b"
    assert learner.prediction_scores_[0]["sources"] == ("a",)


@pytest.mark.filterwarnings("ignore::coupledict.PredictionWarning")
@pytest.mark.parametrize("n_samples", [1, 2, 3])
def test_few_samples(n_samples, rng):
    Xs = [rng.standard_normal((n_samples, 4)) + 5, rng.standard_normal((n_samples, 3))]
    learner = CoupledDictionaryLearning(random_state=0).fit(Xs)
    for found in learner.inverse_transform(learner.transform(Xs)):
        assert np.isfinite(found).all()


# Other settings


@pytest.mark.parametrize(
    ("parameters", "centred", "weighted"),
    [
        ({}, True, True),
        ({"tol": 0.5}, True, False),
        ({"n_nonzero_coefs": None, "pursuit": "lasso", "alpha": 0.1}, True, False),
        ({"positive_code": True}, False, False),
        ({"positive_dict": True}, False, False),
        ({"positive_dict": [False, True]}, False, False),
        ({"constant_atom": True}, False, False),
        ({"view_weights": [1.0, 2.0]}, True, True),
        ({"coupling": "support"}, True, True),
    ],
    ids=str,
)
def test_settings_that_samples_must_be_left_as_they_are_for(table, parameters, centred, weighted):
    learner = plain(**parameters).fit(table)
    assert (learner._standard is not None) == centred
    assert (not np.array_equal(learner.view_weights_, [1, 1])) == weighted
    if "view_weights" in parameters:
        np.testing.assert_array_equal(learner.view_weights_, [1, 2])


def test_a_tolerance_is_in_the_units_of_the_samples(table):
    learner = plain(tol=1.0, n_nonzero_coefs=9, n_components=20).fit(table)
    np.testing.assert_array_equal(np.concatenate(learner._standard.factors), 1)
    codes = learner.transform(table)
    rebuilt = learner.inverse_transform(codes)
    errors = sum(np.sum((X - Y) ** 2, axis=1) for X, Y in zip(table, rebuilt, strict=True))
    ended = np.diff(codes.indptr) < 9
    assert ended.any()
    assert (errors[ended] <= 1.0 + 1e-6).all()


@pytest.mark.parametrize(("n", "most"), [(3, 1), (40, 10), (99, 24), (4000, 36)])
def test_the_default_number_of_atoms_is_at_most_a_quarter_of_the_samples(n, most, rng):
    learner = plain(n_components=None, max_iter=1).fit(planted_views(rng, n=n)[0])
    assert learner.components_[0].shape[0] == most


# Starts that are given


def test_given_dictionaries_are_in_the_units_of_the_samples(table, monkeypatch):
    learned = plain().fit(table).components_
    again = plain(init=list(learned), max_iter=2).fit(table)
    warm = plain(warm_start=True).fit(table)
    assert_same_model(again, warm.set_params(max_iter=2).fit(table))
    warm = plain(warm_start=True).fit(table)
    monkeypatch.setattr("coupledict.learning.loop.Loop.run", lambda self, *arguments: None)
    close(plain(init=list(learned)).fit(table).components_, learned)
    close(warm.fit(table).components_, learned)


def test_a_callback_sees_the_atoms_that_the_learner_will_have(table):
    seen = []
    learner = plain(callback=lambda progress: seen.append(progress.components)).fit(table)
    for one, other in zip(seen[-1], learner.components_, strict=True):
        np.testing.assert_array_equal(one, other)


# Batches


def batches(Xs, size=100):
    return [[X[start : start + size] for X in Xs] for start in range(0, len(Xs[0]), size)]


def test_the_first_batch_decides_the_standardization(table):
    learner, first = plain(), batches(table)[0]
    for batch in batches(table):
        learner.partial_fit(batch)
        close(learner.mean_, [X.mean(axis=0) for X in first])
    expected = Standardization.of([X.mean(axis=0) for X in first], [X.var(axis=0) for X in first])
    for one, other in zip(learner._standard.factors, expected.factors, strict=True):
        np.testing.assert_array_equal(one, other)
    assert learner.score(table) > 0.7
    rebuilt = learner.inverse_transform(learner.transform(table))
    for found, X in zip(rebuilt, table, strict=True):
        assert np.sum((found - X) ** 2 / X.var(axis=0)) < 0.5 * X.size


def test_batches_after_a_fit_keep_its_standardization(table):
    learner = make().fit(table)
    means, score = list(learner.mean_), learner.score(table)
    assert learner.prediction_scores_
    for batch in batches(table):
        learner.partial_fit([X + 0.1 * X.std(axis=0) for X in batch])
    for one, other in zip(learner.mean_, means, strict=True):
        np.testing.assert_array_equal(one, other)
    assert learner.score(table) > score - 0.1
    assert learner.prediction_scores_ == []
    with pytest.warns(PredictionWarning, match="partial_fit has dropped the predictors"):
        predicted = learner.predict([table[0], None], view=1)
    assert np.abs(predicted - table[1]).max() < 20 * table[1].std(axis=0).max()


def test_batches_are_those_of_samples_that_were_standardized_before(table):
    """An oracle without any scale: the samples are standardized outside of the learner."""
    learner = plain(view_weights=[1.0, 1.0])
    for batch in batches(table):
        learner.partial_fit(batch)
    standard = learner._standard
    twin = plain(view_weights=[1.0, 1.0], scale=None)
    for batch in batches(table):
        twin.partial_fit([(X - o) * f for X, o, f in zip(batch, standard.offsets, standard.factors, strict=True)])
    close([D * f for D, f in zip(learner.components_, standard.factors, strict=True)], twin.components_)


@pytest.mark.parametrize("scale", [2.0**-660, 2.0**660])
def test_batches_out_of_scale(table, scale):
    one, other = plain(), plain()
    for batch in batches(table):
        one.partial_fit(batch)
        other.partial_fit([X * scale for X in batch])
    assert other.score([X * scale for X in table]) == pytest.approx(one.score(table), abs=1e-6)


def test_batches_go_on_after_a_file(table, tmp_path):
    first, *rest = batches(table)
    learner = plain().partial_fit(first)
    learner.save(tmp_path / "model.safetensors")
    loaded = coupledict.load(tmp_path / "model.safetensors")
    for batch in rest:
        learner.partial_fit(batch)
        loaded.partial_fit(batch)
    assert_same_model(learner, loaded)
    for one, other in zip(learner.mean_, loaded.mean_, strict=True):
        np.testing.assert_array_equal(one, other)


def test_batches_with_missing_entries(table, rng):
    holes = [np.where(rng.random(X.shape) < 0.1, np.nan, X) for X in table]
    learner = plain(missing="nan")
    for batch in batches(holes):
        learner.partial_fit(batch)
    close(learner.mean_, [np.nanmean(X[:100], axis=0) for X in holes])
    filled = learner.impute(holes)
    for found, given in zip(filled, holes, strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_array_equal(found[~np.isnan(given)], given[~np.isnan(given)])


def test_atoms_that_were_set_by_hand_are_those_of_samples_as_they_are(Xs):
    learned = plain(scale=None).fit(Xs)
    learner = plain()
    learner.components_ = list(learned.components_)
    learner.n_features_in_ = learned.n_features_in_
    np.testing.assert_array_equal(learner.transform(Xs).toarray(), learned.transform(Xs).toarray())
    learner.partial_fit(Xs)
    assert learner._standard is None


def test_online_learners_subtract_nothing(table):
    learner = OnlineDictionaryLearning(8, max_iter=1, random_state=0).fit(table)
    assert learner._standard is None


# Checkpoints


@pytest.mark.parametrize("holes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_fit_that_is_resumed_has_the_same_bits(table, tmp_path, holes, rng):
    if holes:
        table = [np.where(rng.random(X.shape) < 0.1, np.nan, X) for X in table]
    table = [X[:80] for X in table]
    parameters = {"missing": "nan" if holes else "error", "max_iter": 10}
    path = tmp_path / "checkpoint"
    whole = make(**parameters).fit(table)
    make(**parameters, callback=lambda progress: progress.completed == 6).fit(table, checkpoint=path)
    resumed = make(**parameters).fit(table, resume=path)
    assert_same_model(whole, resumed)
    assert whole.prediction_scores_ == resumed.prediction_scores_
    for one, other in zip(whole.mean_, resumed.mean_, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("scale", [1, 1e200])
def test_a_checkpoint_is_a_model_in_the_units_of_the_samples(table, tmp_path, scale):
    table, path = [X * scale for X in table], tmp_path / "checkpoint"
    learner = plain().fit(table, checkpoint=path)
    loaded = coupledict.load(path)
    assert_same_model(learner, loaded)
    for one, other in zip(learner.mean_, loaded.mean_, strict=True):
        np.testing.assert_array_equal(one, other)
    assert loaded.score(table) == learner.score(table)


def test_an_interrupted_fit_keeps_the_units(table):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning):
        learner = make(callback=stop).fit(table)
    close(learner.mean_, [X.mean(axis=0) for X in table])
    assert learner.score(table) > 0.3
    assert learner.prediction_scores_ == []
