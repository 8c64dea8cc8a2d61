"""The example in README runs as printed, and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs_as_printed():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    claimed = float(re.findall(r"five atoms explain: ([0-9.]+)", example)[0])
    assert abs(float(done.stdout) - claimed) < 0.01


def test_the_demo_writes_its_pictures(tmp_path):
    demo = README.parent / "examples" / "demo.py"
    subprocess.run([sys.executable, demo, "--output", tmp_path], check=True, capture_output=True)
    for name in ("pairs.png", "prediction.png", "patches.png"):
        assert (tmp_path / name).stat().st_size > 20_000
