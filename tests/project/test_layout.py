"""Tests do not know where code stands: folders are rooms, rooms use public names of others, no constant is patched."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

import coupledict

TESTS = Path(__file__).parents[1]
ROOMS = {room.name for room in Path(coupledict.__file__).parent.iterdir() if room.is_dir()}
OTHER_FOLDERS = {"support", "project", "torture", "foreign"}
PUBLIC = {*coupledict._MODULES, "images.metrics"}
FOR_ALL_TESTS = "coupledict.foundation.block_sizes.SIZES"
#: Tests that use private modules of other rooms, and why.
ALLOWED = {
    "files/test_written_files.py": "all writers of the package keep the promises of files.whole",
    "project/test_documentation.py": "a page adds an update of its own",
    "project/test_readme.py": "the README names the commands",
    "serve/test_tasks.py": "the page offers what a command does, and aligns pictures as fusion does",
}


@functools.cache
def read(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def statements(tree):
    """Yield all statements, also those inside others; quicker than a walk through expressions, too."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for node in getattr(tree, name, ()):
            yield node
            yield from statements(node)


def imports_of(tree):
    """Yield the dotted names that a file imports: modules, and what is taken from them."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_private(name, room):
    """Whether `name`, as imported, lies in a module of the package that is neither public nor in this room."""
    package, _, inside = name.partition(".")
    if package != "coupledict" or not inside or name == FOR_ALL_TESTS:
        return False
    first = inside.split(".")[0]
    if first == room:
        return False
    if first not in PUBLIC:
        return first in ROOMS or (Path(coupledict.__file__).parent / f"{first}.py").exists()
    module = inside.rpartition(".")[0]
    return module not in {"", *PUBLIC} or inside.rpartition(".")[2].startswith("_")


def private_imports(tree, room):
    return sorted({name for name in imports_of(tree) if is_private(name, room)})


def constants_patched(tree):
    """Return the upper-case names of the package that ``setattr`` of a `MonkeyPatch` aims at."""
    ours, calls = {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                ours[alias.asname or alias.name.split(".")[0]] = f"{module}{alias.name}".startswith("coupledict")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            calls.append(node.args)
    found = []
    for target, *rest in calls:
        if isinstance(target, ast.Constant) and str(target.value).startswith("coupledict."):
            name = target.value.rpartition(".")[2]
        else:
            while isinstance(target, ast.Attribute):
                target = target.value
            aims = isinstance(target, ast.Name) and ours.get(target.id)
            name = rest[0].value if aims and isinstance(rest[0], ast.Constant) else ""
        if name.strip("_").isupper():
            found.append(name)
    return found


FILES = {file.relative_to(TESTS).as_posix(): file for file in sorted(TESTS.rglob("*.py"))}


def test_folders_are_rooms():
    folders = {Path(name).parts[0] for name in FILES if "/" in name}
    assert folders <= ROOMS | OTHER_FOLDERS


def test_private_modules_are_imported_by_tests_of_their_room_alone():
    tests = {name: read(file) for name, file in FILES.items() if file.name.startswith("test_")}
    rooms = {name: name.partition("/")[0] for name in tests}
    found = {name: imports for name, tree in tests.items() if (imports := private_imports(tree, rooms[name]))}
    unexpected = {name: imports for name, imports in found.items() if name not in ALLOWED}
    assert not unexpected, "use public names, or what tests/support has of other rooms"
    assert set(ALLOWED) <= set(found), "an exception that nobody needs any more"


def test_no_constant_is_patched():
    patching = {name: read(file) for name, file in FILES.items() if ".setattr(" in file.read_text(encoding="utf-8")}
    found = {name: constants for name, tree in patching.items() if (constants := constants_patched(tree))}
    assert not found, "make it an argument, or a size of foundation/block_sizes.py"


@pytest.mark.parametrize(
    ("line", "private"),
    [
        ("import coupledict", False),
        ("from coupledict import sparse_encode", False),
        ("from coupledict.images import imresize, metrics", False),
        ("from coupledict.images.metrics import psnr", False),
        ("import coupledict.model_selection as ours", False),
        ("from coupledict.coding.rule import CodingRule", False),  # of this room
        ("from coupledict.foundation.block_sizes import SIZES", False),
        ("from coupledict.foundation.block_sizes import BlockSizes", True),
        ("from coupledict.learning import engine", True),
        ("from coupledict import learning", True),
        ("from coupledict import loading", True),
        ("def inside():\n    from coupledict.foundation.mapped import in_memory", True),
        ("import coupledict.learning.loop", True),
        ("from coupledict.images._files import read_image", True),
        ("from coupledict.images import _files", True),
        ("from coupledict.files.models import read_model", True),
    ],
)
def test_what_is_private(line, private):
    assert bool(private_imports(ast.parse(line), "coding")) is private


@pytest.mark.parametrize(
    ("lines", "constants"),
    [
        ("from coupledict.data import blocks\nmonkeypatch.setattr(blocks, 'BLOCK_ROWS', 1)", ["BLOCK_ROWS"]),
        ("import coupledict\npatch.setattr(coupledict.data.blocks, '_ROWS', 1)", ["_ROWS"]),
        ("monkeypatch.setattr('coupledict.coding.gap.NUMBERS', 1)", ["NUMBERS"]),
        ("from coupledict.data import blocks\nmonkeypatch.setattr(blocks, 'load', None)", []),
        ("import kernels_alone\nmonkeypatch.setattr(kernels_alone, 'SHAPES', [])", []),
        ("import os\nmonkeypatch.setattr(os, 'replace', None)", []),
    ],
)
def test_what_is_a_patched_constant(lines, constants):
    assert constants_patched(ast.parse(lines)) == constants
