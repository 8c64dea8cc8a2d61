"""Model files: exact round trips, writes that happen whole or not at all, and a clear word for every damaged file."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import pickle
import re
import stat
import sys
import warnings

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load, load_file, save

from coupledict.files import models as model_io
from coupledict.files import whole
from coupledict.files.models import ModelFileError, read_model, write_model
from coupledict.files.tensors import read_tensors

METADATA = {
    "params": {"n_components": 4, "tol": 0.1 + 0.2, "schedule": None, "dc": True, "name": 'é "\\ 漢 \ud800'},
    "history": [{"seconds": 1e-300, "error": -0.0, "unused": 0}, {}],
    "big": 2**80,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def tensors(rng):
    return {
        "components/0": rng.standard_normal((4, 9)),
        "components/1": rng.standard_normal((3, 5)).astype(np.float32),
        "counts": rng.integers(-(2**62), 2**62, size=7),
    }


def assert_same(tensors, expected):
    """Equal in names, dtypes, shapes and bits: -0.0 is not 0.0."""
    assert tensors.keys() == expected.keys()
    for name, array in expected.items():
        assert tensors[name].dtype == array.dtype
        assert tensors[name].shape == array.shape
        assert tensors[name].tobytes() == array.tobytes()


def write_raw(path, tensors, **marks):
    """Write a safetensors file with the marks of a model, changed as asked; None leaves a mark out."""
    text = marks.get("metadata") or "{}"
    all_marks = {"format": "coupledict", "format_version": "1", "metadata": "{}"}
    all_marks["checksum"] = model_io._checksum(tensors, text)
    all_marks |= marks
    path.write_bytes(save(tensors, metadata={key: mark for key, mark in all_marks.items() if mark is not None}))


def header_length(contents):
    """Return where the data of a safetensors file begin."""
    return 8 + int.from_bytes(contents[:8], "little")


def assert_refused(path, words):
    with pytest.raises(ModelFileError, match=words) as caught:
        read_model(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert ". " not in message, "one sentence"


def test_comparison_sees_the_last_bit():
    one, other = {"x": np.array([1.0])}, {"x": np.array([np.nextafter(1.0, 2.0)])}
    with pytest.raises(AssertionError):
        assert_same(one, other)
    with pytest.raises(AssertionError):
        assert_same({"x": np.array([0.0])}, {"x": np.array([-0.0])})


# Round trips


def test_round_trip(path, tensors):
    write_model(path, tensors, METADATA)
    read, metadata = read_model(str(path))
    assert_same(read, tensors)
    assert metadata == METADATA
    assert list(read) == sorted(tensors)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_values(path, dtype):
    info = np.finfo(dtype)
    values = {"x": np.array([-0.0, 0.0, info.max, info.min, info.tiny, info.smallest_subnormal, 1 / 3], dtype)}
    write_model(path, values, {})
    assert_same(read_model(path)[0], values)


def test_nothing(path):
    write_model(path, {}, {})
    assert read_model(path) == ({}, {})


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1, 2, 3, 4)])
def test_any_shape(path, shape):
    values = {"x": np.full(shape, 2.5)}
    write_model(path, values, {})
    assert_same(read_model(path)[0], values)


@pytest.mark.parametrize(
    "change",
    [np.transpose, np.asfortranarray, lambda x: x[::2, ::-1], lambda x: np.broadcast_to(x[:1], x.shape)],
    ids=["transposed", "fortran", "strided", "broadcast"],
)
def test_non_contiguous(path, rng, change):
    array = change(rng.standard_normal((6, 4)))
    before = array.copy()
    write_model(path, {"x": array}, {})
    assert_same(read_model(path)[0], {"x": before})
    np.testing.assert_array_equal(array, before)


def test_read_only_and_memory_mapped(path, tmp_path, rng):
    array = rng.standard_normal((3, 4))
    np.save(tmp_path / "array.npy", array)
    write_model(path, {"x": np.load(tmp_path / "array.npy", mmap_mode="r")}, {})
    assert_same(read_model(path)[0], {"x": array})


def test_arrays_that_were_read_are_free_of_the_file(path, tensors):
    write_model(path, tensors, {})
    read, _ = read_model(path)
    path.write_bytes(b"")
    assert_same(read, tensors)
    for array in read.values():
        array[...] = 1  # the caller's own, to change


def test_same_model_same_bytes(path, tmp_path, tensors):
    write_model(path, tensors, METADATA)
    write_model(tmp_path / "again", dict(reversed(tensors.items())), METADATA)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_anyone_with_safetensors_can_open_it(path, tensors):
    write_model(path, tensors, METADATA)
    assert_same(load_file(path), tensors)
    contents = path.read_bytes()
    header = json.loads(contents[8 : header_length(contents)])
    starts = [header_length(contents) + header[name]["data_offsets"][0] for name in tensors]
    assert all(start % array.itemsize == 0 for start, array in zip(starts, tensors.values(), strict=True)), "aligned"
    with safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["metadata"]) == METADATA


# Writing


LONG = pytest.param(
    np.longdouble,
    marks=pytest.mark.skipif(np.dtype(np.longdouble) == np.float64, reason="longdouble is float64 on this system"),
)


@pytest.mark.parametrize("dtype", [np.float16, LONG, np.int32, np.uint64, np.bool_, complex, object, ">f8", "U3"])
def test_other_dtypes_are_refused(path, dtype):
    with pytest.raises(TypeError, match=r"Expected tensors\['x'\] to be of dtype float32, float64 or int64, got"):
        write_model(path, {"x": np.zeros(2, dtype)}, {})
    assert not path.exists()


@pytest.mark.parametrize("value", [[1.0, 2.0], 1.0, None, np.float64(1.0), np.ma.masked_array([1.0], [True])])
def test_what_is_no_array_is_refused(path, value):
    with pytest.raises(TypeError, match=r"Expected tensors\['x'\] to be an array, got"):
        write_model(path, {"x": value}, {})


def test_names_of_tensors(path):
    with pytest.raises(TypeError, match="names of tensors to be strings, got 0"):
        write_model(path, {0: np.zeros(2)}, {})
    with pytest.raises(ValueError, match="another name than '__metadata__'"):
        write_model(path, {"__metadata__": np.zeros(2)}, {})
    with pytest.raises(ValueError, match="surrogate"):
        write_model(path, {"\ud800": np.zeros(2)}, {})
    assert not path.exists()
    names = {name: np.zeros(2) for name in ["", " ", "é/漢", '"\\', "\n\x00", "format"]}
    write_model(path, names, {})
    assert_same(read_model(path)[0], names)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_could_not_be_read_is_not_written(path, value):
    with pytest.raises(ValueError, match=r"Expected tensors\['x'\] to be finite"):
        write_model(path, {"x": np.array([1.0, value])}, {})
    with pytest.raises(ValueError, match="Expected metadata that JSON can hold"):
        write_model(path, {}, {"x": value})
    assert not path.exists()


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("value", [np.int64(1), np.float32(1), np.zeros(2), (1, 2), {1: 2}, {1, 2}, b"x", deep()])
def test_what_json_would_change_is_refused(path, value):
    with pytest.raises(TypeError, match="Expected metadata to hold JSON values only"):
        write_model(path, {}, {"x": value})
    assert not path.exists()


def fail(*arguments, **keywords):
    raise OSError("disk full")


def interrupt(*arguments, **keywords):
    raise KeyboardInterrupt


class FailingFile(io.FileIO):
    """A file that breaks off after its beginning."""

    def writelines(self, parts):
        self.write(next(iter(parts)))
        fail()


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("failure", ["replace", "fsync", "write", "interrupt"])
def test_a_failed_write_changes_nothing(path, tensors, monkeypatch, failure, exists):
    if exists:
        write_model(path, tensors, METADATA)
    before = path.read_bytes() if exists else None
    with monkeypatch.context() as patch:
        if failure == "write":
            patch.setattr(whole, "open", FailingFile, raising=False)
        else:
            patch.setattr(
                os, "fsync" if failure == "fsync" else "replace", interrupt if failure == "interrupt" else fail
            )
        with pytest.raises(KeyboardInterrupt if failure == "interrupt" else OSError):
            write_model(path, {"x": np.zeros(3)}, {})
    assert os.listdir(path.parent) == ([path.name] if exists else [])
    if exists:
        assert path.read_bytes() == before


def test_the_file_is_complete_and_on_disk_before_it_gets_its_name(path, tensors, monkeypatch):
    synced = []
    sync, replace = os.fsync, os.replace

    def watched_sync(descriptor):
        synced.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    def watched_replace(source, target):
        assert synced == [os.path.getsize(source)]
        assert os.path.dirname(source) == os.path.dirname(target)
        assert_same(read_model(source)[0], tensors)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write_model(path, tensors, METADATA)
    assert os.listdir(path.parent) == [path.name]


def test_writing_replaces(path, tensors):
    write_model(path, {"old": np.zeros(1000)}, {"old": 1})
    write_model(path, tensors, METADATA)
    read, metadata = read_model(path)
    assert_same(read, tensors)
    assert metadata == METADATA


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes of this kind")
def test_permissions_are_those_of_any_new_file_or_of_the_old_one(path, tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    write_model(path, {}, {})
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o600)
    write_model(path, {}, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(sys.platform == "win32", reason="only administrators make symbolic links on Windows")
def test_a_link_stays_a_link(path, tmp_path, tensors):
    link = tmp_path / "link"
    link.symlink_to(path)
    write_model(link, tensors, {})
    assert link.is_symlink()
    assert_same(read_model(path)[0], tensors)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Expected the folder .*nowhere' to exist"):
        write_model(tmp_path / "nowhere" / "model", {}, {})


# Reading what is not a model


def test_missing_file_and_folder(path):
    with pytest.raises(FileNotFoundError):
        read_model(path)
    with pytest.raises(IsADirectoryError, match=re.escape(os.strerror(errno.EISDIR))):
        read_model(path.parent)


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"PK\x03\x04",
        b"\x00" * 8,
        b"a text that is no model, whatever its length may be",
        (2).to_bytes(8, "little") + b"[]",
        (2**63).to_bytes(8, "little") + b"{}",
        (3).to_bytes(8, "little") + b"{}",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
        (2**64 - 1).to_bytes(8, "little"),
    ],
)
def test_not_safetensors(path, contents):
    path.write_bytes(contents)
    assert_refused(path, "safetensors format")


def test_pickles_are_not_run(path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was run",))

    path.write_bytes(pickle.dumps(Bomb()))
    assert_refused(path, "safetensors format")


def test_header_longer_than_the_file(path, tensors):
    write_model(path, tensors, {})
    contents = path.read_bytes()
    path.write_bytes(len(contents).to_bytes(8, "little") + contents[8:])
    assert_refused(path, f"truncated at {len(contents)} bytes")


def header_of(*tensors):
    """Return a model file of these tensor descriptions and 16 bytes of data."""
    marks = {"format": "coupledict", "format_version": "1", "metadata": "{}", "checksum": ""}
    text = json.dumps({"__metadata__": marks, **{f"x{k}": tensor for k, tensor in enumerate(tensors)}}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(16)


@pytest.mark.parametrize(
    "contents",
    [
        header_of({"dtype": "F64", "shape": [3], "data_offsets": [0, 16]}),
        header_of({"dtype": "F64", "shape": [2**62, 2**62], "data_offsets": [0, 16]}),
        header_of({"dtype": "F64", "shape": [-2], "data_offsets": [0, 16]}),
        header_of({"dtype": "F64", "shape": [2], "data_offsets": [0, 2**40]}),
        header_of({"dtype": "F64", "shape": [2], "data_offsets": [16, 0]}),
        header_of({"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}),
        header_of({"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}, {"dtype": "F64", "shape": "no"}),
        header_of(
            {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]},
            {"dtype": "F64", "shape": [0, 2**63], "data_offsets": [16, 16]},
        ),
        header_of(
            {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]},
            {"dtype": "F64", "shape": [0] * 100, "data_offsets": [16, 16]},
        ),
        header_of({"dtype": "F64", "shape": [2**60] * 100_000, "data_offsets": [0, 16]}),
        header_of({"dtype": "F64", "shape": [True, 2], "data_offsets": [False, 16]}),
        header_of({"dtype": "F64", "shape": [2.0], "data_offsets": [0, 16]}),
        header_of({"dtype": "F64", "shape": [2], "data_offsets": [0, 16, 16]}),
        header_of({"dtype": "F64", "shape": [2]}),
        header_of([]),
        header_of(
            {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]},
            {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]},
        ),
        header_of(
            {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]},
        ),
    ],
)
def test_impossible_tensors(path, contents):
    path.write_bytes(contents)
    assert_refused(path, "damaged")


def test_no_description_is_read_that_safetensors_refuses(rng):
    """Random descriptions of 16 bytes: whatever is read here, safetensors reads to the same arrays."""
    data = rng.standard_normal(2).tobytes()
    n_read = 0
    for _ in range(3000):
        ends = [0, *sorted(rng.integers(0, 5, size=rng.integers(1, 3)) * 4), 16]
        described = {}
        for k, (start, end) in enumerate(itertools.pairwise(ends)):
            dtype = str(rng.choice(["F32", "F64", "I64"], p=[0.6, 0.2, 0.2]))
            size = (end - start) // (4 if dtype == "F32" else 8) + int(rng.random() < 0.02)
            shape = [int(size)] if rng.random() < 0.5 else [1, int(size)]
            described[f"x{k}"] = {"dtype": dtype, "shape": shape, "data_offsets": [int(start), int(end)]}
        text = json.dumps(described).encode()
        try:
            read = read_tensors(io.BytesIO(data), described, len(data))
        except ValueError:
            continue
        assert_same(read, load(len(text).to_bytes(8, "little") + text + data))
        n_read += 1
    assert 300 < n_read < 2700, "both kinds occurred"


@pytest.mark.parametrize("shape", [[-1, -1], [-1], [2**63], [True]])
def test_lengths_that_no_tensor_has(shape):
    about = {"dtype": "F64", "shape": shape, "data_offsets": [0, 8]}
    with pytest.raises(ValueError, match="impossible shape"):
        read_tensors(io.BytesIO(bytes(8)), {"tensor": about}, 8)


@pytest.mark.parametrize("marks", [{"format": None}, {"format": "pt"}, {"format": "Coupledict"}])
def test_safetensors_of_something_else(path, tensors, marks):
    write_raw(path, tensors, **marks)
    assert_refused(path, "to be a coupledict model, got a safetensors file of something else")


def test_safetensors_without_any_metadata(path, tensors):
    path.write_bytes(save(tensors))
    assert_refused(path, "something else")


@pytest.mark.parametrize("version", ["2", "10", "999"])
def test_newer_version(path, version):
    # A newer format may hold what this one cannot, so the version is told before anything else is found wrong.
    write_raw(path, {"x": np.zeros(2, np.float16)}, format_version=version, metadata="?", checksum=None)
    assert_refused(path, f"got version {version}, written by a newer coupledict; upgrade with: pip install")


@pytest.mark.parametrize("version", [None, "", "0", "-1", "one", "1.0", "²", "9" * 10_000])
def test_version_that_is_none(path, tensors, version):
    write_raw(path, tensors, format_version=version)
    assert_refused(path, "format version is not a number")


@pytest.mark.parametrize(
    "text", ["", "{", "{'a': 1}", '{"a": NaN}', '{"a": Infinity}', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"]
)
def test_metadata_that_is_not_json(path, tensors, text):
    write_raw(path, tensors, metadata=text, checksum=model_io._checksum(tensors, text))
    assert_refused(path, "metadata is not valid JSON")
    write_raw(path, tensors, metadata=None)
    assert_refused(path, "metadata is not valid JSON")


@pytest.mark.parametrize("text", ["[]", "1", "null", '"text"'])
def test_metadata_that_is_no_object(path, tensors, text):
    write_raw(path, tensors, metadata=text)
    assert_refused(path, "metadata is not a JSON object")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_not_finite(path, dtype, value):
    write_raw(path, {"good": np.zeros(3), "bad": np.array([0, value], dtype)})
    assert_refused(path, "tensor 'bad' holds NaN or infinity")


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint8, np.bool_])
def test_other_dtypes_are_not_read(path, dtype):
    write_raw(path, {"x": np.zeros(2, dtype)})
    assert_refused(path, "tensor 'x' is neither float32, float64 nor int64")


@pytest.mark.parametrize("checksum", [None, "", "0" * 64])
def test_checksum(path, tensors, checksum):
    write_raw(path, tensors)
    assert_same(read_model(path)[0], tensors)  # the helper writes what can be read
    write_raw(path, tensors, checksum=checksum)
    assert_refused(path, "do not match their checksum")


def test_checksum_covers_everything(tensors):
    x = np.arange(6.0)
    variants = [
        ({"x": x}, "{}"),
        ({"x": x}, "[]"),
        ({"y": x}, "{}"),
        ({"x": x.reshape(2, 3)}, "{}"),
        ({"x": x.view(np.int64)}, "{}"),
        ({"x": x[::-1].copy()}, "{}"),
        ({"x": x, "y": np.zeros(0)}, "{}"),
    ]
    assert len({model_io._checksum(*variant) for variant in variants}) == len(variants)


# Random damage: the right data or a ModelFileError, never anything else


def assert_survives(path, contents, tensors):
    """Return whether the damaged file was read."""
    path.write_bytes(contents)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            read, metadata = read_model(path)
        except ModelFileError:
            return False
    assert_same(read, tensors)
    assert metadata == METADATA
    return True


def test_random_truncations(path, tensors, rng):
    write_model(path, tensors, METADATA)
    whole = path.read_bytes()
    lengths = {*range(20), *rng.integers(0, len(whole), size=300).tolist(), len(whole) - 1}
    assert not any(assert_survives(path, whole[:length], tensors) for length in sorted(lengths))
    assert not assert_survives(path, whole + b"\x00", tensors)
    assert assert_survives(path, whole, tensors)


@pytest.mark.parametrize("part", ["length", "header", "data"])
def test_random_bit_flips(path, tensors, rng, part):
    write_model(path, tensors, METADATA)
    whole = path.read_bytes()
    data = header_length(whole)
    low, high = {"length": (0, 8), "header": (8, data), "data": (data, len(whole))}[part]
    bits = range(64) if part == "length" else rng.integers(8 * low, 8 * high, size=300).tolist()
    for bit in bits:
        contents = bytearray(whole)
        contents[bit // 8] ^= 1 << bit % 8
        read = assert_survives(path, bytes(contents), tensors)
        assert not (read and part == "data"), "every bit of the data counts"


def test_random_garbage_in_the_header(path, tensors, rng):
    write_model(path, tensors, METADATA)
    whole = path.read_bytes()
    data = header_length(whole)
    for _ in range(300):
        contents = bytearray(whole)
        start = int(rng.integers(8, data))
        garbage = rng.bytes(int(rng.integers(1, 20)))
        contents[start : start + len(garbage)] = garbage
        assert_survives(path, bytes(contents), tensors)
