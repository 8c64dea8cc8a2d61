"""Lower bounds of dependencies: each has one, and what the package imports is named.

`make systems NAME=lowest` tests the bounds.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path

import lowest
import needs
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support import extras

ROOT = Path(needs.ROOT)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = {canonicalize_name(needed.name): needed for needed in needs.run_time(PROJECT)}
# Peers that experiments compare with if they are there; whoever wants them installs the group `bench`.
OF_EXPERIMENTS = {"spams", "dictlearn", "numba"}


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_every_dependency_has_a_lower_bound(name):
    assert needs.lower_bound(NEEDED[name]).release > (0,)


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_what_is_pinned_is_allowed(name):
    pinned = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().split("\n") if line]
    (pin,) = [pin for pin in pinned if canonicalize_name(pin.name) == name]
    (version,) = [part.version for part in pin.specifier]
    assert NEEDED[name].specifier.contains(version)


def test_the_extra_all_has_every_extra_of_the_package():
    for extra in set(PROJECT["optional-dependencies"]) - {"all"}:
        names = {canonicalize_name(needed.name) for needed in needs.run_time(PROJECT, frozenset({extra}))}
        assert names <= set(NEEDED), extra


def imported(path: Path) -> set[str]:
    """Return the packages that a file imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module]
    return {name.partition(".")[0] for name in names}


@pytest.mark.slow
def test_what_is_imported_is_a_dependency():
    found = set().union(*(imported(path) for path in (ROOT / "src" / "coupledict").rglob("*.py")))
    foreign = found - set(sys.stdlib_module_names) - {"coupledict"} - OF_EXPERIMENTS
    assert {"numpy", "typer", "PIL", "starlette", "dask"} <= foreign
    makers = packages_distributions()
    known = foreign - extras.ABSENT  # only of what is installed can be told who makes it
    missing = {name for name in known if not {canonicalize_name(maker) for maker in makers[name]} & set(NEEDED)}
    assert missing == set()


def write(path: Path, dependencies: str, extras: str = "") -> Path:
    path.write_text(
        f'[build-system]\nrequires = ["builder>=1.2"]\n[project]\nname = "a-b"\ndependencies = {dependencies}\n'
        f"[project.optional-dependencies]\n{extras or 'all = []'}\n"
    )
    return path


def test_lowest_versions_follow_extras(tmp_path):
    extras = 'all = ["a_b[x]"]\nx = ["a.b[y]", "Two[z]>=3,<4"]\ny = ["three~=1.5; python_version > \'3\'", "a-b[x]"]'
    pins = needs.lowest(write(tmp_path / "p.toml", '["one >= 2.0.1"]', extras))
    assert {str(pin) for pin in pins.values()} == {
        "builder==1.2",
        "one==2.0.1",
        "Two[z]==3",
        'three==1.5; python_version > "3"',
    }
    (tmp_path / "constraints.txt").write_text("one==5\nfour==4.4\ntwo==3.9\n")
    assert lowest.others(pins, tmp_path / "constraints.txt") == ["four==4.4"]


@pytest.mark.parametrize("needed", ["one", "one<3", "one!=2"])
def test_a_dependency_without_a_bound_is_refused(tmp_path, needed):
    with pytest.raises(ValueError, match=f"Expected a lower bound .* for one in pyproject.toml, got '{needed}'"):
        needs.lowest(write(tmp_path / "p.toml", f'["{needed}"]'))


def test_what_is_not_at_its_lower_bound_is_told():
    here = version("packaging")
    pins = {name: Requirement(f"{name}=={bound}") for name, bound in (("packaging", here), ("pytest", "0.1"))}
    pins |= {"no-such-thing": Requirement("no-such-thing==1"), "x": Requirement("x==1; python_version < '3'")}
    assert lowest.differing(pins) == [
        f"Expected pytest==0.1, got {version('pytest')}.",
        "Expected no-such-thing==1, got nothing.",
    ]


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - {"all"}))
def test_the_lower_bounds_of_an_extra_are_tested(extra):
    read = "".join(file.read_text() for file in lowest.tests() if file != Path(__file__))
    packages = {name for name, origin in extras.PACKAGES.items() if origin == f"coupledict[{extra}]"}
    assert packages
    assert any(re.search(rf"\b{package}\b", read) for package in packages), f"No test of lower bounds uses {extra}."
