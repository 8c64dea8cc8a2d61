"""Super-resolution: its parts beside slow twins, its pictures beside interpolation, and everything it must refuse."""

from __future__ import annotations

import numpy as np
import pytest
from skimage import data
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from coupledict.foundation.block_sizes import SIZES
from coupledict.images import _sr_anchored, _sr_pipeline, _sr_samples
from coupledict.images._resize import imresize
from coupledict.images._sr_geometry import Geometry
from coupledict.images._sr_model import DetailPredictor
from coupledict.images._super_resolution import SuperResolution
from support.inner import Meter

SCALES = (2, 3, 4)
METHODS = ("anchored", "coupled")
PHOTOGRAPHS = [data.camera(), data.astronaut(), data.coins()]
HELD_OUT = data.coffee()[60:300, 120:420]


def make(scale=3, **parameters):
    small = {"n_components": 64, "max_samples": 40_000, "max_iter": 8, "random_state": 0}
    return SuperResolution(scale, **(small | parameters))


@pytest.fixture(scope="module")
def models():
    return {(method, 3): make(method=method).fit(PHOTOGRAPHS) for method in METHODS} | {
        ("anchored", scale): make(scale).fit(PHOTOGRAPHS) for scale in (2, 4)
    }


def changed(model, **parameters):
    """The same fitted model with other parameters."""
    other = clone(model).set_params(**parameters)
    for name, value in vars(model).items():
        if name.endswith("_"):
            setattr(other, name, value)
    return other


def psnr(picture, original, border):
    inner = slice(border, -border)
    error = picture[inner, inner].astype(float) - original[inner, inner]
    return 10 * np.log10(255**2 / np.mean(error**2))


def turn(plane, number):
    plane = plane[:: -1 if number & 1 else 1, :: -1 if number & 2 else 1]
    return plane.swapaxes(0, 1) if number & 4 else plane


def turn_back(plane, number):
    plane = plane.swapaxes(0, 1) if number & 4 else plane
    return plane[:: -1 if number & 1 else 1, :: -1 if number & 2 else 1]


# What it is for


@pytest.mark.parametrize(
    ("method", "scale", "gain"),
    [("anchored", 2, 2.0), ("anchored", 3, 1.5), ("anchored", 4, 1.2), ("coupled", 3, 1.1)],
)
def test_it_beats_interpolation_on_a_photograph_it_never_saw(models, method, scale, gain):
    original = HELD_OUT[:, :, 1]
    small = imresize(original, 1 / scale)
    ours = psnr(models[method, scale].upscale(small), original, scale)
    assert ours > psnr(imresize(small, scale), original, scale) + gain


@pytest.mark.parametrize("scale", SCALES)
def test_the_models_that_ship(scale):
    """On pictures they have not seen: a motorcycle, and printed text."""
    model = SuperResolution.pretrained(scale, n_jobs=2)
    for photograph, gain in ((data.stereo_motorcycle()[0][:480, :480, 1], 0.9), (data.text()[:168, :444], 2.4)):
        small = imresize(photograph, 1 / scale)
        assert psnr(model.upscale(small), photograph, scale) > psnr(imresize(small, scale), photograph, scale) + gain


def test_an_ensemble_is_better():
    original = data.stereo_motorcycle()[0][:480, :480, 1].astype(np.float32)
    small = imresize(original, 1 / 3)
    one, several = (SuperResolution.pretrained(3, ensemble=ensemble).upscale(small) for ensemble in (False, True))
    assert psnr(several, original, 3) > psnr(one, original, 3) + 0.01


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("method", METHODS)
def test_pictures_may_be_turned_first(models, method, number):
    """Flips and transposes of the small picture give those of the large one, up to patches that look alike turned."""
    small = imresize(HELD_OUT[:, :, 0].astype(np.float32), 1 / 3)
    model = models[method, 3]
    error = np.abs(turn_back(model.upscale(turn(small, number)), number) - model.upscale(small))
    assert np.mean(error > 0.01) < 0.01


@pytest.mark.parametrize("method", METHODS)
def test_brightness_and_contrast_are_kept(models, method):
    small = imresize(HELD_OUT[:, :, 0].astype(np.float64), 1 / 3)
    large = models[method, 3].upscale(small)
    same = (models[method, 3].upscale(small / 255 + 2) - 2) * 255
    assert np.mean(np.abs(same - large) > 0.05) < 1e-3


