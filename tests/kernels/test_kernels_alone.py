"""The script that tests a compiled module without the package: it passes here, and notices what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import kernels_alone
import numpy as np
import pytest

from coupledict.kernels import _native
from support.programs import run

SCRIPT = Path(__file__).parents[1] / "kernels_alone.py"
# Keeps the package, and what it needs beside NumPy and SciPy, from being imported.
WITHOUT = """
import runpy, sys
for name in ("coupledict", "sklearn", "joblib", "threadpoolctl"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1].rpartition("kernels_alone.py")[0])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_every_way_to_code_passes_without_the_package():
    command = [sys.executable, "-W", "error", "-c", WITHOUT, SCRIPT, _native.__file__]
    result = run(command)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("none wrong\n")
    assert all(level in result.stdout for level in _native.levels())


def test_it_says_how_it_is_called():
    result = run([sys.executable, SCRIPT])
    assert result.returncode == 1
    assert "the path of the compiled module" in result.stderr


WAYS = [
    *({"pursuit": pursuit, "positive": positive} for pursuit in ("omp", "ols", "lasso") for positive in (False, True)),
    {"pursuit": "omp", "method": "together"},
    {"pursuit": "omp", "method": "careful"},
    {"pursuit": "omp", "masked": True},
    {"pursuit": "omp", "support": True},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(str(word) for word in way.values()))
def test_a_wrong_coefficient_is_noticed_in_every_kind_of_code(way):
    task = kernels_alone.Task(_native, kernels_alone.Way(_native.levels()[0], np.float64, **way), (20,), 33)
    for start in range(0, kernels_alone.N_SAMPLES, kernels_alone.ROWS_PER_CALL):
        task.code(start)
    task.check()
    sample, atom = np.argwhere(task.codes[0] != 0)[0]
    task.codes[0][sample, atom] *= 1.01
    with pytest.raises(AssertionError):
        task.check()


def test_wrong_codes_are_counted(monkeypatch, capsys):
    def leave_out_an_atom(task, start, code=kernels_alone.Task.code):
        code(task, start)
        task.codes[0][start, np.flatnonzero(task.codes[0][start])[:1]] = 0

    only = kernels_alone.Way(_native.levels()[0], np.float32, "omp")
    monkeypatch.setattr(kernels_alone, "ways", lambda levels: [only])
    monkeypatch.setattr(kernels_alone, "SHAPES", [((20,), 33)])
    monkeypatch.setattr(kernels_alone, "load", lambda path: _native)  # which no process can load twice
    monkeypatch.setattr(kernels_alone.threading, "stack_size", lambda size: None)
    assert kernels_alone.main("") == 0
    monkeypatch.setattr(kernels_alone.Task, "code", leave_out_an_atom)
    assert kernels_alone.main("") == 1
    assert "not because of a tie" in capsys.readouterr().err
