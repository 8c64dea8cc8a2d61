"""The table of platforms that need no compiler: how answers of uv and of the index are read."""

from __future__ import annotations

import resolve
from packaging.tags import parse_tag
from packaging.version import Version

LINUX, *_, MUSL = resolve.PLATFORMS


def test_the_package_without_wheels_is_read_from_what_uv_says():
    said = (
        "  cause: Because opencv-python-headless>=4.13.0.90,<=4.13.0.92 has no wheels with a matching platform tag\n"
        "      (e.g., `win_arm64`) and you require opencv-python-headless>=4.10, we can conclude ..."
    )
    assert resolve.culprit(said) == "opencv-python-headless"
    assert resolve.culprit("Because scikit-learn>=1.6.0 has no\n usable wheels and you require") == "scikit-learn"
    assert resolve.culprit("Because all versions of rawpy have no usable wheels") == "rawpy"
    assert resolve.culprit("the network is down") == "?"


def test_wheels_of_the_stable_abi_do_not_serve_pythons_without_a_gil(monkeypatch):
    known = {
        "pure": {"1.0": ["py3-none-any"]},
        "own": {"2.0": ["cp314-cp314-manylinux_2_28_x86_64", "cp314-cp314t-manylinux_2_27_x86_64"]},
        "stable": {"3.0": ["cp312-abi3-manylinux_2_17_x86_64"]},
    }
    tags = {name: {Version(one): [*map(parse_tag, some)] for one, some in each.items()} for name, each in known.items()}
    monkeypatch.setattr(resolve, "wheels", tags.__getitem__)
    assert resolve.without_gil(LINUX, "pure==1.0\nown==2\n") == ""
    assert resolve.without_gil(LINUX, "pure==1.0\nstable==3.0\n") == "stable"
    assert resolve.without_gil(MUSL, "pure==1.0\nown==2.0\n") == "own"


def test_a_cell_tells_which_extras_are_kept_back_by_what(monkeypatch):
    lacking = {"all": "cv", "images": "cv", "serve": "cv", "raw": "rawpy", "audio": "", "": ""}
    monkeypatch.setattr(resolve, "missing", lambda platform, python, extra: lacking[extra])
    assert resolve.cell(LINUX, "3.14", ["images", "raw", "serve", "audio"]) == "not images, serve (cv); raw (rawpy)"
    lacking[""] = "scipy"
    assert resolve.cell(LINUX, "3.14", ["images"]) == "nothing (scipy)"
    lacking["all"] = ""
    assert resolve.cell(LINUX, "3.14", ["images"]) == "everything"
