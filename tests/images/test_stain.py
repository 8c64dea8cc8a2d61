"""Stain separation: known stains are recovered, in order, whatever is drawn; pictures take the colours of others."""

from __future__ import annotations

import copy
import tracemalloc

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from coupledict import sparse_encode
from coupledict.images import StainSeparator
from coupledict.images._stain_estimation import find_stains
from coupledict.images._stain_learning import exact_codes, learn_colours, unit_rows
from coupledict.images._stain_pictures import estimate_white
from support.inner import Meter
from support.tissue import DENSITIES, ONE_LOOK, OTHER_LOOK, TILE, eight_bits, light, tissue


def objective_at(depth, colours):
    """What learning minimises, per pixel, with the best codes for these colours."""
    codes = np.stack(exact_codes(list((depth @ colours.T - 0.1).T), colours @ colours.T), axis=1)
    return (0.5 * ((depth - codes @ colours) ** 2).sum(axis=1) + 0.1 * codes.sum(axis=1)).mean()


def angles(one, other):
    return np.degrees(np.arccos(np.clip((one * other).sum(axis=-1), -1, 1)))


@pytest.fixture(scope="module")
def separator():
    return StainSeparator().fit(TILE)


@pytest.mark.parametrize("colours", [ONE_LOOK, OTHER_LOOK], ids=["one", "other"])
@pytest.mark.parametrize("white", [(1, 1, 1), (0.93, 0.9, 0.82)], ids=["white", "tinted"])
def test_known_stains_and_the_background_are_found(colours, white):
    image = eight_bits(light(DENSITIES, colours, white, noise=0.005))
    separator = StainSeparator().fit(image)
    assert angles(separator.stain_matrix_, colours).max() < 1
    np.testing.assert_allclose(np.linalg.norm(separator.stain_matrix_, axis=1), 1)
    np.testing.assert_allclose(separator.white_, white, atol=0.01)
    assert separator.found_.all()
    found = separator.transform(image)
    assert (found.shape, found.dtype) == (DENSITIES.shape, np.float32)
    assert found.min() >= 0
    for stain in range(2):
        assert np.corrcoef(found[..., stain].ravel(), DENSITIES[..., stain].ravel())[0, 1] > 0.99
    shown = light(DENSITIES, colours).mean(axis=2) < np.exp(-0.15)
    np.testing.assert_allclose(separator.max_density_, np.quantile(DENSITIES[shown], 0.99, axis=0), rtol=0.1)


def test_a_smaller_penalty_suits_stains_that_occur_together():
    image = eight_bits(light(tissue(shared=1.0), noise=0.005))
    errors = [angles(StainSeparator(alpha=alpha).fit(image).stain_matrix_, ONE_LOOK).max() for alpha in (0.1, 0.02)]
    assert errors[1] < min(0.5, errors[0] / 3)


def test_codes_are_those_of_the_lasso(rng):
    for n_stains in (1, 2, 3):
        for dtype, tolerance in ((np.float64, 1e-6), (np.float32, 1e-4)):
            colours = unit_rows(rng.random((n_stains, 3)) + np.eye(3)[:n_stains])
            pixels = np.abs(rng.standard_normal((400, 3))) * rng.random((400, 1))
            wanted = sparse_encode(pixels, colours, pursuit="lasso", alpha=0.1, positive_code=True).toarray()
            correlations = list((pixels @ colours.T - 0.1).T.astype(dtype))
            codes = np.stack(exact_codes(correlations, colours @ colours.T), axis=1)
            assert codes.dtype == dtype
            objective = [0.5 * ((pixels - c @ colours) ** 2).sum(axis=1) + 0.1 * c.sum(axis=1) for c in (codes, wanted)]
            assert (objective[0] <= objective[1] + tolerance).all()
            np.testing.assert_allclose(codes, wanted, atol=100 * tolerance)
            assert len(np.unique(codes > 0, axis=0)) == 2**n_stains, "every support occurs"


