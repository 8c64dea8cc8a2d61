"""What is subtracted from features and what they are multiplied by."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict.foundation.standardization import TABLE, Standardization


def test_patches_keep_their_relative_scale_and_tables_do_not():
    deviations = np.array([1.0, TABLE, 3.0]), np.array([1e-3, 40.0, 3.0, 0.0])
    standard = Standardization.of([np.zeros(3), np.ones(4)], [own**2 for own in deviations])
    np.testing.assert_array_equal(standard.factors[0], 1)
    assert (np.frexp(standard.factors[1])[0] == 0.5).all(), "powers of two"
    brought = deviations[1][:3] * standard.factors[1][:3]
    assert (abs(np.log2(brought)) < 0.51).all(), brought
    assert standard.factors[1][3] == standard.factors[1][1], "a constant feature is multiplied as the largest one"


@pytest.mark.parametrize("variance", [np.zeros(3), np.ones(0), np.full(3, -1e-30)])
def test_features_that_do_not_vary(variance):
    np.testing.assert_array_equal(Standardization.of([variance], [variance]).factors[0], 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_there_and_back(dtype, rng):
    rows = (rng.standard_normal((20, 3)) * [1, 100, 1e-3] + [0, 1000, 5]).astype(dtype)
    standard = Standardization.of([rows.mean(axis=0, dtype=float)], [rows.var(axis=0, dtype=float)])
    found = standard.apply(0, rows, np.dtype(dtype))
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-3)
    back = standard.restore(0, found)
    assert back.dtype == dtype
    np.testing.assert_allclose(back, rows, rtol=4 * np.finfo(dtype).eps)
    atoms = rng.standard_normal((4, 3)).astype(dtype)
    (there,) = standard.standard_atoms([atoms])
    np.testing.assert_array_equal(standard.restored_atoms([there])[0], atoms)
    # A code rebuilds standardized samples and samples alike.
    codes = rng.standard_normal((5, 4)).astype(dtype)
    expected = standard.restore(0, codes @ there)
    np.testing.assert_allclose(codes @ atoms + standard.offsets[0].astype(dtype), expected, rtol=1e-4)


def test_differences_are_taken_before_numbers_are_rounded():
    rows = np.array([[1e8 + 1.0], [1e8 + 3.0]])
    found = Standardization([np.array([1e8 + 2.0])], [np.ones(1)]).apply(0, rows, np.dtype(np.float32))
    np.testing.assert_array_equal(found, [[-1], [1]])
    assert found.dtype == np.float32


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_large_integers_are_not_rounded_either(kind):
    rows = np.array([[2**30 + 1], [2**30 + 3]], kind)
    found = Standardization([np.array([2.0**30 + 2])], [np.ones(1)]).apply(0, rows, np.dtype(np.float32))
    np.testing.assert_array_equal(found, [[-1], [1]])


def test_short_numbers_are_widened_first():
    rows = np.array([[1.0], [2.0]], np.float16)
    found = Standardization([np.array([1.5 + 2.0**-20])], [np.ones(1)]).apply(0, rows, np.dtype(np.float64))
    np.testing.assert_array_equal(found, [[-0.5 - 2.0**-20], [0.5 - 2.0**-20]])


def test_integers_are_not_wrapped():
    rows = np.array([[0], [255]], np.uint8)
    found = Standardization([np.array([100.0])], [np.ones(1)]).apply(0, rows, np.dtype(np.float64))
    np.testing.assert_array_equal(found, [[-100], [155]])


def test_of_samples_that_are_multiplied(rng):
    rows = rng.standard_normal((9, 2)) * [1, 100] + 7
    standard = Standardization.of([rows.mean(axis=0)], [rows.var(axis=0)])
    wanted = standard.apply(0, rows, np.dtype(float)) * 0.25
    np.testing.assert_array_equal(standard.scaled(0.25).apply(0, rows * 0.25, np.dtype(float)), wanted)


def test_of_some_views():
    standard = Standardization([np.zeros(1), np.ones(2), np.ones(3)], [np.ones(1), np.ones(2), np.ones(3)])
    assert [len(own) for own in standard.select([2, 0]).offsets] == [3, 1]
    assert [len(own) for own in standard.select([2, 0]).factors] == [3, 1]
