"""Codes in files: the same as in memory, a part at a time, and under their name only when all are there."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array, random_array
from sklearn.exceptions import ConvergenceWarning

import coupledict
from coupledict import DictionaryLearning, open_codes
from coupledict.files import codes as code_files
from coupledict.files.codes import code_writer
from support.learners import make, planted_views
from support.programs import run_python
from support.waiting import count_threads, wait_for_threads

NAMES = ["codes", "codes.zarr"]
SIZES = [40, 0, 1, 79]

both_formats = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def views(rng):
    return planted_views(rng, n=sum(SIZES))[0]


@pytest.fixture
def chunks(views):
    return [[view[end - size : end] for view in views] for size, end in zip(SIZES, np.cumsum(SIZES), strict=True)]


@pytest.fixture
def learner(views):
    return make(n_jobs=2).fit(views)


def assert_same_codes(one, other):
    assert one.shape == other.shape
    assert one.dtype == other.dtype
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


@contextmanager
def nothing_left(folder):
    """Whatever goes wrong, the folder is as it was, and no thread is left."""
    before = sorted(folder.iterdir())
    threads = count_threads()
    yield
    assert sorted(folder.iterdir()) == before
    wait_for_threads(threads)


# There and back


@both_formats
@pytest.mark.parametrize("kind", ["list", "callable", "memory"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_codes_of_transform(tmp_path, views, chunks, name, kind, dtype):
    views, chunks = [view.astype(dtype) for view in views], [[view.astype(dtype) for view in part] for part in chunks]
    learner = make(n_jobs=2).fit(views)
    given = {"list": chunks, "callable": lambda: iter(chunks), "memory": views}[kind]
    codes, expected = learner.transform(given, out=tmp_path / name), learner.transform(views)
    assert (codes.shape, codes.nnz, codes.dtype) == (expected.shape, expected.nnz, dtype)
    assert codes.sizes == (SIZES if kind != "memory" else [120])
    assert os.listdir(tmp_path) == [name]
    for one in (codes, open_codes(str(tmp_path / name))):
        assert_same_codes(one.load(), expected)
        ends = np.cumsum([0, *one.sizes])
        for number, part in enumerate(one):
            assert_same_codes(part, expected[ends[number] : ends[number + 1]])


@both_formats
def test_a_file_of_codes_is_a_sequence(tmp_path, learner, chunks, name):
    codes = learner.transform(chunks, out=tmp_path / name)
    assert len(codes) == 4
    assert [part.shape[0] for part in codes] == SIZES
    assert_same_codes(codes[-1], codes[3])
    assert_same_codes(codes[np.int64(2)], codes[2])
    assert [part.shape[0] for part in codes[1:]] == SIZES[1:]
    assert [part.shape[0] for part in codes[::-2]] == [79, 0]
    assert codes[7:] == []
    for number in (4, -5):
        with pytest.raises(IndexError, match=f"Expected the number of one of 4 parts, got {number}"):
            codes[number]
    assert repr(codes) == f"CodeFile({str(tmp_path / name)!r}, shape=(120, 12), nnz={codes.nnz}, parts=4)"


@both_formats
def test_nothing_to_code(tmp_path, learner, views, name):
    codes = learner.transform([view[:0] for view in views], out=tmp_path / name)
    assert (len(codes), codes.shape, codes.nnz) == (0, (0, 12), 0)
    assert codes.load().shape == (0, 12)
    empty = learner.transform([[view[:0] for view in views]] * 2, out=tmp_path / f"2{name}")
    assert empty.sizes == [0, 0]
    assert empty[1].shape == (0, 12)


@both_formats
def test_codes_that_are_all_zero(tmp_path, learner, views, name):
    codes = learner.transform([0 * view for view in views], out=tmp_path / name)
    assert codes.nnz == 0
    assert_same_codes(codes.load(), csr_array((120, 12), dtype=float))


@both_formats
def test_a_single_view_and_absent_ones(tmp_path, learner, views, chunks, name):
    absent = [[None, chunk[1]] for chunk in chunks]
    assert_same_codes(learner.transform(absent, out=tmp_path / name).load(), learner.transform([None, views[1]]))
    assert_same_codes(
        learner.transform([None, views[1]], out=tmp_path / f"2{name}").load(), learner.transform([None, views[1]])
    )
    single = DictionaryLearning(12, n_nonzero_coefs=2, random_state=0, sparse_output=False).fit(views[0])
    expected = csr_array(single.transform(views[0]))
    assert_same_codes(single.transform([chunk[0] for chunk in chunks], out=tmp_path / f"3{name}").load(), expected)
    assert_same_codes(single.transform(views[0], out=tmp_path / f"4{name}").load(), expected)


@both_formats
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_parts_with_any_kind_of_index(tmp_path, rng, name, index):
    parts = [csr_array(random_array((n, 30), density=0.2, random_state=rng, format="csr")) for n in (5, 0, 8)]
    with code_writer(tmp_path / name, 30, np.float64) as writer:
        for part in parts:
            part.indptr, part.indices = part.indptr.astype(index), part.indices.astype(index)
            writer.append(part)
    for part, same in zip(parts, open_codes(tmp_path / name), strict=True):
        np.testing.assert_array_equal(part.toarray(), same.toarray())


@both_formats
def test_many_nonzeros_in_small_pieces(tmp_path, rng, name, sizes):
    """Parts that begin and end within the chunks of a Zarr array."""
    sizes(zarr_chunk=7)
    parts = [csr_array(random_array((n, 30), density=0.3, random_state=rng, format="csr")) for n in (5, 1, 0, 8, 20)]
    with code_writer(tmp_path / name, 30, np.float64) as writer:
        for part in parts:
            writer.append(part)
    for part, same in zip(parts, open_codes(tmp_path / name), strict=True):
        np.testing.assert_array_equal(part.toarray(), same.toarray())


def test_parts_are_what_scipy_and_zarr_read(tmp_path, learner, chunks):
    from scipy.sparse import load_npz

    folder = learner.transform(chunks, out=tmp_path / "codes")
    np.testing.assert_array_equal(load_npz(tmp_path / "codes" / "part-000003.npz").toarray(), folder[3].toarray())
    learner.transform(chunks, out=tmp_path / "codes.zarr")
    group = zarr.open_group(tmp_path / "codes.zarr", mode="r")
    np.testing.assert_array_equal(group["data"][:], folder.load().data)
    assert group["indptr"].shape == (121,)


@both_formats
def test_samples_that_miss_the_tolerance_are_told_of(tmp_path, rng, name):
    X = rng.standard_normal((60, 6))
    learner = DictionaryLearning(3, tol=1e-9, max_iter=1, random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning, match="60 of 60 samples did not reach tol=1e-09"):
        codes = learner.transform([X[:20], X[20:]], out=tmp_path / name)
    assert codes.shape == (60, 3)


# What is refused


@both_formats
def test_a_name_that_is_taken(tmp_path, learner, chunks, name):
    """Before anything is read."""
    reads = []

    def replay():
        reads.append(None)
        return iter(chunks)

    single = DictionaryLearning(4, n_nonzero_coefs=1, random_state=0).fit(chunks[0][0])
    (tmp_path / name).write_text("mine")
    (tmp_path / f"link{name}").symlink_to("nowhere")
    with nothing_left(tmp_path):
        for learned in (learner, single):
            for taken in (name, f"link{name}"):
                with pytest.raises(FileExistsError, match=f"not taken, got '.*{taken}', which exists"):
                    learned.transform(replay, out=tmp_path / taken)
            with pytest.raises(FileNotFoundError, match=r"Expected the folder '.*none' to exist.*Make it\."):
                learned.transform(replay, out=tmp_path / "none" / name)
    assert (tmp_path / name).read_text() == "mine"
    assert not reads


@both_formats
def test_a_name_that_is_taken_in_the_meantime(tmp_path, learner, chunks, name):
    def replay():
        if (tmp_path / name).exists() is False and len(calls) == 1:
            (tmp_path / name).mkdir()
            (tmp_path / name / "mine").write_text("mine")
        calls.append(None)
        return iter(chunks)

    calls = []
    with pytest.raises(OSError, match=name):
        learner.transform(replay, out=tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    assert os.listdir(tmp_path / name) == ["mine"]


def test_a_code_for_each_view_has_no_file(tmp_path, views, chunks):
    learner = make(coupling="support").fit(views)
    for given in (views, chunks):
        with nothing_left(tmp_path), pytest.raises(ValueError, match="with coupling='code' only"):
            learner.transform(given, out=tmp_path / "codes")


def test_without_zarr(tmp_path, learner, views, monkeypatch):
    codes = learner.transform(views, out=tmp_path / "codes.zarr")
    monkeypatch.setitem(sys.modules, "zarr", None)
    with nothing_left(tmp_path), pytest.raises(ImportError, match=r'pip install "coupledict\[dask\]"'):
        learner.transform(views, out=tmp_path / "new.zarr")
    with pytest.raises(ImportError, match=r'pip install "coupledict\[dask\]"'):
        open_codes(codes.path)
    assert learner.transform(views, out=tmp_path / "new").nnz == codes.nnz


# Files that are damaged


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Expected codes at '.*x', found nothing there\."):
        open_codes(tmp_path / "x")


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 2},
        {"sizes": None},
        {"sizes": [40, -1]},
        {"sizes": "many"},
        {"n_components": "x"},
        {"n_components": -2},
        {"nnz": None},
        {"dtype": "int32"},
        {"dtype": "O"},
        {"dtype": "nonsense"},
    ],
    ids=str,
)
@both_formats
def test_an_index_that_lies(tmp_path, learner, chunks, name, change):
    path = learner.transform(chunks, out=tmp_path / name).path
    if name.endswith(".zarr"):
        zarr.open_group(path, mode="r+").attrs.update(change)
    else:
        about = json.loads((path / "index.json").read_text())
        (path / "index.json").write_text(json.dumps(about | change))
    with pytest.raises(ValueError, match=rf"Expected '.*{name}' to hold codes written by coupledict, but .*\.$"):
        open_codes(path)


def test_an_index_that_is_none(tmp_path, learner, chunks):
    path = learner.transform(chunks, out=tmp_path / "codes").path
    for text in ("", "[]", "3", '{"format": "coupledict codes"', "\x00"):
        (path / "index.json").write_text(text)
        with pytest.raises(ValueError, match="to hold codes written by coupledict, but"):
            open_codes(path)
    (path / "index.json").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(ValueError, match="to hold codes written by coupledict, but"):
        open_codes(path)
    (path / "index.json").unlink()
    with pytest.raises(ValueError, match="to hold codes written by coupledict, but"):
        open_codes(path)
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "empty.zarr").mkdir()
    for name in ("file", "empty.zarr"):
        with pytest.raises(ValueError, match="to hold codes written by coupledict, but"):
            open_codes(tmp_path / name)


def test_parts_that_are_damaged(tmp_path, learner, chunks):
    codes = learner.transform(chunks, out=tmp_path / "codes")
    parts = [codes.path / f"part-{number:06d}.npz" for number in range(4)]
    first = parts[0].read_bytes()
    damaged = r"Expected '.*codes' to hold part 3 of 4, but .* The file is damaged\."
    for content in (b"", b"PK", first[:-30], first[:100] + b"\0" * 400 + first[500:]):
        parts[3].write_bytes(content)
        with pytest.raises(ValueError, match=damaged):
            codes[3]
    parts[3].unlink()
    with pytest.raises(ValueError, match=damaged):
        codes.load()
    parts[3].write_bytes(first)
    with pytest.raises(ValueError, match=r"Expected part 3 of '.*' to have shape \(79, 12\), got \(40, 12\)\."):
        codes[3]
    lying = csr_array((79, 12))
    lying.indptr[-1], lying.indices, lying.data = 1, np.array([10**6], np.int32), np.ones(1)
    code_files.write_part(codes.path, 3, lying)
    with pytest.raises(ValueError, match=damaged):
        codes[3]
    assert codes[0].shape == (40, 12), "the others can still be read"


def test_arrays_that_are_damaged(tmp_path, learner, chunks):
    codes = learner.transform(chunks, out=tmp_path / "codes.zarr")
    (codes.path / "indices" / "c" / "0").write_bytes(b"no chunk")
    with pytest.raises(ValueError, match=r"to hold part 3 of 4, but .* The file is damaged\."):
        codes[3]
    del zarr.open_group(codes.path, mode="r+")["indptr"]
    with pytest.raises(ValueError, match=r"to hold part 0 of 4, but .* The file is damaged\."):
        open_codes(codes.path)[0]


# Writing that fails


@both_formats
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError(28, "No space left on device")], ids=repr)
@pytest.mark.parametrize("where", ["_begin", "_write", "_finish"])
def test_a_failure_leaves_nothing(tmp_path, learner, chunks, name, error, where, monkeypatch):
    kind = code_files.ZarrWriter if name.endswith(".zarr") else code_files.FolderWriter
    real, calls = getattr(kind, where), []

    def fail(self, *arguments):
        real(self, *arguments)
        calls.append(None)
        if where != "_write" or len(calls) == 3:
            raise error

    monkeypatch.setattr(kind, where, fail)
    with nothing_left(tmp_path), pytest.raises(error if isinstance(error, type) else OSError) as caught:
        learner.transform(chunks, out=tmp_path / name)
    if where == "_write" and isinstance(error, OSError):
        assert "Nothing was written to" in caught.value.__notes__[0]


FULL = """
    import json, resource, sys
    import numpy as np
    from pathlib import Path
    from coupledict import DictionaryLearning

    folder, limit = Path(sys.argv[1]), int(sys.argv[2])
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 8))
    learner = DictionaryLearning(16, n_nonzero_coefs=8, max_iter=1, random_state=0, n_jobs=2).fit(X[:1000])
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for name in NAMES:
        try:
            learner.transform([X[:20_000], X[20_000:]], out=folder / name)
        except OSError as error:
            print(json.dumps([name, error.errno, str(error), getattr(error, "__notes__", [])]))
