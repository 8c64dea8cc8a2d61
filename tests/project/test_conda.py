"""The conda recipe says what pyproject.toml says. `make systems NAME=conda` builds it and runs its tests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import needs
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support import extras

extras.need("yaml")
import conda  # noqa: E402  (tools/systems/conda.py)
import yaml  # noqa: E402

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
RECIPE = yaml.safe_load(TEXT)
CONTENT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = CONTENT["project"]
# Names that differ between PyPI and conda-forge.
NAMES = {
    "opencv-python-headless": "opencv",
    "soundfile": "pysoundfile",
    "dask": "dask-core",
    "matplotlib": "matplotlib-base",
}
# conda-forge versions OpenCV without the fourth number, which counts PyPI's builds.
VERSIONS = {"opencv": "4.10.0"}


def floors(lines):
    """Return name -> lower bound of the lines of a recipe that have one."""
    pairs = [re.fullmatch(r"([\w.-]+) >=([\w.]+)", line) for line in lines if isinstance(line, str)]
    return {pair[1]: pair[2] for pair in pairs if pair}


def bounds(needs):
    """Return the same of requirements, in the names of conda-forge."""
    found = {}
    for needed in needs:
        name = NAMES.get(canonicalize_name(needed.name), canonicalize_name(needed.name))
        (bound,) = [part.version for part in needed.specifier if part.operator == ">="]
        found[name] = VERSIONS.get(name, bound)
    return found


def test_run_time_dependencies_have_the_same_lower_bounds():
    assert floors(RECIPE["requirements"]["run"]) == bounds(map(Requirement, PROJECT["dependencies"]))
    assert "python" in RECIPE["requirements"]["run"]


def test_extras_are_held_to_the_same_lower_bounds():
    needed = list(needs.run_time(PROJECT))
    own = bounds(map(Requirement, PROJECT["dependencies"]))
    optional = {name: bound for name, bound in bounds(needed).items() if name not in own}
    assert floors(RECIPE["requirements"]["run_constraints"]) == optional


def test_build_dependencies_have_the_same_lower_bounds():
    assert floors(RECIPE["requirements"]["host"]) == bounds(map(Requirement, CONTENT["build-system"]["requires"]))


def test_version_licence_and_summary_are_those_of_the_project():
    assert RECIPE["context"]["version"] == PROJECT["version"]
    assert RECIPE["about"]["license"] == PROJECT["license"]
    assert RECIPE["about"]["summary"] == PROJECT["description"]
    files = {path.relative_to(ROOT).as_posix() for part in PROJECT["license-files"] for path in ROOT.glob(part)}
    assert set(RECIPE["about"]["license_file"]) == files


def test_the_stable_abi_begins_where_the_wheel_says():
    assert CONTENT["tool"]["scikit-build"]["wheel"]["py-api"] == f"cp{RECIPE['context']['abi3_min'].replace('.', '')}"


def test_the_source_is_replaced_by_an_sdist(tmp_path):
    sdist = tmp_path / "coupledict-0.1.0.tar.gz"
    assert yaml.safe_load(conda.with_source(TEXT, sdist))["source"] == {"path": str(sdist)}
    with pytest.raises(ValueError, match="Expected one path in the recipe, got 0"):
        conda.with_source("package:\n", sdist)


def test_cmake_is_as_new_as_the_build_asks_for():
    wanted = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+?)\.\.\.", (ROOT / "CMakeLists.txt").read_text())
    assert wanted is not None
    assert f"cmake >={wanted[1]}" in RECIPE["requirements"]["build"]
