"""What CoupledDictionaryLearning is told, and what it says when that cannot be right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from coupledict import dct_dictionary
from support.learners import (
    UPDATES,
    joint_norms,
    make,
    norms,
    planted_views,
    rounding,
    start_of,
)


@pytest.fixture
def Xs(rng):
    return planted_views(rng)[0]


# Combinations that cannot work, and arguments that are wrong


def bad(words, kind=ValueError, **parameters):
    return pytest.param(
        parameters, kind, words, id=", ".join(f"{k}={v!r}".split(" at 0x")[0][:40] for k, v in parameters.items())
    )


@pytest.mark.parametrize(
    ("parameters", "kind", "words"),
    [
        bad("which update='statistics' does not keep. Use update='sequential'", unused_atoms="mean"),
        bad("which update='mod' does not keep. Use update='sequential'", unused_atoms="mean", update="mod"),
        bad("coupling='support' is simultaneous OMP; pursuit='ols'", coupling="support", pursuit="ols"),
        bad("Expected n_components to be at least 1, got 0", n_components=0),
        bad("Expected n_components to be None or an integer, got 2.5", TypeError, n_components=2.5),
        bad("Expected n_components to be None or an integer, got True", TypeError, n_components=True),
        bad("Expected n_nonzero_coefs to be at least 1, got 0", n_nonzero_coefs=0),
        bad("Expected tol to be .* at least 0, got -1", tol=-1),
        bad("Expected tol to be .* at least 0, got nan", tol=np.nan),
        bad("Expected tol to be None or a number, got 'small'", TypeError, tol="small"),
        bad("Expected max_iter to be at least 1, got 0", max_iter=0),
        bad("Expected schedule to be one of .'auto', .* or a list of limits, got 'steep'", schedule="steep"),
        bad(r"one limit for each of the 4 iterations \(max_iter\), got shape \(3,\)", schedule=[1, 2, 2]),
        bad("Expected schedule to give integers of at least 1, got", schedule=[0, 1, 1, 2]),
        bad("Expected schedule to give integers of at least 1, got", schedule=[1.0, 1.5, 2.0, 2.0]),
        bad("Expected growth to be 'auto', None or a callable, got 'fast'", growth="fast"),
        bad("Expected growth to be 'auto', None or a callable, got", TypeError, growth=np.array([10, 20, 30, 40])),
        bad("Expected growth to give numbers of samples of at least 1, got", growth=lambda k, n_iter, n: 0),
        bad("Expected update to be one of .*'ksvd'.*, got 'svd'", update="svd"),
        bad("Expected pursuit to be one of .*, got 'lars'", pursuit="lars"),
        bad("Expected init to be one of .* or a list of 2 arrays, got", init=[np.ones((12, 6))]),
        bad("Expected init to be one of .*, got 'svd'", init="svd"),
        bad(r"Expected init\[1\] to have shape \(12, 9\), got \(12, 6\)", init=[np.ones((12, 6))] * 2),
        bad(r"Expected init\[0\] to be finite", init=[np.full((12, 6), np.nan), np.ones((12, 9))]),
        bad(r"Expected square patches for init='dct', got views of \[6, 9\] features", init="dct"),
        bad("Expected normalize to be one of .*, got 'atoms'", normalize="atoms"),
        bad("Expected coupling to be one of .*, got 'none'", coupling="none"),
        bad("Expected view_weights to hold 2 numbers, one per view", view_weights=[1, 2, 3]),
        bad("Expected view_weights to be finite and not negative", view_weights=[1, -1]),
        bad("Expected a positive weight for at least one view", view_weights=[0, 0]),
        bad("Expected view_weights to be None, 'balanced' or a list of numbers, got 'equal'", view_weights="equal"),
        bad("Expected unused_atoms to be one of .*, got 'drop'", unused_atoms="drop"),
        bad("Expected stop_tol to be .* at least 0, got -1", stop_tol=-1),
        bad("Expected ridge_alpha to be a number from 0 to .*, got -1", ridge_alpha=-1),
        bad("Expected ridge_alpha to be 'auto' or a number, got 'small'", ridge_alpha="small"),
        bad("Expected n_jobs to be at least 1 or at most -1, got 0", n_jobs=0),
        bad("Expected n_jobs to be None or an integer, got '2'", TypeError, n_jobs="2"),
        bad("Expected random_state to be None, an integer or", TypeError, random_state="seed"),
    ],
)
def test_bad_parameters_are_told_before_any_work(Xs, parameters, kind, words):
    learner = make(callback=lambda state: pytest.fail("an iteration was done"))
    with pytest.raises(kind, match=words):
        learner.set_params(**parameters).fit(Xs)
    assert not hasattr(learner, "components_")


X, Y = np.ones((10, 3)), np.ones((10, 5))


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        pytest.param(X, TypeError, "Expected X to be a list of arrays, one per view.*got ndarray", id="one array"),
        pytest.param([], ValueError, "Expected at least one view in X", id="no view"),
        pytest.param([X, None], ValueError, r"present in fit, got None for X\[1\]", id="absent view"),
        pytest.param([X, Y[:9]], ValueError, r"same number of samples .*, got 10 and 9 \(X\[1\]\)", id="samples"),
        pytest.param([X, X[0]], ValueError, r"Expected X\[1\] to have 2 dimensions, got 1", id="one dimension"),
        pytest.param([X, X[:, :0]], ValueError, r"Expected X\[1\] to have at least one feature", id="no feature"),
        pytest.param([X[:0], Y[:0]], ValueError, "Expected at least one sample", id="no sample"),
        pytest.param([X, scipy.sparse.eye_array(10)], TypeError, r"X\[1\] to be a dense array", id="sparse"),
        pytest.param([X, Y.astype(complex)], TypeError, r"X\[1\] to hold real numbers", id="complex"),
        pytest.param([X, Y.astype(object)], TypeError, r"X\[1\] to hold real numbers", id="objects"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_views(given, kind, words, method):
    learner = make(6)
    with pytest.raises(kind, match=words):
        getattr(learner, method)(given)
    assert not hasattr(learner, "components_")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("update", ["statistics", "sequential"])
def test_a_sample_that_is_not_finite_is_named(Xs, value, update):
    Xs[1][77, 3] = value
    what = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=rf"got {what} in X\[1\], sample 77\."):
        make(update=update).fit(Xs)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, Xs: m.transform(Xs[:1]), "Expected 2 views in X, one for each dictionary .*, got 1"),
        (lambda m, Xs: m.transform([*Xs, Xs[0]]), "Expected 2 views in X.*, got 3"),
        (lambda m, Xs: m.transform([None, None]), "Expected at least one view in X, got only None"),
        (lambda m, Xs: m.transform(Xs[::-1]), r"Expected X\[0\] to have 6 features, as its dictionary has, got 9"),
        (lambda m, Xs: m.score([Xs[0], Xs[1][:5]]), r"same number of samples in every view, got 300 and 5"),
        (
            lambda m, Xs: m.inverse_transform(np.ones((3, 11))),
            r"Expected codes of shape \(n_samples, 12\), got \(3, 11",
        ),
        (lambda m, Xs: m.predict(Xs, view=2), "Expected view to be the number of one of the 2 views, got 2"),
        (lambda m, Xs: m.predict(Xs, view=-3), "one of the 2 views, got -3"),
        (lambda m, Xs: m.predict(Xs, view=True), "one of the 2 views, got True"),
        (lambda m, Xs: m.predict(Xs, view="1"), "the views have no names, got '1'"),
        (lambda m, Xs: m.predict([None, Xs[1]], view=1), r"other than the wanted one \(1\) in X, got none"),
        (lambda m, Xs: m.partial_fit(Xs[::-1]), r"Expected views of \[6, 9\] features, as before, got \[9, 6\]"),
    ],
)
def test_bad_views_after_fit(Xs, call, words):
    with pytest.raises(ValueError, match=words):
        call(make().fit(Xs), Xs)


def test_not_fitted(Xs):
    for call in (
        lambda m: m.transform(Xs),
        lambda m: m.score(Xs),
        lambda m: m.predict(Xs, view=1),
        lambda m: m.inverse_transform(np.ones((1, 12))),
    ):
        with pytest.raises(NotFittedError):
            call(make())


# Schedule and growth


def limits(learner, Xs):
    return [record["limit"] for record in learner.fit(Xs).history_]


@pytest.mark.parametrize(("limit", "n_iter"), [(5, 7), (2, 9), (5, 3), (1, 4)])
@pytest.mark.parametrize("parameters", [{"schedule": "linear"}, {"growth": None}, {"update": "mod"}], ids=str)
def test_linear_schedule(Xs, limit, n_iter, parameters):
    """The paper's; auto takes it where every pass sees all samples."""
    expected = np.round(np.linspace(1, limit, n_iter)).tolist()
    assert limits(make(n_nonzero_coefs=limit, max_iter=n_iter, **parameters), Xs) == expected


