r"""Write down what a wheel is made of, as CycloneDX 1.6: CMake runs this, and the wheel holds it (PEP 770).

The same sources and tools give the same bytes: there is no time in it, and its serial number is made from the rest.

    python cmake/sbom.py FILE --version 0.1.0 --nanobind 2.4.0 --nanobind-folder FOLDER \
        --compiler GNU --compiler-version 12
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OWN = "BSD-3-Clause"


def licensed(name: str) -> list[dict[str, Any]]:
    """Return the licence with the SPDX identifier `name` as a component states it."""
    return [{"license": {"id": name}}]


def robin_map_version(nanobind: Path) -> str:
    """Return the version of the hash map that comes with nanobind, as its header states it."""
    header = nanobind / "ext" / "robin_map" / "include" / "tsl" / "robin_growth_policy.h"
    numbers = dict(re.findall(r"#define TSL_RH_VERSION_(\w+) (\d+)", header.read_text(encoding="utf-8")))
    if set(numbers) != {"MAJOR", "MINOR", "PATCH"}:
        raise ValueError(f"Expected the three numbers of robin-map's version in {header}, got {sorted(numbers)}.")
    return f"{numbers['MAJOR']}.{numbers['MINOR']}.{numbers['PATCH']}"


def library(name: str, version: str, licence: str, url: str, purl: str, text: str) -> dict[str, Any]:
    """Return the component of a library whose code is in the extension; `text` is its licence in the wheel."""
    return {
        "type": "library",
        "bom-ref": f"{name}@{version}",
        "name": name,
        "version": version,
        "description": "Compiled into coupledict/kernels/_native.",
        "licenses": licensed(licence),
        "purl": purl,
        "externalReferences": [{"type": "website", "url": url}],
        "properties": [{"name": "coupledict:licence-text", "value": text}],
    }


def model(path: Path, version: str) -> dict[str, Any]:
    """Return the component of a model that comes with the package."""
    inside = path.relative_to(ROOT / "src").as_posix()
    return {
        "type": "machine-learning-model",
        "bom-ref": inside,
        "name": inside,
        "version": version,
        "description": "Dictionaries and linear maps, learned from the data that the credits name.",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "licenses": licensed(OWN),
        "properties": [
            {"name": "coupledict:credits", "value": f"{path.parent.relative_to(ROOT / 'src').as_posix()}/CREDITS.md"}
        ],
    }


def compiler(name: str, version: str) -> dict[str, Any]:
    """Return the component of the compiler, which made the wheel and is no part of it."""
    return {
        "type": "application",
        "bom-ref": f"compiler:{name}@{version}",
        "name": name,
        "version": version,
        "description": "The C++ compiler of coupledict/kernels/_native.",
        "scope": "excluded",
    }


def bill(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the whole document, but for its serial number."""
    own = f"coupledict@{arguments.version}"
    robin = robin_map_version(arguments.nanobind_folder)
    repository = "https://github.com/"
    parts = [
        library(
            "nanobind", arguments.nanobind, OWN, f"{repository}wjakob/nanobind",
            f"pkg:pypi/nanobind@{arguments.nanobind}", "licenses/nanobind.txt",
        ),
        library(
            "robin-map", robin, "MIT", f"{repository}Tessil/robin-map",
            f"pkg:github/tessil/robin-map@v{robin}", "licenses/robin-map.txt",
        ),
        *(model(path, arguments.version) for path in sorted((ROOT / "src").glob("coupledict/*/models/*.safetensors"))),
    ]  # fmt: skip
    tool = compiler(arguments.compiler, arguments.compiler_version)
    main = {
        "type": "library",
        "bom-ref": own,
        "name": "coupledict",
        "version": arguments.version,
        "licenses": licensed(OWN),
        "purl": f"pkg:pypi/{own}",
    }
    inside = [part["bom-ref"] for part in parts]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"lifecycles": [{"phase": "build"}], "component": main},
        "components": [*parts, tool],
        "dependencies": [{"ref": own, "dependsOn": inside}, {"ref": inside[0], "dependsOn": [inside[1]]}],
    }


def main() -> None:
    """Write the document to the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--nanobind-folder", type=Path, required=True)
    for name in ("version", "nanobind", "compiler", "compiler-version"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    document = bill(arguments)
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    text = json.dumps({**document, "serialNumber": f"urn:uuid:{serial}"}, indent=1)
    arguments.file.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
