"""Samples that are not in memory: the same result wherever they come from, each chunk read once, memory bounded."""

from __future__ import annotations

import collections
import itertools
import re
import sys
import textwrap
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from coupledict import PAPER, DictionaryLearning, OnlineDictionaryLearning
from coupledict.data import blocks
from coupledict.foundation.block_sizes import SIZES
from support.cases import first_and_slow
from support.learners import assert_same_model, make, plain, planted_views, without_times
from support.programs import run, run_python

ROWS = 50
KINDS = ["zarr", "hdf5", "memmap", "list", "sequence", "callable"]


@pytest.fixture(autouse=True)
def small_blocks():
    """Blocks of 50 rows, and every memory map is large."""
    with SIZES.changed(block_rows=ROWS, large_bytes=0):
        yield


class Numbered:
    """Chunks by number, and nothing else that a list has; counts how often each was asked for."""

    def __init__(self, chunks):
        self._chunks = chunks
        self.reads = collections.Counter()

    def __len__(self):
        return len(self._chunks)

    def __getitem__(self, number):
        self.reads[number] += 1
        return self._chunks[number]


def cut(views, rows=ROWS):
    return [[view[start : start + rows] for view in views] for start in range(0, len(views[0]), rows)]


def stored(view, kind, path):
    """One array on disk."""
    if kind == "zarr":
        array = zarr.create_array(path, shape=view.shape, chunks=(25, view.shape[1]), dtype=view.dtype)
        array[:] = view
        return array
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=view, chunks=(10, view.shape[1]), compression="gzip")
        return h5py.File(path, "r")["X"]
    np.save(path.with_suffix(".npy"), view)
    return np.load(path.with_suffix(".npy"), mmap_mode="r")


def source(views, kind, folder, single=False):
    """The samples as one of the things that a learner takes."""
    if kind in ("zarr", "hdf5", "memmap"):
        arrays = [stored(view, kind, folder / f"{kind}{v}") for v, view in enumerate(views)]
        return arrays[0] if single else arrays
    chunks = [chunk[0] for chunk in cut(views)] if single else cut(views)
    return {"list": chunks, "sequence": Numbered(chunks), "callable": lambda: iter(chunks)}[kind]


def assert_same_refit(one, other):
    assert one.predictors_.keys() == other.predictors_.keys()
    for sources, targets in one.predictors_.items():
        for view, atoms in targets.items():
            np.testing.assert_array_equal(atoms, other.predictors_[sources][view])


# The same fit, wherever the samples come from


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n_views", "dtype", "growth"),
    first_and_slow(
        [(2, np.float32, "auto")],
        [(1, np.float32, "auto"), (2, np.float64, "auto"), (2, np.float32, None), (3, np.int16, None)],
    ),
)
def test_fits_are_the_same(rng, tmp_path, kind, n_views, dtype, growth):
    views, _ = planted_views(rng, n=430, widths=(6, 9, 4)[:n_views])
    views = [np.round(20 * view).astype(dtype) for view in views]
    parameters = {"growth": growth, "view_weights": "balanced", "unused_atoms": "worst"}
    expected = make(**parameters).fit(cut(views))
    learner = make(n_jobs=3, **parameters).fit(source(views, kind, tmp_path))
    assert_same_model(expected, learner)
    assert_same_refit(expected, learner)
    assert learner.components_[0].dtype == (np.float32 if dtype != np.float64 else np.float64)
    assert learner.n_features_in_ == [view.shape[1] for view in views]
    assert [record["n_samples"] for record in learner.history_][-1] == 430
    np.testing.assert_array_equal(learner.view_weights_, expected.view_weights_)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_view(rng, tmp_path, kind):
    views, _ = planted_views(rng, n=430, widths=(9,))
    parameters = {"n_nonzero_coefs": 2, "max_iter": 4, "random_state": 0}
    expected = DictionaryLearning(12, **parameters).fit([chunk[0] for chunk in cut(views)])
    given = source(views, kind, tmp_path, single=True)
    learner = DictionaryLearning(12, n_jobs=2, **parameters).fit(given)
    assert_same_model(expected, learner)
    assert learner.n_features_in_ == 9
    codes = learner.transform(views[0])
    np.testing.assert_array_equal(learner.transform(given).toarray(), codes.toarray())
    np.testing.assert_array_equal(learner.set_params(sparse_output=False).transform(given), codes.toarray())
    assert learner.score(given) == pytest.approx(learner.score(views[0]), rel=1e-12)