@pytest.mark.parametrize(("n_iter", "expected"), [(1, [5]), (2, [1, 5]), (5, [1, 3, 5, 5, 5]), (6, [1, 2, 4, 5, 5, 5])])
@pytest.mark.parametrize("parameters", [{"schedule": "half", "growth": None}, {}], ids=str)
def test_half_schedule(Xs, n_iter, expected, parameters):
    """It climbs in the first half; auto takes it where samples grow."""
    assert limits(make(n_nonzero_coefs=5, max_iter=n_iter, **parameters), Xs) == expected


def test_other_schedules(Xs):
    assert limits(make(n_nonzero_coefs=3, schedule="constant"), Xs) == [3, 3, 3, 3]
    assert limits(make(n_nonzero_coefs=3, tol=0.1), Xs) == [3, 3, 3, 3], "auto is constant where tol ends coding"
    assert limits(make(n_nonzero_coefs=None, tol=0.1, max_iter=2), Xs) == [12, 12], "no limit but the atoms"
    assert limits(make(20, n_nonzero_coefs=None, tol=0.1, max_iter=2), Xs) == [15, 15], "no limit but the features"
    assert limits(make(n_nonzero_coefs=None, schedule="constant", max_iter=2), Xs) == [1, 1], "a tenth of the features"
    assert limits(make(n_nonzero_coefs=3, schedule=[3, 1, 9, 2]), Xs) == [3, 1, 3, 2], "never above the limit"
    assert limits(make(n_nonzero_coefs=3, schedule=np.array([1, 1, 2, 3], np.uint8)), Xs) == [1, 1, 2, 3]
    asked = []
    schedule = lambda *arguments: asked.append(arguments) or 1 + arguments[0] % 2  # noqa: E731
    assert limits(make(n_nonzero_coefs=3, schedule=schedule), Xs) == [1, 2, 1, 2]
    assert asked == [(k, 4, 3) for k in range(4)]


