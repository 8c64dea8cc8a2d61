"""What CoupledDictionaryLearning promises: dictionaries that belong together, an honest history, errors that help."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from coupledict import LETTER, CoupledDictionaryLearning, DictionaryLearning, dct_dictionary, sparse_encode
from coupledict._loop import Loop

UPDATES = ["statistics", "sequential", "ksvd", "mod"]
WIDTHS = (6, 9, 4)
WEIGHTS = (0.5, 2.0, 1.25)


def planted_views(rng, n=300, n_components=12, widths=(6, 9), n_nonzero=2, noise=0.02, gains=None):
    """Views that are sparse over dictionaries with norm 1 in every view, and these dictionaries."""
    codes = np.zeros((n, n_components))
    for code in codes:
        code[rng.choice(n_components, n_nonzero, replace=False)] = rng.choice([-1, 1], n_nonzero) * rng.uniform(1, 2)
    Ds = [rng.standard_normal((n_components, p)) for p in widths]
    Ds = [D / np.linalg.norm(D, axis=1, keepdims=True) for D in Ds]
    gains = np.ones((len(widths), n_components)) if gains is None else gains
    Xs = [codes @ (D * g[:, None]) for D, g in zip(Ds, gains, strict=True)]
    return [X + noise * rng.standard_normal(X.shape) for X in Xs], Ds


@pytest.fixture
def Xs(rng):
    return planted_views(rng)[0]


def make(n_components=12, **parameters):
    return CoupledDictionaryLearning(
        n_components, **({"n_nonzero_coefs": 2, "max_iter": 4, "random_state": 0} | parameters)
    )


def start_of(learner, Xs, monkeypatch):
    """Return the dictionaries that learning starts from."""
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "run", lambda self, *arguments: None)
        return learner.set_params(refit=False).fit(Xs).components_


def norms(D):
    return np.linalg.norm(D, axis=1)


def energies(Xs, Ds, codes):
    """Squared errors of the views; `codes` is one array for all views, or one a view."""
    codes = codes if isinstance(codes, list) else [codes] * len(Xs)
    return np.array([np.sum((X - C.toarray() @ D) ** 2) for X, D, C in zip(Xs, Ds, codes, strict=True)])


def without_times(history):
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


def assert_same_model(one, other):
    """The same to the last bit, but for the time it took."""
    for a, b in zip(one.components_, other.components_, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert without_times(one.history_) == without_times(other.history_)


# Dictionaries


@pytest.mark.parametrize(
    ("given", "expected"),
    [("f4", "f4"), ("f8", "f8"), ("f2", "f4"), ("i2", "f4"), ("u1", "f4"), ("i8", "f8"), (">f4", "f4"), (">f8", "f8")],
)
def test_shapes_and_number_types(Xs, given, expected):
    Xs = [np.abs(np.rint(20 * X)).astype(given) for X in Xs]
    learner = make().fit(Xs)
    codes = learner.transform(Xs)
    predicted = learner.predict([Xs[0], None], view=1)
    assert [D.shape for D in learner.components_] == [(12, 6), (12, 9)]
    assert codes.shape == (300, 12)
    assert predicted.shape == (300, 9)
    for array in (*learner.components_, codes, predicted, *learner.inverse_transform(codes)):
        assert array.dtype == np.dtype(expected)
    assert learner.n_features_in_ == [6, 9]
    assert learner.n_iter_ == len(learner.history_) == 4


def test_a_float32_view_beside_a_float64_view_gives_float64(Xs):
    learner = make().fit([Xs[0].astype(np.float32), Xs[1]])
    assert [D.dtype for D in learner.components_] == [np.float64] * 2


@pytest.mark.parametrize(("width", "expected"), [(3, 12), (64, 256), (100, 256), (300, 300)])
def test_default_n_components(rng, width, expected):
    Xs = [rng.standard_normal((10, width)), rng.standard_normal((10, 2))]
    assert make(None, max_iter=1, refit=False).fit(Xs).components_[0].shape == (expected, width)


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("normalize", ["views", "joint"])
def test_atoms_have_norm_1(rng, update, normalize, n_views):
    Xs, _ = planted_views(rng, widths=WIDTHS[:n_views])
    weights = WEIGHTS[:n_views]
    learner = make(update=update, normalize=normalize, view_weights=weights, refit=False).fit(Xs)
    squares = np.array([norms(D) ** 2 for D in learner.components_])
    sizes = squares if normalize == "views" else [np.array(weights) @ squares]
    for size in sizes:
        np.testing.assert_allclose(size, 1, rtol=1e-12)


@pytest.mark.parametrize("update", UPDATES)
def test_atoms_of_one_number_are_partners(rng, update):
    """Planted atoms are found in all views under the same number, and with the same sign."""
    Xs, Ds = planted_views(rng, n=1200, n_components=24, widths=(12, 16), n_nonzero=3)
    learner = make(24, n_nonzero_coefs=3, max_iter=20, update=update, refit=False).fit(Xs)
    first, second = (D @ planted.T for D, planted in zip(learner.components_, Ds, strict=True))
    found = np.abs(first) > 0.99
    together = (first * second > 0.98) & found
    assert np.count_nonzero(together.any(axis=0)) >= 17
    assert np.count_nonzero(together) >= np.count_nonzero(found) - 1


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("coupling", ["code", "support"])
def test_every_update_lowers_the_error(rng, update, coupling, n_views):
    Xs, _ = planted_views(rng, widths=WIDTHS[:n_views])
    weights = np.array(WEIGHTS[:n_views])
    learner = make(update=update, coupling=coupling, view_weights=weights, max_iter=8, growth=None, schedule="constant")
    learner.fit(Xs)
    codes = learner.transform(Xs)
    after = weights @ energies(Xs, learner.components_, codes)
    assert after < 0.7 * learner.history_[0]["objective"]
    assert learner.score(Xs) == pytest.approx(1 - after / sum(weights * [np.sum(X**2) for X in Xs]))


def test_ols_finds_smaller_errors_in_the_first_iteration(Xs):
    history = {p: make(pursuit=p, schedule="constant", growth=None).fit(Xs).history_ for p in ("omp", "ols")}
    assert history["ols"][0]["objective"] < history["omp"][0]["objective"]


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
        bad("each view has coefficients of its own. Use normalize='views'", coupling="support", normalize="joint"),
        bad("Expected n_components to be at least 1, got 0", n_components=0),
        bad("Expected n_components to be an integer, got 2.5", TypeError, n_components=2.5),
        bad("Expected n_components to be an integer, got True", TypeError, n_components=True),
        bad("Expected n_nonzero_coefs to be at least 1, got 0", n_nonzero_coefs=0),
        bad("Expected tol to be .* at least 0, got -1", tol=-1),
        bad("Expected tol to be .* at least 0, got nan", tol=np.nan),
        bad("Expected tol to be a number, got 'small'", TypeError, tol="small"),
        bad("Expected max_iter to be at least 1, got 0", max_iter=0),
        bad("Expected schedule to be 'auto', .* or a list of limits, got 'steep'", schedule="steep"),
        bad(r"one limit for each of the 4 iterations \(max_iter\), got shape \(3,\)", schedule=[1, 2, 2]),
        bad("Expected schedule to give integers of at least 1, got", schedule=[0, 1, 1, 2]),
        bad("Expected schedule to give integers of at least 1, got", schedule=[1.0, 1.5, 2.0, 2.0]),
        bad("Expected growth to be 'auto', None or a callable, got 'fast'", growth="fast"),
        bad("Expected growth to be 'auto', None or a callable, got", growth=np.array([10, 20, 30, 40])),
        bad("Expected growth to give numbers of samples of at least 1, got", growth=lambda k, n_iter, n: 0),
        bad("Expected update to be one of .*'ksvd'.*, got 'svd'", update="svd"),
        bad("Expected pursuit to be 'omp' or 'ols', got 'lars'", pursuit="lars"),
        bad("Expected init to be one of .* or a list of 2 arrays, got", init=[np.ones((12, 6))]),
        bad("Expected init to be one of .*, got 'svd'", init="svd"),
        bad(r"Expected init\[1\] to have shape \(12, 9\), got \(12, 6\)", init=[np.ones((12, 6))] * 2),
        bad(r"Expected init\[0\] to be finite", init=[np.full((12, 6), np.nan), np.ones((12, 9))]),
        bad(r"Expected square patches for init='dct', got views of \[6, 9\] features", init="dct"),
        bad("Expected normalize to be one of .*, got 'atoms'", normalize="atoms"),
        bad("Expected coupling to be one of .*, got 'none'", coupling="none"),
        bad("Expected view_weights to hold 2 numbers, one a view", view_weights=[1, 2, 3]),
        bad("Expected view_weights to be finite and not negative", view_weights=[1, -1]),
        bad("Expected a positive weight for at least one view", view_weights=[0, 0]),
        bad("Expected view_weights to be one of .*, got 'equal'", view_weights="equal"),
        bad("Expected unused_atoms to be one of .*, got 'drop'", unused_atoms="drop"),
        bad("Expected stop_tol to be .* at least 0, got -1", stop_tol=-1),
        bad("Expected refit_alpha to be .* at least 0, got -1", refit_alpha=-1),
        bad("Expected refit_alpha to be a number, got 'small'", TypeError, refit_alpha="small"),
        bad("Expected n_jobs to be None, a positive number", n_jobs=0),
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
        pytest.param(X, TypeError, "Expected Xs to be a list of arrays, one a view.*got ndarray", id="one array"),
        pytest.param([], ValueError, "Expected at least one view in Xs", id="no view"),
        pytest.param([X, None], ValueError, r"present in fit, got None for Xs\[1\]", id="absent view"),
        pytest.param([X, Y[:9]], ValueError, r"same number of samples .*, got 10 and 9 \(Xs\[1\]\)", id="samples"),
        pytest.param([X, X[0]], ValueError, r"Expected Xs\[1\] to have 2 dimensions, got 1", id="one dimension"),
        pytest.param([X, X[:, :0]], ValueError, r"Expected Xs\[1\] to have at least one feature", id="no feature"),
        pytest.param([X[:0], Y[:0]], ValueError, "Expected at least one sample", id="no sample"),
        pytest.param([X, scipy.sparse.eye_array(10)], TypeError, r"Xs\[1\] to be a dense array", id="sparse"),
        pytest.param([X, Y.astype(complex)], TypeError, r"Xs\[1\] to hold real numbers", id="complex"),
        pytest.param([X, Y.astype(object)], TypeError, r"Xs\[1\] to hold real numbers", id="objects"),
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
    with pytest.raises(ValueError, match="got NaN or infinity in sample 77"):
        make(update=update).fit(Xs)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, Xs: m.transform(Xs[:1]), "Expected 2 views in Xs, one for each dictionary .*, got 1"),
        (lambda m, Xs: m.transform([*Xs, Xs[0]]), "Expected 2 views in Xs.*, got 3"),
        (lambda m, Xs: m.transform([None, None]), "Expected at least one view in Xs, got only None"),
        (lambda m, Xs: m.transform(Xs[::-1]), r"Expected Xs\[0\] to have 6 features, as its dictionary has, got 9"),
        (lambda m, Xs: m.score([Xs[0], Xs[1][:5]]), r"same number of samples in every view, got 300 and 5"),
        (
            lambda m, Xs: m.inverse_transform(np.ones((3, 11))),
            r"Expected codes of shape \(n_samples, 12\), got \(3, 11",
        ),
        (lambda m, Xs: m.predict(Xs, view=2), "Expected view to be the number of one of the 2 views, got 2"),
        (lambda m, Xs: m.predict(Xs, view=-3), "one of the 2 views, got -3"),
        (lambda m, Xs: m.predict(Xs, view=True), "one of the 2 views, got True"),
        (lambda m, Xs: m.predict(Xs, view="1"), "one of the 2 views, got '1'"),
        (lambda m, Xs: m.predict([None, Xs[1]], view=1), r"other than the wanted one \(1\) in Xs, got none"),
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
    history = make(n_nonzero_coefs=4, schedule="linear").fit(Xs).history_
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
        learner = make(4, n_nonzero_coefs=1, max_iter=n_iter, growth=lambda k, n_iter, n: 20, refit=False)
        try:
            learner.fit([X])
        except ValueError as error:
            return f"NaN or infinity in sample {row}." in str(error)
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
    first, second = start_of(make(25, init="dct"), [rng.standard_normal((9, p)) for p in (16, 9)], monkeypatch)
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
        ((0, 4), 4, ValueError, "patch_shape"),
        (16, 4, TypeError, "patch_shape"),
    ],
)
def test_cosines_of_no_shape(shape, n_components, kind, words):
    with pytest.raises(kind, match=words):
        dct_dictionary(shape, n_components)


def test_samples_start_with_pairs(Xs, monkeypatch):
    start = start_of(make(init="samples"), Xs, monkeypatch)
    rows = [[int(np.argmax(X @ d / norms(X))) for d in D] for X, D in zip(Xs, start, strict=True)]
    assert rows[0] == rows[1], "the same sample in both views"
    assert len(set(rows[0])) == 12, "each sample once"
    for X, D in zip(Xs, start, strict=True):
        np.testing.assert_allclose(D, X[rows[0]] / norms(X[rows[0]])[:, None])


def test_samples_that_are_zero_are_no_atoms(Xs, monkeypatch):
    Xs[0][::2] = 0
    Xs[1][1::4] = 0
    for D in start_of(make(init="samples"), Xs, monkeypatch):
        np.testing.assert_allclose(norms(D), 1)


def test_random_start(Xs, monkeypatch):
    one, same, other = (
        start_of(make(init="random", random_state=seed), Xs, monkeypatch)[1] for seed in (np.int64(3), 3, 4)
    )
    np.testing.assert_array_equal(one, same)
    assert np.abs(one @ other.T).max() < 0.999
    np.testing.assert_allclose(norms(one), 1)


def test_given_start_is_normalised_and_left_alone(rng, Xs, monkeypatch):
    given = [7 * rng.standard_normal((12, 6)), rng.standard_normal((12, 9)).astype(np.float32)]
    before = [D.copy() for D in given]
    learner = make(init=given)
    for D, E in zip(start_of(learner, Xs, monkeypatch), given, strict=True):
        np.testing.assert_allclose(D, E / norms(E.astype(float))[:, None])
    learner.fit(Xs)
    for D, E in zip(given, before, strict=True):
        np.testing.assert_array_equal(D, E)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("n", [1, 5])
def test_fewer_samples_than_atoms(rng, update, n):
    Xs, _ = planted_views(rng, n=n)
    learner = make(update=update).fit(Xs)
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


def test_balanced_weights_undo_the_scale_of_a_view(Xs):
    one = make(view_weights="balanced", normalize="joint").fit(Xs)
    other = make(view_weights="balanced", normalize="joint").fit([Xs[0], 8 * Xs[1]])
    np.testing.assert_allclose(other.components_[0], one.components_[0], atol=1e-9)
    np.testing.assert_allclose(other.components_[1], 8 * one.components_[1], atol=1e-9)


# The constant atom


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("normalize", ["views", "joint"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_atom_comes_first_and_stays(rng, update, normalize, dtype):
    Xs = [(X + 3).astype(dtype) for X in planted_views(rng)[0]]
    first, second = make(update=update, normalize=normalize, constant_atom=True, refit=False).fit(Xs).components_
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
    for D in make(init=start, constant_atom=True).fit(Xs).components_:
        np.testing.assert_allclose(D[0], 1 / np.sqrt(D.shape[1]))


# Unused atoms


def with_idle_atoms(rng, n_idle=2):
    """Samples that leave the last feature of every view alone, and a start with atoms that have nothing else."""
    Xs = [np.hstack([X, np.zeros((len(X), 1))]) for X in planted_views(rng, noise=0.3)[0]]
    start = [rng.standard_normal((8, X.shape[1])) for X in Xs]
    for D in start:
        D[:, -1] = 0
        D[3 : 3 + n_idle] = np.eye(D.shape[1])[-1]
    return Xs, start


def follow(learner, Xs):
    """Return the dictionaries after each iteration."""
    seen = []
    learner.set_params(callback=lambda state: seen.append(state.components)).fit(Xs)
    return seen


@pytest.mark.parametrize("update", UPDATES)
def test_keep_leaves_unused_atoms(rng, update):
    Xs, start = with_idle_atoms(rng)
    learner = make(8, init=start, unused_atoms="keep", update=update, growth=None).fit(Xs)
    for D in learner.components_:
        np.testing.assert_array_equal(D[3:5], np.eye(D.shape[1])[[-1, -1]])
    assert [record["unused"] for record in learner.history_] == [2] * 4


@pytest.mark.parametrize("update", UPDATES)
def test_worst_puts_the_worst_represented_samples_in_their_place(rng, update):
    Xs, start = with_idle_atoms(rng)
    codes = sparse_encode(Xs, [D / norms(D)[:, None] for D in start], n_nonzero_coefs=2)
    left = sum(np.sum((X - codes @ (D / norms(D)[:, None])) ** 2, axis=1) for X, D in zip(Xs, start, strict=True))
    worst = np.argsort(-left)[:2]
    learner = make(8, init=start, unused_atoms="worst", update=update, growth=None, schedule="constant", max_iter=3)
    after = follow(learner, Xs)
    for D, X in zip(after[0], Xs, strict=True):
        np.testing.assert_allclose(D[3:5], X[worst] / norms(X[worst])[:, None], atol=1e-12)
    assert learner.history_[0]["unused"] == 2


def test_a_sample_that_one_view_does_not_have_is_no_atom(rng):
    Xs, start = with_idle_atoms(rng)
    Xs[0][:5] *= 50
    Xs[1][:5] = 0
    (first, second), *_ = follow(make(8, init=start, unused_atoms="worst", growth=None), Xs)
    np.testing.assert_allclose(norms(first), 1)
    np.testing.assert_allclose(norms(second), 1)


def test_worst_finds_the_samples_of_a_shuffled_pass(rng):
    Xs, start = with_idle_atoms(rng)
    after = follow(make(8, init=start, unused_atoms="worst", growth=lambda k, n_iter, n: 100), Xs)
    units = [X / norms(X)[:, None] for X in Xs]
    rows = [[int(np.argmax(U @ d)) for d in D[3:5]] for U, D in zip(units, after[0], strict=True)]
    assert rows[0] == rows[1]
    for D, U in zip(after[0], units, strict=True):
        np.testing.assert_allclose(D[3:5], U[rows[0]], atol=1e-12)


def test_late_waits_for_the_second_half_and_spares_the_last_iteration(rng):
    Xs, start = with_idle_atoms(rng, n_idle=1)
    after = follow(make(8, init=start, unused_atoms="late", growth=None, max_iter=6), Xs)
    idle = [bool(Ds[0][3, -1] == 1) for Ds in after]
    assert idle == [True, True, True, False, False, False]
    for rule in ("late", "worst"):
        learner = make(8, init=start, unused_atoms=rule, growth=None, max_iter=1).fit(Xs)
        assert learner.components_[0][3, -1] == 1, "an atom that no code was ever made with does not leave the fit"


def test_the_rule_of_the_letter_makes_unused_atoms_equal(rng):
    """Patches that are nearly constant use only the constant atom; all others become the mean residual."""
    Xs = [5 + rng.standard_normal((50, 4)) * [0.1, 0.2, 0.3, 0.4] for _ in range(2)]
    learner = CoupledDictionaryLearning(9, n_nonzero_coefs=2, max_iter=2, **LETTER)
    after = follow(learner, Xs)
    assert learner.history_[0]["unused"] == 8
    # Eq. 14 and 15 for the one atom in use, by hand.
    code = sum(X.sum(axis=1) / 2 for X in Xs) / 2
    atoms = [code @ X / np.linalg.norm(code @ X) for X in Xs]
    code = sum(X @ d for X, d in zip(Xs, atoms, strict=True)) / 2
    for X, d, D in zip(Xs, atoms, after[0], strict=True):
        np.testing.assert_allclose(D[0], d)
        mean = (X - np.outer(code, d)).mean(axis=0)
        for atom in D[1:]:
            np.testing.assert_allclose(atom, mean / np.linalg.norm(mean), rtol=1e-8)


@pytest.mark.parametrize("update", ["sequential", "ksvd"])
def test_a_mean_residual_of_zero_is_no_atom(Xs, update):
    learner = make(update=update, unused_atoms="mean", refit=False).fit([np.zeros_like(X) for X in Xs])
    for D in learner.components_:
        np.testing.assert_allclose(norms(D), 1)


# When learning ends


def test_stop_tol_stops_when_the_objective_settles(Xs):
    learner = make(max_iter=50, stop_tol=0.03, growth=None, schedule="constant").fit(Xs)
    objectives = np.array([record["objective"] for record in learner.history_])
    falls = 1 - objectives[1:] / objectives[:-1]
    assert 2 < learner.n_iter_ < 50
    assert falls[-1] <= 0.03 < falls[:-1].min()
    assert make(max_iter=50, growth=None, schedule="constant").fit(Xs).n_iter_ == 50


def test_stop_tol_waits_for_the_full_limit(Xs):
    learner = make(n_nonzero_coefs=3, max_iter=6, stop_tol=0.99, growth=None, schedule=[1, 1, 2, 2, 3, 3]).fit(Xs)
    assert learner.n_iter_ == 6


def test_stop_tol_is_not_ignored_with_the_default_growth(Xs):
    assert make(max_iter=30, stop_tol=0.9, schedule="constant").fit(Xs).n_iter_ < 30


def test_stop_tol_does_not_take_other_samples_for_a_settled_objective(rng):
    """Passes over growing samples see other samples each time; their errors differ by more than a small stop_tol."""
    Xs = [rng.standard_normal((4000, 16))]
    whole, stopped = (make(64, n_nonzero_coefs=3, max_iter=30, stop_tol=tol).fit(Xs).score(Xs) for tol in (0, 1e-4))
    assert 1 - stopped < 1.03 * (1 - whole)


@pytest.mark.parametrize("coupling", ["code", "support"])
def test_warm_start_goes_on(Xs, coupling):
    learner = make(max_iter=2, coupling=coupling, growth=None, schedule="constant", warm_start=True).fit(Xs)
    middle = energies(Xs, learner.components_, learner.transform(Xs)).sum()
    learner.fit(Xs)
    assert learner.history_[0]["objective"] == pytest.approx(middle, rel=1e-10)
    assert energies(Xs, learner.components_, learner.transform(Xs)).sum() < middle
    assert learner.n_iter_ == 2, "the history is that of the last fit"


def test_warm_start_needs_the_same_shapes(Xs):
    learner = make(warm_start=True).fit(Xs)
    with pytest.raises(ValueError, match=r"12 atoms to go on from the dictionaries that were learned, got .* and 13"):
        learner.set_params(n_components=13).fit(Xs)


def test_without_warm_start_fit_forgets(Xs):
    learner = make().fit([2 * X[::-1] + 1 for X in Xs])
    assert_same_model(learner.fit(Xs), make().fit(Xs))


@pytest.mark.parametrize("n_views", [1, 2])
def test_callback_sees_the_state_and_may_stop(Xs, n_views):
    seen = []

    def callback(state):
        seen.append(state)
        return state.iteration == 3

    learner = make(max_iter=9, callback=callback).fit(Xs[:n_views])
    assert [(state.iteration, state.n_iter, len(state.history)) for state in seen] == [(1, 9, 1), (2, 9, 2), (3, 9, 3)]
    assert learner.n_iter_ == 3
    assert learner.history_ == seen[-1].history
    for D, E, F in zip(learner.components_, seen[-1].components, seen[0].components, strict=True):
        np.testing.assert_array_equal(D, E)
        assert np.abs(D - F).max() > 1e-3, "what a callback keeps does not change any more"


@pytest.mark.parametrize("n_views", [1, 2])
def test_callback_cannot_spoil_the_atoms(Xs, n_views):
    def callback(state):
        for D in state.components:
            D[:] = 0

    assert_same_model(make(callback=callback).fit(Xs[:n_views]), make().fit(Xs[:n_views]))


def test_verbose_tells_each_iteration(Xs, capsys):
    make(verbose=1).fit(Xs)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"CoupledDictionaryLearning {k}/4" for k in (1, 2, 3, 4)]
    make().fit(Xs)
    assert capsys.readouterr().out == ""


def fit_or_fail(learner, Xs):
    """Fit; an interrupt that goes on fails the test and not the whole run."""
    try:
        learner.fit(Xs)
    except KeyboardInterrupt:
        pytest.fail("the interrupt went on")


def fit_interrupted(learner, Xs, words):
    with pytest.warns(UserWarning, match=words) as caught:
        fit_or_fail(learner, Xs)
    assert caught[0].filename == __file__, "the warning points at the call of fit"


def test_an_interrupt_leaves_the_finished_iterations(Xs):
    def interrupt(state):
        if state.iteration == 3:
            raise KeyboardInterrupt

    learner = make(max_iter=9, callback=interrupt, schedule="constant", growth=None)
    fit_interrupted(learner, Xs, "The fit was interrupted; the model is that of iteration 3 of 9")
    assert_same_model(learner, make(max_iter=3, schedule="constant", growth=None).fit(Xs))
    assert learner.predict([Xs[0], None], view=1).shape == (300, 9)
    assert learner.n_features_in_ == [6, 9]


@pytest.mark.parametrize("update", ["statistics", "sequential"])
def test_an_interrupt_within_an_iteration_takes_it_back(Xs, monkeypatch, update):
    iterate, calls = Loop._iterate, []

    def interrupted(self, *arguments):
        outcome = iterate(self, *arguments)
        calls.append(1)
        if len(calls) == 3:  # the atoms have changed already
            raise KeyboardInterrupt
        return outcome

    parameters = {"update": update, "schedule": "constant", "growth": None}
    expected = make(max_iter=2, **parameters).fit(Xs)
    monkeypatch.setattr(Loop, "_iterate", interrupted)
    learner = make(max_iter=9, **parameters)
    fit_interrupted(learner, Xs, "iteration 2 of 9")
    assert_same_model(learner, expected)


def test_an_interrupt_of_the_refit_leaves_the_dictionaries(Xs, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    learner = make()
    with monkeypatch.context() as patch:
        patch.setattr("coupledict._predict.refit", interrupted)
        fit_interrupted(learner, Xs, "interrupted")
    assert_same_model(learner, make().fit(Xs))
    expected = learner.transform([Xs[0], None]).toarray() @ learner.components_[1]
    np.testing.assert_allclose(learner.predict([Xs[0], None], view=1), expected, atol=1e-12)
    assert learner.partial_fit(Xs).n_iter_ == 5


def test_an_interrupt_of_the_first_iteration_is_an_interrupt(Xs, monkeypatch):
    def interrupted(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "_iterate", interrupted)
    learner = make()
    with pytest.raises(KeyboardInterrupt):
        learner.fit(Xs)
    assert not hasattr(learner, "components_")


# History


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("tol", [None, 0.3])
def test_history_is_what_the_codes_say(rng, update, n_views, tol):
    """Every figure again, from codes made anew with the dictionaries that the callback saw."""
    Xs, start = planted_views(rng, noise=0.3, widths=WIDTHS[:n_views])
    start = [D + 0.3 * rng.standard_normal(D.shape) for D in start]
    start = [D / norms(D)[:, None] for D in start]
    weights = np.array(WEIGHTS[:n_views])
    learner = make(n_nonzero_coefs=4, tol=tol, init=start, update=update, view_weights=weights, growth=None)
    before = [start, *follow(learner.set_params(schedule="linear"), Xs)[:-1]]
    for record, Ds in zip(learner.history_, before, strict=True):
        codes = sparse_encode(Xs, Ds, n_nonzero_coefs=record["limit"], tol=tol, view_weights=weights)
        left = energies(Xs, Ds, codes)
        assert record["objective"] == pytest.approx(weights @ left, rel=1e-10)
        assert record["error"] == pytest.approx(np.sqrt(weights @ left) / 300, rel=1e-10)
        assert record["rms"] == pytest.approx(np.sqrt(weights @ left / 300), rel=1e-10)
        assert record["view_errors"] == pytest.approx(np.sqrt(left) / 300, rel=1e-8)
        assert record["mean_nonzeros"] == codes.nnz / 300
        assert record["unused"] == np.count_nonzero(np.count_nonzero(codes.toarray(), axis=0) == 0)
        assert record["n_samples"] == 300
    assert learner.history_[0].keys() == {
        "seconds", "limit", "n_samples", "mean_nonzeros", "objective", "error", "rms", "view_errors", "unused",
    }  # fmt: skip


@pytest.mark.parametrize("update", UPDATES)
def test_an_atom_that_one_sample_uses_is_used(update):
    X = np.eye(4)[[1] + [0] * 1500]
    learner = make(4, n_nonzero_coefs=1, max_iter=1, init=[np.eye(4)], update=update, growth=None).fit([X])
    assert learner.history_[0]["unused"] == 2


def test_seconds_rise_and_leave_callbacks_out(Xs):
    learner = make(callback=lambda state: time.sleep(0.2)).fit(Xs)
    seconds = [record["seconds"] for record in learner.history_]
    assert 0 < seconds[0] < seconds[1] < seconds[2] < seconds[3] < 0.2


# The same result, however it is computed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("coupling", ["code", "support"])
def test_threads_do_not_change_a_bit(rng, update, coupling, dtype):
    Xs = [X.astype(dtype) for X in planted_views(rng, n=1600)[0]]
    models = [make(max_iter=3, update=update, coupling=coupling, n_jobs=n, unused_atoms="worst") for n in (1, 2, 3)]
    for model in models:
        model.fit(Xs)
    for model in models[1:]:
        assert_same_model(models[0], model)
        if coupling == "code":
            np.testing.assert_array_equal(*(m.predict([Xs[0], None], view=1) for m in (models[0], model)))


@pytest.mark.parametrize("update", UPDATES)
def test_seeds(Xs, update):
    one, same, other = (make(update=update, random_state=seed).fit(Xs) for seed in (5, 5, 6))
    assert_same_model(one, same)
    assert np.abs(one.components_[0] - other.components_[0]).max() > 1e-3


def test_forms_of_random_state(Xs):
    for kind in (np.random.default_rng, np.random.RandomState):
        assert_same_model(*(make(random_state=kind(1)).fit(Xs) for _ in range(2)))
    shared = np.random.default_rng(1)
    one, other = (make(random_state=shared).fit(Xs) for _ in range(2))
    assert np.abs(one.components_[0] - other.components_[0]).max() > 1e-3, "a generator goes on"
    one, other = (make(random_state=None).fit(Xs) for _ in range(2))
    assert np.abs(one.components_[0] - other.components_[0]).max() > 1e-3


def read_only(X, tmp_path):
    X.flags.writeable = False
    return X


def mapped(X, tmp_path):
    path = tmp_path / f"{X.shape[1]}.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


LAYOUTS = {
    "read-only": read_only,
    "Fortran": lambda X, _: np.asfortranarray(X),
    "mapped": mapped,
    "every other row": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X, _: X[:, ::-1].copy()[:, ::-1],
    "lists": lambda X, _: X.tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("update", UPDATES)
def test_layouts_of_memory(Xs, tmp_path, layout, update):
    expected = make(update=update).fit(Xs)
    given = [LAYOUTS[layout](X.copy(), tmp_path) for X in Xs]
    learner = make(update=update).fit(given)
    for D, E in zip(learner.components_, expected.components_, strict=True):
        np.testing.assert_array_equal(D, E)
    np.testing.assert_array_equal(learner.transform(given).toarray(), expected.transform(Xs).toarray())


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("coupling", ["code", "support"])
def test_inputs_are_never_changed(Xs, update, coupling):
    before = [X.copy() for X in Xs]
    learner = make(update=update, coupling=coupling, unused_atoms="worst").fit(Xs)
    learner.transform(Xs)
    learner.score(Xs)
    learner.partial_fit(Xs)
    for X, same in zip(Xs, before, strict=True):
        np.testing.assert_array_equal(X, same)


def test_partial_fit_goes_on_after_fit(Xs):
    learner = make().fit(Xs)
    before, kept = learner.score(Xs), learner.components_
    copies = [D.copy() for D in kept]
    learner.partial_fit(Xs)
    assert learner.score(Xs) > before
    assert learner.n_iter_ == 5
    for D, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(D, copy)


# Codes, and one view from another


def test_transform_is_sparse_encode(Xs):
    learner = make(view_weights=[1, 3], n_nonzero_coefs=3).fit(Xs)
    for given in (Xs, [Xs[0], None], [None, Xs[1]], [X[:0] for X in Xs]):
        expected = sparse_encode(given, learner.components_, n_nonzero_coefs=3, view_weights=[1, 3])
        codes = learner.transform(given)
        assert isinstance(codes, scipy.sparse.csr_array)
        np.testing.assert_array_equal(codes.toarray(), expected.toarray())
    fitted = clone(learner).fit_transform(Xs)
    np.testing.assert_array_equal(fitted.toarray(), learner.transform(Xs).toarray())


def test_inverse_transform_and_score(Xs):
    learner = make(view_weights=[1, 3]).fit(Xs)
    codes = learner.transform([Xs[0], None])
    for kind in (codes, codes.toarray(), scipy.sparse.coo_array(codes)):
        for X, D in zip(learner.inverse_transform(kind), learner.components_, strict=True):
            assert isinstance(X, np.ndarray)
            np.testing.assert_allclose(X, codes.toarray() @ D, atol=1e-12)
    left = energies(Xs[:1], learner.components_[:1], codes)[0]
    assert learner.score([Xs[0], None]) == pytest.approx(1 - left / np.sum(Xs[0] ** 2))


@pytest.fixture
def gained(rng):
    """Noisy views of very different gains, which atoms of norm 1 in every view cannot tell."""
    gains = np.array([[1.0], [0.3], [3.0]]) * rng.uniform(0.5, 1.5, (3, 12))
    Xs, start = planted_views(rng, n=900, widths=(16, 20, 14), noise=0.05, gains=gains)
    return [X[:600] for X in Xs], [X[600:] for X in Xs], start


@pytest.mark.parametrize(("given", "view"), [([0], 1), ([1], 0), ([0, 1], 2), ([0, 2], -2)])
def test_refit_predicts_better(gained, given, view):
    Xs, unseen, start = gained
    known = [X if v in given else None for v, X in enumerate(unseen)]
    errors = []
    for refit in (True, False):
        learner = make(init=start, view_weights="balanced", schedule="constant", refit=refit).fit(Xs)
        errors.append(np.mean((learner.predict(known, view=view) - unseen[view]) ** 2) / np.mean(unseen[view] ** 2))
    assert errors[0] < 0.25
    assert errors[0] < 0.5 * errors[1]


def test_refit_is_ridge_regression_on_codes_of_the_source(gained):
    Xs, unseen, _ = gained
    learner = make(max_iter=5, refit_alpha=0.01).fit(Xs)
    codes = learner.transform([Xs[0], None, None]).toarray()
    gram = codes.T @ codes
    atoms = np.linalg.solve(gram + 0.01 * np.mean(np.diag(gram)) * np.eye(12), codes.T @ Xs[2])
    expected = learner.transform([unseen[0], None, None]).toarray() @ atoms
    np.testing.assert_allclose(learner.predict([unseen[0], None, None], view=2), expected, atol=1e-10)


def test_refit_without_a_penalty(rng):
    """Atoms that no sample uses leave the regression singular; it has a solution all the same."""
    Xs, _ = planted_views(rng, n=30)
    learner = make(40, refit_alpha=0).fit(Xs)
    codes = learner.transform([Xs[0], None]).toarray()
    left = learner.predict([Xs[0], None], view=1) - Xs[1]
    np.testing.assert_allclose(codes.T @ left, 0, atol=1e-8)


def test_without_refit_the_learned_atoms_predict(gained):
    Xs, unseen, _ = gained
    learner = make(refit=False).fit(Xs)
    codes = learner.transform([unseen[0], None, unseen[2]])
    expected = codes.toarray() @ learner.components_[1]
    np.testing.assert_allclose(learner.predict([unseen[0], None, unseen[2]], view=1), expected, atol=1e-12)


def test_sources_that_no_refit_was_made_for(rng):
    """Of four views a pair of sources has the learned atoms to predict with."""
    Xs, _ = planted_views(rng, widths=(6, 5, 4, 7))
    learner = make().fit(Xs)
    given = [Xs[0], Xs[1], None, None]
    expected = learner.transform(given).toarray() @ learner.components_[3]
    np.testing.assert_allclose(learner.predict(given, view=3), expected, atol=1e-12)


def test_the_wanted_view_is_not_looked_at(Xs):
    learner = make().fit(Xs)
    expected = learner.predict([Xs[0], None], view=1)
    np.testing.assert_array_equal(learner.predict([Xs[0], np.full_like(Xs[1], np.nan)], view=1), expected)


def test_partial_fit_drops_the_refit(Xs):
    learner = make().fit(Xs).partial_fit(Xs)
    expected = learner.transform([Xs[0], None]).toarray() @ learner.components_[1]
    np.testing.assert_allclose(learner.predict([Xs[0], None], view=1), expected, atol=1e-12)


def test_coupled_supports(Xs):
    learner = make(coupling="support", n_nonzero_coefs=3).fit(Xs)
    first, second = learner.transform(Xs)
    np.testing.assert_array_equal(first.indptr, second.indptr)
    np.testing.assert_array_equal(first.indices, second.indices)
    assert np.abs(first.data - second.data).max() > 0.1
    assert np.diff(first.indptr).max() == 3
    for X, D, codes in zip(Xs, learner.components_, (first, second), strict=True):  # least squares in every view
        left = X - codes @ D
        for row in range(0, 300, 30):
            support = codes.indices[codes.indptr[row] : codes.indptr[row + 1]]
            np.testing.assert_allclose(D[support] @ left[row], 0, atol=1e-10)
    rebuilt = learner.inverse_transform([first, second])
    np.testing.assert_allclose(rebuilt[1], second.toarray() @ learner.components_[1], atol=1e-12)
    (alone,) = learner.transform([None, Xs[1]])
    assert alone.shape == (300, 12)
    with pytest.raises(ValueError, match="Expected 2 codes, one a view, got 1"):
        learner.inverse_transform([first])
    with pytest.raises(ValueError, match="views have no code in common, so none can predict another"):
        learner.predict([Xs[0], None], view=1)


# Reductions


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("coupling", ["code", "support"])
def test_one_view_in_a_list_is_the_single_view(Xs, update, coupling):
    coupled = make(update=update, coupling=coupling).fit(Xs[:1])
    single = DictionaryLearning(12, n_nonzero_coefs=2, max_iter=4, random_state=0, update=update).fit(Xs[0])
    if coupling == "support":  # another kernel, with another order of sums
        np.testing.assert_allclose(coupled.components_[0], single.components_, atol=1e-9)
        return
    np.testing.assert_array_equal(coupled.components_[0], single.components_)
    assert without_times(coupled.history_) == without_times(single.history_)
    np.testing.assert_array_equal(coupled.transform(Xs[:1]).toarray(), single.transform(Xs[0]).toarray())


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("coupling", ["code", "support"])
def test_identical_views_are_one_view(Xs, update, coupling):
    one = make(update=update, coupling=coupling).fit(Xs[:1])
    two = make(update=update, coupling=coupling).fit([Xs[0], Xs[0]])
    for D in two.components_:
        np.testing.assert_allclose(D, one.components_[0], atol=1e-9)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("normalize", ["views", "joint"])
def test_a_view_of_weight_0_is_absent(Xs, update, normalize):
    one = make(update=update, normalize=normalize).fit(Xs[:1])
    two = make(update=update, normalize=normalize, view_weights=[1, 0]).fit(Xs)
    np.testing.assert_allclose(two.components_[0], one.components_[0], atol=1e-9)
    assert np.isfinite(two.components_[1]).all()
    np.testing.assert_allclose(two.transform(Xs).toarray(), one.transform(Xs[:1]).toarray(), atol=1e-9)
    assert two.score(Xs) == pytest.approx(one.score(Xs[:1]))
    assert two.predict([Xs[0], None], view=1).shape == (300, 9)
    with pytest.raises(ValueError, match="Expected a view of positive weight"):
        two.transform([None, Xs[1]])


@pytest.mark.parametrize("n_nonzero_coefs", [2, None])
def test_a_source_of_weight_0_is_absent(rng, n_nonzero_coefs):
    Xs, _ = planted_views(rng, widths=(16, 24, 10))
    learner = make(n_nonzero_coefs=n_nonzero_coefs, view_weights=[1, 0, 1]).fit(Xs)
    expected = learner.predict([Xs[0], None, None], view=2)
    np.testing.assert_allclose(learner.predict([Xs[0], Xs[1], None], view=2), expected, atol=1e-9)


def test_a_view_of_weight_0_with_coupled_supports(Xs):
    one = make(coupling="support").fit(Xs[:1])
    two = make(coupling="support", view_weights=[1, 0]).fit(Xs)
    np.testing.assert_allclose(two.components_[0], one.components_[0], atol=1e-9)
    assert len(two.transform(Xs)) == 2, "one code for each view that is given"


@pytest.mark.parametrize("update", UPDATES)
def test_the_order_of_views_does_not_matter(Xs, update):
    there = make(update=update, view_weights=[1, 2]).fit(Xs).components_
    back = make(update=update, view_weights=[2, 1]).fit(Xs[::-1]).components_
    for D, E in zip(there, back[::-1], strict=True):
        np.testing.assert_allclose(D, E, atol=1e-9)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_scale_does_not_matter(Xs, update, dtype, scale):
    one = make(update=update).fit([X.astype(dtype) for X in Xs])
    other = make(update=update).fit([(scale * X).astype(dtype) for X in Xs])
    for D, E in zip(one.components_, other.components_, strict=True):
        np.testing.assert_array_equal(D, E)
    assert [r["error"] * scale for r in one.history_] == pytest.approx([r["error"] for r in other.history_], rel=1e-6)


@pytest.mark.parametrize("update", UPDATES)
def test_the_order_of_samples_does_not_matter(rng, Xs, update):
    parameters = {"update": update, "growth": None, "init": [rng.standard_normal((12, X.shape[1])) for X in Xs]}
    order = rng.permutation(300)
    one = make(**parameters).fit(Xs).components_
    other = make(**parameters).fit([X[order] for X in Xs]).components_
    for D, E in zip(one, other, strict=True):
        np.testing.assert_allclose(D, E, atol=1e-9)
