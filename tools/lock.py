"""Pin the newest versions of everything that development uses, in constraints.txt.

pip resolves the package with all extras and all dependency groups as for an empty environment, and installs nothing.
The pins are for every machine: "+cpu" and the like, by which builds of one version are told apart, is left out, and so
is what PyTorch needs for graphics cards only.

    python tools/lock.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
OF_GRAPHICS_CARDS = ("nvidia-", "cuda-", "triton")


def command(groups: list[str], report: Path) -> list[str]:
    """Return the command that resolves the package, its extras and `groups`, and writes what it found to `report`."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    alone = ["--dry-run", "--ignore-installed", "--report", str(report)]
    return [*pip, *alone, *(word for group in groups for word in ("--group", group)), ".[all]"]


def pins(report: dict[str, Any], own: str) -> list[str]:
    """Return a line for each package of a `report` of pip, except for the package `own`, sorted by name."""
    entries = [entry["metadata"] for entry in report["install"]]
    found = {canonicalize_name(entry["name"]): entry["version"].partition("+")[0] for entry in entries}
    kept = {name for name in found if name != canonicalize_name(own) and not name.startswith(OF_GRAPHICS_CARDS)}
    return [f"{name}=={found[name]}" for name in sorted(kept)]


def main(root: Path = ROOT) -> None:
    """Resolve, and write constraints.txt of `root` when that has succeeded."""
    content = tomllib.loads((root / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(command(sorted(content["dependency-groups"]), report), cwd=root, check=True)
        lines = pins(json.loads(report.read_text()), content["project"]["name"])
    (root / "constraints.txt").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
