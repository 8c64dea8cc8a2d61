"""``coupledict learn``, ``encode`` and ``predict``, as a user runs them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
from PIL import Image
from scipy.ndimage import gaussian_filter

import coupledict
from coupledict.files import read_model
from coupledict.foundation.block_sizes import SIZES
from support.command import call, refused
from support.inner import ModelState

N_SAMPLES = 400


@pytest.fixture
def arrays(tmp_path, rng):
    """Two views of the same samples, one of patches and one of features."""
    sources = rng.standard_normal((N_SAMPLES, 6)) * (rng.random((N_SAMPLES, 6)) < 0.4)
    patches = (sources @ rng.standard_normal((6, 12))).reshape(-1, 3, 4)
    features = sources @ rng.standard_normal((6, 7))
    np.save(tmp_path / "patches.npy", patches)
    np.save(tmp_path / "features.npy", features)
    np.savez(tmp_path / "pairs.npz", patches=patches, features=features, other=np.ones((3, 2)))
    return patches.reshape(N_SAMPLES, -1), features


@pytest.fixture
def model(arrays, tmp_path):
    files = (tmp_path / "patches.npy", tmp_path / "features.npy")
    done = call("learn", *files, "-o", tmp_path / "m", "--components", 8, "-T", 3, "--iterations", 5)
    assert done.returncode == 0, done.stderr
    return tmp_path / "m"


def learned(arrays, **parameters):
    settings = {"n_nonzero_coefs": 3, "max_iter": 5, "random_state": 0} | parameters
    return coupledict.CoupledDictionaryLearning(8, **settings).fit(list(arrays))


def test_a_model_is_that_of_the_learner_and_remembers_its_samples(arrays, model):
    found, expected = coupledict.load(model), learned(arrays)
    for mine, theirs in zip(found.components_, expected.components_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    made = read_model(model)[1]["made"]
    assert made == {"views": ["patches", "features"], "patch_size": [[3, 4], None], "n_samples": N_SAMPLES}
    assert found.view_names_in_ == ("patches", "features")
    np.testing.assert_array_equal(found.components_["features"], expected.components_[1])


def test_what_was_learned_is_told_to_people_and_to_machines(arrays, tmp_path):
    files = (tmp_path / "patches.npy", tmp_path / "features.npy")
    asked = ("--components", 8, "-T", 3, "--iterations", 5)
    done = call("learn", *files, "-o", tmp_path / "a", *asked)
    assert f"Learned 8 atoms in 2 views (patches, features) from {N_SAMPLES} samples" in done.stdout
    assert done.stderr == ""
    reported = json.loads(call("learn", *files, "-o", tmp_path / "b", *asked, "--json").stdout)
    expected = learned(arrays)
    assert reported["command"] == "learn"
    assert reported["score"] == pytest.approx(expected.score(list(arrays)))
    assert reported["views"] == [{"name": "patches", "n_features": 12}, {"name": "features", "n_features": 7}]
    assert (reported["n_samples"], reported["iterations"], reported["n_components"]) == (N_SAMPLES, 5, 8)


def test_arrays_of_one_file_come_in_the_order_asked_for(arrays, tmp_path):
    asked = ("--components", 8, "-T", 3, "--iterations", 5, "--views", "features,patches")
    done = call("learn", tmp_path / "pairs.npz", "-o", tmp_path / "m", *asked)
    assert done.returncode == 0, done.stderr
    expected = learned(arrays[::-1])
    np.testing.assert_array_equal(coupledict.load(tmp_path / "m").components_[0], expected.components_[0])


def test_settings_reach_the_learner(arrays, tmp_path):
    files = (tmp_path / "patches.npy", tmp_path / "features.npy")
    asked = ("--tol", 0.5, "--update", "mod", "--schedule", "linear", "--pursuit", "ols", "--normalize", "joint")
    more = ("--init", "samples", "--unused", "worst", "--weights", "1,0.5", "--stop-tol", 0.01, "--seed", 3)
    done = call("learn", *files, "-o", tmp_path / "m", "-T", 3, *asked, *more, "--constant-atom", "--iterations", 4)
    assert done.returncode == 0, done.stderr
    found = coupledict.load(tmp_path / "m").get_params()
    expected = {
        "n_nonzero_coefs": 3,
        "tol": 0.5,
        "update": "mod",
        "schedule": "linear",
        "pursuit": "ols",
        "normalize": "joint",
        "init": "samples",
        "unused_atoms": "worst",
        "view_weights": [1.0, 0.5],
        "stop_tol": 0.01,
        "random_state": 3,
        "constant_atom": True,
        "max_iter": 4,
    }
    assert {key: found[key] for key in expected} == expected
    np.save(tmp_path / "squares.npy", arrays[0][:, :9])
    squares = (tmp_path / "squares.npy", tmp_path / "squares.npy")
    done = call("learn", *squares, "-o", tmp_path / "paper", "-T", 3, "--paper", "--iterations", 2)
    assert done.returncode == 0, done.stderr
    found = coupledict.load(tmp_path / "paper").get_params()
    assert {key: found[key] for key in coupledict.PAPER} == coupledict.PAPER


def test_signs_and_the_lasso_reach_the_learner(arrays, tmp_path):
    files = (tmp_path / "patches.npy", tmp_path / "features.npy")
    asked = ("--components", 8, "--iterations", 3, "--pursuit", "lasso", "--alpha", 0.2)
    done = call("learn", *files, "-o", tmp_path / "m", *asked, "--positive-code", "--positive-dict")
    assert done.returncode == 0, done.stderr
    model = coupledict.load(tmp_path / "m")
    assert (model.pursuit, model.alpha, model.positive_code, model.positive_dict) == ("lasso", 0.2, True, True)
    assert min(D.min() for D in model.components_) == 0
    assert call("encode", tmp_path / "m", *files, "-o", tmp_path / "codes.npy").returncode == 0
    codes = np.load(tmp_path / "codes.npy")
    np.testing.assert_array_equal(codes, model.transform(list(arrays)).toarray())
    assert codes.min() == 0 < codes.max()
    assert call("learn", *files, "-o", tmp_path / "free", *asked).returncode == 0
    free = coupledict.load(tmp_path / "free")
    assert (free.positive_code, free.positive_dict) == (False, False)
    assert free.components_[0].min() < 0


def test_learning_goes_on_from_a_checkpoint(arrays, tmp_path):
    files = (tmp_path / "patches.npy", tmp_path / "features.npy")
    kept, asked = tmp_path / "kept", ("-T", 3, "--components", 8, "--iterations", 6)
    whole = call("learn", *files, "-o", tmp_path / "whole", *asked, "--checkpoint", kept)
    assert whole.returncode == 0, whole.stderr
    again = call("learn", *files, "-o", tmp_path / "again", *asked, "--checkpoint", kept)
    assert "--resume" in refused(again, code=3)
    resumed = call("learn", *files, "-o", tmp_path / "again", *asked, "--checkpoint", kept, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    both = [coupledict.load(tmp_path / name).components_[0] for name in ("whole", "again")]
    np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("kept", [False, True])
def test_a_stopped_command_writes_no_model_and_tells_how_to_go_on(arrays, tmp_path, kept, monkeypatch):
    fit = coupledict.CoupledDictionaryLearning.fit

    def stop(progress):
        if progress.completed == 3:
            raise KeyboardInterrupt

    files = (tmp_path / "patches.npy", tmp_path / "features.npy")
    asked = ("-o", tmp_path / "m", "-T", 3, "--iterations", 6, "--components", 8)
    checkpoint = ("--checkpoint", tmp_path / "kept") if kept else ()
    with monkeypatch.context() as patched:
        patched.setattr(
            coupledict.CoupledDictionaryLearning,
            "fit",
            lambda self, *given, **options: fit(self.set_params(callback=stop), *given, **options),
        )
        done = call("learn", *files, *asked, *checkpoint)
    assert (done.returncode, done.stdout) == (130, "")
    hint = f"Stopped; the same command with --resume goes on from '{tmp_path / 'kept'}'.\n"
    assert done.stderr == (hint if kept else "Stopped.\n")
    assert not (tmp_path / "m").exists()
    if kept:
        assert call("learn", *files, *asked, *checkpoint, "--resume").returncode == 0
        whole = learned(arrays, max_iter=6)
        np.testing.assert_array_equal(coupledict.load(tmp_path / "m").components_[0], whole.components_[0])


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["patches.npy", "nothing.npy"], 1, "found none at"),
        (["patches.npy", "short.npy"], 1, "Expected the same number of samples in every view, got 400 and"),
        (["patches.npy", "pickled.npy"], 1, "to hold an array of numbers"),
        (["patches.npy", "text.npy"], 1, "to hold an array of numbers"),
        (["words.npy", "words.npy"], 1, "to hold real numbers"),
        (["line.npy", "line.npy"], 1, "to have one row per sample"),
        (["missing-numbers.npy"], 1, "NaN"),
        (["pairs.npz"], 1, "Expected the same number of samples"),
        (["pairs.npz", "--views", "patches,nothing"], 2, "(patches, features, other), got 'nothing'"),
        (["pairs.npz", "--views", "patches,patches"], 2, "each array once"),
        (["pairs.npz", "patches.npy"], 2, "one .npz file with all views"),
        (["patches.npy", "--views", "a"], 2, "only with one .npz file"),
        (["patches.npy", "--patch", "8"], 2, "--patch with folders"),
        (["patches.npy", "--keep-mean"], 2, "--keep-mean with folders"),
        (["patches.npy", "folder"], 2, "for all views or for none"),
        (["patches.npy", "--resume"], 2, "--resume together with --checkpoint"),
        (["patches.npy", "--weights", "heavy"], 2, "--weights to be numbers"),
        (["patches.npy", "--paper", "--unused", "keep"], 2, "--paper without --unused"),
        (["patches.npy", "--paper", "--positive-dict"], 2, "--paper without --positive-dict"),
        (["patches.npy", "--positive-dict", "--update", "ksvd"], 1, "Use update='statistics' or 'sequential'"),
        (["patches.npy", "--pursuit", "lasso"], 1, "Expected a positive alpha"),
        (["patches.npy", "--update", "magic"], 2, "'magic' is not one of"),
        (["patches.npy", "--components", "0"], 2, "--components"),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_nothing_is_written(arrays, tmp_path, arguments, code, sentence):
    np.save(tmp_path / "short.npy", np.ones((3, 2)))
    np.save(tmp_path / "pickled.npy", np.array([{}, {}]), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no array")
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "line.npy", np.ones(4))
    np.save(tmp_path / "missing-numbers.npy", np.full((4, 3), np.nan))
    (tmp_path / "folder").mkdir()
    files = [tmp_path / word if "." in word or word == "folder" else word for word in arguments]
    before = set(tmp_path.iterdir())
    assert sentence in refused(call("learn", *files, "-o", tmp_path / "m"), code=code)
    assert set(tmp_path.iterdir()) == before


def test_an_existing_model_is_kept_unless_forced(arrays, model, tmp_path):
    before = model.read_bytes()
    files = (tmp_path / "patches.npy", tmp_path / "features.npy")
    assert "--force" in refused(call("learn", *files, "-o", model), code=3)
    assert model.read_bytes() == before
    assert call("learn", *files, "-o", model, "--force", "-T", 2, "--iterations", 2).returncode == 0
    assert coupledict.load(model).n_nonzero_coefs == 2


# Pictures


@pytest.fixture
def folders(tmp_path, rng):
    for name in ("sharp", "soft"):
        (tmp_path / name).mkdir()
    for name in ("one", "two"):
        picture = (255 * rng.random((40, 50))).astype(np.uint8)
        Image.fromarray(picture).save(tmp_path / "sharp" / f"{name}.png")
        Image.fromarray(gaussian_filter(picture, 1)).save(tmp_path / "soft" / f"{name}.tif")
    Image.fromarray(picture).save(tmp_path / "sharp" / "alone.png")
    (tmp_path / "soft" / "notes.txt").write_text("no picture")
    return tmp_path / "sharp", tmp_path / "soft"


def test_patches_of_pictures_are_cut_at_the_same_places(folders, tmp_path):
    asked = ("--patch", 5, "--patches", 600, "-T", 3, "--iterations", 3, "--components", 30)
    done = call("learn", *folders, "-o", tmp_path / "m", *asked)
    assert done.returncode == 0, done.stderr
    assert f"Left out pictures of {folders[0]} without a partner: alone.png." in done.stdout
    made = read_model(tmp_path / "m")[1]["made"]
    assert (made["patch_size"], made["views"], made["centred"]) == ([[5, 5]] * 2, ["sharp", "soft"], True)
    assert made["n_samples"] == 600
    model = coupledict.load(tmp_path / "m")
    assert np.abs(model.components_[0].mean(axis=1)).max() < 1e-5  # learned from patches without their mean
    # White noise and its blurred copy have codes in common only if the patches lie at the same places.
    picture = np.asarray(Image.open(folders[0] / "one.png")).astype(float)
    there = np.lib.stride_tricks.sliding_window_view(picture, (5, 5)).reshape(-1, 25)
    soft = np.asarray(Image.open(folders[1] / "one.tif")).astype(float)
    wanted = np.lib.stride_tricks.sliding_window_view(soft, (5, 5)).reshape(-1, 25)
    there, wanted = (rows - rows.mean(axis=1, keepdims=True) for rows in (there, wanted))
    error = np.mean((model.predict([there, None], view=1) - wanted) ** 2)
    assert error < 0.8 * np.mean(wanted**2)


def test_a_picture_is_predicted_from_another(folders, tmp_path):
    asked = ("--patch", 4, "-T", 4, "--iterations", 5, "--components", 40)
    for colour in ((), ("--colour",)):
        model = tmp_path / f"m{len(colour)}"
        assert call("learn", *folders, "-o", model, *asked, *colour).returncode == 0
        out = tmp_path / f"out{len(colour)}.png"
        with SIZES.changed(patch_bytes=10 * 47 * 16 * 4):  # four bands
            done = call("predict", model, "--view", 1, folders[0] / "one.png", "none", "-o", out)
        assert done.returncode == 0, done.stderr
        assert "50 x 40 pixels" in done.stdout
        sharp, soft = (
            np.asarray(Image.open(f)).astype(float) for f in (folders[0] / "one.png", folders[1] / "one.tif")
        )
        found = np.asarray(Image.open(out)).astype(float)
        found = found if found.ndim == 2 else found.mean(axis=2)
        assert np.mean((found - soft) ** 2) < 0.1 * np.mean((sharp - soft) ** 2)
    assert "exists already" in refused(
        call("predict", model, "--view", 1, folders[0] / "one.png", "none", "-o", out), code=3
    )


def test_folders_that_do_not_fit_are_one_sentence_each(folders, tmp_path, rng):
    (tmp_path / "empty").mkdir()
    (tmp_path / "else").mkdir()
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(tmp_path / "else" / "three.png")
    assert "found none" in refused(call("learn", folders[0], tmp_path / "empty", "-o", tmp_path / "m"), code=1)
    assert "of the same names" in refused(call("learn", folders[0], tmp_path / "else", "-o", tmp_path / "m"), code=1)
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(tmp_path / "else" / "one.png")
    refusal = refused(call("learn", folders[0], tmp_path / "else", "-o", tmp_path / "m"), code=1)
    assert "50 x 40 pixels in" in refusal
    assert "and 9 x 9 in" in refusal
    one = (tmp_path / "else", "-o", tmp_path / "m", "--patch", 12)
    assert "no smaller than a patch" in refused(call("learn", *one), code=1)


# Codes and predictions


@pytest.mark.parametrize("name", ["codes.npz", "codes.npy", "codes", "codes.zarr"])
def test_codes_are_those_of_the_learner_however_they_are_written(arrays, model, tmp_path, name):
    out = tmp_path / name
    given = (tmp_path / "patches.npy", tmp_path / "features.npy")
    with SIZES.changed(coded_bytes=100 * 19 * 8):  # four parts
        done = call("encode", model, *given, "-o", out)
    assert done.returncode == 0, done.stderr
    expected = coupledict.load(model).transform(list(arrays)).toarray()
    how = {".npz": "scipy.sparse.load_npz", ".npy": "numpy.load"}.get(out.suffix, "coupledict.open_codes")
    assert f"{how}({str(out)!r})" in done.stdout
    readers = {"scipy.sparse.load_npz": scipy.sparse.load_npz, "numpy.load": np.load}
    found = readers[how](out) if how in readers else coupledict.open_codes(out).load()
    found = found if isinstance(found, np.ndarray) else found.toarray()
    np.testing.assert_array_equal(found, expected)
    assert "exists already" in refused(call("encode", model, *given, "-o", out), code=3)
    done = call("encode", model, "none", given[1], "-o", out, "--force", "--json")
    reported = json.loads(done.stdout)
    assert reported["shape"] == [N_SAMPLES, 8]
    assert reported["nonzeros"] == np.count_nonzero(coupledict.load(model).transform([None, arrays[1]]).toarray())
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_a_folder_that_holds_no_codes_is_never_replaced(arrays, model, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    given = (tmp_path / "patches.npy", tmp_path / "features.npy")
    refused(call("encode", model, *given, "-o", tmp_path / "mine", "--force"), code=1)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_a_view_is_predicted_from_another(arrays, model, tmp_path):
    out = tmp_path / "out.npy"
    done = call("predict", model, "--view", 1, tmp_path / "patches.npy", "-", "-o", out)
    assert done.returncode == 0, done.stderr
    expected = coupledict.load(model).predict([arrays[0], None], view=1)
    np.testing.assert_array_equal(np.load(out), expected)
    packed = ("--views", "patches,none", tmp_path / "pairs.npz")
    assert call("predict", model, "--view", 1, *packed, "-o", tmp_path / "same.npy").returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "same.npy"), expected)


def test_a_view_is_named_or_numbered_in_new_models_and_in_old_ones(arrays, model, tmp_path):
    state = ModelState.read(model)
    before = tmp_path / "before"
    facts = {key: value for key, value in state.facts.items() if key != "view_names_in"}
    ModelState(state.estimator, state.parameters, state.tensors, facts).write(before)
    assert not hasattr(coupledict.load(before), "view_names_in_")
    expected = coupledict.load(model).predict({"patches": arrays[0]}, view="features")
    for number, (file, view) in enumerate([(model, "features"), (model, 1), (before, "features"), (before, 1)]):
        out = tmp_path / f"{number}.npy"
        done = call("predict", file, "--view", view, tmp_path / "patches.npy", "none", "-o", out)
        assert done.returncode == 0, done.stderr
        assert "Predicted view 1 (features)" in done.stdout
        np.testing.assert_array_equal(np.load(out), expected)
    refusal = refused(call("predict", model, "--view", "sound", tmp_path / "patches.npy", "-", "-o", out), code=2)
    assert "one of patches, features, got 'sound'" in refusal


def test_arrays_with_the_names_of_the_views_are_taken_by_name(arrays, model, tmp_path):
    np.savez(tmp_path / "turned.npz", features=arrays[1], patches=arrays[0])
    np.savez(tmp_path / "part.npz", features=arrays[1])
    for name, given in (("turned", list(arrays)), ("part", [None, arrays[1]])):
        out = tmp_path / f"{name}.npy"
        done = call("encode", model, tmp_path / f"{name}.npz", "-o", out)
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(np.load(out), coupledict.load(model).transform(given).toarray())


def test_views_of_the_same_name_are_known_by_number(arrays, tmp_path):
    (tmp_path / "other").mkdir()
    np.save(tmp_path / "other" / "patches.npy", arrays[1])
    files = (tmp_path / "patches.npy", tmp_path / "other" / "patches.npy")
    done = call("learn", *files, "-o", tmp_path / "m", "--components", 8, "-T", 3, "--iterations", 2)
    assert done.returncode == 0, done.stderr
    assert not hasattr(coupledict.load(tmp_path / "m"), "view_names_in_")
    out = tmp_path / "out.npy"
    assert call("predict", tmp_path / "m", "--view", 1, files[0], "none", "-o", out).returncode == 0
    refusal = refused(call("predict", tmp_path / "m", "--view", "patches", files[0], "-", "-o", out), code=2)
    assert "a number from 0 to 1, got 'patches'" in refusal


def test_views_that_do_not_fit_the_model_are_one_sentence_each(arrays, model, tmp_path):
    patches, features, out = tmp_path / "patches.npy", tmp_path / "features.npy", tmp_path / "out.npy"
    assert "Expected 2 views" in refused(call("encode", model, patches, "-o", out), code=2)
    assert "Expected 12 features in view 0" in refused(call("encode", model, features, patches, "-o", out), code=1)
    assert "at least one view" in refused(call("encode", model, "none", "-", "-o", out), code=2)
    assert "ending in .npz" in refused(call("encode", model, patches, features, "-o", tmp_path / "c.txt"), code=2)
    assert "from 0 to 1, got 2" in refused(call("predict", model, patches, "-", "--view", 2, "-o", out), code=2)
    assert "other than the one to predict" in refused(
        call("predict", model, patches, "-", "--view", 0, "-o", out), code=2
    )
    assert "folders of pictures" in refused(
        call("predict", model, patches, "-", "--view", 1, "-o", tmp_path / "out.png"), code=1
    )
    assert "Missing option '--view'" in refused(call("predict", model, patches, "-", "-o", out), code=2)
    assert call("learn", patches, "-o", tmp_path / "one", "-T", 2, "--iterations", 2).returncode == 0
    assert "one view" in refused(call("predict", tmp_path / "one", patches, "--view", 0, "-o", out), code=1)
    coupledict.DictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit(arrays[0]).save(tmp_path / "single")
    assert call("encode", tmp_path / "single", patches, "-o", out).returncode == 0
    both = coupledict.CoupledDictionaryLearning(8, n_nonzero_coefs=2, coupling="support", max_iter=2, random_state=0)
    both.fit(list(arrays)).save(tmp_path / "support")
    assert "coupling='support'" in refused(
        call("encode", tmp_path / "support", patches, features, "-o", tmp_path / "c"), code=1
    )
