"""Resizing beside a slow twin, values worked out by hand, and what cubic interpolation promises."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coupledict.foundation.block_sizes import SIZES
from coupledict.images._resize import imresize


def kernel(x):
    x = abs(x)
    if x <= 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x <= 2 else 0.0


def slow_line(line, n_out, scale, antialias):
    """One line, one output after the other, every input weighed."""
    shrink = min(scale, 1.0) if antialias else 1.0
    reach = math.ceil(2 / shrink) + 2
    result = []
    for i in range(n_out):
        centre = (i + 0.5) / scale - 0.5
        places = range(math.floor(centre) - reach, math.floor(centre) + reach + 1)
        weights = [kernel((place - centre) * shrink) for place in places]
        values = [float(line[min(max(place, 0), len(line) - 1)]) for place in places]
        result.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
    return result


def slow(image, shape, scales, antialias=True):
    """The twin of `imresize` for one channel."""
    whole = image.dtype.kind == "u"
    for axis in sorted((0, 1), key=lambda axis: scales[axis]):
        lines = image if axis == 1 else image.T
        lines = np.array([slow_line(line, shape[axis], scales[axis], antialias) for line in lines])
        if whole:
            lines = np.clip(np.floor(lines + 0.5), 0, np.iinfo(image.dtype).max).astype(image.dtype)
        image = lines if axis == 1 else lines.T
    return image


CASES = [
    ((12, 9), 1 / 3),
    ((12, 9), 3),
    ((13, 11), 0.5),
    ((7, 10), (0.4, 2.5)),
    ((7, 10), (2.5, 0.4)),
    ((10, 7), (0.3, 0.7)),
    ((70, 5), 0.98),
    ((5, 90), (1, 0.51)),
    ((1, 1), 4),
    ((2, 3), 0.1),
]


@pytest.mark.parametrize(
    ("shape", "scale", "dtype", "antialias"),
    [
        (*case, dtype, (i + j) % 2 == 0)
        for i, case in enumerate(CASES)
        for j, dtype in enumerate((np.uint8, np.uint16, np.float32, np.float64))
    ],
)
def test_against_the_slow_twin(rng, shape, scale, dtype, antialias):
    image = rng.integers(0, 256, shape).astype(dtype)
    scales = scale if isinstance(scale, tuple) else (scale, scale)
    size = tuple(math.ceil(factor * n) for factor, n in zip(scales, shape, strict=True))
    resized = imresize(image, scale, antialias=antialias)
    assert resized.dtype == dtype
    assert resized.shape == size
    expected = slow(image, size, scales, antialias)
    if image.dtype.kind == "u":
        np.testing.assert_array_equal(resized, expected)
    else:
        np.testing.assert_allclose(resized, expected, atol=1e-4 if dtype == np.float32 else 1e-10)


def test_shape_is_a_scale(rng):
    image = rng.integers(0, 256, (14, 20), np.uint8)
    np.testing.assert_array_equal(imresize(image, shape=(7, 30)), slow(image, (7, 30), (0.5, 1.5)))
    np.testing.assert_array_equal(imresize(image, shape=[7, np.int64(10)]), imresize(image, 0.5))


def test_weights_by_hand():
    """Twice as large: the two phases of the kernel, at 1/4 and 3/4 of a pixel, in units of 1/128."""
    impulse = np.zeros((1, 9))
    impulse[0, 4] = 128
    row = imresize(impulse, (1, 2))[0]
    assert row.tolist() == [0, 0, 0, 0, 0, -3, -9, 29, 111, 111, 29, -9, -3, 0, 0, 0, 0, 0]


def test_shrinking_by_hand():
    """Half as large: the same kernel, twice as wide; the sum of the weights is 1."""
    impulse = np.zeros((1, 16))
    impulse[0, 8] = 256
    row = imresize(impulse, (1, 0.5))[0]
    np.testing.assert_allclose(row, [0, 0, -3, 29, 111, -9, 0, 0], atol=1e-12)
    plain = imresize(impulse, (1, 0.5), antialias=False)[0]
    np.testing.assert_allclose(plain[[3, 4, 5]], 256 * np.array([-0.0625, 0.5625, 0]), atol=1e-12)


def test_parabolas_are_reproduced():
    x = np.arange(20.0)
    line = 3 - 2 * x + 0.5 * x**2
    fine = (np.arange(60) + 0.5) / 3 - 0.5
    expected = 3 - 2 * fine + 0.5 * fine**2
    np.testing.assert_allclose(imresize(line[None], (1, 3))[0, 6:-6], expected[6:-6], rtol=1e-12)


@pytest.mark.parametrize("scale", [0.3, 0.98, 1, 2, 3.7])
def test_flat_stays_flat(scale):
    for dtype in (np.uint8, np.uint16):
        flat = np.full((9, 8), 201, dtype)
        assert (imresize(flat, scale) == 201).all()
    np.testing.assert_allclose(imresize(np.full((9, 8), 0.3), scale), 0.3, rtol=1e-14)


def test_scale_1_changes_nothing(rng):
    image = rng.integers(0, 256, (9, 8, 3), np.uint8)
    result = imresize(image, 1)
    np.testing.assert_array_equal(result, image)
    assert not np.shares_memory(result, image)


def test_integers_are_cut_to_their_range():
    edge = np.repeat(np.array([[0, 255]], np.uint8), 6, axis=1)
    large = imresize(edge, 3)
    assert large.min() == 0
    assert large.max() == 255
    floats = imresize(edge.astype(float), 3)
    assert floats.min() < -5, "floats overshoot and are not cut"


def test_beyond_the_edges_is_the_outermost_pixel(rng):
    image = rng.random((12, 15))
    wide = np.pad(image, 6, mode="edge")
    np.testing.assert_allclose(imresize(wide, 3)[18:-18, 18:-18], imresize(image, 3), atol=1e-13)
    np.testing.assert_allclose(imresize(wide, 1 / 3)[2:-2, 2:-2], imresize(image, 1 / 3), atol=1e-13)


@pytest.mark.parametrize("n_channels", [1, 2, 3, 4])
def test_channels_are_resized_one_by_one(rng, n_channels):
    image = rng.integers(0, 256, (10, 12, n_channels), np.uint8)
    result = imresize(image, 0.4)
    assert result.shape == (4, 5, n_channels)
    for channel in range(n_channels):
        np.testing.assert_array_equal(result[:, :, channel], imresize(image[:, :, channel], 0.4))


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_blocks_do_not_matter(rng, block):
    image = rng.integers(0, 256, (100, 90), np.uint8)
    before = imresize(image, 0.7), imresize(image, 1.7)
    with SIZES.changed(resized_pixels=block):
        np.testing.assert_array_equal(imresize(image, 0.7), before[0])
        np.testing.assert_array_equal(imresize(image, 1.7), before[1])


def test_layouts(rng, tmp_path):
    image = rng.integers(0, 256, (12, 10), np.uint8)
    expected = imresize(image, 0.5)
    mapped = np.memmap(tmp_path / "image", np.uint8, "w+", shape=image.shape)
    mapped[...] = image
    locked = image.copy()
    locked.flags.writeable = False
    wide = np.zeros((24, 20), np.uint8)
    wide[::2, ::-2] = image
    for same in (mapped, locked, wide[::2, ::-2], np.asfortranarray(image), image.tolist()):
        same = np.asarray(same, np.uint8) if isinstance(same, list) else same
        np.testing.assert_array_equal(imresize(same, 0.5), expected)
    np.testing.assert_array_equal(wide[::2, ::-2], image)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (((3,), {"scale": 2}), ValueError, r"Expected image of shape \(rows, columns\)"),
        (((3, 3, 3, 3), {"scale": 2}), ValueError, "Expected image of shape"),
        (((0, 3), {"scale": 2}), ValueError, "all at least 1"),
        (((3, 3), {}), ValueError, "either scale or shape, got neither"),
        (((3, 3), {"scale": 2, "shape": (3, 3)}), ValueError, "either scale or shape, got both"),
        (((3, 3), {"scale": 0}), ValueError, "scale to be positive and finite"),
        (((3, 3), {"scale": math.nan}), ValueError, "scale to be positive and finite"),
        (((3, 3), {"scale": (1, math.inf)}), ValueError, "scale to be positive and finite"),
        (((3, 3), {"scale": "2"}), TypeError, "scale to be a number or two"),
        (((3, 3), {"scale": (1, 2, 3)}), TypeError, "scale to be a number or two"),
        (((3, 3), {"shape": (3,)}), TypeError, "shape to be two integers"),
        (((3, 3), {"shape": (3, 2.5)}), TypeError, "shape to be two integers"),
        (((3, 3), {"shape": 3}), TypeError, "shape to be two integers"),
        (((3, 3), {"shape": (0, 3)}), ValueError, "shape to be at least"),
    ],
)
def test_bad_arguments(arguments, error, match):
    shape, options = arguments
    with pytest.raises(error, match=match):
        imresize(np.zeros(shape), **options)


@pytest.mark.parametrize("dtype", [bool, np.int32, np.float16, complex])
def test_bad_number_types(dtype):
    with pytest.raises(TypeError, match="uint8, uint16, float32 or float64"):
        imresize(np.zeros((3, 3), dtype), 2)
