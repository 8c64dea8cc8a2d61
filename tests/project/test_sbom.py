"""What a wheel says about its parts. tools/check_sbom.py looks at the wheel itself, in `make package`."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import uuid
from importlib.metadata import distribution
from pathlib import Path

import check_sbom
import pytest

pytestmark = pytest.mark.slow

nanobind = pytest.importorskip("nanobind", reason="nanobind is not installed; it comes with the group 'native'.")
ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(nanobind.__file__).parent


def write(path, folder=FOLDER, compiler="GNU"):
    words = ["--version", "1.2.3", "--nanobind", nanobind.__version__, "--nanobind-folder", folder]
    words += ["--compiler", compiler, "--compiler-version", "12.2.0"]
    words = [sys.executable, ROOT / "cmake" / "sbom.py", path, *words]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


def test_parts_are_named_with_their_versions(tmp_path):
    parts = check_sbom.components(write(tmp_path / "a.json"))
    assert parts["nanobind"]["version"] == nanobind.__version__
    header = (FOLDER / "ext/robin_map/include/tsl/robin_growth_policy.h").read_text()
    numbers = [re.search(rf"VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH")]
    assert parts["robin-map"]["version"] == ".".join(numbers)
    assert (parts["GNU"]["version"], parts["GNU"]["scope"]) == ("12.2.0", "excluded")


def test_models_come_with_checksums_and_credits(tmp_path):
    parts = check_sbom.components(write(tmp_path / "a.json"))
    models = sorted((ROOT / "src").glob("coupledict/*/models/*.safetensors"))
    assert len(models) > 3
    for path in models:
        part = parts[path.relative_to(ROOT / "src").as_posix()]
        assert part["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]
        (credits,) = part["properties"]
        assert (ROOT / "src" / credits["value"]).is_file()


def test_the_same_parts_give_the_same_bytes_and_other_ones_another_number(tmp_path):
    first = write(tmp_path / "a.json")
    write(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    other = write(tmp_path / "c.json", compiler="Clang")
    assert first["serialNumber"] != other["serialNumber"]
    uuid.UUID(first["serialNumber"].removeprefix("urn:uuid:"))


def test_a_header_without_a_version_is_refused(tmp_path):
    header = tmp_path / "ext/robin_map/include/tsl/robin_growth_policy.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define TSL_RH_VERSION_MAJOR 1\n")
    with pytest.raises(AssertionError, match="Expected the three numbers of robin-map's version"):
        write(tmp_path / "a.json", tmp_path)


def test_licences_of_what_is_compiled_in_come_along():
    (licence,) = [path for path in distribution("nanobind").files if path.name == "LICENSE"]
    assert (ROOT / "licenses/nanobind.txt").read_text() == licence.read_text()
    head = (FOLDER / "ext/robin_map/include/tsl/robin_map.h").read_text().partition("*/")[0]
    words = [line.strip(" /*") for line in head.splitlines()]
    assert " ".join(" ".join(words).split()) == " ".join((ROOT / "licenses/robin-map.txt").read_text().split())
