"""tools/audit.py: known vulnerabilities of what is pinned and of lower bounds, with and without a service."""

from __future__ import annotations

import json
from datetime import date

import audit
import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

pytestmark = pytest.mark.slow

TODAY = date(2026, 11, 17)
OLD = audit.Use("fruit", "1.4", "lower bound")
NEW = audit.Use("fruit", "2.0", "pinned")


def record(*affected):
    known = {"ids": ["GHSA-1", "CVE-1"], "affected": list(affected), "fixed": "2.0", "source": "somebody"}
    return {
        "recorded": "2026-11-07",
        "complete": True,
        "source": "",
        "packages": ["fruit"],
        "advisories": {"fruit": [known]},
    }


def test_nothing_known_in_the_record_is_allowed_or_pinned(capsys):
    assert audit.main(["--offline"]) == 0, capsys.readouterr().out


def test_pins_and_lower_bounds_are_looked_at():
    by_reason = {why: {use.package for use in audit.uses() if use.why == why} for why in ("pinned", "lower bound")}
    assert {"numpy", "nanobind", "pillow", "starlette"} <= by_reason["lower bound"]
    assert by_reason["lower bound"] < by_reason["pinned"]


def test_a_lower_bound_that_is_affected_is_found():
    found = audit.from_record([OLD, NEW], record(">=1,<2.0"))
    assert [str(finding) for finding in found] == ["fruit 1.4 (lower bound): GHSA-1 = CVE-1; mended in 2.0."]
    assert audit.from_record([OLD, NEW], record("<1", ">=1.5,<2")) == []
    assert len(audit.from_record([OLD, NEW], record("<1", ">=1.4"))) == 2


def said(*entries):
    return json.dumps({"dependencies": list(entries), "fixes": []})


def test_answers_of_the_service_become_findings_and_a_record():
    vuln = {"id": "PYSEC-1", "fix_versions": ["2.0"], "aliases": ["GHSA-1", "CVE-1"], "description": "long"}
    output = said(
        {"name": "Fruit", "version": "1.4", "vulns": [vuln]}, {"name": "fruit", "version": "2.0", "vulns": []}
    )
    answers = audit.answered(output, "")
    found = audit.from_service([OLD, NEW], answers)
    assert [(finding.use, finding.identifiers) for finding in found] == [(OLD, ("PYSEC-1", "CVE-1", "GHSA-1"))]
    again = json.loads(json.dumps(audit.recorded([OLD, NEW], answers, TODAY)))
    assert audit.from_record([OLD, NEW], again) == found
    assert "0 days old" in audit.age(again, [OLD, NEW], TODAY)


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("", "Name or service not known"),
        ("{}", "Name or service not known"),
        (said({"name": "numpy", "skip_reason": "Dependency not found"}), "does not know 1 of 1 packages"),
    ],
)
def test_a_service_that_knows_nothing_is_not_taken_for_good_news(output, why):
    with pytest.raises(audit.UnreachableError, match=why):
        audit.answered(output, "Traceback\nName or service not known")


def test_without_a_service_nothing_is_recorded(monkeypatch, capsys):
    def nobody(wanted):
        raise audit.UnreachableError("nobody is there")

    monkeypatch.setattr(audit, "ask", nobody)
    before = audit.RECORD.read_bytes()
    assert audit.main(["--record"]) == 2
    assert audit.RECORD.read_bytes() == before
    assert "nobody is there" in capsys.readouterr().out
    assert audit.main([]) == 0  # the record answers
    assert "days old" in capsys.readouterr().out


def test_what_the_service_finds_fails_until_it_is_accepted(monkeypatch, tmp_path, capsys):
    vuln = {"id": "PYSEC-1", "fix_versions": [], "aliases": ["CVE-1"]}
    monkeypatch.setattr(audit, "uses", lambda: [OLD])
    monkeypatch.setattr(audit, "ask", lambda wanted: {("fruit", "1.4"): [vuln]})
    assert audit.main([], TODAY) == 1
    assert "PYSEC-1 = CVE-1; mended in no version" in capsys.readouterr().out
    monkeypatch.setattr(audit, "ACCEPTED", tmp_path / "accepted.toml")
    audit.ACCEPTED.write_text('[[accepted]]\nid = "CVE-1"\nuntil = 2026-11-17\nreason = "it is never called"\n')
    assert audit.main([], TODAY) == 0
    assert audit.main([], date(2026, 11, 18)) == 1
    assert "CVE-1 was accepted until 2026-11-17" in capsys.readouterr().out


@pytest.mark.parametrize("entry", [{}, {"reason": " "}, {"until": "2026-11-17"}, {"id": None}])
def test_what_is_accepted_needs_a_reason_and_an_end(entry):
    whole = {"id": "CVE-1", "until": TODAY, "reason": "it is never called"}
    assert audit.accepted({"accepted": [whole]}, TODAY) == {"CVE-1"}
    broken = {key: value for key, value in {**whole, **entry}.items() if entry and value is not None}
    with pytest.raises(ValueError, match="Expected id, reason and until"):
        audit.accepted({"accepted": [broken]}, TODAY)


def test_the_record_is_whole():
    content = json.loads(audit.RECORD.read_text())
    assert set(content["advisories"]) <= set(content["packages"])
    date.fromisoformat(content["recorded"])
    for known in (known for several in content["advisories"].values() for known in several):
        assert known["ids"]
        assert known["source"]
        for part in known["affected"]:
            assert not known["fixed"] or not SpecifierSet(part).contains(Version(known["fixed"])), known
