"""What tests/foreign/run_foreign.py notices: tests of others that do not fail as listed. `make check` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parents[1] / "foreign"
FOREIGN = """
import pytest

def test_right(): pass

@pytest.mark.parametrize("kind", ["a-lars", "a-omp"])
def test_kinds(kind): assert kind == "a-omp", "lars is not there"
"""
PROGRAM = """
import json, sys
import pytest
from by_design import Failure
from run_foreign import Foreign

def run(tests, match="lars is not there", digests=()):
    failures = [Failure("by design", AssertionError, match, tests)]
    plugin = Foreign(failures, dict(digests), {})
    return int(pytest.main(["-q", "-p", "no:cacheprovider", "-c", "none.ini", "theirs.py"], plugins=[plugin]))

open("none.ini", "w").write("[pytest]\\n")
results = {
    "as listed": run(["test_kinds[*-lars]"]),
    "not listed": run([]),
    "fails in another way": run(["test_kinds[*-lars]"], match="something else"),
    "passes": run(["test_kinds[*]"]),
    "gone": run(["test_kinds[*-lars]", "test_of_old"]),
    "other tests": run(["test_kinds[*-lars]"], digests=[("json", "0123")]),
}
json.dump(results, open("results.json", "w"))
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "theirs.py").write_text(FOREIGN)
    environment = os.environ | {"PYTHONPATH": str(HERE), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "results.json").read_text()), done.stdout


@pytest.mark.parametrize("case", ["as listed", "other tests"])
def test_what_fails_as_listed_is_no_error(done, case):
    assert done[0][case] == 0


@pytest.mark.parametrize("case", ["not listed", "fails in another way", "passes", "gone"])
def test_what_differs_from_the_list_is_an_error(done, case):
    assert done[0][case] == 1


def test_the_summary_says_what_differs(done):
    said = done[1]
    assert "2 of 3 pass, 1 fail by design, 0 differ from the list" in said
    assert "Listed, but no test has this name: test_of_old" in said
    assert said.count("whose tests are others: json.") == 1
