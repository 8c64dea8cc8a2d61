"""Jobs: a sum over the samples, or an array with a row for each, is written once, and runs wherever the samples are."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from coupledict.data.blocks import ArrayBlocks, Blocked
from coupledict.data.jobs import (
    CountIncomplete,
    DecodeCodes,
    Encode,
    FillViews,
    FindLargest,
    FindMoments,
    KeepCodes,
    ReadViews,
    Restore,
    RowJob,
    Rows,
    SumCodes,
    SumEnergies,
    SumJob,
    SumResiduals,
)
from coupledict.data.memory import InMemory
from coupledict.data.order import N_RUNS, spread_runs
from support.inner import CodingRule, Recipe, Standardization, Threads
from support.problems import random_dictionary

N, WIDTHS = 330, (6, 9)


@pytest.fixture
def views(rng):
    return [rng.standard_normal((N, width)) for width in WIDTHS]


@pytest.fixture
def recipe(rng):
    atoms = [random_dictionary(rng, 20, width) for width in WIDTHS]
    return Recipe(atoms, np.array([0.5, 2.0]), np.dtype(float), CodingRule(3), N)


@pytest.fixture
def places(views, sizes):
    """The same samples in memory, in blocks on disk, and as Dask arrays of the same blocks."""
    da = pytest.importorskip("dask.array")
    from coupledict.distributed import DaskData

    sizes(block_rows=20)
    arrays = [da.from_array(view, chunks=(20, view.shape[1])) for view in views]
    return {
        "memory": InMemory(views),
        "disk": Blocked(ArrayBlocks(views, ["X[0]", "X[1]"])),
        "dask": DaskData(arrays, ["X[0]", "X[1]"]),
    }


@dataclass(frozen=True)
class SumOfCubes(SumJob[np.ndarray]):
    """A sum of which the package knows nothing."""

    power: int = 3

    def do(self, samples, resources):
        return sum((view**self.power).sum(axis=0, keepdims=True).T for view in [np.hstack(samples.views)])


@dataclass(frozen=True)
class Doubled(RowJob):
    """Rows of which the package knows nothing."""

    @property
    def templates(self):
        return [np.empty((0, width)) for width in WIDTHS]

    def do(self, samples, resources):
        return Rows([2 * view for view in samples.views])


def test_a_new_sum_is_one_class_wherever_the_samples_are(places, views):
    expected = (np.hstack(views) ** 3).sum(axis=0)[:, None]
    found = {name: data.run(SumOfCubes(), Threads(2)) for name, data in places.items()}
    for sums in found.values():
        np.testing.assert_allclose(sums, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(found["disk"], found["dask"])  # 17 blocks, added up in the same tree


def test_new_rows_are_one_class_wherever_the_samples_are(places, views):
    for data in places.values():
        for array, view in zip(data.run(Doubled(), Threads(2)), views, strict=True):
            np.testing.assert_array_equal(np.asarray(array), 2 * view)


def flat(found):
    """The numbers of a result, in one array."""
    if hasattr(found, "sums"):
        return np.concatenate([found.sums[0].a.ravel(), found.sums[0].b.ravel(), found.uses, [found.energy]])
    if hasattr(found, "products"):
        return np.concatenate([found.counts.ravel(), found.firsts.ravel(), found.products.ravel()])
    if hasattr(found, "residual"):
        return np.array([found.residual, *found.energies])
    if hasattr(found, "values"):
        return found.values
    if isinstance(found, int):
        return np.array([found])
    return np.concatenate(
        [np.asarray(array.toarray() if hasattr(array, "toarray") else array).ravel() for array in found]
    )


@pytest.mark.parametrize("name", ["sums", "targets", "energies", "incomplete", "residuals", "largest"])
def test_sums_are_the_same_on_disk_and_on_dask_and_close_in_memory(places, recipe, name):
    alone = Recipe(recipe.dictionaries[:1], recipe.weights[:1], recipe.dtype, recipe.rule, N)
    job = {
        "sums": SumCodes(recipe, n_worst=4),
        "targets": SumCodes(alone, sources=[0], targets=[1]),
        "energies": SumEnergies(),
        "incomplete": CountIncomplete(),
        "residuals": SumResiduals(recipe, [0, 1]),
        "largest": FindLargest(),
    }[name]
    found = {place: flat(data.run(job, Threads(2))) for place, data in places.items()}
    np.testing.assert_array_equal(found["disk"], found["dask"])
    np.testing.assert_allclose(found["memory"], found["disk"], rtol=1e-10, atol=1e-10)


def test_codes_and_what_is_made_of_them_are_the_same_everywhere(places, recipe):
    def decode(views, codes):
        return [codes @ recipe.dictionaries[1] - views[1]]

    jobs = [Encode(recipe, [0, 1]), DecodeCodes(recipe, [0, 1], decode, [WIDTHS[1]])]
    for job in jobs:
        found = {}
        for name, data in places.items():
            (array,) = data.run(job, Threads(2))
            array = array.compute() if hasattr(array, "compute") else array
            found[name] = array.toarray() if hasattr(array, "toarray") else array
        np.testing.assert_array_equal(found["memory"], found["disk"])
        np.testing.assert_array_equal(found["memory"], found["dask"])


def test_residuals_are_those_of_the_codes(places, recipe, views):
    codes = places["memory"].run(Encode(recipe, [0, 1]), Threads())[0]
    expected = sum(
        w * np.sum((X - codes @ D) ** 2) for w, X, D in zip(recipe.weights, views, recipe.dictionaries, strict=True)
    )
    found = places["disk"].run(SumResiduals(recipe, [0, 1]), Threads())
    assert found.residual == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(found.energies, [np.sum(X**2) for X in views])


def test_filled_views_keep_what_is_known(views, rng):
    holes = [np.where(rng.random(view.shape) < 0.2, np.nan, view) for view in views]
    atoms = [random_dictionary(rng, 20, width) for width in WIDTHS]
    recipe = Recipe(atoms, np.ones(2), np.dtype(float), CodingRule(3), N, missing=True)
    data = InMemory(holes)
    data.missing = True
    codes = data.run(Encode(recipe, [0, 1]), Threads())[0]
    kept = data.run(KeepCodes(recipe, n_worst=5), Threads())
    assert kept.found.worst.energy.size == 5
    for filled in (data.run(FillViews(recipe), Threads()), kept.views):
        for array, view, D in zip(filled, holes, atoms, strict=True):
            known = ~np.isnan(view)
            np.testing.assert_array_equal(array[known], view[known])
            np.testing.assert_allclose(array[~known], (codes @ D)[~known], rtol=1e-12, atol=1e-12)


def test_a_job_on_no_samples_has_a_result(recipe):
    data = Blocked(ArrayBlocks([np.empty((0, width)) for width in WIDTHS], ["X[0]", "X[1]"]))
    assert data.run(SumCodes(recipe), Threads(2)).n_samples == 0
    assert data.run(Encode(recipe, [0, 1]), Threads(2))[0].shape == (0, 20)


# Means and variances of features


def test_moments_of_features_are_the_same_everywhere(places, views):
    found = {name: data.run(FindMoments(), Threads(2)) for name, data in places.items()}
    for name, own in found.items():
        for v, X in enumerate(views):
            np.testing.assert_array_equal(own.counts[v], N)
            np.testing.assert_allclose(own.means[v], X.mean(axis=0), rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(own.variances[v], X.var(axis=0), rtol=1e-12)
            np.testing.assert_array_equal(found["disk"].means[v], found["dask"].means[v], name)


def test_moments_of_features_far_from_zero_lose_no_digits(rng):
    X = 1e9 + rng.standard_normal((20_000, 2))
    data = InMemory([X])
    np.testing.assert_allclose(data.run(FindMoments(), Threads()).variances[0], X.var(axis=0), rtol=1e-6)


def test_moments_of_features_are_over_known_entries(rng):
    X = rng.standard_normal((9000, 4)) + np.arange(1, 5)
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 3] = np.nan
    data = InMemory([X])
    data.missing = True
    found = data.run(FindMoments(), Threads())
    np.testing.assert_array_equal(found.counts[0], np.count_nonzero(~np.isnan(X), axis=0))
    np.testing.assert_allclose(found.means[0][:3], np.nanmean(X[:, :3], axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.variances[0][:3], np.nanvar(X[:, :3], axis=0), rtol=1e-12)
    assert (found.means[0][3], found.variances[0][3]) == (0, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_moments_of_features_refuse_what_is_not_finite(views, bad):
    views[1][7, 2] = bad
    data = InMemory(views)
    with pytest.raises(ValueError, match=r"X\[1\], sample 7"):
        data.run(FindMoments(), Threads())
    if np.isinf(bad):
        data.missing = True
        with pytest.raises(ValueError, match=r"X\[1\], sample 7"):
            data.run(FindMoments(), Threads())


# Units


def test_results_are_restored_and_known_entries_stay(rng):
    standard = Standardization([np.arange(3.0), np.array([5.0, 7.0])], [np.full(3, 0.5), np.array([2.0, 4.0])])
    results = [rng.standard_normal((6, 3)), rng.standard_normal((6, 2))]
    whole = [rows / f + o for rows, f, o in zip(results, standard.factors, standard.offsets, strict=True)]
    for found, expected in zip(Restore(standard, [0, 1], [])(results), whole, strict=True):
        np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(Restore(standard, [1], [])([results[1]])[0], whole[1])
    given = rng.standard_normal((6, 2))
    given[2:4] = np.nan
    restored = Restore(standard, [0, 1], [1])(results, [given])
    np.testing.assert_allclose(restored[0], whole[0])
    np.testing.assert_array_equal(restored[1][[0, 1, 4, 5]], given[[0, 1, 4, 5]])
    np.testing.assert_allclose(restored[1][2:4], whole[1][2:4])
    narrow = Restore(standard, [1], [1])([results[1].astype(np.float32)], [np.ones((6, 2), np.int64)])[0]
    assert narrow.dtype == np.float32
    np.testing.assert_array_equal(narrow, 1)


# Runs of neighbours


@pytest.mark.parametrize(("n", "count"), [(5000, 4096), (100_000, 4096), (4097, 4096), (70, 64), (10, 10), (10, 20)])
def test_runs_are_spread_over_all_samples(n, count):
    runs = spread_runs(n, count)
    if count >= n:
        assert runs == [(0, n)]
        return
    assert len(runs) == N_RUNS
    assert sum(stop - start for start, stop in runs) == N_RUNS * (count // N_RUNS)
    assert runs[0][0] == 0
    assert runs[-1][1] <= n
    for (start, stop), (following, _) in itertools.pairwise(runs):
        assert start < stop <= following, "no sample comes twice"
        assert abs(following - start - n / N_RUNS) <= 1


def test_runs_are_the_same_samples_everywhere_up_to_the_ends_of_blocks(places, views):
    assert all(data.runs(N) is None for data in places.values())
    expected = [i for start, stop in spread_runs(N, 200) for i in range(start, stop)]
    memory = places["memory"].run(ReadViews(), Threads(), places["memory"].runs(200))
    np.testing.assert_array_equal(memory[0], views[0][expected])
    ends = [i for start, stop in spread_runs(N, 200) for i in range(start, min(stop, (start // 20 + 1) * 20))]
    for name in ("disk", "dask"):
        found = places[name].run(ReadViews(), Threads(), places[name].runs(200))
        for v in (0, 1):
            assert isinstance(found[v], np.ndarray)
            np.testing.assert_array_equal(found[v], views[v][ends])
