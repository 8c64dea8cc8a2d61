"""All proofs one after the other, within a quarter of an hour: python torture/run.py, or `make torture`.

Each proof is a separate process, so that a crash is detected and memory can be measured. Proofs that measure time run
alone, the others in parallel. The figures go to output/torture/report.json; the exit code is 1 if any proof failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import coupledict

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Proof:
    """A script, how often it tries, and from which seed."""

    script: str
    count: int
    seed: int = 0
    alone: bool = False
    seconds: int = 600  # more than this is a hang


PROOFS = [
    Proof("interrupts", 150, alone=True),
    Proof("processes", 3, alone=True),
    Proof("clients", 600, alone=True),
    *(Proof("fuzz_coding", 25_000, seed) for seed in range(4)),
    *(Proof("fuzz_coherent", 25_000, seed) for seed in range(4)),
    Proof("kills", 200),
    Proof("kill_commands", 100),
    Proof("number_types", 20_000),
    Proof("endurance", 2_000),
    Proof("fuzz_learning", 4_000),
    Proof("fuzz_images", 3_000),
    Proof("model_files", 10_000),
    Proof("media", 10_000),
    Proof("reader_fuzz", 20_000),
]


@dataclass
class Outcome:
    """What came of a proof."""

    script: str
    count: int
    seed: int
    passed: bool
    seconds: float
    figures: dict[str, object] = field(default_factory=dict)
    message: str = ""


def attempt(proof: Proof) -> Outcome:
    """Run one proof and say what came of it."""
    command = [sys.executable, f"{proof.script}.py", "--count", str(proof.count), "--seed", str(proof.seed)]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=HERE, capture_output=True, text=True, errors="replace", timeout=proof.seconds, check=False
        )
        passed, lines, message = done.returncode == 0, done.stdout.splitlines(), done.stderr
    except subprocess.TimeoutExpired as error:
        passed, lines, message = False, [], f"no end after {error.timeout:g} s"
    figures = json.loads(lines[-1]) if passed else {}
    outcome = Outcome(proof.script, proof.count, proof.seed, passed, time.monotonic() - begun, figures)
    outcome.message = "" if passed else message[-4000:]
    word = "passed" if passed else "FAILED"
    print(f"{word}  {proof.script} {proof.count} (seed {proof.seed}), {outcome.seconds:.0f} s", flush=True)
    print("        " + (json.dumps(figures) if passed else outcome.message), flush=True)
    return outcome


def attempt_all(proofs: Iterable[Proof], n_workers: int) -> list[Outcome]:
    """Run proofs, those that look at clocks first and alone, the rest `n_workers` at a time."""
    proofs = list(proofs)
    outcomes = [attempt(proof) for proof in proofs if proof.alone]
    with ThreadPoolExecutor(n_workers) as pool:
        return outcomes + list(pool.map(attempt, [proof for proof in proofs if not proof.alone]))


def main() -> int:
    """Run what was asked for and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proofs", nargs="*", help=f"which: {', '.join(dict.fromkeys(p.script for p in PROOFS))}; all")
    parser.add_argument("--share", type=float, default=1.0, help="of the full number of cases; 0.1 is a quick look")
    parser.add_argument("--output", type=Path, default=Path("output/torture"), help="folder of the report")
    arguments = parser.parse_args()
    wanted = [proof for proof in PROOFS if not arguments.proofs or proof.script in arguments.proofs]
    if unknown := set(arguments.proofs) - {proof.script for proof in PROOFS}:
        parser.error(f"Expected names of proofs, got {', '.join(sorted(unknown))}.")
    wanted = [Proof(p.script, max(1, round(arguments.share * p.count)), p.seed, p.alone, p.seconds) for p in wanted]
    begun = time.monotonic()
    outcomes = attempt_all(wanted, len(os.sched_getaffinity(0)))
    report = {
        "build": coupledict.build_info(),
        "seconds": time.monotonic() - begun,
        "passed": all(outcome.passed for outcome in outcomes),
        "proofs": [asdict(outcome) for outcome in outcomes],
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    word = "All passed" if report["passed"] else "Not all passed"
    print(f"{word} in {report['seconds']:.0f} s; figures in {arguments.output / 'report.json'}")
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