# The parts


@pytest.mark.parametrize("patch_size", [1, 3, 5])
@pytest.mark.parametrize("scale", SCALES)
def test_differences_are_those_of_the_interpolated_picture(rng, scale, patch_size):
    geometry = Geometry(scale, patch_size)
    plane = rng.random((21, 23))
    i, j = 10, 12
    r = geometry.radius
    window = plane[i - r : i + r + 1, j - r : j + r + 1]
    features = window.ravel() @ geometry.differences()
    large = imresize(plane, scale)
    y, x = (i - geometry.half) * scale, (j - geometry.half) * scale
    n = geometry.side

    def patch(down, right):
        return large[y + down : y + down + n, x + right : x + right + n]

    slow = [
        patch(1, 0) - patch(-1, 0),
        patch(0, 1) - patch(0, -1),
        patch(2, 0) - 2 * patch(0, 0) + patch(-2, 0),
        patch(0, 2) - 2 * patch(0, 0) + patch(0, -2),
    ]
    np.testing.assert_allclose(features, np.ravel(slow), atol=1e-12)


def test_turned_patches_rise_along_rows_and_columns(rng):
    geometry = Geometry(3, 3)
    plane = rng.random((30, 31))
    numbers = geometry.turns(geometry.pad(plane))
    assert numbers.shape == plane.shape
    assert set(numbers.ravel().tolist()) == set(range(8))
    padded, n = geometry.pad(plane), geometry.window
    places = np.arange(n) - n // 2
    weight = np.exp(-0.5 * (places[:, None] ** 2 + places**2))
    for i, j in rng.integers(30, size=(40, 2)):
        window = padded[i : i + n, j : j + n]
        turned = window.ravel()[geometry.turned(n)[numbers[i, j]]].reshape(n, n)
        np.testing.assert_array_equal(turned, turn(window, numbers[i, j]))
        down, right = (turned * weight * places[:, None]).sum(), (turned * weight * places).sum()
        assert right >= down >= 0
        back = turned.ravel()[geometry.turned_back(n)[numbers[i, j]]].reshape(n, n)
        np.testing.assert_array_equal(back, window)


def slow_detail(model, plane):
    """The detail of a picture, patch by patch."""
    geometry = model._geometry()
    n, side, s, half = geometry.window, geometry.side, geometry.scale, geometry.half
    padded = geometry.pad(plane)
    numbers = geometry.turns(padded)
    total = np.zeros([(size + 2 * half) * s for size in plane.shape])
    count = np.zeros_like(total)
    for i, j in np.ndindex(plane.shape):
        window = turn(padded[i : i + n, j : j + n], numbers[i, j]).astype(float)
        features = window.ravel() @ model.projection_
        nearest = np.argmax(np.abs(model.components_ @ features))
        patch = (features @ model.details_[nearest] @ model.basis_).reshape(side, side)
        total[i * s : i * s + side, j * s : j * s + side] += turn_back(patch, numbers[i, j])
        count[i * s : i * s + side, j * s : j * s + side] += 1
    inner = slice(half * s, -half * s or None)
    return (total / count)[inner, inner]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", [(9, 14), (2, 3), (1, 6)])
def test_against_the_slow_twin(models, scale, shape):
    plane = imresize(HELD_OUT[:, :, 0].astype(np.float32), 1 / scale)[20 : 20 + shape[0], 30 : 30 + shape[1]]
    model = changed(models["anchored", scale], back_projection=0)
    detail = model.upscale(plane) - imresize(plane, scale)
    np.testing.assert_allclose(detail, slow_detail(model, plane), atol=2e-3)


def test_an_ensemble_against_its_definition(models, rng):
    model = models["anchored", 3]
    features = rng.standard_normal((50, model.components_.shape[1])).astype(np.float32)
    features[7] = 0
    predicted = DetailPredictor(model._model(), n_nonzero=1, n_patches=50, ensemble=True).predict(features)
    for feature, row in zip(features.astype(float), predicted, strict=True):
        correlations = np.abs(model.components_ @ feature)
        best = np.argsort(-correlations)[:3]
        weights = correlations[best] ** 20 if feature.any() else np.ones(3)
        slow = sum(w * (feature @ model.details_[k]) for w, k in zip(weights, best, strict=True)) / weights.sum()
        np.testing.assert_allclose(row, slow, rtol=1e-3, atol=1e-4)


