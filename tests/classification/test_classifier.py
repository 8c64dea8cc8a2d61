"""CoupledClassifier: what it learns, what it is made of, and how it behaves in scikit-learn's company."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from coupledict import DictionaryLearning, sparse_encode
from coupledict.classification import CoupledClassifier
from coupledict.classification._blending import fit_inverse_temperature
from coupledict.classification._heads import fit_head
from coupledict.classification._label_views import draw_by_class, share_atoms, target_codes, view_sets
from coupledict.classification._scaling import Scaler

WEIGHTED = {
    "check_sample_weight_equivalence_on_dense_data": "Folds and first atoms are drawn from samples: one that comes"
    " twice may be drawn once, one of weight 2 may not."
}


@parametrize_with_checks(
    [CoupledClassifier(n_components=12, n_dictionaries=1, n_nonzero_coefs=3, max_iter=3)],
    expected_failed_checks=lambda estimator: WEIGHTED,
)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        CoupledClassifier(n_dictionaries=2),
        CoupledClassifier(n_dictionaries=1, label_consistency=0.5, head="codes"),
        CoupledClassifier(n_dictionaries=1, label_weight=0, preprocess=None, ridge_alpha=0.1, n_components=20),
    ],
    expected_failed_checks=lambda estimator: WEIGHTED,
)
def test_scikit_learn_compatible_in_other_settings(estimator, check):
    check(estimator)


def make(**parameters):
    return CoupledClassifier(
        **({"n_components": 12, "n_dictionaries": 2, "max_iter": 4, "random_state": 0} | parameters)
    )


def blobs(rng, n=150, n_classes=3, n_features=8, spread=0.7):
    """Classes around centres of their own."""
    y = np.arange(n) % n_classes
    centers = 2 * rng.standard_normal((n_classes, n_features))
    return centers[y] + spread * rng.standard_normal((n, n_features)), y


@pytest.fixture
def Xy(rng):
    return blobs(rng)


# What it learns


@pytest.mark.parametrize("load", [load_iris, pytest.param(load_wine, marks=pytest.mark.slow)])
def test_good_without_tuning(load):
    X, y = load(return_X_y=True)
    assert cross_val_score(CoupledClassifier(random_state=0), X, y, cv=5).mean() > 0.94


def test_curved_boundaries(rng):
    """What a linear classifier cannot tell apart: a ring around a disc."""
    angles, y = rng.uniform(0, 2 * np.pi, 400), np.arange(400) % 2
    radii = 1 + y + 0.2 * rng.standard_normal(400)
    X = radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert CoupledClassifier(random_state=0).fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.9
    assert RidgeClassifier().fit(X[:200], y[:200]).score(X[200:], y[200:]) < 0.7


def test_several_dictionaries_decide_together(Xy):
    X, y = Xy
    model = make(n_dictionaries=3, head="codes+features").fit(X, y)
    assert len(model.learners_) == 3
    inputs = list(model._recognizer.inputs((0,), [X]))
    decided = [head(part) for head, part in zip(model._recognizer.source_heads[(0,)].code_heads, inputs, strict=True)]
    assert not np.allclose(decided[0], decided[1])
    np.testing.assert_allclose(model.decision_function(X), np.mean(decided, axis=0), rtol=1e-12)


def test_label_weights_shape_the_dictionaries(Xy):
    X, y = Xy
    plain, labelled = make(label_weight=0).fit(X, y), make(label_weight=4.0).fit(X, y)
    assert [len(model.learners_[0].components_) for model in (plain, labelled)] == [1, 2]
    assert not np.allclose(plain.learners_[0].components_[0], labelled.learners_[0].components_[0])
    both = make(label_weight=4.0, label_consistency=2.0).fit(X, y).learners_[0]
    assert [atoms.shape for atoms in both.components_] == [(12, 9), (12, 3), (12, 12)]
    np.testing.assert_allclose(both.view_weights_, [1, 4, 2])
    assert len(make(label_weight=0, label_consistency=2.0).fit(X, y).learners_[0].components_) == 2


def test_consistent_atoms_serve_their_class(rng):
    X, y = blobs(rng, n=300, spread=2.0)
    shares = {}
    for consistency in (0.0, 1.0):
        model = make(label_weight=0, label_consistency=consistency, n_nonzero_coefs=1).fit(X, y)
        views = [model._recognizer.scalers[0].coded(X), target_codes(y, model.atom_classes_)]
        learner = model.learners_[0]
        codes = learner.transform(views[: len(learner.components_)]).tocoo()
        shares[consistency] = np.mean(y[codes.row] == model.atom_classes_[codes.col])
    assert shares[0.0] < 0.9
    assert shares[1.0] == 1.0
    targets = learner.components_[1]
    by_class = np.stack([targets[:, model.atom_classes_ == label].sum(axis=1) for label in range(3)], axis=1)
    np.testing.assert_array_equal(by_class.argmax(axis=1), model.atom_classes_)


# What it is made of


@pytest.mark.parametrize("consistency", [0.0, 0.7])
def test_label_views_are_stacked_features(rng, consistency):
    """D-KSVD and LC-KSVD learn one dictionary over [x, sqrt(w) h, sqrt(v) q]; views of a joint norm are the same."""
    X, y = blobs(rng)
    model = make(label_weight=3.0, label_consistency=consistency, n_dictionaries=1, preprocess=None, n_nonzero_coefs=3)
    learner = model.fit(X, y).learners_[0]
    w = 1 / np.mean(np.sum(X**2, axis=1))
    blocks = [np.sqrt(w) * X, np.sqrt(3.0) * np.eye(3)[y]]
    if consistency:
        agree = np.array([[label == atom for atom in model.atom_classes_] for label in y], float)
        blocks.append(np.sqrt(consistency) * agree / np.linalg.norm(agree, axis=1, keepdims=True))
    stacked = np.hstack(blocks)
    shares = learner.view_weights_ / learner.view_weights_.max()
    joint = np.hstack([np.sqrt(v) * D for v, D in zip(shares, learner.components_, strict=True)])
    np.testing.assert_allclose(np.linalg.norm(joint, axis=1), 1)
    # The same number of iterations on from there, by the views and by the stacked samples.
    again = clone(learner).set_params(init=list(learner.components_), growth=None, random_state=5)
    again.fit([X, *_label_views(model, y)])
    single = DictionaryLearning(12, n_nonzero_coefs=3, max_iter=4, growth=None, init=joint, random_state=5).fit(stacked)
    expected = np.hstack([np.sqrt(v) * D for v, D in zip(shares, again.components_, strict=True)])
    np.testing.assert_allclose(single.components_, expected, atol=1e-9)


def _label_views(model, y):
    views = [np.eye(3)[y]]
    return [*views, target_codes(y, model.atom_classes_)] if model.label_consistency else views


def test_target_codes():
    expected = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]]) / np.sqrt([[2], [3], [1]])
    np.testing.assert_allclose(target_codes(np.array([0, 2, 1]), np.array([0, 0, 2, 2, 2])), expected)


@pytest.mark.parametrize(
    ("n_components", "counts", "expected"),
    [
        (6, [9, 9, 9], [2, 2, 2]),
        (7, [9, 9, 9], [3, 2, 2]),
        (9, [1, 20, 20], [1, 4, 4]),
        (2, [9, 9, 9], [1, 1, 0]),
        (9, [1, 2, 3], [2, 3, 4]),
    ],
)
def test_atoms_are_shared_out_evenly(n_components, counts, expected):
    shares = np.bincount(share_atoms(n_components, np.array(counts)), minlength=3)
    assert shares.sum() == n_components
    assert shares.tolist() == expected


def test_atoms_start_from_samples_of_their_class(rng):
    y, atom_classes = np.array([0, 1, 1, 1, 0, 1]), np.array([0, 0, 0, 1, 1])
    drawn = draw_by_class(y, atom_classes, rng)
    np.testing.assert_array_equal(y[drawn], atom_classes)
    assert len(set(drawn[:2])) == 2, "no sample twice while there are others"
    assert len(set(drawn[3:])) == 2
    draws = {tuple(draw_by_class(y, np.array([1]), np.random.default_rng(seed))) for seed in range(40)}
    assert draws == {(1,), (2,), (3,), (5,)}, "any sample of the class may come"


def test_decisions_by_hand(Xy):
    """Codes from the features alone, over feature atoms of norm 1, beside the features; then scikit-learn's ridge."""
    X, y = Xy
    settings = {"ridge_alpha": 0.01, "preprocess": "common", "head": "codes+features", "n_nonzero_coefs": 4}
    model = make(n_dictionaries=1, **settings).fit(X, y)
    scale = np.sqrt(np.mean(np.sum(X**2, axis=1)))
    coded = np.hstack([X / scale, np.full((150, 1), 0.5)])
    coded /= np.linalg.norm(coded, axis=1, keepdims=True)
    atoms = model.learners_[0].components_[0]
    codes = sparse_encode(coded, atoms / np.linalg.norm(atoms, axis=1, keepdims=True), n_nonzero_coefs=4).toarray()
    centered = X - X.mean(axis=0)
    inputs = np.hstack([codes, 2 * centered / np.sqrt(np.mean(np.sum(centered**2, axis=1)))])
    penalty = 0.01 * np.mean(np.sum((inputs - inputs.mean(axis=0)) ** 2, axis=0))
    expected = Ridge(penalty).fit(inputs, np.eye(3)[y]).predict(inputs)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), np.argmax(expected, axis=1))


