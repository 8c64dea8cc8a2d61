"""What developers work with: the list of targets, the hooks at a commit, the groups of tools and their pins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import lock
import needs
import pytest
import torch_wheel
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.slow

ROOT = Path(lock.ROOT)
HOOKS = ".pre-commit-config.yaml"
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
PINS = {canonicalize_name(pin.name): pin for pin in map(Requirement, (ROOT / "constraints.txt").read_text().split())}


def make(*words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    words = ("make", "--no-print-directory", *words)
    return subprocess.run(words, cwd=ROOT, env=env, check=False, capture_output=True, text=True)


def test_make_alone_lists_the_targets():
    done = make()
    assert done.returncode == 0
    assert done.stdout == make("help").stdout
    assert "make test " in done.stdout


@pytest.mark.parametrize("target", ["bench", "systems"])
def test_what_can_be_named_is_listed(target):
    listed = make(target)
    assert listed.returncode == 0
    assert {"bench": "sparse_coding", "systems": "lowest"}[target] in listed.stdout


@pytest.mark.parametrize(
    ("target", "name"), [("bench", "nope"), ("bench", "_data"), ("systems", "nope"), ("systems", "test")]
)
def test_an_unknown_name_is_refused_before_anything_is_set_up(target, name, tmp_path):
    done = make(target, f"NAME={name}", f"VENV={tmp_path / 'venv'}")
    assert done.returncode != 0
    assert "Expected NAME to be " in done.stderr
    assert f"got {name}" in done.stderr
    assert not any(tmp_path.iterdir())


def hooks() -> list[dict[str, object]]:
    return [hook for repo in yaml.safe_load((ROOT / HOOKS).read_text())["repos"] for hook in repo["hooks"]]


def test_no_hook_is_downloaded():
    assert {repo["repo"] for repo in yaml.safe_load((ROOT / HOOKS).read_text())["repos"]} == {"local"}
    programs = [str(hook["entry"]).split()[0] for hook in hooks() if hook["language"] == "system"]
    assert len(programs) > 10
    assert all(program.startswith(".venv/bin/") for program in programs)
    assert {hook["language"] for hook in hooks()} == {"system", "pygrep"}


def test_a_commit_is_checked_as_make_lint_checks():
    lint = re.findall(r"^\.venv/bin/(.*)$", make("-n", "lint", "VENV=.venv").stdout, re.MULTILINE)
    checks = {" ".join(re.findall(r"^[\w-]+(?: check| format)?", line)) for line in lint}
    entries = [str(hook["entry"]).removeprefix(".venv/bin/") for hook in hooks()]
    assert {"ruff check", "ruff format", "mypy", "clang-format"} <= checks
    for check in checks - {"pre-commit", "python"}:
        assert any(entry.startswith(check) for entry in entries), check


@pytest.fixture
def repository(tmp_path):
    """Return a repository with the hooks of this one, and a sound file of each kind."""
    (tmp_path / HOOKS).write_bytes((ROOT / HOOKS).read_bytes())
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".gitignore").write_text(".venv\ncache\n")
    (tmp_path / "pyproject.toml").write_text('[tool.ruff.lint]\nselect = ["F"]\n')
    (tmp_path / ".clang-format").write_bytes((ROOT / ".clang-format").read_bytes())
    native = tmp_path / "src" / "native"
    native.mkdir(parents=True)
    (native / "sound.h").write_text("int one();\n")
    (tmp_path / "sound.py").write_text("import sys\n\nprint(sys.argv)\n")
    (tmp_path / "sound.md").write_text("# Title\n\n```python\nx = 1\n```\n")
    (tmp_path / "sound.yml").write_text("a: [1, 2]\n")
    (tmp_path / "sound.json").write_text('{"a": 1}\n')
    return tmp_path


# These look at the whole project, and `make lint` runs them there.
WHOLE = ("mypy", "import-linter", "zizmor", "repo-review")


def failed(repository: Path) -> set[str]:
    """Run the hooks on all files of a repository and return those that fail."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))}
    env |= {"PRE_COMMIT_HOME": str(repository / "cache"), "SKIP": ",".join(WHOLE), "HOME": str(repository)}
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=repository, env=env, check=True)
    before = {path: path.read_bytes() for path in repository.glob("*.*") if path.is_file()}
    words = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color=never"]
    done = subprocess.run(words, cwd=repository, env=env, check=False, capture_output=True, text=True)
    assert before == {path: path.read_bytes() for path in repository.glob("*.*") if path.is_file()}
    found = set(re.findall(r"^- hook id: (.*)$", done.stdout, re.MULTILINE))
    assert done.returncode == bool(found), done.stdout + done.stderr
    return found


def test_hooks_pass_on_sound_files(repository):
    assert failed(repository) == set()