def test_rounding_does_not_decide_which_stains_a_pixel_has(rng):
    """A stain that is almost absent beside a strong one is worth less than the last digit of what both are worth."""
    for n_stains in (2, 3):
        colours = unit_rows(np.array([[0.65, 0.70, 0.29], [0.21, 0.95, 0.22], [0.27, 0.57, 0.78]]))[:n_stains]
        amounts = np.zeros((3000, n_stains))
        amounts[:, 0], amounts[:, 1] = rng.uniform(2, 5, 3000), rng.uniform(0, 3e-3, 3000)
        correlations = amounts @ (colours @ colours.T) + np.eye(3)[2, :n_stains] * -0.3
        codes = np.stack(exact_codes(list(correlations.T.astype(np.float32)), colours @ colours.T), axis=1)
        np.testing.assert_allclose(codes, amounts, atol=5e-5)


def test_stains_that_are_almost_the_same_are_not_used_together(rng):
    colours = unit_rows(np.array([[0.5, 0.6, 0.4], [0.5, 0.6, 0.4 + 1e-3]]))
    pixels = rng.random((50, 2)) @ colours
    codes = np.stack(exact_codes(list((pixels @ colours.T).T), colours @ colours.T))
    assert ((codes > 0).sum(axis=0) == 1).all()
    np.testing.assert_allclose(codes.sum(axis=0), (pixels @ colours.T).max(axis=1))


def test_densities_are_the_lasso_codes_of_optical_densities(separator):
    depth = np.maximum(np.log(separator.white_) - np.log(np.maximum(TILE, 1) / 255), 0)
    wanted = sparse_encode(
        depth[:30].reshape(-1, 3), separator.stain_matrix_, pursuit="lasso", alpha=0.01, positive_code=True
    )
    found = separator.transform(TILE)
    np.testing.assert_allclose(found[:30].reshape(-1, 2), wanted.toarray(), atol=1e-4)
    shown = found[depth.mean(axis=2) > 0.15]
    np.testing.assert_allclose(separator.max_density_, np.quantile(shown, 0.99, axis=0), rtol=1e-3)
    assert separator.n_samples_ == len(shown)


def test_steps_that_go_too_far_are_taken_back(rng):
    """From few pixels and bad starts as well: where the objective has grown, learning goes on from where it was."""
    taken_back = 0
    for _ in range(40):
        depth = rng.exponential(0.5, (12, 3))
        start = unit_rows(rng.random((2, 3)) ** 4 + 1e-3)
        learned = learn_colours(depth, np.ones(12), start, 0.1, Meter(None, "learning"))
        assert learned.converged
        course = learned.objectives
        assert course[0] == pytest.approx(objective_at(depth, start))
        for before, now, after in zip(course, course[1:], course[2:], strict=False):
            if now > before * (1 + 1e-9):
                taken_back += 1
                assert after <= before * (1 + 1e-9)
    assert taken_back > 2


def test_learning_ends_at_a_minimum(separator):
    """No small turn of a colour makes the objective smaller."""
    shown = np.maximum(TILE.reshape(-1, 3), 1) / 255
    depth = np.maximum(np.log(separator.white_) - np.log(shown), 0)
    depth = depth[depth.mean(axis=1) > 0.15]

    least, rng = objective_at(depth, separator.stain_matrix_), np.random.default_rng(0)
    for _ in range(30):
        turned = unit_rows(np.maximum(separator.stain_matrix_ + 1e-3 * rng.standard_normal((2, 3)), 0))
        assert objective_at(depth, turned) > least


