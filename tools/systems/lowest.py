"""Write down the lowest versions that pyproject.toml allows, as requirements for pip.

``make systems NAME=lowest`` installs them and runs tests: a lower bound that nobody tests is a guess. Bounds of what
coupledict itself needs, to build and to run with all extras, become pins. What those packages need in turn is as new as
constraints.txt says, since that is what a user gets who has one old package.

    PYTHONPATH=tools python tools/systems/lowest.py FOLDER     # writes lowest.txt and others.txt there
    PYTHONPATH=tools python tools/systems/lowest.py --check    # says what of this environment is not at its lower bound
    PYTHONPATH=tools python tools/systems/lowest.py --tests    # names the tests that `make systems NAME=lowest` runs
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from needs import ROOT, lowest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Those that touch what is installed: extras, files, tables, scikit-learn. Browsers have their own versions.
TESTED = """
cli/ distributed/ files/ serve/ audio/test_files images/test_files images/test_metadata images/test_raw
images/test_hostile_media test_plotting foundation/test_drawing foundation/test_tensors estimators/test_saving
estimators/test_learner_input estimators/test_named_views estimators/test_sparse_coder
estimators/test_dictionary_learning coding/test_sparse_encode project/test_floors
"""


def tests() -> list[Path]:
    """Return the files of the tests that are run with the lowest versions."""
    folder = ROOT / "tests"
    named = [folder / f"{place}.py" for place in TESTED.split() if not place.endswith("/")]
    found = [file for place in TESTED.split() if place.endswith("/") for file in (folder / place).glob("test_*.py")]
    return sorted(file for file in named + found if "browser" not in file.name)


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
    elif sys.argv[1] == "--tests":
        print(*(file.relative_to(ROOT) for file in tests()))
    else:
        main(Path(sys.argv[1]))
