"""A local channel of stand-ins for packages of conda-forge, so that the recipe can be built without its channels.

These are no packages of conda-forge. CPython is one of this machine, libraries are PyPI's wheels, repacked; the
compiler is this machine's, called by an activation script. They have the names that the recipe asks for, so that
rattler-build resolves, builds and tests it: what is shown is that the recipe is right, not how conda-forge's packages
behave.

    python tools/systems/conda_channel.py FOLDER PYTHON...    # as python3.12 python3.13
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from email import message_from_string
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rattler_build import assemble_package

ROOT = Path(__file__).resolve().parents[2]
SUBDIR = "linux-64"
# What the recipe takes beside the dependencies of the package.
TOOLS = ("pip", "setuptools", "wheel", "scikit-build-core", "nanobind", "abi3audit")
LEFT_OUT = ("test", "idlelib", "tkinter", "turtledemo", "site-packages", "__pycache__", "config-*", "lib2to3")


def run(*words: object) -> str:
    """Run a program and return what it prints."""
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True).stdout


class Channel:
    """A folder that rattler-build takes packages from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / SUBDIR
        self.folder.mkdir(parents=True, exist_ok=True)
        (folder / "noarch").mkdir(exist_ok=True)
        self.packages: dict[str, dict[str, Any]] = {}

    def add(self, name: str, version: str, build: str, files: Path, depends: list[str]) -> None:
        """Pack `files`, laid out as they lie in an environment."""
        made = assemble_package(
            name, version, SUBDIR, build, self.folder, files_dir=files, depends=depends,
            license="see the original", summary="A stand-in, for tests", compression_level=1, detect_prefix=False,
        )  # fmt: skip
        content = made.path.read_bytes()
        self.packages[made.path.name] = {
            "name": name, "version": version, "build": build, "build_number": 0, "subdir": SUBDIR,
            "depends": depends, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(),
        }  # fmt: skip

    def close(self) -> None:
        """Write what is in the channel."""
        for folder, packages in ((self.folder, self.packages), (self.folder.parent / "noarch", {})):
            content = {"info": {"subdir": folder.name}, "packages": {}, "packages.conda": packages}
            (folder / "repodata.json").write_text(json.dumps({**content, "repodata_version": 1}))


def add_python(channel: Channel, python: str) -> str:
    """Add a CPython of this machine; return its version, as 3.12."""
    asks = "import sys, platform; print(sys.base_prefix, platform.python_version())"
    prefix_text, full = run(python, "-c", asks).split()
    prefix, short = Path(prefix_text), full.rpartition(".")[0]
    if not (prefix / "lib" / f"python{short}").is_dir() or prefix == Path("/usr"):
        raise ValueError(f"Expected a CPython with a folder of its own, got {python} in {prefix}.")
    with tempfile.TemporaryDirectory() as text:
        files = Path(text)
        library = files / "lib" / f"python{short}"
        shutil.copytree(prefix / "lib" / f"python{short}", library, ignore=shutil.ignore_patterns(*LEFT_OUT))
        (library / "site-packages").mkdir()
        (library / "site-packages" / "README.txt").write_text("A stand-in for conda-forge's python.\n")
        shutil.copytree(prefix / "include", files / "include")
        (files / "bin").mkdir()
        shutil.copy2(prefix / "bin" / f"python{short}", files / "bin")
        for path in (prefix / "lib").glob(f"libpython{short}.so*"):
            shutil.copy2(path, files / "lib", follow_symlinks=False)
        run("patchelf", "--set-rpath", "$ORIGIN/../lib", files / "bin" / f"python{short}")
        for name in ("python", "python3"):
            (files / "bin" / name).symlink_to(f"python{short}")
        channel.add("python", full, "0_cpython", files, [])
    return short


def metadata(folder: Path) -> list[tuple[str, str, list[str]]]:
    """Return name, version and needs of each package that pip put into `folder`."""
    found = []
    for path in sorted(folder.glob("*.dist-info/METADATA")):
        told = message_from_string(path.read_text(encoding="utf-8"))
        found.append((str(canonicalize_name(told["Name"])), told["Version"], told.get_all("Requires-Dist") or []))
    return found