def test_anchors_take_the_samples_that_correlate_most(rng):
    anchors = rng.standard_normal((70, 5)).astype(np.float32)
    anchors /= np.linalg.norm(anchors, axis=1, keepdims=True)
    features, details = (rng.standard_normal((400, n)).astype(np.float32) for n in (5, 8))
    features[3] = 0
    unit, _ = _sr_anchored.normalized(features, details)
    assert len(unit) == 399, "a sample without features teaches nothing"
    limits = _sr_anchored.thresholds(anchors, unit, 0.1)
    parts = [(features[:150], details[:150]), (features[150:], details[150:])]
    rest = {"ridge_alpha": 0.1, "n_jobs": 1, "meter": Meter(None, "fitting maps")}
    maps = _sr_anchored.regressors(anchors, limits, parts, lambda part: part, **rest)
    norms = np.linalg.norm(features, axis=1)
    for anchor, found in zip(anchors.astype(float), maps, strict=True):
        correlations = np.abs(features @ anchor) / np.where(norms > 0, norms, 1)
        nearest = np.argsort(-correlations)[:40]  # a tenth of 399
        F, D = features[nearest] / norms[nearest, None], details[nearest] / norms[nearest, None]
        np.testing.assert_allclose(found, np.linalg.solve(F.T @ F + 0.1 * np.eye(5), F.T @ D), rtol=1e-3, atol=1e-4)


def test_signs_of_samples_do_not_matter(rng):
    anchors, features = (rng.standard_normal((n, 5)).astype(np.float32) for n in (3, 60))
    details = rng.standard_normal((60, 4)).astype(np.float32)
    signs = rng.choice([-1, 1], 60).astype(np.float32)[:, None]
    limits = np.full(3, 0.3, np.float32)
    rest = {"ridge_alpha": 0.1, "n_jobs": 1, "meter": Meter(None, "fitting maps")}
    maps = [
        _sr_anchored.regressors(anchors, limits, [0], lambda _, s=s: (s * features, s * details), **rest)
        for s in (1, signs)
    ]
    np.testing.assert_allclose(*maps, atol=1e-5)


def test_samples_are_windows_beside_what_interpolation_misses():
    geometry = Geometry(2, 3)
    plane = PHOTOGRAPHS[0][:41, :51].astype(np.float32) / 255
    draws = _sr_samples.plan([plane.shape], geometry, 10, np.random.default_rng(0))
    windows, details = _sr_samples.samples([plane], draws, geometry)
    assert windows.shape == (10, 81)
    assert details.shape == (10, 36)
    plane = plane[:40, :50]
    small = imresize(plane, 0.5)
    missing = plane - imresize(small, 2)
    found = 0
    for window, detail in zip(windows, details, strict=True):
        for i, j in np.ndindex(12, 17):
            for number in range(8):
                if np.array_equal(turn(small[i : i + 9, j : j + 9], number).ravel(), window):
                    patch = missing[2 * i + 6 : 2 * i + 12, 2 * j + 6 : 2 * j + 12]
                    np.testing.assert_array_equal(turn(patch, number).ravel(), detail)
                    assert number == geometry.turns(small)[i, j]
                    found += 1
    assert found == 10


def test_samples_come_from_smaller_copies_where_there_are_too_few():
    geometry = Geometry(3, 3)
    rng = np.random.default_rng(0)
    shapes = [(90, 90), (60, 45), (5, 5)]
    room = 24 * 24 + 14 * 9
    few = _sr_samples.plan(shapes, geometry, 100, rng)
    assert {draw.level for draw in few} == {0}
    assert abs(sum(draw.count for draw in few) - 100) <= 1
    more = _sr_samples.plan(shapes, geometry, room + 1, rng)
    assert {draw.level for draw in more} == {0, 1}
    everything = _sr_samples.plan(shapes, geometry, 10**9, rng)
    assert {draw.level for draw in everything} == set(range(12))
    assert sum(draw.count for draw in everything if draw.level == 0) == room


