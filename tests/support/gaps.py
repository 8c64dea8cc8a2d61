"""Small problems with missing entries, and fits of them, that several tests use."""

from __future__ import annotations

import warnings

import numpy as np

from coupledict import sparse_encode
from support.learners import assert_same_model, planted_views
from support.masked_twins import knock_out

N = 330  # three blocks of 110 rows: an odd number


def damaged_views(rng):
    """Two views whose samples lack entries, but none of them a view."""
    views = planted_views(rng, n=N)[0]
    damaged = knock_out(rng, views, 0.3)
    for X, Y in zip(damaged, views, strict=True):
        X[:, 0] = Y[:, 0]
    return damaged


def lacking_views(rng):
    """The same, and a quarter of the samples lacks one of the views."""
    lacking = damaged_views(rng)
    lacking[0][::8], lacking[1][4::8] = np.nan, np.nan
    return lacking


def cut(views, rows=110):
    return [[view[start : start + rows] for view in views] for start in range(0, len(views[0]), rows)]


def unit_atoms(rng, widths, n_components=12):
    Ds = [rng.standard_normal((n_components, width)) for width in widths]
    return [D / np.linalg.norm(D, axis=1, keepdims=True) for D in Ds]


def masked_codes(Xs, Ds, **options):
    """Dense codes by known entries; a sample without any has none, and says so."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no known entry")
        return sparse_encode(Xs, Ds, missing="nan", **options).toarray()


def assert_same_fit(one, other):
    """The same dictionaries, history and refitted dictionaries, to the last bit."""
    assert_same_model(one, other)
    assert one.predictors_.keys() == other.predictors_.keys()
    for sources, targets in one.predictors_.items():
        for view, atoms in targets.items():
            np.testing.assert_array_equal(atoms, other.predictors_[sources][view])
