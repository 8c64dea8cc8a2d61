"""What tools/systems/wheels.py refuses, and that the release's workflow builds the kinds of wheels that it proves."""

from __future__ import annotations

import os
import tomllib
import zipfile
from fnmatch import fnmatch

import pytest
import wheels

pytestmark = pytest.mark.slow

TABLE = tomllib.loads((wheels.ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
PLATFORM = wheels.Platform("manylinux_2_28", "x86_64")
NAME = "coupledict-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.fixture
def make_wheel(tmp_path):
    """Return a function that writes a wheel whose files have these sizes, incompressible, and returns its path."""

    def make(sizes, name=NAME):
        with zipfile.ZipFile(tmp_path / name, "w") as content:
            for file, size in sizes.items():
                content.writestr(file, os.urandom(size))
        return tmp_path / name

    return make


def test_a_sound_wheel_passes_and_its_size_is_told_without_models(make_wheel, capsys):
    wheel = make_wheel({"coupledict/a.so": 2_000_000, "coupledict/images/models/m.safetensors": 4_000_000})
    wheels.check(PLATFORM, "cp311", wheel)
    assert capsys.readouterr().out == f"{NAME}: 6.00 MB, 2.00 MB without models\n"


@pytest.mark.parametrize(
    ("sizes", "name", "message"),
    [
        ({"a.so": 3_000_000}, NAME, "must stay below 3 MB"),
        ({"a.so": 10, "models/m.json": 3_000_000}, NAME, "must stay below 3 MB"),
        ({"a.so": 10, "coupledict.libs/libstdc++-1234.so.6": 10}, NAME, "one shared object"),
        ({"a.py": 10}, NAME, "one shared object"),
        ({"a.so": 10}, NAME.replace("2_28", "2_34"), "Expected a wheel for cp311-cp311-manylinux_2_28_x86_64"),
        ({"a.so": 10}, NAME.replace("x86_64", "aarch64"), "Expected a wheel for cp311-cp311-manylinux_2_28_x86_64"),
        ({"a.so": 10}, NAME.replace("cp311-cp311", "cp312-abi3"), "Expected a wheel for cp311-cp311"),
    ],
)
def test_a_wheel_that_users_should_not_get_is_refused(make_wheel, sizes, name, message):
    with pytest.raises(SystemExit, match=message):
        wheels.check(PLATFORM, "cp311", make_wheel(sizes, name))


def test_a_command_that_fails_ends_the_run_with_what_it_said(capfd):
    with pytest.raises(SystemExit, match="failed with status 3"):
        wheels.run("sh", "-c", "echo reason; exit 3")
    assert "reason" in capfd.readouterr().err


def test_the_compiler_for_musl_changes_with_its_version_only(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "WORK", tmp_path)
    monkeypatch.setattr(wheels.importlib.metadata, "version", lambda name: "1.0")
    script = wheels.compiler(wheels.Platform("musllinux_1_2", "aarch64"))
    assert "-target aarch64-linux-musl" in script.read_text()
    os.utime(script, (1, 1))
    assert wheels.compiler(wheels.Platform("musllinux_1_2", "aarch64")) == script
    assert script.stat().st_mtime == 1
    monkeypatch.setattr(wheels.importlib.metadata, "version", lambda name: "2.0")
    wheels.compiler(wheels.Platform("musllinux_1_2", "aarch64"))
    assert script.stat().st_mtime > 1
    assert os.access(script, os.X_OK)


def test_only_the_module_changes_where_musl_gets_its_own_name(make_wheel, tmp_path, monkeypatch):
    def patch(program, *words):
        assert program.endswith("patchelf")
        assert words[:-1] == ("--replace-needed", "libc.so", "libc.musl-x86_64.so.1")
        words[-1].write_bytes(words[-1].read_bytes() + b"patched")

    monkeypatch.setattr(wheels, "run", patch)
    wheel = make_wheel({"coupledict/a.so": 10, "coupledict/a.py": 20})
    named = wheels.name_musl(wheels.Platform("musllinux_1_2", "x86_64"), wheel, tmp_path / "named")
    assert named.name == wheel.name
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(named) as after:
        assert after.namelist() == before.namelist()
        assert after.read("coupledict/a.so") == before.read("coupledict/a.so") + b"patched"
        assert after.read("coupledict/a.py") == before.read("coupledict/a.py")


def test_the_release_builds_what_is_proved():
    images = {key.removesuffix("-image"): image for key, image in TABLE["linux"].items() if key.endswith("-image")}
    assert {f"{image}_{key.partition('-')[2]}" for key, image in images.items()} == {
        platform.tag for platform in wheels.PLATFORMS
    }
    assert {platform.tag for platform in wheels.PLATFORMS} > wheels.NOT_BY_DEFAULT
    for version in ("cp311", "cp312", "cp313", "cp314", "cp314t"):
        assert any(fnmatch(f"{version}-manylinux_x86_64", pattern) for pattern in TABLE["build"]), version
    assert "{abi3_wheel}" in TABLE["audit-command"]
    assert (wheels.ROOT / "tests/minimal.py").exists()
    assert TABLE["test-command"].endswith("{project}/tests/minimal.py")
    # On musl some are left to others, never all.
    tested = [name for name in ("cp311", "cp312") if f"{name}-musllinux_*" not in TABLE["test-skip"]]
    assert tested == ["cp311", "cp312"]