def test_back_projection_explains_the_small_picture(models):
    small = imresize(HELD_OUT[:, :, 0].astype(np.float32), 1 / 3)

    def misfit(n):
        large = changed(models["anchored", 3], back_projection=n).upscale(small)
        return np.abs(imresize(large, 1 / 3) - small).mean()

    errors = [misfit(n) for n in (0, 1, 2, 10)]
    assert errors == sorted(errors, reverse=True)
    assert errors[3] < 0.05 * errors[0]


# The same for any tiles and threads


@pytest.mark.parametrize("shape", [(37, 43), (17, 5), (40, 3)])
@pytest.mark.parametrize(("method", "ensemble"), [("anchored", False), ("anchored", True), ("coupled", False)])
def test_tiles_do_not_matter(models, method, ensemble, shape):
    small = imresize(HELD_OUT[:, :, 0].astype(np.float32), 1 / 3)[: shape[0], : shape[1]]
    model = changed(models[method, 3], ensemble=ensemble)
    whole = model.upscale(small)
    assert len(_sr_pipeline.tiles(small.shape, 1)) == 1
    for pixels, columns in ((1, 1000), (300, 20), (77, 7), (40, 1)):
        with SIZES.changed(upscaled_pixels=pixels, upscaled_columns=columns):
            np.testing.assert_array_equal(model.upscale(small), whole)