def test_the_limit_is_kept_in_every_iteration(rng):
    Xs = [rng.standard_normal((100, p)) for p in (6, 9)]
    # Not from samples: an atom of joint norm may be a sample, which then needs no other.
    history = make(n_nonzero_coefs=4, schedule="linear", init="random").fit(Xs).history_
    assert [record["mean_nonzeros"] for record in history] == [1, 2, 3, 4]


def sizes(learner, Xs):
    return [record["n_samples"] for record in learner.fit(Xs).history_]


def test_growth(Xs):
    assert sizes(make(growth=None), Xs) == [300] * 4
    grown = sizes(make(max_iter=6), Xs)
    assert grown == np.round(np.geomspace(24, 300, 6)).tolist(), "from two samples an atom to all"
    assert sizes(make(n_components=2, max_iter=2), Xs) == [6, 300], "or from a fiftieth"
    for update in UPDATES[1:]:
        assert sizes(make(update=update), Xs) == [300] * 4, "the rivals see all samples"
    asked = []
    growth = lambda *arguments: asked.append(arguments) or 140 * (1 + arguments[0])  # noqa: E731
    assert sizes(make(growth=growth), Xs) == [140, 280, 300, 300]
    assert asked == [(k, 4, 300) for k in range(4)]
    assert sizes(make(growth=growth, update="sequential"), Xs) == [140, 280, 300, 300]


