"""Streams: batches without end, in memory that does not grow, followed where they drift, saved and taken up again."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import coupledict
from coupledict import (
    CoupledDictionaryLearning,
    DictionaryLearning,
    ModelFileError,
    OnlineDictionaryLearning,
    PredictionWarning,
)
from coupledict.files import read_model, write_model
from support.learners import without_times

WIDTHS = (8, 10)
KINDS = ["coupled", "online", "forgetful", "lasso", "support", "joint", "constant", "single"]


def fresh(kind, **parameters):
    given = {"n_nonzero_coefs": 2, "random_state": 0} | parameters
    if kind == "single":
        return DictionaryLearning(12, **given)
    if kind in ("online", "forgetful"):
        return OnlineDictionaryLearning(12, **({"forgetting": 0.1} if kind == "forgetful" else {}) | given)
    if kind == "lasso":
        return OnlineDictionaryLearning(12, **given | {"n_nonzero_coefs": None, "pursuit": "lasso", "alpha": 0.8})
    extra = {
        "support": {"coupling": "support"},
        "joint": {"normalize": "joint", "view_weights": "balanced"},
        "constant": {"constant_atom": True},
    }
    return CoupledDictionaryLearning(12, **given, **extra.get(kind, {}))


def planted(rng, n_components=12):
    Ds = [rng.standard_normal((n_components, p)) for p in WIDTHS]
    return [D / np.linalg.norm(D, axis=1, keepdims=True) for D in Ds]


def draw(rng, Ds, n=60, dtype=np.float64):
    """Samples of two atoms each."""
    codes = np.zeros((n, len(Ds[0])))
    for code in codes:
        code[rng.choice(code.size, 2, replace=False)] = rng.choice([-1, 1], 2) * rng.uniform(1, 2, 2)
    return [(codes @ D + 0.02 * rng.standard_normal((n, D.shape[1]))).astype(dtype) for D in Ds]


def endless(rng, Ds, n=60):
    while True:
        yield draw(rng, Ds, n)


def learn(learner, batches):
    for batch in batches:
        learner.partial_fit(batch[0] if isinstance(learner, DictionaryLearning) else batch)
    return learner


@pytest.fixture
def batches(rng):
    Ds = planted(rng)
    return [draw(rng, Ds) for _ in range(8)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def assert_same(one, other):
    for D, E in zip(one._fitted.components, other._fitted.components, strict=True):
        assert D.dtype == E.dtype
        np.testing.assert_array_equal(D, E)
    assert without_times(one.history_) == without_times(other.history_)
    assert one.n_iter_ == other.n_iter_
    assert one._running.n_batches == other._running.n_batches
    for mine, theirs in zip(one._running.sums, other._running.sums, strict=True):
        np.testing.assert_array_equal(mine.a, theirs.a)
        np.testing.assert_array_equal(mine.b, theirs.b)


# Memory


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["coupled", "online", "single"])
def test_memory_does_not_grow(rng, kind, sizes):
    """After a warm-up, a thousand batches leave nothing behind, and the history is bounded."""
    sizes(stream_records=50)
    batches = [draw(rng, planted(rng), 5) for _ in range(10)]
    learner = fresh(kind)
    for _ in range(12):
        learn(learner, batches)
    tracemalloc.start()
    try:
        for _ in range(5):  # so that the records which are there before count as well
            learn(learner, batches)
        gc.collect()  # Python keeps small objects that were freed, up to thousands of each size
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(100):
            learn(learner, batches)
            gc.collect()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 30_000, "a batch has 720 bytes, its record as many"
    assert peak - before < 400_000
    assert len(learner.history_) == 50
    assert learner.n_iter_ == 10 * (12 + 5 + 100)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_frees_what_the_one_before_has_left(batches, kind):
    """At once: neither a collection nor the next hundred batches are waited for, as atoms may be large."""
    learner = learn(fresh(kind), batches[:2])
    gc.disable()
    try:
        seen = [weakref.ref(learn(learner, [batch])._running) for batch in batches * 3]
        assert [ref() for ref in seen[:-1]] == [None] * (len(seen) - 1)
        assert seen[-1]() is learner._running
    finally:
        gc.enable()


def test_the_history_keeps_the_last_batches(rng):
    batches = [draw(rng, planted(rng), 2) for _ in range(4)]
    learner = fresh("online")
    for i in range(1005):
        learn(learner, [batches[i % 4]])
    assert learner.n_iter_ == 1005
    assert len(learner.history_) == 1000
    seconds = [record["seconds"] for record in learner.history_]
    assert seconds == sorted(seconds)


def test_an_endless_iterator(rng):
    stream = endless(rng, planted(rng))
    learner = fresh("online")
    scores = []
    for batch in stream:
        if hasattr(learner, "components_"):
            scores.append(learner.score(batch))  # before it has seen the batch
        if len(scores) == 60:
            break
        learner.partial_fit(batch)
    assert np.mean(scores[-10:]) > np.mean(scores[:5]) + 0.05
    assert np.mean(scores[-10:]) > 0.9


# Drift


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_drift_is_followed_with_forgetting(seed):
    """After 100 batches the samples are sparse over other dictionaries: who forgets knows these 60 batches later."""
    rng = np.random.default_rng(seed)
    before, after = planted(rng), planted(rng)
    unseen, old = draw(rng, after, 300), draw(rng, before, 300)
    keeping, forgetting = fresh("online"), fresh("online", forgetting=0.3)
    first, second = ([draw(rng, Ds) for _ in range(n)] for Ds, n in ((before, 100), (after, 60)))
    for learner in (keeping, forgetting):
        learn(learner, first)
        assert learner.score(old) > 0.9
        assert learner.score(unseen) < 0.6
        learn(learner, second)
    assert forgetting.score(unseen) > 0.9
    assert keeping.score(unseen) < 0.75
    assert keeping.score(old) > forgetting.score(old) + 0.1


# Saved and taken up again


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saved_in_the_middle_of_a_stream(batches, path, kind, dtype):
    batches = [[view.astype(dtype) for view in batch] for batch in batches]
    if kind == "lasso":
        batches = batches[:5]
    expected = learn(fresh(kind), batches)
    for stop in range(1, len(batches)):
        learner = learn(fresh(kind), batches[:stop])
        learner.save(path)
        loaded = coupledict.load(path)
        assert_same(learner, loaded)
        assert_same(expected, learn(loaded, batches[stop:]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saved_between_fit_and_the_stream(batches, path, kind, dtype):
    batches = [[view.astype(dtype) for view in batch] for batch in batches]
    views = [np.concatenate(parts) for parts in zip(*batches[:3], strict=True)]
    learner = fresh(kind, max_iter=3).fit(views[0] if kind == "single" else views)
    learner.save(path)
    assert_same(learn(learner, batches[3:6]), learn(coupledict.load(path), batches[3:6]))


def test_saved_again_and_again(batches, path):
    learner = fresh("coupled")
    for batch in batches:
        learner.partial_fit(batch).save(path)
        learner = coupledict.load(path)
    assert_same(learn(fresh("coupled"), batches), learner)


def test_the_count_of_batches_outlives_the_history(rng, path, sizes):
    sizes(stream_records=3)
    batches = [draw(rng, planted(rng), 20) for _ in range(7)]
    learner = learn(fresh("online"), batches[:5])
    learner.save(path)
    loaded = coupledict.load(path)
    assert (len(loaded.history_), loaded.n_iter_) == (3, 5)
    assert_same(learn(learner, batches[5:]), learn(loaded, batches[5:]))


def test_a_fit_ends_the_stream(batches, path):
    learner = learn(fresh("coupled", max_iter=2), batches)
    learner.fit(batches[0]).save(path)
    assert coupledict.load(path)._running is None
    assert "stream" not in read_model(path)[1]


def test_chunks_of_a_fit_then_a_stream(batches, path):
    """All chunks that there are in a fit, then those that come, one by one."""
    learner = fresh("coupled", max_iter=3).fit(batches[:5])
    learner.save(path)
    assert_same(learn(learner, batches[5:]), learn(coupledict.load(path), batches[5:]))
    assert learner.n_iter_ == 6


# Files that are damaged


@pytest.mark.parametrize(
    "change",
    [
        {"stream": None},
        {"stream": 3},
        {"stream": {}},
        {"stream": {"n_batches": 0, "n_iter": 8}},
        {"stream": {"n_batches": -1, "n_iter": 8}},
        {"stream": {"n_batches": 9, "n_iter": 8}},
        {"stream": {"n_batches": "x", "n_iter": 8}},
        {"stream": {"n_batches": 8}},
    ],
    ids=str,
)
def test_counts_that_lie(batches, path, change):
    learn(fresh("coupled"), batches).save(path)
    tensors, metadata = read_model(path)
    write_model(path, tensors, metadata | change)
    with pytest.raises(ModelFileError, match=r"Expected '.*' to hold a complete model, but"):
        coupledict.load(path)


@pytest.mark.parametrize("kind", ["coupled", "support", "single"])
def test_sums_that_do_not_fit(batches, path, kind):
    learn(fresh(kind), batches).save(path)
    tensors, metadata = read_model(path)
    names = [name for name in tensors if name.startswith("stream.")]
    assert len(names) == (6 if kind == "support" else 3)
    for name in names:
        write_model(path, {key: array for key, array in tensors.items() if key != name}, metadata)
        with pytest.raises(ModelFileError, match=f"to hold a complete model, but it has no '{name}'"):
            coupledict.load(path)
        write_model(path, tensors | {name: tensors[name][:-1]}, metadata)
        with pytest.raises(ModelFileError, match="the sums of its batches do not fit its dictionaries"):
            coupledict.load(path)


def test_a_bad_batch_changes_nothing(batches):
    """The stream goes on after it as if it had never come."""
    expected = learn(fresh("coupled"), batches)
    learner = learn(fresh("coupled"), batches[:4])
    bad = [view.copy() for view in batches[4]]
    bad[1][7, 2] = np.nan
    for batch, message in [
        (bad, r"got NaN in X\[1\], sample 7"),
        ([view[:, :5] for view in batches[4]], r"Expected views of \[8, 10\] features, as before"),
        ([view[:0] for view in batches[4]], "Expected at least one sample"),
        (batches[4][:1], r"Expected views of \[8, 10\] features, as before"),
    ]:
        with pytest.raises(ValueError, match=message):
            learner.partial_fit(batch)
    assert_same(expected, learn(learner, batches[4:]))


# Predictors


@pytest.mark.parametrize("kind", ["coupled", "online"])
def test_predictors_are_fitted_when_asked_for(kind, batches, path):
    learner, test = learn(fresh(kind), batches[:7]), batches[7]
    with pytest.warns(PredictionWarning, match="partial_fit has dropped the predictors.*Call fit_predictors"):
        before = learner.predict([test[0], None], view=1)
    untouched = learn(fresh(kind), batches[:7])
    learner.fit_predictors([np.vstack(views) for views in zip(*batches[:7], strict=True)])
    assert_same(learner, untouched)
    after = learner.predict([test[0], None], view=1)
    assert np.mean((after - test[1]) ** 2) < np.mean((before - test[1]) ** 2)
    learner.save(path)
    np.testing.assert_array_equal(coupledict.load(path).predict([test[0], None], view=1), after)
    assert_same(learn(learner, [test]), learn(untouched, [test]))
    with pytest.warns(PredictionWarning):
        learner.predict([test[0], None], view=1)


def test_predictors_have_the_number_type_of_the_dictionaries(batches, path):
    learner = learn(fresh("coupled"), batches[:2])
    learner.fit_predictors([view.astype(np.float32) for view in batches[2]]).save(path)
    assert coupledict.load(path).predict([batches[3][0], None], view=1).dtype == np.float64


def test_predictors_that_cannot_be_fitted(batches):
    learner = learn(fresh("coupled", predictor="dictionary"), batches[:1])
    with pytest.raises(ValueError, match="a predictor other than 'dictionary'"):
        learner.fit_predictors(batches[1])
    with pytest.raises(ValueError, match="coupling='support'"):
        learn(fresh("support"), batches[:1]).fit_predictors(batches[1])
    with pytest.raises(ValueError, match=r"Expected views of \[8, 10\] features, as before"):
        learn(fresh("coupled"), batches[:1]).fit_predictors(batches[1][::-1])