def test_learned_label_dictionary_as_it_is(Xy):
    X, y = Xy
    model = make(n_dictionaries=1, head="dictionary", preprocess=None).fit(X, y)
    features, label_atoms = model.learners_[0].components_
    codes = sparse_encode(X, features, n_nonzero_coefs=4)
    np.testing.assert_array_equal(model.encode(X).toarray(), codes.toarray())
    np.testing.assert_allclose(model.decision_function(X), codes @ label_atoms, rtol=1e-9)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("shape", [(40, 6), (15, 30)])
@pytest.mark.parametrize("alpha", ["auto", 0.3])
def test_head_leaves_samples_out_as_fitting_without_them_does(rng, shape, alpha):
    inputs, targets = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    targets += inputs[:, :2]
    weights = rng.uniform(0.5, 2, shape[0])
    head, left_out = fit_head(inputs, targets, weights, alpha)
    centered = inputs - weights @ inputs / weights.sum()
    penalty = head.ridge_alpha * float(weights @ np.mean(centered**2, axis=1))
    whole = Ridge(penalty).fit(inputs, targets, sample_weight=weights)
    mean = weights @ targets / weights.sum()
    factor = 1.0
    if alpha == "auto":  # decisions are stretched until those left out are nearest to the targets
        factor = float(np.sum(head.coef * whole.coef_.T) / np.sum(whole.coef_**2))
        apart = weights[:, None] * (left_out - mean) * (left_out - targets)
        np.testing.assert_allclose(np.sum(apart), 0, atol=1e-8)
        assert factor > 0
    np.testing.assert_allclose(head(inputs), mean + factor * (whole.predict(inputs) - mean), atol=1e-8)
    for i in range(0, shape[0], 4):
        rest = np.arange(shape[0]) != i
        without = Ridge(penalty).fit(inputs[rest], targets[rest], sample_weight=weights[rest])
        expected = mean + factor * (without.predict(inputs[i : i + 1])[0] - mean)
        np.testing.assert_allclose(left_out[i], expected, atol=1e-6)


