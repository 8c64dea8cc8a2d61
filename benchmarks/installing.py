"""How long it takes until a package can be imported, from wheels that lie on disk, beside packages of the same field.

Run ``python benchmarks/installing.py DIST`` from the root of the project; DIST is a folder with coupledict's wheel and
sdist, as ``make package`` leaves them. What the packages need is downloaded once, so the network is not timed. Each
run makes a new virtual environment, installs one package with all that it needs, and imports it for the first time;
packages take turns. Sizes are those of the whole environment, less an empty one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from coupledict.experiments.machine import load_average, machine


class Package(NamedTuple):
    """What is installed: what pip is told, what is imported, and whether its source is built."""

    label: str
    requirement: str
    module: str
    from_source: bool = False


PACKAGES = (
    Package("coupledict, wheel", "coupledict", "coupledict"),
    Package("coupledict, source", "coupledict", "coupledict", from_source=True),
    Package("scikit-learn, wheel", "scikit-learn", "sklearn.decomposition"),
    Package("cca-zoo, wheel", "cca-zoo", "cca_zoo"),
    Package("umap-learn, wheel", "umap-learn", "umap"),
    Package("SPAMS, wheel (spams-bin)", "spams-bin", "spams"),
)
BUILD_TOOLS = ("scikit-build-core", "nanobind", "cmake", "ninja")


class Run(NamedTuple):
    """Seconds of installing and of the first import, and the bytes that came."""

    install: float
    first_import: float
    size: int


def run(*command: str | Path) -> float:
    """Return the seconds that a command takes; what it says is shown where it fails."""
    start = time.perf_counter()
    done = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - start


def folder_size(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def download(packages: list[Package], dist: Path, store: Path) -> None:
    """Put everything that will be installed into one folder."""
    for path in [*dist.glob("*.whl"), *dist.glob("*.tar.gz")]:
        shutil.copy(path, store)
    names = [package.requirement for package in packages]
    tools = BUILD_TOOLS if any(package.from_source for package in packages) else ()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "download", "--quiet", "--only-binary", ":all:", "--find-links", store, "--dest", store, *names, *tools)


def measure(package: Package, store: Path, folder: Path) -> Run:
    """Install a package into a new environment and import it."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    empty = folder_size(folder)
    choice = ("--no-binary", "coupledict") if package.from_source else ("--only-binary", ":all:")
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-cache-dir")
    install = run(*pip, "--no-index", "--find-links", store, *choice, package.requirement)
    first_import = run(python, "-c", f"import {package.module}")
    size = folder_size(folder) - empty
    shutil.rmtree(folder)
    return Run(install, first_import, size)


def report(results: dict[str, list[Run]]) -> None:
    """Print the medians."""
    print(f"{'package':28}{'install s':>10}{'import s':>10}{'MB':>8}")
    for label, runs in results.items():
        install, first_import, size = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"{label:28}{install:>10.1f}{first_import:>10.2f}{size / 1e6:>8.0f}")


def main() -> None:
    """Measure, print and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dist", type=Path, help="folder with coupledict's wheels and sdist")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    options = parser.parse_args()
    before = load_average()
    results: dict[str, list[Run]] = {package.label: [] for package in PACKAGES}
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch, "store")
        store.mkdir()
        download(list(PACKAGES), options.dist, store)
        for _ in range(options.repeats):
            for package in PACKAGES:
                results[package.label].append(measure(package, store, Path(scratch, "environment")))
    report(results)
    options.output.mkdir(parents=True, exist_ok=True)
    kept = {label: [run._asdict() for run in runs] for label, runs in results.items()}
    numbers = {
        "machine": machine([package.requirement for package in PACKAGES]),
        "load": [before, load_average()],
        "runs": kept,
    }
    Path(options.output, "installing.json").write_text(json.dumps(numbers, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
