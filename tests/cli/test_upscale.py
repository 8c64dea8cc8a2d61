"""``coupledict upscale`` tells what it found in a picture, and mends it; or believes what it is told."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from skimage import data

from coupledict.images import SuperResolution, imresize
from support.command import call as run
from support.command import refused
from support.outputs import pixels_of

SMALL = imresize(data.coffee()[50:350, 100:500], 1 / 2)


def noisy(sigma):
    noise = sigma * np.random.default_rng(0).standard_normal(SMALL.shape)
    return np.clip(np.rint(SMALL + noise), 0, 255).astype(np.uint8)


def enlarge(folder, pixels, *options, suffix="png"):
    """Return what the command says, and the picture that it writes."""
    source, target = folder / f"small.{suffix}", folder / "large.png"
    if suffix == "jpg":
        Image.fromarray(pixels).save(source, quality=60)
    else:
        Image.fromarray(pixels).save(source)
    done = run("upscale", source, "-o", target, "--force", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout, pixels_of(target)


def test_a_clean_picture_is_enlarged_as_it_is(tmp_path):
    said, large = enlarge(tmp_path, SMALL)
    assert said.startswith("Found neither noise nor compression.\n")
    np.testing.assert_array_equal(large, SuperResolution.pretrained(2, degradation="none").upscale(SMALL))


def test_noise_is_found_and_mended(tmp_path):
    said, large = enlarge(tmp_path, noisy(10), "--scale", "3")
    assert "Found noise of about 10 grey values and mended it.\n" in said
    np.testing.assert_array_equal(large, SuperResolution.pretrained(3).upscale(noisy(10)))


def test_compression_is_found_and_mended(tmp_path):
    said, large = enlarge(tmp_path, SMALL, suffix="jpg")
    assert "Found JPEG compression of about quality 60 and mended it.\n" in said
    small = pixels_of(tmp_path / "small.jpg")
    np.testing.assert_array_equal(large, SuperResolution.pretrained(2, degradation="jpeg=60").upscale(small))


def test_who_knows_it_can_tell_it(tmp_path):
    said, large = enlarge(tmp_path, noisy(10), "--degradation", "none")
    assert said.startswith("Wrote ")
    np.testing.assert_array_equal(large, SuperResolution.pretrained(2, degradation="none").upscale(noisy(10)))
    said, large = enlarge(tmp_path, SMALL, "--degradation", "noise=5")
    assert said.startswith("Wrote ")
    np.testing.assert_array_equal(large, SuperResolution.pretrained(2, degradation="noise=5").upscale(SMALL))


def test_a_program_can_read_what_was_found(tmp_path):
    said, _ = enlarge(tmp_path, noisy(10), "--json")
    found = SuperResolution.find_degradation(noisy(10))
    assert json.loads(said)["degradation"] == found.text()


@pytest.mark.parametrize("text", ["much", "noise=-1", "jpeg=100", "noise=1e9", ""])
def test_wrong_degradations_are_refused_before_anything_is_read(tmp_path, text):
    words = refused(
        run("upscale", tmp_path / "absent.png", "-o", tmp_path / "large.png", "--degradation", text), code=2
    )
    assert "Expected" in words
    assert "found none" not in words


def test_a_picture_that_lost_its_header_is_known_by_its_pixels(tmp_path):
    file = io.BytesIO()
    Image.fromarray(SMALL).save(file, "JPEG", quality=75)
    with Image.open(file) as image:
        pixels = np.asarray(image)
    said, _ = enlarge(tmp_path, pixels)
    assert "Found JPEG compression of about quality 75" in said
