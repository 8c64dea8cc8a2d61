"""The table of platforms that need no compiler: how answers of uv and of the index are read."""

from __future__ import annotations

import subprocess

import pytest
import resolve

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize(
    ("status", "said", "answer"), [(0, "", True), (1, "ERROR: No matching distribution found for own==2.0", False)]
)
def test_pip_is_asked_for_wheels_without_a_gil(monkeypatch, status, said, answer):
    asked = []

    def run(words, **_):
        asked.append(words)
        return subprocess.CompletedProcess(words, status, "", said)

    monkeypatch.setattr(resolve.subprocess, "run", run)
    resolve.has_wheel.cache_clear()
    assert resolve.has_wheel(MUSL.tags, "own==2.0") is answer
    assert asked[0][asked[0].index("--abi") + 1] == "cp314t"  # wheels of the stable ABI do not serve there
    assert {f"--platform={tag}" for tag in MUSL.tags} < set(asked[0])
    assert {"--dry-run", "--no-deps"} < set(asked[0])


def test_an_index_that_does_not_answer_is_no_answer(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "the network is down")
    monkeypatch.setattr(resolve.subprocess, "run", lambda *_, **__: failed)
    resolve.has_wheel.cache_clear()
    with pytest.raises(SystemExit, match=r"whether own==2\.0 has a wheel: the network is down"):
        resolve.has_wheel(LINUX.tags, "own==2.0")


def test_the_first_package_without_a_wheel_is_named(monkeypatch):
    monkeypatch.setattr(resolve, "has_wheel", lambda tags, pin: pin != "stable==3.0")
    assert resolve.without_gil(LINUX, "pure==1.0\nown==2\n") == ""
    assert resolve.without_gil(LINUX, "pure==1.0\nstable==3.0\nown==2.0\n") == "stable"


def test_a_cell_tells_which_extras_are_kept_back_by_what(monkeypatch):
    lacking = {"all": "cv", "images": "cv", "serve": "cv", "raw": "rawpy", "audio": "", "": ""}
    monkeypatch.setattr(resolve, "missing", lambda platform, python, extra: lacking[extra])
    assert resolve.cell(LINUX, "3.14", ["images", "raw", "serve", "audio"]) == "not images, serve (cv); raw (rawpy)"
    lacking[""] = "scipy"
    assert resolve.cell(LINUX, "3.14", ["images"]) == "nothing (scipy)"
    lacking["all"] = ""
    assert resolve.cell(LINUX, "3.14", ["images"]) == "everything"
