"""Damaged and forged model files of every kind: each is refused with one sentence, or is a model that works.

Bytes are removed, flipped, moved and inserted; headers and metadata are changed to absurd values; and most forgeries
have a valid checksum, since anyone can compute one. A file may be opened only if its contents have not changed, or,
with a forged checksum, if its contents are usable.
"""

from __future__ import annotations

import copy
import io
import json
import shutil
import signal
import sys
import tempfile
import tracemalloc
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from _models import Kind, forge, header_length, make_kinds

from coupledict import ModelFileError
from coupledict.files.models import read_model

SECONDS = 10  # that one file may take
MEMORY_TIMES, MEMORY_BYTES = 4, 1 << 20  # that opening may take: so many times the file, and so much besides
NASTY: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 2**53 + 1, 2**62, 2**63, -(2**63), 2**64, 10**30, 10**400),
    *(0.0, -0.5, 0.5, 1e-320, 1e308, 1e400),
    *("", "x", "0", "../../etc/passwd", "os.system", "__class__", "\x00\x1b[31m", "é" * 5000, "float32", "O", "object"),
    *([], [0], [[]], [1, 2, 3], ["a"], [None], {}, {"a": 1}, {"self": 1}),
    *("DictionaryLearning", "CoupledClassifier", "SuperResolution", "BandwidthExtension", "CrossModalMatcher"),
    *("lasso", "omp", "joint", "support", "mapped", "coupled"),
]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 1e-300, 1e-40, 1e-12, 1e10, 1e30, 3e38, 1e150, 1e300, 1.7e308, np.nan, np.inf, -np.inf]
SIZES = [0, 1, -1, 2, 3, 2**31, 2**32, 2**53, 2**61, 2**62, 2**63, 2**64, 10**25, 1.5, "1", None, [1]]


# Bytes


