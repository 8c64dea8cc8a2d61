"""What the package needs, as pyproject.toml says.

python tools/needs.py [EXTRA...]    # prints requirements for pip: those of the package, and of extras
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
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


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print(*run_time(project, frozenset(sys.argv[1:])), sep="\n")
