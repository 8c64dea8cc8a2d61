"""Bad days of samples that are read in chunks: every fault is named, and nothing is left running."""

from __future__ import annotations

import hashlib
import os
import textwrap
import threading

import h5py
import numpy as np
import pytest
import zarr

from coupledict import DictionaryLearning
from support.learners import make, planted_views
from support.programs import run_python
from support.waiting import wait_for_threads

ROWS = 50
N_CHUNKS = 8


@pytest.fixture(autouse=True)
def small_blocks(sizes):
    sizes(block_rows=ROWS)


def n_threads_now():
    """Threads that Python's threading knows nothing of, as ours are; Zarr keeps some of the others."""
    return len(os.listdir("/proc/self/task")) - threading.active_count()


@pytest.fixture(scope="module", autouse=True)
def threads_of_libraries(tmp_path_factory):
    """Zarr and what it stands on start threads of their own at their first use, and keep them."""
    array = zarr.create_array(tmp_path_factory.mktemp("zarr") / "x", shape=(64, 4), chunks=(1, 4), dtype="float64")
    array[:] = 1
    assert array[:].sum() == 256


@pytest.fixture(autouse=True)
def no_thread_left():
    before = n_threads_now()
    yield
    wait_for_threads(before, n_threads_now)


@pytest.fixture
def views(rng):
    return planted_views(rng, n=ROWS * N_CHUNKS)[0]


@pytest.fixture
def chunks(views):
    return cut(views)


def cut(views):
    return [[view[start : start + ROWS].copy() for view in views] for start in range(0, len(views[0]), ROWS)]


def fit(Xs, **parameters):
    return make(**{"growth": None, "init": "random"} | parameters).fit(Xs)


class Changing:
    """Chunks that are others from a certain reading of all of them on."""

    def __init__(self, *readings):
        self._readings, self._n_reads = readings, 0

    def __call__(self):
        self._n_reads += 1
        return iter(self._readings[min(self._n_reads, len(self._readings)) - 1])


class ChangingSequence(Changing):
    """The same by number. A reading begins with the length."""

    __call__ = None

    def __len__(self):
        self._now = list(Changing.__call__(self))
        return len(self._now)

    def __getitem__(self, number):
        return self._now[number]


def changing(kind, *readings):
    return Changing(*readings) if kind == "callable" else _Plain(ChangingSequence(*readings))


class _Plain:
    def __init__(self, chunks):
        self._chunks = chunks

    def __len__(self):
        return len(self._chunks)

    def __getitem__(self, number):
        return self._chunks[number]


both_kinds = pytest.mark.parametrize("kind", ["sequence", "callable"])

# Numbers that are none

WHERE = r"in X\[1\], chunk 5, rows 7, 31 of that chunk\. "
NAMED = {
    True: rf"got NaN {WHERE}If NaN stands for a missing entry, use missing='nan'; otherwise remove or impute",
    False: rf"got infinity {WHERE}Remove such samples, or replace the infinite entries",
}
SINGLE = r"got NaN in chunk 5, rows 7, 31 of that chunk\. If NaN stands for a missing entry"


def spoil(chunks, number=np.nan):
    chunks[5][1][[7, 31], 3] = number
    return chunks


def as_zarr(chunks, folder):
    arrays = []
    for v, parts in enumerate(zip(*chunks, strict=True)):
        view = np.concatenate(parts)
        array = zarr.create_array(folder / str(v), shape=view.shape, chunks=(ROWS, view.shape[1]), dtype=view.dtype)
        array[:] = view
        arrays.append(array)
    return arrays