def test_a_single_pass_sees_all_samples(Xs):
    assert sizes(make(max_iter=1), Xs) == [300]


def test_passes_go_round_through_all_samples(rng):
    """Three passes over a third of the samples see each sample once, and one pass sees a third: a NaN tells."""

    def notices(row, n_iter):
        X = clean.copy()
        X[row, 0] = np.nan
        learner = make(4, n_nonzero_coefs=1, max_iter=n_iter, growth=lambda k, n_iter, n: 20, predictor="dictionary")
        try:
            learner.fit([X])
        except ValueError as error:
            return f"got NaN in sample {row}." in str(error)
        return False

    clean = rng.standard_normal((60, 5))
    assert all(notices(row, 3) for row in range(60))
    seen = [row for row in range(60) if notices(row, 1)]
    assert len(seen) == 20
    assert seen != list(range(seen[0], seen[0] + 20)), "spread over the whole"


# Where learning starts


@pytest.mark.parametrize(
    ("widths", "n_components", "parameters", "expected"),
    [
        ((16, 16), 36, {"tol": 0.1}, "dct"),
        ((16, 16), 36, {"update": "sequential"}, "dct"),
        ((16,), 32, {"tol": 0.1}, "dct"),
        ((16, 16), 36, {}, "samples"),  # the better start where the number of atoms is limited
        ((16, 16), 37, {"tol": 0.1}, "samples"),  # a prime: no grid of frequencies
        ((16, 16), 9, {"tol": 0.1}, "samples"),  # fewer atoms than features
        ((16, 9), 36, {"tol": 0.1}, "samples"),
        ((15, 15), 36, {"tol": 0.1}, "samples"),
        ((1, 1), 4, {"tol": 0.1}, "samples"),
    ],
)
def test_auto_start(rng, monkeypatch, widths, n_components, parameters, expected):
    """Cosines where they suit the views and the way of learning."""
    Xs = [rng.standard_normal((50, p)) for p in widths]
    learners = [make(n_components, init=kind, **parameters) for kind in ("auto", expected)]
    for D, E in zip(*(start_of(learner, Xs, monkeypatch) for learner in learners), strict=True):
        np.testing.assert_array_equal(D, E)


def test_cosines(rng, monkeypatch):
    """Each atom is the product of two waves; the waves are cosines of frequencies 0, 1/5, ... 4/5, without mean."""
    Xs = [rng.standard_normal((9, p)) for p in (16, 9)]
    first, second = start_of(make(25, init="dct", normalize="views"), Xs, monkeypatch)
    for D, E in zip(start_of(make(25, init="dct"), Xs, monkeypatch), (first, second), strict=True):
        np.testing.assert_allclose(D, E / np.sqrt(2))
    for D, side in ((first, 4), (second, 3)):
        np.testing.assert_allclose(norms(D), 1)
        np.testing.assert_allclose(D[0], 1 / side)
        waves = [np.cos(np.pi * k * np.arange(side) / 5) for k in range(5)]
        waves[1:] = [wave - wave.mean() for wave in waves[1:]]
        for t, (i, j) in enumerate(itertools.product(range(5), repeat=2)):
            atom = np.outer(waves[i], waves[j]).ravel()
            assert D[t] @ atom == pytest.approx(np.linalg.norm(atom))
    np.testing.assert_allclose(first, dct_dictionary((4, 4), 25))
    assert np.linalg.matrix_rank(dct_dictionary((4, 6), 24)) == 24, "a basis where there are as many atoms as pixels"


