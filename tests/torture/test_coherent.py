"""The proof about coherent dictionaries in short, its oracles, and that it notices wrong codes."""

from __future__ import annotations

import fuzz_coherent
import numpy as np
import pytest

from support import twins
from support.batch_twins import Group, pursue, stack
from support.masked_twins import cut_problems, encode_cut, knock_out
from support.problems import random_dictionary

pytestmark = pytest.mark.slow

LEVELS = fuzz_coherent.coupledict.build_info()["simd_available"]


@pytest.mark.parametrize("pursuit", ["omp", "ols"])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_oracle_of_many_samples_is_the_slow_twin(rng, pursuit, share):
    Ds = [random_dictionary(rng, 30, p) for p in (7, 11)]
    Xs = knock_out(rng, [rng.standard_normal((20, D.shape[1])) for D in Ds], share)
    options = {"n_nonzero_coefs": 6, "tol": 2.0, "pursuit": pursuit, "view_weights": [1.0, 0.3]}
    group = Group.of(stack(Xs, [1.0, 0.3]), stack(Ds, [1.0, 0.3]))
    found = pursue([group], np.minimum(6, group.known.sum(axis=1)), 2.0, pursuit)
    expected = np.array([encode_cut(problem) for problem in cut_problems(Xs, Ds, **options)])
    np.testing.assert_allclose(found.last, group.errors(expected), rtol=1e-9)
    for atoms, code in zip(found.atoms, expected, strict=True):
        assert set(atoms[atoms >= 0]) == set(np.flatnonzero(code))


def test_the_oracle_of_a_shared_support_is_the_slow_twin(rng):
    Ds = [random_dictionary(rng, 30, p) for p in (9, 11)]
    Xs = [rng.standard_normal((20, D.shape[1])) for D in Ds]
    groups = [Group.of(X, D) for X, D in zip(Xs, Ds, strict=True)]
    expected = twins.sparse_encode_support(Xs, Ds, n_nonzero_coefs=5)
    errors = np.sqrt(sum(group.errors(code) ** 2 for group, code in zip(groups, expected, strict=True)))
    np.testing.assert_allclose(pursue(groups, 5).last, errors, rtol=1e-9)


def test_codes_over_coherent_dictionaries():
    figures = fuzz_coherent.run(320, seed=1)
    assert figures["judged samples"] > 1500
    assert figures["nonzeros"] > 8000
    assert sum(", float32" in name and not name.startswith("largest") for name in figures) == len(fuzz_coherent.CODERS)


def shrunk(codes):
    return 0.98 * codes


def grown(codes):
    return 9 * codes


def turned(codes):
    return -codes


def shortened(codes):
    """Without the smallest coefficient of each sample that has several."""
    codes = codes.copy()
    sizes = np.where(codes != 0, np.abs(codes), np.inf)
    several = np.count_nonzero(codes, axis=1) > 1
    codes[several, sizes.argmin(axis=1)[several]] = 0
    return codes


def spread(codes):
    return codes + (np.arange(codes.shape[1]) < 40) * 1e-9


FAULTS = [shrunk, grown, turned, shortened, spread]
PLANTED = [  # the lasso has no limit on nonzeros, and so little more costs nothing
    (coder, fault)
    for coder, (pursuit, *_) in enumerate(fuzz_coherent.CODERS)
    for fault in FAULTS
    if (pursuit, fault) != ("lasso", spread)
]


@pytest.mark.parametrize(("coder", "fault"), PLANTED)
def test_wrong_codes_are_noticed(monkeypatch, coder, fault):
    code = fuzz_coherent.code

    def wrong(problem):
        codes, warned = code(problem)
        return [fault(part) for part in codes], warned

    monkeypatch.setattr(fuzz_coherent, "code", wrong)
    judge, noticed = fuzz_coherent.Judge(), 0
    for number in range(coder, 160, len(fuzz_coherent.CODERS)):
        problem = fuzz_coherent.draw(np.random.default_rng([1, number]), number, LEVELS)
        try:
            judge.check(problem)
        except AssertionError:
            noticed += 1
    assert noticed >= 3
