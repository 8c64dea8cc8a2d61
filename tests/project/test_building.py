"""What a build from source says where something is missing. Nothing is compiled here."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent
NEEDED = {name: shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}") for name in ("cmake", "ninja")}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="how compilers are hidden and found is tested on Linux"),
    pytest.mark.skipif(None in NEEDED.values(), reason="cmake and ninja are needed to configure a build"),
]


def run(command, **variables):
    """Return the exit code of a command and what it said, on one line."""
    environment = {name: value for name, value in os.environ.items() if name not in ("CXX", "CC", "CXXFLAGS")}
    done = subprocess.run(
        [str(word) for word in command],
        env=environment | {name: str(value) for name, value in variables.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, " ".join(done.stdout.split())


def configure(folder, *options, **variables):
    command = [NEEDED["cmake"], "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={NEEDED['ninja']}", "-S", ROOT, "-B", folder]
    return run([*command, f"-DPython_EXECUTABLE={sys.executable}", *options], **variables)


@pytest.fixture
def path_without_compilers(tmp_path):
    """Return a PATH that has what a build needs, but no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, program in NEEDED.items():
        (folder / name).symlink_to(program)
    return folder


def test_pip_says_in_a_sentence_that_a_compiler_is_missing(tmp_path, path_without_compilers):
    for module in ("pip", "scikit_build_core", "nanobind"):
        pytest.importorskip(module)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "wheel", "--no-index"]
    options = ["--no-build-isolation", "--no-deps", "-w", tmp_path, "-C", f"build-dir={tmp_path / 'build'}"]
    code, said = run([*pip, *options, ROOT], PATH=path_without_compilers)
    assert code != 0
    sentence = "no C++ compiler that works was found. Install one (Debian and Ubuntu: apt install g++;"
    assert sentence in said
    assert "pip install --only-binary coupledict coupledict" in said
    rest = said[said.index(sentence) :]
    assert "CMake Error" not in rest  # it is the last error, and the first
    assert said.count("CMake Error") == 1
    assert len(rest) < 800


def test_a_compiler_that_was_installed_later_is_found_in_the_same_folder(tmp_path, path_without_compilers):
    code, said = configure(tmp_path / "build", PATH=path_without_compilers)
    assert code != 0
    assert "no C++ compiler that works was found. Install one" in said
    if shutil.which("c++") is None:
        pytest.skip("this machine has no C++ compiler")
    code, said = configure(tmp_path / "build")
    assert code == 0, said


def test_a_compiler_that_the_user_names_is_not_replaced(tmp_path):
    code, said = configure(tmp_path / "build", CXX="no-such-compiler")
    assert code != 0
    assert "no C++ compiler that works was found (CXX names 'no-such-compiler')." in said


def test_a_compiler_of_python_that_is_absent_is_replaced(tmp_path):
    if shutil.which("c++") is None:
        pytest.skip("this machine has no C++ compiler")
    python = tmp_path / "python"  # was built with a compiler that is not here
    script = 'case "$*" in *CXX*) echo no-such-compiler;; *) exec {} "$@";; esac'
    python.write_text(f"#!/bin/sh\n{script.format(sys.executable)}\n")
    python.chmod(0o755)
    _, said = configure(tmp_path / "build", f"-DPython_EXECUTABLE={python}", CXX="no-such-compiler")
    assert "no C++ compiler" not in said
    assert "The CXX compiler identification is" in said


def test_headers_of_python_are_asked_for(tmp_path):
    code, said = configure(tmp_path / "build", f"-DPython_INCLUDE_DIR={tmp_path / 'nothing'}")
    assert code != 0
    assert f"The headers of Python {platform.python_version()} ({sys.executable}) were not found." in said
    assert "apt install python3-dev" in said


def test_users_of_msvc_are_told_to_take_clang_cl(tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("this machine has no C++ compiler")
    said_to_be = ["-DCMAKE_CXX_COMPILER_ID=MSVC", "-DCMAKE_CXX_COMPILER_ID_RUN=1", "-DCMAKE_CXX_COMPILER_FORCED=1"]
    code, said = configure(tmp_path / "build", f"-DCMAKE_CXX_COMPILER={compiler}", *said_to_be)
    assert code != 0
    assert "MSVC's cl has no vector types" in said
    assert "Use clang-cl" in said
    assert "cmake -T ClangCL" in said
    assert said.count("CMake Error") == 1


def test_32_bits_are_refused(tmp_path):
    if platform.machine() != "x86_64":
        pytest.skip("the compiler's -m32 is for x86")
    unlinked = "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"  # so that no library of 32 bits is needed
    code, said = configure(tmp_path / "build", unlinked, "-DCMAKE_CXX_FLAGS=-m32")
    assert code != 0
    assert "expected pointers of 64 bits, got 32. Use a 64-bit Python" in said


def test_big_endian_is_refused(tmp_path):
    compiler = shutil.which("s390x-linux-gnu-g++")
    if compiler is None:
        pytest.skip("there is no compiler for a big-endian processor (Debian: apt install g++-s390x-linux-gnu)")
    code, said = configure(
        tmp_path / "build",
        f"-DCMAKE_CXX_COMPILER={compiler}",
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=s390x",
    )
    assert code != 0
    assert "needs a little-endian processor" in said
    assert "expected LITTLE_ENDIAN, got BIG_ENDIAN" in said
