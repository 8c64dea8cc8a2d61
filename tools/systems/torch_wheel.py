"""Refuse, before anything is downloaded, a wheel of PyTorch that is for graphics cards: it brings gigabytes.

Which wheel pip would take depends on the index, the system and the version of Python. What tells the two apart is what
they need.

    PYTHONPATH=tools python tools/systems/torch_wheel.py [OPTIONS OF PIP]    # fails if PyTorch's wheel needs CUDA
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from lock import OF_GRAPHICS_CARDS, ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def ask_pip(options: list[str]) -> dict[str, Any]:
    """Return the report of pip on the wheel that it would install; of the wheel itself only metadata are read."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    alone = ["--dry-run", "--ignore-installed", "--no-deps", "--report", "-", "-c", str(ROOT / "constraints.txt")]
    done = subprocess.run([*pip, *alone, *options, "torch"], check=True, stdout=subprocess.PIPE, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def of_graphics_cards(report: dict[str, Any], environment: dict[str, str] | None = None) -> list[str]:
    """Return the packages for graphics cards that the wheel of a `report` needs, on this machine or `environment`."""
    texts = report["install"][0]["metadata"].get("requires_dist") or []
    needs = [need for need in map(Requirement, texts) if need.marker is None or need.marker.evaluate(environment)]
    return [need.name for need in needs if canonicalize_name(need.name).startswith(OF_GRAPHICS_CARDS)]


def main(options: list[str]) -> None:
    """Ask pip, and end with a sentence that says what to do."""
    found = of_graphics_cards(ask_pip(options))
    if found:
        sys.exit(
            f"Expected PyTorch's wheel for processors, got one that also installs {', '.join(found)}: gigabytes, for"
            " graphics cards. Name an index that has the other, as PyTorch's page on installing does for the compute"
            " platform CPU: make systems NAME=tensors TORCH_INDEX=https://..."
        )


if __name__ == "__main__":
    main(sys.argv[1:])