@pytest.mark.parametrize(
    ("shape", "n_components", "kind", "words"),
    [
        ((4, 4), 0, ValueError, "Expected n_components to be at least 1, got 0"),
        ((4, 4), 2.5, TypeError, "Expected n_components to be an integer, got 2.5"),
        ((0, 4), 4, ValueError, "patch_size"),
        ("16", 4, TypeError, "patch_size"),
        (0, 4, ValueError, "patch_size"),
    ],
)
def test_cosines_of_no_shape(shape, n_components, kind, words):
    with pytest.raises(kind, match=words):
        dct_dictionary(shape, n_components)


@pytest.mark.parametrize("normalize", ["views", "joint"])
def test_samples_start_with_pairs(Xs, monkeypatch, normalize):
    start = start_of(make(init="samples", normalize=normalize), Xs, monkeypatch)
    rows = [[int(np.argmax(X @ d / norms(X))) for d in D] for X, D in zip(Xs, start, strict=True)]
    assert rows[0] == rows[1], "the same sample in both views"
    assert len(set(rows[0])) == 12, "each sample once"
    for X, D in zip(Xs, start, strict=True):
        sizes = norms(X[rows[0]]) if normalize == "views" else joint_norms([Y[rows[0]] for Y in Xs])
        np.testing.assert_allclose(D, X[rows[0]] / sizes[:, None])


def test_samples_that_are_zero_are_no_atoms(Xs, monkeypatch):
    Xs[0][::2] = 0
    Xs[1][1::4] = 0
    for D in start_of(make(init="samples", normalize="views"), Xs, monkeypatch):
        np.testing.assert_allclose(norms(D), 1)
    start = start_of(make(init="samples"), Xs, monkeypatch)
    np.testing.assert_allclose(joint_norms(start), 1)
    assert min(norms(D).min() for D in start) > 0.1


def test_random_start(Xs, monkeypatch):
    for normalize in ("views", "joint"):
        one, same, other = (
            start_of(make(init="random", random_state=seed, normalize=normalize), Xs, monkeypatch)
            for seed in (np.int64(3), 3, 4)
        )
        np.testing.assert_array_equal(one[1], same[1])
        assert np.abs(one[1] @ other[1].T).max() < 0.999
        np.testing.assert_allclose(norms(one[1]) if normalize == "views" else joint_norms(one), 1)


def test_given_start_is_normalised_and_left_alone(rng, Xs, monkeypatch):
    given = [7 * rng.standard_normal((12, 6)), rng.standard_normal((12, 9)).astype(np.float32)]
    before = [D.copy() for D in given]
    learner = make(init=given, normalize="views")
    for D, E in zip(start_of(learner, Xs, monkeypatch), given, strict=True):
        np.testing.assert_allclose(D, E / norms(E.astype(float))[:, None])
    for D, E in zip(start_of(make(init=given), Xs, monkeypatch), given, strict=True):
        np.testing.assert_allclose(D, E / joint_norms(given)[:, None])
    learner.fit(Xs)
    for D, E in zip(given, before, strict=True):
        np.testing.assert_array_equal(D, E)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("n", [1, 5])
def test_fewer_samples_than_atoms(rng, update, n):
    Xs, _ = planted_views(rng, n=n)
    learner = make(update=update, predictor="dictionary").fit(Xs)
    np.testing.assert_allclose(joint_norms(learner.components_), 1)
    assert learner.score(Xs) > 0.95
    learner = make(update=update, predictor="dictionary", normalize="views").fit(Xs)
    for D in learner.components_:
        np.testing.assert_allclose(norms(D), 1)
    assert learner.score(Xs) > 0.95


