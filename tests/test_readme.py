"""The examples in README run as printed, and print what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

import coupledict.cli

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


COMMANDS = [
    line.split("#")[0].removeprefix("$ ").split()
    for page in (README, README.parent / "docs" / "guide" / "command_line.md")
    for line in map(str.strip, page.read_text().splitlines())
    if re.match(r"(\$ )?coupledict [a-z]+ ", line) and "opens a page" not in line
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_can_be_given_as_printed(words):
    commands = typer.main.get_command(coupledict.cli._app.app).commands
    commands[words[1]].make_context(words[1], words[2:])  # raises for what it does not know; runs nothing


def test_there_are_commands():
    assert {words[1] for words in COMMANDS} >= {"fuse", "upscale", "widen", "learn", "predict", "show", "encode"}