def test_penalty_follows_the_noise(rng):
    inputs = rng.standard_normal((200, 20))
    signal = inputs[:, :1].copy()
    strengths = [
        fit_head(inputs, signal + noise * rng.standard_normal((200, 1)), np.ones(200), "auto")[0].ridge_alpha
        for noise in (0.0, 1.0, 30.0)
    ]
    assert strengths[0] < strengths[1] < strengths[2]


def test_inverse_temperature_maximises_the_likelihood(rng):
    targets = np.eye(3)[np.arange(300) % 3]
    decisions = targets + rng.standard_normal((300, 3))
    found = fit_inverse_temperature(decisions, targets, np.ones(300))

    def loss(factor):
        exponents = np.exp(factor * decisions)
        return log_loss(np.arange(300) % 3, exponents / exponents.sum(axis=1, keepdims=True))

    assert loss(found) < loss(1.3 * found)
    assert loss(found) < loss(found / 1.3)
    assert fit_inverse_temperature(targets, targets, np.ones(300)) < 20, (
        "not beyond all bounds where every decision is right"
    )


def test_scaling(rng):
    X = rng.standard_normal((50, 4)) * [1, 2, 3, 1] + 5
    common = Scaler.of(X, "auto")
    assert np.ptp(common.factor) == 0
    np.testing.assert_array_equal(common.shift, 0)
    np.testing.assert_allclose(np.linalg.norm(common.coded(X), axis=1), 1)
    assert common.coded(X).shape == (50, 5)
    X[:, 1] *= 1000
    own = Scaler.of(X, "auto")
    standard = (X - X.mean(axis=0)) / X.std(axis=0) / 2
    rows = np.hstack([standard, np.full((50, 1), 0.5)])
    np.testing.assert_allclose(own.coded(X), rows / np.linalg.norm(rows, axis=1, keepdims=True))
    np.testing.assert_allclose(own.features(X), standard)
    np.testing.assert_allclose(Scaler.of(X, "unit").coded(X), X / np.linalg.norm(X, axis=1, keepdims=True))
    np.testing.assert_array_equal(Scaler.of(X, None).coded(X), X)
    X[:, 2] = 7.1  # a feature that never changes says nothing
    changed = X.copy()
    changed[:, 2] = 1e6
    constant = Scaler.of(X, "standardize")
    np.testing.assert_allclose(constant.coded(changed), constant.coded(X))


