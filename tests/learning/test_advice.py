"""Warnings for settings and samples from which views cannot be predicted well, and for these only."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict import CoupledDictionaryLearning, PredictionWarning
from support.learners import planted_views


def learner(n_components=None, **parameters):
    return CoupledDictionaryLearning(n_components, **{"max_iter": 2, "random_state": 0} | parameters)


def test_atoms_of_single_samples(rng):
    views, _ = planted_views(rng, n=40)
    with pytest.warns(
        PredictionWarning, match=r"n_components=21 .* 40 samples.*Use n_components=10 or fewer"
    ) as caught:
        learner(21).fit(views)
    assert [warning.filename for warning in caught] == [__file__]
    learner(20).fit(views)
    learner(40, predictor="ridge").fit(views)
    learner(40, coupling="support").fit(views)


def test_more_atoms_than_features(rng):
    views, _ = planted_views(rng, n=100, widths=(6, 9))
    with pytest.warns(PredictionWarning, match="n_nonzero_coefs=16 is more than the 15 features .*n_nonzero_coefs=1"):
        learner(20, n_nonzero_coefs=16).fit(views)
    learner(20, n_nonzero_coefs=15).fit(views)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_too_few_samples(rng, n):
    views, _ = planted_views(rng, n=n)
    with pytest.warns(PredictionWarning, match="Too few samples .* at least 10 samples"):
        fitted = learner().fit(views)
    assert len(fitted.components_[0]) <= max(1, n // 4)
    assert np.isfinite(fitted.predict([views[0], None], view=1)).all()


def test_the_view_that_nothing_predicts_is_named(rng):
    cause = rng.standard_normal((300, 3))
    views = {
        "left": cause @ rng.standard_normal((3, 4)),
        "right": cause @ rng.standard_normal((3, 5)),
        "noise": rng.standard_normal((300, 3)),
    }
    with pytest.warns(PredictionWarning, match=r"No other view predicts X\['noise'\]: .* R\^2 is -?0.0") as caught:
        learner().fit(views)
    assert len(caught) == 1
    learner().fit({name: views[name] for name in ("left", "right")})


def test_a_constant_view_needs_no_warning(rng):
    cause = rng.standard_normal((50, 3))
    learner().fit([cause, 2 * cause, np.ones((50, 2))])
