"""Warnings for settings and samples from which views cannot be predicted well, each with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from ..foundation.views import view_labels
from ..foundation.warning import PredictionWarning, warn
from .prediction import LEAST_TO_CHOOSE, ViewPredictors
from .settings import SAMPLES_PER_ATOM, LearningSettings

LEAST_R2 = 0.01  # a view of a smaller R^2 is not predicted; chance alone gives about that much with 100 samples


def advise_settings(settings: LearningSettings, widths: Sequence[int], n_samples: int) -> None:
    """Warn of settings that do not suit the samples: more atoms than these can teach, or more than features need."""
    n_components, n_nonzero, n_features = settings.n_components, settings.rule.n_nonzero, sum(widths)
    if n_components is not None and 2 * n_components > n_samples:
        most = max(1, n_samples // SAMPLES_PER_ATOM)
        warn(
            f"n_components={n_components} atoms are too many for {n_samples} samples: an atom stands for one or two of"
            f" them, and the codes of others say little. Use n_components={most} or fewer, or leave it out.",
            PredictionWarning,
        )
    if n_nonzero is not None and n_nonzero > n_features:
        warn(
            f"n_nonzero_coefs={n_nonzero} is more than the {n_features} features of all views, which so many atoms"
            f" explain completely. Use n_nonzero_coefs={max(1, n_features // 10)}, or leave it out.",
            PredictionWarning,
        )


def advise_scores(predictors: ViewPredictors, names: Sequence[str] | None, n_views: int) -> None:
    """Warn if there were too few samples to choose predictors by, and of each view that no other view predicts."""
    found = [predictor.describe() for predictor in predictors.values()]
    if any(score["n_samples"] == 0 for score in found):
        warn(
            f"Too few samples to choose predictors by: predict is a ridge regression that nothing was held out for. Use"
            f" at least {LEAST_TO_CHOOSE} samples that have all views; some hundreds are better.",
            PredictionWarning,
        )
        return
    for target, label in enumerate(view_labels(range(n_views), names)):
        # The mean is all there is to say about a view that is constant.
        own = [score["r2"] for score in found if score["target"] == target and score["mean_rmse"] > 0]
        if own and max(own) < LEAST_R2:
            warn(
                f"No other view predicts {label}: on samples held out, R^2 is {max(own):.2f} at best, so that predict"
                " returns little more than its mean. The views may not belong together, row by row, or the samples are"
                " too few to show how.",
                PredictionWarning,
            )
