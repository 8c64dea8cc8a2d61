"""Small learning problems and learners that several tests use."""

from __future__ import annotations

import numpy as np

from coupledict import CoupledDictionaryLearning
from coupledict.learning.loop import Loop

UPDATES = ["statistics", "sequential", "ksvd", "mod"]
WIDTHS = (6, 9, 4)
WEIGHTS = (0.5, 2.0, 1.25)


def planted_views(rng, n=300, n_components=12, widths=(6, 9), n_nonzero=2, noise=0.02, gains=None):
    """Views that are sparse over dictionaries with norm 1 in every view, and these dictionaries."""
    codes = np.zeros((n, n_components))
    for code in codes:
        code[rng.choice(n_components, n_nonzero, replace=False)] = rng.choice([-1, 1], n_nonzero) * rng.uniform(1, 2)
    Ds = [rng.standard_normal((n_components, p)) for p in widths]
    Ds = [D / np.linalg.norm(D, axis=1, keepdims=True) for D in Ds]
    gains = np.ones((len(widths), n_components)) if gains is None else gains
    Xs = [codes @ (D * g[:, None]) for D, g in zip(Ds, gains, strict=True)]
    return [X + noise * rng.standard_normal(X.shape) for X in Xs], Ds


def plain(n_components=None, **parameters):
    """A learner that takes samples as they are, and predicts by codes."""
    return CoupledDictionaryLearning(n_components, **{"scale": None, "predictor": "ridge"} | parameters)


def make(n_components=12, **parameters):
    return plain(n_components, **({"n_nonzero_coefs": 2, "max_iter": 4, "random_state": 0} | parameters))


def rounding(update, growth):
    """How far atoms of float64 samples may differ by rounding: growing samples are coded in float32."""
    return 2e-6 if update == "statistics" and growth == "auto" else 1e-9


def start_of(learner, Xs, monkeypatch):
    """Return the dictionaries that learning starts from."""
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "run", lambda self, *arguments: None)
        return learner.set_params(predictor="dictionary").fit(Xs).components_


def norms(D):
    return np.linalg.norm(D, axis=1)


def joint_norms(Ds, weights=None):
    """Norms of atoms over all views together."""
    weights = np.ones(len(Ds)) if weights is None else np.asarray(weights)
    return np.sqrt(weights @ np.array([np.sum(np.asarray(D, float) ** 2, axis=1) for D in Ds]))


def shrunk(Ds, sources, view, weights=None):
    """The learned atoms of a view, as they predict from `sources` with joint norms: a formula of its own."""
    seen = joint_norms([Ds[v] for v in sources], None if weights is None else [weights[v] for v in sources]) ** 2
    wanted = joint_norms([Ds[view]], None if weights is None else [weights[view]]) ** 2
    return np.minimum(1, 2 * seen / (seen + wanted))[:, None] * Ds[view]


def energies(Xs, Ds, codes):
    """Squared errors of the views; `codes` is one array for all views, or one a view."""
    codes = codes if isinstance(codes, list) else [codes] * len(Xs)
    return np.array([np.sum((X - C.toarray() @ D) ** 2) for X, D, C in zip(Xs, Ds, codes, strict=True)])


def without_times(history):
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


def assert_same_model(one, other):
    """The same to the last bit, but for the time it took."""
    for a, b in zip(one.components_, other.components_, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert without_times(one.history_) == without_times(other.history_)
