"""Weights of the views: only their ratios count, at any scale, and a view of weight 0 counts as absent."""

import dask.array as da
import numpy as np
import pytest

from coupledict import OnlineDictionaryLearning, SparseCoder, lasso_gaps, load, sparse_encode
from support.learners import plain

FACTORS = [1e-6, 37.0, 1e300, 1e-300, 1e308, 1e-320]
UNEQUAL = [(1, 1e-6), (1e-6, 1), (1, 1e300), (1e300, 1e-6), (1, 1e-300), (1e-6, 0), (0, 1e300)]


@pytest.fixture
def Xs(rng):
    sources = rng.standard_normal((240, 5)) * (rng.random((240, 5)) < 0.5)
    return [sources @ rng.standard_normal((5, p)) + 0.2 * rng.standard_normal((240, p)) for p in (6, 9)]


def make(weights, **parameters):
    settings = {"n_nonzero_coefs": 2, "max_iter": 6, "random_state": 0} | parameters
    return plain(10, view_weights=weights, **settings)


def size(learner, weights):
    """Return sum_v w_v ||d_v||^2 / max_v w_v for each atom."""
    relative = np.array(weights, float) / max(weights)
    return sum(w * np.sum(np.float64(D) ** 2, axis=1) for w, D in zip(relative, learner.components_, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"normalize": "views"},
        {"update": "sequential"},
        {"update": "ksvd", "normalize": "views"},
        {"update": "mod"},
        {"coupling": "support"},
        {"positive_dict": True, "constant_atom": True},
        {"unused_atoms": "worst", "predictor": "dictionary"},
    ],
    ids=str,
)
def test_only_ratios_of_weights_count(Xs, parameters, factor, dtype):
    Xs = [X.astype(dtype) for X in Xs]
    one, other = (make([w, 0.5 * w], **parameters).fit(Xs) for w in (1.0, factor))
    tol = {"rtol": 0, "atol": 1e-3 if dtype == np.float32 or factor == 1e-320 else 1e-5}
    for D, E in zip(one.components_, other.components_, strict=True):
        assert E.dtype == dtype
        np.testing.assert_allclose(E, D, **tol)
    assert other.score(Xs) == pytest.approx(one.score(Xs), abs=1e-3)
    codes = [np.stack([c.toarray() for c in np.atleast_1d(learner.transform(Xs))]) for learner in (one, other)]
    assert np.mean(np.abs(codes[0] - codes[1]) < 1e-2) > 0.99
    np.testing.assert_array_equal(other.view_weights_, [factor, 0.5 * factor])
    assert np.isfinite([other.history_[-1][key] for key in ("objective", "error", "rms")]).all()
    if "coupling" not in parameters:
        np.testing.assert_allclose(other.predict([Xs[0], None], view=1), one.predict([Xs[0], None], view=1), atol=1e-2)


@pytest.mark.parametrize("factor", [1e-6, 37.0, 1e300])
@pytest.mark.parametrize("kind", ["batches", "online", "missing", "chunks"])
def test_ratios_count_in_batches_gaps_and_chunks(rng, Xs, kind, factor):
    found = []
    holes = [rng.random(X.shape) < 0.1 for X in Xs]
    for w in (1.0, factor):
        given = Xs
        learner = make([w, 0.5 * w], missing="nan" if kind == "missing" else "error")
        if kind == "batches":
            for start in range(0, 240, 60):
                learner.partial_fit([X[start : start + 60] for X in Xs])
        elif kind == "online":
            weights = [w, 0.5 * w]
            learner = OnlineDictionaryLearning(10, n_nonzero_coefs=2, view_weights=weights, random_state=0).fit(Xs)
        else:
            if kind == "missing":
                given = [np.where(hole, np.nan, X) for hole, X in zip(holes, Xs, strict=True)]
            chunks = [[X[start : start + 80] for X in given] for start in range(0, 240, 80)]
            learner.fit(chunks if kind == "chunks" else given)
        found.append((learner.components_, learner.score(given)))
    for D, E in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_allclose(E, D, rtol=0, atol=1e-5)
    assert found[1][1] == pytest.approx(found[0][1], abs=1e-4)


