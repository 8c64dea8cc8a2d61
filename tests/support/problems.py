"""Coding problems that several tests use."""

from __future__ import annotations

import numpy as np

from coupledict import build_info, sparse_encode
from coupledict.coding import coders, passes
from coupledict.coding.recipe import Recipe
from coupledict.coding.rule import CodingRule
from coupledict.coding.samples import Samples
from coupledict.parallel.jobs import Threads

LEVELS = build_info()["simd_available"]


def smooth_patches(rng, n, side=8):
    """Patches of a random smooth picture, mean-centred: correlated features, as photographs have."""
    spectrum = rng.standard_normal((128, 128)) / (1 + np.hypot(*np.meshgrid(*[np.fft.fftfreq(128) * 128] * 2))) ** 1.2
    picture = np.real(np.fft.ifft2(spectrum * 128 * 128))
    rows, columns = rng.integers(0, 128 - side, (2, n))
    patches = np.stack([picture[r : r + side, c : c + side].ravel() for r, c in zip(rows, columns, strict=True)])
    return patches - patches.mean(axis=1, keepdims=True)


def random_dictionary(rng, n_components, n_features):
    """Gaussian atoms with norms between a quarter and four."""
    atoms = rng.standard_normal((n_components, n_features))
    return atoms * 4.0 ** rng.uniform(-1, 1, (n_components, 1)) / np.linalg.norm(atoms, axis=1, keepdims=True)


def make_coder(
    dictionaries, weights, dtype, *, limit=None, tol=None, pursuit="omp", coupling="code", alpha=None, positive=False,
    n_samples,
):  # fmt: skip
    """A coder of checked arguments."""
    rule = CodingRule(limit, tol, pursuit, coupling, alpha, positive)
    return coders.make_coder(
        Recipe(list(dictionaries), np.asarray(weights, float), np.dtype(dtype), rule, n_samples), Threads()
    )


def encode_with(gram, Xs, dictionaries, *, view_weights=None, missing="error", n_jobs=None, **options):
    """Code lists of views as `sparse_encode` does, with the Gram matrix or without it; None: by `sparse_encode`."""
    if gram is None:
        views, atoms = (Xs, dictionaries) if len(Xs) > 1 else (Xs[0], dictionaries[0])
        return sparse_encode(views, atoms, view_weights=view_weights, missing=missing, n_jobs=n_jobs, **options)
    limits = (options.pop(name, None) for name in ("n_nonzero_coefs", "tol"))
    rule = CodingRule.checked(*limits, options.pop("pursuit", "omp"), **options)
    weights = np.ones(len(Xs)) if view_weights is None else np.asarray(view_weights, float)
    samples = Samples(Xs, np.result_type(*Xs, *dictionaries), missing=missing == "nan")
    recipe = Recipe(dictionaries, weights, samples.dtype, rule, len(Xs[0]), samples.missing, gram=gram)
    threads = Threads(n_jobs or 1)
    coder = coders.make_coder(recipe, threads)
    coded = passes.encode(coder, samples, threads)
    coder.count_shortfall(coded).warn(coder.tol)
    return coded.as_csr(coder.n_atoms)[0]
