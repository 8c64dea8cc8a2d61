"""How strongly atoms are drawn, and which norm they are said to have."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict.foundation.drawing import PALE, describe_norms, full_scale
from support.learners import make, planted_views


def test_each_atom_has_its_own_scale(rng):
    atoms = rng.standard_normal((9, 16)) * rng.uniform(0.2, 5, (9, 1))
    np.testing.assert_array_equal(full_scale(atoms), np.abs(atoms).max(axis=1, keepdims=True))


def test_atoms_that_nearly_vanish_are_drawn_paler(rng):
    atoms = rng.standard_normal((9, 16))
    atoms[3] *= 1e-6
    atoms[5] = 0
    drawn = np.abs(atoms / full_scale(atoms)).max(axis=1)
    np.testing.assert_array_equal(np.delete(drawn, [3, 5]), 1)
    typical = np.sqrt(np.mean(np.sum(atoms**2, axis=1)))
    assert drawn[3] == pytest.approx(np.linalg.norm(atoms[3]) / (PALE * typical))
    assert drawn[5] == 0


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-300, 1e300])
def test_atoms_of_any_size_have_a_scale(rng, size):
    atoms = size * rng.choice([-1.0, 1.0], (4, 3))
    scales = full_scale(atoms)
    assert np.isfinite(scales).all()
    assert (scales > 0).all()
    assert np.abs(atoms / scales).max() <= 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "norm 1 over all views together"),
        ({"normalize": "views"}, "norm 1 in each view"),
        ({"coupling": "support"}, "norm 1 in each view"),
        ({"view_weights": "balanced"}, "norm 1 over all views together, weighted"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms_in_words(rng, settings, words, dtype):
    Xs = [X.astype(dtype) for X in planted_views(rng)[0]]
    learner = make(**settings).fit([Xs[0], 30 * Xs[1]])
    assert describe_norms(learner.components_, learner.view_weights_) == words
    if "weighted" in words:
        assert describe_norms(learner.components_).startswith("norms from ")


def test_other_norms_in_words():
    assert describe_norms([np.eye(3)]) == "norm 1"
    assert describe_norms([np.vstack([np.eye(3), np.zeros((1, 3))])]) == "norm 1", "zeros do not count"
    assert describe_norms([np.diag([1.0, 2.0, 30.0])]) == "norms from 1 to 30"
    assert describe_norms([np.zeros((2, 3))] * 2) == "norms from 0 to 0"
    assert describe_norms([np.full((2, 3), 1e300)] * 2).startswith("norms from ")