@pytest.mark.parametrize("update", UPDATES)
def test_a_view_of_zeros_does_no_harm(Xs, update):
    learner = make(update=update).fit([Xs[0], np.zeros((300, 4))])
    assert all(np.isfinite(D).all() for D in learner.components_)
    np.testing.assert_allclose(norms(learner.components_[0]), 1)
    np.testing.assert_array_equal(learner.predict([Xs[0], None], view=1), np.zeros((300, 4)))


# Weights


def test_view_weights(Xs):
    np.testing.assert_array_equal(make().fit(Xs).view_weights_, [1, 1])
    np.testing.assert_array_equal(make(view_weights=(2, 0.5)).fit(Xs).view_weights_, [2, 0.5])
    balanced = make(view_weights="balanced").fit([Xs[0], 30 * Xs[1]]).view_weights_
    np.testing.assert_allclose(balanced, [1 / np.mean(norms(X) ** 2) for X in (Xs[0], 30 * Xs[1])])


def test_balanced_views_of_whole_numbers(Xs):
    Xs = [np.rint(50 * X).astype(np.int8) for X in Xs]
    expected = [1 / np.mean(norms(X.astype(float)) ** 2) for X in Xs]
    np.testing.assert_allclose(make(view_weights="balanced").fit(Xs).view_weights_, expected)


@pytest.mark.parametrize("growth", ["auto", None])
def test_balanced_weights_undo_the_scale_of_a_view(Xs, growth):
    settings = {"view_weights": "balanced", "normalize": "joint", "growth": growth}
    one, other = make(**settings).fit(Xs), make(**settings).fit([Xs[0], 8 * Xs[1]])
    np.testing.assert_allclose(other.components_[0], one.components_[0], atol=rounding("statistics", growth))
    np.testing.assert_allclose(other.components_[1] / 8, one.components_[1], atol=rounding("statistics", growth))


# The constant atom


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("normalize", ["views", "joint"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_atom_comes_first_and_stays(rng, update, normalize, dtype):
    Xs = [(X + 3).astype(dtype) for X in planted_views(rng)[0]]
    first, second = (
        make(update=update, normalize=normalize, constant_atom=True, predictor="dictionary").fit(Xs).components_
    )
    assert first[0].min() == first[0].max() > 0
    assert second[0].min() == second[0].max() > 0
    size = norms(first)[0] ** 2, norms(second)[0] ** 2
    np.testing.assert_allclose(size if normalize == "views" else sum(size), 1, rtol=1e-6)
    assert np.ptp(first[1:], axis=1).min() > 1e-3, "no other atom is constant"


def test_constant_atom_is_never_replaced(rng):
    Xs = [X - X.mean(axis=1, keepdims=True) for X in planted_views(rng)[0]]  # nobody has use for a constant
    learner = make(constant_atom=True, unused_atoms="worst").fit(Xs)
    assert np.ptp(learner.components_[0][0]) == 0


def test_cosines_bring_no_second_constant_atom(rng, monkeypatch):
    Xs = [rng.standard_normal((80, 16))] * 2
    for D in start_of(make(36, init="dct", constant_atom=True), Xs, monkeypatch):
        assert np.ptp(D[0]) == 0
        assert np.ptp(D[1:], axis=1).min() > 1e-3


def test_constant_atom_after_a_warm_start_without_it(Xs):
    learner = make().fit(Xs)
    learner.set_params(warm_start=True, constant_atom=True).fit(Xs)
    assert np.ptp(learner.components_[0][0]) == 0


def test_a_zero_atom_is_not_the_constant_atom(rng, Xs):
    start = [rng.standard_normal((12, X.shape[1])) for X in Xs]
    start[0][0], start[1][0] = 0, 0
    for D in make(init=start, constant_atom=True, normalize="views").fit(Xs).components_:
        np.testing.assert_allclose(D[0], 1 / np.sqrt(D.shape[1]))
    for D in make(init=start, constant_atom=True).fit(Xs).components_:
        np.testing.assert_allclose(D[0], 1 / np.sqrt(sum(X.shape[1] for X in Xs)))
