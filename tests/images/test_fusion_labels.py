"""The decision about cells: aggregated costs against a slow twin, and their effect."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from coupledict.images._fusion_blend import label_pixels
from coupledict.images._fusion_focus import CELL
from coupledict.images._fusion_labels import (
    CHEAPEST,
    EDGE,
    LARGE_CHANGE,
    SMALL_CHANGE,
    Decision,
    _aggregate_costs,
    _aggregate_path,
    decide,
    prior,
)


def swept(costs, small, large):
    """Hirschmueller's recursion along one line, word for word: costs[label, position]."""
    n_labels, length = costs.shape
    paths = np.zeros((n_labels, length))
    paths[:, 0] = costs[:, 0]
    for position in range(1, length):
        before = paths[:, position - 1]
        for label in range(n_labels):
            ways = [before[label], min(before) + large[position - 1]]
            if label > 0:
                ways.append(before[label - 1] + small[position - 1])
            if label < n_labels - 1:
                ways.append(before[label + 1] + small[position - 1])
            paths[label, position] = costs[label, position] + min(ways) - min(before)
    return paths


def penalties(guide, smoothness):
    """Costs of small and large changes between neighbours along the last axis of a line of brightness."""
    ease = np.maximum(np.exp(-np.abs(np.diff(guide)) / EDGE), CHEAPEST)
    large = LARGE_CHANGE * smoothness * ease
    return np.minimum(SMALL_CHANGE * smoothness, large), large


def spread(costs, guide, smoothness):
    """The four directions, one line at a time."""
    total = -3 * costs
    for row in range(costs.shape[1]):
        small, large = penalties(guide[row], smoothness)
        total[:, row] += swept(costs[:, row], small, large)
        total[:, row] += swept(costs[:, row, ::-1], small[::-1], large[::-1])[:, ::-1]
    for column in range(costs.shape[2]):
        small, large = penalties(guide[:, column], smoothness)
        total[:, :, column] += swept(costs[:, :, column], small, large)
        total[:, :, column] += swept(costs[:, ::-1, column], small[::-1], large[::-1])[:, ::-1]
    return total


@pytest.mark.parametrize("n_labels", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 1), (9, 4)])
def test_a_sweep_is_that_of_its_twin(n_labels, shape, rng):
    length, width = shape
    costs = rng.random((n_labels, length, width))
    small = (0.1 * rng.random((max(length - 1, 0), width))).astype(np.float32)
    large = small + (0.4 * rng.random(small.shape)).astype(np.float32)
    total = rng.random(costs.shape)
    expected = total + np.stack([swept(costs[..., k], small[:, k], large[:, k]) for k in range(width)], axis=2)
    _aggregate_path(costs, total, small, large)
    np.testing.assert_allclose(total, expected, atol=1e-5)


@pytest.mark.parametrize("smoothness", [0.0, 0.7, 5.0])
def test_costs_are_summed_up_as_by_the_twin(smoothness, rng):
    costs = rng.random((4, 7, 9))
    guide = (60 * rng.random((7, 9))).astype(np.float32)
    found = _aggregate_costs(costs.astype(np.float16), guide, smoothness)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, spread(costs, guide, smoothness), atol=0.02)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_flipped_picture_has_flipped_costs(axis, rng):
    costs = rng.random((3, 12, 10)).astype(np.float16)
    guide = (60 * rng.random((12, 10))).astype(np.float32)
    flipped = _aggregate_costs(np.flip(costs, axis + 1), np.flip(guide, axis), 1.0)
    np.testing.assert_allclose(np.flip(flipped, axis + 1), _aggregate_costs(costs, guide, 1.0), atol=0.01)


def test_flipped_labels_have_flipped_costs(rng):
    costs = rng.random((5, 12, 10)).astype(np.float16)
    guide = np.zeros((12, 10), np.float32)
    np.testing.assert_array_equal(_aggregate_costs(costs[::-1], guide, 1.0)[::-1], _aggregate_costs(costs, guide, 1.0))


