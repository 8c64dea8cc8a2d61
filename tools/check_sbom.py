"""Check what a wheel says about its parts (PEP 770): the form, the versions, the licences. `make package` runs this.

The form is that of CycloneDX; its library brings the schema.

    python tools/check_sbom.py WHEEL    # needs cyclonedx-python-lib[json-validation]
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent


def components(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parts of a document by name."""
    return {part["name"]: part for part in document["components"]}


def pinned(name: str) -> str:
    """Return the version of a package that constraints.txt pins."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line)
    return pins[name]


def faults(wheel: ZipFile) -> list[str]:
    """Return what is wrong with the SBOM of a wheel that was built with the pinned nanobind, as sentences."""
    found = [name for name in wheel.namelist() if ".dist-info/sboms/" in name]
    if len(found) != 1:
        return [f"Expected one file in .dist-info/sboms, got {found}."]
    parts = components(json.loads(wheel.read(found[0])))
    folder = found[0].partition("/")[0]
    wrong = []
    if parts["nanobind"]["version"] != pinned("nanobind"):
        wrong.append(f"Expected nanobind {pinned('nanobind')}, got {parts['nanobind']['version']}.")
    for name in (name for name in wheel.namelist() if name.endswith(".safetensors")):
        checksum = hashlib.sha256(wheel.read(name)).hexdigest()
        if name not in parts or parts[name]["hashes"][0]["content"] != checksum:
            wrong.append(f"Expected {name} with its checksum {checksum} among the parts.")
    for part in ("nanobind", "robin-map"):
        text = f"{folder}/licenses/{parts[part]['properties'][0]['value']}"
        if text not in wheel.namelist():
            wrong.append(f"Expected the licence of {part} as {text} in the wheel.")
    return wrong


def main(path: Path) -> None:
    """Check one wheel; raise a ValueError that says what is wrong."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    with ZipFile(path) as wheel:
        wrong = faults(wheel)
        if wrong:
            raise ValueError(" ".join(wrong))
        (name,) = [name for name in wheel.namelist() if ".dist-info/sboms/" in name]
        against = JsonStrictValidator(SchemaVersion.V1_6).validate_str(wheel.read(name).decode())
    if against is not None:
        raise ValueError(f"Expected {name} to be CycloneDX 1.6, but: {against}")
    print(f"{name} is valid, and names what is in the wheel.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
