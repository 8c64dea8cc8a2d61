"""The focus measure: energy where a picture is in focus, none where it shows only noise, and the place of cells."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage
from skimage import data

from coupledict.images import MultiFocusFusion
from coupledict.images._fusion_focus import (
    CELL,
    NOISE_FACTOR,
    SCALE_WEIGHTS,
    FocusMeasure,
    cell_means,
    cell_shape,
    detail,
    noise_gain,
)
from coupledict.images._grey import luma, noise_variance
from support.stacks import texture


@pytest.fixture(scope="module")
def learner():
    return MultiFocusFusion()._dictionary()


@pytest.fixture(scope="module")
def measure(learner):
    return FocusMeasure(learner, 3)


def halved(grey):
    """Half of a picture by the binomial kernel of Burt and Adelson, computed by SciPy."""
    kernel = np.array([1, 4, 6, 4, 1]) / 16
    for axis in (0, 1):
        grey = ndimage.convolve1d(grey, kernel, axis=axis, mode="mirror")
    return grey[::2, ::2]


@pytest.mark.parametrize("picture", [data.coins(), data.camera(), data.brick(), texture((200, 220))])
def test_energy_falls_with_blur(measure, picture):
    sharp = np.asarray(picture[:160, :200], np.float32)
    energies = [measure.measure(sharp, 0.0)]
    energies += [measure.measure(ndimage.gaussian_filter(sharp, sigma), 0.0) for sigma in (1, 2, 4, 8)]
    sums = [energy.mean() for energy in energies]
    assert all(one > 1.2 * other for one, other in pairwise(sums)), sums
    strong = energies[0] > np.median(energies[0])
    assert np.mean(energies[0][strong] > energies[2][strong]) > 0.95, "nearly every cell sees it"


@pytest.mark.parametrize("n_scales", [1, 2, 3])
@pytest.mark.parametrize("sigma", [1.0, 5.0, 15.0])
def test_noise_alone_has_hardly_any_energy(learner, rng, sigma, n_scales):
    noise = (128 + sigma * rng.standard_normal((160, 200))).astype(np.float32)
    energy = FocusMeasure(learner, n_scales).measure(noise, sigma**2)
    assert np.mean(energy == 0) > 0.7
    assert FocusMeasure(learner, n_scales).measure(noise, 0.0).mean() > 20 * energy.mean(), "if it is not known, it has"


def test_a_flat_picture_has_no_energy(measure):
    energy = measure.measure(np.full((50, 61), 200, np.float32), 0.0)
    np.testing.assert_array_equal(energy, np.zeros((13, 16)))


def test_energy_of_small_pictures_is_finite(measure):
    for shape in ((8, 8), (9, 13), (40, 8), (8, 100)):
        energy = measure.measure(texture(shape, finest=1.0).astype(np.float32), 0.0)
        assert energy.shape == cell_shape(shape)
        assert np.isfinite(energy).all()
        assert energy.max() > 0


@pytest.mark.parametrize("sigma", [5.0, 15.0])
@pytest.mark.parametrize(
    "picture",
    [np.full((256, 256), 120.0), texture((256, 256), finest=3.0), data.camera(), data.coffee()[..., 1]],
    ids=["flat", "texture", "camera", "coffee"],
)
def test_noise_is_estimated(picture, sigma, rng):
    noisy = (picture + sigma * rng.standard_normal(picture.shape)).astype(np.float32)
    assert 0.75 < noise_variance(noisy) / sigma**2 < 1.25


@pytest.mark.parametrize("end", [-60.0, 315.0])
def test_noise_is_not_cut_off_with_the_brightness(end, rng):
    """A black background or a white sky shows no noise, but does not say that there is none."""
    picture = data.camera().astype(np.float64)
    picture[:200] = end
    noisy = np.clip(picture + 12 * rng.standard_normal(picture.shape), 0, 255).round().astype(np.float32)
    assert 0.75 < noise_variance(noisy) / 144 < 1.25


def test_a_picture_without_noise_has_none():
    assert noise_variance(np.full((64, 64), 9, np.float32)) == 0
    ramp = np.add.outer(np.arange(100.0), 2 * np.arange(120.0)).astype(np.float32)
    assert noise_variance(ramp) < 1e-6
    assert noise_variance(texture((200, 200), finest=4.0).astype(np.float32)) < 0.1
    assert not noise_variance(np.zeros((8, 8), np.float32))


@pytest.mark.parametrize("scale", [0, 1, 2, 3])
def test_the_gain_of_noise_is_that_of_a_simulation(scale, rng):
    """Many pictures of noise are halved by SciPy, and the variance of their detail is measured."""
    grey = rng.standard_normal((1200, 1200))
    for _ in range(scale):
        grey = halved(grey)
    inside = detail(grey.astype(np.float32))[8:-8, 8:-8]
    tolerance = 6 / np.sqrt(inside.size / 8)  # of six standard errors; neighbours are alike
    assert abs(inside.var() / noise_gain(scale) - 1) < tolerance


def test_detail_is_the_laplacian_of_a_smooth_picture(rng):
    grey = 255 * rng.random((40, 50))
    smooth = ndimage.gaussian_filter(grey, 0.7, mode="mirror", radius=3)
    expected = ndimage.laplace(smooth, mode="mirror")
    np.testing.assert_allclose(detail(grey.astype(np.float32)), expected, atol=1e-3)


def coded(patch, atoms, n_atoms, tolerance):
    """Orthogonal matching pursuit, word for word: the code of a patch, to a squared error or a number of atoms."""
    support, rest, code = [], patch.copy(), np.zeros(len(atoms))
    while rest @ rest > tolerance and len(support) < n_atoms:
        support.append(int(np.argmax(np.abs(atoms @ rest))))
        code[support] = np.linalg.lstsq(atoms[support].T, patch, rcond=None)[0]
        rest = patch - code @ atoms
    return code


def measured(grey, learner, noise):
    """The energy per pixel that blur would take from the patch around each cell, patch by patch."""
    sharp, soft = (np.asarray(atoms, np.float64) for atoms in learner.components_)
    norms = np.linalg.norm(sharp, axis=1, keepdims=True)
    side = 8
    smooth = ndimage.gaussian_filter(grey.astype(np.float64), 0.7, mode="mirror", radius=3)
    values = np.pad(ndimage.laplace(smooth, mode="mirror"), 8, mode="reflect")
    energy = np.zeros(cell_shape(grey.shape))
    for row, column in np.ndindex(energy.shape):
        first, left = 8 + CELL * row - 2, 8 + CELL * column - 2
        patch = values[first : first + side, left : left + side].ravel()
        code = coded(patch, sharp / norms, learner.n_nonzero_coefs, side**2 * noise)
        energy[row, column] = np.sum((code @ ((sharp - soft) / norms)) ** 2) / side**2
    return energy


@pytest.mark.parametrize("noise", [0.5, 9.0, 400.0])
@pytest.mark.parametrize("scale", [0, 1])
def test_energy_is_that_of_a_slow_twin(learner, noise, scale, rng):
    grey = texture((45, 54), finest=1.0) + noise**0.5 * rng.standard_normal((45, 54))
    found = FocusMeasure(learner, scale + 1).measure(grey.astype(np.float32), noise)
    if scale:
        found = found - FocusMeasure(learner, scale).measure(grey.astype(np.float32), noise)
        grey = halved(grey)
    expected = measured(grey, learner, NOISE_FACTOR * noise_gain(scale) * noise) * SCALE_WEIGHTS[scale]
    where = [(np.arange(size) - (2**scale - 1) / 2) / 2**scale for size in found.shape]
    where = [np.clip(places, 0, size - 1) for places, size in zip(where, expected.shape, strict=True)]
    expected = ndimage.map_coordinates(expected, np.meshgrid(*where, indexing="ij"), order=1)
    assert expected.max() > 0
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=0.01 * expected.max())


@pytest.mark.parametrize("shape", [(64, 96), (65, 98), (67, 101), (90, 110), (204, 300)])
@pytest.mark.parametrize("scale", [0, 1, 2])
def test_spots_are_seen_where_they_are(learner, scale, shape):
    """On every scale, the energy of a small spot lies around it, on average over many places, near both ends."""
    rows, columns = (CELL * np.arange(count) + (CELL - 1) / 2 for count in cell_shape(shape))
    for corner in ((24, 24), (shape[0] - 24, shape[1] - 24)):
        away = []
        for shift in range(-8, 8):
            row, column = corner[0] + shift, corner[1] + shift
            grey = np.full(shape, 50, np.float32)
            grey[row - 1 : row + 2, column - 1 : column + 2] = 250
            energy = FocusMeasure(learner, scale + 1).measure(grey, 0.0)
            if scale:
                energy -= FocusMeasure(learner, scale).measure(grey, 0.0)
            away.append(
                [
                    np.average(rows, weights=energy.sum(axis=1)) - row,
                    np.average(columns, weights=energy.sum(axis=0)) - column,
                ]
            )
        np.testing.assert_allclose(np.mean(away, axis=0), 2**scale / 2 - 0.5, atol=1.0)


@pytest.mark.parametrize("side", [4, 5, 6, 9, 12])
def test_patches_of_any_size_lie_around_their_cells(side):
    sharp = texture((80, 90), finest=1.0)
    pair = [sharp, ndimage.gaussian_filter(sharp, 1.5)]
    small = {"n_nonzero_coefs": 2, "max_samples": 2000, "max_iter": 2, "random_state": 0}
    own = MultiFocusFusion(16, patch_size=side, **small).fit(pair)
    grey = np.full((63, 70), 50, np.float32)
    grey[29:32, 41:44] = 250
    energy = FocusMeasure(own.learner_, 1).measure(grey, 0.0)
    rows, columns = np.mgrid[: energy.shape[0], : energy.shape[1]] * CELL + (CELL - 1) / 2
    place = [np.average(axis, weights=energy) for axis in (rows, columns)]
    np.testing.assert_allclose(place, (30, 42), atol=1.5)


@pytest.mark.parametrize("shape", [(16, 24), (17, 22), (8, 9)])
def test_cells_have_the_mean_of_their_pixels(shape, rng):
    grey = (255 * rng.random(shape)).astype(np.float32)
    rows, columns = cell_shape(shape)
    padded = np.pad(grey, ((0, CELL * rows - shape[0]), (0, CELL * columns - shape[1])), mode="edge")
    expected = padded.reshape(rows, CELL, columns, CELL).mean(axis=(1, 3))
    np.testing.assert_allclose(cell_means(grey), expected, rtol=1e-5)


def test_brightness_has_the_usual_weights_of_colours(rng):
    colour = rng.integers(0, 256, (9, 11, 4), dtype=np.uint8)
    expected = 0.299 * colour[..., 0] + 0.587 * colour[..., 1] + 0.114 * colour[..., 2]
    np.testing.assert_allclose(luma(colour[..., :3], 1.0), expected, atol=1e-3)
    np.testing.assert_allclose(luma(colour, 0.5), expected / 2, atol=1e-3)
    np.testing.assert_allclose(luma(colour[..., 0], 1.0), colour[..., 0])
    np.testing.assert_allclose(luma(colour[..., :2], 1.0), colour[..., :2].mean(axis=2), atol=1e-3)
    assert luma(colour.astype(np.float64), 1.0).dtype == np.float32