def test_without_smoothness_every_cell_takes_its_best_source(rng):
    energy = (100 * rng.random((4, 20, 30))).astype(np.float16)
    best = energy.argmax(axis=0)
    sure = np.sort(energy, axis=0)[-2] < 0.98 * energy.max(axis=0)
    decision = decide(energy.copy(), np.full(energy.shape, 90, np.float16), [None] * 4, 0.0, 0.0)
    assert sure.mean() > 0.8
    np.testing.assert_array_equal(decision.labels[sure], best[sure])
    assert decision.labels.max() < 4


def flat_scene(left, right, n_sources=4, shape=(16, 40), detail=8):
    """Detail of source `left` at the left end, of source `right` at the right end, and nothing in between."""
    energy = np.zeros((n_sources, *shape), np.float16)
    energy[left, :, :detail] = 300
    energy[right, :, -detail:] = 300
    return energy, np.full(energy.shape, 100, np.float16)


@pytest.mark.parametrize("label", [0, 2, 3])
def test_flat_places_follow_their_neighbours(label):
    energy, brightness = flat_scene(label, label)
    decision = decide(energy, brightness, [None] * 4, 0.0, 1.0)
    np.testing.assert_array_equal(decision.labels, np.full((16, 40), label))
    assert decision.confidence[:, :4].min() > 0.5
    assert decision.confidence[:, 18:22].max() < 0.01


def test_faint_energy_in_flat_places_changes_nothing(rng):
    """Noise, or the halo of what is out of focus, prefers a source here and there."""
    energy, brightness = flat_scene(1, 1)
    energy[:, :, 8:-8] += (0.01 * rng.random((4, 16, 24))).astype(np.float16)
    decision = decide(energy, brightness, [None] * 4, 4.0, 1.0)
    assert np.mean(decision.labels == 1) > 0.98


@pytest.mark.parametrize("edge", [14, 20, 27])
def test_labels_change_where_brightness_does(edge):
    energy, brightness = flat_scene(0, 3)
    brightness[:, :, edge:] = 220
    decision = decide(energy, brightness, [None] * 4, 0.0, 1.0)
    np.testing.assert_array_equal(decision.labels[:, :edge], 0)
    np.testing.assert_array_equal(decision.labels[:, edge:], 3)


def test_a_lonely_cell_goes_with_those_around_it_unless_its_evidence_is_strong():
    def label(share):
        energy = np.full((2, 15, 15), 50, np.float16)
        energy[1] = 25
        energy[:, 7, 7] = 50 * share, 50
        return decide(energy, np.full((2, 15, 15), 80, np.float16), [None] * 2, 0.0, 1.0).labels[7, 7]

    assert label(0.98) == 0
    assert label(0.0) == 1


def test_a_thin_wire_survives():
    """One cell wide, with detail of its own: smoothing must not take it away."""
    energy = np.zeros((3, 24, 24), np.float16)
    energy[2] = 200
    energy[0, :, 12], energy[2, :, 12] = 400, 40
    decision = decide(energy, np.full((3, 24, 24), 80, np.float16), [None] * 3, 0.0, 1.0)
    np.testing.assert_array_equal(decision.labels[:, 12], 0)
    np.testing.assert_array_equal(decision.labels[:, :11], 2)
    np.testing.assert_array_equal(decision.labels[:, 14:], 2)


def test_a_source_is_not_taken_where_it_is_not():
    energy, brightness = flat_scene(1, 1)
    covered = np.ones((16, 40), np.float32)
    covered[:, :20] = 0
    decision = decide(energy, brightness, [None, covered, None, None], 0.0, 1.0)
    assert (decision.labels[:, :20] != 1).all()
    assert (decision.labels[:, 32:] == 1).all()


def test_faint_energy_beside_a_strong_edge_is_not_trusted():
    """It may be the halo of the edge in a source that is out of focus."""
    energy = np.zeros((2, 12, 40), np.float16)
    energy[1] = 8
    energy[0, :, 19:21] = 2000
    decision = decide(energy, np.full(energy.shape, 90, np.float16), [None] * 2, 0.0, 1.0)
    assert decision.confidence[:, 19:21].min() > 0.8
    assert decision.confidence[:, [16, 17, 22, 23]].max() < 0.2
    assert decision.confidence[:, [0, 1, 38, 39]].min() > 0.8


def made(costs):
    costs = np.asarray(costs, np.float16)
    return Decision(costs, costs.argmin(axis=0), np.ones(costs.shape[1:], np.float32))


