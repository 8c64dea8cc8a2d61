"""Learners to files and back: the same bits, the same parameters, and a clear word for every file that lies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import coupledict
from coupledict import DictionaryLearning, ModelFileError, OnlineDictionaryLearning
from coupledict.files import read_model, write_model
from support.learners import plain


@pytest.fixture
def Xs(rng):
    sources = rng.standard_normal((120, 8)) * (rng.random((120, 8)) < 0.3)
    return [sources @ rng.standard_normal((8, p)) + 0.05 * rng.standard_normal((120, p)) for p in (6, 9, 4)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def make(**parameters):
    return plain(8, **({"n_nonzero_coefs": 2, "max_iter": 3, "random_state": 0} | parameters))


def there_and_back(learner, path):
    learner.save(path)
    return coupledict.load(path)


def bits(result):
    """Everything that makes up a result, down to the last bit."""
    if isinstance(result, list):
        return [bits(part) for part in result]
    if hasattr(result, "indptr"):
        return [bits(part) for part in (result.indptr, result.indices, result.data)]
    return result.dtype.str, result.shape, result.tobytes()


# Round trips

COUPLED = {
    "default": make(),
    "every number": make(
        tol=0.1 + 0.2, stop_tol=1e-300, ridge_alpha=0.7, schedule=[1, 2, 2], view_weights=[1, 2.5, 0.1]
    ),
    "NumPy numbers": make(n_nonzero_coefs=np.int64(2), tol=np.float32(0.3), view_weights=np.array([1, 2, 3])),
    "joint": make(normalize="joint", view_weights="balanced", update="ksvd", constant_atom=True),
    "support": make(coupling="support", update="sequential", unused_atoms="mean"),
    "letter": make(**coupledict.PAPER | {"init": "random"}),
    "online": OnlineDictionaryLearning(8, n_nonzero_coefs=2, batch_size=50, max_iter=3, forgetting=0.1, random_state=0),
    "lasso": OnlineDictionaryLearning(8, pursuit="lasso", alpha=0.5, batch_size=50, max_iter=1, random_state=0),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", COUPLED)
def test_round_trip(Xs, path, kind, dtype):
    Xs = [X.astype(dtype) for X in Xs]
    learner = COUPLED[kind].fit(Xs)
    same = there_and_back(learner, path)
    assert type(same) is type(learner)
    assert bits(same.components_) == bits(learner.components_)
    assert bits(same.view_weights_) == bits(learner.view_weights_)
    for given in (Xs, [Xs[0], None, Xs[2]]):
        assert bits(same.transform(given)) == bits(learner.transform(given))
        assert same.score(given) == learner.score(given)
        if learner.coupling == "code":
            assert bits(same.predict(given, view=1)) == bits(learner.predict(given, view=1))
    assert same.history_ == learner.history_
    assert same.n_iter_ == learner.n_iter_
    assert same.n_features_in_ == learner.n_features_in_
    for name, value in learner.get_params().items():
        np.testing.assert_equal(same.get_params()[name], value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse_output", [True, False])
def test_round_trip_of_a_single_view(Xs, path, dtype, sparse_output):
    X = Xs[0].astype(dtype)
    learner = DictionaryLearning(8, n_nonzero_coefs=2, max_iter=3, sparse_output=sparse_output, random_state=0).fit(X)
    same = there_and_back(learner, path)
    assert type(same) is DictionaryLearning
    assert bits(same.components_) == bits(learner.components_)
    assert bits(same.transform(X)) == bits(learner.transform(X))
    assert same.get_params() == learner.get_params()
    assert same.history_ == learner.history_
    assert same.n_features_in_ == 6
    assert not hasattr(same, "feature_names_in_")
    assert same.get_feature_names_out().tolist() == learner.get_feature_names_out().tolist()


def test_feature_names_are_kept(Xs, path):
    frame = pd.DataFrame(Xs[0], columns=list("abcdéf"))
    same = there_and_back(DictionaryLearning(8, max_iter=2).fit(frame), path)
    assert same.feature_names_in_.tolist() == list("abcdéf")
    assert same.transform(frame).shape == (120, 8)
    with pytest.raises(ValueError, match="feature names should match"):
        same.transform(frame[list("bacdéf")])


def test_refit_is_kept(Xs, path):
    learner = make().fit(Xs)
    given = [Xs[0], None, None]
    same = there_and_back(learner, path).predict(given, view=2)
    plain = learner.transform(given) @ learner.components_[2]
    assert np.abs(same - plain).max() > 1e-3, "not the learned dictionary"
    assert bits(same) == bits(learner.predict(given, view=2))


def test_what_is_not_data_comes_back_as_its_default(Xs, path):
    learner = make(
        schedule=lambda k, n_iter, limit: limit,
        growth=lambda k, n_iter, n: n,
        callback=lambda state: False,
        random_state=np.random.default_rng(0),
    ).fit(Xs)
    same = there_and_back(learner, path)
    assert (same.schedule, same.growth, same.callback, same.random_state) == ("auto", "auto", None, None)
    assert bits(same.transform(Xs)) == bits(learner.transform(Xs))


@pytest.mark.parametrize("widths", [(6, 9), (6, 6)])
def test_given_starts_are_not_kept(rng, path, widths):
    Xs = [rng.standard_normal((50, p)) for p in widths]
    learner = make(init=[rng.standard_normal((8, p)) for p in widths]).fit(Xs)
    same = there_and_back(learner, path)
    assert same.init == "auto"
    assert bits(same.components_) == bits(learner.components_)


def test_a_given_start_of_one_view_is_not_kept(rng, Xs, path):
    learner = DictionaryLearning(8, init=rng.standard_normal((8, 6)), max_iter=2).fit(Xs[0])
    assert there_and_back(learner, path).init == "auto"


def test_none_comes_back_as_none(Xs, path):
    same = there_and_back(make(growth=None, n_nonzero_coefs=None, tol=0.5).fit(Xs), path)
    assert same.growth is None
    assert same.n_nonzero_coefs is None


def test_a_loaded_model_can_be_fitted_and_saved_again(Xs, path):
    learner = make().fit(Xs)
    same = there_and_back(learner, path)
    contents = path.read_bytes()
    same.save(path)
    assert path.read_bytes() == contents
    assert bits(same.fit(Xs).components_) == bits(learner.components_)


def test_partial_fit_goes_on_after_load(Xs, path):
    """From the loaded dictionaries and with the loaded weights, not from scratch."""
    learner = make(max_iter=10, view_weights="balanced").fit(Xs)
    same = there_and_back(learner, path)
    batch = [X * scale for X, scale in zip(Xs, (1, 5, 0.2), strict=True)]
    same.partial_fit(batch)
    learner.partial_fit(batch)
    np.testing.assert_array_equal(same.view_weights_, learner.view_weights_)
    for D, E in zip(same.components_, learner.components_, strict=True):
        np.testing.assert_allclose(D, E, atol=1e-9)
    assert same.n_iter_ == learner.n_iter_ == 11


def test_partial_fit_of_a_single_view_goes_on_after_load(Xs, path):
    learner = DictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit(Xs[0])
    same = there_and_back(learner, path).partial_fit(Xs[0])
    np.testing.assert_allclose(same.components_, learner.partial_fit(Xs[0]).components_, atol=1e-9)


def test_partial_fit_of_an_online_learner_goes_on_after_load(Xs, path):
    learner = OnlineDictionaryLearning(8, n_nonzero_coefs=2, batch_size=50, max_iter=10, random_state=0).fit(Xs)
    before = learner.score(Xs)
    same = there_and_back(learner, path).partial_fit([X[:50] for X in Xs])
    assert same.score(Xs) > before - 0.02
    assert same.n_iter_ == 31


def test_warm_start_goes_on_after_load(Xs, path):
    learner = make(warm_start=True, growth=None, schedule="constant").fit(Xs)
    same = there_and_back(learner, path)
    assert same.fit(Xs).history_[0]["objective"] == learner.fit(Xs).history_[0]["objective"]


# Files


@pytest.mark.parametrize(
    "learner", [make(), DictionaryLearning(), OnlineDictionaryLearning()], ids=lambda m: type(m).__name__
)
def test_there_is_nothing_to_save_before_fit(learner, path):
    with pytest.raises(NotFittedError):
        learner.save(path)
    assert not path.exists()


@pytest.mark.parametrize("as_path", [str, lambda path: path])
def test_saving_replaces_a_file(Xs, path, as_path):
    path.write_text("something else")
    learner = make().fit(Xs)
    learner.save(as_path(path))
    assert bits(coupledict.load(as_path(path)).components_) == bits(learner.components_)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_save_that_fails_leaves_the_file_before(Xs, path, monkeypatch):
    old = make().fit(Xs)
    old.save(path)

    def full(*arguments):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(OSError, match="disk full"):
            make(random_state=1).fit(Xs).save(path)
    assert bits(coupledict.load(path).components_) == bits(old.components_)
    assert [file.name for file in path.parent.iterdir()] == [path.name], "nothing is left lying about"


def test_no_file(path):
    with pytest.raises(FileNotFoundError):
        coupledict.load(path)
    with pytest.raises(FileNotFoundError, match="Expected the folder"):
        make().fit([np.eye(8)]).save(path / "model")


def test_damaged_files(Xs, path):
    make().fit(Xs).save(path)
    contents = path.read_bytes()
    for damaged in (b"", contents[:100], contents[:-1], contents[:-5] + b"x" + contents[-4:], b"text" * 99):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"Expected .*model\.safetensors"):
            coupledict.load(path)


def new(name, change):
    """Change one tensor."""
    return lambda tensors, _: tensors.update({name: change(tensors)})


def without(*names):
    return lambda tensors, _: [tensors.pop(name) for name in names]


def with_metadata(**metadata):
    return lambda _, known: known.update(metadata)


def parameter(**values):
    return lambda _, known: known["parameters"].update(values)


LIES = {
    "no estimator": (lambda _, known: known.pop("estimator"), "estimator"),
    "unknown estimator": (with_metadata(estimator="Evil"), "unknown estimator 'Evil'"),
    "an estimator that is a list": (with_metadata(estimator=["DictionaryLearning"]), ""),
    "a single view that has three": (with_metadata(estimator="DictionaryLearning"), "parameter"),
    "no parameters": (lambda _, known: known.pop("parameters"), "parameters"),
    "parameters that are a list": (with_metadata(parameters=[]), ""),
    "unknown parameter": (parameter(color="red"), r"unknown parameters \['color'\]"),
    "self as a parameter": (parameter(self=1), "self"),
    "a count that is a word": (parameter(n_nonzero_coefs="many"), "n_nonzero_coefs"),
    "a count that is negative": (parameter(n_nonzero_coefs=-1), "n_nonzero_coefs"),
    "a pursuit that does not exist": (parameter(pursuit="evil"), "pursuit"),
    "a coupling that does not exist": (parameter(coupling="loose"), "coupling"),
    "no views": (with_metadata(n_views=0), "claims 0 views"),
    "views that are a word": (with_metadata(n_views="three"), "claims 'three' views"),
    "fewer views than weights": (with_metadata(n_views=2), "view weights do not fit"),
    "missing dictionary": (without("components.1"), "components.1"),
    "missing weights": (without("view_weights"), "view_weights"),
    "too many weights": (new("view_weights", lambda t: np.ones(4)), "view weights do not fit"),
    "negative weights": (new("view_weights", lambda t: -t["view_weights"]), "view weights do not fit"),
    "no positive weight": (new("view_weights", lambda t: np.zeros(3)), "weights"),
    "weights in float32": (new("view_weights", lambda t: np.ones(3, np.float32)), "view weights do not fit"),
    "fewer atoms in one view": (new("components.1", lambda t: t["components.1"][:-1]), "do not fit each other"),
    "a dictionary with one dimension": (new("components.1", lambda t: t["components.1"][0]), "do not fit each other"),
    "mixed number types": (new("components.1", lambda t: t["components.1"].astype("f4")), "mixed number types"),
    "dictionaries of whole numbers": (
        lambda t, _: t.update({k: v.astype(int) for k, v in t.items() if k.startswith("components")}),
        "mixed number types",
    ),
    "no atoms": (lambda t, _: t.update({k: v[:0] for k, v in t.items() if k != "view_weights"}), "at least one atom"),
    "a view without features": (
        lambda t, _: t.update({k: v[:, :0] for k, v in t.items() if k == "components.2" or k.endswith(".2")}),
        "at least one",
    ),
    "history that is a word": (with_metadata(history="long"), "history is not a list of records"),
    "history of numbers": (with_metadata(history=[1, 2]), "history is not a list of records"),
    "no history": (lambda _, known: known.pop("history"), "history"),
    "a refit of the wrong shape": (new("refit.0.1", lambda t: t["refit.0.1"][:, :-1]), "'refit.0.1' does not fit"),
    "a refit of another number type": (new("refit.0.1", lambda t: t["refit.0.1"].astype(int)), "'refit.0.1'"),
    "a refit for a view that is not there": (new("refit.0.7", lambda t: t["refit.0.1"]), "refit.0.7"),
    "a refit from a view that is not there": (new("refit.7.1", lambda t: t["refit.0.1"]), "'refit.7.1' does not fit"),
    "a refit with a name that is none": (new("refit.0", lambda t: t["refit.0.1"]), ""),
    "a refit from words": (new("refit.zero.1", lambda t: t["refit.0.1"]), ""),
    "a refit of one of its own sources": (new("refit.0.0", lambda t: t["components.0"]), "refit.0.0"),
}


@pytest.mark.parametrize("lie", LIES)
def test_files_that_lie(Xs, path, lie):
    """Well-formed files with a right checksum that no learner wrote."""
    make().fit(Xs).save(path)
    tensors, metadata = read_model(path)
    change, words = LIES[lie]
    change(tensors, metadata)
    write_model(path, tensors, metadata)
    with pytest.raises(ModelFileError, match=f"Expected .*model.safetensors.*{words}") as caught:
        coupledict.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("names", ["abc", ["a", "b"], [1, 2, 3, 4, 5, 6], None, {"a": 1}], ids=str)
def test_feature_names_that_lie(Xs, path, names):
    DictionaryLearning(8, max_iter=1).fit(Xs[0]).save(path)
    tensors, metadata = read_model(path)
    write_model(path, tensors, metadata | {"feature_names_in": names})
    with pytest.raises(ModelFileError):
        coupledict.load(path)


def test_a_single_view_that_has_two(Xs, path):
    learner = DictionaryLearning(8, max_iter=1).fit(Xs[0])
    learner.save(path)
    tensors, metadata = read_model(path)
    tensors |= {"components.1": tensors["components.0"], "view_weights": np.ones(2)}
    write_model(path, tensors, metadata | {"n_views": 2})
    with pytest.raises(ModelFileError, match="has one view, not 2"):
        coupledict.load(path)


def test_another_model_is_no_learner(path):
    write_model(path, {"atoms": np.eye(2)}, {"what": "a model of something else"})
    with pytest.raises(ModelFileError, match=r"Expected .* to hold a complete model"):
        coupledict.load(path)
