"""``coupledict fill``, and ``--missing`` of the commands for arrays."""

import json

import numpy as np
import pytest
import scipy.sparse
from PIL import Image
from skimage import data

import coupledict
from coupledict import CoupledDictionaryLearning
from coupledict.images import Inpainting
from support.command import call as run
from support.command import refused
from support.outputs import pixels_of

SHARP = data.rocket()[200:240, 290:340]
LOST = np.random.default_rng(0).random(SHARP.shape[:2]) < 0.4


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A damaged picture with its mask, the same with transparent holes, and the same in 16 bits."""
    folder = tmp_path_factory.mktemp("damaged")
    damaged = np.where(LOST[..., None], 0, SHARP).astype(np.uint8)
    Image.fromarray(damaged).save(folder / "damaged.png")
    Image.fromarray((LOST * 255).astype(np.uint8)).save(folder / "mask.png")
    Image.fromarray(np.dstack([damaged, np.where(LOST, 0, 255).astype(np.uint8)])).save(folder / "holes.png")
    Image.fromarray(np.dstack([damaged, np.full(LOST.shape, 90, np.uint8)])).save(folder / "pale.png")
    Image.fromarray(damaged[..., 1]).save(folder / "grey.png")
    return folder


@pytest.fixture(scope="module")
def whole():
    return Inpainting(random_state=0).fill(SHARP, LOST)


def test_a_picture_is_restored_where_the_mask_is_white(pictures, whole, tmp_path):
    out = tmp_path / "whole.png"
    done = run("fill", pictures / "damaged.png", "--mask", pictures / "mask.png", "-o", out)
    assert done.returncode == 0, done.stderr
    assert f"Filled {LOST.sum():,} pixels, {LOST.mean():.1%} of the picture." in done.stdout
    np.testing.assert_array_equal(pixels_of(out), whole)


def test_transparent_pixels_are_filled_without_a_mask_and_become_opaque(pictures, whole, tmp_path):
    out = tmp_path / "whole.png"
    done = run("fill", pictures / "holes.png", "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "command": "fill",
        "output": str(out),
        "width": 50,
        "height": 40,
        "filled": int(LOST.sum()),
        "share": LOST.mean(),
    }
    pixels = pixels_of(out)
    np.testing.assert_array_equal(pixels[..., :3], whole)
    assert (pixels[..., 3] == 255).all()


def test_alpha_is_kept_beside_a_mask_and_grey_stays_grey(pictures, whole, tmp_path):
    done = run("fill", pictures / "pale.png", "--mask", pictures / "mask.png", "-o", tmp_path / "pale.png")
    assert done.returncode == 0, done.stderr
    pixels = pixels_of(tmp_path / "pale.png")
    np.testing.assert_array_equal(pixels, np.dstack([whole, np.full(LOST.shape, 90, np.uint8)]))
    done = run("fill", pictures / "grey.png", "--mask", pictures / "mask.png", "-o", tmp_path / "grey.png")
    assert done.returncode == 0, done.stderr
    assert pixels_of(tmp_path / "grey.png").shape == LOST.shape


def test_bad_masks_are_one_sentence_each_and_nothing_is_written(pictures, tmp_path):
    out, damaged = tmp_path / "out.png", pictures / "damaged.png"
    Image.fromarray(np.zeros(LOST.shape, np.uint8)).save(tmp_path / "black.png")
    Image.fromarray(np.full(LOST.shape, 255, np.uint8)).save(tmp_path / "white.png")
    Image.fromarray(np.zeros((30, 20), np.uint8)).save(tmp_path / "small.png")
    assert "--mask" in refused(run("fill", damaged, "-o", out), code=2)
    assert "--mask" in refused(run("fill", pictures / "pale.png", "-o", out), code=2)
    assert "50 x 40 pixels, got 20 x 30" in refused(run("fill", damaged, "--mask", tmp_path / "small.png", "-o", out))
    assert "no white pixels" in refused(run("fill", damaged, "--mask", tmp_path / "black.png", "-o", out))
    assert "only white pixels" in refused(run("fill", damaged, "--mask", tmp_path / "white.png", "-o", out))
    assert "found none" in refused(run("fill", damaged, "--mask", tmp_path / "none.png", "-o", out))
    assert "ending in" in refused(run("fill", damaged, "--mask", pictures / "mask.png", "-o", tmp_path / "out.xyz"))
    assert not out.exists()


def test_an_existing_picture_is_kept_unless_forced(pictures, tmp_path):
    out = tmp_path / "out.png"
    out.write_text("mine")
    arguments = ("fill", pictures / "damaged.png", "--mask", pictures / "mask.png", "-o", out)
    assert "--force" in refused(run(*arguments), code=3)
    assert out.read_text() == "mine"
    assert run(*arguments, "--force").returncode == 0
    assert pixels_of(out).shape == SHARP.shape


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """Two views of which entries and whole rows are missing."""
    folder, rng = tmp_path_factory.mktemp("arrays"), np.random.default_rng(0)
    sources = rng.standard_normal((200, 3))
    views = {name: sources @ rng.standard_normal((3, width)) for name, width in (("left", 8), ("right", 5))}
    views["left"][rng.random((200, 8)) < 0.2] = np.nan
    views["right"][::4] = np.nan
    for name, view in views.items():
        np.save(folder / f"{name}.npy", view)
    return folder, views


def test_missing_entries_are_learned_from_coded_and_predicted_with_the_option(arrays, tmp_path):
    folder, views = arrays
    files = (folder / "left.npy", folder / "right.npy")
    model, codes, predicted = (tmp_path / name for name in ("model.safetensors", "codes.npz", "right.npy"))
    settings = ("--components", 12, "-T", 3, "--iterations", 5)
    done = run("learn", *files, "-o", model, *settings, "--missing")
    assert done.returncode == 0, done.stderr
    learner = CoupledDictionaryLearning(12, n_nonzero_coefs=3, max_iter=5, missing="nan", random_state=0).fit(views)
    np.testing.assert_array_equal(coupledict.load(model).components_["left"], learner.components_["left"])
    assert run("encode", model, *files, "-o", codes, "--missing").returncode == 0
    np.testing.assert_array_equal(scipy.sparse.load_npz(codes).toarray(), learner.transform(views).toarray())
    done = run("predict", model, files[0], "none", "--view", "right", "-o", predicted, "--missing")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(predicted), learner.predict({"left": views["left"]}, view="right"))


def test_a_model_of_complete_samples_takes_missing_entries_with_the_option_alone(arrays, tmp_path):
    folder, views = arrays
    complete = {name: np.nan_to_num(view) for name, view in views.items()}
    model, out = tmp_path / "model.safetensors", tmp_path / "out.npy"
    learner = CoupledDictionaryLearning(12, n_nonzero_coefs=3, max_iter=3, random_state=0).fit(complete)
    learner.save(model)
    files = (folder / "left.npy", folder / "right.npy")
    for words in (("encode", model, *files), ("predict", model, files[0], "none", "--view", "right")):
        assert "use --missing" in refused(run(*words, "-o", out))
        assert not out.exists()
        done = run(*words, "-o", out, "--missing")
        assert done.returncode == 0, done.stderr
        assert np.isfinite(np.load(out)).all()
        out.unlink()


def test_without_the_option_nan_is_an_error_that_names_it(arrays, tmp_path):
    folder, _ = arrays
    out = tmp_path / "model.safetensors"
    said = refused(run("learn", folder / "left.npy", folder / "right.npy", "-o", out))
    assert "got NaN" in said
    assert "use --missing" in said
    assert "missing='nan'" not in said
    assert not out.exists()


def test_the_option_is_refused_for_pictures(pictures, tmp_path):
    out = tmp_path / "model.safetensors"
    assert "--missing" in refused(run("learn", pictures, pictures, "-o", out, "--missing"), code=2)
