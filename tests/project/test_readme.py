"""README runs from top to bottom, as printed, and prints what it says; its commands are commands that there are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import typer

import coupledict.cli
from support import pages, readers_files

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted(page for page in (ROOT / "docs").rglob("*.md") if "gallery" not in page.parts)]
COMMANDS = sorted({
    command
    for page in PAGES
    for block in pages.blocks(page)
    if block.kind in ("console", "bash")
    for command, _ in pages.commands(block)
})  # fmt: skip
OURS = [command.split() for command in COMMANDS if command.startswith("coupledict ")]


@pytest.mark.slow
def test_readme_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__page__"}
    assert pages.run(README, names, readers_files.bring) == []
    assert names["fused"].shape == (80, 100, 3)
    assert names["large"].shape == (240, 300, 3)
    assert (tmp_path / "predicted.npy").exists()


def test_nothing_is_printed_as_code_that_is_not_run():
    """Commands in a paragraph of four blanks would be left out: they are fenced."""
    assert [
        line for page in PAGES for line in page.read_text().splitlines() if line.startswith("    coupledict ")
    ] == []


@pytest.mark.parametrize("words", OURS, ids=" ".join)
def test_commands_can_be_given_as_printed(words):
    """Also those that are not run here, because they take long or wait for a browser."""
    commands = typer.main.get_command(coupledict.cli._app.app).commands
    given = [word.strip('"') for word in words[2:]]
    if words[1] in commands:
        commands[words[1]].make_context(words[1], given)  # raises for what it does not know; runs nothing
    else:
        assert words[1].startswith("--")


def test_there_are_commands():
    found = {words[1] for words in OURS}
    assert found >= {"fuse", "upscale", "fill", "stain", "widen", "learn", "predict", "show", "encode", "serve"}


def test_targets_and_extras_are_those_that_there_are():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {command.split()[1] for command in COMMANDS if command.startswith("make ")}
    text = "".join(page.read_text() for page in PAGES)
    asked = {extra for found in re.findall(r"(?:coupledict|\.)\[([a-z,]+)\]\"", text) for extra in found.split(",")}
    assert {"demo", "test"} <= named <= targets
    assert {"all", "images", "audio", "dask"} <= asked <= set(extras)