def test_seeds_draw_other_pixels_and_agree():
    image = eight_bits(light(tissue(1, (400, 410)), noise=0.005))
    found = np.array(
        [StainSeparator(max_samples=60_000, random_state=seed).fit(image).stain_matrix_ for seed in range(5)]
    )
    assert len(np.unique(found, axis=0)) == 5, "other pixels"
    assert angles(found, StainSeparator().fit(image).stain_matrix_).max() < 0.1
    again = StainSeparator(max_samples=60_000, random_state=3).fit(image)
    np.testing.assert_array_equal(again.stain_matrix_, found[3])
    unseeded = StainSeparator(max_samples=60_000).fit(image)
    np.testing.assert_array_equal(unseeded.stain_matrix_, found[0], "run after run")


def test_without_drawing_the_seed_does_not_matter(separator):
    for seed in (1, None, np.random.default_rng(5)):
        np.testing.assert_array_equal(
            StainSeparator(random_state=seed).fit(TILE).stain_matrix_, separator.stain_matrix_
        )


def test_hematoxylin_is_first_whatever_there_is_more_of():
    for seed in range(4):
        for amounts in ((1, 1), (1.5, 0.6), (0.4, 1.5)):
            for colours in (ONE_LOOK, OTHER_LOOK):
                image = eight_bits(light(tissue(seed) * amounts, colours, noise=0.005))
                found = StainSeparator().fit(image).stain_matrix_
                assert (angles(found, colours) < angles(found, colours[::-1])).all()


def test_pixels_and_their_order_do_not_matter_for_what_is_learned(separator):
    """Nothing but the colours counts: a turned picture, and one that shows the same twice, have the same stains."""
    for image in (TILE[::-1, ::-1], TILE.swapaxes(0, 1), np.concatenate([TILE, TILE])):
        other = StainSeparator().fit(image)
        assert angles(other.stain_matrix_, separator.stain_matrix_).max() < 1e-4
        np.testing.assert_allclose(other.max_density_, separator.max_density_, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_tiles_and_threads_change_no_bit(separator, dtype, tmp_path):
    image = TILE if dtype == np.uint8 else (TILE.astype(dtype) * 257 if dtype == np.uint16 else TILE / dtype(255))
    mapped = np.memmap(tmp_path / "image", dtype, "w+", shape=image.shape)
    mapped[:] = image
    wanted = None
    for tile_size, n_jobs in ((1 << 16, 1), (1, 2), (700, 3), (1 << 30, 2)):
        own = StainSeparator(tile_size=tile_size, n_jobs=n_jobs).fit(mapped)
        densities = own.transform(mapped)
        found = (own.stain_matrix_, own.max_density_, densities, own.inverse_transform(densities, dtype=dtype))
        found = [array.tobytes() for array in (*found, own.normalize(mapped, source=separator))]
        wanted = wanted or found
        assert found == wanted


def test_results_are_written_where_they_are_wanted(separator, tmp_path):
    densities = np.memmap(tmp_path / "densities", np.float32, "w+", shape=(*TILE.shape[:2], 2))
    assert separator.transform(TILE, out=densities) is densities
    np.testing.assert_array_equal(densities, separator.transform(TILE))
    image = np.empty_like(TILE)
    assert separator.normalize(TILE, out=image) is image
    np.testing.assert_array_equal(image, separator.normalize(TILE))
    for out in (np.empty((3, 3, 2), np.float32), np.empty((*TILE.shape[:2], 2)), "file"):
        with pytest.raises(ValueError, match="Expected out to be an array of shape"):
            separator.transform(TILE, out=out)


def test_memory_does_not_grow_with_the_picture(separator):
    image = np.tile(TILE, (9, 9, 1))
    own, out = StainSeparator(tile_size=1 << 13, max_samples=10_000).fit(image), np.empty_like(image)
    tracemalloc.start()
    try:
        own.normalize(image, source=separator, out=out)
        largest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert largest < image.nbytes / 4


@pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.float64])
def test_number_types_say_the_same(separator, dtype):
    image = TILE.astype(dtype) * 257 if dtype == np.uint16 else TILE / dtype(255)
    own = StainSeparator().fit(image)
    assert angles(own.stain_matrix_, separator.stain_matrix_).max() < 1e-3
    np.testing.assert_allclose(own.white_, separator.white_, rtol=1e-6)
    np.testing.assert_allclose(own.transform(image), separator.transform(TILE), atol=1e-4)
    again = own.normalize(image)
    assert (again.dtype, again.shape) == (image.dtype, image.shape)
    most = 65535 if dtype == np.uint16 else 1
    np.testing.assert_allclose(again / most, separator.normalize(TILE) / 255, atol=0.003)


