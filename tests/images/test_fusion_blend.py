"""Blending: weights that sum to 1, invisible tiles, any number of channels, and values that stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from coupledict.foundation.block_sizes import SIZES
from coupledict.images import _fusion_blend as blend
from coupledict.images._fusion_focus import CELL, cell_shape
from support.stacks import motion, texture

KINDS = [np.uint8, np.uint16, np.int16, np.uint32, np.int32, np.int64, np.float16, np.float32, np.float64]
SHAPES = [(8, 8), (9, 13), (40, 8), (8, 41), (33, 64), (67, 101)]


def placed(pixels, weight=1.0, *, matrix=None, offset=(0, 0), factor=1.0, last_resort=False, shape=None, partial=True):
    """Return a source with one weight, or one for every cell."""
    cells = cell_shape(pixels.shape if shape is None else shape)
    prior = np.broadcast_to(np.float32(weight), cells).copy()
    return blend.PlacedSource(pixels, matrix, offset, factor, prior, last_resort, partial)


def blended(sources, shape=None, scale=None, noise=0.0):
    """Blend sources into a picture of `shape`."""
    pixels = sources[0].pixels
    shape = pixels.shape if shape is None else shape
    if scale is None:
        scale = 255 / np.iinfo(pixels.dtype).max if pixels.dtype.kind in "iu" else 1.0
    pyramid = blend.Pyramid(shape, pixels.dtype, scale, noise)
    for source in sources:
        for tile in blend.tiles(shape[:2]):
            pyramid.add(source, tile)
    return pyramid.collapse()


def picture(shape, kind=np.uint8, seed=0):
    """Return a texture, another one in each channel, over most of the values of a number type."""
    planes = [texture(shape[:2], seed + k, 1.0) / 255 for k in range(shape[2] if len(shape) > 2 else 1)]
    values = np.stack(planes, axis=2) if len(shape) > 2 else planes[0]
    if np.dtype(kind).kind == "f":
        return values.astype(kind)
    return (values * min(np.iinfo(kind).max, 2**40)).astype(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_single_source_comes_back(shape, kind):
    pixels = picture(shape, kind)
    found = blended([placed(pixels)])
    assert found.dtype == kind
    if np.dtype(kind).kind == "f":
        np.testing.assert_allclose(found, pixels, atol=1e-3 if kind is np.float16 else 1e-6)
    elif np.dtype(kind).itemsize <= 4:
        np.testing.assert_array_equal(found, pixels)
    else:
        np.testing.assert_allclose(found, pixels, rtol=1e-9, atol=1e3)


@pytest.mark.parametrize("n_channels", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float64])
def test_any_number_of_channels_comes_back(n_channels, kind):
    pixels = picture((35, 50, n_channels), kind)
    other = picture((35, 50, n_channels), kind, seed=90)
    found = blended([placed(pixels, 1.0), placed(other, 0.0)])
    np.testing.assert_allclose(found, pixels, atol=1e-6)
    assert found.shape == pixels.shape
    assert blended([placed(pixels[..., 0])]).shape == (35, 50)


@pytest.mark.parametrize("n_channels", [3, 6])
def test_channels_have_one_weight(n_channels, rng):
    """What the brightness chooses is chosen in all channels: each is a mixture of the same sources."""
    sources = [picture((48, 56, n_channels), np.float64, seed) for seed in (0, 40)]
    if n_channels == 3:
        sources.append(np.stack([sources[0].mean(axis=2)] * 3, axis=2))
    for source in sources:
        source[..., -1] = source[..., 0]
    weights = rng.random((len(sources), *cell_shape((48, 56))))
    found = blended([placed(source, weight) for source, weight in zip(sources, weights, strict=True)], scale=255)
    np.testing.assert_allclose(found[..., -1], found[..., 0], atol=1e-9)


TILES = [(8, 8), (16, 40), (64, 64), (96, 32), (200, 8)]


TILED = [(110, 130), (101, 67, 3)]


@pytest.mark.parametrize(
    ("tile", "moved", "shape"),
    [
        (tile, moved, TILED[(i + j) % 2])
        for i, tile in enumerate(TILES)
        for j, moved in enumerate(("not at all", "inside", "beyond its border"))
    ],
)
def test_tiles_change_nothing(tile, moved, shape, rng):
    matrices = {
        "not at all": None,
        "inside": motion(shape, shift=(1.3, -0.6), turn=0.03, scale=0.8),
        "beyond its border": motion(shape, shift=(2.3, -3.6), turn=0.03, scale=1.02),
    }
    weights = rng.random((3, *cell_shape(shape)))
    weights[0, :, :9] = weights[1, 5:12, 7:] = 0
    sources = [picture(shape, np.float64, seed) for seed in (0, 10, 20)]
    stack = [
        placed(
            source, weight, matrix=matrices[moved] if number else None, factor=1 + 0.1 * number, last_resort=number == 0
        )
        for number, (source, weight) in enumerate(zip(sources, weights, strict=True))
    ]
    expected = blended(stack, scale=255, noise=4.0)
    with SIZES.changed(blended_rows=tile[0], blended_columns=tile[1]):
        assert len(blend.tiles(shape[:2])) > 3
        found = blended(stack, scale=255, noise=4.0)
    # OpenCV moves pictures in steps of 1/32 pixel, which may fall to either side.
    np.testing.assert_allclose(found, expected, atol=1e-5 if moved == "not at all" else 0.02)


@pytest.mark.parametrize("shape", [(8, 8), (512, 768), (513, 769), (700, 20)])
def test_tiles_cover_every_pixel_once(shape):
    counts = np.zeros(shape, int)
    for tile in blend.tiles(shape):
        counts[tile.inner] += 1
        assert all(a.start <= b.start < b.stop <= a.stop for a, b in zip(tile.outer, tile.inner, strict=True))
        assert all(part.start % blend.BLOCK == 0 for part in (*tile.inner, *tile.outer))
    np.testing.assert_array_equal(counts, 1)


@pytest.mark.parametrize("noise", [0.0, 25.0])
def test_equal_sources_are_averaged(noise, rng):
    """Six noisy pictures of one flat thing have a sixth of the variance."""
    sources = [np.clip(120 + 5 * rng.standard_normal((120, 140)), 0, 255).astype(np.float32) for _ in range(6)]
    found = blended([placed(source) for source in sources], noise=noise)
    assert abs(found.mean() - 120) < 0.2
    if noise:
        assert found.var() < 0.35 * 25
    else:
        assert found.var() > 0.8 * 25, "noise that is not known counts as detail"


def test_detail_comes_from_the_source_that_has_it():
    """Two thin lines, each sharp in one source, in the same cells."""
    sharp = np.full((64, 64), 100, np.float64)
    lines = [sharp.copy() for _ in range(2)]
    lines[0][:, 30], lines[1][:, 34] = 200, 20
    sources = []
    for own, other in ((0, 1), (1, 0)):
        sources.append(lines[own] + ndimage.gaussian_filter(lines[other], 4) - 100)
    found = blended([placed(source) for source in sources])
    truth = lines[0] + lines[1] - 100
    mean = np.mean(sources, axis=0)
    assert np.abs(found - truth).mean() < 0.6 * np.abs(mean - truth).mean()
    assert found[32, 30] > 185
    assert found[32, 34] < 35


def test_a_source_without_weight_gives_nothing_however_much_detail_it_has():
    flat = np.full((64, 64), 100, np.uint8)
    stripes = np.where(np.add.outer(np.arange(64), np.arange(64)) // 4 % 2, 140, 60).astype(np.uint8)
    for last_resort in (False, True):
        found = blended([placed(flat), placed(stripes, 0.0, last_resort=last_resort)])
        np.testing.assert_allclose(found, flat, atol=1)


def test_where_no_source_has_a_weight_the_reference_is_taken():
    reference, other = picture((64, 80), seed=1), picture((64, 80), seed=2)
    half = np.ones(cell_shape((64, 80)))
    half[:, 10:] = 0
    found = blended([placed(other, half), placed(reference, 0.0, last_resort=True)])
    np.testing.assert_allclose(found[:, 64:], reference[:, 64:], atol=1)
    np.testing.assert_allclose(found[:, :16], other[:, :16], atol=1)


def test_a_seam_is_spread_over_the_levels():
    """A dark and a bright flat picture, side by side: no step remains, and no overshoot."""
    left = np.zeros(cell_shape((64, 128)))
    left[:, :16] = 1
    dark, bright = (np.full((64, 128), value, np.float32) for value in (50, 150))
    found = blended([placed(dark, left), placed(bright, 1 - left)])
    assert found.min() > 49.9
    assert found.max() < 150.1
    assert np.abs(np.diff(found, axis=1)).max() < 20
    np.testing.assert_allclose(found[:, 30], 50, atol=0.5)
    np.testing.assert_allclose(found[:, 98], 150, atol=0.5)


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_exposure_is_matched(factor):
    pixels = picture((40, 50), np.float32)
    np.testing.assert_allclose(blended([placed(pixels, factor=factor)]), factor * pixels, rtol=1e-5)
    bright = np.full((20, 20), 240, np.uint8)
    assert blended([placed(bright, factor=1.25)]).max() == 255, "clipped, not wrapped around"


MOTIONS = {
    "affine": motion((90, 110), shift=(3.4, -2.2), turn=0.02, scale=0.98),
    "projective": motion((90, 110), shift=(1.0, 0.7), tilt=(0.04, -0.03)),
}


@pytest.mark.parametrize(
    ("kind", "channels", "how"),
    [
        (kind, channels, [*MOTIONS][(i + j) % 2])
        for i, kind in enumerate(KINDS)
        for j, channels in enumerate([(), (3,), (5,)])
    ],
)
def test_a_moved_source_is_resampled_as_by_splines(kind, channels, how):
    matrix = MOTIONS[how]
    pixels = np.stack([texture((90, 110), seed, 2.0) for seed in range(max(1, *channels, 1))], axis=2)
    pixels = pixels.reshape(90, 110, *channels)
    if np.dtype(kind).kind == "f":
        pixels = pixels / 255
    elif np.dtype(kind).itemsize > 1:
        pixels = pixels * 100
    pixels = pixels.astype(kind)
    rows, columns = np.mgrid[20:70, 25:85]
    x, y, scale = np.einsum("ij,jkl->ikl", matrix, np.stack([columns, rows, np.ones(rows.shape)]))
    planes = [pixels] if pixels.ndim == 2 else np.moveaxis(pixels, 2, 0)
    expected = [ndimage.map_coordinates(p.astype(np.float64), [y / scale, x / scale], order=3) for p in planes]
    expected = expected[0] if pixels.ndim == 2 else np.stack(expected, axis=2)
    moved = matrix @ np.array([[1, 0, 25], [0, 1, 20], [0, 0, 1.0]])
    found = blended([placed(pixels, matrix=moved, shape=(50, 60))], (50, 60, *channels))
    assert found.dtype == kind
    span = float(pixels.max()) - float(pixels.min())
    assert np.abs(found.astype(np.float64) - expected).max() < 0.008 * span


def test_a_crop_of_a_source_that_was_not_moved_is_exact():
    pixels = picture((60, 70, 3))
    found = blended([placed(pixels, offset=(7, 11), shape=(40, 50))], (40, 50, 3))
    np.testing.assert_array_equal(found, pixels[7:47, 11:61])


def test_the_border_of_a_moved_source_is_left_to_others():
    """What alignment would have to invent is never taken from a source, if another is there."""
    shape = (80, 96)
    reference = np.full(shape, 100, np.uint8)
    moved = picture(shape)
    matrix = motion(shape, shift=(-20, 0))
    found = blended([placed(moved, matrix=matrix), placed(reference, 1e-3, last_resort=True)])
    np.testing.assert_allclose(found[:, :12], 100, atol=1)
    assert np.abs(found[:, 50:].astype(int) - 100).mean() > 10, "there it is covered"


def test_sources_are_never_changed():
    pixels = picture((40, 50))
    before = pixels.copy()
    pixels.flags.writeable = False
    blended([placed(pixels, factor=1.1), placed(pixels, matrix=motion((40, 50), shift=(1.5, 0)))])
    np.testing.assert_array_equal(pixels, before)


def test_the_frame_of_a_tile_reaches_as_far_as_the_weights(monkeypatch, rng):
    """A change of one pixel changes nothing beyond the frame."""
    shape = (160, 160)
    one, other = picture(shape, np.float64, 3), picture(shape, np.float64, 4)
    weight = rng.random(cell_shape(shape))
    touched = one.copy()
    touched[80, 80] += 0.5
    found = blended([placed(touched, weight), placed(other)], scale=255) - blended(
        [placed(one, weight), placed(other)], scale=255
    )
    reach = np.abs(np.argwhere(np.abs(found) > 1e-7) - 80).max()
    assert CELL < reach < 2 * blend.FRAME


@pytest.mark.parametrize("shape", [(40, 48), (40, 48, 3)])
def test_where_no_source_has_weight_the_picture_is_0(shape):
    picture = blend.Pyramid(shape, np.dtype(np.float32), 255.0, 0.0).collapse()
    np.testing.assert_array_equal(picture, np.zeros(shape, np.float32))