# Labels, weights, probabilities


@pytest.mark.parametrize("labels", [["no", "yes", "perhaps"], [3.0, -1.0, 10.0], [10, 20, 30]])
def test_any_labels(Xy, labels):
    X, y = Xy
    model = make().fit(X, np.array(labels)[y])
    assert model.classes_.tolist() == sorted(labels)
    assert model.score(X, np.array(labels)[y]) > 0.9
    assert model.predict(X).dtype == model.classes_.dtype


def test_object_labels(Xy):
    X, y = Xy
    names = np.array(["a", "b", "c"], dtype=object)[y]
    assert make().fit(X, names).predict(X).tolist() == make().fit(X, names.astype(str)).predict(X).tolist()


def test_two_classes(rng):
    X, y = blobs(rng, n_classes=2)
    model = make().fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (150,)
    np.testing.assert_array_equal(model.predict(X), (scores > 0).astype(int))
    assert model.predict_proba(X).shape == (150, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities(Xy, dtype):
    X, y = Xy
    X = X.astype(dtype)
    model = make().fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.dtype == model.decision_function(X).dtype == dtype
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert probabilities.min() >= 0
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))


def test_probabilities_mean_what_they_say(rng):
    X, y = blobs(rng, n=2000, n_classes=2, n_features=3, spread=3.0)
    model = CoupledClassifier(random_state=0).fit(X[:1000], y[:1000])
    likely = model.predict_proba(X[1000:]).max(axis=1)
    right = model.predict(X[1000:]) == y[1000:]
    assert abs(likely.mean() - right.mean()) < 0.05


