"""What docs/reliability.md promises of float32, of instruction sets and of repetition."""

from __future__ import annotations

import number_types
import numpy as np
import pytest
from scipy.sparse import csr_array

from coupledict import build_info

LEVELS = build_info()["simd_available"]


@pytest.fixture(scope="module")
def figures():
    return number_types.run(500, seed=3)


@pytest.mark.slow
def test_float32_chooses_the_atoms_of_float64(figures):
    assert figures["float32 against float64: equal supports"] > 0.99
    assert figures["float32 against float64: codes"] < 1e-3
    assert figures["float32 against float64: mean error"] < 1e-3
    assert figures["float32 against float64: score of a fit"] < 1e-3


@pytest.mark.parametrize(("dtype", "codes", "score"), [("float32", 1e-3, 1e-3), ("float64", 1e-9, 1e-9)])
def test_instruction_sets_agree(figures, dtype, codes, score):
    name = f"{LEVELS[0]} against {LEVELS[-1]}, {dtype}"
    assert figures[f"{name}: equal supports"] > 0.99
    assert figures[f"{name}: codes"] < codes
    assert figures[f"{name}: mean error"] < 1e-3
    assert figures[f"{name}: score of a fit"] < score


def test_differences_are_seen(rng):
    D = np.eye(4)
    X = np.array([[3.0, 2.0, 1.0, 0.0], [4.0, 3.0, 0.0, 1.0]])
    codes = csr_array(np.array([[3.0, 2.0, 0, 0], [4.0, 3.0, 0, 0]]))
    assert number_types.compare(X, D, codes, codes) == (1.0, 0.0, 0.0)
    assert number_types.is_same(codes, codes)
    larger, elsewhere = codes * 1.001, csr_array(np.array([[3.0, 2.0, 0, 0], [4.0, 0, 0, 1.0]]))
    assert not number_types.is_same(codes, larger)
    assert not number_types.is_same(codes, elsewhere)
    assert number_types.compare(X, D, larger, codes)[1] == pytest.approx(1e-3)
    same, change, error = number_types.compare(X, D, elsewhere, codes)
    assert (same, change) == (0.5, 0.0)
    assert error > 0.4
