"""Atheris on the model reader: inputs that follow the branches of the code, half of them with a forged checksum.

Random mutations rarely pass a checksum. Here libFuzzer keeps the inputs that reach new lines of the reader and changes
these further; the mutator knows the structure of a model file, changes its metadata or its header as text, and corrects
the checksum.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS, MEGABYTES, LONGEST = 10, 1024, 1 << 15  # that one input may take, and have
INSTRUMENTED = [
    "coupledict.files.models",
    "coupledict.files.state",
    "coupledict.files.packing",
    "coupledict.loading",
    "coupledict.estimators.saving",
    "coupledict.learning.fitted",
    "coupledict.images._fusion",
    "coupledict.images._sr_model",
    "coupledict.images._super_resolution",
    "coupledict.audio._bands",
    "coupledict.audio._bandwidth",
    "coupledict.classification._coupled",
    "coupledict.classification._file_checks",
    "coupledict.classification._recognizer",
    "coupledict.classification._residuals",
    "coupledict.classification._scaling",
    "coupledict.matching._fitted",
    "coupledict.matching._mapped",
    "coupledict.matching._matcher",
    "coupledict.matching._whitening",
]
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import reader_fuzz
reader_fuzz.fuzz(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
"""


def run(count: int, seed: int) -> dict[str, object]:
    """Fuzz the reader with `count` inputs, in a process of its own; raise an AssertionError for one it cannot take."""
    if importlib.util.find_spec("atheris") is None:
        return {"skipped": "atheris is not installed"}
    from _models import make_kinds

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("made", "corpus"):
            (folder / part).mkdir()
        for number, kind in enumerate(kind for kind in make_kinds(folder / "made") if kind.path.is_file()):
            if kind.path.stat().st_size <= LONGEST:
                (folder / "corpus" / str(number)).write_bytes(kind.path.read_bytes())
        child = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(count), str(seed), name]
        done = subprocess.run(child, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            crashes = [file.read_bytes()[:2000] for file in folder.glob("crash-*")]
            raise AssertionError(f"seed {seed}: {done.stdout[-2000:]}{done.stderr[-3000:]}\n{crashes}")
        seen = json.loads((folder / "seen.json").read_text())
    reached = re.findall(r"cov: (\d+)", done.stderr)
    return {"inputs": sum(seen.values()), **seen, "branches reached": int(reached[-1]) if reached else 0}


def fuzz(count: int, seed: int, name: str) -> None:
    """Fuzz in this process, which ends with it."""
    import atheris

    import coupledict

    for name_of_module in INSTRUMENTED:  # not while importing: editable installs have loaders of their own
        for function in _functions(importlib.import_module(name_of_module)):
            atheris.instrument_func(function)
    folder = Path(name)
    path, seen = folder / "input", Counter[str]()

    def test(contents: bytes) -> None:
        path.write_bytes(contents)
        try:
            coupledict.load(path)
            seen["opened"] += 1
        except coupledict.ModelFileError as error:
            assert "\n" not in str(error) and len(str(error)) < 1500, str(error)[:500]
            seen["refused"] += 1
        if sum(seen.values()) % 100 == 0 or sum(seen.values()) >= count:
            (folder / "seen.json").write_text(json.dumps(seen))

    def mutate(contents: bytes, longest: int, number: int) -> bytes:
        rng = random.Random(number)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(contents, longest))
        try:
            return _forged(contents, rng, atheris)[:longest]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError):
            return bytes(atheris.Mutate(contents, longest))

    options = [
        sys.argv[0],
        f"-runs={count}",
        f"-seed={seed + 1}",  # 0 would be a random one
        f"-max_len={LONGEST}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={folder}{os.sep}",
        str(folder / "corpus"),
    ]
    atheris.Setup(options, test, custom_mutator=mutate)
    atheris.Fuzz()


def _functions(module: Any) -> Iterator[Any]:
    """Yield the functions of a module, and the methods of its classes."""
    for place in (module, *(cls for cls in vars(module).values() if inspect.isclass(cls))):
        for entry in vars(place).values():
            function = getattr(entry, "__func__", entry)  # of class methods
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                yield function


def _forged(contents: bytes, rng: random.Random, atheris: Any) -> bytes:
    """Change the metadata, or what is said of a tensor, and make the checksum right again."""
    import numpy as np
    from _models import header_length

    from coupledict.files import models

    end = header_length(contents)
    header = json.loads(contents[8:end])
    marks = header["__metadata__"]
    names = sorted(set(header) - {"__metadata__"})
    if rng.random() < 0.6 or not names:
        text = marks["metadata"].encode()
        if rng.random() < 0.5:  # a value or a name, as text
            spans = [found.span() for found in re.finditer(rb'"[^"]*"|-?\d[\d.e+-]*|true|false|null', text)]
            start, stop = rng.choice(spans)
            text = text[:start] + bytes(atheris.Mutate(text[start:stop], stop - start + 8)) + text[stop:]
        else:
            text = bytes(atheris.Mutate(text, len(text) + 50))
        marks["metadata"] = text.decode(errors="replace")
    else:
        about = header[rng.choice(names)]
        shape = list(about["shape"])
        changes = [shape[::-1], [*shape, 1], [1, *shape], [int(np.prod(shape))], [2 * size for size in shape]]
        about["shape"] = rng.choice(changes)
        if rng.random() < 0.3:
            about["dtype"] = rng.choice(sorted(models.DTYPES))
    tensors = {}
    for name in names:
        start, stop = (end + offset for offset in header[name]["data_offsets"])
        kind = models.DTYPES[header[name]["dtype"]]
        tensors[name] = np.frombuffer(contents[start:stop], kind).reshape(header[name]["shape"])
    marks["checksum"] = models._checksum(tensors, marks["metadata"])
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + contents[end:]


if __name__ == "__main__":
    from _main import main

    main(run, 20_000)