@pytest.mark.parametrize("kind", ["list", "callable", "zarr"])
@pytest.mark.parametrize("n_jobs", [1, 2, 4])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_nan_names_the_chunk_and_the_rows(tmp_path, chunks, kind, n_jobs, number):
    spoil(chunks, number)
    given = {"list": chunks, "callable": lambda: iter(chunks)}.get(kind) or as_zarr(chunks, tmp_path)
    with pytest.raises(ValueError, match=NAMED[np.isnan(number)]):
        fit(given, n_jobs=n_jobs)
    with pytest.raises(ValueError, match=NAMED[np.isnan(number)]):
        fit(given, n_jobs=n_jobs, view_weights="balanced")


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_nan_in_what_a_learner_is_given(tmp_path, chunks, n_jobs):
    learner = fit(chunks, n_jobs=n_jobs)
    spoil(chunks)
    for act in (learner.transform, learner.score, lambda X: learner.predict(X, view=0)):
        with pytest.raises(ValueError, match=NAMED[True]):
            act(chunks)
    with pytest.raises(ValueError, match=NAMED[True]):
        learner.transform(chunks, out=tmp_path / "codes")
    assert list(tmp_path.iterdir()) == []
    assert learner.predict(chunks, view=1).shape == (400, 9)  # the bad view is not looked at
    single = [chunk[1] for chunk in chunks]
    with pytest.raises(ValueError, match=SINGLE):
        DictionaryLearning(12, n_nonzero_coefs=2, n_jobs=n_jobs, growth=None, random_state=0).fit(single)


def test_the_first_bad_chunk_is_named(chunks):
    """Whichever thread is the first to see one."""
    spoil(chunks)
    chunks[2][0][0] = np.nan
    for _ in range(20):
        with pytest.raises(ValueError, match=r"in X\[0\], chunk 2, rows 0 of that chunk"):
            fit(chunks, n_jobs=4)


def test_what_was_learned_before_stays(chunks):
    learner = fit(chunks)
    before = [D.copy() for D in learner.components_]
    with pytest.raises(ValueError, match=NAMED[True]):
        learner.fit(spoil(chunks))
    for D, E in zip(before, learner.components_, strict=True):
        np.testing.assert_array_equal(D, E)


def test_rows_are_those_of_the_chunk_when_a_pass_takes_a_part(chunks):
    chunks = [[np.concatenate([chunk[v] for chunk in chunks]) for v in (0, 1)]] * 3
    bad = [view.copy() for view in chunks[1]]
    bad[0][33] = np.inf
    with pytest.raises(ValueError, match=r"in X\[0\], chunk 1, rows 33 of that chunk"):
        fit([chunks[0], bad, chunks[2]], growth=lambda k, n_iter, n: 100, max_iter=100)


def test_numbers_too_large_for_their_type(chunks):
    """Finite, but their codes are not: the row is named, too."""
    chunks = [[view.astype(np.float32) for view in chunk] for chunk in chunks]
    learner = fit(chunks)
    chunks[6][0][11] = np.finfo(np.float32).max
    chunks[6][1][11] = np.finfo(np.float32).max
    with pytest.raises(ValueError, match="row 11 of chunk 6"):
        learner.transform(chunks)


# Chunks that do not fit each other


def assert_refused(chunks, message, kind=ValueError):
    for given in (chunks, _Plain(chunks), lambda: iter(chunks)):
        with pytest.raises(kind, match=message):
            fit(given)


def test_features_change(chunks):
    chunks[3][1] = chunks[3][1][:, :7]
    assert_refused(chunks, r"Expected views of \[6, 9\] features in chunk 3, as in chunk 0, got \[6, 7\]\.")


def test_rows_of_the_views_differ(chunks):
    chunks[4][0] = chunks[4][0][:-1]
    assert_refused(chunks, r"the same number of samples in every view, got 49 and 50 \(chunk 4\[1\]\)\.")


def test_a_view_is_missing_from_one_chunk(chunks):
    chunks[2][1] = None
    assert_refused(chunks, r"Expected views \[0, 1\] of 2 in chunk 2, as in chunk 0, got \[0\] of 2\.")
    chunks[2] = chunks[1] + chunks[1][:1]
    assert_refused(chunks, r"Expected views \[0, 1\] of 2 in chunk 2, as in chunk 0, got \[0, 1, 2\] of 3\.")


