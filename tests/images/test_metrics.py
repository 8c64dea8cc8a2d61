"""Measures of fusion and the signal-to-noise ratio: slow twins from the formulas, values by hand, bad pictures."""

from __future__ import annotations

import cmath
import math
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from coupledict.images import metrics
from coupledict.images.metrics import fusion_scores, nmi, psnr, q_abf, q_cb, q_y

MEASURES = [q_abf, nmi, q_y, q_cb]
SMALLEST = {q_abf: 3, nmi: 1, q_y: 7, q_cb: 1, fusion_scores: 7}
MOST_EDGES = 0.9994 / (1 + math.exp(-7.5)) * 0.9879 / (1 + math.exp(-4.4))  # Q^AB/F of a picture with itself
MOST = {q_abf: MOST_EDGES, nmi: 2, q_y: 1, q_cb: 1}


def triple(rng, shape=(12, 11), noise=8):
    """Two sources with their detail on different sides, and a picture that resembles both; whole numbers."""
    scene = gaussian_filter(rng.uniform(0, 255, shape), 1.0)
    scene = 30 + 190 * (scene - scene.min()) / np.ptp(scene)
    soft = gaussian_filter(scene, 1.0)
    left = np.arange(shape[1]) < shape[1] // 2
    pictures = np.where(left, scene, soft), np.where(left, soft, scene), scene
    return [np.rint(np.clip(image + rng.normal(0, noise, shape), 0, 255)) for image in pictures]


def random_triple(rng, shape=(10, 13)):
    return [rng.integers(0, 256, shape).astype(float) for _ in range(3)]


# Slow twins, written from the formulas


def twin_q_abf(first, second, fused):
    kernel = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]

    def gradient(image, row, column):
        x = y = 0.0
        for i in range(3):
            for j in range(3):
                x += kernel[i][j] * image[row + i - 1, column + j - 1]
                y += kernel[j][i] * image[row + i - 1, column + j - 1]
        return math.sqrt(x * x + y * y), math.atan2(y, x)

    kept = weights = 0.0
    for row in range(1, fused.shape[0] - 1):
        for column in range(1, fused.shape[1] - 1):
            strength, angle = gradient(fused, row, column)
            for source in (first, second):
                weight, direction = gradient(source, row, column)
                if weight == 0:
                    continue
                share = strength / weight if weight > strength else weight / strength
                turn = abs(direction - angle)
                turn = min(turn, 2 * math.pi - turn)
                quality = 0.9994 / (1 + math.exp(-15 * (share - 0.5)))
                quality *= 0.9879 / (1 + math.exp(-22 * (1 - turn / (math.pi / 2) - 0.8)))
                kept += quality * weight
                weights += weight
    return kept / weights


def twin_nmi(first, second, fused):
    def entropy(values):
        counts = Counter(values)
        total = sum(counts.values())
        return -sum(n / total * math.log(n / total) for n in counts.values())

    f = fused.ravel().tolist()
    score = 0.0
    for source in (first, second):
        s = source.ravel().tolist()
        information = entropy(s) + entropy(f) - entropy(list(zip(s, f, strict=True)))
        score += 2 * information / (entropy(s) + entropy(f))
    return score


def twin_q_y(first, second, fused):
    weights = np.array([[math.exp(-(i * i + j * j) / (2 * 1.5**2)) for j in range(-3, 4)] for i in range(-3, 4)])
    weights /= weights.sum()

    def moments(x, y):
        mean_x, mean_y = np.sum(weights * x), np.sum(weights * y)
        return mean_x, mean_y, np.sum(weights * (x - mean_x) * (y - mean_y))

    def similarity(x, y):
        mean_x, mean_y, covariance = moments(x, y)
        varies = moments(x, x)[2] + moments(y, y)[2]
        return 2 * mean_x * mean_y / (mean_x**2 + mean_y**2) * (2 * covariance / varies)

    scores = []
    for row in range(fused.shape[0] - 6):
        for column in range(fused.shape[1] - 6):
            a, b, f = (image[row : row + 7, column : column + 7] for image in (first, second, fused))
            if similarity(a, b) >= 0.75:
                share = moments(a, a)[2] / (moments(a, a)[2] + moments(b, b)[2])
                scores.append(share * similarity(a, f) + (1 - share) * similarity(b, f))
            else:
                scores.append(max(similarity(a, f), similarity(b, f)))
    return sum(scores) / len(scores)