def test_every_hook_finds_its_mistake_and_changes_no_file(repository):
    faults = {
        "ruff-check": ("a.py", "import os\n"),
        "ruff-format": ("b.md", "```python\nx=1\n```\n"),
        "clang-format": ("src/native/a.h", "int  one( );\n"),
        "codespell": ("a.txt", "recie" + "ve\n"),
        "check-yaml": ("a.yml", "a: [1\n"),
        "check-toml": ("a.toml", "a = \n"),
        "check-json": ("a.json", "{'a': 1}\n"),
        "validate-pyproject": ("pyproject.toml", 'tool.ruff.lint.select = ["F"]\ntool.cibuildwheel.builds = "*"\n'),
        "merge-conflict": ("b.txt", "<" * 7 + " HEAD\n"),
        "check-case-conflict": ("Sound.py", "x = 1\n"),
        "check-added-large-files": ("c.txt", "a\n" * 200_000),
        "check-executables-have-shebangs": ("run", "echo\n"),
        "debug-statements": ("d.py", "break" + "point()\n"),
        "detect-private-key": ("e.txt", "-----BEGIN RSA " + "PRIVATE KEY-----\n"),
        "trailing-whitespace": ("f.txt", "a \n"),
        "final-newline": ("g.txt", "a"),
    }
    assert set(faults) == {hook["id"] for hook in hooks()} - set(WHOLE)
    for name, text in faults.values():
        (repository / name).write_text(text)
    (repository / "run").chmod(0o755)
    assert failed(repository) == set(faults)


def needed(group: str) -> list[Requirement]:
    """Return what a dependency group needs; groups that it includes are followed."""
    found = []
    for entry in GROUPS[group]:
        found += [Requirement(entry)] if isinstance(entry, str) else needed(entry["include-group"])
    return found


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_tools_are_pinned_at_a_version_that_is_allowed(group):
    for tool in needed(group):
        (version,) = [part.version for part in PINS[canonicalize_name(tool.name)].specifier]
        assert tool.specifier.contains(version), tool


def test_tools_are_no_extras_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not set(project["optional-dependencies"]) & set(GROUPS)
    names = {canonicalize_name(each.name) for each in needs.run_time(project)}
    assert not names & {"pytest", "ruff", "sphinx", "pre-commit"}


def test_pins_are_what_pip_reports_without_the_package_itself():
    entries = [("Zope.Interface", "2.0"), ("coupledict", "0.1.0"), ("a_b", "1.2")]
    report = {"install": [{"metadata": {"name": name, "version": version}} for name, version in entries]}
    assert lock.pins(report, "coupledict") == ["a-b==1.2", "zope-interface==2.0"]


def test_pins_are_of_no_kind_of_machine():
    entries = [("torch", "2.13.0+cpu"), ("nvidia-cublas-cu13", "1.0"), ("cuda-toolkit", "13.0"), ("triton", "3.7")]
    report = {"install": [{"metadata": {"name": name, "version": version}} for name, version in entries]}
    assert lock.pins(report, "coupledict") == ["torch==2.13.0"]


def test_the_wheel_of_torch_for_graphics_cards_is_refused(monkeypatch, capsys):
    def found(*needs: str) -> dict[str, object]:
        return {"install": [{"metadata": {"name": "torch", "version": "2.13.0", "requires_dist": needs}}]}

    of_linux = 'nvidia-cublas; platform_system == "Linux"'
    elsewhere = 'cuda-toolkit[all]==13.0; platform_system == "Plan 9"'
    assert torch_wheel.of_graphics_cards(found("filelock", "sympy>=1.13.3", elsewhere)) == []
    assert torch_wheel.of_graphics_cards(found("filelock", of_linux, "triton==3.7"), {"platform_system": "Linux"}) == [
        "nvidia-cublas",
        "triton",
    ]
    monkeypatch.setattr(torch_wheel, "ask_pip", lambda *_: found("triton==3.7"))
    with pytest.raises(SystemExit) as ended:
        torch_wheel.main([])
    assert "got one that also installs triton" in str(ended.value)
    assert "TORCH_INDEX" in str(ended.value)
    monkeypatch.setattr(torch_wheel, "ask_pip", lambda *_: found("filelock"))
    torch_wheel.main([])


def test_a_lock_that_fails_leaves_the_pins_alone(tmp_path, monkeypatch):
    (tmp_path / "constraints.txt").write_text("a==1\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\n[dependency-groups]\nx = ["b"]\n')
    monkeypatch.setattr(lock, "command", lambda *_: [sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(subprocess.CalledProcessError):
        lock.main(tmp_path)
    assert (tmp_path / "constraints.txt").read_text() == "a==1\n"


def test_all_groups_are_resolved_beside_all_extras(tmp_path):
    words = lock.command(["x", "y"], tmp_path / "r.json")
    assert words[-5:] == ["--group", "x", "--group", "y", ".[all]"]
    assert "--dry-run" in words
