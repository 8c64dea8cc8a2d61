"""Multi-focus fusion as users meet it: the sharp source wins, whatever the pictures are like and however they moved."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from skimage import data

import coupledict
from coupledict import ModelFileError
from coupledict.foundation.block_sizes import SIZES
from coupledict.images import MultiFocusFusion
from support.stacks import motion, moved_strips, psnr, strips, texture

SHARP = data.coins()[40:180, 30:190]
MOVED_SHAPE = (150, 200)


def assert_same(one, other):
    for field in ("image", "decision", "depth"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert (one.box, one.reference) == (other.box, other.reference)


def moved(n_sources=3, gains=None):
    """Return a stack that shifts, turns and breathes from picture to picture, and its truth in the middle one."""
    middle = n_sources // 2
    moves = [
        motion(MOVED_SHAPE, shift=(1.7 * k, -1.2 * k), turn=0.002 * k, scale=1.006**k)
        for k in range(-middle, n_sources - middle)
    ]
    return moved_strips(MOVED_SHAPE, moves, gains=gains)


@pytest.mark.parametrize("n_sources", [2, 3, 4])
def test_each_pixel_comes_from_the_source_that_is_sharp_there(n_sources):
    sources, owner = strips(SHARP, n_sources)
    fused = MultiFocusFusion().fuse(sources)
    assert fused.decision.shape == fused.depth.shape == SHARP.shape
    assert (fused.decision.dtype, fused.depth.dtype) == (np.uint8, np.float32)
    assert np.mean(fused.decision == owner) > 0.93
    assert np.mean(np.abs(fused.depth - owner)) < 0.15
    assert fused.image.dtype == np.uint8
    error = np.abs(fused.image.astype(float) - SHARP).mean()
    assert error < 0.2 * min(np.abs(source.astype(float) - SHARP).mean() for source in sources)
    assert fused.reference == n_sources // 2
    assert fused.box == (0, 0, *SHARP.shape)
    np.testing.assert_allclose(
        [source.share for source in fused.sources], np.bincount(fused.decision.ravel()) / SHARP.size
    )


def test_the_order_of_two_sources_only_swaps_the_decision():
    sources, _ = strips(SHARP)
    forward, backward = (MultiFocusFusion().fuse(order) for order in (sources, sources[::-1]))
    assert np.mean(forward.decision == 1 - backward.decision) > 0.999  # ties go to the first
    np.testing.assert_allclose(forward.depth, 1 - backward.depth, atol=0.01)
    assert np.mean(forward.image == backward.image) > 0.999


def test_the_dictionary_matters_under_noise(rng):
    sources, owner = strips(SHARP, sigma=3.0)
    noisy = [np.clip(source + 15 * rng.standard_normal(source.shape), 0, 255).astype(np.uint8) for source in sources]
    decided = MultiFocusFusion().fuse(noisy).decision
    energies = [ndimage.uniform_filter(ndimage.laplace(source.astype(float)) ** 2, 15) for source in noisy]
    plain = np.argmax(energies, axis=0)
    assert np.mean(decided != owner) < 0.5 * np.mean(plain != owner)


@pytest.mark.parametrize("gains", [(1, 1, 1, 1, 1), (1.1, 1.05, 1, 0.95, 0.9)], ids=["one exposure", "exposures"])
def test_noise_is_less_where_sources_agree(gains, rng):
    """A smooth background is in focus nowhere: its noise is averaged, and detail beside it is kept."""
    truth = np.full((96, 160), 120.0)
    truth[:, :60] += texture((96, 60), finest=1.0) - 128
    truth = np.clip(truth, 0, 220)
    noisy = [gain * truth + 6 * rng.standard_normal(truth.shape) for gain in gains]
    fused = MultiFocusFusion().fuse([np.clip(picture, 0, 255).round().astype(np.uint8) for picture in noisy])
    assert fused.box == (0, 0, *truth.shape)
    assert np.var((fused.image - truth)[:, 80:]) < 0.45 * 36


def test_colours_are_decided_by_their_brightness_and_alpha_goes_along():
    colour = data.astronaut()[:120, 150:290]
    sources, owner = strips(colour)
    fused = MultiFocusFusion().fuse(sources)
    assert np.mean(fused.decision == owner) > 0.93
    assert fused.image.shape == colour.shape
    grey = [np.repeat(source.mean(axis=2, keepdims=True).astype(np.uint8), 3, axis=2) for source in sources]
    flat = MultiFocusFusion().fuse([source[..., 0] for source in grey])
    assert np.mean(MultiFocusFusion().fuse(grey).decision == flat.decision) > 0.999
    opaque = [np.dstack([source, np.full(source.shape[:2], 200 + 0 * k, np.uint8)]) for k, source in enumerate(sources)]
    with_alpha = MultiFocusFusion().fuse(opaque)
    np.testing.assert_array_equal(with_alpha.decision, fused.decision)
    np.testing.assert_array_equal(with_alpha.image[..., 3], 200)


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.float32, np.float64])
def test_other_number_types_decide_alike_and_keep_their_type(kind):
    sources, _ = strips(SHARP)
    scale = {np.uint16: 257, np.int32: 1000}.get(kind, 1 / 255)
    others = [(source.astype(np.float64) * scale).astype(kind) for source in sources]
    expected, found = MultiFocusFusion().fuse(sources), MultiFocusFusion().fuse(others)
    assert found.image.dtype == kind
    assert np.mean(found.decision == expected.decision) > 0.99
    np.testing.assert_allclose(found.image.astype(np.float64) / scale, expected.image, atol=12)


@pytest.mark.parametrize("factor", [1e-6, 1e9, -1.0])
def test_the_scale_of_floating_point_numbers_does_not_matter(factor):
    sources, owner = strips(SHARP.astype(np.float64))
    fused = MultiFocusFusion().fuse([source * factor for source in sources])
    assert np.mean(fused.decision == owner) > 0.9
    assert psnr(SHARP, fused.image / factor) > 30


CHANNELS = ((), (1,), (3,), (4,))


@pytest.mark.parametrize(
    ("factor", "kind", "channels"),
    [
        (factor, (np.float32, np.float64)[(i + j) % 2], channels)
        for i, factor in enumerate((1e-28, 1e-20, 1e20, 1e34))
        for j, channels in enumerate(CHANNELS)
    ],
)
def test_floats_far_from_1_are_fused_as_others_are(factor, kind, channels):
    colours = np.linspace(1, 0.5, channels[0]) if channels else np.ones(())
    sharp = texture((40, 48), finest=1.0)[(..., *[None] * len(channels))] * colours
    sources, _ = strips(sharp, 3)
    expected = MultiFocusFusion().fuse(sources)
    fused = MultiFocusFusion().fuse([(source * factor).astype(kind) for source in sources])
    assert np.mean(fused.decision == expected.decision) > 0.99
    np.testing.assert_allclose(fused.image / factor, expected.image, atol=2)


@pytest.mark.parametrize("shape", [(8, 8), (9, 13), (40, 8), (8, 90), (31, 33), (79, 81)])
@pytest.mark.parametrize("settings", [{}, {"register": True, "motion": "projective", "keep_size": True}, {"slab": 2}])
def test_pictures_of_any_size_are_fused(shape, settings):
    sources, _ = strips(texture(shape, finest=1.0).round().astype(np.uint8), 4)
    fused = MultiFocusFusion(**settings).fuse(sources)
    top, left, bottom, right = fused.box
    assert fused.image.shape == fused.decision.shape == fused.depth.shape == (bottom - top, right - left)
    assert np.isfinite(fused.depth).all()
    if settings.get("keep_size"):
        assert fused.image.shape == shape


@pytest.mark.parametrize("settings", [{}, {"keep_size": True}, {"register": False}, {"slab": 2}])
def test_threads_change_nothing(settings):
    sources, _ = moved(5, gains=(1, 1.05, 0.97, 1, 0.9))
    with SIZES.changed(blended_rows=64, blended_columns=64):
        expected = MultiFocusFusion(**settings).fuse(sources)
        assert_same(MultiFocusFusion(n_jobs=3, **settings).fuse(sources), expected)


@pytest.mark.parametrize("picture", [SHARP, np.full((40, 50), 7, np.uint8), np.zeros((40, 50, 3), np.uint16)])
@pytest.mark.parametrize("n_sources", [2, 3])
def test_equal_and_flat_sources_stay_as_they_are(picture, n_sources):
    fused = MultiFocusFusion().fuse([picture.copy() for _ in range(n_sources)])
    changed = np.abs(fused.image.astype(int) - picture) > 1
    assert changed.mean() <= (0.0003 if n_sources > 2 else 0), "a point or two that all pictures have may pass for hot"
    assert not any(source.aligned for source in fused.sources)


def test_sources_are_never_changed_and_may_be_read_only_or_strided():
    sources, _ = moved(3)
    before = [source.copy() for source in sources]
    expected = MultiFocusFusion().fuse(sources)
    for arrange in (
        np.asfortranarray,
        lambda source: source[::-1].copy()[::-1],
        lambda s: np.repeat(s, 2, axis=1)[:, ::2],
    ):
        strided = [arrange(source) for source in sources]
        for source in strided:
            source.flags.writeable = False
        np.testing.assert_array_equal(MultiFocusFusion().fuse(strided).image, expected.image)
    for source, copy in zip(sources, before, strict=True):
        np.testing.assert_array_equal(source, copy)


def test_a_memory_mapped_stack_is_fused(tmp_path):
    sources, _ = strips(SHARP)
    for number, source in enumerate(sources):
        np.save(tmp_path / f"{number}.npy", source)
    mapped = [np.load(tmp_path / f"{number}.npy", mmap_mode="r") for number in range(2)]
    np.testing.assert_array_equal(MultiFocusFusion().fuse(mapped).image, MultiFocusFusion().fuse(sources).image)


@pytest.mark.parametrize("gains", [None, (1.05, 1.0, 0.95)], ids=["one exposure", "exposures"])
def test_a_moved_stack_is_nearly_as_good_as_an_aligned_one(gains):
    still, _ = moved_strips(MOVED_SHAPE, [np.eye(3)] * 3)
    sources, truth = moved(gains=gains)
    aligned = MultiFocusFusion().fuse(still)
    fused, ignored = MultiFocusFusion().fuse(sources), MultiFocusFusion(register=False).fuse(sources)
    top, left, bottom, right = fused.box
    assert (bottom - top) * (right - left) > 0.85 * truth.size
    cut = (slice(top, bottom), slice(left, right))
    reached = psnr(truth[cut], fused.image, 4)
    assert reached > psnr(truth[cut], aligned.image[cut], 4) - 4
    assert reached > psnr(truth[cut], ignored.image[cut], 4) + 8
    assert [source.aligned for source in fused.sources] == [True, False, True]
    if gains:
        np.testing.assert_allclose([source.gain for source in fused.sources], 1 / np.array(gains), rtol=0.01)


def test_keep_size_gives_the_whole_frame():
    sources, truth = moved()
    cropped, whole = MultiFocusFusion().fuse(sources), MultiFocusFusion(keep_size=True).fuse(sources)
    assert whole.image.shape == truth.shape
    assert whole.box == (0, 0, *truth.shape)
    assert np.isfinite(whole.depth).all()
    top, left, bottom, right = cropped.box
    inside = whole.image[top:bottom, left:right]
    assert psnr(inside, cropped.image, 16) > 38
    frame = np.ones(truth.shape, bool)
    frame[top:bottom, left:right] = False
    assert np.abs(whole.image - truth)[frame].mean() < np.abs(sources[1] - truth)[frame].mean() + 0.5, (
        "as the reference"
    )


def test_without_registration_nothing_moves():
    sources, _ = moved(gains=(1.1, 1.0, 0.9))
    fused = MultiFocusFusion(register=False).fuse(sources)
    assert fused.box == (0, 0, *MOVED_SHAPE)
    for source in fused.sources:
        assert (source.aligned, source.shift, source.gain, source.note) == (False, 0, 1, "")
        np.testing.assert_array_equal(source.matrix, np.eye(3))


PICTURES = (SHARP, data.astronaut()[100:240, 120:300], data.camera()[200:340, 180:360])


@pytest.mark.parametrize(
    ("picture", "sigma", "n_sources"),
    [
        (picture, (1.5, 3.0)[(i + j) % 2], n_sources)
        for i, picture in enumerate(PICTURES)
        for j, n_sources in enumerate((2, 3, 5))
    ],
)
def test_stacks_that_are_aligned_are_left_alone(picture, sigma, n_sources):
    sources, _ = strips(picture, n_sources, sigma)
    assert_same(MultiFocusFusion().fuse(sources), MultiFocusFusion(register=False).fuse(sources))


def test_small_motions_are_mended_only_if_asked():
    moves = [motion(MOVED_SHAPE, shift=(0.12 * k, 0)) for k in (-1, 0, 1)]
    sources, _ = moved_strips(MOVED_SHAPE, moves, sigma=0.3)
    for register, aligned in (("auto", False), (True, True), (np.True_, True), (False, False)):
        fused = MultiFocusFusion(register=register).fuse(sources)
        assert [source.aligned for source in fused.sources] == [aligned, False, aligned]


def test_more_smoothness_makes_fewer_regions(rng):
    sources, _ = strips(SHARP, 3, sigma=1.0)
    noisy = [np.clip(source + 6 * rng.standard_normal(source.shape), 0, 255).astype(np.uint8) for source in sources]
    regions = []
    for smoothness in (0.0, 0.1, 20.0):
        decision = MultiFocusFusion(smoothness=smoothness, register=False).fuse(noisy).decision
        regions.append(sum(ndimage.label(decision == number)[1] for number in range(3)))
    assert regions[0] > regions[1] > regions[2]


def test_a_dictionary_of_ones_own_is_learned_saved_and_loaded(tmp_path):
    sharp = data.camera()[100:260, 100:260]
    soft = ndimage.gaussian_filter(sharp, 2.0)
    own = MultiFocusFusion(64, n_nonzero_coefs=3, patch_size=6, max_samples=5000, random_state=0).fit([sharp, soft])
    sources, owner = strips(SHARP)
    fused = own.fuse(sources)
    assert np.mean(fused.decision == owner) > 0.9
    own.save(tmp_path / "own.safetensors")
    same = MultiFocusFusion.load(tmp_path / "own.safetensors")
    assert (same.n_components, same.n_nonzero_coefs, same.patch_size) == (64, 3, 6)
    np.testing.assert_array_equal(same.fuse(sources).image, fused.image)
    assert isinstance(coupledict.load(tmp_path / "own.safetensors"), MultiFocusFusion)


def test_a_model_of_something_else_is_refused(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 6))
    coupledict.DictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit(X).save(tmp_path / "m.safetensors")
    with pytest.raises(ModelFileError, match="to hold a MultiFocusFusion, got a DictionaryLearning"):
        MultiFocusFusion.load(tmp_path / "m.safetensors")


def test_settings_that_the_shipped_dictionary_does_not_have_need_fit():
    with pytest.raises(ValueError, match=r"Expected n_components=128.*Call fit to learn another"):
        MultiFocusFusion(64).fuse(strips(SHARP)[0])


@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 0},
        {"n_nonzero_coefs": 1.5},
        {"patch_size": 3},
        {"patch_size": "8"},
        {"register": "yes"},
        {"register": 1},
        {"register": None},
        {"motion": "turn"},
        {"motion": None},
        {"keep_size": 1},
        {"n_scales": 0},
        {"n_scales": True},
        {"smoothness": -1},
        {"smoothness": np.nan},
        {"smoothness": np.inf},
        {"smoothness": "much"},
        {"slab": 1},
        {"slab": 0},
        {"slab": 2.5},
        {"max_samples": 0},
        {"max_iter": 0},
        {"n_jobs": 0},
        {"n_jobs": "all"},
        {"callback": 3},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises((ValueError, TypeError), match=f"Expected {next(iter(settings))}"):
        MultiFocusFusion(**settings).fuse([SHARP, SHARP])


def test_the_parameters_of_the_earlier_engine_are_gone():
    for name in ("window", "seam", "min_region", "max_bytes"):
        with pytest.raises(TypeError, match=name):
            MultiFocusFusion(**{name: 1})


def test_pairs_to_learn_from_must_fit():
    with pytest.raises(ValueError, match="as many focused as blurred images"):
        MultiFocusFusion().fit([[SHARP, SHARP], [SHARP]])
    with pytest.raises(ValueError, match=r"focused\[0\] and blurred\[0\] to have one shape"):
        MultiFocusFusion().fit({"blurred": SHARP[:-1], "focused": SHARP})
    for wrong in ([SHARP], [SHARP] * 3, SHARP):
        with pytest.raises(ValueError, match=r"X to be \[focused, blurred\] images, or a dict with these names"):
            MultiFocusFusion().fit(wrong)
    with pytest.raises(ValueError, match=r"views named \['focused', 'blurred'\] in X, got one named 'sharp'"):
        MultiFocusFusion().fit({"sharp": SHARP, "blurred": SHARP})
    with pytest.raises(TypeError, match="blurred to be a list of images, got NoneType"):
        MultiFocusFusion().fit({"focused": SHARP})
    with pytest.raises(ValueError, match="focused images with detail to learn from"):
        MultiFocusFusion().fit([np.full((40, 40), 9.0), np.full((40, 40), 9.0)])


def test_pairs_by_name_are_the_same_pairs():
    sharp, small = data.camera()[100:200, 100:200], {"n_components": 32, "max_samples": 2000, "max_iter": 3}
    soft = ndimage.gaussian_filter(sharp, 2.0)
    listed, named = (
        MultiFocusFusion(**small, random_state=0).fit(X) for X in ([sharp, [soft]], {"blurred": soft, "focused": sharp})
    )
    np.testing.assert_array_equal(listed.learner_.components_[1], named.learner_.components_[1])
    assert listed.learner_.n_iter_ == 3
