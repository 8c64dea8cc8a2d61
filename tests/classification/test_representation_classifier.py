"""SparseRepresentationClassifier: class residuals against a slow twin, and scikit-learn's contract."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import OrthogonalMatchingPursuit
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from coupledict.classification import SparseRepresentationClassifier
from coupledict.foundation.block_sizes import SIZES

WEIGHTED = {
    "check_sample_weight_equivalence_on_dense_data": "Folds are drawn by samples: a sample that comes twice may be left"
    " out once, one of weight 2 may not."
}


@parametrize_with_checks(
    [SparseRepresentationClassifier(n_components=10, n_nonzero_coefs=1, coding="class", preprocess="common")],
    expected_failed_checks=lambda estimator: WEIGHTED,
)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        SparseRepresentationClassifier(),
        SparseRepresentationClassifier("learned", n_components=5, n_nonzero_coefs=4, preprocess="common"),
    ],
    expected_failed_checks=lambda estimator: WEIGHTED,
)
def test_scikit_learn_compatible_in_other_settings(estimator, check):
    check(estimator)


@pytest.fixture
def Xy(rng):
    y = rng.permutation(np.arange(60) % 3)
    return 2 * rng.standard_normal((3, 9))[y] + rng.standard_normal((60, 9)), y


def slow_residuals(samples, atoms, atom_classes, n_nonzero, *, joint):
    """Sample by sample, class by class, with scikit-learn's pursuit."""
    found = np.empty((len(samples), atom_classes.max() + 1))
    units = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    for i, sample in enumerate(samples):
        for label in range(found.shape[1]):
            own = atom_classes == label
            allowed = np.ones_like(own) if joint else own
            pursuit = OrthogonalMatchingPursuit(n_nonzero_coefs=n_nonzero, fit_intercept=False)
            code = np.zeros(len(atoms))
            code[allowed] = pursuit.fit(units[allowed].T, sample).coef_
            found[i, label] = np.linalg.norm(sample - (code * own) @ units)
    return found


@pytest.mark.parametrize("coding", ["joint", "class"])
@pytest.mark.parametrize("atoms", ["samples", "learned"])
def test_residuals(rng, Xy, atoms, coding):
    X, y = Xy
    model = SparseRepresentationClassifier(
        atoms, n_components=8, n_nonzero_coefs=3, coding=coding, preprocess="unit", random_state=0
    ).fit(X, y)
    new = rng.standard_normal((25, 9))
    samples = new / np.linalg.norm(new, axis=1, keepdims=True)
    expected = slow_residuals(samples, model.components_, model.atom_classes_, 3, joint=coding == "joint")
    with SIZES.changed(residual_rows=7):  # several pieces
        np.testing.assert_allclose(model.decision_function(new), -expected, atol=1e-9)
        np.testing.assert_array_equal(model.predict(new), expected.argmin(axis=1))
    assert model.components_.shape == (24, 9)
    assert model.atom_classes_.tolist() == [0] * 8 + [1] * 8 + [2] * 8


def test_samples_are_atoms(Xy):
    X, y = Xy
    model = SparseRepresentationClassifier(preprocess=None).fit(X, y)
    np.testing.assert_array_equal(model.components_, X[np.argsort(y, kind="stable")])
    assert model.score(X, y) == 1, "each sample is its own atom"
    np.testing.assert_allclose(model.decision_function(X).max(axis=1), 0, atol=1e-9)
    assert model.n_iter_ == 1


def test_drawn_samples_belong_to_their_class(Xy):
    X, y = Xy
    model = SparseRepresentationClassifier(preprocess=None, n_components=4, random_state=1).fit(X, y)
    for atom, label in zip(model.components_, model.atom_classes_, strict=True):
        assert label in y[(atom == X).all(axis=1)]
    assert len(np.unique(model.components_, axis=0)) == 12


def test_learned_atoms_represent_their_class_better_than_drawn_ones(rng):
    y = np.arange(400) % 2
    bases = rng.standard_normal((2, 3, 12))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((400, 3)), bases[y]) + 0.05 * rng.standard_normal((400, 12))
    scores = {
        kind: SparseRepresentationClassifier(kind, n_components=3, n_nonzero_coefs=3, preprocess="unit", random_state=0)
        .fit(X[:200], y[:200])
        ._residuals(X[200:])[np.arange(200), y[200:]]
        .mean()
        for kind in ("samples", "learned")
    }
    assert scores["learned"] < 0.7 * scores["samples"]


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("atoms", ["samples", "learned"])
def test_good_without_tuning(load, atoms):
    X, y = load(return_X_y=True)
    assert cross_val_score(SparseRepresentationClassifier(atoms, random_state=0), X, y, cv=5).mean() > 0.92


@pytest.mark.parametrize("atoms", ["samples", "learned"])
def test_half_of_the_irises_tell_the_other_half(atoms):
    X, y = load_iris(return_X_y=True)
    assert SparseRepresentationClassifier(atoms, random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.92


def test_two_classes_and_strings(Xy):
    X, y = Xy
    names = np.array(["high", "low"])[(y > 0).astype(int)]
    model = SparseRepresentationClassifier().fit(X, names)
    scores = model.decision_function(X)
    assert scores.shape == (60,)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "low", "high"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_number_types(Xy, dtype):
    X, y = Xy
    model = SparseRepresentationClassifier("learned", random_state=0).fit(X.astype(dtype), y)
    assert model.components_.dtype == model.decision_function(X.astype(dtype)).dtype == dtype


def test_same_for_any_number_of_threads(Xy):
    X, y = Xy
    one, two = (SparseRepresentationClassifier("learned", n_jobs=n, random_state=0).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_clone_and_pickle(Xy):
    X, y = Xy
    model = SparseRepresentationClassifier("learned", random_state=0).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), model.decision_function(X))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def test_bad_input(Xy):
    X, y = Xy
    for parameters, words in (
        ({"atoms": "classes"}, "atoms to be one of"),
        ({"coding": "both"}, "coding to be one of"),
        ({"n_components": 0}, "n_components to be at least 1"),
        ({"n_nonzero_coefs": 0}, "n_nonzero_coefs to be at least 1"),
        ({"preprocess": "center"}, "preprocess to be one of"),
        ({"pursuit": "lars"}, r"pursuit to be one of \('omp', 'ols'\)"),
    ):
        with pytest.raises(ValueError, match=words):
            SparseRepresentationClassifier(**parameters).fit(X, y)
    with pytest.raises(ValueError, match="got one class"):
        SparseRepresentationClassifier().fit(X, np.zeros(60))
    with pytest.raises(ValueError, match="Use CoupledClassifier for those"):
        SparseRepresentationClassifier().fit([X, X], y)
    with pytest.raises(ValueError, match="X to be finite, got NaN in sample"):
        SparseRepresentationClassifier().fit(np.where(X.max() == X, np.nan, X), y)
