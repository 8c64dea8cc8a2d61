"""Model files from strangers: refused in one sentence, never run, never larger in memory than a few times the file."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections import Counter
from pathlib import Path

import model_files
import numpy as np
import pytest
import reader_fuzz
from _models import forge

import coupledict
from coupledict import ModelFileError
from coupledict.files.models import FREE_COST, read_model, write_model
from support.programs import run_python


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def refused(path, read=coupledict.load, words=None):
    with pytest.raises(ModelFileError, match=words) as caught:
        read(path)
    model_files.check_sentence(caught.value)
    return str(caught.value)


def changed(kind, change):
    """Return the file of a kind with a lie in it, and a right checksum."""
    tensors, metadata = read_model(kind.path)
    change(tensors, metadata)
    return forge(tensors, metadata)


# Bytes


def test_cut_at_any_length(kinds, path):
    whole = kinds["single"].path.read_bytes()
    for length in {*range(400), *range(0, len(whole), 7), *range(len(whole) - 20, len(whole))}:
        path.write_bytes(whole[:length])
        refused(path)


@pytest.mark.slow
def test_random_damage_of_every_kind(kinds):
    found = model_files.run(216, 20)
    assert found["mutations"] == 216 == found["refused"] + found["believed, and it works"] + found.get("harmless", 0)
    assert found["refused"] > 120
    assert found["kinds"] == len(kinds)


def test_the_proof_sees_a_file_that_was_taken_for_what_it_was(kinds, tmp_path, monkeypatch):
    other = changed(kinds["single"], lambda tensors, metadata: metadata.update(version="other"))
    monkeypatch.setattr(model_files, "_damage", lambda kind, target, rng: (target.write_bytes(other), False))
    with pytest.raises(AssertionError, match=r"single, .*it was opened, though it has changed"):
        model_files._one(kinds["single"], tmp_path / "x", np.random.default_rng(0), Counter())


def test_the_fuzzer_is_left_out_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert reader_fuzz.run(10, 0) == {"skipped": "atheris is not installed"}


# Headers


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**62, 2**32, 100_000_001])
def test_headers_that_claim_to_be_long(kinds, path, length):
    contents = kinds["single"].path.read_bytes()
    path.write_bytes(length.to_bytes(8, "little") + contents[8:])
    refused(path, words="truncated")


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 1}}', '{"a": 1e400}', '{"a": ' * 5000 + "1"])
def test_metadata_that_readers_could_differ_about(kinds, path, text):
    path.write_bytes(forge({}, text))
    refused(path, words="metadata is not valid JSON")


MEMORY = """
import json, os, resource, sys
from coupledict import ModelFileError, load
from coupledict.files.models import read_model
grown = {}
for path in sys.argv[1:]:
    there, back = os.pipe()
    if os.fork() == 0:  # a process of its own, whose peak is that of this file
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            read_model(path)
            outcome = "opened"
        except ModelFileError as error:
            outcome = str(error)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.write(back, json.dumps([outcome, 1024 * (after - before)]).encode())
        os._exit(0)
    os.close(back)
    grown[path] = json.loads(os.read(there, 10_000))
    os.wait()
