"""``coupledict info``: the parts of this installation."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata

from ._app import Result, command

PACKAGE = "coupledict"
#: Modules whose names differ from those of their packages.
MODULES = {"scikit-image": "skimage", "pillow": "PIL", "opencv-python-headless": "cv2"}


@command("Version, instruction sets, threads and packages.", "coupledict info", "coupledict info --json")
def info() -> Result:
    """Show the version, the instruction sets and threads in use, and the installed packages."""
    from ..kernels.instruction_sets import build_info

    build = build_info()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    needed = requirements()
    versions = {name: metadata.version(name) for name in needed.pop("")}
    extras = {extra: all(_is_there(module_of(name)) for name in names) for extra, names in needed.items()}
    data = {
        **build,
        "threads": cores,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "extras": extras,
    }
    missing = ",".join(name for name, there in extras.items() if not there)
    facts = [
        ("coupledict", build["version"]),
        ("compiler", build["compiler"]),
        ("instruction set", f"{build['simd']} (of {', '.join(build['simd_available'])})"),
        ("threads", str(cores)),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *versions.items(),
        ("extras", ", ".join(name for name, there in extras.items() if there) or "none"),
    ]
    if missing:
        facts.append(("missing", f'{missing.replace(",", ", ")}: pip install "coupledict[{missing}]"'))
    return Result(data, facts=facts)


def requirements() -> dict[str, list[str]]:
    """Return the packages that each extra adds, from the package metadata; "" holds those that are always needed."""
    found: dict[str, list[str]] = {"": []}
    for requirement in metadata.requires(PACKAGE) or []:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)", requirement)
        if name != PACKAGE:  # an extra may name other extras, which are listed themselves
            found.setdefault(extra[1] if extra else "", []).append(name)
    return found


def module_of(package: str) -> str:
    """Return the name of the module that a package provides."""
    return MODULES.get(package.lower(), package.lower().replace("-", "_"))


def _is_there(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None