def test_a_tolerance_is_in_units_of_the_weights_as_given(Xs):
    one, other = (make([w, w], n_nonzero_coefs=None, tol=2.0 * w).fit(Xs) for w in (1.0, 1e200))
    for D, E in zip(one.components_, other.components_, strict=True):
        np.testing.assert_allclose(E, D, rtol=0, atol=1e-6)
    assert other.score(Xs) == pytest.approx(one.score(Xs), abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weights", UNEQUAL, ids=str)
def test_very_unequal_weights(Xs, weights, dtype):
    Xs = [X.astype(dtype) for X in Xs]
    learner = make(weights).fit(Xs)
    assert all(np.isfinite(D).all() and D.any() for D in learner.components_)
    np.testing.assert_allclose(size(learner, weights), 1, rtol=1e-4)
    main = int(np.argmax(weights))
    alone = plain(10, n_nonzero_coefs=2, max_iter=6, random_state=0).fit([Xs[main]])
    assert learner.score(Xs) > alone.score([Xs[main]]) - 0.03
    view = [Xs[main], None] if main == 0 else [None, Xs[main]]
    predicted = learner.predict(view, view=1 - main)
    assert np.isfinite(predicted).all()
    assert np.sum((predicted - Xs[1 - main]) ** 2) < 0.6 * np.sum(Xs[1 - main] ** 2)


def test_saved_batches_go_on_alike(Xs, tmp_path):
    learner = make([1e-6, 1e-7]).partial_fit([X[:120] for X in Xs])
    learner.save(tmp_path / "model.safetensors")
    other = load(tmp_path / "model.safetensors")
    for one in (learner, other):
        one.partial_fit([X[120:] for X in Xs])
    for D, E in zip(learner.components_, other.components_, strict=True):
        np.testing.assert_array_equal(D, E)


# Weight 0

BAD = {"NaN": np.nan, "infinity": np.inf, "huge": 1e300}
PLACES = {
    "memory": list,
    "chunks": lambda Xs: [[X[:100] for X in Xs], [X[100:] for X in Xs]],
    "dask": lambda Xs: [da.from_array(X, chunks=(100, -1)) for X in Xs],
}


def spoilt(Xs, bad):
    return [Xs[0], np.where(np.arange(240)[:, None] % 50 == 3, BAD[bad], Xs[1])]


def dense(codes):
    codes = codes.compute() if hasattr(codes, "compute") else codes
    return codes.toarray() if hasattr(codes, "toarray") else np.asarray(codes)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bad", BAD)
def test_a_view_of_weight_0_counts_as_absent(Xs, bad, place):
    learner = make([1.0, 0.0]).fit(Xs)
    given, alone = PLACES[place](spoilt(Xs, bad)), [Xs[0], None]
    assert learner.score(given) == pytest.approx(learner.score(alone), rel=1e-12)
    np.testing.assert_array_equal(dense(learner.transform(given)), learner.transform(alone).toarray())
    np.testing.assert_array_equal(dense(learner.predict(given, view=1)), learner.predict(alone, view=1))


@pytest.mark.parametrize("bad", BAD)
def test_a_view_of_weight_0_counts_as_absent_from_codings(Xs, bad):
    Ds = list(make([1.0, 0.0]).fit(Xs).components_)
    given, alone, weights = spoilt(Xs, bad), [Xs[0], None], [1.0, 0.0]
    expected = sparse_encode(alone, Ds, n_nonzero_coefs=2).toarray()
    np.testing.assert_array_equal(sparse_encode(given, Ds, n_nonzero_coefs=2, view_weights=weights).toarray(), expected)
    coder = SparseCoder(Ds, n_nonzero_coefs=2, view_weights=weights)
    np.testing.assert_array_equal(coder.fit(given).transform(given).toarray(), expected)
    codes = sparse_encode(alone, Ds, pursuit="lasso", alpha=0.1)
    gaps = [lasso_gaps(X, Ds, codes, alpha=0.1, view_weights=weights) for X in (given, alone)]
    np.testing.assert_array_equal(*gaps)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bad", ["NaN", "infinity"])
def test_atoms_are_learned_from_views_of_weight_0_and_so_they_are_checked(Xs, bad, place):
    learner, given = make([1.0, 0.0]), PLACES[place](spoilt(Xs, bad))
    with pytest.raises(ValueError, match=rf"got {bad} in X\[1\]"):
        learner.fit(given)
    fitted = make([1.0, 0.0]).fit(Xs)
    with pytest.raises(ValueError, match=rf"got {bad} in X\[1\]"):
        np.asarray(fitted.impute(given)[1])
    if place == "memory":
        with pytest.raises(ValueError, match=rf"got {bad} in X\[1\]"):
            learner.partial_fit(given)


@pytest.mark.parametrize("coupling", ["code", "support"])
def test_huge_numbers_in_a_view_of_weight_0_do_not_change_the_score(Xs, coupling):
    learner = make([1.0, 0.0], coupling=coupling).fit(Xs)
    assert learner.score([Xs[0], 1e300 * Xs[1]]) == pytest.approx(learner.score(Xs), rel=1e-9)
    assert learner.score([1e-300 * Xs[0], 1e300 * Xs[1]]) == pytest.approx(learner.score(Xs), rel=1e-9)


def test_missing_entries_of_a_view_of_weight_0_are_filled_in(Xs):
    learner = make([1.0, 0.0], missing="nan").fit(Xs)
    given = spoilt(Xs, "NaN")
    filled = learner.impute(given)
    known = ~np.isnan(given[1])
    np.testing.assert_array_equal(filled[1][known], given[1][known])
    assert np.isfinite(filled[1]).all()
    assert learner.score(given) == pytest.approx(learner.score([Xs[0], None]), rel=1e-12)


@pytest.mark.parametrize(("before", "after"), [("balanced", [400.0, 100.0]), ([400.0, 100.0], "balanced")])
def test_batches_go_on_from_files_after_the_weights_were_changed(Xs, tmp_path, before, after):
    """Joint norms depend on the weights; atoms in a file have the norms that belong to those of its batches."""
    halves = [[X[:120] for X in Xs], [X[120:] for X in Xs]]
    learner = make(before).partial_fit(halves[0]).set_params(view_weights=after)
    learner.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors").partial_fit(halves[1])
    expected, found = (np.hstack(model.components_) for model in (learner.partial_fit(halves[1]), again))
    expected, found = (atoms / np.linalg.norm(atoms, axis=1, keepdims=True) for atoms in (expected, found))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