print(json.dumps(grown))
"""


def big_files():
    """Yield files that are small beside what a careless reader would make of them, and ones that are just large."""
    too_many, n = "more values than any model has", 450_000
    yield "lists", forge({}, '{"a": [' + "[]," * n + "[]]}"), too_many
    yield "objects", forge({}, '{"a": [' + '{"":0},' * n + "0]}"), too_many
    yield "strings", forge({}, '{"a": [' + '"ab",' * 5 * n + "0]}"), too_many
    hidden = forge({}, '{"a": [' + "[]," * 2 * n + "[]]}")[8:].replace(b"[],", rb"\u005b\u005d\u002c")
    yield "hidden lists", len(hidden).to_bytes(8, "little") + hidden, too_many
    yield "as many lists as may be", forge({}, '{"a": [' + "[]," * 390_000 + "[]]}"), "opened"
    yield "a long string", forge({}, '{"a": "' + "x" * 4_000_000 + '\\ud83d\\ude00"}'), "opened"
    # Characters beyond Latin-1 make Python keep strings with 4 bytes per character.
    most, emoji = 60 << 20, "\\ud83d\\ude00"
    for name, contents, words in (
        ("with an emoji", "x" * most + "\N{GRINNING FACE}", "not plain ASCII"),
        ("of emoji", "\N{GRINNING FACE}" * (most // 4), "not plain ASCII"),
        ("with an escaped emoji", "x" * most + emoji, "opened"),
        ("of escapes", "\\u0100" * (most // 7), "opened"),
        (
            "of lists and an escaped emoji",
            '", ' + "[0]," * 1_400_000 + '"' + "x" * (most - 5_600_000) + emoji,
            "opened",
        ),
    ):
        yield f"60 MiB {name}", forge({}, f'{{"a": ["{contents}"]}}'), words
    hidden = forge({}, '{"a": "' + "x" * most + '"}')[8:].replace(b"xxxxxx", rb"\u0100", 1)
    yield "60 MiB with an escape of the header", len(hidden).to_bytes(8, "little") + hidden, "not plain ASCII"
    names = {f"{k}\N{GRINNING FACE}" * 250: np.zeros(0) for k in range(2_000)}
    yield "long names", forge(names, {}), "opened"
    yield "tensors", forge({str(k): np.zeros(0) for k in range(15_000)}, {}), "opened"
    yield "a large model", forge({"x": np.ones((2000, 2000))}, {}), "opened"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_memory_is_bounded_by_the_size_of_the_file(tmp_path):
    expected = {str(tmp_path / "zeros"): "more than 100000000"}
    (tmp_path / "zeros").write_bytes((100 << 20).to_bytes(8, "little"))
    os.truncate(tmp_path / "zeros", (100 << 20) + 8)
    for name, contents, words in big_files():
        (tmp_path / name).write_bytes(contents)
        expected[str(tmp_path / name)] = words
    done = run_python(MEMORY, *expected, seconds=200)
    assert done.returncode == 0, done.stderr
    for file, (outcome, grown) in json.loads(done.stdout).items():
        size = os.path.getsize(file)
        assert any(word in outcome for word in expected[file].split("|")), (file, outcome)
        assert grown <= 8 * size + FREE_COST, (file, grown, size)
        if file.endswith("a large model"):
            assert grown <= 2.5 * size + (8 << 20), (grown, size)
        os.remove(file)


def test_headers_are_as_long_as_they_may_be(path):
    """What is written can be read, up to the longest header; what is longer is written by nobody."""
    longest = 1 << 16
    write_model(path, {}, {"a": "x" * (longest - 1000)}, longest_header=longest)
    assert len(read_model(path, longest_header=longest)[1]["a"]) == longest - 1000
    with pytest.raises(ModelFileError, match=f"it has a header of .* bytes, more than {longest - 1000}"):
        read_model(path, longest_header=longest - 1000)
    with pytest.raises(ValueError, match="Expected fewer tensors and less metadata, got a header of"):
        write_model(path, {}, {"b": "x" * longest}, longest_header=longest)
    assert "a" in read_model(path)[1]


def with_header(contents, change):
    """Return a file whose header is changed as text."""
    end = 8 + int.from_bytes(contents[:8], "little")
    text = change(contents[8:end].decode()).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + contents[end:]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(
            '"components.0":', '"components.0":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},"components.0":'
        ),
        lambda text: text.replace(
            '"components.0":', r'"c\u006fmponents.0":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},"components.0":'
        ),
        lambda text: text.replace('{"__metadata__":', '{"__metadata__":{"format":"coupledict"},"__metadata__":', 1),
        lambda text: text.replace('"format":"coupledict"', '"format":"other","format":"coupledict"', 1),
        lambda text: text.replace('"checksum":', '"checksum":"","checksum":', 1),
        lambda text: text.replace('"dtype":"F64"', '"dtype":"F32","dtype":"F64"', 1),
    ],
)
def test_no_key_of_a_header_may_come_twice(kinds, path, change):
    """Readers differ in which of two they use: what one has checked, another would not see."""
    contents = kinds["coupled"].path.read_bytes()
    path.write_bytes(with_header(contents, lambda text: text))
    assert coupledict.load(path).components_[0].shape == (6, 4)
    forged = with_header(contents, change)
    assert len(forged) > len(contents)
    path.write_bytes(forged)
    refused(path, words="not in the safetensors format or is damaged")


@pytest.mark.parametrize(
    "text", ["", "[]", "0", '"x"', "null", "{", '{"__metadata__": []}', '{"__metadata__": {"format": 1}}', "\ufeff{}"]
)
def test_headers_that_are_none(path, text):
    path.write_bytes(len(text.encode()).to_bytes(8, "little") + text.encode())
    refused(path)


def test_what_could_not_be_read_is_not_written(path):
    with pytest.raises(ValueError, match="Expected fewer tensors and less metadata"):
        write_model(path, {}, {"a": [{}] * 250_000})
    assert not path.exists()
    write_model(path, {}, {"history": [{"seconds": 1.0, "objective": 12345.678, "view_errors": [1.5, 2.5]}] * 20_000})
    assert len(read_model(path)[1]["history"]) == 20_000


# Lies with a right checksum


def test_honest_forgeries_are_opened(kinds, path):
    """The helper can write what is right: what it writes below is refused for the lie alone."""
    for kind in kinds.values():
        if kind.path.is_file():
            path.write_bytes(changed(kind, lambda tensors, metadata: None))
            assert all(np.isfinite(array).all() for array in kind.use(kind.open(path))), kind.name


def test_another_format_version_of_any_kind_is_refused(kinds, path):
    for kind in kinds.values():
        if kind.path.is_file():
            path.write_bytes(forge(*read_model(kind.path), version="2"))
            refused(path, kind.open, "of format version 1, got version 2, written by a newer coupledict")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_tensor_of_any_kind_may_hold_what_is_no_number(kinds, path, value):
    n = 0
    for kind in kinds.values():
        if kind.path.is_dir():
            continue
        tensors, metadata = read_model(kind.path)
        for name, array in tensors.items():
            if array.dtype.kind == "f" and array.size:
                bad = array.copy()
                bad.reshape(-1)[-1] = value
                path.write_bytes(forge(tensors | {name: bad}, metadata))
                refused(path, kind.open, "holds NaN or infinity")
                n += 1
    assert n > 50


OPTIONAL = {"version", "stream", "refit.0.1", "refit.1.0", "atom_classes"}
OPTIONAL_IN = {
    # Of the model; a fit is taken up from atoms of its own, and finds the standardization again.
    "checkpoint": {f"{name}.{v}" for name in ("components", "standard.offsets", "standard.factors") for v in (0, 1)},
    "checkpoint as a model": {"checkpoint", "checkpoint.atoms.0", "checkpoint.atoms.1"},
}


def test_every_tensor_and_every_entry_is_missed(kinds, path):
    for kind in kinds.values():
        if kind.path.is_dir():
            continue
        tensors, metadata = read_model(kind.path)
        for name in {*tensors, *metadata} - OPTIONAL - OPTIONAL_IN.get(kind.name, set()):
            parts = [{key: value for key, value in part.items() if key != name} for part in (tensors, metadata)]
            path.write_bytes(forge(*parts))
            refused(path, kind.open)


@pytest.mark.parametrize(
    "name",
    ["os.system", "builtins.eval", "../../evil", "antigravity", "coupledict.cli.main", "__main__", "", "\x00", 0, None],
)
def test_names_of_estimators_are_not_imported(kinds, path, name):
    path.write_bytes(changed(kinds["single"], lambda tensors, metadata: metadata.update(estimator=name)))
    before = set(sys.modules)
    refused(path, words="unknown estimator|it has no|does not name its estimator")
    assert set(sys.modules) == before


PARAMETERS = {
    "n_jobs": [10**9, "many", 0, [1]],
    "max_iter": [2**63, 0, 1.5, "1", None],
    "n_components": [10**400, -1, True, [6]],
    "random_state": [-1, "0", [1, 2], 1.5],
    "verbose": [{}, [{}], "x" * 1000, 10**30],
    "warm_start": [7, "yes", None],
    "schedule": [[[1]], {"a": 1}, [2**70, 1]],
    "view_weights": [["a"], [[1]], {"0": 1}],
    "init": [{"module": "os"}, [None]],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in PARAMETERS.items() for value in values])
def test_parameters_that_are_none(kinds, path, name, value):
    path.write_bytes(changed(kinds["coupled"], lambda tensors, metadata: metadata["parameters"].update({name: value})))
    refused(path, words=name)


def place(**state):
    return lambda tensors, metadata: metadata["checkpoint"].update(state)


def generator(**state):
    return lambda tensors, metadata: metadata["checkpoint"].update(generator=state)


MT = {"key": [1] * 624, "pos": 625}
PHILOX = {"counter": [0] * 4, "key": [0] * 2}


@pytest.mark.parametrize(
    "lie",
    [
        place(iteration=-1),
        place(iteration=10**6),
        place(place=-1),
        place(place=2**70),
        place(order=[0, 1, 0, 0]),
        place(order=[40, 20, 0, 40]),
        place(order=[40, 2**62 + 1, 0, 40]),
        place(order=[40, 7, 40, 40]),
        place(order=[40, 7, 0, 10**9]),
        place(order="abcd"),
        place(n_samples="40"),
        generator(bit_generator="os.system"),
        generator(bit_generator="MT19937", state=MT),
        generator(bit_generator="MT19937", state=MT | {"pos": -5}),
        generator(bit_generator="MT19937", state=MT | {"pos": 2**40}),
        generator(bit_generator="MT19937", state={"key": [1] * 10, "pos": 3}),
        generator(bit_generator="Philox", state=PHILOX, buffer=[0] * 4, buffer_pos=-100_000, has_uint32=0, uinteger=0),
        generator(bit_generator="Philox", state=PHILOX, buffer=[0] * 4, buffer_pos=5, has_uint32=0, uinteger=0),
        lambda tensors, metadata: metadata["history"][0].pop("seconds"),
        lambda tensors, metadata: metadata["history"][0].update(objective="low"),
        lambda tensors, metadata: tensors.update(view_weights=-tensors["view_weights"]),
    ],
)
def test_checkpoints_that_lie(kinds, path, lie):
    kind = kinds["checkpoint"]
    path.write_bytes(changed(kind, lie))
    refused(path, kind.open, "to hold a complete checkpoint, but")


def test_numbers_that_leave_no_room_are_refused_or_work(kinds, path):
    """The largest numbers in every tensor: results are finite, or the file is not opened."""
    n_refused = 0
    for kind in kinds.values():
        if kind.path.is_dir():
            continue
        tensors, metadata = read_model(kind.path)
        for name, array in tensors.items():
            if array.dtype.kind != "f" or not array.size:
                continue
            path.write_bytes(forge(tensors | {name: np.full_like(array, 0.9 * np.finfo(array.dtype).max)}, metadata))
            try:
                found = kind.open(path)
            except ModelFileError:
                n_refused += 1
            except ValueError:
                assert kind.name == "checkpoint"
            else:
                model_files._works(kind, found)
    assert n_refused > 30


def test_atoms_of_fusion_that_are_far_too_large(kinds, path):
    def enlarge(tensors, metadata):
        tensors["components.1"][3, 5] = 1e30

    path.write_bytes(changed(kinds["fusion"], enlarge))
    refused(path, words="'components.1' holds numbers beyond 1000")


def test_labels_of_very_different_lengths_do_not_fill_the_memory(kinds, path):
    """NumPy gives all labels the room of the longest: 4 GB here, and half of that before anything is compared."""
    labels = ["x" * 1_000_000, *map(str, range(1000))]
    path.write_bytes(
        changed(
            kinds["representation"],
            lambda tensors, metadata: metadata.update(classes=labels, classes_dtype="<U1000000"),
        )
    )
    refused(path, words="its labels are of the kind")


@pytest.mark.parametrize("kind", ["classifier", "representation", "matcher"])
@pytest.mark.parametrize(
    "dtype", [",U3", "(2,)U3", "__import__('os')", "U99999999", "O8", "V8", "M8[s]", "i4,i4", "(1)", None]
)
def test_kinds_of_labels_are_not_evaluated(kinds, path, kind, dtype):
    path.write_bytes(changed(kinds[kind], lambda tensors, metadata: metadata.update(classes_dtype=dtype)))
    refused(path, words="its labels are of the kind")


# What is no file


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes, devices and sockets among files")
def test_pipes_devices_and_sockets(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", words="a pipe or a device")
    for device in ("/dev/null", "/dev/zero", "/dev/tty"):
        if os.path.exists(device):
            refused(Path(device), words="a pipe or a device")
    with socket.socket(socket.AF_UNIX) as there:
        monkeypatch.chdir(tmp_path)  # names of sockets are short
        there.bind("socket")
        refused(tmp_path / "socket", words="a pipe or a device")


def test_folders_and_empty_files(tmp_path):
    with pytest.raises(IsADirectoryError):
        coupledict.load(tmp_path)
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", words="truncated at 0 bytes")


@pytest.mark.skipif(sys.platform == "win32", reason="only administrators make symbolic links on Windows")
def test_links(kinds, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        coupledict.load(tmp_path / "loop")
    (tmp_path / "link").symlink_to(kinds["single"].path)
    assert coupledict.load(tmp_path / "link").components_.shape == (6, 4)
