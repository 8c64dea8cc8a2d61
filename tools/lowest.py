"""Write down the lowest versions that pyproject.toml allows, as requirements for pip.

``make lowest`` installs them and runs tests: a lower bound that nobody tests is a guess. Bounds of what coupledict
itself needs, to build and to run with all extras, become pins. What those packages need in turn is as new as
constraints.txt says, since that is what a user gets who has one old package.

    python tools/lowest.py FOLDER     # writes lowest.txt and others.txt there
    python tools/lowest.py --check    # says what of this environment is not at its lower bound
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent


def run_time(project: dict[str, Any], extras: frozenset[str] = frozenset({"all"})) -> Iterator[Requirement]:
    """Give what `project` needs at run time, with `extras`; extras that name other extras are followed."""
    optional = project["optional-dependencies"]
    followed: set[str] = set()
    texts, waiting = list(project["dependencies"]), sorted(extras)
    while texts or waiting:
        if not texts:
            extra = waiting.pop()
            texts = [] if extra in followed else list(optional[extra])
            followed.add(extra)
            continue
        needed = Requirement(texts.pop(0))
        if canonicalize_name(needed.name) == canonicalize_name(project["name"]):
            waiting += sorted(needed.extras)
        else:
            yield needed


def lower_bound(needed: Requirement) -> Version:
    """Return the lowest version that `needed` allows, or raise a ValueError if it allows any."""
    bounds = [Version(part.version) for part in needed.specifier if part.operator in (">=", "==", "~=")]
    if not bounds:
        raise ValueError(f"Expected a lower bound (>=) for {needed.name} in pyproject.toml, got '{needed}'.")
    return max(bounds)


def lowest(path: Path = ROOT / "pyproject.toml") -> dict[str, Requirement]:
    """Return a pin at its lower bound for everything that the project of `path` needs to build and to run."""
    content = tomllib.loads(path.read_text())
    needs = [Requirement(text) for text in content["build-system"]["requires"]]
    pins: dict[str, Requirement] = {}
    for needed in [*needs, *run_time(content["project"])]:
        name = canonicalize_name(needed.name)
        extras = f"[{','.join(sorted(needed.extras))}]" if needed.extras else ""
        marker = f"; {needed.marker}" if needed.marker else ""
        pins[name] = Requirement(f"{needed.name}{extras}=={lower_bound(needed)}{marker}")
    return pins


def others(pins: dict[str, Requirement], path: Path = ROOT / "constraints.txt") -> list[str]:
    """Return the lines of `path` about packages that `pins` does not name."""
    lines = [line for line in path.read_text().splitlines() if line]
    return [line for line in lines if canonicalize_name(Requirement(line).name) not in pins]


def differing(pins: dict[str, Requirement]) -> list[str]:
    """Return sentences about packages of `pins` that are installed in another version here, or not at all."""
    found = []
    for name, pin in pins.items():
        if pin.marker is not None and not pin.marker.evaluate():
            continue
        try:
            installed = version(name)
        except PackageNotFoundError:
            installed = "nothing"
        if installed == "nothing" or not pin.specifier.contains(installed, prereleases=True):
            found.append(f"Expected {pin}, got {installed}.")
    return found


def main(folder: Path) -> None:
    """Write lowest.txt, requirements of pip, and others.txt, constraints of pip, to `folder`."""
    pins = lowest()
    (folder / "lowest.txt").write_text("".join(f"{pin}\n" for pin in pins.values()))
    (folder / "others.txt").write_text("".join(f"{line}\n" for line in others(pins)))


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit("\n".join(differing(lowest())) or 0)
    main(Path(sys.argv[1]))
