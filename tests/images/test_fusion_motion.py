"""Alignment of a stack: steps between neighbours against known motions, their chain, and the common crop."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import ndimage

from coupledict.images import MultiFocusFusion
from coupledict.images import _fusion_motion as motions
from support.cases import first_and_slow
from support.stacks import canvas, corner_error, motion, texture, view

SHAPE = (200, 260)
SCENE = canvas(SHAPE)
TRUE = {
    "shift": motion(SHAPE, shift=(3.3, -2.7)),
    "similarity": motion(SHAPE, shift=(2.5, 1.5), turn=0.01, scale=1.012),
    "affine": motion(SHAPE, shift=(-2, 3), turn=0.008, scale=0.99, shear=0.006),
    "projective": motion(SHAPE, shift=(2, -1), turn=0.01, scale=1.01, tilt=(0.02, -0.015)),
}


def step(first, second, kind="affine"):
    pictures = [motions.levels(np.asarray(picture, np.float32)) for picture in (first, second)]
    return motions.find_step(*pictures, kind, 2.0 ** motions.finest_level(np.shape(first)))


SPOILED = ("all of it", "blurred", "noisy", "darker", "not at all")


@pytest.mark.parametrize(
    ("kind", "spoiled"),
    first_and_slow(
        [*((kind, "all of it") for kind in TRUE), *zip(TRUE, SPOILED[1:], strict=True)], product(TRUE, SPOILED)
    ),
)
def test_a_known_motion_is_found_to_a_tenth_of_a_pixel(kind, spoiled, rng):
    first = view(SCENE, np.eye(3), SHAPE)
    blurred, noisy, darker = (spoiled in (word, "all of it") for word in ("blurred", "noisy", "darker"))
    second = view(ndimage.gaussian_filter(SCENE, 2.0) if blurred else SCENE, TRUE[kind], SHAPE)
    if noisy:
        first, second = (picture + 5 * rng.standard_normal(SHAPE) for picture in (first, second))
    if darker:
        second = 0.85 * second
    found = step(first, second, kind)
    assert corner_error(found.matrix, TRUE[kind], SHAPE) < 0.1
    assert abs(found.gain / (0.85 if darker else 1) - 1) < 0.004
    assert found.correlation[0] < 0.93 < 0.95 < found.correlation[1]
    assert found.note == ""


def test_large_shifts_are_found():
    true = motion(SHAPE, shift=(14.2, -21.4))
    found = step(view(SCENE, np.eye(3), SHAPE), view(SCENE, true, SHAPE))
    assert corner_error(found.matrix, true, SHAPE) < 0.1


def test_each_kind_of_motion_has_no_more_freedom_than_it_says():
    first, second = (view(SCENE, matrix, SHAPE) for matrix in (np.eye(3), TRUE["projective"]))
    shift, similarity, affine = (step(first, second, kind).matrix for kind in ("shift", "similarity", "affine"))
    np.testing.assert_array_equal(shift[:, :2], np.eye(3)[:, :2])
    np.testing.assert_allclose(
        similarity[:2, :2] @ similarity[:2, :2].T, similarity[0, :2] @ similarity[0, :2] * np.eye(2)
    )
    np.testing.assert_array_equal(affine[2], (0, 0, 1))
    assert similarity[0, 0] != 1
    assert abs(affine[0, 0] - affine[1, 1]) > 1e-4


@pytest.mark.parametrize("kind", TRUE)
def test_small_pictures_without_a_pyramid_are_aligned(kind):
    shape = (60, 71)
    true = motion(shape, shift=(1.4, -0.8))
    scene = canvas(shape, finest=1.0)
    found = step(view(scene, np.eye(3), shape), view(scene, true, shape), kind)
    assert motions.finest_level(shape) == 0
    assert corner_error(found.matrix, true, shape) < 0.1


def test_identical_pictures_stay_where_they_are():
    picture = view(SCENE, np.eye(3), SHAPE)
    found = step(picture, picture.copy())
    np.testing.assert_array_equal(found.matrix, np.eye(3))
    assert (found.gain, found.note) == (1, "")
    assert min(found.correlation) > 0.999999


@pytest.mark.parametrize("kind", TRUE)
def test_the_same_scene_in_focus_and_out_of_focus_stays_where_it_is(kind):
    """Blur that has no direction is no motion."""
    found = step(view(SCENE, np.eye(3), SHAPE), view(ndimage.gaussian_filter(SCENE, 3.0), np.eye(3), SHAPE), kind)
    assert motions.largest_movement(found.matrix, SHAPE) < motions.LEAST_MOVEMENT
    assert found.note == ""


UNFIT = {
    "unrelated": (texture(SHAPE, 1), texture(SHAPE, 2)),
    "turned": (texture((200, 200), 1), np.rot90(texture((200, 200), 1))),
    "flat": (texture(SHAPE, 1), np.full(SHAPE, 90.0)),
    "black": (np.zeros(SHAPE), texture(SHAPE, 1)),
    "both black": (np.zeros(SHAPE), np.zeros(SHAPE)),
    "tiny": (np.full((9, 8), 3.0), np.arange(72.0).reshape(9, 8)),
    "negative": (texture(SHAPE, 1), 255 - texture(SHAPE, 1)),
}


@pytest.mark.parametrize(
    ("kind", "pictures"),
    first_and_slow([*product(["affine"], UNFIT), *product(TRUE, ["unrelated", "flat"])], product(TRUE, UNFIT)),
)
def test_pictures_that_do_not_fit_are_not_moved_and_it_is_said(kind, pictures):
    found = step(*UNFIT[pictures], kind)
    np.testing.assert_array_equal(found.matrix, np.eye(3))
    assert found.note
    assert np.isfinite(found.gain)
    assert found.correlation[0] == found.correlation[1]


def test_a_motion_that_no_neighbour_has_is_refused():
    turned = motion(SHAPE, turn=0.3)
    assert motions._implausible(turned, SHAPE)
    assert motions._implausible(motion(SHAPE, shift=(0.6 * SHAPE[1], 0)), SHAPE)
    assert motions._implausible(motion(SHAPE, scale=1.3), SHAPE)
    assert not any(motions._implausible(matrix, SHAPE) for matrix in TRUE.values())


def test_scaled_motions_keep_pixel_0_at_pixel_0():
    """In a pyramid, pixel k of a level is pixel 2 k of the one before."""
    points = np.array([[0.0, 0], [40, 7], [11, 90]])
    for matrix in TRUE.values():
        smaller = motions.scaled(matrix, 4.0)
        np.testing.assert_allclose(
            4 * motions.move_points(smaller, points / 4), motions.move_points(matrix, points), atol=1e-9
        )
        np.testing.assert_allclose(motions.scaled(smaller, 0.25), matrix, atol=1e-12)
        assert smaller[2, 2] == 1


def test_steps_are_chained_to_the_middle():
    rng = np.random.default_rng(3)
    pictures = [motion(SHAPE, shift=rng.uniform(-4, 4, 2), turn=rng.uniform(-0.02, 0.02)) for _ in range(5)]
    gains = rng.uniform(0.8, 1.2, 5)
    steps = [
        motions.Step(pictures[k + 1] @ np.linalg.inv(pictures[k]), gains[k + 1] / gains[k], (0.5, 0.9))
        for k in range(4)
    ]
    for reference in range(5):
        matrices, found = motions.chain(steps, reference)
        for k in range(5):
            np.testing.assert_allclose(matrices[k], pictures[k] @ np.linalg.inv(pictures[reference]), atol=1e-9)
            np.testing.assert_allclose(found[k], gains[k] / gains[reference])
        np.testing.assert_array_equal(matrices[reference], np.eye(3))


def covers(matrix, box, shape):
    """Whether a picture covers every pixel of a box, by looking at each of them."""
    top, left, bottom, right = box
    rows, columns = np.mgrid[top:bottom, left:right].reshape(2, -1)
    x, y, scale = matrix @ np.stack([columns, rows, np.ones(rows.size)])
    x, y = x / scale, y / scale
    slack = 1e-3
    return bool(
        (min(x.min(), y.min()) > -slack) and (x.max() < shape[1] - 1 + slack) and (y.max() < shape[0] - 1 + slack)
    )


@pytest.mark.parametrize("seed", range(40))
def test_all_pictures_cover_the_common_box(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(30, 150, 2).tolist())
    size = rng.choice([0.005, 0.03, 0.1])
    matrices = [np.eye(3)]
    for _ in range(rng.integers(1, 6)):
        shift = rng.uniform(-size, size, 2) * shape[::-1]
        turn, shear = rng.uniform(-size, size, 2)
        tilt = rng.uniform(-size, size, 2) * rng.integers(0, 2)
        matrices.append(
            motion(shape, shift=shift, turn=turn, scale=1 + rng.uniform(-size, size), shear=shear, tilt=tilt)
        )
    box = motions.common_box(matrices, shape)
    assert all(covers(matrix, box, shape) for matrix in matrices) or box == (0, 0, *shape)
    if size == 0.005:
        assert box[2] - box[0] > 0.9 * shape[0] - 4, "little is cut off"
        assert box[3] - box[1] > 0.9 * shape[1] - 4


def test_the_common_box_of_shifts_is_exact():
    assert motions.common_box([np.eye(3)] * 3, (50, 60)) == (0, 0, 50, 60)
    whole = [motion((50, 60), shift=shift) for shift in ((3, -2), (-1.5, 4.0))]
    assert motions.common_box(whole, (50, 60)) == (2, 2, 46, 57)


def test_pictures_that_have_nothing_in_common_keep_the_whole_frame():
    assert motions.common_box([np.eye(3), motion((50, 60), shift=(55, 0))], (50, 60)) == (0, 0, 50, 60)


def test_a_warped_picture_is_that_of_splines():
    picture = texture((60, 70))
    rows, columns = np.mgrid[:60, :70]
    for matrix in (motion((60, 70), shift=(1.3, -2.2), turn=0.05), motion((60, 70), tilt=(0.1, 0.05))):
        x, y, scale = np.einsum("ij,jkl->ikl", matrix, np.stack([columns, rows, np.ones(rows.shape)]))
        expected = ndimage.map_coordinates(picture, [y / scale, x / scale], order=5)
        for kernel, limit in (("lanczos", 1.0), ("linear", 8.0), ("nearest", 40.0)):
            found = motions.warp(picture, matrix, (60, 70), kernel=kernel)
            assert np.abs(found - expected)[6:-6, 6:-6].max() < limit


def test_one_strange_picture_does_not_stop_a_stack():
    """It goes where its neighbour goes, with a word about it, and moves no other."""
    pictures = [view(SCENE, motion(SHAPE, shift=(2.0 * k, 0)), SHAPE).round().astype(np.uint8) for k in range(5)]
    pictures[0] = texture(SHAPE, 7).round().astype(np.uint8)
    fused = MultiFocusFusion().fuse(pictures)
    assert "not aligned with its neighbour" in fused.sources[0].note
    assert [source.aligned for source in fused.sources[1:]] == [True, False, True, True]
    assert all(source.note == "" for source in fused.sources[1:])
    for number in (1, 3, 4):
        true = motion(SHAPE, shift=(2.0 * (number - 2), 0))
        assert corner_error(fused.sources[number].matrix, true, SHAPE) < 0.2
        assert abs(fused.sources[number].shift - abs(2.0 * (number - 2))) < 0.3


@pytest.mark.parametrize("reference", [1, 2])
def test_what_a_fusion_says_about_motion_is_what_was_done(reference):
    n = 2 * reference
    true = [
        motion(SHAPE, shift=(1.5 * (k - reference), k - reference), scale=1.004 ** (k - reference)) for k in range(n)
    ]
    pictures = [0.9 ** abs(k - reference) * view(SCENE, matrix, SHAPE) for k, matrix in enumerate(true)]
    fused = MultiFocusFusion().fuse([picture.round().astype(np.uint8) for picture in pictures])
    assert fused.reference == reference
    np.testing.assert_array_equal(fused.sources[reference].matrix, np.eye(3))
    assert fused.sources[reference].correlation == (1, 1)
    for k, source in enumerate(fused.sources):
        assert corner_error(source.matrix, true[k], SHAPE) < 0.2
        assert abs(source.gain * 0.9 ** abs(k - reference) - 1) < 0.01
        assert source.aligned == (k != reference)
        assert source.correlation[1] >= source.correlation[0]
    assert fused.box == motions.common_box([source.matrix for source in fused.sources], SHAPE)
    assert all(covers(source.matrix, fused.box, SHAPE) for source in fused.sources)