def test_a_chunk_of_something_else(chunks):
    for wrong, kind, message in [
        (chunks[0][0], TypeError, "Expected chunk 1 to be a list of arrays, one per view, .*got ndarray"),
        ([], ValueError, "Expected chunk 1 to hold at least one view, got none"),
        ([chunks[0][0], np.zeros((50, 0))], ValueError, r"at least one feature, got \[6, 0\]"),
        ([chunks[0][0], np.zeros(50)], ValueError, r"Expected chunk 1\[1\] to have 2 dimensions"),
        ([chunks[0][0], np.full((50, 9), "a")], TypeError, r"Expected chunk 1\[1\] to hold real numbers"),
    ]:
        with pytest.raises(kind, match=message):
            fit(_Plain([chunks[0], wrong]))
    with pytest.raises(ValueError, match="Expected at least one chunk of samples, got none"):
        fit(lambda: iter([]))
    with pytest.raises(TypeError, match="Expected the callable to return an iterator over chunks, got NoneType"):
        fit(lambda: None)


def test_arrays_that_do_not_fit_each_other(tmp_path, chunks):
    one, two = as_zarr(chunks, tmp_path)
    longer = zarr.create_array(tmp_path / "longer", shape=(401, 3), chunks=(50, 3), dtype="f8")
    deep = zarr.create_array(tmp_path / "deep", shape=(400, 3, 3), chunks=(50, 3, 3), dtype="f8")
    words = zarr.create_array(tmp_path / "complex", shape=(400, 3), chunks=(50, 3), dtype="c16")
    learner = fit([one, two])
    with pytest.raises(ValueError, match=r"the same number of samples in every view, got 400 and 401 \(X\[1\]\)"):
        fit([one, longer])
    with pytest.raises(ValueError, match=r"Expected X\[1\] to have 2 dimensions, got shape \(400, 3, 3\)"):
        fit([one, deep])
    with pytest.raises(TypeError, match=r"Expected X\[1\] to hold real numbers.*complex128"):
        fit([one, words])
    with pytest.raises(
        ValueError, match=r"Expected views of \[6, 9\] features, as their dictionaries have, got \[9, 6\]"
    ):
        learner.transform([two, one])
    with pytest.raises(ValueError, match=r"Expected 2 views, one for each dictionary .*, got 1\."):
        learner.transform([one])


# Chunks that change


@both_kinds
def test_a_chunk_changes_its_size(chunks, kind):
    later = [*chunks[:6], [view[:-5] for view in chunks[6]], *chunks[7:]]
    with pytest.raises(
        ValueError, match=r"Expected chunk 6 to have 50 samples, as it had before, got 45\. Chunks must be"
    ):
        fit(changing(kind, chunks, chunks, later), n_jobs=2)


@both_kinds
def test_chunks_become_fewer(chunks, kind):
    with pytest.raises(ValueError, match=r"Expected 8 chunks, as before, but chunk 5 is missing now\."):
        fit(changing(kind, chunks, chunks, chunks[:5]), n_jobs=2)


def test_an_iterator_that_is_not_fresh(chunks):
    used = iter(chunks)
    with pytest.raises(
        ValueError, match=r"chunk 0 is missing now.*a callable must return a fresh iterator each time\."
    ):
        fit(lambda: used)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("reading", [0, 2])
def test_the_users_code_fails(chunks, n_jobs, reading):
    calls = []

    def replay():
        calls.append(None)
        for number, chunk in enumerate(chunks):
            if len(calls) > reading and number == 3:
                raise RuntimeError("the sensor is gone")
            yield chunk

    with pytest.raises(OSError, match="Could not read chunk 3: the sensor is gone") as caught:
        fit(replay, n_jobs=n_jobs)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert len(calls) == reading + 1


def test_the_users_sequence_fails(chunks):
    class Failing(_Plain):
        def __getitem__(self, number):
            return super().__getitem__(number if number != 4 else 1 / 0)

    with pytest.raises(OSError, match="Could not read chunk 4: division by zero"):
        fit(Failing(chunks))


