"""The proofs of torture/ in short, and that each of them can fail."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import fuzz_coding
import fuzz_learning
import kills
import numpy as np
import pytest
import run as runner

from coupledict import ModelFileError, sparse_encode
from support import extras
from support.careless import rename_early
from support.programs import run_python

pytestmark = pytest.mark.slow

TORTURE = Path(kills.__file__).parent


def test_codes_of_awkward_problems():
    figures = fuzz_coding.run(300, seed=1)
    assert figures["cases"] == 300
    assert figures["nonzeros"] > 3000


def test_fits_on_awkward_samples():
    figures = fuzz_learning.run(60, seed=1)
    assert figures["cases"] == 60
    assert min(figures["lasso"], figures["incomplete"], figures["not negative"]) >= 5


def filled_anew(learner, Xs, found):
    return [whole + 1 for whole in found]


def beyond_numbers(learner, Xs, found):
    return [whole * np.inf for whole in found]


def filled_with_0(learner, Xs, found):
    return [np.nan_to_num(X) for X in Xs]


@pytest.mark.parametrize("fault", [filled_anew, beyond_numbers, filled_with_0])
def test_wrong_imputation_is_noticed(rng, monkeypatch, fault):
    X = rng.standard_normal((12, 5))
    X[::3, 1] = np.nan
    settings = {"missing": "nan", "coupling": "code", "n_nonzero_coefs": 2, "max_iter": 2, "pursuit": "omp",
                "positive_code": False, "positive_dict": False, "update": "statistics", "scale": None}  # fmt: skip
    task = fuzz_learning.Task([X], 6, settings, ())
    fuzz_learning.check(task, Counter())
    impute = fuzz_learning.CoupledDictionaryLearning.impute
    monkeypatch.setattr(
        fuzz_learning.CoupledDictionaryLearning, "impute", lambda self, Xs: fault(self, Xs, impute(self, Xs))
    )
    with pytest.raises(AssertionError, match=r"known entry was changed|not a number|not what the codes say"):
        fuzz_learning.check(task, Counter())


@pytest.fixture
def problem(rng):
    options = {
        "n_nonzero_coefs": 3, "tol": None, "alpha": None, "pursuit": "omp", "positive_code": False, "missing": "error",
        "view_weights": None, "n_jobs": 2,
    }  # fmt: skip
    return fuzz_coding.Problem([rng.standard_normal((5, 4))], [rng.standard_normal((9, 4))], options, ())


def test_a_sound_problem_passes(problem):
    seen = Counter()
    fuzz_coding.check(problem, seen)
    assert seen["nonzeros"] == 15


def worse(codes):
    codes.data *= -3
    return codes


def not_a_number(codes):
    codes.data[4] = np.nan
    return codes


def twice(codes):
    codes.indices[1] = codes.indices[0]
    return codes


def outside(codes):
    codes.indices[0] = 12
    return codes


def crowded(codes):
    dense = codes.toarray()
    dense[0] += 1e-9
    return type(codes)(dense)


def unsteady(codes):
    unsteady.calls += 1
    codes.data[0] *= 1 + 1e-12 * unsteady.calls
    return codes


@pytest.mark.parametrize("fault", [worse, not_a_number, twice, outside, crowded, unsteady])
def test_wrong_codes_are_noticed(problem, monkeypatch, fault):
    unsteady.calls = 0
    monkeypatch.setattr(
        fuzz_coding, "sparse_encode", lambda *arrays, **options: fault(sparse_encode(*arrays, **options))
    )
    with pytest.raises((AssertionError, ValueError)):
        fuzz_coding.check(problem, Counter())


def some_missing(problem):
    problem.Xs[0][:, ::2] = np.nan
    problem.options["missing"] = "nan"


def with_penalty(problem):
    problem.options |= {"pursuit": "lasso", "n_nonzero_coefs": None, "alpha": 0.1}


def of_one_sign(problem):
    problem.options["positive_code"] = True


def with_own_coefficients(problem):
    problem.Xs, problem.Ds, problem.support = problem.Xs * 2, problem.Ds * 2, True


@pytest.mark.parametrize("change", [some_missing, with_penalty, of_one_sign, with_own_coefficients])
@pytest.mark.parametrize("fault", [worse, not_a_number])
def test_wrong_codes_of_other_coders_are_noticed(problem, monkeypatch, change, fault):
    change(problem)
    fuzz_coding.check(problem, Counter())
    encode = fuzz_coding.encode
    monkeypatch.setattr(fuzz_coding, "encode", lambda *given: [fault(part) for part in encode(*given)])
    with pytest.raises(AssertionError, match=r"larger than its sample|negative|not a number"):
        fuzz_coding.check(problem, Counter())


def test_a_refusal_without_need_is_noticed(problem, monkeypatch):
    def refuse(*arrays, **options):
        raise ValueError("no")

    monkeypatch.setattr(fuzz_coding, "sparse_encode", refuse)
    with pytest.raises(ValueError, match="no"):
        fuzz_coding.check(problem, Counter())
    problem.Xs[0] *= 1e300
    problem.Ds[0] *= 1e-300
    fuzz_coding.check(problem, Counter())


def test_killed_fits():
    figures = kills.run(6, seed=1)
    assert figures["kills"] >= 6
    assert figures["fits brought to the same end"] >= 2


def test_a_checkpoint_that_is_not_written_whole_is_noticed(monkeypatch):
    rename_early(monkeypatch, 0.01)  # a slow disk, so that a kill in the midst is likely whatever the machine does
    with pytest.raises((ModelFileError, AssertionError)):
        kills.run(60, seed=1)


def test_the_runner_tells_of_failures(tmp_path, monkeypatch, capsys):
    (tmp_path / "good.py").write_text("print('noise')\nprint('{\"cases\": 3}')\n")
    (tmp_path / "bad.py").write_text("raise SystemExit('it broke')\n")
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(runner, "HERE", tmp_path)
    proofs = [runner.Proof("good", 1), runner.Proof("bad", 1), runner.Proof("slow", 1, seconds=1)]
    monkeypatch.setattr(runner, "PROOFS", proofs)
    monkeypatch.setattr(sys, "argv", ["run.py", "--output", str(tmp_path / "report")])
    assert runner.main() == 1
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert [proof["passed"] for proof in report["proofs"]] == [True, False, False]
    assert report["proofs"][0]["figures"] == {"cases": 3}
    assert "it broke" in report["proofs"][1]["message"]
    assert "no end after 1 s" in report["proofs"][2]["message"]
    assert "Not all passed" in capsys.readouterr().out


def test_predictions_that_are_no_numbers_are_noticed(rng, monkeypatch):
    Xs = [rng.standard_normal((12, 5)), rng.standard_normal((12, 4))]
    settings = {"coupling": "code", "n_nonzero_coefs": 2, "max_iter": 2, "pursuit": "omp", "positive_code": False,
                "positive_dict": False, "update": "statistics"}  # fmt: skip
    task = fuzz_learning.Task(Xs, 6, settings, ())
    fuzz_learning.check(task, Counter())
    learner = fuzz_learning.CoupledDictionaryLearning
    monkeypatch.setattr(learner, "predict", lambda self, Xs, view: np.full_like(Xs[view], np.nan))
    with pytest.raises(AssertionError, match="a prediction is not a number"):
        fuzz_learning.check(task, Counter())


def test_codes_are_fuzzed_as_often_as_is_promised():
    counts = [proof.count for proof in runner.PROOFS if proof.script in ("fuzz_coding", "fuzz_coherent")]
    assert sum(counts) == 200_000
    assert len({(proof.script, proof.seed) for proof in runner.PROOFS}) == len(runner.PROOFS)


def test_every_proof_is_a_script_of_its_own():
    for proof in runner.PROOFS:
        assert "main(run, " in (TORTURE / f"{proof.script}.py").read_text()


def in_a_process(program):
    """Run a program beside the proofs: what they measure is a process of their own."""
    return run_python(f"import sys; sys.path.insert(0, {str(TORTURE)!r})\n{program}", seconds=200)


def test_many_calls_leave_nothing_behind():
    extras.need("cv2")
    done = in_a_process("import endurance, json; print(json.dumps(endurance.run(60, 0)))")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["codings"] == 3000


LEAK = """
import endurance, numpy
kept, code = [], endurance.sparse_encode
def leaking(*arrays, **options):
    kept.append(numpy.ones(5000))
    return code(*arrays, **options)
endurance.sparse_encode = leaking
endurance.run(40, 0)
"""


def test_what_is_left_behind_is_noticed():
    extras.need("cv2")
    done = in_a_process(LEAK)
    assert done.returncode == 1
    assert "AssertionError: memory grew" in done.stderr


def test_interrupts_at_random_moments():
    extras.need("cv2")
    # How soon is for `make torture`, on a machine that does nothing else.
    heard_in_the_end = "interrupts.PROMISED_SECONDS = interrupts.PATIENCE_SECONDS"
    done = in_a_process(f"import interrupts, json; {heard_in_the_end}; print(json.dumps(interrupts.run(27, 1)))")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["troubles"] == []