def twin_q_cb(first, second, fused):
    height, width = fused.shape

    def see(image):
        """The contrast sensitivity filter, by sums over all waves."""
        spectrum = {}
        for u in range(height):
            for v in range(width):
                waves = (
                    (cmath.exp(-2j * math.pi * (u * i / height + v * j / width))) for i, j in np.ndindex(image.shape)
                )
                spectrum[u, v] = sum(w * x for w, x in zip(waves, image.ravel().tolist(), strict=True))
        seen = np.zeros(image.shape)
        for (u, v), amplitude in spectrum.items():
            r = math.hypot(min(u, height - u), min(v, width - v)) / 15
            gain = math.exp(-((r / 15.387) ** 2)) - 0.7622 * math.exp(-((r / 1.3456) ** 2))
            for i, j in np.ndindex(image.shape):
                wave = cmath.exp(2j * math.pi * (u * i / height + v * j / width))
                seen[i, j] += (gain * amplitude * wave).real / (height * width)
        return seen

    def mirror(position, length):
        position %= 2 * length
        return position if position < length else 2 * length - 1 - position

    def smooth(image, sigma):
        reach = int(4 * sigma)
        offsets = range(-reach, reach + 1)
        weights = [math.exp(-(o * o) / (2 * sigma * sigma)) for o in offsets]
        total = sum(weights) ** 2
        rows = [[mirror(i + o, height) for o in offsets] for i in range(height)]
        columns = [[mirror(j + o, width) for o in offsets] for j in range(width)]
        outer = np.outer(weights, weights) / total
        return np.array(
            [[np.sum(outer * image[np.ix_(rows[i], columns[j])]) for j in range(width)] for i in range(height)]
        )

    def masked(image):
        seen = see(image)
        contrast = abs(smooth(seen, 2) / smooth(seen, 4) - 1)
        return contrast**3 / (contrast**2 + 0.0001)

    a, b, f = masked(first), masked(second), masked(fused)
    total = 0.0
    for place in np.ndindex(fused.shape):
        kept = [min(m[place], f[place]) / max(m[place], f[place]) for m in (a, b)]
        weights = [m[place] ** 2 for m in (a, b)]
        total += (weights[0] * kept[0] + weights[1] * kept[1]) / sum(weights)
    return total / fused.size


TWINS = {q_abf: twin_q_abf, nmi: twin_nmi, q_y: twin_q_y, q_cb: twin_q_cb}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("make", [triple, random_triple])
def test_scores_are_those_of_the_formula(rng, measure, make):
    pictures = make(rng)
    assert measure(*pictures) == pytest.approx(TWINS[measure](*pictures), rel=1e-7)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_copy_of_one_source_scores_as_the_formula_says(rng, measure):
    first, second, _ = triple(rng)
    assert measure(first, second, first) == pytest.approx(TWINS[measure](first, second, first), rel=1e-7)


def test_both_cases_of_yang_count(rng):
    """The pictures above have windows where the sources are alike, and windows where they are not."""
    pictures = triple(rng)
    mixed = q_y(*pictures)
    for limit in (-2, 2):  # all windows alike, none alike
        assert abs(metrics._q_y(*pictures, similar=limit) - mixed) > 0.01


def test_the_better_kept_source_counts_where_the_sources_differ(rng):
    first, other, _ = random_triple(rng)
    assert q_y(first, other, first) == pytest.approx(1)
    assert q_y(first, first + 2, other) < 0.5