def test_stored_and_in_memory_views_together(rng, tmp_path):
    views, _ = planted_views(rng, n=430, widths=(6, 9, 4))
    expected = make().fit(cut(views))
    mixed = [views[0].tolist(), stored(views[1], "zarr", tmp_path / "one"), stored(views[2], "hdf5", tmp_path / "two")]
    learner = make(n_jobs=2).fit(mixed)
    assert_same_model(expected, learner)
    codes = learner.transform([None, *mixed[1:]])
    np.testing.assert_array_equal(codes.toarray(), learner.transform([None, *views[1:]]).toarray())


def test_chunks_as_the_storage_has_them(tmp_path):
    """Blocks are whole chunks of the storage, and as many of them as serve a thread well."""
    arrays = {
        rows: zarr.create_array(tmp_path / str(rows), shape=(1000, 3), chunks=(rows, 3), dtype="f4")
        for rows in (7, 20, 333)
    }
    assert blocks.ArrayBlocks([arrays[7]], ["X"]).sizes == [49] * 20 + [20]
    assert blocks.ArrayBlocks([arrays[20]], ["X"]).sizes == [40] * 25
    assert blocks.ArrayBlocks([arrays[20], arrays[333]], ["X", "Y"]).sizes == [333] * 3 + [1]
    with h5py.File(tmp_path / "file", "w") as file:  # a dataset without chunks
        assert blocks.ArrayBlocks([file.create_dataset("X", data=np.zeros((60, 2)))], ["X"]).sizes == [50, 10]


def test_wide_samples_make_small_blocks(sizes):
    sizes(block_bytes=8 * 100 * 10)
    assert blocks.ArrayBlocks([np.zeros((35, 100))], ["X"]).sizes == [10, 10, 10, 5]


def test_small_maps_are_arrays_in_memory(rng, tmp_path, sizes):
    sizes(large_bytes=64 << 20)
    views, _ = planted_views(rng)
    maps = [stored(view, "memmap", tmp_path / str(v)) for v, view in enumerate(views)]
    assert_same_model(make(update="sequential").fit(views), make(update="sequential").fit(maps))


