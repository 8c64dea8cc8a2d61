"""``coupledict info``: what this installation is made of."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from ._app import Result, command

#: What each extra adds, by the names of the modules that it brings.
EXTRAS = {
    "images": ("skimage", "PIL"),
    "audio": ("soundfile",),
    "plot": ("matplotlib",),
    "dask": ("dask", "distributed", "zarr"),
    "serve": ("starlette", "uvicorn", "python_multipart"),
}
NEEDED = ("numpy", "scipy", "scikit-learn", "threadpoolctl", "rich", "typer")


@command("Version, instruction sets, threads and packages.", "coupledict info", "coupledict info --json")
def info() -> Result:
    """Tell the version, the instruction sets and threads in use, and which packages are there."""
    from ..kernels.instruction_sets import build_info

    build = build_info()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    versions = {name: metadata.version(name) for name in NEEDED}
    extras = {name: all(_is_there(module) for module in modules) for name, modules in EXTRAS.items()}
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


def _is_there(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None
