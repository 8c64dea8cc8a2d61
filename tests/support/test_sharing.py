"""How tests are handed to workers: one that ends its worker is told once, and the others still run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("xdist")

SETUP = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support import sharing
def pytest_xdist_make_scheduler(config, log):
    return sharing.Sharing(config, log)
"""
TESTS = """
import os
def test_before(): pass
def test_that_ends_its_worker(): os._exit(3)
def test_behind(): pass
"""


def test_a_test_that_ends_its_worker_fails_once_and_the_others_run(tmp_path):
    (tmp_path / "conftest.py").write_text(SETUP)
    (tmp_path / "test_one.py").write_text(TESTS)
    (tmp_path / "test_two.py").write_text("def test_elsewhere(): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "--rootdir", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1
    assert re.search("1 failed, 3 passed", done.stdout), done.stdout
    assert done.stdout.count("node down") == 1