# Known values


@pytest.mark.parametrize("measure", MEASURES)
def test_three_equal_pictures_reach_the_maximum(rng, measure):
    picture = triple(rng)[0]
    assert measure(picture, picture, picture) == pytest.approx(MOST[measure], abs=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("value", [0, 1, 100, 255])
def test_three_equal_flat_pictures_reach_the_maximum(measure, value):
    picture = np.full((9, 9), value)
    assert measure(picture, picture, picture) == pytest.approx(MOST[measure], abs=1e-9)


def plane(degrees, shape=(9, 9)):
    """A picture whose gradient has this direction everywhere."""
    rows, columns = np.indices(shape)
    return 100 + columns * math.cos(math.radians(degrees)) + rows * math.sin(math.radians(degrees))


@pytest.mark.parametrize(
    ("one", "other", "turn"), [(0, 0, 0), (0, 15, 15), (80, 100, 20), (179, -175, 6), (90, -90, 180)]
)
def test_edges_are_compared_by_the_angle_between_gradients(one, other, turn):
    expected = 0.9994 / (1 + math.exp(-7.5)) * 0.9879 / (1 + math.exp(-22 * (1 - turn / 90 - 0.8)))
    flat = np.full((9, 9), 7.0)
    assert q_abf(plane(one), flat, plane(other)) == pytest.approx(expected)


def test_half_an_edge_is_half_kept():
    step = np.repeat([[50, 50, 50, 50, 150, 150, 150, 150]], 8, axis=0)
    expected = 0.9994 / 2 * 0.9879 / (1 + math.exp(-4.4))
    assert q_abf(step, step, step / 2) == pytest.approx(expected)
    assert q_abf(step, step, step * 2) == pytest.approx(expected)  # too strong is as wrong as too weak


def test_strong_edges_weigh_more():
    vertical = np.repeat([[0, 0, 0, 0, 30, 30, 30, 30]], 8, axis=0)
    horizontal = 3 * vertical.T  # three times as strong, and gone from the fused picture
    assert q_abf(vertical, horizontal, vertical) < 0.45 < 0.55 < q_abf(vertical, horizontal, horizontal)


def test_sources_without_edges_lose_nothing(rng):
    flat = np.full((8, 8), 3.0)
    assert q_abf(flat, flat, rng.uniform(0, 255, (8, 8))) == pytest.approx(MOST_EDGES)


def test_mutual_information_by_hand():
    halves, stripes = np.array([[0, 0], [255, 255]]), np.array([[0, 255], [0, 255]])
    corner = np.array([[0, 0], [0, 255]])
    h = 2 - 0.75 * math.log2(3)  # entropy of one level in three of four pixels, in bits
    assert nmi(halves, stripes, corner) == pytest.approx(2 * 2 * (1 + h - 1.5) / (1 + h))
    assert nmi(halves, stripes, halves) == pytest.approx(1)
    assert nmi(halves, halves, 255 - halves) == pytest.approx(2)  # levels are names: a negative tells as much
    assert nmi(halves, stripes, np.full((2, 2), 9)) == 0
    assert nmi(np.full((2, 2), 9), halves, halves) == pytest.approx(1)
    assert nmi(np.full((2, 2), 9), halves, np.full((2, 2), 1)) == pytest.approx(1)


def test_a_copy_of_one_source_gets_at_least_1_of_mutual_information(rng):
    first, second, _ = triple(rng, (40, 40), noise=1)
    assert 1 < nmi(first, second, first) < 2


def test_values_are_rounded_to_256_levels():
    ramp = np.arange(256.0).reshape(16, 16)
    assert nmi(ramp, ramp, np.clip(ramp + 0.49, 0, 255.49)) == pytest.approx(2)
    fine = np.array([[10.0, 10.1], [10.4, 9.6]])
    assert nmi(ramp[:2, :2], ramp[:2, :2], fine) == 0  # all of it is level 10


def test_flat_windows_differ_in_brightness_only():
    first, fused = np.full((9, 9), 100), np.full((9, 9), 50)
    assert q_y(first, first, fused) == pytest.approx(2 * 100 * 50 / (100**2 + 50**2))
    assert q_y(first, fused, fused) == pytest.approx((0.8 + 1) / 2)  # alike and both flat: equal shares


def test_a_flat_window_holds_no_structure(rng):
    picture = random_triple(rng)[0]
    assert q_y(picture, picture, np.full(picture.shape, 127)) == pytest.approx(0, abs=1e-6)


def test_contrast_is_relative(rng):
    first, second, fused = triple(rng)
    assert q_cb(first, first, first * 0.37) == pytest.approx(1)
    assert q_cb(first, second, fused * 0.37) == pytest.approx(q_cb(first, second, fused))


def test_contrast_that_is_lost_scores_nothing(rng):
    picture = triple(rng)[0]
    assert q_cb(picture, picture, np.full(picture.shape, 99)) == 0
    assert q_cb(np.full(picture.shape, 5), np.full(picture.shape, 250), picture) == 0  # contrast that no source has


# What must not matter, and what must


@pytest.mark.parametrize("measure", MEASURES)
def test_the_order_of_the_sources_does_not_matter(rng, measure):
    first, second, fused = triple(rng)
    assert measure(first, second, fused) == pytest.approx(measure(second, first, fused), rel=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("turn", [np.transpose, np.flipud, np.fliplr, np.rot90])
def test_turning_the_pictures_does_not_matter(rng, measure, turn):
    pictures = triple(rng)
    assert measure(*map(turn, pictures)) == pytest.approx(measure(*pictures), rel=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_number_type_does_not_matter(rng, measure):
    pictures = triple(rng)
    expected = measure(*pictures)
    for dtype in (np.uint8, np.int16, np.uint64, np.float16, np.float32, ">f8"):
        assert measure(*(image.astype(dtype) for image in pictures)) == expected


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("gain", "dtype"), [(257, np.uint16), (1 / 255, np.float64)])
def test_the_scale_of_all_pictures_does_not_matter(rng, measure, gain, dtype):
    pictures = triple(rng)
    scale = {"data_range": 255 * gain} if measure is nmi else {}
    scaled = [(image * gain).astype(dtype) for image in pictures]
    assert measure(*scaled, **scale) == pytest.approx(measure(*pictures), rel=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_layout_in_memory_does_not_matter(rng, measure, tmp_path):
    pictures = [image.astype(np.uint8) for image in triple(rng, (60, 47))]
    expected = measure(*pictures)
    mapped = []
    for number, image in enumerate(pictures):
        np.save(tmp_path / f"{number}.npy", image)
        mapped.append(np.load(tmp_path / f"{number}.npy", mmap_mode="r"))
    assert measure(*mapped) == expected
    assert measure(*(np.asfortranarray(image) for image in pictures)) == expected
    assert measure(*(np.repeat(image, 2, axis=1)[:, ::2] for image in pictures)) == expected
    assert measure(*(image.tolist() for image in pictures)) == expected


@pytest.mark.parametrize("measure", MEASURES)
def test_pictures_are_left_alone_and_scores_are_plain_numbers(rng, measure):
    pictures = triple(rng)
    before = [image.copy() for image in pictures]
    for image in pictures:
        image.flags.writeable = False
    assert type(measure(*pictures)) is float
    for image, copy in zip(pictures, before, strict=True):
        np.testing.assert_array_equal(image, copy)


def test_a_proper_fusion_beats_the_average_and_a_copy(rng):
    scene = gaussian_filter(rng.uniform(0, 255, (64, 64)), 0.7)
    scene = 255 * (scene - scene.min()) / np.ptp(scene)
    soft = gaussian_filter(scene, 2.0)
    left = np.arange(64) < 32
    first, second = np.where(left, scene, soft), np.where(left, soft, scene)
    good, average = fusion_scores(first, second, scene), fusion_scores(first, second, (first + second) / 2)
    copy = fusion_scores(first, second, first)
    assert all(good[name] > average[name] + 0.02 for name in good)
    assert good["q_abf"] > copy["q_abf"] + 0.1
    assert good["q_cb"] > copy["q_cb"] + 0.05


def test_all_scores_through_one_door(rng):
    pictures = triple(rng)
    assert fusion_scores(*pictures) == {measure.__name__: measure(*pictures) for measure in MEASURES}
    scaled = [image / 255 for image in pictures]
    assert fusion_scores(*scaled, data_range=1) == pytest.approx(fusion_scores(*pictures))


@pytest.mark.parametrize("measure", MEASURES)
def test_flat_pictures_give_numbers_without_warnings(rng, measure):
    detailed = triple(rng)[0]
    kinds = [detailed, np.zeros_like(detailed), np.full_like(detailed, 0.1), np.full_like(detailed, 255)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = [measure(first, second, fused) for first in kinds for second in kinds for fused in kinds]
    assert all(math.isfinite(score) and -1 <= score <= MOST[measure] + 1e-9 for score in scores)


@pytest.mark.parametrize("measure", [*MEASURES, fusion_scores])
def test_pictures_of_the_smallest_size(rng, measure):
    side = SMALLEST[measure]
    pictures = random_triple(rng, (side, side))
    assert np.all(np.isfinite(list(measure(*pictures).values()) if measure is fusion_scores else measure(*pictures)))
    if side > 1:
        with pytest.raises(ValueError, match=rf"at least {side} x {side} pixels, got {side + 5} x {side - 1}"):
            measure(*random_triple(rng, (side + 5, side - 1)))


# Colour


@pytest.mark.parametrize("measure", MEASURES)
def test_colour_is_scored_by_its_luma(rng, measure):
    image_module = pytest.importorskip("PIL.Image")
    colours = [rng.integers(0, 256, (12, 13, 3), dtype=np.uint8) for _ in range(3)]
    greys = [np.asarray(image_module.fromarray(colour).convert("L")) for colour in colours]
    expected = measure(*greys)
    assert measure(*colours) == expected
    with_alpha = [np.dstack([colour, rng.integers(0, 256, (12, 13), dtype=np.uint8)]) for colour in colours]
    assert measure(*with_alpha) == expected
    assert measure(colours[0], greys[1], with_alpha[2]) == expected


def test_the_luma_of_floating_point_colours_is_not_rounded(rng):
    colours = [rng.uniform(0, 255, (12, 13, 3)) for _ in range(3)]
    greys = [colour @ [0.299, 0.587, 0.114] for colour in colours]
    assert q_abf(*colours) == pytest.approx(q_abf(*greys), rel=1e-4)
    assert q_abf(*colours) != q_abf(*(np.rint(grey) for grey in greys))


# Peak signal-to-noise ratio


def test_psnr_by_hand(rng):
    reference = rng.integers(0, 256, (9, 7)).astype(np.uint8)
    image = rng.uniform(-3, 258, (9, 7))
    for crop in (0, 1, 3):
        rows, columns = range(crop, 9 - crop), range(crop, 7 - crop)
        squares = [(float(reference[i, j]) - image[i, j]) ** 2 for i in rows for j in columns]
        expected = 10 * math.log10(255**2 / (sum(squares) / len(squares)))
        assert psnr(reference, image, crop=crop) == pytest.approx(expected)
    assert psnr(np.array([[0, 1]]), np.array([[0, 0]]), data_range=1) == pytest.approx(10 * math.log10(2))
    assert psnr(np.zeros((3, 3), np.uint8), np.ones((3, 3), np.uint8)) == pytest.approx(20 * math.log10(255))


def test_psnr_of_no_difference_is_infinite(rng):
    picture = rng.integers(0, 65536, (5, 5, 3), dtype=np.uint16)
    assert psnr(picture, picture, data_range=65535) == math.inf


@pytest.mark.parametrize("crop", [-1, 3, 4])
def test_psnr_refuses_a_crop_that_leaves_nothing(crop):
    with pytest.raises(ValueError, match=rf"leave some of the 8 x 6 pixels, got {crop}"):
        psnr(np.zeros((8, 6)), np.zeros((8, 6)), crop=crop)


@pytest.mark.parametrize("crop", [1.0, True, "2"])
def test_psnr_refuses_a_crop_that_is_no_integer(crop):
    with pytest.raises(TypeError, match="Expected crop to be an integer"):
        psnr(np.zeros((8, 6)), np.zeros((8, 6)), crop=crop)


# Bad pictures


@pytest.mark.parametrize("measure", [*MEASURES, fusion_scores])
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (np.zeros((9, 8)), ValueError, r"one height and width, got first .*9 x 8"),
        (np.zeros((0, 9)), ValueError, r"to have at least one pixel, got shape \(0, 9\)"),
        (np.zeros(9), ValueError, r"grey picture \(height, width\) or a colour .* got shape \(9,\)"),
        (np.zeros((9, 9, 2)), ValueError, r"got shape \(9, 9, 2\)"),
        (np.full((9, 9), np.nan), ValueError, "finite numbers, got NaN or infinity"),
        (np.full((9, 9, 3), np.inf), ValueError, "finite numbers, got NaN or infinity"),
        (np.zeros((9, 9), complex), TypeError, "real numbers of at most 64 bits, got dtype complex128"),
        (np.full((9, 9), "x"), TypeError, "real numbers of at most 64 bits, got dtype <U1"),
        (None, TypeError, "got dtype object"),
    ],
    ids=["shape", "empty", "1-D", "channels", "NaN", "infinity", "complex", "text", "None"],
)
def test_bad_pictures_are_named(rng, measure, bad, error, message):
    for position, name in enumerate(("first", "second", "fused")):
        pictures = random_triple(rng, (9, 9))
        pictures[position] = bad
        with pytest.raises(error, match=message) as raised:
            measure(*pictures)
        assert name in str(raised.value)


@pytest.mark.parametrize("measure", [nmi, fusion_scores])
@pytest.mark.parametrize(("value", "data_range"), [(256, 255), (-1, 255), (1.01, 1), (65535, 255)])
def test_pictures_off_the_scale_are_refused(measure, value, data_range):
    picture, bad = np.zeros((9, 9)), np.zeros((9, 9))
    bad[4, 4] = value
    with pytest.raises(ValueError, match=rf"second to have values from 0 to {data_range}, .* Set data_range"):
        measure(picture, bad, picture, data_range=data_range)
    with pytest.raises(ValueError, match=rf"reference to have values from 0 to {data_range}, .* Set data_range"):
        psnr(bad, picture, data_range=data_range)


@pytest.mark.parametrize("data_range", [0, -1, np.nan, np.inf])
def test_a_bad_scale_is_refused(data_range):
    picture = np.zeros((9, 9))
    with pytest.raises(ValueError, match="data_range to be positive and finite"):
        nmi(picture, picture, picture, data_range=data_range)
    with pytest.raises(ValueError, match="data_range to be positive and finite"):
        psnr(picture, picture, data_range=data_range)


@pytest.mark.parametrize("data_range", [None, "255", True])
def test_a_scale_that_is_no_number_is_refused(data_range):
    with pytest.raises(TypeError, match="data_range to be a number"):
        nmi(np.zeros((9, 9)), np.zeros((9, 9)), np.zeros((9, 9)), data_range=data_range)


def test_the_public_names():
    assert set(metrics.__all__) == {"fusion_scores", "psnr", *(measure.__name__ for measure in MEASURES)}
