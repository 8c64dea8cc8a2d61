"""Degradation estimated from pixels: noise, compression, and pictures that could be mistaken for either."""

from __future__ import annotations

import io
from functools import cache
from itertools import product

import numpy as np
import pytest
from PIL import Image, ImageDraw
from scipy.fft import dctn, idctn
from skimage import data

from coupledict.images import SuperResolution, imresize
from coupledict.images._sr_degradation import Degradation, grey_value, parse
from coupledict.images._sr_jpeg import Compression, coarseness_of, find_compression, quality_of, within_steps
from coupledict.images._sr_noise import _energies, find_noise
from support.cases import first_and_slow

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "camera", "coins")
TEXTURES = ("brick", "grass", "gravel")
find = SuperResolution.find_degradation


@cache
def small(name, scale=2):
    return imresize(getattr(data, name)(), 1 / scale)


def noisy(picture, sigma, seed=0):
    noise = sigma * np.random.default_rng(seed).standard_normal(picture.shape)
    return np.clip(np.rint(picture + noise), 0, 255).astype(np.uint8)


def compressed(picture, quality, **options):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=quality, **options)
    with Image.open(file) as image:
        return np.asarray(image)


# Noise


SIGMAS = (3, 10, 20)


@pytest.mark.parametrize(
    ("name", "sigma"), first_and_slow(zip(PHOTOGRAPHS, 2 * SIGMAS, strict=True), product(PHOTOGRAPHS, SIGMAS))
)
def test_noise_is_measured(name, sigma):
    found = find(noisy(small(name), sigma))
    assert 0.75 * sigma < found.noise < 1.25 * sigma
    assert found.jpeg_quality is None
    assert 0.7 * sigma < found.color_noise < 1.3 * sigma


@pytest.mark.parametrize(
    ("name", "scale"),
    first_and_slow(
        [("coins", 1), *product(PHOTOGRAPHS, [2]), ("chelsea", 3), ("camera", 4)], product(PHOTOGRAPHS, (1, 2, 3, 4))
    ),
)
def test_photographs_without_noise_are_clean(name, scale):
    if name in ("rocket", "coins") and scale == 1:
        assert find(small(name, scale)).jpeg_quality > 80, "they were JPEG files"
        return
    assert find(small(name, scale)) == Degradation()


@pytest.mark.parametrize("name", TEXTURES)
def test_texture_is_not_noise(name):
    assert not find(small(name))


@pytest.mark.parametrize("name", TEXTURES)
def test_noise_is_seen_in_texture(name):
    found = find(noisy(small(name), 20))
    assert 14 < found.noise < 26


@pytest.mark.parametrize("name", TEXTURES)
def test_coloured_texture_is_told_from_noise_by_its_channels(name):
    """Texture of the smallest pictures is as white as noise, but alike in all channels."""
    grey = small(name, 4)
    tinted = np.dstack([grey, np.rint(grey * 0.8), np.rint(grey * 0.6)]).astype(np.uint8)
    assert not find(tinted)
    assert 0.7 * 10 < find(noisy(tinted, 10)).noise < 1.3 * 10


def test_noise_that_is_alike_in_all_channels_is_noise_of_brightness():
    grain = 8 * np.random.default_rng(0).standard_normal(small("coffee").shape[:2])
    found = find(np.clip(np.rint(small("coffee") + grain[..., None]), 0, 255).astype(np.uint8))
    assert 0.8 * 8 / 0.669 < found.noise < 1.2 * 8 / 0.669
    assert found.color_noise < 1


def test_rendered_pictures_are_clean():
    image = Image.new("RGB", (400, 300), (250, 250, 250))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 400, 40), fill=(30, 60, 120))
    for line in range(12):
        draw.text((20, 60 + 18 * line), "The quick brown fox jumps over the lazy dog. 0123456789", fill=(20, 20, 20))
    draw.ellipse((280, 150, 380, 250), outline=(200, 30, 30), width=3)
    screenshot = np.asarray(image)
    assert not find(screenshot)
    assert not find(screenshot[..., 0])
    assert not find(data.logo())
    checkers = np.kron(np.indices((40, 40)).sum(axis=0) % 2, np.ones((4, 4))).astype(np.uint8) * 255
    assert not find(checkers)


