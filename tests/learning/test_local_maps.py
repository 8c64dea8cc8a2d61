"""Local linear maps against direct weighted regressions and slow loops."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict.learning.local_maps import JITTER, NEAREST, STEEPNESS, Anchors, LocalSums


@pytest.fixture
def t(rng):
    return rng.standard_normal((80, 5)) * [3, 2, 1, 0.5, 0.1]


def anchors_of(kind, rng, t, count=24):
    return Anchors.lines(rng.standard_normal((count, 5))) if kind == "lines" else Anchors.points(t, count, rng)


def dense(membership, n_samples):
    """The weights as a table of samples and anchors."""
    table = np.zeros((n_samples, len(membership.starts) - 1))
    for k, rows, weights in membership:
        table[rows, k] += weights[:, 0]
    return table


def slow_weights(anchors, sample):
    """The weights of one sample, by angles."""
    constants = np.zeros(len(anchors)) if anchors.kind == "lines" else anchors.constants
    directions = np.column_stack([anchors.directions, constants])
    extended = np.append(sample, anchors.radius)
    size = np.linalg.norm(extended)
    cosines = np.array([direction @ extended / size if size else 0.0 for direction in directions])
    if anchors.kind == "lines":
        cosines = abs(cosines)
    nearest = np.argsort(cosines)[-NEAREST:]
    weights = np.zeros(len(anchors))
    weights[nearest] = np.exp(STEEPNESS * cosines[nearest])
    return weights / weights.sum()


@pytest.mark.parametrize("count", [1, 3, NEAREST, 24])
@pytest.mark.parametrize("kind", ["lines", "points"])
def test_weights_are_those_of_angles(kind, count, t, rng):
    anchors = anchors_of(kind, rng, t, count)
    np.testing.assert_allclose(np.hypot(np.linalg.norm(anchors.directions, axis=1), anchors.constants), 1)
    found = dense(anchors.weigh(anchors.correlations(t)), len(t))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (np.count_nonzero(found, axis=1) == min(count, NEAREST)).all()
    np.testing.assert_allclose(found, [slow_weights(anchors, sample) for sample in t], atol=1e-12)


def test_multiples_of_a_sample_have_the_same_lines_and_other_points(t, rng):
    lines, points = (anchors_of(kind, rng, t) for kind in ("lines", "points"))
    for factor in (-1.0, 0.01, -300.0):
        same = dense(lines.weigh(lines.correlations(factor * t)), len(t))
        np.testing.assert_allclose(same, dense(lines.weigh(lines.correlations(t)), len(t)), atol=1e-12)
        other = dense(points.weigh(points.correlations(factor * t)), len(t))
        assert np.abs(other - dense(points.weigh(points.correlations(t)), len(t))).max() > 0.1


@pytest.mark.parametrize("kind", ["lines", "points"])
def test_a_sample_of_zeros_has_weights(kind, t, rng):
    anchors = anchors_of(kind, rng, t)
    found = dense(anchors.weigh(anchors.correlations(np.zeros((2, 5)))), 2)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_points_represent_clusters(rng):
    centres = 10 * rng.standard_normal((4, 3))
    cloud = np.repeat(centres, 50, axis=0) + 0.01 * rng.standard_normal((200, 3))
    points = Anchors.points(cloud, 40, rng)
    assert points.correlations(cloud).max(axis=1).min() > 1 - 1e-5
    radius = np.sqrt(np.mean(np.sum(cloud**2, axis=1)))
    assert points.radius == pytest.approx(radius)


def test_points_of_equal_samples_and_of_zeros(rng):
    for table in (np.zeros((9, 3)), np.ones((9, 3)), np.ones((1, 3))):
        points = Anchors.points(table, 4, rng)
        assert np.isfinite(points.directions).all()
        np.testing.assert_allclose(points.correlations(table), 1)


def test_the_number_type_is_kept(t, rng):
    for kind in ("lines", "points"):
        anchors = anchors_of(kind, rng, t).astype(np.dtype(np.float32))
        membership = anchors.weigh(anchors.correlations(t.astype(np.float32)))
        assert membership.weights.dtype == np.float32
        out = np.zeros((len(t), 2), np.float32)
        membership.apply(np.ones((24, 5, 2), np.float32), t.astype(np.float32), out)
        np.testing.assert_allclose(out, t.sum(axis=1)[:, None] * [1, 1], rtol=1e-4, atol=1e-4)


# Sums and maps


@pytest.mark.parametrize("kind", ["lines", "points"])
def test_sums_of_parts_are_those_of_the_whole(kind, t, rng):
    anchors, y = anchors_of(kind, rng, t), rng.standard_normal((80, 3))

    def over(rows):
        return LocalSums.over(t[rows], y[rows], anchors.weigh(anchors.correlations(t[rows])))

    whole, parts = over(slice(None)), over(slice(0, 30))
    parts += over(slice(30, 80))
    assert parts.n_samples == whole.n_samples == 80
    np.testing.assert_allclose(parts.a, whole.a, atol=1e-5)
    np.testing.assert_allclose(parts.b, whole.b, atol=1e-5)
    weights = np.array([slow_weights(anchors, sample) for sample in t])
    np.testing.assert_allclose(whole.a, np.einsum("ik,ia,ib->kab", weights, t, t), atol=1e-5)
    np.testing.assert_allclose(whole.b, np.einsum("ik,ia,ib->kab", weights, t, y), atol=1e-5)


@pytest.mark.parametrize(("rank", "shrinkage"), [(5, 3.0), (2, 0.5), (1, 100.0)])
def test_maps_are_weighted_ridge_regressions(rank, shrinkage, t, rng):
    anchors, y = anchors_of("points", rng, t), rng.standard_normal((80, 3))
    found = LocalSums.over(t, y, anchors.weigh(anchors.correlations(t))).solve(rank, shrinkage, slice(1, 3))
    assert found.shape == (24, rank, 2)
    u = t[:, :rank]
    mean = u.T @ u / 80
    mean += JITTER * np.trace(mean) / rank * np.eye(rank)
    weights = np.array([slow_weights(anchors, sample) for sample in t])
    for k in (0, 7, 23):
        # Rows that say "zero", as least squares reads them.
        rows = np.vstack([np.sqrt(weights[:, k, None]) * u, np.sqrt(shrinkage) * np.linalg.cholesky(mean).T])
        wanted = np.vstack([np.sqrt(weights[:, k, None]) * y[:, 1:], np.zeros((rank, 2))])
        np.testing.assert_allclose(found[k], np.linalg.lstsq(rows, wanted, rcond=None)[0], atol=1e-5)


def test_maps_shrink_to_zero(t, rng):
    anchors, y = anchors_of("lines", rng, t), rng.standard_normal((80, 3))
    sums = LocalSums.over(t, y, anchors.weigh(anchors.correlations(t)))
    sizes = [np.abs(sums.solve(5, shrinkage)).max() for shrinkage in (0.1, 10.0, 1e4, 1e12)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 1e-9


def test_maps_of_coordinates_that_are_zero(rng):
    anchors, t = Anchors.lines(np.eye(3)), np.zeros((10, 3))
    found = LocalSums.over(t, np.ones((10, 2)), anchors.weigh(anchors.correlations(t))).solve(3, 1.0)
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("kind", ["lines", "points"])
def test_maps_are_applied_with_the_weights(kind, t, rng):
    anchors = anchors_of(kind, rng, t)
    maps, start = rng.standard_normal((24, 3, 2)), rng.standard_normal((80, 2))
    out = start.copy()
    anchors.weigh(anchors.correlations(t)).apply(maps, t[:, :3], out)
    for sample, before, after in zip(t, start, out, strict=True):
        added = sum(
            weight * (sample[:3] @ own) for weight, own in zip(slow_weights(anchors, sample), maps, strict=True)
        )
        np.testing.assert_allclose(after, before + added, atol=1e-10)