@pytest.mark.parametrize("method", METHODS)
def test_threads_do_not_matter(models, method):
    picture = imresize(HELD_OUT, 0.5)
    one, three = (changed(models[method, 3], n_jobs=n).upscale(picture) for n in (1, 3))
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("method", METHODS)
def test_fits_are_the_same_for_any_number_of_threads(method):
    images = [photograph[:90, :100] for photograph in PHOTOGRAPHS]
    one, two = (make(method=method, n_jobs=n).fit(images) for n in (1, 2))
    for name in ("projection_", "basis_", "components_", "details_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    other = make(method=method, random_state=1).fit(images)
    assert not np.array_equal(one.components_, other.components_)


def test_tiles_cover_a_picture_once():
    for shape in ((1, 1), (170, 170), (1000, 1333), (1, 9000), (9000, 1)):
        for n_jobs in (1, 2, 7):
            count = np.zeros(shape, int)
            for top, bottom, left, right in _sr_pipeline.tiles(shape, n_jobs):
                assert bottom > top
                assert right > left
                assert (bottom - top) * (right - left) <= 1.1 * SIZES.upscaled_pixels
                count[top:bottom, left:right] += 1
            assert (count == 1).all()


# Number types, channels, sizes


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("n_channels", [None, 1, 2, 3, 4])
def test_number_types_and_channels_are_kept(models, dtype, n_channels):
    picture = imresize(HELD_OUT, 0.2)
    picture = np.dstack([picture, picture[:, :, 0] // 2])[:, :, :n_channels] if n_channels else picture[:, :, 0]
    whole = {np.uint8: 1, np.uint16: 257}.get(dtype)
    given = (picture.astype(int) * whole if whole else picture / 255).astype(dtype)
    before = given.copy()
    large = models["anchored", 3].upscale(given)
    np.testing.assert_array_equal(given, before)
    assert large.dtype == dtype
    assert large.shape == (3 * picture.shape[0], 3 * picture.shape[1], *picture.shape[2:])
    reference = models["anchored", 3].upscale(picture.astype(float))
    cut = np.clip(reference, 0, 255) if whole else reference
    unit = whole or 1 / 255
    assert np.abs(large / unit - cut).max() < (0.51 if dtype == np.uint8 else 0.01)


def test_colour_is_luma_by_the_model_and_chroma_by_interpolation(models):
    small = imresize(HELD_OUT.astype(float), 1 / 3)
    weights = np.array([0.299, 0.587, 0.114])
    large = models["anchored", 3].upscale(small)
    luma, chroma = large @ weights, large - (large @ weights)[:, :, None]
    plain = imresize(small, 3)
    np.testing.assert_allclose(chroma, plain - (plain @ weights)[:, :, None], atol=1e-3)
    np.testing.assert_allclose(luma, models["anchored", 3].upscale(small @ weights), atol=0.02)
    assert np.abs(luma - plain @ weights).max() > 5


@pytest.mark.parametrize("n_channels", [2, 4])
def test_alpha_is_interpolated(models, n_channels):
    picture = data.logo()[100:160, 100:170][:, :, :n_channels]
    large = models["anchored", 3].upscale(picture)
    alpha = imresize(picture[:, :, -1].astype(np.float64), 3)
    assert np.abs(large[:, :, -1] - np.clip(alpha, 0, 255)).max() < 0.501


def test_grey_in_three_channels_is_grey(models):
    grey = imresize(HELD_OUT[:, :, 0], 1 / 3)
    large = models["anchored", 3].upscale(np.dstack([grey] * 3))
    assert np.abs(large.astype(int) - models["anchored", 3].upscale(grey)[:, :, None]).max() <= 1
    assert np.ptp(large, axis=2).max() <= 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (2, 2), (3, 40)])
def test_small_pictures(models, method, shape, rng):
    model = models[method, 3]
    large = model.upscale(rng.integers(0, 256, shape, np.uint8))
    assert large.shape == (3 * shape[0], 3 * shape[1])
    ramp = np.linspace(10, 200, shape[0] * shape[1], dtype=np.float32).reshape(shape)
    assert np.abs(model.upscale(ramp) - imresize(ramp, 3)).max() < 60


@pytest.mark.parametrize("method", METHODS)
def test_flat_pictures_stay_flat(models, method):
    for value in (0, 1, 137, 255):
        assert (models[method, 3].upscale(np.full((30, 20, 3), value, np.uint8)) == value).all()
    np.testing.assert_allclose(models[method, 3].upscale(np.full((9, 9), 1 / 3)), 1 / 3, rtol=1e-6)


def test_layouts(models, tmp_path):
    picture = imresize(HELD_OUT, 0.2)
    expected = models["anchored", 3].upscale(picture)
    mapped = np.memmap(tmp_path / "picture", np.uint8, "w+", shape=picture.shape)
    mapped[...] = picture
    locked = picture.copy()
    locked.flags.writeable = False
    for same in (mapped, locked, np.asfortranarray(picture), picture[::-1][::-1]):
        np.testing.assert_array_equal(models["anchored", 3].upscale(same), expected)


def test_fit_takes_all_number_types():
    crops = [photograph[:70, :80] for photograph in PHOTOGRAPHS]
    wide = [(257 * crop.astype(np.uint16)) for crop in crops]
    floats = [crop / 255 for crop in crops]
    with_alpha = [np.dstack([crop, crop[:, :, :1] if crop.ndim == 3 else crop]) for crop in crops]
    first = make().fit(crops)
    for same in (wide, floats, with_alpha, (crops[0], wide[1], floats[2])):
        model = make().fit(same)
        np.testing.assert_allclose(np.abs(model.projection_), np.abs(first.projection_), atol=2e-3)
        assert model.components_.dtype == model.details_.dtype == np.float32


# Parameters


def test_a_model_can_be_made_smaller(models):
    model = make(n_detail_components=30).fit(PHOTOGRAPHS)
    assert model.details_.shape[2] == 30
    np.testing.assert_allclose(model.basis_ @ model.basis_.T, np.eye(30), atol=1e-5)
    original = HELD_OUT[:, :, 1]
    small = imresize(original, 1 / 3)
    ours, full = (psnr(m.upscale(small), original, 3) for m in (model, models["anchored", 3]))
    assert full - 0.1 < ours < full + 0.05


@pytest.mark.parametrize("patch_size", [1, 5])
def test_other_patches(patch_size):
    original = HELD_OUT[:, :, 1]
    small = imresize(original, 1 / 3)
    model = make(patch_size=patch_size).fit(PHOTOGRAPHS)
    assert psnr(model.upscale(small), original, 3) > psnr(imresize(small, 3), original, 3) + 0.3


def test_progress_is_shown(models, capsys):
    changed(models["anchored", 3], verbose=1).upscale(imresize(HELD_OUT, 0.3))
    assert "SuperResolution, upscaling: " in capsys.readouterr().out
    models["anchored", 3].upscale(imresize(HELD_OUT, 0.3))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"scale": 5}, ValueError, "scale to be an integer from 2 to 4, got 5"),
        ({"scale": 1}, ValueError, "scale to be an integer from 2 to 4, got 1"),
        ({"scale": 2.0}, TypeError, r"scale to be an integer, got 2\.0"),
        ({"scale": "3"}, TypeError, "scale to be an integer, got '3'"),
        ({"method": "magic"}, ValueError, "method to be one of"),
        ({"n_components": 0}, ValueError, "n_components to be at least 1"),
        ({"n_components": 10.5}, TypeError, "n_components to be an integer"),
        ({"n_nonzero_coefs": 0}, ValueError, "n_nonzero_coefs to be at least 1"),
        ({"n_neighbors": -3}, ValueError, "n_neighbors to be at least 1"),
        ({"max_samples": 0}, ValueError, "max_samples to be at least 1"),
        ({"n_detail_components": 0}, ValueError, "n_detail_components to be at least 1"),
        ({"patch_size": 4}, ValueError, "patch_size to be an odd integer of at least 1, got 4"),
        ({"ridge_alpha": -1}, ValueError, "ridge_alpha to be a number from 0 to"),
        ({"feature_share": 0}, ValueError, "feature_share to be a number above 0 and at most 1"),
        ({"feature_share": 1.5}, ValueError, "feature_share to be a number above 0 and at most 1"),
        ({"back_projection": -1}, ValueError, "back_projection to be at least 0"),
        ({"back_projection": 0.5}, TypeError, "back_projection to be an integer"),
        ({"method": "coupled", "n_neighbors": 10}, ValueError, "n_neighbors only with method='anchored'"),
        ({"method": "coupled", "ridge_alpha": 0.1}, ValueError, "ridge_alpha only with method='anchored'"),
        ({"method": "coupled", "ensemble": True}, ValueError, "ensemble only with method='anchored'"),
        ({"n_jobs": 0}, ValueError, "n_jobs to be at least 1"),
        ({"random_state": "x"}, TypeError, "random_state to be None"),
    ],
)
def test_bad_parameters(parameters, error, match):
    model = make().set_params(**parameters)
    with pytest.raises(error, match=match):
        model.fit(PHOTOGRAPHS)


