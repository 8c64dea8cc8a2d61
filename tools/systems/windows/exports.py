"""Write the module definitions that windows.sh makes libraries from.

Arguments are Python's DLL, Wine's C library, and the folder to write to.

``python3.def`` has the stable ABI as of Python 3.12 and nothing else, so that a linker refuses what is not in it.
``forward.def`` is that of a python3.dll, which passes each name on to the DLL. ``python.def`` is for python.exe.
``complex.def`` is that of complex.c, and passes the rest of the C library on to Wine's.
"""

import re
import sys
from pathlib import Path

import pefile
from abi3info import DATAS, FUNCTIONS
from abi3info.models import PyVersion

dll, wine_library, folder = map(Path, sys.argv[1:])
OWN = "own-ms-win-crt-math-l1-1-0.dll"


def names_in(file: Path) -> list[str]:
    """Return the names that a DLL exports."""
    image = pefile.PE(str(file), fast_load=True)
    image.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_EXPORT"]])
    return sorted(symbol.name.decode() for symbol in image.DIRECTORY_ENTRY_EXPORT.symbols if symbol.name)


def write(name: str, library: str, lines: list[str]) -> None:
    """Write the definition of a library, with these lines for what it exports."""
    (folder / name).write_text("\n".join([f'LIBRARY "{library}"', "EXPORTS", *lines, ""]), encoding="ascii")


def stable(table: dict) -> list[str]:
    """Return the names of the stable ABI of Python 3.12 that the DLL has; some are for other systems."""
    return sorted(
        symbol.name for symbol, about in table.items() if about.added <= PyVersion(3, 12) and symbol.name in exported
    )


exported = names_in(dll)
functions, data = stable(FUNCTIONS), stable(DATAS)
write("python3.def", "python3.dll", [f"  {name}" for name in functions] + [f"  {name} DATA" for name in data])
# What newer wheels ask of python3.dll is passed on, too.
write("forward.def", "python3.dll", [f"  {name} = {dll.stem}.{name}" for name in exported])
write("python.def", dll.name, ["  Py_Main"])

complex_functions = re.findall(
    r"^(?:MAP|MEASURE)\((\w+)\)", Path(__file__).with_name("complex.c").read_text("utf-8"), re.M
)
own = [name + suffix for name in [*complex_functions, "cpow"] for suffix in ("", "f", "l")]
own += ["_Cbuild", "_FCbuild", "_LCbuild"]
# Wine resolves names of this kind by itself, so the library that has the functions bears another name.
passed = [name for name in names_in(wine_library) if name.isidentifier() and name not in own]
lines = [f"  {name} = ms_{name}" for name in own] + [f"  {name} = ucrtbase.{name}" for name in passed]
write("complex.def", OWN, lines)
