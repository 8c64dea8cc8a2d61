"""Warnings name the line of the user that called the package, whichever method it was."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict import CoupledDictionaryLearning, SparseCoder, sparse_encode
from coupledict.views import Views

METHODS = {
    "transform": lambda learner, X: learner.transform(X),
    "predict": lambda learner, X: learner.predict(X, view=1),
    "impute": lambda learner, X: learner.impute(X),
    "score": lambda learner, X: learner.score(X),
    "transform of Views": lambda learner, X: learner.transform(Views(X)),
    "SparseCoder": lambda learner, X: SparseCoder(learner.components_, missing="nan").transform(X),
    "sparse_encode": lambda learner, X: sparse_encode(X, learner.components_, missing="nan"),
}


@pytest.mark.parametrize("method", METHODS)
def test_warnings_point_at_the_call(method, rng):
    sources = rng.standard_normal((60, 4))
    views = [sources, sources @ rng.standard_normal((4, 5))]
    learner = CoupledDictionaryLearning(6, max_iter=2, missing="nan", random_state=0).fit(views)
    lacking = [view.copy() for view in views]
    for view in lacking:
        view[3] = np.nan
    with pytest.warns(UserWarning, match="have no known entry") as caught:
        METHODS[method](learner, lacking)
    assert {warning.filename for warning in caught} == {__file__}