@pytest.mark.parametrize(
    ("images", "error", "match"),
    [
        ([], ValueError, "at least one image"),
        (PHOTOGRAPHS[0], TypeError, "a list of images, got one array"),
        (None, TypeError, "X to be a list of images, got None"),
        ("folder", TypeError, "X to be a list of images, got 'folder'"),
        ([np.zeros((50, 50, 5), np.uint8)], ValueError, r"X\[0\] of shape"),
        ([PHOTOGRAPHS[0], np.zeros((0, 5))], ValueError, r"X\[1\] to have at least one pixel"),
        ([np.zeros((50, 50), bool)], TypeError, r"X\[0\] to be of dtype uint8"),
        ([np.full((50, 50), np.nan)], ValueError, r"X\[0\] to be finite"),
        ([np.zeros((20, 20))], ValueError, "at least n_components=64 patches to learn from, got 0"),
        ([np.ones((400, 400))], ValueError, "some structure, got only flat ones"),
    ],
)
def test_bad_images_to_learn_from(images, error, match):
    with pytest.raises(error, match=match):
        make().fit(images)


@pytest.mark.parametrize(
    ("image", "error", "match"),
    [
        (np.zeros(5), ValueError, r"image of shape \(rows, columns\)"),
        (np.zeros((5, 5, 5)), ValueError, "1 to 4 channels"),
        (np.zeros((0, 5)), ValueError, "image to have at least one pixel"),
        (np.zeros((5, 5), np.int64), TypeError, "image to be of dtype uint8, uint16, float32 or float64, got int64"),
        (np.array([[1.0, np.inf]]), ValueError, "image to be finite"),
        ("picture.png", ValueError, "image of shape"),
    ],
)
def test_bad_images_to_upscale(models, image, error, match):
    with pytest.raises(error, match=match):
        models["anchored", 3].upscale(image)


def test_a_model_must_be_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        make().upscale(HELD_OUT)
    with pytest.raises(NotFittedError):
        make().save(tmp_path / "model")


@pytest.mark.parametrize("parameters", [{"scale": 2}, {"scale": 4}, {"patch_size": 5}, {"method": "coupled"}])
def test_what_fit_decided_cannot_be_changed_later(models, parameters):
    with pytest.raises(ValueError, match="as they were in fit"):
        changed(models["anchored", 3], **parameters).upscale(HELD_OUT)