""".replace("NAMES", repr(NAMES))


def run_full(folder, limit):
    done = run_python(textwrap.dedent(FULL), folder, limit)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_full(found, folder, numbers):
    assert [name for name, *_ in found] == NAMES
    for name, number, message, notes in found:
        assert number in numbers, message
        assert notes == [f"Nothing was written to '{folder / name}'; what had been written elsewhere is removed."]
    assert os.listdir(folder) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of the size of files (resource)")
def test_a_file_that_may_not_grow(tmp_path):
    found = run_full(tmp_path, 500_000)
    assert_full(found, tmp_path, {27})
    assert all("File too large" in message for _, _, message, _ in found)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no mount")
def test_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small disk")
    try:
        found = run_full(disk, 0)
        assert_full(found, disk, {28})
        assert all("No space left on device" in message for _, _, message, _ in found)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_the_samples_are_not_touched(tmp_path, learner, views, sizes):
    sizes(large_bytes=0)
    for v, view in enumerate(views):
        np.save(tmp_path / f"{v}.npy", view)
    before = [hashlib.sha256((tmp_path / f"{v}.npy").read_bytes()).digest() for v in (0, 1)]
    given = [np.load(tmp_path / f"{v}.npy", mmap_mode="r+") for v in (0, 1)]
    assert coupledict.CodeFile is type(learner.transform(given, out=tmp_path / "codes"))
    assert [hashlib.sha256((tmp_path / f"{v}.npy").read_bytes()).digest() for v in (0, 1)] == before
