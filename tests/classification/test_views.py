"""CoupledClassifier with several feature views, of which any may be absent; and classifiers in files."""

from __future__ import annotations

import numpy as np
import pytest

import coupledict
from coupledict import sparse_encode
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.files import ModelFileError, read_model, write_model


def make(**parameters):
    return CoupledClassifier(
        **({"n_components": 20, "n_dictionaries": 2, "max_iter": 4, "random_state": 0} | parameters)
    )


def two_domains(rng, n=300, n_views=2, n_classes=4, noise=0.4):
    """Views that are linear pictures of the same hidden causes, and the classes of those."""
    y = np.arange(n) % n_classes
    causes = 2 * rng.standard_normal((n_classes, 5))[y] + noise * rng.standard_normal((n, 5))
    return [
        causes @ rng.standard_normal((5, 7 + v)) + noise * rng.standard_normal((n, 7 + v)) for v in range(n_views)
    ], y


@pytest.fixture
def data(rng):
    return two_domains(rng)


def part(Xs, rows):
    return [X[rows] for X in Xs]


def test_any_view_may_be_absent(data):
    Xs, y = data
    model = make().fit(part(Xs, slice(0, 200)), y[:200])
    test, truth = part(Xs, slice(200, None)), y[200:]
    for given in (test, [test[0], None], [None, test[1]], tuple(test)):
        assert model.score(given, truth) > 0.9
        assert model.predict_proba(given).shape == (100, 4)
    assert model.n_features_in_ == [7, 8]
    assert not np.allclose(model.decision_function(test), model.decision_function([test[0], None]))


def test_each_set_of_views_has_a_head_for_its_codes(data):
    Xs, y = data
    model = make(n_dictionaries=1, n_nonzero_coefs=4, head="codes", preprocess=None).fit(Xs, y)
    atoms = model.learners_[0].components_[1]
    codes = sparse_encode(Xs[1], atoms, n_nonzero_coefs=4).toarray()
    np.testing.assert_array_equal(model.encode([None, Xs[1]], learner=0).toarray(), codes)
    codes *= np.linalg.norm(atoms, axis=1) * np.sqrt(model.learners_[0].view_weights_[1])
    head = model._recognizer.source_heads[(1,)].code_heads[0]
    expected = codes @ head.coef + head.intercept
    np.testing.assert_allclose(model.decision_function([None, Xs[1]]), expected, atol=1e-9)
    residual = np.eye(4)[y] - expected
    np.testing.assert_allclose(residual.mean(axis=0), 0, atol=1e-9)  # an intercept of its own, fitted to these codes


def test_one_view_in_a_list_is_the_view(data):
    Xs, y = data
    listed, plain = make().fit([Xs[0]], y), make().fit(Xs[0], y)
    np.testing.assert_array_equal(listed.decision_function([Xs[0]]), plain.decision_function(Xs[0]))


def test_more_views_than_sets_have_heads(rng):
    Xs, y = two_domains(rng, n_views=5)
    model = make(n_dictionaries=1).fit(Xs, y)
    assert (1, 3) not in model._recognizer.source_heads
    alone = [model.decision_function([X if v == w else None for w, X in enumerate(Xs)]) for v in (1, 3)]
    given = [X if v in (1, 3) else None for v, X in enumerate(Xs)]
    np.testing.assert_allclose(model.decision_function(given), np.mean(alone, axis=0))
    assert model.score(given, y) > 0.9


def labels_in_one_domain(Xs, y):
    """A third has a label and the first view, the rest has both views and no label."""
    n = y.size
    labelled = np.arange(n) % 3 == 0
    second = np.where(labelled[:, None], np.nan, Xs[1])
    return [Xs[0], second], np.where(labelled, y, -1)


def test_labels_are_carried_to_the_other_view(rng):
    Xs, y = two_domains(rng, n=500)
    train, truth = labels_in_one_domain(part(Xs, slice(0, 400)), y[:400])
    model = make(unlabeled=-1, missing="nan").fit(train, truth)
    for given in ([None, Xs[1][400:]], [Xs[0][400:], None], part(Xs, slice(400, None))):
        assert model.score(given, y[400:]) > 0.9
    # Samples may differ in what they have, and each is classified by that.
    mixed = [np.where((np.arange(100) % 2 == v)[:, None], np.nan, X[400:]) for v, X in enumerate(Xs)]
    found = model.decision_function(mixed)
    np.testing.assert_allclose(found[::2], model.decision_function([None, Xs[1][400::2]]))
    np.testing.assert_allclose(found[1::2], model.decision_function([Xs[0][401::2], None]))
    probabilities = model.predict_proba(mixed)
    np.testing.assert_allclose(probabilities[::2], model.predict_proba([None, Xs[1][400::2]]))


def test_no_views_with_all_classes(data):
    """Two classes have labels in the one view only, two in the other."""
    Xs, y = data
    lacking = np.stack([y < 2, y > 1], axis=1) & (np.arange(300) < 200)[:, None]
    apart = [np.where(lacking[:, [v]], np.nan, X) for v, X in enumerate(Xs)]
    with pytest.raises(ValueError, match="a view in which every class has labelled samples, got none"):
        make(unlabeled=-1, missing="nan").fit(apart, np.where(np.arange(300) < 200, y, -1))


