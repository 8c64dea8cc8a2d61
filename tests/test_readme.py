"""The examples in README run as printed, and print what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"
EXAMPLES_OF_README = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_the_example_runs_as_printed():
    example = EXAMPLES_OF_README[0]
    done = subprocess.run([sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    claimed = float(re.findall(r"five atoms explain: ([0-9.]+)", example)[0])
    assert abs(float(done.stdout) - claimed) < 0.01


def test_the_lines_for_images_run_as_printed():
    rng = np.random.default_rng(0)
    names = {name: rng.integers(0, 256, (40, 50, 3), dtype=np.uint8) for name in ("near", "far", "small")}
    assert len(EXAMPLES_OF_README) == 3
    exec(EXAMPLES_OF_README[1], names)
    assert names["fused"].shape == (40, 50, 3)
    assert names["large"].shape == (120, 150, 3)


def test_the_lines_for_recognition_run_as_printed(capsys):
    exec(EXAMPLES_OF_README[2], {})
    claimed = [float(number) for number in re.findall(r"# .*: ([0-9.]+)\n", EXAMPLES_OF_README[2])]
    assert len(claimed) == 2
    np.testing.assert_allclose([float(line) for line in capsys.readouterr().out.split()], claimed, atol=0.02)