def test_densities_drawn_again_are_the_picture(separator):
    again = separator.inverse_transform(separator.transform(TILE))
    assert np.abs(again.astype(int) - TILE).mean() < 3
    empty = separator.inverse_transform(np.zeros((2, 3, 2)), dtype=np.float64)
    np.testing.assert_allclose(empty, np.broadcast_to(separator.white_, (2, 3, 3)), rtol=1e-6)
    for extreme, colour in ((-50.0, 255), (-1e300, 255), (1e300, 0)):
        assert (separator.inverse_transform(np.full((1, 1, 2), extreme)) == colour).all()
    without = separator.transform(TILE) * [0, 1]
    np.testing.assert_allclose(
        separator.inverse_transform(without, dtype=np.float32),
        light(without, separator.stain_matrix_, separator.white_),
        rtol=1e-5,
    )


@pytest.mark.parametrize("white", [(1, 1, 1), (0.93, 0.9, 0.82)], ids=["white", "tinted"])
def test_one_look_becomes_the_other(white):
    """The target shows other tissue; the truth is the tissue of the source in the colours of the target."""
    target = eight_bits(light(tissue(7), OTHER_LOOK, noise=0.005))
    source = eight_bits(light(1.5 * DENSITIES, ONE_LOOK, white, noise=0.005))
    separator = StainSeparator().fit(target)
    own = np.quantile(1.5 * DENSITIES[DENSITIES.sum(axis=2) > 0.25], 0.99, axis=0)
    truth = eight_bits(light(1.5 * DENSITIES * separator.max_density_ / own, OTHER_LOOK))
    normal = separator.normalize(source)
    before = np.abs(source.astype(int) - truth).mean()
    assert np.abs(normal.astype(int) - truth).mean() < min(6, before / 3)
    same = separator.normalize(target)
    assert np.abs(same.astype(int) - target).mean() < 3, "its own look does not change a picture"


def test_a_given_source_is_used_for_tiles_with_little_tissue(separator):
    target = StainSeparator().fit(eight_bits(light(DENSITIES, OTHER_LOOK)))
    whole = target.normalize(TILE)
    np.testing.assert_array_equal(target.normalize(TILE, source=separator), whole)
    np.testing.assert_array_equal(target.normalize(TILE[20:50, 30:40], source=separator), whole[20:50, 30:40])
    blank = np.full((30, 30, 3), 255, np.uint8)
    with pytest.raises(ValueError, match=r"normalize\(image, source=...\) needs no tissue"):
        target.normalize(blank)
    shown = target.normalize(blank, source=separator)
    np.testing.assert_array_equal(shown, np.broadcast_to(np.rint(255 * target.white_), shown.shape))
    with pytest.raises(TypeError, match="Expected source to be a fitted StainSeparator"):
        target.normalize(TILE, source="slide")
    with pytest.raises(NotFittedError):
        target.normalize(TILE, source=StainSeparator())
    with pytest.raises(ValueError, match="Expected source to have 2 stains"):
        target.normalize(TILE, source=StainSeparator(1).fit(TILE))


