"""Samples near the ends of the range of numbers: what is learned from them is what is learned from any others."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict import DictionaryLearning, OnlineDictionaryLearning, load
from support.cases import first_and_slow, slow
from support.learners import UPDATES, make, plain, planted_views

EXPONENTS = [(np.float32, -100), (np.float32, 90), (np.float32, 122), (np.float64, -950), (np.float64, 500),
             (np.float64, 1015)]  # fmt: skip
extremes = pytest.mark.parametrize(("dtype", "exponent"), EXPONENTS)


@pytest.fixture
def Xs(rng):
    return planted_views(rng)[0]


def moved(Xs, dtype, exponent):
    """The samples in a number type, and the same ones multiplied by a power of two."""
    plain = [X.astype(dtype) for X in Xs]
    return plain, [np.ldexp(X, exponent) for X in plain]


@extremes
@pytest.mark.parametrize("update", UPDATES)
def test_dictionaries_do_not_depend_on_the_scale(Xs, dtype, exponent, update):
    plain, far = moved(Xs, dtype, exponent)
    one, other = (make(update=update, unused_atoms="late").fit(views) for views in (plain, far))
    for a, b in zip(one.components_, other.components_, strict=True):
        assert a.dtype == dtype
        np.testing.assert_array_equal(a, b)
    for sources, targets in one.predictors_.items():
        for view, atoms in targets.items():
            np.testing.assert_array_equal(atoms, other.predictors_[sources][view])
    for record, as_moved in zip(one.history_, other.history_, strict=True):
        assert as_moved["rms"] == np.ldexp(record["rms"], exponent)
        assert np.isfinite(as_moved["objective"])


@extremes
@pytest.mark.parametrize("normalize", ["views", "joint"])
@pytest.mark.parametrize("weights", [None, "balanced"])
def test_a_tolerance_has_the_scale_of_the_samples(Xs, dtype, exponent, weights, normalize):
    if weights == "balanced":
        exponent = int(np.clip(exponent, -400, 400))  # the weights themselves have to be numbers
    elif abs(exponent) > 505:
        exponent = 505 if exponent > 0 else -505  # and so does the tolerance, which is a square
    plain, far = moved(Xs, dtype, exponent)
    tol = 0.5
    far_tol = tol if weights == "balanced" else float(np.ldexp(tol, 2 * exponent))
    settings = {"n_nonzero_coefs": None, "view_weights": weights, "normalize": normalize}
    one, other = make(tol=tol, **settings).fit(plain), make(tol=far_tol, **settings).fit(far)
    assert [r["mean_nonzeros"] for r in one.history_] == [r["mean_nonzeros"] for r in other.history_]
    # Balanced weights undo the scale of the samples; atoms whose weighted norm is 1 then have the scale of the samples.
    own = exponent if weights == "balanced" and normalize == "joint" else 0
    for a, b in zip(one.components_, other.components_, strict=True):
        np.testing.assert_array_equal(np.ldexp(a, own), b)


@extremes
def test_batches(Xs, dtype, exponent, tmp_path):
    plain, far = moved(Xs, dtype, exponent)
    one, other = (OnlineDictionaryLearning(12, n_nonzero_coefs=2, random_state=0) for _ in range(2))
    for start in range(0, 300, 60):
        rows = slice(start, start + 60)
        one.partial_fit([X[rows] for X in plain])
        other.partial_fit([X[rows] for X in far])
        other.save(tmp_path / "model")
        other = load(tmp_path / "model")
    for a, b in zip(one.components_, other.components_, strict=True):
        np.testing.assert_array_equal(a, b)
    one, other = (
        OnlineDictionaryLearning(12, n_nonzero_coefs=2, batch_size=40, max_iter=9, random_state=0).fit(views)
        for views in (plain, far)
    )
    for a, b in zip(one.components_, other.components_, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.predictors_[(0,)][1], other.predictors_[(0,)][1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_giant_among_the_samples(Xs, dtype):
    Xs = [X.astype(dtype) for X in Xs]
    Xs[0][7] = np.finfo(dtype).max / 4
    learner = make().fit(Xs)
    assert all(np.isfinite(D).all() for D in learner.components_)
    assert all(np.isfinite(record["objective"]) for record in learner.history_)


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1.7e308])
def test_denormal_and_largest_numbers(rng, value):
    X = value * rng.choice([-1.0, 0.0, 1.0], (100, 6))
    learner = DictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit(X)
    assert np.isfinite(learner.components_).all()
    np.testing.assert_allclose(np.linalg.norm(learner.components_, axis=1), 1)


def test_starting_atoms_of_any_size(Xs):
    start = [np.full((12, X.shape[1]), 1e200) + 1e200 * np.eye(12, X.shape[1]) for X in Xs]
    small = [array * 1e-210 * 1e-190 for array in start]
    for init in (start, small):
        learner = plain(12, n_nonzero_coefs=2, init=init, max_iter=2, random_state=0).fit(Xs)
        assert all(np.isfinite(D).all() for D in learner.components_)


def test_sums_that_overflow_are_refused_and_change_nothing(Xs):
    far = [(1e25 * X).astype(np.float32) for X in Xs]
    learner = OnlineDictionaryLearning(12, n_nonzero_coefs=2, random_state=0)
    learner.partial_fit([X.astype(np.float32) for X in Xs])
    before = [D.copy() for D in learner.components_]
    with pytest.raises(ValueError, match="exceed the range of its number type"):
        learner.partial_fit(far)
    for a, b in zip(before, learner.components_, strict=True):
        np.testing.assert_array_equal(a, b)
    learner.partial_fit([X.astype(np.float32) for X in Xs])
    assert learner.n_iter_ == 2


def in_chunks(Xs):
    return [[X[start : start + 70] for X in Xs] for start in range(0, 300, 70)]


def in_files(Xs, tmp_path, name):
    """Memory maps, which are read in blocks whatever their size."""
    for v, X in enumerate(Xs):
        np.save(tmp_path / f"{name}{v}.npy", X)
    return [np.load(tmp_path / f"{name}{v}.npy", mmap_mode="r") for v in range(len(Xs))]


def in_dask(Xs):
    dask = pytest.importorskip("dask.array")
    return [dask.from_array(X, chunks=(70, -1)) for X in Xs]


@extremes
@pytest.mark.parametrize("place", ["chunks", *slow("callable", "files", "dask")])
@pytest.mark.parametrize(
    ("weights", "normalize"),
    [("balanced", "joint"), *first_and_slow([], [(None, "joint"), ("balanced", "views")])],
)
def test_wherever_the_samples_are(Xs, dtype, exponent, place, weights, normalize, tmp_path, sizes):
    """Samples of any scale learn the same, in chunks, in files and in Dask, and are scored the same."""
    sizes(large_bytes=0, block_rows=70)
    if weights == "balanced":
        exponent = int(np.clip(exponent, -400, 400))  # the weights themselves have to be numbers
    plain, far = moved(Xs, dtype, exponent)
    if place == "chunks":
        given = [in_chunks(views) for views in (plain, far)]
    elif place == "callable":
        given = [lambda views=views: iter(in_chunks(views)) for views in (plain, far)]
    elif place == "files":
        given = [in_files(plain, tmp_path, "plain"), in_files(far, tmp_path, "far")]
    else:
        given = [in_dask(plain), in_dask(far)]
    one, other = (make(view_weights=weights, normalize=normalize).fit(views) for views in given)
    # With balanced weights and joint norms, atoms have the scale of the samples; otherwise codes have it.
    own = exponent if weights == "balanced" and normalize == "joint" else 0
    for a, b in zip(one.components_, other.components_, strict=True):
        assert a.dtype == dtype
        np.testing.assert_array_equal(np.ldexp(a, own), b)
    np.testing.assert_array_equal(np.ldexp(one.predictors_[(0,)][1], own), other.predictors_[(0,)][1])
    assert all(record["rms"] > 0 for record in other.history_)
    assert other.score(given[1]) == pytest.approx(one.score(given[0]), rel=1e-5)
    assert other.score(given[1]) == pytest.approx(other.score(far), rel=1e-5)
    codes = [learner.transform(views) for learner, views in ((one, given[0]), (other, given[1]))]
    first, second = (code.compute() if hasattr(code, "compute") else code for code in codes)
    np.testing.assert_array_equal(np.ldexp(first.toarray(), exponent - own), second.toarray())


@pytest.mark.parametrize("place", ["chunks", "dask"])
def test_a_tolerance_in_chunks(Xs, place):
    plain, far = moved(Xs, np.float64, -400)
    given = [in_chunks(views) if place == "chunks" else in_dask(views) for views in (plain, far)]
    one = make(tol=0.5, n_nonzero_coefs=None).fit(given[0])
    other = make(tol=float(np.ldexp(0.5, -800)), n_nonzero_coefs=None).fit(given[1])
    for a, b in zip(one.components_, other.components_, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.history_[-1]["mean_nonzeros"] == other.history_[-1]["mean_nonzeros"]


def test_one_giant_in_a_chunk(Xs):
    Xs[0][207] = np.finfo(float).max / 4
    learner = make().fit(in_chunks(Xs))
    assert all(np.isfinite(D).all() for D in learner.components_)