def test_class_weights_help_the_rare(rng):
    X, y = blobs(rng, n=600, n_classes=2, n_features=4, spread=3.0)
    rare = np.flatnonzero((y == 0) | (np.arange(600) % 20 == 1))
    plain, balanced = make().fit(X[rare], y[rare]), make(class_weight="balanced").fit(X[rare], y[rare])
    counts = np.bincount(y[rare])
    given = make(class_weight={0: 0.5 / counts[0], 1: 0.5 / counts[1]}).fit(X[rare], y[rare])
    test = np.flatnonzero(y == 1)
    assert np.mean(balanced.predict(X[test]) == 1) > np.mean(plain.predict(X[test]) == 1) + 0.2
    np.testing.assert_array_equal(given.predict(X), balanced.predict(X))


def test_a_class_of_one_sample(Xy):
    X, y = Xy
    y = np.where(np.arange(150) == 7, 3, y)
    model = make().fit(X, y)
    assert np.count_nonzero(model.atom_classes_ == 3) == 1
    assert model.classes_.tolist() == [0, 1, 2, 3]


def test_samples_without_labels_shape_the_dictionaries(rng):
    X, y = blobs(rng, n=400)
    some = np.where(np.arange(400) < 40, y, -1)
    model = make(unlabeled=-1).fit(X, some)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X[40:], y[40:]) > 0.9
    assert not hasattr(model, "atom_classes_")
    few = make(unlabeled=-1).fit(X[:40], some[:40])
    assert not np.allclose(few.learners_[0].components_[0], model.learners_[0].components_[0])
    names = np.array(["a", "b", "c", ""])[some]
    np.testing.assert_array_equal(make(unlabeled="").fit(X, names).decision_function(X), model.decision_function(X))
    numbers = np.where(some < 0, np.nan, some)
    marked = make(unlabeled=np.nan).fit(X, numbers)
    np.testing.assert_array_equal(marked.decision_function(X), model.decision_function(X))


def test_minus_one_is_a_label_unless_said_otherwise(rng):
    X, y = blobs(rng, n_classes=2)
    assert make().fit(X, 2 * y - 1).classes_.tolist() == [-1, 1]


# In company


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_same_for_any_number_of_threads(Xy, n_jobs):
    X, y = Xy
    one, many = make(n_dictionaries=3).fit(X, y), make(n_dictionaries=3, n_jobs=n_jobs).fit(X, y)
    np.testing.assert_array_equal(one.decision_function(X), many.decision_function(X))
    np.testing.assert_array_equal(one.predict_proba(X), many.predict_proba(X))


def test_same_seed_same_model(Xy):
    X, y = Xy
    one, same, other = make().fit(X, y), make().fit(X, y), make(random_state=1).fit(X, y)
    np.testing.assert_array_equal(one.decision_function(X), same.decision_function(X))
    assert not np.array_equal(one.decision_function(X), other.decision_function(X))
    one, same = (make(random_state=np.random.RandomState(3)).fit(X, y).decision_function(X) for _ in range(2))
    np.testing.assert_array_equal(one, same)


def test_clone_and_pickle(Xy):
    X, y = Xy
    model = make(class_weight="balanced").fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    fresh = clone(model)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    with pytest.raises(NotFittedError):
        fresh.encode(X)
    np.testing.assert_array_equal(fresh.fit(X, y).decision_function(X), model.decision_function(X))


def test_grid_search_and_names(Xy):
    X, y = Xy
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(8)])
    search = GridSearchCV(make(), {"n_nonzero_coefs": [1, 4], "head": ["codes"]}, cv=3).fit(frame, y)
    assert search.best_score_ > 0.9
    best = search.best_estimator_
    assert best.feature_names_in_.tolist() == frame.columns.tolist()
    assert best.n_features_in_ == 8
    best.fit([X, X], y)
    assert not hasattr(best, "feature_names_in_")
    assert best.n_features_in_ == [8, 8]


