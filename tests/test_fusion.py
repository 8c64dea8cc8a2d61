import numpy as np
import pytest
from scipy import ndimage
from skimage import data

import coupledict
from coupledict.files import ModelFileError
from coupledict.images import MultiFocusFusion
from coupledict.images._fusion_decision import compose, remove_small

SHARP = data.coins()[40:180, 30:190]


def stack(sharp=SHARP, n_sources=2, sigma=2.0):
    """Return sources that are sharp in one upright strip each, and the number of the sharp source at each column."""
    blur = (sigma, sigma) + (0,) * (sharp.ndim - 2)
    soft = ndimage.gaussian_filter(sharp.astype(np.float64), blur)
    soft = soft.round().astype(sharp.dtype) if sharp.dtype.kind == "u" else soft.astype(sharp.dtype)
    strips = np.arange(sharp.shape[1]) * n_sources // sharp.shape[1]
    index = (slice(None), *[None] * (sharp.ndim - 2))
    return [np.where((strips == number)[index], sharp, soft) for number in range(n_sources)], strips


@pytest.mark.parametrize("n_sources", [2, 3, 4])
def test_each_pixel_comes_from_the_source_that_is_sharp_there(n_sources):
    sources, strips = stack(n_sources=n_sources)
    fused = MultiFocusFusion().fuse(sources)
    assert fused.decision.shape == SHARP.shape
    assert np.mean(fused.decision == strips) > 0.93
    assert fused.image.dtype == np.uint8
    error = np.abs(fused.image.astype(float) - SHARP).mean()
    assert error < 0.2 * min(np.abs(source.astype(float) - SHARP).mean() for source in sources)


def test_the_order_of_two_sources_only_swaps_the_decision():
    sources, _ = stack()
    forward, backward = (MultiFocusFusion(min_region=0, seam=0).fuse(order) for order in (sources, sources[::-1]))
    assert np.mean(forward.decision == 1 - backward.decision) > 0.999  # ties go to the first
    assert np.mean(forward.image == backward.image) > 0.999


def test_the_dictionary_matters_under_noise():
    rng = np.random.default_rng(0)
    sources, strips = stack(sigma=3.0)
    noisy = [np.clip(source + 15 * rng.standard_normal(source.shape), 0, 255).astype(np.uint8) for source in sources]
    decided = MultiFocusFusion().fuse(noisy).decision
    energies = [ndimage.uniform_filter(ndimage.laplace(source.astype(float)) ** 2, 15) for source in noisy]
    plain = np.argmax(energies, axis=0)
    assert np.mean(decided != strips) < 0.5 * np.mean(plain != strips)


def test_colours_are_decided_by_their_brightness_and_alpha_goes_along():
    colour = data.astronaut()[:120, 150:290]
    sources, strips = stack(colour)
    fused = MultiFocusFusion().fuse(sources)
    assert np.mean(fused.decision == strips) > 0.93
    assert fused.image.shape == colour.shape
    grey = [np.repeat(source.mean(axis=2, keepdims=True).astype(np.uint8), 3, axis=2) for source in sources]
    flat = MultiFocusFusion().fuse([source[..., 0] for source in grey])
    np.testing.assert_array_equal(MultiFocusFusion().fuse(grey).decision, flat.decision)


@pytest.mark.parametrize("kind", [np.uint16, np.float32, np.float64])
def test_other_number_types_decide_alike_and_keep_their_type(kind):
    sources, _ = stack()
    scale = 257 if kind is np.uint16 else 1 / 255
    others = [(source.astype(np.float64) * scale).astype(kind) for source in sources]
    expected, found = MultiFocusFusion().fuse(sources), MultiFocusFusion().fuse(others)
    assert found.image.dtype == kind
    assert np.mean(found.decision == expected.decision) > 0.99


def test_threads_and_bands_change_nothing():
    sources, _ = stack()
    expected = MultiFocusFusion().fuse(sources)
    for settings in ({"n_jobs": 2}, {"n_jobs": 3, "max_bytes": 1 << 16}, {"max_bytes": 1 << 18}):
        found = MultiFocusFusion(**settings).fuse(sources)
        np.testing.assert_array_equal(found.decision, expected.decision)
        np.testing.assert_array_equal(found.image, expected.image)


def test_equal_and_flat_sources_stay_as_they_are():
    for picture in (SHARP, np.full((40, 50), 7, np.uint8)):
        fused = MultiFocusFusion().fuse([picture, picture.copy()])
        np.testing.assert_array_equal(fused.image, picture)


def test_sources_are_never_changed_and_may_be_read_only_or_strided():
    sources, _ = stack()
    before = [source.copy() for source in sources]
    strided = [np.asfortranarray(source)[::1] for source in sources]
    for source in strided:
        source.flags.writeable = False
    expected = MultiFocusFusion().fuse(sources)
    np.testing.assert_array_equal(MultiFocusFusion().fuse(strided).image, expected.image)
    for source, copy in zip(sources, before, strict=True):
        np.testing.assert_array_equal(source, copy)


