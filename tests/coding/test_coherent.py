"""Coherent dictionaries: float32 finds what float64 finds, and both find what the slow twin does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from coupledict import sparse_encode
from coupledict.coding.coder import Scratch
from coupledict.coding.passes import encode
from coupledict.coding.samples import Samples
from support import twins
from support.coherent import FAMILIES, SIGNALS, condition, excess, make_atoms, make_signals
from support.inner import CancelToken, Threads, _native
from support.problems import make_coder, smooth_patches


def issue_atoms(rng):
    """Two directions and a little noise: condition number about 4,000."""
    atoms = rng.standard_normal((33, 2)) @ rng.standard_normal((2, 172)) + 0.003 * rng.standard_normal((33, 172))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


@pytest.mark.parametrize("pursuit", ["omp", "ols"])
@pytest.mark.parametrize("limit", [5, 20])
def test_float32_does_not_give_up(rng, pursuit, limit):
    atoms = issue_atoms(rng).astype(np.float32)
    X = (rng.standard_normal((500, 33)) @ atoms).astype(np.float32)
    single = sparse_encode(X, atoms, n_nonzero_coefs=limit, pursuit=pursuit)
    double = sparse_encode(X.astype(float), atoms.astype(float), n_nonzero_coefs=limit, pursuit=pursuit)
    assert single.dtype == np.float32
    same = np.diff(single.indptr) == np.diff(double.indptr)
    assert same.mean() > 0.99
    alike = [set(a) == set(b) for a, b in zip(np.split(single.indices, single.indptr[1:-1]),
             np.split(double.indices, double.indptr[1:-1]), strict=True)]  # fmt: skip
    assert np.mean(alike) > 0.99
    assert max(excess(X.astype(float), atoms.astype(float), single, double)) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pursuit", ["omp", "ols"])
def test_float32_is_as_good_as_float64(rng, family, pursuit):
    """For every dictionary whose condition number is below 1e5, within a thousandth of the norm of the signals."""
    judged = 0
    for _ in range(16):
        atoms = make_atoms(rng, family, int(rng.integers(5, 200)), int(rng.integers(8, 120)))
        X = make_signals(rng, rng.choice(SIGNALS), atoms, 30)
        limit = int(rng.integers(1, min(*atoms.shape, 40) + 1))
        single, double = (
            sparse_encode(X.astype(dtype), atoms.astype(dtype), n_nonzero_coefs=limit, pursuit=pursuit)
            for dtype in (np.float32, np.float64)
        )
        if condition(atoms) < 1e5:
            judged += 1
            assert excess(X, atoms, single, double)[0] < 1e-3
        assert np.all(np.isfinite(single.data))
        energy = np.sum((X - single.astype(float) @ atoms) ** 2, axis=1)
        assert np.all(energy <= np.sum(X**2, axis=1) * (1 + 1e-3))
    assert judged >= 4


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pursuit", ["omp", "ols"])
def test_float64_is_as_good_as_the_twin(rng, family, pursuit):
    for _ in range(5):
        atoms = make_atoms(rng, family, int(rng.integers(5, 60)), int(rng.integers(8, 40)))
        X = make_signals(rng, rng.choice(SIGNALS), atoms, 6)
        limit = int(rng.integers(1, min(*atoms.shape, 20) + 1))
        mine = sparse_encode(X, atoms, n_nonzero_coefs=limit, pursuit=pursuit)
        twin = twins.sparse_encode([X], [atoms], n_nonzero_coefs=limit, pursuit=pursuit)
        assert excess(X, atoms, mine, twin)[0] < 1e-5


def test_near_duplicates_of_float64_are_told_apart(rng):
    """Two atoms that differ by 1e-9, and a signal along their difference: the Gram matrix cannot see it."""
    atom, other = np.linalg.qr(rng.standard_normal((30, 2)))[0].T
    atoms = np.array([atom, atom + 1e-9 * other])
    X = (3 * atom + 2 * other)[None]
    codes = sparse_encode(X, atoms, n_nonzero_coefs=2)
    assert codes.nnz == 2
    assert np.linalg.norm(X - codes @ atoms) < 1e-5


@pytest.mark.parametrize("n_features", [3, 4])
def test_of_atoms_that_fall_alike_ols_takes_that_with_most_left(rng, level, n_features):
    """In its last direction a sample is explained by any atom; one that hardly has it would need a huge coefficient."""
    worst = []
    for _ in range(6):
        atoms = make_atoms(rng, "cosines", 60, n_features).astype(np.float32)
        X = rng.standard_normal((200, n_features)).astype(np.float32)
        codes = sparse_encode(X, atoms, n_nonzero_coefs=n_features, pursuit="ols").toarray().astype(float)
        worst.append(np.max(np.linalg.norm(X - codes @ atoms, axis=1) / np.linalg.norm(X, axis=1)))
    assert max(worst) < 0.01
    assert np.median(worst) < 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_views_with_coefficients_of_their_own(rng, dtype):
    """Simultaneous OMP, one view coherent and the other not."""
    atoms = [issue_atoms(rng), rng.standard_normal((33, 40))]
    Xs = [rng.standard_normal((60, 33)) @ D for D in atoms]
    atoms, Xs = ([a.astype(np.float32).astype(dtype) for a in arrays] for arrays in (atoms, Xs))
    coder = make_coder(atoms, [1, 1], dtype, limit=10, coupling="support", n_samples=60)
    codes = encode(coder, Samples(Xs, np.dtype(dtype)), Threads()).as_csr(33)
    twin = twins.sparse_encode_support(Xs, atoms, n_nonzero_coefs=10)
    for v in range(2):
        assert excess(Xs[v].astype(float), atoms[v].astype(float), codes[v], twin[v])[0] < 1e-3


def test_tolerance_is_reached_where_float64_reaches_it(rng):
    atoms = issue_atoms(rng).astype(np.float32)
    X = (rng.standard_normal((200, 5)) @ atoms[:5]).astype(np.float32)
    tol = 1e-8 * float(np.mean(np.sum(X.astype(float) ** 2, axis=1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codes = sparse_encode(X, atoms, tol=tol)
    assert np.all(np.sum((X - codes.astype(float) @ atoms) ** 2, axis=1) <= tol * (1 + 1e-6))


def test_codes_do_not_depend_on_neighbours_or_threads(rng):
    """Some samples of a chunk are coded again, others not; what comes out is the same alone and together."""
    atoms = np.vstack([issue_atoms(rng), rng.standard_normal((60, 172))])
    X = rng.standard_normal((300, 93)) * (rng.random((300, 93)) < 0.05) @ atoms
    X, atoms = X.astype(np.float32), atoms.astype(np.float32)
    whole = sparse_encode(X, atoms, n_nonzero_coefs=12)
    coder = make_coder([atoms], [1], np.float32, limit=12, n_samples=300)
    (cut,) = encode(coder, Samples([X], np.dtype(np.float32)), Threads(2), chunk_size=7).as_csr(93)
    for other in (sparse_encode(X, atoms, n_nonzero_coefs=12, n_jobs=2), cut):
        assert np.array_equal(whole.indptr, other.indptr)
        assert np.array_equal(whole.indices, other.indices)
        assert np.array_equal(whole.data, other.data)
    for i in (0, 17, 299):
        alone = sparse_encode(X[i : i + 1], atoms, n_nonzero_coefs=12)
        assert np.array_equal(alone.toarray()[0], whole[[i]].toarray()[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_patches_are_not_coded_twice(rng, dtype):
    """The careful method is for coherent atoms; ordinary dictionaries do not pay for it."""
    X = smooth_patches(rng, 500).astype(dtype)
    atoms = np.linalg.qr(rng.standard_normal((64, 64)))[0]
    atoms = np.vstack([atoms, rng.standard_normal((64, 64)) / 8]).astype(dtype)
    coder = make_coder([atoms], [1], dtype, limit=10, n_samples=500)
    status = np.empty(500, np.uint8)
    coder.encode_rows([X], Scratch(_native.Workspace(), CancelToken(), np.empty(500), status))
    assert coder._plan.n_retried == 0
    assert not np.any(status == _native.DOUBTFUL)