def test_depth_lies_between_the_first_and_the_last_source(rng):
    decision = made(rng.random((6, 10, 12)))
    depth = decision.depth()
    assert depth.min() >= 0
    assert depth.max() <= 5
    nearness = np.stack([decision.preference(number) for number in range(6)])
    assert nearness.min() >= 0
    np.testing.assert_array_equal(nearness.max(axis=0), 1)
    np.testing.assert_array_equal(nearness.argmax(axis=0), decision.labels)


def test_depth_is_the_label_where_it_is_clear_and_the_mean_where_it_is_not():
    costs = np.full((4, 1, 3), 5.0)
    costs[3, 0, 0] = costs[1, 0, 1] = costs[2, 0, 1] = costs[0, 0, 2] = 0
    np.testing.assert_allclose(made(costs).depth(), [[3, 1.5, 0]], atol=1e-3)


def test_the_prior_of_a_source_is_whole_where_it_is_taken():
    labels = np.zeros((20, 40), int)
    labels[:, 20:] = 1
    decision = made(np.stack([labels, 1 - labels]) * 3.0)
    brightness = np.full((2, 20, 40), 100, np.float16)
    for number in (0, 1):
        found = prior(decision, brightness, number, 0.0)
        assert (found[labels == number] == 1).all()
        assert found.min() >= 0
        assert found.max() <= 1
    assert prior(decision, brightness, 0, 0.0)[:, -12:].max() < 1e-6, "far away from its cells it is no candidate"
    assert prior(decision, brightness, 0, 0.0)[:, 20].min() > 0, "beside them it is"


def test_near_its_cells_a_source_is_a_candidate_whatever_its_brightness():
    """There a thing in front ends, and is brighter or darker than what is behind it."""
    labels = np.zeros((20, 40), int)
    labels[:, 20:] = 1
    brightness = np.full((2, 20, 40), 100, np.float16)
    brightness[1] = 200
    found = prior(made(np.stack([labels, 1 - labels]) * 3.0), brightness, 1, 0.0)
    assert (found[:, 19:] == 1).all()
    assert found[:, :8].max() == 0


def test_sources_that_are_as_good_and_agree_in_brightness_are_averaged():
    """The third is as good by its costs, but shows something else: a halo."""
    costs = np.zeros((3, 12, 12))
    costs[1:] = 0.001
    brightness = np.full((3, 12, 12), 100, np.float16)
    brightness[1] = 100.5
    brightness[2] = 112
    decision = made(costs)
    assert prior(decision, brightness, 1, 0.0).min() > 0.8
    assert prior(decision, brightness, 2, 0.0).max() < 0.01
    assert prior(decision, brightness, 2, 400.0).min() > 0.5, "noise of 20 grey values explains the difference"


@pytest.mark.parametrize("shape", [(8, 8), (10, 13), (40, 27), (4 * 300 + 1, 9)])
def test_pixels_have_the_lowest_cost_between_cells(shape, rng):
    rows, columns = -(-shape[0] // CELL), -(-shape[1] // CELL)
    costs = rng.random((3, rows, columns)).astype(np.float16)
    row, column = ((np.arange(size) - (CELL - 1) / 2) / CELL for size in shape)
    where = np.meshgrid(np.clip(row, 0, rows - 1), np.clip(column, 0, columns - 1), indexing="ij")
    finer = np.stack([ndimage.map_coordinates(cost.astype(np.float64), where, order=1) for cost in costs])
    found = label_pixels(costs, shape)
    lowest = np.sort(finer, axis=0)
    sure = lowest[1] - lowest[0] > 1e-5
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found[sure], finer.argmin(axis=0)[sure])


def test_equal_costs_go_to_the_first_source():
    np.testing.assert_array_equal(label_pixels(np.ones((3, 2, 3), np.float16), (7, 12)), np.zeros((7, 12)))


def test_more_than_256_sources_have_wider_numbers():
    costs = np.ones((300, 2, 3), np.float16)
    costs[299, 0, 0] = costs[256, 1, 2] = 0
    labels = label_pixels(costs, (8, 12))
    assert labels.dtype == np.uint16
    assert labels[0, 0] == 299
    assert labels[7, 11] == 256
