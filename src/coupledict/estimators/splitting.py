"""Refuses plain lists of views in tools of scikit-learn that would split the list instead of the samples.

scikit-learn counts and selects the entries of a list, so a fold of two views is one view, and what fails there becomes
a score of NaN. A learner sees only the fold, which it cannot tell from samples with fewer views. But before the first
fold these tools ask an estimator for its tags, and clone it; at that moment what they were given is on the call stack.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Self

from ..foundation.views import is_plain_views

#: The functions of scikit-learn that split samples: those of modules whose names begin like this, with these names.
MODULE = "sklearn.model_selection."
SPLITTERS = frozenset(
    (
        "fit",  # of searches; their predict and score split nothing
        "cross_validate",
        "cross_val_predict",
        "learning_curve",
        "validation_curve",
        "permutation_test_score",
    )
)


class SplitGuardMixin:
    """Mixin for estimators of several views, which are not to be given one view as one sample."""

    def __sklearn_tags__(self) -> Any:
        refuse_views_as_samples(self)
        return super().__sklearn_tags__()  # type: ignore[misc]

    def __sklearn_clone__(self) -> Self:
        refuse_views_as_samples(self)  # a pipeline hides errors of tags
        copied: Self = super().__sklearn_clone__()  # type: ignore[misc]
        return copied


def refuse_views_as_samples(estimator: object) -> None:
    """Raise if a tool of scikit-learn is about to split a plain list, tuple or dict of views for this estimator."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in SPLITTERS and frame.f_globals.get("__name__", "").startswith(MODULE):
            found = frame.f_locals
            tried = found["estimator"] if "estimator" in found else getattr(found.get("self"), "estimator", None)
            if _first(tried) is estimator and is_plain_views(found.get("X")):
                raise TypeError(
                    f"Expected samples that scikit-learn can split, got a {type(found['X']).__name__} of views, each of"
                    " which it would take for one sample. Wrap the views in coupledict.views.Views, as in"
                    " fit(Views([U, L])), or use the same tool of coupledict.model_selection, which takes lists and"
                    " dicts of views."
                )
        frame = frame.f_back


def _first(estimator: Any) -> Any:
    """Return the estimator that gets the samples first: the first step of a pipeline, what a search searches for."""
    while True:
        steps = getattr(estimator, "steps", None)
        if isinstance(steps, list) and steps:
            estimator = next((step for _, step in steps if step not in (None, "passthrough")), None)
        elif hasattr(estimator, "estimator") and hasattr(estimator, "fit"):
            estimator = estimator.estimator
        else:
            return estimator