def test_a_view_that_no_label_reaches(rng):
    """Pairs of the views are in the samples with all of them; here those are not classified from the other view."""
    Xs, y = two_domains(rng, n_views=2)
    model = make().fit(Xs, y)
    del model._recognizer.source_heads[(1,)]
    with pytest.raises(ValueError, match=r"got views \[1\] only"):
        model.predict([None, Xs[1]])


def test_bad_views(data):
    Xs, y = data
    model = make().fit(Xs, y)
    for given, words in (
        ([Xs[0]], "Expected 2 views in X"),
        ([None, None], "at least one view in X, got only None"),
        ([Xs[0], Xs[1][1:]], "same number of samples"),
        ([Xs[1], None], r"Expected X\[0\] to have 7 features, as in fit, got 8"),
        ([Xs[0][:0], None], "at least one sample"),
        ([np.where(Xs[0] == Xs[0].max(), np.nan, Xs[0]), None], r"X\[0\] to be finite, got NaN in sample"),
        (Xs[0], "list of arrays"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            model.predict(given)
    for given, words in (
        ([Xs[0], None], r"got None for X\[1\]"),
        ([Xs[0], Xs[1][1:]], "same number of samples in every view"),
        ([], "at least one view"),
        ([Xs[0], np.where(Xs[1] == Xs[1].max(), np.nan, Xs[1])], "use missing='nan'"),
    ):
        with pytest.raises(ValueError, match=words):
            make().fit(given, y)


# Files


MODELS = [
    lambda Xs, y: (make().fit(Xs[0], y), Xs[0]),
    lambda Xs, y: (make(label_consistency=1.0).fit(Xs, np.array(["a", "bb", "c", "d"])[y]), [None, Xs[1]]),
    lambda Xs, y: (make(unlabeled=0).fit(Xs, y.astype(float)), Xs),
    lambda Xs, y: (make(head="dictionary").fit([X.astype(np.float32) for X in Xs], y > 1), [Xs[0], None]),
    lambda Xs, y: (SparseRepresentationClassifier().fit(Xs[0], np.array(["a", "bb", "c", "d"], object)[y]), Xs[0]),
    lambda Xs, y: (SparseRepresentationClassifier("learned", coding="class", random_state=0).fit(Xs[0], y), Xs[0]),
]


@pytest.mark.parametrize("fitted", MODELS)
def test_saved_models_come_back_to_the_last_bit(data, tmp_path, fitted):
    model, given = fitted(*data)
    model.save(tmp_path / "model.safetensors")
    same = coupledict.load(tmp_path / "model.safetensors")
    assert type(same) is type(model)
    np.testing.assert_array_equal(same.decision_function(given), model.decision_function(given))
    np.testing.assert_array_equal(same.predict(given), model.predict(given))
    assert same.predict(given).dtype == model.predict(given).dtype
    assert same.n_features_in_ == model.n_features_in_
    assert same.get_params() == model.get_params()
    if isinstance(model, CoupledClassifier):
        np.testing.assert_array_equal(same.predict_proba(given), model.predict_proba(given))
        assert hasattr(same, "atom_classes_") == hasattr(model, "atom_classes_")


def test_names_are_saved(data, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data[0][0], columns=[f"f{i}" for i in range(7)])
    for model in (make(), SparseRepresentationClassifier()):
        model.fit(frame, data[1]).save(tmp_path / "model.safetensors")
        same = coupledict.load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(same.predict(frame), model.predict(frame))
        with pytest.raises(ValueError, match="feature names"):
            same.predict(frame.rename(columns={"f0": "other"}))


@pytest.mark.parametrize("coupled", [True, False])
def test_files_that_contradict_themselves(data, tmp_path, coupled):
    Xs, y = data
    path = tmp_path / "model.safetensors"
    model = make().fit(Xs, y) if coupled else SparseRepresentationClassifier().fit(Xs[0], y)
    model.save(path)
    tensors, metadata = read_model(path)
    coupledict.load(path)

    def refused(changed_tensors, changed_metadata):
        write_model(path, tensors | changed_tensors, metadata | changed_metadata)
        with pytest.raises(ModelFileError):
            coupledict.load(path)

    for name, array in tensors.items():
        if array.ndim:
            refused({name: np.concatenate([array, array], axis=0)}, {})
    refused({}, {"classes": [1]})
    refused({}, {"classes_dtype": "V8"})
    refused({}, {"parameters": {"colour": "red"}})
    refused({}, {"feature_names_in": ["a"]})
    if coupled:
        refused({}, {"source_heads": {"7": metadata["source_heads"]["0"]}})
        refused({}, {"dtype": "int64"})
        refused({}, {"n_views": 3})
        refused({}, {"history": [1, 2]})
    else:
        refused({"atom_classes": tensors["atom_classes"][::-1].copy()}, {})


def test_labels_that_no_file_holds(data, tmp_path):
    Xs, y = data
    model = make().fit(Xs[0], y)
    model.classes_ = np.array([(1, 2), "b", "c", "d"], dtype=object)
    with pytest.raises(TypeError, match="labels that are numbers or strings"):
        model.save(tmp_path / "model.safetensors")
