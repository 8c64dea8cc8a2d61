"""Patches out of images and back, against loops that do it patch by patch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coupledict.foundation.block_sizes import SIZES
from coupledict.images._patches import Assembly, assemble_patches, extract_patches, patch_bands, patch_grid


def slow_starts(room, size, step):
    starts = [start for start in range(room) if start % step == 0 and start + size <= room]
    return sorted({*starts, room - size})


def slow_patches(image, patch_shape, stride):
    """All patches and their positions, one at a time."""
    axes = [slow_starts(*sizes) for sizes in zip(image.shape, patch_shape, stride, strict=False)]
    positions = list(itertools.product(*axes))
    cut = [image[tuple(slice(p, p + s) for p, s in zip(position, patch_shape, strict=True))] for position in positions]
    return np.array(cut), np.array(positions)


def slow_assembly(patches, positions, shape, weights):
    """The weighted mean of patches, one at a time, in float64."""
    total, weight = np.zeros(shape), np.zeros(shape)
    for patch, position, own in zip(patches, positions, weights, strict=True):
        where = tuple(slice(p, p + s) for p, s in zip(position, patch.shape, strict=False))
        total[where] += patch * own
        weight[where] += own
    return total / weight


@st.composite
def cases(draw):
    """An image of one to three axes, with channels or without, a patch shape and a stride a patch can bridge."""
    patch = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    room = [size + draw(st.integers(0, 6)) for size in patch]
    channels = draw(st.sampled_from([(), (1,), (3,)]))
    stride = [draw(st.integers(1, size)) for size in patch]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    image = rng.standard_normal((*room, *channels))
    if draw(st.booleans()):
        image = image.astype(np.float32)
    return image, tuple(patch), tuple(stride), rng


@given(cases())
def test_patches_are_those_of_a_loop(case):
    image, patch, stride, _ = case
    expected, places = slow_patches(image, patch, stride)
    patches, positions = extract_patches(image, patch, stride=stride, return_positions=True)
    assert patches.dtype == image.dtype
    np.testing.assert_array_equal(patches, expected)
    np.testing.assert_array_equal(positions, places)
    np.testing.assert_array_equal(extract_patches(image, patch, stride=stride), expected)


@given(cases())
def test_assembly_undoes_extraction(case):
    image, patch, stride, _ = case
    again = assemble_patches(extract_patches(image, patch, stride=stride), image.shape, stride=stride)
    assert again.dtype == image.dtype
    np.testing.assert_allclose(again, image, rtol=0, atol=20 * np.finfo(image.dtype).eps * np.abs(image).max())


@given(cases(), st.sampled_from(["window", "patches", "all"]), st.booleans())
def test_assembly_is_the_weighted_mean_of_a_loop(case, kind, anywhere):
    image, patch, stride, rng = case
    patches, positions = extract_patches(image, patch, stride=stride, return_positions=True)
    patches = rng.standard_normal(patches.shape)
    shape = {"window": (1, *patches.shape[1:]), "patches": (len(patches), *(1,) * image.ndim), "all": patches.shape}
    weights = rng.uniform(0.1, 2, shape[kind])
    expected = slow_assembly(patches, positions, image.shape, np.broadcast_to(weights, patches.shape))
    if anywhere:
        order = rng.permutation(len(patches))
        own = weights if kind == "window" else weights[order]
        again = assemble_patches(patches[order], image.shape, positions=positions[order], weights=own)
    else:
        again = assemble_patches(patches, image.shape, stride=stride, weights=weights)
    np.testing.assert_allclose(again, expected, atol=1e-12)


@given(cases(), st.integers(1, 5000))
def test_bands_hold_the_patches_of_the_image(case, max_bytes):
    image, patch, stride, rng = case
    arguments = {"max_bytes": max_bytes, "itemsize": image.itemsize}
    bands = list(patch_bands(image.shape, patch, stride=stride, **arguments))
    parts = [extract_patches(image[band], patch, stride=stride) for band in bands]
    whole = extract_patches(image, patch, stride=stride)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    n_row = len(whole) // len(patch_grid(image.shape, patch, stride=stride)[0])
    assert all(part.nbytes <= max_bytes or len(part) == n_row for part in parts)
    sums = Assembly(image.shape, whole.shape[1:], stride=stride, dtype=image.dtype)
    weights = rng.uniform(0.1, 2, whole.shape[1:])
    for part, band in zip(parts, bands, strict=True):
        sums.add(part, band, weights=weights)
    at_once = assemble_patches(whole, image.shape, stride=stride, weights=weights)
    np.testing.assert_array_equal(sums.image(), at_once)  # to the last bit


def test_sums_do_not_depend_on_blocks(rng):
    patches = rng.standard_normal((43 * 33, 8, 8)).astype(np.float32)
    whole = assemble_patches(patches, (50, 40))
    with SIZES.changed(assembled_bytes=1):
        np.testing.assert_array_equal(assemble_patches(patches, (50, 40)), whole)


@given(cases(), st.floats(0, 1))
def test_a_mask_keeps_patches_that_lie_inside(case, share):
    image, patch, stride, rng = case
    mask = rng.random(image.shape[: len(patch)]) < 0.7 + 0.3 * share
    expected, places = slow_patches(image, patch, stride)
    inside, _ = slow_patches(mask, patch, stride)
    kept = inside.reshape(len(inside), -1).all(axis=1)
    patches, positions = extract_patches(image, patch, stride=stride, mask=mask, return_positions=True)
    np.testing.assert_array_equal(patches, expected[kept])
    np.testing.assert_array_equal(positions, places[kept])


def test_random_patches_are_drawn_once_and_evenly(rng):
    image = rng.random((9, 11))
    drawn = np.zeros((8, 9))
    for seed in range(300):
        patches, positions = extract_patches(image, (2, 3), max_patches=24, random_state=seed, return_positions=True)
        assert len({*map(tuple, positions)}) == 24
        assert positions.tolist() == sorted(positions.tolist())
        for patch, (i, j) in zip(patches, positions, strict=True):
            np.testing.assert_array_equal(patch, image[i : i + 2, j : j + 3])
        np.add.at(drawn, tuple(positions.T), 1)
    # 300 draws of a third: 100 each, with a deviation of about 8.
    assert np.all(np.abs(drawn - 100) < 40)


def test_random_patches_of_two_images_lie_at_the_same_places(rng):
    image = rng.random((20, 30, 3))
    sharp = extract_patches(image, (4, 4), max_patches=50, random_state=3)
    double = extract_patches(2 * image, (4, 4), max_patches=50, random_state=3)
    np.testing.assert_array_equal(double, 2 * sharp)
    everything = extract_patches(image, (4, 4), max_patches=17 * 27)
    np.testing.assert_array_equal(everything, extract_patches(image, (4, 4)))


def test_random_patches_inside_a_mask(rng):
    image, mask = rng.random((20, 20)), np.zeros((20, 20), bool)
    mask[5:12, 3:19] = True
    _, positions = extract_patches(image, (4, 4), mask=mask, max_patches=20, random_state=0, return_positions=True)
    assert len(positions) == 20
    assert positions.min(axis=0).tolist() >= [5, 3]
    assert np.all(positions.max(axis=0) <= [8, 15])
    everything, all_positions = extract_patches(image, 4, mask=mask, return_positions=True)
    for most in (52, 53):
        found = extract_patches(image, 4, mask=mask, max_patches=most, random_state=0, return_positions=True)
        assert len(found[0]) == 52, "no more than there are"
        np.testing.assert_array_equal(found[0], everything)
        np.testing.assert_array_equal(found[1], all_positions)


def test_one_number_is_the_side_of_a_square(rng):
    for image in (rng.random((9, 8)), rng.random((9, 8, 3))):
        np.testing.assert_array_equal(extract_patches(image, 4, stride=2), extract_patches(image, (4, 4), stride=2))
    assert list(patch_bands((9, 8), 4, max_bytes=100)) == list(patch_bands((9, 8), (4, 4), max_bytes=100))


def test_an_empty_mask_gives_no_patches():
    assert extract_patches(np.ones((5, 5)), (2, 2), mask=np.zeros((5, 5), bool)).shape == (0, 2, 2)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.bool_, np.float16, np.int64])
def test_number_types(rng, dtype):
    image = rng.integers(0, 2 if dtype == np.bool_ else 200, (13, 10)).astype(dtype)
    patches = extract_patches(image, (4, 4), stride=2)
    assert patches.dtype == dtype
    again = assemble_patches(patches, image.shape, stride=2)
    assert again.dtype == (np.float64 if dtype == np.int64 else np.float32)
    np.testing.assert_array_equal(again, image)


def test_any_memory_layout(rng, tmp_path):
    image = rng.random((12, 15, 3))
    expected = extract_patches(image, (5, 4), stride=3)
    mapped = np.memmap(tmp_path / "image", np.float64, "w+", shape=image.shape)
    mapped[:] = image
    mapped.flush()
    readonly = np.memmap(tmp_path / "image", np.float64, "r", shape=image.shape)
    flipped = np.ascontiguousarray(image[::-1, :, ::-1])[::-1, :, ::-1]
    for same in (readonly, flipped, np.asfortranarray(image)):
        patches = extract_patches(same, (5, 4), stride=3)
        assert type(patches) is np.ndarray
        np.testing.assert_array_equal(patches, expected)
    patches = np.asfortranarray(expected)
    patches.flags.writeable = False
    np.testing.assert_allclose(assemble_patches(patches, image.shape, stride=3), image)


def test_patches_are_a_copy():
    image = np.zeros((4, 4))
    for shape in ((4, 4), (2, 2), (1, 1), (1, 4)):
        patches = extract_patches(image, shape, stride=shape)
        patches += 1
    assert not image.any()


def test_the_whole_image_is_a_patch(rng):
    image = rng.random((4, 6))
    np.testing.assert_array_equal(extract_patches(image, (4, 6)), image[None])
    np.testing.assert_array_equal(assemble_patches(image[None], (4, 6)), image)
    np.testing.assert_array_equal(assemble_patches(image[None], (4, 6), positions=[[0, 0]]), image)


def test_a_stride_longer_than_the_patch_leaves_gaps(rng):
    image = rng.random((10, 10))
    patches = extract_patches(image, (2, 2), stride=4)
    with pytest.raises(ValueError, match=r"none with a positive weight for 64 of 100\. Set fill"):
        assemble_patches(patches, image.shape, stride=4)
    again = assemble_patches(patches, image.shape, stride=4, fill=-1)
    covered = np.isin(np.arange(10), [0, 1, 4, 5, 8, 9])
    np.testing.assert_array_equal(again, np.where(np.outer(covered, covered), image, -1))


def test_positions_may_repeat_and_lie_anywhere():
    patches = np.array([[[1.0, 2.0]], [[5.0, 6.0]], [[3.0, 4.0]]])
    again = assemble_patches(patches, (2, 3), positions=[[0, 1], [0, 1], [1, 0]], fill=0)
    np.testing.assert_array_equal(again, [[0, 3, 4], [3, 4, 0]])


def test_a_large_image_needs_bands_of_its_rows_only():
    """24 megapixels of patches would be 6 GB; the bands know without looking at them."""
    bands = list(patch_bands((4000, 6000), (8, 8), max_bytes=1 << 26))
    assert bands[0].start == 0
    assert bands[-1].stop == 4000
    assert all(a.stop - b.start == 7 for a, b in itertools.pairwise(bands))
    assert all((band.stop - band.start - 7) * 5993 * 64 * 4 <= 1 << 26 for band in bands)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (((5,), (2, 2)), ValueError, "image of 2 dimensions for patches of shape"),
        (((5, 5, 5, 5), (2, 2)), ValueError, r"got shape \(5, 5, 5, 5\)"),
        (((5, 1), (2, 2)), ValueError, r"at least as large as a patch \(2, 2\), got shape \(5, 1\)"),
        (((0, 5), (2, 2)), ValueError, "at least as large"),
        (((5, 5), 2.0), TypeError, "patch_size to be an integer or a tuple of integers"),
        (((5, 5), (2, 0)), ValueError, r"patch_size\[1\] to be at least 1"),
        (((5, 5), (2, 1.5)), TypeError, r"patch_size\[1\] to be an integer"),
    ],
)
def test_shapes_that_do_not_fit(arguments, error, message):
    with pytest.raises(error, match=message):
        extract_patches(np.zeros(arguments[0]), arguments[1])


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"stride": 0}, ValueError, "stride to be at least 1"),
        ({"stride": (1, 2, 3)}, ValueError, "an integer or 2 of them"),
        ({"stride": 1.5}, TypeError, "stride to be a tuple"),
        ({"stride": True}, TypeError, "stride"),
        ({"max_patches": 0}, ValueError, "max_patches to be at least 1"),
        ({"mask": np.ones((5, 4), bool)}, ValueError, r"of bool and of shape \(5, 5\)"),
        ({"mask": np.ones((5, 5))}, ValueError, "of bool"),
        ({"max_patches": 3, "random_state": "seed"}, TypeError, "random_state"),
    ],
)
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        extract_patches(np.zeros((5, 5)), (2, 2), **parameters)


@pytest.mark.parametrize(
    ("patches", "parameters", "error", "message"),
    [
        (np.zeros((15, 2, 2)), {}, ValueError, r"Expected 16 patches of shape \(2, 2\)"),
        (np.zeros((16, 4)), {}, ValueError, "Expected patches of 3 dimensions"),
        (np.zeros((1, 6, 2)), {}, ValueError, "no larger than the image"),
        (np.zeros((16, 2, 2), complex), {}, TypeError, "real numbers"),
        (np.zeros((16, 2, 2)), {"weights": np.ones(3)}, ValueError, "weights that broadcast"),
        (np.zeros((16, 2, 2)), {"weights": -np.ones((2, 2))}, ValueError, "not negative"),
        (np.zeros((16, 2, 2)), {"weights": np.full((2, 2), np.nan)}, ValueError, "finite"),
        (np.zeros((1, 2, 2)), {"positions": [[0, 4]]}, ValueError, r"from 0 to \[3, 3\]"),
        (np.zeros((1, 2, 2)), {"positions": [[-1, 0]]}, ValueError, "from 0 to"),
        (np.zeros((1, 2, 2)), {"positions": [[0.0, 0.0]]}, TypeError, "integers"),
        (np.zeros((2, 2, 2)), {"positions": [[0, 0]]}, ValueError, r"positions of shape \(2, 2\)"),
    ],
)
def test_bad_patches(patches, parameters, error, message):
    with pytest.raises(error, match=message):
        assemble_patches(patches, (5, 5), **parameters)


def test_a_weight_of_zero_counts_as_uncovered():
    window = np.array([[0.0, 1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match="4 of 16"):
        assemble_patches(np.ones((4, 2, 2)), (4, 4), stride=2, weights=window)


def test_windows_of_colour_patches(rng):
    image = rng.random((9, 9, 3))
    patches = extract_patches(image, (3, 3), stride=2)
    window = np.hanning(5)[1:-1]
    again = assemble_patches(patches, image.shape, stride=2, weights=np.outer(window, window)[..., None])
    np.testing.assert_allclose(again, image)