@pytest.mark.parametrize("kind", ["read-only", "strided", "fortran", "integers", "booleans"])
def test_any_array(rng, kind):
    X, y = blobs(rng)
    X = np.rint(3 * X)
    given = {
        "read-only": X.copy(),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "fortran": np.asfortranarray(X),
        "integers": X.astype(int),
        "booleans": X > 0,
    }[kind]
    given.setflags(write=kind != "read-only")
    before = given.copy()
    expected = make().fit((X > 0).astype(float) if kind == "booleans" else X, y)
    found = make().fit(given, y)
    np.testing.assert_array_equal(given, before)
    np.testing.assert_array_equal(found.decision_function(given), expected.decision_function(given.astype(float)))


def test_wide_and_large(rng):
    X, y = blobs(rng, n=30, n_features=400)
    model = CoupledClassifier(random_state=0).fit(X, y)
    assert model.score(X, y) == 1
    huge = CoupledClassifier(random_state=0).fit(1e150 * X, y)
    np.testing.assert_array_equal(huge.predict(1e150 * X), model.predict(X))


def test_bad_parameters(Xy):
    X, y = Xy
    for parameters, words in (
        ({"n_components": 0}, "n_components to be at least 1"),
        ({"n_dictionaries": 0}, "n_dictionaries to be at least 1"),
        ({"n_nonzero_coefs": 1.5}, "n_nonzero_coefs to be 'auto' or an integer"),
        ({"label_weight": -1}, "label_weight to be a number from 0 to"),
        ({"label_consistency": np.inf}, "label_consistency to be a finite number"),
        ({"head": "labels"}, "head to be one of"),
        ({"ridge_alpha": "big"}, "ridge_alpha to be 'auto' or a number"),
        ({"preprocess": "whiten"}, "preprocess to be one of"),
        ({"pursuit": "lasso"}, r"pursuit to be one of \('omp', 'ols'\)"),
        ({"head": "dictionary", "ridge_alpha": 1.0}, "have no meaning"),
        ({"head": "dictionary", "class_weight": "balanced"}, "have no meaning"),
        ({"head": "dictionary", "label_weight": 0}, "label_weight above 0"),
        ({"callback": 3}, "callback to be None or a callable"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            make(**parameters).fit(X, y)
    for parameters in ({"label_weight": 1.0}, {"label_consistency": 1.0}, {"head": "dictionary"}):
        with pytest.raises(ValueError, match="there is no label view to learn from"):
            make(unlabeled=0, **parameters).fit(X, y)


def test_bad_input(Xy):
    X, y = Xy
    with pytest.raises(ValueError, match=r"at least two classes in y, got one class, np.int64\(1\)"):
        make().fit(X, np.ones(150, int))
    with pytest.raises(ValueError, match="got none"):
        make(unlabeled=1).fit(X, np.ones(150, int))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"X to be finite, got \w+ in sample \d+"):
            make().fit(np.where(X.max() == X, bad, X), y)
        with pytest.raises(ValueError, match=r"X to be finite, got \w+ in sample \d+"):
            make().fit(X, y).predict(np.where(X.max() == X, bad, X))
    with pytest.raises(ValueError, match="150 samples, got 149"):
        make(unlabeled=-1).fit(X, y[1:])
    with pytest.raises(ValueError, match="expecting 8 features"):
        make().fit(X, y).predict(X[:, 1:])


def test_sets_of_views():
    assert view_sets(2) == [(0,), (1,), (0, 1)]
    assert len(view_sets(4)) == 15
    assert view_sets(5) == [(0,), (1,), (2,), (3,), (4,), *view_sets(5)[5:10], (0, 1, 2, 3, 4)]
    assert len(view_sets(5)) == 11
