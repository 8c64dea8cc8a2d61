"""The updates against their slow twin: same atoms, same coefficients, same objective."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from coupledict import sparse_encode
from coupledict.learning import updates
from coupledict.learning.atoms import AtomGroup
from support import twins_of_updates as twin
from support.inner import Order, Samples, Sums, Threads, sum_codes
from support.learners import plain
from support.pairwise import pairs
from support.problems import LEVELS, make_coder, random_dictionary, smooth_patches

WIDTHS = {1: [9], 2: [9, 5], 3: [9, 5, 12]}


def make_case(rng, n_views, dtype=np.float64, n=120, n_components=20):
    Xs = [rng.standard_normal((n, p)).astype(dtype) for p in WIDTHS[n_views]]
    weights = np.array([1.0, 0.3, 4.0])[:n_views]
    return Xs, [random_dictionary(rng, n_components, p) for p in WIDTHS[n_views]], weights


def make_group(dictionaries, weights, joint, n_fixed=0):
    return AtomGroup.of(list(range(len(weights))), dictionaries, weights, joint=joint, n_fixed=n_fixed)


def code(Xs, group, weights, limit=3):
    dtype = Xs[0].dtype
    codes = sparse_encode(Xs, group.split(dtype), n_nonzero_coefs=limit, view_weights=weights)
    codes.data[np.isin(codes.indices, [4, 11])] = 0  # two atoms without users
    codes.eliminate_zeros()
    return codes


def split(group):
    return group.split(np.dtype(np.float64))


@pairs(
    "level name unused",
    level=LEVELS, n_views=[1, 2, 3], normalize=["views", "joint"],
    n_fixed=[0, 2], name=["sequential", "ksvd"], unused=["keep", "mean"],
)  # fmt: skip
def test_code_updates_equal_the_twin(level, n_views, normalize, n_fixed, name, unused, rng):
    Xs, dictionaries, weights = make_case(rng, n_views)
    group = make_group(dictionaries, weights, normalize == "joint", n_fixed)
    before, codes = split(group), code(Xs, group, weights)
    residual = np.hstack(Xs) - codes @ group.atoms
    reference = twin.sequential_update if name == "sequential" else twin.ksvd_update
    expected, expected_codes = reference(Xs, before, codes.toarray(), weights, normalize, n_fixed, unused)

    update = updates.UPDATES[name]()
    changed = update.apply(group, codes, residual, mean_unused=unused == "mean")

    for mine, theirs in zip(split(group), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
    np.testing.assert_allclose(changed.toarray(), expected_codes, atol=1e-9)
    np.testing.assert_allclose(residual, np.hstack(Xs) - changed @ group.atoms, atol=1e-9)
    assert np.abs(group.atoms - np.hstack(before)).max() > 0.1


@pairs(level=LEVELS, dtype=[np.float32, np.float64], n_jobs=[1, 3])
def test_statistics_equal_the_twin(level, dtype, n_jobs, rng):
    Xs, dictionaries, weights = make_case(rng, 2, dtype, n=1500)
    group = make_group(dictionaries, weights, joint=False)
    coder = make_coder(group.split(np.dtype(dtype)), weights, dtype, limit=3, n_samples=1500)
    places = Order.random(1500, rng).slice(700, 1200)  # past the last sample and on from the first
    order = places.numbers(0, 1200)
    found = sum_codes(coder, Samples(Xs, np.dtype(dtype), places), Threads(n_jobs), n_worst=5)
    codes = sparse_encode([X[order] for X in Xs], group.split(np.dtype(dtype)), n_nonzero_coefs=3, view_weights=weights)
    A, Bs = twin.statistics([X[order] for X in Xs], codes.toarray())
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found.sums[0].a, A, atol=tolerance * np.abs(A).max())
    np.testing.assert_allclose(found.sums[0].b, np.hstack(Bs), atol=tolerance * np.abs(A).max())
    np.testing.assert_array_equal(found.uses, np.diff(codes.tocsc().indptr))
    assert found.n_nonzeros == codes.nnz
    residuals = [X[order].astype(float) - codes @ d for X, d in zip(Xs, split(group), strict=True)]
    energies = sum(w * np.sum(r**2, axis=1) for w, r in zip(weights, residuals, strict=True))
    np.testing.assert_allclose(found.energy, energies.sum(), rtol=1e-4 if dtype == np.float32 else 1e-10)
    worst = np.argsort(-energies)[:5]
    np.testing.assert_allclose(found.worst.energy, energies[worst], rtol=1e-4 if dtype == np.float32 else 1e-10)
    for rows, X in zip(found.worst.rows, Xs, strict=True):
        np.testing.assert_array_equal(rows, X[order[worst]])
    left = group.view_energies(found.view_energy, found.sums[0].a, found.sums[0].b)
    np.testing.assert_allclose(left, [np.sum(r**2) for r in residuals], rtol=1e-3 if dtype == np.float32 else 1e-9)


@pairs(level=LEVELS, n_views=[1, 2, 3], normalize=["views", "joint"], n_fixed=[0, 2], name=["statistics", "mod"])
def test_sum_updates_equal_the_twin(level, n_views, normalize, n_fixed, name, rng):
    Xs, dictionaries, weights = make_case(rng, n_views)
    group = make_group(dictionaries, weights, normalize == "joint", n_fixed)
    before, codes = split(group), code(Xs, group, weights).toarray()
    A, Bs = twin.statistics(Xs, codes)
    if name == "statistics":
        expected = twin.statistics_update(A, Bs, before, weights, normalize, 1, n_fixed)
    else:
        expected = twin.mod_update(A, Bs, before, weights, normalize, n_fixed)
    updates.UPDATES[name]().apply(group, Sums(A, np.hstack(Bs)))
    for mine, theirs in zip(split(group), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-8)
    assert np.abs(group.atoms - np.hstack(before)).max() > 0.1


def test_mod_with_dependent_codes(rng):
    """Two atoms that always appear together: the normal equations are singular, and the answer is still finite."""
    X = rng.standard_normal((50, 6))
    codes = np.zeros((50, 4))
    codes[:, 0] = codes[:, 1] = rng.standard_normal(50)
    codes[:, 2] = rng.standard_normal(50)
    group = make_group([random_dictionary(rng, 4, 6)], np.ones(1), joint=False)
    A, Bs = twin.statistics([X], codes)
    updates.Mod().apply(group, Sums(A, Bs[0]))
    np.testing.assert_allclose(np.linalg.norm(group.atoms, axis=1), 1)


@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000, 4181])
def test_an_order_has_every_sample_once(n, rng):
    order = Order.random(n, rng)
    assert sorted(order.numbers(0, n)) == list(range(n))
    np.testing.assert_array_equal(order.slice(n - 1, 3).numbers(0, 3), order.numbers(n - 1, n + 2))
    if n == 4181:  # any run of places is spread over the whole: no tenth of the samples is left out or crowded
        counts = np.histogram(order.slice(123, 400).numbers(0, 400), bins=10, range=(0, n))[0]
        assert 25 < counts.min() <= counts.max() < 60


@pytest.mark.parametrize("shape", [(300, 20), (15, 40), (400, 260), (30, 1)])
def test_leading_direction_is_that_of_the_svd(shape, rng):
    error = rng.standard_normal(shape) @ np.diag(np.linspace(2, 1, shape[1]))
    guess = rng.standard_normal(shape[1])
    expected = np.linalg.svd(error)[2][0]
    found = updates.leading_direction(error, guess)
    found /= np.linalg.norm(found)
    assert found @ guess >= 0
    np.testing.assert_allclose(np.abs(found @ expected), 1, atol=1e-9)


@pairs(n_views=[1, 2, 3], data=["random", "patches"], unused=["keep", "mean"], normalize=["views", "joint"])
def test_the_whole_loop_equals_the_twin(n_views, data, unused, normalize, rng):
    """The same objective after every iteration: the sequential update, the linear schedule, weights and all."""
    if data == "random":
        Xs, dictionaries, weights = make_case(rng, n_views)
    else:
        patches = smooth_patches(rng, 150, side=4)
        Xs = [patches, patches[:, ::-1] * 0.5, patches.cumsum(axis=1)][:n_views]
        weights = np.array([1.0, 0.3, 4.0])[:n_views]
        dictionaries = [random_dictionary(rng, 24, 16) for _ in Xs]
    limits = [1, 2, 2, 3, 4]
    learner = plain(
        dictionaries[0].shape[0], n_nonzero_coefs=4, max_iter=5, schedule=limits, update="sequential",
        init=dictionaries, view_weights=weights, unused_atoms=unused, predictor="dictionary",
        normalize=normalize,
    ).fit(Xs)  # fmt: skip
    start = split(make_group(dictionaries, weights, joint=normalize == "joint"))
    expected, records = twin.learn(Xs, start, limits, None, weights, "sequential", normalize, unused)
    objectives = [record["coded"] for record in records]
    np.testing.assert_allclose([r["objective"] for r in learner.history_], objectives, rtol=1e-10)
    unit = weights.max() ** 0.5 if normalize == "joint" else 1.0  # a learner divides weights by the largest
    for mine, theirs in zip(learner.components_, expected, strict=True):
        np.testing.assert_allclose(mine, theirs * unit, atol=1e-7)


def test_sequential_update_in_float32(rng):
    Xs, dictionaries, weights = make_case(rng, 2, np.float32)
    group = make_group(dictionaries, weights, joint=False)
    before, codes = split(group), code(Xs, group, weights)
    residual = np.hstack(Xs) - codes @ group.atoms.astype(np.float32)
    expected, _ = twin.sequential_update(Xs, before, codes.toarray(), weights)
    changed = updates.Sequential().apply(group, codes, residual, mean_unused=False)
    assert isinstance(changed, csr_array)
    assert changed.dtype == np.float32
    for mine, theirs in zip(split(group), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


@pairs(level=LEVELS, n_views=[1, 2, 3], normalize=["views", "joint"], n_fixed=[0, 2])
def test_statistics_of_codes_equal_those_of_sums(level, n_views, normalize, n_fixed, rng):
    Xs, dictionaries, weights = make_case(rng, n_views)
    group, other = (make_group(dictionaries, weights, normalize == "joint", n_fixed) for _ in range(2))
    codes, X = code(Xs, group, weights), np.hstack(Xs)
    residual = X - codes @ group.atoms
    dense = codes.toarray()
    updates.Statistics().apply(group, Sums(dense.T @ dense, dense.T @ X))
    same = updates.StatisticsOfCodes().apply(other, codes, residual, mean_unused=False)
    np.testing.assert_allclose(other.atoms, group.atoms, atol=1e-10)
    np.testing.assert_array_equal(same.toarray(), dense)
    np.testing.assert_allclose(residual, X - codes @ other.atoms, atol=1e-10)


@pytest.mark.parametrize("growth", ["auto", None])
def test_large_dictionaries_learn_from_codes(growth, rng, monkeypatch, sizes):
    """Sums over pairs of atoms are not made where they would be too large; what is learned is the same."""
    Xs = [smooth_patches(rng, 600) for _ in range(2)]
    learner = plain(80, n_nonzero_coefs=4, max_iter=5, growth=growth, random_state=0)
    usual = learner.fit(Xs).components_
    sizes(sums_bytes=0)
    monkeypatch.setattr(updates.Statistics, "apply", None)
    for mine, theirs in zip(learner.fit(Xs).components_, usual, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-8 if growth is None else 2e-2)


def test_the_sequential_kernel_checks_the_samples_that_it_reads():
    """A sweep is many calls, each for a few atoms: none looks at the samples of the others."""
    from support.inner import _native

    def sweep(first, last, samples):
        _native.sequential(
            np.array([0, 2]), np.ones(1), np.zeros(1, bool), False, 0, first, last, False, False, False,
            np.array([0, 2, 3]), np.array(samples, np.int32), np.ones(3), np.ones((4, 2)), np.eye(2), "",
        )  # fmt: skip

    sweep(0, 2, [0, 3, 2])
    sweep(0, 1, [0, 3, 4])
    sweep(1, 2, [-1, 4, 3])
    for first, last, samples in ((0, 2, [0, 3, 4]), (1, 2, [0, 1, -1]), (0, 1, [0, 4, 1])):
        with pytest.raises(ValueError, match="samples out of range"):
            sweep(first, last, samples)