def cut(contents: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Keep the beginning."""
    length = int(rng.integers(len(contents)))
    return f"cut to {length} bytes", contents[:length]


def flip(contents: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Flip one bit or a few."""
    changed = bytearray(contents)
    end = min(len(contents), 600) if rng.random() < 0.3 else len(contents)  # headers deserve more of them
    bits = rng.integers(8 * end, size=int(rng.choice([1, 1, 1, 2, 8])))
    for bit in bits:
        changed[bit // 8] ^= 1 << int(bit % 8)
    return f"bits {bits.tolist()} flipped", bytes(changed)


def splice(contents: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Cut a piece out, or put one in."""
    a, b, c = sorted(int(place) for place in rng.integers(len(contents) + 1, size=3))
    piece = contents[a:b] if rng.random() < 0.5 else rng.bytes(int(rng.integers(1, 30)))
    how = str(rng.choice(["cut out", "inserted", "overwritten"]))
    if how == "cut out":
        return f"bytes {a} to {b} cut out", contents[:a] + contents[b:]
    rest = contents[c:] if how == "inserted" else contents[c + len(piece) :]
    return f"{len(piece)} bytes {how} at {c}", contents[:c] + piece + rest


def _length(contents: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    told = (
        int(rng.choice([0, 1, 7, 8, 100, len(contents), len(contents) - 8]))
        if rng.random() < 0.5
        else 2 ** int(rng.integers(64))
    )
    return f"a header of {told} bytes", told.to_bytes(8, "little") + contents[8:]


def _header(contents: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Change what the header says of the tensors; their bytes stay."""
    end = header_length(contents)
    header = json.loads(contents[8:end])
    names = [name for name in header if name != "__metadata__"]
    name = str(rng.choice(names))
    how = str(rng.choice(["dtype", "shape", "length", "data_offsets", "name", "without", "key", "mark"]))
    if how == "dtype":
        header[name]["dtype"] = str(
            rng.choice(["F32", "F64", "I64", "F16", "BF16", "I8", "BOOL", "U64", "F8_E4M3", "x", ""])
        )
    elif how == "shape":
        header[name]["shape"] = [_pick(SIZES, rng) for _ in range(int(rng.integers(5)))]
    elif how == "length":
        shape = header[name]["shape"]
        header[name]["shape"] = [shape[::-1], [*shape, 1], [int(np.prod(shape))], [1, *shape]][int(rng.integers(4))]
    elif how == "data_offsets":
        header[name]["data_offsets"][int(rng.integers(2))] = _pick(SIZES, rng)
    elif how == "name":
        header[_pick(["", "../x", "__metadata__", "components.0", "é", "a.b.c.d", "refit.9.9"], rng)] = header.pop(name)
    elif how == "without":
        del header[name]
    elif how == "key":
        header[name][_pick(["dtype", "more", "__reduce__"], rng)] = _pick(NASTY, rng)
    else:
        header["__metadata__"][_pick(["format", "format_version", "metadata", "checksum", "more"], rng)] = _pick(
            NASTY, rng
        )
    text = json.dumps(header).encode()
    return f"{how} of {name!r} in the header", len(text).to_bytes(8, "little") + text + contents[end:]


# Lies with a right checksum


def _pick(values: list[Any], rng: np.random.Generator) -> Any:
    return copy.deepcopy(values[int(rng.integers(len(values)))])


def _lie(told: Any, rng: np.random.Generator) -> str:
    """Change one entry somewhere in a JSON object."""
    place, path = told, ""
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(len(keys)))]
        path += f"[{key!r}]"
        inner = place[key]
        if not (isinstance(inner, dict | list) and inner) or rng.random() < 0.15:
            break
        place = inner
    how = int(rng.integers(5))
    if how == 0 and isinstance(place, dict):
        del place[key]
        return f"metadata without {path}"
    if how == 1 and isinstance(place, dict):
        name = _pick(
            ["more", "self", "callback", "../x", "__class__", "half", "stream", "feature_names_in", "0-1", "0-0"], rng
        )
        place[name] = place[key]
        return f"metadata with {name!r} beside {path}"
    if how == 2 and isinstance(inner, int | float):
        place[key] = inner + int(rng.integers(-2, 3)) if rng.random() < 0.5 else -inner
    else:
        place[key] = _pick(NASTY, rng)
    return f"metadata{path} = {str(place[key])[:60]!r}"


def _tensor_lie(tensors: dict[str, Any], rng: np.random.Generator) -> str:
    """Change one tensor."""
    name = str(rng.choice(list(tensors)))
    array = tensors[name]
    how = int(rng.integers(9))
    if how == 0:
        del tensors[name]
        return f"without {name!r}"
    if how == 1:
        other = _pick(
            [*tensors, "refit.0.1", "refit.1.1", "refit.0-1.0", "stream.a.0", "map.0.0.1", "components.9", "../../x"],
            rng,
        )
        tensors[other] = tensors.pop(name)
        return f"{name!r} called {other!r}"
    if how == 2:
        tensors[name] = array.astype(_pick([np.float32, np.float64, np.int64], rng))
    elif how == 3:
        tensors[name] = array.reshape(
            _pick([array.shape[::-1], (array.size,), (1, *array.shape), (*array.shape, 1)], rng)
        )
    elif how == 4 and array.size and array.ndim:
        tensors[name] = np.take(
            array, range(int(rng.integers(2 * len(array) + 1))), axis=int(rng.integers(array.ndim)), mode="wrap"
        )
    elif how == 5:
        tensors[name] = np.zeros(_pick([(), (0,), (0, 4), (4, 0), (0, 2**40), (1,), (1, 1)], rng), array.dtype)
    else:
        value = _pick(NUMBERS, rng)
        with np.errstate(all="ignore"):
            changed = array.copy()
            where = slice(None) if how == 6 else int(rng.integers(max(array.size, 1)))
            if array.size:
                if array.dtype.kind == "i":
                    limits = np.iinfo(array.dtype)
                    value = _pick([0, -1, 1, 5, limits.min, limits.max], rng)
                changed.reshape(-1)[where] = value
        tensors[name] = np.array(changed)
        return f"{value} in {name!r} ({where})"
    return f"{name!r} as {tensors[name].dtype} {tensors[name].shape}"


def _forged(contents: bytes, rng: np.random.Generator, folder: Path) -> tuple[str, bytes]:
    (folder / "right").write_bytes(contents)
    tensors, metadata = read_model(folder / "right")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of casts
        what = [
            _tensor_lie(tensors, rng) if rng.random() < 0.5 else _lie(metadata, rng)
            for _ in range(int(rng.integers(1, 3)))
        ]
    return " and ".join(what), forge(tensors, metadata)


def _forged_part(contents: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Return a part of codes with one array changed."""
    with np.load(io.BytesIO(contents), allow_pickle=False) as file:
        arrays: dict[str, Any] = {name: file[name] for name in ("data", "indices", "indptr", "shape")}
    what = _tensor_lie(arrays, rng)
    out = io.BytesIO()
    (np.savez if rng.random() < 0.8 else np.savez_compressed)(out, **arrays)
    return what, out.getvalue()


# The proof


class TooSlowError(BaseException):
    """A file that takes too long; not an Exception, which readers may take for damage."""


def late(number: int, frame: object) -> None:
    """Raise; what to do when the time is over."""
    raise TooSlowError(f"it took more than {SECONDS} seconds")


def _damage(kind: Kind, target: Path, rng: np.random.Generator) -> tuple[str, bool]:
    """Write a damaged copy; return what was done, and whether it has a checksum that is right."""
    if kind.path.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(kind.path, target)
        files = sorted(file for file in target.rglob("*") if file.is_file())
        file = files[int(rng.integers(len(files)))]
        contents = file.read_bytes()
        if rng.random() < 0.5 and file.suffix == ".json":
            told = json.loads(contents)
            what, contents = _lie(told, rng), json.dumps(told).encode()
        elif rng.random() < 0.5 and zipfile.is_zipfile(file):
            what, contents = _forged_part(contents, rng)
        else:
            what, contents = [cut, flip, splice][int(rng.integers(3))](contents, rng)
        file.write_bytes(contents)
        return f"{file.relative_to(target)}: {what}", True
    contents = kind.path.read_bytes()
    forged = rng.random() < 0.5
    if forged:
        what, contents = _forged(contents, rng, target.parent)
    else:
        what, contents = [cut, flip, flip, splice, _length, _header][int(rng.integers(6))](contents, rng)
    target.write_bytes(contents)
    return what, forged


def check_sentence(error: BaseException) -> None:
    """Raise unless an error is one short line."""
    text = str(error)
    ended = text.endswith((".", "pip install --upgrade coupledict"))  # a command is given to be copied
    assert text.startswith("Expected ") and ended and "\n" not in text and "\x1b" not in text, repr(text)
    assert len(text) < 1500, f"{len(text)} characters"


def _open(kind: Kind, path: Path) -> tuple[Any, int]:
    """Open a file; return what it holds, None if it is refused, and the memory that took."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = kind.open(path)
    except ModelFileError as error:
        check_sentence(error)
        found = None
    except ValueError as error:  # of samples and parameters that are not those that the file tells of
        assert kind.name == "checkpoint", f"{type(error).__name__}: {error}"
        found = None
    return found, tracemalloc.get_traced_memory()[1] - before


def _works(kind: Kind, found: Any) -> bool:
    """Use a model that was opened; tell whether it worked, or said in a ValueError why not."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for array in kind.use(found):
                assert np.isfinite(array).all(), "its results are not finite"
        except ModelFileError as error:  # parts of codes are read when they are asked for
            assert "codes" in kind.name, str(error)
            return False
        except ValueError as error:
            assert len(str(error)) < 1500, str(error)[:300]
    return True


def _same(one: Path, other: Path) -> bool:
    (tensors, metadata), (expected, told) = read_model(one), read_model(other)
    return (
        metadata == told
        and tensors.keys() == expected.keys()
        and all(
            (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
            for a, b in zip(tensors.values(), expected.values(), strict=True)
        )
    )


def _one(kind: Kind, target: Path, rng: np.random.Generator, seen: Counter[str]) -> float:
    """Damage, open and use one file; return the memory that opening took, in sizes of the file."""
    what = "being damaged"
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        what, forged = _damage(kind, target, rng)
        found, memory = _open(kind, target)
        size = sum(file.stat().st_size for file in (target.rglob("*") if target.is_dir() else [target]))
        assert memory <= MEMORY_TIMES * size + MEMORY_BYTES, f"{memory} bytes of memory for a file of {size}"
        if found is None or not _works(kind, found):
            seen["refused"] += 1
        elif forged:
            seen["believed, and it works"] += 1
        else:
            assert _same(target, kind.path), "it was opened, though it has changed"
            seen["harmless"] += 1
        return max(0, memory - MEMORY_BYTES) / max(size, 1)
    except (Exception, TooSlowError) as error:
        raise AssertionError(f"{kind.name}, {what}: {type(error).__name__}: {error}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run(count: int, seed: int) -> dict[str, object]:
    """Open `count` damaged files, of all kinds in turn; raise an AssertionError at the first that is taken amiss."""
    import resource  # not on Windows, where tests take the files that are made here

    seen: Counter[str] = Counter()
    largest = 0.0
    before = signal.signal(signal.SIGALRM, late)
    tracemalloc.start(1)
    try:
        with tempfile.TemporaryDirectory() as name:
            kinds = make_kinds(Path(name))
            scratch = Path(name) / "damaged"
            scratch.mkdir()
            top = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for number in range(count):
                kind = kinds[number % len(kinds)]
                rng = np.random.default_rng([seed, number])
                try:
                    largest = max(largest, _one(kind, scratch / kind.path.name, rng, seen))
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, number {number}: {error}") from error
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - top) / (
                1 << (20 if sys.platform == "darwin" else 10)
            )
    finally:
        tracemalloc.stop()
        signal.signal(signal.SIGALRM, before)
    return {
        "mutations": count,
        "kinds": len(kinds),
        **dict(sorted(seen.items())),
        "memory over file size, beyond 1 MB": round(largest, 1),
        "megabytes that the process grew by": round(grown),
    }


if __name__ == "__main__":
    from _main import main

    main(run, 10_000)