# Files that are damaged


def digest(folder):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_damaged_zarr_chunk(tmp_path, chunks, n_jobs):
    given = as_zarr(chunks, tmp_path)
    learner = fit(given)
    (tmp_path / "1" / "c" / "6" / "0").write_bytes(b"no compressed chunk")
    before = digest(tmp_path)
    for act in (lambda X: fit(X, n_jobs=n_jobs), learner.transform, learner.score):
        with pytest.raises(OSError, match=r"Could not read chunk 6 \(samples 300 to 349\) of X\[1\]: "):
            act(given)
    assert digest(tmp_path) == before


def test_a_zarr_chunk_that_is_not_there(tmp_path, chunks):
    """To Zarr that is a chunk of zeros, and it does not store chunks of zeros: nothing to be told here."""
    given = as_zarr(chunks, tmp_path)
    learner = fit(given)
    (tmp_path / "0" / "c" / "6" / "0").unlink()
    (tmp_path / "1" / "c" / "6" / "0").unlink()
    counts = np.diff(learner.transform(given).indptr)
    np.testing.assert_array_equal(counts == 0, np.arange(400) // ROWS == 6)


def test_a_truncated_hdf5_file(tmp_path, chunks):
    """HDF5 refuses to open one. Of a file that is cut off later it gives zeros, but a filter notices."""
    path = tmp_path / "X.h5"
    with h5py.File(path, "w") as file:
        for v, parts in enumerate(zip(*chunks, strict=True)):
            shape = (ROWS, parts[0].shape[1])
            file.create_dataset(str(v), data=np.concatenate(parts), chunks=shape, fletcher32=True)
    with h5py.File(path, "r") as file:
        given = [file["0"], file["1"]]
        os.truncate(path, path.stat().st_size // 2)
        before = digest(tmp_path)
        with pytest.raises(OSError, match=r"Could not read chunk \d \(samples \d+ to \d+\) of X\[\d\]: "):
            fit(given, n_jobs=2)
    assert digest(tmp_path) == before
    with pytest.raises(OSError, match="truncated"):
        h5py.File(path, "r")


TRUNCATED = """
    import os, sys
    import numpy as np
    from coupledict import DictionaryLearning
    from coupledict.foundation.block_sizes import SIZES

    SIZES.block_rows, SIZES.large_bytes = 1000, 0
    X = np.load(sys.argv[1], mmap_mode="r")
    learner = DictionaryLearning(8, n_nonzero_coefs=1, max_iter=2, random_state=0).fit(X)
    os.truncate(sys.argv[1], 3 * os.path.getsize(sys.argv[1]) // 4)
    for act in (learner.fit, learner.transform):
        for given in (X, X[2000:]):
            try:
                act(given)
            except OSError as error:
                print(error)
"""


@pytest.mark.slow
def test_a_truncated_npy_file(rng, tmp_path):
    """Reading past the end of a file that is mapped would end the program without a word."""
    path = tmp_path / "X.npy"
    np.save(path, rng.standard_normal((8000, 16)))
    done = run_python(textwrap.dedent(TRUNCATED), path)
    assert done.returncode == 0, (done.returncode, done.stderr)
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert line.startswith("Could not read chunk ")
        assert line.endswith(f"of X: its file has {path.stat().st_size} bytes, 1024128 are needed; it was truncated")
    with pytest.raises(ValueError, match="mmap length is greater than file size"):
        np.load(path, mmap_mode="r")


def test_an_array_that_gives_too_few_rows(chunks):
    class Short:
        shape, dtype, chunks = (400, 6), np.dtype(float), (50, 6)

        def __getitem__(self, rows):
            return np.zeros((min(rows.stop, 330) - rows.start, 6))

    with pytest.raises(OSError, match=r"Expected chunk 6 of X\[0\] to have shape \(50, 6\), got \(30, 6\)\."):
        fit([Short()])
