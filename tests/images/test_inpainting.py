"""Inpainting: how well it restores, what it leaves alone, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from skimage import data
from skimage.restoration import inpaint_biharmonic

from coupledict import StoppedByCallback
from coupledict.images import Inpainting
from coupledict.images._inpainting_smooth import fill_smoothly
from coupledict.images.metrics import psnr
from support.cases import first_and_slow
from support.listening import Listener, check_course

GREY = data.coins()[60:150, 30:130]
COLOUR = data.rocket()[190:260, 280:350]
QUICK = {"n_components": 48, "max_samples": 1500, "max_iter": 3, "n_rounds": 3, "random_state": 0}


def lost(shape, share, seed=0):
    return np.random.default_rng(seed).random(shape[:2]) < share


def rms(one, other):
    return np.sqrt(np.mean((np.asarray(one, float) - other) ** 2))


def biharmonic(image, mask):
    filled = inpaint_biharmonic(image, mask, channel_axis=-1 if image.ndim == 3 else None)
    return np.rint(255 * np.clip(filled, 0, 1)).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "share"),
    first_and_slow([("grey", 0.5), ("colour", 0.8)], [("grey", 0.8), ("colour", 0.5)]),
)
def test_pixels_lost_at_random_are_restored_better_than_by_biharmonic_inpainting(image, share):
    image = {"grey": GREY[:64, :64], "colour": COLOUR[:56, :56]}[image]
    mask = lost(image.shape, share)
    damaged = np.where(mask if image.ndim == 2 else mask[..., None], 0, image).astype(np.uint8)
    whole = Inpainting(random_state=0).fill(damaged, mask)
    assert psnr(image, whole) > psnr(image, biharmonic(damaged, mask)) + 0.2
    assert (whole.dtype, whole.shape) == (image.dtype, image.shape)
    np.testing.assert_array_equal(whole[~mask], image[~mask])


def test_a_texture_continues_under_scratches():
    rows, columns = np.mgrid[:80, :80]
    image = 0.5 + 0.4 * np.sin(rows / 1.5) * np.sin(columns / 1.3)
    scratched = image.copy()
    scratched[:, 20:25] = scratched[50:55] = np.nan
    mask = np.isnan(scratched)
    whole = Inpainting(random_state=0).fill(scratched)
    smooth = Inpainting(n_rounds=0).fill(scratched)
    assert np.abs(whole - image)[mask].mean() < 0.3 * np.abs(smooth - image)[mask].mean()


def test_a_hole_larger_than_a_patch_is_filled_from_outside_in():
    rows, columns = np.mgrid[:90, :90]
    image = (40 + rows + columns).astype(np.uint8)
    mask = np.zeros(image.shape, bool)
    mask[20:70, 25:75] = True
    whole = Inpainting(**QUICK).fill(np.where(mask, 0, image).astype(np.uint8), mask)
    assert np.abs(whole.astype(int) - image)[mask].max() < 12


def test_the_smooth_start_is_that_of_biharmonic_inpainting():
    mask = lost(GREY.shape, 0.5)
    reference = inpaint_biharmonic(GREY / 255, mask)
    found = fill_smoothly(np.where(mask, np.nan, GREY / 255), ~mask)
    assert np.abs(found - reference).max() < 0.05
    assert rms(found, reference) < 0.1 * rms(reference, GREY / 255)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_every_number_type_comes_back_with_its_known_pixels_to_the_bit(dtype):
    image = GREY.astype(dtype) * (257 if dtype == np.uint16 else 1)
    if np.dtype(dtype).kind == "f":
        image = image / dtype(3)
    mask = lost(image.shape, 0.4)
    given = image.copy()
    given[mask] = 0
    given.setflags(write=False)
    whole = Inpainting(**QUICK).fill(given, mask)
    assert (whole.dtype, whole.shape) == (image.dtype, image.shape)
    assert whole[~mask].tobytes() == image[~mask].tobytes()
    reference = Inpainting(**QUICK).fill(GREY.astype(float), mask)
    assert rms(whole / image.max(), reference / GREY.max()) < 0.02  # rounding may choose other atoms for a patch


def test_a_mask_a_masked_array_and_nan_say_the_same():
    image = COLOUR[:40, :40].astype(np.float64)
    mask = lost(image.shape, 0.3)
    torn = image.copy()
    torn[mask] = np.nan
    infinite = image.copy()
    infinite[mask] = np.inf
    task = Inpainting(**QUICK)
    whole = task.fill(image, mask)
    np.testing.assert_array_equal(task.fill(torn), whole)
    np.testing.assert_array_equal(task.fill(infinite, mask.astype(np.uint8) * 255), whole)
    np.testing.assert_array_equal(task.fill(torn, np.zeros(mask.shape)), whole)
    masked = np.ma.masked_array(image, np.broadcast_to(mask[..., None], image.shape))
    np.testing.assert_array_equal(task.fill(masked), whole)
    assert not np.ma.isMaskedArray(task.fill(masked))


def test_a_channel_alone_may_miss_pixels_and_the_others_help():
    image = COLOUR[:48, :48]
    mask = np.zeros(image.shape, bool)
    mask[..., 1] = lost(image.shape, 0.8)
    damaged = np.where(mask, 0, image)
    whole = Inpainting(random_state=0).fill(damaged, mask)
    np.testing.assert_array_equal(whole[~mask], image[~mask])
    alone = Inpainting(random_state=0).fill(damaged[..., 1], mask[..., 1])
    assert psnr(image[..., 1], whole[..., 1]) > psnr(image[..., 1], alone) + 1


def test_the_tolerance_follows_the_error_of_the_smooth_estimate():
    mask = lost(GREY.shape, 0.5)
    scaled = (GREY / np.float32(255)).astype(np.float32)[..., None]
    error = rms(fill_smoothly(scaled[..., 0], ~mask)[mask], scaled[..., 0][mask])
    for seed in range(3):  # the numbers that drew the mask must not draw pixels that are missing anyway
        first, last = Inpainting()._tolerance(scaled, ~mask[..., None], np.random.default_rng(seed))
        assert 0.6 * error < first < 1.5 * error
        assert last == first / 4
    sparse = ~lost(GREY.shape, 0.8)[..., None]
    assert Inpainting()._tolerance(scaled, sparse, np.random.default_rng(0))[0] < first
    assert Inpainting(tolerance=(0.2, 0.1))._tolerance(scaled, sparse, np.random.default_rng(0)) == (0.2, 0.1)


def test_threads_and_bands_change_no_bit():
    image = COLOUR[:50, :50]
    mask = lost(image.shape, 0.5)
    results = [
        Inpainting(**QUICK, n_jobs=n_jobs, max_bytes=max_bytes).fill(image, mask)
        for n_jobs, max_bytes in ((1, 1 << 26), (3, 1 << 26), (2, 1 << 17))
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("shape", [(8, 8), (8, 30), (9, 11, 3)])
def test_small_pictures_are_filled(shape, rng):
    image = rng.random(shape)
    whole = Inpainting(**QUICK).fill(image, lost(shape, 0.5))
    assert np.isfinite(whole).all()
    assert whole.min() >= image.min()
    assert whole.max() <= image.max()


def test_what_needs_no_work_is_returned_as_a_copy():
    image = GREY.copy()
    whole = Inpainting().fill(image)
    np.testing.assert_array_equal(whole, image)
    assert not np.shares_memory(whole, image)
    flat = np.full((20, 20), 7, np.uint16)
    np.testing.assert_array_equal(Inpainting().fill(flat, lost(flat.shape, 0.5)), flat)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_scale_of_values_does_not_matter(scale):
    mask = lost(GREY.shape, 0.5)
    one, other = (Inpainting(**QUICK).fill(factor * (GREY + 3.0), mask) for factor in (1.0, scale))
    assert rms(other / scale, one) < 0.02 * np.ptp(GREY)


def test_progress_is_told_and_a_callback_stops_the_work():
    mask = lost(GREY.shape, 0.5)
    listener = Listener()
    Inpainting(**QUICK, callback=listener, max_bytes=1 << 17).fill(GREY, mask)
    check_course(listener.reports, ["filling"])
    stopping = Listener(stop_at=2)
    with pytest.raises(StoppedByCallback):
        Inpainting(**QUICK, callback=stopping, max_bytes=1 << 17).fill(GREY, mask)
    assert len(stopping.reports) == 2


@pytest.mark.parametrize(
    ("image", "mask", "words"),
    [
        (GREY[0], None, r"shape \(height, width\)"),
        (GREY.astype(int), None, "uint8, uint16, float32 or float64, got int64"),
        (GREY[:5], None, "at least as large as a patch"),
        (GREY, np.ones(GREY.shape, bool), "invert it"),
        (GREY, np.zeros((3, 3), bool), r"height and width of image, \(90, 100\), got shape \(3, 3\)"),
        (GREY, np.full(GREY.shape, np.nan), "got NaN"),
        (GREY, np.full(GREY.shape, "yes"), "booleans, or numbers"),
        (GREY, np.ma.masked_array(GREY), "a plain array"),
        (np.where(GREY.max() == GREY, np.inf, 1.0), None, "finite where it is known"),
        (np.dstack([GREY, np.full(GREY.shape, np.nan)]), None, "none in channel 1"),
        (np.where(GREY > 100, 1.7e308, -1.7e308), lost(GREY.shape, 0.1), "Scale it down"),
    ],
)
def test_bad_pictures_are_refused_with_a_remedy(image, mask, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Inpainting().fill(image, mask)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"patch_size": 1}, "patch_size to be at least 2"),
        ({"n_rounds": -1}, "n_rounds"),
        ({"n_rounds": False}, "n_rounds"),
        ({"tolerance": 0.1}, "tolerance to be 'auto' or two numbers"),
        ({"tolerance": "small"}, "tolerance to be 'auto' or two numbers"),
        ({"tolerance": (0.1, 0)}, "tolerance to be two numbers, each a finite number above 0"),
        ({"n_components": 0}, "n_components"),
        ({"callback": 3}, "callback"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_bad_parameters_are_refused(parameters, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Inpainting(**parameters).fill(GREY, lost(GREY.shape, 0.5))
