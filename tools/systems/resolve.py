"""Which platforms, Pythons and extras install from wheels alone, so that nobody needs a compiler.

uv resolves the newest versions for another platform and Python than this one, sources forbidden. For Pythons without a
GIL, which uv cannot name, pip is asked whether each package of that answer has a wheel. The package itself is left out:
its own wheels are in .github/workflows/release.yml. `make systems NAME=resolve` prints the table; it needs an index and
minutes.

    python tools/systems/resolve.py
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")


@dataclass(frozen=True)
class Platform:
    """A platform: its name in the table, its name for uv, and the tags of its wheels."""

    name: str
    uv: str
    tags: tuple[str, ...]


def manylinux(machine: str) -> tuple[str, ...]:
    """Return the tags of wheels for a Linux with glibc 2.28."""
    return (*(f"manylinux_2_{minor}_{machine}" for minor in range(28, 16, -1)), f"manylinux2014_{machine}")


def musllinux(machine: str) -> tuple[str, ...]:
    """Return the tags of wheels for a Linux with musl 1.2."""
    return tuple(f"musllinux_1_{minor}_{machine}" for minor in (2, 1))


def macos(newest: int, machine: str) -> tuple[str, ...]:
    """Return the tags of wheels for macOS up to a version."""
    kinds = (machine, "universal2")
    return tuple(f"macosx_{major}_0_{kind}" for major in range(newest, 10, -1) for kind in kinds)


PLATFORMS = (
    Platform("Linux x86-64", "x86_64-manylinux_2_28", manylinux("x86_64")),
    Platform("Linux ARM", "aarch64-manylinux_2_28", manylinux("aarch64")),
    Platform("macOS ARM", "aarch64-apple-darwin", macos(14, "arm64")),
    Platform("macOS Intel", "x86_64-apple-darwin", macos(14, "x86_64")),
    Platform("Windows x86-64", "x86_64-pc-windows-msvc", ("win_amd64",)),
    Platform("Windows ARM", "aarch64-pc-windows-msvc", ("win_arm64",)),
    Platform("musl x86-64", "x86_64-unknown-linux-musl", musllinux("x86_64")),
    Platform("musl ARM", "aarch64-unknown-linux-musl", musllinux("aarch64")),
)


def culprit(message: str) -> str:
    """Return the package without a wheel that a message of uv names."""
    words = " ".join(message.split())
    found = re.search(r"([A-Za-z][\w.-]*)(?:[<>=!~]\S*)? ha(?:s|ve) no (?:usable )?wheels", words)
    return found[1] if found else "?"


def compiled(platform: Platform, python: str, extra: str) -> tuple[str, str]:
    """Return the pins that uv finds for an extra, or none and the package that has no wheel."""
    words = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    words += ["--only-binary", ":all:", "pyproject.toml"]
    words += ["--python-version", python, "--python-platform", platform.uv, *(["--extra", extra] if extra else [])]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout, "") if done.returncode == 0 else ("", culprit(done.stderr))


@cache
def has_wheel(tags: tuple[str, ...], pin: str) -> bool:
    """Return whether a version of a package has a wheel for Python 3.14 without a GIL; nothing is installed."""
    words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--dry-run", "--no-deps"]
    words += ["--ignore-installed", "--target", "nowhere", "--only-binary", ":all:", "--implementation", "cp"]
    words += ["--python-version", "3.14", "--abi", "cp314t", *(f"--platform={tag}" for tag in tags), pin]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and "No matching distribution" not in done.stderr:
        sys.exit(f"resolve: pip did not tell whether {pin} has a wheel: {done.stderr.strip()}")
    return done.returncode == 0


def without_gil(platform: Platform, pins: str) -> str:
    """Return the first package of `pins` that has no wheel for Python 3.14 without a GIL, or nothing."""
    lacking = (pin for pin in pins.split() if not has_wheel(platform.tags, pin))
    return next(lacking, "").partition("==")[0]


def missing(platform: Platform, python: str, extra: str) -> str:
    """Return the package that keeps an extra from being installed without a compiler, or nothing."""
    pins, lacking = compiled(platform, python.removesuffix("t"), extra)
    return without_gil(platform, pins) if pins and python.endswith("t") else lacking


def cell(platform: Platform, python: str, extras: list[str]) -> str:
    """Return what to say about a platform and a Python: everything installs, or what does not, and why."""
    without: dict[str, list[str]] = {}
    if not missing(platform, python, "all"):
        return "everything"
    if lacking := missing(platform, python, ""):
        return f"nothing ({lacking})"
    for extra in extras:
        if lacking := missing(platform, python, extra):
            without.setdefault(lacking, []).append(extra)
    return "not " + "; ".join(f"{', '.join(names)} ({package})" for package, names in without.items())


def main() -> None:
    """Print the table, a line for each platform."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = [extra for extra in content["project"]["optional-dependencies"] if extra != "all"]
    print("| |", " | ".join(PYTHONS), "|")
    print("|---" * (len(PYTHONS) + 1) + "|")
    with ThreadPoolExecutor(4) as pool:  # most of the time is spent waiting for the index
        for platform in PLATFORMS:
            cells = pool.map(lambda python, platform=platform: cell(platform, python, extras), PYTHONS)
            print(f"| {platform.name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