def test_a_noisy_photograph_between_flat_bars():
    photograph = noisy(small("chelsea"), 10)
    bars = np.zeros((40, photograph.shape[1], 3), np.uint8)
    found = find(np.vstack([bars, photograph, bars]))
    assert 7.5 < found.noise < 12.5


def test_noise_that_is_cut_off_is_not_measured_where_it_is():
    """Half of the picture is black, and its noise is cut off there."""
    photograph = small("coffee")
    photograph = np.hstack([photograph, np.zeros_like(photograph)])
    assert 7.5 < find(noisy(photograph, 10)).noise < 12.5


def test_energies_of_white_noise(rng):
    plane = rng.normal(0, 5, (200, 200)).astype(np.float32)
    i, j = (grid.ravel() for grid in np.mgrid[0:192:3, 0:192:3])
    low, high = _energies(plane, (i, j), 0.1)
    assert 4.6**2 < high < 5.4**2
    assert low < high, "blocks were chosen by it"
    slow = np.array([np.square(dctn(plane[a : a + 8, b : b + 8], norm="ortho")) for a, b in zip(i, j, strict=True)])
    waves = np.add.outer(np.arange(8), np.arange(8))
    lows = slow[:, (waves >= 1) & (waves <= 5)].mean(axis=1)
    smooth = np.argsort(lows)[: round(0.1 * len(lows))]
    assert low == pytest.approx(lows[smooth].mean(), rel=1e-4)
    assert high == pytest.approx(np.median(slow[smooth, 5:, 5:].mean(axis=(1, 2))) / 0.928, rel=1e-4)


def test_small_pictures_tell_nothing(rng):
    for shape in ((1, 1), (7, 90), (12, 12), (15, 15, 3)):
        assert not find(rng.integers(0, 256, shape, np.uint8))
    assert find_noise(np.zeros((30, 30), np.float32), [], np.zeros((30, 30), bool), compressed=False) == (0.0, 0.0)


# Compression


@pytest.mark.parametrize("name", PHOTOGRAPHS)
@pytest.mark.parametrize("quality", [95, 90, 75, 50, 25])
def test_quality_is_found(name, quality):
    found = find(compressed(small(name), quality))
    assert abs(found.jpeg_quality - quality) <= 2
    assert found.noise == 0


@pytest.mark.parametrize("name", TEXTURES)
def test_compressed_texture_is_compressed_and_not_noisy(name):
    found = find(compressed(small(name), 75))
    assert abs(found.jpeg_quality - 75) <= 2
    assert found.noise == 0


def test_quality_is_found_in_a_part_of_a_picture():
    cropped = compressed(data.coffee()[:140, :180], 80)[3:, 5:]
    assert abs(find(cropped).jpeg_quality - 80) <= 2
    compression = find_compression(cropped.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32))
    assert (compression.row, compression.column) == (5, 3)


def test_tables_of_a_camera_are_found():
    """Steps in other proportions than those of the standard, each a whole number."""
    rng = np.random.default_rng(0)
    steps = np.maximum(2, np.add.outer(np.arange(8), np.arange(8)) * 3 + rng.integers(2, 9, (8, 8)))
    file = io.BytesIO()
    table = [int(step) for step in steps.ravel()]
    Image.fromarray(data.camera()).save(file, "JPEG", qtables=[table, table])
    with Image.open(file) as image:
        found = find(np.asarray(image))
    assert 40 < found.jpeg_quality < 85


def test_the_best_quality_needs_no_mending():
    assert find(compressed(small("coffee"), 99, subsampling=0)) == Degradation()


def test_noise_is_found_under_compression():
    found = find(compressed(noisy(small("chelsea"), 10), 92))
    assert abs(found.jpeg_quality - 92) <= 2
    assert 7 < found.noise < 14


def test_coarseness_and_quality():
    for quality in range(2, 99):
        assert quality_of(coarseness_of(quality)) == quality
    assert coarseness_of(50) == 1
    assert coarseness_of(75) == 0.5


