"""OnlineDictionaryLearning: batches one after the other, memory that does not grow, data that change."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.decomposition import sparse_encode as l1_encode

from coupledict import CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning
from support.learners import shrunk

LASSO = {"n_nonzero_coefs": None, "pursuit": "lasso", "alpha": 0.8}


def dictionaries(rng, n_components=12, widths=(8, 10)):
    Ds = [rng.standard_normal((n_components, p)) for p in widths]
    return [D / np.linalg.norm(D, axis=1, keepdims=True) for D in Ds]


def draw(rng, Ds, n, n_nonzero=2, noise=0.02):
    """Samples that are sparse over dictionaries of several views."""
    codes = np.zeros((n, Ds[0].shape[0]))
    for code in codes:
        chosen = rng.choice(code.size, n_nonzero, replace=False)
        code[chosen] = rng.choice([-1, 1], n_nonzero) * rng.uniform(1, 2, n_nonzero)
    return [codes @ D + noise * rng.standard_normal((n, D.shape[1])) for D in Ds]


@pytest.fixture
def batches(rng):
    Ds = dictionaries(rng)
    return [draw(rng, Ds, 60) for _ in range(12)]


def make(n_components=12, **parameters):
    return OnlineDictionaryLearning(n_components, **({"n_nonzero_coefs": 2, "random_state": 0} | parameters))


def learn(learner, batches):
    for batch in batches:
        learner.partial_fit(batch)
    return learner


def assert_same_components(one, other):
    for D, E in zip(one.components_, other.components_, strict=True):
        np.testing.assert_array_equal(D, E)


# Learning


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("parameters", [{}, {"normalize": "views"}, {"coupling": "support"}], ids=str)
def test_batches_teach(rng, n_views, parameters):
    Ds = dictionaries(rng, widths=(8, 10, 6)[:n_views])
    batches, unseen = [draw(rng, Ds, 60) for _ in range(30)], draw(rng, Ds, 100)
    learner = make(**parameters)
    first = learner.partial_fit(batches[0]).score(unseen)
    assert learn(learner, batches[1:]).score(unseen) > first + 0.05
    assert learner.n_iter_ == len(learner.history_) == 30
    assert learner.n_features_in_ == [D.shape[1] for D in Ds]
    squares = np.array([np.sum(D**2, axis=1) for D in learner.components_])
    for size in squares if parameters else [squares.sum(axis=0)]:
        np.testing.assert_allclose(size, 1, rtol=1e-12)


def test_fit_draws_batches(rng):
    Xs = draw(rng, dictionaries(rng), 1000)
    learner = make(batch_size=100, max_iter=4).fit(Xs)
    assert [record["n_samples"] for record in learner.history_] == [100] * 40
    assert learner.score(Xs) > make(batch_size=500, max_iter=1).fit(Xs).score(Xs) + 0.1
    predicted = learner.predict([Xs[0], None], view=1)
    learned = learner.transform([Xs[0], None]) @ learner.components_[1]
    assert np.sum((predicted - Xs[1]) ** 2) < np.sum((learned - Xs[1]) ** 2), "fit refits, too"


def test_every_sample_is_drawn_before_one_comes_again(rng):
    """A NaN is met within one round of batches, wherever it is."""
    X = rng.standard_normal((30, 4))
    for row in range(30):
        with_nan = X.copy()
        with_nan[row, 2] = np.nan
        with pytest.raises(ValueError, match=f"got NaN in sample {row}"):
            make(5, n_nonzero_coefs=1, batch_size=10, max_iter=3, predictor="dictionary").fit([with_nan])


def test_a_batch_larger_than_the_data_is_all_of_it(rng):
    Xs = draw(rng, dictionaries(rng), 50)
    assert [record["n_samples"] for record in make(max_iter=3).fit(Xs).history_] == [50] * 3


def test_fit_forgets_what_was_before(rng, batches):
    Xs = draw(rng, dictionaries(rng), 300)
    once = make(max_iter=5).fit(Xs)
    again = learn(make(max_iter=5), batches).fit(Xs)
    assert_same_components(once, again)
    assert again.n_iter_ == 10, "five passes of a batch of 256 and one of 44"


def test_partial_fit_goes_on_after_fit(rng):
    Xs = draw(rng, dictionaries(rng), 300)
    learner = make(max_iter=5).fit(Xs)
    before = learner.score(Xs)
    assert learner.partial_fit(Xs).score(Xs) > before
    assert learner.n_iter_ == 11


def test_first_batch_by_hand(rng):
    """One sweep over the sums of the first batch (Mairal et al., algorithm 2), from a start that is given."""
    (X,) = draw(rng, dictionaries(rng, widths=(8,)), 60)
    (D,) = dictionaries(rng, widths=(8,))
    learner = make(init=[D]).partial_fit([X])
    codes = CoupledDictionaryLearning.transform(fitted_with(D), [X]).toarray()
    A, B = codes.T @ codes, codes.T @ X
    for t in np.flatnonzero(np.diag(A)):
        atom = B[t] - A[t] @ D + A[t, t] * D[t]
        D[t] = atom / np.linalg.norm(atom)
    np.testing.assert_allclose(learner.components_[0], D, atol=1e-12)


def fitted_with(D):
    learner = make()
    learner.components_, learner.view_weights_ = [D.copy()], np.ones(1)
    return learner


@pytest.mark.parametrize("parameters", [{}, {"coupling": "support"}, LASSO | {"alpha": 4.0}], ids=str)
def test_history_is_what_the_codes_say(batches, parameters):
    weights = np.array([0.5, 2.0])
    learner = make(view_weights=weights, **parameters).partial_fit(batches[0])
    for batch in batches[1:4]:
        codes = learner.transform(batch)
        codes = codes if isinstance(codes, list) else [codes] * 2
        parts = zip(batch, codes, learner.components_, strict=True)
        left = weights @ [np.sum((X - C.toarray() @ D) ** 2) for X, C, D in parts]
        record = learner.partial_fit(batch).history_[-1]
        penalty = 2 * parameters.get("alpha", 0) * np.abs(codes[0].data).sum()
        assert record["objective"] == pytest.approx(left + penalty, rel=1e-10)
        assert record["error"] == pytest.approx(np.sqrt(left) / 60, rel=1e-10)
        assert record["mean_nonzeros"] == codes[0].nnz / 60
        assert record["unused"] == 12 - np.unique(codes[0].indices).size


@pytest.mark.parametrize("parameters", [{}, LASSO], ids=str)
def test_sums_fade(rng, parameters):
    """After two batches the sums are a quarter of the first, times what forgetting leaves, plus the second.

    Those of the lasso fade sooner: less than a hundredth of the first is left.
    """
    Ds = dictionaries(rng)
    first, second = draw(rng, Ds, 60), draw(rng, Ds, 60)
    for forgetting in (0.0, 0.4):
        learner = make(forgetting=forgetting, **parameters).partial_fit(first)
        old = copy.deepcopy(learner._running.sums[0])
        codes = learner.transform(second).toarray()
        sums = learner.partial_fit(second)._running.sums[0]
        keep = (0.5**8 if parameters else 0.25) * (1 - forgetting)
        np.testing.assert_allclose(sums.a, keep * old.a + codes.T @ codes, atol=1e-9)
        np.testing.assert_allclose(sums.b, keep * old.b + codes.T @ np.hstack(second), atol=1e-9)


def test_memory_does_not_grow(batches):
    """All that is kept beside one record of the history a batch has the same size after 2 and after 12 batches."""

    def size(learner):
        return len(pickle.dumps({k: v for k, v in vars(learner).items() if k != "history_"}))

    learner = learn(make(), batches[:2])
    before = size(learner)
    learn(learner, batches[2:])
    assert abs(size(learner) - before) < 16
    (sums,) = learner._running.sums
    assert sums.a.shape == (12, 12)
    assert sums.b.shape == (12, 18)


def test_forgetting_follows_data_that_change(rng):
    scores = []
    for _ in range(5):  # one run may be lucky or not
        old, new = dictionaries(rng), dictionaries(rng)
        batches = [draw(rng, old, 60) for _ in range(40)] + [draw(rng, new, 60) for _ in range(15)]
        unseen = draw(rng, new, 200)
        forgetful, faithful = (learn(make(forgetting=f), batches).score(unseen) for f in (0.3, 0.0))
        scores.append([forgetful, faithful, learn(make(), batches[40:]).score(unseen)])
        assert faithful < scores[-1][2] - 0.15
    forgetful, _, fresh = np.mean(scores, axis=0)
    assert forgetful > fresh - 0.1


# The same result, however it comes about


def test_same_seed_same_bits(rng, batches):
    Xs = draw(rng, dictionaries(rng), 700)
    models = [make(n_jobs=n, max_iter=6, batch_size=650).fit(Xs) for n in (1, 1, 2, 3)]
    for model in models[1:]:
        assert_same_components(models[0], model)
    assert_same_components(learn(make(), batches), learn(make(), batches))
    other = make(random_state=1, max_iter=6).fit(Xs)
    assert np.abs(other.components_[0] - models[0].components_[0]).max() > 1e-3


@pytest.mark.parametrize("parameters", [{}, LASSO], ids=str)
def test_resuming_after_pickle_is_going_on(batches, parameters):
    straight = learn(make(forgetting=0.1, **parameters), batches[:6])
    rested = pickle.loads(pickle.dumps(learn(make(forgetting=0.1, **parameters), batches[:3])))
    learn(rested, batches[3:6])
    assert_same_components(rested, straight)
    assert rested.n_iter_ == straight.n_iter_


def test_one_view_is_partial_fit_of_the_single_view(batches):
    single = DictionaryLearning(12, n_nonzero_coefs=2, random_state=0)
    for first, _ in batches:
        single.partial_fit(first)
    online = learn(make(), [batch[:1] for batch in batches])
    np.testing.assert_array_equal(online.components_[0], single.components_)


def test_a_view_of_weight_0_is_absent(batches):
    one = learn(make(), [batch[:1] for batch in batches])
    two = learn(make(view_weights=[1, 0]), batches)
    np.testing.assert_allclose(two.components_[0], one.components_[0], atol=1e-9)


def test_batches_are_never_changed(batches):
    before = copy.deepcopy(batches)
    learn(make(), batches)
    for batch, same in zip(batches, before, strict=True):
        for X, Y in zip(batch, same, strict=True):
            np.testing.assert_array_equal(X, Y)


def test_number_types(batches):
    assert [D.dtype for D in learn(make(), batches).components_] == [np.float64] * 2
    small = [[X.astype(np.float32) for X in batch] for batch in batches]
    learner = learn(make(), small)
    assert [D.dtype for D in learner.components_] == [np.float32] * 2
    assert learner.transform(small[0]).dtype == np.float32


def test_constant_atom_stays(batches):
    learner = learn(make(constant_atom=True), [[X + 2 for X in batch] for batch in batches])
    for D in learner.components_:
        assert D[0].min() == D[0].max() > 0


# The l1 coder


def lasso(**parameters):
    return make(**(LASSO | parameters))


@pytest.mark.parametrize("weights", [None, [0.5, 2.0]])
def test_lasso_codes_are_those_of_scikit_learn(batches, weights):
    learner = learn(lasso(view_weights=weights), batches)
    scales = np.sqrt(np.ones(2) if weights is None else weights)
    for given in ([0, 1], [0], [1]):
        X = np.hstack([batches[0][v] * scales[v] for v in given])
        D = np.hstack([learner.components_[v] * scales[v] for v in given])
        codes = learner.transform([batches[0][v] if v in given else None for v in range(2)])
        assert isinstance(codes, csr_array)
        np.testing.assert_allclose(codes.toarray(), l1_encode(X, D, algorithm="lasso_lars", alpha=0.8), atol=1e-10)
        # What makes a code a minimum: correlations with the residual are alpha where it is used, and less elsewhere.
        slopes = (X - codes.toarray() @ D) @ D.T
        assert np.abs(slopes).max() < 0.8 + 1e-9
        used = codes.toarray() != 0
        np.testing.assert_allclose(slopes[used], 0.8 * np.sign(codes.toarray()[used]), atol=1e-3)


def test_lasso_learns_and_scores(rng):
    Xs = draw(rng, dictionaries(rng), 300)
    learner = lasso(batch_size=100, max_iter=5, predictor="dictionary").fit(Xs)
    rebuilt = learner.inverse_transform(learner.transform(Xs))
    left = sum(np.sum((X - Y) ** 2) for X, Y in zip(Xs, rebuilt, strict=True))
    assert learner.score(Xs) == pytest.approx(1 - left / sum(np.sum(X**2) for X in Xs))
    assert learner.score(Xs) > lasso(batch_size=300, max_iter=1).fit(Xs).score(Xs)
    assert learner.history_[-1]["objective"] < learner.history_[0]["objective"]
    expected = learner.transform([Xs[0], None]) @ shrunk(learner.components_, [0], 1)
    np.testing.assert_allclose(learner.predict([Xs[0], None], view=1), expected)


# Arguments


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("parameters", "kind", "words"),
    [
        ({"batch_size": 0}, ValueError, "Expected batch_size to be at least 1, got 0"),
        ({"batch_size": 2.5}, TypeError, "Expected batch_size to be an integer"),
        ({"forgetting": 1}, ValueError, "Expected forgetting to be .* below 1, got 1"),
        ({"forgetting": -0.1}, ValueError, "Expected forgetting to be .* at least 0 .*, got -0.1"),
        ({"alpha": 0.1}, ValueError, "alpha is the penalty of pursuit='lasso'; it has no meaning for 'omp'"),
        ({"pursuit": "lars"}, ValueError, "Expected pursuit to be .*, got 'lars'"),
        ({"coupling": "support", "pursuit": "ols"}, ValueError, "pursuit='ols' is not offered with it"),
        ({"pursuit": "lasso"}, ValueError, "Expected a positive alpha with pursuit='lasso', got None"),
        ({"pursuit": "lasso", "alpha": 0}, ValueError, "Expected a positive alpha with pursuit='lasso', got 0"),
        (LASSO | {"n_nonzero_coefs": 2}, ValueError, "n_nonzero_coefs and tol have no meaning with pursuit='lasso'"),
        (LASSO | {"tol": 0.1}, ValueError, "n_nonzero_coefs and tol have no meaning with pursuit='lasso'"),
        (LASSO | {"coupling": "support"}, ValueError, "coupling='support' is not offered with it"),
        (LASSO | {"normalize": "atoms"}, ValueError, "Expected normalize to be one of .*, got 'atoms'"),
        (LASSO | {"coupling": "loose"}, ValueError, "Expected coupling to be one of .*, got 'loose'"),
        (LASSO | {"n_components": 0}, ValueError, "Expected n_components to be at least 1, got 0"),
        ({"ridge_alpha": -1}, ValueError, "Expected ridge_alpha to be a number from 0 to .*, got -1"),
    ],
)
def test_bad_parameters_are_told_before_any_work(batches, parameters, kind, words, method):
    learner = make(max_iter=2).set_params(**parameters)
    with pytest.raises(kind, match=words):
        getattr(learner, method)(batches[0])
    assert not hasattr(learner, "components_")


def test_max_iter_is_checked_by_fit(batches):
    with pytest.raises(ValueError, match="Expected max_iter to be at least 1, got 0"):
        make(max_iter=0).fit(batches[0])


def test_bad_batches(batches):
    learner = learn(make(), batches[:2])
    kept = copy.deepcopy(learner.components_)
    bad = [[X.copy() for X in batches[2]] for _ in range(2)]
    bad[1][0][5, 0] = np.inf
    for batch, words in (
        (batches[2][:1], "Expected views of"),
        ([X[:0] for X in batches[2]], "Expected at least one sample"),
        (bad[1], r"got infinity in X\[0\], sample 5"),
    ):
        with pytest.raises(ValueError, match=words):
            learner.partial_fit(batch)
    for D, E in zip(learner.components_, kept, strict=True):
        np.testing.assert_array_equal(D, E)
    assert_same_components(learn(learner, batches[2:4]), learn(make(), batches[:4]))


def test_fit_names_the_sample_and_not_its_place_in_a_batch(rng):
    Xs = draw(rng, dictionaries(rng), 200)
    Xs[1][177, 2] = np.nan
    learner = make(batch_size=50, max_iter=4)
    with pytest.raises(ValueError, match=r"got NaN in X\[1\], sample 177"):
        learner.fit(Xs)
    assert not hasattr(learner, "components_"), "a fit that failed is no fit"


def test_a_bad_first_batch_leaves_no_model(batches):
    batches[0][1][7, 2] = np.nan
    learner = make()
    with pytest.raises(ValueError, match="sample 7"):
        learner.partial_fit(batches[0])
    assert not hasattr(learner, "components_")


def fit_or_fail(learner, Xs):
    """Fit; an interrupt that goes on fails the test and not the whole run."""
    try:
        learner.fit(Xs)
    except KeyboardInterrupt:
        pytest.fail("the interrupt went on")


def test_an_interrupt_leaves_the_finished_batches(rng):
    def interrupt(progress):
        if progress.completed == 3:
            raise KeyboardInterrupt

    Xs = draw(rng, dictionaries(rng), 200)
    expected = make(batch_size=50, predictor="dictionary", callback=lambda progress: progress.completed == 3).fit(Xs)
    learner = make(batch_size=50, max_iter=9, predictor="dictionary", callback=interrupt)
    with pytest.warns(UserWarning, match="interrupted"):
        fit_or_fail(learner, Xs)
    assert learner.n_iter_ == 3
    assert_same_components(learner, expected)
    assert learner.set_params(callback=None).partial_fit(Xs).n_iter_ == 4


def test_clone_knows_all_parameters():
    learner = lasso(forgetting=0.2, batch_size=7)
    assert clone(learner).get_params() == learner.get_params()