def test_a_memory_mapped_stack_is_fused(tmp_path):
    sources, _ = stack()
    for number, source in enumerate(sources):
        np.save(tmp_path / f"{number}.npy", source)
    mapped = [np.load(tmp_path / f"{number}.npy", mmap_mode="r") for number in range(2)]
    np.testing.assert_array_equal(MultiFocusFusion().fuse(mapped).image, MultiFocusFusion().fuse(sources).image)


def test_a_dictionary_of_ones_own_is_learned_saved_and_loaded(tmp_path):
    sharp = data.camera()[100:260, 100:260]
    soft = ndimage.gaussian_filter(sharp, 2.0)
    own = MultiFocusFusion(64, n_nonzero_coefs=3, patch_size=6, max_samples=5000, random_state=0).fit([sharp, soft])
    sources, strips = stack()
    fused = own.fuse(sources)
    assert np.mean(fused.decision == strips) > 0.9
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
    coupledict.CoupledDictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit([X, X[:, :4]]).save(
        tmp_path / "m.safetensors"
    )
    with pytest.raises(ModelFileError, match="two views of square patches"):
        MultiFocusFusion.load(tmp_path / "m.safetensors")


def test_settings_that_the_shipped_dictionary_does_not_have_need_fit():
    with pytest.raises(ValueError, match="The dictionary that ships has n_components=256"):
        MultiFocusFusion(64).fuse(stack()[0])


def test_registration_finds_a_small_shift_and_scale():
    from skimage.transform import SimilarityTransform, warp

    picture = data.camera()[100:320, 120:360]
    sources, _ = stack(picture)
    centre = np.array(picture.shape[::-1]) / 2
    about = SimilarityTransform(translation=-centre)
    back = SimilarityTransform(translation=centre + np.array([2.0, -1.5]))
    moved = warp(sources[1].astype(float), about + SimilarityTransform(scale=1.01) + back, mode="edge", order=3)
    pair = [sources[0], np.clip(moved, 0, 255).round().astype(np.uint8)]
    inside = (slice(12, -12), slice(12, -12))
    errors = [
        np.abs(MultiFocusFusion(register=register).fuse(pair).image.astype(float) - picture)[inside].mean()
        for register in (False, True)
    ]
    assert errors[1] < 0.6 * errors[0]


def test_small_regions_go_to_what_surrounds_them():
    labels = np.zeros((40, 40), np.uint8)
    labels[:, 20:] = 1
    expected = labels.copy()
    labels[5:8, 5:8] = 1
    labels[30, 30] = 0
    before = labels.copy()
    np.testing.assert_array_equal(remove_small(labels, 2, 16), expected)
    np.testing.assert_array_equal(labels, before)


def test_a_hard_seam_takes_every_pixel_from_its_source():
    rng = np.random.default_rng(0)
    sources = [rng.integers(0, 256, (20, 30), dtype=np.uint8) for _ in range(3)]
    labels = rng.integers(0, 3, (20, 30)).astype(np.uint8)
    np.testing.assert_array_equal(compose(sources, labels, 0.0), np.choose(labels, sources))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([SHARP], "at least two images to fuse, got 1"),
        ([], "at least two images to fuse, got 0"),
        ([SHARP, SHARP[:-1]], "Expected images of one shape"),
        ([SHARP, SHARP.astype(np.uint16)], "Expected images of one number type"),
        ([SHARP[:5], SHARP[:5]], "at least as large as a patch, 8 x 8 pixels, got 5 x 160"),
        ([np.full((20, 20), np.nan), np.zeros((20, 20))], "to be finite"),
        ([np.zeros((0, 20)), np.zeros((0, 20))], "and pixels"),
        ([np.zeros(20), np.zeros(20)], "Expected images\\[0\\] to have the shape"),
    ],
)
def test_bad_stacks_are_told_what_is_wrong(images, message):
    with pytest.raises(ValueError, match=message):
        MultiFocusFusion().fuse(images)


def test_images_of_truth_values_or_text_are_refused():
    with pytest.raises(TypeError, match="integers or floating-point numbers, got bool"):
        MultiFocusFusion().fuse([SHARP > 9, SHARP > 9])
    with pytest.raises(TypeError, match="a list of images, got str"):
        MultiFocusFusion().fuse("near.jpg")


@pytest.mark.parametrize(
    "settings",
    [{"window": 0}, {"n_scales": 0}, {"min_region": -1}, {"seam": -1}, {"max_bytes": 0}, {"register": "yes"}],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises((ValueError, TypeError), match=f"Expected {next(iter(settings))}"):
        MultiFocusFusion(**settings).fuse([SHARP, SHARP])


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


def test_pairs_by_name_are_the_same_pairs():
    sharp, small = data.camera()[100:200, 100:200], {"n_components": 32, "max_samples": 2000, "max_iter": 3}
    soft = ndimage.gaussian_filter(sharp, 2.0)
    listed, named = (
        MultiFocusFusion(**small, random_state=0).fit(X) for X in ([sharp, [soft]], {"blurred": soft, "focused": sharp})
    )
    np.testing.assert_array_equal(listed.learner_.components_[1], named.learner_.components_[1])
    assert listed.learner_.n_iter_ == 3
