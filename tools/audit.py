"""Look for known vulnerabilities in what is pinned, and in the lowest versions that pyproject.toml allows.

pip-audit asks its service. Where that cannot be reached, or does not know packages that exist, security/advisories.json
answers: a record of advisories, with its age and with what it covers. A lower bound with a known vulnerability is a
bound to raise. What is accepted stands in security/accepted.toml, with a reason and a day on which it ends.

    python tools/audit.py             # ask the service, or else the record
    python tools/audit.py --offline   # the record alone
    python tools/audit.py --record    # ask the service, and write what it says into the record
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import needs
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "security" / "advisories.json"
ACCEPTED = ROOT / "security" / "accepted.toml"
# A package that surely exists: a service that does not find it knows nothing about the others either.
SURELY_KNOWN = "numpy"


class UnreachableError(Exception):
    """The service of pip-audit gave no answer that can be relied on."""


@dataclass(frozen=True, order=True)
class Use:
    """A version of a package that somebody may have: pinned here, or the lowest that is allowed."""

    package: str
    version: str
    why: str


@dataclass(frozen=True, order=True)
class Finding:
    """A known vulnerability of a version that is used."""

    use: Use
    identifiers: tuple[str, ...]
    fixed: str

    def __str__(self) -> str:
        names = " = ".join(self.identifiers)
        return (
            f"{self.use.package} {self.use.version} ({self.use.why}): {names}; mended in {self.fixed or 'no version'}."
        )


def uses(root: Path = ROOT) -> list[Use]:
    """Return what constraints.txt pins, and the lower bounds of pyproject.toml."""
    pinned = [Requirement(line) for line in (root / "constraints.txt").read_text().splitlines() if line]
    bounds = needs.lowest(root / "pyproject.toml").values()
    return sorted(
        Use(str(canonicalize_name(needed.name)), part.version, why)
        for why, needs in (("pinned", pinned), ("lower bound", bounds))
        for needed in needs
        for part in needed.specifier
    )


def ask(wanted: list[Use]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return what the service of pip-audit knows about each version, or raise `UnreachableError`."""
    answers: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for why in sorted({use.why for use in wanted}):  # a file of requirements has one version of a package
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "requirements.txt"
            path.write_text("".join(f"{use.package}=={use.version}\n" for use in wanted if use.why == why))
            words = ["--requirement", str(path), "--no-deps", "--disable-pip", "--progress-spinner", "off"]
            words = [sys.executable, "-m", "pip_audit", *words, "--format", "json", "--timeout", "20"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        answers |= answered(done.stdout, done.stderr)
    return answers


def answered(output: str, errors: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Read what pip-audit printed. Packages that it left out have no answer."""
    try:
        entries = json.loads(output)["dependencies"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        last = (errors.strip().splitlines() or ["it said nothing"])[-1]
        raise UnreachableError(f"pip-audit gave no answer: {last[:200]}") from error
    left_out = [entry["name"] for entry in entries if "skip_reason" in entry]
    if SURELY_KNOWN in left_out:
        raise UnreachableError(
            f"the service does not know {len(left_out)} of {len(entries)} packages, such as {SURELY_KNOWN}"
        )
    return {
        (str(canonicalize_name(entry["name"])), entry["version"]): entry["vulns"]
        for entry in entries
        if "skip_reason" not in entry
    }


def from_service(wanted: list[Use], answers: dict[tuple[str, str], list[dict[str, Any]]]) -> list[Finding]:
    """Return the findings among `answers`."""
    return [
        Finding(use, (vuln["id"], *sorted(vuln["aliases"])), ", ".join(vuln["fix_versions"]))
        for use in wanted
        for vuln in answers.get((use.package, use.version), [])
    ]


def from_record(wanted: list[Use], record: dict[str, Any]) -> list[Finding]:
    """Return the findings by the ranges of versions that a `record` has."""
    return [
        Finding(use, tuple(known["ids"]), known["fixed"])
        for use in wanted
        for known in record["advisories"].get(use.package, [])
        if any(SpecifierSet(part).contains(Version(use.version), prereleases=True) for part in known["affected"])
    ]


def recorded(wanted: list[Use], answers: dict[tuple[str, str], list[dict[str, Any]]], day: date) -> dict[str, Any]:
    """Return a record of what the service said: it speaks of the versions that were asked for, and of no others."""
    advisories: dict[str, list[dict[str, Any]]] = {}
    for finding in from_service(wanted, answers):
        entry = {
            "ids": list(finding.identifiers),
            "affected": [f"=={finding.use.version}"],
            "fixed": finding.fixed,
            "source": "pip-audit",
        }
        advisories.setdefault(finding.use.package, []).append(entry)
    return {
        "recorded": day.isoformat(),
        "complete": True,
        "source": "What the service of pip-audit said about every pinned version and every lower bound.",
        "packages": sorted({package for package, _ in answers}),
        "advisories": dict(sorted(advisories.items())),
    }


def accepted(content: dict[str, Any], today: date) -> set[str]:
    """Return the identifiers that are accepted today; each has a reason and an end."""
    names = set()
    for entry in content.get("accepted", []):
        if not str(entry.get("reason", "")).strip() or not isinstance(entry.get("until"), date) or "id" not in entry:
            raise ValueError(
                f"Expected id, reason and until (a day, as 2026-12-31) in security/accepted.toml, got {entry}."
            )
        if entry["until"] >= today:
            names.add(entry["id"])
        else:
            print(f"{entry['id']} was accepted until {entry['until']}, and no longer is.")
    return names


def age(record: dict[str, Any], wanted: Iterable[Use], today: date) -> str:
    """Return a sentence about how old a record is and what it says nothing about."""
    packages = {use.package for use in wanted}
    unknown = sorted(packages - set(record["packages"]))
    days = (today - date.fromisoformat(record["recorded"])).days
    covered = f"It covers {len(packages) - len(unknown)} of {len(packages)} packages"
    whole = "" if record["complete"] else ", and is not complete for these: see its source"
    return f"The record of advisories is {days} days old ({record['recorded']}). {covered}{whole}."


def main(arguments: list[str] | None = None, today: date | None = None) -> int:
    """Print what is found; return 1 if something is that is not accepted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--offline", action="store_true", help="use the record alone")
    parser.add_argument("--record", action="store_true", help="ask the service, and write the record")
    options = parser.parse_args(arguments)
    today = today or date.today()
    wanted = uses()
    try:
        if options.offline:
            raise UnreachableError("it was not asked")
        answers = ask(wanted)
        silent = sorted({use.package for use in wanted if (use.package, use.version) not in answers})
        print(
            f"pip-audit's service answered about {len(answers)} versions; about these it did not: {silent or 'none'}."
        )
        found = from_service(wanted, answers)
        if options.record:
            RECORD.write_text(json.dumps(recorded(wanted, answers, today), indent=1) + "\n")
    except UnreachableError as error:
        if options.record:
            print(f"Nothing was recorded: {error}.")
            return 2
        record = json.loads(RECORD.read_text())
        print(f"The service was not used: {error}. {age(record, wanted, today)}")
        found = from_record(wanted, record)
    names = accepted(tomllib.loads(ACCEPTED.read_text()), today)
    left = sorted(finding for finding in found if not names & set(finding.identifiers))
    for finding in left:
        print(finding)
    print(f"{len(left)} known vulnerabilities in {len(wanted)} versions; {len(found) - len(left)} more are accepted.")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