@pytest.mark.parametrize("dtype", [">f4", "<f8", "u1", "?", "f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_kind_of_memory_map(rng, tmp_path, dtype, order):
    view = np.asarray(np.round(rng.uniform(0, 3, (220, 6))), dtype, order=order)
    np.save(tmp_path / "X.npy", view)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    expected = make().fit(cut([np.asarray(view, np.float64 if dtype == "<f8" else np.float32)]))
    assert_same_model(expected, make().fit([mapped]))
    backwards = make().fit([mapped[20:][::-1]])
    assert_same_model(make().fit(cut([np.ascontiguousarray(view[20:][::-1])])), backwards)


def test_a_buffer_that_is_used_again(rng):
    """Reading into the same memory again and again is common; with threads it must not mix chunks up."""
    views, _ = planted_views(rng, n=2000, widths=(6,))
    chunks = cut(views)

    def replay():
        buffer = np.empty((ROWS, 6))
        for (chunk,) in chunks:
            buffer[:] = chunk
            yield [buffer]

    expected = make(growth=None).fit(chunks)
    for _ in range(3):
        assert_same_model(expected, make(growth=None, n_jobs=4).fit(replay))


@pytest.mark.parametrize("update", ["statistics", "mod"])
def test_about_what_arrays_in_memory_give(rng, update):
    """The same sums up to rounding, so the same atoms after an iteration."""
    views, Ds = planted_views(rng, n=430)
    parameters = {"init": [rng.standard_normal(D.shape) for D in Ds], "growth": None, "update": update, "max_iter": 1}
    one, other = make(**parameters).fit(views), make(**parameters).fit(cut(views))
    for D, E in zip(one.components_, other.components_, strict=True):
        np.testing.assert_allclose(D, E, atol=1e-12)
    assert one.history_[0]["view_errors"] == pytest.approx(other.history_[0]["view_errors"], rel=1e-9)


def test_as_good_as_in_memory(rng):
    """Sorted samples are the worst case for chunks: every chunk knows a few atoms only."""
    views, _ = planted_views(rng, n=4000, n_components=16, widths=(12, 10), n_nonzero=2)
    first = np.argsort(views[0][:, 0])
    views = [view[first] for view in views]
    parameters = {"n_components": 24, "max_iter": 20}
    scores = [
        [make(**parameters, random_state=seed).fit(X).score(views) for seed in range(2)] for X in (views, cut(views))
    ]
    assert np.mean(scores[1]) > np.mean(scores[0]) - 0.02
    assert np.mean(scores[1]) > 0.9


# What is read


def test_each_chunk_is_read_once_an_iteration(rng):
    views, _ = planted_views(rng, n=430)
    chunks, seen = Numbered(cut(views)), []
    parameters = {"growth": None, "init": "random", "n_jobs": 2, "predictor": "dictionary"}
    learner = make(callback=lambda state: seen.append(chunks.reads.copy()), **parameters)
    learner.fit(chunks)
    survey = 1
    assert seen == [collections.Counter(dict.fromkeys(range(9), survey + k)) for k in (1, 2, 3, 4)]
    assert chunks.reads == seen[-1]


def test_growing_passes_read_less(rng):
    views, _ = planted_views(rng, n=4000)
    chunks, seen = Numbered(cut(views)), [collections.Counter(range(80))]
    parameters = {"init": "random", "predictor": "dictionary", "max_iter": 8}
    learner = make(callback=lambda state: seen.append(chunks.reads.copy()), **parameters)
    learner.fit(chunks)
    passes = [after - before for before, after in itertools.pairwise(seen)]
    assert all(max(found.values()) == 1 for found in passes)
    assert len(passes[0]) <= 4
    assert len(passes[-1]) == 80


def test_what_else_is_read(rng):
    """Once to see what there is, once for balanced weights, once for a start from samples, once for each refit."""
    views, _ = planted_views(rng, n=430)
    parameters = {"growth": None, "init": "random", "predictor": "dictionary"}

    def reads(**changed):
        chunks = Numbered(cut(views))
        learner = make(**parameters | changed).fit(chunks)
        assert len(set(chunks.reads.values())) == 1
        return chunks.reads[0] - learner.n_iter_

    assert reads() == 1
    assert reads(view_weights="balanced") == 2
    assert reads(init="samples") == 2
    assert reads(predictor="ridge") == 3
    learner, chunks = make().fit(views), Numbered(cut(views))
    learner.transform(chunks)
    assert set(chunks.reads.values()) == {2}


def test_stored_arrays_are_read_in_whole_chunks(rng):
    """Each row once a pass, in slices that begin and end where chunks do, from as many threads as there are."""
    views, _ = planted_views(rng, n=430, widths=(6,))

    class Counting:
        shape, dtype, chunks = views[0].shape, views[0].dtype, (20, 6)

        def __init__(self):
            self.slices, self.threads = [], set()

        def __getitem__(self, rows):
            self.slices.append((rows.start, rows.stop))
            self.threads.add(threading.get_ident())
            return views[0][rows]

    array = Counting()
    make(growth=None, init="random", max_iter=1, n_jobs=2).fit([array])
    slices = [(start, min(start + 40, 430)) for start in range(0, 430, 40)]
    assert sorted(array.slices) == sorted(2 * slices), "once for the scale of the samples, once for the pass"
    assert threading.get_ident() not in array.threads


# Codes, predictions and scores


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_a_learner_makes_of_chunks(rng, tmp_path, kind, dtype):
    views, _ = planted_views(rng, n=430)
    views = [view.astype(dtype) for view in views]
    learner = make(n_jobs=2).fit(views)
    given = source(views, kind, tmp_path)
    codes = learner.transform(given)
    assert codes.dtype == dtype
    np.testing.assert_array_equal(codes.toarray(), learner.transform(views).toarray())
    predicted = learner.predict(given, view=1)
    assert predicted.dtype == dtype
    np.testing.assert_array_equal(predicted, learner.predict(views, view=1))
    assert learner.score(given) == pytest.approx(learner.score(views), rel=1e-6)
    again = make(n_jobs=2).fit_transform(given)
    assert again.shape == (430, 12)


@pytest.mark.parametrize("kind", ["zarr", "list", "callable"])
def test_absent_views(rng, tmp_path, kind):
    views, _ = planted_views(rng, n=430)
    learner = make().fit(views)
    arrays, chunks = source(views, "zarr", tmp_path), [[None, chunk[1]] for chunk in cut(views)]
    given = {"zarr": [None, arrays[1]], "list": chunks, "callable": lambda: iter(chunks)}[kind]
    np.testing.assert_array_equal(learner.transform(given).toarray(), learner.transform([None, views[1]]).toarray())
    np.testing.assert_array_equal(learner.predict(given, view=0), learner.predict([None, views[1]], view=0))
    np.testing.assert_array_equal(learner.predict(given, view=-2), learner.predict(given, view=0))
    assert learner.score(given) == pytest.approx(learner.score([None, views[1]]), rel=1e-12)
    with pytest.raises(ValueError, match=r"Expected at least one view other than the wanted one \(1\)"):
        learner.predict(given, view=1)
    with pytest.raises(ValueError, match="Expected every view to be present in fit, got None for view 0"):
        make().fit(given)


def test_one_support_for_all_views(rng):
    views, _ = planted_views(rng, n=430)
    learner = make(coupling="support", n_jobs=2).fit(cut(views))
    assert_same_model(learner, make(coupling="support").fit(lambda: cut(views)))
    for mine, theirs in zip(learner.transform(cut(views)), learner.transform(views), strict=True):
        np.testing.assert_array_equal(mine.toarray(), theirs.toarray())
    (alone,) = learner.transform([[None, chunk[1]] for chunk in cut(views)])
    np.testing.assert_array_equal(alone.toarray(), learner.transform([None, views[1]])[0].toarray())
    assert learner.score(cut(views)) == pytest.approx(learner.score(views), rel=1e-12)


def test_a_view_of_weight_zero(rng):
    views, _ = planted_views(rng, n=430)
    learner = make(view_weights=[0, 1]).fit(cut(views))
    np.testing.assert_array_equal(learner.transform(cut(views)).toarray(), learner.transform(views).toarray())
    with pytest.raises(ValueError, match="only views of weight 0"):
        learner.transform([[chunk[0], None] for chunk in cut(views)])


@pytest.mark.parametrize("sizes", [[0, 30, 0, 400, 0], [1] * 60 + [300]], ids=["some are empty", "most are tiny"])
def test_chunks_of_any_size(rng, sizes):
    views, _ = planted_views(rng, n=sum(sizes))
    ends = np.cumsum(sizes)
    chunks = [[view[end - size : end] for view in views] for size, end in zip(sizes, ends, strict=True)]
    learner = make(max_iter=12).fit(chunks)
    assert [record["n_samples"] for record in learner.history_] == [
        r["n_samples"] for r in make(max_iter=12).fit(views).history_
    ]
    np.testing.assert_array_equal(learner.transform(chunks).toarray(), learner.transform(views).toarray())
    (single, _), one = views, DictionaryLearning(12, n_nonzero_coefs=2, random_state=0)
    assert one.fit([chunk[0] for chunk in chunks]).score([chunk[0] for chunk in chunks]) > 0.5
    assert one.transform([single[:0], single]).shape == (sum(sizes), 12)


def test_no_samples(rng, tmp_path):
    views, _ = planted_views(rng)
    learner, nothing = make().fit(views), source([view[:0] for view in views], "zarr", tmp_path)
    assert learner.transform(nothing).shape == (0, 12)
    assert learner.predict(nothing, view=1).shape == (0, 9)
    assert learner.score(nothing) == learner.score([view[:0] for view in views]) == 1.0
    with pytest.raises(ValueError, match="Expected at least one sample in X, got 0"):
        make(view_weights="balanced").fit(nothing)


# What cannot work


@pytest.mark.parametrize("parameters", [{"update": "sequential"}, {"update": "ksvd"}, PAPER | {"init": "random"}])
def test_updates_that_need_all_residuals_say_so(rng, parameters):
    views, _ = planted_views(rng)
    with pytest.raises(ValueError, match=r"residuals of all samples.*in memory.*Use update='statistics' \(or 'mod'\)"):
        make(**parameters).fit(cut(views))


def test_online_learning_takes_batches(rng):
    views, _ = planted_views(rng)
    with pytest.raises(TypeError, match="Call partial_fit with one chunk of the samples after the other"):
        OnlineDictionaryLearning(12, n_nonzero_coefs=2).fit(cut(views))
    learner = OnlineDictionaryLearning(12, n_nonzero_coefs=2, max_iter=2, random_state=0).fit(views)
    learner.set_params(pursuit="lasso", alpha=1.0, n_nonzero_coefs=None)
    np.testing.assert_allclose(learner.transform(cut(views)).toarray(), learner.transform(views).toarray(), atol=1e-9)


# Memory

MEASURED = """
    import sys
    import numpy as np
    from coupledict import DictionaryLearning

    X = np.load(sys.argv[1], mmap_mode="r")
    learner = DictionaryLearning(16, n_nonzero_coefs=1, max_iter=2, random_state=0, n_jobs=2).fit(X)
    assert learner.history_[-1]["n_samples"] == len(X)
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_samples(tmp_path):
    """Three times the samples, 130 MB more of them, take about the same memory."""
    block = np.random.default_rng(0).standard_normal((4096, 256), np.float32)  # 4 MB
    peaks = []
    for n_blocks in (17, 50):
        path = tmp_path / f"{n_blocks}.npy"
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n_blocks * 4096, 256))
        for start in range(0, len(X), 4096):
            X[start : start + 4096] = block
        done = run_python(textwrap.dedent(MEASURED), path)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout) / 1024)
    # A block has 16 MB; each of two threads may hold one, and the pages of the file that it came from.
    assert peaks[1] < peaks[0] + 40, peaks


def test_history_tells_what_happened(rng):
    views, _ = planted_views(rng, n=430)
    records = without_times(make(growth=None).fit(cut(views)).history_)
    assert [set(record) for record in records] == [set(without_times(make().fit(views).history_)[0])] * 4
    assert [record["objective"] for record in records] == sorted((r["objective"] for r in records), reverse=True)


def test_threads_do_not_change_a_bit(rng):
    views, _ = planted_views(rng, n=700)
    fits = [plain(12, n_nonzero_coefs=2, random_state=3, n_jobs=n).fit(cut(views)) for n in (1, 2, 7)]
    for learner in fits[1:]:
        assert_same_model(fits[0], learner)
        assert_same_refit(fits[0], learner)


@pytest.mark.slow
def test_the_document_runs_as_printed(tmp_path):
    document = Path(__file__).parents[2] / "docs" / "scale.md"
    program = "".join(re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL))
    command = [sys.executable, "-W", "error", "-c", program]
    done = run(command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[0]) > 0.9


def test_chunks_of_another_number_type_than_the_model(rng):
    views, _ = planted_views(rng)
    learner = make().fit(views)
    single = [view.astype(np.float32) for view in views]
    assert learner.score(cut(single)) == pytest.approx(learner.score(single), rel=1e-6)
    np.testing.assert_array_equal(learner.transform(cut(single)).toarray(), learner.transform(single).toarray())