def test_alpha_is_kept_and_transparent_pixels_are_not_learned_from(separator):
    rng = np.random.default_rng(0)
    alpha = rng.integers(1, 256, TILE.shape[:2], np.uint8)
    image = np.dstack([TILE, alpha])
    own = StainSeparator().fit(image)
    np.testing.assert_array_equal(own.stain_matrix_, separator.stain_matrix_)
    np.testing.assert_array_equal(own.transform(image), separator.transform(TILE))
    normal = own.normalize(image)
    np.testing.assert_array_equal(normal, np.dstack([separator.normalize(TILE), alpha]))
    framed = np.zeros((220, 230, 4), np.uint8)
    framed[30:190, 30:200] = image
    np.testing.assert_array_equal(StainSeparator().fit(framed).stain_matrix_, separator.stain_matrix_)


def test_the_background_may_be_given(separator):
    image = eight_bits(light(DENSITIES, white=(0.8, 0.8, 0.8)))
    for white in (0.8, (0.8, 0.8, 0.8), np.full(3, 0.8)):
        own = StainSeparator(white=white).fit(image)
        np.testing.assert_array_equal(own.white_, [0.8] * 3)
        assert angles(own.stain_matrix_, ONE_LOOK).max() < 1
    crowded = eight_bits(light(DENSITIES + np.array([0.8, 0.4])))
    np.testing.assert_array_equal(estimate_white(crowded), [1, 1, 1], "no background: the full range")
    grey = eight_bits(light(DENSITIES, white=(0.85, 0.84, 0.83)))
    grey[:2, :5] = 255
    np.testing.assert_allclose(estimate_white(grey), (0.85, 0.84, 0.83), atol=0.01)


def test_three_stains_and_one():
    brown = unit_rows(np.array([[0.27, 0.57, 0.78]]))
    rng = np.random.default_rng(0)
    amounts = rng.exponential(0.8, (120, 120, 3)) * (rng.random((120, 120, 3)) < 0.4)
    colours = np.concatenate([ONE_LOOK, brown])
    image = eight_bits(light(amounts, colours))
    three = StainSeparator(3, alpha=0.02, white=1.0).fit(image)
    assert angles(three.stain_matrix_, colours[[0, 1, 2]]).max() < 2
    assert three.transform(image).shape == (120, 120, 3)
    one = StainSeparator(1).fit(eight_bits(light(DENSITIES[..., 1:], ONE_LOOK[1:])))
    assert angles(one.stain_matrix_, ONE_LOOK[1:]).max() < 0.2


@pytest.mark.parametrize("shown", [0, 1], ids=["hematoxylin", "eosin"])
def test_a_stain_that_is_missing_is_told_of_and_gets_its_standard_colour(shown):
    amounts = tissue(3).sum(axis=2, keepdims=True)
    image = eight_bits(light(amounts, ONE_LOOK[shown : shown + 1], noise=0.005))
    with pytest.warns(UserWarning, match="Expected image to show 2 stains, found fewer"):
        separator = StainSeparator().fit(image)
    assert separator.found_.tolist() == [shown == 0, shown == 1]
    assert angles(separator.stain_matrix_[shown], ONE_LOOK[shown]) < 1
    densities = separator.transform(image)
    assert densities[..., 1 - shown].sum() < 0.05 * densities.sum()
    target = StainSeparator().fit(eight_bits(light(DENSITIES, OTHER_LOOK)))
    with pytest.warns(UserWarning, match="found fewer"):
        normal = target.normalize(image)
    factor = target.max_density_[shown] / separator.max_density_[shown]
    truth = eight_bits(light(factor * amounts, OTHER_LOOK[shown : shown + 1]))
    assert np.abs(normal.astype(int) - truth).mean() < 6


