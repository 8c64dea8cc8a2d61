"""Codes from strangers, and pickles in the clothes of models and codes: nothing that a file brings is ever run."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from _models import forge

import coupledict
from coupledict import ModelFileError
from support.programs import run_python

ROOT = Path(__file__).resolve().parents[2]


SOURCES = sorted((ROOT / "src" / "coupledict").rglob("*.py"))
FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib.numpy_pickle"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


# Codes


@pytest.fixture
def codes(kinds, tmp_path):
    shutil.copytree(kinds["codes"].path, tmp_path / "codes")
    return tmp_path / "codes"


def part_of(codes, compressed=False, **arrays):
    """Change arrays of the only part."""
    file = codes / "part-000000.npz"
    with np.load(file, allow_pickle=False) as found:
        known = {name: found[name] for name in found.files}
    (np.savez_compressed if compressed else np.savez)(file, **known | arrays)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"data": np.full(80, np.nan)}, "NaN or infinity"),
        ({"data": np.zeros(79)}, "part 0 of 1"),
        ({"data": np.zeros(80, np.float32)}, "not of float64"),
        ({"data": np.array([None] * 80)}, "not a list of numbers"),
        ({"data": np.zeros(80, [("a", "f8")])}, "not a list of numbers"),
        ({"indices": np.full(80, 6, np.int32)}, "part 0 of 1"),
        ({"indices": np.full(80, -1, np.int32)}, "part 0 of 1"),
        ({"indptr": np.arange(41)[::-1]}, "part 0 of 1"),
        ({"indptr": np.zeros(3, np.int64)}, "rows are not complete"),
        ({"shape": np.array([2**62, 2**62])}, "to have shape"),
    ],
)
def test_parts_that_lie(codes, arrays, words):
    part_of(codes, **arrays)
    with pytest.raises(ModelFileError, match=words):
        coupledict.open_codes(codes).load()


def test_parts_that_unpack_to_more_than_they_are(codes):
    part_of(codes, compressed=True, data=np.zeros(10_000_000))
    assert (codes / "part-000000.npz").stat().st_size < 100_000
    with pytest.raises(ModelFileError, match="'data' is compressed"):
        coupledict.open_codes(codes).load()


def test_parts_that_claim_to_be_large(codes):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile(codes / "part-000000.npz", "w") as archive:
        for name in ("data", "indices", "indptr", "shape"):
            archive.writestr(f"{name}.npy", header.getvalue())
    with pytest.raises(ModelFileError, match="not a list of numbers"):
        coupledict.open_codes(codes).load()


def test_an_index_and_a_part_that_are_pipes(codes):
    (codes / "part-000000.npz").unlink()
    os.mkfifo(codes / "part-000000.npz")
    with pytest.raises(ModelFileError, match="a pipe or a device"):
        coupledict.open_codes(codes).load()
    (codes / "index.json").unlink()
    os.mkfifo(codes / "index.json")
    with pytest.raises(ModelFileError, match="a pipe or a device"):
        coupledict.open_codes(codes)


def test_the_number_of_nonzeros_is_checked(codes):
    about = json.loads((codes / "index.json").read_text())
    (codes / "index.json").write_text(json.dumps(about | {"nnz": about["nnz"] + 1}))
    with pytest.raises(ModelFileError, match="it claims 81 nonzeros and has 80"):
        coupledict.open_codes(codes).load()


# Nothing is run


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")


def clothes(folder, mark):
    """Yield files that hold a pickle, dressed as what is read."""
    loaded = pickle.dumps(Bomb(mark))
    array = np.empty(1, object)
    array[0] = Bomb(mark)
    yield "model.safetensors", loaded
    yield "model.pkl", loaded
    saved = io.BytesIO()
    np.save(saved, array, allow_pickle=True)
    yield "model.npy", saved.getvalue()
    packed = io.BytesIO()
    np.savez(packed, data=array, indices=array, indptr=array, shape=array, format=array)
    yield "model.npz", packed.getvalue()
    yield "header.safetensors", len(loaded).to_bytes(8, "little") + loaded
    yield (
        "behind.safetensors",
        forge({"x": np.frombuffer(loaded[: len(loaded) // 8 * 8], np.float64)}, {"estimator": "x"}),
    )


def test_pickles_in_any_clothes_are_not_run(kinds, codes, tmp_path):
    mark = tmp_path / "mark"
    pickle.loads(pickle.dumps(Bomb(mark))).close()
    assert mark.exists(), "the bomb works"
    mark.unlink()
    for name, contents in clothes(tmp_path, mark):
        (tmp_path / name).write_bytes(contents)
        for read in {kind.open for kind in kinds.values() if kind.path.is_file()}:
            with pytest.raises(ModelFileError):
                read(tmp_path / name)
        (codes / "part-000000.npz").write_bytes(contents)
        with pytest.raises(ModelFileError):
            coupledict.open_codes(codes).load()
        (codes / "index.json").write_bytes(contents)
        with pytest.raises(ModelFileError):
            coupledict.open_codes(codes)
        shutil.copytree(kinds["codes"].path, codes, dirs_exist_ok=True)
    assert not mark.exists()


@pytest.mark.parametrize(
    "codec", [{"filters": [{"id": "pickle"}], "compressor": None}, {"filters": None, "compressor": {"id": "pickle"}}]
)
@pytest.mark.parametrize("dtype", ["|O", "<f8"])
def test_zarr_arrays_that_name_pickle_are_not_read(kinds, tmp_path, codec, dtype):
    """An older Zarr format knows pickle as a filter; we write and read the newer one, with one codec."""
    pytest.importorskip("zarr")
    group, mark = tmp_path / "codes.zarr", tmp_path / "mark"
    about = json.loads((kinds["codes in Zarr"].path / "zarr.json").read_text())["attributes"]
    for name in ("data", "indices", "indptr"):
        (group / name).mkdir(parents=True)
        header = {"zarr_format": 2, "shape": [72], "chunks": [72], "dtype": dtype, "fill_value": 0, "order": "C"}
        (group / name / ".zarray").write_text(json.dumps(header | codec))
        (group / name / "0").write_bytes(pickle.dumps([Bomb(mark)] * 72))
    (group / ".zgroup").write_text('{"zarr_format": 2}')
    (group / ".zattrs").write_text(json.dumps(about))
    with pytest.raises(ModelFileError):
        coupledict.open_codes(group).load()
    for file in ("zarr.json", "data/zarr.json", "indices/zarr.json", "indptr/zarr.json"):
        shutil.copy(kinds["codes in Zarr"].path / file, group / file)
    header = json.loads((group / "data" / "zarr.json").read_text())
    header["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    (group / "data" / "zarr.json").write_text(json.dumps(header))
    with pytest.raises(ModelFileError, match="'data' is not one of codes"):
        coupledict.open_codes(group).load()
    assert not mark.exists()


WATCHED = """
import pickle, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from _models import make_kinds
with tempfile.TemporaryDirectory() as folder:
    kinds = make_kinds(Path(folder))
    seen = []
    sys.addaudithook(lambda event, arguments: seen.append(event) if event.startswith("pickle.") else None)
    for kind in kinds:
        list(kind.use(kind.open(kind.path)))
    assert not seen, seen
    pickle.loads(pickle.dumps(Path("a")))
    assert seen == ["pickle.find_class"], "the hook sees what is unpickled"
