"""What classifiers choose by samples that were left out: parts, shares, sparsity; weights; probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import make_classification, make_moons
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifierCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import coupledict
from coupledict import ModelFileError
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.classification._blending import fit_shares
from coupledict.classification._class_residuals import ClassAtoms
from coupledict.classification._dictionaries import default_components
from coupledict.classification._folds import draw_folds
from coupledict.classification._heads import fit_head
from coupledict.classification._kernel import choose_kernel, choose_landmarks, fit_kernel_head, rbf_kernel
from coupledict.files import read_model, write_model


def subspaces(rng, n_classes=12, n=30, n_features=30, dimension=4, noise=0.3):
    """Classes that are each a few directions, seen at any brightness: half to learn from, half to be judged by."""
    y = np.arange(2 * n_classes * n) % n_classes
    bases = rng.standard_normal((n_classes, dimension, n_features)) + rng.standard_normal(n_features)
    X = np.einsum("ij,ijk->ik", rng.exponential(size=(y.size, dimension)), bases[y])
    X += noise * np.sqrt(np.mean(X**2)) * rng.standard_normal(X.shape)
    return X[: y.size // 2], y[: y.size // 2], X[y.size // 2 :], y[y.size // 2 :]


def made(n_train=400, n_classes=3, **parameters):
    settings = {"n_features": 12, "n_informative": 6, "n_clusters_per_class": 2, "random_state": 3} | parameters
    X, y = make_classification(n_train + 800, n_classes=n_classes, **settings)
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


# What is left out


@pytest.mark.parametrize(("shape", "alpha"), [((40, 6), "auto"), ((40, 6), 0.3), ((40, 6), 0.0), ((20, 50), 0.3)])
def test_a_fold_is_left_out_as_by_fitting_without_it(rng, shape, alpha):
    inputs, targets = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    targets += inputs[:, :2]
    weights = rng.uniform(0.5, 2, shape[0])
    fold = np.array([1, 5, 6, 11, 17])
    head, decided = fit_head(inputs, targets, weights, alpha, fold)
    centered = inputs - weights @ inputs / weights.sum()
    penalty = head.ridge_alpha * float(weights @ np.mean(centered**2, axis=1))
    rest = np.setdiff1d(np.arange(shape[0]), fold)
    without = Ridge(penalty).fit(inputs[rest], targets[rest], sample_weight=weights[rest])
    mean, found = weights @ targets / weights.sum(), without.predict(inputs[fold])
    rescaled = mean + np.sum((decided - mean) * (found - mean)) / np.sum((found - mean) ** 2) * (found - mean)
    np.testing.assert_allclose(decided, rescaled if alpha == "auto" else found, atol=2e-4)


def test_inputs_are_judged_by_the_fold(rng):
    """Inputs that know the answer for all samples but those of the fold are not to be believed."""
    targets = np.eye(2)[rng.integers(2, size=100)]
    fold = np.arange(20)
    inputs = targets[:, :1] + 0.01 * rng.standard_normal((100, 1))
    inputs[fold] = rng.standard_normal((20, 1))
    alone, left_out = (fit_head(inputs, targets, np.ones(100), "auto", own)[0] for own in (None, fold))
    assert np.abs(left_out.coef).max() < 0.2 * np.abs(alone.coef).max()


def test_folds_leave_every_class_a_sample(rng):
    y = np.array([0] * 11 + [1] * 3 + [2] + [3] * 2)
    usable = np.arange(17) != 0
    folds = draw_folds(y, usable, 5, rng)
    assert folds[0] == -1, "not usable"
    assert folds[14] == -1, "alone in its class"
    assert np.ptp(np.bincount(folds[folds >= 0], minlength=5)) <= 1
    for fold in range(5):
        assert set(y[folds != fold]) == {0, 1, 2, 3}


@pytest.mark.slow
def test_dictionaries_do_not_see_the_samples_that_they_are_tried_on(rng):
    """A sample that is far from all others is an atom of the dictionaries that saw it."""
    X, y, *_ = made(100)
    seen = np.zeros((20, 5))
    for number in range(20):
        far = X.copy()
        far[number] = 1e3 * np.sign(rng.standard_normal(12))
        model = CoupledClassifier(50, random_state=number, head="codes", n_nonzero_coefs=2).fit(far, y)
        direction = model._recognizer.scalers[0].coded(far[number : number + 1])[0]
        for d, learner in enumerate(model.learners_):
            atoms = learner.components_[0] / np.linalg.norm(learner.components_[0], axis=1, keepdims=True)
            seen[number, d] = np.abs(atoms @ direction).max() > 0.99
    assert (seen.sum(axis=1) <= 4).all(), "one dictionary has not seen it"
    assert seen.mean() > 0.4


# Parts and shares


def test_shares_follow_what_parts_know(rng):
    y = rng.integers(3, size=600)
    targets = np.eye(3)[y]
    good, bad, noise = (targets + size * rng.standard_normal((600, 3)) for size in (0.4, 1.5, 1.0))
    noise = rng.standard_normal((600, 3))
    found = fit_shares({"good": good, "bad": bad, "noise": noise}, targets, np.ones(600))
    assert "noise" not in found.shares
    assert found.shares["good"] > found.shares["bad"] > 0
    np.testing.assert_allclose(sum(found.shares.values()), 1)

    def loss(shares):
        decided = sum(share * {"good": good, "bad": bad}[part] / found.sizes[part] for part, share in shares.items())
        return log_loss(y, softmax(found.inverse_temperature * decided, axis=1))

    for part in ("good", "bad"):
        for factor in (0.8, 1.25):
            assert loss(found.shares) < loss(found.shares | {part: factor * found.shares[part]})


def test_shares_do_not_depend_on_units(rng):
    targets = np.eye(3)[rng.integers(3, size=300)]
    one, two = (targets + rng.standard_normal((300, 3)) for _ in range(2))
    plain = fit_shares({"one": one, "two": two}, targets, np.ones(300))
    scaled = fit_shares({"one": one, "two": 50 * two + 7}, targets, 3 * np.ones(300))
    np.testing.assert_allclose(list(scaled.shares.values()), list(plain.shares.values()), rtol=1e-3)


def test_parts_that_say_nothing(rng):
    targets = np.eye(2)[rng.integers(2, size=50)]
    found = fit_shares({"one": np.zeros((50, 2)), "two": np.ones((50, 2))}, targets, np.ones(50))
    assert found.inverse_temperature > 0
    assert found.shares


def test_a_blend_by_hand():
    X, y, new, _ = made()
    model = CoupledClassifier(random_state=0, n_dictionaries=2).fit(X, y)
    recognizer, source_head = model._recognizer, model._recognizer.source_heads[(0,)]
    assert model.head_ == "blend"
    assert model.head_shares_ == source_head.shares
    assert "kernel" in source_head.shares
    scaler, landmarks = recognizer.scalers[0], recognizer.landmarks
    expected = np.zeros((len(new), 3))
    if "codes" in source_head.shares:
        codes = [head(own) for head, own in zip(source_head.code_heads, recognizer.inputs((0,), [new]), strict=True)]
        expected += source_head.shares["codes"] / source_head.sizes["codes"] * np.mean(codes, axis=0)
    if "features" in source_head.shares:
        own = (new - X.mean(axis=0)) * landmarks.gains["features"][0]
        expected += (
            source_head.shares["features"]
            / source_head.sizes["features"]
            * (own @ source_head.features.coef + source_head.features.intercept)
        )
    kept = X[np.argsort(y, kind="stable")]
    gain = landmarks.gains["kernel"][0]
    alike = rbf_kernel((new - X.mean(axis=0)) * gain, (kept - X.mean(axis=0)) * gain, source_head.kernel.rate)
    expected += (
        source_head.shares["kernel"]
        / source_head.sizes["kernel"]
        * (alike @ source_head.kernel.coef + source_head.kernel.intercept)
    )
    if "residuals" in source_head.shares:
        atoms = ClassAtoms(scaler.coded(kept), np.sort(y), 3, 10)
        expected -= (
            source_head.shares["residuals"] / source_head.sizes["residuals"] * atoms.residuals(scaler.coded(new))
        )
    np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-8)
    np.testing.assert_allclose(
        model.predict_proba(new), softmax(source_head.inverse_temperature * expected, axis=1), atol=1e-7
    )


def test_residuals_of_classes_are_least_squares(rng):
    atoms, samples = rng.standard_normal((6, 9)), rng.standard_normal((4, 9))
    classes = np.array([0, 0, 0, 2, 2, 2])
    found = ClassAtoms(atoms, classes, 3, 10).residuals(samples)
    for label in (0, 2):
        own = atoms[classes == label]
        fitted = np.linalg.lstsq(own.T, samples.T, rcond=None)[0]
        np.testing.assert_allclose(found[:, label], np.linalg.norm(samples - fitted.T @ own, axis=1))
    np.testing.assert_allclose(found[:, 1], np.linalg.norm(samples, axis=1))


# The kernel


@pytest.mark.parametrize("exact", [True, False])
def test_kernel_with_weights_is_kernel_ridge_regression(rng, exact):
    X, y = rng.standard_normal((60, 4)), rng.integers(3, size=60)
    weights, targets = rng.uniform(0.5, 2, 60), np.eye(3)[y]
    chosen = np.arange(60) if exact else np.arange(50)
    head, left_out = fit_kernel_head(X, targets, weights, 0.2, chosen, 2.0)
    landmarks = X[chosen]
    distances = ((landmarks[:, None] - landmarks) ** 2).sum(axis=2)
    np.testing.assert_allclose(2 / head.rate, np.median(distances[~np.eye(len(chosen), dtype=bool)]))
    values, axes = np.linalg.eigh(rbf_kernel(landmarks, landmarks, head.rate) + 1e-8 * np.eye(len(chosen)))
    turned = rbf_kernel(X, landmarks, head.rate) @ axes / np.sqrt(values)
    centered = turned - weights @ turned / weights.sum()
    penalty = 0.2 * float(weights @ np.sum(centered**2, axis=1)) / len(chosen)
    oracle = Ridge(penalty).fit(turned, targets, sample_weight=weights)
    np.testing.assert_allclose(head(X), oracle.predict(turned), atol=1e-5)
    rest = np.arange(60) != 11
    without = Ridge(penalty).fit(turned[rest], targets[rest], sample_weight=weights[rest])
    np.testing.assert_allclose(left_out[11], without.predict(turned[11:12])[0], atol=1e-4)


def test_the_kernel_is_as_wide_as_the_data_ask(rng):
    X = rng.uniform(-1, 1, (400, 2))
    for waves, narrow in ((1.0, False), (10.0, True)):
        y = (np.sin(waves * X[:, 0]) + 0.5 * rng.standard_normal(400) > 0).astype(int)
        _, factor, _ = choose_kernel([X], np.eye(2)[y], np.ones(400), y)
        assert (factor > 1) == narrow
    y = (X[:, 0] > 0).astype(int)
    useless = np.hstack([0.01 * X, rng.standard_normal((400, 20))])
    assert choose_kernel([useless, X], np.eye(2)[y], np.ones(400), y)[0] == 1


def test_some_of_many_samples_are_landmarks():
    X, y, new, truth = made(600)
    np.testing.assert_array_equal(choose_landmarks(y), np.arange(600))
    some = choose_landmarks(y, most_exact=500, most=200)
    assert np.abs(np.bincount(y[some]) - np.bincount(y) / 3).max() <= 1, "of each class alike"
    scores = []
    for chosen in (np.arange(600), some):
        head, _ = fit_kernel_head(X, np.eye(3)[y], np.ones(600), None, chosen, penalty=0.1)
        assert len(head.landmarks) == len(chosen)
        scores.append(np.mean(head(new).argmax(axis=1) == truth))
    assert scores[1] > scores[0] - 0.04
    assert scores[0] > 0.8


@pytest.mark.slow
def test_a_classifier_of_many_samples_has_fewer_landmarks():
    X, y, new, truth = made(2001)
    model = CoupledClassifier(random_state=0, n_dictionaries=1).fit(X, y)
    assert len(model._recognizer.landmarks.classes) == 1500
    assert model.score(new, truth) > 0.8


# Beside rivals


def test_classes_in_subspaces_beside_ridge_and_a_support_vector_machine(rng):
    X, y, new, truth = subspaces(rng)
    model = CoupledClassifier(random_state=0).fit(X, y)
    ridge = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 7))).fit(X, y)
    machine = make_pipeline(StandardScaler(), SVC(C=10)).fit(X, y)
    assert model.score(new, truth) > max(ridge.score(new, truth), machine.score(new, truth) + 0.02)
    assert model.n_components_ == default_components(360, 12) == 120


def test_curved_classes_beside_a_support_vector_machine(rng):
    X, y = make_moons(1200, noise=0.2, random_state=1)
    X = X @ np.linalg.qr(rng.standard_normal((6, 6)))[0][:2] + 0.15 * rng.standard_normal((1200, 6))
    model, machine = CoupledClassifier(random_state=0), make_pipeline(StandardScaler(), SVC(C=10))
    scores = [one.fit(X[:300], y[:300]).score(X[300:], y[300:]) for one in (model, machine)]
    assert scores[0] > scores[1] - 0.01
    assert max(model.head_shares_, key=model.head_shares_.get) == "kernel"


def test_few_samples_of_many_features_beside_ridge(rng):
    y = rng.integers(2, size=500)
    X = rng.standard_normal((500, 10)) @ rng.standard_normal((10, 300)) + rng.standard_normal((500, 300))
    X[:, :30] += 0.6 * y[:, None] * rng.standard_normal(30)
    model, ridge = CoupledClassifier(random_state=0), make_pipeline(StandardScaler(), RidgeClassifierCV())
    scores = [one.fit(X[:80], y[:80]).score(X[80:], y[80:]) for one in (model, ridge)]
    assert scores[0] > scores[1] - 0.02


@pytest.mark.parametrize("make", [CoupledClassifier, SparseRepresentationClassifier])
def test_probabilities_beside_logistic_regression(make):
    """Curved classes: probabilities are better than those of a linear model, and mean what they say."""
    X, y, new, truth = made(500, class_sep=1.0, flip_y=0.1)
    likely = make(random_state=0).fit(X, y).predict_proba(new)
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y).predict_proba(new)
    right = np.eye(3)[truth]
    brier = [np.mean(np.sum((found - right) ** 2, axis=1)) for found in (likely, linear)]
    assert brier[0] < brier[1]
    assert log_loss(truth, likely) < log_loss(truth, linear)
    sure = likely.max(axis=1)
    assert abs(sure.mean() - np.mean(likely.argmax(axis=1) == truth)) < 0.1


# What is chosen


def test_how_many_atoms_follow_the_data():
    assert default_components(100, 2) == 20
    assert default_components(1216, 38) == 380
    assert default_components(12, 3) == 6
    assert default_components(10**6, 5) == 512


def test_sparsity_is_chosen_or_given(rng):
    X, y, new, truth = subspaces(rng)
    chosen = CoupledClassifier(random_state=0, head="codes+features").fit(X, y)
    assert chosen.n_nonzero_coefs_ == 30 == chosen.learners_[0].n_nonzero_coefs
    assert np.max(np.diff(chosen.encode(new).indptr)) > 4
    given = CoupledClassifier(random_state=0, head="codes+features", n_nonzero_coefs=1).fit(X, y)
    assert given.n_nonzero_coefs_ == 1
    assert chosen.score(new, truth) > given.score(new, truth)
    with pytest.raises(ValueError, match="n_nonzero_coefs to be 'auto' or an integer"):
        CoupledClassifier(n_nonzero_coefs="all").fit(X, y)


def test_a_blend_needs_labels_and_entries():
    X, y, *_ = made(60)
    gap = X.copy()
    gap[3, 2] = np.nan
    for parameters, given, labels in (({"missing": "nan"}, gap, y), ({"unlabeled": -1}, X, np.where(y == 1, -1, y))):
        with pytest.raises(ValueError, match="complete samples with labels for head='blend'"):
            CoupledClassifier(head="blend", **parameters).fit(given, labels)
    assert CoupledClassifier(missing="nan", random_state=0).fit(gap, y).head_ == "kernel"
    assert not hasattr(CoupledClassifier(missing="nan", random_state=0).fit(gap, y), "head_shares_")


@pytest.mark.slow
def test_representations_are_chosen(rng):
    X, y, new, truth = subspaces(rng)
    model = SparseRepresentationClassifier().fit(X, y)
    usual = SparseRepresentationClassifier(n_nonzero_coefs=4, coding="joint", preprocess="common").fit(X, y)
    assert (usual.n_nonzero_coefs_, usual.coding_, usual.preprocess_) == (4, "joint", "common")
    assert model.score(new, truth) > usual.score(new, truth) + 0.03
    X, y, new, truth = made()
    scales = 10.0 ** rng.uniform(-3, 3, 12)
    assert SparseRepresentationClassifier().fit(X * scales, y).preprocess_ == "standardize"
    assert SparseRepresentationClassifier(preprocess=None).fit(X, y).preprocess_ == "none"
    again = [SparseRepresentationClassifier().fit(X, y).predict_proba(new) for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_classes_of_one_sample_each(rng):
    X = rng.standard_normal((4, 5))
    for model in (SparseRepresentationClassifier(), CoupledClassifier(random_state=0)):
        np.testing.assert_array_equal(model.fit(X, np.arange(4)).predict(X), np.arange(4))
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


# Weights


@pytest.mark.parametrize("head", ["blend", "codes+features", "kernel"])
def test_samples_of_weight_0_are_not_there(rng, head):
    X, y, new, _ = made(150)
    y = y.copy()
    weights = rng.uniform(0.5, 2, 150)
    weights[::3] = 0
    X[::3], y[::3] = 100 * rng.standard_normal((50, 12)), rng.integers(3, size=50)
    weighted, fewer = (CoupledClassifier(random_state=0, head=head, n_dictionaries=2) for _ in range(2))
    weighted.fit(X, y, sample_weight=weights)
    fewer.fit(X[weights > 0], y[weights > 0], sample_weight=10 * weights[weights > 0])
    np.testing.assert_allclose(weighted.predict_proba(new), fewer.predict_proba(new), atol=1e-6)


def test_equal_weights_are_none():
    X, y, new, _ = made(150)
    for make in (CoupledClassifier, SparseRepresentationClassifier):
        plain, weighted = make(random_state=0).fit(X, y), make(random_state=0).fit(X, y, np.full(150, 3.0))
        np.testing.assert_array_equal(plain.predict_proba(new), weighted.predict_proba(new))


@pytest.mark.parametrize("head", ["blend", "codes", "dictionary", "kernel"])
def test_heavy_samples_decide(rng, head):
    """Half of the labels are those of another world; weights say which."""
    X, y, new, truth = made(400, n_classes=2)
    strange = rng.random(400) < 0.5
    mixed = np.where(strange, 1 - y, y)
    scores = [
        CoupledClassifier(random_state=0, head=head, n_dictionaries=2)
        .fit(X, mixed, sample_weight=np.where(strange == heavy, 1.0, 0.02))
        .score(new, truth)
        for heavy in (False, True)
    ]
    assert scores[0] > 0.75
    assert scores[1] < 0.35


def test_weights_shape_dictionaries(rng):
    """Atoms of one direction follow the heavy samples."""
    X = rng.standard_normal((200, 2)) * [3, 0.3] + [0, 4]
    y = (X[:, 0] > 0).astype(int)
    X[:100] = X[:100, ::-1]
    found = []
    for heavy in (slice(0, 100), slice(100, 200)):
        weights = np.full(200, 1e-3)
        weights[heavy] = 1
        model = SparseRepresentationClassifier(
            "learned", n_components=1, n_nonzero_coefs=1, coding="class", preprocess="unit", random_state=0
        ).fit(X, y, sample_weight=weights)
        found.append(np.abs(model.components_).mean(axis=0))
    assert found[0][0] > found[0][1]
    assert found[1][1] > found[1][0]


def test_bad_weights():
    X, y, *_ = made(60)
    for make in (CoupledClassifier, SparseRepresentationClassifier):
        for weights in (np.zeros(60), np.r_[-1.0, np.ones(59)]):
            with pytest.raises(ValueError, match=r"sample_weight to have no negative|Sample weights must contain"):
                make().fit(X, y, sample_weight=weights)
        with pytest.raises(ValueError, match=r"sample_weight"):
            make().fit(X, y, sample_weight=np.ones(59))


# Files


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    X, y, new, _ = made(80)
    folder = tmp_path_factory.mktemp("models")
    for name, model in (
        ("blend", CoupledClassifier(random_state=0, n_dictionaries=2)),
        ("residuals", SparseRepresentationClassifier(preprocess=None)),
    ):
        model.fit(X, y).save(folder / name)
        same = coupledict.load(folder / name)
        np.testing.assert_array_equal(same.predict_proba(new), model.predict_proba(new))
        shown = ["n_nonzero_coefs_", *(["head_", "head_shares_", "n_components_"] if name == "blend" else ["coding_"])]
        assert all(getattr(same, own) == getattr(model, own) for own in shown)
    return folder


def refused(path, tensors, metadata):
    write_model(path, tensors, metadata)
    with pytest.raises(ModelFileError):
        coupledict.load(path)


def test_blends_that_contradict_themselves(saved, tmp_path):
    tensors, metadata = read_model(saved / "blend")
    path, source_head = tmp_path / "model", metadata["source_heads"]["0"]

    def with_head(**changed):
        return metadata | {"source_heads": {"0": source_head | changed}}

    for changed in (
        {"shares": {"magic": 1.0}},
        {"shares": {}},
        {"shares": dict.fromkeys(source_head["shares"], -0.5)},
        {"sizes": dict.fromkeys(source_head["sizes"], 0.0)},
        {"sizes": {}},
        {"shares": {"features": 1.0}},
        {"inverse_temperature": -1.0},
        {"alphas": []} if source_head["alphas"] else {"alphas": [1.0]},
    ):
        refused(path, tensors, with_head(**changed))
    refused(path, tensors, metadata | {"residual_coefs": 0})
    refused(path, tensors, metadata | {"residual_coefs": "many"})
    refused(path, tensors, metadata | {"fitted_with": metadata["fitted_with"] | {"head": "codes"}})
    refused(path, tensors | {"landmark_classes": tensors["landmark_classes"][::-1].copy()}, metadata)
    refused(path, tensors | {"landmark_classes": tensors["landmark_classes"] + 9}, metadata)
    refused(path, tensors | {"landmarks.0": 1e190 * tensors["landmarks.0"]}, metadata)
    refused(path, tensors | {"scaling.kernel.0": 1e190 * tensors["scaling.kernel.0"]}, metadata)
    refused(path, tensors | {"scaling.kernel.0": tensors["scaling.kernel.0"][1:]}, metadata)
    for lost in ("landmarks.0", "landmark_classes", "scaling.features.0"):
        refused(path, {name: array for name, array in tensors.items() if name != lost}, metadata)


def test_representations_that_contradict_themselves(saved, tmp_path):
    tensors, metadata = read_model(saved / "residuals")
    chosen = metadata["chosen"]
    for changed in (
        {"inverse_temperature": 0.0},
        {"inverse_temperature": "sharp"},
        {"inverse_temperature": None},
        {"coding": "auto"},
        {"preprocess": "whiten"},
        {"n_nonzero_coefs": 0},
        {"n_nonzero_coefs": "auto"},
    ):
        refused(tmp_path / "model", tensors, metadata | {"chosen": chosen | changed})