def test_a_change_is_limited_to_what_rounding_can_do(rng):
    change = rng.normal(0, 30, (45, 61)).astype(np.float32)
    limited = within_steps(change, Compression(0.5, 3, 2), 2.0)
    assert not np.shares_memory(limited, change)
    for a, b in ((3, 2), (11, 26)):
        waves = dctn(change[a : a + 8, b : b + 8].astype(float), norm="ortho")
        reach = 0.3 * 2.0 * 0.5 * np.array([[16, 11], [12, 12]])
        found = dctn(limited[a : a + 8, b : b + 8].astype(float), norm="ortho")
        np.testing.assert_allclose(found[:2, :2], np.clip(waves[:2, :2], -reach, reach), atol=1e-4)
        assert np.abs(found).max() <= 0.3 * 121 + 1e-3
    np.testing.assert_array_equal(limited[:3], change[:3])
    np.testing.assert_array_equal(limited[43:], change[43:])
    small_change = idctn(np.full((8, 8), 0.2), norm="ortho").astype(np.float32)
    np.testing.assert_allclose(within_steps(small_change, Compression(1, 0, 0), 1.0), small_change, atol=1e-6)


# Number types


@pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.float64])
def test_number_types_tell_the_same(dtype):
    part = small("coffee")[:90, :110]
    for picture in (noisy(part, 10), compressed(part, 75), part):
        expected = find(picture)
        given = picture.astype(np.uint16) * np.uint16(257) if dtype == np.uint16 else (picture / 255).astype(dtype)
        found = find(given)
        assert found.jpeg_quality == expected.jpeg_quality
        assert found.noise == pytest.approx(expected.noise, rel=0.1)
        if dtype != np.uint16:
            assert find(picture.astype(dtype)).noise == pytest.approx(expected.noise, rel=0.1)


def test_alpha_tells_nothing(rng):
    picture = noisy(small("coffee"), 10)
    alpha = rng.integers(0, 256, picture.shape[:2], np.uint8)
    assert find(np.dstack([picture, alpha])) == find(picture)
    assert find(np.dstack([small("camera"), rng.integers(0, 256, (256, 256), np.uint8)])) == find(small("camera"))


def test_the_range_of_floats():
    assert grey_value(np.array([0.1, 1.0])) == 1 / 255
    assert grey_value(np.array([0.0, 255.0])) == 1
    assert grey_value(np.array([0.0, 65535.0])) == 257
    assert grey_value(np.zeros((2, 2), np.uint16)) == 257


# Words


@pytest.mark.parametrize(
    "degradation",
    [
        Degradation(),
        Degradation(10, 10),
        Degradation(7.25, 0),
        Degradation(7.25, 3.5, 90),
        Degradation(jpeg_quality=75),
        Degradation(128, 128, 1),
    ],
)
def test_texts_there_and_back(degradation):
    assert parse(degradation.text()) == degradation


def test_what_is_found_is_a_text_too():
    for picture in (noisy(small("coffee"), 10), noisy(small("camera"), 7), compressed(small("coffee"), 75)):
        assert parse(find(picture).text()) == find(picture)


def test_words():
    assert parse("auto") is None
    assert str(Degradation()) == "neither noise nor compression"
    assert str(parse("noise=10,jpeg=75")) == "noise of about 10 grey values and JPEG compression of about quality 75"
    assert bool(parse("jpeg=75")) is bool(parse("noise=0.5")) is True
    assert not parse("none")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", 'to be "auto", "none"'),
        ("noise", 'to be "auto", "none"'),
        ("noise=1, noise=2", 'to be "auto", "none"'),
        ("noise=-1", 'to be "auto", "none"'),
        ("noise=1e3", 'to be "auto", "none"'),
        ("noise=nan", 'to be "auto", "none"'),
        ("x" * 10_000, "xxx'"),
        (None, "got None"),
        (10, "got 10"),
        ("noise=0", "Expected noise above 0 and up to 128"),
        ("noise=129", "Expected noise above 0 and up to 128"),
        ("color_noise=3", "Expected color_noise only together with noise"),
        ("jpeg=0", "from 1 to 99, got 0"),
        ("jpeg=100", "from 1 to 99, got 100"),
        ("jpeg=7.5", "from 1 to 99, got 7.5"),
    ],
)
def test_wrong_texts(text, match):
    with pytest.raises(ValueError, match=match):
        parse(text)
