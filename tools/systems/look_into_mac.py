"""Look into a wheel for macOS without running it: `python look_into_mac.py 11.0 arm64 coupledict-...whl`.

The extension must be for the processor and the oldest macOS that the wheel's name promises, need no library but the
system's, and ask Python only for symbols that nanobind knows of. Whether these are all in the stable ABI is for
abi3audit to say.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import zipfile
from pathlib import Path

import nanobind
from macholib.mach_o import CPU_TYPE_NAMES
from macholib.MachO import MachO
from macholib.SymbolTable import SymbolTable

PROCESSORS = {"arm64": "ARM64", "x86_64": "x86_64"}
SYSTEM = {"/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"}
BUILD_VERSION, MACOS, UNDEFINED = 0x32, 1, 0


def version(number: int) -> str:
    """Return a version that is packed into 32 bits as text."""
    return f"{number >> 16}.{number >> 8 & 255}"


def symbols_of_python() -> set[str]:
    """Return the symbols that nanobind lets an extension leave to the interpreter."""
    listed = Path(nanobind.cmake_dir()) / "darwin-ld-cpython.sym"
    return set(re.findall(r"-U (\S+)", listed.read_text()))


def expect(holds: bool, expected: object, found: object) -> None:
    """End with a sentence where something does not hold."""
    if not holds:
        raise SystemExit(f"Expected {expected}, got {found}.")


def look(extension: Path, target: str, processor: str) -> None:
    """Print what an extension is and needs; end where that is not as it should be."""
    headers = MachO(str(extension)).headers
    expect(len(headers) == 1, "one processor in a wheel", len(headers))
    header = headers[0]
    kind = CPU_TYPE_NAMES.get(header.header.cputype)
    expect(kind == PROCESSORS[processor], f"code for {processor}", kind)
    built = [command for load, command, _ in header.commands if load.cmd == BUILD_VERSION]
    expect(len(built) == 1 and built[0].platform == MACOS, "one load command that says macOS", built)
    oldest = version(int(built[0].minos))
    expect(oldest == target, f"macOS {target} as the oldest", oldest)
    libraries = {name for _, _, name in header.walkRelocatables()}
    expect(libraries <= SYSTEM, f"libraries of {sorted(SYSTEM)} only", sorted(libraries))
    table = SymbolTable(MachO(str(extension)), header)
    undefined = {name.decode() for symbol, name in table.undefsyms if symbol.n_type & 0x0E == UNDEFINED}
    ours = {name for name in undefined if re.match(r"__?Py", name)}
    expect(len(ours) > 50, "more than 50 symbols of Python", len(ours))
    expect(ours <= symbols_of_python(), "symbols of Python that nanobind lists", sorted(ours - symbols_of_python()))
    print(f"{extension.name}: {processor}, macOS {oldest}, {len(ours)} symbols of Python, {sorted(libraries)} with")
    print(*sorted(undefined - ours))


def main() -> None:
    """Look into the wheel that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="the oldest macOS, such as 11.0")
    parser.add_argument("processor", choices=sorted(PROCESSORS))
    parser.add_argument("wheel", type=Path)
    arguments = parser.parse_args()
    tag = f"cp312-abi3-macosx_{arguments.target.replace('.', '_')}_{arguments.processor}.whl"
    expect(arguments.wheel.name.endswith(tag), f"a wheel named ...-{tag}", arguments.wheel.name)
    with zipfile.ZipFile(arguments.wheel) as wheel, tempfile.TemporaryDirectory() as folder:
        names = [name for name in wheel.namelist() if name.endswith(".so")]
        expect(len(names) == 1 and names[0].endswith("/_native.abi3.so"), "_native.abi3.so", names)
        look(Path(wheel.extract(names[0], folder)), arguments.target, arguments.processor)


if __name__ == "__main__":
    main()
