"""``coupledict stain``: the pictures that the library makes, as files, and sentences for what cannot be."""

import json

import numpy as np
import pytest
from PIL import Image

import coupledict
from coupledict.images import StainSeparator
from support.command import call as run
from support.command import refused
from support.outputs import pixels_of
from support.tissue import DENSITIES, ONE_LOOK, OTHER_LOOK, eight_bits, light, tissue

SOURCE = eight_bits(light(DENSITIES, ONE_LOOK, noise=0.005))
TARGET = eight_bits(light(tissue(5), OTHER_LOOK, (0.95, 0.94, 0.9), noise=0.005))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stained")
    alpha = np.full(SOURCE.shape[:2], 90, np.uint8)
    contents = {
        "source": SOURCE,
        "target": TARGET,
        "pale": np.dstack([SOURCE, alpha]),
        "grey": SOURCE[..., 1],
        "blank": np.full((40, 50, 3), 244, np.uint8),
        "eosin": eight_bits(light(DENSITIES[..., 1:], ONE_LOOK[1:], noise=0.005)),
    }
    for name, pixels in contents.items():
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder


@pytest.fixture(scope="module")
def look():
    return StainSeparator().fit(TARGET)


def test_a_picture_gets_the_look_of_another(pictures, look, tmp_path):
    out = tmp_path / "normal.png"
    done = run("stain", pictures / "source.png", "--target", pictures / "target.png", "-o", out)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(pixels_of(out), look.normalize(SOURCE))
    source, target, wrote = done.stdout.splitlines()
    assert source.startswith("Source: hematoxylin (0.6")
    assert target.startswith("Target: hematoxylin (0.7")
    assert "background (24" in target
    assert wrote == f"Wrote {out}."


def test_the_look_and_the_densities_are_kept(pictures, look, tmp_path):
    out, model, prefix = tmp_path / "normal.png", tmp_path / "look.safetensors", tmp_path / "source"
    arguments = ("stain", pictures / "pale.png", "--target", pictures / "target.png", "-o", out, "--json")
    done = run(*arguments, "--save-model", model, "--densities", prefix, "--threads", 2)
    assert done.returncode == 0, done.stderr
    reported, own = json.loads(done.stdout), StainSeparator().fit(SOURCE)
    maps = [tmp_path / "source-hematoxylin.png", tmp_path / "source-eosin.png"]
    assert reported["densities"] == [str(file) for file in maps]
    assert (reported["command"], reported["output"], reported["model"]) == ("stain", str(out), str(model))
    assert (reported["width"], reported["height"]) == SOURCE.shape[1::-1]
    for name, stains in (("source", own), ("target", look)):
        np.testing.assert_allclose(reported[name]["stains"], stains.stain_matrix_, atol=1e-6)
        np.testing.assert_allclose(reported[name]["white"], stains.white_, atol=1e-6)
        np.testing.assert_allclose(reported[name]["max_density"], stains.max_density_, atol=1e-6)
    pixels = pixels_of(out)
    np.testing.assert_array_equal(pixels[..., :3], look.normalize(SOURCE))
    assert (pixels[..., 3] == 90).all()
    found = own.transform(SOURCE)
    for number, file in enumerate(maps):
        grey = pixels_of(file)
        assert grey.shape == SOURCE.shape[:2]
        np.testing.assert_allclose(
            grey, np.clip(255 * found[..., number] / own.max_density_[number], 0, 255), atol=0.51
        )
    kept = coupledict.load(model)
    np.testing.assert_array_equal(kept.stain_matrix_, look.stain_matrix_)
    again = tmp_path / "again.png"
    done = run("stain", pictures / "pale.png", "--model", model, "-o", again)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(pixels_of(again), pixels)


def test_what_cannot_be_is_one_sentence_and_nothing_is_written(pictures, tmp_path):
    out, source, target = tmp_path / "out.png", pictures / "source.png", pictures / "target.png"
    model, other = tmp_path / "one.safetensors", tmp_path / "other.safetensors"
    StainSeparator(1).fit(SOURCE).save(model)
    coupledict.DictionaryLearning(4, n_nonzero_coefs=1, max_iter=1).fit(np.eye(5)).save(other)
    assert "exactly one" in refused(run("stain", source, "-o", out), code=2)
    both = ("--target", target, "--model", model)
    assert "exactly one" in refused(run("stain", source, *both, "-o", out), code=2)
    assert "--target" in refused(run("stain", source, "--model", model, "--save-model", other, "-o", out), code=2)
    assert "model of 2 stains" in refused(run("stain", source, "--model", model, "-o", out))
    assert "hold a StainSeparator" in refused(run("stain", source, "--model", other, "-o", out))
    said = refused(run("stain", pictures / "blank.png", "--target", target, "-o", out))
    assert "blank.png': Expected image to show stained tissue, found 0 of 2,000 pixels" in said
    assert said.endswith("Use a picture with more tissue.")
    assert "blank.png" in refused(run("stain", source, "--target", pictures / "blank.png", "-o", out))
    assert "grey" in refused(run("stain", pictures / "grey.png", "--target", target, "-o", out))
    assert "found none" in refused(run("stain", source, "--target", tmp_path / "none.png", "-o", out))
    assert "ending in" in refused(run("stain", source, "--target", target, "-o", tmp_path / "out.xyz"))
    same = ("-o", tmp_path / "x-eosin.png", "--densities", tmp_path / "x")
    assert "different files" in refused(run("stain", source, "--target", target, *same), code=2)
    assert not out.exists()


def test_existing_files_are_kept_unless_forced(pictures, tmp_path):
    out, model, grey = tmp_path / "out.png", tmp_path / "look", tmp_path / "x-eosin.png"
    arguments = ("stain", pictures / "source.png", "--target", pictures / "target.png", "-o", out)
    arguments += ("--save-model", model, "--densities", tmp_path / "x")
    for file in (out, model, grey):
        file.write_text("mine")
        assert "--force" in refused(run(*arguments), code=3)
        assert file.read_text() == "mine"
        assert sorted(tmp_path.iterdir()) == [file]
        file.unlink()
    for file in (out, model, grey):
        file.write_text("mine")
    assert run(*arguments, "--force").returncode == 0
    assert pixels_of(out).shape == SOURCE.shape
    assert pixels_of(grey).shape == SOURCE.shape[:2]
    assert coupledict.load(model).n_stains == 2


def test_a_warning_is_told(pictures, tmp_path):
    arguments = ("stain", pictures / "eosin.png", "--target", pictures / "target.png", "-o", tmp_path / "out.png")
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert "found fewer" in json.loads(done.stdout)["warnings"][0]