@pytest.mark.parametrize(
    ("image", "error", "words"),
    [
        (np.full((50, 50, 3), 250, np.uint8), ValueError, r"found 0 of 2,500 pixels .* \(250, 250, 250\) in 8 bits"),
        (np.full((50, 50, 3), (90, 40, 120), np.uint8), ValueError, "one colour everywhere"),
        (np.zeros((50, 50, 3), np.uint8), ValueError, "one colour everywhere"),
        (TILE[..., 0], ValueError, "Expected image in colour.*got a grey one"),
        (TILE[..., :1], ValueError, "got a grey one"),
        (np.repeat(TILE[..., 1:2], 3, axis=2), ValueError, "a grey picture with three equal channels"),
        (TILE[None], ValueError, r"got shape \(1, 160, 170, 3\)"),
        (TILE[:0], ValueError, "at least one pixel"),
        (TILE.astype(np.int64), TypeError, "got int64"),
        (TILE.astype(np.float32), ValueError, "from 0 to 1, got .* Divide them"),
        (np.full((50, 50, 3), np.nan), ValueError, "NaN or infinity"),
        (np.dstack([TILE, np.zeros_like(TILE[..., 0])]), ValueError, "found 0 of 0 pixels"),
    ],
)
def test_pictures_without_stains_are_refused(image, error, words, separator):
    before = dict(vars(separator))
    with pytest.raises(error, match=words):
        separator.fit(image)
    assert vars(separator) == before


def test_nearly_white_pictures_say_what_was_found():
    image = np.full((200, 200, 3), 245, np.uint8)
    image[:5, :6] = (150, 80, 160)
    with pytest.raises(ValueError, match=r"found 30 of 40,000 pixels \(0.07%\).* lower tissue_threshold"):
        StainSeparator().fit(image)


def test_pixels_that_are_not_numbers_are_found_in_any_band(separator):
    image = TILE / np.float32(255)
    image[-1, -1, 2] = np.nan
    for task in (separator.transform, lambda picture: separator.normalize(picture, source=separator)):
        with pytest.raises(ValueError, match="NaN or infinity"):
            task(image)
    with pytest.raises(ValueError, match="Expected densities to be finite"):
        separator.inverse_transform(np.full((3, 3, 2), np.nan))
    with pytest.raises(ValueError, match=r"Expected densities of shape \(rows, columns, 2\)"):
        separator.inverse_transform(np.zeros((3, 3)))
    with pytest.raises(TypeError, match="got int32"):
        separator.inverse_transform(np.zeros((3, 3, 2)), dtype=np.int32)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"n_stains": 4}, ValueError),
        ({"n_stains": 0}, ValueError),
        ({"n_stains": 2.0}, TypeError),
        ({"alpha": -1}, ValueError),
        ({"transform_alpha": np.inf}, ValueError),
        ({"white": "paper"}, ValueError),
        ({"white": 240}, ValueError),
        ({"white": (0.9, 0.9)}, ValueError),
        ({"white": (0.9, 0, 0.9)}, ValueError),
        ({"white": None}, TypeError),
        ({"tissue_threshold": "low"}, TypeError),
        ({"max_samples": 0}, ValueError),
        ({"tile_size": 0}, ValueError),
        ({"n_jobs": 0}, ValueError),
        ({"random_state": "dice"}, TypeError),
        ({"callback": 3}, TypeError),
    ],
)
def test_wrong_parameters(parameters, error):
    with pytest.raises(error, match=f"Expected .*{next(iter(parameters))}"):
        StainSeparator(**parameters).fit(TILE)


def test_a_number_of_stains_that_was_not_fitted_is_refused(separator):
    with pytest.raises(ValueError, match="Expected n_stains as it was in fit, 2, got 3"):
        copy.copy(separator).set_params(n_stains=3).transform(TILE)
    with pytest.raises(NotFittedError):
        StainSeparator().transform(TILE)


def test_learning_that_does_not_end_says_so(rng):
    names = ("n_stains", "alpha", "transform_alpha", "tissue_threshold", "max_samples")
    settings = {name: getattr(StainSeparator(), name) for name in names}
    with pytest.warns(ConvergenceWarning, match="stopped after 3 steps before it converged"):
        find_stains(TILE, **settings, white=None, rng=rng, callback=None, most_steps=3)
