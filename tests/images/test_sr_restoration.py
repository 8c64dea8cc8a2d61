"""Restoration of degraded pictures: beside a slow twin, beside interpolation, and as a file."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from skimage import data

from coupledict.files import read_model, write_model
from coupledict.foundation.block_sizes import SIZES
from coupledict.images import SuperResolution, _sr_pipeline, imresize
from coupledict.images._sr_restoration import GEOMETRY, PatchRestorer, Restoration, shipped, shrinkage
from coupledict.images._sr_restoration_learning import Settings, add_noise, compress, learn, samples
from support.cases import first_and_slow
from support.inner import CONTRADICTIONS, Meter, ModelState

SMALL = Settings(
    n_anchors=4, n_samples=4000, class_shares=(0.0, 0.5), factors=(0.5,), noise_levels=(5.0, 10.0), qualities=(75,)
)


@pytest.fixture(scope="module")
def restoration():
    return learn([data.camera()[:200, :220], data.coins()[:150, :200]], SMALL)


def restore(models, plane, kind="noise", strength=5.0, n_jobs=1):
    return models.restore(plane, kind, strength, unit=1.0, n_jobs=n_jobs, meter=Meter(None, "restoring"))


def noisy(picture, sigma, seed=0):
    noise = sigma * np.random.default_rng(seed).standard_normal(picture.shape)
    return np.clip(np.rint(picture + noise), 0, 255).astype(np.uint8)


def compressed(picture, quality):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=quality)
    with Image.open(file) as image:
        return np.asarray(image)


def psnr(picture, original):
    return 10 * np.log10(255**2 / np.mean((picture.astype(float) - original)[4:-4, 4:-4] ** 2))


def turn(plane, number):
    plane = plane[:: -1 if number & 1 else 1, :: -1 if number & 2 else 1]
    return plane.swapaxes(0, 1) if number & 4 else plane


def turn_back(plane, number):
    plane = plane.swapaxes(0, 1) if number & 4 else plane
    return plane[:: -1 if number & 1 else 1, :: -1 if number & 2 else 1]


# The parts


def slow_layers(levels, level, plane):
    """Restored pixels and what is kept of their changes, patch by patch."""
    padded = np.pad(plane, 3, mode="symmetric")
    turns = GEOMETRY.turns(padded)
    total, count = np.zeros((*(n + 2 for n in plane.shape), 2)), np.zeros([n + 2 for n in plane.shape])
    for i, j in np.ndindex(plane.shape):
        window = turn(padded[i : i + 7, j : j + 7], turns[i, j]).astype(float)
        features = window.ravel() - window.mean()
        group = np.searchsorted(levels.edges[level], np.linalg.norm(features), side="right")
        nearest = np.argmax(np.abs(levels.components[level, group] @ features))
        weights = levels.maps[level, group, nearest].astype(float)
        whole = weights - weights.mean(axis=0) + 1 / 49  # from a window, its mean included
        patch = (window.ravel() @ whole).reshape(3, 3)
        own = np.array([whole[7 * (2 + k // 3) + 2 + k % 3, k] for k in range(9)]).reshape(3, 3)
        total[i : i + 3, j : j + 3, 0] += turn_back(patch, turns[i, j])
        total[i : i + 3, j : j + 3, 1] += turn_back(own, turns[i, j])
        count[i : i + 3, j : j + 3] += 1
    return (total / count[:, :, None])[1:-1, 1:-1]


@pytest.mark.parametrize("shape", [(13, 17), (2, 9), (1, 1)])
def test_against_the_slow_twin(restoration, shape):
    plane = noisy(data.camera()[100:120, 200:220], 8)[: shape[0], : shape[1]].astype(np.float32)
    layers = _sr_pipeline.predict_patches(
        PatchRestorer(restoration.noise, 1), plane, n_jobs=1, meter=Meter(None, "restoring")
    )
    np.testing.assert_allclose(layers, slow_layers(restoration.noise, 1, plane), atol=2e-3)


def test_what_is_kept_is_the_slope(restoration):
    """How much a restored pixel changes with its degraded one, as long as no patch changes its anchor."""
    plane = noisy(data.camera()[100:130, 200:230], 8).astype(np.float32)
    predict = {"n_jobs": 1, "meter": Meter(None, "restoring")}
    restorer = PatchRestorer(restoration.noise, 0)
    before = _sr_pipeline.predict_patches(restorer, plane, **predict)
    slopes = []
    for i, j in ((7, 8), (15, 15), (20, 9), (11, 22), (24, 24)):
        changed = plane.copy()
        changed[i, j] += 0.05
        after = _sr_pipeline.predict_patches(restorer, changed, **predict)
        slopes.append((after[i, j, 0] - before[i, j, 0]) / 0.05 - before[i, j, 1])
    assert np.median(np.abs(slopes)) < 0.01


def test_shrinkage_is_the_share_with_the_least_risk(rng):
    """A restoration that removes only noise is applied in full; one that removes as much structure, by half."""
    noise = 5 * rng.standard_normal((200, 200)).astype(np.float32)
    structure = 5 * rng.standard_normal((200, 200)).astype(np.float32)
    nothing = np.zeros_like(noise)
    assert shrinkage(noise, nothing, 5.0).mean() > 0.95
    both = shrinkage(noise + structure, nothing, 5.0)
    assert both.mean() == pytest.approx(0.5, abs=0.03)
    errors = [np.mean((structure + noise - share * (noise + structure) - structure) ** 2) for share in (0.3, 0.5, 0.7)]
    assert errors[1] < min(errors[0], errors[2])
    assert (shrinkage(nothing, nothing, 5.0) == 1).all()


@pytest.mark.parametrize("shape", [(61, 83), (17, 5), (40, 1)])
def test_tiles_and_threads_do_not_matter(restoration, shape):
    plane = noisy(data.camera()[:61, :83], 8)[: shape[0], : shape[1]].astype(np.float32)
    whole = restore(restoration, plane)
    for pixels, columns in ((300, 20), (77, 7)):
        with SIZES.changed(upscaled_pixels=pixels, upscaled_columns=columns):
            np.testing.assert_array_equal(restore(restoration, plane, n_jobs=3), whole)


def test_noise_and_contrast_together_change_nothing(restoration):
    plane = noisy(data.camera()[:60, :60], 8).astype(np.float32)
    once, twice = restore(restoration, plane, strength=5.0), restore(restoration, 2 * plane, strength=10.0) / 2
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(once, twice, atol=1e-2)  # another level, which learned other maps
    only = Restoration(
        type(restoration.noise)(*(array[:1] for array in vars(restoration.noise).values())), restoration.jpeg
    )
    np.testing.assert_allclose(
        restore(only, plane, strength=5.0), restore(only, 2 * plane, strength=10.0) / 2, atol=1e-2
    )


def test_flat_pictures_stay_flat():
    for kind in ("noise", "jpeg"):
        assert (restore(shipped(), np.full((20, 30), 137, np.float32), kind, 1.0) == 137).all()
    for text in ("noise=10", "jpeg=50"):
        model = SuperResolution.pretrained(2, degradation=text)
        assert (model.upscale(np.full((20, 30, 3), 77, np.uint8)) == 77).all()


def test_samples_are_degraded_windows_beside_clean_patches():
    plane = data.camera()[:60, :70].astype(np.float64)
    degraded = add_noise(5.0)(plane, np.random.default_rng(0))
    windows, patches = samples([plane], lambda *_: degraded, 12, np.random.default_rng(1))
    assert windows.shape == (12, 49)
    assert patches.shape == (12, 9)
    np.testing.assert_allclose(windows.mean(axis=1), 0, atol=1e-4)
    found = 0
    for i, j in np.ndindex(54, 64):
        window = degraded[i : i + 7, j : j + 7]
        for number in range(8):
            turned = turn(window, number).ravel() - window.mean()
            (same,) = np.nonzero(np.abs(windows - turned).max(axis=1) < 1e-3)
            for k in same:
                patch = turn(plane[i + 2 : i + 5, j + 2 : j + 5], number).ravel() - window.mean()
                np.testing.assert_allclose(patches[k], patch, atol=1e-3)
                found += 1
    assert found == 12


def test_learning_is_the_same_again(restoration):
    again = learn([data.camera()[:200, :220], data.coins()[:150, :200]], SMALL)
    for kind in ("noise", "jpeg"):
        for name, array in vars(getattr(again, kind)).items():
            np.testing.assert_array_equal(array, getattr(getattr(restoration, kind), name))
    np.testing.assert_allclose(again.jpeg.strengths, [0.5])


def test_what_was_learned_restores(restoration):
    clean = imresize(data.chelsea()[:, :, 1], 0.5)
    for kind, strength, degrade in (("noise", 10.0, add_noise(10.0)), ("jpeg", 0.5, compress(75))):
        plane = degrade(clean, np.random.default_rng(0)).astype(np.float32)
        gain = psnr(restore(restoration, plane, kind, strength), clean) - psnr(plane, clean)
        assert gain > (3.0 if kind == "noise" else 0.4)


# Pictures that are enlarged; the models have not seen these


GAINS = {"noise 3": 0.4, "noise 10": 1.0, "noise 20": 2.0, "JPEG 75": 0.2}
FIRST = [("noise 3", 2), ("noise 10", 4), ("noise 20", 3), ("JPEG 75", 2), ("JPEG 75", 4)]


@pytest.mark.parametrize(
    ("level", "scale"), first_and_slow(FIRST, [(level, scale) for level in GAINS for scale in (2, 3, 4)])
)
def test_degraded_pictures_are_better_than_interpolated_ones(level, scale):
    original = data.stereo_motorcycle()[0][100:340, 200:500]
    kind, value = level.split()
    small = imresize(original, 1 / scale)
    small = noisy(small, float(value)) if kind == "noise" else compressed(small, int(value))
    ours, none = (SuperResolution.pretrained(scale, degradation=text).upscale(small) for text in ("auto", "none"))
    plain = psnr(imresize(small, scale), original)
    assert psnr(ours, original) > plain + GAINS[level] * (1 if scale == 2 else 0.4)
    assert psnr(ours, original) > psnr(none, original) - 0.05


#: So small, the texture of these is as white as noise, and is taken for it.
MISTAKEN = [("grass", 3), ("grass", 4), ("gravel", 4)]
CLEAN = ["astronaut", "coffee", "camera", "grass", "gravel", "brick", "text"]


@pytest.mark.parametrize(
    ("name", "scale"),
    first_and_slow(
        [("astronaut", 4), ("coffee", 3), ("camera", 2), ("grass", 2), ("gravel", 3), ("brick", 4), ("text", 2)],
        [(name, scale) for name in CLEAN for scale in (2, 3, 4) if (name, scale) not in MISTAKEN],
    ),
)
def test_clean_pictures_are_enlarged_to_the_same_bits(name, scale):
    small = imresize(getattr(data, name)()[:360, :360], 1 / scale)
    auto, none = (SuperResolution.pretrained(scale, degradation=text).upscale(small) for text in ("auto", "none"))
    np.testing.assert_array_equal(auto, none)


@pytest.mark.parametrize(("name", "scale"), MISTAKEN)
def test_texture_that_is_taken_for_noise_is_still_better_than_interpolated(name, scale):
    original = getattr(data, name)()
    original = original[: original.shape[0] // scale * scale, : original.shape[1] // scale * scale]
    small = imresize(original, 1 / scale)
    assert (
        psnr(SuperResolution.pretrained(scale).upscale(small), original) > psnr(imresize(small, scale), original) + 0.1
    )


def test_noise_of_colour_is_mended_too():
    clean = imresize(data.coffee(), 0.5)
    small = noisy(clean, 10)
    large, plain = SuperResolution.pretrained(2).upscale(small), imresize(small, 2)
    original = data.coffee()

    def error(picture):
        difference = picture.astype(float) - original
        return np.std(difference - difference.mean(axis=2, keepdims=True))

    assert error(large) < 0.65 * error(plain)


TEXTS = ("noise=10", "jpeg=60", "noise=10, jpeg=80")


@pytest.mark.parametrize(
    ("dtype", "n_channels", "text"),
    [
        (dtype, n_channels, TEXTS[(i + j) % 3])
        for i, dtype in enumerate((np.uint8, np.uint16, np.float32, np.float64))
        for j, n_channels in enumerate((None, 1, 2, 3, 4))
    ],
)
def test_number_types_and_channels(dtype, n_channels, text):
    picture = noisy(imresize(data.coffee()[60:200, 120:290], 0.2), 10)
    picture = np.dstack([picture, picture[:, :, 0] // 2])[:, :, :n_channels] if n_channels else picture[:, :, 0]
    whole = {np.uint8: 1, np.uint16: 257}.get(dtype)
    given = (picture.astype(int) * whole if whole else picture / 255).astype(dtype)
    before = given.copy()
    model = SuperResolution.pretrained(2, degradation=text)
    large = model.upscale(given)
    np.testing.assert_array_equal(given, before)
    assert large.dtype == dtype
    reference = model.upscale(picture.astype(float))
    cut = np.clip(reference, 0, 255) if whole else reference
    assert np.abs(large / (whole or 1 / 255) - cut).max() < (0.51 if dtype == np.uint8 else 0.02)
    if n_channels in (2, 4):
        alpha = imresize(picture[:, :, -1].astype(float), 2)
        alpha = np.clip(alpha, 0, 255) if whole else alpha
        assert np.abs(large[:, :, -1] / (whole or 1 / 255) - alpha).max() < 1


def test_grey_in_three_channels_is_grey():
    grey = noisy(imresize(data.camera(), 0.3), 10)
    large = SuperResolution.pretrained(2, degradation="jpeg=50").upscale(np.dstack([grey] * 3))
    assert np.ptp(large, axis=2).max() <= 1


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1, 3), (9, 9), (3, 40)])
@pytest.mark.parametrize("text", ["auto", "noise=20", "jpeg=10"])
def test_small_pictures(shape, text, rng):
    large = SuperResolution.pretrained(3, degradation=text).upscale(rng.integers(0, 256, shape, np.uint8))
    assert large.shape == (3 * shape[0], 3 * shape[1], *shape[2:])


def test_progress_goes_from_start_to_end_once():
    reports = []
    small = noisy(imresize(data.coffee(), 0.3), 10)
    SuperResolution.pretrained(2, callback=lambda progress: reports.append(progress) and None).upscale(small)
    assert {progress.stage for progress in reports} == {"upscaling"}
    shares = [progress.share for progress in reports]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert reports[-1].total == 4 * small.shape[0] * small.shape[1], "three planes are restored, one is enlarged"


# Files


def test_there_and_back(restoration, tmp_path):
    restoration.to_state().write(tmp_path / "model")
    same = Restoration.from_state(ModelState.read(tmp_path / "model"))
    for kind in ("noise", "jpeg"):
        for name, array in vars(getattr(same, kind)).items():
            halves = getattr(getattr(restoration, kind), name).astype(np.float16).astype(np.float32)
            np.testing.assert_array_equal(array, halves)
    same.to_state().write(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors, metadata: tensors.pop("noise.maps"),
        lambda tensors, metadata: metadata.pop("half"),
        lambda tensors, metadata: metadata["half"].pop("jpeg.edges"),
        lambda tensors, metadata: metadata["half"].update({"noise.maps": [1, 1, 1, 49, 9]}),
        lambda tensors, metadata: metadata["half"].update({"noise.strengths": [-2]}),
        lambda tensors, metadata: metadata.update(estimator="SuperResolution"),
        lambda tensors, metadata: tensors.update({"noise.strengths": np.full(1, -1, np.int64)}),
        lambda tensors, metadata: tensors.update({"jpeg.maps": np.full_like(tensors["jpeg.maps"], 0x7C007C007C007C00)}),
        lambda tensors, metadata: tensors.update({"jpeg.components": tensors["jpeg.components"][:-1]}),
    ],
)
def test_files_that_contradict_themselves(restoration, tmp_path, damage):
    restoration.to_state().write(tmp_path / "model")
    tensors, metadata = read_model(tmp_path / "model")
    damage(tensors, metadata)
    write_model(tmp_path / "model", tensors, metadata)
    with pytest.raises(CONTRADICTIONS):
        Restoration.from_state(ModelState.read(tmp_path / "model"))


def test_degradation_is_a_parameter_of_saved_models(tmp_path):
    model = SuperResolution.pretrained(2)
    assert model.degradation == "auto"
    model.save(tmp_path / "model")
    same = SuperResolution.load(tmp_path / "model")
    assert same.degradation == "auto"
    small = noisy(imresize(data.camera(), 0.3), 10)
    np.testing.assert_array_equal(same.upscale(small), model.upscale(small))
    with pytest.raises(ValueError, match='Expected degradation to be "auto"'):
        same.set_params(degradation="some").upscale(small)
