"""What CoupledDictionaryLearning promises: dictionaries that belong together, and views told from each other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from coupledict import DictionaryLearning, PredictionWarning, sparse_encode
from support.learners import (
    UPDATES,
    WEIGHTS,
    WIDTHS,
    energies,
    joint_norms,
    make,
    norms,
    planted_views,
    rounding,
    shrunk,
    without_times,
)


@pytest.fixture
def Xs(rng):
    return planted_views(rng)[0]


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
    Xs = [rng.standard_normal((4 * expected, width)), rng.standard_normal((4 * expected, 2))]
    assert make(None, max_iter=1, predictor="dictionary").fit(Xs).components_[0].shape == (expected, width)


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("normalize", ["views", "joint"])
def test_atoms_have_norm_1(rng, update, normalize, n_views):
    Xs, _ = planted_views(rng, widths=WIDTHS[:n_views])
    weights = WEIGHTS[:n_views]
    learner = make(update=update, normalize=normalize, view_weights=weights, predictor="dictionary").fit(Xs)
    squares = np.array([norms(D) ** 2 for D in learner.components_])
    sizes = squares if normalize == "views" else [np.array(weights) / max(weights) @ squares]
    for size in sizes:
        np.testing.assert_allclose(size, 1, rtol=1e-12)


@pytest.mark.parametrize("weights", [None, "balanced", WEIGHTS[:2]])
def test_norms_are_joint_unless_told_otherwise(Xs, weights):
    Xs[1] *= 30 if weights == "balanced" else 1
    learner = make(view_weights=weights).fit(Xs)
    assert learner.normalize == "joint"
    unit = 1.0 if weights == "balanced" else learner.view_weights_.max()
    np.testing.assert_allclose(joint_norms(learner.components_, learner.view_weights_ / unit), 1, rtol=1e-12)
    assert all(np.ptp(norms(D)) > 1e-3 for D in learner.components_), "the gains of the views are learned"


@pytest.mark.parametrize("update", UPDATES)
def test_views_with_coefficients_of_their_own_have_norms_of_their_own(Xs, update):
    """With coupling="support", joint norms are norms in each view, whatever the weights."""
    settings = {"update": update, "coupling": "support", "view_weights": [3.0, 0.25]}
    joint, views = (make(normalize=kind, **settings).fit(Xs) for kind in ("joint", "views"))
    for D, E in zip(joint.components_, views.components_, strict=True):
        np.testing.assert_array_equal(D, E)
        np.testing.assert_allclose(norms(D), 1, rtol=1e-12)
    assert without_times(joint.history_) == without_times(views.history_)
    batches = [make(normalize=kind, **settings).fit(Xs).partial_fit(Xs).components_ for kind in ("joint", "views")]
    for D, E in zip(*batches, strict=True):
        np.testing.assert_array_equal(D, E)


@pytest.mark.parametrize("update", UPDATES)
def test_the_gains_of_the_views_are_learned(rng, update):
    """Views whose atoms have gains of their own: norm 1 in each view cannot tell, joint norms can."""
    gains = np.array([np.ones(12), rng.uniform(0.1, 2, 12)])
    Xs, start = planted_views(rng, n=900, widths=(16, 20), noise=0, gains=gains)
    settings = {"init": start, "update": update, "schedule": "constant", "growth": None, "max_iter": 20}
    joint, views = (make(normalize=kind, **settings).fit(Xs) for kind in ("joint", "views"))
    assert joint.score(Xs) > 0.9999
    assert views.score(Xs) < 0.95
    first, second = (norms(D) for D in joint.components_)
    np.testing.assert_allclose(second / first, gains[1], rtol=0.05)


@pytest.mark.parametrize("update", UPDATES)
def test_atoms_of_one_number_are_partners(rng, update):
    """Planted atoms are found in all views under the same number, and with the same sign."""
    Xs, Ds = planted_views(rng, n=1200, n_components=24, widths=(12, 16), n_nonzero=3)
    learner = make(24, n_nonzero_coefs=3, max_iter=20, update=update, predictor="dictionary").fit(Xs)
    units = [D / norms(D)[:, None] for D in learner.components_]
    first, second = (D @ planted.T for D, planted in zip(units, Ds, strict=True))
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


@pytest.mark.parametrize("normalize", ["views", "joint"])
@pytest.mark.parametrize(("given", "view"), [([0], 1), ([1], 0), ([0, 1], 2), ([0, 2], -2)])
def test_refit_predicts_better(gained, given, view, normalize):
    Xs, unseen, start = gained
    known = [X if v in given else None for v, X in enumerate(unseen)]
    errors = []
    for predictor in ("ridge", "dictionary"):
        settings = {"init": start, "view_weights": "balanced", "schedule": "constant", "normalize": normalize}
        learner = make(predictor=predictor, **settings).fit(Xs)
        errors.append(np.mean((learner.predict(known, view=view) - unseen[view]) ** 2) / np.mean(unseen[view] ** 2))
    assert errors[0] < 0.25
    assert errors[0] < (0.5 if normalize == "views" else 1) * errors[1]


@pytest.mark.parametrize("weights", [None, [2.0, 0.5, 1.0]])
@pytest.mark.parametrize("normalize", ["views", "joint"])
@pytest.mark.parametrize("sources", [[0], [0, 1]])
def test_refit_is_ridge_regression_on_codes_of_the_source(gained, sources, normalize, weights):
    """On codes over the atoms of the sources, brought to norm 1 there."""
    Xs, unseen, _ = gained
    learner = make(max_iter=5, ridge_alpha=0.01, normalize=normalize, view_weights=weights).fit(Xs)
    sizes = joint_norms([learner.components_[v] for v in sources], learner.view_weights_[sources])
    train, test = ([X if v in sources else None for v, X in enumerate(views)] for views in (Xs, unseen))
    codes = learner.transform(train).toarray() * sizes
    gram = codes.T @ codes
    atoms = np.linalg.solve(gram + 0.01 * np.mean(np.diag(gram)) * np.eye(12), codes.T @ Xs[2])
    expected = (learner.transform(test).toarray() * sizes) @ atoms
    np.testing.assert_allclose(learner.predict(test, view=2), expected, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tiny", [0.0, 1e-25, 1e-3])
@pytest.mark.parametrize("predictor", ["ridge", "dictionary"])
def test_atoms_that_vanish_in_a_view_do_no_harm(rng, dtype, tiny, predictor):
    """Half of the causes leave no trace in one view, or hardly any; what it can tell, it tells as well as before."""
    which = rng.integers(12, size=900)
    size = rng.uniform(1, 2, (900, 1))
    gains = np.array([np.ones(12), np.repeat([1.0, tiny], 6)])
    start = [rng.standard_normal((12, 16)), rng.standard_normal((12, 20))]
    Xs = [(size * (D * g[:, None])[which]).astype(dtype) for D, g in zip(start, gains, strict=True)]
    errors = {}
    for normalize in ("views", "joint"):
        learner = make(n_nonzero_coefs=1, init=start, normalize=normalize, predictor=predictor).fit(Xs)
        codes = learner.transform([None, Xs[1]])
        predicted = learner.predict([None, Xs[1]], view=0)
        assert np.isfinite(codes.data).all()
        assert np.isfinite(predicted).all()
        assert np.sum(predicted**2) < 2 * np.sum(Xs[0] ** 2)
        visible = which < 6
        errors[normalize] = np.sum((predicted - Xs[0])[visible] ** 2) / np.sum(Xs[0][visible] ** 2)
    assert errors["joint"] < max(errors["views"], 1e-4)
    assert learner.score(Xs) > 0.9999


def test_refit_without_a_penalty(rng):
    """Atoms that no sample uses leave the regression singular; it has a solution all the same."""
    Xs, _ = planted_views(rng, n=30)
    learner = make(40, ridge_alpha=0).fit(Xs)
    codes = learner.transform([Xs[0], None]).toarray()
    left = learner.predict([Xs[0], None], view=1) - Xs[1]
    np.testing.assert_allclose(codes.T @ left, 0, atol=1e-8)


@pytest.mark.parametrize("weights", [None, [2.0, 0.5, 1.0]])
def test_without_refit_the_learned_atoms_predict(gained, weights):
    Xs, unseen, _ = gained
    given = [unseen[0], None, unseen[2]]
    learner = make(predictor="dictionary", normalize="views", view_weights=weights).fit(Xs)
    expected = learner.transform(given).toarray() @ learner.components_[1]
    np.testing.assert_allclose(learner.predict(given, view=1), expected, atol=1e-12)
    learner = make(predictor="dictionary", view_weights=weights).fit(Xs)
    expected = learner.transform(given).toarray() @ shrunk(learner.components_, [0, 2], 1, weights)
    np.testing.assert_allclose(learner.predict(given, view=1), expected, atol=1e-12)


def test_learned_atoms_of_joint_norm_do_not_amplify_noise(rng):
    """A view that sees little of an atom tells little about it; its noise is not made large in the others."""
    gains = np.array([np.ones(12), np.repeat([1.0, 0.02], 6)])
    Xs, start = planted_views(rng, n=900, widths=(16, 20), noise=0.05, gains=gains)
    learner = make(init=start, schedule="constant", predictor="dictionary").fit(Xs)
    predicted = learner.predict([None, Xs[1]], view=0)
    plain = learner.transform([None, Xs[1]]) @ learner.components_[0]
    assert np.sum((plain - Xs[0]) ** 2) > 2 * np.sum(Xs[0] ** 2)
    assert np.sum((predicted - Xs[0]) ** 2) < 0.7 * np.sum(Xs[0] ** 2)


def test_sources_that_no_refit_was_made_for(rng):
    """Of four views a pair of sources has the learned atoms to predict with."""
    Xs, _ = planted_views(rng, widths=(6, 5, 4, 7))
    learner = make().fit(Xs)
    given = [Xs[0], Xs[1], None, None]
    expected = learner.transform(given).toarray() @ shrunk(learner.components_, [0, 1], 3)
    np.testing.assert_allclose(learner.predict(given, view=3), expected, atol=1e-12)
    learner = make(normalize="views").fit(Xs)
    expected = learner.transform(given).toarray() @ learner.components_[3]
    np.testing.assert_allclose(learner.predict(given, view=3), expected, atol=1e-12)


def test_the_wanted_view_is_not_looked_at(Xs):
    learner = make().fit(Xs)
    expected = learner.predict([Xs[0], None], view=1)
    np.testing.assert_array_equal(learner.predict([Xs[0], np.full_like(Xs[1], np.nan)], view=1), expected)


def test_partial_fit_drops_the_refit(Xs):
    for normalize in ("joint", "views"):
        learner = make(normalize=normalize).fit(Xs).partial_fit(Xs)
        atoms = shrunk(learner.components_, [0], 1) if normalize == "joint" else learner.components_[1]
        expected = learner.transform([Xs[0], None]).toarray() @ atoms
        with pytest.warns(PredictionWarning, match="partial_fit has dropped the predictors"):
            predicted = learner.predict([Xs[0], None], view=1)
        np.testing.assert_allclose(predicted, expected, atol=1e-12)


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
    with pytest.raises(ValueError, match="Expected 2 codes, one per view, got 1"):
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
@pytest.mark.parametrize("growth", ["auto", None])
def test_identical_views_are_one_view(Xs, update, coupling, growth):
    settings = {"update": update, "coupling": coupling, "growth": growth}
    one = make(**settings).fit(Xs[:1])
    two = make(**settings).fit([Xs[0], Xs[0]])
    norm = np.sqrt(0.5) if coupling == "code" else 1  # the joint norm is 1
    for D in two.components_:
        np.testing.assert_allclose(D, norm * one.components_[0], atol=rounding(update, growth))
    two = make(normalize="views", **settings).fit([Xs[0], Xs[0]])
    for D in two.components_:
        np.testing.assert_allclose(D, one.components_[0], atol=rounding(update, growth))


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
@pytest.mark.parametrize("growth", ["auto", None])
def test_the_order_of_views_does_not_matter(Xs, update, growth):
    there = make(update=update, growth=growth, view_weights=[1, 2]).fit(Xs).components_
    back = make(update=update, growth=growth, view_weights=[2, 1]).fit(Xs[::-1]).components_
    for D, E in zip(there, back[::-1], strict=True):
        np.testing.assert_allclose(D, E, atol=rounding(update, growth))


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