def needs(lines: list[str], short: str) -> list[str]:
    """Return what `lines` of metadata ask for, in words of conda."""
    here = {**default_environment(), "python_version": short, "python_full_version": f"{short}.0", "extra": ""}
    asked = [Requirement(line) for line in lines]
    wanted = [one for one in asked if one.marker is None or one.marker.evaluate({**here})]
    return [f"{canonicalize_name(one.name)} {one.specifier}".strip().replace("~=", ">=") for one in wanted]


def owned(folder: Path, name: str) -> list[Path]:
    """Return the files of a package, as its RECORD lists them, but for its programs."""
    records = {canonicalize_name(path.parent.name.split("-")[0]): path for path in folder.glob("*.dist-info/RECORD")}
    names = [line.rsplit(",", 2)[0].strip('"') for line in records[name].read_text(encoding="utf-8").splitlines()]
    return [folder / one for one in names if not one.startswith("..") and (folder / one).is_file()]


def add_libraries(channel: Channel, python: str, short: str) -> None:
    """Add what the recipe needs at run time and to build, for one Python."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text) / "all"
        words = ["--quiet", "--disable-pip-version-check", "install", "--target", folder, "--no-compile"]
        run(
            sys.executable, "-m", "pip", "--python", shutil.which(python), *words, "--only-binary", ":all:",
            *content["project"]["dependencies"], *TOOLS,
        )  # fmt: skip
        for name, version, lines in metadata(folder):
            files = Path(text) / name
            for path in owned(folder, name):
                to = files / "lib" / f"python{short}" / "site-packages" / path.relative_to(folder)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, to)
            programs(files, name, short)
            asked = [one for one in needs(lines, short) if not one.startswith(("abi3audit ", "cmake ", "ninja "))]
            channel.add(name, version, f"py{short.replace('.', '')}_0", files, [f"python {short}.*", *asked])


def programs(files: Path, name: str, short: str) -> None:
    """Write the programs of a package: a shell finds the Python that is beside them."""
    for points in files.glob("lib/*/site-packages/*.dist-info/entry_points.txt"):
        block = points.read_text().partition("[console_scripts]")[2].partition("[")[0]
        for program, module, function in re.findall(r"^([\w.-]+)\s*=\s*([\w.]+):(\w+)", block, re.MULTILINE):
            path = files / "bin" / program
            path.parent.mkdir(exist_ok=True)
            code = f"import sys; from {module} import {function}; sys.exit({function}())"
            path.write_text(f'#!/bin/sh\nexec "$(dirname "$0")/python{short}" -c "{code}" "$@"\n')
            path.chmod(0o755)


def add_tools(channel: Channel) -> None:
    """Add CMake and Ninja from their wheels, and the compiler of this machine."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        run(sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target", folder / "all", "cmake", "ninja")
        versions = {name: version for name, version, _ in metadata(folder / "all")}
        data = folder / "all" / "cmake" / "data"
        channel.add("cmake", versions["cmake"], "h0_0", data, [])
        ninja = folder / "ninja" / "bin"
        ninja.mkdir(parents=True)
        programs = [path for path in (folder / "all").rglob("ninja") if path.is_file()]
        binary = max(programs, key=lambda path: path.stat().st_size)  # beside it may be a script that calls it
        shutil.copy2(binary, ninja)
        channel.add("ninja", versions["ninja"], "h0_0", ninja.parent, [])
        compiler = shutil.which("g++")
        if compiler is None:
            raise ValueError("Expected g++ on this machine, got none.")
        called = folder / "gxx" / "etc" / "conda" / "activate.d" / "gxx.sh"
        called.parent.mkdir(parents=True)
        called.write_text(f"export CXX={compiler}\n")
        channel.add(f"gxx_{SUBDIR}", run(compiler, "-dumpfullversion").strip(), "h0_0", folder / "gxx", [])
        for name, version in ((f"sysroot_{SUBDIR}", "2.28"), ("python-abi3", "0")):
            files = folder / name / "share" / name
            files.mkdir(parents=True)
            (files / "README.txt").write_text("A stand-in that holds nothing.\n")
            channel.add(name, version, "h0_0", folder / name, [])


def main(folder: Path, pythons: list[str]) -> None:
    """Make the channel in `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    channel = Channel(folder)
    for python in pythons:
        short = add_python(channel, python)
        add_libraries(channel, python, short)
    add_tools(channel)
    channel.close()
    print(f"{len(channel.packages)} stand-ins in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
