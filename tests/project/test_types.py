"""Types as users see them: a wrong choice is an error of the type checker, and results are not Any."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("mypy")

#: Each line is to be refused, with the words behind it; or revealed, and then the words are its type.
WRONG = [
    ('CoupledDictionaryLearning(update="k-svd")', 'Argument "update"'),
    ('CoupledDictionaryLearning(schedule="linar")', 'Argument "schedule"'),
    ('CoupledDictionaryLearning(pursuit="lars")', 'Argument "pursuit"'),
    ('CoupledDictionaryLearning(normalize="both")', 'Argument "normalize"'),
    ('CoupledDictionaryLearning(unused_atoms="drop")', 'Argument "unused_atoms"'),
    ('CoupledDictionaryLearning(predictor="ols")', 'Argument "predictor"'),
    ('DictionaryLearning(init="dtc")', 'Argument "init"'),
    ('OnlineDictionaryLearning(coupling="codes")', 'Argument "coupling"'),
    ('sparse_encode(X, X, pursuit="ompp")', 'Argument "pursuit"'),
    ("OnlineDictionaryLearning(schedule='linear')", 'Unexpected keyword argument "schedule"'),
]
REVEALED = [
    ("CoupledDictionaryLearning().components_[0]", "ndarray"),
    ('CoupledDictionaryLearning().components_["sharp"]', "ndarray"),
    ("CoupledDictionaryLearning().transform([X])", "csr_array"),
    ('CoupledDictionaryLearning().transform([X], out="codes")', "CodeFile"),
    ('CoupledDictionaryLearning().predict([X], view="sharp")', "ndarray"),
    ("DictionaryLearning().components_", "ndarray"),
    ('DictionaryLearning.load("model")', "DictionaryLearning"),
    ('coupledict.load("model")', "SavedMixin"),
    ("sparse_encode(X, X)", "csr_array"),
    ("coupledict.lasso_gaps(X, X, sparse_encode(X, X), alpha=1.0)", "ndarray"),
]


def test_mypy_sees_what_users_write(tmp_path):
    lines = [
        "import numpy as np",
        "import coupledict",
        "from coupledict import CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, sparse_encode",
        "X = np.zeros((3, 2))",
    ]
    first = len(lines) + 1
    lines += [code for code, _ in WRONG] + [f"reveal_type({code})" for code, _ in REVEALED]
    program = tmp_path / "program.py"
    program.write_text("\n".join(lines))
    cache = Path(__file__).parents[2] / ".mypy_cache"  # what `make lint` has found out need not be found out again
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    said: dict[int, str] = {}
    for line in done.stdout.splitlines():
        if line.startswith("program.py:"):
            number = int(line.split(":")[1])
            said[number] = said.get(number, "") + line
    for number, (code, words) in enumerate(WRONG + REVEALED, first):
        assert words in said.get(number, ""), (code, said.get(number), done.stdout[-2000:])
        assert 'Revealed type is "Any"' not in said[number], code