print(len(kinds))
"""


@pytest.mark.slow
def test_nothing_is_unpickled_while_models_are_opened_and_used():
    done = run_python(WATCHED, ROOT / "torture")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "19"


def faults(tree):
    """Yield what could run code that a file brings along."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {name.name}" for name in node.names if name.name in FORBIDDEN_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in FORBIDDEN_MODULES:
            yield f"from {node.module} import"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in FORBIDDEN_CALLS or called.endswith(("joblib.load", "load_npz", "read_pickle")):
                yield called
            if called in ("np.load", "numpy.load"):
                given = {word.arg: word.value for word in node.keywords}
                value = given.get("allow_pickle")
                if not (isinstance(value, ast.Constant) and value.value is False):
                    yield "np.load without allow_pickle=False"


def test_no_source_imports_pickle_or_runs_text():
    assert len(SOURCES) > 80
    for file in SOURCES:
        text = file.read_text()
        assert list(faults(ast.parse(text))) == [], file
        assert "pickle" not in "".join(line for line in text.splitlines() if "import" in line), file


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import marshal",
        "eval('1')",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "joblib.load(path)",
        "scipy.sparse.load_npz(file)",
    ],
)
def test_the_search_finds_what_it_looks_for(text):
    assert len(list(faults(ast.parse(text)))) == 1
